"""A history of a large cluster, written fast: what the Spark jobs read, made of numpy columns.

    manifests = make_history(store, Shape(partitions=1_000_000, snapshots=24))
    (store / "snapshots.json").write_text(json.dumps(manifests))

Hourly snapshots of one cluster. Every hour a hundredth of the partitions get another leader, some
replicas move, some copies fall out of sync, offsets and sizes grow, and retention takes what is old
from some; a tenth of the topics is compacted. The same shape makes the same history. Files are
written as the archive writes them: one per table and snapshot, the rows by topic and partition.

Limits: needs some 300 bytes of memory per partition. Tables that no analysis reads are left out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from counterpoise.history import snapshot_id_for, table_path
from counterpoise.model.tables import (
    BROKERS,
    LOG_DIRS,
    PARTITIONS,
    REPLICAS,
    SCHEMA_VERSION,
    TOPICS,
)

CLUSTER: Final = "large"
_START: Final = datetime(2026, 1, 31, tzinfo=UTC)
_FACTOR: Final = 3
_RACKS: Final = 5
_LOG_DIRS: Final = ("/data/a", "/data/b")
_TERABYTE: Final = 10**12


@dataclass(frozen=True, slots=True)
class Shape:
    partitions: int
    snapshots: int

    @property
    def brokers(self) -> int:
        return max(6, min(1000, self.partitions // 1000))

    @property
    def topics(self) -> int:
        return max(1, self.partitions // 50)


class _Cluster:
    """What changes from hour to hour, a row per partition."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.chance = np.random.default_rng(0)
        self.counts = _partition_counts(shape, self.chance)
        self.topic_of = np.repeat(np.arange(shape.topics), self.counts)
        starts = np.cumsum(self.counts) - self.counts
        self.number = (np.arange(shape.partitions) - starts[self.topic_of]).astype(np.int32)
        self.names = pa.array([f"team-{n % 40}.events.{n:06d}" for n in range(shape.topics)])
        self.is_compacted = self.chance.random(shape.topics) < 0.1
        self.replicas = self._placed(shape.partitions)
        self.leads = np.zeros(shape.partitions, np.int64)  # which of its replicas leads
        self.epochs = self.chance.integers(0, 50, shape.partitions)
        self.record_bytes = self.chance.integers(100, 5000, shape.partitions)
        self.rates = self.chance.pareto(1.2, shape.partitions) * 1000  # records an hour
        self.earliest = self.chance.integers(0, 10**6, shape.partitions)
        self.latest = self.earliest + self.chance.integers(0, 10**6, shape.partitions)

    def _placed(self, count: int) -> Any:
        """Three different brokers for each, the first one preferred; broker ids begin with 1."""
        brokers = self.shape.brokers
        first = self.chance.integers(0, brokers, count)
        second = self.chance.integers(1, brokers - 1, count)
        third = second + 1 + (self.chance.random(count) * (brokers - 1 - second)).astype(np.int64)
        return (np.stack([first, first + second, first + third], axis=1) % brokers + 1).astype(
            np.int32
        )

    def go_on(self) -> None:
        """One hour."""
        size = self.shape.partitions
        changed = self.chance.random(size) < 0.01
        self.leads = np.where(changed, (self.leads + 1) % _FACTOR, self.leads)
        moved = self.chance.random(size) < 0.001
        self.replicas[moved] = self._placed(int(moved.sum()))
        self.epochs += changed | moved
        self.latest += self.chance.poisson(self.rates)
        old = (self.chance.random(size) < 0.3) & ~self.is_compacted[self.topic_of]
        self.earliest = np.where(
            old, self.earliest + (self.latest - self.earliest) // 10, self.earliest
        )

    def tables(self) -> Iterator[tuple[str, pa.Table]]:
        size = self.shape.partitions
        topics = self.names.take(pa.array(self.topic_of))
        held = (self.latest - self.earliest) * self.record_bytes
        in_sync = np.ones((size, _FACTOR), bool)
        in_sync[:, 2] = (self.chance.random(size) >= 0.005) | (self.leads == 2)
        broker_ids = np.arange(1, self.shape.brokers + 1, dtype=np.int32)
        yield "brokers", _brokers(broker_ids)
        yield "topics", self._topics()
        yield "partitions", self._partitions(topics, held, in_sync)
        yield "replicas", self._replicas(topics, held, in_sync)
        yield "log_dirs", self._log_dirs(broker_ids, held)

    def _topics(self) -> pa.Table:
        size = self.shape.topics
        columns = {
            "topic": self.names,
            "topic_id": pa.array([f"id-{n:019d}" for n in range(size)]),
            "is_internal": np.zeros(size, bool),
            "partition_count": self.counts.astype(np.int32),
            "min_insync_replicas": np.full(size, 2, np.int32),
            "cleanup_policy": pa.array(np.where(self.is_compacted, "compact", "delete")),
        }
        return _conforming(columns, TOPICS, size)

    def _partitions(self, topics: pa.Array, held: Any, in_sync: Any) -> pa.Table:
        size = self.shape.partitions
        none = pa.ListArray.from_arrays(
            pa.array(np.zeros(size + 1, np.int32)), pa.array([], pa.int32())
        )
        isr_ends = np.concatenate([[0], np.cumsum(in_sync.sum(axis=1))]).astype(np.int32)
        columns = {
            "topic": topics,
            "partition": self.number,
            "leader": self.replicas[np.arange(size), self.leads],
            "leader_epoch": self.epochs.astype(np.int32),
            "replicas": pa.ListArray.from_arrays(
                pa.array(np.arange(0, _FACTOR * size + 1, _FACTOR, dtype=np.int32)),
                pa.array(self.replicas.ravel()),
            ),
            "isr": pa.ListArray.from_arrays(pa.array(isr_ends), pa.array(self.replicas[in_sync])),
            "adding_replicas": none,
            "removing_replicas": none,
            "size_bytes": held,
            "earliest_offset": self.earliest,
            "latest_offset": self.latest,
        }
        return _conforming(columns, PARTITIONS, size)

    def _replicas(self, topics: pa.Array, held: Any, in_sync: Any) -> pa.Table:
        size = self.shape.partitions
        rows = np.repeat(np.arange(size), _FACTOR)
        position = np.tile(np.arange(_FACTOR, dtype=np.int32), size)
        columns = {
            "topic": topics.take(pa.array(rows)),
            "partition": self.number[rows],
            "broker_id": self.replicas.ravel(),
            "position": position,
            "is_leader": position == self.leads[rows],
            "in_sync": in_sync.ravel(),
            "size_bytes": held[rows],
            "log_dir": pa.array(_LOG_DIRS).take(pa.array(rows % len(_LOG_DIRS))),
        }
        return _conforming(columns, REPLICAS, size * _FACTOR)

    def _log_dirs(self, broker_ids: Any, held: Any) -> pa.Table:
        size = len(broker_ids) * len(_LOG_DIRS)
        rows = np.repeat(np.arange(self.shape.partitions), _FACTOR)
        place = (self.replicas.ravel() - 1) * len(_LOG_DIRS) + rows % len(_LOG_DIRS)
        columns = {
            "broker_id": np.repeat(broker_ids, len(_LOG_DIRS)),
            "log_dir": pa.array(list(_LOG_DIRS) * len(broker_ids)),
            "total_bytes": np.full(size, 20 * _TERABYTE),
            "usable_bytes": np.full(size, 8 * _TERABYTE),
            "held_bytes": np.bincount(place, held[rows], minlength=size).astype(np.int64),
        }
        return _conforming(columns, LOG_DIRS, size)


