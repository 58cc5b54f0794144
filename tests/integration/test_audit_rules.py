"""Rules of the audit on real brokers, through the command: each fires, and does not one step away.

One cluster, of which a test changes one thing; the tests stand in the order in which it grows. A
second one has an authorizer and no racks.
"""

import json
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import AdminClient
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest
from kafka.record.default_records import DefaultRecordBatchBuilder

from counterpoise.kafka_admin.broker_client import BrokerClient
from counterpoise.kafka_admin.cluster_admin import ClusterAdmin
from counterpoise.kafka_admin.connection import ConnectionSettings
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import LEADER_RATE
from dev import local_kafka
from dev.local_kafka import (
    BrokerSpec,
    LocalKafka,
    TopicSpec,
    brokers_in_racks,
    create_topics,
    security,
)
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
    "default-retention-typo": ("log.retention.ms", "604800", "604800000"),
}
MIN_ISR: Final = "internal-min-isr"
TRANSACTIONS_MIN_ISR: Final = "transaction.state.log.min.isr"
SHARES_MIN_ISR: Final = "share.coordinator.state.topic.min.isr"
OF_TOPICS: Final = ("retention-typo", "messages-very-large", "segment-above-retention")
FEATURE_TOOL: Final = "org.apache.kafka.tools.FeatureCommand"
TOOL: Final = "org.apache.kafka.tools.TopicCommand"
PROPERTIES: Final = {
    **NOTICED_SOON,
    **dict.fromkeys((OFFSETS, TRANSACTIONS, SHARES, DEFAULT), "3"),
    **{key: bad for key, bad, _ in MISTAKES.values()},
    TRANSACTIONS_MIN_ISR: "3",
    SHARES_MIN_ISR: "2",
    LEADER_RATE: "1000000",
}
TEMPORARY: Final = "log-dirs-temporary"
OPEN: Final = "acl-for-everybody"
TIERED: Final = "tiered-storage-off"


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    """Two brokers with Kafka's own defaults, which are for three."""
    folder = tmp_path_factory.mktemp("rules")
    with local_kafka.running(folder, brokers_in_racks("a", "b"), PROPERTIES) as started:
        create_topics(started.bootstrap_string, [TopicSpec("orders", [(1, 2), (2, 1)])])
        yield started


@pytest.fixture(scope="module")
def open_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    """Two brokers without racks, which allow what no ACL names, and take records of transactions
    as before KIP-890. Tiered storage is on in the controller alone, which lets topics have it.
    """
    tiered = {"remote.log.storage.system.enable": "true"}
    nodes = [BrokerSpec(101, None, tiered, is_only_controller=True)]
    nodes += [BrokerSpec(broker_id, None) for broker_id in (1, 2)]
    properties = {
        **NOTICED_SOON,
        **security.authorizer(),
        "allow.everyone.if.no.acl.found": "true",
        "transaction.partition.verification.enable": "false",
    }
    with local_kafka.running(tmp_path_factory.mktemp("open"), nodes, properties) as started:
        topics = [TopicSpec("orders", [(1, 2), (2, 1)]), TopicSpec("scratch", [(1,)])]
        create_topics(started.bootstrap_string, topics)
        yield started


