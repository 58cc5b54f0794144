"""How evenly a cluster is used: the values that `analysis` finds and `reporting` draws.

    balance.latest.leaders.max_minus_min, balance.idle_broker_ids

Evenness is over the live brokers, zeros included; what lies on fenced (dead) brokers is shown per broker, but does
not count as uneven: it cannot be helped by moving leaders.
"""

from dataclasses import dataclass
from datetime import datetime

from counterpoise.model.measures import Evenness
from counterpoise.model.request import Goal


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
        """Live, and without a single replica: Kafka gives a new broker none of the old partitions."""
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
class TopicLean:
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
class BalancePoint:
    """One snapshot's place in the series. Joined and left compare the live brokers with the snapshot before."""

    snapshot_id: str
    observed_at: datetime  # UTC
    leaders: Evenness
    preferred_leaders: Evenness
    replicas: Evenness
    bytes: Evenness
    share_not_preferred: float  # 0.0 to 1.0
    live_broker_ids: tuple[int, ...]
    joined_broker_ids: tuple[int, ...] = ()
    left_broker_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LeaderBalance:
    """One cluster's balance: the latest snapshot in full, and every snapshot's measures, oldest first."""

    cluster: str
    latest: BalancePoint
    brokers: tuple[BrokerBalance, ...]  # every registered broker, by id
    racks: tuple[RackBalance, ...]  # by name, the nameless one last
    topics: tuple[TopicLean, ...]  # those that lean, worst first, only the first ones
    topic_count: int
    leaning_topic_count: int
    series: tuple[BalancePoint, ...]  # ends with `latest`

    @property
    def live_brokers(self) -> tuple[BrokerBalance, ...]:
        return tuple(broker for broker in self.brokers if not broker.is_fenced)

    @property
    def idle_broker_ids(self) -> tuple[int, ...]:
        return tuple(broker.broker_id for broker in self.brokers if broker.is_idle)


@dataclass(frozen=True, slots=True)
class WantedRebalance:
    """A plan that would help, and why. `broker_ids` are the goal's brokers (none for `leaders`)."""

    goal: Goal
    broker_ids: tuple[int, ...]
    reason: str
