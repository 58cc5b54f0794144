"""A real cluster behind `ClusterAdmin`.

    admin = KafkaClusterAdmin(settings, request_timeout_seconds=15.0)
    admin.describe_cluster().live_broker_ids

librdkafka tries the bootstrap addresses: its reasons for a failed handshake are precise
(`handshake.py`). kafka-python carries the calls (`broker_client.py`): every one of them needs
something that admin clients do not offer, such as a broker of our choice, a flag, a message per
partition, or to know whether a lost request was sent.

Limits: Kafka 2.8 and later.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from counterpoise.kafka_admin import (
    altering,
    configs,
    groups,
    kraft,
    offsets,
    permissions,
    reading,
)
from counterpoise.kafka_admin.broker_client import BrokerClient
from counterpoise.kafka_admin.connection import ConnectionSettings
from counterpoise.kafka_admin.handshake import BootstrapAttempt
from counterpoise.kafka_admin.port import ClusterAdmin
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.inspection import ConsumerGroup, FeatureLevel, Quorum
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


class KafkaClusterAdmin(ClusterAdmin):
    """See `ClusterAdmin` for what each method promises. Threads may share one."""

    def __init__(self, settings: ConnectionSettings, request_timeout_seconds: float) -> None:
        self._settings = settings
        self._broker_client = BrokerClient(settings, request_timeout_seconds)
        self._offsets = offsets.Offsets(self._broker_client, self.describe_topics)

    def __repr__(self) -> str:
        return f"KafkaClusterAdmin({self._settings!r})"

    @property
    def attempts(self) -> tuple[BootstrapAttempt, ...]:
        """Return the bootstrap addresses tried so far; the last succeeded unless all failed."""
        return self._broker_client.attempts

    def describe_cluster(self) -> ClusterDescription:
        return reading.describe_cluster(self._broker_client)

    def describe_topics(self, topics: Sequence[str] | None = None) -> tuple[TopicDescription, ...]:
        found = reading.describe_topics(self._broker_client, topics)
        self._offsets.remember(found)
        return found

    def list_reassignments(self) -> Mapping[TopicPartition, Reassignment]:
        return reading.list_reassignments(self._broker_client)

    def describe_log_dirs(
        self, broker_ids: Sequence[int] | None = None
    ) -> tuple[LogDirDescription, ...]:
        return reading.describe_log_dirs(self._broker_client, broker_ids)

    def list_offsets(
        self, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, tuple[int, int]]:
        return self._offsets.of(partitions)

    def describe_quorum(self) -> Quorum | None:
        return kraft.describe_quorum(self._broker_client)

    def describe_versions(
        self, broker_ids: Sequence[int] | None = None
    ) -> Mapping[int, BrokerVersion]:
        return kraft.describe_versions(self._broker_client, broker_ids)

    def describe_features(
        self, broker_ids: Sequence[int] | None = None
    ) -> Mapping[int, Mapping[str, FeatureLevel]]:
        return kraft.describe_features(self._broker_client, broker_ids)

    def list_eligible_leaders(
        self, topics: Sequence[str]
    ) -> Mapping[TopicPartition, tuple[int, ...]]:
        return kraft.list_eligible_leaders(self._broker_client, topics)

    def describe_groups(self) -> tuple[ConsumerGroup, ...]:
        return groups.describe_groups(self._broker_client)

    def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        keys: Sequence[str] | None,
        *,
        via_broker: int | None = None,
        skip_refused: bool = False,
    ) -> Mapping[ConfigResource, Mapping[str, ConfigValue]]:
        return configs.describe_configs(
            self._broker_client, resources, keys, via_broker, skip_refused=skip_refused
        )

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
        return altering.alter_reassignments(
            self._broker_client,
            targets,
            may_change_replication_factor=may_change_replication_factor,
            deadline=deadline,
        )

    def elect_preferred_leaders(
        self, partitions: Sequence[TopicPartition], *, deadline: float = math.inf
    ) -> CallResults[TopicPartition]:
        return altering.elect_preferred_leaders(self._broker_client, partitions, deadline)

    def refused_operations(
        self, broker_id: int, topics: Sequence[str], throttled_topics: Sequence[str]
    ) -> Mapping[str, str]:
        return permissions.refused_operations(
            self._broker_client, broker_id, topics, throttled_topics
        )

    def refused_reads(self) -> Mapping[str, str]:
        """Return what is refused of what snapshots and audits read, each with the reason.

        Operations are those of `model.acl.READS`; with some of them refused a snapshot fails.
        """
        return permissions.refused_reads(self._broker_client)

    def close(self) -> None:
        self._broker_client.close()
