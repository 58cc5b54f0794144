"""The expectations of a snapshot without Great Expectations: cheap enough for every snapshot.

    quick_check(snapshot, before).grave          # (): it may join the history

It checks the same lists of expectations over the same facts, and a test holds both to the same
answers: this one keeps bad data out, the other one documents it. A million partitions take a few
seconds.
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

MAX_EXAMPLES: Final = 5


def quick_check(snapshot: ClusterSnapshot, before: CountsBefore | None = None) -> DataCheck:
    """Check every expectation of every table; with `before`, also the number of rows."""
    failures: list[DataFailure] = []
    passed = 0
    for table, rows in snapshot_facts(snapshot).items():
        expected = SNAPSHOT_EXPECTATIONS[table]
        if rows.num_rows:  # everything holds for an empty table
            for column, predicate, is_wrong in _outcomes(rows, expected):
                if is_wrong.any():
                    failures.append(_failure(table, rows, expected, column, predicate, is_wrong))
                else:
                    passed += 1
        if before and before.min_rows(table):
            if rows.num_rows < before.min_rows(table):
                failures.append(before.failure(table, rows.num_rows))
            else:
                passed += 1
    return DataCheck(not failures, tuple(failures), passed)


def _outcomes(
    rows: pa.Table, expected: Expectations
) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
    """Yield each column, what is expected of it, and which rows break that."""
    unique = "is unique" if len(expected.key) == 1 else "are unique together"
    yield ", ".join(expected.key), unique, _repeated(rows, expected.key)
    for column in expected.not_null:
        yield column, "is known", np.asarray(pc.is_null(rows[column]), dtype=bool)
    for column, between in expected.ranges.items():
        is_outside = pc.less(rows[column], between.lowest)
        if between.highest is not None:
            is_outside = pc.or_(is_outside, pc.greater(rows[column], between.highest))
        yield column, str(between), _flags(is_outside)
    for column, members in expected.members.items():
        is_member = pc.is_in(rows[column], value_set=pa.array(members, pa.string()))
        is_other = pc.and_(pc.is_valid(rows[column]), pc.invert(is_member))
        yield column, f"is one of {', '.join(members)}", _flags(is_other)
    for column in expected.not_blank:
        yield column, "is not blank", _flags(pc.equal(pc.utf8_trim_whitespace(rows[column]), ""))
    for pair in expected.equal:
        yield pair.column, pair.says, _flags(pc.not_equal(rows[pair.column], rows[pair.other]))
    for pair in expected.at_most:
        yield pair.column, pair.says, _flags(pc.greater(rows[pair.column], rows[pair.other]))


def _flags(values: pa.ChunkedArray) -> NDArray[np.bool_]:
    return np.asarray(pc.fill_null(values, False), dtype=bool)


def _repeated(rows: pa.Table, key: Sequence[str]) -> NDArray[np.bool_]:
    """Return for each row whether another row has the same key.

    Each column's values are numbered, and the numbers of a row combined into one. Example: topics
    a, b, a are 0, 1, 0 and partitions 0, 0, 0 are 0, 0, 0; combined 0 * 2 + 0, 1 * 2 + 0, 0 * 2 + 0
    are 0, 2, 0: the first and the last row repeat one another.
    """
    key_numbers = np.zeros(rows.num_rows, dtype=np.int64)
    for column in key:
        encoded = pc.dictionary_encode(rows[column].combine_chunks(), null_encoding="encode")
        value_numbers = np.asarray(encoded.indices, dtype=np.int64)
        key_numbers = key_numbers * (len(encoded.dictionary) + 1) + value_numbers
    ordered = np.sort(key_numbers)
    is_as_before = ordered[1:] == ordered[:-1]
    repeated_numbers = ordered[1:][is_as_before]
    if not len(repeated_numbers):
        return np.zeros(rows.num_rows, dtype=bool)
    return np.asarray(np.isin(key_numbers, repeated_numbers), dtype=bool)


def _failure(
    table: str,
    rows: pa.Table,
    expected: Expectations,
    column: str,
    predicate: str,
    is_wrong: NDArray[np.bool_],
) -> DataFailure:
    first_wrong = np.flatnonzero(is_wrong)[:MAX_EXAMPLES]
    example_rows = rows.take(pa.array(first_wrong)).to_pylist()
    others = [p.other for p in (*expected.equal, *expected.at_most) if p.says == predicate]
    shown = [name for name in (column, *others) if name in rows.column_names]
    shown = [name for name in shown if name not in expected.key]
    return DataFailure(
        table=table,
        expectation=f"{column} {predicate}",
        column=column,
        unexpected_count=int(is_wrong.sum()),
        examples=tuple(example_of(row, expected.key, shown) for row in example_rows),
        is_momentary=expected.is_momentary(f"{column} {predicate}"),
    )


def example_of(row: dict[str, object], key: Sequence[str], shown: Sequence[str]) -> str:
    """Return a row's key with the columns to show: `orders-3` or `orders-3: size_bytes=-1`."""
    name = "-".join(str(row[part]) for part in key if part in row)
    facts = ", ".join(f"{part}={row[part]}" for part in shown)
    return f"{name}: {facts}" if facts else name
