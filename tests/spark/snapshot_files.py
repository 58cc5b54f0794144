"""Histories of small clusters, as pictures: what the Spark jobs read, and what the oracle counts
from.

before = SnapshotSpec("demo", hour=0, partitions=[part("orders", 0, [1, 2], leader=1)])
after = SnapshotSpec("demo", hour=1, partitions=[part("orders", 0, [1, 2], leader=2, epoch=1)])
manifests = write_history(store, [before, after])       # each is compared with the one before it
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from counterpoise.history import history_files, manifest_of, snapshot_id_for
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.tables import RESULT_TABLES, SNAPSHOT_TABLES

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
BROKERS = (
    {"broker_id": 1, "rack": "a"},
    {"broker_id": 2, "rack": "b"},
    {"broker_id": 3, "rack": None},
)


def part(
    topic: str, number: int, replicas: Sequence[int], *, leader: int | None, **told: Any
) -> dict[str, Any]:
    """A partition.

    `told`: epoch, isr, adding, removing, size, offsets (earliest, latest); all copies have its
    size.
    """
    earliest, latest = told.get("offsets", (None, None))
    return {
        "topic": topic,
        "partition": number,
        "leader": leader,
        "leader_epoch": told.get("epoch", 0),
        "replicas": list(replicas),
        "isr": told.get("isr", list(replicas)),
        "adding_replicas": told.get("adding", []),
        "removing_replicas": told.get("removing", []),
        "size_bytes": told.get("size"),
        "earliest_offset": earliest,
        "latest_offset": latest,
    }


@dataclass(frozen=True)
class SnapshotSpec:
    """A snapshot of a cluster, `hour` hours after noon.

    Topics that are not named have id `<name>-id`, policy `delete`.
    """

    cluster: str
    hour: float
    partitions: Sequence[dict[str, Any]]
    brokers: Sequence[dict[str, Any]] = BROKERS
    topics: dict[str, tuple[str | None, str | None]] = field(
        default_factory=dict
    )  # id and cleanup policy
    cluster_id: str = "the-first"
    log_dirs: Sequence[dict[str, Any]] = ()
    clock: float | None = (
        None  # hours after noon by the clock of the one who looked; None: as `hour`
    )

    @property
    def observed_at(self) -> datetime:
        return NOON + timedelta(hours=self.hour if self.clock is None else self.clock)

    @property
    def snapshot_id(self) -> str:
        return snapshot_id_for(self.cluster, NOON + timedelta(hours=self.hour))

    def topic(self, name: str) -> tuple[str | None, str | None]:
        return self.topics.get(name, (f"{name}-id", "delete"))

    @property
    def replicas(self) -> list[dict[str, Any]]:
        return [
            {
                "topic": row["topic"],
                "partition": row["partition"],
                "broker_id": broker_id,
                "position": position,
                "is_leader": broker_id == row["leader"],
                "in_sync": broker_id in row["isr"],
                "size_bytes": row["size_bytes"],
                "log_dir": f"/{'ab'[row['partition'] % 2]}",
            }
            for row in self.partitions
            for position, broker_id in enumerate(row["replicas"])
        ]

    def as_snapshot(self) -> ClusterSnapshot:
        names = sorted({row["topic"] for row in self.partitions})
        rows: dict[str, Sequence[dict[str, Any]]] = {
            "brokers": [{"is_fenced": False} | row for row in self.brokers],
            "topics": [self._topic_row(name) for name in names],
            "partitions": self.partitions,
            "replicas": self.replicas,
            "log_dirs": self.log_dirs,
        }
        tables = {
            name: pa.Table.from_pylist(rows.get(name, []), schema)
            for name, schema in SNAPSHOT_TABLES.items()
        }
        return ClusterSnapshot(
            self.snapshot_id, self.cluster, self.cluster_id, self.observed_at, tables
        )

    def _topic_row(self, name: str) -> dict[str, Any]:
        topic_id, policy = self.topic(name)
        count = sum(row["topic"] == name for row in self.partitions)
        return {
            "topic": name,
            "topic_id": topic_id,
            "is_internal": False,
            "partition_count": count,
            "cleanup_policy": policy,
        }


def write_history(store: Path, specs: Sequence[SnapshotSpec]) -> list[dict[str, Any]]:
    """The specs in a store; answers what `--snapshots` holds, each spec compared with its
    cluster's one before it.
    """
    manifests, last = [], dict[str, str]()
    for spec in specs:
        snapshot = spec.as_snapshot()
        for path, table in history_files(snapshot).items():
            (store / path).parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, store / path)
        (row,) = manifest_of(snapshot)[1].to_pylist()
        row["observed_at"] = row["observed_at"].isoformat()
        manifests.append(
            row | {"previous_snapshot_id": last.get(spec.cluster), "is_context": False}
        )
        last[spec.cluster] = spec.snapshot_id
    return manifests


def as_context(manifest: dict[str, Any]) -> dict[str, Any]:
    return manifest | {"previous_snapshot_id": None, "is_context": True}


def compacted(store: Path, manifests: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same history in one file per table, rows by snapshot, the single files gone."""
    files = {}
    for name in SNAPSHOT_TABLES:
        parts = []
        for row in manifests:
            path = store / next(f["path"] for f in row["files"] if f["table"] == name)
            table = pq.read_table(path, partitioning=None)
            parts.append(
                table.append_column("snapshot_id", pa.array([row["snapshot_id"]] * table.num_rows))
            )
            path.unlink()
        files[name] = f"history/{name}/many.parquet"
        pq.write_table(pa.concat_tables(parts), store / files[name], row_group_size=7)
    return [
        row | {"files": [f | {"path": files[f["table"]]} for f in row["files"]]}
        for row in manifests
    ]


def result_rows(store: Path, table: str, *rounds: str) -> list[dict[str, Any]]:
    """All rows of a table of results, in an order that tells two of them apart.

    A table without rows has a folder without files.
    """
    read = [
        pq.read_table(
            store / "results" / table / f"round={name}",
            partitioning=None,
            schema=RESULT_TABLES[table],
        )
        for name in rounds
    ]
    keys = ("snapshot_id", "topic", "partition", "broker_id", "log_dir")
    return sorted(
        pa.concat_tables(read).to_pylist(), key=lambda row: tuple(str(row.get(key)) for key in keys)
    )
