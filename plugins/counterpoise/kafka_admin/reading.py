"""What the cluster is: brokers, topics, reassignments, log dirs and the quorum, as our frozen
values.

    topics = describe_topics(wire, None)

Limits: nothing here names a topic to a broker that could create it: creation is switched off in the
request, and no other kind of metadata request is used.
"""

import hashlib
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, Protocol

import kafka.errors as kafka_errors
from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeLogDirsRequest,
    ListPartitionReassignmentsRequest,
)
from kafka.protocol.metadata import MetadataRequest

from counterpoise.errors import ClusterError
from counterpoise.kafka_admin.broker_client import (
    Ask,
    BrokerClient,
    Failure,
    error_in_words,
)
from counterpoise.kafka_admin.liveness_probe import SILENT_AFTER_SECONDS, versions_request
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.inspection import FeatureLevel
from counterpoise.model.kafka import (
    BrokerDescription,
    BrokerVersion,
    ClusterDescription,
    LogDirDescription,
    PartitionDescription,
    Reassignment,
    TopicDescription,
)

_UNKNOWN_TOPIC: Final = 3
_LEADER_NOT_AVAILABLE: Final = 5
_INVALID_TOPIC: Final = 17


class Asker(Protocol):
    """Whoever carries a request to a broker that answers: `Wire` to any, `walking.OneAddress` to
    one address.
    """

    def read(self, request: Any, what: str) -> Any: ...

    def pause(self, attempt: int) -> None: ...


def describe_cluster(broker_client: Asker) -> ClusterDescription:
    """Registered brokers by id.

    Brokers before 4.0 do not tell about fenced ones (KIP-1073), which are then absent.
    """
    answer = broker_client.read(DescribeClusterRequest(include_fenced_brokers=True), "the brokers")
    raise_for(answer.error_code, answer.error_message, "the brokers")
    brokers = [
        BrokerDescription(b.broker_id, b.host, b.port, b.rack, bool(getattr(b, "is_fenced", False)))
        for b in answer.brokers
    ]
    return ClusterDescription(answer.cluster_id, tuple(sorted(brokers, key=lambda b: b.broker_id)))


def describe_topics(
    broker_client: Asker, names: Sequence[str] | None
) -> tuple[TopicDescription, ...]:
    """Topics by name.

    A name that one broker does not know yet is asked for again, then left out.
    """
    if names is None:
        return _sorted_topics(_metadata(broker_client, None))
    found = (
        {topic.name: topic for topic in _metadata(broker_client, sorted(set(names)))}
        if names
        else {}
    )
    missing = sorted(set(names) - found.keys())
    if missing:
        broker_client.pause(1)
        found |= {topic.name: topic for topic in _metadata(broker_client, missing)}
    return _sorted_topics(list(found.values()))


def _metadata(broker_client: Asker, names: Sequence[str] | None) -> list[Any]:
    topic_type = MetadataRequest.MetadataRequestTopic
    topics = None if names is None else [topic_type(name=name) for name in names]
    answer = broker_client.read(
        MetadataRequest(topics=topics, allow_auto_topic_creation=False), "the topics"
    )
    known = []
    for topic in answer.topics:
        if topic.error_code in (_UNKNOWN_TOPIC, _INVALID_TOPIC):
            continue
        if topic.error_code != _LEADER_NOT_AVAILABLE:
            raise_for(topic.error_code, None, f"topic {topic.name}")
        known.append(topic)
    return known


def _sorted_topics(topics: Sequence[Any]) -> tuple[TopicDescription, ...]:
    return tuple(_topic(topic) for topic in sorted(topics, key=lambda topic: str(topic.name)))


def partitions_of(topic: Any) -> tuple[PartitionDescription, ...]:
    """The partitions of a topic in an answer to a metadata request, by number."""
    partitions = [
        PartitionDescription(
            partition=p.partition_index,
            leader=None if p.leader_id < 0 else p.leader_id,
            leader_epoch=None if p.leader_epoch is None or p.leader_epoch < 0 else p.leader_epoch,
            replicas=tuple(p.replica_nodes),
            isr=tuple(p.isr_nodes),
        )
        for p in topic.partitions
    ]
    return tuple(sorted(partitions, key=lambda p: p.partition))


def _topic(topic: Any) -> TopicDescription:
    return TopicDescription(
        topic=topic.name,
        topic_id=str(topic.topic_id),
        is_internal=bool(topic.is_internal),
        partitions=partitions_of(topic),
    )


def list_reassignments(broker_client: BrokerClient) -> dict[TopicPartition, Reassignment]:
    """Every ongoing reassignment (KIP-455), as the controller has it."""
    timeout_ms = int(broker_client.request_timeout_seconds * 1000)
    request = ListPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=None)
    answer = broker_client.read(request, "the reassignments", broker_client.destination_id())
    raise_for(answer.error_code, answer.error_message, "the reassignments")
    return {
        TopicPartition(topic.name, p.partition_index): Reassignment(
            tuple(p.replicas), tuple(p.adding_replicas), tuple(p.removing_replicas)
        )
        for topic in answer.topics
        for p in topic.partitions
    }


