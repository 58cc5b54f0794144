"""A real cluster with thousands of partitions through the stages of a rebalance, as typed.

    stages = list(through_all_stages(folder, Shape(partitions=20_000, moves=2_000)))
    stages[0].seconds, stages[0].peak_bytes        # of `counterpoise snapshot`

Three brokers with two replicas of each partition, all of them on this machine, and a fourth one
that joins empty. A record of 1 kB in each partition: it is the number of partitions that counts
here, and not their bytes. Each stage is a command in a process of its own; its seconds are those of
the whole process, Python's start included, and the peak is that process's own memory.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from dev import local_kafka
from dev.local_kafka import LocalKafka, TopicSpec, brokers_in_racks, create_topics

CLUSTER: Final = "many"
NEW_BROKER: Final = 4
_PARTITIONS_PER_TOPIC: Final = 50
_CREATED_AT_ONCE: Final = 40  # topics; the controller takes 10,000 records at once
_RECORD_BYTES: Final = 1_000
_BYTES_OF_REPLICA: Final = 1_100  # about: with the header of its batch
_FLUSH_SECONDS: Final = 300.0
_RATE: Final = "100MB/s"
# Each replica has two index files in memory; by default each is made for 10 MiB.
_BROKER_PROPERTIES: Final = {"log.index.size.max.bytes": "16384", "num.io.threads": "8"}
# The command line, which leaves its own peak of memory behind.
_COMMAND: Final = """
import json, sys
from pathlib import Path
from counterpoise.cli.main import main
from benchmarks.machine import peak_bytes
code = main(sys.argv[2:])
Path(sys.argv[1]).write_text(json.dumps(peak_bytes()))
sys.exit(code)
"""


@dataclass(frozen=True, slots=True)
class Shape:
    partitions: int
    moves: int

    @property
    def topics(self) -> int:
        return max(1, self.partitions // _PARTITIONS_PER_TOPIC)


@dataclass(frozen=True, slots=True)
class Stage:
    name: str
    seconds: float
    peak_bytes: int | None  # None: no process of ours


def through_all_stages(folder: Path, shape: Shape) -> Iterator[Stage]:
    """Yield each stage when it is done; brokers are stopped at the end."""
    began = time.monotonic()
    with local_kafka.running(
        folder / "kafka",
        brokers_in_racks("a", "b", "c"),
        properties=_BROKER_PROPERTIES,
        heap="-Xmx1g",
    ) as kafka:
        _make_topics(kafka, shape)
        kafka.add_broker(NEW_BROKER, "d")
        yield Stage("(brokers, topics and records are made)", time.monotonic() - began, None)
        typist = _Typist(folder, _installation(folder, kafka))
        plan = str(folder / "plan.json")
        goal = ["--goal", "add-brokers", "--brokers", str(NEW_BROKER)]
        limit = ["--max-bytes", f"{shape.moves * _BYTES_OF_REPLICA}B"]
        yield typist.type("snapshot", "--cluster", CLUSTER)
        yield typist.type("audit", "--cluster", CLUSTER, may_answer_no=True)
        yield typist.type("plan", "--cluster", CLUSTER, *goal, *limit, "--out", plan)
        yield typist.type("approve", plan, "--rate", _RATE, "--reason", "benchmark")
        yield typist.type("execute", plan)
        yield typist.type("verify", plan)


def _make_topics(kafka: LocalKafka, shape: Shape) -> None:
    racks = [(1, 2), (2, 3), (3, 1)]
    replicas = [racks[number % 3] for number in range(_PARTITIONS_PER_TOPIC)]
    topics = [TopicSpec(f"topic-{number:03d}", replicas) for number in range(shape.topics)]
    for start in range(0, len(topics), _CREATED_AT_ONCE):
        create_topics(kafka.bootstrap_string, topics[start : start + _CREATED_AT_ONCE])
    settings = {"bootstrap.servers": kafka.bootstrap_string, "log_level": 0, "acks": 1}
    producer = Producer(settings)
    for topic in topics:
        for partition in range(_PARTITIONS_PER_TOPIC):
            producer.produce(topic.name, os.urandom(_RECORD_BYTES), partition=partition)
        producer.poll(0)
    unsent = producer.flush(_FLUSH_SECONDS)
    if unsent:
        raise RuntimeError(f"{unsent} records were not acknowledged in {_FLUSH_SECONDS:g} s")


def _installation(folder: Path, kafka: LocalKafka) -> dict[str, str]:
    # All brokers share the disk of this machine, which may be fuller than any policy likes.
    policy = "{balance: {disk_limit_percent: 100}}"
    (folder / "clusters.yaml").write_text(
        f"clusters:\n  {CLUSTER}:\n    connection: kafka\n    policy: {policy}\n"
    )
    connection = {"bootstrap.servers": kafka.bootstrap_string}
    (folder / "connections.yaml").write_text(json.dumps({"kafka": connection}))
    return {
        "COUNTERPOISE_CONFIG": str(folder / "clusters.yaml"),
        "COUNTERPOISE_CONNECTIONS": str(folder / "connections.yaml"),
        "COUNTERPOISE_STORE": str(folder / "store"),
        "COUNTERPOISE_LEDGER": f"sqlite:///{folder / 'ledger.db'}",
    }


@dataclass(frozen=True)
class _Typist:
    folder: Path
    environment: Mapping[str, str]

    def type(self, *words: str, may_answer_no: bool = False) -> Stage:
        """Run a command as a person types it; its output goes to a file of its name."""
        peak = self.folder / "peak.json"
        with (self.folder / f"{words[0]}.log").open("w") as log:
            began = time.monotonic()
            ended = subprocess.run(
                [sys.executable, "-c", _COMMAND, str(peak), *words],
                env=os.environ | dict(self.environment),
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            )
            seconds = time.monotonic() - began
        if ended.returncode > (1 if may_answer_no else 0):
            told = (self.folder / f"{words[0]}.log").read_text()[-3000:]
            raise RuntimeError(f"counterpoise {words[0]} ended with {ended.returncode}:\n{told}")
        return Stage(words[0], seconds, json.loads(peak.read_text()))
