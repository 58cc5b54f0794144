"""A real multi-broker Kafka cluster as child processes on loopback.

    with LocalKafka(tmp_path, brokers=brokers_in_racks("a", "b", "c")) as kafka:
        orders = TopicSpec("orders", partitions=12, replication_factor=3)
        create_topics(kafka.bootstrap_string, [orders])
        kafka.add_broker(4, "d")
        kafka.kill_broker(1)

The first three brokers are also controllers (with fewer than three brokers, the first), so any
single broker may die. Later ones are brokers only; where a spec is one of a controller without a
broker, all brokers are. With `with_zookeeper`, up to Kafka 3.9, there are no such controllers: one
ZooKeeper server keeps the metadata. No broker outlives this process (see `local_processes`). One
thread uses one cluster.

Limits: 256 MiB of heap are enough for a few hundred partitions per broker; use `heap="-Xmx1g"` for
thousands.
"""

import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

from counterpoise.errors import CounterpoiseError
from counterpoise.java_runtime import java_executable
from dev.local_kafka.broker import (
    LIGHT_JVM,
    BrokerHome,
    BrokerSpec,
    Listener,
    brokers_in_racks,
    brokers_seen_by,
    choose_homes,
    internal_topic_factors,
    jvm_environment,
    new_id,
    write_log4j,
)
from dev.local_kafka.jars import (
    KAFKA_VERSION,
    WRITES_ARCHIVE,
    class_archive_of,
    class_archive_options,
    features_of,
    kafka_jars,
    keep,
    locked,
    options_to_write_archive,
)
from dev.local_kafka.zookeeper import LocalZooKeeper
from dev.local_processes import Process, run, start, wait_until

DEFAULT_HEAP = "-Xmx256m"
START_TIMEOUT_SECONDS = 240.0
STOP_GRACE_SECONDS = 120.0
# Brokers that end together cannot shut down in order, since their controllers end, too.
ORPHAN_GRACE_SECONDS = 1.0


class LocalKafkaError(CounterpoiseError):
    """A local cluster cannot do what was requested, or one of Kafka's tools failed."""


