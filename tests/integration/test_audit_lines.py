"""Lines that the audit proposes, pasted on real brokers: each does what its finding needs.

A sandbox cluster has many things wrong. Everything that is proposed for them is pasted as it
stands; afterwards those findings are gone, and no other has come.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from counterpoise.audit.commands import add_config, add_partitions, describe_topic
from counterpoise.kafka_admin.cluster_admin import ClusterAdmin
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
)
from counterpoise.model.kafka import ConfigResourceType as Type
from counterpoise.model.subjects import SERVER_PROPERTIES
from dev import local_kafka
from dev.local_kafka import BrokerSpec, LocalKafka, TopicSpec, create_topics, fill
from dev.local_processes import ChildFailedError, wait_until
from tests.support.audit_lines import BY_COMMANDS, IN_FILES
from tests.support.command_line import CommandLine
from tests.support.connected import connected
from tests.support.faults import NOTICED_SOON
from tests.support.kafka_facts import ON_A_SHARED_DISK
from tests.support.pasting import Operator

SECONDS: Final = 240.0
UNCLEAN: Final = "unclean.leader.election.enable"
MIN_ISR: Final = "min.insync.replicas"
ILL: Final = {
    **NOTICED_SOON,
    "default.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "5",
    "auto.create.topics.enable": "true",
    "controlled.shutdown.enable": "false",
    "log.flush.interval.messages": "1",
    "log.retention.ms": "604800",
    "offsets.retention.minutes": "60",
    "share.coordinator.state.topic.min.isr": "3",
    UNCLEAN: "true",
}
POLICY: Final = f"""\
    policy:
      {ON_A_SHARED_DISK}
      audit:
        thresholds: {{reassignment-old: {{hours: 0}}, leaders-not-preferred: {{most_percent: 1}}}}
