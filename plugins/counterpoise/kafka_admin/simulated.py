"""A cluster in memory behind the same protocol, with a clock of its own: for tests and for scale.

    cluster = SimulatedCluster.like(snapshot)
    cluster.alter_reassignments({TopicPartition("orders", 0): (4, 2, 3)})
    cluster.advance(10.0)
    cluster.kill_broker(2)

Time passes in `advance` alone; copies progress at the pace of Kafka's throttles (`simulated_copying.py`).

Limits: partitions grow by `bytes_in_per_second` of the snapshot, and records are
1000 bytes; requests take no time.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Concatenate, Final, ParamSpec, Self, TypeVar

from counterpoise.errors import BrokerSilentError, ClusterUnreachableError, UnknownOutcomeError
from counterpoise.kafka_admin.port import ClusterAdmin
from counterpoise.kafka_admin.simulated_configs import SimulatedConfigs
from counterpoise.kafka_admin.simulated_copying import Transfer, speeds, transfers
from counterpoise.kafka_admin.simulated_partition import SimulatedPartition
from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
from counterpoise.model.kafka import (
    BrokerDescription,
    CallResults,
    ClusterDescription,
    ConfigChange,
    ConfigResource,
    ConfigResourceType,
    ConfigValue,
    LogDirDescription,
    PartitionDescription,
    QuorumNode,
    Reassignment,
    TopicDescription,
)

P = ParamSpec("P")
R = TypeVar("R")

FULL_SPEED_BYTES_PER_SECOND: Final = 100_000_000
SESSION_TIMEOUT_SECONDS: Final = 9.0
BYTES_PER_RECORD: Final = 1000
_NOT_LIVE: Final = "it is not live (fenced, stopped or unknown)"


@dataclass(slots=True)
class SimulatedBroker:
    rack: str | None
    is_up: bool = True
    is_fenced: bool = False
    fenced_at: float | None = None  # when a dead one will be noticed
    disk_total_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """What a test can look up: a call that came in, in order."""

    name: str
    argument: object
    options: Mapping[str, object] = field(default_factory=dict)  # what was given by name


def _call(method: "Callable[Concatenate[SimulatedCluster, P], R]") -> "Callable[Concatenate[SimulatedCluster, P], R]":
    """A call over the simulated network: recorded, and subject to the faults that a test asked for."""
    name = method.__name__

    @wraps(method)
    def over_the_network(self: "SimulatedCluster", /, *args: P.args, **kwargs: P.kwargs) -> R:
        self.calls.append(Call(name, args[0] if args else None, kwargs))
        if errors := self._failures.get(name):
            raise errors.pop(0)
        if not self.live_broker_ids:
            raise ClusterUnreachableError((("simulated", "no broker is live"),))
        result = method(self, *args, **kwargs)
        if self._lost_answers.get(name):
            self._lost_answers[name] -= 1
            raise UnknownOutcomeError(f"{name}: the answer was lost; it may be applied")
        return result

    return over_the_network


@dataclass
class SimulatedCluster(ClusterAdmin):
    """See the module's text. What a test may look at, or set, is public; the rest goes through the protocol."""

    cluster_id: str = "simulated"
    full_speed_bytes_per_second: float = FULL_SPEED_BYTES_PER_SECOND
    now: float = 0.0  # seconds
    brokers: dict[int, SimulatedBroker] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    partitions: dict[TopicPartition, SimulatedPartition] = field(default_factory=dict)
    configs: SimulatedConfigs = field(default_factory=SimulatedConfigs)
    calls: list[Call] = field(default_factory=list)
    stale_config_reads: int = 0  # so many of the next reads show the configs as before the last change
    _configs_before: dict[ConfigResource, dict[str, str]] = field(default_factory=dict)
    _failures: dict[str, list[Exception]] = field(default_factory=dict)
    _lost_answers: dict[str, int] = field(default_factory=dict)

    # -- building

    @classmethod
    def like(cls, snapshot: ClusterSnapshot) -> Self:
        """A cluster that looks like `snapshot`, reassignments under way included (nothing is copied yet)."""
        cluster = cls(cluster_id=snapshot.cluster_id)
        for row in snapshot.brokers.to_pylist():
            dead, disk = row["is_fenced"], row["disk_total_bytes"]
            cluster.brokers[row["broker_id"]] = SimulatedBroker(row["rack"], not dead, dead, disk_total_bytes=disk)
        for row in snapshot.topics.to_pylist():
            cluster.topic_ids[row["topic"]] = row["topic_id"] or str(uuid.uuid5(uuid.NAMESPACE_DNS, row["topic"]))
            if row["min_insync_replicas"] is not None:
                resource = ConfigResource(ConfigResourceType.TOPIC, row["topic"])
                cluster.configs.dynamic[resource] = {"min.insync.replicas": str(row["min_insync_replicas"])}
        live = cluster.live_broker_ids
        for row in snapshot.partitions.to_pylist():
            adding = tuple(row["adding_replicas"])
            in_sync = [b for b in row["replicas"] if b in live and b not in adding]
            partition = SimulatedPartition(
                replicas=tuple(row["replicas"]),
                isr=set(row["isr"] if row["isr"] is not None else in_sync or row["replicas"][:1]),
                leader=row["leader"],
                size_bytes=float(row["size_bytes"] or 0),
                bytes_in_per_second=float(row["bytes_in_per_second"] or 0),
                leader_epoch=row["leader_epoch"] or 0,
                adding=adding,
                removing=tuple(row["removing_replicas"]),
            )
            cluster.partitions[TopicPartition(row["topic"], row["partition"])] = partition
        return cluster

    def add_broker(self, broker_id: int, rack: str | None = None) -> None:
        """A new, empty broker joins."""
        self.brokers[broker_id] = SimulatedBroker(rack)

    def delete_topic(self, topic: str) -> None:
        """Somebody deletes a topic, with its configs."""
        del self.topic_ids[topic]
        self.partitions = {key: p for key, p in self.partitions.items() if key.topic != topic}
        self.configs.dynamic.pop(ConfigResource(ConfigResourceType.TOPIC, topic), None)

    # -- faults

    def fail_next(self, call_name: str, error: Exception) -> None:
        """The next `call_name` does nothing and raises `error`; calls add up."""
        self._failures.setdefault(call_name, []).append(error)

    def lose_answer_of_next(self, call_name: str) -> None:
        """The next `call_name` is carried out, and raises UnknownOutcomeError."""
        self._lost_answers[call_name] = self._lost_answers.get(call_name, 0) + 1

    def kill_broker(self, broker_id: int, *, noticed: bool = True) -> None:
        """It answers nobody any more. Unless `noticed`, the cluster takes it for live for another session timeout."""
        broker = self.brokers[broker_id]
        broker.is_up = False
        broker.fenced_at = self.now if noticed else self.now + SESSION_TIMEOUT_SECONDS
        self._notice_the_dead()

    def restart_broker(self, broker_id: int) -> None:
        """It is back, with its data and configs; what it missed it copies as time passes."""
        broker = self.brokers[broker_id]
        broker.is_up, broker.is_fenced, broker.fenced_at = True, False, None
        for partition in self.partitions.values():
            partition.regain(broker_id, self.live_broker_ids)

    @property
    def live_broker_ids(self) -> frozenset[int]:
        """Those that the cluster takes for live."""
        return frozenset(b for b, broker in self.brokers.items() if not broker.is_fenced)

    def _notice_the_dead(self) -> bool:
        noticed = False
        for broker_id, broker in self.brokers.items():
            if broker.fenced_at is not None and broker.fenced_at <= self.now:
                broker.is_fenced, broker.fenced_at, noticed = True, None, True
                for partition in self.partitions.values():
                    partition.lose(broker_id, self.live_broker_ids)
        return noticed

    def _answers(self, broker_id: int) -> bool:
        return broker_id in self.brokers and self.brokers[broker_id].is_up

    # -- time

    def advance(self, seconds: float) -> None:
        """Let time pass: copies grow, and each reassignment ends at the instant its last copy is whole."""
        end = self.now + seconds
        growing = [p for p in self.partitions.values() if p.bytes_in_per_second]
        unsettled = self._unsettled()
        self._settle(unsettled)
        while self.now < end:
            copying = list(transfers(unsettled, self.configs, self._up()))
            paces = speeds(copying, self.configs, self.full_speed_bytes_per_second)
            step = min([end - self.now, *self._seconds_to_events(paces)])
            for partition in growing:
                partition.size_bytes += 0.0 if partition.leader is None else partition.bytes_in_per_second * step
            for transfer, speed in paces:
                partition, at = self.partitions[transfer.key], transfer.destination
                partition.copied[at] = min(partition.size_bytes, partition.copied.get(at, 0.0) + speed * step)
            self.now = end if step >= end - self.now else self.now + step
            if self._notice_the_dead():
                unsettled = self._unsettled()
            self._settle(unsettled)

    def _up(self) -> frozenset[int]:
        return frozenset(broker_id for broker_id in self.brokers if self._answers(broker_id))

    def _unsettled(self) -> dict[TopicPartition, SimulatedPartition]:
        """Partitions with something to do; only these can change as time passes."""
        return {key: p for key, p in self.partitions.items() if p.is_moving or len(p.isr) < len(p.replicas)}

    def _settle(self, partitions: Mapping[TopicPartition, SimulatedPartition]) -> None:
        up = self._up()
        for partition in partitions.values():
            for broker_id in partition.behind(up) if partition.leader in up else ():
                # Half a byte of tolerance: the sums are of floats.
                if partition.copied.get(broker_id, 0.0) >= partition.size_bytes - 0.5:
                    partition.isr.add(broker_id)
                    partition.copied.pop(broker_id, None)
            partition.complete_if_ready(self.live_broker_ids)

    def _seconds_to_events(self, paces: Iterable[tuple[Transfer, float]]) -> Iterator[float]:
        for transfer, speed in paces:
            partition = self.partitions[transfer.key]
            closing_in = speed - partition.bytes_in_per_second
            if closing_in > 0:
                left = partition.size_bytes - partition.copied.get(transfer.destination, 0.0)
                yield max(left / closing_in, 1e-6)
        for broker in self.brokers.values():
            if broker.fenced_at is not None:
                yield max(broker.fenced_at - self.now, 0.0)

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
            grouped[key.topic].append(PartitionDescription(key.partition, p.leader, p.leader_epoch, p.replicas, isr))
        return tuple(
            TopicDescription(topic, self.topic_ids[topic], topic.startswith("__"), tuple(partitions))
            for topic, partitions in grouped.items()
        )

    @_call
    def list_reassignments(self) -> Mapping[TopicPartition, Reassignment]:
        moving = {key: p for key, p in self.partitions.items() if p.is_moving}
        return {key: Reassignment(p.replicas, p.adding, p.removing) for key, p in moving.items()}

    @_call
    def describe_log_dirs(self, broker_ids: Sequence[int] | None = None) -> tuple[LogDirDescription, ...]:
        asked = sorted(self.live_broker_ids if broker_ids is None else set(broker_ids))
        self._require(asked, "the log dirs")
        sizes: dict[int, dict[TopicPartition, int]] = {broker_id: {} for broker_id in asked}
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
    def list_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, tuple[int, int]]:
        led = {key: p for key in partitions if (p := self.partitions.get(key)) and p.leader is not None}
        return {key: (0, int(p.size_bytes) // BYTES_PER_RECORD) for key, p in led.items()}

    @_call
    def describe_quorum(self) -> tuple[QuorumNode, ...]:
        leader = min(self.live_broker_ids)
        voters = [b for b in sorted(self.brokers)[:3] if b != leader]
        observers = [b for b in sorted(self.brokers)[3:] if b != leader]
        rows = [(leader, "leader"), *((b, "voter") for b in voters), *((b, "observer") for b in observers)]
        return tuple(QuorumNode(b, role, len(self.calls), int(self.now * 1000)) for b, role in rows)

    @_call
    def describe_configs(
        self, resources: Iterable[ConfigResource], keys: Sequence[str], *, via_broker: int | None = None
    ) -> Mapping[ConfigResource, Mapping[str, ConfigValue]]:
        wanted = list(resources)
        asked = [int(r.name) for r in wanted if r.type is ConfigResourceType.BROKER]
        self._require(asked if via_broker is None else [*asked, via_broker], "the configs")
        shown = self.configs
        if self.stale_config_reads:  # brokers learn of a change a moment after the controller took it
            self.stale_config_reads -= 1
            shown = replace(self.configs, dynamic=self._configs_before)
        return {r: shown.describe(r, keys) for r in wanted if not self._is_unknown_topic(r)}

    def close(self) -> None:
        """Nothing to close."""

    # -- the verbs that change it

    @_call
    def alter_configs(self, changes: Sequence[ConfigChange]) -> CallResults[ConfigResource]:
        self._configs_before = {resource: dict(values) for resource, values in self.configs.dynamic.items()}
        grouped: dict[ConfigResource, list[ConfigChange]] = {}
        for change in changes:
            grouped.setdefault(change.resource, []).append(change)
        return _results({resource: self._alter_one(resource, mine) for resource, mine in grouped.items()})

    def _alter_one(self, resource: ConfigResource, changes: Sequence[ConfigChange]) -> str:
        if resource.type is ConfigResourceType.BROKER and not self._answers(int(resource.name)):
            return _NOT_LIVE
        if self._is_unknown_topic(resource):
            return f"UNKNOWN_TOPIC_OR_PARTITION: The topic '{resource.name}' does not exist."
        return self.configs.alter(resource, changes)

    @_call
    def alter_reassignments(
        self, targets: Mapping[TopicPartition, tuple[int, ...] | None], *, may_change_replication_factor: bool = False
    ) -> CallResults[TopicPartition]:
        outcome: dict[TopicPartition, str] = {}
        for key, target in targets.items():
            partition = self.partitions.get(key)
            if partition is None:
                outcome[key] = f"UNKNOWN_TOPIC_OR_PARTITION: Unable to find {key}."
            elif target is None:
                outcome[key] = partition.cancel(self.live_broker_ids)
            else:
                outcome[key] = partition.reassign(
                    tuple(target), self.brokers.keys(), may_resize=may_change_replication_factor
                )
                partition.complete_if_ready(self.live_broker_ids)
        return _results(outcome)

    @_call
    def elect_preferred_leaders(self, partitions: Sequence[TopicPartition]) -> CallResults[TopicPartition]:
        outcome: dict[TopicPartition, str] = {}
        for key in partitions:
            partition = self.partitions.get(key)
            unknown = f"UNKNOWN_TOPIC_OR_PARTITION: Unable to find {key}."
            outcome[key] = unknown if partition is None else partition.elect_preferred(self.live_broker_ids)
        return _results(outcome)

    # -- inside

    def _is_unknown_topic(self, resource: ConfigResource) -> bool:
        return resource.type is ConfigResourceType.TOPIC and resource.name not in self.topic_ids

    def _require(self, broker_ids: Iterable[int], what: str) -> None:
        for broker_id in broker_ids:
            if not self._answers(broker_id):
                raise BrokerSilentError(f"{what}: broker {broker_id} gives no answer: {_NOT_LIVE}")


S = TypeVar("S")


def _results(outcome: Mapping[S, str]) -> CallResults[S]:
    accepted = tuple(subject for subject, refusal in outcome.items() if not refusal)
    return CallResults(accepted, {subject: refusal for subject, refusal in outcome.items() if refusal})
