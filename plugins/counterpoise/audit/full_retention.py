"""What the live brokers will hold, on their own disks, once every topic is as long as its retention
allows.

    full = bytes_at_full_retention(facts)
    full.of_broker(0).sum()        # bytes on the first live broker

A partition with 1,000 B/s and retention.ms=3,600,000 will hold 3.6 MB; with retention.bytes=2000000
as well it will hold 2 MB.

Limits: rates are means over a day: a peak hour is not what a topic holds. Compacted topics, and
topics without a limit or without a known rate, count with what they hold now.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.audit.facts import AuditFacts
from counterpoise.model.columns import (
    Floats,
    Ints,
    flags_of,
    flat_lists,
    floats_of,
    names_of,
    numbers_of,
    positions_in,
)

_AS_THE_OTHER: Final = -2  # Kafka's local.retention.*: as retention.*


@dataclass(frozen=True, slots=True, eq=False)
class FullRetention:
    """Bytes of each partition at full retention, and which partitions are on each live broker.

    `partition_rows` lists the partitions broker by broker; those of the live broker with index i
    are partition_rows[starts[i]:starts[i + 1]].
    """

    partition_bytes: Floats  # of one replica of each partition
    topics: tuple[str, ...]
    topic_of: Ints  # of each partition, the index of its topic
    partition_rows: Ints
    starts: Ints

    def of_broker(self, index: int) -> Floats:
        """Return the bytes of each topic on one live broker."""
        rows = self.partition_rows[self.starts[index] : self.starts[index + 1]]
        weights = self.partition_bytes[rows]
        sums = np.bincount(self.topic_of[rows], weights=weights, minlength=len(self.topics))
        return np.asarray(sums, np.float64)


def bytes_at_full_retention(facts: AuditFacts) -> FullRetention:
    """Return what the live brokers hold at full retention.

    Partitions 0 and 1 with the replicas (1, 2) and (2, 1), live brokers 1 and 2: the flat list of
    replicas has the brokers [1, 2, 2, 1] and the partitions [0, 0, 1, 1]; sorted by broker these
    are the partitions [0, 1, 0, 1], with the starts [0, 2, 4].
    """
    partitions = facts.snapshot.partitions
    flat_partitions, flat_replicas = flat_lists(partitions["replicas"])
    live_broker_ids = pa.array(facts.snapshot.live_broker_ids, pa.int64())
    flat_brokers = positions_in(pa.array(flat_replicas), live_broker_ids)
    by_broker = np.argsort(flat_brokers, kind="stable")
    topics, topic_of = names_of(partitions["topic"])
    return FullRetention(
        partition_bytes=_partition_bytes(facts),
        topics=topics,
        topic_of=topic_of,
        partition_rows=flat_partitions[by_broker],
        starts=np.searchsorted(flat_brokers[by_broker], np.arange(len(live_broker_ids) + 1)),
    )


def _partition_bytes(facts: AuditFacts) -> Floats:
    """Return the bytes of one replica of each partition at full retention.

    bytes by time = rate * retention.ms / 1000; unlimited where one of them is not known; 0 where
                    nothing is written, whatever the retention
    bytes by size = retention.bytes; unlimited where it is not set; of topics with tiered storage
                    local.retention.ms and local.retention.bytes, where they are set
    result        = the smaller of both, but no less than now; what it holds now if both are
                    unlimited, or if the topic is compacted

    1,000 B/s and retention.ms=3,600,000 make 3.6 MB; with retention.bytes=2,000,000 that is 2 MB.
    """
    held_bytes = floats_of(pc.fill_null(facts.snapshot.partitions["size_bytes"], 0))
    rates = _partition_rates(facts)
    with np.errstate(invalid="ignore"):  # a rate of 0 times no limit is not a number
        bytes_by_time = np.where(rates == 0, 0.0, rates * _limits(facts, "retention_ms") / 1000)
    bytes_by_size = _limits(facts, "retention_bytes")
    is_limited_by_time = np.isfinite(bytes_by_time)
    smaller = np.minimum(bytes_by_size, bytes_by_time)
    limit = np.where(is_limited_by_time, smaller, bytes_by_size)
    expected = np.where(np.isfinite(limit), limit, held_bytes)
    return np.asarray(np.maximum(held_bytes, expected))


def _limits(facts: AuditFacts, config: str) -> Floats:
    """Return a retention limit of each partition's topic; infinity where there is none."""
    partitions, topics = facts.snapshot.partitions, facts.snapshot.topics
    topic_index = pc.index_in(partitions["topic"], value_set=topics["topic"].combine_chunks())
    topic_rows = numbers_of(topic_index, missing=0)
    values = floats_of(pc.fill_null(topics[config], -1))
    local_values = floats_of(pc.fill_null(topics[f"local_{config}"], _AS_THE_OTHER))
    is_tiered = flags_of(pc.equal(topics["remote_storage_enable"], "true"))
    values = np.where(is_tiered & (local_values != _AS_THE_OTHER), local_values, values)
    is_compacted = flags_of(pc.match_substring(topics["cleanup_policy"], "compact"))
    has_limit = (values >= 0) & ~is_compacted
    limits: Floats = np.where(has_limit, values, np.inf)[topic_rows]
    return limits


def _partition_rates(facts: AuditFacts) -> Floats:
    """Return bytes in per second of each partition, by row of `partitions`; NaN: not known."""
    usual = facts.history.usual_bytes_in
    if usual is None:
        return np.full(facts.snapshot.partitions.num_rows, np.nan)
    return np.asarray(usual.to_numpy(zero_copy_only=False), np.float64)
