"""The inspection of real brokers, held against Kafka's own tools."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime

import pytest
from confluent_kafka import Consumer, Producer

from counterpoise.audit.auditing import find, resolve
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.rules.controllers import is_static
from counterpoise.kafka_admin import connect, reading
from counterpoise.kafka_admin.cluster_admin import ClusterAdmin
from counterpoise.kafka_admin.connection import ConnectionSettings
from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
from counterpoise.model.inspection import ConsumerGroup, Quorum
from counterpoise.model.kafka import ConfigSource, ConfigValue
from counterpoise.model.policy import ClusterPolicy
from counterpoise.snapshot import inspect, take_snapshot
from dev import local_kafka
from dev.local_kafka import LocalKafka, TopicSpec, brokers_in_racks, create_topics
from dev.local_processes import wait_until

QUORUM, TOPICS, CONFIGS = (
    "org.apache.kafka.tools.MetadataQuorumCommand",
    "org.apache.kafka.tools.TopicCommand",
    "kafka.admin.ConfigCommand",
)
SECONDS = 120.0


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    """Five brokers, the first three vote; the last two may go down without harm to the quorum."""
    properties = {"broker.session.timeout.ms": "6000", "auto.create.topics.enable": "false"}
    racks = brokers_in_racks("a", "b", "c", "d", "e")
    with local_kafka.running(tmp_path_factory.mktemp("kafka"), racks, properties) as cluster:
        topics = [
            TopicSpec("orders", [(1, 2, 3)] * 4, configs={"min.insync.replicas": "2"}),
            TopicSpec("spread", [(1, 4, 5)] * 2, configs={"min.insync.replicas": "2"}),
            TopicSpec("pairs", [(1, 4)]),
            TopicSpec("lonely", [(4,)]),
            TopicSpec("single", [(1, 2, 3)]),
            TopicSpec("capped", [(1,)], configs={"min.insync.replicas": "2"}),
        ]
        create_topics(cluster.bootstrap_string, topics)
        yield cluster


@pytest.fixture
def reader(kafka: LocalKafka) -> Iterator[ClusterAdmin]:
    first_three = ",".join(kafka.home(broker_id).address for broker_id in (1, 2, 3))
    settings = ConnectionSettings.parse({"bootstrap.servers": first_three})
    with closing(connect(settings)) as made:
        yield made


def snapshot_of(reader: ClusterAdmin) -> ClusterSnapshot:
    return take_snapshot(
        reader, cluster="demo", snapshot_id="demo-1", observed_at=datetime.now(UTC)
    )


def are_caught_up(quorum: Quorum | None) -> bool:
    """Return whether every node was caught up within the last 10 s, by the leader's clock."""
    if quorum is None or quorum.now_ms is None:
        return False
    return all(0 <= quorum.now_ms - (node.last_caught_up_ms or 0) < 10_000 for node in quorum.nodes)


def test_the_quorum_is_the_one_that_kafkas_own_tool_tells(
    kafka: LocalKafka, reader: ClusterAdmin
) -> None:
    wait_until(
        lambda: are_caught_up(reader.describe_quorum()), "every node to be caught up", SECONDS
    )
    before = reader.describe_quorum()
    text = kafka.tool(
        QUORUM, "--bootstrap-server", kafka.bootstrap_string, "describe", "--status"
    ).stdout
    after = reader.describe_quorum()
    assert before is not None
    assert after is not None
    inspection = dict(re.findall(r"^(\w+):\s+(.*)$", text, re.MULTILINE))
    assert (before.leader_id, before.leader_epoch) == (
        int(inspection["LeaderId"]),
        int(inspection["LeaderEpoch"]),
    )
    assert before.high_watermark <= int(inspection["HighWatermark"]) <= after.high_watermark
    assert [v.node_id for v in before.voters] == sorted(
        map(int, re.findall(r'"id": (\d+)', inspection["CurrentVoters"]))
    )
    assert [o.node_id for o in before.observers] == sorted(
        map(int, re.findall(r'"id": (\d+)', inspection["CurrentObservers"]))
    )
    # By the leader's own clock: nobody is far behind, and it is no other clock than everybody's
    # here.
    assert before.now_ms is not None
    assert abs(before.now_ms / 1000 - datetime.now(UTC).timestamp()) < 120
    assert are_caught_up(before)
    assert all(is_static(voter) for voter in before.voters)


