"""Runs on the simulated cluster: promises 2 to 7, with a crash at every single call."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from counterpoise.errors import (
    HaltedError,
    StalePlanError,
    UnknownOutcomeError,
    WrongClusterError,
)
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import (
    CallResults,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
)
from counterpoise.model.policy import BalancePolicy, MovementPolicy
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.model.run import RunState
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.crashes import MUTATING, ended_after_crashes
from tests.support.plans import move
from tests.support.runs import (
    FOUR_BROKERS,
    SKEWED,
    SimulatedRun,
    own_configs,
    times_submitted,
)

ORDERS = ConfigResource(ConfigResourceType.TOPIC, "orders")
BROKER_1 = ConfigResource(ConfigResourceType.BROKER, "1")
BROKER_4 = ConfigResource(ConfigResourceType.BROKER, "4")
LEADER_RATE, FOLLOWER_RATE = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
)
LEADER_LIST, FOLLOWER_LIST = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)


def set_config(cluster: SimulatedCluster, resource: ConfigResource, key: str, value: str) -> None:
    cluster.alter_configs([ConfigChange(resource, key, ConfigOperation.SET, value)])


def test_a_run_ends_at_the_plan_with_configs_as_before(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path)
    assert run.go() is RunState.DONE
    assert run.placement() == run.planned_placement()
    assert own_configs(run.cluster) == {}
    assert max(times_submitted(run.cluster).values()) == 1


def test_nothing_is_submitted_before_every_throttle_is_in_force(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path)
    submit = run.cluster.alter_reassignments
    seen: list[dict[str, str]] = []

    def watched(targets: Any, **options: Any) -> Any:
        seen.append(
            {
                key: value
                for values in own_configs(run.cluster).values()
                for key, value in values.items()
            }
        )
        return submit(targets, **options)

    run.cluster.alter_reassignments = watched  # type: ignore[method-assign]
    run.go()
    assert seen[0].keys() == {LEADER_RATE, FOLLOWER_RATE, LEADER_LIST, FOLLOWER_LIST}
    assert seen[0][FOLLOWER_RATE] == "1000000"


def test_what_others_had_set_before_is_there_again_afterwards(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path)
    set_config(run.cluster, ORDERS, LEADER_LIST, "7:3,0:1")  # one entry is also ours
    set_config(run.cluster, ORDERS, FOLLOWER_LIST, "*")
    set_config(run.cluster, BROKER_1, LEADER_RATE, "500000")  # slower than ours: stays in force
    set_config(run.cluster, BROKER_4, FOLLOWER_RATE, "90000000")  # faster than ours
    before = own_configs(run.cluster)
    assert run.go() is RunState.DONE
    assert own_configs(run.cluster) == before
    keys = {owned.key for owned in run.owned_keys() if owned.resource == BROKER_1}
    assert LEADER_RATE not in keys


def test_a_rate_that_somebody_changed_meanwhile_is_left_alone_and_named(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path)
    driver = run.driver()
    run.until_moving(driver)
    set_config(run.cluster, BROKER_4, FOLLOWER_RATE, "777777")
    run.repeat(driver.step)
    run.repeat(driver.settle_step)
    assert run.run.state is RunState.DONE
    assert own_configs(run.cluster) == {BROKER_4: {FOLLOWER_RATE: "777777"}}
    left = run.view.left_as_others_set_them(run.run_id)
    assert left == {f"broker 4: {FOLLOWER_RATE}"}


def test_a_crash_before_or_after_any_write_loses_nothing_and_moves_nothing_twice(
    tmp_path: Path,
) -> None:
    made = SimulatedRun.make(tmp_path)
    made.limits, made.rate = MovementPolicy(max_moves_in_flight=4), 2_000_000
    set_config(made.cluster, ORDERS, LEADER_LIST, "7:3")
    before, crashes = own_configs(made.cluster), -1
    for crashes, run in enumerate(ended_after_crashes(made)):
        assert run.placement() == run.planned_placement(), f"crash {crashes}"
        assert own_configs(run.cluster) == before, f"crash {crashes}"
        changes = Counter(
            tp
            for call in run.cluster.calls
            if call.name == "alter_reassignments"
            for tp in call.argument  # type: ignore[attr-defined]
        )
        # Submitted again only where the answer was lost before the cluster was asked: never what
        # was under way.
        assert max(changes.values()) == 1, f"crash {crashes}"
    assert crashes > 30, "every write of the run was crashed at"


@pytest.mark.parametrize("call", MUTATING)
def test_a_lost_answer_is_an_unknown_outcome_and_never_done_twice(
    tmp_path: Path, call: str
) -> None:
    run = SimulatedRun.make(tmp_path)
    run.cluster.lose_response_of_next(call)
    try:
        run.go()
    except UnknownOutcomeError:
        assert run.go() is RunState.DONE
    assert run.run.state is RunState.DONE
    assert run.placement() == run.planned_placement()
    assert own_configs(run.cluster) == {}
    assert max(times_submitted(run.cluster).values()) == 1


def test_an_unanswered_move_that_comes_late_is_waited_for_before_anything_is_restored(
    tmp_path: Path,
) -> None:
    run = SimulatedRun.make(tmp_path)
    driver = run.driver()
    driver.open()
    run.cluster.fail_next("alter_reassignments", UnknownOutcomeError("no answer"))
    while "no answer" not in run.event_kinds():
        run.cluster.advance(driver.step() or 0)
    assert driver.settle_step() is not None
    assert own_configs(run.cluster), "the throttle stays on while the move may still come"
    late = {move.topic_partition: move.replicas_after for move in run.plan.moves if move.adding}
    run.cluster.alter_reassignments(late)
    run.repeat(driver.settle_step)
    assert own_configs(run.cluster) == {}
    assert not run.cluster.list_reassignments()


def test_somebody_elses_reassignment_is_never_touched(tmp_path: Path) -> None:
    picture = SKEWED + "\nforeign-0: 1 2 3 size=50000000"
    run = SimulatedRun.make(tmp_path, picture, request=PlanRequest(Goal.LEADERS))
    driver = run.driver()
    driver.open()
    foreign = TopicPartition("foreign", 0)
    run.cluster.alter_reassignments({foreign: (1, 2, 4)})
    calls_before = len(run.cluster.calls)
    with pytest.raises(HaltedError, match="somebody else is reassigning 1 partition: foreign-0"):
        driver.step()
    run.repeat(driver.settle_step)
    assert run.run.state is RunState.HALTED
    assert not [c for c in run.cluster.calls[calls_before:] if c.name in MUTATING]


def test_a_run_does_not_start_beside_somebody_elses_reassignment(tmp_path: Path) -> None:
    picture = "orders-0: 1 2 3 size=1000\nforeign-0: 1 2 3 size=50000000"
    planned = move("orders-0", "1 2 3", "4 2 3", size=1000)
    run = SimulatedRun.of_moves(tmp_path, picture, planned, racks="1 2 3 4")
    run.cluster.alter_reassignments({TopicPartition("foreign", 0): (1, 2, 4)})
    with pytest.raises(StalePlanError, match="somebody else is reassigning"):
        run.driver().open()
    assert run.run.state is RunState.APPROVED
    assert own_configs(run.cluster) == {}


def test_another_cluster_that_answers_is_neither_run_nor_stopped(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path)
    run.cluster.cluster_id = "another-id"
    for meets_it in (run.driver().open, run.driver().check_cluster):
        with pytest.raises(WrongClusterError, match="another-id answered"):
            meets_it()
    assert not [call for call in run.cluster.calls if call.name in MUTATING]


def test_a_halted_run_goes_on_when_it_is_executed_again(tmp_path: Path) -> None:
    picture = SKEWED + "\nforeign-0: 1 2 3 size=50000"
    policy = BalancePolicy(excluded_topics=("foreign",))
    run = SimulatedRun.make(tmp_path, picture, request=PlanRequest(Goal.ADD_BROKERS, (4,), policy))
    foreign = TopicPartition("foreign", 0)
    driver = run.driver()
    run.until_moving(driver)
    run.cluster.alter_reassignments({foreign: (4, 2, 3)})
    with pytest.raises(HaltedError):
        run.repeat(driver.step)
    run.repeat(driver.settle_step)
    assert run.run.state is RunState.HALTED
    assert own_configs(run.cluster) == {}
    run.cluster.alter_reassignments({foreign: (1, 2, 3)})
    run.cluster.advance(600)
    assert run.go() is RunState.DONE
    assert own_configs(run.cluster) == {}
    assert max(n for (tp, _), n in times_submitted(run.cluster).items() if tp != foreign) == 1


@pytest.mark.parametrize(
    ("drift", "what"),
    [
        (
            lambda c: c.alter_reassignments({TopicPartition("orders", 0): (3, 2, 1)}),
            "another order",
        ),
        (
            lambda c: c.alter_reassignments({TopicPartition("orders", 0): (1, 2, 4)}),
            "a reassignment of its own",
        ),
        (lambda c: c.delete_topic("orders"), "a deleted topic"),
        (lambda c: c.topic_ids.update(orders="another-id"), "a topic made anew"),
    ],
    ids=["order", "reassignment", "deleted", "recreated"],
)
def test_drift_refuses_and_changes_nothing(
    tmp_path: Path, drift: Callable[[SimulatedCluster], object], what: str
) -> None:
    run = SimulatedRun.make(tmp_path)
    drift(run.cluster)
    configs, calls = own_configs(run.cluster), len(run.cluster.calls)
    with pytest.raises(StalePlanError, match=r"orders|reassigning"):
        run.driver().open()
    assert run.run.state is RunState.APPROVED, what
    assert own_configs(run.cluster) == configs
    assert not [c for c in run.cluster.calls[calls:] if c.name in MUTATING]


def test_what_somebody_has_moved_already_is_drift(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path)
    move = run.plan.moves[0]
    run.cluster.alter_reassignments({move.topic_partition: move.replicas_after})
    while run.cluster.list_reassignments():
        run.cluster.advance(60.0)
    with pytest.raises(StalePlanError, match=str(move.topic_partition)):
        run.driver().open()
    assert run.run.state is RunState.APPROVED


def test_leaders_and_in_sync_replicas_may_change_without_being_drift(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path)
    run.cluster.kill_broker(1)
    run.cluster.advance(30)
    run.cluster.restart_broker(1)
    run.cluster.advance(30)
    assert run.go() is RunState.DONE


def test_a_destination_that_dies_is_cancelled_put_back_in_order_and_its_restore_is_pending(
    tmp_path: Path,
) -> None:
    run = SimulatedRun.make(tmp_path)
    before = run.placement()
    driver = run.driver()
    run.until_moving(driver)
    run.cluster.kill_broker(4)
    with pytest.raises(HaltedError, match="broker 4 is dead"):
        run.repeat(driver.step)
    run.repeat(driver.settle_step)
    assert run.run.state is RunState.HALTED
    assert "1 config key of dead brokers to restore" in run.run.reason
    assert run.placement() == before
    assert own_configs(run.cluster) == {BROKER_4: {FOLLOWER_RATE: "1000000"}}
    assert [owned.resource for owned in run.view.pending_keys(run.run_id)] == [BROKER_4]


def test_a_kept_replica_that_dies_midway_does_not_keep_the_run_open_for_ever(
    tmp_path: Path,
) -> None:
    run = SimulatedRun.make(tmp_path)
    driver = run.driver()
    run.until_moving(driver)
    run.cluster.kill_broker(2)
    with pytest.raises(HaltedError, match="broker 2 is dead"):
        run.repeat(driver.step)
    run.repeat(driver.settle_step)
    assert run.run.state is RunState.HALTED
    assert not run.cluster.list_reassignments()
    moves = {move.topic_partition: move for move in run.plan.moves}
    for key, partition in run.cluster.partitions.items():
        if key in moves:
            assert partition.replicas in (moves[key].replicas_before, moves[key].replicas_after)
    left = own_configs(run.cluster)
    assert left.keys() <= {ConfigResource(ConfigResourceType.BROKER, "2")}, (
        "only a key of the dead broker is to restore"
    )
    run.cluster.restart_broker(2)
    run.cluster.advance(60)
    assert run.go() is RunState.DONE
    assert own_configs(run.cluster) == {}


def test_a_topic_that_is_deleted_midway_is_skipped(tmp_path: Path) -> None:
    run = SimulatedRun.make(
        tmp_path, SKEWED + "\n" + "\n".join(f"bills-{p}: 1 2 3 size=3000000" for p in range(8))
    )
    topics = {move.topic for move in run.plan.moves if move.adding}
    assert {"orders", "bills"} <= topics
    driver = run.driver()
    run.until_moving(driver)
    run.cluster.delete_topic("orders")
    run.repeat(driver.step)
    run.repeat(driver.settle_step)
    assert run.run.state is RunState.DONE
    assert "skipped" in run.run.reason
    assert own_configs(run.cluster) == {}


def test_a_run_whose_topic_was_deleted_midway_can_be_executed_again_after_a_halt(
    tmp_path: Path,
) -> None:
    run = SimulatedRun.make(tmp_path, limits=MovementPolicy(max_moves_in_flight=1))
    driver = run.driver()
    run.until_moving(driver)
    assert any(move.topic == "payments" for move in run.plan.moves)
    run.cluster.delete_topic("payments")
    run.cluster.advance(driver.step() or 0)
    run.halt(driver)
    assert run.end(driver) is RunState.HALTED
    run.ledger.record_decision(run.approval())
    assert run.go() is RunState.DONE
    assert "skipped" in run.run.reason


def test_a_move_waits_for_kept_replicas_that_are_not_in_sync(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path)
    lagging = next(m for m in run.plan.moves if m.adding)
    kept = next(b for b in lagging.replicas_before if b in lagging.replicas_after)
    run.cluster.partitions[lagging.topic_partition].isr.discard(kept)
    driver = run.driver()
    driver.open()
    for _ in range(4):
        driver.step()
    assert lagging.topic_partition not in run.cluster.list_reassignments()
    assert run.cluster.list_reassignments()
    run.repeat(driver.step)
    assert run.placement() == run.planned_placement()


def test_caps_hold_on_the_cluster_and_on_each_broker(tmp_path: Path) -> None:
    picture = "\n".join(f"orders-{p}: 1 2 3 size=1000000" for p in range(40))
    run = SimulatedRun.make(tmp_path, picture, racks=FOUR_BROKERS + " 5=d")
    run.plan = run.plan.__class__.from_json(run.plan.to_json())
    run.limits = MovementPolicy(max_moves_in_flight=6, max_moves_in_flight_per_broker=3)
    driver = run.driver()
    driver.open()
    max_in_flight, max_per_broker = 0, 0
    while (wait := driver.step()) is not None:
        moving = run.cluster.list_reassignments().values()
        max_in_flight = max(max_in_flight, len(moving))
        arriving = Counter(b for reassignment in moving for b in reassignment.adding)
        max_per_broker = max([max_per_broker, *arriving.values()])
        run.cluster.advance(wait)
    assert 0 < max_in_flight <= 6
    assert max_per_broker <= 3


def test_a_cluster_that_refuses_the_moves_halts_the_run_with_its_reason_and_keeps_no_throttle(
    tmp_path: Path,
) -> None:
    run = SimulatedRun.make(tmp_path)
    driver = run.driver()
    driver.open()
    refusal = "CLUSTER_AUTHORIZATION_FAILED: the principal lacks a permission (ACL)"
    run.cluster.alter_reassignments = lambda targets, **_: CallResults(
        (), dict.fromkeys(targets, refusal)
    )  # type: ignore[method-assign]
    with pytest.raises(HaltedError, match="lacks a permission"):
        run.repeat(driver.step)
    run.repeat(driver.settle_step)
    assert run.run.state is RunState.HALTED
    assert "lacks a permission" in run.run.reason
    assert own_configs(run.cluster) == {}


def test_a_broker_that_does_not_respond_but_is_not_yet_known_to_be_dead_is_waited_for(
    tmp_path: Path,
) -> None:
    run = SimulatedRun.make(tmp_path)
    driver = run.driver()
    run.until_moving(driver)
    run.cluster.kill_broker(4, noticed=False)
    assert driver.step() is not None
    assert run.run.state is RunState.RUNNING
    run.cluster.advance(10)
    with pytest.raises(HaltedError, match="broker 4 is dead"):
        run.repeat(driver.step)


def test_a_plan_of_elections_alone_touches_no_config(tmp_path: Path) -> None:
    picture = "\n".join(
        f"orders-{p}: {1 + p % 3} {1 + (p + 1) % 3} {1 + (p + 2) % 3} @1" for p in range(6)
    )
    run = SimulatedRun.make(
        tmp_path, picture, racks="1=a 2=b 3=c", request=PlanRequest(Goal.LEADERS)
    )
    assert {move.replicas_before for move in run.plan.moves} == {
        move.replicas_after for move in run.plan.moves
    }
    assert run.go() is RunState.DONE
    assert not [
        call for call in run.cluster.calls if call.name in ("alter_configs", "alter_reassignments")
    ]
    assert run.placement() == run.planned_placement()


def test_leaders_that_could_not_be_elected_are_tried_again_when_the_plan_is_executed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SimulatedRun.make(tmp_path)
    driver = run.driver()
    driver.open()

    def refused(partitions: Sequence[TopicPartition], **_: object) -> CallResults[TopicPartition]:
        return CallResults((), dict.fromkeys(partitions, "PREFERRED_LEADER_NOT_AVAILABLE"))

    with monkeypatch.context() as patch:
        patch.setattr(run.cluster, "elect_preferred_leaders", refused)
        with pytest.raises(HaltedError, match="could not be elected in 10 attempts"):
            run.repeat(driver.step)
    assert run.end(driver) is RunState.HALTED
    assert run.go() is RunState.DONE
    assert run.placement() == run.planned_placement()
