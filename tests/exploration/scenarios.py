"""The scenarios: small worlds, and who acts in them."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import Final
from unittest.mock import patch

from counterpoise.installation import Installation
from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
from counterpoise.model.kafka import FOLLOWER_REPLICAS, LEADER_RATE, ConfigChange, ConfigOperation
from counterpoise.model.person import Person
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.request import Goal
from counterpoise.services import execution, requests, snapshots, watch
from tests.exploration.actors import OVER, Actor
from tests.exploration.paths import Scenario
from tests.exploration.promises import History
from tests.exploration.roles import CLUSTER, Executor, Script, Undoer, Watcher, approved
from tests.exploration.stage import Stage
from tests.support.pictures import simulated
from tests.support.plans import move, plan_by_hand
from tests.support.runs import at_broker, of_topic

RATE: Final = 1_000_000
CLUSTERS: Final = """
clusters:
  demo:
    connection: reader
    operator_connection: operator
"""
RACKS: Final = "1 2 3 4"
PICTURE: Final = """
orders-0: 1 2 3 size=1000000
orders-1: 2 3 1 size=2500000
other-0: 1 2 3 size=1000
"""
BOB: Final = Person.airflow("bob")


def two_moves(snapshot: ClusterSnapshot) -> RebalancePlan:
    return plan_by_hand(
        snapshot,
        Goal.REBALANCE,
        move("orders-0", "1 2 3", "4 2 3", size=1_000_000),
        move("orders-1", "2 3 1", "2 4 1", size=2_500_000),
    )


def one_move(snapshot: ClusterSnapshot) -> RebalancePlan:
    return plan_by_hand(
        snapshot, Goal.REBALANCE, move("orders-0", "1 2 3", "4 2 3", size=1_000_000)
    )


@contextmanager
def _world(racks: str) -> Iterator[Stage]:
    is_soon_orphaned = patch.object(watch, "ORPHANED_AFTER", timedelta(minutes=2))
    with is_soon_orphaned, Stage.open(simulated(PICTURE, racks=racks), CLUSTERS) as stage:
        yield stage


def small_world() -> AbstractContextManager[Stage]:
    return _world(RACKS)


def world_with_a_dead_broker() -> AbstractContextManager[Stage]:
    return _world(f"{RACKS} !5")


def _begin(
    stage: Stage, make_plan: Callable[[ClusterSnapshot], RebalancePlan] = two_moves
) -> Executor:
    stage.history = History.of(stage.cluster, {}, RATE)
    installation = stage.installation()
    plan = make_plan(snapshots.fresh_snapshot(installation, CLUSTER, stage.now))
    return approved(installation, stage, plan)


def _two_executors(stage: Stage) -> list[Actor]:
    executor = _begin(stage, one_move)
    return _cast(Actor("executor", executor), Actor("other executor", executor, wakes_at=0.5))


def _two_executors_and_a_watch(stage: Stage) -> list[Actor]:
    executor = _begin(stage)
    return _cast(
        Actor("executor", executor),
        Actor("other executor", executor, wakes_at=0.5),
        Actor("watch", Watcher(), wakes_at=1.5),
    )


def _executor_and_cancel(stage: Stage) -> list[Actor]:
    executor = _begin(stage)
    run_id = executor.run_id

    def change_rate(installation: Installation, _: Stage) -> None:
        requests.change_rate(installation, run_id, "500kB/s", by=BOB, why="too fast")

    def cancel(installation: Installation, _: Stage) -> None:
        requests.cancel(installation, run_id, by=BOB, why="enough")

    person = Script((("change the rate", 0.0, change_rate), ("cancel", 1.3, cancel)), run_id)
    return _cast(Actor("executor", executor), Actor("person", person, wakes_at=0.8))


def _executor_and_foreign_throttle(stage: Stage) -> list[Actor]:
    executor = _begin(stage)

    def lower_a_rate(_: Installation, stage: Stage) -> None:
        change = ConfigChange(at_broker(2), LEADER_RATE, ConfigOperation.SET, "333333")
        stage.history.alter_as_somebody_else(stage, change)

    def delete_a_list(_: Installation, stage: Stage) -> None:
        change = ConfigChange(of_topic("orders"), FOLLOWER_REPLICAS, ConfigOperation.DELETE)
        stage.history.alter_as_somebody_else(stage, change)

    others = Script((("lowers a rate", 0.0, lower_a_rate), ("deletes a list", 1.0, delete_a_list)))
    return _cast(Actor("executor", executor), Actor("somebody else", others, wakes_at=0.8))


def _executor_and_foreign_reassignment(stage: Stage) -> list[Actor]:
    executor = _begin(stage)

    def reassign_of_the_plan(_: Installation, stage: Stage) -> None:
        stage.history.move_as_somebody_else(stage, TopicPartition("orders", 1), (3, 4, 1))

    others = Script((("reassigns", 0.0, reassign_of_the_plan),))
    return _cast(Actor("executor", executor), Actor("somebody else", others, wakes_at=0.8))


def _executor_and_a_move_taken_back(stage: Stage) -> list[Actor]:
    return _executor_and_a_way_back(stage, after_seconds=2.6)  # it has arrived, and is on record


def _executor_and_a_stuck_foreign_reassignment(stage: Stage) -> list[Actor]:
    return _executor_and_a_way_back(stage, after_seconds=0.8)  # to go back meanwhile never ends


def _executor_and_a_way_back(stage: Stage, *, after_seconds: float) -> list[Actor]:
    executor = _begin(stage)

    def take_back(_: Installation, stage: Stage) -> None:
        stage.history.move_as_somebody_else(stage, TopicPartition("orders", 0), (1, 2, 3))

    others = Script((("takes back", 0.0, take_back),))
    return _cast(
        Actor("executor", executor), Actor("somebody else", others, wakes_at=after_seconds)
    )


def _executor_and_a_dying_broker(stage: Stage) -> list[Actor]:
    executor = _begin(stage)

    def die(_: Installation, stage: Stage) -> None:
        stage.cluster.kill_broker(4, noticed=False)
        stage.cluster_changed()

    def return_(_: Installation, stage: Stage) -> None:
        stage.cluster.restart_broker(4)
        stage.cluster_changed()

    broker = Script((("dies", 0.0, die), ("returns", 14.0, return_)))
    return _cast(Actor("executor", executor), Actor("broker 4", broker, wakes_at=0.8))


def _executor_and_a_freezing_broker(stage: Stage) -> list[Actor]:
    executor = _begin(stage)

    def freeze(_: Installation, stage: Stage) -> None:
        stage.cluster.freeze_broker(2)
        stage.cluster_changed()

    def thaw(_: Installation, stage: Stage) -> None:
        stage.cluster.thaw_broker(2)
        stage.cluster_changed()

    broker = Script((("freezes", 0.0, freeze), ("goes on", 6.0, thaw)))
    return _cast(Actor("executor", executor), Actor("broker 2", broker, wakes_at=0.8))


def _resume_beside_pending_restores(stage: Stage) -> list[Actor]:
    """The same partition moves again now."""
    snapshot = _begin_with_pending_restores(stage)
    executor = approved(stage.installation(), stage, two_moves(snapshot))
    return _cast(
        Actor("executor", executor, wakes_at=stage.cluster.now),
        Actor("watch", Watcher(), wakes_at=stage.cluster.now + 1.5),
    )


def _two_watches(stage: Stage) -> list[Actor]:
    _begin_with_pending_restores(stage)
    return _cast(
        Actor("watch", Watcher(), wakes_at=stage.cluster.now),
        Actor("other watch", Watcher(), wakes_at=stage.cluster.now + 0.5),
    )


def _begin_with_pending_restores(stage: Stage) -> ClusterSnapshot:
    """An earlier run was cancelled, and the first answer about its throttle was lost; broker 5 is
    dead.
    """
    stage.history = History.of(stage.cluster, {}, RATE)
    installation = stage.installation()
    snapshot = snapshots.fresh_snapshot(installation, CLUSTER, stage.now)
    first_move = two_moves(snapshot).moves[:1]
    earlier = approved(installation, stage, plan_by_hand(snapshot, Goal.REBALANCE, *first_move))
    execution.open_run(installation, earlier.run_id, earlier.fingerprint)
    part = "step"
    stage.cluster.lose_response_of_next("alter_configs")
    while part != OVER:
        is_moving = bool(stage.cluster.list_reassignments())
        if is_moving and part == "step":
            requests.cancel(installation, earlier.run_id, by=BOB, why="enough")
        part, _ = earlier.act(part, stage.installation(), stage)
        stage.advance(0.1)
    return snapshot


def _undo_after_halt(stage: Stage) -> list[Actor]:
    executor = _begin(stage)
    run_id = executor.run_id

    def undo(installation: Installation, _: Stage) -> None:
        requests.undo(installation, run_id, by=BOB, why="not now")

    person = Script((("undo", 0.0, undo),), run_id)
    return _cast(
        Actor("executor", executor),
        Actor("person", person, wakes_at=1.5),
        Actor("undoer", Undoer(run_id), wakes_at=3.0),
    )


def _cast(*actors: Actor) -> list[Actor]:
    for number, actor in enumerate(actors):
        actor.number = number
    return list(actors)


# Small enough for everything to be explored, nothing left out.
TWO_WATCHES: Final = Scenario("two_watches", world_with_a_dead_broker, _two_watches)
TWO_EXECUTORS: Final = Scenario("two_executors", small_world, _two_executors)
TWO_EXECUTORS_AND_A_WATCH: Final = Scenario(
    "two_executors_and_a_watch", small_world, _two_executors_and_a_watch
)
EXECUTOR_AND_CANCEL: Final = Scenario("executor_and_cancel", small_world, _executor_and_cancel)
EXECUTOR_AND_FOREIGN_THROTTLE: Final = Scenario(
    "executor_and_foreign_throttle", small_world, _executor_and_foreign_throttle
)
EXECUTOR_AND_FOREIGN_REASSIGNMENT: Final = Scenario(
    "executor_and_foreign_reassignment", small_world, _executor_and_foreign_reassignment
)
EXECUTOR_AND_A_MOVE_TAKEN_BACK: Final = Scenario(
    "executor_and_a_move_taken_back", small_world, _executor_and_a_move_taken_back
)
EXECUTOR_AND_A_STUCK_FOREIGN_REASSIGNMENT: Final = Scenario(
    "executor_and_a_stuck_foreign_reassignment",
    small_world,
    _executor_and_a_stuck_foreign_reassignment,
)
EXECUTOR_AND_A_DYING_BROKER: Final = Scenario(
    "executor_and_a_dying_broker", small_world, _executor_and_a_dying_broker, has_fault=True
)
EXECUTOR_AND_A_FREEZING_BROKER: Final = Scenario(
    "executor_and_a_freezing_broker", small_world, _executor_and_a_freezing_broker, has_fault=True
)
RESUME_BESIDE_PENDING_RESTORES: Final = Scenario(
    "resume_beside_pending_restores", world_with_a_dead_broker, _resume_beside_pending_restores
)
UNDO_AFTER_HALT: Final = Scenario("undo_after_halt", small_world, _undo_after_halt)
SCENARIOS: Final = (
    TWO_EXECUTORS,
    TWO_EXECUTORS_AND_A_WATCH,
    EXECUTOR_AND_CANCEL,
    EXECUTOR_AND_FOREIGN_THROTTLE,
    EXECUTOR_AND_FOREIGN_REASSIGNMENT,
    EXECUTOR_AND_A_MOVE_TAKEN_BACK,
    EXECUTOR_AND_A_STUCK_FOREIGN_REASSIGNMENT,
    EXECUTOR_AND_A_DYING_BROKER,
    EXECUTOR_AND_A_FREEZING_BROKER,
    RESUME_BESIDE_PENDING_RESTORES,
    UNDO_AFTER_HALT,
)
