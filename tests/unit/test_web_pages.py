"""The pages behind Airflow's login: types, headers, and what a failure may show."""

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2
import pytest
from fastapi.testclient import TestClient

from counterpoise.installation import open_installation
from counterpoise.model.request import Goal
from counterpoise.model.run import RunState
from counterpoise.settings import clusters_file
from counterpoise.web import responses
from counterpoise.web.app import warm_up
from tests.support import hostile, web
from tests.support.ledger_view import change_state
from tests.support.pictures import cluster
from tests.support.plans import move, plan_by_hand

HOSTILE = '<meta http-equiv=refresh content="0;url=https://evil.example">'


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "clusters.yaml").write_text("clusters: {demo: {connection: demo}}\n")
    return {
        "COUNTERPOISE_CONFIG": str(tmp_path / "clusters.yaml"),
        "COUNTERPOISE_STORE": str(tmp_path / "store"),
        "COUNTERPOISE_LEDGER": f"sqlite:///{tmp_path}/ledger.db",
    }


@pytest.fixture
def client(environment: dict[str, str]) -> Iterator[TestClient]:
    """Return a browser of somebody who may read."""

    with web.browser(environment, "victor", role="viewer", follow_redirects=True) as client:
        yield client


def write(environment: dict[str, str], name: str, data: bytes) -> Path:
    path = Path(environment["COUNTERPOISE_STORE"]) / "reports" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("name", "content_type"),
    [
        ("demo/a.html", "text/html"),
        ("demo/a.json", "application/json"),
        ("demo/a.svg", "application/octet-stream"),
        ("demo/a", "application/octet-stream"),
    ],
)
def test_a_report_is_served_by_its_type(
    client: TestClient, environment: dict[str, str], name: str, content_type: str
) -> None:
    write(environment, name, HOSTILE.encode())
    response = client.get(f"/reports/{name}")
    assert response.status_code == 200 and response.text == HOSTILE
    assert "allow-forms" not in response.headers["content-security-policy"]
    assert response.headers["content-type"].startswith(content_type)
    is_saved = response.headers.get("content-disposition") == "attachment"
    assert is_saved == (content_type == "application/octet-stream")
    assert_headers(response.headers)


@pytest.mark.parametrize(
    ("view", "may"),
    [("victor", True), ("airflow-role:viewer", True), ("group:sre", True), ("alice", False)],
)
def test_a_report_is_shown_to_whom_the_policy_of_its_cluster_names(
    client: TestClient, environment: dict[str, str], view: str, may: bool
) -> None:
    policy = f'{{access: {{view: ["{view}"]}}}}'
    Path(environment["COUNTERPOISE_CONFIG"]).write_text(
        "groups: {sre: [victor]}\nclusters: {open: {connection: x}, "
        f"demo: {{connection: x, policy: {policy}}}}}\n"
    )
    for name in ("demo/a.html", "open/a.html", "fleet.html"):
        write(environment, name, b"hello")
    shown = {
        name: client.get(f"/reports/{name}").status_code == 200
        for name in ("demo/a.html", "open/a.html", "open/%2e%2e/demo/a.html", "fleet.html")
    }
    assert shown == {
        "demo/a.html": may,
        "open/a.html": True,
        "open/%2e%2e/demo/a.html": False,
        "fleet.html": may,
    }
    listed = client.get("/reports").text
    assert ("cluster=demo" in listed, "fleet.html" in listed) == (may, may)
    assert "cluster=open" in listed
    assert "open/a.html" in client.get("/reports?cluster=open").text
    of_demo = client.get("/reports?cluster=demo")
    assert ("demo/a.html" in of_demo.text, of_demo.status_code == 200) == (may, may)


