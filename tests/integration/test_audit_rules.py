"""Rules of the audit on real brokers, through the command: each fires, and does not one step away.

One cluster, of which a test changes one thing; the tests stand in the order in which it grows.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.admin import AdminClient

from counterpoise.kafka_admin.cluster_admin import ClusterAdmin
from counterpoise.model.cluster import TopicPartition
from dev import local_kafka
from dev.local_kafka import LocalKafka, TopicSpec, brokers_in_racks, create_topics
from dev.local_processes import wait_until
from tests.support.command_line import CommandLine
from tests.support.connected import connected
from tests.support.faults import NOTICED_SOON
from tests.support.kafka_facts import ON_A_SHARED_DISK
from tests.support.pasting import Operator

SECONDS: Final = 120.0
OFFSETS: Final = "offsets.topic.replication.factor"
TRANSACTIONS: Final = "transaction.state.log.replication.factor"
SHARES: Final = "share.coordinator.state.topic.replication.factor"
DEFAULT: Final = "default.replication.factor"
ABOVE: Final = "replication-factor-above-brokers"
FEATURES: Final = "features-below-possible"
# By rule: a key of brokers, its bad value, and a good one.
MISTAKES: Final = {
    "controlled-shutdown-off": ("controlled.shutdown.enable", "false", "true"),
    "offsets-retention-short": ("offsets.retention.minutes", "60", "1440"),
    "flush-each-record": ("log.flush.interval.messages", "1", "1000"),
}
OF_TOPICS: Final = ("retention-typo", "messages-very-large", "segment-above-retention")
FEATURE_TOOL: Final = "org.apache.kafka.tools.FeatureCommand"
TOOL: Final = "org.apache.kafka.tools.TopicCommand"
PROPERTIES: Final = {
    **NOTICED_SOON,
    **dict.fromkeys((OFFSETS, TRANSACTIONS, SHARES, DEFAULT), "3"),
    **{key: bad for key, bad, _ in MISTAKES.values()},
}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    """Two brokers with Kafka's own defaults, which are for three."""
    folder = tmp_path_factory.mktemp("rules")
    with local_kafka.running(folder, brokers_in_racks("a", "b"), PROPERTIES) as started:
        create_topics(started.bootstrap_string, [TopicSpec("orders", [(1, 2), (2, 1)])])
        yield started


@pytest.fixture
def admin(kafka: LocalKafka) -> Iterator[ClusterAdmin]:
    with connected(kafka) as made:
        yield made


