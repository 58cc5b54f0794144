"""One plan carried out twice on real brokers: by us, and by Kafka's own `kafka-reassign-partitions`.

ours, kafkas = compare(folder, rate_bytes_per_second=10_000_000, seconds=120)

As in the main job, one broker leads nearly all, and a new one joins: one link is the busiest from the first byte to the
last.

Ours counts from the start of the command to the end of the run, proof that every setting is as before included; what
writes the report comes after. Kafka's counts until its `--verify` has removed the throttle.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import local_kafka
from counterpoise.kafka_admin import connect
from counterpoise.kafka_admin.connection import ConnectionSettings
from counterpoise.ledger import Ledger
from counterpoise.model.movement import busiest_link_bytes
from counterpoise.model.plan import RebalancePlan
from local_kafka import LocalKafka, TopicSpec, brokers_in_racks, create_topics, fill
from local_processes import wait_until

_PARTITIONS: Final = 60
_REPLICATION_FACTOR: Final = 2
_NEW_BROKER: Final = 4
_REASSIGN: Final = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
_SAMPLE_SECONDS: Final = 0.5
_SHORTEST_WINDOW_SECONDS: Final = 11.0  # Kafka's own: 11 samples of one second
_LEAST_BYTES_IN_A_WINDOW: Final = 50_000_000


@dataclass(frozen=True, slots=True)
class Timed:
    """One way to carry the plan out."""

    by: str
    rate: int
    replicas: int
    busiest_link_bytes: int
    seconds: float
    most_over_rate: float  # of all windows but the first, received by the new broker

    @property
    def ideal_seconds(self) -> float:
        return self.busiest_link_bytes / self.rate

    @property
    def over_ideal(self) -> float:
        return self.seconds / self.ideal_seconds


def compare(folder: Path, rate_bytes_per_second: int, seconds: int) -> tuple[Timed, Timed]:
    """Ours and Kafka's. The new broker receives about `seconds` times the rate."""
    arriving = _PARTITIONS * _REPLICATION_FACTOR // _NEW_BROKER
    partition_bytes = rate_bytes_per_second * seconds // arriving
    with local_kafka.running(folder / "kafka", brokers_in_racks("a", "b", "c"), heap="-Xmx512m") as kafka:
        replicas = [(1, 2 + n % 2) for n in range(_PARTITIONS)]
        create_topics(kafka.bootstrap_string, [TopicSpec("orders", replicas, configs={"retention.ms": "-1"})])
        fill(kafka.bootstrap_string, "orders", dict.fromkeys(range(_PARTITIONS), partition_bytes))
        kafka.add_broker(_NEW_BROKER, "d")
        environment = _site(folder, kafka)
        plan_file = folder / "plan.json"
        words = ["--cluster", "bench", "--goal", "add-brokers", "--brokers", str(_NEW_BROKER)]
        _type(environment, "plan", *words, "--out", str(plan_file))
        plan = RebalancePlan.from_json(plan_file.read_text())
        _type(environment, "approve", str(plan_file), "--rate", f"{rate_bytes_per_second}B/s", "--reason", "benchmark")
        with _received(kafka) as ours_received:
            began = datetime.now(UTC)
            _type(environment, "execute", str(plan_file))
            ours_seconds = (_closed_at(environment, plan) - began).total_seconds()
        there, back = folder / "there.json", folder / "back.json"
        _type(environment, "export", str(plan_file), "--out", str(there))
        _type(environment, "export", str(plan_file), "--undo", "--out", str(back))
        _reassign(kafka, back, None)
        with _received(kafka) as kafkas_received:
            began = time.monotonic()
            _reassign(kafka, there, rate_bytes_per_second)
            kafkas_seconds = time.monotonic() - began
    shared = (rate_bytes_per_second, plan.copied_replicas, busiest_link_bytes(plan))
    return (
        Timed("counterpoise", *shared, ours_seconds, _most_over_rate(ours_received, rate_bytes_per_second)),
        Timed("kafka-reassign", *shared, kafkas_seconds, _most_over_rate(kafkas_received, rate_bytes_per_second)),
    )


def _site(folder: Path, kafka: LocalKafka) -> dict[str, str]:
    # All brokers share the disk of this machine, which may be fuller than any policy likes.
    policy = "{balance: {disk_limit_percent: 100}}"
    (folder / "clusters.yaml").write_text(f"clusters:\n  bench:\n    connection: kafka\n    policy: {policy}\n")
    (folder / "connections.yaml").write_text(json.dumps({"kafka": {"bootstrap.servers": kafka.bootstrap_string}}))
    return {
        "COUNTERPOISE_CONFIG": str(folder / "clusters.yaml"),
        "COUNTERPOISE_CONNECTIONS": str(folder / "connections.yaml"),
        "COUNTERPOISE_STORE": str(folder / "store"),
        "COUNTERPOISE_LEDGER": f"sqlite:///{folder / 'ledger.db'}",
    }


def _closed_at(environment: dict[str, str], plan: RebalancePlan) -> datetime:
    ledger = Ledger.open(environment["COUNTERPOISE_LEDGER"], lambda: datetime.now(UTC))
    try:
        (run,) = ledger.runs(fingerprint=plan.fingerprint)
        assert run.closed_at is not None
        return run.closed_at
    finally:
        ledger.close()


def _type(environment: dict[str, str], *words: str) -> None:
    """A command as a person types it, in a process of its own."""
    command = [sys.executable, "-c", "from counterpoise.cli.main import run; run()", *words]
    subprocess.run(command, env=os.environ | environment, check=True, stdout=subprocess.DEVNULL)


def _reassign(kafka: LocalKafka, assignment: Path, rate: int | None) -> None:
    """Kafka's tool, until nothing moves any more, and then its `--verify`, which removes the throttles."""
    words = ["--bootstrap-server", kafka.bootstrap_string, "--reassignment-json-file", str(assignment)]
    kafka.tool(_REASSIGN, *words, "--execute", *(["--throttle", str(rate)] if rate else []))
    admin = connect(ConnectionSettings.parse({"bootstrap.servers": kafka.bootstrap_string}, where="benchmark"))
    try:
        wait_until(lambda: not admin.list_reassignments(), "the reassignment to end", 600)
    finally:
        admin.close()
    if rate:
        kafka.tool(_REASSIGN, *words, "--verify")


@contextmanager
def _received(kafka: LocalKafka) -> Iterator[list[tuple[float, int]]]:
    """Time and bytes in the log segments of the new broker, sampled until the end."""
    samples: list[tuple[float, int]] = []
    ending = threading.Event()

    def sample() -> None:
        while not ending.wait(_SAMPLE_SECONDS):
            with suppress(FileNotFoundError):  # files of an earlier way are just being deleted
                logs = kafka.home(_NEW_BROKER).directory.rglob("orders-*/*.log")
                samples.append((time.monotonic(), sum(log.stat().st_size for log in logs)))

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        ending.set()
        thread.join()


def _most_over_rate(samples: Sequence[tuple[float, int]], rate: int) -> float:
    """The fastest window, after the first one since the first byte, as a multiple of the throttle."""
    window = max(_SHORTEST_WINDOW_SECONDS, _LEAST_BYTES_IN_A_WINDOW / rate)
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
