"""The local cluster itself: it can do what tests ask of it, and it is gone afterwards."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from dev import local_kafka
from dev.local_kafka import (
    BrokerSpec,
    KafkaDownloadError,
    LocalKafka,
    LocalKafkaError,
    SteadyProducer,
    TopicSpec,
    create_topics,
    fill,
    kafka_jars,
)
from dev.local_processes import ChildFailedError, free_ports, wait_until
from tests.support.kafka_facts import CONFIGS, configs, configs_by_tool, throttles

ROOT = Path(__file__).parents[2]
TOPICS = "org.apache.kafka.tools.TopicCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"

# Prints the pids of all that it started, then waits to be killed.
PARENT = """
import signal, sys
from pathlib import Path
from dev import local_kafka
with local_kafka.running(Path(sys.argv[1]), brokers=1) as kafka:
    process = kafka.processes[1]
    print(process.pid, process.keeper_pid, flush=True)
    signal.pause()
"""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    brokers = [
        BrokerSpec(1, "a"),
        BrokerSpec(2, "b", log_dirs=2),
        BrokerSpec(3, "c", {"num.io.threads": "3"}),
    ]
    # A broker that is started again has to wait until its former life has run out: 9 s unless told
    # otherwise.
    properties = {"broker.session.timeout.ms": "6000"}
    with local_kafka.running(tmp_path_factory.mktemp("kafka"), brokers, properties) as cluster:
        orders = TopicSpec("orders", [(1, 2, 3)] * 3 + [(2, 3, 1)], configs={"retention.ms": "-1"})
        create_topics(cluster.bootstrap_string, [orders])
        yield cluster


def racks(address: str) -> dict[int, str]:
    admin = AdminClient({"bootstrap.servers": address})
    return {
        node.id: node.rack for node in admin.describe_cluster(request_timeout=30).result().nodes
    }


def leaders(kafka: LocalKafka, topic: str) -> list[int]:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_string})
    partitions = admin.list_topics(timeout=30).topics[topic].partitions
    return [partitions[number].leader for number in sorted(partitions)]


def replica_bytes(kafka: LocalKafka, topic: str) -> dict[tuple[int, int], int]:
    """(broker, partition) -> bytes, as Kafka's own tool has it."""
    arguments = ("--bootstrap-server", kafka.bootstrap_string, "--describe", "--topic-list", topic)
    document = json.loads(kafka.tool(LOG_DIRS, *arguments).stdout.splitlines()[-1])
    return {
        (broker["broker"], int(replica["partition"].rpartition("-")[2])): replica["size"]
        for broker in document["brokers"]
        for log_dir in broker["logDirs"]
        for replica in log_dir["partitions"]
    }


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_brokers_are_what_was_asked_for(kafka: LocalKafka) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap[0]})
    assert admin.describe_cluster(request_timeout=30).result().cluster_id == kafka.cluster_id
    assert racks(kafka.bootstrap[2]) == {1: "a", 2: "b", 3: "c"}
    assert [len(kafka.home(number).log_directories) for number in (1, 2, 3)] == [1, 2, 1]
    assert all(directory.is_dir() for directory in kafka.home(2).log_directories)
    arguments = (
        "--bootstrap-server",
        kafka.bootstrap_string,
        "--entity-type",
        "brokers",
        "--entity-name",
        "3",
    )
    described = kafka.tool("kafka.admin.ConfigCommand", *arguments, "--describe", "--all")
    assert "num.io.threads=3 " in described.stdout


def test_configs_are_those_that_kafkas_own_tool_shows(kafka: LocalKafka) -> None:
    where = ("--bootstrap-server", kafka.bootstrap_string, "--alter", "--entity-type")
    rate, replicas = "leader.replication.throttled.rate", "leader.replication.throttled.replicas"
    changes = [
        ("topics", "--entity-name", "orders", f"{replicas}=[0:1,1:2]"),
        ("brokers", "--entity-name", "2", f"{rate}=2000"),
        ("brokers", "--entity-default", f"{rate}=1000"),
    ]
    for kind, *entity, config in changes:
        kafka.tool(CONFIGS, *where, kind, *entity, "--add-config", config)
    found = configs(kafka)
    assert found == configs_by_tool(kafka)
    assert "topic orders: retention.ms=-1" in found
    assert throttles(found) == [
        f"broker 2: {rate}=2000",
        f"every broker: {rate}=1000",
        f"topic orders: {replicas}=0:1,1:2",
    ]
    for kind, *entity, config in changes:
        key = config.partition("=")[0]
        kafka.tool(CONFIGS, *where, kind, *entity, "--delete-config", key)
    assert throttles(configs(kafka)) == []


