"""`counterpoise audit` on real brokers: a deliberately bad cluster, where each thing that is wrong
is found by name and nothing else; and a healthy one, where what is honestly said of brokers on one
machine is waived with a reason.
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
    brokers_in_racks,
    create_topics,
)
from dev.local_processes import free_ports, wait_until
from tests.support.command_line import CommandLine
from tests.support.connected import connected
from tests.support.faults import NOTICED_SOON
from tests.support.kafka_facts import ON_A_SHARED_DISK

BROKER, TOPIC = ConfigResource(Type.BROKER, "1"), ConfigResource(Type.TOPIC, "orders")
THROTTLES = ((BROKER, FOLLOWER_RATE, "1000000"), (TOPIC, LEADER_REPLICAS, "0:1,0:2"))
SECONDS = 180.0
Found = set[tuple[str, str]]

ROOM_ON_DISKS = f"    policy:\n      {ON_A_SHARED_DISK}\n"
# What is true of every healthy cluster on one machine, and why a team would let it stay.
WAIVERS = """\
      audit:
        waivers:
          - {rule: advertised-loopback, reason: clients are here, subjects: ["broker ?"]}
          - {rule: min-insync-1, reason: nobody writes what must not be lost, subjects: [cluster]}
          - {rule: default-replication-factor, reason: made by hand,
             subjects: [default.replication.factor]}
"""


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


@pytest.fixture(scope="module")
def well(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    with local_kafka.running(
        tmp_path_factory.mktemp("well"), brokers_in_racks("a", "b", "c"), NOTICED_SOON
    ) as kafka:
        create_topics(
            kafka.bootstrap_string, [TopicSpec("orders", [(1, 2, 3), (2, 3, 1), (3, 1, 2)])]
        )
        yield kafka


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine.in_folder(tmp_path, capsys)


@pytest.fixture
def admin(bad: Bad) -> Iterator[ClusterAdmin]:
    with connected(bad.kafka) as made:
        yield made


@pytest.fixture
def throttles(admin: ClusterAdmin) -> Iterator[None]:
    """Left over on a broker and on a topic, as both brokers show it."""
    admin.alter_configs(
        [
            ConfigChange(resource, key, ConfigOperation.SET, value)
            for resource, key, value in THROTTLES
        ]
    )

    wait_until(lambda: are_set(admin) == {True}, "the throttles", timeout_seconds=SECONDS)
    yield
    take_back(admin)
    wait_until(lambda: are_set(admin) == {False}, "no throttle", timeout_seconds=SECONDS)


def are_set(admin: ClusterAdmin) -> set[bool]:
    """Return whether the throttles are set, as the broker and, for the topic, each broker says."""
    shown = [admin.describe_configs([BROKER], [FOLLOWER_RATE])[BROKER].get(FOLLOWER_RATE)]
    for broker_id in (1, 2):
        found = admin.describe_configs([TOPIC], [LEADER_REPLICAS], via_broker=broker_id)
        shown.append(found[TOPIC].get(LEADER_REPLICAS))
    return {value is not None and value.value != "" for value in shown}


def take_back(admin: ClusterAdmin) -> None:
    admin.alter_configs(
        [ConfigChange(resource, key, ConfigOperation.DELETE) for resource, key, _ in THROTTLES]
    )


def audited(shell: CommandLine, *, code: int = 1) -> dict[str, Any]:
    typed = shell.type("audit", "--cluster", "demo", "--json", "--fail-at", "warning")
    assert typed.code == code, typed.err or typed.out
    document: dict[str, Any] = json.loads(typed.out)
    return document


def subjects(document: dict[str, Any], key: str = "findings", *, waived: bool = False) -> Found:
    """What is worse than "info"; of findings those that are waived, or those that are not."""
    rows = [row for row in document[key] if row["severity"] in ("warning", "critical")]
    return {
        (row["rule"], row["subject"])
        for row in rows
        if (row.get("waived_by") is not None) is waived
    }


def test_a_bad_cluster(
    bad: Bad, shell: CommandLine, throttles: None, caplog: pytest.LogCaptureFixture
) -> None:
    shell.configure(f"127.0.0.1:1,{bad.outside}", extra=ROOM_ON_DISKS)
    document = audited(shell)
    assert caplog.text.count("127.0.0.1:1 did not answer") == 1
    assert subjects(document) == {
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


def test_what_was_put_right_is_gone(
    bad: Bad, shell: CommandLine, admin: ClusterAdmin, throttles: None
) -> None:
    shell.configure(bad.kafka.bootstrap_string)
    audited(shell)
    take_back(admin)
    wait_until(
        lambda: ("leftover-throttle", "broker 1") in subjects(audited(shell), "gone"),
        "it is gone",
        timeout_seconds=SECONDS,
    )


def test_a_healthy_cluster(well: LocalKafka, shell: CommandLine) -> None:
    shell.configure(well.bootstrap_string, extra=ROOM_ON_DISKS + WAIVERS)
    document = audited(shell, code=0)
    assert subjects(document) == set()
    assert subjects(document, waived=True) == {
        *(("advertised-loopback", f"broker {broker_id}") for broker_id in (1, 2, 3)),
        ("min-insync-1", "cluster"),
        ("default-replication-factor", "default.replication.factor"),
    }
    assert "unknown" not in {row["severity"] for row in document["findings"]}
    assert document["unknown"] == {}
    assert shell.type("audit", "--cluster", "demo", "--fail-at", "unknown").code == 0
    assert set(document["not_applicable"].values()) == {
        "no history yet: it begins with the first snapshots",
        "the cluster has no consumer groups",
        "the brokers have no authorizer",
    }


def test_a_fourth_broker_that_is_idle_and_a_third_that_is_killed(
    well: LocalKafka, shell: CommandLine
) -> None:
    shell.configure(well.bootstrap_string, extra=ROOM_ON_DISKS + WAIVERS)
    well.add_broker(4, "d")
    idle = {("idle-broker", "broker 4")}
    wait_until(
        lambda: subjects(audited(shell)) == idle,
        "the idle broker, and nothing else, to be found",
        timeout_seconds=SECONDS,
    )
    well.kill_broker(3)
    # A voter is told to lag only once it has been silent for longer than a broker that is fenced.
    expected = {
        "broker-fenced",
        "bootstrap-dead-address",
        "partitions-under-replicated",
        "quorum-no-margin",
    }
    wait_until(
        lambda: expected <= {rule for rule, _ in subjects(audited(shell))},
        f"all of {sorted(expected)} are found",
        timeout_seconds=SECONDS,
    )
    assert "idle-broker" in audited(shell)["not_applicable"], "balance waits for broker 3"
