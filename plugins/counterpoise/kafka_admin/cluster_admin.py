"""A cluster: what can be read of it, and changed.

    admin = ClusterAdmin(settings, request_timeout_seconds=15.0)
    admin.describe_cluster().live_broker_ids

librdkafka tries the bootstrap addresses: its reasons for a failed handshake are precise
(`endpoint.py`). kafka-python carries the calls (`broker_client.py`): every one of them needs
something that admin clients do not offer, such as a broker of our choice, a flag, a message per
partition, or to know whether a lost request was sent.

Every method raises ClusterUnreachableError when no broker responds, and ClusterError when a
response has an error about the call as a whole.

Limits: Kafka 2.8 and later.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from counterpoise.kafka_admin import altering, configs, groups, permissions, reading
from counterpoise.kafka_admin.broker_client import BrokerClient
from counterpoise.kafka_admin.connection import ConnectionSettings
from counterpoise.kafka_admin.transactions import list_hanging
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.connectivity import EndpointCheck
from counterpoise.model.inspection import (
    AllowedOperation,
    ConsumerGroup,
    FeatureLevel,
    HangingTransactions,
    Quorum,
)
from counterpoise.model.kafka import (
    BrokerVersion,
    CallResults,
    ClusterDescription,
    ConfigChange,
    ConfigResource,
    ConfigValue,
    LogDirDescription,
    Reassignment,
    TopicDescription,
)


class ClusterReader:
    """What can be read of a cluster; nothing here writes, not even by accident.

    Threads may share one.
    """

    def __init__(self, settings: ConnectionSettings, request_timeout_seconds: float) -> None:
        self._settings = settings
        self._broker_client = BrokerClient(settings, request_timeout_seconds)
        self._offsets = reading.Offsets(self._broker_client, self.describe_topics)

    def __repr__(self) -> str:
        return f"ClusterAdmin({self._settings!r})"

    @property
    def attempts(self) -> tuple[EndpointCheck, ...]:
        """Return the bootstrap addresses tried so far; the last succeeded unless all failed."""
        return self._broker_client.attempts

    def describe_cluster(self) -> ClusterDescription:
        """Return cluster id and registered brokers, fenced ones included."""
        return reading.describe_cluster(self._broker_client)

    def describe_topics(self, topics: Sequence[str] | None = None) -> tuple[TopicDescription, ...]:
        """Return all topics, internal ones too, or the named ones; unknown names are left out.

        Never creates a topic.
        """
        found = reading.describe_topics(self._broker_client, topics)
        self._offsets.remember(found)
        return found

    def list_reassignments(self) -> Mapping[TopicPartition, Reassignment]:
        """Return every ongoing reassignment of the cluster."""
        return reading.list_reassignments(self._broker_client)

    def describe_log_dirs(
        self, broker_ids: Sequence[int] | None = None
    ) -> tuple[LogDirDescription, ...]:
        """Return the log dirs of live (or the named) brokers, with the size of each replica there.

        An unresponsive broker (dead, frozen) is left out.
        """
        return reading.describe_log_dirs(self._broker_client, broker_ids)

    def list_offsets(
        self, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, tuple[int, int]]:
        """Return earliest and latest offset, where the partition's leader responds."""
        return self._offsets.of(partitions)

    def list_offsets_at(self, times: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return the offset of the first record of a time (in ms) or later; -1: there is none.

        Partitions whose leader does not respond are left out.
        """
        return self._offsets.at(times)

    def describe_quorum(self) -> Quorum | None:
        """Return the metadata quorum as its leader reports it (KIP-595, KIP-836, KIP-853).

        None on a cluster that still has ZooKeeper.
        """
        return reading.describe_quorum(self._broker_client)

    def describe_versions(
        self, broker_ids: Sequence[int] | None = None
    ) -> Mapping[int, BrokerVersion]:
        """Return the API versions of live (or the named) brokers, each read from that broker.

        An unresponsive broker is left out.
        """
        return reading.describe_versions(self._broker_client, broker_ids)

    def describe_features(
        self, broker_ids: Sequence[int] | None = None
    ) -> Mapping[int, Mapping[str, FeatureLevel]]:
        """Return feature levels by broker and feature (KIP-584), read like the versions."""
        return reading.describe_features(self._broker_client, broker_ids)

    def list_eligible_leaders(
        self, topics: Sequence[str]
    ) -> Mapping[TopicPartition, tuple[int, ...]]:
        """Return replicas outside the ISR that may lead without loss of records (KIP-966).

        Partitions without any are left out. Raises ClusterError with brokers before 3.8.
        """
        return reading.list_eligible_leaders(self._broker_client, topics)

    def describe_groups(self) -> Mapping[int, tuple[ConsumerGroup, ...]]:
        """Return the consumer groups, by the broker that coordinates them and by name.

        Those without members have no topics. An unresponsive broker is left out.
        """
        return groups.describe_groups(self._broker_client)

    def describe_default_quotas(self) -> Mapping[str, Mapping[str, float]]:
        """Return the client quotas of everybody, by kafka-configs' types: "users clients", say."""
        return reading.describe_default_quotas(self._broker_client)

    def describe_acls_for_everybody(self) -> tuple[AllowedOperation, ...] | None:
        """Return what ACLs allow to everybody: to `User:*`, and to whoever comes without a login.

        None where brokers have no authorizer.
        """
        return reading.describe_acls_for_everybody(self._broker_client)

    def list_hanging_transactions(self, longest_ms: int) -> HangingTransactions:
        """Return the transactions open for `longest_ms` that no coordinator will end (KIP-664).

        Raises ClusterError where not everything that coordinators have can be read.
        """
        return list_hanging(self._broker_client, self.describe_topics, longest_ms)

    def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        keys: Sequence[str] | None,
        *,
        via_broker: int | None = None,
        skip_refused: bool = False,
    ) -> Mapping[ConfigResource, Mapping[str, ConfigValue]]:
        """Return the named keys of each resource; None means every key, secrets have no value.

        Left out are an unset key without a default, an unknown topic, and a broker that does not
        respond, since its configs are read from itself. EVERY_BROKER is the dynamic default of all
        brokers. `via_broker` reads topic configs from the broker that acts on them, since another
        one's metadata may be older; BrokerUnresponsiveError is raised when it does not respond.
        `skip_refused` also leaves out the topics whose configs this principal may not read, which
        is a ClusterError otherwise.
        """
        return configs.describe_configs(
            self._broker_client, resources, keys, via_broker, skip_refused=skip_refused
        )

    def refused_reads(self) -> Mapping[str, str]:
        """Return what is refused of what snapshots and audits read, each with the reason.

        Operations are those of `model.acl.READS`; with some of them refused a snapshot fails.
        """
        return permissions.refused_reads(self._broker_client)

    def close(self) -> None:
        self._broker_client.close()


