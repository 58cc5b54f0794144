"""Ten days of a cluster that never was: hourly snapshots of 36 brokers, with what happens to
clusters in a month.

    for snapshot in ten_days(hours=240): archive.write_snapshot(snapshot)

Broker 36 joins at hour JOINED and is idle until a rebalance, from REBALANCED on, gives it its share
in REBALANCE_HOURS. Broker 7 dies at FAILED; others lead what it led, until it is back at RETURNED
and a preferred election at ELECTED gives it its partitions again. What a partition takes in never
changes.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

import pyarrow as pa

from counterpoise.history import snapshot_id_for
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.tables import BROKERS, PARTITIONS, REPLICAS, SNAPSHOT_TABLES, TOPICS

CLUSTER: Final = "demo"
BEGIN: Final = datetime(2026, 3, 1, tzinfo=UTC)
BROKERS_AT_FIRST: Final = 36
NEW_BROKER: Final = 36
DEAD_BROKER: Final = 7
JOINED: Final = 48
REBALANCED: Final = 108
REBALANCE_HOURS: Final = 4
FAILED: Final = 210
RETURNED: Final = 213
ELECTED: Final = 215
_TOPICS: Final = 30
_PARTITIONS_PER_TOPIC: Final = 12
_REPLICATION_FACTOR: Final = 3
_RECORD_BYTES: Final = 1_000
_RACKS: Final = "abc"


@dataclass
class _Partition:
    topic: str
    number: int
    replicas: list[int]
    rate: int  # bytes per second
    leader: int = -1
    epoch: int = 0
    adding: list[int] = field(default_factory=list)

    def lead(self, broker_id: int) -> None:
        if broker_id != self.leader:
            self.leader = broker_id
            self.epoch += 1


def ten_days(hours: int = 240) -> Iterator[ClusterSnapshot]:
    """One snapshot for each hour, oldest first."""
    partitions = _partitions()
    share = len(partitions) * _REPLICATION_FACTOR // (BROKERS_AT_FIRST + 1)
    moved = [p for p in partitions if p.replicas[0] % 3 == 0][: share // 3]
    moved += [p for p in partitions if p not in moved][: share - len(moved)]
    for hour in range(hours):
        if REBALANCED <= hour < REBALANCED + REBALANCE_HOURS:
            part = len(moved) // REBALANCE_HOURS + 1
            for n, partition in enumerate(moved[(hour - REBALANCED) * part :][:part]):
                partition.replicas[0 if n % 3 == 0 else 1] = NEW_BROKER
                partition.lead(partition.replicas[0])
        dead = DEAD_BROKER if FAILED <= hour < RETURNED else None
        for partition in partitions:
            if partition.leader == dead:
                partition.lead(next(b for b in partition.replicas if b != dead))
            elif hour == ELECTED:
                partition.lead(partition.replicas[0])
        yield _snapshot(hour, partitions, dead)


def _partitions() -> list[_Partition]:
    dice = random.Random(7)
    found = []
    for topic in range(_TOPICS):
        for number in range(_PARTITIONS_PER_TOPIC):
            first = (topic * _PARTITIONS_PER_TOPIC + number) % BROKERS_AT_FIRST
            replicas = [(first + step) % BROKERS_AT_FIRST for step in (0, 1, 2)]
            found.append(
                _Partition(
                    f"topic-{topic:02d}", number, replicas, dice.randrange(1, 50) * _RECORD_BYTES
                )
            )
    for partition in found:
        partition.leader = partition.replicas[0]
    return found


def _snapshot(hour: int, partitions: list[_Partition], dead: int | None) -> ClusterSnapshot:
    broker_ids = list(range(BROKERS_AT_FIRST + (hour >= JOINED)))
    scheduled = BEGIN + timedelta(hours=hour)
    sizes = [p.rate * 3600 * (hour + 1) for p in partitions]
    tables = {
        "brokers": _table(
            BROKERS,
            broker_id=broker_ids,
            host=[f"kafka-{b}" for b in broker_ids],
            port=[9092] * len(broker_ids),
            rack=[_RACKS[b % 3] for b in broker_ids],
            is_fenced=[b == dead for b in broker_ids],
        ),
        "topics": _table(
            TOPICS,
            topic=sorted({p.topic for p in partitions}),
            topic_id=[f"id-{n}" for n in range(_TOPICS)],
            is_internal=[False] * _TOPICS,
            partition_count=[_PARTITIONS_PER_TOPIC] * _TOPICS,
            cleanup_policy=["delete"] * _TOPICS,
        ),
        "partitions": _table(
            PARTITIONS,
            topic=[p.topic for p in partitions],
            partition=[p.number for p in partitions],
            leader=[p.leader for p in partitions],
            leader_epoch=[p.epoch for p in partitions],
            replicas=[p.replicas for p in partitions],
            isr=[[b for b in p.replicas if b != dead] for p in partitions],
            adding_replicas=[p.adding for p in partitions],
            removing_replicas=[[] for _ in partitions],
            size_bytes=sizes,
            earliest_offset=[0] * len(partitions),
            latest_offset=[size // _RECORD_BYTES for size in sizes],
        ),
        "replicas": _table(
            REPLICAS,
            topic=[p.topic for p in partitions for _ in p.replicas],
            partition=[p.number for p in partitions for _ in p.replicas],
            broker_id=[b for p in partitions for b in p.replicas],
            position=[n for p in partitions for n in range(len(p.replicas))],
            is_leader=[b == p.leader for p in partitions for b in p.replicas],
            in_sync=[b != dead for p in partitions for b in p.replicas],
            size_bytes=[size for size in sizes for _ in range(_REPLICATION_FACTOR)],
        ),
    }
    return ClusterSnapshot(
        snapshot_id=snapshot_id_for(CLUSTER, scheduled),
        cluster=CLUSTER,
        cluster_id="id-of-ten-days",
        observed_at=scheduled,
        tables={
            name: tables.get(name, schema.empty_table()) for name, schema in SNAPSHOT_TABLES.items()
        },
    )


def _table(schema: pa.Schema, **columns: list[object]) -> pa.Table:
    """Columns that are not given are null."""
    count = len(next(iter(columns.values())))
    return pa.table(
        [
            pa.array(columns[f.name], f.type) if f.name in columns else pa.nulls(count, f.type)
            for f in schema
        ],
        schema=schema,
    )
