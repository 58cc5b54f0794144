"""The simulated cluster behind the calls: brokers, partitions, faults, and time that passes.

    world = SimulatedWorld.like(snapshot)
    world.freeze_broker(2)
    world.advance(9.0)  # its session has ended: other brokers lead its partitions

Time passes only in `advance`. A replica that is behind copies from its leader at the lowest rate of
all that it shares with other replicas: the leader's and its own broker's full speed, and the
throttles (KIP-73) that apply to both ends. A throttle applies only where the topic's list names the
replica *and* the broker has a rate. Each limit is shared evenly: with a full speed of 100 MB/s,
four replicas that copy from one broker get 25 MB/s each.

`kafka_version` makes it an older Kafka where that one differs; docs/kafka-facts.md says in what.

Limits: no bursts: a replica under a rate of 0 gets nothing, where Kafka lets 1 MiB pass in ten
seconds; Kafka shares a rate by who asks first, which comes to the same over some seconds;
partitions grow by the snapshot's `bytes_in_per_second`; a broker that comes back has lost nothing.
"""

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Self

from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
from counterpoise.model.inspection import (
    AllowedOperation,
    ConsumerGroup,
    FeatureLevel,
    HangingTransactions,
    Quorum,
    QuorumNode,
)
from counterpoise.model.kafka import (
    EVERY_BROKER,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    RATE_KEYS,
    BrokerVersion,
    ConfigResource,
    ConfigResourceType,
)
from counterpoise.model.tables import TOPIC_CONFIGS
from tests.simulated_kafka.configs import SimulatedConfigs
from tests.simulated_kafka.partition import SimulatedPartition

FULL_SPEED_BYTES_PER_SECOND: Final = 100_000_000
SESSION_TIMEOUT_SECONDS: Final = 9.0
# What every broker supports unless a test sets something else.
FEATURES: Final = {"metadata.version": FeatureLevel(29, 7, 29)}
VERSION: Final = BrokerVersion("simulated", 29)

Limit = tuple[str, int]  # what replicas share: a direction, or a rate key, of one broker


