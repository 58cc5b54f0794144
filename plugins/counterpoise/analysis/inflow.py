"""The bytes that each partition takes in, from two snapshots: records between them x the average
size of a record.

    inflow = observed_inflow(earlier, later)     # one rate for each row of later.partitions
    snapshot = with_inflow(later, inflow)        # fills bytes_in_per_second where it is null

Example: a log keeps offsets 100 to 500 in 4,000 bytes, so a record has 10 bytes on average. Its end
was 380 in the snapshot 60 s before: 120 new records, 1,200 bytes, 20 bytes per second.

Limits: a mean over the time between the two. Every record counts with the average size of those
that are kept, which is too small where compaction removed most of them, or records grew lately.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.columns import flags_of, floats_of

_KEY = ["topic", "partition"]


def observed_inflow(earlier: ClusterSnapshot, later: ClusterSnapshot) -> pa.Array:
    """Return the bytes per second (int64) that producers wrote to each partition between two
    snapshots of one cluster, in the order of `later.partitions`.

    Null is not known: an offset or the size is missing, the topic is another one by now, the log
    became shorter, or it keeps no record that shows the size. All are null for two different
    clusters, and where no time lies between the snapshots.
    """
    seconds = _seconds_between(earlier, later)
    if seconds <= 0 or earlier.cluster_id != later.cluster_id:
        return pa.nulls(later.partitions.num_rows, pa.int64())
    pairs = _pairs(earlier, later)
    latest_offset = floats_of(pairs["latest_offset"])
    new_records = latest_offset - floats_of(pairs["latest_before"])
    kept_records = latest_offset - floats_of(pairs["earliest_offset"])
    with np.errstate(divide="ignore", invalid="ignore"):
        new_bytes = new_records * floats_of(pairs["size_bytes"]) / kept_records
    bytes_in = np.where(new_records == 0, 0.0, new_bytes)
    is_same_topic = flags_of(pairs["is_same_topic"])
    has_offsets = np.isfinite(kept_records) & (new_records >= 0)
    is_known = np.isfinite(bytes_in) & has_offsets & is_same_topic
    rates = np.rint(np.where(is_known, bytes_in, 0.0) / seconds)
    return pa.array(rates.astype(np.int64), mask=~is_known)


def with_inflow(snapshot: ClusterSnapshot, inflow: pa.Array) -> ClusterSnapshot:
    """Return the snapshot with `bytes_in_per_second` from `inflow` where it is null."""
    partitions = snapshot.partitions
    index = partitions.schema.get_field_index("bytes_in_per_second")
    filled = pc.coalesce(partitions["bytes_in_per_second"], inflow)
    with_rates = partitions.set_column(index, partitions.schema.field(index), filled)
    return replace(snapshot, tables={**snapshot.tables, "partitions": with_rates})


def _seconds_between(earlier: ClusterSnapshot, later: ClusterSnapshot) -> float:
    if earlier.observed_at is None or later.observed_at is None:
        return 0.0
    return (later.observed_at - earlier.observed_at).total_seconds()


def _pairs(earlier: ClusterSnapshot, later: ClusterSnapshot) -> pa.Table:
    """Return the later partitions, in their order, with `latest_before` and `is_same_topic`."""
    same_topics = [
        topic
        for topic, topic_id in later.topic_ids.items()
        if topic_id is not None and earlier.topic_ids.get(topic) == topic_id
    ]
    now = later.partitions.select([*_KEY, "earliest_offset", "latest_offset", "size_bytes"])
    is_same = pc.is_in(now["topic"], value_set=pa.array(same_topics, pa.string()))
    now = now.append_column("row", pa.array(range(now.num_rows), pa.int64()))
    now = now.append_column("is_same_topic", is_same)
    before = earlier.partitions.select([*_KEY, "latest_offset"])
    before = before.rename_columns([*_KEY, "latest_before"])
    return now.join(before, keys=_KEY, join_type="left outer").sort_by("row")
