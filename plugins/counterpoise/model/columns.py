"""A snapshot's Arrow columns as numpy: what planning and the audit both begin with.

replicas, counts = matrix_of(snapshot.partitions["replicas"])      # rows of broker ids, filled up
with NOBODY leaders = numbers_of(snapshot.partitions["leader"])                # NOBODY where there
is none
"""

from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

NOBODY: Final = -1  # in place of a broker: no leader, or the end of a row of replicas


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def numbers_of(column: pa.ChunkedArray, *, missing: int = NOBODY) -> Ints:
    filled = pc.fill_null(column.cast(pa.int64()), missing)
    return np.asarray(one_chunk(filled).to_numpy(zero_copy_only=False), dtype=np.int64)


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
