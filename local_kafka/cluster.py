"""A real multi-broker Kafka cluster (KRaft) as child processes on loopback.

    with LocalKafka(tmp_path, brokers=brokers_in_racks("a", "b", "c")) as kafka:
        create_topics(kafka.bootstrap_string, [TopicSpec("orders", partitions=12, replication_factor=3)])
        kafka.add_broker(4, "d")
        kafka.kill_broker(1)

The first three brokers are controllers, too (one is, when there are fewer than three), so any
single broker may die. Later ones are brokers only. Nothing outlives this process (see
`local_processes`). One thread uses one cluster.

Limits: 256 MiB of heap carry some hundred partitions per broker; say `heap="-Xmx1g"` for thousands.
"""

import base64
import os
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka.admin import AdminClient

from counterpoise.errors import CounterpoiseError
from counterpoise.java_runtime import java_executable
from local_kafka.broker import HOST, LIGHT_JVM, BrokerHome, BrokerSpec, write_log4j
from local_kafka.class_archive import archive_at_exit, archive_of, archived_classes
from local_kafka.jars import KAFKA_VERSION, kafka_jars, locked
from local_processes import Process, free_ports, run, start, wait_until

DEFAULT_HEAP = "-Xmx256m"
START_TIMEOUT_SECONDS = 120.0
STOP_GRACE_SECONDS = 30.0
# Brokers that go down together cannot do it in order (their controllers go, too): no use in waiting
# for them.
ORPHAN_GRACE_SECONDS = 1.0
CONTROLLERS = 3


class LocalKafkaError(CounterpoiseError):
    """A local cluster was asked for something that it cannot do, or one of Kafka's tools failed."""


