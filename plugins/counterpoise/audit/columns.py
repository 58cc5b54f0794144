"""The partitions of a snapshot as numpy columns, on which the rules count.

    partitions = read_partitions(snapshot)
    for topic, rows in partitions.by_topic(partitions.in_sync < partitions.wanted): ...

Ordered by topic and number, whatever the order of the rows. Reassignments in progress count as
Kafka's own tools count them: replicas that are being added are not missing yet, replicas that are
being removed do not belong to the replication factor any more.

Limits: brokers are ids here, registered or not.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow.compute as pc

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.columns import (
    NOBODY,
    Flags,
    Ints,
    flags_of,
    matrix_of,
    missing_from,
    names_of,
    numbers_of,
)
from counterpoise.model.tables import rows_of
from counterpoise.model.words import pluralize

NOT_KNOWN: Final = -1
PARTITION_ROW: Final = ("partition", "leader", "replicas", "in sync")


@dataclass(frozen=True, eq=False)
class PartitionColumns:
    """One row per partition; `min_insync` has one row per topic of `topics`.

    `factors` are the replicas once reassignments have ended, `wanted` the in-sync replicas of a
    healthy partition now. Matrices of brokers are filled up with NOBODY.
    """

    topics: tuple[str, ...]  # that have partitions, by name
    min_insync: Ints  # per topic; NOT_KNOWN

    topic_of: Ints
    numbers: Ints
    replicas: Ints  # a matrix
    isr: Ints  # a matrix
    is_isr_known: Flags
    leaders: Ints
    adding: Ints  # a matrix
    factors: Ints
    wanted: Ints
    in_sync: Ints

    @property
    def needed(self) -> Ints:
        """Return the in-sync replicas without which acks=all is refused; NOT_KNOWN.

        This is `min.insync.replicas`, but no more than there are replicas: brokers of 4.3 write to
        a topic with one replica that asks for two, although kafka-topics lists it as under min ISR.
        """
        return np.asarray(np.minimum(self.min_insync[self.topic_of], self.wanted))

    def by_topic(self, chosen: Flags) -> Iterator[tuple[str, Ints]]:
        """Yield each topic with chosen partitions, and their rows."""
        rows = np.flatnonzero(chosen)
        topic_numbers = self.topic_of[rows]
        starts = np.flatnonzero(np.diff(topic_numbers, prepend=NOBODY))
        rows_by_topic = np.split(rows, starts[1:])
        # numpy.split makes one part of nothing, too: then there is no start for it.
        for start, topic_rows in zip(starts, rows_by_topic, strict=False):
            yield self.topics[topic_numbers[start]], topic_rows

    @cached_property
    def counts(self) -> Ints:
        """Return the number of partitions per topic."""
        return np.bincount(self.topic_of, minlength=len(self.topics)).astype(np.int64)

    def share_in_words(self, rows: Ints) -> str:
        """Return `3 of 12 partitions` of rows of one topic."""
        total = int(self.counts[self.topic_of[rows[0]]])
        return f"{len(rows):,} of {pluralize(total, 'partition')}"

    def out_of_sync(self) -> Flags:
        """Return which of `replicas` should be in the ISR and are not; none if it is not known."""
        is_absent = missing_from(self.isr, self.replicas)
        is_not_new = missing_from(self.adding, self.replicas)
        return np.asarray(is_absent & is_not_new & self.is_isr_known[:, None])

    def row(self, row: int) -> tuple[int, str, str, str]:
        """Return number, leader, replicas and ISR of a partition, as in PARTITION_ROW."""
        leader = int(self.leaders[row])
        return (
            int(self.numbers[row]),
            "none" if leader == NOBODY else str(leader),
            join_brokers(self.replicas[row]),
            join_brokers(self.isr[row]) if self.is_isr_known[row] else "not known",
        )


def join_brokers(brokers: Ints) -> str:
    """Return `1, 2, 3` of a row of broker ids."""
    broker_ids = [str(broker_id) for broker_id in brokers.tolist() if broker_id != NOBODY]
    return ", ".join(broker_ids) or "none"


def read_partitions(snapshot: ClusterSnapshot) -> PartitionColumns:
    table = snapshot.partitions
    order = pc.sort_indices(table, [("topic", "ascending"), ("partition", "ascending")])
    table = table.take(order).combine_chunks()
    topics, topic_of = names_of(table["topic"])
    replicas, replica_counts = matrix_of(table["replicas"])
    isr, in_sync_counts = matrix_of(table["isr"])
    adding, adding_counts = matrix_of(table["adding_replicas"])
    _, removing_counts = matrix_of(table["removing_replicas"])
    return PartitionColumns(
        topics=topics,
        min_insync=_min_insync(topics, snapshot),
        topic_of=topic_of,
        numbers=numbers_of(table["partition"]),
        replicas=replicas,
        isr=isr,
        is_isr_known=flags_of(table["isr"].is_valid()),
        leaders=numbers_of(table["leader"]),
        adding=adding,
        factors=replica_counts - removing_counts,
        wanted=replica_counts - adding_counts,
        in_sync=in_sync_counts,
    )


def _min_insync(topics: tuple[str, ...], snapshot: ClusterSnapshot) -> Ints:
    known = dict(rows_of(snapshot.topics, "topic", "min_insync_replicas"))
    values = [known.get(topic) for topic in topics]
    return np.array([NOT_KNOWN if value is None else value for value in values], dtype=np.int64)