def test_links_in_the_store_are_neither_listed_nor_followed(
    client: TestClient, environment: dict[str, str], tmp_path: Path
) -> None:
    policy = "{access: {view: [alice]}}"
    Path(environment["COUNTERPOISE_CONFIG"]).write_text(
        f"clusters: {{open: {{connection: x, policy: {{access: {{view: [victor]}}}}}}, "
        f"shut: {{connection: x, policy: {policy}}}}}\n"
    )
    write(environment, "shut/a.html", b"s3cr3t")
    there = write(environment, "open/a.html", b"hello")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret.html").write_text("s3cr3t")
    folder = there.parent
    (folder / "outside").symlink_to(tmp_path / "outside")
    (folder / "other.html").symlink_to("../shut/a.html")
    for name in ("up", "round"):  # 2 links in a circle: 2 ** 40 paths
        (folder / name).symlink_to("..")
    os.mkfifo(folder / "pipe.html")
    listed = client.get("/reports?cluster=open").text
    assert listed.count('href="/reports/open/') == 1 and "open/a.html" in listed
    for name in ("outside/secret.html", "other.html", "up/shut/a.html", "pipe.html"):
        response = client.get(f"/reports/open/{name}")
        assert response.status_code == 404 and "s3cr3t" not in response.text, name


def test_names_of_files_are_listed_as_what_they_are(
    client: TestClient, environment: dict[str, str]
) -> None:
    for folder, address in (("", "/reports"), ("g&<b>/", "/reports?cluster=g%26%3Cb%3E")):
        for name in ("a\x1b[31m\u202e.html", 'b"><img src=x>.html', "c?d#e.html"):
            write(environment, folder + name, b"hello")
        stored = f"{environment['COUNTERPOISE_STORE']}/reports/{folder}"
        no_text = os.fsencode(stored) + b"\xff.html"
        Path(os.fsdecode(no_text)).write_text("hello")
        page = client.get(address)
        assert page.status_code == 200
        hostile.check_html(page.text.replace("<form", "<div"))
        links = re.findall(r'href="(/reports/[^"]*)"', page.text)
        assert len(links) == 3
        assert [client.get(link).text for link in links] == ["hello"] * 3


def test_reports_are_listed_by_cluster_the_newest_first_and_found(
    client: TestClient, environment: dict[str, str]
) -> None:
    Path(environment["COUNTERPOISE_CONFIG"]).write_text("clusters: {demo: {connection: x}}\n")
    for number in range(250):
        kind = "audit" if number % 2 else "leader-balance"
        path = write(environment, f"demo/{kind}-{number:03d}.html", b"hello")
        os.utime(path, (number, number))
    write(environment, "gone/audit.html", b"hello")
    write(environment, "fleet.html", b"hello")
    fleet = client.get("/reports").text
    names = ("/reports/fleet.html", "?cluster=demo", "?cluster=gone")
    assert all(f'href="/reports{name.removeprefix("/reports")}"' in fleet for name in names)
    assert "audit-" not in fleet
    assert "cluster=demo" not in client.get("/reports?text=GO").text

    def listed(**query: str) -> list[str]:
        page = client.get("/reports", params={"cluster": "demo", **query}).text
        return re.findall(r'href="/reports/demo/([^"]*)"', page)

    assert listed()[:2] == ["audit-249.html", "leader-balance-248.html"]
    assert [len(listed(number=str(number))) for number in (1, 2, 3, 9)] == [100, 100, 50, 50]
    found = listed(text="AUDIT", number="2")
    assert len(found) == 25 and found[-1] == "audit-001.html"
    second = client.get("/reports?cluster=demo&text=audit&number=2").text
    assert 'href="/reports?cluster=demo&amp;text=audit&amp;number=1"' in second
    assert "No report is like that." in client.get("/reports?cluster=demo&text=nothing").text
    assert client.get("/reports?cluster=../audits").status_code == 404


def propose(environment: dict[str, str]) -> str:
    """Propose a plan for the cluster `picture`; return the id of its run."""
    before = cluster("orders-0: 1 2", racks="1=a 2=b 3=c")
    plan = plan_by_hand(before, Goal.REBALANCE, move("orders-0", "1 2", "3 2"))
    with open_installation(environment=environment) as installation:
        path = installation.archive.write_plan(plan)
        return installation.ledger.propose(plan, path, requested_by="airflow:alice").run_id


@pytest.mark.parametrize(
    "name", ["demo/a%00.html", "none.html", "../ledger.db", "%2e%2e/ledger.db", "demo"]
)
def test_what_is_not_there_is_404_with_a_neutral_sentence(client: TestClient, name: str) -> None:
    response = client.get(f"/reports/{name}")
    assert response.status_code == 404
    assert "ledger.db" not in response.text
    assert_headers(response.headers)


