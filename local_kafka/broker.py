"""What one broker of a local cluster is: its place, its configuration files and its command lines.

    spec = BrokerSpec(4, "rack-d", properties={"num.io.threads": "2"})
    spec = BrokerSpec(4, "rack-d", listeners=(Listener("OUTSIDE", 19092, advertised="kafka-4.example:9092"),))

Limits: listeners on 127.0.0.1, the first one plaintext; brokers take their configuration from files
only, so a change needs a restart.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

HOST = "127.0.0.1"

# Fit for a small machine and for tests that watch what happens: nothing is created or moved behind
# our back.
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
    # The cleaner's map is 128 MiB of heap by default, half of what a broker here has.
    "log.cleaner.dedupe.buffer.size": "4194304",
}

# Without a shutdown hook of its own the log also has what a broker says on its way out.
_LOG4J = """\
<Configuration status="error" shutdownHook="disable">
  <Appenders>
    <Console name="out" target="{target}"><PatternLayout pattern="[%d] %p %m (%c)%n"/></Console>
  </Appenders>
  <Loggers><Root level="{level}"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""

# The serial collector and the quick compiler alone: the least memory and the shortest start for
# JVMs this small.
LIGHT_JVM = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Djava.awt.headless=true",
)


@dataclass(frozen=True, slots=True)
class Listener:
    """One more listener for clients; what else it needs (certificates, logins) is in `properties`."""

    name: str
    port: int
    protocol: str = "PLAINTEXT"
    advertised: str | None = None  # host:port; None: where it is

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"


@dataclass(frozen=True, slots=True)
class BrokerSpec:
    """A broker to start; `properties` go over the cluster's, `log_dirs` is the number of its data
    directories.
    """

    broker_id: int
    rack: str | None  # None: it names none
    properties: Mapping[str, str] = field(default_factory=dict)
    log_dirs: int = 1
    listeners: tuple[Listener, ...] = ()


@dataclass(frozen=True, slots=True)
class BrokerHome:
    """A broker's place on disk and its ports; `controller_port` is None when it is no controller."""

    spec: BrokerSpec
    directory: Path
    port: int
    controller_port: int | None

    @property
    def address(self) -> str:
        """host:port of the listener for clients."""
        return f"{HOST}:{self.port}"

    @property
    def server_log(self) -> Path:
        """All that the broker says, its JVM's last words included."""
        return self.directory / "server.log"

    @property
    def properties_file(self) -> Path:
        """The broker's server.properties."""
        return self.directory / "server.properties"

    @property
    def log_directories(self) -> tuple[Path, ...]:
        """Where its partitions are."""
        return tuple(self.directory / f"data-{number}" for number in range(self.spec.log_dirs))

    def write_files(self, voters: str, cluster_properties: Mapping[str, str]) -> None:
        """Write server.properties and log4j2.xml; `voters` is `id@host:port` of each controller,
        with commas.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        properties = {
            **DEFAULT_PROPERTIES,
            **self._own(voters),
            **cluster_properties,
            **self.spec.properties,
        }
        self.properties_file.write_text(
            "".join(f"{key}={_escaped(value)}\n" for key, value in properties.items())
        )
        write_log4j(self.directory / "log4j2.xml", "SYSTEM_OUT", "INFO")

    def _own(self, voters: str) -> dict[str, str]:
        listeners = [f"PLAINTEXT://{self.address}"]
        if self.controller_port is not None:
            listeners.append(f"CONTROLLER://{HOST}:{self.controller_port}")
        more = self.spec.listeners
        listeners += [f"{one.name}://{one.address}" for one in more]
        advertised = [
            f"PLAINTEXT://{self.address}",
            *(f"{one.name}://{one.advertised or one.address}" for one in more),
        ]
        protocols = [
            "PLAINTEXT:PLAINTEXT",
            "CONTROLLER:PLAINTEXT",
            *(f"{one.name}:{one.protocol}" for one in more),
        ]
        return {
            "process.roles": "broker" if self.controller_port is None else "broker,controller",
            "node.id": str(self.spec.broker_id),
            **({} if self.spec.rack is None else {"broker.rack": self.spec.rack}),
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join(listeners),
            "advertised.listeners": ",".join(advertised),
            "listener.security.protocol.map": ",".join(protocols),
            "log.dirs": ",".join(map(str, self.log_directories)),
        }


def write_log4j(path: Path, target: str, level: str) -> None:
    """A log4j 2 configuration that writes to SYSTEM_OUT or SYSTEM_ERR."""
    path.write_text(_LOG4J.format(target=target, level=level))


def _escaped(value: str) -> str:
    """A value as java.util.Properties reads it."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")
