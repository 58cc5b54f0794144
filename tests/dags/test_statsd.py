"""What tasks send through Airflow's StatsD, whatever backend its settings choose."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger
from airflow.sdk.observability import stats

from counterpoise.installation import Installation
from counterpoise.model.metric import FINDINGS, METRICS, Sample
from counterpoise.model.person import Person
from counterpoise.model.request import Goal, RebalanceRequest
from counterpoise.orchestration.statsd import send_gauges, stat_name
from counterpoise.orchestration.stepping import StepUntilDone
from counterpoise.services import metrics, plans
from tests.dags.test_stepping import Task
from tests.support.decisions import grant
from tests.support.planned_runs import planned_run

ROOT = Path(__file__).parents[2]


class Backend(NoStatsLogger):  # type: ignore[misc]
    """A backend of Airflow's Stats that keeps what it is sent."""

    def __init__(self) -> None:
        self.gauges: dict[str, float] = {}

    def gauge(self, stat: str, value: float, **_more: Any) -> None:
        self.gauges[stat] = value


@pytest.fixture
def sent() -> Iterator[dict[str, float]]:
    backend = Backend()
    stats.initialize(factory=lambda: backend, export_legacy_names=False)
    yield backend.gauges
    stats.initialize(factory=NoStatsLogger, export_legacy_names=False)


def test_each_step_of_a_run_sends_its_figures(
    installation: Installation, sent: dict[str, float]
) -> None:
    request = RebalanceRequest(Goal.ADD_BROKERS, (3,))
    run = planned_run(
        installation,
        "demo",
        request,
        plans.Origin(Person.airflow("alice"), "kafka_rebalance", "manual__1"),
    )
    assert run is not None
    grant(installation, run, by="bob")
    task = Task("manual__1", run)
    StepUntilDone(task_id="execute", step=lambda *_: None).execute({"ti": task})
    assert sent["counterpoise.run_state.demo.approved"] == 1
    assert sent["counterpoise.run_state.demo.running"] == 0
    assert sent["counterpoise.questions_waiting.demo"] == 0
    assert sent["counterpoise.snapshot_age_seconds.demo"] >= 0


def test_an_audit_sends_its_findings(installation: Installation, sent: dict[str, float]) -> None:
    DagBag(dag_folder=ROOT / "dags").dags["kafka_audit"].test()
    told = metrics.audit_samples(installation, ["demo"])
    counts = {stat_name(one): one.value for one in told if one.metric is FINDINGS}
    assert sum(counts.values()) > 0
    assert counts.items() <= sent.items()


def test_names_have_only_what_airflow_allows() -> None:
    assert stat_name(Sample(FINDINGS, ("eu.orders/1", "critical"), 1)) == (
        "counterpoise.findings.eu_orders_1.critical"
    )
    for metric in METRICS.values():
        name = stat_name(Sample(metric, metric.labels, 0))
        assert stats.normalize_name_for_stats(name) == name


def test_figures_that_cannot_be_read_fail_no_task(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> list[Sample]:
        raise OSError("the store is away")

    send_gauges(fail)
    assert "no gauges were sent: OSError: the store is away" in caplog.text
