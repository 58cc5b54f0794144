"""What somebody removes, or changes, while a run holds the key, is what the run leaves there."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from counterpoise.model.kafka import (
    FOLLOWER_RATE,
    LEADER_RATE,
    LEADER_REPLICAS,
    LIST_KEYS,
    RATE_KEYS,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
)
from counterpoise.model.plan import Move
from counterpoise.model.policy import MovementPolicy
from counterpoise.model.run import RunState
from tests.support.crashes import Countdown, Crash, CrashingProxy
from tests.support.ledger_view import let_step_locks_run_out
from tests.support.plans import move
from tests.support.runs import FOUR_BROKERS, SimulatedRun, at_broker, of_topic, own_configs

ORDERS = of_topic("orders")
SIZE = 3_000_000
FIRST = move("orders-0", "1 2 3", "4 2 3", size=SIZE)
SECOND = move("orders-1", "1 2 3", "4 2 3", size=SIZE)


def set_by_somebody(
    run: SimulatedRun, resource: ConfigResource, key: str, value: str | None
) -> None:
    """None: deletes the key."""
    operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
    run.cluster.alter_configs([ConfigChange(resource, key, operation, value or "")])


def verify_by_kafkas_tool(run: SimulatedRun) -> None:
    """`kafka-reassign-partitions --verify` removes the throttles of all brokers, and of topics."""
    at_brokers = [
        (at_broker(broker_id), key) for broker_id in run.cluster.brokers for key in RATE_KEYS
    ]
    at_topics = [(ORDERS, key) for key in LIST_KEYS]
    deleted = [ConfigChange(*where, ConfigOperation.DELETE) for where in (*at_brokers, *at_topics)]
    run.cluster.alter_configs(deleted)


def left_at_the_end(run: SimulatedRun) -> Mapping[ConfigResource, Mapping[str, str]]:
    driver = run.driver()
    run.repeat(driver.step)
    assert run.end(driver) is RunState.DONE, run.run.reason
    return own_configs(run.cluster)


def test_a_rate_of_before_that_somebody_deleted_does_not_come_back(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path)
    set_by_somebody(run, at_broker(1), LEADER_RATE, "50000000")  # an earlier tool left it there
    run.until_moving(run.driver())
    verify_by_kafkas_tool(run)
    assert left_at_the_end(run) == {}


def test_a_list_of_before_that_somebody_deleted_is_not_left_set_and_empty(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path)
    set_by_somebody(run, ORDERS, LEADER_REPLICAS, "77:1,77:2")
    run.until_moving(run.driver())
    verify_by_kafkas_tool(run)
    assert left_at_the_end(run) == {}


def test_a_rate_above_ours_that_somebody_sets_is_there_afterwards(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path)
    run.until_moving(run.driver())
    set_by_somebody(run, at_broker(4), FOLLOWER_RATE, "5000000")
    assert left_at_the_end(run) == {at_broker(4): {FOLLOWER_RATE: "5000000"}}


# -- keys that nothing in flight needs at that moment


FIVE_BROKERS = f"{FOUR_BROKERS} 5=e"
ONE_AT_A_TIME = MovementPolicy(max_moves_in_flight=1)


def one_at_a_time(folder: Path, *moves: Move) -> SimulatedRun:
    names = sorted({str(move.topic_partition) for move in moves})
    picture = "\n".join(f"{name}: 1 2 3 size={SIZE}" for name in names)
    return SimulatedRun.of_moves(folder, picture, *moves, racks=FIVE_BROKERS, limits=ONE_AT_A_TIME)


@pytest.mark.parametrize(
    ("before", "theirs"), [(None, "5000000"), ("50000000", None), ("50000000", "30000000")]
)
def test_a_rate_for_a_move_to_come_is_left_as_somebody_sets_it_meanwhile(
    tmp_path: Path, before: str | None, theirs: str | None
) -> None:
    run = one_at_a_time(tmp_path, FIRST, move("other-0", "1 2 3", "5 2 3", size=SIZE))
    if before is not None:
        set_by_somebody(run, at_broker(5), FOLLOWER_RATE, before)
    run.until_moving(run.driver())
    assert list(run.cluster.list_reassignments()) == [FIRST.topic_partition]
    assert own_configs(run.cluster)[at_broker(5)] == {FOLLOWER_RATE: "1000000"}
    set_by_somebody(run, at_broker(5), FOLLOWER_RATE, theirs)
    assert left_at_the_end(run) == ({at_broker(5): {FOLLOWER_RATE: theirs}} if theirs else {})


@pytest.mark.parametrize("theirs", [None, "30000000"])
def test_what_somebody_sets_after_a_kill_before_the_first_change_is_there_afterwards(
    tmp_path: Path, theirs: str | None
) -> None:
    run = SimulatedRun.make(tmp_path)
    set_by_somebody(run, at_broker(1), LEADER_RATE, "50000000")
    killed = run.driver(CrashingProxy(run.cluster, ("alter_configs",), Countdown(0)))
    with pytest.raises(Crash):
        run.go(killed)
    let_step_locks_run_out(run.ledger)
    run.cluster.advance(3600)
    set_by_somebody(run, at_broker(1), LEADER_RATE, theirs)
    assert run.go() is RunState.DONE, run.run.reason
    run.cluster.advance(60)
    run.restore_pending()
    assert own_configs(run.cluster) == ({at_broker(1): {LEADER_RATE: theirs}} if theirs else {})


# -- what is ours is never taken for theirs


def observed_behind(run: SimulatedRun) -> None:
    """One observation, with all its repetitions, is of older metadata."""
    run.cluster.stale_config_reads = 1000
    run.cluster.advance(run.driver().step() or 0)
    run.cluster.stale_config_reads = 0


def test_entries_taken_back_that_a_broker_behind_shows_are_not_the_value_of_before(
    tmp_path: Path,
) -> None:
    run = one_at_a_time(tmp_path, FIRST, SECOND)
    run.until_moving(run.driver())
    (first,) = run.cluster.list_reassignments()
    while first in run.cluster.list_reassignments() or not run.cluster.list_reassignments():
        run.cluster.advance(run.driver().step() or 0)
    for _ in range(3):
        run.cluster.advance(run.driver().step() or 0)
    observed_behind(run)
    assert left_at_the_end(run) == {}


# -- one gap is one gap
