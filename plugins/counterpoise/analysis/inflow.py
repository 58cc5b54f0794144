"""How much each partition takes in, told by two photographs: records between them x the average
size of a record.

    inflow = observed_inflow(earlier, later)   # int64, bytes per second, one for each row of later.partitions
    snapshot = with_inflow(later, inflow)      # fills bytes_in_per_second where it is null

Limits: an average over the whole time between the two. A record counts with the average size of
those that are kept: too small where compaction took most of them away, and where records grew
lately.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.model.cluster import ClusterSnapshot

_KEY = ["topic", "partition"]


def observed_inflow(earlier: ClusterSnapshot, later: ClusterSnapshot) -> pa.Array:
    """Bytes per second (int64) that producers wrote to each partition between two photographs of
    one cluster.

    In the order of `later.partitions`; null where it cannot be told: an offset or the size is
    missing, the topic is another one by now, the log became shorter, nothing is kept that tells the
    size of a record. All null for two clusters, and where no time lies between the photographs.
    """
    seconds = _seconds_between(earlier, later)
    if seconds <= 0 or earlier.cluster_id != later.cluster_id:
        return pa.nulls(later.partitions.num_rows, pa.int64())
    joined = _side_by_side(earlier, later)
    before, start, end, size = (
        _floats(joined[name])
        for name in ("latest_before", "earliest_offset", "latest_offset", "size_bytes")
    )
    records, kept = end - before, end - start
    with np.errstate(divide="ignore", invalid="ignore"):
        bytes_in = np.where(records == 0, 0.0, records * size / kept)
    is_known = np.isfinite(bytes_in) & np.isfinite(kept) & (records >= 0)
    is_known &= np.array(joined["is_same_topic"].to_numpy(), dtype=np.bool_)
    return pa.array(
        np.rint(np.where(is_known, bytes_in, 0.0) / seconds).astype(np.int64), mask=~is_known
    )


def with_inflow(snapshot: ClusterSnapshot, inflow: pa.Array) -> ClusterSnapshot:
    """The snapshot with `bytes_in_per_second` taken from `inflow` (one for each of its partitions)
    where it is null.
    """
    partitions = snapshot.partitions
    at = partitions.schema.get_field_index("bytes_in_per_second")
    filled = pc.coalesce(partitions["bytes_in_per_second"], inflow)
    tables = {
        **snapshot.tables,
        "partitions": partitions.set_column(at, partitions.schema.field(at), filled),
    }
    return replace(snapshot, tables=tables)


def _seconds_between(earlier: ClusterSnapshot, later: ClusterSnapshot) -> float:
    if earlier.observed_at is None or later.observed_at is None:
        return 0.0
    return (later.observed_at - earlier.observed_at).total_seconds()


def _side_by_side(earlier: ClusterSnapshot, later: ClusterSnapshot) -> pa.Table:
    """The later partitions, in their order, with the end of each log before."""
    same = [
        topic
        for topic, id_ in later.topic_ids.items()
        if id_ is not None and earlier.topic_ids.get(topic) == id_
    ]
    now = later.partitions.select([*_KEY, "earliest_offset", "latest_offset", "size_bytes"])
    now = now.append_column("row", pa.array(range(now.num_rows), pa.int64()))
    now = now.append_column(
        "is_same_topic", pc.is_in(now["topic"], value_set=pa.array(same, pa.string()))
    )
    before = earlier.partitions.select([*_KEY, "latest_offset"]).rename_columns(
        [*_KEY, "latest_before"]
    )
    return now.join(before, keys=_KEY, join_type="left outer").sort_by("row")


def _floats(column: pa.ChunkedArray) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Whole numbers below 2^53, nulls as NaN."""
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
