"""What the tables of the Spark job `partition_load` say about one cluster: traffic, what is hot,
growth, disks.

    load = cluster_load(series, topic_load, partition_load, log_dir_load, cluster="demo")
    typical_bytes_in(partition_load_of_a_day, snapshot.partitions)     # for the planner, in the order of `partitions`

A rate counts for as long as it is a mean over, and not at all where it lies over a gap. Nulls are
no zeros: where the rate of one leading broker is not known, that of the cluster is not. Nothing is
compared across a rebuilt cluster.

Limits: rates are means between two snapshots, and know no peaks within; a broker's rate is the sum
of the known ones.
"""

from datetime import datetime
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.analysis.columns import Floats, Ints, SeriesColumns, read_series
from counterpoise.analysis.events import Breaks, breaks
from counterpoise.analysis.forecast import DAY, WINDOW, Timeline, growth_of
from counterpoise.analysis.weighing import by_group, means
from counterpoise.model.evenness import Evenness, evenness
from counterpoise.model.load import (
    BrokerTraffic,
    ClusterLoad,
    HotPartition,
    HotTopic,
    Rates,
    TopicGrowth,
)

SHOWN: Final = 20
_SHARES: Final = (0.5, 0.95, 1.0)
_KEY: Final = ["topic", "partition"]
_OF_BROKERS: Final = [
    "leaders",
    "replicas",
    "is_fenced",
    "leader_bytes_in_per_second",
    "follower_bytes_in_per_second",
    "rates_known",
    "rates_unknown",
]
_OF_SERIES: Final = ["cluster", "snapshot_id", "broker_id", *_OF_BROKERS]
_ANOTHER_TOPIC: Final = (
    "first",
    "recreated",
    "rebuilt",
)  # what was before under this name is another one


def cluster_load(
    series: pa.Table,
    topic_load: pa.Table,
    partition_load: pa.Table,
    log_dir_load: pa.Table,
    *,
    cluster: str,
    since: datetime | None = None,
    until: datetime | None = None,
) -> ClusterLoad | None:
    """The load of `cluster` over its snapshots with since <= observed_at < until.

    `series` has rows of SERIES; TOPIC_LOAD and LOG_DIR_LOAD are of the same period, PARTITION_LOAD
    of the latest snapshot at least. None when there is no snapshot: "not enough data" is an answer.
    """
    columns = read_series(series, cluster=cluster, since=since, until=until)
    if not columns.snapshot_count:
        return None
    found = breaks(columns)
    period = _Period(columns, found)
    first, seconds = period.first, period.seconds
    series = _of_cluster(series.select(_OF_SERIES), cluster)
    as_leader, as_follower, known, unknown = _traffic(series, period)
    brokers = _brokers(period, as_leader, as_follower, known, unknown)
    bytes_in, replicated_in = _over_brokers(as_leader), _over_brokers(as_follower)
    growth = growth_of(_of_cluster(log_dir_load, cluster), columns, found, first=first)
    topic_load, now = _of_cluster(topic_load, cluster), _of_cluster(partition_load, cluster)
    now = now.filter(pc.equal(now["snapshot_id"], period.latest_id))
    return ClusterLoad(
        cluster=cluster,
        snapshot_id=period.latest_id,
        observed_at=columns.times[-1],
        since=columns.times[first],
        snapshot_count=columns.snapshot_count - first,
        bytes_in=_rates(bytes_in[None, :], seconds)[0],
        replicated_in=_rates(replicated_in[None, :], seconds)[0],
        bytes_in_trace=Timeline(columns, found, first=first).trace(bytes_in),
        leaders=_evenness([b.as_leader.now for b in brokers if not b.is_fenced]),
        followers=_evenness([b.as_follower.now for b in brokers if not b.is_fenced]),
        brokers=brokers,
        unknown=_why_unknown(now),
        hot_partitions=_hot_partitions(now),
        hot_topics=_hot_topics(topic_load, period),
        held_bytes=growth.held_bytes,
        bytes_per_day=growth.bytes_per_day,
        growth_watched_seconds=growth.watched_seconds,
        held_trace=growth.trace,
        growing_topics=_growing_topics(topic_load, period),
        disks=growth.disks,
    )


def typical_bytes_in(partition_load: pa.Table, partitions: pa.Table) -> pa.Array:
    """The mean rate of each partition (int64, bytes per second, weighed by time) over rows of
    PARTITION_LOAD.

    One cluster's rows, of a day, say; in the order of `partitions` (rows of PARTITIONS), null where
    no rate is known. What was of another topic with the same name is left out.
    """
    row, rate, seconds = _rates_of(partition_load, partitions)
    return _whole_numbers(means(rate, seconds, row, group_count=partitions.num_rows))


def _of_cluster(table: pa.Table, cluster: str) -> pa.Table:
    is_its = pc.equal(table["cluster"], cluster)
    return table if pc.all(is_its, min_count=0).as_py() else table.filter(is_its)


