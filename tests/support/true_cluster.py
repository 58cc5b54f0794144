"""A small cluster that never was, minute by minute, and the record of all that happened to it.

    cluster = TrueCluster(brokers={1: "a", 2: "b"})
    cluster.create("orders", partitions=6, bytes_per_second=20_000)
    cluster.stop(2, cause="died")
    cluster.tick()                      # ten minutes: records arrive, logs roll, expire, compact

Time goes in ticks of ten minutes. What the cluster is now is in `brokers` and `partitions`; what
happened is in `record`, which nothing but the events of the cluster ever writes.
"""

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

TICK_SECONDS: Final = 600
TICKS_PER_HOUR: Final = 3600 // TICK_SECONDS
_SEGMENT_TICKS: Final = 6 * TICKS_PER_HOUR  # a segment is rolled after six hours
_TICKS_TO_CATCH_UP: Final = 2  # until a broker that is back is in sync


@dataclass
class Segment:
    records: int
    size_bytes: int
    opened_at: int  # tick


@dataclass
class Topic:
    name: str
    topic_id: str
    bytes_per_second: int  # of a partition, on average
    record_bytes: int
    retention_ticks: int | None
    kept_records: int | None  # of a compacted log: one for each key
    hours: tuple[int, int]  # of the day, in which producers write

    @property
    def cleanup_policy(self) -> str:
        return "delete" if self.kept_records is None else "compact"


@dataclass
class Partition:
    index: int  # in the order in which partitions were made
    topic: Topic
    number: int
    replicas: list[int]
    leader: int
    weight: float  # of the topic's mean rate
    isr: set[int]
    epoch: int = 0
    adding: list[int] = field(default_factory=list)
    removing: list[int] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    earliest_offset: int = 0
    latest_offset: int = 0
    size_bytes: int = 0

    @property
    def name(self) -> tuple[str, int]:
        return self.topic.name, self.number


@dataclass(frozen=True)
class Election:
    """`cause`: died, restart, preferred, reassignment."""

    tick: int
    partition: Partition
    before: int
    after: int
    cause: str


@dataclass
class Record:
    """What happened. `written` and `removed` are in bytes of one copy, by tick and partition."""

    written: list[dict[int, int]] = field(default_factory=list)
    removed: list[dict[int, int]] = field(default_factory=list)
    leaders: list[dict[int, int]] = field(default_factory=list)
    followers: list[dict[int, tuple[int, ...]]] = field(default_factory=list)  # that fetch
    live: list[frozenset[int]] = field(default_factory=list)  # brokers
    elections: list[Election] = field(default_factory=list)
    moved: list[Partition] = field(default_factory=list)  # by reassignments that ended
    topics: list[Topic] = field(default_factory=list)  # of each partition ever, by its index


