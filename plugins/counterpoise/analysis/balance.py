"""Analysis: what the tables of the Spark job `leader_balance` say about one cluster, and what would help.

    balance = leader_balance(broker_table, topic_table, cluster="demo")
    wanted = wanted_goal(balance, policy.balance)      # None: nothing needs doing

Evenness comes from `model/measures.py` over the live brokers. A snapshot that was analysed twice counts once.

Limits: it judges counts of leaders, not their traffic; whether the replica sets allow even leaders, the planner finds
out (it answers "nothing to do" when they do not).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.model.balance import (
    BalancePoint,
    BrokerBalance,
    LeaderBalance,
    RackBalance,
    TopicLean,
    WantedRebalance,
)
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.measures import evenness, share_not_preferred
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.report import BrokerLoad
from counterpoise.model.request import Goal

TOPICS_SHOWN: Final = 20
_BROKER_COLUMNS: Final = tuple(BrokerBalance.__slots__)


def leader_balance(
    broker_balance: pa.Table, topic_balance: pa.Table, *, cluster: str, topics_shown: int = TOPICS_SHOWN
) -> LeaderBalance | None:
    """The balance of `cluster` from tables of BROKER_BALANCE and TOPIC_BALANCE, any number of snapshots.

    None when the tables have no snapshot of this cluster: "not enough data" is an answer.
    """
    snapshots = _snapshots(_of_cluster(broker_balance, cluster))
    if not snapshots:
        return None
    series = _series(snapshots)
    latest = series[-1]
    of_latest = topic_balance.filter(pc.equal(topic_balance["snapshot_id"], latest.snapshot_id))
    topics = _topics(_of_cluster(of_latest, cluster), len(latest.live_broker_ids))
    leaning = sorted(
        (topic for topic in topics if topic.excess > 0),
        key=lambda topic: (-topic.excess, -topic.size_bytes, topic.topic),
    )
    return LeaderBalance(
        cluster=cluster,
        latest=latest,
        brokers=snapshots[-1].brokers,
        racks=_racks(snapshots[-1].live),
        topics=tuple(leaning[:topics_shown]),
        topic_count=len(topics),
        leaning_topic_count=len(leaning),
        series=series,
    )


def broker_loads(snapshot: ClusterSnapshot) -> tuple[BrokerLoad, ...]:
    """Leaders, replicas and bytes of every live broker in one snapshot, by id; idle ones are zeros."""
    by_leader = snapshot.partitions.group_by("leader").aggregate([("topic", "count")])
    leaders = dict(zip(by_leader["leader"].to_pylist(), by_leader["topic_count"].to_pylist(), strict=True))
    held = snapshot.replicas.group_by("broker_id").aggregate([("topic", "count"), ("size_bytes", "sum")])
    columns = (held[name].to_pylist() for name in ("broker_id", "topic_count", "size_bytes_sum"))
    holds = {broker_id: (count, size or 0) for broker_id, count, size in zip(*columns, strict=True)}
    return tuple(BrokerLoad(b, leaders.get(b, 0), *holds.get(b, (0, 0))) for b in snapshot.live_broker_ids)


def wanted_goal(balance: LeaderBalance, policy: BalancePolicy) -> WantedRebalance | None:
    """What would help: a new broker that holds nothing comes first, then leaders that lie too unevenly.

    Leaders are judged both as they are and as the replica order prefers them: where only the first are uneven, a
    preferred election helps; where the second are, the order has to change. The goal `leaders` does either.
    """
    latest = balance.latest
    idle = balance.idle_broker_ids
    if idle and latest.replicas.total >= latest.replicas.broker_count:
        return WantedRebalance(Goal.ADD_BROKERS, idle, _idle_reason(balance))
    for what, spread in (("preferred leaders", latest.preferred_leaders), ("leaders", latest.leaders)):
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
    subject = f"broker {names} is live but holds" if len(idle) == 1 else f"brokers {names} are live but hold"
    return (
        f"{subject} no replica, while {latest.replicas.total} replicas lie on "
        f"{'the other broker' if others == 1 else f'the other {others} brokers'}"
    )


def _of_cluster(table: pa.Table, cluster: str) -> pa.Table:
    return table.filter(pc.equal(table["cluster"], cluster))


@dataclass(frozen=True, slots=True)
class _Snapshot:
    snapshot_id: str
    observed_at: datetime
    brokers: tuple[BrokerBalance, ...]  # by id

    @property
    def live(self) -> tuple[BrokerBalance, ...]:
        return tuple(broker for broker in self.brokers if not broker.is_fenced)


def _snapshots(table: pa.Table) -> tuple[_Snapshot, ...]:
    """Oldest first. Of rows for the same snapshot and broker the last one stays."""
    brokers: dict[str, dict[int, BrokerBalance]] = {}
    times: dict[str, datetime] = {}
    columns = [table[name].to_pylist() for name in ("snapshot_id", "observed_at", *_BROKER_COLUMNS)]
    for snapshot_id, observed_at, *values in zip(*columns, strict=True):
        broker = BrokerBalance(*values)
        brokers.setdefault(snapshot_id, {})[broker.broker_id] = broker
        times[snapshot_id] = observed_at
    found = (_Snapshot(i, times[i], tuple(of[b] for b in sorted(of))) for i, of in brokers.items())
    return tuple(sorted(found, key=lambda snapshot: (snapshot.observed_at, snapshot.snapshot_id)))


def _series(snapshots: Sequence[_Snapshot]) -> tuple[BalancePoint, ...]:
    before: tuple[_Snapshot | None, ...] = (None, *snapshots[:-1])
    return tuple(_point(snapshot, previous) for snapshot, previous in zip(snapshots, before, strict=True))


def _point(snapshot: _Snapshot, previous: _Snapshot | None) -> BalancePoint:
    live = snapshot.live
    ids = {broker.broker_id for broker in live}
    ids_before = {broker.broker_id for broker in previous.live} if previous else ids
    partition_count = sum(broker.preferred_leaders for broker in snapshot.brokers)
    return BalancePoint(
        snapshot_id=snapshot.snapshot_id,
        observed_at=snapshot.observed_at,
        leaders=evenness([broker.leaders for broker in live]),
        preferred_leaders=evenness([broker.preferred_leaders for broker in live]),
        replicas=evenness([broker.replicas for broker in live]),
        bytes=evenness([broker.bytes for broker in live]),
        share_not_preferred=share_not_preferred(
            sum(b.leaders_not_preferred for b in snapshot.brokers), partition_count
        ),
        live_broker_ids=tuple(sorted(ids)),
        joined_broker_ids=tuple(sorted(ids - ids_before)),
        left_broker_ids=tuple(sorted(ids_before - ids)),
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
        for rack, brokers in sorted(by_rack.items(), key=lambda item: (item[0] is None, item[0] or ""))
    )


def _topics(table: pa.Table, live_count: int) -> tuple[TopicLean, ...]:
    """Every topic once, though its snapshot was analysed twice."""
    names = ("topic", "partition_count", "most_leaders", "fewest_leaders", "size_bytes")
    found: dict[str, TopicLean] = {}
    for topic, partitions, most, fewest, size in zip(*(table[name].to_pylist() for name in names), strict=True):
        best = 0 if live_count and partitions % live_count == 0 else 1
        found[topic] = TopicLean(topic, partitions, most, fewest, size, excess=max(0, most - fewest - best))
    return tuple(found.values())
