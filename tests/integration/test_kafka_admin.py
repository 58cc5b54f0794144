"""The cluster admin against real brokers."""

import base64
import json
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime

import pytest
from confluent_kafka.admin import AdminClient

from counterpoise.errors import BrokerUnresponsiveError
from counterpoise.kafka_admin import connect
from counterpoise.kafka_admin.broker_client import BrokerClient
from counterpoise.kafka_admin.cluster_admin import ClusterAdmin
from counterpoise.kafka_admin.connection import ConnectionSettings
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    ConfigValue,
    Reassignment,
)
from counterpoise.snapshot import take_snapshot
from dev import local_kafka
from dev.local_kafka import BrokerSpec, LocalKafka, TopicSpec, create_topics, fill
from dev.local_processes import free_ports, wait_until
from tests.support.patience import PATIENCE_SECONDS

MB = 1_000_000
SECONDS = 120.0
# For calls that a frozen broker holds up; the others have to answer within it.
HASTY_SECONDS = PATIENCE_SECONDS
LEADER_LIST, FOLLOWER_LIST = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
LEADER_RATE, FOLLOWER_RATE = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
)
THROTTLE_KEYS = (LEADER_LIST, FOLLOWER_LIST, LEADER_RATE, FOLLOWER_RATE)
SET, DELETE, APPEND, SUBTRACT = (
    ConfigOperation(word) for word in ("SET", "DELETE", "APPEND", "SUBTRACT")
)
TopicTool, ConfigTool = "org.apache.kafka.tools.TopicCommand", "kafka.admin.ConfigCommand"


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    """Four brokers, the fourth with two log dirs; all leaders of `orders` on broker 1; topics
    appear when requested.
    """
    brokers = [BrokerSpec(n, rack) for n, rack in ((1, "a"), (2, "b"), (3, "c"))]
    brokers.append(BrokerSpec(4, "d", log_dirs=2))
    properties = {"auto.create.topics.enable": "true"}
    with local_kafka.running(tmp_path_factory.mktemp("kafka"), brokers, properties) as cluster:
        topics = [
            TopicSpec("orders", [(1, 2, 3)] * 6, configs={"min.insync.replicas": "2"}),
            TopicSpec("moves", [(1, 2, 3)] * 2),
            TopicSpec("pairs", [(1, 2)]),
            TopicSpec("lonely", [(4,)]),
        ]
        create_topics(cluster.bootstrap_string, topics)
        fill(cluster.bootstrap_string, "orders", {0: 4 * MB, 1: MB})
        fill(cluster.bootstrap_string, "moves", {0: 12 * MB, 1: MB})
        fill(cluster.bootstrap_string, "pairs", {0: 4 * MB})
        yield cluster


@pytest.fixture
def admin(kafka: LocalKafka) -> Iterator[ClusterAdmin]:
    with closing(connect(settings(kafka.bootstrap_string))) as made:
        yield made


def settings(bootstrap: str, **extra: str) -> ConnectionSettings:
    given = {key.replace("_", "."): value for key, value in extra.items()}
    return ConnectionSettings.parse({"bootstrap.servers": bootstrap} | given)


def topic(name: str) -> ConfigResource:
    return ConfigResource(ConfigResourceType.TOPIC, name)


def broker(broker_id: int) -> ConfigResource:
    return ConfigResource(ConfigResourceType.BROKER, str(broker_id))


def change(
    admin: ClusterAdmin, resource: ConfigResource, key: str, op: ConfigOperation, value: str = ""
) -> str:
    return admin.alter_configs([ConfigChange(resource, key, op, value)]).errors.get(resource, "")


def config_of(admin: ClusterAdmin, resource: ConfigResource, key: str) -> ConfigValue | None:
    return admin.describe_configs([resource], [key])[resource].get(key)


