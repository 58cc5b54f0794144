"""Plain faults, one or two at a time: a lost answer, a dead broker, a kill, another tool."""

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from counterpoise.errors import CounterpoiseError, HaltedError, UnknownOutcomeError
from counterpoise.execution import Driver
from counterpoise.model.control import Control
from counterpoise.model.kafka import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    CallResults,
    ConfigChange,
    ConfigOperation,
)
from counterpoise.model.run import RunState
from tests.simulation.test_design_sequences import sweep
from tests.simulation.test_emergency_stop import stop
from tests.simulation.test_whose_moves import FIRST, OTHER, PICTURE, SECOND, a_run, plan_of
from tests.support.crashes import Crash
from tests.support.ledger_view import let_step_locks_run_out, way_back_of
from tests.support.pictures import cluster
from tests.support.plans import move
from tests.support.runs import FOUR_BROKERS, SimulatedRun, at_broker, of_topic, own_configs

LARGE = 500_000_000_000


def throttled_by_others(run: SimulatedRun) -> None:
    """Another tool moves other-0 to broker 4, under the rates that the run has set."""
    rate = str(run.rate)
    changes = [
        ConfigChange(of_topic("other"), LEADER_REPLICAS, ConfigOperation.SET, "0:1,0:2,0:3"),
        ConfigChange(of_topic("other"), FOLLOWER_REPLICAS, ConfigOperation.SET, "0:4"),
        *(ConfigChange(at_broker(b), LEADER_RATE, ConfigOperation.SET, rate) for b in (1, 2, 3)),
        ConfigChange(at_broker(4), FOLLOWER_RATE, ConfigOperation.SET, rate),
    ]
    run.cluster.alter_configs(changes)
    run.cluster.alter_reassignments({OTHER.topic_partition: OTHER.replicas_after})


def test_a_rate_stays_as_long_as_a_copy_of_another_tool_outside_the_plan_uses_it(
    tmp_path: Path,
) -> None:
    run = a_run(tmp_path, FIRST, SECOND)
    run.cluster.partitions[OTHER.topic_partition].size_bytes = 3_000_000_000
    run.until_moving(run.driver())
    throttled_by_others(run)
    with pytest.raises(HaltedError, match="somebody else"):
        run.repeat(run.driver().step)
    assert run.end(run.driver()) in (RunState.HALTED, RunState.DONE)
    assert OTHER.topic_partition in run.cluster.list_reassignments()
    assert own_configs(run.cluster)[at_broker(4)] == {FOLLOWER_RATE: str(run.rate)}
    sweep(run)
    assert own_configs(run.cluster)[at_broker(4)] == {FOLLOWER_RATE: str(run.rate)}
    run.cluster.advance(7200)
    sweep(run)
    assert own_configs(run.cluster).keys() == {of_topic("other")}, "the lists are theirs"


def test_a_move_whose_first_call_was_lost_is_ours_also_when_it_lasts_for_days(
    tmp_path: Path,
) -> None:
    moved = move("big-0", "1 2 3", "4 2 3", size=LARGE)
    run = SimulatedRun.of_moves(tmp_path, f"big-0: 1 2 3 size={LARGE}", moved)
    run.cluster.fail_next("alter_reassignments", UnknownOutcomeError("no answer", broker_id=1))
    run.until_moving(run.driver())
    run.repeat_for(run.driver().step, 30 * 3600, every=240)
    assert moved.topic_partition in run.cluster.list_reassignments()
    assert run.run.state is RunState.RUNNING


def test_of_two_calls_without_an_answer_the_second_may_have_begun_a_move_that_lasts_for_days(
    tmp_path: Path,
) -> None:
    moved = move("big-0", "1 2 3", "4 2 3", size=LARGE)
    run = SimulatedRun.of_moves(tmp_path, f"big-0: 1 2 3 size={LARGE}", moved)
    run.cluster.fail_next("alter_reassignments", UnknownOutcomeError("no answer", broker_id=1))
    driver = run.driver()
    driver.open()
    while not run.view.submitted(run.run_id):
        run.cluster.advance(driver.step() or 0)
    run.cluster.lose_response_of_next("alter_reassignments")
    run.until_moving(driver)
    run.repeat_for(driver.step, 30 * 3600, every=240)
    assert run.run.state is RunState.RUNNING


def opened(driver: Driver) -> Driver:
    driver.open()
    return driver


