"""Earliest and latest offsets, read from the leaders, all in parallel.

    Offsets(broker_client, describe_topics).of([TopicPartition("orders", 0)])   # {...: (0, 1200)}

The leaders are remembered from the last topics that were described. A broker that no longer leads a
partition says so; its leader is then looked up again, and asked once.

Why not librdkafka's `list_offsets`: a partition without a leader delays it by the whole timeout,
and then has the offset -1001 instead of an error (confluent-kafka 2.16.1).

Limits: partitions without a responding leader, and unknown ones, are left out.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kafka.protocol.consumer import ListOffsetsRequest

from counterpoise.errors import ClusterError
from counterpoise.kafka_admin.broker_client import (
    BrokerClient,
    BrokerRequest,
    Failure,
)
from counterpoise.kafka_admin.error_codes import describe_error_code
from counterpoise.model.acl import DESCRIBE_TOPICS
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import TopicDescription

PARTITIONS_PER_REQUEST: Final = 5000
_EARLIEST: Final = -2  # the protocol's timestamps for the two ends of a log
_LATEST: Final = -1
_NO_REPLICA: Final = -1  # we are no follower
_READ_UNCOMMITTED: Final = 0  # the true end of the log
# Unknown topic, leader not available, not leader, fenced or unknown epoch, offset not available:
# the leader moved.
_MOVED: Final = frozenset({3, 5, 6, 74, 75, 78})


@dataclass(frozen=True, slots=True)
class _Batch:
    leader_id: int
    timestamp: int  # _EARLIEST or _LATEST
    partitions: list[TopicPartition]


@dataclass(slots=True)
class _Result:
    earliest: dict[TopicPartition, int] = field(default_factory=dict)
    latest: dict[TopicPartition, int] = field(default_factory=dict)
    missed: set[TopicPartition] = field(default_factory=set)  # leader moved or unresponsive
    unresponsive_ids: set[int] = field(default_factory=set)


class Offsets:
    """Offsets of one cluster; `describe` describes topics by name."""

    def __init__(
        self,
        broker_client: BrokerClient,
        describe: Callable[[Sequence[str]], Iterable[TopicDescription]],
    ) -> None:
        self._broker_client = broker_client
        self._describe = describe
        self._leader_ids: dict[TopicPartition, int | None] = {}

    def remember(self, topics: Iterable[TopicDescription]) -> None:
        """Remember the leaders of `topics`."""
        for topic in topics:
            for partition in topic.partitions:
                key = TopicPartition(topic.topic, partition.partition)
                self._leader_ids[key] = partition.leader

    def of(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """See `ClusterReader.list_offsets`.

        Where the leader moved, or does not respond, the new leader is asked.
        """
        self._look_up([key for key in partitions if self._leader_ids.get(key) is None])
        result = self._read(partitions)
        earliest, latest = result.earliest, result.latest
        if result.missed:
            missed = sorted(result.missed)
            self._broker_client.pause(1)
            self._look_up(missed)
            unresponsive_ids = result.unresponsive_ids
            again = self._read(
                [key for key in missed if self._leader_ids.get(key) not in unresponsive_ids]
            )
            earliest = earliest | again.earliest
            latest = latest | again.latest
        return {
            key: (earliest[key], latest[key])
            for key in partitions
            if key in earliest and key in latest
        }

    def _look_up(self, partitions: Sequence[TopicPartition]) -> None:
        """Read the leaders of `partitions` from the cluster."""
        for key in partitions:
            self._leader_ids.pop(key, None)
        if partitions:
            self.remember(self._describe(sorted({key.topic for key in partitions})))

    def _read(self, partitions: Sequence[TopicPartition]) -> _Result:
        batches = list(self._batches(partitions))
        requests = [
            BrokerRequest(batch.leader_id, _offsets_request(batch), probes_first=True)
            for batch in batches
        ]
        found = _Result()
        for batch, response in zip(batches, self._broker_client.read_each(requests), strict=True):
            if isinstance(response, Failure):
                if not response.is_unresponsive:
                    leader = self._broker_client.name_of(batch.leader_id)
                    raise ClusterError(f"the offsets: {leader}: {response.reason}")
                found.missed.update(batch.partitions)
                found.unresponsive_ids.add(batch.leader_id)
                continue
            offsets = found.earliest if batch.timestamp == _EARLIEST else found.latest
            for key, row in _rows(response):
                if row.error_code in _MOVED:
                    found.missed.add(key)
                elif row.error_code:
                    sender = self._broker_client
                    reason = describe_error_code(row.error_code, None, DESCRIBE_TOPICS, sender)
                    raise ClusterError(f"the offsets of {key}: {reason}")
                else:
                    offsets[key] = row.offset
        return found

    def _batches(self, partitions: Sequence[TopicPartition]) -> Iterator[_Batch]:
        partitions_by_leader: dict[int, list[TopicPartition]] = {}
        for key in partitions:
            leader_id = self._leader_ids.get(key)
            if leader_id is not None:
                partitions_by_leader.setdefault(leader_id, []).append(key)
        for leader_id, led_partitions in sorted(partitions_by_leader.items()):
            for start in range(0, len(led_partitions), PARTITIONS_PER_REQUEST):
                batch = led_partitions[start : start + PARTITIONS_PER_REQUEST]
                yield _Batch(leader_id, _EARLIEST, batch)
                yield _Batch(leader_id, _LATEST, batch)


def _offsets_request(batch: _Batch) -> Any:
    topic_type = ListOffsetsRequest.ListOffsetsTopic
    partition_type = topic_type.ListOffsetsPartition
    topics: dict[str, list[Any]] = {}
    for key in batch.partitions:
        partition = partition_type(partition_index=key.partition, timestamp=batch.timestamp)
        topics.setdefault(key.topic, []).append(partition)
    return ListOffsetsRequest(
        replica_id=_NO_REPLICA,
        isolation_level=_READ_UNCOMMITTED,
        topics=[topic_type(name=name, partitions=rows) for name, rows in topics.items()],
    )


def _rows(response: Any) -> Iterator[tuple[TopicPartition, Any]]:
    for topic in response.topics:
        for partition in topic.partitions:
            yield TopicPartition(topic.name, partition.partition_index), partition
