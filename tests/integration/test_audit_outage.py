"""An outage on real brokers: broker 2 is killed and a disk of broker 3 is lost, under 40 topics.

What an operator has to know first stands first; everything that only follows from it stands below.
"""

import json
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any, Final

import pytest

from counterpoise.model.cluster import TopicPartition
from dev import local_kafka
from dev.local_kafka import BrokerSpec, LocalKafka, TopicSpec, create_topics
from dev.local_processes import wait_until
from tests.support.command_line import CommandLine
from tests.support.connected import connected
from tests.support.faults import NOTICED_SOON
from tests.support.kafka_facts import ON_A_SHARED_DISK, ongoing_reassignments
from tests.support.pasting import Operator

SECONDS: Final = 180.0
CAUSES: Final = [("broker-fenced", "broker 2"), ("log-dir-offline", "broker 3")]
ONLY_FOLLOWS: Final = {
    "partitions-at-min-isr",
    "partitions-under-min-isr",
    "partitions-under-replicated",
    "quorum-no-margin",
    "quorum-voter-lags",
}
BALANCE: Final = {"leaders-uneven", "leaders-not-preferred", "topic-leaders-uneven"}
# What is true of all brokers on one machine.
POLICY: Final = f"""\
    policy:
      {ON_A_SHARED_DISK}
      audit:
        waivers:
          - {{rule: advertised-loopback, reason: clients are here}}
"""
SAFE: Final = {
    **NOTICED_SOON,
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "share.coordinator.state.topic.replication.factor": "3",
    "min.insync.replicas": "2",
}


def topics() -> list[TopicSpec]:
    """Return 40 topics of three partitions, over all sets of three of the four brokers."""
    orders = list(permutations((1, 2, 3, 4), 3))
    return [
        TopicSpec(f"events-{n:02}", [orders[(5 * n + p) % len(orders)] for p in range(3)])
        for n in range(40)
    ]


@pytest.fixture(scope="module")
def outage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    brokers = (
        BrokerSpec(1, "a"),
        BrokerSpec(2, "b"),
        BrokerSpec(3, "c", log_dirs=2),
        BrokerSpec(4, "d"),
    )
    with local_kafka.running(tmp_path_factory.mktemp("outage"), brokers, SAFE) as kafka:
        create_topics(kafka.bootstrap_string, topics())
        disk = kafka.home(3).log_directories[1]
        disk.rename(disk.with_name("lost"))  # at once: the broker goes on to write
        kafka.kill_broker(2)
        kafka.wait_until_fenced(2)
        yield kafka


@pytest.fixture
def shell(outage: LocalKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    made = CommandLine.in_folder(tmp_path, capsys)
    made.configure(outage.bootstrap_string, extra=POLICY)
    return made


def findings_of_the_outage(shell: CommandLine) -> dict[str, Any]:
    """Audit until the loss of the disk has been noticed, and is in all metadata."""
    documents: list[dict[str, Any]] = []

    def is_noticed() -> bool:
        typed = shell.type("audit", "--cluster", "demo", "--json")
        if typed.code == 3:  # leaders were changing
            return False
        documents.append(json.loads(typed.out))
        found = [row["rule"] for row in documents[-1]["findings"]]
        is_complete = found.count("partitions-under-min-isr") > 20
        return is_complete and {rule for rule, _ in CAUSES} <= set(found)

    wait_until(is_noticed, "the lost disk", timeout_seconds=SECONDS)
    return documents[-1]


def test_causes_stand_first_and_what_follows_stands_below_them(shell: CommandLine) -> None:
    document = findings_of_the_outage(shell)
    rows = document["findings"]
    assert [(row["rule"], row["subject"]) for row in rows[:2]] == CAUSES
    followers = [row for row in rows if row["rule"] in ONLY_FOLLOWS]
    causes = {(row["rule"], row["subject"], tuple(row["causes"])) for row in followers}
    assert not {row for row in causes if not row[2] or not set(row[2]) <= {"broker 2", "broker 3"}}
    assert not BALANCE & {row["rule"] for row in rows}
    assert document["open"]["critical"] == len(CAUSES)

    typed = shell.type("audit", "--cluster", "demo")
    lines = typed.out.splitlines()
    assert lines[0].startswith("critical  broker-fenced  broker 2 is not live; it holds ")
    heads = [line for line in lines if line.startswith("critical")]
    assert heads[1].startswith("critical  log-dir-offline  1 log dir of broker 3 is offline")
    (below_min_isr, *_) = (line for line in lines if "partitions-under-min-isr" in line)
    assert below_min_isr.startswith("  and so ") and " topics: " in below_min_isr
    assert len(lines) < 40, "a screen"


def test_a_reassignment_that_waits_for_a_dead_broker(
    outage: LocalKafka, shell: CommandLine, tmp_path: Path
) -> None:
    """Without a history, too: nothing is ever copied to it."""
    create_topics(outage.bootstrap_string, [TopicSpec("stuck", [(1, 4)])])
    with connected(outage) as admin:
        assert not admin.alter_reassignments({TopicPartition("stuck", 0): (1, 2)}).errors
    first = findings_of_the_outage(shell)["findings"][0]
    assert ", and 1 reassignment waits for it" in first["seen"]
    assert ongoing_reassignments(outage)
    Operator(outage, tmp_path / "operator").paste(first["fix"])
    assert not ongoing_reassignments(outage)


def test_a_saved_snapshot_is_audited_without_the_cluster(shell: CommandLine) -> None:
    """What the file has is found in it; the connections, which it does not have, do not apply."""
    live = findings_of_the_outage(shell)["findings"]
    file = shell.folder / "saved.json.gz"
    assert shell.type("snapshot", "--cluster", "demo", "--out", file).code == 0
    shell.configure("kafka.invalid:9092", extra=POLICY)
    typed = shell.type("audit", "--state", file, "--json", "--skip", "advertised-*")
    document = json.loads(typed.out)
    of_lags = {"quorum-voter-lags", "quorum-no-margin"}  # by when a voter was heard of last
    rules = {*ONLY_FOLLOWS, *(rule for rule, _ in CAUSES)} - of_lags
    saved = {(row["rule"], row["subject"]) for row in document["findings"]}
    assert {key for key in saved if key[0] in rules} == {
        (row["rule"], row["subject"]) for row in live if row["rule"] in rules
    }
    assert "bootstrap-dead-address" in document["not_applicable"]
    assert not document["unknown"]