class LocalKafka:
    """See the module's text.

    `directory` keeps data and logs (`broker-N/server.log`) after the end.
    """

    def __init__(
        self,
        directory: Path,
        brokers: int | Sequence[BrokerSpec] = 3,
        properties: Mapping[str, str] | None = None,
        heap: str = DEFAULT_HEAP,
        version: str = KAFKA_VERSION,
        jvm_options: Sequence[str] = (),
    ) -> None:
        self.directory = directory
        self.version = version
        self.cluster_id = _new_cluster_id()
        self._specs = _specs(brokers)
        self._properties = {**_internal_topic_factors(len(self._specs)), **(properties or {})}
        self._heap = heap
        self._jvm_options = tuple(jvm_options)
        self._homes: dict[int, BrokerHome] = {}
        self._processes: dict[int, Process] = {}
        self._frozen: set[int] = set()
        self._voters = ""

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
        """Start all brokers and wait until each serves and knows the others.

        Raises ChildFailedError.
        """
        if self._processes:
            raise LocalKafkaError(f"the cluster in {self.directory} is running already")
        if not self._jvm_options:
            _archive_classes(self.version)
        try:
            if not self._homes:
                self._prepare(self._specs)
            for broker_id in self._homes:
                self._launch(broker_id)
            self.wait_until_ready()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all brokers at once, as a power cut would: Kafka stands it, and nobody is left to
        take over leaders.
        """
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
        self._processes.clear()
        self._frozen.clear()

    def wait_until_ready(self, timeout_seconds: float = START_TIMEOUT_SECONDS) -> None:
        """Wait until every live broker, asked itself, lists every live broker.

        Raises ChildFailedError.
        """
        expected = set(self.live_brokers)
        waiting = list(self.live_brokers)

        def all_know_all() -> bool:
            while waiting and expected <= _brokers_seen_by(self._homes[waiting[0]].address):
                waiting.pop(0)
            return not waiting

        processes = [self._processes[broker_id] for broker_id in expected]
        wait_until(all_know_all, f"brokers {sorted(expected)} to serve", timeout_seconds, processes)

    @property
    def live_brokers(self) -> tuple[int, ...]:
        """The ids of the brokers that run and are not frozen."""
        running = (
            broker_id for broker_id, process in self._processes.items() if process.poll() is None
        )
        return tuple(sorted(set(running) - self._frozen))

    @property
    def bootstrap(self) -> list[str]:
        """host:port of each live broker."""
        return [self._homes[broker_id].address for broker_id in self.live_brokers]

    @property
    def bootstrap_string(self) -> str:
        """`bootstrap` as clients take it."""
        return ",".join(self.bootstrap)

    @property
    def processes(self) -> dict[int, Process]:
        """The process of each broker that was started and not stopped, by broker id."""
        return dict(self._processes)

    # -- one broker

    def home(self, broker_id: int) -> BrokerHome:
        """Where a broker lives: directories, port, log.

        Raises LocalKafkaError for an id that is not here.
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
    ) -> None:
        """Start one more broker (no controller); returns when it is registered, unfenced and known
        to all.
        """
        if broker_id in self._homes:
            raise LocalKafkaError(f"there is a broker {broker_id} already")
        self._prepare([BrokerSpec(broker_id, rack, properties or {}, log_dirs)])
        self._launch(broker_id)
        self.wait_until_ready()

    def stop_broker(self, broker_id: int) -> None:
        """Stop it in good order: it hands over its leaders first."""
        self._end(broker_id).stop(STOP_GRACE_SECONDS)

    def kill_broker(self, broker_id: int) -> None:
        """kill -9; returns when the process is gone.

        The cluster notices after `broker.session.timeout.ms`.
        """
        process = self._end(broker_id)
        process.kill()
        process.wait()

    def freeze_broker(self, broker_id: int) -> None:
        """Stop its clock (SIGSTOP): connections stay open, nothing is answered."""
        self._process(broker_id).freeze()
        self._frozen.add(broker_id)

    def wait_until_fenced(self, broker_id: int) -> None:
        """Wait until no live broker lists it any more: its session has ended, and Kafka's tools no
        longer ask it.
        """

        def is_fenced() -> bool:
            return all(
                (seen := _brokers_seen_by(address)) and broker_id not in seen
                for address in self.bootstrap
            )

        wait_until(is_fenced, f"broker {broker_id} to be fenced", START_TIMEOUT_SECONDS)

    def thaw_broker(self, broker_id: int) -> None:
        """End of `freeze_broker`; it may be fenced for a moment, `wait_until_ready` waits for it."""
        self._process(broker_id).thaw()
        self._frozen.discard(broker_id)

    def restart_broker(self, broker_id: int) -> None:
        """Start a stopped or killed broker, or stop and start a running one; same data and port.

        Waits until ready.
        """
        self.home(broker_id)
        if broker_id in self._processes:
            self.stop_broker(broker_id)
        self._launch(broker_id)
        self.wait_until_ready()

    # -- Kafka's own tools

    def tool(
        self, main_class: str, *arguments: str, check: bool = True, timeout_seconds: float = 120.0
    ) -> subprocess.CompletedProcess[str]:
        """Run one of Kafka's command-line tools, e.g. `org.apache.kafka.tools.TopicCommand`; takes
        1-2 s.

        Raises LocalKafkaError with its output when it ends with another code than 0, unless `check`
        is False, and TimeoutError.
        """
        java = self._java(self.directory / "tools-log4j2.xml", DEFAULT_HEAP)
        command = [*java, main_class, *arguments]
        done = run(command, name=main_class, timeout_seconds=timeout_seconds, env=_environment())
        if check and done.returncode != 0:
            raise LocalKafkaError(
                f"{main_class} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
            )
        return done

    # -- inside

    def _java(self, log4j: Path, heap: str) -> list[str]:
        jars = kafka_jars(self.version)
        options = [heap, *LIGHT_JVM, *archived_classes(jars), f"-Dlog4j2.configurationFile={log4j}"]
        return [str(java_executable()), *options, "-cp", f"{jars}/*"]

    def _prepare(self, specs: Sequence[BrokerSpec]) -> None:
        """Give each broker a place and ports, write its files and format its storage."""
        self.directory.mkdir(parents=True, exist_ok=True)
        write_log4j(self.directory / "tools-log4j2.xml", "SYSTEM_ERR", "WARN")
        ports = iter(free_ports(2 * len(specs)))
        voters = (
            0 if self._voters else min(CONTROLLERS, len(specs)) if len(specs) >= CONTROLLERS else 1
        )
        homes = [
            BrokerHome(
                spec,
                self.directory / f"broker-{spec.broker_id}",
                next(ports),
                next(ports) if n < voters else None,
            )
            for n, spec in enumerate(specs)
        ]
        self._voters = self._voters or ",".join(
            f"{home.spec.broker_id}@{HOST}:{home.controller_port}"
            for home in homes
            if home.controller_port
        )
        for home in homes:
            home.write_files(self._voters, self._properties)
        with ThreadPoolExecutor(len(homes)) as pool:
            list(pool.map(self._format, homes))
        self._homes.update({home.spec.broker_id: home for home in homes})

    def _format(self, home: BrokerHome) -> None:
        arguments = (
            "format",
            "--cluster-id",
            self.cluster_id,
            "--config",
            str(home.properties_file),
        )
        self.tool("kafka.tools.StorageTool", *arguments)

    def _launch(self, broker_id: int) -> None:
        home = self._homes[broker_id]
        java, *options = self._java(home.directory / "log4j2.xml", self._heap)
        # Out of memory is the end at once and in plain words, not a broker that limps.
        options = ["-XX:+ExitOnOutOfMemoryError", *self._jvm_options, *options]
        self._processes[broker_id] = start(
            [java, *options, "kafka.Kafka", home.properties_file],
            log_path=home.server_log,
            name=f"broker {broker_id}",
            env=_environment(),
            cwd=home.directory,
            orphan_grace_seconds=ORPHAN_GRACE_SECONDS,
        )

    def _process(self, broker_id: int) -> Process:
        self.home(broker_id)
        if broker_id not in self._processes:
            raise LocalKafkaError(f"broker {broker_id} is not running")
        return self._processes[broker_id]

    def _end(self, broker_id: int) -> Process:
        process = self._process(broker_id)
        del self._processes[broker_id]
        self._frozen.discard(broker_id)
        return process


