"""The main job through Airflow, on real brokers: the five steps of the demo, their outcome asked from the cluster."""

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from counterpoise.model.approval import Decision
from counterpoise.model.run import RunState
from demo.__main__ import run_steps
from demo.place import CLUSTER, Place
from demo.steps import NEW_BROKER, Demo, Outcome
from demo.terminal import Terminal
from local_kafka import LocalKafka

pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with Demo(Place.new(tmp_path_factory.mktemp("demo")), Terminal(io.StringIO())) as demo:
        yield demo


@pytest.fixture(scope="module")
def outcome(demo: Demo) -> Outcome:
    return run_steps(demo, approve=True)


def test_the_run_is_done_and_every_task_succeeded(demo: Demo, outcome: Outcome) -> None:
    assert outcome.run.state is RunState.DONE
    (run,) = demo.api.dag_runs("kafka_rebalance")
    assert (run.state, run.partition_key) == ("success", CLUSTER)
    assert set(demo.api.task_states("kafka_rebalance", run.run_id).values()) == {"success"}


def test_leaders_are_even_and_the_new_broker_has_its_share(outcome: Outcome) -> None:
    leaders = [figures.leaders for figures in outcome.after]
    assert max(leaders) - min(leaders) <= 1
    assert [figures.broker_id for figures in outcome.after] == [1, 2, 3, NEW_BROKER]
    assert outcome.after[-1].replicas > 0


def test_nothing_more_was_copied_than_any_plan_has_to(outcome: Outcome) -> None:
    assert outcome.plan.copied_replicas == outcome.plan.lower_bound.replicas
    assert outcome.plan.copied_bytes <= 1.01 * outcome.plan.lower_bound.bytes


def test_kafkas_own_tools_see_no_throttle_and_no_reassignment(demo: Demo, outcome: Outcome) -> None:
    assert outcome.throttles == outcome.throttles_before == ()
    assert "No partition reassignments found" in _tool(
        demo.kafka, "org.apache.kafka.tools.reassign.ReassignPartitionsCommand", "--list"
    )
    for kind in ("topics", "brokers"):
        said = _tool(demo.kafka, "kafka.admin.ConfigCommand", "--entity-type", kind, "--describe")
        assert "throttled" not in said


def test_kafkas_own_tools_see_the_plan(demo: Demo, outcome: Outcome) -> None:
    said = _tool(demo.kafka, "org.apache.kafka.tools.TopicCommand", "--describe")
    for move in outcome.plan.moves:
        (line,) = [
            line
            for line in said.splitlines()
            if f"Topic: {move.topic}\t" in line and f"Partition: {move.partition}\t" in line
        ]
        assert f"Leader: {move.replicas_after[0]}\t" in line
        assert f"Replicas: {','.join(map(str, move.replicas_after))}\t" in line


def test_who_said_yes_and_at_which_rate_is_in_the_ledger(demo: Demo, outcome: Outcome) -> None:
    (approval,) = demo.site.ledger.approvals_of(outcome.run.run_id)
    assert (approval.decision, approval.by) == (Decision.GRANTED, "alice")
    assert approval.fingerprint == outcome.plan.fingerprint
    assert approval.rate_bytes_per_second == 4_000_000


def test_writers_noticed_nothing(outcome: Outcome) -> None:
    assert outcome.records_lost == 0


def test_reports_are_there_with_pictures(demo: Demo, outcome: Outcome) -> None:
    names = demo.site.archive.report_names()
    assert {f"{CLUSTER}/leader-balance.html", f"{CLUSTER}/runs/{outcome.run.run_id}-run.html"} <= set(names)
    assert "<svg" in demo.site.archive.read_report(f"{CLUSTER}/leader-balance.html")


def test_the_history_has_a_photograph_for_each_look(demo: Demo, outcome: Outcome) -> None:
    manifests = demo.site.archive.manifests([CLUSTER])
    assert manifests.num_rows >= 3  # two rounds, and the one that the plan was made from


def _tool(kafka: LocalKafka, main_class: str, *arguments: str) -> str:
    done = kafka.tool(main_class, "--bootstrap-server", kafka.bootstrap_string, *arguments)
    return done.stdout + done.stderr


def test_everything_lies_in_one_directory(demo: Demo, outcome: Outcome) -> None:
    found = {path.name for path in Path(demo.place.directory).iterdir()}
    assert {"airflow", "kafka", "store", "clusters.yaml", "ledger.db"} <= found