def test_what_kafka_refused_of_a_run_and_somebody_moved_by_hand_is_not_undone(
    tmp_path: Path,
) -> None:
    run = a_run(tmp_path, FIRST, SECOND)
    refused = SECOND.topic_partition

    class Refusing:
        def __getattr__(self, name: str) -> Any:
            return getattr(run.cluster, name)

        def alter_reassignments(self, targets: Any, **options: Any) -> Any:
            allowed = {tp: target for tp, target in targets.items() if tp != refused}
            results = run.cluster.alter_reassignments(allowed, **options)
            errors = {tp: "INVALID_REPLICA_ASSIGNMENT: no" for tp in targets if tp == refused}
            return CallResults(results.accepted, {**results.errors, **errors})

    refusing: Any = Refusing()
    with pytest.raises(HaltedError, match="refused orders-1"):
        run.repeat_for(opened(run.driver(refusing)).step, 600)
    assert run.end(run.driver(refusing)) is RunState.HALTED
    now = cluster(
        PICTURE.replace("orders-0: 1", "orders-0: 4").replace("orders-1: 1", "orders-1: 4"),
        racks=FOUR_BROKERS,
    )
    way_back = way_back_of(run.ledger, run.run, run.plan, now)
    assert [m.topic_partition for m in way_back.moves] == [FIRST.topic_partition]


def test_a_kill_between_the_intent_and_the_call_leaves_what_an_operator_sets_then(
    tmp_path: Path,
) -> None:
    run = a_run(tmp_path, FIRST)

    class Killed:
        def __getattr__(self, name: str) -> Any:
            return getattr(run.cluster, name)

        def alter_configs(self, *_: Any, **__: Any) -> Any:
            raise Crash

    killed: Any = Killed()
    with pytest.raises(Crash):
        run.until_moving(run.driver(killed))
    let_step_locks_run_out(run.ledger)
    set_rate(run, 4, "70000000")
    run.cluster.advance(3 * 86_400)
    run.repeat(run.driver().settle_step)
    sweep(run)
    assert own_configs(run.cluster) == {at_broker(4): {FOLLOWER_RATE: "70000000"}}


def set_rate(run: SimulatedRun, broker_id: int, rate: str) -> None:
    run.cluster.alter_configs(
        [ConfigChange(at_broker(broker_id), FOLLOWER_RATE, ConfigOperation.SET, rate)]
    )


def test_what_a_reassignment_that_nobody_verified_left_throttled_stays(tmp_path: Path) -> None:
    """`kafka-reassign-partitions --verify` never ran: its rates and lists are there before."""
    run = a_run(tmp_path, FIRST, SECOND)
    throttled_by_others(run)
    run.cluster.alter_configs(
        [
            ConfigChange(of_topic("orders"), FOLLOWER_REPLICAS, ConfigOperation.SET, "0:4,5:4"),
            ConfigChange(of_topic("orders"), LEADER_REPLICAS, ConfigOperation.SET, "0:1,0:2"),
        ]
    )
    run.cluster.advance(3600)
    theirs = own_configs(run.cluster)
    run.cluster.partitions[OTHER.topic_partition].replicas = OTHER.replicas_before
    assert run.go() is RunState.DONE
    assert own_configs(run.cluster) == theirs
    sweep(run)
    assert own_configs(run.cluster) == theirs


@pytest.mark.parametrize("rate", [500_000, 1_000_000, 2_000_000])
def test_a_run_beside_what_an_ended_one_could_not_restore_gives_back_what_was_before_both(
    tmp_path: Path, rate: int
) -> None:
    run = a_run(tmp_path, FIRST)
    set_rate(run, 4, "90000000")
    run.until_moving(run.driver())
    run.cluster.kill_broker(4)
    run.halt()
    assert run.end(run.driver()) is RunState.HALTED
    assert run.view.pending_keys()
    run.cluster.advance(3 * 86_400)
    run.cluster.restart_broker(4)
    run.cluster.advance(30)
    second = replace(run, rate=rate)
    run.cluster.partitions[SECOND.topic_partition].size_bytes = 60_000_000
    second.go_on_with(plan_of(SECOND))
    second.until_moving(second.driver())
    sweep(run)
    second.cluster.advance(second.driver().step() or 0)
    second.cluster.advance(second.driver().step() or 0)
    in_force = own_configs(run.cluster)[at_broker(4)][FOLLOWER_RATE]
    assert int(in_force) <= rate
    assert second.go() is RunState.DONE
    sweep(run, second)
    assert own_configs(run.cluster) == {at_broker(4): {FOLLOWER_RATE: "90000000"}}
    assert not run.view.pending_keys()