def describe_log_dirs(
    broker_client: BrokerClient, broker_ids: Sequence[int] | None
) -> tuple[LogDirDescription, ...]:
    """Log dirs by broker and path, asked of all brokers side by side; one that gives no answer is
    left out.
    """
    asked = sorted(
        describe_cluster(broker_client).live_broker_ids if broker_ids is None else set(broker_ids)
    )
    answers = broker_client.read_each(
        [Ask(broker_id, DescribeLogDirsRequest(topics=None), knocks=True) for broker_id in asked]
    )
    found: list[LogDirDescription] = []
    for broker_id, answer in told(asked, answers, "the log dirs"):
        raise_for(
            getattr(answer, "error_code", 0) or 0, None, f"the log dirs of broker {broker_id}"
        )
        found += [_log_dir(broker_id, result) for result in answer.results]
    return tuple(sorted(found, key=lambda log_dir: (log_dir.broker_id, log_dir.path)))


def describe_versions(
    broker_client: BrokerClient, broker_ids: Sequence[int] | None = None
) -> dict[int, BrokerVersion]:
    """What each live broker speaks, by its own word (KIP-511, KIP-584); one that gives no answer is
    left out.
    """
    found: dict[int, BrokerVersion] = {}
    for broker_id, answer in told(*_versions(broker_client, broker_ids), "the versions"):
        raise_for(answer.error_code, None, f"the versions of broker {broker_id}")
        ranges = sorted((api.api_key, api.min_version, api.max_version) for api in answer.api_keys)
        levels = {
            feature.name: feature.max_version_level for feature in answer.finalized_features or ()
        }
        digest = hashlib.sha256(repr(ranges).encode()).hexdigest()[:12]
        found[broker_id] = BrokerVersion(digest, levels.get("metadata.version"))
    return found


def describe_features(
    broker_client: BrokerClient, broker_ids: Sequence[int] | None = None
) -> dict[int, dict[str, FeatureLevel]]:
    """Each live broker's features (KIP-584), by its own word; one that gives no answer is left out."""
    return {
        broker_id: _features(answer)
        for broker_id, answer in told(*_versions(broker_client, broker_ids), "the features")
    }


def _features(answer: Any) -> dict[str, FeatureLevel]:
    finalized = {
        feature.name: feature.max_version_level for feature in answer.finalized_features or ()
    }
    return {
        feature.name: FeatureLevel(
            finalized.get(feature.name), feature.min_version, feature.max_version
        )
        for feature in answer.supported_features or ()
    }


def _versions(
    broker_client: BrokerClient, broker_ids: Sequence[int] | None
) -> tuple[list[int], list[Any]]:
    """The live brokers, or the named ones, and what each answers about its versions."""
    asked = sorted(
        describe_cluster(broker_client).live_broker_ids if broker_ids is None else broker_ids
    )
    return asked, broker_client.read_each(
        [Ask(broker_id, versions_request(), SILENT_AFTER_SECONDS) for broker_id in asked]
    )


def told(asked: Sequence[int], answers: Sequence[Any], what: str) -> Iterator[tuple[int, Any]]:
    """The brokers that answered, with their answers.

    Raises ClusterError for one that refuses to.
    """
    for broker_id, answer in zip(asked, answers, strict=True):
        if not isinstance(answer, Failure):
            yield broker_id, answer
        elif not answer.is_silence:
            raise ClusterError(f"{what} of broker {broker_id}: {answer.reason}")


def _log_dir(broker_id: int, result: Any) -> LogDirDescription:
    return LogDirDescription(
        broker_id=broker_id,
        path=result.log_dir,
        error=error_in_words(result.error_code, None) or None,
        total_bytes=or_none(getattr(result, "total_bytes", None)),
        usable_bytes=or_none(getattr(result, "usable_bytes", None)),
        # A "future" replica is one on its way to another dir of the same broker: it will take the
        # place of this one.
        sizes={
            TopicPartition(topic.name, p.partition_index): p.partition_size
            for topic in result.topics
            for p in topic.partitions
            if not p.is_future_key
        },
    )


def or_none(number: int | None) -> int | None:
    """Kafka says -1 where it does not know."""
    return None if number is None or number < 0 else number


def raise_for(code: int, message: str | None, what: str) -> None:
    if code:
        retry = "; try again" if kafka_errors.for_code(code).retriable else ""
        raise ClusterError(f"{what}: {error_in_words(code, message)}{retry}")


def target_sizes(
    broker_client: BrokerClient, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """How many replicas each of `partitions` has, once what is under way has ended; unknown ones
    are left out.
    """
    moving = list_reassignments(broker_client)
    sizes: dict[TopicPartition, int] = {}
    for topic in describe_topics(broker_client, [partition.topic for partition in partitions]):
        for p in topic.partitions:
            key = TopicPartition(topic.topic, p.partition)
            sizes[key] = len(moving[key].target) if key in moving else len(p.replicas)
    return {key: sizes[key] for key in partitions if key in sizes}