"""
THREE: Final = [(1, 2, 3), (2, 3, 1), (3, 1, 2)]
TOPICS: Final = (
    TopicSpec("orders.v1", THREE),
    TopicSpec("orders-v1", THREE),
    TopicSpec("pairs", [(1, 2), (2, 3)]),
    TopicSpec("strict", THREE, configs={MIN_ISR: "3"}),
    TopicSpec("own", THREE, configs={MIN_ISR: "1", UNCLEAN: "true"}),
    TopicSpec("typo", THREE, configs={"retention.ms": "604800", "max.message.bytes": "100000000"}),
    TopicSpec("tight", THREE, configs={"retention.bytes": "100000000"}),
    TopicSpec("moving", [(1, 2)]),
)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    brokers = (
        BrokerSpec(1, "a"),
        BrokerSpec(2, "b", {FOLLOWER_RATE: "1000000"}),
        BrokerSpec(3, "c", {"message.max.bytes": "2000000"}),
    )
    with local_kafka.running(tmp_path_factory.mktemp("ill"), brokers, ILL) as started:
        create_topics(started.bootstrap_string, TOPICS)
        yield started


@pytest.fixture
def admin(kafka: LocalKafka) -> Iterator[ClusterAdmin]:
    with connected(kafka) as made:
        yield made


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine.in_folder(tmp_path, capsys)


def audited(shell: CommandLine) -> dict[tuple[str, str], dict[str, Any]]:
    typed = shell.type("audit", "--cluster", "demo", "--json", "--fail-at", "critical")
    assert typed.code in (0, 1), typed.err
    return {(row["rule"], row["subject"]): row for row in json.loads(typed.out)["findings"]}


def audited_until(
    shell: CommandLine, is_enough: Callable[[set[str]], bool], what: str
) -> dict[tuple[str, str], dict[str, Any]]:
    """Audit until the rules that find something are enough: a broker may learn of it late."""
    found: dict[tuple[str, str], dict[str, Any]] = {}

    def are_enough() -> bool:
        found.clear()
        found.update(audited(shell))
        return is_enough({rule for rule, _ in found})

    wait_until(are_enough, what, timeout_seconds=SECONDS)
    return found


def make_ill(kafka: LocalKafka, admin: ClusterAdmin, operator: Operator) -> None:
    """What happens to clusters: throttles are left, configs set by hand, a broker is lost."""
    kafka.add_broker(4, "a", ILL)
    fill(kafka.bootstrap_string, "moving", {0: 30_000_000})
    broker, moving = ConfigResource(Type.BROKER, "3"), ConfigResource(Type.TOPIC, "moving")
    log_dir = str(kafka.home(1).log_directories[0])
    values = (
        (ConfigResource(Type.BROKER, "1"), FOLLOWER_RATE, "1000000"),
        (ConfigResource(Type.TOPIC, "orders.v1"), LEADER_REPLICAS, "0:1"),
        (ConfigResource(Type.BROKER, "2"), "log.cleaner.threads", "2"),
        (ConfigResource(Type.BROKER, "1"), "cordoned.log.dirs", log_dir),
        (broker, FOLLOWER_RATE, "1"),
        (moving, FOLLOWER_REPLICAS, "0:3"),
    )
    changes = [ConfigChange(one, key, ConfigOperation.SET, value) for one, key, value in values]
    assert not admin.alter_configs(changes).errors
    operator.paste([add_config("brokers", None, {LEADER_RATE: 5_000_000})])
    kafka.kill_broker(4)
    kafka.wait_until_fenced(4)


def test_what_is_pasted_mends_what_was_found(
    kafka: LocalKafka, admin: ClusterAdmin, shell: CommandLine, tmp_path: Path
) -> None:
    operator = Operator(kafka, tmp_path / "operator", shell.environment)
    make_ill(kafka, admin, operator)
    shell.configure(kafka.bootstrap_string, extra=POLICY)
    found = audited_until(shell, set(IN_FILES).issubset, "all that is wrong in files")
    for (rule, subject), finding in found.items():
        if rule in IN_FILES or subject == SERVER_PROPERTIES:
            operator.paste(finding["fix"])
    operator.restart_edited_brokers()
    assert not admin.alter_reassignments({TopicPartition("moving", 0): (3, 2)}).errors
    assert shell.type("snapshot", "--cluster", "demo").code == 0
    second = audited_until(
        shell,
        lambda rules: rules >= set(BY_COMMANDS) and not rules & set(IN_FILES),
        "what is wrong in files to be mended, and the rest to be found",
    )
    # A move under way first: an election of its preferred leader would be refused.
    for (rule, _), finding in sorted(second.items(), reverse=True):
        if rule in BY_COMMANDS and finding["severity"] != "unknown":
            operator.paste(finding["fix"])
    remaining = set(BY_COMMANDS)
    subjects: set[tuple[str, str]] = set()
    new: set[tuple[str, str]] = set()

    def are_gone() -> bool:
        last = audited(shell)
        for (rule, _), finding in last.items():
            if rule == "leftover-throttle":  # of the move that was cancelled
                operator.paste(finding["fix"])
        remaining.intersection_update({rule for rule, _ in last})
        subjects.clear()
        subjects.update(key for key in last if key[0] in remaining)
        new.clear()
        new.update(last.keys() - found.keys() - second.keys())
        return not remaining and not new

    try:
        wait_until(are_gone, "what was pasted for is gone", timeout_seconds=SECONDS)
    except ChildFailedError:
        pytest.fail(f"still found: {subjects}; what was pasted brought {new}")


def test_a_dot_in_a_name_is_a_dot(kafka: LocalKafka, tmp_path: Path) -> None:
    operator = Operator(kafka, tmp_path / "operator")
    operator.paste(add_partitions("orders.v1", 4))
    shown = operator.paste([describe_topic("orders.v1"), describe_topic("orders-v1")])
    counts = dict(re.findall(r"Topic: (\S+)\s.*PartitionCount: (\d+)", shown))
    assert counts == {"orders.v1": "4", "orders-v1": "3"}
