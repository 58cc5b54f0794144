"""What a simulated cluster is, apart from the calls it takes: brokers, partitions, faults, and time
that passes.

    world = SimulatedWorld.like(snapshot)
    world.freeze_broker(2)
    world.advance(9.0)  # its session has ended: its partitions are led by others

Time passes in `advance` alone; copies progress at the pace of Kafka's throttles
(`simulated_copying.py`).

Limits: partitions grow by `bytes_in_per_second` of the snapshot; a broker that comes back has lost
nothing.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from counterpoise.kafka_admin.simulated_configs import SimulatedConfigs
from counterpoise.kafka_admin.simulated_copying import Transfer, speeds, transfers
from counterpoise.kafka_admin.simulated_partition import SimulatedPartition
from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
from counterpoise.model.inspection import FeatureLevel, GroupMembers, Quorum, QuorumVoter
from counterpoise.model.kafka import BrokerVersion, ConfigResource, ConfigResourceType
from counterpoise.model.tables import TOPIC_CONFIGS

FULL_SPEED_BYTES_PER_SECOND: Final = 100_000_000
SESSION_TIMEOUT_SECONDS: Final = 9.0
FEATURES: Final = {"metadata.version": FeatureLevel(29, 7, 29)}  # the same
VERSION: Final = BrokerVersion(
    "simulated", 29
)  # what every broker speaks unless a test says otherwise


@dataclass(slots=True)
class SimulatedBroker:
    rack: str | None
    is_up: bool = True
    is_fenced: bool = False
    fenced_at: float | None = None  # when a dead or frozen one will be noticed
    disk_total_bytes: int | None = None
    is_frozen: bool = False
    held: list[Callable[[], object]] = field(
        default_factory=list
    )  # changes that came in while it was frozen


@dataclass
class SimulatedWorld:
    """See the module's text."""

    cluster_id: str = "simulated"
    full_speed_bytes_per_second: float = FULL_SPEED_BYTES_PER_SECOND
    now: float = 0.0  # seconds
    brokers: dict[int, SimulatedBroker] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    partitions: dict[TopicPartition, SimulatedPartition] = field(default_factory=dict)
    configs: SimulatedConfigs = field(default_factory=SimulatedConfigs)
    versions: dict[int, BrokerVersion] = field(default_factory=dict)
    features: dict[int, dict[str, FeatureLevel]] = field(
        default_factory=dict
    )  # of brokers that differ from FEATURES
    quorum: Quorum | None = None  # None: the first three brokers vote
    eligible_leaders: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    groups: list[GroupMembers] = field(default_factory=list)

    # -- building

    @classmethod
    def like(cls, snapshot: ClusterSnapshot) -> Self:
        """A cluster that looks like `snapshot`, reassignments under way included (nothing is copied
        yet).
        """
        cluster = cls(cluster_id=snapshot.cluster_id)
        for row in snapshot.brokers.to_pylist():
            dead, disk = row["is_fenced"], row["disk_total_bytes"]
            cluster.brokers[row["broker_id"]] = SimulatedBroker(
                row["rack"], not dead, dead, disk_total_bytes=disk
            )
            cluster.versions[row["broker_id"]] = VERSION
        for row in snapshot.topics.to_pylist():
            cluster.topic_ids[row["topic"]] = row["topic_id"] or str(
                uuid.uuid5(uuid.NAMESPACE_DNS, row["topic"])
            )
            if set_there := {
                key: str(row[column])
                for column, key in TOPIC_CONFIGS.items()
                if row[column] is not None
            }:
                cluster.configs.dynamic[ConfigResource(ConfigResourceType.TOPIC, row["topic"])] = (
                    set_there
                )
        for row in snapshot.throttles.to_pylist():
            resource = ConfigResource(
                ConfigResourceType(row["resource_type"]), row["resource_name"]
            )
            cluster.configs.dynamic.setdefault(resource, {})[row["key"]] = row["value"]
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
        self.versions[broker_id] = VERSION

    def delete_topic(self, topic: str) -> None:
        """Somebody deletes a topic, with its configs."""
        del self.topic_ids[topic]
        self.partitions = {key: p for key, p in self.partitions.items() if key.topic != topic}
        self.configs.dynamic.pop(ConfigResource(ConfigResourceType.TOPIC, topic), None)

    # -- faults

    def kill_broker(self, broker_id: int, *, noticed: bool = True) -> None:
        """It answers nobody any more.

        Unless `noticed`, the cluster takes it for live for another session timeout.
        """
        broker = self.brokers[broker_id]
        broker.is_up = broker.is_frozen = False
        broker.held.clear()
        broker.fenced_at = self.now if noticed else self.now + SESSION_TIMEOUT_SECONDS
        self._notice_the_dead()

    def freeze_broker(self, broker_id: int) -> None:
        """SIGSTOP: it answers nobody, and counts as live until its session has ended.

        Changes routed to it are held: they happen when it is thawed, whatever the caller believes
        by then.
        """
        broker = self.brokers[broker_id]
        broker.is_frozen = True
        broker.fenced_at = self.now + SESSION_TIMEOUT_SECONDS

    def thaw_broker(self, broker_id: int) -> None:
        """SIGCONT: it is back, and carries out what it held, in order."""
        broker = self.brokers[broker_id]
        held, broker.held = broker.held, []
        self.restart_broker(broker_id)
        for change in held:
            change()

    def restart_broker(self, broker_id: int) -> None:
        """It is back, with its data and configs; what it missed it copies as time passes."""
        broker = self.brokers[broker_id]
        broker.is_up, broker.is_frozen, broker.is_fenced, broker.fenced_at = (
            True,
            False,
            False,
            None,
        )
        broker.held.clear()
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

    def answers(self, broker_id: int) -> bool:
        """Whether it is up, and not frozen."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.is_up and not broker.is_frozen

    def quorum_now(self) -> Quorum:
        """What the quorum's leader tells: `quorum`, or that of brokers, of which the first three
        vote.
        """
        if self.quorum is not None:
            return self.quorum
        now_ms, voters = int(self.now * 1000), sorted(self.brokers)[:3]
        leader = min(self.live_broker_ids)
        nodes = [
            QuorumVoter(b, b in voters or b == leader, now_ms, seen, seen)
            for b in sorted(self.brokers)
            for seen in (now_ms if self.answers(b) else None,)
        ]
        return Quorum(leader, 1, now_ms, tuple(sorted(nodes, key=lambda node: not node.is_voter)))

    # -- time

    def advance(self, seconds: float) -> None:
        """Let time pass: copies grow, and each reassignment ends at the instant its last copy is
        whole.
        """
        end = self.now + seconds
        growing = [p for p in self.partitions.values() if p.bytes_in_per_second]
        unsettled = self._unsettled()
        self._settle(unsettled)
        while self.now < end:
            copying = list(transfers(unsettled, self.configs, self._up()))
            paces = speeds(copying, self.configs, self.full_speed_bytes_per_second)
            step = min([end - self.now, *self._seconds_to_events(paces)])
            for partition in growing:
                partition.size_bytes += (
                    0.0 if partition.leader is None else partition.bytes_in_per_second * step
                )
            for transfer, speed in paces:
                partition, at = self.partitions[transfer.key], transfer.destination
                partition.copied[at] = min(
                    partition.size_bytes, partition.copied.get(at, 0.0) + speed * step
                )
            self.now = end if step >= end - self.now else self.now + step
            if self._notice_the_dead():
                unsettled = self._unsettled()
            self._settle(unsettled)

    def _up(self) -> frozenset[int]:
        return frozenset(broker_id for broker_id in self.brokers if self.answers(broker_id))

    def _unsettled(self) -> dict[TopicPartition, SimulatedPartition]:
        """Partitions with something to do; only these can change as time passes."""
        return {
            key: p
            for key, p in self.partitions.items()
            if p.is_moving or len(p.isr) < len(p.replicas)
        }

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
