"""Brokers and partitions in a metadata response, as values.

    read_metadata(connection, ["orders"], 5.0).partitions     # {TopicPartition("orders", 0): ...}

Limits: no topic can be created by the request; one that is unknown is left out.
"""

from collections.abc import Sequence
from typing import Any

from kafka.protocol.metadata import MetadataRequest

from counterpoise.errors import ClusterError
from counterpoise.kafka_admin.address_connection import AddressConnection
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.connectivity import MetadataResponse
from counterpoise.model.kafka import BrokerDescription, PartitionDescription
from counterpoise.model.words import join_ids


def read_metadata(
    connection: AddressConnection, topics: Sequence[str], seconds: float
) -> MetadataResponse:
    """Return live brokers and the partitions of `topics` as one address reports them.

    An unknown topic is left out, and not created. Raises ClusterError for a response that no
    cluster gives which clients can use: librdkafka 2.x crashes where it has no cluster id.
    """
    topic_type = MetadataRequest.MetadataRequestTopic
    wanted = [topic_type(name=name) for name in topics]
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    response = connection.send(request, seconds)
    if complaint := _complaint(response):
        raise ClusterError(complaint)
    brokers = [
        BrokerDescription(b.node_id, b.host, b.port, b.rack, is_fenced=False)
        for b in response.brokers
    ]
    partitions = {
        TopicPartition(str(topic.name), partition.partition): partition
        for topic in response.topics
        for partition in partitions_of(topic)
    }
    return MetadataResponse(response.cluster_id, by_id(brokers), partitions)


def _complaint(response: Any) -> str | None:
    """Return why no client can use the response; None where it can be used."""
    if not response.brokers:
        return (
            "it reports no broker at all, itself neither; has it just started, and does it reach "
            "the controllers?"
        )
    if not response.cluster_id:
        return "it reports no cluster id, which every Kafka broker has; what listens there?"
    broken = [b.node_id for b in response.brokers if not _is_host(b.host) or b.node_id < 0]
    if broken:
        return f"it reports brokers without a host or with a wrong id: {join_ids(broken)}"
    return None


def _is_host(host: str | None) -> bool:
    """Return whether the text may be a name or an IP address, as every resolver needs it."""
    try:
        return bool(host) and str(host).isprintable() and bool(str(host).encode("idna"))
    except UnicodeError:  # a label that is too long, or empty
        return False


def partitions_of(topic: Any) -> tuple[PartitionDescription, ...]:
    """Return the partitions of a topic in a metadata response, by number."""
    partitions = [
        PartitionDescription(
            partition=p.partition_index,
            leader=none_if_negative(p.leader_id),
            leader_epoch=none_if_negative(p.leader_epoch),
            replicas=tuple(p.replica_nodes),
            isr=tuple(p.isr_nodes),
        )
        for p in topic.partitions
    ]
    return tuple(sorted(partitions, key=lambda partition: partition.partition))


def by_id(brokers: Sequence[BrokerDescription]) -> tuple[BrokerDescription, ...]:
    return tuple(sorted(brokers, key=lambda broker: broker.broker_id))


def none_if_negative(number: int | None) -> int | None:
    """Return None for -1, which is Kafka's "not known"."""
    return None if number is None or number < 0 else number
