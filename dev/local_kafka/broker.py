"""One broker of a local cluster: its directory, its configuration files and its JVM's settings.

    outside = Listener("OUTSIDE", 19092, advertised="kafka-4.example:9092")
    spec = BrokerSpec(4, "rack-d", properties={"num.io.threads": "2"}, listeners=(outside,))

Limits: listeners on 127.0.0.1, the first one plaintext; brokers read their configuration from files
only, so a change needs a restart.
"""

import base64
import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from dev.local_processes import free_ports

HOST = "127.0.0.1"
CONTROLLERS = 3  # among brokers, where none is a controller only

# For a small machine, and for tests: Kafka creates no topics and moves no leaders by itself.
DEFAULT_PROPERTIES: Mapping[str, str] = {
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "4",
    # By default an idle controller writes to the metadata log twice a second, which each broker
    # reads: a third of what a cluster costs that does nothing.
    "metadata.max.idle.interval.ms": "5000",
    # By default 128 MiB of heap, half of what a broker here has.
    "log.cleaner.dedupe.buffer.size": "4194304",
}

# Without log4j's shutdown hook the log also has the messages of a broker's shutdown.
_LOG4J = """\
<Configuration status="error" shutdownHook="disable">
  <Appenders>
    <Console name="out" target="{target}"><PatternLayout pattern="[%d] %p %m (%c)%n"/></Console>
  </Appenders>
  <Loggers><Root level="{level}"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""

# The serial collector and only the quick compiler: least memory and shortest start of a small JVM.
LIGHT_JVM = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Djava.awt.headless=true",
)


@dataclass(frozen=True, slots=True)
class Listener:
    """Another listener for clients; its certificates and logins are in the broker's properties."""

    name: str
    port: int
    protocol: str = "PLAINTEXT"
    advertised: str | None = None  # host:port; None: the address that it listens on

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"


@dataclass(frozen=True, slots=True)
class BrokerSpec:
    """A broker to start; its `properties` override those of the cluster."""

    broker_id: int
    rack: str | None  # None: without a rack
    properties: Mapping[str, str] = field(default_factory=dict)
    log_dirs: int = 1  # number of data directories
    listeners: tuple[Listener, ...] = ()
    is_only_controller: bool = False  # a controller without a broker


@dataclass(frozen=True, slots=True)
class BrokerHome:
    """A broker's directory and ports; `controller_port` is None when it is no controller."""

    spec: BrokerSpec
    directory: Path
    port: int
    controller_port: int | None

    @property
    def address(self) -> str:
        """Return host:port of the first listener for clients."""
        return f"{HOST}:{self.port}"

    @property
    def voter(self) -> str | None:
        """Return `id@host:port` of a controller; None: it is no controller."""
        if self.controller_port is None:
            return None
        return f"{self.spec.broker_id}@{HOST}:{self.controller_port}"

    @property
    def server_log(self) -> Path:
        """Return the file with the broker's output, that of its JVM included."""
        return self.directory / "server.log"

    @property
    def properties_file(self) -> Path:
        """Return the broker's server.properties."""
        return self.directory / "server.properties"

    @property
    def log_directories(self) -> tuple[Path, ...]:
        """Return the directories of its partitions."""
        return tuple(self.directory / f"data-{number}" for number in range(self.spec.log_dirs))

    def write_files(
        self, metadata_properties: Mapping[str, str], cluster_properties: Mapping[str, str]
    ) -> None:
        """Write server.properties and log4j2.xml.

        `metadata_properties` are those of this broker's part in KRaft or ZooKeeper.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        properties = {
            **DEFAULT_PROPERTIES,
            **metadata_properties,
            **cluster_properties,
            **self.spec.properties,
        }
        lines = [f"{key}={_escaped(value)}\n" for key, value in properties.items()]
        self.properties_file.write_text("".join(lines))
        write_log4j(self.directory / "log4j2.xml", "SYSTEM_OUT", "INFO")

    @property
    def features_file(self) -> Path:
        """Return the file with the first records of the metadata log: the features' levels."""
        return self.log_directories[0] / "bootstrap.checkpoint"

    def format(self, features: Path, cluster_id: str) -> None:
        """Format this broker's storage as Kafka's tool does; `features` is a file it has made."""
        for directory in self.log_directories:
            directory.mkdir(parents=True, exist_ok=True)
            ids = {
                "version": "1",
                "cluster.id": cluster_id,
                "node.id": str(self.spec.broker_id),
                "directory.id": new_id(),
            }
            lines = [f"{key}={value}\n" for key, value in ids.items()]
            (directory / "meta.properties").write_text("".join(lines))
        shutil.copy(features, self.features_file)

    def kraft_properties(self, voters: str) -> dict[str, str]:
        """Return the properties of a broker, a controller or both in KRaft mode.

        `voters` is `id@host:port` of each controller, separated by commas.
        """
        is_controller = self.controller_port is not None
        controller = [f"CONTROLLER://{HOST}:{self.controller_port}"] if is_controller else []
        roles = [] if self.spec.is_only_controller else ["broker"]
        return {
            "process.roles": ",".join([*roles, *(["controller"] if is_controller else [])]),
            "node.id": str(self.spec.broker_id),
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            **self._listener_properties(controller),
        }

    def zookeeper_properties(self, zookeeper: str) -> dict[str, str]:
        """Return the properties of a broker whose metadata is in ZooKeeper, at `host:port`."""
        return {
            "broker.id": str(self.spec.broker_id),
            "zookeeper.connect": zookeeper,
            "inter.broker.listener.name": "PLAINTEXT",
            **self._listener_properties(),
        }

    def _listener_properties(self, controller: Sequence[str] = ()) -> dict[str, str]:
        listeners = [f"PLAINTEXT://{self.address}"]
        advertised = [f"PLAINTEXT://{self.address}"]
        protocols = ["PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT"]
        for listener in self.spec.listeners:
            listeners.append(f"{listener.name}://{listener.address}")
            advertised.append(f"{listener.name}://{listener.advertised or listener.address}")
            protocols.append(f"{listener.name}:{listener.protocol}")
        if self.spec.is_only_controller:
            listeners, advertised = [], []
        return {
            **({} if self.spec.rack is None else {"broker.rack": self.spec.rack}),
            "listeners": ",".join([*listeners, *controller]),
            **({"advertised.listeners": ",".join(advertised)} if advertised else {}),
            "listener.security.protocol.map": ",".join(protocols),
            "log.dirs": ",".join(map(str, self.log_directories)),
        }


