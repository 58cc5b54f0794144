"""The partitions of a snapshot as numpy columns, which is what the rules count on.

    columns = read_partitions(snapshot)
    for topic, rows in columns.by_topic(columns.in_sync < columns.wanted): ...

Ordered by topic and number, whatever the order of the rows. What is under way counts as Kafka's own
tools count it: replicas that are being added are not missing yet, those that are being removed do
not belong to the factor any more.

Limits: brokers are ids here; a broker that only a replica list names is one, too.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow.compute as pc

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.columns import (
    NOBODY,
    Flags,
    Ints,
    matrix_of,
    missing_from,
    numbers_of,
    one_chunk,
)

NOT_KNOWN: Final = -1


@dataclass(frozen=True, slots=True, eq=False)
class PartitionColumns:
    """One row per partition; the columns per topic follow `topics`."""

    topics: tuple[str, ...]  # that have partitions, by name
    min_insync: Ints  # per topic; NOT_KNOWN

    topic_of: Ints
    numbers: Ints
    replicas: Ints  # a matrix
    isr: Ints  # a matrix
    is_isr_known: Flags
    leaders: Ints
    adding: Ints  # a matrix
    factors: Ints  # replicas, once what is under way has ended
    wanted: Ints  # in-sync replicas of a healthy partition, now
    in_sync: Ints

    @property
    def needed(self) -> Ints:
        """In-sync replicas without which acks=all is refused; NOT_KNOWN.

        `min.insync.replicas`, but no more than there are replicas: brokers of 4.3 write to a topic
        with one replica that asks for two, although kafka-topics lists it as under min ISR.
        """
        return np.asarray(np.minimum(self.min_insync[self.topic_of], self.wanted))

    def by_topic(self, chosen: Flags) -> Iterator[tuple[str, Ints]]:
        """Each topic with chosen partitions, and their rows."""
        rows = np.flatnonzero(chosen)
        codes = self.topic_of[rows]
        starts = np.flatnonzero(np.diff(codes, prepend=NOBODY))
        for start, mine in zip(
            starts, np.split(rows, starts[1:]), strict=False
        ):  # split makes one of nothing, too
            yield self.topics[codes[start]], mine

    def counts(self, chosen: Flags | None = None) -> Ints:
        """Partitions per topic, or the chosen ones of them."""
        of = self.topic_of if chosen is None else self.topic_of[chosen]
        return np.bincount(of, minlength=len(self.topics)).astype(np.int64)

    def out_of_sync(self) -> Flags:
        """As `replicas`: those that should be in the ISR and are not; none where the ISR is not
        known.
        """
        absent = missing_from(self.isr, self.replicas) & missing_from(self.adding, self.replicas)
        return np.asarray(absent & self.is_isr_known[:, None])

    def row(self, at: int) -> tuple[int, str, str, str]:
        """Number, leader, replicas and ISR of a partition, for people."""
        leader = int(self.leaders[at])
        isr = listed(self.isr[at]) if self.is_isr_known[at] else "not told"
        return (
            int(self.numbers[at]),
            "none" if leader == NOBODY else str(leader),
            listed(self.replicas[at]),
            isr,
        )


PARTITION_ROW: Final = ("partition", "leader", "replicas", "in sync")


def listed(brokers: Ints) -> str:
    """`1, 2, 3` of a row of brokers."""
    return (
        ", ".join(str(broker_id) for broker_id in brokers.tolist() if broker_id != NOBODY) or "none"
    )


def read_partitions(snapshot: ClusterSnapshot) -> PartitionColumns:
    table = snapshot.partitions
    table = table.take(
        pc.sort_indices(table, [("topic", "ascending"), ("partition", "ascending")])
    ).combine_chunks()
    names = one_chunk(table["topic"]).dictionary_encode()
    topics = tuple(names.dictionary.to_pylist())
    replicas, counts = matrix_of(table["replicas"])
    isr, in_sync = matrix_of(table["isr"])
    adding, being_added = matrix_of(table["adding_replicas"])
    being_removed = matrix_of(table["removing_replicas"])[1]
    return PartitionColumns(
        topics=topics,
        min_insync=_min_insync(topics, snapshot),
        topic_of=np.asarray(names.indices.to_numpy(zero_copy_only=False), dtype=np.int64),
        numbers=numbers_of(table["partition"]),
        replicas=replicas,
        isr=isr,
        is_isr_known=np.asarray(table["isr"].is_valid().to_numpy(), dtype=np.bool_),
        leaders=numbers_of(table["leader"]),
        adding=adding,
        factors=counts - being_removed,
        wanted=counts - being_added,
        in_sync=in_sync,
    )


def _min_insync(topics: tuple[str, ...], snapshot: ClusterSnapshot) -> Ints:
    pairs = zip(
        *(snapshot.topics[column].to_pylist() for column in ("topic", "min_insync_replicas")),
        strict=True,
    )
    told = {topic: least for topic, least in pairs if least is not None}
    return np.array([told.get(topic, NOT_KNOWN) for topic in topics], dtype=np.int64)