def at_every_broker(admin: ClusterAdmin, name: str, key: str) -> set[ConfigValue | None]:
    """Return the values of a topic's config that the four brokers show."""
    described = (admin.describe_configs([topic(name)], [key], via_broker=n) for n in (1, 2, 3, 4))
    return {found[topic(name)].get(key) for found in described}


def wait_for_list(admin: ClusterAdmin, name: str, key: str, value: str | None) -> None:
    """Wait until every broker shows this list of a topic; None: that it is not set."""
    source = ConfigSource.DEFAULT if value is None else ConfigSource.DYNAMIC_TOPIC
    expected = {ConfigValue(value or "", source)}
    wait_until(lambda: at_every_broker(admin, name, key) == expected, f"{key} of {name}", SECONDS)


def wait_for_rates(admin: ClusterAdmin, *broker_ids: int, value: str | None) -> None:
    """Wait until these brokers show these rates, for leaders and followers; None: no rate."""
    rates = (LEADER_RATE, FOLLOWER_RATE)
    set_rate = ConfigValue(value or "", ConfigSource.DYNAMIC_BROKER)
    expected = {} if value is None else dict.fromkeys(rates, set_rate)
    brokers = [broker(number) for number in broker_ids]

    def are_shown() -> bool:
        shown = admin.describe_configs(brokers, rates)
        return all(shown.get(one) == expected for one in brokers)

    wait_until(are_shown, f"the rates of brokers {broker_ids}", SECONDS)


def changed_records(kafka: LocalKafka) -> list[str]:
    """Return the types of all metadata records but no-ops, from the controller's own log."""
    log = kafka.home(1).log_directories[0] / "__cluster_metadata-0" / f"{0:020d}.log"
    tool = "org.apache.kafka.tools.DumpLogSegments"
    output = kafka.tool(tool, "--cluster-metadata-decoder", "--files", str(log)).stdout
    payloads = [
        line.partition("payload: ")[2] for line in output.splitlines() if "payload: " in line
    ]
    return [kind for text in payloads if (kind := json.loads(text)["type"]) != "NO_OP_RECORD"]


# -- reading


def test_a_dead_first_address_is_recorded_and_the_next_one_answers(kafka: LocalKafka) -> None:
    dead = f"127.0.0.1:{free_ports(1)[0]}"
    with closing(connect(settings(f"{dead},{kafka.bootstrap_string}"))) as searching:
        cluster, (failed, answered) = searching.describe_cluster(), searching.attempts
    assert (failed.address, answered.address) == (dead, kafka.bootstrap[0])
    assert "refused" in failed.failure and not failed.is_reachable
    assert answered.is_reachable
    assert cluster.cluster_id == kafka.cluster_id
    assert {b.broker_id: b.rack for b in cluster.brokers} == {1: "a", 2: "b", 3: "c", 4: "d"}


def test_a_snapshot_shows_the_skewed_cluster_as_kafkas_own_tools_do(
    kafka: LocalKafka, admin: ClusterAdmin
) -> None:
    snapshot = take_snapshot(admin, cluster="demo", snapshot_id="s", observed_at=datetime.now(UTC))
    assert (snapshot.cluster_id, snapshot.live_broker_ids) == (kafka.cluster_id, (1, 2, 3, 4))
    rows = [row for row in snapshot.partitions.to_pylist() if row["topic"] == "orders"]
    assert [(row["leader"], row["replicas"], sorted(row["isr"])) for row in rows] == [
        (1, [1, 2, 3], [1, 2, 3])
    ] * 6
    assert [(row["earliest_offset"], row["latest_offset"]) for row in rows[:3]] == [
        (0, 400),
        (0, 100),
        (0, 0),
    ]
    assert 4 * MB <= rows[0]["size_bytes"] <= 4.2 * MB
    topics = {row["topic"]: row for row in snapshot.topics.to_pylist()}
    described = kafka.tool(
        TopicTool, "--bootstrap-server", kafka.bootstrap[0], "--describe", "--topic", "orders"
    ).stdout
    shown_id = (
        base64.urlsafe_b64encode(uuid.UUID(topics["orders"]["topic_id"]).bytes).decode().rstrip("=")
    )
    assert f"TopicId: {shown_id}" in described
    assert (topics["orders"]["min_insync_replicas"], topics["pairs"]["min_insync_replicas"]) == (
        2,
        1,
    )
    disks = {row["broker_id"]: row["disk_total_bytes"] for row in snapshot.brokers.to_pylist()}
    assert disks[4] == disks[1]  # two dirs, one file system
    log_dirs = snapshot.log_dirs.to_pylist()
    assert {(row["broker_id"], row["log_dir"]) for row in log_dirs} == {
        (number, str(directory))
        for number in (1, 2, 3, 4)
        for directory in kafka.home(number).log_directories
    }
    assert len(log_dirs) == 5  # broker 4 has two
    assert all(
        row["total_bytes"] >= row["usable_bytes"] > 0 and row["error"] is None for row in log_dirs
    )
    quorum = snapshot.tables["quorum"].to_pylist()
    assert [row["role"] for row in quorum] == ["leader", "voter", "voter", "observer"]
    assert quorum[3]["node_id"] == 4


