"""Analysis: what a cluster's series and its topics say about one cluster, and what would help.

    balance = leader_balance(series, topics, cluster="demo", since=None, until=None)
    wanted = wanted_goal(balance, policy.balance)      # None: nothing needs doing

Evenness comes from `model/evenness.py` over the live brokers. A snapshot that was analysed twice
counts once.

Limits: it judges counts of leaders, not their traffic; whether the replica sets allow even leaders,
the planner finds out (it answers "nothing to do" when they do not).
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.analysis.columns import NO_RACK, Floats, Ints, SeriesColumns, read_series
from counterpoise.analysis.events import breaks, churn, find_events
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
from counterpoise.model.evenness import Evenness, best_max_minus_min, evenness, share_not_preferred
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.report import BrokerLoad
from counterpoise.model.request import Goal

TOPICS_SHOWN: Final = 20


def leader_balance(
    series: pa.Table,
    topics: pa.Table,
    *,
    cluster: str,
    since: datetime | None = None,
    until: datetime | None = None,
    topics_shown: int = TOPICS_SHOWN,
) -> LeaderBalance | None:
    """The balance of `cluster` from a table of SERIES, and of TOPIC_BALANCE with (at least) its
    latest snapshot.

    The period is since <= observed_at < until. None when it has no snapshot: "not enough data" is
    an answer.
    """
    columns = read_series(series, cluster=cluster, since=since, until=until)
    if columns.snapshot_count == 0:
        return None
    points = _points(columns)
    latest = points[-1]
    brokers = _brokers(columns, columns.snapshot_count - 1)
    all_topics = _topics(topics, cluster, latest)
    leaning = sorted(
        (topic for topic in all_topics if topic.excess > 0),
        key=lambda topic: (-topic.excess, -topic.size_bytes, topic.topic),
    )
    found = breaks(columns)
    return LeaderBalance(
        cluster=cluster,
        latest=latest,
        brokers=brokers,
        racks=_racks([broker for broker in brokers if not broker.is_fenced]),
        topics=tuple(leaning[:topics_shown]),
        topic_count=len(all_topics),
        leaning_topic_count=len(leaning),
        series=points,
        breaks=found.positions,
        events=find_events(columns, found),
        churn=churn(columns),
        heat_maps=heat_maps(columns, found.positions),
    )


def broker_loads(snapshot: ClusterSnapshot) -> tuple[BrokerLoad, ...]:
    """Leaders, replicas and bytes of every live broker in one snapshot, by id; idle ones are zeros."""
    by_leader = snapshot.partitions.group_by("leader").aggregate([("topic", "count")])
    leaders = dict(
        zip(by_leader["leader"].to_pylist(), by_leader["topic_count"].to_pylist(), strict=True)
    )
    held = snapshot.replicas.group_by("broker_id").aggregate(
        [("topic", "count"), ("size_bytes", "sum")]
    )
    columns = (held[name].to_pylist() for name in ("broker_id", "topic_count", "size_bytes_sum"))
    holds = {broker_id: (count, size or 0) for broker_id, count, size in zip(*columns, strict=True)}
    return tuple(
        BrokerLoad(b, leaders.get(b, 0), *holds.get(b, (0, 0))) for b in snapshot.live_broker_ids
    )


def wanted_goal(balance: LeaderBalance, policy: BalancePolicy) -> WantedRebalance | None:
    """What would help: a new broker that holds nothing comes first, then leaders that lie too
    unevenly.

    Leaders are judged both as they are and as the replica order prefers them: where only the first
    are uneven, a preferred election helps; where the second are, the order has to change. The goal
    `leaders` does either.
    """
    latest = balance.latest
    idle = balance.idle_broker_ids
    if idle and latest.replicas.total >= latest.replicas.broker_count:
        return WantedRebalance(Goal.ADD_BROKERS, idle, _idle_reason(balance))
    for what, spread in (
        ("preferred leaders", latest.preferred_leaders),
        ("leaders", latest.leaders),
    ):
        allowed = spread.best_max_minus_min + policy.leaders_max_minus_min
        if spread.max_minus_min > allowed:
            reason = (
                f"{what} per live broker range from {spread.minimum} to {spread.maximum}; "
                f"the policy asks for max - min of at most {allowed}"
            )
            return WantedRebalance(Goal.LEADERS, (), reason)
    return None


def _idle_reason(balance: LeaderBalance) -> str:
    idle = balance.idle_broker_ids
    latest = balance.latest
    others = latest.replicas.broker_count - len(idle)
    names = ", ".join(map(str, idle))
    subject = (
        f"broker {names} is live but holds"
        if len(idle) == 1
        else f"brokers {names} are live but hold"
    )
    return (
        f"{subject} no replica, while {latest.replicas.total} replicas lie on "
        f"{'the other broker' if others == 1 else f'the other {others} brokers'}"
    )


def _brokers(columns: SeriesColumns, snapshot: int) -> tuple[BrokerBalance, ...]:
    rows = range(columns.starts[snapshot], columns.starts[snapshot + 1])
    return tuple(
        BrokerBalance(
            broker_id=int(columns.broker_ids[row]),
            rack=columns.rack_name(int(columns.racks[row])),
            is_fenced=not columns.is_live[row],
            leaders=int(columns.leaders[row]),
            preferred_leaders=int(columns.preferred_leaders[row]),
            leaders_not_preferred=int(columns.leaders_not_preferred[row]),
            replicas=int(columns.replicas[row]),
            bytes=int(columns.bytes[row]),
        )
        for row in rows
    )


def _points(columns: SeriesColumns) -> tuple[BalancePoint, ...]:
    points: list[BalancePoint] = []
    for at in range(columns.snapshot_count):
        point = _point(columns, at)
        if points and points[-1].live_broker_ids == point.live_broker_ids:
            point = replace(
                point, live_broker_ids=points[-1].live_broker_ids
            )  # one tuple for all of them
        points.append(point)
    return tuple(points)


def _point(columns: SeriesColumns, at: int) -> BalancePoint:
    rows = columns.rows(at)
    is_live = columns.is_live[rows]
    counts = (columns.leaders, columns.preferred_leaders, columns.replicas, columns.bytes)
    leaders, preferred, replicas, size = (column[rows][is_live] for column in counts)
    not_preferred = int(columns.leaders_not_preferred[rows].sum())
    return BalancePoint(
        snapshot_id=columns.snapshot_ids[at],
        observed_at=columns.times[at],
        leaders=_evenness(leaders),
        preferred_leaders=_evenness(preferred),
        replicas=_evenness(replicas),
        bytes=_evenness(size),
        share_not_preferred=share_not_preferred(
            not_preferred, int(columns.preferred_leaders[rows].sum())
        ),
        live_broker_ids=tuple(columns.broker_ids[rows][is_live].tolist()),
        bytes_in=_known_evenness(columns.bytes_in[rows][is_live]),
        racks=_rack_points(columns, columns.racks[rows][is_live], leaders, replicas, size),
        changes=columns.changes[at],
    )


def _evenness(counts: Ints) -> Evenness:
    return evenness(counts.tolist())


def _known_evenness(rates: Floats) -> Evenness | None:
    """None where one is not known: it is not zero.

    None as well where nothing at all is known to come in.
    """
    if not len(rates) or np.isnan(rates).any() or not rates.any():
        return None
    return _evenness(rates.astype(np.int64))


def _rack_points(columns: SeriesColumns, racks: Ints, *measures: Ints) -> tuple[RackPoint, ...]:
    """By name, the nameless one last.

    `measures` are leaders, replicas and bytes, one for each of `racks`.
    """
    found = sorted(set(racks.tolist()), key=lambda rack: (rack == NO_RACK, rack))
    return tuple(
        RackPoint(
            columns.rack_name(rack), *(_evenness(measure[racks == rack]) for measure in measures)
        )
        for rack in found
    )


def _racks(live: Sequence[BrokerBalance]) -> tuple[RackBalance, ...]:
    """Sums by rack; the rack without a name last."""
    by_rack: dict[str | None, list[BrokerBalance]] = {}
    for broker in live:
        by_rack.setdefault(broker.rack, []).append(broker)
    return tuple(
        RackBalance(
            rack,
            len(brokers),
            sum(b.leaders for b in brokers),
            sum(b.replicas for b in brokers),
            sum(b.bytes for b in brokers),
        )
        for rack, brokers in sorted(
            by_rack.items(), key=lambda item: (item[0] is None, item[0] or "")
        )
    )


def _topics(table: pa.Table, cluster: str, latest: BalancePoint) -> tuple[TopicLeaderSkew, ...]:
    """Every topic of the latest snapshot once, though it was analysed twice."""
    is_wanted = pc.and_(
        pc.equal(table["snapshot_id"], latest.snapshot_id), pc.equal(table["cluster"], cluster)
    )
    wanted, live_count = table.filter(is_wanted), len(latest.live_broker_ids)
    names = ("topic", "partition_count", "most_leaders", "fewest_leaders", "size_bytes")
    found: dict[str, TopicLeaderSkew] = {}
    for topic, partitions, most, fewest, size in zip(
        *(wanted[name].to_pylist() for name in names), strict=True
    ):
        best = best_max_minus_min(partitions, live_count)
        found[topic] = TopicLeaderSkew(
            topic, partitions, most, fewest, size, excess=max(0, most - fewest - best)
        )
    return tuple(found.values())