@pytest.fixture
def open_shell(
    open_kafka: LocalKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    folder = tmp_path / "open"
    folder.mkdir()
    shell = CommandLine.in_folder(folder, capsys)
    shell.configure(open_kafka.bootstrap_string)
    return shell


@pytest.fixture(scope="module")
def temporary(kafka: LocalKafka) -> Iterator[Path]:
    """A log dir for broker 3 right in /tmp, which is a link to its own folder."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        link = Path(f"{folder}-logs")
        link.symlink_to(kafka.directory / "broker-3/data-0")
        yield link
        link.unlink()


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
    create_topics(kafka.bootstrap_string, [TopicSpec("__consumer_offsets", [(1, 2)] * 50)])
    assert found_by(shell, ABOVE).keys() == {TRANSACTIONS, SHARES, DEFAULT}


def test_internal_topics_that_would_stop_with_one_broker(
    kafka: LocalKafka, shell: CommandLine
) -> None:
    found = found_by(shell, MIN_ISR)
    subject = f"config {TRANSACTIONS_MIN_ISR}"
    assert {one: row["seen"] for one, row in found.items()} == {
        subject: f"{TRANSACTIONS_MIN_ISR} is 3 with {TRANSACTIONS} 3 on brokers 1, 2: with one "
        "broker down transactions time out"
    }
    assert f"{TRANSACTIONS_MIN_ISR}=2" in found[subject]["fix"]
    create_topics(kafka.bootstrap_string, [TopicSpec("__transaction_state", [(1, 2)])])
    assert found_by(shell, MIN_ISR) == {}


def test_factors_that_three_brokers_can_give(
    kafka: LocalKafka, shell: CommandLine, temporary: Path
) -> None:
    """The log dir of broker 3 is a temporary folder; those of the others are deeper below."""
    assert found_by(shell, TEMPORARY) == {}
    good = {key: good for key, _, good in MISTAKES.values()}
    kafka.add_broker(3, "c", good | {"log.dirs": str(temporary)})
    assert found_by(shell, ABOVE) == {}
    found = found_by(shell, TEMPORARY)
    assert {subject: row["evidence"]["rows"] for subject, row in found.items()} == {
        "config log.dirs": [["3", str(temporary)]]
    }


def test_a_throttle_rate_in_server_properties(kafka: LocalKafka, shell: CommandLine) -> None:
    (row,) = found_by(shell, "throttle-rate-of-all-brokers").values()
    assert row["seen"] == (
        f"server.properties of brokers 1, 2, 3 sets {LEADER_RATE}, which has no effect there"
    )
    assert row["fix"] == ["# server.properties of brokers 1, 2, 3:", f"# remove {LEADER_RATE}"]


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
        "default-retention-typo": "log.retention.ms is 604800 on brokers 1, 2: records are kept "
        "for 10 min 5 s",
        "retention-typo": "topic typo sets retention.ms=604800: records are kept for 10 min 5 s",
        "messages-very-large": "topic typo sets max.message.bytes=100000000: a batch may have "
        "100 MB",
        "segment-above-retention": "topic tight keeps 100 MB of a partition in segments of 200 MB: "
        "it deletes nothing below that",
    }


def produce(
    kafka: LocalKafka, topic: str, count: int, value: bytes = b"x", at_ms: int | None = None
) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_string})
    for _ in range(count):
        producer.produce(topic, value, partition=0, timestamp=at_ms or 0)
    assert producer.flush(SECONDS) == 0


def commit(kafka: LocalKafka, group: str, topic: str, offset: int) -> None:
    """Commit an offset of partition 0 as a consumer does that chooses its partitions itself."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_string, "group.id": group})
    consumer.commit(offsets=[Partition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def member(stack: ExitStack, kafka: LocalKafka, group: str, topic: str) -> None:
    """Have a member of a group read a topic, which commits nothing."""
    settings = {"group.id": group, "enable.auto.commit": "false"}
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_string, **settings})
    stack.callback(consumer.close)
    consumer.subscribe([topic])
    wait_until(lambda: bool(consumer.poll(0.1) or consumer.assignment()), "a member", SECONDS)


def test_groups_that_lose_records(
    kafka: LocalKafka, shell: CommandLine, tmp_path: Path, admin: ClusterAdmin
) -> None:
    """Of 20 records the first 10 have used up most of an hour; five of ten were deleted."""
    hour, million = {"retention.ms": "3600000"}, {"retention.bytes": "1048576"}
    topics = [TopicSpec("aged", [(1,)], configs=hour), TopicSpec("sized", [(2,)], configs=million)]
    create_topics(kafka.bootstrap_string, [*topics, TopicSpec("purged", [(1,)])])
    fifty_minutes_ago = int(time.time() * 1000) - 50 * 60_000
    produce(kafka, "aged", 10, at_ms=fifty_minutes_ago)
    produce(kafka, "aged", 10)
    produce(kafka, "sized", 100, b"x" * 9000)
    produce(kafka, "purged", 10)
    client = AdminClient({"bootstrap.servers": kafka.bootstrap_string, "log_level": 0})
    (deleted,) = client.delete_records([Partition("purged", 0, 5)]).values()
    deleted.result()
    positions = {
        "aged": {"behind": 8, "nearly-behind": 9},
        "sized": {"large": 0, "smaller": 50},
        "purged": {"late": 3, "a-marker": 4, "abandoned": 3, "left": 3},
    }
    for topic, offsets in positions.items():
        for group, offset in offsets.items():
            commit(kafka, group, topic, offset)
    operator = Operator(kafka, tmp_path / "operator")
    with ExitStack() as stack:
        member(stack, kafka, "late", "purged")
        member(stack, kafka, "left", "orders")
        saved = shell.folder / "saved.json.gz"
        assert shell.type("snapshot", "--cluster", "demo", "--out", saved).code == 0
        found = [row for row in audited(shell) if row["rule"].startswith("group-")]
        shown = operator.paste(found_by(shell, "group-lost-records")["group late"]["fix"])
    assert re.search(r"late\s+purged\s+0\s+3\s+10\s+7\s+rdkafka", shown), shown
    assert {(row["rule"], row["subject"]): row["seen"] for row in found} == {
        ("group-near-retention", "group behind"): "group behind has not read 12 records of topic "
        "aged, and retention is about to delete the first of them; it has no members",
        ("group-near-retention", "group large"): "group large has not read 100 records of topic "
        "sized, and retention is about to delete the first of them; it has no members",
        ("group-lost-records", "group late"): "group late has lost 2 records of topic purged: they "
        "were deleted before it read them",
        ("group-abandoned", "group abandoned"): "group abandoned has no members, and 2 records of "
        "topic purged were deleted before it read them",
    }
    of_file = shell.type("audit", "--state", saved, "--rule", "group-*", "--json")
    assert [row["seen"] for row in json.loads(of_file.out)["findings"]] == [
        row["seen"] for row in found
    ]
    for row in found:
        if row["rule"] != "group-lost-records":
            operator.paste(row["fix"])
    left = {"group late", "group left"}  # without their members
    assert found_by(shell, "group-abandoned").keys() == left
    assert found_by(shell, "group-near-retention") == {}


def test_quotas_for_everybody(kafka: LocalKafka, shell: CommandLine, tmp_path: Path) -> None:
    rule = "client-quota-tiny"
    operator = Operator(kafka, tmp_path / "operator")
    alter = 'kafka-configs.sh --bootstrap-server "$BOOTSTRAP" --alter --add-config '
    users, clients = "--entity-type users ", "--entity-type clients "
    everybody, alice = "--entity-default ", "--entity-name alice "
    tiny, enough = "producer_byte_rate=1024 ", "consumer_byte_rate=16384 "
    operator.paste(
        [
            alter + "producer_byte_rate=1024,consumer_byte_rate=16384 " + users + everybody,
            alter + "request_percentage=0.5 " + users + everybody + clients + everybody,
            alter + enough + clients + everybody,
            alter + tiny + users + alice,
        ]
    )
    found: dict[str, dict[str, Any]] = {}

    def are_found(count: int) -> bool:
        found.clear()
        found.update(found_by(shell, rule))
        return len(found) == count

    wait_until(lambda: are_found(2), "the quotas", SECONDS)
    assert {subject: row["seen"] for subject, row in found.items()} == {
        "quota of every user": "every user without another quota may write 1.0 kB/s on a broker",
        "quota of every client id of every user": "every client id of every user without another "
        "quota may use 0.5 % of a thread on a broker",
    }
    for row in list(found.values()):
        operator.paste(row["fix"])
    wait_until(lambda: are_found(0), "no quota", SECONDS)


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


# -- without racks, with an authorizer


def test_brokers_that_allow_everybody_everything(
    shell: CommandLine, open_shell: CommandLine
) -> None:
    found = found_by(shell, "no-authorizer")
    assert set(found) == {"config authorizer.class.name"}
    assert found_by(open_shell, "no-authorizer") == {}
    assert found_by(shell, "acl-missing-allows") == {}
    (found_open,) = found_by(open_shell, "acl-missing-allows").values()
    assert found_open["severity"] == "info"
    assert "is set on brokers 1, 2, which do not show its value" in found_open["seen"]


def test_brokers_without_racks_that_share_a_host(
    shell: CommandLine, open_shell: CommandLine
) -> None:
    assert found_by(shell, "replicas-on-one-host") == {}, "racks say where replicas are"
    found = found_by(open_shell, "replicas-on-one-host")
    assert {subject: row["severity"] for subject, row in found.items()} == {
        "host 127.0.0.1": "info"
    }
    assert [row[:2] for row in found["host 127.0.0.1"]["evidence"]["rows"]] == [
        ["orders", "0"],
        ["orders", "1"],
    ]


def test_an_acl_for_everybody_goes_with_the_command_that_is_printed(
    open_kafka: LocalKafka, open_shell: CommandLine, tmp_path: Path
) -> None:
    """Without an authorizer the rule is not applicable: `test_audit_access.py`."""
    bootstrap = open_kafka.bootstrap_string
    before = {(row["rule"], row["subject"]) for row in audited(open_shell)}
    assert OPEN not in {rule for rule, _ in before}
    for principal, operation, resource_type in (
        ("User:*", "Write", "topic"),
        ("User:*", "Alter", "cluster"),
        ("User:*", "Read", "topic"),
        ("User:known", "All", "topic"),
    ):
        security.allow(bootstrap, principal, operation, resource_type)
    found: dict[str, dict[str, Any]] = {}

    def is_found() -> bool:
        found.update(found_by(open_shell, OPEN))
        return len(found["principal User:*"]["evidence"]["rows"]) > 1 if found else False

    wait_until(is_found, "the ACLs for everybody", SECONDS)
    assert {subject: row["seen"] for subject, row in found.items()} == {
        "principal User:*": "every client may Alter on cluster kafka-cluster and Write on topic *, "
        "by an ACL for User:*"
    }
    Operator(open_kafka, tmp_path / "operator").paste(found["principal User:*"]["fix"])
    wait_until(lambda: not found_by(open_shell, OPEN), "no ACL for everybody", SECONDS)
    assert {(row["rule"], row["subject"]) for row in audited(open_shell)} == before


def test_tiered_storage_of_a_topic_that_brokers_have_switched_off(
    open_kafka: LocalKafka, open_shell: CommandLine
) -> None:
    assert found_by(open_shell, TIERED) == {}
    tiered = TopicSpec("tiered", [(1, 2)], configs={"remote.storage.enable": "true"})
    create_topics(open_kafka.bootstrap_string, [tiered])
    (found,) = found_by(open_shell, TIERED).values()
    assert found["seen"] == "1 topic has tiered storage, which is off in brokers 1, 2: tiered"
    log = open_kafka.home(1).server_log.read_text()
    assert "Error updating topic tiered with new configuration" in log


def write_without_a_coordinator(kafka: LocalKafka, topic: str, at_ms: int) -> None:
    """Write a record of a transaction, of which no coordinator was told, to partition 0."""
    settings = ConnectionSettings.parse({"bootstrap.servers": kafka.bootstrap_string})
    topic_type = ProduceRequest.TopicProduceData
    with closing(BrokerClient(settings, request_timeout_seconds=SECONDS)) as client:
        asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        one = client.read(asked, "a producer id", 1)
        while one.error_code:  # the broker has no block of them yet
            one = client.read(asked, "a producer id", 1)
        batch = DefaultRecordBatchBuilder(2, 0, True, one.producer_id, one.producer_epoch, 0, 1000)
        batch.append(0, at_ms, None, b"x", [])
        partition = topic_type.PartitionProduceData(index=0, records=bytes(batch.build()))
        request = ProduceRequest(
            transactional_id="lost",
            acks=-1,
            timeout_ms=10_000,
            topic_data=[topic_type(name=topic, partition_data=[partition])],
            max_version=11,  # with later ones the leader tells the coordinator
        )
        response = client.read(request, "the record", 1)
        assert response.responses[0].partition_responses[0].error_code == 0


def test_a_transaction_that_no_coordinator_will_end(
    open_kafka: LocalKafka, open_shell: CommandLine, tmp_path: Path
) -> None:
    """The other one is as old, and its coordinator will end it."""

    def found_now() -> list[Any]:
        named = ("audit", "--cluster", "demo", "--rule", "transactions-hanging", "--json")
        rows: list[Any] = json.loads(open_shell.type(*named).out)["findings"]
        return rows

    create_topics(
        open_kafka.bootstrap_string, [TopicSpec(name, [(1,)]) for name in ("sold", "paid")]
    )
    settings = {"transactional.id": "shop", "transaction.timeout.ms": 600_000}
    producer = Producer({"bootstrap.servers": open_kafka.bootstrap_string, **settings})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    an_hour_ago = int(time.time() * 1000) - 3_600_000
    producer.produce("paid", b"x", partition=0, timestamp=an_hour_ago)
    assert producer.flush(SECONDS) == 0
    wait_until(lambda: not found_now(), "all coordinators", SECONDS)
    write_without_a_coordinator(open_kafka, "sold", an_hour_ago)
    (found,) = found_now()
    assert (found["subject"], found["severity"]) == ("topic sold", "warning")
    assert found["seen"] == (
        "topic sold has 1 hanging transaction, where consumers with read_committed stop"
    )
    Operator(open_kafka, tmp_path / "operator").paste(found["fix"])
    assert found_now() == []
    producer.abort_transaction(SECONDS)