def make_history(store: Path, shape: Shape) -> list[dict[str, Any]]:
    """Writes the snapshots below `store`; answers their manifest rows, each to be compared with the
    one before.
    """
    cluster = _Cluster(shape)
    manifests: list[dict[str, Any]] = []
    for hour in range(shape.snapshots):
        at = _START + timedelta(hours=hour)
        if hour:
            cluster.go_on()
        previous = manifests[-1]["snapshot_id"] if manifests else None
        manifests.append(
            _written(store, cluster, at) | {"previous_snapshot_id": previous, "is_context": False}
        )
    return manifests


def newest_only(manifests: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what a round with one new snapshot reads: that one, and the one before it."""
    *_, before, newest = manifests
    return [before | {"previous_snapshot_id": None, "is_context": True}, newest]


def _written(store: Path, cluster: _Cluster, at: datetime) -> dict[str, Any]:
    snapshot_id = snapshot_id_for(CLUSTER, at)
    files = []
    for name, table in cluster.tables():
        path = table_path(name, CLUSTER, snapshot_id)
        (store / path).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, store / path, compression="zstd")
        files.append({"table": name, "path": path, "row_count": table.num_rows})
    return {
        "snapshot_id": snapshot_id,
        "cluster": CLUSTER,
        "cluster_id": "of-the-benchmark",
        "observed_at": at.isoformat(),
        "schema_version": SCHEMA_VERSION,
        "files": files,
    }


def _partition_counts(shape: Shape, chance: np.random.Generator) -> Any:
    """Partitions of each topic: many small ones, a few with thousands; together exactly what was
    asked for.
    """
    weights = chance.pareto(1.2, shape.topics) + 0.2
    counts = 1 + np.floor(weights / weights.sum() * (shape.partitions - shape.topics)).astype(
        np.int64
    )
    counts[: shape.partitions - int(counts.sum())] += 1
    return counts


def _brokers(broker_ids: Any) -> pa.Table:
    size = len(broker_ids)
    columns = {
        "broker_id": broker_ids,
        "rack": pa.array([f"rack-{n % _RACKS}" for n in range(size)]),
        "is_fenced": np.arange(size) % 200 == 199,
    }
    return _conforming(columns, BROKERS, size)


def _conforming(columns: dict[str, Any], schema: pa.Schema, size: int) -> pa.Table:
    """The columns in the order of the schema; those that are not given are nulls."""
    arrays = [columns.get(field.name, pa.nulls(size, field.type)) for field in schema]
    return pa.table(
        [pa.array(a) if isinstance(a, np.ndarray) else a for a in arrays], names=schema.names
    ).cast(schema)
