"""Earliest and latest offsets, asked of the leaders, all of them side by side.

    Offsets(wire, describe).of([TopicPartition("orders", 0)])

Who leads is remembered from the last look at the topics. A broker that leads no longer says so;
then its partitions are looked up anew and asked for once more.

Why not librdkafka's `list_offsets`: a partition without a leader holds it up for the whole timeout,
and then has the offset -1001 instead of an error (confluent-kafka 2.16.1).

Limits: partitions without a leader that answers, and unknown ones, are left out.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from kafka.protocol.consumer import ListOffsetsRequest

from counterpoise.errors import ClusterError
from counterpoise.kafka_admin.broker_client import Ask, BrokerClient, Failure, error_in_words
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import TopicDescription

PARTITIONS_PER_REQUEST: Final = 5000
_EARLIEST: Final = -2
_LATEST: Final = -1
_NO_REPLICA: Final = -1  # we are no follower
_READ_UNCOMMITTED: Final = 0  # the true end of the log
# Unknown topic, leader not available, not leader, fenced or unknown epoch, offset not available:
# the leader moved.
_MOVED: Final = frozenset({3, 5, 6, 74, 75, 78})


class Offsets:
    """Offsets of one cluster; `describe` looks at topics by name."""

    def __init__(
        self,
        broker_client: BrokerClient,
        describe: Callable[[Sequence[str]], Iterable[TopicDescription]],
    ) -> None:
        self._broker_client = broker_client
        self._describe = describe
        self._leaders: dict[TopicPartition, int | None] = {}

    def remember(self, topics: Iterable[TopicDescription]) -> None:
        """Take note of who leads."""
        for topic in topics:
            for p in topic.partitions:
                self._leaders[TopicPartition(topic.topic, p.partition)] = p.leader

    def of(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """See `ClusterReader.list_offsets`.

        Where the leader moved, or gives no answer, the new one is asked.
        """
        self._look_up([key for key in partitions if self._leaders.get(key) is None])
        ends, missed, silent = self._ask(partitions)
        if missed:
            self._broker_client.pause(1)
            self._look_up(sorted(missed))
            more, _, _ = self._ask(
                [key for key in sorted(missed) if self._leaders.get(key) not in silent]
            )
            ends = {at: ends[at] | more[at] for at in ends}
        earliest, latest = ends[_EARLIEST], ends[_LATEST]
        return {
            key: (earliest[key], latest[key])
            for key in partitions
            if key in earliest and key in latest
        }

    def _look_up(self, partitions: Sequence[TopicPartition]) -> None:
        for key in partitions:
            self._leaders.pop(key, None)
        if partitions:
            self.remember(self._describe(sorted({key.topic for key in partitions})))

    def _ask(
        self, partitions: Sequence[TopicPartition]
    ) -> tuple[dict[int, dict[TopicPartition, int]], set[TopicPartition], set[int]]:
        """Offsets by end, the partitions whose leader moved or kept silent, and those who kept
        silent.
        """
        asked = list(self._batches(partitions))
        asks = [Ask(leader, _request(at, batch), knocks=True) for leader, at, batch in asked]
        ends: dict[int, dict[TopicPartition, int]] = {_EARLIEST: {}, _LATEST: {}}
        missed: set[TopicPartition] = set()
        silent: set[int] = set()
        for (leader, at, batch), answer in zip(
            asked, self._broker_client.read_each(asks), strict=True
        ):
            if isinstance(answer, Failure):
                if not answer.is_silence:
                    raise ClusterError(
                        f"the offsets: {self._broker_client.name_of(leader)}: {answer.reason}"
                    )
                missed.update(batch)
                silent.add(leader)
                continue
            for key, p in _rows(answer):
                if p.error_code in _MOVED:
                    missed.add(key)
                elif p.error_code:
                    raise ClusterError(
                        f"the offsets of {key}: {error_in_words(p.error_code, None)}"
                    )
                else:
                    ends[at][key] = p.offset
        return ends, missed, silent

    def _batches(
        self, partitions: Sequence[TopicPartition]
    ) -> Iterator[tuple[int, int, list[TopicPartition]]]:
        led: dict[int, list[TopicPartition]] = {}
        for key in partitions:
            leader = self._leaders.get(key)
            if leader is not None:
                led.setdefault(leader, []).append(key)
        for leader, mine in sorted(led.items()):
            for start in range(0, len(mine), PARTITIONS_PER_REQUEST):
                for at in (_EARLIEST, _LATEST):
                    yield leader, at, mine[start : start + PARTITIONS_PER_REQUEST]


def _request(at: int, partitions: Sequence[TopicPartition]) -> Any:
    topic_type = ListOffsetsRequest.ListOffsetsTopic
    partition_type = topic_type.ListOffsetsPartition
    topics: dict[str, list[Any]] = {}
    for key in partitions:
        topics.setdefault(key.topic, []).append(
            partition_type(partition_index=key.partition, timestamp=at)
        )
    return ListOffsetsRequest(
        replica_id=_NO_REPLICA,
        isolation_level=_READ_UNCOMMITTED,
        topics=[topic_type(name=name, partitions=rows) for name, rows in topics.items()],
    )


def _rows(answer: Any) -> Iterator[tuple[TopicPartition, Any]]:
    for topic in answer.topics:
        for p in topic.partitions:
            yield TopicPartition(topic.name, p.partition_index), p
