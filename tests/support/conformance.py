"""One driver for two clusters, so that a test of `tests/conformance` runs on both.

    def test_a_cancelled_move_changes_the_order(cluster: Cluster) -> None:
        key = cluster.held_move((1, 2, 3), (4, 2, 3))
        cluster.admin.alter_reassignments({key: None})
        cluster.wait_until(lambda: cluster.partition(key).replicas == (2, 3, 1), "the cancel")

Five brokers, 1 to 5, in the racks a to e; on the real cluster the first three are the controllers
too. Broker 5 has the rates STATIC_RATES in its server.properties.

Limits: real brokers learn of a change a moment after the call, so tests wait for what they expect;
where nothing may happen they let some time pass.
"""

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import AdminClient

from counterpoise.kafka_admin import connect
from counterpoise.kafka_admin.broker_client import BrokerClient, BrokerRequest, write_deadline
from counterpoise.kafka_admin.cluster_admin import ClusterAdmin
from counterpoise.kafka_admin.config_requests import NO_RESPONSE
from counterpoise.kafka_admin.configs import alter_request
from counterpoise.kafka_admin.connection import ConnectionSettings
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import (
    EVERY_BROKER,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LIST_KEYS,
    RATE_KEYS,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    ConfigValue,
    PartitionDescription,
)
from dev.local_kafka import BrokerSpec, LocalKafka, TopicSpec, create_topics, fill, running
from dev.local_processes import wait_until
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.kafka_facts import CLUSTER_TOOL

MB: Final = 1_000_000
# More than the 1 MiB that Kafka lets pass of a throttled replica before it is held.
HELD_BYTES: Final = 8 * MB
SIMULATED_SECONDS: Final = 40.0  # in which everything happens on the simulated cluster
TIMEOUT_SECONDS: Final = 120.0  # on real brokers, on a busy machine
HASTY_SECONDS: Final = 5.0
BROKER_IDS: Final = (1, 2, 3, 4, 5)
RACKS: Final = dict(zip(BROKER_IDS, "abcde", strict=True))
STATIC_RATES: Final = {LEADER_RATE: "0", FOLLOWER_RATE: "0"}
SET, DELETE, APPEND, SUBTRACT = (
    ConfigOperation(word) for word in ("SET", "DELETE", "APPEND", "SUBTRACT")
)
DYNAMIC_SOURCES: Final = (ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_TOPIC)
PROPERTIES: Final = {"broker.session.timeout.ms": "6000"}


def topic(name: str) -> ConfigResource:
    return ConfigResource(ConfigResourceType.TOPIC, name)


def broker(broker_id: int) -> ConfigResource:
    return ConfigResource(ConfigResourceType.BROKER, str(broker_id))


def error_name(refusal: str) -> str:
    """Return the name of Kafka's error: "INVALID_CONFIG: Invalid value ..." is INVALID_CONFIG."""
    return refusal.partition(":")[0]


