"""The index of manifests: what is read, and that nobody sees anything else than without it."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from counterpoise import history
from counterpoise.archive import Archive
from counterpoise.manifest_index import indexed_manifests
from counterpoise.model.tables import SCHEMA_VERSION, SNAPSHOTS
from counterpoise.storage import Store

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
INDEX = "views/demo/manifests.parquet"


class Counting(Store):
    """Counts the files that are read, by folder."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.reads: Counter[str] = Counter()

    def read_bytes(self, path: str, **limits: Any) -> bytes:
        self.reads["index" if path == INDEX else "manifests"] += 1
        return super().read_bytes(path, **limits)

    def read_since(self) -> dict[str, int]:
        reads = dict(self.reads)
        self.reads.clear()
        return reads


def row(at: datetime, cluster_id: str = "id") -> dict[str, object]:
    snapshot_id = history.snapshot_id_for("demo", at)
    files = [{"table": "brokers", "path": f"{snapshot_id}.parquet", "row_count": 3}]
    about = {"snapshot_id": snapshot_id, "cluster": "demo", "cluster_id": cluster_id}
    return about | {"observed_at": at, "schema_version": SCHEMA_VERSION, "files": files}


def write(store: Store, path: str, *rows: dict[str, object]) -> None:
    store.write_table(path, pa.Table.from_pylist(list(rows), schema=SNAPSHOTS))


def indexed(store: Store) -> pa.Table:
    manifests = indexed_manifests(store, "demo")
    return history.each_once({file.path: table for file, table in manifests.items()})


@pytest.fixture
def store(tmp_path: Path) -> Counting:
    """Forty days of one manifest each, one of them without a snapshot, and three snapshots."""
    store = Counting(str(tmp_path))
    for day in range(40):
        at = BEGIN + timedelta(days=day)
        path = history.compacted_path(history.MANIFESTS, "demo", at.date(), "made")
        write(store, path, *([] if day == 7 else [row(at), row(at + timedelta(hours=1))]))
    for hour in range(3):
        write_single(store, hour)
    return store


def write_single(store: Store, hour: int, cluster_id: str = "id") -> None:
    at = BEGIN + timedelta(days=41, hours=hour)
    path = history.manifest_path("demo", history.snapshot_id_for("demo", at))
    write(store, path, row(at, cluster_id))


def test_only_what_changed_is_read(store: Counting) -> None:
    archive = Archive(store)
    whole = indexed(store)
    assert whole.num_rows == 39 * 2 + 3
    assert store.read_since() == {"manifests": 43, "index": 1}  # there is none yet

    assert indexed(store).equals(whole)
    assert archive.manifests(["demo"]).equals(whole)
    assert store.read_since() == {"index": 2}

    write_single(store, 3)
    write_single(store, 1, cluster_id="written again, later and longer")
    found = indexed(store)
    assert store.read_since() == {"index": 1, "manifests": 2}
    assert found.num_rows == whole.num_rows + 1
    assert found["cluster_id"].to_pylist()[-3] == "written again, later and longer"
    assert found.equals(Archive(Store(store.root_uri)).manifests(["demo"]))


def test_a_manifest_that_is_gone_is_in_no_answer(store: Counting) -> None:
    archive = Archive(store)
    indexed(store)
    day = (BEGIN + timedelta(days=3)).date()
    store.delete(history.compacted_path(history.MANIFESTS, "demo", day, "made"))
    assert archive.manifests(["demo"]).num_rows == 38 * 2 + 3
    assert indexed(store).num_rows == 38 * 2 + 3


@pytest.mark.parametrize("damage", [b"PAR1", b""])
def test_a_damaged_index_is_made_anew(store: Counting, damage: bytes) -> None:
    whole = indexed(store)
    store.write_bytes(INDEX, damage)
    assert indexed(store).equals(whole)
    store.read_since()
    assert indexed(store).equals(whole)
    assert store.read_since() == {"index": 1}