class _Period:
    """The snapshots of one cluster since it was last rebuilt: where each one is, and how long its
    rates stood.
    """

    def __init__(self, columns: SeriesColumns, found: Breaks) -> None:
        self.columns = columns
        self.first = max(found.rebuilt, default=0)
        self.seconds = _seconds(columns, found, self.first)
        self._ids = pa.array(columns.snapshot_ids, pa.string())

    @property
    def latest_id(self) -> str:
        return self.columns.snapshot_ids[-1]

    def positions(self, table: pa.Table) -> Ints:
        """Of the rows' snapshots; negative for those that are not of the period."""
        at = pc.fill_null(pc.index_in(table["snapshot_id"], value_set=self._ids), -1)
        positions = np.array(at.to_numpy(), dtype=np.int64)
        return np.where(positions >= self.first, positions, -1)


def _seconds(columns: SeriesColumns, found: Breaks, first: int) -> Floats:
    """How long the rates of each snapshot stood; NaN where that is not known, and over a gap."""
    known = [
        changes.seconds if changes is not None and changes.seconds and at >= first else np.nan
        for at, changes in enumerate(columns.changes)
    ]
    seconds = np.array(known, dtype=np.float64)
    seconds[list(found.after_gap)] = np.nan
    return seconds


def _traffic(series: pa.Table, period: _Period) -> tuple[Floats, Floats, Ints, Ints]:
    """As leader and as follower, brokers x snapshots; and of how many led partitions the rate is
    known and unknown now.

    Brokers are those of the period, by id. NaN: not known; -inf: not registered. Who leads nothing
    takes in nothing as leader, as soon as any rate is known; who follows nothing, or is dead,
    fetches nothing.
    """
    ids = np.unique(period.columns.broker_ids)
    at = period.positions(series)
    broker = np.searchsorted(ids, np.array(series["broker_id"].to_numpy(), dtype=np.int64)).clip(
        max=len(ids) - 1
    )
    is_wanted = at >= 0
    shape = (len(ids), period.columns.snapshot_count)

    def spread(values: Floats, absent: float) -> Floats:
        table = np.full(shape, absent)
        table[broker[is_wanted], at[is_wanted]] = values[is_wanted]
        return table

    leaders, replicas, dead, leading, following, known, unknown = (
        _floats(series[name]) for name in _OF_BROKERS
    )
    as_leader, as_follower = spread(leading, -np.inf), spread(following, -np.inf)
    has_rates = np.isfinite(as_leader).any(axis=0)
    leads, follows = (
        spread(leaders, -1.0),
        spread(np.where(dead == 1, 0.0, replicas - leaders), -1.0),
    )
    as_leader[(leads == 0) & has_rates] = 0.0
    as_follower[(follows == 0) & has_rates] = 0.0
    now = [
        np.nan_to_num(spread(values, 0.0)[:, -1]).astype(np.int64) for values in (known, unknown)
    ]
    return as_leader, as_follower, now[0], now[1]


def _over_brokers(rates: Floats) -> Floats:
    """Per snapshot; NaN where the rate of one that is registered is not known."""
    is_registered = ~np.isneginf(rates)
    sums = np.where(is_registered, rates, 0.0).sum(axis=0)
    return np.where(is_registered.any(axis=0), sums, np.nan)


def _rates(rates: Floats, seconds: Floats) -> tuple[Rates, ...]:
    """Of each row of `rates` (things x snapshots)."""
    count, snapshots = rates.shape
    groups = np.repeat(np.arange(count, dtype=np.int64), snapshots)
    found = by_group(
        rates.ravel(), np.tile(seconds, count), groups, group_count=count, shares=_SHARES
    )
    return tuple(
        Rates(_whole(now), *map(_whole, row))
        for now, row in zip(rates[:, -1].tolist(), found.tolist(), strict=True)
    )


def _brokers(
    period: _Period, as_leader: Floats, as_follower: Floats, known: Ints, unknown: Ints
) -> tuple[BrokerTraffic, ...]:
    columns = period.columns
    rows = columns.rows(columns.snapshot_count - 1)
    ids = columns.broker_ids[rows]
    at = np.searchsorted(np.unique(columns.broker_ids), ids)
    leading, following = (
        _rates(as_leader[at], period.seconds),
        _rates(as_follower[at], period.seconds),
    )
    return tuple(
        BrokerTraffic(
            broker_id=int(ids[row]),
            rack=columns.rack_name(int(columns.racks[rows][row])),
            is_fenced=not columns.is_live[rows][row],
            as_leader=leading[row],
            as_follower=following[row],
            rates_known=int(known[at[row]]),
            rates_unknown=int(unknown[at[row]]),
        )
        for row in range(len(ids))
    )


def _evenness(rates: list[int | None]) -> Evenness | None:
    known = [rate for rate in rates if rate is not None]
    return evenness(known) if known and len(known) == len(rates) else None


def _why_unknown(now: pa.Table) -> tuple[tuple[str, int], ...]:
    counts = (
        now.filter(pc.is_null(now["bytes_in_per_second"]))
        .group_by("how")
        .aggregate([("topic", "count")])
    )
    pairs = zip(counts["how"].to_pylist(), counts["topic_count"].to_pylist(), strict=True)
    return tuple(sorted(pairs, key=lambda pair: (-pair[1], pair[0])))


