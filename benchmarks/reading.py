"""How long a snapshot of a real cluster takes, beside the same calls of the two clients made bare.

    .venv/bin/python benchmarks/reading.py [--partitions 20000] [--markdown]

Three real local brokers with that many partitions. "Bare" is what a script of a few lines would do:
brokers, topics, reassignments, log dirs and quorum from kafka-python's admin client, configs and
both ends of every log from confluent-kafka's, one call after another, nothing kept but the answers.
Ours is `take_snapshot`: the same, put together into tables. Each is done three times, in turn; the
medians are compared. Exit code 1 when ours takes more than 1.5 times as long. It takes some minutes
and 4 GB of memory; nothing else should run meanwhile.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

if __name__ == "__main__":
    sys.path.insert(
        0, str(Path(__file__).resolve().parents[1])
    )  # a script's own folder is there, the project's is not

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType
from kafka import KafkaAdminClient

from benchmarks.machine import machine_line
from benchmarks.tables import table
from benchmarks.targets import Check
from counterpoise.kafka_admin import connect
from counterpoise.kafka_admin.connection import ConnectionSettings
from counterpoise.snapshot import take_snapshot
from dev import local_kafka
from dev.local_kafka import TopicSpec, create_topics
from dev.local_processes import wait_until

MAX_OVER_BARE: Final = 1.5
_PARTITIONS_PER_TOPIC: Final = 100
_ROUNDS: Final = 3
_TOPICS_PER_CALL: Final = 20  # the controller takes at most 10,000 partitions at once (KIP-599)
HEADINGS: Final = ("by", "partitions", "seconds", "ms per partition")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="A snapshot of a real cluster beside the same calls made bare."
    )
    parser.add_argument("--partitions", type=int, default=20_000, help="how many (default: 20000)")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    arguments = parser.parse_args(argv)
    print(machine_line())
    with (
        tempfile.TemporaryDirectory() as folder,
        local_kafka.running(Path(folder), 3, heap="-Xmx1g") as kafka,
    ):
        _make_topics(kafka.bootstrap_string, arguments.partitions // _PARTITIONS_PER_TOPIC)
        ways = (lambda: _photograph(kafka.bootstrap_string), lambda: _bare(kafka.bootstrap_string))
        wait_until(
            lambda: _is_led(kafka.bootstrap_string), "every leader to know that it leads", 300
        )
        times = [[_seconds(way) for way in ways] for _ in range(_ROUNDS)]
    ours, bare = (statistics.median(column) for column in zip(*times, strict=True))
    rows = [
        (
            by,
            f"{arguments.partitions:,}",
            f"{seconds:.2f}",
            f"{1000 * seconds / arguments.partitions:.3f}",
        )
        for by, seconds in (("take_snapshot", ours), ("the bare calls", bare))
    ]
    print(table([HEADINGS, *rows], is_markdown=arguments.markdown))
    check = Check(
        ours <= MAX_OVER_BARE * bare,
        f"{ours / bare:.2f} x the bare calls (at most {MAX_OVER_BARE})",
    )
    print(check)
    return 0 if check.is_met else 1


def _make_topics(bootstrap: str, count: int) -> None:
    replicas = [(1 + n % 3,) for n in range(_PARTITIONS_PER_TOPIC)]
    specs = [TopicSpec(f"topic-{n:04d}", replicas) for n in range(count)]
    for begin in range(0, count, _TOPICS_PER_CALL):
        create_topics(bootstrap, specs[begin : begin + _TOPICS_PER_CALL])


def _is_led(bootstrap: str) -> bool:
    try:
        _bare(bootstrap)
    except KafkaException:
        return False
    return True


def _seconds(way: Callable[[], None]) -> float:
    began = time.monotonic()
    way()
    return time.monotonic() - began


def _photograph(bootstrap: str) -> None:
    admin = connect(ConnectionSettings.parse({"bootstrap.servers": bootstrap}, where="benchmark"))
    try:
        take_snapshot(admin, cluster="bench", snapshot_id="bench", observed_at=datetime.now(UTC))
    finally:
        admin.close()


def _bare(bootstrap: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        admin.describe_cluster()
        topics = admin.describe_topics()
        admin.list_partition_reassignments()
        admin.describe_log_dirs()
        admin.describe_metadata_quorum()
    finally:
        admin.close()
    other = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    partitions = [
        TopicPartition(t["name"], p["partition_index"]) for t in topics for p in t["partitions"]
    ]
    for end in (OffsetSpec.earliest(), OffsetSpec.latest()):
        for future in other.list_offsets(dict.fromkeys(partitions, end)).values():
            future.result()
    resources = [ConfigResource(ResourceType.TOPIC, topic["name"]) for topic in topics]
    for described in other.describe_configs(resources).values():
        described.result()


if __name__ == "__main__":
    sys.exit(main())