class TrueCluster:
    """The state machine: brokers, partitions, and the ways in which they change."""

    def __init__(self, brokers: dict[int, str], seed: int = 5) -> None:
        self.brokers = dict(brokers)  # rack by id
        self.dead: set[int] = set()
        self.partitions: list[Partition] = []
        self.record = Record()
        self.now = 0  # tick
        self._dice = random.Random(seed)
        self._back_at: dict[int, int] = {}

    # -- topics

    def create(
        self,
        name: str,
        partitions: int,
        bytes_per_second: int,
        *,
        record_bytes: int = 500,
        retention_hours: int | None = None,
        kept_records: int | None = None,
        hours: tuple[int, int] = (0, 24),
        first: int = 0,
        copies: int = 3,
    ) -> None:
        retention = None if retention_hours is None else retention_hours * TICKS_PER_HOUR
        topic_id = f"id-{name}-{self.now}"
        topic = Topic(
            name, topic_id, bytes_per_second, record_bytes, retention, kept_records, hours
        )
        live = sorted(self.brokers.keys() - self.dead)
        for number in range(partitions):
            replicas = [live[(first + number + step) % len(live)] for step in range(copies)]
            weight = self._dice.uniform(0.5, 1.5)
            made = Partition(
                len(self.record.topics), topic, number, replicas, replicas[0], weight, set(replicas)
            )
            made.segments.append(Segment(0, 0, self.now))
            self.partitions.append(made)
            self.record.topics.append(topic)

    def delete(self, name: str) -> None:
        self.partitions = [p for p in self.partitions if p.topic.name != name]

    def partition(self, name: str, number: int) -> Partition:
        return next(p for p in self.partitions if p.name == (name, number))

    def delete_records(self, name: str) -> None:
        """Move the begin of each log of the topic to the middle: segments below it go at once."""
        for partition in self.partitions:
            if partition.topic.name == name:
                kept = partition.latest_offset - partition.earliest_offset
                self._drop_below(partition, partition.earliest_offset + kept // 2)

    # -- brokers

    def join(self, broker_id: int, rack: str) -> None:
        self.brokers[broker_id] = rack

    def stop(self, broker_id: int, cause: str) -> None:
        """Stop a broker: `restart` hands its leaders over, `died` leaves that to the controller."""
        self.dead.add(broker_id)
        for partition in self.partitions:
            if len(partition.isr) > 1:
                partition.isr.discard(broker_id)
            if partition.leader == broker_id:
                in_sync = [b for b in partition.replicas if b in partition.isr - self.dead]
                self._elect(partition, in_sync[0], cause)

    def start(self, broker_id: int) -> None:
        """Start it again: it is in sync after two ticks."""
        self.dead.discard(broker_id)
        self._back_at[broker_id] = self.now + _TICKS_TO_CATCH_UP

    def elect_preferred(self, partitions: Iterable[Partition] | None = None) -> None:
        for partition in self.partitions if partitions is None else partitions:
            preferred = partition.replicas[0]
            if preferred != partition.leader and preferred in partition.isr:
                self._elect(partition, preferred, "preferred")

    # -- reassignments

    def reassign(self, partition: Partition, replicas: Sequence[int]) -> None:
        partition.adding = [b for b in replicas if b not in partition.replicas]
        partition.removing = [b for b in partition.replicas if b not in replicas]
        partition.replicas = [*replicas, *partition.removing]

    def finish_reassignment(self, partition: Partition) -> None:
        partition.replicas = [b for b in partition.replicas if b not in partition.removing]
        partition.isr = set(partition.replicas) - self.dead
        partition.adding, partition.removing = [], []
        self.record.moved.append(partition)
        if partition.leader not in partition.replicas:
            self._elect(partition, partition.replicas[0], "reassignment")

    def _elect(self, partition: Partition, leader: int, cause: str) -> None:
        election = Election(self.now, partition, partition.leader, leader, cause)
        self.record.elections.append(election)
        partition.leader = leader
        partition.epoch += 1

    # -- ten minutes

    def tick(self) -> None:
        """Let ten minutes pass: records arrive, logs roll, expire and are compacted."""
        for broker_id in [b for b, at in self._back_at.items() if at <= self.now]:
            del self._back_at[broker_id]
            for partition in self.partitions:
                if broker_id in partition.replicas and broker_id not in partition.adding:
                    partition.isr.add(broker_id)
        record = self.record
        record.removed.append({})
        record.written.append({p.index: self._write(p) for p in self.partitions})
        record.leaders.append({p.index: p.leader for p in self.partitions})
        record.live.append(frozenset(self.brokers.keys() - self.dead))
        record.followers.append({p.index: self._followers(p) for p in self.partitions})
        for partition in self.partitions:
            self._clean(partition)
        self.now += 1

    def _followers(self, partition: Partition) -> tuple[int, ...]:
        absent = {partition.leader, *self.dead}
        return tuple(b for b in partition.replicas if b not in absent)

    def _write(self, partition: Partition) -> int:
        topic = partition.topic
        hour = self.now / TICKS_PER_HOUR % 24
        if not topic.hours[0] <= hour < topic.hours[1]:
            return 0
        wave = 1 + 0.4 * math.sin(2 * math.pi * (hour - 9) / 24)
        noise = self._dice.uniform(0.97, 1.03)
        size = topic.bytes_per_second * partition.weight * wave * noise * TICK_SECONDS
        records = int(size / topic.record_bytes)
        partition.latest_offset += records
        partition.segments[-1].records += records
        partition.segments[-1].size_bytes += records * topic.record_bytes
        partition.size_bytes += records * topic.record_bytes
        return records * topic.record_bytes

    def _clean(self, partition: Partition) -> None:
        segments = partition.segments
        if self.now + 1 - segments[-1].opened_at >= _SEGMENT_TICKS:
            segments.append(Segment(0, 0, self.now + 1))
            if partition.topic.kept_records is not None:
                self._compact(partition)
        retention = partition.topic.retention_ticks
        while (
            retention is not None
            and len(segments) > 1
            and segments[1].opened_at + retention <= self.now
        ):
            self._drop_below(partition, partition.earliest_offset + segments[0].records)

    def _compact(self, partition: Partition) -> None:
        """Leave one record for each key of the closed segments; offsets stay what they are."""
        topic, (*closed, active) = partition.topic, partition.segments
        before = sum(segment.size_bytes for segment in closed)
        records = min(topic.kept_records or 0, sum(segment.records for segment in closed))
        cleaned = Segment(records, records * topic.record_bytes, closed[0].opened_at)
        partition.segments = [cleaned, active]
        self._removed(partition, before - cleaned.size_bytes)

    def _drop_below(self, partition: Partition, offset: int) -> None:
        """Move the begin of the log to `offset`; segments that lie below it as a whole go."""
        begin = partition.latest_offset - sum(segment.records for segment in partition.segments)
        while len(partition.segments) > 1 and begin + partition.segments[0].records <= offset:
            dropped = partition.segments.pop(0)
            begin += dropped.records
            self._removed(partition, dropped.size_bytes)
        partition.earliest_offset = offset

    def _removed(self, partition: Partition, size_bytes: int) -> None:
        partition.size_bytes -= size_bytes
        removed = self.record.removed[-1]
        removed[partition.index] = removed.get(partition.index, 0) + size_bytes
