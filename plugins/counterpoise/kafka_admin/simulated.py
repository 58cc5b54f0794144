"""A cluster in memory behind the same protocol, with a clock of its own: for tests and for scale.

    cluster = SimulatedCluster.like(snapshot)
    cluster.alter_reassignments({TopicPartition("orders", 0): (4, 2, 3)})
    cluster.advance(10.0)
    cluster.freeze_broker(2)

Here are the calls, and what can go wrong on their way; the cluster itself is in
`simulated_world.py`.

Limits: records are 1000 bytes; requests take no time.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Concatenate, Final, ParamSpec, TypeVar

from counterpoise.errors import (
    BrokerUnresponsiveError,
    ClusterUnreachableError,
    UnknownOutcomeError,
)
from counterpoise.kafka_admin.port import NO_RESPONSE, ClusterAdmin
from counterpoise.kafka_admin.simulated_world import FEATURES, VERSION, SimulatedWorld
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.inspection import FeatureLevel, GroupMembers, Quorum
from counterpoise.model.kafka import (
    EVERY_BROKER,
    BrokerDescription,
    BrokerVersion,
    CallResults,
    ClusterDescription,
    ConfigChange,
    ConfigResource,
    ConfigResourceType,
    ConfigValue,
    LogDirDescription,
    PartitionDescription,
    Reassignment,
    TopicDescription,
)

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")

BYTES_PER_RECORD: Final = 1000
_NOT_LIVE: Final = "it is not live (fenced, stopped or unknown)"
_FROZEN: Final = f"{NO_RESPONSE}: nothing within 2 s; it may still be applied"


@dataclass(frozen=True, slots=True)
class Call:
    """What a test can look up: a call that came in, in order."""

    name: str
    argument: object
    options: Mapping[str, object] = field(default_factory=dict)  # what was given by name


def _call(
    method: "Callable[Concatenate[SimulatedCluster, P], R]",
) -> "Callable[Concatenate[SimulatedCluster, P], R]":
    """A call over the simulated network: recorded, and subject to the faults that a test asked for."""
    name = method.__name__

    @wraps(method)
    def over_the_network(self: "SimulatedCluster", /, *args: P.args, **kwargs: P.kwargs) -> R:
        self.calls.append(Call(name, args[0] if args else None, kwargs))
        if errors := self._failures.get(name):
            raise errors.pop(0)
        if not any(map(self.answers, self.brokers)):
            raise ClusterUnreachableError((("simulated", "no broker answers"),))
        result = method(self, *args, **kwargs)
        if self._lost_answers.get(name):
            self._lost_answers[name] -= 1
            asked = (
                min(filter(self.answers, self.brokers))
                if self.addressed_broker is None
                else self.addressed_broker
            )
            raise UnknownOutcomeError(
                f"{name}: the answer was lost; it may be applied", broker_id=asked
            )
        return result

    return over_the_network


@dataclass
class SimulatedCluster(SimulatedWorld, ClusterAdmin):
    """See the module's text.

    What a test may look at, or set, is public; the rest goes through the protocol.
    """

    calls: list[Call] = field(default_factory=list)
    stale_config_reads: int = (
        0  # so many of the next reads show the configs as before the last change
    )
    addressed_broker: int | None = (
        None  # whom changes of the whole cluster are sent to; None: one that answers
    )
    denied: dict[str, str] = field(default_factory=dict)  # what `refused_operations` tells
    _configs_before: dict[ConfigResource, dict[str, str]] = field(default_factory=dict)
    _failures: dict[str, list[Exception]] = field(default_factory=dict)
    _lost_answers: dict[str, int] = field(default_factory=dict)

    # -- faults on the way

    def fail_next(self, call_name: str, error: Exception) -> None:
        """The next `call_name` does nothing and raises `error`; calls add up."""
        self._failures.setdefault(call_name, []).append(error)

    def lose_answer_of_next(self, call_name: str) -> None:
        """The next `call_name` is carried out, and raises UnknownOutcomeError."""
        self._lost_answers[call_name] = self._lost_answers.get(call_name, 0) + 1

    # -- ClusterReader

    @_call
    def describe_cluster(self) -> ClusterDescription:
        brokers = [
            BrokerDescription(broker_id, f"broker-{broker_id}", 9092, broker.rack, broker.is_fenced)
            for broker_id, broker in sorted(self.brokers.items())
        ]
        return ClusterDescription(self.cluster_id, tuple(brokers))

    @_call
    def describe_topics(self, topics: Sequence[str] | None = None) -> tuple[TopicDescription, ...]:
        wanted = set(self.topic_ids if topics is None else topics) & self.topic_ids.keys()
        grouped: dict[str, list[PartitionDescription]] = {topic: [] for topic in sorted(wanted)}
        for key in sorted(key for key in self.partitions if key.topic in wanted):
            p = self.partitions[key]
            isr = tuple(b for b in p.replicas if b in p.isr)
            grouped[key.topic].append(
                PartitionDescription(key.partition, p.leader, p.leader_epoch, p.replicas, isr)
            )
        return tuple(
            TopicDescription(
                topic, self.topic_ids[topic], topic.startswith("__"), tuple(partitions)
            )
            for topic, partitions in grouped.items()
        )

    @_call
    def list_reassignments(self) -> Mapping[TopicPartition, Reassignment]:
        moving = {key: p for key, p in self.partitions.items() if p.is_moving}
        return {key: Reassignment(p.replicas, p.adding, p.removing) for key, p in moving.items()}

    @_call
    def describe_log_dirs(
        self, broker_ids: Sequence[int] | None = None
    ) -> tuple[LogDirDescription, ...]:
        asked = sorted(self.live_broker_ids if broker_ids is None else set(broker_ids))
        sizes: dict[int, dict[TopicPartition, int]] = {b: {} for b in asked if self.answers(b)}
        for key, partition in self.partitions.items():
            for broker_id in partition.replicas:
                if broker_id in sizes:
                    sizes[broker_id][key] = partition.bytes_on(broker_id)
        return tuple(self._log_dir(broker_id, held) for broker_id, held in sizes.items())

    def _log_dir(self, broker_id: int, sizes: Mapping[TopicPartition, int]) -> LogDirDescription:
        total = self.brokers[broker_id].disk_total_bytes
        usable = None if total is None else max(0, total - sum(sizes.values()))
        return LogDirDescription(broker_id, f"/data/broker-{broker_id}", None, total, usable, sizes)

    @_call
    def list_offsets(
        self, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, tuple[int, int]]:
        known = [(key, self.partitions[key]) for key in partitions if key in self.partitions]
        led = {key: p for key, p in known if p.leader is not None and self.answers(p.leader)}
        return {key: (0, int(p.size_bytes) // BYTES_PER_RECORD) for key, p in led.items()}

    @_call
    def describe_quorum(self) -> Quorum | None:
        return self.quorum_now()

    @_call
    def describe_features(
        self, broker_ids: Sequence[int] | None = None
    ) -> Mapping[int, Mapping[str, FeatureLevel]]:
        asked = sorted(self.live_broker_ids if broker_ids is None else broker_ids)
        return {b: self.features.get(b, FEATURES) for b in asked if self.answers(b)}

    @_call
    def list_eligible_leaders(
        self, topics: Sequence[str]
    ) -> Mapping[TopicPartition, tuple[int, ...]]:
        return {
            key: ids
            for key, ids in sorted(self.eligible_leaders.items())
            if key.topic in set(topics)
        }

    @_call
    def describe_groups(self) -> tuple[GroupMembers, ...]:
        return tuple(sorted(self.groups, key=lambda group: group.group))

    @_call
    def describe_versions(
        self, broker_ids: Sequence[int] | None = None
    ) -> Mapping[int, BrokerVersion]:
        asked = sorted(self.live_broker_ids if broker_ids is None else broker_ids)
        return {b: self.versions.get(b, VERSION) for b in asked if self.answers(b)}

    @_call
    def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        keys: Sequence[str] | None,
        *,
        via_broker: int | None = None,
    ) -> Mapping[ConfigResource, Mapping[str, ConfigValue]]:
        if via_broker is not None and not self.answers(via_broker):
            raise BrokerUnresponsiveError(
                f"the configs: broker {via_broker} gives no answer: {_NOT_LIVE}"
            )
        shown = self.configs
        if (
            self.stale_config_reads
        ):  # brokers learn of a change a moment after the controller took it
            self.stale_config_reads -= 1
            shown = replace(self.configs, dynamic=self._configs_before)
        return {r: shown.describe(r, keys) for r in resources if self._is_told(r)}

    def close(self) -> None:
        """Nothing to close."""

    # -- the verbs that change it

    @_call
    def alter_configs(self, changes: Sequence[ConfigChange]) -> CallResults[ConfigResource]:
        self._configs_before = {
            resource: dict(values) for resource, values in self.configs.dynamic.items()
        }
        grouped: dict[ConfigResource, list[ConfigChange]] = {}
        for change in changes:
            grouped.setdefault(change.resource, []).append(change)
        topics = {r: mine for r, mine in grouped.items() if r.type is ConfigResourceType.TOPIC}
        outcome = {r: self._alter_broker(r, mine) for r, mine in grouped.items() if r not in topics}
        if topics:
            outcome |= self._at_addressed("topic configs", lambda: self._alter_topics(topics))
        return _results({resource: outcome[resource] for resource in grouped})

    def _alter_broker(self, resource: ConfigResource, changes: Sequence[ConfigChange]) -> str:
        broker = self.brokers.get(int(resource.name))
        if broker is not None and broker.is_frozen and not broker.is_fenced:
            broker.held.append(lambda: self.configs.alter(resource, changes))
            return _FROZEN
        return (
            self.configs.alter(resource, changes) if self.answers(int(resource.name)) else _NOT_LIVE
        )

    def _alter_topics(
        self, grouped: Mapping[ConfigResource, Sequence[ConfigChange]]
    ) -> dict[ConfigResource, str]:
        unknown = "UNKNOWN_TOPIC_OR_PARTITION: The topic '{}' does not exist."
        return {
            resource: self.configs.alter(resource, changes)
            if resource.name in self.topic_ids
            else unknown.format(resource.name)
            for resource, changes in grouped.items()
        }

    @_call
    def alter_reassignments(
        self,
        targets: Mapping[TopicPartition, tuple[int, ...] | None],
        *,
        may_change_replication_factor: bool = False,
    ) -> CallResults[TopicPartition]:
        wanted = dict(targets)
        return self._at_addressed(
            "reassignments",
            lambda: _results(
                {k: self._reassign(k, wanted[k], may_change_replication_factor) for k in wanted}
            ),
        )

    def _reassign(
        self, key: TopicPartition, target: tuple[int, ...] | None, may_resize: bool
    ) -> str:
        partition = self.partitions.get(key)
        if partition is None:
            return f"UNKNOWN_TOPIC_OR_PARTITION: Unable to find {key}."
        if target is None:
            return partition.cancel(self.live_broker_ids)
        refusal = partition.reassign(tuple(target), self.brokers.keys(), may_resize=may_resize)
        partition.complete_if_ready(self.live_broker_ids)
        return refusal

    @_call
    def elect_preferred_leaders(
        self, partitions: Sequence[TopicPartition]
    ) -> CallResults[TopicPartition]:
        wanted = list(partitions)
        return self._at_addressed(
            "elections", lambda: _results({key: self._elect(key) for key in wanted})
        )

    def _elect(self, key: TopicPartition) -> str:
        partition = self.partitions.get(key)
        if partition is None:
            return f"UNKNOWN_TOPIC_OR_PARTITION: Unable to find {key}."
        return partition.elect_preferred(self.live_broker_ids)

    @_call
    def refused_operations(self, broker_id: int, topic: str) -> Mapping[str, str]:
        return dict(self.denied)

    # -- inside

    def _at_addressed(self, what: str, change: Callable[[], R]) -> R:
        """`change` by the broker addressed: held when that one is frozen, not sent when it is dead."""
        at = self.addressed_broker
        if at is None or self.answers(at):
            return change()
        if self.brokers[at].is_frozen:
            self.brokers[at].held.append(change)
            raise UnknownOutcomeError(
                f"no answer to {what} sent to broker {at}: they may be applied", broker_id=at
            )
        raise BrokerUnresponsiveError(f"{what}: nothing was sent to broker {at}: {_NOT_LIVE}")

    def _is_told(self, resource: ConfigResource) -> bool:
        if resource.type is ConfigResourceType.TOPIC:
            return resource.name in self.topic_ids
        return resource == EVERY_BROKER or self.answers(int(resource.name))


def _results(outcome: Mapping[S, str]) -> CallResults[S]:
    accepted = tuple(subject for subject, refusal in outcome.items() if not refusal)
    return CallResults(
        accepted, {subject: refusal for subject, refusal in outcome.items() if refusal}
    )