def test_reading_never_writes_even_where_asking_could_create_a_topic(
    kafka: LocalKafka, admin: ClusterAdmin
) -> None:
    before = changed_records(kafka)
    ghost = TopicPartition("ghost", 0)
    for _ in range(2):
        assert admin.describe_topics(["ghost"]) == ()
        assert admin.list_offsets([ghost, TopicPartition("orders", 99)]) == {}
        assert admin.describe_configs([topic("ghost"), broker(1)], THROTTLE_KEYS) == {broker(1): {}}
        assert admin.describe_configs([topic("ghost")], THROTTLE_KEYS, via_broker=2) == {}
        take_snapshot(admin, cluster="demo", snapshot_id="s", observed_at=datetime.now(UTC))
        assert admin.list_reassignments() == {}
        assert (
            admin.refused_operations(1, ["orders"], ["orders"]) == {}
        )  # tried, and nothing of it happened
    with closing(connect(settings(kafka.bootstrap_string))) as searching:
        searching.describe_cluster()
    assert changed_records(kafka) == before
    assert "ghost" not in {found.topic for found in admin.describe_topics()}
    # So this cluster would have made it: another client asks for metadata by name.
    AdminClient({"bootstrap.servers": kafka.bootstrap_string}).list_topics(
        "other-ghost", timeout=SECONDS
    )
    wait_until(
        lambda: bool(admin.describe_topics(["other-ghost"])),
        "the topic made by asking for it",
        SECONDS,
    )


def test_brokers_of_one_release_speak_the_same(admin: ClusterAdmin) -> None:
    versions = admin.describe_versions()
    assert set(versions) == {1, 2, 3, 4}
    assert len(set(versions.values())) == 1
    assert (versions[1].metadata_version or 0) >= 29  # the level of Kafka 4.2


def test_throttle_keys_that_are_set_are_in_the_snapshot(admin: ClusterAdmin) -> None:
    change(admin, topic("orders"), LEADER_LIST, SET, "")
    change(admin, broker(3), FOLLOWER_RATE, SET, "5")
    wait_until(lambda: config_of(admin, broker(3), FOLLOWER_RATE) is not None, "the rate", SECONDS)
    wait_for_list(admin, "orders", LEADER_LIST, "")
    snapshot = take_snapshot(admin, cluster="demo", snapshot_id="s", observed_at=datetime.now(UTC))
    rows = [tuple(row.values()) for row in snapshot.throttles.to_pylist()]
    assert rows == [("broker", "3", FOLLOWER_RATE, "5"), ("topic", "orders", LEADER_LIST, "")]
    admin.alter_configs(
        [
            ConfigChange(topic("orders"), LEADER_LIST, DELETE),
            ConfigChange(broker(3), FOLLOWER_RATE, DELETE),
        ]
    )
    wait_for_list(admin, "orders", LEADER_LIST, None)
    wait_for_rates(admin, 3, value=None)