def choose_homes(
    directory: Path, specs: Sequence[BrokerSpec], *, with_controllers: bool
) -> list[BrokerHome]:
    """Return a home with free ports for each spec; only `with_controllers` some are controllers."""
    dedicated = [spec for spec in specs if spec.is_only_controller]
    combined = specs[: CONTROLLERS if len(specs) >= CONTROLLERS else 1]
    controllers = (dedicated or combined) if with_controllers else ()
    taken = {listener.port for spec in specs for listener in spec.listeners}
    ports = iter([p for p in free_ports(2 * len(specs) + len(taken)) if p not in taken])
    return [
        BrokerHome(
            spec,
            directory / f"broker-{spec.broker_id}",
            next(ports),
            next(ports) if spec in controllers else None,
        )
        for spec in specs
    ]


def brokers_in_racks(*racks: str) -> tuple[BrokerSpec, ...]:
    """Return brokers 1, 2, ... in these racks, in this order."""
    return tuple(BrokerSpec(broker_id, rack) for broker_id, rack in enumerate(racks, start=1))


def internal_topic_factors(broker_count: int) -> dict[str, str]:
    """Return the replication factors of Kafka's internal topics: 3, or the number of brokers."""
    names = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    return {f"{name}.replication.factor": str(min(3, broker_count)) for name in names}


def jvm_environment() -> dict[str, str]:
    """Return this environment without the variables from which a JVM reads options."""
    ignored = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
    return {key: value for key, value in os.environ.items() if key not in ignored}


def write_log4j(path: Path, target: str, level: str) -> None:
    """Write a log4j 2 configuration; `target` is SYSTEM_OUT or SYSTEM_ERR."""
    path.write_text(_LOG4J.format(target=target, level=level))


def _escaped(value: str) -> str:
    """Escape a value for java.util.Properties."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def new_id() -> str:
    """Return base64url of 16 bytes, as Kafka's Uuid.randomUuid.

    It has no leading dash, which tools take for an option.
    """
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def brokers_seen_by(address: str) -> set[int]:
    """Return the unfenced brokers in one broker's metadata; none when it does not respond yet.

    Not by librdkafka's DescribeCluster: it aborts the process where a broker of a ZooKeeper cluster
    has no metadata yet.
    """
    config: dict[str, Any] = {"bootstrap.servers": address, "log_level": 0}
    # librdkafka's errors say nothing: connections are refused while a broker starts.
    client = AdminClient(config | {"error_cb": lambda _error: None})
    try:
        return set(client.list_topics(timeout=1.0).brokers)
    except KafkaException:
        return set()