class FullDisk:
    """A ledger's disk that has no room from its nth write on, until there is some again."""

    def __init__(self, run: SimulatedRun, room_for: int) -> None:
        self.engine, self.room_for = run.ledger._engine, room_for
        sa.event.listen(self.engine, "before_cursor_execute", self.write)

    def write(self, _connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith(("INSERT", "UPDATE")):
            self.room_for -= 1
            if self.room_for < 0:
                raise sa.exc.OperationalError(statement, None, Exception("disk is full"))

    def make_room(self) -> None:
        sa.event.remove(self.engine, "before_cursor_execute", self.write)


@pytest.mark.parametrize("room_for", range(9, 80, 7))
def test_a_ledger_that_has_no_room_midway_leaves_nothing_when_it_has_some_again(
    tmp_path: Path, room_for: int
) -> None:
    run = a_run(tmp_path, FIRST, SECOND)
    run.driver().open()
    disk = FullDisk(run, room_for)
    with pytest.raises((CounterpoiseError, sa.exc.OperationalError)):
        run.go()
    disk.make_room()
    run.cluster.advance(1200)
    let_step_locks_run_out(run.ledger)
    run.repeat(run.driver().settle_step)
    sweep(run)
    assert own_configs(run.cluster) == {}
    assert not run.cluster.list_reassignments()
    assert not run.view.pending_keys()


def test_a_tool_that_sets_the_lists_of_its_own_moves_midway_has_them_afterwards(
    tmp_path: Path,
) -> None:
    """topicctl sets lists of the topic whole, and the same rate, and does not take them back."""
    run = a_run(tmp_path, FIRST, SECOND)
    run.until_moving(run.driver())
    lists = own_configs(run.cluster)[of_topic("orders")]
    whole = [
        ConfigChange(of_topic("orders"), key, ConfigOperation.SET, f"{value},7:9")
        for key, value in lists.items()
    ]
    run.cluster.alter_configs(whole)
    assert run.go() is RunState.DONE
    sweep(run)
    assert own_configs(run.cluster) == {of_topic("orders"): dict.fromkeys(lists, "7:9")}


def test_a_stop_beside_a_dead_broker_says_what_it_may_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_run(tmp_path, FIRST)
    run.until_moving(run.driver())
    run.cluster.kill_broker(4)
    run.cluster.advance(30)
    stopped = stop(run, monkeypatch)
    assert own_configs(run.cluster) == {at_broker(4): {FOLLOWER_RATE: str(run.rate)}}
    assert [key.resource for key in stopped.pending_keys] == [at_broker(4)]
    run.cluster.advance(3 * 86_400)
    run.cluster.restart_broker(4)
    run.cluster.advance(30)
    assert not stop(run, monkeypatch).pending_keys
    assert own_configs(run.cluster) == {}


def test_keys_that_a_run_may_not_write_any_more_are_restored_when_it_may_again(
    tmp_path: Path,
) -> None:
    run = a_run(tmp_path, FIRST, SECOND)

    class Forbidding:
        def __getattr__(self, name: str) -> Any:
            return getattr(run.cluster, name)

        def alter_configs(self, changes: Any, **_: Any) -> Any:
            return CallResults(
                (), {change.resource: "CLUSTER_AUTHORIZATION_FAILED: no" for change in changes}
            )

    forbidding: Any = Forbidding()
    run.until_moving(run.driver())
    in_force = own_configs(run.cluster)
    with contextlib.suppress(HaltedError):
        run.repeat(run.driver(forbidding).step)
    assert run.end(run.driver(forbidding)) in (RunState.DONE, RunState.HALTED)
    assert own_configs(run.cluster) == in_force
    assert len(run.view.pending_keys()) == sum(map(len, in_force.values()))
    sweep(run)
    assert own_configs(run.cluster) == {}


@pytest.mark.parametrize("away_seconds", [20, 600, 3 * 86_400])
def test_a_broker_that_froze_within_a_call_leaves_nothing_whenever_it_wakes(
    tmp_path: Path, away_seconds: int
) -> None:
    run = a_run(tmp_path, FIRST, SECOND)
    driver = opened(run.driver())
    run.cluster.freeze_broker(4)
    run.cluster.advance(driver.step() or 0)
    run.ask(Control.CANCEL)
    with pytest.raises(HaltedError):
        run.repeat(driver.step)
    assert run.end(driver) in (RunState.CANCELLED, RunState.HALTED)
    run.cluster.advance(away_seconds)
    sweep(run)
    run.cluster.thaw_broker(4)
    run.cluster.advance(30)
    sweep(run)
    assert own_configs(run.cluster) == {}
    assert not run.view.pending_keys()