def _hottest(table: pa.Table, *ties: str) -> tuple[pa.Table, int]:
    """The first rows by rate, those without traffic left out, and the sum of all known rates."""
    total = pc.sum(table["bytes_in_per_second"]).as_py() or 0
    order = [("bytes_in_per_second", "descending"), *((name, "ascending") for name in ties)]
    return table.filter(pc.greater(table["bytes_in_per_second"], 0)).sort_by(order).slice(
        0, SHOWN
    ), total


def _hot_partitions(now: pa.Table) -> tuple[HotPartition, ...]:
    hottest, total = _hottest(now, *_KEY)
    names = ("topic", "partition", "leader", "bytes_in_per_second", "how")
    return tuple(
        HotPartition(topic, partition, leader, rate, rate / total, how == "at_least")
        for topic, partition, leader, rate, how in zip(
            *(hottest[name].to_pylist() for name in names), strict=True
        )
    )


def _hot_topics(topic_load: pa.Table, period: _Period) -> tuple[HotTopic, ...]:
    now = topic_load.filter(pc.equal(topic_load["snapshot_id"], period.latest_id))
    hottest, total = _hottest(now, "topic")
    topics = hottest["topic"].combine_chunks()
    rows = topic_load.filter(pc.is_in(topic_load["topic"], value_set=topics))
    rates = np.full((len(topics), period.columns.snapshot_count), np.nan)
    at = period.positions(rows)
    topic = np.array(pc.index_in(rows["topic"], value_set=topics).to_numpy(), dtype=np.int64)
    rates[topic[at >= 0], at[at >= 0]] = _floats(rows["bytes_in_per_second"])[at >= 0]
    names = (
        "partition_count",
        "bytes_in_per_second",
        "hottest_partition",
        "hottest_bytes_in_per_second",
    )
    columns = (hottest[name].to_pylist() for name in names)
    return tuple(
        HotTopic(name, partitions, over_time, rate / total, partition, partition_rate)
        for name, over_time, partitions, rate, partition, partition_rate in zip(
            topics.to_pylist(), _rates(rates, period.seconds), *columns, strict=True
        )
    )


def _growing_topics(topic_load: pa.Table, period: _Period) -> tuple[TopicGrowth, ...]:
    """Those that there are now, by their mean growth over the last two weeks."""
    now = topic_load.filter(pc.equal(topic_load["snapshot_id"], period.latest_id))
    topics = now["topic"].combine_chunks()
    recent = pc.greater_equal(
        topic_load["observed_at"], pa.scalar(period.columns.times[-1] - WINDOW)
    )
    rows = topic_load.filter(recent)
    at = period.positions(rows)
    seconds = np.where(at >= 0, period.seconds[at], np.nan)
    topic = np.array(
        pc.fill_null(pc.index_in(rows["topic"], value_set=topics), -1).to_numpy(), dtype=np.int64
    )
    growth = (
        means(_floats(rows["growth_bytes_per_second"]), seconds, topic, group_count=len(topics))
        * DAY
    )
    found = zip(topics.to_pylist(), now["size_bytes"].to_pylist(), growth.tolist(), strict=True)
    growing = [
        TopicGrowth(name, size, round(per_day)) for name, size, per_day in found if per_day >= 0.5
    ]
    return tuple(sorted(growing, key=lambda one: (-one.bytes_per_day, one.topic))[:SHOWN])


def _rates_of(partition_load: pa.Table, partitions: pa.Table) -> tuple[Ints, Floats, Floats]:
    """Row in `partitions`, rate and seconds of each row of PARTITION_LOAD that is of a partition as
    it is now.
    """
    rows = pa.array(range(partitions.num_rows), pa.int64())
    wanted = partitions.select(_KEY).append_column("row", rows)
    load = partition_load.select([*_KEY, "observed_at", "seconds", "bytes_in_per_second", "how"])
    load = load.join(wanted, keys=_KEY, join_type="inner")
    row = np.array(load["row"].to_numpy(), dtype=np.int64)
    times = np.array(load["observed_at"].cast(pa.int64()).to_numpy(), dtype=np.int64)
    is_new = np.array(
        pc.is_in(load["how"], value_set=pa.array(_ANOTHER_TOPIC)).to_numpy(), dtype=np.bool_
    )
    born = np.full(partitions.num_rows, np.iinfo(np.int64).min)
    np.maximum.at(born, row[is_new], times[is_new])
    is_this = times >= born[row]
    return (
        row[is_this],
        _floats(load["bytes_in_per_second"])[is_this],
        _floats(load["seconds"])[is_this],
    )


def _floats(column: pa.ChunkedArray) -> Floats:
    """Whole numbers below 2^53, nulls as NaN."""
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)


def _whole(value: float) -> int | None:
    return round(value) if np.isfinite(value) else None


def _whole_numbers(values: Floats) -> pa.Array:
    is_known = np.isfinite(values)
    return pa.array(np.rint(np.where(is_known, values, 0.0)).astype(np.int64), mask=~is_known)
