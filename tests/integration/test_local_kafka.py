"""The local cluster itself: it can do what tests ask of it, and it is gone afterwards."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dev import local_kafka
from dev.local_kafka import (
    KafkaDownloadError,
    LocalKafka,
    LocalKafkaError,
    TopicSpec,
    create_topics,
    kafka_jars,
)
from dev.local_processes import ChildFailedError, free_ports, wait_until
from tests.support.kafka_facts import CONFIGS, configs, configs_by_tool, throttles

ROOT = Path(__file__).parents[2]

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


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_configs_are_those_that_kafkas_own_tool_shows(kafka: LocalKafka) -> None:
    orders = TopicSpec("orders", [(1, 2, 3)] * 2, configs={"retention.ms": "-1"})
    create_topics(kafka.bootstrap_string, [orders])
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