@pytest.mark.parametrize(
    "changed",
    [
        {"COUNTERPOISE_STORE": "s3://KEY:s3cr3t/b@bucket"},
        {"COUNTERPOISE_STORE": "s3://bucket/x?secret_key=s3cr3t&endpoint_override=%%"},
        {"COUNTERPOISE_LEDGER": "postgresql+psycopg://nobody@127.0.0.1:1/x?password=s3cr3t"},
    ],
)
def test_a_failure_shows_a_reference_and_no_secret(
    client: TestClient,
    environment: dict[str, str],
    changed: dict[str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    environment |= changed
    paths = ["/reports", "/reports/demo/a.html"]
    if "COUNTERPOISE_LEDGER" in changed:
        paths = ["/runs/demo-1"]
    for path in paths:
        with caplog.at_level(logging.ERROR):
            response = client.get(path)
        assert "s3cr3t" not in response.text
        check_is_told_with_a_reference(response, caplog)
    assert "s3cr3t" not in caplog.text


def check_is_told_with_a_reference(response: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert response.status_code == 503, response.text
    assert_headers(response.headers)
    reference = response.text.partition("under the reference ")[2].partition(".")[0]
    assert reference and reference in caplog.text


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"clusters: {demo: {conection: x}}", "conection"),
        (b"clusters: \xff", "UTF-8"),
        (None, "COUNTERPOISE_CONFIG names another file"),
    ],
    ids=["malformed", "unreadable", "missing"],
)
def test_settings_that_cannot_be_read_are_no_unknown_name(
    client: TestClient,
    environment: dict[str, str],
    caplog: pytest.LogCaptureFixture,
    content: bytes | None,
    complaint: str,
) -> None:
    run_id = propose(environment)
    write(environment, "demo/a.html", b"hello")
    config = Path(environment["COUNTERPOISE_CONFIG"])
    if content is None:
        config.unlink()
    else:
        config.write_bytes(content)
    web.set_airflow(client, may_unpause=False)
    setup = client.get("/fleet")
    assert str(setup.url).endswith("/setup") and complaint not in setup.text
    for path in (
        "/clusters/demo",
        f"/runs/{run_id}",
        "/reports",
        "/ledger",
        "/metrics",
        "/api/fleet",
        "/api/clusters/demo",
        f"/api/runs/{run_id}",
    ):
        caplog.clear()
        with caplog.at_level(logging.ERROR):
            response = client.get(path)
        assert "The configuration of Counterpoise (clusters.yaml, or a" in response.text, path
        assert complaint not in response.text and complaint in caplog.text
        check_is_told_with_a_reference(response, caplog)


