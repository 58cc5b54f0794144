"""Whose a reassignment is: this run's, that of an earlier run of ours, or somebody else's."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from counterpoise.errors import HaltedError, StalePlanError, UnknownOutcomeError
from counterpoise.execution import Driver
from counterpoise.execution.observation import Observation
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.control import Control
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.policy import MovementPolicy
from counterpoise.model.request import Goal
from counterpoise.model.run import RunState
from counterpoise.model.run_progress import RunProgress
from tests.support.pictures import cluster
from tests.support.plans import move, plan_by_hand
from tests.support.runs import FOUR_BROKERS, SimulatedRun, own_configs, times_submitted

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
    assert run.end(run.driver()) is RunState.HALTED


def test_a_move_that_arrived_and_is_moved_back_by_somebody_is_not_done_again(
    tmp_path: Path,
) -> None:
    run = a_run(tmp_path, FIRST, SECOND)
    run.limits = replace(run.limits, max_moves_in_flight=1)
    run.until_moving(run.driver())
    first = FIRST.topic_partition
    while first not in {
        tp for tp, s in run.ledger.journal(run.run_id).submissions().items() if s.done_at
    }:
        run.cluster.advance(run.driver().step() or 0)
    run.cluster.partitions[first].replicas = FIRST.replicas_before
    run.cluster.partitions[first].isr = set(FIRST.replicas_before)
    with pytest.raises(HaltedError, match="somebody else moved 1 partition"):
        run.repeat(run.driver().step)
    assert run.end(run.driver()) is RunState.HALTED
    assert times_submitted(run.cluster)[first, FIRST.replicas_after] == 1
    with pytest.raises(StalePlanError, match="orders-0"):
        run.driver().open()


def test_a_reassignment_that_somebody_turned_around_is_theirs_and_not_cancelled(
    tmp_path: Path,
) -> None:
    run = a_run(tmp_path, FIRST)
    run.until_moving(run.driver())
    first = FIRST.topic_partition
    run.cluster.alter_reassignments({first: FIRST.replicas_before})
    theirs = run.cluster.list_reassignments()[first]
    assert theirs.adding == theirs.removing == (4,), "Kafka never ends this one"
    with pytest.raises(HaltedError, match="somebody else is reassigning 1 partition: orders-0"):
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


@pytest.mark.parametrize("late", [OTHER, FIRST], ids=["outside the plan", "in the plan"])
def test_a_late_move_of_an_earlier_run_is_cancelled_and_the_newer_one_goes_on(
    tmp_path: Path, late: Move
) -> None:
    run = a_run(tmp_path, late)
    run.until_moving(run.driver())
    earlier, before = run.run_id, run.placement()
    cancelled(run)
    with run.ledger.journal(earlier).step() as step:
        step.submitting({late.topic_partition: late.replicas_after})  # no answer came
    run.go_on_with(plan_of(move("orders-0", "1 2 3", "1 4 3", size=3_000_000), SECOND))
    run.driver().open()
    run.cluster.alter_reassignments({late.topic_partition: late.replicas_after})
    run.repeat(run.driver().step)
    run.repeat(run.driver().settle_step)
    assert run.run.state is RunState.DONE
    assert run.ledger.journal(earlier).late_calls(), "it is settled once more, by the watch"
    assert run.placement()["other-0"][0] in ((1, 2, 3), (2, 3, 1))
    assert before.keys() == run.placement().keys()
    assert own_configs(run.cluster) == {}


def replaced_by_a_late_move(folder: Path) -> SimulatedRun:
    """Return a run whose move in flight gave way to that of an earlier run, which came late."""
    large = 600_000_000
    picture = f"orders-0: 1 2 3 size={large}"
    late, planned = (move("orders-0", "1 2 3", to, size=large) for to in ("4 2 3", "1 4 3"))
    snapshot = cluster(picture, racks=FOUR_BROKERS)
    plans = [plan_by_hand(snapshot, Goal.REBALANCE, each) for each in (late, planned)]
    run = SimulatedRun.make(folder, picture, plan=plans[0])
    run.until_moving(run.driver())
    cancelled(run)
    with run.ledger.journal(run.run_id).step() as step:
        step.submitting({late.topic_partition: late.replicas_after})
        step.unanswered([late.topic_partition], 3)
    run.go_on_with(plans[1])
    run.until_moving(run.driver())
    run.cluster.alter_reassignments({late.topic_partition: late.replicas_after})
    return run


def test_a_late_move_that_takes_the_place_of_one_in_flight_is_cancelled_and_the_run_goes_on(
    tmp_path: Path,
) -> None:
    run = replaced_by_a_late_move(tmp_path)
    run.repeat(run.driver().step)
    assert run.end(run.driver()) is RunState.DONE
    assert run.placement()["orders-0"][0] == (1, 4, 3)
    assert own_configs(run.cluster) == {}


def test_a_late_move_of_an_earlier_run_does_not_go_on_when_the_newer_one_is_cancelled(
    tmp_path: Path,
) -> None:
    run = replaced_by_a_late_move(tmp_path)
    cancelled(run)
    assert not run.cluster.list_reassignments()
    assert run.placement()["orders-0"][0] == (1, 2, 3)
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


def test_an_order_that_somebody_changed_is_not_restored_by_a_run_that_never_moved_the_partition(
    tmp_path: Path,
) -> None:
    run, ours, theirs = half_submitted(tmp_path)
    run.cluster.alter_reassignments({theirs: (3, 2, 1)})
    cancelled(run)
    assert run.cluster.partitions[theirs].replicas == (3, 2, 1)
    assert run.cluster.partitions[ours].replicas == (1, 2, 3)


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
    assert run.end(run.driver()) is RunState.HALTED
    run.cluster.advance(60)
    assert run.cluster.partitions[first].replicas == theirs
    assert own_configs(run.cluster) == {}


def test_an_order_is_not_restored_where_somebody_moves_the_partition_meanwhile(
    tmp_path: Path,
) -> None:
    run = settling_after_a_cancel(tmp_path)
    run.cluster.advance(run.driver().settle_step() or 0)
    first, theirs = FIRST.topic_partition, (4, 3, 2)
    assert run.cluster.partitions[first].replicas == (2, 3, 1), "its order is restored next"
    move_it = partial(run.cluster.alter_reassignments, {first: theirs})
    check_what_they_begin_stays(run, move_it, theirs)


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


def test_a_partition_that_somebody_moves_back_is_no_late_move_of_a_run_that_was_cancelled(
    tmp_path: Path,
) -> None:
    run = settling_after_a_cancel(tmp_path)
    assert run.end(run.driver()) is RunState.HALTED
    first = FIRST.topic_partition
    run.cluster.alter_reassignments({first: (4, 3, 2)})
    run.cluster.advance(60)
    run.go_on_with(plan_of(OTHER))
    run.until_moving(run.driver())
    run.cluster.alter_reassignments({first: FIRST.replicas_before})
    theirs = run.cluster.list_reassignments()[first]
    with pytest.raises(HaltedError, match="somebody else is reassigning 1 partition: orders-0"):
        run.driver().step()
    assert run.cluster.list_reassignments()[first] == theirs


@pytest.mark.parametrize("is_lost", [False, True])
def test_somebody_elses_move_a_month_after_a_lost_call_is_not_cancelled(
    tmp_path: Path, is_lost: bool
) -> None:
    """It does what the call would have done, which nobody answered, and nothing applied."""
    run = a_run(tmp_path, FIRST)
    if is_lost:
        lost = UnknownOutcomeError("no answer, and nothing was done", broker_id=3)
        run.cluster.fail_next("alter_reassignments", lost)
        run.driver().open()
        while not run.ledger.journal(run.run_id).submissions():
            run.cluster.advance(run.driver().step() or 0)
    else:
        run.until_moving(run.driver())
    cancelled(run)
    run.cluster.advance(30 * 86_400)
    run.go_on_with(plan_of(OTHER))
    run.until_moving(run.driver())
    partition = FIRST.topic_partition
    run.cluster.alter_reassignments({partition: FIRST.replicas_after})
    theirs = run.cluster.list_reassignments()[partition]
    try:
        for _ in range(5):
            run.driver().step()
    except HaltedError as error:
        assert "somebody else is reassigning" in str(error)
    assert run.cluster.list_reassignments().get(partition) == theirs


def settled_once_more(run: SimulatedRun) -> None:
    """As the watch does where a call of the run came late."""
    with run.ledger.journal(run.run_id).step() as step:
        step.note_late_call("config change")
        step.change_state(RunState.SETTLING, "a call came late")
    assert run.end(run.driver()) is RunState.HALTED


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


def test_an_order_that_somebody_changed_after_a_run_stays_where_the_watch_settles_it(
    tmp_path: Path,
) -> None:
    run = cancelled_an_hour_ago(tmp_path)
    reordered_by_somebody(run, (3, 2, 1))
    settled_once_more(run)
    assert run.cluster.partitions[FIRST.topic_partition].replicas == (3, 2, 1)


def test_a_run_that_is_executed_again_and_cancelled_restores_the_order_of_its_own_cancel(
    tmp_path: Path,
) -> None:
    run = cancelled_an_hour_ago(tmp_path)
    run.ledger.record_decision(run.approval())
    run.until_moving(run.driver())
    cancelled(run)
    assert run.cluster.partitions[FIRST.topic_partition].replicas == FIRST.replicas_before


def test_a_worker_whose_clock_is_behind_restores_the_order_of_its_own_cancel(
    tmp_path: Path,
) -> None:
    run = cancelled_an_hour_ago(tmp_path)
    run.cluster.now -= 7200
    run.ledger.record_decision(run.approval())
    run.until_moving(run.driver())
    cancelled(run)
    assert run.cluster.partitions[FIRST.topic_partition].replicas == FIRST.replicas_before


def reordered_half_way(folder: Path) -> SimulatedRun:
    """A run was cancelled between the two reassignments of a partition, which somebody reordered an
    hour later.
    """
    both = move("orders-0", "1 2 3", "4 5 3", size=3_000_000)
    picture = "orders-0: 1 2 3 size=3000000"
    run = SimulatedRun.of_moves(folder, picture, both, racks=f"{FOUR_BROKERS} 5=a")
    driver = run.driver()
    run.until_moving(driver)
    partition = run.cluster.partitions[both.topic_partition]
    while partition.is_moving:
        run.cluster.advance(0.5)
    assert partition.replicas == (1, 5, 3)
    cancelled(run)
    run.cluster.advance(3600)
    run.cluster.alter_reassignments({both.topic_partition: (3, 5, 1)})
    return run


def test_an_order_that_somebody_changed_half_way_is_drift(tmp_path: Path) -> None:
    run = reordered_half_way(tmp_path)
    with pytest.raises(StalePlanError, match="orders-0"):
        run.driver().open()


def test_an_order_that_somebody_changed_half_way_stays_where_the_watch_settles_it(
    tmp_path: Path,
) -> None:
    run = reordered_half_way(tmp_path)
    settled_once_more(run)
    assert run.cluster.partitions[FIRST.topic_partition].replicas == (3, 5, 1)


def beside_lost_calls(run: SimulatedRun, *asked: int) -> None:
    """Go on with a newer run beside one that was cancelled, with calls that nobody answered."""
    run.until_moving(run.driver())
    cancelled(run)
    with run.ledger.journal(run.run_id).step() as step:
        for broker_id in asked:
            step.submitting({OTHER.topic_partition: OTHER.replicas_after})
            step.unanswered([OTHER.topic_partition], broker_id)
    run.go_on_with(plan_of(FIRST))
    run.rate = 1_000  # it takes most of an hour
    run.until_moving(run.driver())


def come_late(run: SimulatedRun) -> None:
    """One of the calls is applied, and the newer run cancels that."""
    run.cluster.alter_reassignments({OTHER.topic_partition: OTHER.replicas_after})
    while OTHER.topic_partition in run.cluster.list_reassignments():
        run.cluster.advance(run.driver().step() or 0)
    run.cluster.advance(60)


def test_who_makes_a_move_whose_late_call_was_cancelled_is_somebody_else(tmp_path: Path) -> None:
    """While the newer run, which cancelled it, is still under way."""
    run = a_run(tmp_path, OTHER)
    beside_lost_calls(run, 3)
    come_late(run)
    run.cluster.alter_reassignments({OTHER.topic_partition: OTHER.replicas_after})
    theirs = run.cluster.list_reassignments()[OTHER.topic_partition]
    with pytest.raises(HaltedError, match="somebody else is reassigning"):
        run.driver().step()
    assert run.cluster.list_reassignments().get(OTHER.topic_partition) == theirs


@pytest.mark.parametrize("seconds_ahead", [0, 30])
def test_the_order_that_the_cancel_of_a_late_move_leaves_is_ours_whoever_opened_the_run(
    tmp_path: Path, seconds_ahead: int
) -> None:
    """Whatever the clock of the worker that did."""
    run = a_run(tmp_path, FIRST)
    run.until_moving(run.driver())
    earlier, first = run.run_id, FIRST.topic_partition
    cancelled(run)
    with run.ledger.journal(earlier).step() as step:
        step.submitting({first: FIRST.replicas_after})  # no answer came
    run.go_on_with(plan_of(move("orders-0", "1 2 3", "1 4 3", size=3_000_000), SECOND))
    run.cluster.now += seconds_ahead
    run.driver().open()
    run.cluster.now -= seconds_ahead
    run.cluster.alter_reassignments({first: FIRST.replicas_after})
    driver = run.driver()
    while first in run.cluster.list_reassignments():
        run.cluster.advance(driver.step() or 0)
    run.cluster.partitions[first].replicas = (2, 3, 1)  # as a cancel may leave it
    run.repeat(driver.step)
    assert run.end(run.driver()) is RunState.DONE
    assert own_configs(run.cluster) == {}


def test_of_two_late_calls_both_are_cancelled(tmp_path: Path) -> None:
    run = a_run(tmp_path, OTHER)
    beside_lost_calls(run, 3, 2)
    come_late(run)
    come_late(run)


def test_a_late_move_that_somebody_has_replaced_right_before_its_cancel_is_theirs(
    tmp_path: Path,
) -> None:
    run = replaced_by_a_late_move(tmp_path)
    first, theirs = FIRST.topic_partition, (3, 2, 4)

    def replace_it() -> None:
        run.cluster.alter_reassignments({first: (1, 2, 3)})
        run.cluster.alter_reassignments({first: None})
        run.cluster.alter_reassignments({first: theirs})

    stopped_after_observing(run.driver(), replace_it).step()
    assert run.cluster.list_reassignments()[first].target == theirs
    assert run.log[-1] == "1 partition changed meanwhile: observing again"
    with pytest.raises(HaltedError, match="somebody else is reassigning 1 partition"):
        run.driver().step()
    assert run.cluster.list_reassignments()[first].target == theirs


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