@dataclass(slots=True)
class SimulatedBroker:
    rack: str | None
    is_up: bool = True
    is_fenced: bool = False
    fenced_at: float | None = None  # when the cluster will fence a dead or frozen one
    disk_total_bytes: int | None = None
    is_frozen: bool = False
    # Changes that were sent to it while it was frozen.
    pending_changes: list[partial[Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Transfer:
    """A replica that copies from its leader, and the limits that it shares with others."""

    key: TopicPartition
    destination: int
    limits: tuple[Limit, ...]


@dataclass
class SimulatedWorld:
    """See the module's docstring."""

    cluster_id: str = "simulated"
    kafka_version: tuple[int, int] = (4, 3)
    full_speed_bytes_per_second: float = FULL_SPEED_BYTES_PER_SECOND
    now: float = 0.0  # seconds
    brokers: dict[int, SimulatedBroker] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    partitions: dict[TopicPartition, SimulatedPartition] = field(default_factory=dict)
    configs: SimulatedConfigs = field(default_factory=SimulatedConfigs)
    versions: dict[int, BrokerVersion] = field(default_factory=dict)
    # Of brokers that differ from FEATURES.
    features: dict[int, dict[str, FeatureLevel]] = field(default_factory=dict)
    quorum: Quorum | None = None  # None: the first three brokers vote
    eligible_leaders: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    groups: list[ConsumerGroup] = field(default_factory=list)
    hanging_transactions: HangingTransactions = field(default_factory=HangingTransactions)
    acls_for_everybody: tuple[AllowedOperation, ...] | None = ()  # None: no authorizer
    # The first record of whatever time is asked for.
    record_times: dict[TopicPartition, int] = field(default_factory=dict)
    default_quotas: dict[str, dict[str, float]] = field(default_factory=dict)
    _unregistered: dict[int, SimulatedBroker] = field(default_factory=dict)
    _created_topics: int = 0

    # -- building

    def __post_init__(self) -> None:
        self.configs.knows_cordons = self.kafka_version >= (4, 3)

    @classmethod
    def like(cls, snapshot: ClusterSnapshot) -> Self:
        """Return a cluster as in `snapshot`, ongoing reassignments included.

        Of the replicas being added nothing is copied yet.
        """
        cluster = cls(cluster_id=snapshot.cluster_id)
        for row in snapshot.brokers.to_pylist():
            is_fenced = row["is_fenced"]
            cluster.brokers[row["broker_id"]] = SimulatedBroker(
                row["rack"],
                is_up=not is_fenced,
                is_fenced=is_fenced,
                disk_total_bytes=row["disk_total_bytes"],
            )
            cluster.versions[row["broker_id"]] = VERSION
        for row in snapshot.topics.to_pylist():
            cluster._add_topic(row)
        for row in snapshot.throttles.to_pylist():
            resource_type = ConfigResourceType(row["resource_type"])
            resource = ConfigResource(resource_type, row["resource_name"])
            is_default = resource == EVERY_BROKER
            values = (
                cluster.configs.broker_defaults
                if is_default
                else cluster.configs.dynamic.setdefault(resource, {})
            )
            values[row["key"]] = row["value"]
        live_ids = cluster.live_broker_ids
        for row in snapshot.partitions.to_pylist():
            key = TopicPartition(row["topic"], row["partition"])
            cluster.partitions[key] = _partition_like(row, live_ids)
        return cluster

    def _add_topic(self, row: Mapping[str, Any]) -> None:
        name = row["topic"]
        made_up = str(uuid.uuid5(uuid.NAMESPACE_DNS, name))
        self.topic_ids[name] = made_up if row["topic_id"] is None else row["topic_id"]
        configs = {
            key: str(row[column])
            for column, key in TOPIC_CONFIGS.items()
            if row[column] is not None
        }
        if configs:
            self.configs.dynamic[ConfigResource(ConfigResourceType.TOPIC, name)] = configs

    def add_broker(self, broker_id: int, rack: str | None = None) -> None:
        """Add a broker that holds nothing."""
        self.brokers[broker_id] = SimulatedBroker(rack)
        self.versions[broker_id] = VERSION

    def create_topic(self, topic: str, assignment: Iterable[tuple[int, ...]]) -> None:
        """Create an empty topic with these replicas of its partitions; its id is a new one.

        Each partition needs a live broker; dead ones are not in its ISR.
        """
        self._created_topics += 1
        self.topic_ids[topic] = str(
            uuid.uuid5(uuid.NAMESPACE_DNS, f"{self._created_topics}.{topic}")
        )
        live_ids = self.live_broker_ids
        for number, replicas in enumerate(assignment):
            isr = [broker_id for broker_id in replicas if broker_id in live_ids]
            partition = SimulatedPartition(tuple(replicas), set(isr), isr[0], 0.0)
            self.partitions[TopicPartition(topic, number)] = partition

    def delete_topic(self, topic: str) -> None:
        """Delete a topic with its configs."""
        del self.topic_ids[topic]
        self.partitions = {key: p for key, p in self.partitions.items() if key.topic != topic}
        self.configs.dynamic.pop(ConfigResource(ConfigResourceType.TOPIC, topic), None)

    # -- faults

    def kill_broker(self, broker_id: int, *, noticed: bool = True) -> None:
        """Stop a broker: it responds to nobody.

        Unless `noticed`, it counts as live for another session timeout.
        """
        broker = self.brokers[broker_id]
        broker.is_up = broker.is_frozen = False
        broker.pending_changes.clear()
        broker.fenced_at = self.now if noticed else self.now + SESSION_TIMEOUT_SECONDS
        self._fence_dead_brokers()

    def freeze_broker(self, broker_id: int) -> None:
        """Freeze a broker (SIGSTOP): it responds to nobody, and is live until its session ends.

        Changes sent to it are applied when it thaws, whatever the caller assumes by then.
        """
        broker = self.brokers[broker_id]
        broker.is_frozen = True
        broker.fenced_at = self.now + SESSION_TIMEOUT_SECONDS

    def thaw_broker(self, broker_id: int) -> None:
        """Resume a frozen broker (SIGCONT), which applies its pending changes in order."""
        broker = self.brokers[broker_id]
        pending_changes, broker.pending_changes = broker.pending_changes, []
        self.restart_broker(broker_id)
        for change in pending_changes:
            change()

    def restart_broker(self, broker_id: int) -> None:
        """Start a broker with its data and configs; it copies what it missed as time passes."""
        if broker_id in self._unregistered:
            self.brokers[broker_id] = self._unregistered.pop(broker_id)
        broker = self.brokers[broker_id]
        broker.is_up = True
        broker.is_frozen = False
        broker.is_fenced = False
        broker.fenced_at = None
        broker.pending_changes.clear()
        for partition in self.partitions.values():
            partition.regain(broker_id, self.live_broker_ids)

    def unregister_broker(self, broker_id: int) -> None:
        """Unregister a dead broker, as `kafka-cluster.sh unregister` does.

        Its replicas and its dynamic configs remain, for when it starts again.
        """
        self._unregistered[broker_id] = self.brokers.pop(broker_id)

    @property
    def live_broker_ids(self) -> frozenset[int]:
        """Return the brokers that are not fenced."""
        return frozenset(b for b, broker in self.brokers.items() if not broker.is_fenced)

    def _fence_dead_brokers(self) -> bool:
        """Fence brokers whose session has ended; return whether there was one."""
        has_fenced = False
        for broker_id, broker in self.brokers.items():
            if broker.fenced_at is not None and broker.fenced_at <= self.now:
                broker.is_fenced = has_fenced = True
                broker.fenced_at = None
                for key, partition in self.partitions.items():
                    if broker_id in partition.replicas:
                        partition.lose(broker_id, self.live_broker_ids, self._min_isr(key.topic))
        return has_fenced

    def is_responding(self, broker_id: int) -> bool:
        """Return whether a broker is up and not frozen."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.is_up and not broker.is_frozen

    def current_quorum(self) -> Quorum:
        """Return `quorum`; without one that of the brokers, of which the first three vote."""
        if self.quorum is not None:
            return self.quorum
        now_ms = int(self.now * 1000)
        voter_ids = sorted(self.brokers)[:3]
        leader_id = min(self.live_broker_ids)
        nodes = []
        for broker_id in sorted(self.brokers):
            is_voter = broker_id in voter_ids or broker_id == leader_id
            seen_ms = now_ms if self.is_responding(broker_id) else None
            nodes.append(QuorumNode(broker_id, is_voter, now_ms, seen_ms))
        voters_first = tuple(sorted(nodes, key=lambda node: not node.is_voter))
        return Quorum(leader_id, 1, now_ms, voters_first)

    # -- time

    def advance(self, seconds: float) -> None:
        """Let time pass.

        It passes in steps: each ends when a replica has caught up or a broker is fenced, so that a
        reassignment completes at the instant its last replica is complete.
        """
        end = self.now + seconds
        growing = [p for p in self.partitions.values() if p.bytes_in_per_second]
        unsettled = self._unsettled()
        self._settle(unsettled)
        while self.now < end:
            transfers = list(find_transfers(unsettled, self.configs, self._responding_ids()))
            rates = transfer_rates(transfers, self.configs, self.full_speed_bytes_per_second)
            step_seconds = min([end - self.now, *self._seconds_to_events(rates)])
            for partition in growing:
                if partition.leader is not None:
                    partition.size_bytes += partition.bytes_in_per_second * step_seconds
            for transfer, bytes_per_second in rates:
                self._copy(transfer, bytes_per_second * step_seconds)
            self.now = end if step_seconds >= end - self.now else self.now + step_seconds
            if self._fence_dead_brokers():
                unsettled = self._unsettled()
            self._settle(unsettled)

    def _copy(self, transfer: Transfer, size_bytes: float) -> None:
        partition = self.partitions[transfer.key]
        copied_bytes = partition.copied.get(transfer.destination, 0.0) + size_bytes
        partition.copied[transfer.destination] = min(partition.size_bytes, copied_bytes)

    def _responding_ids(self) -> frozenset[int]:
        return frozenset(broker_id for broker_id in self.brokers if self.is_responding(broker_id))

    def _unsettled(self) -> dict[TopicPartition, SimulatedPartition]:
        """Return the partitions that can change as time passes: moving, or out of sync."""
        return {
            key: partition
            for key, partition in self.partitions.items()
            if partition.is_moving or len(partition.isr) < len(partition.replicas)
        }

    def _settle(self, partitions: Mapping[TopicPartition, SimulatedPartition]) -> None:
        """Add complete replicas to the ISR, and complete reassignments that are ready."""
        responding_ids = self._responding_ids()
        for key, partition in partitions.items():
            has_leader = partition.leader in responding_ids
            for broker_id in partition.behind(responding_ids) if has_leader else ():
                # Half a byte of tolerance, since the sums are floats.
                if partition.copied.get(broker_id, 0.0) >= partition.size_bytes - 0.5:
                    partition.join(broker_id, self._min_isr(key.topic))
            self.complete_if_ready(partition)

    def complete_if_ready(self, partition: SimulatedPartition) -> None:
        """Complete a reassignment that has nothing more to wait for, as this version of Kafka."""
        partition.complete_if_ready(
            self.live_broker_ids, waits_for_kept_replicas=self.kafka_version < (4, 3)
        )

    def _min_isr(self, topic: str) -> int | None:
        """Return the ISR below which replicas are eligible leaders; None before KIP-966."""
        return self.configs.min_isr(topic) if self.kafka_version >= (4, 1) else None

    def _seconds_to_events(self, rates: Iterable[tuple[Transfer, float]]) -> Iterator[float]:
        """Yield the seconds until each replica has caught up, and each dead broker is fenced."""
        for transfer, bytes_per_second in rates:
            partition = self.partitions[transfer.key]
            closing_rate = bytes_per_second - partition.bytes_in_per_second
            if closing_rate > 0:
                copied_bytes = partition.copied.get(transfer.destination, 0.0)
                yield max((partition.size_bytes - copied_bytes) / closing_rate, 1e-6)
        for broker in self.brokers.values():
            if broker.fenced_at is not None:
                yield max(broker.fenced_at - self.now, 0.0)


def _partition_like(row: Mapping[str, Any], live_ids: Collection[int]) -> SimulatedPartition:
    adding = tuple(row["adding_replicas"])
    isr = row["isr"]
    if isr is None:
        isr = [b for b in row["replicas"] if b in live_ids and b not in adding]
        isr = isr or row["replicas"][:1]
    return SimulatedPartition(
        replicas=tuple(row["replicas"]),
        isr=set(isr),
        leader=row["leader"],
        size_bytes=float(row["size_bytes"] or 0),
        bytes_in_per_second=float(row["bytes_in_per_second"] or 0),
        leader_epoch=row["leader_epoch"] or 0,
        adding=adding,
        removing=tuple(row["removing_replicas"]),
    )


def find_transfers(
    partitions: Mapping[TopicPartition, SimulatedPartition],
    configs: SimulatedConfigs,
    responding_ids: Collection[int],
) -> Iterator[Transfer]:
    """Yield the transfers from leaders to replicas that are behind, of brokers that respond."""
    for key, partition in partitions.items():
        source = partition.leader
        if source is None or source not in responding_ids:
            continue
        for destination in partition.behind(responding_ids):
            limits: list[Limit] = [("out", source), ("in", destination)]
            if _is_throttled(configs, key, source, LEADER_REPLICAS, LEADER_RATE):
                limits.append((LEADER_RATE, source))
            if _is_throttled(configs, key, destination, FOLLOWER_REPLICAS, FOLLOWER_RATE):
                limits.append((FOLLOWER_RATE, destination))
            yield Transfer(key, destination, tuple(limits))


def _is_throttled(
    configs: SimulatedConfigs, key: TopicPartition, broker_id: int, list_key: str, rate_key: str
) -> bool:
    has_rate = configs.rate(broker_id, rate_key) is not None
    return has_rate and configs.throttles(key.topic, key.partition, broker_id, list_key)


def transfer_rates(
    transfers: Sequence[Transfer], configs: SimulatedConfigs, full_speed: float
) -> list[tuple[Transfer, float]]:
    """Return each transfer with its bytes per second: the least of its shares."""
    transfer_counts: dict[Limit, int] = {}
    for transfer in transfers:
        for limit in transfer.limits:
            transfer_counts[limit] = transfer_counts.get(limit, 0) + 1

    def share(limit: Limit) -> float:
        kind, broker_id = limit
        rate = configs.rate(broker_id, kind) if kind in RATE_KEYS else full_speed
        return float(rate or 0) / transfer_counts[limit]

    return [(transfer, min(map(share, transfer.limits))) for transfer in transfers]
