"""What a run waits for in the cluster: brokers, links and partitions in trouble. Pure.

    DeadBrokers((4,)).in_words     # "broker 4 is dead: waiting for that to pass"

The names that the ledger keeps are those of `name_of_dead` and its like: a dead broker has lasted
since the first observation without it, whoever made that.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from counterpoise.execution.waits import (
    EXECUTE_AGAIN,
    UNLISTED,
    WaitReason,
    partitions_wait,
)
from counterpoise.model.policy import MovementPolicy
from counterpoise.model.words import join_ids, join_names, name_brokers, pluralize, verb
from counterpoise.units import format_rate

LEADERLESS: Final = "partitions of the plan have no leader"
UNAVAILABLE: Final = "partitions outside the plan take no writes"
IN_SYNC_AGAIN: Final = "partitions outside the plan have their replicas in sync again"
_CATCHES_UP: Final = "was down, and has to catch up"


def name_of_dead(broker_id: int) -> str:
    return f"broker {broker_id} is dead"


def name_of_catching_up(broker_id: int) -> str:
    return f"broker {broker_id} {_CATCHES_UP}"


def is_catching_up(name: str) -> bool:
    return name.endswith(_CATCHES_UP)


def name_of_unresponsive(broker_id: int) -> str:
    return f"broker {broker_id} does not respond"


def name_of_unmeasured(broker_id: int) -> str:
    return f"broker {broker_id} does not report its log dirs"


def name_of_slowed(link_name: str) -> str:
    return f"{link_name} is slower than its producers"


def name_of_unavailable(partition: str) -> str:
    return f"{partition} takes no writes"


def name_of_leaderless(partition: str) -> str:
    return f"{partition} has no leader"


def name_of_unlisted(partition: str) -> str:
    return f"{partition} {UNLISTED}"


def name_of_out_of_sync(partition: str, broker_id: int) -> str:
    return f"{partition} keeps a replica on broker {broker_id} that is not in sync"


def name_of_leader_out_of_sync(partition: str, broker_id: int) -> str:
    return f"broker {broker_id} is to lead {partition} and is not in sync"


# -- brokers


@dataclass(frozen=True, slots=True)
class DeadBrokers(WaitReason):
    is_decided = False
    broker_ids: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(map(name_of_dead, self.broker_ids))

    @property
    def in_words(self) -> str:
        return f"{', '.join(self.names)}: waiting for that to pass"

    def when_over(self, limits: MovementPolicy) -> str:
        return (
            f"brokers of the plan are dead: {join_ids(self.broker_ids)}; bring them back and "
            f"{EXECUTE_AGAIN}, or make a new plan"
        )


@dataclass(frozen=True, slots=True)
class UnresponsiveBrokers(WaitReason):
    """They are live, and neither their configs nor their versions can be read from here."""

    is_decided = False
    broker_ids: tuple[int, ...]
    waiting: int  # partitions

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(map(name_of_unresponsive, self.broker_ids))

    @property
    def in_words(self) -> str:
        ids = join_ids(self.broker_ids)
        return f"{partitions_wait(self.waiting)} for brokers that do not respond: {ids}"

    def when_over(self, limits: MovementPolicy) -> str:
        return (
            f"{name_brokers(self.broker_ids)} {verb(len(self.broker_ids), 'does', 'do')} not "
            f"respond, {self.for_how_long(limits)}: check these brokers and the network "
            f"between here and them, then {EXECUTE_AGAIN}"
        )


@dataclass(frozen=True, slots=True)
class UnmeasuredBrokers(WaitReason):
    """They respond, but do not report their log dirs: what has arrived there is not known."""

    policy_key = "hold_patience"
    is_decided = False
    broker_ids: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(map(name_of_unmeasured, self.broker_ids))

    @property
    def in_words(self) -> str:
        return f"{name_brokers(self.broker_ids)} {_does_not_report(self.broker_ids)}"

    def when_over(self, limits: MovementPolicy) -> str:
        return (
            f"{self.in_words}, {self.for_how_long(limits)}, and no move has ended: check the "
            f"disks of these brokers, then {EXECUTE_AGAIN}"
        )


@dataclass(frozen=True, slots=True)
class SlowedLinks(WaitReason):
    """Bytes arrive, but producers write more, since we lowered the rate below the approved one."""

    policy_key = "pause_patience"
    is_decided = False
    link_names: tuple[str, ...]
    rate_bytes_per_second: int

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(map(name_of_slowed, self.link_names))

    @property
    def in_words(self) -> str:
        rate = format_rate(self.rate_bytes_per_second)
        return (
            f"producers write faster than the lowered rate, {rate}: {join_names(self.link_names)}"
        )

    def when_over(self, limits: MovementPolicy) -> str:
        return (
            f"{self.in_words}, {self.for_how_long(limits)}: raise the rate (`counterpoise rate`, "
            f"or the policy's daily_rates), then {EXECUTE_AGAIN}"
        )


# -- partitions


@dataclass(frozen=True, slots=True)
class UnavailablePartitions(WaitReason):
    is_decided = False
    partitions: tuple[str, ...]  # outside the plan

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(map(name_of_unavailable, self.partitions))

    @property
    def in_words(self) -> str:
        return f"{UNAVAILABLE}: waiting for that to pass"

    def when_over(self, limits: MovementPolicy) -> str:
        affected = pluralize(
            len(self.partitions),
            "partition outside the plan takes no writes",
            "partitions outside the plan take no writes",
        )
        they_are = verb(len(self.partitions), "it is", "they are")
        return (
            f"{affected}: {join_names(self.partitions)}; {they_are} "
            f"offline or under min.insync.replicas: check the brokers, then {EXECUTE_AGAIN}"
        )


@dataclass(frozen=True, slots=True)
class LeaderlessPartitions(WaitReason):
    is_decided = False
    partitions: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(map(name_of_leaderless, self.partitions))

    @property
    def in_words(self) -> str:
        return f"{LEADERLESS}: waiting for that to pass"

    def when_over(self, limits: MovementPolicy) -> str:
        affected = pluralize(
            len(self.partitions), "partition of the plan has", "partitions of the plan have"
        )
        return (
            f"{affected} no leader to copy from: {join_names(self.partitions)}; bring the brokers "
            f"back, then {EXECUTE_AGAIN}"
        )


@dataclass(frozen=True, slots=True)
class OutOfSyncReplicas(WaitReason):
    """Partitions that keep replicas which are out of sync; waited for when all else has ended."""

    is_decided = False
    brokers_by_partition: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(
            name_of_out_of_sync(partition, broker_id)
            for partition, broker_ids in self.brokers_by_partition
            for broker_id in broker_ids
        )

    @property
    def _partitions(self) -> str:
        """Return `orders-0 (brokers [3]), orders-1 (brokers [3, 4])`."""
        return join_names(
            [f"{name} (brokers {list(ids)})" for name, ids in self.brokers_by_partition]
        )

    @property
    def in_words(self) -> str:
        waiting = pluralize(
            len(self.brokers_by_partition),
            "partition waits until the replicas that it keeps",
            "partitions wait until the replicas that they keep",
        )
        return f"{waiting} are in sync: {self._partitions}"

    def when_over(self, limits: MovementPolicy) -> str:
        skipped = pluralize(
            len(self.brokers_by_partition),
            "partition skipped: replicas that it keeps",
            "partitions skipped: replicas that they keep",
        )
        return (
            f"{skipped} are not in sync: {self._partitions}; check these brokers, then "
            f"{EXECUTE_AGAIN}"
        )


@dataclass(frozen=True, slots=True)
class LeadersOutOfSync(WaitReason):
    """Preferred leaders that are not in sync, so that they cannot be elected yet."""

    is_decided = False
    leaders: tuple[tuple[str, int], ...]  # each partition with the broker that is to lead it

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name_of_leader_out_of_sync(*leader) for leader in self.leaders)

    @property
    def in_words(self) -> str:
        count = len(self.leaders)
        leaders = pluralize(count, "preferred leader is", "preferred leaders are")
        return f"{leaders} not in sync yet"

    def when_over(self, limits: MovementPolicy) -> str:
        return (
            f"{self.in_words}, {self.for_how_long(limits)}: "
            f"{join_names([name for name, _ in self.leaders])}; check these brokers, then "
            f"{EXECUTE_AGAIN}"
        )


@dataclass(frozen=True, slots=True)
class CancelledByOthers(WaitReason):
    """Moves that are back where they began; or a broker is behind, and does not show their end."""

    partitions: tuple[str, ...]
    shows_by: datetime

    @property
    def names(self) -> tuple[str, ...]:
        return ()

    @property
    def in_words(self) -> str:
        seem = verb(len(self.partitions), "seems", "seem")
        return (
            f"{join_names(self.partitions)} {seem} to have been cancelled by somebody else: "
            "nothing new is submitted for some seconds, since a broker may only be behind"
        )

    def when_over(self, limits: MovementPolicy) -> str:
        return self.in_words

    def patience(self, limits: MovementPolicy) -> None:
        return None

    @property
    def ends_at(self) -> datetime:
        return self.shows_by


# -- configs that are restored


@dataclass(frozen=True, slots=True)
class UnrestoredKeys(WaitReason):
    """Brokers with keys to restore that are live and do not respond."""

    is_decided = False
    broker_ids: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(map(name_of_unresponsive, self.broker_ids))

    @property
    def in_words(self) -> str:
        brokers = name_brokers(self.broker_ids)
        if len(self.broker_ids) == 1:
            return f"{brokers} does not respond: its throttle keys are restored as soon as it does"
        return f"{brokers} do not respond: their throttle keys are restored as soon as they do"

    def when_over(self, limits: MovementPolicy) -> str:
        does = verb(len(self.broker_ids), "does", "do")
        return f"{name_brokers(self.broker_ids)} {does} not respond"


@dataclass(frozen=True, slots=True)
class UnreportedConfigs(WaitReason):
    """Brokers that do not report the restored configs: their metadata is behind."""

    broker_ids: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return ("restored configs are not reported",)

    @property
    def in_words(self) -> str:
        does = verb(len(self.broker_ids), "does", "do")
        brokers = name_brokers(self.broker_ids)
        return f"waiting: {brokers} {does} not report the restored configs yet"

    def when_over(self, limits: MovementPolicy) -> str:
        does = verb(len(self.broker_ids), "does", "do")
        return f"{name_brokers(self.broker_ids)} {does} not report the restored configs"


def _does_not_report(broker_ids: Sequence[int]) -> str:
    return verb(len(broker_ids), "does not report its log dirs", "do not report their log dirs")
