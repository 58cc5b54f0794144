"""The newest rounds on an object store: eight of a day become one, and say the same."""

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from benchmarks.store_requests import CountingStore
from counterpoise.errors import StoreError
from counterpoise.model.result_tables import RESULT_TABLES
from counterpoise.pipeline.newest_rounds import merge_newest_rounds
from counterpoise.results import Results
from counterpoise.round_index import ROUNDS
from counterpoise.storage import PACKED

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
CLUSTERS = ("demo", "other")
TABLE = "leader_changes"


class Failing(CountingStore):
    """Fails to write or delete files whose path has `broken` in it, as long as that is set."""

    broken = ""

    def delete(self, path: str) -> None:
        self._check(path)
        super().delete(path)

    def upload(self, source: Any, path: str) -> None:
        self._check(path)
        super().upload(source, path)

    def _check(self, path: str) -> None:
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
    return [path.rpartition("/")[2] for path in store.list(ROUNDS)]


def merge(store: CountingStore, hour: int) -> None:
    merge_newest_rounds(store, BEGIN + timedelta(hours=hour))


def test_eight_rounds_become_one_and_say_the_same_with_fewer_requests(store: Failing) -> None:
    store.requests.clear()
    assert told(store) == expected(8)
    before = store.requests.total()
    merge(store, 8)
    (name,) = rounds(store)
    assert name.startswith("merged-")
    store.requests.clear()
    assert told(store) == expected(8)
    assert store.requests.total() == 5 < before  # the list, the round, and a file
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
    merge(store, 8)
    assert len(rounds(store)) == 1
    again = [(c, name_of(c, hour), 5) for c in CLUSTERS for hour in (4, 8)]
    assert told(store) == sorted([r for r in expected(8) if not r[1].endswith("04")] + again)


@pytest.mark.parametrize("broken", ["merged-", "round-05-1.json"])
def test_what_breaks_off_loses_nothing_and_the_next_round_goes_on(
    store: Failing, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    store.broken = broken
    merge(store, 8)
    assert "stay as they are for now" in caplog.text
    assert told(store) == expected(8)
    store.broken = ""
    merge(store, 24)
    assert len(rounds(store)) == 1
    assert told(store) == expected(8)


def test_a_table_of_a_round_that_is_gone_is_as_if_it_had_no_rows(store: Failing) -> None:
    store.delete(f"results/{TABLE}/round=round-05-1/{PACKED}")
    assert told(store) == [row for row in expected(8) if not row[1].endswith("05")]
