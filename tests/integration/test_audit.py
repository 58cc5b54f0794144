"""`counterpoise audit` on real brokers: a deliberately bad cluster, where each thing that is wrong
is found by name and nothing else.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from counterpoise.kafka_admin.cluster_admin import ClusterAdmin
from counterpoise.model.kafka import (
    FOLLOWER_RATE,
    LEADER_REPLICAS,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
)
from counterpoise.model.kafka import ConfigResourceType as Type
from dev import local_kafka
from dev.local_kafka import (
    BrokerSpec,
    Listener,
    LocalKafka,
    TopicSpec,
    create_topics,
)
from dev.local_processes import free_ports, wait_until
from tests.support.command_line import CommandLine
from tests.support.connected import connected
from tests.support.kafka_facts import ON_A_SHARED_DISK

BROKER, TOPIC = ConfigResource(Type.BROKER, "1"), ConfigResource(Type.TOPIC, "orders")
THROTTLES = ((BROKER, FOLLOWER_RATE, "1000000"), (TOPIC, LEADER_REPLICAS, "0:1,0:2"))
SECONDS = 180.0

ROOM_ON_DISKS = f"    policy:\n      {ON_A_SHARED_DISK}\n"


@dataclass(frozen=True)
class Bad:
    """Two brokers; clients come in through OUTSIDE, where broker 2 advertises `dead`."""

    kafka: LocalKafka
    outside: str
    dead: str


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bad]:
    first, second, nobody = free_ports(3)
    dead = f"127.0.0.1:{nobody}"
    brokers = (
        BrokerSpec(1, "a", listeners=(Listener("OUTSIDE", first),)),
        BrokerSpec(2, "b", listeners=(Listener("OUTSIDE", second, advertised=dead),)),
    )
    with local_kafka.running(tmp_path_factory.mktemp("bad"), brokers) as kafka:
        topics = [TopicSpec("orders", [(1, 2), (2, 1)] * 3), TopicSpec("lonely", [(1,), (2,)])]
        create_topics(kafka.bootstrap_string, topics)
        yield Bad(kafka, f"127.0.0.1:{first},127.0.0.1:{second}", dead)


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine.in_folder(tmp_path, capsys)


@pytest.fixture
def admin(bad: Bad) -> Iterator[ClusterAdmin]:
    with connected(bad.kafka) as made:
        yield made


@pytest.fixture
def throttles(admin: ClusterAdmin) -> None:
    """Left over on a broker and on a topic, as both brokers show it."""
    admin.alter_configs(
        [
            ConfigChange(resource, key, ConfigOperation.SET, value)
            for resource, key, value in THROTTLES
        ]
    )

    wait_until(lambda: are_set(admin), "the throttles", timeout_seconds=SECONDS)


def are_set(admin: ClusterAdmin) -> bool:
    """Return whether the throttles are set, as the broker and, for the topic, each broker says."""
    shown = [admin.describe_configs([BROKER], [FOLLOWER_RATE])[BROKER].get(FOLLOWER_RATE)]
    for broker_id in (1, 2):
        found = admin.describe_configs([TOPIC], [LEADER_REPLICAS], via_broker=broker_id)
        shown.append(found[TOPIC].get(LEADER_REPLICAS))
    return all(value is not None and value.value for value in shown)


def test_a_bad_cluster(
    bad: Bad, shell: CommandLine, throttles: None, caplog: pytest.LogCaptureFixture
) -> None:
    shell.configure(f"127.0.0.1:1,{bad.outside}", extra=ROOM_ON_DISKS)
    typed = shell.type("audit", "--cluster", "demo", "--json", "--fail-at", "warning")
    assert typed.code == 1, typed.err or typed.out
    document: dict[str, Any] = json.loads(typed.out)
    assert caplog.text.count("127.0.0.1:1 did not answer") == 1
    rows = [row for row in document["findings"] if row["severity"] in ("warning", "critical")]
    assert {(row["rule"], row["subject"]) for row in rows} == {
        ("bootstrap-dead-address", "bootstrap address 127.0.0.1:1"),
        ("advertised-unreachable", "broker 2"),
        *(("advertised-loopback", f"broker {broker_id}") for broker_id in (1, 2)),
        ("quorum-size", "quorum"),
        ("replication-factor-1", "topic lonely"),
        ("default-replication-factor", "default.replication.factor"),
        ("leftover-throttle", "broker 1"),
        ("leftover-throttle", "topic orders"),
    }
    (unreachable,) = [
        row["seen"] for row in document["findings"] if row["rule"] == "advertised-unreachable"
    ]
    assert bad.dead in unreachable and "lonely, orders" in unreachable
    (unknown,) = [row for row in document["findings"] if row["severity"] == "unknown"]
    assert (unknown["rule"], unknown["subject"]) == ("not-answered", "broker 2")
    blind = {rule_id for rule_id, _ in unknown["evidence"]["rows"]}
    assert {"advertised-loopback", "bootstrap-one-rack", "bytes-uneven", "mixed-versions"} <= blind
    assert not blind & set(document["passed"])
    assert blind <= document["unknown"].keys()
    gate = shell.type("audit", "--cluster", "demo", "--fail-at", "unknown")
    assert gate.code == 1
    assert re.match(r"\d+ of \d+ rules could not run: .* of broker 2: ", gate.out)
    page = (shell.folder / "store/reports/demo/audit.html").read_text()
    assert bad.dead in page
