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
from counterpoise.model.columns import NOBODY, Flags, Ints, flat_lists, numbers_of
from counterpoise.validation.data import CountsBefore, DataCheck, DataFailure
from counterpoise.validation.suites import SNAPSHOT_EXPECTATIONS, Expectations

# -- The tables of a snapshot, each with what other tables have of it: what expectations compare
#
#     snapshot_facts(snapshot)["partitions"]["leading_replica"]      # beside "leader"
#
# A column like `known_topic` is the same value looked up in the table that it refers to, -1 or ""
# in place of what is not there; columns of counts count what lists hold. All is columns (Arrow,
# numpy), since it runs on every snapshot. The quick check reads these columns, and Great
# Expectations reads them as frames.


_BROKER: Final = pa.int32()


def snapshot_facts(snapshot: ClusterSnapshot) -> dict[str, pa.Table]:
    """Return every table of SNAPSHOT_TABLES: the columns that something is expected of."""
    registered = snapshot.registered_broker_ids
    tables = snapshot.tables
    return {
        "brokers": snapshot.brokers.select(
            ["broker_id", "is_fenced", "rack", "disk_total_bytes", "disk_usable_bytes"]
        ),
        "topics": _topics(snapshot),
        "partitions": _partitions(snapshot, registered),
        "replicas": _with_registered(
            snapshot.replicas.select(["topic", "partition", "broker_id", "position", "size_bytes"]),
            registered,
        ),
        "listeners": _with_registered(
            tables["listeners"].select(["broker_id", "security_protocol", "host", "port"]),
            registered,
        ),
        "quorum": tables["quorum"].select(["node_id", "role"]),
        "log_dirs": _with_registered(
            snapshot.log_dirs.select(
                ["broker_id", "log_dir", "total_bytes", "usable_bytes", "held_bytes"]
            ),
            registered,
        ),
        "throttles": snapshot.throttles.select(["resource_type", "resource_name", "key", "value"]),
    }


def _with(table: pa.Table, **columns: pa.Array | pa.ChunkedArray) -> pa.Table:
    for name, column in columns.items():
        table = table.append_column(name, column)
    return table


def _with_registered(table: pa.Table, registered: Sequence[int]) -> pa.Table:
    return _with(table, registered_broker=_found(table["broker_id"], registered))


def _topics(snapshot: ClusterSnapshot) -> pa.Table:
    table = snapshot.topics
    topic_indexes = pc.index_in(
        snapshot.partitions["topic"], value_set=table["topic"].combine_chunks()
    )
    partition_counts = np.bincount(numbers_of(topic_indexes.drop_null()), minlength=table.num_rows)
    return _with(
        table.select(["topic", "partition_count", "min_insync_replicas"]),
        counted_partitions=pa.array(partition_counts, pa.int64()),
    )


def _partitions(snapshot: ClusterSnapshot, registered: Sequence[int]) -> pa.Table:
    """Return the partitions with counts of their lists.

    Replicas and ISR are flattened to (row, broker) pairs, each pair one number: sorting then finds
    a broker that stands twice in a row, and a binary search an ISR member that is no replica.
    Example: row 1 with replicas [4, 4] has the pair (1, 4) twice; shifting its number right by 32
    bits gives row 1 back.
    """
    table = snapshot.partitions
    row_count = table.num_rows
    replica_rows, replica_ids = flat_lists(table["replicas"])
    isr_rows, isr_ids = flat_lists(table["isr"])
    leader_ids = numbers_of(table["leader"])

    leader_is_a_replica = np.zeros(row_count, dtype=bool)
    is_leader = replica_ids == leader_ids[replica_rows]
    leader_is_a_replica[replica_rows[is_leader]] = True

    replica_pairs = np.sort(_pair(replica_rows, replica_ids))
    is_first = np.ones(len(replica_pairs), dtype=bool)
    is_first[1:] = replica_pairs[1:] != replica_pairs[:-1]
    is_within_replicas = _is_in_ordered(_pair(isr_rows, isr_ids), replica_pairs)
    has_topic = pc.is_in(table["topic"], value_set=snapshot.topics["topic"].combine_chunks())
    return _with(
        table.select(["topic", "partition", "leader", "size_bytes"]),
        known_topic=pc.if_else(has_topic, table["topic"], pa.scalar("", table["topic"].type)),
        replica_count=_counts(replica_rows, row_count),
        different_replicas=_counts(replica_pairs[is_first] >> 32, row_count),
        registered_replicas=_counts(replica_rows[np.isin(replica_ids, registered)], row_count),
        leading_replica=_where(leader_is_a_replica, table["leader"]),
        live_leader=_found(table["leader"], snapshot.live_broker_ids),
        isr_count=_counts(isr_rows, row_count),
        isr_replicas=_counts(isr_rows[is_within_replicas], row_count),
    )


def _pair(rows: Ints, broker_ids: Ints) -> Ints:
    """Return one number for each (row, broker): the row in the upper 32 bits."""
    return (rows << 32) | (broker_ids & 0xFFFFFFFF)


def _is_in_ordered(numbers: Ints, ordered: Ints) -> Flags:
    """Return for each number whether it is among the ordered ones, by binary search."""
    if not len(ordered):
        return np.zeros(len(numbers), dtype=bool)
    indexes = np.minimum(np.searchsorted(ordered, numbers), len(ordered) - 1)
    return np.asarray(ordered[indexes] == numbers, dtype=bool)


def _counts(rows: Ints, row_count: int) -> pa.Array:
    """Return how often each row occurs."""
    return pa.array(np.bincount(rows, minlength=row_count), pa.int64())


def _found(column: pa.ChunkedArray, known: Sequence[int]) -> pa.Array:
    """Return the broker ids that are known, NOBODY in place of the others; null stays null."""
    return _where(np.isin(numbers_of(column), list(known)), column)


def _where(is_found: Flags, column: pa.ChunkedArray) -> pa.Array:
    broker_ids = np.where(is_found, numbers_of(column), NOBODY)
    return pa.array(broker_ids, _BROKER, mask=np.asarray(pc.is_null(column), dtype=bool))


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