def test_topics_and_bytes_lie_where_they_were_put(kafka: LocalKafka) -> None:
    assert leaders(kafka, "orders") == [1, 1, 1, 2]
    wanted = {0: 8_000_000, 1: 2_000_000, 3: 500_000}
    fill(kafka.bootstrap_string, "orders", wanted)
    sizes = replica_bytes(kafka, "orders")
    assert len(sizes) == 4 * 3
    for (_broker, partition), size in sizes.items():
        expected = wanted.get(partition, 0)
        assert expected <= size <= 1.02 * expected


def test_a_fourth_broker_a_crash_a_freeze_and_a_stop_while_a_producer_writes(
    kafka: LocalKafka,
) -> None:
    with SteadyProducer(kafka.bootstrap_string, "orders", records_per_second=100) as producer:
        kafka.add_broker(4, "d")
        assert racks(kafka.bootstrap[0]) == {1: "a", 2: "b", 3: "c", 4: "d"}

        crashed = kafka.processes[1].pid
        kafka.kill_broker(1)
        assert not alive(crashed)
        assert kafka.live_brokers == (2, 3, 4)
        assert len(kafka.bootstrap) == 3
        wait_until(lambda: 1 not in leaders(kafka, "orders"), "other leaders", 60)
        kafka.restart_broker(1)
        assert kafka.live_brokers == (1, 2, 3, 4)

        kafka.freeze_broker(4)
        assert kafka.live_brokers == (1, 2, 3)
        kafka.wait_until_fenced(4)
        assert set(racks(kafka.bootstrap[0])) == {1, 2, 3}
        kafka.thaw_broker(4)
        kafka.wait_until_ready()
        kafka.stop_broker(4)
        assert "[BrokerServer id=4] shut down completed" in kafka.home(4).server_log.read_text()
    assert producer.acknowledged == producer.sent > 0
    assert producer.failed == 0


def test_a_tool_that_fails_is_an_error_with_its_words(kafka: LocalKafka) -> None:
    arguments = ("--bootstrap-server", kafka.bootstrap_string, "--describe", "--topic", "nowhere")
    with pytest.raises(LocalKafkaError, match="'nowhere' does not exist"):
        kafka.tool(TOPICS, *arguments)
    assert kafka.tool(TOPICS, *arguments, check=False).returncode != 0


def test_what_cannot_be_is_refused(kafka: LocalKafka, tmp_path: Path) -> None:
    with pytest.raises(LocalKafkaError, match=r"no broker 9; there are \[1, 2, 3"):
        kafka.restart_broker(9)
    with pytest.raises(LocalKafkaError, match="is a broker 2 already"):
        kafka.add_broker(2, "a")
    with pytest.raises(LocalKafkaError, match=r"different ids, not \[1, 1\]"):
        LocalKafka(tmp_path, [BrokerSpec(1, "a"), BrokerSpec(1, "b")])
    with pytest.raises(LocalKafkaError, match=r"topic orders was not created: .*already exists"):
        create_topics(kafka.bootstrap_string, [TopicSpec("orders")])


def test_a_broker_that_cannot_start_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    cluster = LocalKafka(tmp_path, brokers=1, properties={"num.network.threads": "0"})
    with pytest.raises((ChildFailedError, LocalKafkaError), match=r"num\.network\.threads"):
        cluster.start()
    assert cluster.processes == {}


def test_a_failed_download_is_told_clearly_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("COUNTERPOISE_MAVEN_REPOSITORY", f"http://127.0.0.1:{free_ports(1)[0]}/")
    with pytest.raises(
        KafkaDownloadError,
        match=r"Kafka 4\.3\.1 could not be fetched from http://127(.|\n)*kafka_2\.13",
    ):
        kafka_jars()
    assert [path for path in (tmp_path / "counterpoise" / "kafka").iterdir() if path.is_dir()] == []


def test_stop_and_kill_9_of_the_parent_leave_no_process(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, tmp_path],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    try:
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 2
        assert all(map(alive, pids))
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
    wait_until(lambda: not any(map(alive, pids)), "the end of the broker", 60)

    with local_kafka.running(tmp_path / "again", brokers=1) as kafka:
        process = kafka.processes[1]
        assert alive(process.pid)
    assert not alive(process.pid)
    assert not alive(process.keeper_pid)
