"""How evenly one cluster is used, by its series and its topics, and which plan would help.

    balance = leader_balance(series, topics, cluster="demo", since=None, until=None)
    wanted = wanted_goal(balance, policy.balance)      # None: nothing needs doing

Evenness is that of `model/evenness.py` over the live brokers. A snapshot that was analysed twice
counts once.

Limits: it compares counts of leaders, not their traffic. Whether the replica sets allow even
leaders is for the planner to find out: it answers "nothing to do" where they do not.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.analysis.columns import (
    NO_RACK,
    SeriesColumns,
    read_series,
    rows_for,
)
from counterpoise.analysis.events import churn, find_events
from counterpoise.analysis.heat import heat_maps
from counterpoise.model.balance import (
    BalancePoint,
    BrokerBalance,
    LeaderBalance,
    RackBalance,
    RackPoint,
    TopicLeaderSkew,
    WantedRebalance,
)
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.columns import Floats, Ints
from counterpoise.model.evenness import Evenness, best_max_minus_min, evenness, share_not_preferred
from counterpoise.model.grouping import grouped
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.report import BrokerLoad
from counterpoise.model.request import Goal
from counterpoise.model.tables import rows_of

_TOPICS_SHOWN: Final = 20


def leader_balance(
    series: pa.Table,
    topics: pa.Table,
    *,
    cluster: str,
    since: datetime | None = None,
    until: datetime | None = None,
    wanted_topics: Collection[str] | None = None,
) -> LeaderBalance | None:
    """Return the balance of `cluster` from a table of SERIES, and of TOPIC_BALANCE with (at least)
    its latest snapshot, or the latest that is kept.

    `wanted_topics`: these instead of those with the largest skew.

    The period is since <= observed_at < until. None when it has no snapshot: "not enough data" is
    an answer.
    """
    columns = read_series(series, cluster=cluster, since=since, until=until)
    if columns.snapshot_count == 0:
        return None
    points = _points(columns)
    brokers = _latest_brokers(columns)
    topics_point = _newest_point(topics, points)
    all_topics = _topics(topics, cluster, topics_point)
    skewed_topics = [topic for topic in all_topics if topic.excess > 0]
    skewed_topics.sort(key=lambda topic: (-topic.excess, -topic.size_bytes, topic.topic))
    shown = skewed_topics[:_TOPICS_SHOWN]
    if wanted_topics is not None:
        shown = [topic for topic in all_topics if topic.topic in set(wanted_topics)]
    return LeaderBalance(
        cluster=cluster,
        latest=points[-1],
        brokers=brokers,
        racks=_racks([broker for broker in brokers if not broker.is_fenced]),
        topics=tuple(shown),
        topic_count=len(all_topics),
        skewed_topic_count=len(skewed_topics),
        topics_at=topics_point.observed_at,
        series=points,
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


def wanted_goal(balance: LeaderBalance, policy: BalancePolicy) -> WantedRebalance | None:
    """Return the plan that would help: for new brokers that hold nothing, else for uneven leaders.

    Leaders are judged as they are, and as the replica order prefers them: where only the first are
    uneven, a preferred leader election helps; where the second are, the order has to change. The
    goal `leaders` does either.
    """
    latest = balance.latest
    idle = balance.idle_broker_ids
    if idle and latest.replicas.total >= latest.replicas.broker_count:
        return WantedRebalance(Goal.ADD_BROKERS, idle, _idle_reason(balance))
    reason = _why_uneven(latest, policy)
    return WantedRebalance(Goal.LEADERS, (), reason) if reason else None


def uneven_snapshots(balance: LeaderBalance, policy: BalancePolicy) -> int:
    """Return how many of the newest snapshots, in a row, have more uneven leaders than the policy
    allows. Nothing is counted across a gap, or of another cluster.
    """
    count = 0
    for position in reversed(range(len(balance.series))):
        if not _why_uneven(balance.series[position], policy):
            break
        count += 1
        if position in balance.breaks:
            break
    return count


def _why_uneven(point: BalancePoint, policy: BalancePolicy) -> str:
    """Return in which way leaders are more uneven than the policy allows; "" where they are not."""
    measures = (("preferred leaders", point.preferred_leaders), ("leaders", point.leaders))
    for name, measured in measures:
        allowed = measured.best_max_minus_min + policy.leaders_max_minus_min
        if measured.max_minus_min > allowed:
            return (
                f"{name} per live broker range from {measured.minimum} to {measured.maximum}; "
                f"the policy allows max - min of at most {allowed}"
            )
    return ""


def _idle_reason(balance: LeaderBalance) -> str:
    idle = balance.idle_broker_ids
    replicas = balance.latest.replicas
    others = replicas.broker_count - len(idle)
    ids = ", ".join(map(str, idle))
    subject = (
        f"broker {ids} is live but holds"
        if len(idle) == 1
        else (f"brokers {ids} are live but hold")
    )
    elsewhere = "the other broker" if others == 1 else f"the other {others} brokers"
    return f"{subject} no replica, while {replicas.total} replicas are on {elsewhere}"


def _latest_brokers(columns: SeriesColumns) -> tuple[BrokerBalance, ...]:
    """Return every broker that is registered in the latest snapshot, by id."""
    return tuple(BrokerBalance(**row) for row in rows_for(BrokerBalance, columns.latest))


def _points(columns: SeriesColumns) -> tuple[BalancePoint, ...]:
    points: list[BalancePoint] = []
    for snapshot in range(columns.snapshot_count):
        point = _point(columns, snapshot)
        if points and points[-1].live_broker_ids == point.live_broker_ids:
            # One tuple for all of them: it saves memory.
            point = replace(point, live_broker_ids=points[-1].live_broker_ids)
        points.append(point)
    return tuple(points)


def _point(columns: SeriesColumns, snapshot: int) -> BalancePoint:
    rows = columns.rows(snapshot)
    is_live = columns.is_live[rows]
    racks = columns.racks[rows][is_live]
    leaders = columns.leaders[rows][is_live]
    preferred_leaders = columns.preferred_leaders[rows][is_live]
    replicas = columns.replicas[rows][is_live]
    held_bytes = columns.bytes[rows][is_live]
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
        live_broker_ids=tuple(columns.broker_ids[rows][is_live].tolist()),
        bytes_in=_known_evenness(columns.bytes_in[rows][is_live]),
        racks=_rack_points(columns, racks, leaders, replicas, held_bytes),
        changes=changes,
    )


def _evenness(counts: Ints) -> Evenness:
    return evenness(counts.tolist())


def _known_evenness(rates: Floats) -> Evenness | None:
    """Return None where a rate is not known (that is not zero), and where all of them are zero."""
    if not len(rates) or np.isnan(rates).any() or not rates.any():
        return None
    return _evenness(rates.astype(np.int64))


def _rack_points(
    columns: SeriesColumns, racks: Ints, leaders: Ints, replicas: Ints, held_bytes: Ints
) -> tuple[RackPoint, ...]:
    """Return the racks by name, the one without a name last.

    Each array has one value per live broker.
    """
    distinct = sorted(set(racks.tolist()), key=lambda rack: (rack == NO_RACK, rack))
    return tuple(
        RackPoint(
            columns.rack_name(rack),
            _evenness(leaders[racks == rack]),
            _evenness(replicas[racks == rack]),
            _evenness(held_bytes[racks == rack]),
        )
        for rack in distinct
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
