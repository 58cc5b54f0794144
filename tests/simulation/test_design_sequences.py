"""What others do, and what dies, after and between runs: a run gives back what it owns, and leaves
all else alone.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counterpoise.errors import HaltedError
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.control import Control
from counterpoise.model.kafka import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    ConfigChange,
    ConfigOperation,
)
from counterpoise.model.request import Goal
from counterpoise.model.run import RunState
from tests.support.crashes import Crash
from tests.support.ledger_view import let_step_locks_run_out, submit_was_not_answered, way_back_of
from tests.support.pictures import cluster
from tests.support.plans import move, plan_by_hand
from tests.support.runs import (
    FOUR_BROKERS,
    SimulatedRun,
    at_broker,
    of_topic,
    own_configs,
    times_submitted,
)

PICTURE = "orders-0: 1 2 3 size=3000000\norders-1: 1 2 3 size=3000000"
FIRST = move("orders-0", "1 2 3", "4 2 3", size=3_000_000)
SECOND = move("orders-1", "1 2 3", "4 2 3", size=3_000_000)
TO_FOUR = {m.topic_partition: m.replicas_after for m in (FIRST, SECOND)}
SNAPSHOT = cluster(PICTURE, racks=FOUR_BROKERS)


@pytest.fixture
def run(tmp_path: Path) -> SimulatedRun:
    return SimulatedRun.of_moves(tmp_path, PICTURE, FIRST, SECOND)


def sweep(*runs: SimulatedRun) -> None:
    """What the watch does for runs that have ended."""
    for run in runs:
        run.repeat(run.driver().sweep_step)
        run.restore_pending()


def set_by_others(run: SimulatedRun, rate: str) -> None:
    change = ConfigChange(at_broker(4), FOLLOWER_RATE, ConfigOperation.SET, rate)
    run.cluster.alter_configs([change])


def rate_of_four(run: SimulatedRun) -> str | None:
    return own_configs(run.cluster).get(at_broker(4), {}).get(FOLLOWER_RATE)


def ended_after_a_halt(run: SimulatedRun) -> None:
    run.until_moving(run.driver())
    run.halt()
    assert run.end(run.driver()) is RunState.HALTED


def test_what_another_tool_sets_two_hours_later_as_we_had_it_stays(run: SimulatedRun) -> None:
    assert run.go() is RunState.DONE
    run.cluster.advance(7200)
    set_by_others(run, str(run.rate))
    entry = ConfigChange(of_topic("orders"), FOLLOWER_REPLICAS, ConfigOperation.SET, "0:4")
    run.cluster.alter_configs([entry])
    theirs = own_configs(run.cluster)
    sweep(run)
    assert own_configs(run.cluster) == theirs


def test_the_keys_of_a_broker_that_returns_days_later_are_restored_by_the_first_sweep(
    run: SimulatedRun,
) -> None:
    run.until_moving(run.driver())
    run.cluster.kill_broker(4)
    with pytest.raises(HaltedError):
        run.repeat(run.driver().step, 3000)
    assert run.end(run.driver()) is RunState.HALTED
    run.cluster.advance(3 * 86_400)
    run.cluster.restart_broker(4)
    run.cluster.advance(30)
    assert rate_of_four(run) is not None
    sweep(run)
    assert own_configs(run.cluster) == {}


def test_who_starts_after_a_kill_inside_the_call_that_submits_knows_that_it_may_have_happened(
    run: SimulatedRun,
) -> None:
    class Killed:
        def __getattr__(self, name: str) -> Any:
            return getattr(run.cluster, name)

        def alter_reassignments(self, *args: Any, **options: Any) -> Any:
            run.cluster.alter_reassignments(*args, **options)
            raise Crash

    killed: Any = Killed()
    with pytest.raises(Crash):
        run.until_moving(run.driver(killed))
    let_step_locks_run_out(run.ledger)
    assert all(submitted.is_unanswered for submitted in run.view.submitted(run.run_id))
    assert run.go() is RunState.DONE
    assert set(times_submitted(run.cluster).values()) == {1}
    assert own_configs(run.cluster) == {}


def test_what_a_person_finishes_by_hand_after_a_halt_is_left_alone(run: SimulatedRun) -> None:
    run.cluster.lose_response_of_next("alter_configs")
    ended_after_a_halt(run)
    run.cluster.advance(3600)
    run.cluster.alter_reassignments(TO_FOUR)
    sweep(run)
    assert run.cluster.list_reassignments().keys() == TO_FOUR.keys()
    run.cluster.advance(600)
    sweep(run)
    assert {p.replicas for p in run.cluster.partitions.values()} == {(4, 2, 3)}
    assert own_configs(run.cluster) == {}


def test_the_moves_of_a_second_run_to_the_same_targets_are_not_taken_for_late_ones_of_the_first(
    run: SimulatedRun,
) -> None:
    ended_after_a_halt(run)
    submit_was_not_answered(run.ledger, run.run_id, TO_FOUR)
    second = replace(run)
    second.go_on_with(plan_by_hand(SNAPSHOT, Goal.REBALANCE, SECOND, FIRST))
    second.until_moving(second.driver())
    sweep(run)
    assert second.cluster.list_reassignments()
    assert second.go() is RunState.DONE
    sweep(run, second)
    assert own_configs(run.cluster) == {}


def test_a_rate_that_an_operator_sets_midway_stays_also_where_the_run_had_used_it(
    run: SimulatedRun,
) -> None:
    driver = run.driver()
    run.until_moving(driver)
    for rate in (500_000, 800_000):
        run.ask(Control.RATE, rate_bytes_per_second=rate)
        for _ in range(4):
            run.cluster.advance(driver.step() or 0)
    assert rate_of_four(run) == "800000"
    set_by_others(run, "500000")
    run.repeat(driver.step)
    run.repeat(driver.settle_step)
    assert run.run.state is RunState.DONE
    assert rate_of_four(run) == "500000"


def test_the_rate_before_two_runs_is_back_when_a_broker_that_was_dead_in_between_returns(
    tmp_path: Path,
) -> None:
    run = SimulatedRun.of_moves(tmp_path, PICTURE, FIRST)
    set_by_others(run, "90000000")
    run.until_moving(run.driver())
    run.cluster.kill_broker(4)
    run.halt()
    assert run.end(run.driver()) is RunState.HALTED
    run.cluster.restart_broker(4)
    run.cluster.advance(30)
    second = replace(run, rate=1_200_000)
    second.go_on_with(plan_by_hand(SNAPSHOT, Goal.REBALANCE, SECOND))
    second.until_moving(second.driver())
    second.cluster.kill_broker(4)
    second.halt()
    assert second.end(second.driver()) is RunState.HALTED
    second.cluster.restart_broker(4)
    second.cluster.advance(30)
    sweep(second, run)
    assert own_configs(run.cluster) == {at_broker(4): {FOLLOWER_RATE: "90000000"}}


def test_a_list_that_a_kill_left_empty_goes_where_it_was_unset(run: SimulatedRun) -> None:
    run.until_moving(run.driver())
    entries = own_configs(run.cluster)[of_topic("orders")][FOLLOWER_REPLICAS]
    taken = ConfigChange(of_topic("orders"), FOLLOWER_REPLICAS, ConfigOperation.SUBTRACT, entries)
    run.halt()
    while run.cluster.list_reassignments():
        run.cluster.advance(run.driver().settle_step() or 0)
    run.cluster.alter_configs([taken])
    assert run.end(run.driver()) is RunState.HALTED
    sweep(run)
    assert own_configs(run.cluster) == {}


def test_what_somebody_moves_by_hand_after_a_halt_is_listed_by_an_undo_and_not_moved(
    run: SimulatedRun,
) -> None:
    run.limits = replace(run.limits, max_moves_in_flight=1)
    run.until_moving(run.driver())
    (ours,) = run.cluster.list_reassignments()
    run.cluster.advance(600)
    run.halt()
    assert run.end(run.driver()) is RunState.HALTED
    (theirs,) = TO_FOUR.keys() - {ours}
    run.cluster.alter_reassignments({theirs: (4, 2, 3)})
    now = replaced(SNAPSHOT, ours, theirs)
    way_back = way_back_of(run.ledger, run.run, run.plan, now)
    assert [m.topic_partition for m in way_back.moves] == [ours]
    assert list(way_back.left) == [theirs]


def replaced(snapshot: Any, *moved: TopicPartition) -> Any:
    picture = "\n".join(
        line.replace("1 2 3", "4 2 3") if line.startswith(tuple(map(str, moved))) else line
        for line in PICTURE.splitlines()
    )
    return cluster(picture, racks=FOUR_BROKERS)


def test_a_rate_that_an_operator_sets_between_two_executions_is_there_afterwards(
    run: SimulatedRun,
) -> None:
    ended_after_a_halt(run)
    assert own_configs(run.cluster) == {}
    set_by_others(run, "70000000")
    assert run.go() is RunState.DONE
    assert own_configs(run.cluster) == {at_broker(4): {FOLLOWER_RATE: "70000000"}}