def test_configs_features_and_versions_of_all_brokers_with_their_levels(
    kafka: LocalKafka, reader: ClusterAdmin
) -> None:
    change = (
        "--alter",
        "--entity-type",
        "brokers",
        "--entity-default",
        "--add-config",
        "log.cleaner.threads=2",
    )
    kafka.tool(CONFIGS, "--bootstrap-server", kafka.bootstrap_string, *change)
    wait_until(
        lambda: "log.cleaner.threads" in inspect(reader, snapshot_of(reader)).cluster_defaults,
        "the default",
        SECONDS,
    )
    inspection = inspect(reader, snapshot_of(reader), operator=reader)
    assert not inspection.unavailable
    assert sorted(inspection.broker_configs) == [1, 2, 3, 4, 5]
    assert inspection.broker_configs[4]["broker.rack"] == ConfigValue(
        "d", ConfigSource.STATIC_BROKER
    )
    assert inspection.broker_configs[4]["log.cleaner.threads"] == ConfigValue(
        "2", ConfigSource.DYNAMIC_DEFAULT_BROKER
    )
    assert inspection.broker_configs[4]["default.replication.factor"].source is ConfigSource.DEFAULT
    # A new cluster with eligible leader replicas (KIP-966) sets min.insync.replicas there by
    # itself.
    assert inspection.cluster_defaults == {
        key: ConfigValue(value, ConfigSource.DYNAMIC_DEFAULT_BROKER)
        for key, value in (("log.cleaner.threads", "2"), ("min.insync.replicas", "1"))
    }
    assert inspection.topic_configs["orders"]["min.insync.replicas"] == ConfigValue(
        "2", ConfigSource.DYNAMIC_TOPIC
    )
    assert inspection.topic_configs["single"]["min.insync.replicas"].value == "1"
    assert inspection.features[1] == inspection.features[5]
    level = inspection.features[1]["metadata.version"]
    assert level.finalized == inspection.versions[1].metadata_version
    assert level.finalized is not None
    assert level.lowest <= level.finalized <= level.highest
    assert (inspection.refused, inspection.reassignments, inspection.eligible_leaders) == (
        {},
        {},
        {},
    )


def test_a_topic_that_asks_for_more_in_sync_replicas_than_it_has_takes_records(
    kafka: LocalKafka,
) -> None:
    outcomes: list[object] = []
    producer = Producer({"bootstrap.servers": kafka.bootstrap_string, "acks": "all"})
    producer.produce("capped", b"x", on_delivery=lambda error, _: outcomes.append(error))
    assert producer.flush(SECONDS) == 0
    assert outcomes == [None]
    assert (
        "capped"
        in kafka.tool(
            TOPICS,
            "--bootstrap-server",
            kafka.bootstrap_string,
            "--describe",
            "--under-min-isr-partitions",
        ).stdout
    )


def groups_of(reader: ClusterAdmin) -> dict[str, ConsumerGroup]:
    return {group.group: group for some in reader.describe_groups().values() for group in some}


def test_the_topics_of_a_groups_members_are_told_by_either_protocol(
    kafka: LocalKafka, reader: ClusterAdmin
) -> None:
    def settled() -> dict[str, ConsumerGroup]:
        for consumer in consumers:
            consumer.poll(0.05)
        return groups_of(reader)

    def both_are_stable() -> bool:
        found = settled()
        return all(found.get(name) == expected[name] for name in expected)

    expected = {name: ConsumerGroup(name, "Stable", 2, ("single",)) for name in ("old", "new")}
    with ExitStack() as stack:
        consumers = []
        for name, protocol in (
            ("old", "classic"),
            ("old", "classic"),
            ("new", "consumer"),
            ("new", "consumer"),
        ):
            consumer = Consumer(
                {
                    "bootstrap.servers": kafka.bootstrap_string,
                    "group.id": name,
                    "group.protocol": protocol,
                }
            )
            stack.callback(consumer.close)
            consumer.subscribe(["single"])
            consumers.append(consumer)
        wait_until(both_are_stable, f"both groups to settle, now {settled()}", SECONDS)
    ended = {name: ConsumerGroup(name, "Empty", 0, ()) for name in expected}
    wait_until(
        lambda: groups_of(reader) == ended,
        "both groups to be empty",
        SECONDS,
    )


