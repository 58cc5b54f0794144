"""The expectations of a snapshot without Great Expectations: cheap enough for every photograph.

    quick_check(snapshot, before).grave          # () : it may join the history

It reads the same lists of expectations over the same facts, and a test holds both to the same
answers: this one keeps bad data out, the other one tells of it at length. A million partitions take
a few seconds.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.validation.data import CountsBefore, DataCheck, DataFailure
from counterpoise.validation.facts import snapshot_facts
from counterpoise.validation.suites import SNAPSHOT_EXPECTATIONS, Expectations

MOST_EXAMPLES: Final = 5


def quick_check(snapshot: ClusterSnapshot, before: CountsBefore | None = None) -> DataCheck:
    """Every expectation of every table; with `before`, also how many rows there have to be."""
    failures: list[DataFailure] = []
    passed = 0
    for table, rows in snapshot_facts(snapshot).items():
        expected = SNAPSHOT_EXPECTATIONS[table]
        if rows.num_rows:  # of an empty table everything holds
            for column, words, wrong in _outcomes(rows, expected):
                if wrong.any():
                    failures.append(_failure(table, rows, expected, column, words, wrong))
                else:
                    passed += 1
        if before and before.least(table):
            if rows.num_rows < before.least(table):
                failures.append(before.failure(table, rows.num_rows))
            else:
                passed += 1
    return DataCheck(not failures, tuple(failures), passed)


def _outcomes(
    rows: pa.Table, expected: Expectations
) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
    """Column, what is expected of it, and which rows are not so."""
    unique = "is unique" if len(expected.key) == 1 else "are unique together"
    yield ", ".join(expected.key), unique, _repeated(rows, expected.key)
    for column in expected.not_null:
        yield column, "is known", np.asarray(pc.is_null(rows[column]), dtype=bool)
    for column in expected.not_negative:
        yield (
            column,
            "is not negative",
            np.asarray(pc.fill_null(pc.less(rows[column], 0), False), dtype=bool),
        )
    for column in expected.is_true:
        yield column, "is true", ~np.asarray(rows[column], dtype=bool)


def _repeated(rows: pa.Table, key: Sequence[str]) -> NDArray[np.bool_]:
    """All rows whose key another row has too; each column's values are numbered, and the numbers
    made one.
    """
    numbers = np.zeros(rows.num_rows, dtype=np.int64)
    for column in key:
        encoded = pc.dictionary_encode(rows[column].combine_chunks(), null_encoding="encode")
        numbers = numbers * (len(encoded.dictionary) + 1) + np.asarray(
            encoded.indices, dtype=np.int64
        )
    in_order = np.sort(numbers)
    twice = in_order[1:][in_order[1:] == in_order[:-1]]
    return (
        np.asarray(np.isin(numbers, twice), dtype=bool)
        if len(twice)
        else np.zeros(rows.num_rows, dtype=bool)
    )


def _failure(
    table: str,
    rows: pa.Table,
    expected: Expectations,
    column: str,
    words: str,
    wrong: NDArray[np.bool_],
) -> DataFailure:
    first = rows.take(pa.array(np.flatnonzero(wrong)[:MOST_EXAMPLES])).to_pylist()
    shown = [column] if column in rows.column_names and column not in expected.key else []
    return DataFailure(
        table=table,
        expectation=f"{column} {words}",
        column=column,
        unexpected_count=int(wrong.sum()),
        examples=tuple(example_of(row, expected.key, shown) for row in first),
        is_momentary=expected.is_momentary(column),
    )


def example_of(row: dict[str, object], key: Sequence[str], shown: Sequence[str]) -> str:
    """`orders-3` or `orders-3: size_bytes=-1`."""
    name = "-".join(str(row[part]) for part in key if part in row)
    facts = ", ".join(f"{part}={row[part]}" for part in shown)
    return f"{name}: {facts}" if facts else name
