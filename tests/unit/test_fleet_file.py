"""The fleet's file: what it spares, and that nobody sees anything else than without it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from counterpoise import history
from counterpoise.manifest_index import PATH, Fleet, manifest_list
from counterpoise.model.tables import SCHEMA_VERSION, SNAPSHOTS
from counterpoise.storage import Store, working_copy
from tests.support.stores import ReadingStore

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)


def write_manifest(store: Store, hour: int, cluster_id: str = "id") -> str:
    at = BEGIN + timedelta(hours=hour)
    snapshot_id = history.snapshot_id_for("demo", at)
    files = [{"table": "topics", "path": f"topics/{snapshot_id}.parquet", "row_count": 3}]
    row = {"snapshot_id": snapshot_id, "cluster": "demo", "cluster_id": cluster_id}
    row |= {"observed_at": at, "schema_version": SCHEMA_VERSION, "files": files}
    path = history.manifest_path("demo", snapshot_id)
    store.write_table(path, pa.Table.from_pylist([row], schema=SNAPSHOTS))
    return path


@pytest.fixture
def store(tmp_path: Path) -> ReadingStore:
    store = ReadingStore(str(tmp_path))
    for hour in range(20):
        write_manifest(store, hour)
    fleet = Fleet.read(store)
    manifests_of(fleet, store)
    fleet.keep_copies("demo", {f"topics/demo-20260301T{h}0000Z.parquet": b"rows" for h in (10, 19)})
    fleet.write()
    store.read_paths.clear()
    return store


def manifests_of(fleet: Fleet, store: Store, *, is_whole: bool = False) -> pa.Table:
    listed = manifest_list(store, history.manifests_folder("demo"))
    return fleet.manifests("demo", listed, is_whole=is_whole)


def truth(store: Store) -> pa.Table:
    paths = store.list(history.manifests_folder("demo"))
    return history.each_once({path: Store(store.root_uri).read_table(path) for path in paths})


def test_only_what_is_new_is_read_and_the_newest_say_their_files(store: ReadingStore) -> None:
    new = write_manifest(store, 20)
    found = manifests_of(Fleet.read(store), store)
    assert store.read_paths == [PATH, new]
    columns = [name for name in SNAPSHOTS.names if name != "files"]
    assert found.select(columns).equals(truth(store).select(columns))
    assert found["files"].to_pylist()[-3:] == truth(store)["files"].to_pylist()[-3:]
    assert not any(found["files"].to_pylist()[:-4])


def test_all_files_come_from_the_index_which_is_brought_up_to_date(store: ReadingStore) -> None:
    new = write_manifest(store, 20)
    assert manifests_of(Fleet.read(store), store, is_whole=True).equals(truth(store))
    assert store.read_paths == [PATH, "views/demo/manifests.parquet", new]


def test_a_copy_is_of_the_newest_and_goes_when_its_manifest_is_written_again(
    store: ReadingStore,
) -> None:
    fleet = Fleet.read(store)
    manifests_of(fleet, store)
    newest = "topics/demo-20260301T190000Z.parquet"
    assert fleet.copies("demo") == {newest: b"rows"}
    write_manifest(store, 19, cluster_id="written again, and longer")
    manifests_of(fleet, store)
    assert fleet.copies("demo") == {}


@pytest.mark.parametrize("damage", [b"PAR1", b"", None])
def test_without_the_file_all_comes_from_the_index(
    store: ReadingStore, damage: bytes | None
) -> None:
    if damage is None:
        store.delete(PATH)
    else:
        store.write_bytes(PATH, damage)
    fleet = Fleet.read(store)
    assert manifests_of(fleet, store).equals(truth(store))
    assert fleet.copies("demo") == {}
    assert store.read_paths == [PATH, "views/demo/manifests.parquet"]


def test_a_job_gets_the_copy_and_only_small_files_are_kept(store: ReadingStore) -> None:
    memory = Store("memory://fleet-file")
    memory.write_text("large", "x" * 100)
    with working_copy(memory, "local[2]") as copy:
        copy.fetch(["small", "large"], {"small": b"y"})
        assert copy.files.read_text("small") == "y"
        assert copy.small_files(["small", "large", "other"], 99) == {"small": b"y"}