class LocalKafka:
    """See the module's docstring.

    Data and logs (`broker-N/server.log`) remain in `directory` after the end.
    """

    def __init__(
        self,
        directory: Path,
        brokers: int | Sequence[BrokerSpec] = 3,
        properties: Mapping[str, str] | None = None,
        heap: str = DEFAULT_HEAP,
        version: str = KAFKA_VERSION,
        jvm_options: Sequence[str] = (),
        with_zookeeper: bool = False,
    ) -> None:
        self.directory = directory
        self.version = version
        self.cluster_id = new_id()
        self._specs = _specs(brokers)
        broker_count = sum(not spec.is_only_controller for spec in self._specs)
        self._properties = {**internal_topic_factors(broker_count), **(properties or {})}
        self._heap = heap
        self._jvm_options = tuple(jvm_options)
        self._homes: dict[int, BrokerHome] = {}
        self._processes: dict[int, Process] = {}
        self._frozen: set[int] = set()
        self._voters = ""
        self._zookeeper = LocalZooKeeper(directory / "zookeeper") if with_zookeeper else None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # -- the whole cluster

    def start(self) -> None:
        """Start all brokers and wait until each responds and knows the others.

        Raises ChildFailedError.
        """
        if self._processes:
            raise LocalKafkaError(f"the cluster in {self.directory} is running already")
        if WRITES_ARCHIVE not in " ".join(self._jvm_options):
            _archive_classes(self.version)
        try:
            if self._zookeeper:
                self._zookeeper.start(self._java(self._tools_log4j, DEFAULT_HEAP))
            if not self._homes:
                self._prepare(self._specs)
            for broker_id in self._homes:
                self._launch(broker_id)
            self.wait_until_ready()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all brokers at once, as a power cut would.

        An orderly shutdown would hand over leaders, which is of no use when all brokers end.
        """
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
        self._processes.clear()
        self._frozen.clear()
        if self._zookeeper:
            self._zookeeper.stop()

    def wait_until_ready(self, timeout_seconds: float = START_TIMEOUT_SECONDS) -> None:
        """Wait until every live broker lists every live broker in its own metadata.

        Raises ChildFailedError.
        """
        expected = set(self.live_brokers)
        not_ready = list(self.live_brokers)

        def are_all_ready() -> bool:
            while not_ready and expected <= brokers_seen_by(self._homes[not_ready[0]].address):
                not_ready.pop(0)
            return not not_ready

        processes = [self._processes[broker_id] for broker_id in expected]
        what = f"brokers {sorted(expected)} to be ready"
        wait_until(are_all_ready, what, timeout_seconds, processes)

    @property
    def live_brokers(self) -> tuple[int, ...]:
        """Return the ids of the brokers that run and are not frozen."""
        running_ids = {
            node_id
            for node_id, process in self._processes.items()
            if process.poll() is None and not self._homes[node_id].spec.is_only_controller
        }
        return tuple(sorted(running_ids - self._frozen))

    @property
    def bootstrap(self) -> list[str]:
        """Return host:port of each live broker."""
        return [self._homes[broker_id].address for broker_id in self.live_brokers]

    @property
    def bootstrap_string(self) -> str:
        """Return `bootstrap` as the text of `bootstrap.servers`."""
        return ",".join(self.bootstrap)

    @property
    def processes(self) -> dict[int, Process]:
        """Return the process of each broker that was started and not stopped, by broker id."""
        return dict(self._processes)

    # -- one broker

    def home(self, broker_id: int) -> BrokerHome:
        """Return a broker's directories, port and log.

        Raises LocalKafkaError for an unknown broker.
        """
        if broker_id not in self._homes:
            raise LocalKafkaError(
                f"there is no broker {broker_id}; there are {sorted(self._homes)}"
            )
        return self._homes[broker_id]

    def add_broker(
        self,
        broker_id: int,
        rack: str,
        properties: Mapping[str, str] | None = None,
        log_dirs: int = 1,
        listeners: tuple[Listener, ...] = (),
    ) -> None:
        """Start one more broker (no controller), and wait until all brokers know it."""
        if broker_id in self._homes:
            raise LocalKafkaError(f"there is a broker {broker_id} already")
        self._prepare([BrokerSpec(broker_id, rack, properties or {}, log_dirs, listeners)])
        self._launch(broker_id)
        self.wait_until_ready()

    def stop_broker(self, broker_id: int) -> None:
        """Stop a broker in order: it hands over its leaders first."""
        self._end(broker_id).stop(STOP_GRACE_SECONDS)

    def kill_broker(self, broker_id: int) -> None:
        """Send SIGKILL to a broker and wait for its end.

        The cluster fences it after `broker.session.timeout.ms`.
        """
        process = self._end(broker_id)
        process.kill()
        process.wait()

    def freeze_broker(self, broker_id: int) -> None:
        """Freeze a broker (SIGSTOP): its connections stay open, and it responds to nothing."""
        self._process(broker_id).freeze()
        self._frozen.add(broker_id)

    def wait_until_fenced(self, broker_id: int) -> None:
        """Wait until the broker's session has ended, and no live broker lists it any more."""

        def is_fenced() -> bool:
            brokers_seen = map(brokers_seen_by, self.bootstrap)
            return all(seen and broker_id not in seen for seen in brokers_seen)

        wait_until(is_fenced, f"broker {broker_id} to be fenced", START_TIMEOUT_SECONDS)

    def thaw_broker(self, broker_id: int) -> None:
        """Resume a frozen broker, which may still be fenced: see `wait_until_ready`."""
        self._process(broker_id).thaw()
        self._frozen.discard(broker_id)

    def restart_broker(self, broker_id: int) -> None:
        """Start a broker again with its data and port, and wait until it is ready."""
        self.home(broker_id)
        if broker_id in self._processes:
            self.stop_broker(broker_id)
        self._launch(broker_id)
        self.wait_until_ready()

    # -- Kafka's own tools

    def tool(
        self, main_class: str, *arguments: str, check: bool = True, timeout_seconds: float = 240.0
    ) -> subprocess.CompletedProcess[str]:
        """Run one of Kafka's tools, such as `org.apache.kafka.tools.TopicCommand`; takes 1-2 s.

        Raises LocalKafkaError with its output when it fails, unless `check` is False, and
        TimeoutError.
        """
        command = [*self.tool_command(main_class), *arguments]
        env = jvm_environment()
        result = run(command, name=main_class, timeout_seconds=timeout_seconds, env=env)
        if check and result.returncode != 0:
            output = f"{result.stdout}{result.stderr}"
            raise LocalKafkaError(f"{main_class} ended with {result.returncode}:\n{output}")
        return result

    def tool_command(self, main_class: str) -> list[str]:
        """Return the command that runs one of Kafka's tools, to which its arguments are added."""
        return [*self._java(self._tools_log4j, DEFAULT_HEAP), main_class]

    # -- inside

    @cached_property
    def _tools_log4j(self) -> Path:
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / "tools-log4j2.xml"
        write_log4j(path, "SYSTEM_ERR", "WARN")
        return path

    def _java(self, log4j: Path, heap: str) -> list[str]:
        jars = kafka_jars(self.version)
        options = [heap, *LIGHT_JVM, *class_archive_options(jars)]
        options.append(f"-Dlog4j2.configurationFile={log4j}")
        return [str(java_executable()), *options, "-cp", f"{jars}/*"]

    def _prepare(self, specs: Sequence[BrokerSpec]) -> None:
        """Choose each broker's directory and ports, write its files and format its storage."""
        is_kraft = self._zookeeper is None
        with_controllers = is_kraft and not self._voters
        homes = choose_homes(self.directory, specs, with_controllers=with_controllers)
        voters = [home.voter for home in homes if home.voter]
        self._voters = self._voters or ",".join(voters)
        for home in homes:
            if self._zookeeper:
                metadata = home.zookeeper_properties(self._zookeeper.address)
            else:
                metadata = home.kraft_properties(self._voters)
            home.write_files(metadata, self._properties)
        if is_kraft:
            self._format(homes)
        self._homes.update({home.spec.broker_id: home for home in homes})

    def _format(self, homes: Sequence[BrokerHome]) -> None:
        """Format storage: the first on a machine by Kafka's tool, all others like it.

        The tool is a JVM, and what it writes differs in ids alone.
        """
        features = features_of(kafka_jars(self.version))
        if not features.exists():
            formatted, *homes = homes
            arguments = ["--cluster-id", self.cluster_id]
            arguments += ["--config", str(formatted.properties_file)]
            self.tool("kafka.tools.StorageTool", "format", *arguments)
            keep(formatted.features_file, features)
        for home in homes:
            home.format(features, self.cluster_id)

    def _launch(self, broker_id: int) -> None:
        home = self._homes[broker_id]
        java, *options = self._java(home.directory / "log4j2.xml", self._heap)
        # Without memory a broker should end with a clear message, not go on half working.
        options = ["-XX:+ExitOnOutOfMemoryError", *self._jvm_options, *options]
        self._processes[broker_id] = start(
            [java, *options, "kafka.Kafka", home.properties_file],
            log_path=home.server_log,
            name=f"broker {broker_id}",
            env=jvm_environment(),
            cwd=home.directory,
            orphan_grace_seconds=ORPHAN_GRACE_SECONDS,
        )

    def _process(self, broker_id: int) -> Process:
        self.home(broker_id)
        if broker_id not in self._processes:
            raise LocalKafkaError(f"broker {broker_id} is not running")
        return self._processes[broker_id]

    def _end(self, broker_id: int) -> Process:
        self._process(broker_id)  # raises where it is not running
        self._frozen.discard(broker_id)
        return self._processes.pop(broker_id)


