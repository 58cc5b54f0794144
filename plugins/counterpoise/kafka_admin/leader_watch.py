"""Follows which broker leads what, by metadata requests again and again, as clients send them.

    with closing(LeaderWatch(settings, connectivity, topics=("orders",))) as watch:
        for change in watch.observe(): ...   # orders-1: 3 -> 1, 4.2 s after broker 3 last responded

Beside each observation the brokers that lead get a small request. So it is known for how long an
old leader has not responded.

Limits: brokers are probed only where at most 50 lead; changes that come and go between two
observations are not seen.
"""

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import kafka.errors as kafka_errors

from counterpoise.errors import BrokerUnresponsiveError, ClusterError
from counterpoise.kafka_admin import reading
from counterpoise.kafka_admin.address_connection import AddressConnection
from counterpoise.kafka_admin.connection import ConnectionSettings
from counterpoise.kafka_admin.connectivity import AddressClient
from counterpoise.kafka_admin.endpoint import EndpointChecker
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.connectivity import ConnectivityCheck, LeaderChange
from counterpoise.model.kafka import PartitionDescription, TopicDescription

_RESPONSE_SECONDS: Final = 2.0
_ALL_TOPICS_SECONDS: Final = 30.0
_MAX_PROBED_BROKERS: Final = 50
_UNRESPONSIVE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class _LastLeader:
    """The last observation at which a partition had this leader."""

    topic_id: str  # of a deleted and recreated topic, epochs start from the beginning
    state: PartitionDescription
    observed_at: float  # time.monotonic()


class LeaderWatch:
    """Compares each observation with the one before; only one thread calls `observe`."""

    def __init__(
        self,
        settings: ConnectionSettings,
        connectivity: ConnectivityCheck,
        *,
        topics: Sequence[str] = (),
    ) -> None:
        reachable = [check.address for check in connectivity.endpoints if check.is_reachable]
        self._settings = settings
        self._topics = tuple(topics) or None
        self._addresses = list(dict.fromkeys(reachable))
        self._client: AddressClient | None = None
        self._last_leaders: dict[TopicPartition, _LastLeader] = {}
        self._leader_ids: dict[TopicPartition, int | None] = {}
        self._probes = _LivenessProbes(settings, connectivity)

    def close(self) -> None:
        self._probes.close()
        if self._client is not None:
            self._client.close()

    def observe(self) -> tuple[LeaderChange, ...]:
        """Return what changed since the observation before, by partition; at first nothing.

        Raises ClusterError when no address responds.
        """
        topics = self._describe()
        now = time.monotonic()
        changes: list[LeaderChange] = []
        leader_ids: set[int] = set()
        for topic in topics:
            for partition in topic.partitions:
                key = TopicPartition(topic.topic, partition.partition)
                if self._is_outdated(key, topic.topic_id, partition):
                    continue
                if key in self._leader_ids and self._leader_ids[key] != partition.leader:
                    changes.append(self._change(key, partition, now))
                self._leader_ids[key] = partition.leader
                if partition.leader is not None:
                    self._last_leaders[key] = _LastLeader(topic.topic_id, partition, now)
                    leader_ids.add(partition.leader)
        self._probes.start(leader_ids)
        return tuple(sorted(changes, key=lambda change: change.topic_partition))

    def _is_outdated(
        self, key: TopicPartition, topic_id: str, partition: PartitionDescription
    ) -> bool:
        """Return whether the broker that responded has older metadata than one before it."""
        last = self._last_leaders.get(key)
        if last is None or last.topic_id != topic_id:
            return False
        return (partition.leader_epoch or 0) < (last.state.leader_epoch or 0)

    def _change(
        self, key: TopicPartition, partition: PartitionDescription, now: float
    ) -> LeaderChange:
        last = self._last_leaders.get(key)
        before = last.state.leader if last else None
        unresponsive = None if before is None else self._probes.unresponsive_seconds(before, now)
        return LeaderChange(
            key,
            before=before,
            after=partition.leader,
            was_in_sync=last is not None and partition.leader in last.state.isr,
            seconds=now - last.observed_at if last else 0.0,
            unresponsive_seconds=unresponsive,
        )

    def _describe(self) -> tuple[TopicDescription, ...]:
        """Read the topics from the address that responded last, else from the next one."""
        reasons: list[str] = []
        for _ in range(len(self._addresses)):
            try:
                if self._client is None:
                    self._client = AddressClient(
                        self._settings,
                        self._addresses[0],
                        response_seconds=(
                            _RESPONSE_SECONDS if self._topics else _ALL_TOPICS_SECONDS
                        ),
                    )
                return reading.describe_topics(self._client, self._topics)
            except ClusterError as error:
                reasons.append(str(error))
                if self._client is not None:
                    self._client.close()
                    self._client = None
                self._addresses.append(self._addresses.pop(0))
        raise BrokerUnresponsiveError(f"no address answers any more: {'; '.join(reasons)}")


class _LivenessProbes:
    """When each broker last responded; each probe has its own thread, so none delays another."""

    def __init__(self, settings: ConnectionSettings, connectivity: ConnectivityCheck) -> None:
        endpoint = connectivity.answered_by
        metadata = endpoint.metadata if endpoint else None
        brokers = metadata.brokers if metadata else ()
        now = time.monotonic()
        self._checker = EndpointChecker(settings, response_seconds=_RESPONSE_SECONDS)
        self._brokers = {broker.broker_id: broker for broker in brokers}
        self._responded_at = {
            broker_id: now
            for broker_id, check in connectivity.advertised.items()
            if check.is_reachable
        }
        self._connections: dict[int, AddressConnection] = {}
        self._running: dict[int, Future[None]] = {}
        self._pool = ThreadPoolExecutor(_MAX_PROBED_BROKERS)

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        for connection in self._connections.values():
            connection.close()

    def start(self, broker_ids: set[int]) -> None:
        """Probe each broker that has no probe running."""
        known_ids = sorted(broker_ids & self._brokers.keys())
        if len(known_ids) > _MAX_PROBED_BROKERS:
            return
        for broker_id in known_ids:
            running = self._running.get(broker_id)
            if running is None or running.done():
                self._running[broker_id] = self._pool.submit(self._probe, broker_id)

    def unresponsive_seconds(self, broker_id: int, now: float) -> float | None:
        """Return the seconds since a broker last responded.

        None where that is less than a second ago, or it never did.
        """
        responded_at = self._responded_at.get(broker_id)
        if responded_at is None or now - responded_at < _UNRESPONSIVE_SECONDS:
            return None
        return now - responded_at

    def _probe(self, broker_id: int) -> None:
        broker = self._brokers[broker_id]
        connection = self._connections.pop(broker_id, None)
        try:
            connection = connection or self._checker.connect(broker.host, broker.port)
            connection.request_api_versions(_RESPONSE_SECONDS)
        except (OSError, kafka_errors.KafkaError, ClusterError):
            if connection is not None:
                connection.close()
            return
        self._responded_at[broker_id] = time.monotonic()
        self._connections[broker_id] = connection