def _archive_classes(version: str) -> None:
    """The first start on a machine runs one broker up and down before: all later ones start in half
    the time.

    A Java that writes no archive leaves an empty file in its place, which no JVM minds, and is not
    tried again.
    """
    jars = kafka_jars(version)
    archive = archive_of(jars)
    if archive.exists():
        return
    with locked(jars.parent / f".{version}.lock"):
        if archive.exists():
            return
        with tempfile.TemporaryDirectory(prefix=f".{version}-", dir=jars.parent) as scratch:
            written = Path(scratch, archive.name)
            with LocalKafka(
                Path(scratch, "kafka"), 1, version=version, jvm_options=archive_at_exit(written)
            ) as kafka:
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
) -> Iterator[LocalKafka]:
    """A started cluster, stopped on the way out: `with running(tmp_path) as kafka: yield kafka` is
    a fixture.
    """
    with LocalKafka(directory, brokers, properties, heap, version) as kafka:
        yield kafka


def brokers_in_racks(*racks: str) -> tuple[BrokerSpec, ...]:
    """Brokers 1, 2, ... in these racks, in this order."""
    return tuple(BrokerSpec(number, rack) for number, rack in enumerate(racks, start=1))


def _specs(brokers: int | Sequence[BrokerSpec]) -> tuple[BrokerSpec, ...]:
    specs = (
        tuple(brokers)
        if not isinstance(brokers, int)
        else brokers_in_racks(*(f"rack-{n + 1}" for n in range(brokers)))
    )
    ids = [spec.broker_id for spec in specs]
    if not specs or len(set(ids)) < len(ids):
        raise LocalKafkaError(f"a cluster needs brokers with different ids, not {ids}")
    return specs


def _internal_topic_factors(brokers: int) -> dict[str, str]:
    names = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    return {f"{name}.replication.factor": str(min(3, brokers)) for name in names}


def _new_cluster_id() -> str:
    """As Kafka's Uuid.randomUuid: base64url of 16 bytes, never with a leading dash, which tools
    take for an option.
    """
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith(
        "-"
    ):
        pass
    return text


def _environment() -> dict[str, str]:
    """Ours, without the variables by which a JVM takes options from the air."""
    return {
        key: value
        for key, value in os.environ.items()
        if key not in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
    }


def _ignore(_error: object) -> None:
    """Connections refused are no news while a broker starts."""


def _brokers_seen_by(address: str) -> set[int]:
    """The unfenced brokers in the metadata of the broker at `address`; empty when it does not
    answer yet.
    """
    config: dict[str, Any] = {"bootstrap.servers": address, "log_level": 0, "error_cb": _ignore}
    client = AdminClient(config)
    answer = client.describe_cluster(request_timeout=1.0)
    # Asked for and not raised: its traceback would hold the client, and librdkafka's own thread,
    # which lets go of the answer last, must not be the one that ends the client.
    if answer.exception() is not None:
        return set()
    return {node.id for node in answer.result().nodes}
