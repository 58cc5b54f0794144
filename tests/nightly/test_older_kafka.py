"""The main job by command line on Kafka 3.9, with controllers (KRaft) and with ZooKeeper: snapshot,
audit, doctor, plan, run, undo, and a broker that dies.

What came of it is read with Kafka's own tools.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from counterpoise.model.document import from_document_text
from dev import local_kafka
from dev.local_kafka import LocalKafka, TopicSpec, brokers_in_racks, create_topics, fill
from dev.local_processes import wait_until
from tests.support.command_line import CommandLine, Typed
from tests.support.kafka_facts import (
    ON_A_SHARED_DISK,
    ON_THIS_MACHINE,
    configs_by_tool,
    leaders_per_broker,
    ongoing_reassignments,
    placement,
    replicas_per_broker,
    throttle_lines,
)

OLDER = "3.9.2"
MB = 1_000_000
# What such a cluster does not have, beside ALSO.
LACKS = {
    "kraft": set(),
    "zookeeper": {"the cluster has no metadata quorum"},
}
ALSO = {
    "no history yet: it begins with the first snapshots",
    "the brokers have no authorizer",
    "the cluster has no consumer groups",
}
COPIED = 12  # replicas: a quarter of 48 for the fourth broker


@pytest.fixture(scope="module", params=["kraft", "zookeeper"])
def kafka(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalKafka]:
    """Three brokers, nearly all leaders on the first, and a fourth that holds nothing."""
    with local_kafka.running(
        tmp_path_factory.mktemp("kafka"),
        brokers_in_racks("a", "b", "c"),
        version=OLDER,
        with_zookeeper=request.param == "zookeeper",
    ) as cluster:
        topics = [
            TopicSpec("orders", [(1, 2, 3)] * 9 + [(2, 1, 3)] * 2, configs={"retention.ms": "-1"}),
            TopicSpec("returns", [(1, 3, 2)] * 5),
        ]
        create_topics(cluster.bootstrap_string, topics)
        fill(cluster.bootstrap_string, "orders", dict.fromkeys(range(11), 5 * MB))
        fill(cluster.bootstrap_string, "returns", dict.fromkeys(range(5), 2 * MB))
        cluster.add_broker(4, "d")
        yield cluster


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], kafka: LocalKafka) -> CommandLine:
    shell = CommandLine.in_folder(tmp_path, capsys)
    policy = f"{ON_A_SHARED_DISK}, {ON_THIS_MACHINE}, approval: {{requester_may_approve: true}}"
    shell.configure(kafka.bootstrap_string, extra=f"    policy: {{{policy}}}\n")
    return shell


def done(typed: Typed) -> str:
    assert typed.code == 0, typed.out + typed.err
    return typed.out


def test_a_snapshot_says_what_kafka_says(kafka: LocalKafka, shell: CommandLine) -> None:
    document = shell.folder / "snapshot.json"
    done(shell.type("snapshot", "--cluster", "demo", "--out", document))
    partitions = from_document_text(document.read_text()).partitions.to_pylist()
    described = {
        f"{row['topic']}-{row['partition']}": (tuple(row["replicas"]), row["leader"])
        for row in partitions
    }
    assert described == placement(kafka)


def test_the_audit_says_what_such_a_version_cannot_tell(
    kafka: LocalKafka, shell: CommandLine, request: pytest.FixtureRequest
) -> None:
    audited = shell.type("audit", "--cluster", "demo", "--json")
    assert audited.code in (0, 1), audited.err
    report = json.loads(audited.out)
    rules = {finding["rule"] for finding in report["findings"]}
    assert {"idle-broker", "leaders-uneven"} <= rules
    mode = request.node.callspec.params["kafka"]
    assert report["unknown"] == {}
    assert set(report["not_applicable"].values()) == ALSO | LACKS[mode]


def test_the_doctor_finds_nothing_that_stops_a_run(kafka: LocalKafka, shell: CommandLine) -> None:
    done(shell.type("doctor", "--cluster", "demo"))


def test_a_new_broker_gets_its_share_and_gives_it_back(
    kafka: LocalKafka, shell: CommandLine
) -> None:
    plan, before, configs_before = (
        shell.folder / "plan.json",
        placement(kafka),
        configs_by_tool(kafka),
    )
    words = ("plan", "--cluster", "demo", "--goal", "add-brokers", "--brokers", "4")
    figures = json.loads(done(shell.type(*words, "--out", plan, "--json")))
    assert figures["copied_replicas"] == COPIED
    done(shell.type("approve", plan, "--rate", "20MB/s", "--reason", "broker 4 joined"))
    done(shell.type("execute", plan))
    done(shell.type("verify", plan))
    leaders, replicas = leaders_per_broker(kafka), replicas_per_broker(kafka)
    assert max(leaders.values()) - min(leaders.values()) <= 1
    assert set(replicas.values()) == {COPIED}
    assert configs_by_tool(kafka) == configs_before
    undo = shell.folder / "undo.json"
    done(shell.type("undo", plan, "--out", undo, "--why", "as before"))
    done(shell.type("approve", undo, "--rate", "20MB/s", "--reason", "as before"))
    done(shell.type("execute", undo))
    assert placement(kafka) == before
    assert (throttle_lines(kafka), ongoing_reassignments(kafka)) == ([], "")


def test_a_broker_that_dies_is_seen_and_emptied_when_it_is_back(
    kafka: LocalKafka, shell: CommandLine
) -> None:
    kafka.kill_broker(3)
    kafka.wait_until_fenced(3)
    try:
        plan = shell.folder / "dead.json"
        words = ("plan", "--cluster", "demo", "--goal", "repair")
        done(shell.type(*words, "--out", plan))
        done(shell.type("approve", plan, "--rate", "50MB/s", "--reason", "broker 3 is dead"))
        done(shell.type("execute", plan))
        assert not any(3 in replicas for replicas, _ in placement(kafka).values())
        assert (throttle_lines(kafka), ongoing_reassignments(kafka)) == ([], "")
    finally:
        kafka.restart_broker(3)
    wait_until(lambda: 3 in kafka.live_brokers, "broker 3", 240)
    assert replicas_per_broker(kafka)[3] == 0


def test_with_an_old_inter_broker_protocol_no_topic_has_an_id(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with local_kafka.running(
        tmp_path / "kafka",
        brokers_in_racks("a", "b"),
        properties={"inter.broker.protocol.version": "2.7"},
        version=OLDER,
        with_zookeeper=True,
    ) as cluster:
        topics = [TopicSpec("orders", [(1,)] * 4), TopicSpec("returns", [(1,)] * 4)]
        create_topics(cluster.bootstrap_string, topics)
        shell = CommandLine.in_folder(tmp_path, capsys)
        policy = f"{ON_A_SHARED_DISK}, approval: {{requester_may_approve: true}}"
        shell.configure(cluster.bootstrap_string, extra=f"    policy: {{{policy}}}\n")
        audited = json.loads(shell.type("audit", "--cluster", "demo", "--json").out)
        (old,) = [r for r in audited["findings"] if r["rule"] == "features-below-possible"]
        assert old["seen"].endswith("is 2.7 on brokers 1, 2, which run 3.9")
        assert old["fix"][-1] == "inter.broker.protocol.version=3.9"
        plan = shell.folder / "plan.json"
        done(shell.type("plan", "--cluster", "demo", "--goal", "rebalance", "--out", plan))
        document = json.loads(plan.read_text())
        assert {move["topic_id"] for move in document["moves"]} == {""}
        assert any("no ids of 2 topics" in warning for warning in document["warnings"])
        done(shell.type("approve", plan, "--rate", "20MB/s", "--reason", "even"))
        done(shell.type("execute", plan))
        done(shell.type("verify", plan))