def test_partitions_in_trouble_are_those_that_kafkas_own_tool_lists(
    kafka: LocalKafka, reader: ClusterAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Last in this file: brokers 4 and 5 are down afterwards."""
    for broker_id, in_sync in ((5, (1, 4)), (4, (1,))):
        kafka.kill_broker(broker_id)
        kafka.wait_until_fenced(broker_id)  # at every broker: it leaves the ISR by the same change
        wait_until(
            lambda left=in_sync: _isr(reader, "spread") == {left},  # type: ignore[misc]
            f"broker {broker_id} to leave the ISR",
            SECONDS,
        )
    snapshot = snapshot_of(reader)
    inspection = inspect(reader, snapshot)
    policy = ClusterPolicy()
    facts = AuditFacts(
        datetime.now(UTC), snapshot, policy, resolve(policy.audit), inspection=inspection
    )
    columns = facts.partitions
    names = [
        f"{columns.topics[at]}-{number}"
        for at, number in zip(columns.topic_of, columns.numbers.tolist(), strict=True)
    ]

    def ours(chosen: object) -> set[str]:
        return {name for name, is_chosen in zip(names, chosen, strict=True) if is_chosen}  # type: ignore[call-overload]

    assert ours(columns.in_sync < columns.wanted) == _listed(kafka, "--under-replicated-partitions")
    # The tool compares with the config alone; the broker caps it at the factor, and takes records
    # (see below).
    assert ours(columns.in_sync < columns.needed) == _listed(
        kafka, "--under-min-isr-partitions"
    ) - {"capped-0"}
    assert ours(columns.in_sync == columns.needed) - {"capped-0"} == _listed(
        kafka, "--at-min-isr-partitions"
    )
    assert ours(columns.leaders < 0) == _listed(kafka, "--unavailable-partitions")

    found = find(facts)
    assert {
        ("broker-fenced", "broker 4"),
        ("broker-fenced", "broker 5"),
        ("partitions-under-replicated", "broker 4"),
        ("partitions-under-replicated", "broker 5"),
        ("partitions-under-min-isr", "topic spread"),
        ("partitions-offline", "topic lonely"),
        ("replication-factor-1", "topic lonely"),
        ("eligible-leaders", "cluster"),
        ("quorum-static", "quorum"),
    } <= {finding.key for finding in found}
    # With KIP-966 the ISR of a partition whose last replica died is empty, and only its eligible
    # leaders are reported.
    alone = TopicPartition("lonely", 0)
    assert inspection.eligible_leaders == dict.fromkeys(
        (alone, *(TopicPartition("spread", n) for n in range(2))), (4,)
    )
    assert "needed: broker 4" in next(
        one.summary for one in found if one.key == ("partitions-offline", "topic lonely")
    )
    monkeypatch.setattr(reading, "PARTITIONS_PER_PAGE", 1)
    every = [topic.topic for topic in reader.describe_topics()]
    assert reader.list_eligible_leaders([*every, "no-such-topic"]) == inspection.eligible_leaders
    assert sorted(inspection.broker_configs) == [1, 2, 3]
    assert inspection.unavailable == {}


def _isr(reader: ClusterAdmin, topic: str) -> set[tuple[int, ...]]:
    return {
        tuple(sorted(p.isr)) for found in reader.describe_topics([topic]) for p in found.partitions
    }


def _listed(kafka: LocalKafka, which: str) -> set[str]:
    text = kafka.tool(
        TOPICS, "--bootstrap-server", kafka.bootstrap_string, "--describe", which
    ).stdout
    return {
        f"{topic}-{number}"
        for topic, number in re.findall(r"Topic: (\S+)\s+Partition: (\d+)", text)
    }
