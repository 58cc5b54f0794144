"""The JSON API: the data of the pages, for the same people, documented key by key."""

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from counterpoise.analysis.fleets import fleet, fleet_entry
from counterpoise.model.fleet_document import ClusterState, fleet_json
from counterpoise.model.json_values import iso_time
from counterpoise.views.balance import leader_balance_json
from tests.support.pages import Pages
from tests.unit.test_fleet import balance, load
from tests.unit.test_web_audit import audit, finding
from tests.unit.test_web_ledger import decide, freeze

CLUSTERS = """
clusters:
  demo: {connection: x, policy: {access: {approve: [alice, victor]}}}
  shut: {connection: x, policy: {access: {view: [alice]}}}
"""
DOCUMENT = (Path(__file__).parents[2] / "docs/api.md").read_text()
CALLS = (
    *("/api/fleet", "/api/open-runs", "/api/ledger"),
    *("/api/clusters/demo", "/api/clusters/demo/audit"),
)
# Documents with a format of their own, and names that are data.
OWN_FORMAT = {"first_disk", "settings", "balance"}


@pytest.fixture
def pages(tmp_path: Path) -> Pages:
    (tmp_path / "connections.yaml").write_text("x: {bootstrap.servers: 'a:9092'}\n")
    return Pages.in_folder(tmp_path, CLUSTERS)


@pytest.fixture
def story(pages: Pages) -> Pages:
    """Everything that an answer may have."""
    states = [
        ClusterState(name, timedelta(minutes=5), balance(), load(5, 5, 0, full_in=[3.0]))
        for name in ("demo", "shut")
    ]
    audit(pages, 1, finding("topic old"))
    with pages.installation() as installation:
        write = installation.archive.write_report
        write("fleet.json", fleet_json(fleet(map(fleet_entry, states), as_of=pages.now)))
        write("demo/leader-balance.json", leader_balance_json(balance()))
    decide(pages, pages.propose("demo"), "bob")
    pages.propose("demo")
    freeze(pages, "demo")
    pages.keep_empty(7, "bob")
    return pages


def call(pages: Pages, path: str, name: str = "victor", **query: str) -> dict[str, Any]:
    with pages.browser(name) as browser:
        response = browser.get(path, params=query or None)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    document: dict[str, Any] = response.json()
    assert document["format"] == "counterpoise-api/1"
    return document


def keys_of(value: object) -> Iterator[str]:
    if isinstance(value, list):
        for one in value:
            yield from keys_of(one)
    if isinstance(value, dict):
        for key, one in value.items():
            yield key
            is_document = key in OWN_FORMAT or (key == "audit" and "findings" in (one or {}))
            if not is_document:
                yield from keys_of(one)


@pytest.mark.parametrize("path", CALLS)
def test_every_key_is_documented(story: Pages, path: str) -> None:
    documented = set(re.findall(r"`([a-z0-9_]+)`", DOCUMENT))
    assert set(keys_of(call(story, path))) <= documented


def test_what_waits_is_told_with_who_may_answer(story: Pages) -> None:
    found = call(story, "/api/fleet")
    (waiting,) = found["waiting"]
    assert waiting["is_mine"] and waiting["may_approve"] == ["victor"]
    assert [one["cluster"] for one in found["clusters"]] == ["demo"]
    assert found["clusters"][0]["audit"]["open"]["warning"] == 1
    assert call(story, "/api/fleet", search="x")["clusters"] == []
    assert len(call(story, "/api/fleet", "alice")["clusters"]) == 2


def test_the_fleet_is_told_page_by_page_in_the_order_that_is_asked_for(tmp_path: Path) -> None:
    names = [f"c{number:02d}" for number in range(60)]
    clusters = "".join(f"  {name}: {{connection: x}}\n" for name in names)
    pages = Pages.in_folder(tmp_path, f"clusters:\n{clusters}")
    query = {"sort": "cluster", "order": "descending", "number": "2"}
    found = call(pages, "/api/fleet", **query)
    assert [one["cluster"] for one in found["clusters"]] == names[9::-1]
    assert (found["page"], found["pages"], found["count"]) == (2, 2, 60)
    assert call(pages, "/api/fleet", show="waiting")["clusters"] == []


def test_open_runs_alone_are_told_as_with_the_fleet(story: Pages) -> None:
    found, of_fleet = call(story, "/api/open-runs"), call(story, "/api/fleet")
    assert found["waiting"] == of_fleet["waiting"] != []
    assert found["runs"] == [run for run in of_fleet["runs"] if run["state"] != "halted"]
    assert not call(story, "/api/open-runs", "nobody")["waiting"][0]["is_mine"]


def test_a_cluster_has_its_balance_and_its_settings(story: Pages) -> None:
    found = call(story, "/api/clusters/demo")
    assert found["balance"]["cluster"] == "demo"
    with story.installation() as installation:
        document = json.loads(installation.archive.read_report("demo/leader-balance.json"))
    assert document["series"] and found["balance"] == document | {
        "series": [],
        "breaks_before": [],
        "heat_maps": [],
    }
    assert found["connections"][0]["settings"] == {"bootstrap.servers": "a:9092"}
    assert found["freeze"]["why"] == "month end"
    assert found["kept_empty"] == [
        {"broker_id": 7, "by": "bob", "why": "run demo-7 emptied it", "since": iso_time(story.now)}
    ]
    assert {run["state"] for run in found["runs"]} == {"proposed", "rejected"}


def test_a_cluster_of_which_nothing_is_known_has_nulls(pages: Pages) -> None:
    found = call(pages, "/api/clusters/demo")
    assert found["balance"] is None and found["audit"] is None and found["freeze"] is None
    assert call(pages, "/api/clusters/demo/audit") == {
        "format": "counterpoise-api/1",
        "cluster": "demo",
        "audit": None,
        "audit_unreadable": None,
        "points": [],
    }


def test_a_damaged_audit_is_told_by_every_call(story: Pages) -> None:
    with story.installation() as installation:
        installation.archive.write_report("demo/audit.json", "{")
    for found in (
        call(story, "/api/fleet")["clusters"][0],
        call(story, "/api/clusters/demo"),
        call(story, "/api/clusters/demo/audit"),
    ):
        assert (found["audit"], found["audit_unreadable"]) == (None, "reports/demo/audit.json")


def test_an_audit_is_the_stored_one_with_its_series(story: Pages) -> None:
    found = call(story, "/api/clusters/demo/audit")
    assert found["audit"]["findings"][0]["subject"] == "topic old"
    assert [point["open"]["warning"] for point in found["points"]] == [1]


def test_the_ledger_is_filtered(story: Pages) -> None:
    kinds = {entry["kind"] for entry in call(story, "/api/ledger", kind="requests")["entries"]}
    assert kinds == {"freeze", "keep-empty"}
    assert not call(story, "/api/ledger", page="2")["entries"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/clusters/shut", 403),
        ("/api/clusters/shut/audit", 403),
        ("/api/ledger?cluster=shut", 403),
        ("/api/clusters/dmo", 404),
        ("/api/ledger?since=soon", 422),
    ],
)
@pytest.mark.parametrize("root_path", ["", "/airflow/counterpoise"])
def test_an_error_is_json(pages: Pages, path: str, status: int, root_path: str) -> None:
    with pages.browser(root_path=root_path) as browser:
        response = browser.get(path)
    assert response.status_code == status and response.json()["detail"]
    assert response.json().get("known", ["demo"]) == ["demo"]
    assert "shut" not in response.text
