"""One plan carried out several times on real brokers: by us, and by Kafka's own
`kafka-reassign-partitions`.

with contest(folder, rate_bytes_per_second=10_000_000, seconds=120) as ground:
    ours, kafkas = ground.by_command_line(), ground.by_kafkas_tool()

As in the main job, one broker leads nearly all, and a new one joins: one link is the busiest from
the first byte to the last. With `leaders=3` the new one copies from three at once. Each way takes
back first what an earlier one has moved.

Ours counts from the start of the command to the end of the run, the read-back of every setting
included; what writes the report comes after. Kafka's counts until its `--verify` has removed
the throttle.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from counterpoise.kafka_admin import connect
from counterpoise.kafka_admin.cluster_admin import ClusterAdmin
from counterpoise.kafka_admin.connection import ConnectionSettings
from counterpoise.ledger import Ledger
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.movement import busiest_link_bytes
from counterpoise.model.plan import RebalancePlan
from dev import local_kafka
from dev.local_kafka import LocalKafka, TopicSpec, brokers_in_racks, create_topics, fill
from dev.local_processes import POLL_SECONDS, wait_until

CLUSTER: Final = "bench"
CONNECTION: Final = "kafka"
GOAL: Final = "add-brokers"
NEW_BROKER: Final = 4
TOPIC: Final = "orders"
_PLAN_FILE: Final = "plan.json"
_PARTITIONS: Final = 60
_OLD_BROKERS: Final = 3
_REPLICATION_FACTOR: Final = 2
_REASSIGN: Final = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
_ELECT: Final = "org.apache.kafka.tools.LeaderElectionCommand"
_REASSIGNING_TIMEOUT_SECONDS: Final = 600.0
_SAMPLE_SECONDS: Final = 0.5
_SHORTEST_WINDOW_SECONDS: Final = 11.0  # Kafka's own: 11 samples of one second
_MIN_BYTES_IN_A_WINDOW: Final = 50_000_000

Samples = list[tuple[float, int]]  # time.monotonic(), and the bytes that the new broker has by then


@dataclass(frozen=True, slots=True)
class Timed:
    """One way to carry the plan out."""

    by: str
    rate: int
    replicas: int
    busiest_link_bytes: int
    seconds: float
    max_over_rate: float  # of all windows but the first, received by the new broker

    @property
    def ideal_seconds(self) -> float:
        return self.busiest_link_bytes / self.rate

    @property
    def over_ideal(self) -> float:
        return self.seconds / self.ideal_seconds


@dataclass(frozen=True)
class Contest:
    """Brokers, one plan for them, and an installation that knows it."""

    kafka: LocalKafka
    folder: Path
    rate: int  # bytes per second
    plan: RebalancePlan
    environment: Mapping[str, str]

    @property
    def plan_file(self) -> Path:
        return self.folder / _PLAN_FILE

    @property
    def ideal_seconds(self) -> float:
        return busiest_link_bytes(self.plan) / self.rate

    def by_command_line(self) -> Timed:
        """Ours: `counterpoise execute`."""
        self.take_back()
        self.approve()
        with self.received() as samples:
            began = datetime.now(UTC)
            self.execute()
            seconds = (_closed_at(self.environment, self.plan) - began).total_seconds()
        return self.timed("counterpoise", seconds, samples)

    def by_kafkas_tool(self) -> Timed:
        """Kafka's own: `kafka-reassign-partitions`."""
        self.take_back()
        assignment = self.exported()
        with self.received() as samples:
            began = time.monotonic()
            self.reassign(assignment)
            seconds = time.monotonic() - began
        return self.timed("kafka-reassign", seconds, samples)

    def approve(self) -> None:
        words = ["--rate", f"{self.rate}B/s", "--reason", "benchmark"]
        _type(self.environment, "approve", str(self.plan_file), *words)

    def execute(self) -> None:
        _type(self.environment, "execute", str(self.plan_file))

    def exported(self) -> Path:
        """The plan as a file for Kafka's tools."""
        assignment = self.folder / "there.json"
        _type(self.environment, "export", str(self.plan_file), "--out", str(assignment))
        return assignment

    def reassign(self, assignment: Path, poll_seconds: float = POLL_SECONDS) -> None:
        _reassign(self.kafka, assignment, self.rate, poll_seconds)

    def elect_with_kafkas_tool(self, assignment: Path) -> None:
        """Elect the preferred leaders of an assignment, as `kafka-leader-election` does it."""
        bootstrap = ["--bootstrap-server", self.kafka.bootstrap_string]
        words = ["--election-type", "preferred", "--path-to-json-file", str(assignment)]
        self.kafka.tool(_ELECT, *bootstrap, *words)

    def replanned(self) -> "Contest":
        """The same with a new plan: a plan runs once. What was moved has to be taken back."""
        return replace(self, plan=_plan(self.environment, self.plan_file))

    def timed(self, by: str, seconds: float, samples: Samples) -> Timed:
        """What a way took, with what the plan says of all of them."""
        shared = (self.rate, self.plan.copied_replicas, busiest_link_bytes(self.plan))
        return Timed(by, *shared, seconds, _max_over_rate(samples, self.rate))

    def take_back(self) -> None:
        """Every replica, and every leader, is again where it was before the plan."""
        back = self.folder / "back.json"
        _type(self.environment, "export", str(self.plan_file), "--undo", "--out", str(back))
        _reassign(self.kafka, back, None)
        admin = _admin(self.kafka)
        try:
            admin.elect_preferred_leaders(
                [TopicPartition(TOPIC, number) for number in range(_PARTITIONS)]
            )
            wait_until(lambda: _is_led_as_preferred(admin), "each preferred leader to lead", 60)
        finally:
            admin.close()

    @contextmanager
    def received(self) -> Iterator[Samples]:
        """Time and bytes in the log segments of the new broker, sampled until the end."""
        samples: Samples = []
        ending = threading.Event()

        def sample() -> None:
            while not ending.wait(_SAMPLE_SECONDS):
                with suppress(FileNotFoundError):  # files of an earlier way are just being deleted
                    logs = self.kafka.home(NEW_BROKER).directory.rglob(f"{TOPIC}-*/*.log")
                    sizes = [
                        log.stat().st_size
                        for log in logs
                        if not log.parent.name.endswith("-delete")
                    ]
                    samples.append((time.monotonic(), sum(sizes)))

        thread = threading.Thread(target=sample, daemon=True)
        thread.start()
        try:
            yield samples
        finally:
            ending.set()
            thread.join()


