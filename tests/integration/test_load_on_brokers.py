"""What the Spark jobs say that comes in, beside a producer of a known rate on real brokers."""

import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer

from counterpoise.installation import Installation
from counterpoise.services import analyses, reports, snapshots
from counterpoise.settings import FileConnections, Locations, parse_settings
from counterpoise.snapshot import take_snapshot
from dev import local_kafka
from dev.local_kafka import LocalKafka, TopicSpec, create_topics
from dev.local_processes import wait_until

RECORDS_PER_SECOND = 100
RECORD_BYTES = 5_000


@contextmanager
def installation_of(tmp_path: Path, kafka: LocalKafka) -> Iterator[Installation]:
    environment = {
        "COUNTERPOISE_STORE": str(tmp_path / "store"),
        "COUNTERPOISE_LEDGER": f"sqlite:///{tmp_path / 'ledger.db'}",
        "AIRFLOW_CONN_LOCAL": f'{{"extra": {{"bootstrap.servers": "{kafka.bootstrap_string}"}}}}',
    }
    known = parse_settings("clusters: {local: {connection: local}}", where="here")
    connections = FileConnections(tmp_path / "none.yaml", environment)
    with Installation(
        Locations.from_environment(environment), connections, known_clusters=known
    ) as installation:
        yield installation


def observed_at(installation: Installation, named: Mapping[str, str]) -> datetime:
    """Return when a snapshot was read: a busy machine takes its time before."""
    read_at = installation.archive.read_snapshot("local", named["snapshot_id"]).observed_at
    assert read_at is not None
    return read_at


TIMEOUT_SECONDS = 120
KEYS = 10
SEGMENT_BYTES = 1 << 20
BATCH = 100  # records of a transaction, and between two looks at the clock
LOGS = ("kept", "deleted", "committed", "compacted")  # topics, by what becomes of their records


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[LocalKafka]:
    configs = {
        "compacted": {
            "cleanup.policy": "compact",
            "segment.ms": "500",
            "min.cleanable.dirty.ratio": "0.01",
            "max.compaction.lag.ms": "1000",
        },
        "deleted": {"segment.bytes": str(SEGMENT_BYTES), "retention.bytes": str(2 * SEGMENT_BYTES)},
    }
    quick = {"log.cleaner.backoff.ms": "500", "log.retention.check.interval.ms": "500"}
    with local_kafka.running(tmp_path / "kafka", 3, quick) as cluster:
        topics = [TopicSpec(name, [(1, 2)], configs=configs.get(name, {})) for name in LOGS]
        create_topics(cluster.bootstrap_string, topics)
        yield cluster


@pytest.fixture
def logs_installation(tmp_path: Path, logs: LocalKafka) -> Iterator[Installation]:
    with installation_of(tmp_path, logs) as installation:
        yield installation


class FourProducers:
    """Writes the same records to each of LOGS, with KEYS keys; to one in transactions."""

    def __init__(self, bootstrap: str) -> None:
        plain = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "linger.ms": 5})
        self._producers = dict.fromkeys(LOGS, plain)
        self._in_transactions = Producer(
            {"bootstrap.servers": bootstrap, "log_level": 0, "transactional.id": "the test"}
        )
        self._in_transactions.init_transactions(TIMEOUT_SECONDS)
        self._producers["committed"] = self._in_transactions
        self.records = 0  # to each

    def write(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._in_transactions.begin_transaction()
            for number in range(BATCH):
                value = random.randbytes(RECORD_BYTES)
                for name, producer in self._producers.items():
                    producer.produce(name, value, key=str(number % KEYS))
            self._in_transactions.commit_transaction(TIMEOUT_SECONDS)
            assert self._producers["kept"].flush(TIMEOUT_SECONDS) == 0
            self.records += BATCH
            time.sleep(BATCH / RECORDS_PER_SECOND)


def sizes(installation: Installation) -> dict[str, int]:
    """Bytes of each of LOGS, as the leader holds it now."""
    with installation.reader("local") as reader:
        snapshot = take_snapshot(
            reader, cluster="local", snapshot_id="now", observed_at=installation.clock()
        )
    rows = snapshot.partitions.to_pylist()
    return {row["topic"]: row["size_bytes"] for row in rows if row["topic"] in LOGS}


def test_bytes_in_of_logs_that_lose_records_are_right_or_marked_as_lower_bounds(
    logs: LocalKafka, logs_installation: Installation
) -> None:
    """The same records go to a log that keeps all, to one whose first segments are deleted, to
    one in transactions, and to a compacted one: the first three within 10 %, the last one no more.
    """
    installation = logs_installation
    producers = FourProducers(logs.bootstrap_string)
    producers.write(10)

    def is_compacted() -> bool:
        producers.write(1)  # a segment is closed by the next record
        held = sizes(installation)
        return max(held["compacted"], held["deleted"]) < held["kept"] / 2

    wait_until(is_compacted, "the log cleaner and retention", 240)
    begin, records = installation.clock(), producers.records
    first = snapshots.make(installation, "local", begin)
    producers.write(20)
    last = snapshots.make(installation, "local", begin + timedelta(minutes=1))
    seconds = observed_at(installation, last) - observed_at(installation, first)
    expected = (producers.records - records) * RECORD_BYTES / seconds.total_seconds()

    assert analyses.analyse(installation, "round", lambda _: None) == ["local"]
    newest = max(installation.results.of_cluster("local"))
    load = installation.results.table("topic_load", {newest}).to_pylist()
    rates = {row["topic"]: row["bytes_in_per_second"] for row in load if row["topic"] in LOGS}
    bounds = {row["topic"]: row["rates_at_least"] for row in load if row["topic"] in LOGS}
    assert bounds == {"kept": 0, "deleted": 0, "committed": 0, "compacted": 1}
    for name in ("kept", "deleted", "committed"):
        assert rates[name] == pytest.approx(expected, rel=0.1), name
    assert rates["compacted"] <= 1.1 * expected
    balance = installation.results.table("broker_load", {newest}).sort_by("broker_id").to_pylist()
    leader, follower, _ = balance
    assert leader["rates_at_least"] >= 1
    assert follower["follower_rates_at_least"] >= 1
    reports.report_balance(installation, "local")
    page = installation.archive.read_report("local/leader-balance.html")
    assert "≥: a lower bound" in page
