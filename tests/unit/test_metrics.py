"""The metrics endpoint: what it says of snapshots, audits, balance and runs, and to whom."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from counterpoise.analysis import fleet, fleet_entry
from counterpoise.installation import Installation
from counterpoise.ledger import Ledger
from counterpoise.model.finding import FORMAT
from counterpoise.model.fleet_document import ClusterState, fleet_json
from counterpoise.model.metric import EVENNESS, METRICS, Sample, exposition
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.model.run import Progress, RunState
from counterpoise.model.run_progress import RunProgress
from counterpoise.planning import make_plan
from counterpoise.services import audits, snapshots
from tests.support.audits import connectivity, healthy, snapshot_of
from tests.support.installations import installation_over
from tests.support.ledger_view import change_state, update_progress
from tests.support.open_metrics import parse
from tests.support.pictures import cluster
from tests.support.runs import FOUR_BROKERS, SKEWED, SimulatedRun
from tests.support.web import browser
from tests.unit.test_fleet import balance, load

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
CLUSTERS = """
clusters:
  demo: {connection: reader}
  fresh: {connection: reader}
  secret: {connection: reader, policy: {access: {view: [alice]}}}
"""


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    (tmp_path / "clusters.yaml").write_text(CLUSTERS)
    kafka = healthy()
    with installation_over(
        tmp_path,
        lambda _settings: kafka,
        clusters=CLUSTERS,
        clock=lambda: NOW,
        connectivity_checker=lambda _settings: connectivity(snapshot_of(kafka)),
    ) as installation:
        installation.locations = replace(  # pages read policies anew from the file
            installation.locations, config=tmp_path / "clusters.yaml", is_default_config=False
        )
        yield installation


@pytest.fixture
def client(installation: Installation) -> Iterator[TestClient]:
    with browser({}, "prometheus", role="viewer", open_for_pages=lambda: installation) as client:
        yield client


def scraped(client: TestClient) -> dict[str, dict[str, float]]:
    """Return the values by metric, then by label values, joined by slashes."""
    response = client.get("/metrics")
    assert response.status_code == 200, response.text
    return {
        name: {"/".join(value for _, value in labels): number for labels, number in found.items()}
        for name, found in parse(response.text).items()
    }


def propose(ledger: Ledger) -> str:
    snapshot = cluster(SKEWED, racks=FOUR_BROKERS, name="demo")
    plan = make_plan(snapshot, PlanRequest(Goal.ADD_BROKERS, (4,)))
    ledger.pin_cluster("demo", "picture-id")
    return ledger.propose(plan, "plans/x.json", requested_by="airflow:alice").run_id


def test_before_the_first_snapshot_nothing_is_known_but_that(
    client: TestClient, installation: Installation
) -> None:
    never = {"counterpoise_never_snapshotted": {"demo": 1.0, "fresh": 1.0}}
    assert scraped(client) == {name: {} for name in METRICS} | never
    snapshots.make(installation, "demo", NOW)
    found = scraped(client)["counterpoise_never_snapshotted"]
    assert found == {"demo": 0.0, "fresh": 1.0}


def test_snapshots_audits_and_balance_are_told_as_they_are_known(
    client: TestClient, installation: Installation
) -> None:
    snapshots.make(installation, "demo", NOW - timedelta(minutes=30))
    audits.audit(installation, "demo", NOW - timedelta(minutes=20))
    state = ClusterState("demo", timedelta(0), balance(), load(300, 100, 200, full_in=[12.5, None]))
    rows = fleet(map(fleet_entry, [state, ClusterState("fresh", None)]), as_of=NOW)
    installation.archive.write_report("fleet.json", fleet_json(rows))
    found = scraped(client)
    assert found["counterpoise_snapshot_age_seconds"].keys() == {"demo"}
    assert found["counterpoise_evenness_max_over_mean"] == {
        "demo/leaders": 1.0,
        "demo/replicas": 1.0,
        "demo/bytes": 1.0,
        "demo/bytes_in": 1.5,
    }
    assert found["counterpoise_first_disk_full_days"] == {"demo": 12.5}
    assert found["counterpoise_idle_brokers"] == {"demo": 0.0}
    audit = json.loads(installation.archive.read_report("demo/audit.json"))
    assert found["counterpoise_findings"] == {
        f"demo/{severity}": count for severity, count in audit["open"].items()
    }
    assert found["counterpoise_audit_age_seconds"].keys() == {"demo"}


def test_another_audit_of_the_same_name_is_read_again(
    client: TestClient, installation: Installation
) -> None:
    for critical in (1, 20):
        finding = {"severity": "critical", "waived_by": None, "is_new": False}
        document = {
            "format": FORMAT,
            "at": NOW.isoformat(),
            "previous_at": None,
            "findings": [finding] * critical,
            "gone": [],
        }
        installation.archive.write_report("demo/audit.json", json.dumps(document))
        assert scraped(client)["counterpoise_findings"]["demo/critical"] == critical


@pytest.mark.parametrize("text", ["", "[]", '{"open": {}}', '{"clusters": 1}', "\udcff"])
def test_a_damaged_report_hides_no_other_figure(
    client: TestClient, installation: Installation, tmp_path: Path, text: str
) -> None:
    propose(installation.ledger)
    for name in ("demo/audit.json", "fleet.json"):
        path = tmp_path / "store" / "reports" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode(errors="surrogateescape"))
    found = scraped(client)
    assert found["counterpoise_findings"] == found["counterpoise_idle_brokers"] == {}
    assert found["counterpoise_questions_waiting"] == {"demo": 1.0}


def test_a_run_is_told_from_its_question_to_its_end(
    client: TestClient, installation: Installation
) -> None:
    ledger = installation.ledger
    run_id = propose(ledger)
    found = scraped(client)
    assert found["counterpoise_questions_waiting"] == {"demo": 1.0}
    assert [state for state, value in found["counterpoise_run_state"].items() if value] == [
        "demo/proposed"
    ]
    assert found["counterpoise_run_remaining_bytes"] == {}

    change_state(ledger, run_id, RunState.APPROVED)
    change_state(ledger, run_id, RunState.RUNNING)
    progress = Progress(1, 4, 2, copied_bytes=300, total_bytes=1000, elections_left=0)
    observed_at = NOW - timedelta(seconds=10)
    observed = RunProgress(observed_at, progress, rate_bytes_per_second=5_000_000)
    update_progress(ledger, run_id, observed)
    found = scraped(client)
    assert found["counterpoise_run_state"]["demo/running"] == 1.0
    assert found["counterpoise_run_remaining_bytes"] == {"demo": 700.0}
    assert found["counterpoise_run_copied_bytes"] == {"demo": 300.0}
    assert found["counterpoise_run_rate_bytes_per_second"] == {"demo": 5_000_000.0}
    assert found["counterpoise_run_observed_age_seconds"] == {"demo": 10.0}
    assert found["counterpoise_questions_waiting"] == {"demo": 0.0}


def test_throttle_keys_in_force_become_pending_restores_when_the_run_ends(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path)
    cluster_name = run.plan.cluster
    run.ledger.pin_cluster(cluster_name, "picture-id")
    run.until_moving(run.driver())
    keys = len(run.owned_keys())
    state = run.ledger.cluster_states([cluster_name])[cluster_name]
    assert (state.throttle_keys, state.pending_restores) == (keys, 0)
    change_state(run.ledger, run.run_id, RunState.SETTLING)
    change_state(run.ledger, run.run_id, RunState.HALTED)
    state = run.ledger.cluster_states([cluster_name])[cluster_name]
    assert (state.throttle_keys, state.pending_restores) == (0, keys)


def test_a_cluster_is_told_to_whom_its_policy_names(
    client: TestClient, installation: Installation
) -> None:
    for name in ("demo", "secret"):
        installation.ledger.pin_cluster(name, f"id-of-{name}")
    assert scraped(client)["counterpoise_throttle_keys"] == {"demo": 0.0}


def test_the_content_type_is_what_the_scraper_asks_for(client: TestClient) -> None:
    asked = client.get("/metrics", headers={"accept": "application/openmetrics-text;version=1.0.0"})
    assert asked.headers["content-type"] == (
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    )
    plain = client.get("/metrics")
    assert plain.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert plain.text == asked.text


def test_label_values_are_escaped() -> None:
    hostile = 'a"} 1\nb\\n{x="'
    text = exposition([Sample(EVENNESS, (hostile, "leaders"), 1.5)])
    assert parse(text)[EVENNESS.name] == {(("cluster", hostile), ("measure", "leaders")): 1.5}


def test_every_metric_has_a_name_and_words_that_the_format_allows() -> None:
    assert parse(exposition([])).keys() == METRICS.keys()
    assert all(
        set(m.labels) <= {"cluster", "measure", "severity", "state", "broker", "direction"}
        for m in METRICS.values()
    )
