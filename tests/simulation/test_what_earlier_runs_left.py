"""What an earlier run of a cluster left: beside a run that goes on, beside a plan that waits."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counterpoise.errors import (
    HaltedError,
    StalePlanError,
    UnknownOutcomeError,
)
from counterpoise.installation import Installation
from counterpoise.model.kafka import (
    FOLLOWER_RATE,
    LEADER_RATE,
    LIST_KEYS,
    CallResults,
    ConfigChange,
    ConfigOperation,
)
from counterpoise.model.person import Person
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.request import Goal, RebalanceRequest
from counterpoise.model.run import RunState
from counterpoise.services import execution, plans, requests, snapshots, watch
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.decisions import grant, reject
from tests.support.installations import installation_over
from tests.support.ledger_view import (
    LedgerView,
    OwnedKey,
    blame_trouble,
    change_state,
    change_was_not_answered,
    set_database_clock,
    submit_was_not_answered,
)
from tests.support.pictures import simulated
from tests.support.planned_runs import planned_run
from tests.support.runs import at_broker, clock_of, own_configs

CLUSTERS = """
clusters:
  demo:
    connection: reader
    operator_connection: operator
    policy: {movement: {max_moves_in_flight: 2}}
"""
PICTURE = "\n".join(f"orders-{number}: 1 2 size=30000000" for number in range(6))


@pytest.fixture
def kafka() -> SimulatedCluster:
    return simulated(PICTURE, racks="1=a 2=b 3=c")


@pytest.fixture
def installation(tmp_path: Path, kafka: SimulatedCluster) -> Iterator[Installation]:
    with installation_over(
        tmp_path, lambda _: kafka, clusters=CLUSTERS, clock=clock_of(kafka)
    ) as installation:
        yield installation


def approved(
    installation: Installation, goal: Goal = Goal.ADD_BROKERS, broker_id: int = 3
) -> plans.PlannedRun:
    snapshots.make(installation, "demo", installation.clock())
    alice = Person.airflow("alice")
    request = RebalanceRequest(goal, (broker_id,))
    run = planned_run(installation, "demo", request, plans.Origin(alice))
    assert run is not None
    grant(installation, run)
    return run


def halted(installation: Installation, kafka: SimulatedCluster, run: plans.PlannedRun) -> None:
    """Stop a run under way, which cancels what is in flight, and settle it."""
    requests.cancel(installation, run["run_id"], by=Person.airflow("alice"), why="month end")
    with pytest.raises(HaltedError):
        execution.execute_step(installation, *run_of(run), print)
    blame_trouble(installation.ledger, run["run_id"])
    settle(installation, kafka, run)


def halted_while_moving(
    installation: Installation, kafka: SimulatedCluster, *, loses_response: bool = False
) -> plans.PlannedRun:
    """Return a run that was cancelled while it moved; nobody answered its first config change."""
    run = approved(installation)
    execution.open_run(installation, *run_of(run))
    if loses_response:
        kafka.lose_response_of_next("alter_configs")
    until_moving(installation, kafka, run)
    halted(installation, kafka, run)
    return run


def change_late(
    kafka: SimulatedCluster, keys: Iterable[OwnedKey], operation: ConfigOperation
) -> None:
    """Apply once more what a run sent."""
    kafka.alter_configs(
        [ConfigChange(o.resource, o.key, operation, ",".join(o.written)) for o in keys]
    )


def view_of(installation: Installation) -> LedgerView:
    return LedgerView.of(installation.ledger)


def follower_rate_of(installation: Installation, run: plans.PlannedRun) -> OwnedKey:
    keys = view_of(installation).owned_keys(run["run_id"])
    (rate,) = (owned for owned in keys if owned.key == FOLLOWER_RATE)
    return rate


def lists_of(installation: Installation, run: plans.PlannedRun) -> list[OwnedKey]:
    keys = view_of(installation).owned_keys(run["run_id"])
    return [owned for owned in keys if owned.key in LIST_KEYS]


def unanswered_keys(installation: Installation, run: plans.PlannedRun) -> list[OwnedKey]:
    keys = view_of(installation).owned_keys(run["run_id"])
    return [owned for owned in keys if owned.is_unanswered]


def rate_of_a_dead_call(installation: Installation, run: plans.PlannedRun) -> OwnedKey:
    """Return a rate of a halted run: a process died in a call of its that nobody answered."""
    rate = follower_rate_of(installation, run)
    change_was_not_answered(installation.ledger, run["run_id"], [rate])
    return rate


def submitted_move(installation: Installation, run: plans.PlannedRun) -> Move:
    partition = min(view_of(installation).submitted_partitions(run["run_id"]))
    (move,) = (m for m in plan_of(installation, run).moves if m.topic_partition == partition)
    return move


def late_move(installation: Installation, kafka: SimulatedCluster, run: plans.PlannedRun) -> Move:
    """Return a move of an ended run whose last call nobody answered: it is applied now."""
    move = submitted_move(installation, run)
    come_late(installation, kafka, run, move)
    return move


def come_late(
    installation: Installation, kafka: SimulatedCluster, run: plans.PlannedRun, move: Move
) -> None:
    targets = {move.topic_partition: move.replicas_after}
    submit_was_not_answered(installation.ledger, run["run_id"], targets)
    kafka.alter_reassignments({move.topic_partition: move.replicas_after})


def until_moving(
    installation: Installation, kafka: SimulatedCluster, run: plans.PlannedRun
) -> None:
    while not kafka.list_reassignments():
        kafka.advance(execution.execute_step(installation, *run_of(run), print) or 0)


def execute_and_settle(
    installation: Installation, kafka: SimulatedCluster, run: plans.PlannedRun
) -> None:
    while (wait := execution.execute_step(installation, *run_of(run), print)) is not None:
        kafka.advance(wait)
    settle(installation, kafka, run)


def settle(installation: Installation, kafka: SimulatedCluster, run: plans.PlannedRun) -> None:
    while (wait := execution.settle_step(installation, run["run_id"], print)) is not None:
        kafka.advance(wait)


def run_of(run: plans.PlannedRun) -> tuple[str, str]:
    return run["run_id"], run["fingerprint"]


def halted_beside_a_dead_broker(
    installation: Installation, kafka: SimulatedCluster
) -> plans.PlannedRun:
    """Leave the rate of a run on broker 3, which is dead."""
    run = approved(installation)
    execution.open_run(installation, *run_of(run))
    until_moving(installation, kafka, run)
    kafka.kill_broker(3)
    kafka.advance(10)  # its session has ended
    halted(installation, kafka, run)
    assert installation.ledger.run(run["run_id"]).state is RunState.HALTED
    assert kafka.configs.dynamic[at_broker(3)]
    return run


def test_a_resumed_run_keeps_its_throttle_although_an_earlier_run_has_keys_to_restore(
    installation: Installation, kafka: SimulatedCluster
) -> None:
    halted_beside_a_dead_broker(installation, kafka)
    kafka.restart_broker(3)
    kafka.advance(30)
    assert own_configs(kafka), "broker 3 still has the rate of the earlier run"
    later = approved(installation)
    # By a process that died before it restored anything.
    change_state(installation.ledger, later["run_id"], RunState.RUNNING)
    until_moving(installation, kafka, later)
    execution.open_run(installation, *run_of(later))
    report = watch.watch_throttles(installation, "demo", print)
    assert (report.restored_keys, report.pending_keys) == ((), ())
    rates = {key for values in own_configs(kafka).values() for key in values}
    assert {LEADER_RATE, FOLLOWER_RATE} <= rates, "what is in flight keeps its throttle"
    execute_and_settle(installation, kafka, later)
    assert installation.ledger.run(later["run_id"]).state is RunState.DONE
    watch.watch_throttles(installation, "demo", print)
    assert own_configs(kafka) == {}


def test_the_watch_restores_beside_a_run_what_that_does_not_need(
    installation: Installation, kafka: SimulatedCluster
) -> None:
    """A run of several nights, or a paused one, is under way."""
    halted_beside_a_dead_broker(installation, kafka)
    later = approved(installation, Goal.DEMOTE_BROKERS, 1)
    execution.open_run(installation, *run_of(later))
    report = watch.watch_throttles(installation, "demo", print)
    assert [why.partition(":")[0] for why in report.why_pending] == ["broker 3 is dead"]
    kafka.restart_broker(3)
    kafka.advance(30)
    report = watch.watch_throttles(installation, "demo", print)
    assert len(report.restored_keys) == len(report.runs_under_way) == 1
    assert own_configs(kafka) == {}
    execute_and_settle(installation, kafka, later)
    assert installation.ledger.run(later["run_id"]).state is RunState.DONE


def meanwhile_after(
    monkeypatch: pytest.MonkeyPatch, judgement: str, meanwhile: Callable[[], object]
) -> None:
    """Let something happen right after the watch has judged for the first time."""
    judge, calls = getattr(watch, judgement), []

    def judge_and_stop(*arguments: Any) -> Any:
        found = judge(*arguments)
        calls.append(found)
        if len(calls) == 1:
            assert found
            meanwhile()
        return found

    monkeypatch.setattr(watch, judgement, judge_and_stop)


def test_the_watch_leaves_an_orphaned_run_that_somebody_executes_again(
    installation: Installation, kafka: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_database_clock(installation.ledger._engine, lambda: installation.clock().timestamp())
    run = approved(installation)
    execution.open_run(installation, *run_of(run))
    kafka.advance(1200)
    meanwhile_after(
        monkeypatch,
        "_is_orphaned",
        lambda: execution.execute_step(installation, *run_of(run), print),
    )
    report = watch.watch_throttles(installation, "demo", print)
    assert installation.ledger.run(run["run_id"]).state is RunState.RUNNING
    assert "somebody executes it again" in report.settled_runs[0]


def test_the_watch_settles_a_late_move_while_a_newer_plan_waits_for_its_approval(
    installation: Installation, kafka: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", kafka.advance)
    run = halted_while_moving(installation, kafka)
    snapshots.make(installation, "demo", installation.clock())
    request = RebalanceRequest(Goal.REBALANCE)
    newer = planned_run(installation, "demo", request, plans.Origin(Person.airflow("bob")))
    assert newer is not None
    partition = late_move(installation, kafka, run).topic_partition
    report = watch.watch_throttles(installation, "demo", print)
    assert report.late_moves == (f"{partition} (run {run['run_id']})",)
    assert not kafka.list_reassignments()
    assert own_configs(kafka) == {}
    assert installation.ledger.run(newer["run_id"]).state is RunState.PROPOSED


def test_the_watch_leaves_a_move_alone_that_somebody_makes_after_all_calls_were_answered(
    installation: Installation, kafka: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", kafka.advance)
    run = halted_while_moving(installation, kafka)
    later = approved(installation)
    execution.open_run(installation, *run_of(later))
    halted(installation, kafka, later)
    kafka.advance(3600)
    move = submitted_move(installation, run)
    kafka.alter_reassignments({move.topic_partition: move.replicas_after})
    report = watch.watch_throttles(installation, "demo", print)
    assert report.late_moves == report.settled_runs == ()
    assert move.topic_partition in kafka.list_reassignments()


def test_what_a_halted_run_left_is_restored_although_it_was_rejected_meanwhile(
    installation: Installation, kafka: SimulatedCluster
) -> None:
    run = halted_beside_a_dead_broker(installation, kafka)
    reject(installation, run)
    report = watch.watch_throttles(installation, "demo", print)
    assert report.pending_keys
    kafka.restart_broker(3)
    kafka.advance(30)
    report = watch.watch_throttles(installation, "demo", print)
    assert report.restored_keys
    assert own_configs(kafka) == {}


def test_what_an_earlier_run_left_is_not_told_as_somebody_elses_change(
    installation: Installation, kafka: SimulatedCluster
) -> None:
    earlier = halted_while_moving(installation, kafka, loses_response=True)
    unanswered = unanswered_keys(installation, earlier)
    later = approved(installation)
    execution.open_run(installation, *run_of(later))
    change_late(kafka, unanswered, ConfigOperation.APPEND)
    execute_and_settle(installation, kafka, later)
    assert not view_of(installation).left_as_others_set_them(later["run_id"])
    watch.watch_throttles(installation, "demo", print)
    assert own_configs(kafka) == {}


def test_a_restore_that_is_refused_each_time_is_recorded_once(
    installation: Installation, kafka: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = halted_while_moving(installation, kafka)
    rate = rate_of_a_dead_call(installation, run)
    change_late(kafka, [rate], ConfigOperation.SET)

    def refused(changes: Any, **_: Any) -> Any:
        return CallResults(
            (), {change.resource: "CLUSTER_AUTHORIZATION_FAILED" for change in changes}
        )

    with monkeypatch.context() as patch:
        patch.setattr(kafka, "alter_configs", refused)
        watch.watch_throttles(installation, "demo", print)
        recorded = view_of(installation).events(run["run_id"])
        for _ in range(3):
            watch.watch_throttles(installation, "demo", print)
        assert view_of(installation).events(run["run_id"]) == recorded
    watch.watch_throttles(installation, "demo", print)
    assert own_configs(kafka) == {}


def plan_of(installation: Installation, run: plans.PlannedRun) -> RebalancePlan:
    return installation.plan_of(installation.ledger.run(run["run_id"]))


def dead_for_good(
    installation: Installation,
    kafka: SimulatedCluster,
    run: plans.PlannedRun,
    *,
    watched_every_hours: int = 24,
    times: int = 30,
) -> None:
    """A broker dies with a config change and a move of an ended run that it had not answered, and
    stays registered for a month; the watch looks after the cluster all the while.
    """
    rate_of_a_dead_call(installation, run)
    ledger, run_id = installation.ledger, run["run_id"]
    change_was_not_answered(ledger, run_id, lists_of(installation, run))
    move = submitted_move(installation, run)
    targets = {move.topic_partition: move.replicas_after}
    submit_was_not_answered(ledger, run_id, targets)
    kafka.kill_broker(2)
    for _ in range(times):
        kafka.advance(watched_every_hours * 3600)
        watch.watch_throttles(installation, "demo", print)


def test_what_comes_within_a_day_of_a_lost_call_is_taken_back_beside_a_dead_broker(
    installation: Installation, kafka: SimulatedCluster
) -> None:
    run = halted_while_moving(installation, kafka)
    dead_for_good(installation, kafka, run, watched_every_hours=5, times=4)
    change_late(kafka, lists_of(installation, run), ConfigOperation.APPEND)
    assert own_configs(kafka)
    watch.watch_throttles(installation, "demo", print)
    assert own_configs(kafka) == {}


def test_what_somebody_sets_long_after_a_lost_config_change_stays_beside_a_dead_broker(
    installation: Installation, kafka: SimulatedCluster
) -> None:
    run = halted_while_moving(installation, kafka)
    dead_for_good(installation, kafka, run)
    # The same entries, by somebody else.
    change_late(kafka, lists_of(installation, run), ConfigOperation.APPEND)
    theirs = own_configs(kafka)
    assert theirs
    watch.watch_throttles(installation, "demo", print)
    assert own_configs(kafka) == theirs


def lost_submit(installation: Installation, kafka: SimulatedCluster) -> plans.PlannedRun:
    """A run was cancelled whose first call was lost, with a broker that dies for good: none of the
    plan's.
    """
    kafka.brokers[9] = replace(kafka.brokers[2])
    run = approved(installation)
    execution.open_run(installation, *run_of(run))
    kafka.fail_next("alter_reassignments", UnknownOutcomeError("no answer", broker_id=9))
    while not view_of(installation).submitted(run["run_id"]):
        kafka.advance(execution.execute_step(installation, *run_of(run), print) or 0)
    kafka.kill_broker(9)
    halted(installation, kafka, run)
    assert own_configs(kafka) == {}
    return run


@pytest.mark.parametrize("is_watched", [True, False])
@pytest.mark.parametrize("what", ["order", "move"])
def test_who_changes_a_partition_days_after_a_lost_call_is_somebody_else(
    installation: Installation, kafka: SimulatedCluster, what: str, is_watched: bool
) -> None:
    run = lost_submit(installation, kafka)
    move = submitted_move(installation, run)
    for _ in range(3):
        kafka.advance(86_400)
        if is_watched:
            watch.watch_throttles(installation, "demo", print)
    theirs = move.replicas_after if what == "move" else move.replicas_before[::-1]
    kafka.alter_reassignments({move.topic_partition: theirs})
    grant(installation, run)
    with pytest.raises(StalePlanError):
        execution.open_run(installation, *run_of(run))


def no_answer(*_: object, **__: object) -> None:
    raise UnknownOutcomeError("no answer", broker_id=2)


def given_up(
    installation: Installation, kafka: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> plans.PlannedRun:
    """A cancelled run has ended with moves in flight, since no cancel was answered."""
    for partition in kafka.partitions.values():
        partition.size_bytes = 3e13
    run = approved(installation)
    execution.open_run(installation, *run_of(run))
    until_moving(installation, kafka, run)
    with monkeypatch.context() as patch:
        patch.setattr(kafka, "alter_reassignments", no_answer)
        requests.cancel(installation, run["run_id"], by=Person.airflow("alice"), why="month end")
        with pytest.raises(HaltedError):
            execution.execute_step(installation, *run_of(run), print)
        while execution.settle_step(installation, run["run_id"], print) is not None:
            kafka.advance(30.0)
    assert kafka.list_reassignments()
    return run


@pytest.mark.parametrize("hours", [1, 25])
def test_moves_whose_cancels_nobody_answered_stay_throttled(
    installation: Installation,
    kafka: SimulatedCluster,
    monkeypatch: pytest.MonkeyPatch,
    hours: int,
) -> None:
    given_up(installation, kafka, monkeypatch)
    kafka.advance(3600 * hours)  # Airflow was down
    monkeypatch.setattr(time, "sleep", kafka.advance)
    monkeypatch.setattr(watch, "_MAX_SETTLE_SECONDS", 1.0)
    moving = kafka.list_reassignments()
    throttled = own_configs(kafka)
    with monkeypatch.context() as patch:
        patch.setattr(kafka, "alter_reassignments", no_answer)
        watch.watch_throttles(installation, "demo", print)
    assert kafka.list_reassignments() == moving
    assert own_configs(kafka) == throttled
    assert FOLLOWER_RATE in throttled[at_broker(3)]


def test_a_rate_that_somebody_sets_where_a_run_had_one_is_reported_and_left(
    installation: Installation, kafka: SimulatedCluster
) -> None:
    halted_while_moving(installation, kafka)
    kafka.alter_configs([ConfigChange(at_broker(3), FOLLOWER_RATE, ConfigOperation.SET, "777777")])
    report = watch.watch_throttles(installation, "demo", print)
    assert [text for text in report.foreign_throttles if FOLLOWER_RATE in text]
    assert own_configs(kafka) == {at_broker(3): {FOLLOWER_RATE: "777777"}}
