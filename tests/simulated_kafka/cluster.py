"""A cluster in memory behind the methods of `ClusterAdmin`, with a clock of its own, for tests.

    cluster = SimulatedCluster.like(snapshot)
    cluster.alter_reassignments({TopicPartition("orders", 0): (4, 2, 3)})
    cluster.advance(10.0)
    cluster.freeze_broker(2)

This module has the calls and network faults; the cluster itself is in `world.py`.

Limits: records are 1000 bytes; requests take no time.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from typing import Concatenate, Final, ParamSpec, TypeVar

from counterpoise.errors import (
    BrokerUnresponsiveError,
    ClusterError,
    ClusterUnreachableError,
    UnknownOutcomeError,
)
from counterpoise.kafka_admin.cluster_admin import ClusterAdmin
from counterpoise.kafka_admin.config_requests import NO_RESPONSE, NOT_SENT, in_requests
from counterpoise.model.acl import DESCRIBE_CONFIGS_OF_TOPICS
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.grouping import grouped
from counterpoise.model.inspection import (
    AllowedOperation,
    ConsumerGroup,
    FeatureLevel,
    HangingTransactions,
    Quorum,
)
from counterpoise.model.kafka import (
    EVERY_BROKER,
    BrokerDescription,
    BrokerVersion,
    CallResults,
    ClusterDescription,
    ConfigChange,
    ConfigResource,
    ConfigValue,
    LogDirDescription,
    PartitionDescription,
    Reassignment,
    TopicDescription,
)
from tests.simulated_kafka.world import FEATURES, VERSION, SimulatedWorld

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")

BYTES_PER_RECORD: Final = 1000
NO_REPLICAS: Final = "the list of replicas is empty"
_NOT_LIVE: Final = "it is not live (fenced, stopped or unknown)"
_NOT_READABLE: Final = (
    "TOPIC_AUTHORIZATION_FAILED: the principal lacks a permission (ACL): grant it with "
    f"`{DESCRIBE_CONFIGS_OF_TOPICS.grant('User:operator')}`"
)
_NO_CONNECTION: Final = "no connection"
_FROZEN: Final = f"{NO_RESPONSE}: nothing within 2 s; it may still be applied"


@dataclass(frozen=True, slots=True)
class Call:
    """A call that was made, for tests to look up."""

    name: str
    argument: object
    options: Mapping[str, object] = field(default_factory=dict)  # keyword arguments


def _call(
    method: "Callable[Concatenate[SimulatedCluster, P], R]",
) -> "Callable[Concatenate[SimulatedCluster, P], R]":
    """Record a call over the simulated network, and apply the faults that a test set."""
    name = method.__name__

    @wraps(method)
    def over_the_network(self: "SimulatedCluster", /, *args: P.args, **kwargs: P.kwargs) -> R:
        self.calls.append(Call(name, args[0] if args else None, kwargs))
        if errors := self._failures.get(name):
            raise errors.pop(0)
        if not any(map(self.is_reachable, self.brokers)):
            raise ClusterUnreachableError((("simulated", "no broker responds"),))
        result = method(self, *args, **kwargs)
        if self._lost_responses.get(name):
            self._lost_responses[name] -= 1
            if (broker_id := self.addressed_broker) is None:
                broker_id = min(filter(self.is_reachable, self.brokers))
            message = f"{name}: the response was lost; it may be applied"
            raise UnknownOutcomeError(message, broker_id=broker_id)
        return result

    return over_the_network


@dataclass
class SimulatedCluster(SimulatedWorld, ClusterAdmin):
    """See the module's docstring. What a test may read or set is public."""

    calls: list[Call] = field(default_factory=list)
    # Metadata behind: how many config reads miss the last change; what topic reads show.
    stale_config_reads: int = 0
    stale_topic_reads: list[Sequence[TopicDescription]] = field(default_factory=list)
    # The broker that cluster-wide changes are sent to; None: one that responds.
    addressed_broker: int | None = None
    denied: dict[str, str] = field(default_factory=dict)  # result of `refused_operations`
    unreadable_topics: set[str] = field(default_factory=set)  # without DescribeConfigs
    # Brokers that serve the cluster, but that this client does not reach.
    unreachable: set[int] = field(default_factory=set)
    without_log_dirs: set[int] = field(default_factory=set)  # whose log dirs are not described
    _configs_before: dict[ConfigResource, dict[str, str]] = field(default_factory=dict)
    _failures: dict[str, list[Exception]] = field(default_factory=dict)
    _lost_responses: dict[str, int] = field(default_factory=dict)

    # -- network faults

    def fail_next(self, call_name: str, error: Exception) -> None:
        """Make the next `call_name` raise `error` and do nothing; a second call adds another."""
        self._failures.setdefault(call_name, []).append(error)

    def lose_response_of_next(self, call_name: str) -> None:
        """Make the next `call_name` take effect and raise UnknownOutcomeError."""
        self._lost_responses[call_name] = self._lost_responses.get(call_name, 0) + 1

    # -- ClusterReader

    @_call
    def describe_cluster(self) -> ClusterDescription:
        reports_fenced = self.kafka_version >= (4, 0)  # KIP-1073
        brokers = [
            BrokerDescription(broker_id, f"broker-{broker_id}", 9092, broker.rack, broker.is_fenced)
            for broker_id, broker in sorted(self.brokers.items())
            if not broker.is_fenced or reports_fenced
        ]
        return ClusterDescription(self.cluster_id, tuple(brokers), reports_fenced)

    @_call
    def describe_topics(self, topics: Sequence[str] | None = None) -> tuple[TopicDescription, ...]:
        if self.stale_topic_reads:
            return tuple(
                t for t in self.stale_topic_reads.pop(0) if not topics or t.topic in topics
            )
        wanted = set(self.topic_ids if topics is None else topics) & self.topic_ids.keys()
        grouped: dict[str, list[PartitionDescription]] = {topic: [] for topic in sorted(wanted)}
        for key in sorted(key for key in self.partitions if key.topic in wanted):
            p = self.partitions[key]
            isr = tuple(b for b in p.replicas if b in p.isr)
            grouped[key.topic].append(
                PartitionDescription(key.partition, p.leader, p.leader_epoch, p.replicas, isr)
            )
        return tuple(
            TopicDescription(topic, self.topic_ids[topic], topic.startswith("__"), tuple(described))
            for topic, described in grouped.items()
        )

    @_call
    def list_reassignments(self) -> Mapping[TopicPartition, Reassignment]:
        return {
            key: Reassignment(p.replicas, p.adding, p.removing)
            for key, p in self.partitions.items()
            if p.is_moving
        }

    @_call
    def describe_log_dirs(
        self, broker_ids: Sequence[int] | None = None
    ) -> tuple[LogDirDescription, ...]:
        sizes_by_broker: dict[int, dict[TopicPartition, int]] = {
            broker_id: {}
            for broker_id in self._responding(broker_ids)
            if broker_id not in self.without_log_dirs
        }
        for key, partition in self.partitions.items():
            for broker_id in partition.replicas:
                if broker_id in sizes_by_broker:
                    sizes_by_broker[broker_id][key] = partition.bytes_on(broker_id)
        return tuple(self._log_dir(b, sizes) for b, sizes in sizes_by_broker.items())

    def _responding(self, broker_ids: Sequence[int] | None) -> list[int]:
        """Return those of `broker_ids` (None: of the live brokers) that respond."""
        asked_ids = self.live_broker_ids if broker_ids is None else set(broker_ids)
        return [broker_id for broker_id in sorted(asked_ids) if self.is_reachable(broker_id)]

    def _log_dir(self, broker_id: int, sizes: Mapping[TopicPartition, int]) -> LogDirDescription:
        total = self.brokers[broker_id].disk_total_bytes
        usable = None if total is None else max(0, total - sum(sizes.values()))
        return LogDirDescription(broker_id, f"/data/broker-{broker_id}", None, total, usable, sizes)

    @_call
    def list_offsets(
        self, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, tuple[int, int]]:
        offsets: dict[TopicPartition, tuple[int, int]] = {}
        for key in partitions:
            partition = self.partitions.get(key)
            if partition is None or partition.leader is None:
                continue
            if self.is_reachable(partition.leader):
                offsets[key] = (0, int(partition.size_bytes) // BYTES_PER_RECORD)
        return offsets

    @_call
    def describe_quorum(self) -> Quorum | None:
        return self.current_quorum()

    @_call
    def describe_features(
        self, broker_ids: Sequence[int] | None = None
    ) -> Mapping[int, Mapping[str, FeatureLevel]]:
        return {b: self.features.get(b, FEATURES) for b in self._responding(broker_ids)}

    @_call
    def list_eligible_leaders(
        self, topics: Sequence[str]
    ) -> Mapping[TopicPartition, tuple[int, ...]]:
        wanted = set(topics)
        found = {
            key: tuple(b for b in partition.replicas if b in partition.eligible)
            for key, partition in self.partitions.items()
            if partition.eligible
        }
        found |= self.eligible_leaders
        return {key: ids for key, ids in sorted(found.items()) if key.topic in wanted}

    @_call
    def describe_groups(self) -> Mapping[int, tuple[ConsumerGroup, ...]]:
        """All of them are coordinated by the first broker that responds."""
        first, *others = self._responding(None)
        groups = tuple(sorted(self.groups, key=lambda group: group.group))
        return {first: groups, **dict.fromkeys(others, ())}

    @_call
    def list_offsets_at(self, times: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        return {key: self.record_times[key] for key in times if key in self.record_times}

    @_call
    def describe_default_quotas(self) -> Mapping[str, Mapping[str, float]]:
        return self.default_quotas

    @_call
    def list_hanging_transactions(self, longest_ms: int) -> HangingTransactions:
        return self.hanging_transactions

    @_call
    def describe_acls_for_everybody(self) -> tuple[AllowedOperation, ...] | None:
        return self.acls_for_everybody

    @_call
    def describe_versions(
        self, broker_ids: Sequence[int] | None = None
    ) -> Mapping[int, BrokerVersion]:
        return {b: self.versions.get(b, VERSION) for b in self._responding(broker_ids)}

    @_call
    def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        keys: Sequence[str] | None,
        *,
        via_broker: int | None = None,
        skip_refused: bool = False,
    ) -> Mapping[ConfigResource, Mapping[str, ConfigValue]]:
        if via_broker is not None and not self.is_reachable(via_broker):
            reason = self._why_unreachable(via_broker)
            message = f"the configs: broker {via_broker} does not respond: {reason}"
            raise BrokerUnresponsiveError(message)
        shown = self.configs
        if self.stale_config_reads:
            self.stale_config_reads -= 1
            shown = replace(self.configs, dynamic=self._configs_before)
        wanted = list(resources)
        refused = [r for r in wanted if r.is_topic and r.name in self.unreadable_topics]
        if refused and not skip_refused:
            raise ClusterError(f"the configs of topic {refused[0].name}: {_NOT_READABLE}")
        available = [r for r in wanted if self._is_available(r) and r not in refused]
        return {resource: shown.describe(resource, keys) for resource in available}

    def close(self) -> None:
        """Do nothing."""

    # -- ClusterAdmin

    @_call
    def alter_configs(
        self, changes: Sequence[ConfigChange], *, deadline: float = math.inf
    ) -> CallResults[ConfigResource]:
        _check_deadline("configs", deadline)
        self._configs_before = {
            resource: dict(values) for resource, values in self.configs.dynamic.items()
        }
        refusals: dict[ConfigResource, str] = {}
        for part in in_requests(changes):
            remaining = [c for c in part if not refusals.get(c.resource)]
            refusals |= self._alter_at_once(remaining)
        return _results(refusals)

    def _alter_at_once(self, changes: Sequence[ConfigChange]) -> dict[ConfigResource, str]:
        by_resource = grouped((change.resource, change) for change in changes)
        of_topics = {r: own_changes for r, own_changes in by_resource.items() if r.is_topic}
        refusals = {
            resource: self._alter_broker(resource, own_changes)
            for resource, own_changes in by_resource.items()
            if resource not in of_topics
        }
        if of_topics:
            about = {*of_topics, *(r for r, refusal in refusals.items() if refusal == _FROZEN)}
            refusals |= self._send("topic configs", partial(self._alter_topics, of_topics), about)
        return {resource: refusals[resource] for resource in by_resource}

    def _alter_broker(self, resource: ConfigResource, changes: Sequence[ConfigChange]) -> str:
        broker_id = int(resource.name)
        broker = self.brokers.get(broker_id)
        if broker is not None and broker.is_frozen and not broker.is_fenced:
            broker.pending_changes.append(partial(self.configs.alter, resource, changes))
            return _FROZEN
        if not self.is_reachable(broker_id):
            return f"{NOT_SENT}: {self._why_unreachable(broker_id)}"
        return self.configs.alter(resource, changes)

    def _alter_topics(
        self, grouped: Mapping[ConfigResource, Sequence[ConfigChange]]
    ) -> dict[ConfigResource, str]:
        known = {r: changes for r, changes in grouped.items() if r.name in self.topic_ids}
        refusals = {
            resource: f"UNKNOWN_TOPIC_OR_PARTITION: The topic '{resource.name}' does not exist."
            for resource in grouped
        }
        return refusals | self.configs.alter_all(known)

    @_call
    def alter_reassignments(
        self,
        targets: Mapping[TopicPartition, tuple[int, ...] | None],
        *,
        may_change_replication_factor: bool = False,
        deadline: float = math.inf,
    ) -> CallResults[TopicPartition]:
        _check_deadline("reassignments", deadline)
        empty = {key: NO_REPLICAS for key, target in targets.items() if target == ()}
        wanted = {key: target for key, target in targets.items() if key not in empty}
        may_resize = may_change_replication_factor

        def reassign_all() -> dict[TopicPartition, str]:
            return {key: self._reassign(key, wanted[key], may_resize) for key in wanted}

        return _results((self._send("reassignments", reassign_all) if wanted else {}) | empty)

    def _reassign(
        self, key: TopicPartition, target: tuple[int, ...] | None, may_resize: bool
    ) -> str:
        partition = self.partitions.get(key)
        if partition is None:
            return f"UNKNOWN_TOPIC_OR_PARTITION: Unable to find {key}."
        if target is None:
            return partition.cancel(self.live_broker_ids)
        refusal = partition.reassign(tuple(target), self.brokers.keys(), may_resize=may_resize)
        self.complete_if_ready(partition)
        return refusal

    @_call
    def elect_preferred_leaders(
        self, partitions: Sequence[TopicPartition], *, deadline: float = math.inf
    ) -> CallResults[TopicPartition]:
        _check_deadline("elections", deadline)
        wanted = list(partitions)
        return self._send("elections", lambda: _results({key: self._elect(key) for key in wanted}))

    def _elect(self, key: TopicPartition) -> str:
        partition = self.partitions.get(key)
        if partition is None:
            return f"UNKNOWN_TOPIC_OR_PARTITION: Unable to find {key}."
        return partition.elect_preferred(self.live_broker_ids)

    @_call
    def refused_operations(
        self, broker_id: int, topics: Sequence[str], throttled_topics: Sequence[str]
    ) -> Mapping[str, str]:
        return dict(self.denied)

    # -- inside

    def _send(self, what: str, change: Callable[[], R], about: Iterable[ConfigResource] = ()) -> R:
        """Apply `change` at the addressed broker.

        A frozen broker applies it after it has thawed; to a dead one nothing is sent.
        """
        broker_id = self.addressed_broker
        if broker_id is None or self.is_reachable(broker_id):
            return change()
        if self.brokers[broker_id].is_frozen:
            self.brokers[broker_id].pending_changes.append(partial(change))
            message = f"no answer to {what} sent to broker {broker_id}: they may be applied"
            raise UnknownOutcomeError(message, broker_id=broker_id, subjects=frozenset(about))
        reason = self._why_unreachable(broker_id)
        raise BrokerUnresponsiveError(f"{what}: nothing was sent to broker {broker_id}: {reason}")

    def is_reachable(self, broker_id: int) -> bool:
        """Return whether a broker responds to this client."""
        return self.is_responding(broker_id) and broker_id not in self.unreachable

    def _why_unreachable(self, broker_id: int) -> str:
        return _NO_CONNECTION if broker_id in self.live_broker_ids else _NOT_LIVE

    def _is_available(self, resource: ConfigResource) -> bool:
        if resource.is_topic:
            return resource.name in self.topic_ids
        return resource == EVERY_BROKER or self.is_reachable(int(resource.name))


def _check_deadline(what: str, deadline: float) -> None:
    if time.monotonic() >= deadline:
        raise BrokerUnresponsiveError(f"{what}: nothing was sent: no time was left to send it")


def _results(refusals: Mapping[S, str]) -> CallResults[S]:
    """Return the results; an empty refusal means that the subject was accepted."""
    accepted = tuple(subject for subject, refusal in refusals.items() if not refusal)
    errors = {subject: refusal for subject, refusal in refusals.items() if refusal}
    return CallResults(accepted, errors)