class Cluster(ABC):
    """A simulated or a real cluster; see the module's docstring."""

    admin: ClusterAdmin
    version: tuple[int, int]  # of Kafka

    # -- topics

    @abstractmethod
    def make_topic(self, *assignment: tuple[int, ...], name: str | None = None) -> str:
        """Create a topic with these replicas of its partitions; return its name."""
        ...

    @abstractmethod
    def delete_topic(self, name: str) -> None: ...

    @abstractmethod
    def produce(self, key: TopicPartition, size_bytes: int) -> None:
        """Write so many bytes; every in-sync replica has them afterwards."""
        ...

    # -- brokers

    @abstractmethod
    def kill(self, broker_id: int) -> None:
        """Kill a broker, and wait until it is fenced."""
        ...

    @abstractmethod
    def start(self, broker_id: int) -> None:
        """Start a broker that was killed, and wait until it is live."""
        ...

    @abstractmethod
    def freeze(self, broker_id: int) -> None: ...

    @abstractmethod
    def thaw(self, broker_id: int) -> None:
        """Resume a frozen broker, and wait until it is live."""
        ...

    @abstractmethod
    def wait_until_fenced(self, broker_id: int) -> None: ...

    @abstractmethod
    def unregister(self, broker_id: int) -> None: ...

    @abstractmethod
    @contextmanager
    def sending_to(self, broker_id: int) -> Iterator[ClusterAdmin]:
        """Yield an admin whose cluster-wide changes go to this broker, frozen or not."""
        ...

    # -- configs and time

    @abstractmethod
    def set_default(self, key: str, value: str | None) -> None:
        """Set a key as the dynamic default of all brokers; None deletes it."""
        ...

    @abstractmethod
    def wait_until(self, condition: Callable[[], bool], what: str) -> None: ...

    @abstractmethod
    def let_pass(self, seconds: float) -> None:
        """Let time pass in which nothing should happen."""
        ...

    # -- what both share

    @contextmanager
    def killed(self, broker_id: int) -> Iterator[None]:
        """Kill a broker for a while; afterwards it is live again."""
        self.kill(broker_id)
        try:
            yield
        finally:
            self.start(broker_id)

    @contextmanager
    def frozen(self, broker_id: int) -> Iterator[None]:
        """Freeze a broker for a while; afterwards it is live again."""
        self.freeze(broker_id)
        try:
            yield
        finally:
            self.thaw(broker_id)

    def partition(self, key: TopicPartition) -> PartitionDescription:
        """Return a partition as the cluster describes it."""
        (found,) = self.admin.describe_topics([key.topic])
        return found.partitions[key.partition]

    def is_in_sync(self, key: TopicPartition) -> bool:
        partition = self.partition(key)
        return set(partition.isr) == set(partition.replicas)

    def is_moving(self, key: TopicPartition) -> bool:
        return key in self.admin.list_reassignments()

    def refusal(self, key: TopicPartition, target: tuple[int, ...] | None) -> str:
        """Submit (None: cancel) and return the error's name; "" when accepted."""
        results = self.admin.alter_reassignments({key: target})
        return error_name(results.errors.get(key, ""))

    def election(self, key: TopicPartition) -> str:
        """Elect the preferred leader and return the error's name; "" when accepted."""
        return error_name(self.admin.elect_preferred_leaders([key]).errors.get(key, ""))

    def config(
        self, resource: ConfigResource, key: str, via_broker: int | None = None
    ) -> ConfigValue | None:
        """Return a value; None where the key is absent."""
        found = self.admin.describe_configs([resource], [key], via_broker=via_broker)
        return found[resource].get(key)

    def alter(
        self, resource: ConfigResource, key: str, operation: ConfigOperation, value: str = ""
    ) -> str:
        """Change one key and return the error's name; "" when accepted.

        A busy broker that does not answer in time is asked again.
        """
        change = ConfigChange(resource, key, operation, value)
        refusals: list[str] = []

        def is_answered() -> bool:
            refusals.append(self.admin.alter_configs([change]).errors.get(resource, ""))
            return not refusals[-1].startswith(NO_RESPONSE)

        self.wait_until(is_answered, f"an answer to the change of {key}")
        return error_name(refusals[-1])

    def altered(
        self, resource: ConfigResource, key: str, operation: ConfigOperation, value: str = ""
    ) -> ConfigValue | None:
        """Change one key, and return its new value, as every broker shows it."""
        before = self.config(resource, key)
        refusal = self.alter(resource, key, operation, value)
        assert refusal == "", refusal
        if operation is SET and before in [ConfigValue(value, s) for s in DYNAMIC_SOURCES]:
            return before
        via_brokers = BROKER_IDS if resource.is_topic else (None,)
        shown: list[set[ConfigValue | None]] = []

        def has_changed() -> bool:
            # In the middle of a change a broker shows the new source with the old value.
            shown.append({self.config(resource, key, via_broker) for via_broker in via_brokers})
            return len(shown[-1]) == 1 and before not in shown[-1] and shown[-1:] == shown[-2:-1]

        self.wait_until(has_changed, f"the change of {key}")
        return shown[-1].pop()

    def hold_followers(self, name: str, *broker_ids: int) -> None:
        """Stop the replicas of a topic from being copied to these brokers, by a rate of 0."""
        self.altered(topic(name), FOLLOWER_REPLICAS, SET, "*")
        for broker_id in broker_ids:
            self.altered(broker(broker_id), FOLLOWER_RATE, SET, "0")

    def release_followers(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self._delete_rate(broker(broker_id), FOLLOWER_RATE)

    def _delete_rate(self, resource: ConfigResource, key: str) -> None:
        """Delete a broker's own rate, also one that is about to be shown or to vanish."""

        def has_rate() -> bool:
            found = self.config(resource, key)
            return found is not None and found.source is ConfigSource.DYNAMIC_BROKER

        if has_rate():
            refusal = self.alter(resource, key, DELETE)
            assert refusal == "", refusal
            self.wait_until(lambda: not has_rate(), f"{key} to be deleted")

    def held_partition(self, replicas: tuple[int, ...]) -> TopicPartition:
        """Return a partition with data whose moves to other brokers are held by a throttle."""
        key = TopicPartition(self.make_topic(replicas), 0)
        self.produce(key, HELD_BYTES)
        self.hold_followers(key.topic, *(b for b in BROKER_IDS if b not in replicas))
        return key

    def held_move(self, replicas: tuple[int, ...], target: tuple[int, ...]) -> TopicPartition:
        """Return a partition on its way to `target`, where it does not get by itself."""
        key = self.held_partition(replicas)
        assert self.refusal(key, target) == ""
        self.wait_until(lambda: self.is_moving(key), "the move")
        return key

    def clean_up(self) -> None:
        """Delete the rates that a test has left."""
        resources = [broker(broker_id) for broker_id in BROKER_IDS]
        for resource, values in self.admin.describe_configs(resources, RATE_KEYS).items():
            for key in values:
                self._delete_rate(resource, key)


class SimulatedBrokers(Cluster):
    """The simulated cluster, as a version of Kafka."""

    def __init__(self, version: tuple[int, int] = (4, 3)) -> None:
        self.version = version
        self.world = SimulatedCluster(kafka_version=version)
        for broker_id, rack in RACKS.items():
            self.world.add_broker(broker_id, rack)
        self.world.configs.static[5] = dict(STATIC_RATES)
        self.admin = self.world
        self._names = (f"topic-{number}" for number in count(1))

    def make_topic(self, *assignment: tuple[int, ...], name: str | None = None) -> str:
        name = name or next(self._names)
        self.world.create_topic(name, assignment)
        return name

    def delete_topic(self, name: str) -> None:
        self.world.delete_topic(name)

    def produce(self, key: TopicPartition, size_bytes: int) -> None:
        self.world.partitions[key].size_bytes += size_bytes

    def kill(self, broker_id: int) -> None:
        self.world.kill_broker(broker_id)

    def start(self, broker_id: int) -> None:
        self.world.restart_broker(broker_id)

    def freeze(self, broker_id: int) -> None:
        self.world.freeze_broker(broker_id)

    def thaw(self, broker_id: int) -> None:
        self.world.thaw_broker(broker_id)

    def wait_until_fenced(self, broker_id: int) -> None:
        self.wait_until(lambda: self.world.brokers[broker_id].is_fenced, "the broker to be fenced")

    def unregister(self, broker_id: int) -> None:
        self.world.unregister_broker(broker_id)

    @contextmanager
    def sending_to(self, broker_id: int) -> Iterator[ClusterAdmin]:
        self.world.addressed_broker = broker_id
        try:
            yield self.admin
        finally:
            self.world.addressed_broker = None

    def set_default(self, key: str, value: str | None) -> None:
        if value is None:
            del self.world.configs.broker_defaults[key]
        else:
            self.world.configs.broker_defaults[key] = value

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        until = self.world.now + SIMULATED_SECONDS
        while not condition():
            assert self.world.now < until, f"waited in vain for {what}"
            self.world.advance(0.25)

    def let_pass(self, seconds: float) -> None:
        self.world.advance(seconds)


class RealBrokers(Cluster):
    """Real brokers of any version that `local_kafka` starts."""

    def __init__(self, kafka: LocalKafka, admin: ClusterAdmin) -> None:
        self.kafka = kafka
        self.admin = admin
        self.version = version_numbers(kafka.version)
        self._names = (f"topic-{uuid.uuid4().hex[:8]}" for _ in count())

    @classmethod
    @contextmanager
    def started(cls, directory: Path, version: str) -> Iterator["RealBrokers"]:
        """Yield a started cluster, and stop it afterwards."""
        specs = [
            BrokerSpec(broker_id, rack, STATIC_RATES if broker_id == 5 else {})
            for broker_id, rack in RACKS.items()
        ]
        with ExitStack() as stack:
            kafka = stack.enter_context(running(directory, specs, PROPERTIES, version=version))
            admin = connect(_settings(kafka), request_timeout_seconds=30.0)
            stack.enter_context(closing(admin))
            admin.describe_cluster()  # there is a connection
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            patch.setattr(admin._broker_client._liveness_probe, "first_responding", _first_broker)
            yield cls(kafka, admin)

    def make_topic(self, *assignment: tuple[int, ...], name: str | None = None) -> str:
        name = name or next(self._names)
        create_topics(self.kafka.bootstrap_string, [TopicSpec(name, assignment)])
        for broker_id in self.kafka.live_brokers:
            self.wait_until(lambda b=broker_id: self._knows(b, name), "the topic at each broker")
        return name

    def _knows(self, broker_id: int, name: str) -> bool:
        found = self.admin.describe_configs([topic(name)], LIST_KEYS, via_broker=broker_id)
        return topic(name) in found

    def delete_topic(self, name: str) -> None:
        client = AdminClient({"bootstrap.servers": self.kafka.bootstrap_string})
        client.delete_topics([name])[name].result()
        self.wait_until(lambda: not self.admin.describe_topics([name]), "the topic to be gone")

    def produce(self, key: TopicPartition, size_bytes: int) -> None:
        fill(self.kafka.bootstrap_string, key.topic, {key.partition: size_bytes})

    def kill(self, broker_id: int) -> None:
        self.kafka.kill_broker(broker_id)
        self.wait_until_fenced(broker_id)

    def start(self, broker_id: int) -> None:
        self.kafka.restart_broker(broker_id)
        self._wait_until_live(broker_id)

    def freeze(self, broker_id: int) -> None:
        self.kafka.freeze_broker(broker_id)

    def thaw(self, broker_id: int) -> None:
        self.kafka.thaw_broker(broker_id)
        self.kafka.wait_until_ready()
        self._wait_until_live(broker_id)

    def _wait_until_live(self, broker_id: int) -> None:
        def is_live() -> bool:
            responding = self.admin.describe_versions([broker_id])
            return bool(responding) and broker_id in self.admin.describe_cluster().live_broker_ids

        self.wait_until(is_live, f"broker {broker_id} to be live")

    def wait_until_fenced(self, broker_id: int) -> None:
        self.kafka.wait_until_fenced(broker_id)

    def unregister(self, broker_id: int) -> None:
        address = ("--bootstrap-server", self.kafka.bootstrap_string)
        self.kafka.tool(CLUSTER_TOOL, "unregister", *address, "--id", str(broker_id))

    @contextmanager
    def sending_to(self, broker_id: int) -> Iterator[ClusterAdmin]:
        admin = connect(_settings(self.kafka), request_timeout_seconds=HASTY_SECONDS)
        with closing(admin), pytest.MonkeyPatch.context() as patch:
            admin.describe_topics()
            admin.describe_versions([broker_id])  # a connection is there
            patch.setattr(admin._broker_client, "responding_broker_id", lambda: broker_id)
            yield admin

    def set_default(self, key: str, value: str | None) -> None:
        operation = DELETE if value is None else SET
        change = ConfigChange(EVERY_BROKER, key, operation, value or "")
        request = BrokerRequest(1, alter_request({EVERY_BROKER: [change]}))
        with closing(BrokerClient(_settings(self.kafka), TIMEOUT_SECONDS)) as client:
            (response,) = client.write_each([request], write_deadline())
        assert [result.error_code for result in response.responses] == [0]

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        wait_until(condition, what, TIMEOUT_SECONDS)

    def let_pass(self, seconds: float) -> None:
        time.sleep(seconds)


async def _first_broker(_manager: object) -> int:
    """Return broker 1, which no test stops: what one call has shown, the next one shows, too."""
    return 1


def _settings(kafka: LocalKafka) -> ConnectionSettings:
    return ConnectionSettings.parse({"bootstrap.servers": kafka.bootstrap_string})


def version_numbers(version: str) -> tuple[int, int]:
    major, minor, *_ = map(int, version.split("."))
    return major, minor
