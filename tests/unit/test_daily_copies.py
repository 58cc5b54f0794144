"""The copy of a cluster's newest tables of a day: what it spares, and that nobody sees anything
else than without it.
"""

from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from counterpoise.daily_copies import SNAPSHOT_COUNT, copy_days, copy_path, read_days
from counterpoise.errors import StoreError
from counterpoise.history import daily_folder
from counterpoise.model.tables import LEADER_CHANGES_DAILY
from counterpoise.storage import Store
from tests.support.stores import ReadingStore, damaged

TABLE = "leader_changes"
FIRST = date(2026, 3, 1)
COPY = copy_path(TABLE, "demo")


def write_day(store: Store, number: int, elections: int | None) -> str:
    """A table of a day; without any row where there were no elections."""
    day = FIRST + timedelta(days=number)
    row = {"cluster": "demo", "date": day, "topic": "orders", "partition": 0}
    rows = [] if elections is None else [row | {"elections": elections}]
    table = pa.Table.from_pylist(rows, schema=LEADER_CHANGES_DAILY)
    path = f"{daily_folder(TABLE, 'demo', day)}/loads.parquet"
    store.write_table(path, table.replace_schema_metadata({SNAPSHOT_COUNT: str(number)}))
    return path


def told(store: Store, begin: int = 0, end: int = 400) -> list[tuple[int, list[int], int | None]]:
    days = read_days(
        store, TABLE, "demo", FIRST + timedelta(days=begin), FIRST + timedelta(days=end)
    )
    return [
        ((one.day - FIRST).days, one.rows["elections"].to_pylist(), one.snapshot_count)
        for one in days
    ]


def day(number: int) -> tuple[int, list[int], int]:
    return number, [] if number % 5 == 0 else [number], number


@pytest.fixture
def store(tmp_path: Path) -> ReadingStore:
    store = ReadingStore(str(tmp_path))
    for number in range(30):
        write_day(store, number, None if number % 5 == 0 else number)
    copy_days(store, TABLE, "demo")
    store.read_paths.clear()
    return store


def test_days_come_from_the_copy_also_those_without_rows(store: ReadingStore) -> None:
    assert told(store, 3, 29) == [day(number) for number in range(3, 29)]
    assert store.read_paths == [COPY]


def test_days_that_are_new_or_were_made_again_are_read_and_copied_the_next_time(
    store: ReadingStore,
) -> None:
    again, new = write_day(store, 7, 70_000), write_day(store, 30, None)
    expected = [day(number) for number in range(31)]
    expected[7] = (7, [70_000], 7)
    assert told(store) == expected
    assert store.read_paths == [COPY, again, new]
    copy_days(store, TABLE, "demo")
    store.read_paths.clear()
    assert told(store) == expected
    assert store.read_paths == [COPY]


def test_a_day_that_is_deleted_is_no_more_there(store: ReadingStore) -> None:
    store.delete(f"{daily_folder(TABLE, 'demo', FIRST)}/loads.parquet")
    assert [number for number, _, _ in told(store)] == list(range(1, 30))


@pytest.mark.parametrize("damage", ["not Parquet", None])
def test_a_copy_that_is_damaged_or_missing_costs_reads_and_nothing_else(
    store: ReadingStore, damage: str | None
) -> None:
    store.write_text(COPY, damage) if damage else store.delete(COPY)
    assert told(store) == [day(number) for number in range(30)]
    copy_days(store, TABLE, "demo")
    store.read_paths.clear()
    assert told(store) == [day(number) for number in range(30)]
    assert store.read_paths == [COPY]


@pytest.mark.parametrize("seed", [None, *range(20)])
def test_a_copy_whose_footer_alone_is_sound_costs_reads_and_nothing_else(
    store: ReadingStore, seed: int | None
) -> None:
    store.write_bytes(COPY, damaged(store.read_bytes(COPY), seed))
    assert told(store) == [day(number) for number in range(30)]
    write_day(store, 30, None)
    copy_days(store, TABLE, "demo")
    store.read_paths.clear()
    assert told(store) == [day(number) for number in range(31)]
    assert store.read_paths == [COPY]


def test_a_day_that_is_damaged_keeps_no_other_day_from_the_copy(store: ReadingStore) -> None:
    store.write_text(write_day(store, 20, 20), "not Parquet")
    write_day(store, 30, None)
    copy_days(store, TABLE, "demo")
    store.read_paths.clear()
    assert told(store, 21) == [day(number) for number in range(21, 31)]
    assert store.read_paths == [COPY]
    with pytest.raises(StoreError, match="not a complete Parquet file"):
        told(store)


def test_few_days_are_read_by_themselves(store: ReadingStore) -> None:
    assert told(store, 28) == [day(28), day(29)]
    assert COPY not in store.read_paths


def test_the_copy_has_the_newest_days_of_which_there_is_room(
    store: ReadingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = [file.size_bytes for file in store.files(daily_folder(TABLE, "demo"))]
    monkeypatch.setattr("counterpoise.daily_copies._MAX_BYTES", sum(sizes[-10:]))
    copy_days(store, TABLE, "demo")
    store.read_paths.clear()
    assert told(store) == [day(number) for number in range(30)]
    assert len(store.read_paths) == 1 + 20