def _archive_classes(version: str) -> None:
    """Write the class archive, at the first start on a machine, by starting and stopping a broker.

    Where a Java writes no archive, an empty file takes its place, which every JVM ignores, so that
    this is not tried again.
    """
    jars = kafka_jars(version)
    archive = class_archive_of(jars)
    if archive.exists():
        return
    with locked(jars.parent / f".{version}.lock"):
        if archive.exists():
            return
        with tempfile.TemporaryDirectory(prefix=f".{version}-", dir=jars.parent) as scratch:
            written = Path(scratch, archive.name)
            options = options_to_write_archive(written)
            directory = Path(scratch, "kafka")
            with LocalKafka(directory, 1, version=version, jvm_options=options) as kafka:
                kafka.stop_broker(1)
            written.touch()
            written.replace(archive)


@contextmanager
def running(
    directory: Path,
    brokers: int | Sequence[BrokerSpec] = 3,
    properties: Mapping[str, str] | None = None,
    heap: str = DEFAULT_HEAP,
    version: str = KAFKA_VERSION,
    jvm_options: Sequence[str] = (),
    with_zookeeper: bool = False,
) -> Iterator[LocalKafka]:
    """Yield a started cluster, and stop it afterwards."""
    with LocalKafka(
        directory, brokers, properties, heap, version, jvm_options, with_zookeeper
    ) as kafka:
        yield kafka


def _specs(brokers: int | Sequence[BrokerSpec]) -> tuple[BrokerSpec, ...]:
    if isinstance(brokers, int):
        specs = brokers_in_racks(*(f"rack-{number}" for number in range(1, brokers + 1)))
    else:
        specs = tuple(brokers)
    ids = [spec.broker_id for spec in specs]
    if not specs or len(set(ids)) < len(ids):
        raise LocalKafkaError(f"a cluster needs brokers with different ids, not {ids}")
    return specs
