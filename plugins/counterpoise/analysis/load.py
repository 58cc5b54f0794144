"""What the tables of the Spark job `partition_load` say about one cluster: traffic, hot topics and
partitions, growth, disks.

    load = cluster_load(series, topic_load, partition_load, log_dir_load, cluster="demo")
    typical_bytes_in(partition_load_of_a_day, snapshot.partitions)     # for the planner

How the rates of a broker are found:

    rates = a matrix, brokers x snapshots, from the rows of SERIES
    0 where a broker leads nothing, NaN where its rate is not known, -inf where it is not registered
    seconds = per snapshot, the time since the one before: a rate is a mean over that time
    a sum is only a lower bound where rates in it are, or are not known
    percentiles per row, each rate weighed by its seconds

A rate over a gap does not count. A null is not zero: where the rate of one leading broker is not
known, that of the cluster is not known. Nothing is compared across a rebuilt cluster.

Limits: rates are means between two snapshots, so peaks in between do not show; a broker's rate is
the sum of the known rates of its partitions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.analysis.forecast import TimeAxis, growth_of
from counterpoise.analysis.period import Period, is_often, means
from counterpoise.analysis.series import Series, read_series
from counterpoise.analysis.topics import (
    growing_topics,
    hot_topics,
    hottest_rows,
    rates_of_groups,
    topic_history,
)
from counterpoise.model.columns import (
    Flags,
    Floats,
    Ints,
    flags_of,
    floats_of,
    numbers_of,
)
from counterpoise.model.evenness import Evenness, evenness
from counterpoise.model.grouping import grouped
from counterpoise.model.load import (
    BrokerTraffic,
    ClusterLoad,
    HotPartition,
    RackTraffic,
    Rates,
)
from counterpoise.model.tables import rows_of

_KEY: Final = ["topic", "partition"]
# Values of `how` in PARTITION_LOAD: what had this name before is another topic.
_ANOTHER_TOPIC: Final = ("first", "recreated", "rebuilt")
_NOT_REGISTERED: Final = -np.inf  # in a matrix of rates


def cluster_load(
    series: Series,
    topic_load: pa.Table,
    partition_load: pa.Table,
    log_dir_load: pa.Table,
    topic_daily: pa.Table | None = None,
    *,
    cluster: str,
    since: datetime | None = None,
    until: datetime | None = None,
) -> ClusterLoad | None:
    """Return the load of `cluster` over its snapshots with since <= observed_at < until, if any.

    All tables are of that period, PARTITION_LOAD of its latest snapshot at least, `topic_daily` of
    days that `topic_load` lacks.
    """
    columns = read_series(series, cluster=cluster, since=since, until=until)
    if not columns.snapshot_count:
        return None
    period = Period(columns)
    as_leader, as_follower = _read_traffic(columns.table, period)
    brokers, bytes_in = _brokers(period, as_leader, as_follower), as_leader.total()
    topics = topic_history(series, topic_load, topic_daily, period, since, until)
    loads_now = period.rows_now(_of_cluster(partition_load, cluster))
    growth = growth_of(_of_cluster(log_dir_load, cluster), columns)
    return ClusterLoad(
        cluster=cluster,
        snapshot_id=period.latest_id,
        observed_at=columns.times[-1],
        since=columns.times[columns.first],
        snapshot_count=columns.snapshot_count - columns.first,
        bytes_in=_rates(bytes_in, period)[0],
        replicated_in=_rates(as_follower.total(), period)[0],
        bytes_in_trace=TimeAxis(columns, columns.first).trace(bytes_in.rates[0]),
        leaders=_known_evenness([b.as_leader.now for b in brokers if not b.is_fenced]),
        followers=_known_evenness([b.as_follower.now for b in brokers if not b.is_fenced]),
        brokers=brokers,
        racks=_racks(period, as_leader),
        unknown=_unknown_reasons(loads_now),
        hot_partitions=_hot_partitions(loads_now),
        hot_topics=hot_topics(topics),
        held_bytes=growth.held_bytes,
        bytes_per_day=growth.bytes_per_day,
        growth_watched_seconds=growth.observed_seconds,
        growing_topics=growing_topics(topics),
        disks=growth.disks,
        has_unknown_rates=_has_unknown_rates(as_leader, period),
    )


def typical_bytes_in(partition_load: pa.Table, partitions: pa.Table) -> pa.Array:
    """Return the mean rate of each partition (int64, bytes per second, weighed by time) over rows
    of PARTITION_LOAD.

    The rows are one cluster's, of a day, say; the result is in the order of `partitions` (rows of
    PARTITIONS), null where no rate is known. Rows of another topic with the same name are left out.
    """
    row, rate, seconds = _rates_of(partition_load, partitions)
    mean_rates = means(rate, seconds, row, group_count=partitions.num_rows)
    is_known = np.isfinite(mean_rates)
    whole = np.rint(np.where(is_known, mean_rates, 0.0)).astype(np.int64)
    return pa.array(whole, mask=~is_known)


def _of_cluster(table: pa.Table, cluster: str) -> pa.Table:
    is_own = pc.equal(table["cluster"], cluster)
    return table if pc.all(is_own, min_count=0).as_py() else table.filter(is_own)


@dataclass(frozen=True, slots=True, eq=False)
class _Traffic:
    """Rates of things (brokers, or sums of them) x snapshots in bytes per second; NaN: not known,
    -inf: not registered.
    """

    broker_ids: Ints  # of the rows, ascending; none for sums
    rates: Floats
    # Of the same shape: whether the rate of a partition in the sum is only a lower bound, or is not
    # known.
    has_bound: Flags
    has_unknown: Flags

    def of(self, wanted: Ints | Flags) -> "_Traffic":
        """Return these rows."""
        return _Traffic(
            self.broker_ids[wanted],
            self.rates[wanted],
            self.has_bound[wanted],
            self.has_unknown[wanted],
        )

    def total(self) -> "_Traffic":
        """Return the sum of all rows as one row; NaN where the rate of a registered broker is not
        known.

        [[700, NaN], [300, 5], [-inf, 2]] gives [[1000, NaN]]: at first there are only two brokers.
        """
        is_registered = ~np.isneginf(self.rates)
        sums = np.where(is_registered, self.rates, 0.0).sum(axis=0, keepdims=True)
        sums = np.where(is_registered.any(axis=0), sums, np.nan)
        has_bound, has_unknown = (
            np.asarray(flags.any(axis=0))[None, :] for flags in (self.has_bound, self.has_unknown)
        )
        return _Traffic(np.empty(0, np.int64), sums, has_bound, has_unknown)


def _read_traffic(series: pa.Table, period: Period) -> tuple[_Traffic, _Traffic]:
    """Put the rates of SERIES into matrices of brokers x snapshots: as leader, and as follower.

    A broker that leads nothing takes in 0 as leader, as soon as the snapshot knows any rate; one
    that follows nothing, or is dead, fetches 0. Example with two brokers and two snapshots:

        broker  snapshot  leaders  leader_bytes_in_per_second
        1       0         2        null                          # the first snapshot knows no rate
        2       0         0        null
        1       1         2        700
        2       1         0        null                          # leads nothing

    gives the rates [[NaN, 700], [NaN, 0]] as leader.
    """
    broker_ids = np.unique(period.columns.broker_ids)
    snapshots = period.snapshot_indexes(series)
    brokers = np.searchsorted(broker_ids, numbers_of(series["broker_id"]))
    is_wanted = snapshots >= 0
    cells = brokers[is_wanted], snapshots[is_wanted]
    shape = len(broker_ids), period.columns.snapshot_count

    def matrix(values: Floats, absent: float) -> Floats:
        table = np.full(shape, absent)
        table[cells] = values[is_wanted]
        return table

    leader_counts = floats_of(series["leaders"])
    follower_counts = floats_of(series["replicas"]) - leader_counts
    follower_counts[floats_of(series["is_fenced"]) == 1] = 0.0
    knows_rates = np.isfinite(matrix(floats_of(series["leader_bytes_in_per_second"]), np.nan))

    def side(role: str, counts: Floats, prefix: str) -> _Traffic:
        rates = matrix(floats_of(series[f"{role}_bytes_in_per_second"]), _NOT_REGISTERED)
        has_bound, has_unknown = (
            (matrix(np.nan_to_num(floats_of(series[prefix + name])), 0.0) > 0) & np.isfinite(rates)
            for name in ("rates_at_least", "rates_unknown")
        )
        rates[(matrix(counts, -1.0) == 0) & knows_rates.any(axis=0)] = 0.0
        return _Traffic(broker_ids, rates, has_bound, has_unknown)

    return side("leader", leader_counts, ""), side("follower", follower_counts, "follower_")


def _rates(traffic: _Traffic, period: Period) -> tuple[Rates, ...]:
    """Return, for each row, the latest rate and the percentiles."""
    rates = traffic.rates
    row_count, snapshot_count = rates.shape
    rows = np.repeat(np.arange(row_count, dtype=np.int64), snapshot_count)
    seconds = np.tile(period.seconds, row_count)
    has_bounds = traffic.has_bound.any(axis=1)
    unknown = np.where(np.isfinite(rates), traffic.has_unknown, np.nan).ravel()
    return rates_of_groups(
        rates[:, -1],
        rates.ravel(),
        seconds,
        rows,
        has_bounds | traffic.has_unknown[:, -1],
        has_bounds | is_often(unknown, seconds, rows, group_count=row_count),
    )


def _has_unknown_rates(as_leader: _Traffic, period: Period) -> bool:
    """Return whether some rates were not known while others were, often in the period: of some
    partitions of a broker, or of all that it led.
    """
    is_known = np.isfinite(as_leader.rates).any(axis=0)
    is_partial = (as_leader.has_unknown | np.isnan(as_leader.rates)).any(axis=0)
    one_group = np.zeros(len(period.seconds), dtype=np.int64)
    partial = np.where(is_known, is_partial, np.nan)
    return bool(is_often(partial, period.seconds, one_group, group_count=1)[0])


def _brokers(
    period: Period, as_leader: _Traffic, as_follower: _Traffic
) -> tuple[BrokerTraffic, ...]:
    """Return the traffic of every broker that is registered in the latest snapshot, by id."""
    latest = period.columns.latest
    wanted = np.searchsorted(as_leader.broker_ids, numbers_of(latest["broker_id"]))
    led, followed = (_rates(side.of(wanted), period) for side in (as_leader, as_follower))
    return tuple(
        BrokerTraffic(
            broker_id=row["broker_id"],
            rack=row["rack"],
            is_fenced=row["is_fenced"],
            as_leader=own,
            as_follower=fetched,
            rates_known=row["rates_known"] or 0,
            rates_unknown=row["rates_unknown"] or 0,
        )
        for row, own, fetched in zip(latest.to_pylist(), led, followed, strict=True)
    )


def _racks(period: Period, as_leader: _Traffic) -> tuple[RackTraffic, ...]:
    """Return the traffic of the racks of the latest snapshot."""
    axis = TimeAxis(period.columns, period.columns.first)
    by_rack: Mapping[str | None, list[int]] = grouped(
        rows_of(period.columns.latest, "rack", "broker_id")
    )
    found = []
    for rack in sorted(by_rack, key=lambda rack: (rack is None, rack or "")):
        total = as_leader.of(np.isin(as_leader.broker_ids, by_rack[rack])).total()
        found.append(RackTraffic(rack, _rates(total, period)[0], axis.trace(total.rates[0])))
    return tuple(found)


def _known_evenness(rates: Sequence[int | None]) -> Evenness | None:
    """Return None where one of the rates is not known."""
    known = [rate for rate in rates if rate is not None]
    return evenness(known) if known and len(known) == len(rates) else None


def _unknown_reasons(loads: pa.Table) -> tuple[tuple[str, int], ...]:
    """Return why rates are not known, with the number of partitions, the most frequent first."""
    unknown = loads.filter(pc.is_null(loads["bytes_in_per_second"]))
    counts = unknown.group_by("how").aggregate([("topic", "count")])
    pairs = rows_of(counts, "how", "topic_count")
    return tuple(sorted(pairs, key=lambda pair: (-pair[1], pair[0])))


def _hot_partitions(loads: pa.Table) -> tuple[HotPartition, ...]:
    hottest, total = hottest_rows(loads, *_KEY)
    return tuple(
        HotPartition(
            topic=row["topic"],
            partition=row["partition"],
            leader=row["leader"],
            bytes_in_per_second=row["bytes_in_per_second"],
            share=row["bytes_in_per_second"] / total,
            is_at_least=row["how"] == "at_least",
        )
        for row in hottest.to_pylist()
    )


def _rates_of(partition_load: pa.Table, partitions: pa.Table) -> tuple[Ints, Floats, Floats]:
    """Return row in `partitions`, rate and seconds of each row of PARTITION_LOAD.

    Only rows of a partition as it is now are left: for a topic that was recreated at noon, those
    from noon on.
    """
    row_numbers = pa.array(range(partitions.num_rows), pa.int64())
    wanted = partitions.select(_KEY).append_column("row", row_numbers)
    load = partition_load.select([*_KEY, "observed_at", "seconds", "bytes_in_per_second", "how"])
    load = load.join(wanted, keys=_KEY, join_type="inner")
    rows = numbers_of(load["row"])
    times = numbers_of(load["observed_at"])
    is_new = flags_of(pc.is_in(load["how"], value_set=pa.array(_ANOTHER_TOPIC)))
    created = np.full(partitions.num_rows, np.iinfo(np.int64).min)
    np.maximum.at(created, rows[is_new], times[is_new])
    is_current = times >= created[rows]
    rates = floats_of(load["bytes_in_per_second"])
    seconds = floats_of(load["seconds"])
    return rows[is_current], rates[is_current], seconds[is_current]