@pytest.fixture
def shell(kafka: LocalKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    shell = CommandLine.in_folder(tmp_path, capsys)
    shell.configure(kafka.bootstrap_string, extra=f"    policy:\n      {ON_A_SHARED_DISK}\n")
    return shell


def audited(shell: CommandLine) -> list[dict[str, Any]]:
    typed = shell.type("audit", "--cluster", "demo", "--json")
    assert typed.code in (0, 1), typed.err
    rows: list[dict[str, Any]] = json.loads(typed.out)["findings"]
    return rows


def found_by(shell: CommandLine, rule: str) -> dict[str, dict[str, Any]]:
    """Return what a rule finds, by subject."""
    return {row["subject"]: row for row in audited(shell) if row["rule"] == rule}


def topics_of(kafka: LocalKafka) -> set[str]:
    client = AdminClient({"bootstrap.servers": kafka.bootstrap_string, "log_level": 0})
    return set(client.list_topics(timeout=SECONDS).topics)


def test_factors_that_two_brokers_cannot_give(kafka: LocalKafka, shell: CommandLine) -> None:
    found = found_by(shell, ABOVE)
    assert {subject: row["severity"] for subject, row in found.items()} == {
        OFFSETS: "critical",
        TRANSACTIONS: "critical",
        SHARES: "critical",
        DEFAULT: "warning",
    }
    assert found[OFFSETS]["seen"] == (
        f"{OFFSETS} is 3, and the cluster has 2 brokers: consumer groups get no assignment"
    )
    assert f"{OFFSETS}=2" in found[OFFSETS]["fix"]
    assert topics_of(kafka) == {"orders"}, "an audit creates no internal topic"


def test_the_factor_of_an_internal_topic_that_exists_decides_nothing(
    kafka: LocalKafka, shell: CommandLine
) -> None:
    create_topics(kafka.bootstrap_string, [TopicSpec("__consumer_offsets", [(1, 2)])])
    assert found_by(shell, ABOVE).keys() == {TRANSACTIONS, SHARES, DEFAULT}


def test_factors_that_three_brokers_can_give(kafka: LocalKafka, shell: CommandLine) -> None:
    kafka.add_broker(3, "c", {key: good for key, _, good in MISTAKES.values()})
    assert found_by(shell, ABOVE) == {}


def test_an_upgrade_is_finished_by_the_commands_that_are_printed(
    kafka: LocalKafka, shell: CommandLine, tmp_path: Path
) -> None:
    """Brokers do not list a feature that is at level 0."""
    assert found_by(shell, FEATURES) == {}
    lowered = ("eligible.leader.replicas.version=0", "share.version=0")
    options = [word for feature in lowered for word in ("--feature", feature)]
    where = ("--bootstrap-server", kafka.bootstrap_string)
    kafka.tool(FEATURE_TOOL, *where, "downgrade", *options)
    found: dict[str, dict[str, Any]] = {}

    def are_at(level: int) -> bool:
        found.clear()
        found.update(found_by(shell, FEATURES))
        return bool(found) is (level == 0)

    wait_until(lambda: are_at(0), "the lower levels", SECONDS)
    assert found["cluster"]["evidence"]["rows"] == [
        ["eligible.leader.replicas.version", "0", "1"],
        ["share.version", "0", "1"],
    ]
    Operator(kafka, tmp_path / "operator").paste(found["cluster"]["fix"])
    wait_until(lambda: are_at(1), "the higher levels", SECONDS)


def test_values_that_look_like_a_mistake(kafka: LocalKafka, shell: CommandLine) -> None:
    """Brokers 1 and 2 have them, and broker 3 has not; of two topics one."""
    typo, meant = {"retention.ms": "604800"}, {"retention.ms": "604800000"}
    large, small = {"max.message.bytes": "100000000"}, {"max.message.bytes": "1000000"}
    topics = [TopicSpec("typo", [(1,)], configs=typo | large)]
    topics.append(TopicSpec("meant", [(1,)], configs=meant | small))
    for name, segment in (("tight", "200000000"), ("wide", "100000000")):
        sizes = {"retention.bytes": "100000000", "segment.bytes": segment}
        topics.append(TopicSpec(name, [(1,)], configs=sizes))
    create_topics(kafka.bootstrap_string, topics)
    found = {row["rule"]: row for row in audited(shell) if row["rule"] in {*MISTAKES, *OF_TOPICS}}
    seen = {rule: row["seen"] for rule, row in found.items()}
    assert seen == {
        "controlled-shutdown-off": "controlled.shutdown.enable is false on brokers 1, 2: each stop "
        "is like a crash to clients",
        "offsets-retention-short": "offsets.retention.minutes is 60 on brokers 1, 2: a group that "
        "is stopped for 1 h loses its offsets",
        "flush-each-record": "log.flush.interval.messages is 1 on brokers 1, 2: each record waits "
        "for the disk",
        "retention-typo": "topic typo sets retention.ms=604800: records are kept for 10 min 5 s",
        "messages-very-large": "topic typo sets max.message.bytes=100000000: a batch may have "
        "100 MB",
        "segment-above-retention": "topic tight keeps 100 MB of a partition in segments of 200 MB: "
        "it deletes nothing below that",
    }


def test_eligible_leaders_are_replicas(
    kafka: LocalKafka, admin: ClusterAdmin, shell: CommandLine
) -> None:
    """Kafka goes on to list replicas that left a partition with its lower replication factor."""
    configs = {"min.insync.replicas": "2"}
    topics = [
        TopicSpec("lowered", [(1, 2, 3)], configs=configs),
        TopicSpec("strict", [(1, 3)], configs=configs),
    ]
    create_topics(kafka.bootstrap_string, topics)
    target = {TopicPartition("lowered", 0): (1,)}
    assert not admin.alter_reassignments(target, may_change_replication_factor=True).errors
    where = ("--bootstrap-server", kafka.bootstrap_string, "--describe", "--topic", "lowered")
    wait_until(lambda: "Elr: 2,3" in kafka.tool(TOOL, *where).stdout, "Kafka's list", SECONDS)
    assert found_by(shell, "eligible-leaders") == {}
    kafka.kill_broker(3)
    kafka.wait_until_fenced(3)
    found: dict[str, dict[str, Any]] = {}

    def is_found() -> bool:
        found.update(found_by(shell, "eligible-leaders"))
        return bool(found)

    wait_until(is_found, "broker 3 to be an eligible leader", SECONDS)
    assert found["cluster"]["evidence"]["rows"] == [["strict", "0", "3"]]
