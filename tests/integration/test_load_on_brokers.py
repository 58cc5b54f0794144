"""What the Spark jobs say that comes in, beside a producer of a known rate on real brokers."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import local_kafka
from counterpoise import pipeline
from counterpoise.installation import Installation
from counterpoise.settings import FileConnections, Locations, parse_settings
from local_kafka import LocalKafka, SteadyProducer, TopicSpec, create_topics
from local_processes import wait_until

RECORDS_PER_SECOND = 100
RECORD_BYTES = 5_000
# between the two snapshots: 25 seconds, beside which the time of a snapshot is little
RECORDS_BETWEEN = 2_500


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[LocalKafka]:
    with local_kafka.running(tmp_path / "kafka", 3) as cluster:
        create_topics(cluster.bootstrap_string, [TopicSpec("orders", [(1, 2), (2, 3), (3, 1)] * 2)])
        yield cluster


@pytest.fixture
def installation(tmp_path: Path, kafka: LocalKafka) -> Iterator[Installation]:
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


def test_bytes_in_are_those_of_a_producer_of_known_rate(
    kafka: LocalKafka, installation: Installation
) -> None:
    begin = installation.clock()
    with SteadyProducer(
        kafka.bootstrap_string, "orders", RECORDS_PER_SECOND, RECORD_BYTES
    ) as producer:
        wait_until(lambda: producer.acknowledged >= RECORDS_PER_SECOND, "the first records", 60)
        pipeline.snapshot(installation, "local", begin)
        until = producer.acknowledged + RECORDS_BETWEEN
        wait_until(
            lambda: producer.acknowledged >= until, "enough records between the snapshots", 120
        )
        pipeline.snapshot(installation, "local", begin + timedelta(minutes=1))
    assert not producer.failed, producer.last_error
    assert pipeline.analyse(installation, "round", lambda _: None) == ["local"]
    newest = max(installation.results.of_cluster("local"))
    expected = RECORDS_PER_SECOND * RECORD_BYTES
    (orders,) = (
        row
        for row in installation.results.table("topic_load", {newest}).to_pylist()
        if row["topic"] == "orders"
    )
    assert orders["bytes_in_per_second"] == pytest.approx(expected, rel=0.1)
    brokers = installation.results.table("broker_load", {newest}).to_pylist()
    for rate in ("leader_bytes_in_per_second", "follower_bytes_in_per_second"):
        assert sum(row[rate] or 0 for row in brokers) == pytest.approx(expected, rel=0.1)
    dirs = installation.results.table("log_dir_load", {newest}).to_pylist()
    copies = installation.archive.read_snapshot("local", newest).replicas["size_bytes"].to_pylist()
    assert (
        sum(row["held_bytes"] for row in dirs)
        == sum(copies)
        > 2 * RECORD_BYTES * RECORDS_PER_SECOND
    )
