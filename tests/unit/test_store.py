"""The store: whole files or none, clear errors."""

from pathlib import Path

import pyarrow as pa
import pytest

from counterpoise.errors import InputError, StoreError
from counterpoise.storage import Store


def test_what_is_written_reads_back_and_is_listed(tmp_path: Path) -> None:
    store = Store(f"file://{tmp_path}/store")
    table = pa.table({"a": [1, 2]})
    store.write_table("history/x/1.parquet", table)
    store.write_text("plans/p.json", "one")
    store.write_text("plans/p.json", "two")
    assert store.read_table("history/x/1.parquet") == table
    assert store.read_text("plans/p.json") == "two"
    assert store.list("history", suffix=".parquet") == ("history/x/1.parquet",)
    assert store.list("nowhere") == ()
    assert [p.name for p in (tmp_path / "store" / "plans").iterdir()] == ["p.json"], "no part file stays"


def test_a_store_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write file://"):
        Store(str(tmp_path / "file")).write_text("plans/p.json", "x")


def test_what_is_missing_or_broken_says_so(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    with pytest.raises(StoreError, match="the store has no"):
        store.read_text("plans/none.json")
    (tmp_path / "cut.parquet").write_bytes(b"PAR1")
    with pytest.raises(StoreError, match="no whole Parquet file"):
        store.read_table("cut.parquet")


def test_paths_stay_inside(tmp_path: Path) -> None:
    for path in ("/etc/passwd", "../x", "a/../../x"):
        with pytest.raises(InputError, match="no path inside the store"):
            Store(str(tmp_path)).read_text(path)


def test_an_unknown_kind_of_store_is_refused() -> None:
    with pytest.raises(InputError, match="cannot be opened"):
        Store("carrier-pigeon://x/y")