def test_a_topic_config_is_read_from_the_broker_that_was_named(
    kafka: LocalKafka, admin: ClusterAdmin
) -> None:
    """Only the frozen broker gets the request, though any other could respond."""
    with closing(
        connect(settings(kafka.bootstrap[0]), request_timeout_seconds=HASTY_SECONDS)
    ) as hasty:
        assert topic("orders") in hasty.describe_configs(
            [topic("orders")], [LEADER_LIST], via_broker=4
        )
        kafka.freeze_broker(4)
        try:
            with pytest.raises(
                BrokerUnresponsiveError, match=r"broker 4 \(127.0.0.1:\d+\): nothing within 5 s"
            ):
                hasty.describe_configs([topic("orders")], [LEADER_LIST], via_broker=4)
            assert topic("orders") in hasty.describe_configs(
                [topic("orders")], [LEADER_LIST], via_broker=3
            )
        finally:
            kafka.thaw_broker(4)
    kafka.wait_until_ready()


# -- changing


def test_for_older_brokers_the_replication_factor_is_compared_here(
    admin: ClusterAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BrokerClient, "highest_version", lambda *_: 0)
    key, other = TopicPartition("moves", 1), TopicPartition("moves", 0)
    results = admin.alter_reassignments({key: (1, 2), other: (1, 2, 3)})
    assert results.accepted == (other,)
    assert "it would change the replication factor from 3 to 2" in results.errors[key]
    assert admin.alter_reassignments({key: (1, 2)}).accepted == ()


def test_configs_of_many_resources_are_changed_and_restored_exactly(
    kafka: LocalKafka, admin: ClusterAdmin
) -> None:
    change(
        admin, topic("moves"), FOLLOWER_LIST, SET, ""
    )  # set, though empty: another thing than unset
    resources = [topic("moves"), topic("orders"), *(broker(n) for n in (1, 2, 3, 4))]

    def nothing_else_is_set() -> bool:
        """Whichever broker answers: what earlier tests have set is gone there, too."""
        found = admin.describe_configs(resources, THROTTLE_KEYS)
        dynamic = [
            (resource, key, config.value)
            for resource, configs in found.items()
            for key, config in configs.items()
            if config.source in (ConfigSource.DYNAMIC_TOPIC, ConfigSource.DYNAMIC_BROKER)
        ]
        return dynamic == [(topic("moves"), FOLLOWER_LIST, "")]

    wait_until(nothing_else_is_set, "the empty list, and nothing else", SECONDS)
    wait_for_list(admin, "orders", LEADER_LIST, None)
    before = admin.describe_configs(resources, THROTTLE_KEYS)
    changes = [ConfigChange(r, LEADER_RATE, SET, "1000000") for r in resources[2:]]
    changes += [ConfigChange(r, FOLLOWER_RATE, SET, "1000000") for r in resources[2:]]
    changes += [ConfigChange(r, FOLLOWER_LIST, APPEND, "0:4") for r in resources[:2]]
    results = admin.alter_configs([*changes, ConfigChange(broker(99), LEADER_RATE, SET, "1")])
    assert set(results.accepted) == set(resources)
    assert "not live" in results.errors[broker(99)]

    def all_have_it() -> bool:
        now = admin.describe_configs(resources, THROTTLE_KEYS)
        lists = [now[r][FOLLOWER_LIST].value for r in resources[:2]]
        rates = [now[r].get(key) for r in resources[2:] for key in (LEADER_RATE, FOLLOWER_RATE)]
        return (
            lists == ["0:4"] * 2
            and rates == [ConfigValue("1000000", ConfigSource.DYNAMIC_BROKER)] * 8
        )

    wait_until(all_have_it, "the throttles", SECONDS)
    undo = [
        ConfigChange(c.resource, c.key, DELETE) for c in changes if c.resource != topic("moves")
    ]
    undone = admin.alter_configs(
        [*undo, ConfigChange(topic("moves"), FOLLOWER_LIST, SUBTRACT, "0:4")]
    )
    assert set(undone.accepted) == set(resources), undone.errors
    wait_until(
        lambda: admin.describe_configs(resources, THROTTLE_KEYS) == before,
        "the configs as before",
        SECONDS,
    )
    change(admin, topic("moves"), FOLLOWER_LIST, DELETE)
    wait_for_list(admin, "moves", FOLLOWER_LIST, None)
    where = ("--bootstrap-server", kafka.bootstrap[0], "--describe", "--entity-type", "brokers")
    described = kafka.tool(ConfigTool, *where).stdout
    assert "Dynamic configs for broker 1" in described and "throttled" not in described


