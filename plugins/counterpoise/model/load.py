"""What a cluster takes in, how fast it grows, when its disks are full: found by `analysis`, drawn
by `reporting`.

    load.bytes_in.p95, load.hot_topics[0].share, load.disks[0].days_left

Rates are bytes per second. None is "not known", never zero. Percentiles are weighed by time: each
rate is a mean over the time since the snapshot before, and counts for as long as that.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from counterpoise.model.evenness import Evenness

SOON_DAYS: Final = 30  # within which a disk that fills up is shown as urgent


@dataclass(frozen=True, slots=True)
class Rates:
    """One rate in the latest snapshot, and over the period.

    A sum is only a lower bound where rates in it are (of compacted topics), and where some rates
    are not known: how much is missing is not known then. `is_at_least` says that of `now`, and
    `is_period_at_least` of the others: there hours with unknown rates count once they are more
    than a twentieth of the time.
    """

    now: int | None
    p50: int | None
    p95: int | None
    highest: int | None
    is_at_least: bool = False
    is_period_at_least: bool = False


@dataclass(frozen=True, slots=True)
class Trace:
    """A figure over time for a chart: at most some 200 points; None where the line breaks."""

    at: tuple[float, ...]  # 0.0 is the start, 1.0 the end
    values: tuple[int | None, ...]
    seconds: float  # from start to end


@dataclass(frozen=True, slots=True)
class BrokerTraffic:
    """What one registered broker takes in."""

    broker_id: int
    rack: str | None
    is_fenced: bool
    as_leader: Rates  # from producers
    as_follower: Rates  # fetched from leaders
    rates_known: int  # partitions that it leads now whose rate is known
    rates_unknown: int


@dataclass(frozen=True, slots=True)
class RackTraffic:
    """What the brokers that are in one rack now take in from producers, all together."""

    rack: str | None
    as_leader: Rates
    trace: Trace = Trace((), (), 0.0)  # of what they take in, all at the times of the others


@dataclass(frozen=True, slots=True)
class HotPartition:
    topic: str
    partition: int
    leader: int | None
    bytes_in_per_second: int
    share: float  # of all known rates of the cluster, 0.0 to 1.0
    is_at_least: bool  # a compacted log: no less than this


@dataclass(frozen=True, slots=True)
class BusyPartition:
    """What one partition took in over a period, as long as its rate is known."""

    topic: str
    partition: int
    mean_bytes_in_per_second: int
    highest_bytes_in_per_second: int
    share: float  # of all known bytes in of the period, 0.0 to 1.0
    is_at_least: bool  # some of its rates are only lower bounds


@dataclass(frozen=True, slots=True)
class BusyPartitions:
    partitions: tuple[BusyPartition, ...]  # the highest mean first, only the first ones
    is_at_least: bool  # some rates of the cluster are only lower bounds, and so is their sum


@dataclass(frozen=True, slots=True)
class HotTopic:
    topic: str
    partition_count: int
    bytes_in: Rates
    share: float  # of all known rates of the cluster, 0.0 to 1.0
    hottest_partition: int | None
    hottest_bytes_in_per_second: int | None


@dataclass(frozen=True, slots=True)
class TopicGrowth:
    topic: str
    size_bytes: int  # of one copy
    bytes_per_day: int  # of one copy


class Outlook(StrEnum):
    """What becomes of a disk if it goes on as in the last two weeks."""

    FILLS = "fills"
    NOT_KNOWN = "not-known"
    NOT_WITHIN_A_YEAR = "not-within-a-year"
    SHRINKING = "shrinking"


@dataclass(frozen=True, slots=True)
class DiskForecast:
    """One file system of a broker: the log dirs on it count together."""

    broker_id: int
    log_dirs: tuple[str, ...]
    held_bytes: int | None  # of the replicas on it; None: it is not told now
    total_bytes: int | None
    usable_bytes: int | None
    bytes_per_day: int | None
    watched_seconds: float  # that the growth was told by, moves and gaps left out
    outlook: Outlook
    days_left: float | None  # where it fills
    held: Trace = Trace((), (), 0.0)  # over the two weeks

    @property
    def used_share(self) -> float | None:
        """Return 0.0 to 1.0, files of other programs included."""
        if not self.total_bytes or self.usable_bytes is None:
            return None
        return min(1.0, max(0.0, 1 - self.usable_bytes / self.total_bytes))

    @property
    def is_full_soon(self) -> bool:
        return self.days_left is not None and self.days_left <= SOON_DAYS

    @property
    def in_words(self) -> str:
        """Return `full in 12 days`, `not within a year`, `shrinking`, `not known`."""
        if self.days_left is None:
            return {
                Outlook.NOT_WITHIN_A_YEAR: "not within a year",
                Outlook.SHRINKING: "shrinking",
            }.get(self.outlook, "not known")
        if self.days_left < 1:
            return "full now" if not self.usable_bytes else "full within a day"
        whole = int(self.days_left)
        return f"full in {whole} day{'' if whole == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class ClusterLoad:
    """One cluster over a period: `now` is the latest snapshot of it."""

    cluster: str
    snapshot_id: str
    observed_at: datetime  # UTC, of the latest snapshot
    # of the first one that is of the same cluster; what was before a rebuild is left out
    since: datetime
    snapshot_count: int
    bytes_in: Rates  # from producers, over all brokers
    replicated_in: Rates  # fetched by followers, over all brokers
    bytes_in_trace: Trace
    leaders: (
        Evenness | None
    )  # of bytes in now, over the live brokers; None where the rate of one is not known
    followers: Evenness | None
    brokers: tuple[BrokerTraffic, ...]  # every registered broker, by id
    racks: tuple[RackTraffic, ...]  # by name, the nameless one last
    unknown: tuple[
        tuple[str, int], ...
    ]  # why rates of partitions are not known now, and of how many; most first
    hot_partitions: tuple[HotPartition, ...]  # hottest first, only the first ones
    hot_topics: tuple[HotTopic, ...]
    held_bytes: int | None  # over all log dirs
    bytes_per_day: int | None  # how fast the log dirs grow, all together; moves and gaps left out
    growth_watched_seconds: float  # that it was told by
    growing_topics: tuple[TopicGrowth, ...]  # fastest first, only the first ones
    disks: tuple[DiskForecast, ...]  # all, the one that is full first first
    busy_partitions: BusyPartitions | None = None  # None: nobody asked
    # Over the period: rates of some partitions were not known, of others they were, for more than a
    # twentieth of the time. Then a share of the known sum is at most what it says.
    has_unknown_rates: bool = False
    # The period before; its `hot_topics` are those of this one, as far as it had them. None where
    # it is not known.
    before: "ClusterLoad | None" = None

    @property
    def rates_known(self) -> int:
        return sum(broker.rates_known for broker in self.brokers)

    @property
    def rates_unknown(self) -> int:
        return sum(broker.rates_unknown for broker in self.brokers)

    @property
    def first_full(self) -> DiskForecast | None:
        """Return the disk that is full first, if any fills within a year."""
        return self.disks[0] if self.disks and self.disks[0].outlook is Outlook.FILLS else None
