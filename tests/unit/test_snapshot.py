"""Snapshots of simulated clusters: every table, and the cases in which figures could mislead."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
from counterpoise.model.inspection import Quorum, QuorumNode
from counterpoise.model.kafka import (
    CORDONED_LOG_DIRS,
    FOLLOWER_RATE,
    LEADER_RATE,
    LEADER_REPLICAS,
    ConfigResource,
    ConfigResourceType,
    LogDirDescription,
    Reassignment,
)
from counterpoise.snapshot import take_snapshot
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.pictures import cluster, simulated

WHEN = datetime(2026, 1, 31, 12, tzinfo=UTC)
CHANGING = {"alter_configs", "alter_reassignments", "elect_preferred_leaders"}


def snapshot_of(reader: SimulatedCluster) -> ClusterSnapshot:
    return take_snapshot(
        reader, cluster="demo", snapshot_id="demo-1", observed_at=WHEN, security_protocol="SSL"
    )


def by_partition(snapshot: ClusterSnapshot, column: str) -> dict[str, object]:
    table = snapshot.partitions
    keys = zip(table["topic"].to_pylist(), table["partition"].to_pylist(), strict=True)
    return {f"{t}-{p}": v for (t, p), v in zip(keys, table[column].to_pylist(), strict=True)}


def rows(table: pa.Table, *columns: str) -> list[tuple[object, ...]]:
    return list(zip(*(table[column].to_pylist() for column in columns), strict=True))


def test_the_picture_comes_back_as_it_was() -> None:
    picture = """
        orders-0: 1 2 3 size=5000
        orders-1: 2 1 3 @1 size=0
        __offsets-0: 3 1
        stores-0: 4 2 3 1 +4 -1
    """
    reader = simulated(picture, racks="1=a 2=b 3 4=d")
    snapshot = snapshot_of(reader)
    expected = cluster(picture, racks="1=a 2=b 3 4=d")
    for column in ("leader", "replicas", "adding_replicas", "removing_replicas"):
        assert by_partition(snapshot, column) == by_partition(expected, column)
    assert (snapshot.cluster, snapshot.cluster_id, snapshot.snapshot_id, snapshot.observed_at) == (
        "demo",
        "picture-id",
        "demo-1",
        WHEN,
    )
    assert (snapshot.racks, snapshot.topic_ids) == (expected.racks, expected.topic_ids)
    assert rows(snapshot.topics, "topic", "is_internal", "partition_count", "min_insync_replicas")[
        0
    ] == (
        "__offsets",
        True,
        1,
        1,
    )
    assert rows(snapshot.topics, "cleanup_policy", "retention_ms", "retention_bytes")[0] == (
        "delete",
        604_800_000,
        -1,
    )
    assert rows(snapshot.tables["listeners"], "broker_id", "security_protocol")[0] == (1, "SSL")
    assert rows(snapshot.tables["quorum"], "node_id", "role")[0] == (1, "leader")
    assert by_partition(snapshot, "latest_offset")["orders-0"] == 5
    assert by_partition(snapshot, "size_bytes")["orders-1"] == 0
    assert not CHANGING & {call.name for call in reader.calls}


def test_the_leader_of_the_quorum_comes_first_then_voters_then_observers() -> None:
    reader = simulated("orders-0: 1 2 3", racks="1 2 3")
    nodes = [
        QuorumNode(n, n > 100, 5000, 1000 if n != 103 else None) for n in (101, 102, 103, 1, 2)
    ]
    reader.quorum = Quorum(leader_id=102, leader_epoch=7, high_watermark=5000, nodes=tuple(nodes))
    found = rows(snapshot_of(reader).tables["quorum"], "node_id", "role")
    assert found == [
        (102, "leader"),
        (101, "voter"),
        (103, "voter"),
        (1, "observer"),
        (2, "observer"),
    ]
    reader.quorum = Quorum(
        leader_id=-1, leader_epoch=8, high_watermark=5000, nodes=tuple(nodes[:3])
    )
    assert rows(snapshot_of(reader).tables["quorum"], "role") == [("voter",)] * 3


def test_replicas_tell_their_own_size_while_one_is_copying() -> None:
    reader = simulated("orders-0: 1 2 3 size=1000000000", racks="1 2 3 4")
    reader.alter_reassignments({TopicPartition("orders", 0): (4, 2, 3)})
    reader.advance(4.0)
    snapshot = snapshot_of(reader)
    assert by_partition(snapshot, "size_bytes") == {
        "orders-0": 1_000_000_000
    }  # the leader's, not the half copy's
    assert rows(
        snapshot.replicas, "broker_id", "position", "is_leader", "in_sync", "size_bytes"
    ) == [
        (4, 0, False, False, 400_000_000),
        (2, 1, False, True, 1_000_000_000),
        (3, 2, False, True, 1_000_000_000),
        (1, 3, True, True, 1_000_000_000),
    ]


def test_without_a_leader_the_largest_copy_counts_and_what_is_not_known_is_null() -> None:
    reader = simulated("orders-0: 1 2 size=1000000000\nlost-0: 3 size=7000", racks="1 2 3 4")
    reader.alter_reassignments({TopicPartition("orders", 0): (4, 2)})
    reader.advance(1.0)
    for broker_id in (2, 1, 3):
        reader.kill_broker(broker_id)
    snapshot = snapshot_of(reader)
    assert by_partition(snapshot, "leader") == {"orders-0": None, "lost-0": None}
    assert by_partition(snapshot, "size_bytes") == {"orders-0": 100_000_000, "lost-0": None}
    assert by_partition(snapshot, "latest_offset") == {"orders-0": None, "lost-0": None}
    assert (snapshot.registered_broker_ids, snapshot.live_broker_ids) == ((1, 2, 3, 4), (4,))


class EndsWhileWeLook(SimulatedCluster):
    """A reassignment is there at the first read and done at the second."""

    looks = 0

    def list_reassignments(self) -> Mapping[TopicPartition, Reassignment]:
        self.looks += 1
        if self.looks == 2:
            self.advance(3600.0)
        return super().list_reassignments()


def test_a_move_that_ends_while_we_look_still_counts_as_one() -> None:
    reader = EndsWhileWeLook.like(
        cluster("orders-0: 4 2 3 1 +4 -1 size=100\norders-1: 1 2 3", racks="1 2 3 4")
    )
    snapshot = snapshot_of(reader)
    assert by_partition(snapshot, "adding_replicas") == {"orders-0": [4], "orders-1": []}
    assert by_partition(snapshot, "removing_replicas") == {"orders-0": [1], "orders-1": []}


GONE = TopicPartition("deleted", 3)  # its files are still there


class WithDisks(SimulatedCluster):
    """Broker 1 has three log dirs on two file systems and one that is offline, broker 2 one that
    tells nothing.

    Broker 3 came after the brokers were listed.
    """

    def describe_log_dirs(
        self, broker_ids: Sequence[int] | None = None
    ) -> tuple[LogDirDescription, ...]:
        return (
            LogDirDescription(
                1, "/disk-a/x", None, 100_000, 40_000, {TopicPartition("orders", 0): 10, GONE: 20}
            ),
            LogDirDescription(
                1, "/disk-a/y", None, 100_000, 40_030, {TopicPartition("orders", 1): 20}
            ),
            LogDirDescription(1, "/disk-b", None, 100_000, 10_000, {}),
            LogDirDescription(1, "/disk-c", "KAFKA_STORAGE_ERROR", None, None, {}),
            LogDirDescription(2, "/old", None, None, None, {}),
            LogDirDescription(3, "/new", None, 100_000, 100_000, {}),
        )


def test_log_dirs_on_one_file_system_count_once() -> None:
    snapshot = snapshot_of(WithDisks.like(cluster("orders-0: 1 2\norders-1: 1 2", racks="1 2")))
    assert rows(snapshot.brokers, "broker_id", "disk_total_bytes", "disk_usable_bytes") == [
        (1, 200_000, 50_000),
        (2, None, None),
    ]
    assert rows(snapshot.replicas, "partition", "broker_id", "log_dir")[:3] == [
        (0, 1, "/disk-a/x"),
        (0, 2, None),
        (1, 1, "/disk-a/y"),
    ]


def test_every_log_dir_of_a_known_broker_is_a_row() -> None:
    snapshot = snapshot_of(WithDisks.like(cluster("orders-0: 1 2", racks="1 2")))
    assert rows(snapshot.log_dirs, *snapshot.log_dirs.column_names) == [
        (1, "/disk-a/x", 100_000, 40_000, None, 30, None),
        (1, "/disk-a/y", 100_000, 40_030, None, 20, None),
        (1, "/disk-b", 100_000, 10_000, None, 0, None),
        (1, "/disk-c", None, None, "KAFKA_STORAGE_ERROR", None, None),
        (2, "/old", None, None, None, 0, None),
    ]


def test_a_cordoned_log_dir_is_one_in_the_snapshot() -> None:
    reader = WithDisks.like(cluster("orders-0: 1 2", racks="1 2"))
    broker = ConfigResource(ConfigResourceType.BROKER, "1")
    reader.configs.dynamic[broker] = {CORDONED_LOG_DIRS: "/disk-b"}
    assert rows(snapshot_of(reader).log_dirs, "log_dir", "is_cordoned") == [
        ("/disk-a/x", None),
        ("/disk-a/y", None),
        ("/disk-b", True),
        ("/disk-c", None),
        ("/old", None),
    ]


def test_throttle_keys_count_where_they_are_set_at_the_resource_itself() -> None:
    reader = simulated("orders-0: 1 2\nstock-0: 1 2", racks="1 2 3")
    reader.configs.dynamic[ConfigResource(ConfigResourceType.TOPIC, "orders")] = {
        LEADER_REPLICAS: "",
        "x": "y",
    }
    reader.configs.dynamic[ConfigResource(ConfigResourceType.BROKER, "2")] = {FOLLOWER_RATE: "5"}
    reader.configs.dynamic[ConfigResource(ConfigResourceType.BROKER, "3")] = {FOLLOWER_RATE: "6"}
    reader.configs.broker_defaults[LEADER_RATE] = "7"
    reader.freeze_broker(3)
    snapshot = snapshot_of(reader)
    columns = snapshot.throttles.column_names
    assert rows(snapshot.throttles, *columns) == [
        ("broker", "", LEADER_RATE, "7"),  # the default of all brokers
        ("broker", "2", FOLLOWER_RATE, "5"),
        ("topic", "orders", LEADER_REPLICAS, ""),
    ]
    assert snapshot_of(SimulatedCluster.like(snapshot)).throttles == snapshot.throttles


def test_a_frozen_broker_is_in_the_photograph_without_what_it_alone_could_tell() -> None:
    reader = simulated("orders-0: 1 2 size=5000\nlonely-0: 1 size=5000", racks="1 2")
    reader.freeze_broker(1)
    snapshot = snapshot_of(reader)
    assert snapshot.live_broker_ids == (1, 2)
    assert by_partition(snapshot, "size_bytes") == {"orders-0": 5000, "lonely-0": None}
    assert by_partition(snapshot, "latest_offset") == {"orders-0": None, "lonely-0": None}


def test_a_dead_broker_that_kafka_does_not_report_is_one_of_which_the_id_is_known() -> None:
    """Before 4.0 fenced brokers are left out, and one that was unregistered always is."""
    reader = simulated("orders-0: 1 2 3\norders-1: 2 3 4", racks="1=a 2=b 3=c 4=d")
    reader.kafka_version = (3, 9)
    reader.kill_broker(3)
    reader.unregister_broker(4)
    brokers = snapshot_of(reader).brokers
    assert rows(brokers, "broker_id", "is_fenced", "rack") == [
        (1, False, "a"),
        (2, False, "b"),
        (3, True, None),
        (4, True, None),
    ]


def test_a_broker_that_joins_meanwhile_is_not_taken_for_dead() -> None:
    reader = simulated("orders-0: 1 2 3", racks="1=a 2=b 3=c")
    description = reader.describe_cluster()
    first = replace(description, brokers=description.brokers[:2])
    with pytest.MonkeyPatch.context() as patch:
        responses = iter([first, description])
        patch.setattr(reader, "describe_cluster", lambda: next(responses))
        brokers = snapshot_of(reader).brokers
    assert rows(brokers, "broker_id", "is_fenced") == [(1, False), (2, False), (3, False)]


def test_a_cluster_without_topics() -> None:
    snapshot = snapshot_of(simulated("", racks="1=a"))
    assert (snapshot.partitions.num_rows, snapshot.idle_broker_ids) == (0, (1,))
