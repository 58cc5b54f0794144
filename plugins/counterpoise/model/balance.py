"""How evenly a cluster is used: the values that `analysis` finds and `reporting` draws.

    balance.latest.leaders.max_minus_min, balance.idle_broker_ids

Evenness is over the live brokers, zeros included, but for those that are kept empty; what lies on
fenced (dead) brokers is shown per broker, but does not count as uneven: it cannot be helped by
moving leaders.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from counterpoise.model.evenness import Evenness
from counterpoise.model.request import Goal

# -- What happened to a cluster between its snapshots: the values that `analysis` finds and
# `reporting` shows.
#
#     ClusterEvent(EventKind.JOINED, NOON, NOON, "demo-3", 1, broker_ids=(4,))
#
# An event is known by the first snapshot that shows it; it happened between that one and the one
# before.


class EventKind(StrEnum):
    """In the order in which pages name them."""

    JOINED = "joined"  # a broker that was not registered before
    REACHED_SHARE = "reached-share"  # a broker that joined holds nearly its share of replicas
    RETURNED = "returned"  # a broker that was dead, or gone, lives again
    DIED = "died"  # registered, but fenced
    LEFT = "left"  # no longer registered
    RESTARTED = "restarted"  # a live broker that lost nearly all of its leaders
    FAILOVER = "failover"
    ELECTION = "election"  # many preferred leaders at once
    LEADERS_MOVED = "leaders-moved"  # many, from brokers that are alive and in sync
    REASSIGNMENT = "reassignment"  # partitions on other brokers than before
    RACK = "rack"  # brokers that name another rack than before
    TOPICS_DELETED = "topics-deleted"
    TOPICS_RECREATED = "topics-recreated"
    GAP = "gap"  # no snapshot for long
    REBUILT = "rebuilt"  # another cluster under the same name


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """`count` is of brokers, of partitions (failover, election, leaders moved, reassignment), of
    topics, or of missing snapshots.
    """

    kind: EventKind
    first_at: datetime  # UTC; of a gap the last snapshot before it
    # of a gap the first snapshot after it; else later only where it went on over several snapshots
    last_at: datetime
    snapshot_id: str  # the first one that shows it
    count: int
    broker_ids: tuple[int, ...] = ()
    seconds: float | None = None  # that it took: a share to be reached, a gap
    rack_before: str | None = None
    rack: str | None = None
    is_under_way: bool = False  # a reassignment that the newest snapshot still sees


@dataclass(frozen=True, slots=True)
class SnapshotChanges:
    """A row of SNAPSHOT_CHANGES: one snapshot, and what became of the cluster since the snapshot
    before.
    """

    is_rebuilt: bool
    seconds: float | None  # since the snapshot before
    partitions: int
    offline_partitions: int
    under_replicated_partitions: int
    reassigning_partitions: int
    leaders_changed: int
    failovers: int
    preferred_elections: int
    leader_epochs: int
    replica_sets_changed: int
    topics_created: int
    topics_deleted: int
    topics_recreated: int
    # None where they were not counted
    leaders_reassigned: int | None = None
    leaders_returned: int | None = None
    uneven_topics: int | None = None  # led less evenly than whole partitions allow

    @property
    def epochs_unseen(self) -> int:
        """Return elections that no snapshot saw: epochs that passed, less one for each leader that
        changed.
        """
        return max(0, self.leader_epochs - self.leaders_changed)


@dataclass(frozen=True, slots=True)
class Churn:
    """The changes of a period, summed over its snapshots."""

    snapshots: int  # whose changes are known
    snapshots_not_known: int  # not compared, or compared with a snapshot that is no longer kept
    leaders_changed: int = 0
    failovers: int = 0
    preferred_elections: int = 0
    epochs_unseen: int = 0
    replica_sets_changed: int = 0
    topics_created: int = 0
    topics_deleted: int = 0
    topics_recreated: int = 0
    # None where they are not known of all of the snapshots
    leaders_reassigned: int | None = 0
    leaders_returned: int | None = 0

    @property
    def leaders_moved_otherwise(self) -> int | None:
        """Return leader changes that were no failover, preferred election or reassignment."""
        if self.leaders_reassigned is None:
            return None
        known_kinds = self.failovers + self.preferred_elections + self.leaders_reassigned
        return self.leaders_changed - known_kinds


NO_CHURN: Final = Churn(0, 0)


@dataclass(frozen=True, slots=True)
class BrokerBalance:
    """What one registered broker holds in one snapshot."""

    broker_id: int
    rack: str | None
    is_fenced: bool
    leaders: int
    preferred_leaders: int  # partitions that name it first
    leaders_not_preferred: int  # it leads, though another broker is named first
    replicas: int
    bytes: int

    @property
    def is_idle(self) -> bool:
        """Return whether a broker is idle: live, but without replicas: Kafka gives a new broker
        none of the existing partitions.
        """
        return not self.is_fenced and self.replicas == 0


@dataclass(frozen=True, slots=True)
class RackBalance:
    """The sums over one rack's live brokers."""

    rack: str | None
    broker_count: int
    leaders: int
    replicas: int
    bytes: int


