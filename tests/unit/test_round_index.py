"""The index of rounds: what it spares, and that nobody sees anything else than without it."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from counterpoise.errors import StoreError
from counterpoise.results import Results
from counterpoise.round_index import PATH, ROUNDS, index_rounds, read_rounds
from counterpoise.storage import Store
from tests.support.stores import ReadingStore

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)


def finish(store: Store, name: str, hour: int, ids: Sequence[str]) -> str:
    rows = [
        {"snapshot_id": one, "cluster": one.partition("-")[0], "previous_snapshot_id": None}
        for one in ids
    ]
    Results(store).finish_round(name, BEGIN + timedelta(hours=hour), rows, is_by_cluster=True)
    return f"{ROUNDS}/{name}.json"


@pytest.fixture
def store(tmp_path: Path) -> ReadingStore:
    store = ReadingStore(str(tmp_path))
    for hour in range(20):
        finish(store, f"round-{hour:02d}", hour, [f"demo-{hour}", f"other-{hour}"])
    index_rounds(store)
    store.read_paths.clear()
    return store


def test_only_rounds_that_are_new_or_changed_are_read(store: ReadingStore) -> None:
    new = finish(store, "round-20", 20, ["demo-20"])
    changed = finish(store, "round-03", 3, ["demo-3", "demo-3-again", "other-3"])
    results = Results(store)
    assert results.of_cluster("demo") == {f"demo-{hour}" for hour in range(21)} | {"demo-3-again"}
    assert store.read_paths == [PATH, changed, new]


def test_a_round_that_is_gone_does_not_count(store: ReadingStore) -> None:
    store.delete(f"{ROUNDS}/round-07.json")
    assert "demo-7" not in Results(store).analysed
    assert len(Results(store).of_cluster("other")) == 19


def test_of_a_snapshot_in_several_rounds_the_one_that_finished_last_counts(
    store: ReadingStore,
) -> None:
    finish(store, "a-round", 30, ["demo-5"])
    finish(store, "z-round", 1, ["demo-6"])
    index_rounds(store)
    found = Results(store).analysed
    assert (found["demo-5"].round_id, found["demo-6"].round_id) == ("a-round", "round-06")


@pytest.mark.parametrize("damage", ["not Parquet", None])
def test_an_index_that_is_damaged_or_missing_costs_reads_and_nothing_else(
    store: ReadingStore, damage: str | None
) -> None:
    expected = read_rounds(store)
    store.write_text(PATH, damage) if damage else store.delete(PATH)
    assert read_rounds(store).equals(expected)
    index_rounds(store)
    store.read_paths.clear()
    assert read_rounds(store).equals(expected)
    assert store.read_paths == [PATH]


def test_a_round_that_is_merged_between_list_and_read_is_looked_for_again(
    store: ReadingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = finish(store, "round-20", 20, ["demo-20"])
    read_text = store.read_text

    def merged_before(path: str) -> str:
        if path == new and store.info(new):
            finish(store, "merged", 20, ["demo-20"])
            store.delete(new)
        return read_text(path)

    monkeypatch.setattr(store, "read_text", merged_before)
    assert Results(store).analysed["demo-20"].round_id == "merged"


def test_a_few_rounds_need_no_index(tmp_path: Path) -> None:
    store = ReadingStore(str(tmp_path))
    finish(store, "only", 1, ["demo-1"])
    index_rounds(store)
    assert store.info(PATH) is None
    assert Results(store).of_cluster("demo") == {"demo-1"}


def test_a_document_that_is_no_round_is_named(store: ReadingStore) -> None:
    store.write_text(f"{ROUNDS}/round-04.json", "[]")
    with pytest.raises(StoreError, match=r"round-04\.json is not a list of analysed snapshots"):
        read_rounds(store)
