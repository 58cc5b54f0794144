"""A run as JSON: what its page shows, for the same people, documented key by key."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from counterpoise.model.control import Control
from counterpoise.model.run import RunState
from tests.support.runs import SimulatedRun
from tests.support.web import browser, environment_in
from tests.unit.test_web_api import DOCUMENT, keys_of
from tests.unit.test_web_runs import keep_plan, moving, simulated  # noqa: F401 - fixtures

CLUSTERS = "clusters: {picture: {connection: x, policy: {access: {view: [victor]}}}}\n"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return environment_in(tmp_path, CLUSTERS)


@pytest.fixture
def victor(environment: dict[str, str]) -> Iterator[TestClient]:
    with browser(environment, "victor", role="viewer", may_change=False) as client:
        yield client


def read(client: TestClient, made: SimulatedRun) -> dict[str, Any]:
    response = client.get(f"/api/runs/{made.run_id}")
    assert response.status_code == 200, response.text
    document: dict[str, Any] = response.json()
    assert document["format"] == "counterpoise-api/1"
    return document


def test_a_run_under_way_is_told_as_its_page_tells_it(
    victor: TestClient,
    moving: SimulatedRun,  # noqa: F811
) -> None:
    moving.ask(Control.PAUSE, why="month end")
    moving.cluster.kill_broker(4)
    driver = moving.driver()
    for _ in range(4):
        moving.cluster.advance(driver.step() or 0)
    found = read(victor, moving)
    assert (found["run_id"], found["state"]) == (moving.run_id, "running")
    progress = moving.run_progress()
    assert found["progress"]["moves_total"] == progress.progress.moves_total
    assert found["progress"]["total_bytes"] == progress.progress.total_bytes
    assert {link["broker_id"] for link in found["progress"]["links"]} == {
        link.broker_id for link in progress.links
    }
    assert any("broker 4 is dead" in wait["what"] for wait in found["waits"])
    assert all(wait["halts_at"] > wait["since"] for wait in found["waits"])
    assert found["approvals"][0]["by"] == "alice"
    assert found["requests"][0]["why"] == "month end"
    assert {key["restored_at"] for key in found["keys"]} == {None}
    assert found["events"][-1]["text"]


def test_every_key_is_documented(
    victor: TestClient,
    moving: SimulatedRun,  # noqa: F811
) -> None:
    documented = set(re.findall(r"`([a-z0-9_]+)`", DOCUMENT))
    assert set(keys_of(read(victor, moving))) <= documented


def test_a_run_that_nobody_started_has_no_progress(
    victor: TestClient,
    simulated: SimulatedRun,  # noqa: F811
) -> None:
    found = read(victor, simulated)
    assert found["progress"] is None and found["waits"] == [] and found["keys"] == []
    assert simulated.go() is RunState.DONE
    found = read(victor, simulated)
    assert found["state"] == "done" and all(key["restored_at"] for key in found["keys"])


def test_others_and_unknown_runs(
    victor: TestClient,
    simulated: SimulatedRun,  # noqa: F811
    environment: dict[str, str],
) -> None:
    unknown = victor.get("/api/runs/nobody-1")
    assert unknown.status_code == 404 and unknown.json()["detail"]
    with browser(environment, "mallory") as client:
        refused = client.get(f"/api/runs/{simulated.run_id}")
    assert refused.status_code == 403 and "picture" not in refused.text
