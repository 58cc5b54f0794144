"""Arrow columns as numpy: what planning, audit, analysis and validation begin with.

replicas, counts = matrix_of(snapshot.partitions["replicas"])  # rows filled up with NOBODY
leaders = numbers_of(snapshot.partitions["leader"])            # NOBODY where there is none
topics, topic_of = names_of(snapshot.partitions["topic"])      # topics[topic_of[row]]
"""

from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]

NOBODY: Final = -1  # in place of a broker: no leader, or the end of a row of replicas


def one_chunk(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if isinstance(column, pa.Array):
        return column
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def numbers_of(column: pa.ChunkedArray | pa.Array, *, missing: int = NOBODY) -> Ints:
    filled = pc.fill_null(column.cast(pa.int64()), missing)
    return np.asarray(one_chunk(filled).to_numpy(zero_copy_only=False), dtype=np.int64)


def floats_of(column: pa.ChunkedArray) -> Floats:
    """Return whole numbers below 2^53 as floats, nulls as NaN."""
    return np.array(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)


def flags_of(column: pa.ChunkedArray) -> Flags:
    """Return true and false; a null is false."""
    return np.array(pc.fill_null(column, False), dtype=np.bool_)


def names_of(column: pa.ChunkedArray) -> tuple[tuple[str, ...], Ints]:
    """Return the distinct names, and for each row the index of its name among them.

    The column [b, a, b] gives (b, a) and [0, 1, 0].
    """
    encoded = one_chunk(column).dictionary_encode()
    return tuple(encoded.dictionary.to_pylist()), numbers_of(encoded.indices)


def positions_in(column: pa.ChunkedArray | pa.Array, values: pa.Array) -> Ints:
    """Return the index of each value among `values`; -1 for other values and for nulls.

    With the column [3, 1, null, 7] and the values [1, 3] this is [1, 0, -1, -1].
    """
    return numbers_of(pc.index_in(column, value_set=values), missing=-1)


def flat_lists(column: pa.ChunkedArray) -> tuple[Ints, Ints]:
    """Return the row of each element of a list column, and the elements.

    [[1, 2], [], [2]] gives [0, 0, 2] and [1, 2, 2].
    """
    lists = one_chunk(column)
    return numbers_of(pc.list_parent_indices(lists)), numbers_of(pc.list_flatten(lists))


def matrix_of(column: pa.ChunkedArray) -> tuple[Ints, Ints]:
    """Return a list column as a matrix filled up with NOBODY, and the length of each row."""
    lists = one_chunk(column)
    counts = (
        pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    )
    matrix = np.full((len(counts), int(counts.max(initial=1))), NOBODY, dtype=np.int64)
    inside = np.arange(matrix.shape[1]) < counts[:, None]
    matrix[inside] = lists.flatten().to_numpy(zero_copy_only=False)
    return matrix, counts


def missing_from(others: Ints, replicas: Ints) -> Flags:
    """Return which of `replicas` are on no broker of the same row of `others`: the new ones, if
    those are the rows before.
    """
    missing = replicas != NOBODY
    for position in range(others.shape[1]):
        missing &= replicas != others[:, [position]]
    return np.asarray(missing)


def rank_within(groups: Ints, order: Ints) -> Ints:
    """Return the rank of each item among those of its group, when they come in the given order.

    Example: groups [5, 9, 5] in the order [2, 0, 1]: item 2 is the first of group 5, item 0 the
    second, item 1 the first of group 9, so the ranks are [1, 0, 0].
    """
    by_group = order[np.argsort(groups[order], kind="stable")]
    ordered = groups[by_group]
    starts = np.searchsorted(ordered, ordered, side="left")
    ranks = np.empty(len(groups), dtype=np.int64)
    ranks[by_group] = np.arange(len(groups)) - starts
    return ranks


def count_within(lengths: Ints) -> Ints:
    """Return 0, 1, 2 ... for each of the groups that have these lengths, one after the other.

    Example: lengths [3, 0, 2] give [0, 1, 2, 0, 1].
    """
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.asarray(np.arange(len(starts)) - starts)
