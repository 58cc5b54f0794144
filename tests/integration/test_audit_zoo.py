"""Healthy clusters on real brokers: the audit finds nothing above info that nobody waived.

What is true of all brokers on one machine is waived: clients are here, and so is the disk. Those of
`tests/support/audit_zoo.py` are simulated.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from dev import local_kafka
from dev.local_kafka import (
    KAFKA_VERSION,
    BrokerSpec,
    LocalKafka,
    TopicSpec,
    brokers_in_racks,
    create_topics,
)
from tests.support.command_line import CommandLine
from tests.support.kafka_facts import ON_A_SHARED_DISK

MIN_ISR: Final = "min.insync.replicas"
LOOPBACK: Final = (
    "{rule: advertised-loopback, reason: clients are on this machine, subjects: ['broker ?']}"
)


def careful(factor: int, min_isr: int) -> dict[str, str]:
    return {
        "default.replication.factor": str(factor),
        "offsets.topic.replication.factor": str(factor),
        "transaction.state.log.replication.factor": str(factor),
        "share.coordinator.state.topic.replication.factor": str(factor),
        "auto.leader.rebalance.enable": "true",
        MIN_ISR: str(min_isr),
    }


@dataclass(frozen=True)
class Healthy:
    brokers: Sequence[BrokerSpec]
    properties: Mapping[str, str]
    topics: Sequence[TopicSpec]
    waivers: Sequence[str] = field(default=())
    version: str = KAFKA_VERSION  # 3.9 runs with ZooKeeper
    true_findings: Sequence[tuple[str, str]] = field(default=())  # rule and subject


IN_TURN: Final = [(1, 2, 3), (2, 3, 1), (3, 1, 2)]
NO_RACKS: Final = tuple(BrokerSpec(number, None) for number in (1, 2, 3))
# What another balancer keeps, with two replicas as it makes them.
SAMPLES: Final = TopicSpec("__KafkaCruiseControlPartitionMetricSamples", [(1, 2), (2, 3), (3, 1)])


def dedicated_controllers_without_racks() -> Healthy:
    """Three controllers and three brokers; brokers do not know the configs of controllers."""
    controllers = [BrokerSpec(number, None, is_only_controller=True) for number in (101, 102, 103)]
    return Healthy((*controllers, *NO_RACKS), careful(3, 2), (TopicSpec("orders.v1", IN_TURN),))


def two_log_dirs_and_a_balancer() -> Healthy:
    """Brokers that are controllers, too, in three racks; a scratch topic that is waived."""
    brokers = [BrokerSpec(number, rack, log_dirs=2) for number, rack in enumerate("abc", 1)]
    scratch = TopicSpec("scratch", [(1, 2), (2, 3), (3, 1)], configs={MIN_ISR: "1"})
    waiver = "{rule: replication-factor-low, reason: made anew, subjects: [topic scratch]}"
    topics = (TopicSpec("orders.v1", IN_TURN), scratch, SAMPLES)
    return Healthy(brokers, careful(3, 2), topics, (waiver,))


def hosted_with_zookeeper() -> Healthy:
    """Kafka 3.9, with the defaults of a hosted service."""
    topics = (TopicSpec("orders", IN_TURN),)
    return Healthy(brokers_in_racks("a", "b", "c"), careful(3, 2), topics, version="3.9.2")


def placed_by_kafka() -> Healthy:
    """Five brokers in racks of two, two and one, and topics as Kafka places them: the broker that
    is alone in its rack has a replica of each partition, and leads more than the others.
    """
    topics = [
        TopicSpec(f"events-{number}", partitions=6, replication_factor=3) for number in range(33)
    ]
    return Healthy(
        brokers_in_racks("a", "a", "b", "b", "c"),
        careful(3, 2),
        topics,
        true_findings=[("leaders-uneven", "cluster")],
    )


# `tests/support/audit_zoo.py` has twenty more in memory.
CLUSTERS: Final = (
    two_log_dirs_and_a_balancer,
    *(
        pytest.param(make, marks=pytest.mark.nightly)
        for make in (dedicated_controllers_without_racks, hosted_with_zookeeper, placed_by_kafka)
    ),
)


@pytest.fixture(params=CLUSTERS, ids=lambda make: make.__name__)
def running(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[LocalKafka, Healthy]]:
    healthy: Healthy = request.param()
    with local_kafka.running(
        tmp_path / "kafka",
        healthy.brokers,
        healthy.properties,
        version=healthy.version,
        with_zookeeper=healthy.version != KAFKA_VERSION,
    ) as kafka:
        create_topics(kafka.bootstrap_string, healthy.topics)
        yield kafka, healthy


def test_nothing_above_info_on_a_healthy_cluster(
    running: tuple[LocalKafka, Healthy], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kafka, healthy = running
    shell = CommandLine.in_folder(tmp_path, capsys)
    waivers = "".join(f"          - {waiver}\n" for waiver in (LOOPBACK, *healthy.waivers))
    policy = f"    policy:\n      {ON_A_SHARED_DISK}\n      audit:\n        waivers:\n{waivers}"
    shell.configure(kafka.bootstrap_string, extra=policy)
    typed = shell.type("audit", "--cluster", "demo", "--json", "--fail-at", "warning")
    seen = {
        (row["rule"], row["subject"]): row["seen"]
        for row in json.loads(typed.out)["findings"]
        if row["severity"] in ("warning", "critical") and row.get("waived_by") is None
    }
    assert seen.keys() == set(healthy.true_findings), seen
    assert typed.code == (1 if healthy.true_findings else 0)