@contextmanager
def contest(
    folder: Path, rate_bytes_per_second: int, seconds: int, leaders: int = 1, movement: str = ""
) -> Iterator[Contest]:
    """Brokers of which the new one is to receive about `seconds` times the rate.

    `movement` is what the policy's section of that name has, such as
    `max_moves_in_flight_per_broker: 9`.
    """
    arriving = _PARTITIONS * _REPLICATION_FACTOR // NEW_BROKER
    partition_bytes = rate_bytes_per_second * seconds // arriving
    with local_kafka.running(
        folder / "kafka", brokers_in_racks("a", "b", "c"), heap="-Xmx512m"
    ) as kafka:
        create_topics(
            kafka.bootstrap_string,
            [TopicSpec(TOPIC, _replicas(leaders), configs={"retention.ms": "-1"})],
        )
        fill(kafka.bootstrap_string, TOPIC, dict.fromkeys(range(_PARTITIONS), partition_bytes))
        kafka.add_broker(NEW_BROKER, "d")
        environment = _installation(folder, kafka, movement)
        plan = _plan(environment, folder / _PLAN_FILE)
        yield Contest(kafka, folder, rate_bytes_per_second, plan, environment)


def _replicas(leaders: int) -> list[tuple[int, int]]:
    """Two replicas of each partition, of which the first brokers lead."""
    old_brokers = range(1, _OLD_BROKERS + 1)
    by_leader = [
        [(leader, other) for other in old_brokers if other != leader] for leader in old_brokers
    ]
    return [by_leader[n % leaders][n // leaders % len(by_leader[0])] for n in range(_PARTITIONS)]


def _plan(environment: Mapping[str, str], plan_file: Path) -> RebalancePlan:
    words = ["--cluster", CLUSTER, "--goal", GOAL, "--brokers", str(NEW_BROKER)]
    _type(environment, "plan", *words, "--out", str(plan_file))
    return RebalancePlan.from_json(plan_file.read_text())


def last_byte_at(samples: Samples) -> float:
    """When the new broker received the last of what it has, by time.monotonic()."""
    size = samples[-1][1]
    return next(at for at, there in samples if there == size)


def _installation(folder: Path, kafka: LocalKafka, movement: str) -> dict[str, str]:
    # All brokers share the disk of this machine, which may be fuller than any policy likes.
    policy = f"{{balance: {{disk_limit_percent: 100}}, movement: {{{movement}}}}}"
    (folder / "clusters.yaml").write_text(
        f"clusters:\n  {CLUSTER}:\n    connection: {CONNECTION}\n    policy: {policy}\n"
    )
    (folder / "connections.yaml").write_text(
        json.dumps({CONNECTION: {"bootstrap.servers": kafka.bootstrap_string}})
    )
    return {
        "COUNTERPOISE_CONFIG": str(folder / "clusters.yaml"),
        "COUNTERPOISE_CONNECTIONS": str(folder / "connections.yaml"),
        "COUNTERPOISE_STORE": str(folder / "store"),
        "COUNTERPOISE_LEDGER": f"sqlite:///{folder / 'ledger.db'}",
    }


def _closed_at(environment: Mapping[str, str], plan: RebalancePlan) -> datetime:
    ledger = Ledger.open(environment["COUNTERPOISE_LEDGER"], lambda: datetime.now(UTC))
    try:
        (run,) = ledger.runs(fingerprint=plan.fingerprint)
        assert run.closed_at is not None
        return run.closed_at
    finally:
        ledger.close()


def _type(environment: Mapping[str, str], *words: str) -> None:
    """A command as a person types it, in a process of its own."""
    command = [sys.executable, "-c", "from counterpoise.cli.main import run; run()", *words]
    subprocess.run(
        command, env=os.environ | dict(environment), check=True, stdout=subprocess.DEVNULL
    )


def _reassign(
    kafka: LocalKafka, assignment: Path, rate: int | None, poll_seconds: float = POLL_SECONDS
) -> None:
    """Kafka's tool, until nothing moves any more, and then its `--verify`, which removes the
    throttles.
    """
    words = [
        "--bootstrap-server",
        kafka.bootstrap_string,
        "--reassignment-json-file",
        str(assignment),
    ]
    kafka.tool(_REASSIGN, *words, "--execute", *(["--throttle", str(rate)] if rate else []))
    admin = _admin(kafka)
    try:
        wait_until(
            lambda: not admin.list_reassignments(),
            "the reassignment to end",
            _REASSIGNING_TIMEOUT_SECONDS,
            poll_seconds=poll_seconds,
        )
    finally:
        admin.close()
    if rate:
        kafka.tool(_REASSIGN, *words, "--verify")


def _admin(kafka: LocalKafka) -> ClusterAdmin:
    return connect(
        ConnectionSettings.parse({"bootstrap.servers": kafka.bootstrap_string}, where="benchmark")
    )


def _is_led_as_preferred(admin: ClusterAdmin) -> bool:
    (topic,) = admin.describe_topics([TOPIC])
    return all(partition.leader == partition.replicas[0] for partition in topic.partitions)


def _max_over_rate(samples: Sequence[tuple[float, int]], rate: int) -> float:
    """Return the fastest window, but for the first one, as a multiple of the throttle."""
    window = max(_SHORTEST_WINDOW_SECONDS, _MIN_BYTES_IN_A_WINDOW / rate)
    moving = [at for at, size in samples if size > samples[0][1]]
    if not moving:
        return 0.0
    later = [(at, size) for at, size in samples if at >= moving[0] + window]
    rates = [
        (size - earlier_size) / (at - earlier)
        for n, (earlier, earlier_size) in enumerate(later)
        for at, size in later[n + 1 :]
        if window <= at - earlier < window + 2 * _SAMPLE_SECONDS
    ]
    return max(rates, default=0.0) / rate
