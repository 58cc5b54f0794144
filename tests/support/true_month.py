"""A month in the life of a small cluster, and the snapshots that the product would have made of it.

    month = live_a_month()
    for snapshot in month.snapshots: archive.write_snapshot(snapshot)
    month.cluster.record, month.seen      # what really was, for tests to compute the truth from

A snapshot an hour, a few seconds late; some are missing. The events are in `_EVENTS`, by the hour.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from counterpoise.history import snapshot_id_for
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.tables import (
    BROKERS,
    LOG_DIRS,
    PARTITIONS,
    REPLICAS,
    SNAPSHOT_TABLES,
    TOPICS,
    table_of,
)
from tests.support.true_cluster import TICKS_PER_HOUR, Partition, TrueCluster

CLUSTER: Final = "true"
BEGIN: Final = datetime(2026, 3, 1, tzinfo=UTC)
HOURS: Final = 720
MISSING: Final = frozenset({150, 250, *range(400, 406)})  # hours without a snapshot
GAP: Final = (399, 406)  # the last snapshot before the long gap, and the first after it
MAX_LATE_SECONDS: Final = 8
JOINED, MOVE_BEGAN, MOVE_ENDED = 200, 210, 214  # hours
DIED, RETURNED = 330, 333
RECREATED, CREATED, DELETED = 288, 360, 480
DISK_BYTES: Final = 1_500_000_000_000
OTHER_FILES_BYTES: Final = 20_000_000_000
NEW_BROKER, DEAD_BROKER = 5, 3
DELETED_RECORDS: Final = "audit"


@dataclass(frozen=True)
class Seen:
    """What was when a snapshot was made: plain values, by partition name."""

    hour: int
    tick: int
    observed_at: datetime
    brokers: dict[int, str]
    dead: frozenset[int]
    leaders: dict[tuple[str, int], int]
    replicas: dict[tuple[str, int], tuple[int, ...]]
    settled: dict[tuple[str, int], tuple[int, ...]]  # replicas without those that are added
    indexes: dict[tuple[str, int], int]  # of the partitions, in the record
    sizes: dict[tuple[str, int], int]
    topic_ids: dict[str, str]
    moving: int


@dataclass
class Month:
    cluster: TrueCluster
    snapshots: list[ClusterSnapshot] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)


def live_a_month() -> Month:
    """Live through the month, hour by hour."""
    cluster = TrueCluster({1: "a", 2: "b", 3: "c", 4: "a"})
    _create_topics(cluster)
    month = Month(cluster)
    dice = random.Random(11)
    events = sorted(_EVENTS, key=lambda event: event[0])
    for hour in range(HOURS + 1):
        if hour not in MISSING:
            _observe(month, hour, dice.randrange(MAX_LATE_SECONDS))
        for _ in range(TICKS_PER_HOUR if hour < HOURS else 0):
            while events and events[0][0] * TICKS_PER_HOUR <= cluster.now:
                events.pop(0)[1](cluster)
            cluster.tick()
    return month


def _create_topics(cluster: TrueCluster) -> None:
    create = cluster.create
    create("orders", 12, 20_000, record_bytes=800)
    create("payments", 6, 9_000, record_bytes=1_200, first=1)
    create("clicks", 12, 60_000, record_bytes=300, retention_hours=48, first=2)
    create("logs", 6, 40_000, record_bytes=250, retention_hours=12, first=3)
    create("audit", 3, 2_000, record_bytes=700)
    create("users", 6, 5_000, record_bytes=400, kept_records=20_000, first=1)
    create("sessions", 2, 8_000, record_bytes=200, kept_records=5_000, first=2)
    create("small", 1, 300, record_bytes=100, copies=2)
    create("idle", 3, 0, first=1)
    create("nightly", 4, 30_000, record_bytes=900, hours=(1, 3))
    create("temporary", 4, 3_000, record_bytes=500, first=3)
    create("old", 3, 1_000, record_bytes=500, first=2)


def _recreate(cluster: TrueCluster) -> None:
    cluster.delete("temporary")
    cluster.create("temporary", 4, 6_000, record_bytes=500, first=1)


def _begin_move(cluster: TrueCluster) -> None:
    """Every third partition gives its second replica to the new broker, and some their first."""
    for partition in cluster.partitions[::3]:
        place = 0 if partition.index % 2 else 1
        replicas = list(partition.replicas)
        replicas[place] = NEW_BROKER
        cluster.reassign(partition, replicas)


def _end_move(cluster: TrueCluster) -> None:
    for partition in cluster.partitions:
        if partition.adding:
            cluster.finish_reassignment(partition)


def _flap(cluster: TrueCluster) -> None:
    """Broker 4 is fenced for a moment, as where its session expires."""
    cluster.stop(4, "died")
    cluster.start(4)


Event = tuple[float, Callable[[TrueCluster], None]]


def _rolling_restart(begin: float) -> list[Event]:
    events: list[Event] = []
    for place, broker_id in enumerate((1, 2, 3, 4)):
        at = begin + place
        events.append((at + 0.1, lambda cluster, b=broker_id: cluster.stop(b, "restart")))
        events.append((at + 0.3, lambda cluster, b=broker_id: cluster.start(b)))
    return [*events, (begin + 4.5, lambda cluster: cluster.elect_preferred())]


_EVENTS: Final[list[Event]] = [
    (100.2, lambda cluster: cluster.stop(2, "restart")),
    (100.5, lambda cluster: cluster.start(2)),
    (103.5, lambda cluster: cluster.elect_preferred()),
    *_rolling_restart(160),
    (JOINED - 0.5, lambda cluster: cluster.join(NEW_BROKER, "b")),
    (MOVE_BEGAN - 0.5, _begin_move),
    (MOVE_ENDED - 0.5, _end_move),
    (MOVE_ENDED + 1.5, lambda cluster: cluster.elect_preferred()),
    (RECREATED - 0.5, _recreate),
    (DIED - 0.5, lambda cluster: cluster.stop(DEAD_BROKER, "died")),
    (RETURNED - 0.5, lambda cluster: cluster.start(DEAD_BROKER)),
    (RETURNED + 1.5, lambda cluster: cluster.elect_preferred()),
    (CREATED - 0.5, lambda cluster: cluster.create("fresh", 3, 7_000, record_bytes=600)),
    (402.5, lambda cluster: cluster.stop(1, "restart")),
    (402.8, lambda cluster: cluster.start(1)),
    (DELETED - 0.5, lambda cluster: cluster.delete("old")),
    *[(500.3 + hour, _flap) for hour in range(8)],
    *[(500.7 + hour, lambda cluster: cluster.elect_preferred()) for hour in range(8)],
    (600.5, lambda cluster: cluster.delete_records(DELETED_RECORDS)),
    (650.2, lambda cluster: cluster.stop(2, "restart")),
    (650.5, lambda cluster: cluster.start(2)),
]


def _observe(month: Month, hour: int, late_seconds: int) -> None:
    cluster = month.cluster
    scheduled = BEGIN + timedelta(hours=hour)
    observed_at = scheduled + timedelta(seconds=late_seconds)
    partitions = sorted(cluster.partitions, key=lambda p: p.name)
    month.seen.append(
        Seen(
            hour=hour,
            tick=cluster.now,
            observed_at=observed_at,
            brokers=dict(cluster.brokers),
            dead=frozenset(cluster.dead),
            leaders={p.name: p.leader for p in partitions},
            replicas={p.name: tuple(p.replicas) for p in partitions},
            settled={p.name: tuple(b for b in p.replicas if b not in p.adding) for p in partitions},
            indexes={p.name: p.index for p in partitions},
            sizes={p.name: p.size_bytes for p in partitions},
            topic_ids={p.topic.name: p.topic.topic_id for p in partitions},
            moving=sum(bool(p.adding) for p in partitions),
        )
    )
    tables = _tables(cluster, partitions)
    month.snapshots.append(
        ClusterSnapshot(
            snapshot_id=snapshot_id_for(CLUSTER, scheduled),
            cluster=CLUSTER,
            cluster_id="id-of-the-true-one",
            observed_at=observed_at,
            tables={
                name: tables.get(name, schema.empty_table())
                for name, schema in SNAPSHOT_TABLES.items()
            },
        )
    )


def held_bytes(partitions: list[Partition], broker_id: int) -> int:
    """Return what a broker holds: whole copies, those that it is still adding left out."""
    return sum(
        p.size_bytes for p in partitions if broker_id in p.replicas and broker_id not in p.adding
    )


def _tables(cluster: TrueCluster, partitions: list[Partition]) -> dict[str, Any]:
    brokers = sorted(cluster.brokers)
    live = [b for b in brokers if b not in cluster.dead]
    held = [held_bytes(partitions, b) for b in live]
    copies = [(p, b, place) for p in partitions for place, b in enumerate(p.replicas)]
    topics = {p.topic.name: p.topic for p in partitions}
    counts = {name: sum(p.topic.name == name for p in partitions) for name in topics}

    def size_of(p: Partition, broker_id: int) -> int | None:
        if broker_id in cluster.dead:
            return None
        return 0 if broker_id in p.adding else p.size_bytes

    return {
        "brokers": table_of(
            BROKERS,
            {
                "broker_id": brokers,
                "host": [f"kafka-{b}" for b in brokers],
                "port": [9092] * len(brokers),
                "rack": [cluster.brokers[b] for b in brokers],
                "is_fenced": [b in cluster.dead for b in brokers],
            },
        ),
        "topics": table_of(
            TOPICS,
            {
                "topic": list(topics),
                "topic_id": [topic.topic_id for topic in topics.values()],
                "is_internal": [False] * len(topics),
                "partition_count": [counts[name] for name in topics],
                "cleanup_policy": [topic.cleanup_policy for topic in topics.values()],
            },
        ),
        "partitions": table_of(
            PARTITIONS,
            {
                "topic": [p.topic.name for p in partitions],
                "partition": [p.number for p in partitions],
                "leader": [p.leader for p in partitions],
                "leader_epoch": [p.epoch for p in partitions],
                "replicas": [p.replicas for p in partitions],
                "isr": [[b for b in p.replicas if b in p.isr] for p in partitions],
                "adding_replicas": [p.adding for p in partitions],
                "removing_replicas": [p.removing for p in partitions],
                "size_bytes": [p.size_bytes for p in partitions],
                "earliest_offset": [p.earliest_offset for p in partitions],
                "latest_offset": [p.latest_offset for p in partitions],
            },
        ),
        "replicas": table_of(
            REPLICAS,
            {
                "topic": [p.topic.name for p, _, _ in copies],
                "partition": [p.number for p, _, _ in copies],
                "broker_id": [b for _, b, _ in copies],
                "position": [place for _, _, place in copies],
                "is_leader": [b == p.leader for p, b, _ in copies],
                "in_sync": [b in p.isr for p, b, _ in copies],
                "size_bytes": [size_of(p, b) for p, b, _ in copies],
                "log_dir": [None if b in cluster.dead else "/data" for _, b, _ in copies],
            },
        ),
        "log_dirs": table_of(
            LOG_DIRS,
            {
                "broker_id": live,
                "log_dir": ["/data"] * len(live),
                "total_bytes": [DISK_BYTES] * len(live),
                "usable_bytes": [DISK_BYTES - OTHER_FILES_BYTES - size for size in held],
                "held_bytes": held,
            },
        ),
    }