def test_a_throttled_move_copies_at_its_rate_and_the_preferred_leader_takes_over(
    admin: ClusterAdmin,
) -> None:
    key, rate = TopicPartition("moves", 0), 2 * MB
    changes = [
        ConfigChange(broker(n), k, SET, str(rate))
        for n in (1, 2, 3, 4)
        for k in (LEADER_RATE, FOLLOWER_RATE)
    ]
    changes.append(ConfigChange(topic("moves"), LEADER_LIST, SET, "0:1,0:2,0:3"))
    changes.append(ConfigChange(topic("moves"), FOLLOWER_LIST, SET, "0:4"))
    assert not admin.alter_configs(changes).errors
    wait_for_rates(admin, 1, 2, 3, 4, value=str(rate))
    wait_for_list(admin, "moves", LEADER_LIST, "0:1,0:2,0:3")
    wait_for_list(admin, "moves", FOLLOWER_LIST, "0:4")
    began = time.monotonic()
    assert admin.alter_reassignments({key: (4, 2, 3)}).accepted == (key,)
    assert admin.list_reassignments() == {
        key: Reassignment((4, 2, 3, 1), adding=(4,), removing=(1,))
    }
    sizes: list[int] = []

    def is_done() -> bool:
        sizes.append(sum(d.sizes.get(key, 0) for d in admin.describe_log_dirs([4])))
        return not admin.list_reassignments()

    wait_until(is_done, "the move", SECONDS)
    # 12 MB at 2 MB/s, though Kafka lets the first windows run faster; without a throttle, tenths of
    # a second.
    assert time.monotonic() - began > 2.0
    assert any(0 < size < 12 * MB for size in sizes)
    admin.alter_configs([ConfigChange(c.resource, c.key, DELETE) for c in changes])
    wait_for_rates(admin, 1, 2, 3, 4, value=None)
    for name in (LEADER_LIST, FOLLOWER_LIST):
        wait_for_list(admin, "moves", name, None)
    assert admin.elect_preferred_leaders([key]).errors == {}

    def leads() -> bool:
        return admin.describe_topics(["moves"])[0].partitions[0].leader == 4

    wait_until(leads, "broker 4 to lead", SECONDS)
    assert (
        "UNKNOWN_TOPIC"
        in admin.elect_preferred_leaders([TopicPartition("ghost", 0)]).errors[
            TopicPartition("ghost", 0)
        ]
    )


# -- brokers in trouble; last, since it takes the fourth one away


