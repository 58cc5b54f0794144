"""The newest rounds on an object store: eight of a day become one, and say the same."""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from benchmarks.store_requests import CountingStore
from counterpoise.errors import StoreError
from counterpoise.model.tables import RESULT_TABLES
from counterpoise.results import Results
from counterpoise.round_index import PATH, ROUNDS, read_rounds
from counterpoise.services.analyses import merge_newest_rounds
from counterpoise.storage import PACKED
from tests.support.stores import damaged

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
CLUSTERS = ("demo", "other")
TABLE = "leader_changes"


class Crash(BaseException):
    """The process is gone."""


class Failing(CountingStore):
    """Fails to write or delete files whose path has `broken` in it, and ends with the change number
    `crash_at`, as long as these are set.
    """

    broken = ""
    crash_at: int | None = None
    changes = 0

    def delete(self, path: str) -> None:
        self._check(path)
        super().delete(path)

    @contextmanager
    def _writing(self, path: str) -> Iterator[pa.NativeFile]:
        self._check(path)
        with super()._writing(path) as stream:
            yield stream

    def _check(self, path: str) -> None:
        self.changes += 1
        if self.changes - 1 == self.crash_at:
            raise Crash
        if self.broken and self.broken in path:
            raise StoreError(f"the store cannot change {path}: no right to")


def name_of(cluster: str, hour: int) -> str:
    return f"{cluster}-{hour:02d}"


def finish(
    store: CountingStore, hour: int, epochs: int = 1, hours: Sequence[int] | None = None
) -> None:
    """Write a round of all clusters: of its own hour, or of those `hours`."""
    ids = [(c, name_of(c, of)) for c in CLUSTERS for of in (hours or [hour])]
    head = {"observed_at": BEGIN, "topic": "orders", "partition": 0, "kind": "returned"}
    rows = [head | {"cluster": c, "snapshot_id": one, "leader_epochs": epochs} for c, one in ids]
    name = f"round-{hour:02d}-{epochs}"
    table = pa.Table.from_pylist(rows, schema=RESULT_TABLES[TABLE])
    if hour % 3:  # of some rounds there is no row
        store.write_table(f"results/{TABLE}/round={name}/{PACKED}", table)
    Results(store).finish_round(
        name,
        BEGIN + timedelta(hours=hour),
        [{"snapshot_id": one, "cluster": c, "previous_snapshot_id": None} for c, one in ids],
        packed_tables=[TABLE] if hour % 3 else [],
    )


def told(store: CountingStore, hours: int = 60) -> list[tuple[str, str, int]]:
    ids = [name_of(cluster, hour) for cluster in CLUSTERS for hour in range(hours)]
    rows = Results(store).table(TABLE, ids).to_pylist()
    return sorted((r["cluster"], r["snapshot_id"], r["leader_epochs"]) for r in rows)


def expected(hours: int) -> list[tuple[str, str, int]]:
    return sorted((c, name_of(c, hour), 1) for c in CLUSTERS for hour in range(hours) if hour % 3)


@pytest.fixture
def store() -> Failing:
    store = Failing(f"memory://{uuid.uuid4().hex}")
    for hour in range(8):
        finish(store, hour)
    return store


def rounds(store: CountingStore) -> list[str]:
    """The names of the rounds that count."""
    return sorted(read_rounds(store)["round"].unique().to_pylist())


def merge(store: CountingStore, hour: int) -> None:
    merge_newest_rounds(store, BEGIN + timedelta(hours=hour))


def test_eight_rounds_become_one_and_say_the_same_with_fewer_requests(store: Failing) -> None:
    store.requests.clear()
    assert told(store) == expected(8)
    before = store.requests.total()
    merge(store, 8)
    (name,) = rounds(store)
    assert name.startswith("merged-")
    merge(store, 9)
    store.requests.clear()
    assert told(store) == expected(8)
    assert store.requests.total() == 5 < before  # the list, the index, and a file
    analysed = Results(store).analysed
    assert analysed.keys() == {name_of(c, hour) for c in CLUSTERS for hour in range(8)}


def test_the_others_of_a_day_are_merged_when_it_is_over(store: Failing) -> None:
    merge(store, 8)
    for hour in range(8, 25):
        finish(store, hour)
        merge(store, hour)
    names = rounds(store)
    assert [name.partition("-")[0] for name in names] == ["merged", "round"]
    assert told(store) == expected(25)


def test_fewer_than_eight_stay_as_they_are(store: Failing) -> None:
    store.delete(f"{ROUNDS}/round-07-1.json")
    merge(store, 8)
    assert len(rounds(store)) == 7


def test_of_a_snapshot_that_was_analysed_again_the_last_rows_are_kept(store: Failing) -> None:
    finish(store, 8, epochs=5, hours=[4, 8])
    merge(store, 9)
    assert len(rounds(store)) == 1
    again = [(c, name_of(c, hour), 5) for c in CLUSTERS for hour in (4, 8)]
    assert told(store) == sorted([r for r in expected(8) if not r[1].endswith("04")] + again)


@pytest.mark.parametrize("broken", ["merged-", PATH])
def test_what_cannot_be_written_loses_nothing_and_the_next_round_goes_on(
    store: Failing, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    finish(store, 8)
    store.broken = broken
    merge(store, 9)
    assert "for now" in caplog.text
    assert told(store) == expected(9)
    store.broken = ""
    merge(store, 24)
    assert len(rounds(store)) == 1
    assert told(store) == expected(9)


def test_a_crash_before_any_write_loses_nothing_and_counts_nothing_twice(store: Failing) -> None:
    for hour in range(8, 12):
        finish(store, hour)
    files, store.changes = dict(store.stored), 0
    merge(store, 24)
    for number in range(store.changes):
        store.stored, store.changes, store.crash_at = dict(files), 0, number
        with pytest.raises(Crash):
            merge(store, 24)
        assert told(store) == expected(12)
        store.crash_at = None
        merge(store, 24)
        assert len(rounds(store)) == 1
        assert told(store) == expected(12)


def test_who_listed_the_rounds_before_a_merge_reads_them_after_it(store: Failing) -> None:
    before = Results(store)
    assert len(before.analysed) == 16
    listed = set(store.stored)
    merge(store, 24)
    assert listed <= set(store.stored)
    ids = sorted(before.analysed)
    assert before.table(TABLE, ids).num_rows == len(expected(8))


def test_a_file_that_is_damaged_stays_as_it_is(store: Failing) -> None:
    path = f"results/{TABLE}/round=round-05-1/{PACKED}"
    store.write_bytes(path, damaged(store.read_bytes(path)))
    merge(store, 24)
    assert "round-05-1" in rounds(store)
