"""The wiring on a simulated cluster: what leads from one stage to the next."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from counterpoise import controls, pipeline
from counterpoise.errors import RefusedError
from counterpoise.installation import Installation
from counterpoise.kafka_admin.simulated import SimulatedCluster
from counterpoise.model.approval import Decision
from counterpoise.model.person import Person
from counterpoise.model.rebalance_request import RebalanceRequest
from counterpoise.model.request import Goal
from counterpoise.model.result_tables import BROKER_BALANCE, TOPIC_BALANCE
from counterpoise.model.run import RunState
from tests.support.installations import installation_over
from tests.support.pictures import simulated

SKEWED = "\n".join(f"orders-{number}: 1 2 size=30000000" for number in range(6))


@pytest.fixture
def kafka() -> SimulatedCluster:
    """Broker 3 has just joined."""
    return simulated(SKEWED, racks="1=a 2=b 3=c")


ANALYSIS = Person("analysis", "airflow-dag:kafka_leader_balance")


@pytest.fixture
def installation(tmp_path: Path, kafka: SimulatedCluster) -> Iterator[Installation]:
    with installation_over(tmp_path, lambda _: kafka) as installation:
        yield installation


def analyse_by_hand(installation: Installation) -> None:
    """What the Spark job would write about the cluster's newest snapshot."""
    pipeline.snapshot(installation, "demo", installation.clock())
    manifests = installation.archive.manifests(["demo"])
    newest = manifests.slice(manifests.num_rows - 1)
    (row,) = newest.to_pylist()
    about = {key: row[key] for key in ("cluster", "snapshot_id", "observed_at")}
    counts = ("leaders", "preferred_leaders", "leaders_not_preferred", "replicas", "bytes")
    held = {1: (6, 6, 0, 6, 180_000_000), 2: (0, 0, 0, 6, 180_000_000), 3: (0, 0, 0, 0, 0)}
    brokers = [
        about
        | {"broker_id": b, "rack": None, "is_fenced": False}
        | dict(zip(counts, held[b], strict=True))
        for b in held
    ]
    folder = f"results/{{}}/round={row['snapshot_id']}/part.parquet"
    installation.archive.store.write_table(
        folder.format("broker_balance"), pa.Table.from_pylist(brokers, BROKER_BALANCE)
    )
    installation.archive.store.write_table(
        folder.format("topic_balance"), TOPIC_BALANCE.empty_table()
    )
    installation.results.finish_round(
        row["snapshot_id"], installation.clock(), [row | {"previous_snapshot_id": None}]
    )
    pipeline.rebuild_views(installation, "demo")


def test_an_idle_broker_is_asked_about_once_however_many_rounds_find_it(
    installation: Installation, kafka: SimulatedCluster
) -> None:
    analyse_by_hand(installation)
    wanted = pipeline.propose(installation, "demo")
    assert wanted is not None
    assert (wanted["goal"], wanted["broker_ids"]) == ("add-brokers", [3])
    run = pipeline.plan(
        installation,
        "demo",
        RebalanceRequest(Goal.ADD_BROKERS, (3,)),
        requested_by=ANALYSIS,
    )
    assert run is not None
    analyse_by_hand(installation)
    assert pipeline.propose(installation, "demo") is None, "the question waits already"
    no = {"decision": Decision.REJECTED, "by": Person("alice"), "reason": "later", "rate": None}
    controls.record_decision(installation, run["run_id"], run["fingerprint"], **no)  # type: ignore[arg-type]
    assert pipeline.propose(installation, "demo") == wanted, (
        "answered, and the broker is still idle"
    )


def test_an_older_question_of_the_analysis_does_not_silence_the_idle_broker(
    installation: Installation, kafka: SimulatedCluster
) -> None:
    analyse_by_hand(installation)
    other = pipeline.plan(
        installation, "demo", RebalanceRequest(Goal.LEADERS), requested_by=ANALYSIS
    )
    assert other is not None
    assert pipeline.propose(installation, "demo") is not None
    newer = pipeline.plan(
        installation, "demo", RebalanceRequest(Goal.ADD_BROKERS, (3,)), requested_by=ANALYSIS
    )
    assert newer is not None
    assert installation.ledger.run(other["run_id"]).state is RunState.SUPERSEDED


def test_the_analysis_waits_for_a_plan_that_somebody_asked_for(
    installation: Installation, kafka: SimulatedCluster
) -> None:
    analyse_by_hand(installation)
    leaders = RebalanceRequest(Goal.LEADERS)
    of_alice = pipeline.plan(installation, "demo", leaders, requested_by=Person("alice"))
    assert of_alice is not None
    assert pipeline.propose(installation, "demo") is None
    idle = RebalanceRequest(Goal.ADD_BROKERS, (3,))
    with pytest.raises(RefusedError, match="which alice asked for, is proposed"):  # asked before
        pipeline.plan(installation, "demo", idle, requested_by=ANALYSIS)
    assert installation.ledger.run(of_alice["run_id"]).state is RunState.PROPOSED
    of_bob = pipeline.plan(installation, "demo", idle, requested_by=Person("bob"))
    assert of_bob is not None
    assert installation.ledger.run(of_alice["run_id"]).state is RunState.SUPERSEDED


def test_a_history_without_results_is_said_to_be_empty(installation: Installation) -> None:
    with pytest.raises(RefusedError, match="no analysed snapshot yet"):
        pipeline.report_balance(installation, "demo")


def test_the_end_of_a_run_is_waited_for_by_the_second_and_only_the_end(
    installation: Installation, kafka: SimulatedCluster
) -> None:
    waits: dict[int | None, list[float]] = {}
    started = installation.clock()
    installation.clock = lambda: started + timedelta(seconds=kafka.now)
    run = pipeline.plan(
        installation, "demo", RebalanceRequest(Goal.ADD_BROKERS, (3,)), requested_by=Person("alice")
    )
    assert run is not None
    yes = {"decision": Decision.GRANTED, "by": Person("alice"), "reason": "now", "rate": "2MB/s"}
    controls.record_decision(installation, run["run_id"], run["fingerprint"], **yes)  # type: ignore[arg-type]
    pipeline.open_run(installation, run["run_id"], run["fingerprint"])
    while (
        wait := pipeline.execute_step(
            installation, run["run_id"], run["fingerprint"], lambda _: None
        )
    ) is not None:
        run_progress = installation.ledger.journal(run["run_id"]).run_progress()
        if run_progress is not None and run_progress.bytes_per_second > 0:
            waits.setdefault(run_progress.seconds_left, []).append(wait)
        kafka.advance(wait)
    far = [w for left, found in waits.items() for w in found if left is not None and left > 15]
    near = [w for left, found in waits.items() for w in found if left is not None and left <= 15]
    assert set(far) == {2.0}
    assert near
    assert max(near) <= 1.0
