"""The checklist of a fresh installation: what is missing, the line to type, and the buttons."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from counterpoise.cli.main import main
from counterpoise.errors import RefusedError
from counterpoise.installation import Installation, open_installation, open_worker_installation
from counterpoise.settings import parse_settings
from counterpoise.settings.locations import example_clusters
from counterpoise.web.setup import unpause_dags
from tests.support import web
from tests.support.web import record_starts, set_airflow, token_on

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
        assert states(page)["clusters.yaml"] == "done"
        assert "airflow connections add kafka_example " in page

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
            installation.ledger.pin_cluster("example", "id")
            installation.ledger.record_snapshot("example", "x", installation.clock())
        assert "All done" in client.get("/setup").text
        assert "Fleet</h1>" in client.get("/fleet").text


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


def test_settings_that_cannot_be_read_are_named_and_not_shown(
    home: dict[str, str], tmp_path: Path
) -> None:
    config = tmp_path / "home/config"
    config.mkdir(parents=True)
    (config / "clusters.yaml").write_text("clusters: {secret: {}}")
    with browser(home) as client:
        page = client.get("/fleet").text
        assert states(page)["clusters.yaml"] == "not readable" and "secret" not in page
        assert client.get("/api/fleet").status_code == 503


def test_the_example_is_read_as_it_is() -> None:
    assert list(parse_settings(example_clusters(), where="example").clusters) == ["example"]