@dataclass(frozen=True, slots=True)
class TopicLeaderSkew:
    """How unevenly the live brokers lead one topic."""

    topic: str
    partition_count: int
    most_leaders: int
    fewest_leaders: int
    size_bytes: int  # of one copy
    excess: int  # max - min above the best that whole partitions allow

    @property
    def max_minus_min(self) -> int:
        return self.most_leaders - self.fewest_leaders


@dataclass(frozen=True, slots=True)
class RackPoint:
    """How evenly the live brokers of one rack lead in one snapshot."""

    rack: str | None
    leaders: Evenness


@dataclass(frozen=True, slots=True)
class BalancePoint:
    """One snapshot's place in the series."""

    snapshot_id: str
    observed_at: datetime  # UTC
    leaders: Evenness
    preferred_leaders: Evenness
    replicas: Evenness
    bytes: Evenness
    share_not_preferred: float  # 0.0 to 1.0
    live_broker_ids: tuple[int, ...]
    bytes_in: Evenness | None = (
        None  # per second, as leader; None unless that of every live broker is known
    )
    racks: tuple[RackPoint, ...] = ()  # by name, the nameless one last
    changes: SnapshotChanges | None = None  # None where nobody compared it with the snapshot before
    # of the live broker farthest from its fair share, as a part of it
    replicas_off_share: float = 0.0
    bytes_off_share: float = 0.0  # what is little is 0

    @property
    def live_brokers(self) -> int:
        return len(self.live_broker_ids)


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Brokers over time: how much each had, as a part of the mean over the live brokers at that
    moment.

    Columns are snapshots (`bucket_seconds` None), or means over buckets of equal length, and never
    overlap; between two of them may be a gap. None in `values`: no snapshot, not registered, dead,
    or not known.
    """

    measure: str  # leaders, bytes_in
    broker_ids: tuple[int, ...]  # the rows, by id
    columns: tuple[tuple[datetime, datetime], ...]  # from, until
    values: tuple[tuple[float | None, ...], ...]  # one row per broker; 1.0 is the fair share
    bucket_seconds: int | None
    broker_count: (
        int  # of all brokers; with fewer rows, these are the ones farthest from their share
    )

    @property
    def is_cut(self) -> bool:
        return len(self.broker_ids) < self.broker_count


@dataclass(frozen=True, slots=True)
class FlappingPartition:
    topic: str
    partition: int
    elections: int  # in the period, also those that no snapshot shows


@dataclass(frozen=True, slots=True)
class Flapping:
    """Partitions that had more than `max_elections` leader elections in the period."""

    partitions: tuple[FlappingPartition, ...]  # most elections first, only the first ones
    partition_count: int  # of all of them
    topics: tuple[tuple[str, int], ...]  # with how many of their partitions; most first
    snapshot_count: int  # whose changes are still known one by one
    max_elections: int


@dataclass(frozen=True, slots=True)
class TopicSkew:
    """How unevenly the live brokers led one topic over a period, weighed by time."""

    topic: str
    mean_excess: float  # of max - min above the best that whole partitions allow
    max_excess: int
    uneven_share: float  # of the time with an excess, 0.0 to 1.0


@dataclass(frozen=True, slots=True)
class TopicSkewOverTime:
    topics: tuple[TopicSkew, ...]  # the highest mean excess first, only the first ones
    uneven_topic_count: int  # with an excess at any time
    topic_count: int  # also those that are gone by now
    seconds: float  # that are known


@dataclass(frozen=True, slots=True)
class LeaderBalance:
    """One cluster's balance: the latest snapshot of the period in full, and every snapshot's
    measures, oldest first.
    """

    cluster: str
    latest: BalancePoint
    brokers: tuple[BrokerBalance, ...]  # every registered broker, by id
    racks: tuple[RackBalance, ...]  # by name, the nameless one last
    topics: tuple[TopicLeaderSkew, ...]  # those with an excess, worst first, only the first ones
    topic_count: int
    skewed_topic_count: int
    topics_at: datetime  # of the snapshot that topics are of: the latest one that is kept
    series: tuple[BalancePoint, ...]  # ends with `latest`
    no_plan_fills: frozenset[int] = frozenset()  # brokers that get no replicas, idle or not
    breaks: tuple[
        int, ...
    ] = ()  # the points before which a gap lies, or another cluster: nothing is joined over it
    events: tuple[ClusterEvent, ...] = ()  # by time
    churn: Churn = NO_CHURN
    heat_maps: tuple[HeatMap, ...] = ()  # none with a single snapshot
    flapping: Flapping | None = None  # None: nobody asked, or not known of a period before
    topic_skew: TopicSkewOverTime | None = None  # the same
    # The period before, as long as this one; None where the history does not reach back that far,
    # or the cluster was rebuilt since.
    before: "LeaderBalance | None" = None

    @property
    def live_brokers(self) -> tuple[BrokerBalance, ...]:
        return tuple(broker for broker in self.brokers if not broker.is_fenced)

    def state_of(self, broker: BrokerBalance) -> str:
        """Return `live`, `dead`, `idle` or `kept empty`."""
        if not broker.is_idle:
            return "dead" if broker.is_fenced else "live"
        return "kept empty" if broker.broker_id in self.kept_empty_ids else "idle"

    def share_of_leaders(self, broker: BrokerBalance) -> float | None:
        """Return a broker's leaders as a multiple of the fair share; None for a dead one."""
        leaders = self.latest.leaders
        if broker.is_fenced or not leaders.total:
            return None
        return broker.leaders * leaders.broker_count / leaders.total

    @property
    def idle_broker_ids(self) -> tuple[int, ...]:
        """Return the brokers that wait for replicas."""
        return tuple(
            broker.broker_id
            for broker in self.brokers
            if broker.is_idle and broker.broker_id not in self.no_plan_fills
        )

    @property
    def kept_empty_ids(self) -> tuple[int, ...]:
        """Return the other live brokers without replicas."""
        return tuple(
            broker.broker_id
            for broker in self.brokers
            if broker.is_idle and broker.broker_id in self.no_plan_fills
        )


@dataclass(frozen=True, slots=True)
class WantedRebalance:
    """A plan that would help, and why. `broker_ids` are the goal's brokers, if it names some."""

    goal: Goal
    broker_ids: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class PlanSize:
    """What the plan that would help costs."""

    replicas_copied: int
    bytes_copied: int
    leaders_changed: int
    expected_seconds: float  # at the policy's rate
    rate_bytes_per_second: int  # the policy's, per broker


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A snapshot that the analysis could not use, and why."""

    snapshot_id: str
    reason: str