def test_a_frozen_broker_is_left_out_and_holds_up_nothing(
    kafka: LocalKafka, admin: ClusterAdmin
) -> None:
    """Until its session ends it counts as live; every call goes to a broker that responds."""
    brokers = [broker(n) for n in (1, 2, 3, 4)]
    lonely, orders = TopicPartition("lonely", 0), TopicPartition("orders", 1)
    with closing(
        connect(settings(kafka.bootstrap[0]), request_timeout_seconds=HASTY_SECONDS)
    ) as hasty:
        assert set(hasty.describe_configs(brokers, THROTTLE_KEYS)) == set(
            brokers
        )  # connections are there
        kafka.freeze_broker(4)
        try:
            for _ in range(8):  # a new connection meets it as well
                with closing(connect(settings(kafka.bootstrap[1]))) as newcomer:
                    assert newcomer.describe_cluster().cluster_id == kafka.cluster_id
            assert set(hasty.describe_configs([*brokers, topic("orders")], THROTTLE_KEYS)) == {
                *brokers[:3],
                topic("orders"),
            }
            assert {d.broker_id for d in hasty.describe_log_dirs([1, 4])} == {1}
            for _ in range(5):  # of which some would meet the frozen one
                assert hasty.list_reassignments() == {}
                assert [found.topic for found in hasty.describe_topics(["orders"])] == ["orders"]
                assert hasty.alter_reassignments({orders: (1, 2, 3)}).errors == {}
                assert hasty.elect_preferred_leaders([orders]).errors == {}
                assert change(hasty, topic("orders"), LEADER_LIST, SET, "0:1") == ""
            assert change(hasty, topic("orders"), LEADER_LIST, DELETE) == ""
            assert set(hasty.list_offsets([lonely, orders])) == {orders}
            assert 4 not in hasty.describe_versions()
            snapshot = take_snapshot(
                hasty, cluster="demo", snapshot_id="s", observed_at=datetime.now(UTC)
            )
            assert set(snapshot.log_dirs["broker_id"].to_pylist()) == {1, 2, 3}
        finally:
            kafka.thaw_broker(4)
    kafka.wait_until_ready()


def test_a_killed_broker_is_described_as_fenced_and_fails_fast(
    kafka: LocalKafka, admin: ClusterAdmin
) -> None:
    lonely = TopicPartition("lonely", 0)
    assert admin.list_offsets([lonely]) == {lonely: (0, 0)}
    kafka.kill_broker(4)
    assert admin.describe_configs([broker(1), broker(4)], [LEADER_RATE]) == {broker(1): {}}
    with pytest.raises(BrokerUnresponsiveError, match=r"broker 4 .*ECONNREFUSED"):
        admin.describe_configs([topic("orders")], [LEADER_LIST], via_broker=4)
    for _ in range(4):
        with closing(connect(settings(kafka.bootstrap[1]))) as newcomer:
            assert newcomer.describe_topics(["orders"])[0].topic == "orders"
    refusal = change(admin, broker(4), LEADER_RATE, SET, "1")
    assert refusal and "no answer" not in refusal  # nothing was sent: it will not come later
    wait_until(
        lambda: 4 not in admin.describe_cluster().live_broker_ids, "broker 4 to be fenced", SECONDS
    )
    assert [b.is_fenced for b in admin.describe_cluster().brokers] == [False, False, False, True]
    assert admin.describe_log_dirs([4]) == ()
    assert set(admin.describe_versions()) == {1, 2, 3}
    assert admin.list_offsets([lonely, TopicPartition("orders", 1)]) == {
        TopicPartition("orders", 1): (0, 100)
    }
    assert (
        "PREFERRED_LEADER_NOT_AVAILABLE" in admin.elect_preferred_leaders([lonely]).errors[lonely]
    )
    snapshot = take_snapshot(admin, cluster="demo", snapshot_id="s", observed_at=datetime.now(UTC))
    assert (snapshot.registered_broker_ids, snapshot.live_broker_ids) == ((1, 2, 3, 4), (1, 2, 3))
    row = next(row for row in snapshot.partitions.to_pylist() if row["topic"] == "lonely")
    assert (row["leader"], row["size_bytes"], row["latest_offset"]) == (None, None, None)


def test_a_connection_outlives_the_broker_that_it_began_with(kafka: LocalKafka) -> None:
    with closing(connect(settings(kafka.bootstrap[2]))) as admin:
        assert admin.describe_cluster().cluster_id == kafka.cluster_id
        kafka.kill_broker(3)
        for _ in range(3):
            assert admin.describe_topics(["orders"])[0].topic == "orders"