class ClusterAdmin(ClusterReader):
    """A `ClusterReader` that also changes the cluster.

    The changing methods raise UnknownOutcomeError, with the id of the broker, when the response was
    lost, and BrokerUnresponsiveError when nothing was sent. They send to a broker that has just
    responded to a probe (a frozen one counts as live until its session has ended), and end within
    25 s, and by their `deadline` (`time.monotonic()`): nothing is sent after it, and
    BrokerUnresponsiveError says so.
    """

    def alter_configs(
        self, changes: Sequence[ConfigChange], *, deadline: float = math.inf
    ) -> CallResults[ConfigResource]:
        return configs.alter_configs(self._broker_client, changes, deadline)

    def alter_reassignments(
        self,
        targets: Mapping[TopicPartition, tuple[int, ...] | None],
        *,
        may_change_replication_factor: bool = False,
        deadline: float = math.inf,
    ) -> CallResults[TopicPartition]:
        """Start reassignments; a target of None cancels (KIP-455).

        A target with another number of replicas than the partition has, or is on its way to, is
        refused (KIP-860) unless the caller allows it.
        """
        return altering.alter_reassignments(
            self._broker_client,
            targets,
            may_change_replication_factor=may_change_replication_factor,
            deadline=deadline,
        )

    def elect_preferred_leaders(
        self, partitions: Sequence[TopicPartition], *, deadline: float = math.inf
    ) -> CallResults[TopicPartition]:
        """Elect preferred leaders (KIP-460); "not needed" counts as accepted."""
        return altering.elect_preferred_leaders(self._broker_client, partitions, deadline)

    def refused_operations(
        self, broker_id: int, topics: Sequence[str], throttled_topics: Sequence[str]
    ) -> Mapping[str, str]:
        """Return what the cluster refuses to this principal, each with the reason.

        Operations are those of `model.acl`, CHANGES and what of READS a run needs. Tried with a
        rate on `broker_id`, lists on `throttled_topics`, reading `topics`, and a partition that
        does not exist; changes nothing.
        """
        return permissions.refused_operations(
            self._broker_client, broker_id, topics, throttled_topics
        )
