"""The checklist of a fresh installation: what is missing, the line to type, and the buttons."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from counterpoise.cli.main import main
from counterpoise.errors import RefusedError
from counterpoise.installation import Installation, open_installation, open_worker_installation
from counterpoise.model.cluster_failure import FailureKind
from counterpoise.services.setup import AirflowNow
from counterpoise.settings import parse_settings
from counterpoise.settings.locations import example_clusters
from counterpoise.web.setup import airflow_now, unpause_dags
from tests.support import web
from tests.support.web import record_starts, set_airflow, token_on

ANALYSED = {
    "snapshot_id": "x",
    "cluster": "orders-eu",
    "previous_snapshot_id": None,
}
CONNECTIONS = "kafka_example: {bootstrap.servers: 'kafka-1:9092'}\n"


@contextmanager
def browser(environment: dict[str, str], *, may_change: bool = True) -> Iterator[TestClient]:
    def open_for_pages() -> Installation:
        return open_installation(environment=environment, may_migrate_ledger=False)

    with web.browser(
        environment,
        "alice",
        may_change=may_change,
        open_for_pages=open_for_pages,
        follow_redirects=True,
    ) as client:
        yield client


def states(page: str) -> dict[str, str]:
    """Return the word of each step by its title."""
    return dict(re.findall(r'<h3>([^<]+) <span class="sr">([^<]+)</span>', page))


def set_up(
    config: Path,
    *,
    settings: str = "clusters: {orders-eu: {connection: kafka_example}}",
    connections: str = CONNECTIONS,
) -> None:
    """Write settings and connections into a folder."""
    config.mkdir(parents=True)
    (config / "clusters.yaml").write_text(settings)
    (config / "connections.yaml").write_text(connections)


def name_the_cluster(settings: Path) -> None:
    """Do what the first comment of the example asks for."""
    settings.write_text(settings.read_text().replace("  example:", "  orders-eu:"))


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    return {"COUNTERPOISE_HOME": str(tmp_path / "home")}


def test_without_a_working_folder_the_line_stands_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HOME", "CONFIG", "STORE", "LEDGER"):
        monkeypatch.delenv(f"COUNTERPOISE_{name}", raising=False)
    with web.browser(
        {}, "alice", open_for_pages=open_worker_installation, follow_redirects=True
    ) as client:
        page = client.get("/fleet")
    assert page.status_code == 200 and str(page.url).endswith("/setup")
    found = states(page.text)
    assert found["Working folder"] == "missing" and found["Ledger"] == "after the working folder"
    assert "export COUNTERPOISE_HOME=" in page.text and "counterpoise init" in page.text


def test_from_nothing_to_all_done(
    home: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with browser(home) as client:
        page = client.get("/fleet").text
        found = states(page)
        assert (found["Working folder"], found["Ledger"]) == ("done", "done")
        assert (tmp_path / "home/var/ledger.db").exists(), "the ledger is made by itself"
        assert found["clusters.yaml"] == "missing"
        assert found["Connection to Kafka"] == "after clusters.yaml"
        assert page.count('class="btn main"') + page.count('class="main"') == 1

        monkeypatch.setenv("COUNTERPOISE_HOME", home["COUNTERPOISE_HOME"])
        assert main(["init"]) == 0
        assert main(["init"]) == 1, "what is there stays as it is"
        page = client.get("/setup").text
        assert states(page)["clusters.yaml"] == "the example", "a name is for good"
        name_the_cluster(tmp_path / "home/config/clusters.yaml")
        page = client.get("/setup").text
        assert states(page)["clusters.yaml"] == "done"
        assert states(page)["Connection to Kafka"] == "missing"
        assert "airflow connections add kafka_example " in page
        assert "airflow connections delete" not in page

        (tmp_path / "home/config/connections.yaml").write_text(CONNECTIONS)
        assert states(client.get("/setup").text)["Connection to Kafka"] == "done"

        set_airflow(client, is_paused=False)
        started = record_starts(client)
        page = client.get("/setup").text
        assert states(page)["First snapshot"] == "missing" and "Take it now" in page
        form = {"form_token": token_on(page)}
        assert client.post("/setup/snapshot", data=form).status_code == 200
        assert [dag_id for dag_id, *_ in started] == ["kafka_snapshot"]
        with open_installation(environment=home) as installation:
            installation.ledger.pin_cluster("orders-eu", "id")
            installation.ledger.record_snapshot("orders-eu", "x", installation.clock())
        page = client.get("/setup").text
        assert states(page)["First snapshot"] == "done"
        assert states(page)["First balance report"] == "under way"
        with open_installation(environment=home) as installation:
            installation.results.finish_round("1", installation.clock(), [ANALYSED])
        assert "All done" in client.get("/setup").text
        assert "Fleet</h1>" in client.get("/fleet").text


def test_dags_that_airflow_has_not_read_yet(home: dict[str, str], tmp_path: Path) -> None:
    set_up(tmp_path / "home/config")
    with browser(home) as client:
        app: Any = client.app
        for known, word in (({}, "missing"), ({"kafka_audit": True}, "being read")):
            seen = AirflowNow("3.3.2", known, may_unpause=True)
            app.dependency_overrides[airflow_now] = lambda seen=seen: seen
            page = client.get("/setup").text
            assert states(page)["Dags"] == word
            assert ("DAG_BUNDLE_CONFIG_LIST" in page) == (not known)


def test_what_became_of_the_first_snapshot(home: dict[str, str], tmp_path: Path) -> None:
    set_up(tmp_path / "home/config")
    with browser(home) as client:
        set_airflow(client, is_paused=False, newest={"kafka_snapshot": "running"})
        page = client.get("/setup")
        assert states(page.text)["First snapshot"] == "under way" and "refresh" in page.headers
        with open_installation(environment=home) as installation:
            why = "no bootstrap address answered"
            installation.ledger.record_failure("orders-eu", FailureKind.NOT_ANSWERING, why)
        set_airflow(client, is_paused=False, newest={"kafka_snapshot": "failed"})
        page = client.get("/setup").text
        assert states(page)["First snapshot"] == "failed" and "Try again" in page
        assert "orders-eu: no bootstrap address answered." in page


def test_a_failed_analysis_and_a_dead_scheduler_are_told(
    home: dict[str, str], tmp_path: Path
) -> None:
    set_up(tmp_path / "home/config")
    with browser(home) as client:
        set_airflow(client, is_paused=False, silent=["scheduler"])
        page = client.get("/setup").text
        assert states(page)["Dags"] == "not running" and "airflow scheduler" in page
        assert "No sign of life: scheduler." in page and "Take it now" not in page
        with open_installation(environment=home) as installation:
            installation.ledger.pin_cluster("orders-eu", "id")
            installation.ledger.record_snapshot("orders-eu", "x", installation.clock())
        page = client.get("/setup").text
        assert states(page)["First snapshot"] == "done", "whatever does not run now"
        set_airflow(client, is_paused=False, newest={"kafka_leader_balance": "failed"})
        page = client.get("/setup").text
        assert states(page)["First balance report"] == "failed" and "self-check" in page


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("clusters:\n\torders-eu:\n", "line 2: not YAML"),
        ("clusters: {orders-eu: {conection: x}}", "did you mean connection?"),
        ("", "the file is empty"),
    ],
)
def test_what_is_wrong_with_the_settings_is_told_to_whom_they_concern(
    home: dict[str, str], tmp_path: Path, settings: str, says: str
) -> None:
    set_up(tmp_path / "home/config", settings=settings)
    with browser(home) as client:
        page = client.get("/setup").text
        assert states(page)["clusters.yaml"] == "not readable" and says in page
    with browser(home, may_change=False) as client:
        page = client.get("/setup").text
        assert states(page)["clusters.yaml"] == "not readable" and says not in page


@pytest.mark.parametrize(
    ("connection", "says"),
    [
        ("{bootstrap_servers: 'kafka-1:9092'}", "bootstrap_servers"),
        ("{bootstrap.servers: 'kafka-1'}", "has no port"),
        (
            "{bootstrap.servers: 'k:1', security.protocol: SASL_SSL, sasl.mechanism: PLAIN}",
            "sasl.username",
        ),
    ],
)
def test_what_is_wrong_with_a_connection_is_told(
    home: dict[str, str], tmp_path: Path, connection: str, says: str
) -> None:
    set_up(tmp_path / "home/config", connections=f"kafka_example: {connection}\n")
    with browser(home) as client:
        page = client.get("/setup").text
        assert states(page)["Connection to Kafka"] == "not usable" and says in page
        assert "airflow connections delete kafka_example" in page


def test_paused_dags_are_unpaused_by_whom_airflow_lets(home: dict[str, str]) -> None:
    unpaused = []
    with browser(home) as client:
        app = client.app
        app.dependency_overrides[unpause_dags] = lambda: lambda: unpaused.append(1)  # type: ignore[attr-defined]
        page = client.get("/setup").text
        assert states(page)["Dags"] == "6 of 6 are paused" and "Unpause them" in page
        form = {"form_token": token_on(page)}
        assert client.post("/setup/unpause", data={}).status_code == 403
        assert client.post("/setup/other", data=form).status_code == 404
        assert client.post("/setup/unpause", data=form).status_code == 200
        assert unpaused == [1]

        def refuse() -> None:
            raise RefusedError("Airflow does not let alice unpause Dags")

        app.dependency_overrides[unpause_dags] = lambda: refuse  # type: ignore[attr-defined]
        assert client.post("/setup/unpause", data=form).status_code == 409
    with browser(home, may_change=False) as client:
        page = client.get("/setup").text
        assert "<button" not in page and "airflow dags unpause kafka_snapshot" in page


def test_settings_that_cannot_be_read_are_not_shown_to_everybody(
    home: dict[str, str], tmp_path: Path
) -> None:
    config = tmp_path / "home/config"
    config.mkdir(parents=True)
    (config / "clusters.yaml").write_text("clusters: {secret: {}}")
    with browser(home, may_change=False) as client:
        page = client.get("/fleet").text
        assert states(page)["clusters.yaml"] == "not readable" and "secret" not in page
        assert client.get("/api/fleet").status_code == 503


def test_the_example_is_read_as_it_is() -> None:
    assert list(parse_settings(example_clusters(), where="example").clusters) == ["example"]
