"""Every reason to wait has an end: each is brought about on the simulated cluster, lasts for as
long as its patience, and then the run halts and says so, or settling ends.

A reason without a case here fails the first test.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from counterpoise.errors import BrokerUnresponsiveError, HaltedError, UnknownOutcomeError
from counterpoise.execution import Driver
from counterpoise.execution.conditions import TABLE, patience_of
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.control import Control
from counterpoise.model.kafka import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    BrokerVersion,
    CallResults,
    ConfigChange,
    ConfigOperation,
)
from counterpoise.model.plan import Move
from counterpoise.model.policy import MaintenanceWindow, MovementPolicy
from counterpoise.model.run import ENDED_STATES, RunState
from counterpoise.model.run_progress import Condition
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.plans import move
from tests.support.runs import SimulatedRun, at_broker, of_topic

FIVE: Final = "1 2 3 4 5"
ORDERS_0: Final = TopicPartition("orders", 0)
OTHER: Final = TopicPartition("other", 0)
LIMITS: Final = MovementPolicy(
    dead_broker_patience=timedelta(seconds=30),
    hold_patience=timedelta(seconds=60),
    pause_patience=timedelta(seconds=90),
)
SLACK_SECONDS: Final = 60.0  # to begin, and to read back what is restored
BEFORE: Final = "orders-0: 1 2 3 size=9000000"
COPY: Final = move("orders-0", "1 2 3", "4 2 3", size=9_000_000)


@dataclass
class Waiting:
    """A run that waits for something that does not come, and the sentence that its end has."""

    run: SimulatedRun
    says: str
    driver: Driver

    def halts(self, *, within: timedelta) -> None:
        give_up_at = self.run.cluster.now + within.total_seconds() + SLACK_SECONDS
        with pytest.raises(HaltedError, match=self.says):
            self._drive(self.driver.step, give_up_at)
        self.settles(within=within)

    def settles(self, *, within: timedelta) -> None:
        give_up_at = self.run.cluster.now + within.total_seconds() + SLACK_SECONDS
        self._drive(self.driver.settle_step, give_up_at)
        assert self.run.run.state in ENDED_STATES
        assert not self.run.cluster.list_reassignments()

    def _drive(self, step: Callable[[], float | None], give_up_at: float) -> None:
        while (wait := step()) is not None:
            assert self.run.cluster.now < give_up_at, f"it waits for ever: {self.run.log[-3:]}"
            self.run.cluster.advance(max(wait, 0.5))


class Producers:
    """What they write to each partition of the clusters that `made` makes."""

    bytes_per_second = 0.0


def made(
    folder: Path,
    *moves: Move,
    picture: str = BEFORE,
    limits: MovementPolicy = LIMITS,
    is_moving: bool = False,
) -> SimulatedRun:
    """A run that is open; with `is_moving` something is in flight."""
    run = SimulatedRun.of_moves(folder, picture, *(moves or (COPY,)), racks=FIVE, limits=limits)
    for partition in run.cluster.partitions.values():
        partition.bytes_in_per_second = Producers.bytes_per_second
    run.driver().open()
    while is_moving and not run.cluster.list_reassignments():
        run.cluster.advance(run.driver().step() or 0)
    return run


def waiting(run: SimulatedRun, says: str, admin: Any = None) -> Waiting:
    return Waiting(run, says, run.driver(admin))


def lag_for_good(run: SimulatedRun, tp: TopicPartition, broker_id: int) -> None:
    slow = ConfigChange(at_broker(broker_id), FOLLOWER_RATE, ConfigOperation.SET, "0")
    entry = f"{tp.partition}:{broker_id}"
    listed = ConfigChange(of_topic(tp.topic), FOLLOWER_REPLICAS, ConfigOperation.APPEND, entry)
    run.cluster.alter_configs([slow, listed])
    run.cluster.partitions[tp].isr.discard(broker_id)
    run.cluster.partitions[tp].copied[broker_id] = 0.0


# -- people, the calendar, other clusters


def paused(folder: Path) -> None:
    run = made(folder)
    run.ask(Control.PAUSE)
    waiting(run, r"paused by bob: because, for 1 min 30 s").halts(within=LIMITS.pause_patience)


def frozen(folder: Path) -> None:
    run = made(folder)
    run.ask(Control.FREEZE)
    waiting(run, r"frozen by bob: because, for 1 min 30 s").halts(within=LIMITS.pause_patience)


def outside_windows(folder: Path) -> None:
    opens_at_one = MaintenanceWindow("1 12 * * *", timedelta(hours=1))
    run = made(folder, limits=MovementPolicy(windows=(opens_at_one,)))
    run.repeat(run.driver().step)
    assert any("outside the maintenance windows" in line for line in run.log)
    assert run.end(run.driver()) is RunState.DONE


def different_versions(folder: Path) -> None:
    run = made(folder)
    run.cluster.versions[3] = BrokerVersion("newer", 30)
    waiting(run, "broker 3 speak different versions, for 1 min").halts(within=LIMITS.hold_patience)


# -- brokers


def dead_brokers(folder: Path) -> None:
    run = made(folder, is_moving=True)
    run.cluster.kill_broker(4)
    waiting(run, "broker 4 is dead, for 30 s").halts(within=LIMITS.dead_broker_patience)


def unresponsive_brokers(folder: Path) -> None:
    run = made(folder, is_moving=True)
    run.cluster.unreachable.add(4)
    run.cluster.partitions[ORDERS_0].bytes_in_per_second = 2_000_000.0  # the copy never ends
    halted = waiting(run, "broker 4 does not respond, for 30 s")
    halted.halts(within=LIMITS.hold_patience)


def unmeasured_brokers(folder: Path) -> None:
    run = made(folder, is_moving=True)
    run.cluster.without_log_dirs.add(4)
    run.cluster.partitions[ORDERS_0].bytes_in_per_second = 2_000_000.0
    unmeasured = waiting(run, "broker 4 does not report its log dirs, for 1 min")
    unmeasured.halts(within=LIMITS.hold_patience)


def stalled_copies(folder: Path) -> None:
    run = made(folder, is_moving=True)
    run.cluster.partitions[ORDERS_0].bytes_in_per_second = 2_000_000.0
    stalled = waiting(
        run, "1 partition has come no nearer to the end of its copy: orders-0, for 30 s"
    )
    stalled.halts(within=LIMITS.dead_broker_patience)


# -- partitions


def unavailable_partitions(folder: Path) -> None:
    run = made(folder, picture=f"{BEFORE}\nother-0: 1 2 size=1000")
    run.cluster.partitions[OTHER].leader = None
    unavailable = waiting(run, "1 partition outside the plan takes no writes: other-0")
    unavailable.halts(within=LIMITS.dead_broker_patience)


def leaderless_partitions(folder: Path) -> None:
    run = made(folder)
    run.cluster.partitions[ORDERS_0].leader = None
    leaderless = waiting(
        run, "1 partition of the plan has no leader to copy from: orders-0, for 30 s"
    )
    leaderless.halts(within=LIMITS.dead_broker_patience)


def out_of_sync_replicas(folder: Path) -> None:
    run = made(folder)
    lag_for_good(run, ORDERS_0, 3)
    skipped = waiting(
        run, "1 replica that the plan keeps is not in sync: orders-0 on broker 3, for 30 s"
    )
    skipped.halts(within=LIMITS.dead_broker_patience)


def leaders_out_of_sync(folder: Path) -> None:
    picture = "orders-0: 1 2 3 @2 size=1000"
    run = made(folder, move("orders-0", "1 2 3", "1 2 3", leader=2), picture=picture)
    lag_for_good(run, ORDERS_0, 1)
    behind = waiting(run, "1 preferred leader is not in sync yet: orders-0 on broker 1, for 30 s")
    behind.halts(within=LIMITS.dead_broker_patience)


def redirected(folder: Path) -> None:
    """It copies for hours: the run ends, and leaves its throttle to that."""
    run = made(folder, is_moving=True)
    (first,) = (m for m in run.plan.moves if m.topic_partition == ORDERS_0)
    run.cluster.advance(run.driver().step() or 0)
    run.cluster.partitions[ORDERS_0].size_bytes = 1e13
    run.cluster.alter_reassignments({ORDERS_0: first.replicas_before})
    with pytest.raises(HaltedError, match="somebody else redirected 1 move"):
        run.repeat(run.driver().step)
    assert run.end(run.driver()) is RunState.HALTED
    assert "cancel RUN --redirected" in run.run.reason


# -- moves and calls


def no_run_progress(folder: Path) -> None:
    """Two partitions outside the plan are offline in turn, each for less than the patience."""
    picture = f"{BEFORE}\nother-0: 1 2 size=1000\nother-1: 1 2 size=1000"
    run = made(folder, picture=picture)
    patience = patience_of(Condition.NO_PROGRESS, LIMITS)
    assert patience is not None
    driver, give_up_at = run.driver(), run.cluster.now + patience.total_seconds() + SLACK_SECONDS
    with pytest.raises(HaltedError, match=r"no move has come nearer to its end .*for 5 min"):
        while run.cluster.now < give_up_at:
            is_offline = int(run.cluster.now / 20) % 2
            for number in range(2):
                partition = run.cluster.partitions[TopicPartition("other", number)]
                partition.leader = None if number == is_offline else 1
            run.cluster.advance(max(driver.step() or 0, 2.0))
    assert run.end(driver) is RunState.HALTED


def moving(folder: Path) -> None:
    run = made(folder, is_moving=True)
    run.cluster.kafka_version = (3, 9)  # it waits for replica 3, once replica 4 has arrived
    lag_for_good(run, ORDERS_0, 3)
    run.cluster.advance(30)
    stuck = waiting(run, "1 partition is moving, and nothing has arrived, for 30 s")
    stuck.halts(within=LIMITS.dead_broker_patience)


def unknown_outcomes(folder: Path) -> None:
    """It ends by itself: then the move is submitted again."""
    run = made(folder, move("orders-0", "1 2 3", "4 5 3", size=9_000_000), picture=BEFORE)
    run.cluster.fail_next("alter_reassignments", UnknownOutcomeError("no answer", broker_id=3))
    run.repeat(run.driver().step)
    assert any("1 move was sent, no answer came" in line for line in run.log)
    assert run.end(run.driver()) is RunState.DONE


class Useless:
    """The cluster for a run whose config changes are accepted, and have no effect."""

    def __init__(self, simulated: SimulatedCluster) -> None:
        self._cluster = simulated

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def alter_configs(self, changes: Sequence[ConfigChange], **_: Any) -> Any:
        return CallResults(tuple(change.resource for change in changes), {})


def without_effect(folder: Path) -> None:
    run = made(folder)
    says = "sets throttle keys, and the brokers do not show all of them yet, for 30 s"
    useless = waiting(run, says, Useless(run.cluster))
    useless.halts(within=LIMITS.dead_broker_patience)


# -- configs that are restored


def unrestored_keys(folder: Path) -> None:
    run = made(folder, is_moving=True)
    run.cluster.advance(30)
    run.cluster.unreachable.add(4)
    waiting(run, "").settles(within=LIMITS.dead_broker_patience)
    assert "1 config key to restore" in run.run.reason


class Behind:
    """The cluster for a run to which broker 2 does not report the restored configs."""

    def __init__(self, simulated: SimulatedCluster) -> None:
        self._cluster = simulated

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def describe_configs(self, *arguments: Any, via_broker: int | None = None) -> Any:
        if via_broker == 2:
            raise BrokerUnresponsiveError("the configs: broker 2 does not respond")
        return self._cluster.describe_configs(*arguments, via_broker=via_broker)


def unreported_configs(folder: Path) -> None:
    run = made(folder, is_moving=True)
    run.cluster.advance(30)
    waiting(run, "", Behind(run.cluster)).settles(within=LIMITS.dead_broker_patience)
    assert "broker 2 does not report the restored configs" in run.run.reason


CASES: Final[dict[Condition, Callable[[Path], None]]] = {
    Condition.PAUSED: paused,
    Condition.FROZEN: frozen,
    Condition.OUTSIDE_WINDOWS: outside_windows,
    Condition.DIFFERENT_VERSIONS: different_versions,
    Condition.DEAD: dead_brokers,
    Condition.UNRESPONSIVE: unresponsive_brokers,
    Condition.UNMEASURED: unmeasured_brokers,
    Condition.STALLED: stalled_copies,
    Condition.UNAVAILABLE: unavailable_partitions,
    Condition.LEADERLESS: leaderless_partitions,
    Condition.OUT_OF_SYNC: out_of_sync_replicas,
    Condition.LEADER_OUT_OF_SYNC: leaders_out_of_sync,
    Condition.USED_BY_OTHERS: redirected,
    Condition.NO_PROGRESS: no_run_progress,
    Condition.COPYING: moving,
    Condition.UNANSWERED: unknown_outcomes,
    Condition.THROTTLING: without_effect,
    Condition.RESTORING: unrestored_keys,
    Condition.UNREPORTED: unreported_configs,
}
# The same rule ends them as those above, or they end by what follows from them.
ALIKE: Final = {
    Condition.SUBMITTING,
    Condition.ELECTING,
    Condition.CANCELLING,
    Condition.ORDERING,
    Condition.UNTHROTTLED,
}


def test_every_condition_that_lasts_has_a_case_here() -> None:
    lasting = {condition for condition, row in TABLE.items() if row.patience is not None}
    assert lasting - CASES.keys() == ALIKE


def test_every_condition_is_in_the_table() -> None:
    assert TABLE.keys() == set(Condition)


@pytest.mark.parametrize("bytes_in_per_second", [0.0, 1000.0], ids=["no-writes", "producers-write"])
@pytest.mark.parametrize("condition", CASES)
def test_every_wait_has_an_end(
    condition: Condition,
    bytes_in_per_second: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Producers, "bytes_per_second", bytes_in_per_second)
    CASES[condition](tmp_path)
