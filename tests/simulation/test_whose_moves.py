"""Whose a reassignment is: this run's, that of an earlier run of ours, or somebody else's."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from counterpoise.errors import HaltedError, StalePlanError
from counterpoise.execution import Driver
from counterpoise.execution.observation import Observation
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.control import Control
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.policy import MovementPolicy
from counterpoise.model.request import Goal
from counterpoise.model.run import SHOWS_WITHIN, RunState
from counterpoise.model.run_progress import RunProgress
from tests.support.ledger_view import submit_was_not_answered
from tests.support.pictures import cluster
from tests.support.plans import move, plan_by_hand
from tests.support.runs import (
    FOUR_BROKERS,
    SimulatedRun,
    own_configs,
    times_submitted,
)

PICTURE = "orders-0: 1 2 3 size=3000000\norders-1: 1 2 3 size=3000000\nother-0: 1 2 3 size=3000000"
FIRST, SECOND, OTHER = (
    move("orders-0", "1 2 3", "4 2 3", size=3_000_000),
    move("orders-1", "1 2 3", "4 2 3", size=3_000_000),
    move("other-0", "1 2 3", "4 2 3", size=3_000_000),
)


SNAPSHOT = cluster(PICTURE, racks=FOUR_BROKERS)


def plan_of(*moves: Move) -> RebalancePlan:
    return plan_by_hand(SNAPSHOT, Goal.REBALANCE, *moves)


def a_run(folder: Path, *moves: Move) -> SimulatedRun:
    return SimulatedRun.make(folder, PICTURE, plan=plan_of(*moves))


def half_submitted(folder: Path) -> tuple[SimulatedRun, TopicPartition, TopicPartition]:
    """Return a run with the partition that moves, and the one that it has not submitted yet."""
    run = a_run(folder, FIRST, SECOND)
    run.limits = replace(run.limits, max_moves_in_flight=1)
    run.until_moving(run.driver())
    (ours,) = run.cluster.list_reassignments()
    (waiting,) = {FIRST.topic_partition, SECOND.topic_partition} - {ours}
    return run, ours, waiting


def cancelled(run: SimulatedRun) -> None:
    run.ask(Control.CANCEL)
    with pytest.raises(HaltedError, match="cancel"):
        run.driver().step()
    assert run.end(run.driver()) is RunState.CANCELLED


def test_a_move_that_arrived_and_is_moved_back_by_somebody_is_not_done_again(
    tmp_path: Path,
) -> None:
    run = a_run(tmp_path, FIRST, SECOND)
    run.limits = replace(run.limits, max_moves_in_flight=1)
    run.until_moving(run.driver())
    first = FIRST.topic_partition
    while run.cluster.partitions[first].replicas != FIRST.replicas_after:
        run.cluster.advance(run.driver().step() or 0)
    run.cluster.advance(SHOWS_WITHIN.total_seconds())
    run.cluster.partitions[first].replicas = FIRST.replicas_before
    run.cluster.partitions[first].isr = set(FIRST.replicas_before)
    with pytest.raises(HaltedError, match="somebody else cancelled or took back orders-0"):
        run.repeat(run.driver().step)
    assert run.end(run.driver()) is RunState.HALTED
    assert times_submitted(run.cluster)[first, FIRST.replicas_after] == 1


def test_a_reassignment_that_somebody_turned_around_is_theirs_and_not_cancelled(
    tmp_path: Path,
) -> None:
    run = a_run(tmp_path, FIRST)
    run.until_moving(run.driver())
    first = FIRST.topic_partition
    run.cluster.alter_reassignments({first: FIRST.replicas_before})
    theirs = run.cluster.list_reassignments()[first]
    assert theirs.adding == theirs.removing == (4,), "Kafka never ends this one"
    with pytest.raises(HaltedError, match="somebody else redirected 1 move of this run: orders-0"):
        run.repeat(run.driver().step)
    assert run.end(run.driver()) is RunState.HALTED
    assert run.cluster.list_reassignments()[first] == theirs
    assert own_configs(run.cluster) == {}


def test_a_reassignment_of_a_partition_that_the_run_never_submitted_is_somebody_elses(
    tmp_path: Path,
) -> None:
    run, _, theirs = half_submitted(tmp_path)
    run.cluster.alter_reassignments({theirs: (4, 2, 3)})
    with pytest.raises(HaltedError, match=f"somebody else is reassigning 1 partition: {theirs}"):
        run.repeat(run.driver().step)
    run.ask(Control.CANCEL)
    assert run.end(run.driver()) is RunState.HALTED
    assert not [
        call
        for call in run.cluster.calls
        if call.name == "alter_reassignments" and call.argument.get(theirs, ()) is None  # type: ignore[attr-defined]
    ]


def beside_a_late_move(folder: Path, late: Move) -> tuple[SimulatedRun, SimulatedRun]:
    """Return an earlier run, of which a move comes now that nobody answered, and a newer one."""
    earlier = a_run(folder, late)
    earlier.until_moving(earlier.driver())
    cancelled(earlier)
    lost = {late.topic_partition: late.replicas_after}
    submit_was_not_answered(earlier.ledger, earlier.run_id, lost)
    run = replace(earlier)
    run.go_on_with(plan_of(move("orders-0", "1 2 3", "1 4 3", size=3_000_000), SECOND))
    run.driver().open()
    run.cluster.alter_reassignments(lost)
    return earlier, run


def test_a_late_move_of_an_earlier_run_is_cancelled_by_the_sweep_beside_a_newer_one(
    tmp_path: Path,
) -> None:
    earlier, run = beside_a_late_move(tmp_path, OTHER)
    earlier.repeat(earlier.driver().sweep_step)
    assert OTHER.topic_partition not in run.cluster.list_reassignments()
    assert run.placement()["other-0"][0] == (1, 2, 3)
    run.repeat(run.driver().step)
    run.repeat(run.driver().settle_step)
    assert run.run.state is RunState.DONE
    earlier.restore_pending()
    assert own_configs(run.cluster) == {}


def test_a_late_move_of_a_partition_of_the_plan_halts_a_run_until_the_sweep_has_ended_it(
    tmp_path: Path,
) -> None:
    earlier, run = beside_a_late_move(tmp_path, FIRST)
    with pytest.raises(HaltedError, match=r"somebody else is reassigning.* orders-0.*watch"):
        run.repeat(run.driver().step)
    assert run.end(run.driver()) is RunState.HALTED
    earlier.repeat(earlier.driver().sweep_step)
    assert run.placement()["orders-0"][0] == (1, 2, 3)
    assert run.go() is RunState.DONE
    earlier.restore_pending()
    assert own_configs(run.cluster) == {}


def cancelled_an_hour_ago(folder: Path) -> SimulatedRun:
    """Return a run of which every call was answered, and nothing is under way."""
    run = a_run(folder, FIRST)
    run.until_moving(run.driver())
    cancelled(run)
    run.cluster.advance(3600)
    return run


@pytest.mark.parametrize(
    "targets", [[(1, 4, 3), (1, 2, 3)], [FIRST.replicas_after]], ids=["stuck", "same target"]
)
def test_what_moves_after_a_run_has_ended_with_all_calls_answered_is_somebody_elses(
    tmp_path: Path, targets: list[tuple[int, ...]]
) -> None:
    run = cancelled_an_hour_ago(tmp_path)
    partition = FIRST.topic_partition
    for target in targets:
        run.cluster.alter_reassignments({partition: target})
    theirs = run.cluster.list_reassignments()[partition]
    with pytest.raises(StalePlanError):
        run.driver().open()
    assert run.cluster.list_reassignments()[partition] == theirs


def stopped_after_observing(driver: Driver, meanwhile: Callable[[], object]) -> Driver:
    """Return a driver that is stopped, once, between what it observes and what follows from it."""
    observe, acts = driver._observe, [meanwhile]

    def observe_and_stop(previous: RunProgress | None) -> Observation:
        observation = observe(previous)
        if acts:
            acts.pop()()
        return observation

    driver._observe = observe_and_stop  # type: ignore[method-assign]
    return driver


def settling_after_a_cancel(folder: Path) -> SimulatedRun:
    run = a_run(folder, FIRST)
    run.until_moving(run.driver())
    run.ask(Control.CANCEL)
    with pytest.raises(HaltedError, match="cancel"):
        run.driver().step()
    return run


def check_what_they_begin_stays(
    run: SimulatedRun, begin: Callable[[], object], theirs: tuple[int, ...]
) -> None:
    """Let somebody move the first partition between an observation and the call that follows."""
    first = FIRST.topic_partition
    stopped_after_observing(run.driver(), begin).settle_step()
    assert run.cluster.list_reassignments()[first].target == theirs
    assert run.end(run.driver()) is RunState.CANCELLED
    run.cluster.advance(60)
    assert run.cluster.partitions[first].replicas == theirs
    assert own_configs(run.cluster) == {}


def test_a_move_that_has_ended_is_not_cancelled_where_somebody_moves_the_partition_on(
    tmp_path: Path,
) -> None:
    run = settling_after_a_cancel(tmp_path)
    first, theirs = FIRST.topic_partition, (4, 1, 2)

    def arrive_and_move_on() -> None:
        run.cluster.advance(60)
        assert not run.cluster.list_reassignments()
        run.cluster.alter_reassignments({first: theirs})

    check_what_they_begin_stays(run, arrive_and_move_on, theirs)


def reordered_by_somebody(run: SimulatedRun, order: tuple[int, ...]) -> None:
    run.cluster.alter_reassignments({FIRST.topic_partition: order})
    assert run.cluster.partitions[FIRST.topic_partition].replicas == order


def test_an_order_that_somebody_changed_after_a_run_is_drift_when_it_is_executed_again(
    tmp_path: Path,
) -> None:
    run = cancelled_an_hour_ago(tmp_path)
    reordered_by_somebody(run, (3, 2, 1))
    with pytest.raises(StalePlanError, match="orders-0"):
        run.driver().open()


def test_an_order_that_somebody_sets_while_the_run_settles_stays(tmp_path: Path) -> None:
    """Of a partition whose move was cancelled and that was in order since; others still move."""
    gone = move("orders-0", "1 2 3", "1 2 5", size=3_000_000)
    slow = move("orders-1", "1 2 3", "4 2 3", size=200_000_000)
    picture = "orders-0: 1 2 3 size=3000000\norders-1: 1 2 3 size=200000000"
    limits = MovementPolicy(dead_broker_patience=timedelta(seconds=30))
    racks = f"{FOUR_BROKERS} 5=a"
    run = SimulatedRun.of_moves(tmp_path, picture, gone, slow, racks=racks, limits=limits)
    run.until_moving(run.driver())
    run.cluster.kill_broker(5)
    with pytest.raises(HaltedError, match="dead"):
        run.repeat(run.driver().step, 3000)
    driver = run.driver()
    for _ in range(20):
        run.cluster.advance(driver.settle_step() or 0)
    assert list(run.cluster.list_reassignments()) == [slow.topic_partition]
    assert run.cluster.partitions[gone.topic_partition].replicas == (1, 2, 3)
    run.cluster.alter_reassignments({gone.topic_partition: (3, 2, 1)})
    run.repeat(driver.settle_step, 5000)
    assert run.cluster.partitions[gone.topic_partition].replicas == (3, 2, 1)


def test_an_order_that_somebody_sets_before_the_run_moves_a_partition_halts_it(
    tmp_path: Path,
) -> None:
    run, _, theirs = half_submitted(tmp_path)
    run.cluster.alter_reassignments({theirs: (3, 2, 1)})
    with pytest.raises(HaltedError, match=f"somebody else moved 1 partition.*{theirs}"):
        run.repeat(run.driver().step)
    assert run.end(run.driver()) is RunState.HALTED
    assert run.cluster.partitions[theirs].replicas == (3, 2, 1)
    with pytest.raises(StalePlanError, match=str(theirs)):
        run.driver().open()
