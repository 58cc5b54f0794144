"""`counterpoise audit` on real brokers: a deliberately bad cluster, where each thing that is wrong is found by name."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import local_kafka
from counterpoise.kafka_admin import connect
from counterpoise.kafka_admin.connection import ConnectionSettings
from counterpoise.kafka_admin.port import ClusterAdmin
from counterpoise.model.kafka import FOLLOWER_RATE, LEADER_REPLICAS, ConfigChange, ConfigOperation, ConfigResource
from counterpoise.model.kafka import ConfigResourceType as Type
from local_kafka import LocalKafka, TopicSpec, brokers_in_racks, create_topics
from local_processes import wait_until
from tests.command_line import CommandLine

BROKER, TOPIC = ConfigResource(Type.BROKER, "2"), ConfigResource(Type.TOPIC, "orders")
SECONDS = 40.0


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    """Three brokers; the third one is left empty."""
    folder = tmp_path_factory.mktemp("kafka")
    with local_kafka.running(folder, brokers_in_racks("a", "b", "c")) as cluster:
        create_topics(
            cluster.bootstrap_string,
            [TopicSpec("orders", [(1, 2), (2, 1)] * 3), TopicSpec("lonely", [(1,), (2,)])],
        )
        yield cluster


@pytest.fixture
def admin(kafka: LocalKafka) -> Iterator[ClusterAdmin]:
    settings = ConnectionSettings.parse({"bootstrap.servers": kafka.bootstrap_string})
    with closing(connect(settings)) as made:
        yield made


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], kafka: LocalKafka) -> CommandLine:
    """The first address of the list leads nowhere."""
    shell = CommandLine.in_folder(tmp_path, capsys)
    shell.configure(f"127.0.0.1:1,{kafka.bootstrap_string}")
    return shell


@pytest.fixture
def throttles(admin: ClusterAdmin) -> Iterator[None]:
    """Left over on a broker and on a topic."""
    keys = ((BROKER, FOLLOWER_RATE, "1000000"), (TOPIC, LEADER_REPLICAS, "0:1,0:2"))
    admin.alter_configs([ConfigChange(resource, key, ConfigOperation.SET, value) for resource, key, value in keys])

    def is_set() -> bool:
        told = admin.describe_configs([BROKER], [FOLLOWER_RATE])
        return FOLLOWER_RATE in told.get(BROKER, {})

    wait_until(is_set, "the throttle is in force", timeout_seconds=SECONDS)
    yield
    admin.alter_configs([ConfigChange(resource, key, ConfigOperation.DELETE) for resource, key, _ in keys])


def audited(shell: CommandLine) -> dict[str, Any]:
    typed = shell.type("audit", "--cluster", "demo", "--json", "--fail-at", "warning")
    assert typed.code == 1, typed.err
    document: dict[str, Any] = json.loads(typed.out)
    return document


def subjects(document: dict[str, Any], key: str = "findings") -> set[tuple[str, str]]:
    return {(row["rule"], row["subject"]) for row in document[key] if row["severity"] in ("warning", "critical")}


def test_a_bad_cluster(shell: CommandLine, throttles: None) -> None:
    document = audited(shell)
    found = subjects(document)
    assert ("bootstrap-dead-address", "bootstrap address 127.0.0.1:1") in found
    assert ("replication-factor-1", "topic lonely") in found
    areas = {rule_id: words["area"] for rule_id, words in document["rules"].items()}
    ours = {key for key in found if areas[key[0]] in ("balance", "partitions", "leftovers", "snapshots", "coexistence")}
    assert ours == {
        ("idle-broker", "broker 3"),
        ("leftover-throttle", "broker 2"),
        ("leftover-throttle", "topic orders"),
    }
    assert document["not_asked"] == []
    page = (shell.folder / "store/reports/demo/audit.html").read_text()
    assert "A broker that holds nothing" in page


def test_what_was_put_right_is_gone(shell: CommandLine, admin: ClusterAdmin, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue("throttles")
    audited(shell)
    keys = ((BROKER, FOLLOWER_RATE), (TOPIC, LEADER_REPLICAS))
    admin.alter_configs([ConfigChange(resource, key, ConfigOperation.DELETE) for resource, key in keys])
    wait_until(
        lambda: ("leftover-throttle", "broker 2") in subjects(audited(shell), "gone"),
        "it is gone",
        timeout_seconds=SECONDS,
    )