def test_without_any_settings_there_is_no_policy_that_narrows_what_is_seen(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No variable names a file, and there is none at the default place."""
    monkeypatch.chdir(tmp_path)
    run_id = propose(environment)
    write(environment, "demo/a.html", b"hello")
    del environment["COUNTERPOISE_CONFIG"]
    environment["COUNTERPOISE_HOME"] = str(tmp_path / "home")
    with web.browser(environment, "victor", role="viewer") as client:
        for path in (f"/runs/{run_id}", "/reports/demo/a.html", "/ledger"):
            assert client.get(path).status_code == 200, path


def test_without_the_file_of_settings_nothing_is_shown(
    client: TestClient, environment: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """As while a file is replaced, or its folder is not mounted: no policy would hold."""
    settings = Path(environment["COUNTERPOISE_CONFIG"])
    settings.write_text("clusters: {demo: {connection: x, policy: {access: {view: [alice]}}}}\n")
    run_id = propose(environment)
    write(environment, "demo/a.html", b"secret plans")
    write(environment, "fleet.html", b"secret plans")
    paths = (
        *("/reports/demo/a.html", "/reports/fleet.html", "/reports?cluster=demo", "/reports"),
        *(f"/runs/{run_id}", f"/runs/{run_id}", f"/runs/{run_id}/plan.json"),
        *(f"/api/runs/{run_id}", "/ledger", "/api/ledger"),
        *("/api/fleet", "/metrics", "/clusters/demo", "/clusters/demo/findings"),
    )
    for name in ("demo/a.html", "fleet.html"):
        assert client.get(f"/reports/{name}").status_code == 403
    settings.unlink()
    for path in paths:
        caplog.clear()
        with caplog.at_level(logging.ERROR):
            response = client.get(path)
        assert "The configuration of Counterpoise (clusters.yaml, or a" in response.text, path
        check_is_told_with_a_reference(response, caplog)
    setup = client.get("/fleet")
    assert str(setup.url).endswith("/setup") and "demo" not in setup.text


def test_only_an_unknown_name_is_not_found(client: TestClient, environment: dict[str, str]) -> None:
    propose(environment)
    for path in (
        "/clusters/demi",
        "/runs/demo-1",
        "/runs/demo-1/requests/fly",
        "/reports/demo/none.html",
        "/api/runs/demo-1",
    ):
        assert client.get(path).status_code == 404, path


def test_the_reports_of_the_newest_runs_stand_first(
    client: TestClient, environment: dict[str, str]
) -> None:
    before = cluster("orders-0: 1 2", racks="1=a 2=b 3=c")
    plan = plan_by_hand(before, Goal.REBALANCE, move("orders-0", "1 2", "3 2"))
    with open_installation(environment=environment) as installation:
        run = installation.ledger.propose(plan, "plans/x.json", requested_by="airflow:alice")
        for state in (RunState.APPROVED, RunState.RUNNING, RunState.SETTLING, RunState.DONE):
            change_state(installation.ledger, run.run_id, state)
    name = f"picture/runs/{run.run_id}-run.html"
    assert name not in client.get("/reports").text
    write(environment, name, b"hello")
    page = client.get("/reports").text
    assert page.index(f'href="/reports/{name}"') < page.index("cluster=picture")


def test_after_the_start_of_the_api_server_no_page_compiles_a_template_or_reads_the_settings(
    client: TestClient, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(environment["COUNTERPOISE_CONFIG"]).write_text("clusters: {demo: {connection: x}}\n")
    responses._environment.cache_clear()
    warm_up(lambda: open_installation(environment=environment))
    not_again: Any = None
    monkeypatch.setattr(jinja2.Environment, "compile", not_again)
    monkeypatch.setattr(clusters_file, "parse_settings", not_again)
    assert client.get("/reports").status_code == 200


def test_settings_that_cannot_be_read_keep_no_api_server_from_starting(
    environment: dict[str, str],
) -> None:
    Path(environment["COUNTERPOISE_CONFIG"]).write_text("clusters: [")
    warm_up(lambda: open_installation(environment=environment))


def test_a_viewer_makes_no_ledger(client: TestClient, environment: dict[str, str]) -> None:
    response = client.get("/runs/demo-1")
    assert response.status_code == 503
    assert not Path(environment["COUNTERPOISE_LEDGER"].removeprefix("sqlite:///")).exists()


def test_files_of_the_store_are_not_for_others(environment: dict[str, str]) -> None:
    before = os.umask(0)
    try:
        with open_installation(environment=environment) as installation:
            installation.archive.write_report("demo/a.html", "text")
    finally:
        os.umask(before)
    store = Path(environment["COUNTERPOISE_STORE"])
    modes = {path: path.stat().st_mode & 0o777 for path in (store, *store.rglob("*"))}
    assert modes and not {path: oct(mode) for path, mode in modes.items() if mode & 0o007}


def assert_headers(headers: object) -> None:
    policy = headers["content-security-policy"]  # type: ignore[index]
    assert "default-src 'none'" in policy and "sandbox" in policy
    # A page runs our own script alone, and no markup can be made of text; all else runs none.
    has_script = "script-src 'nonce-" in policy and "require-trusted-types-for 'script'" in policy
    assert has_script == ("allow-scripts" in policy) == ("script-src" in policy)
    assert "form-action 'self'" in policy or "allow-forms" not in policy
    assert headers["x-content-type-options"] == "nosniff"  # type: ignore[index]
