"""How evenly one cluster is used, by its series and its topics; `wanted.py` says what would help.

    balance = leader_balance(series, topics, cluster="demo", since=None, until=None)

Evenness is that of `model/evenness.py` over the live brokers. A snapshot that was analysed twice
counts once.

Limits: it compares counts of leaders, not their traffic.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.analysis.events import churn, find_events
from counterpoise.analysis.period import means
from counterpoise.analysis.series import (
    NO_RACK,
    Series,
    SeriesColumns,
    read_series,
    rows_for,
)
from counterpoise.model.balance import (
    BalancePoint,
    BrokerBalance,
    HeatMap,
    LeaderBalance,
    RackBalance,
    RackPoint,
    TopicLeaderSkew,
)
from counterpoise.model.broker_weight import BY_DISK, BrokerWeight
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.columns import Flags, Floats, Ints
from counterpoise.model.evenness import (
    Evenness,
    best_max_minus_min,
    evenness,
    farthest_from_share,
    share_not_preferred,
)
from counterpoise.model.grouping import grouped
from counterpoise.model.run_progress import BrokerLoad
from counterpoise.model.tables import rows_of

# -- Brokers over time for heat maps: at most 60 rows and some 200 columns
#
#     maps = heat_maps(columns)       # of leaders; of bytes-in where they are known
#
# A value is a broker's part of the mean over the live brokers of the same snapshot: 1.0 is the fair
# share. Example: brokers with 30, 20 and 10 leaders have the mean 20, so the values are 1.5, 1.0
# and 0.5. More snapshots than columns become means over buckets of equal length, counted from 1970
# so that a day's bucket is a day (UTC).


ROWS_SHOWN: Final = 60
COLUMNS_SHOWN: Final = 200
_MINUTE, _HOUR, _DAY = 60, 3600, 86400  # in seconds
_BUCKETS: Final = (
    *(_MINUTE * count for count in (1, 2, 5, 10, 15, 20, 30)),
    *(_HOUR * count for count in (1, 2, 3, 4, 6, 8, 12)),
    *(_DAY * count for count in (1, 2, 3, 7, 14, 28, 56, 112)),
)

Periods = tuple[tuple[datetime, datetime], ...]  # from, until


def heat_maps(columns: SeriesColumns) -> tuple[HeatMap, ...]:
    """Return maps of leaders, and of bytes-in where a snapshot knows them; none with a single
    snapshot.
    """
    if columns.snapshot_count < 2:
        return ()
    leaders = np.where(columns.is_live, columns.leaders.astype(np.float64), np.nan)
    bytes_in = np.where(columns.is_live, columns.bytes_in, np.nan)
    maps = [_heat_map("leaders", columns, leaders)]
    if np.nansum(bytes_in) > 0:
        maps.append(_heat_map("bytes_in", columns, bytes_in))
    return tuple(maps)


def _heat_map(measure: str, columns: SeriesColumns, values: Floats) -> HeatMap:
    broker_ids, shares = _shares(columns, values)
    bucket_seconds, column_of_snapshot, periods = _periods(columns)
    column_shares = _column_shares(shares, column_of_snapshot, len(periods))
    shown = _farthest_from_share(column_shares)
    rows = tuple(
        tuple(None if np.isnan(value) else round(value, 4) for value in row)
        for row in column_shares[shown].tolist()
    )
    shown_ids = tuple(broker_ids[shown].tolist())
    return HeatMap(measure, shown_ids, periods, rows, bucket_seconds, len(broker_ids))


def _shares(columns: SeriesColumns, values: Floats) -> tuple[Ints, Floats]:
    """Return the brokers by id, and their part of the mean, brokers x snapshots; NaN where that is
    not known.
    """
    broker_ids, broker_rows = np.unique(columns.broker_ids, return_inverse=True)
    snapshots = np.repeat(np.arange(columns.snapshot_count), np.diff(columns.starts))
    fair_shares = means(values, np.ones(len(values)), snapshots, group_count=columns.snapshot_count)
    fair_shares[fair_shares == 0] = np.nan
    shares = np.full((len(broker_ids), columns.snapshot_count), np.nan)
    shares[broker_rows, snapshots] = values / fair_shares[snapshots]
    return broker_ids, shares


def _periods(columns: SeriesColumns) -> tuple[int | None, Ints, Periods]:
    """Return the length of a bucket in seconds (None: a column is a snapshot), the column of each
    snapshot, and the period of each column.
    """
    if columns.snapshot_count <= COLUMNS_SHOWN:
        one_each = np.arange(columns.snapshot_count)
        return None, one_each, _snapshot_periods(columns.times, columns.breaks.positions)
    seconds = np.array([time.timestamp() for time in columns.times])
    total = seconds[-1] - seconds[0]
    fitting = (length for length in _BUCKETS if total / length <= COLUMNS_SHOWN - 1)
    length = next(fitting, int(-(-total // (COLUMNS_SHOWN - 1))))
    buckets, column_of_snapshot = np.unique(seconds // length, return_inverse=True)
    starts = [datetime.fromtimestamp(bucket * length, UTC) for bucket in buckets.tolist()]
    periods = tuple((start, start + timedelta(seconds=length)) for start in starts)
    return length, column_of_snapshot, periods


def _snapshot_periods(times: tuple[datetime, ...], breaks: tuple[int, ...]) -> Periods:
    """Return the period of each snapshot: until the next one; before a break, and at the end, no
    longer than the usual interval.
    """
    intervals = [after - before for before, after in pairwise(times)]
    unbroken = [length for index, length in enumerate(intervals, 1) if index not in breaks]
    ordered = sorted(unbroken or intervals)
    usual = ordered[len(ordered) // 2] or timedelta(seconds=_MINUTE)
    ends = [
        min(after, before + usual) if index in breaks else after
        for index, (before, after) in enumerate(pairwise(times), 1)
    ]
    return tuple(zip(times, [*ends, times[-1] + usual], strict=True))


def _column_shares(shares: Floats, column_of_snapshot: Ints, column_count: int) -> Floats:
    """Return the mean of what is known in each column; NaN where nothing is.

    Shares [[1.0, NaN, 0.5]] in the columns [0, 0, 1] become [[1.0, 0.5]].
    """
    cell_count = len(shares) * column_count
    first_cells = np.arange(0, cell_count, column_count)[:, None]
    cells = (first_cells + column_of_snapshot).ravel()
    found = means(shares.ravel(), np.ones(shares.size), cells, group_count=cell_count)
    return found.reshape(len(shares), column_count)


def _farthest_from_share(shares: Floats) -> Ints:
    """Return the rows to show, in order: all, or those farthest from the fair share on average."""
    if len(shares) <= ROWS_SHOWN:
        return np.arange(len(shares))
    is_known = ~np.isnan(shares)
    distances = np.where(is_known, np.abs(shares - 1.0), 0.0).sum(axis=1)
    mean_distances = distances / np.maximum(1, is_known.sum(axis=1))
    return np.sort(np.argsort(-mean_distances, kind="stable")[:ROWS_SHOWN])


_TOPICS_SHOWN: Final = 20
_IGNORED_BYTES: Final = 10 * 10**9  # off a fair share: nobody moves data for less


def leader_balance(
    series: Series,
    topics: pa.Table,
    *,
    cluster: str,
    since: datetime | None = None,
    until: datetime | None = None,
    disk_bytes: Mapping[int, int] = MappingProxyType({}),
    broker_weight: BrokerWeight = BY_DISK,
    kept_empty: frozenset[int] = frozenset(),
    closed: frozenset[int] = frozenset(),
) -> LeaderBalance | None:
    """Return the balance of `cluster` from a table of SERIES, and of TOPIC_BALANCE with (at least)
    its latest snapshot, or the latest that is kept.

    `disk_bytes`: of each broker, and `broker_weight` of the policy: what is fair of replicas and
    bytes.
    Brokers `kept_empty` do not count as uneven, nor do those that are `closed` to new replicas and
    have none; neither are idle.

    The period is since <= observed_at < until. None when it has no snapshot: "not enough data" is
    an answer.
    """
    columns = read_series(series, cluster=cluster, since=since, until=until)
    if columns.snapshot_count == 0:
        return None
    is_closed = np.isin(columns.broker_ids, sorted(closed)) & (columns.replicas == 0)
    shares = columns.is_live & ~is_closed & ~np.isin(columns.broker_ids, sorted(kept_empty))
    points = _points(columns, disk_bytes, broker_weight, shares)
    brokers = _latest_brokers(columns)
    topics_point = _newest_point(topics, points)
    all_topics = _topics(topics, cluster, topics_point)
    skewed_topics = [topic for topic in all_topics if topic.excess > 0]
    skewed_topics.sort(key=lambda topic: (-topic.excess, -topic.size_bytes, topic.topic))
    return LeaderBalance(
        cluster=cluster,
        latest=points[-1],
        brokers=brokers,
        racks=_racks([broker for broker in brokers if not broker.is_fenced]),
        topics=tuple(skewed_topics[:_TOPICS_SHOWN]),
        topic_count=len(all_topics),
        skewed_topic_count=len(skewed_topics),
        topics_at=topics_point.observed_at,
        series=points,
        no_plan_fills=kept_empty | closed,
        breaks=columns.breaks.positions,
        events=find_events(columns),
        churn=churn(columns),
        heat_maps=heat_maps(columns),
    )


def broker_loads(snapshot: ClusterSnapshot) -> tuple[BrokerLoad, ...]:
    """Return leaders, replicas and bytes of every live broker of a snapshot, by id.

    A broker without replicas has zeros.
    """
    led = snapshot.partitions.group_by("leader").aggregate([("topic", "count")])
    leader_counts = dict(rows_of(led, "leader", "topic_count"))
    held = snapshot.replicas.group_by("broker_id").aggregate(
        [("topic", "count"), ("size_bytes", "sum")]
    )
    replica_counts = dict(rows_of(held, "broker_id", "topic_count"))
    held_bytes = dict(rows_of(held, "broker_id", "size_bytes_sum"))
    return tuple(
        BrokerLoad(
            broker_id,
            leader_counts.get(broker_id, 0),
            replica_counts.get(broker_id, 0),
            held_bytes.get(broker_id) or 0,
        )
        for broker_id in snapshot.live_broker_ids
    )


def _latest_brokers(columns: SeriesColumns) -> tuple[BrokerBalance, ...]:
    """Return every broker that is registered in the latest snapshot, by id."""
    return tuple(BrokerBalance(**row) for row in rows_for(BrokerBalance, columns.latest))


def _points(
    columns: SeriesColumns,
    disk_bytes: Mapping[int, int],
    broker_weight: BrokerWeight,
    shares: Flags,
) -> tuple[BalancePoint, ...]:
    points: list[BalancePoint] = []
    for snapshot in range(columns.snapshot_count):
        point = _point(columns, snapshot, disk_bytes, broker_weight, shares)
        if points and points[-1].live_broker_ids == point.live_broker_ids:
            # One tuple for all of them: it saves memory.
            point = replace(point, live_broker_ids=points[-1].live_broker_ids)
        points.append(point)
    return tuple(points)


def _point(
    columns: SeriesColumns,
    snapshot: int,
    disk_bytes: Mapping[int, int],
    broker_weight: BrokerWeight,
    all_shares: Flags,
) -> BalancePoint:
    """Return the measures over the brokers that share, of all live ones."""
    rows = columns.rows(snapshot)
    broker_ids = columns.broker_ids[rows]
    shares = all_shares[rows]
    racks = columns.racks[rows][shares]
    leaders = columns.leaders[rows][shares]
    preferred_leaders = columns.preferred_leaders[rows][shares]
    replicas = columns.replicas[rows][shares]
    held_bytes = columns.bytes[rows][shares]
    sharing_ids = broker_ids[shares].tolist()
    disks = [disk_bytes.get(broker_id, 0) for broker_id in sharing_ids]
    weights = broker_weight.weights_of(sharing_ids, disks)
    changes = columns.changes[snapshot]
    # Of partitions that prefer a dead broker none is in its row where it has none (before 4.0).
    by_preferred = int(columns.preferred_leaders[rows].sum())
    partition_count = changes.partitions if changes else by_preferred
    not_preferred = int(columns.leaders_not_preferred[rows].sum())
    return BalancePoint(
        snapshot_id=columns.snapshot_ids[snapshot],
        observed_at=columns.times[snapshot],
        leaders=_evenness(leaders),
        preferred_leaders=_evenness(preferred_leaders),
        replicas=_evenness(replicas),
        bytes=_evenness(held_bytes),
        share_not_preferred=share_not_preferred(not_preferred, partition_count),
        live_broker_ids=tuple(broker_ids[columns.is_live[rows]].tolist()),
        replicas_off_share=farthest_from_share(replicas, weights),
        bytes_off_share=farthest_from_share(held_bytes, weights, ignored=_IGNORED_BYTES),
        bytes_in=_known_evenness(columns.bytes_in[rows][shares]),
        racks=_rack_points(columns, racks, leaders),
        changes=changes,
    )


def _evenness(counts: Ints) -> Evenness:
    return evenness(counts.tolist())


def _known_evenness(rates: Floats) -> Evenness | None:
    """Return None where a rate is not known (that is not zero), and where all of them are zero."""
    if not len(rates) or np.isnan(rates).any() or not rates.any():
        return None
    return _evenness(rates.astype(np.int64))


def _rack_points(columns: SeriesColumns, racks: Ints, leaders: Ints) -> tuple[RackPoint, ...]:
    """Return the racks by name, the one without a name last.

    Each array has one value per live broker that shares.
    """
    distinct = sorted(set(racks.tolist()), key=lambda rack: (rack == NO_RACK, rack))
    return tuple(
        RackPoint(columns.rack_name(rack), _evenness(leaders[racks == rack])) for rack in distinct
    )


def _racks(live_brokers: Sequence[BrokerBalance]) -> tuple[RackBalance, ...]:
    """Return the sums by rack; the rack without a name last."""
    by_rack = grouped((broker.rack, broker) for broker in live_brokers)
    names = sorted(by_rack, key=lambda rack: (rack is None, rack or ""))
    return tuple(_rack(name, by_rack[name]) for name in names)


def _rack(name: str | None, brokers: Sequence[BrokerBalance]) -> RackBalance:
    return RackBalance(
        rack=name,
        broker_count=len(brokers),
        leaders=sum(broker.leaders for broker in brokers),
        replicas=sum(broker.replicas for broker in brokers),
        bytes=sum(broker.bytes for broker in brokers),
    )


def _newest_point(topics: pa.Table, points: Sequence[BalancePoint]) -> BalancePoint:
    """Return the latest snapshot that rows of TOPIC_BALANCE are of: that of the end of the period,
    unless it was thinned out.
    """
    ids = set(topics["snapshot_id"].unique().to_pylist())
    return next((point for point in reversed(points) if point.snapshot_id in ids), points[-1])


def _topics(table: pa.Table, cluster: str, latest: BalancePoint) -> tuple[TopicLeaderSkew, ...]:
    """Return every topic of that snapshot once, even if it was analysed twice.

    A topic with 10 partitions on 4 live brokers, 5 leaders on one and 1 on another: max - min is 4,
    the best possible 1 (3, 3, 2, 2), the excess 3.
    """
    is_latest = pc.equal(table["snapshot_id"], latest.snapshot_id)
    is_own = pc.equal(table["cluster"], cluster)
    topics: dict[str, TopicLeaderSkew] = {}
    for row in rows_for(TopicLeaderSkew, table.filter(pc.and_(is_latest, is_own))):
        best = best_max_minus_min(row["partition_count"], len(latest.live_broker_ids))
        excess = row["most_leaders"] - row["fewest_leaders"] - best
        topics[row["topic"]] = TopicLeaderSkew(**row, excess=max(0, excess))
    return tuple(topics.values())
