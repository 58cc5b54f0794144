"""Rules of the areas availability and racks: a broker dies, a disk fails, a replica lags, racks are
left out.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from counterpoise.audit.facts import AuditFacts
from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
from counterpoise.model.finding import WantedPlan
from counterpoise.model.kafka import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    ConfigResource,
    ConfigResourceType,
)
from counterpoise.model.request import Goal
from counterpoise.model.severity import Severity
from counterpoise.model.tables import LOG_DIRS
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.audits import NOW, facts, findings_of, healthy, past, snapshot_of
from tests.support.pictures import cluster as picture_of


def subjects(rule: str, found: AuditFacts) -> list[tuple[str, Severity]]:
    return [(finding.subject, finding.severity) for finding in findings_of(rule, found)]


def test_a_dead_broker_is_one_finding_however_many_partitions_it_holds() -> None:
    cluster = healthy()
    cluster.kill_broker(3)
    found = facts(cluster)
    fenced = findings_of("broker-fenced", found)[0]
    assert (fenced.subject, fenced.severity, fenced.plan) == (
        "broker 3",
        Severity.CRITICAL,
        WantedPlan(Goal.REPAIR),
    )
    under = findings_of("partitions-under-replicated", found)
    assert [finding.subject for finding in under] == ["broker 3"]
    assert under[0].summary.startswith("21 partitions of 4 topics lack broker 3, which is not live")
    assert subjects("partitions-at-min-isr", found) == [("cluster", Severity.WARNING)]
    assert subjects("partitions-under-min-isr", found) == []
    assert subjects("partitions-offline", found) == []


def test_two_dead_brokers_leave_topics_below_min_isr() -> None:
    cluster = healthy()
    cluster.kill_broker(3)
    cluster.kill_broker(2)
    found = facts(cluster)
    assert [subject for subject, _ in subjects("partitions-under-min-isr", found)] == [
        "topic __consumer_offsets",
        "topic __transaction_state",
        "topic orders",
        "topic payments",
    ]
    assert subjects("partitions-at-min-isr", found) == []


def test_an_offline_partition_names_the_broker_it_needs() -> None:
    cluster = healthy("lonely-0: 2\nlonely-1: 1\norders-0: 1 2 3", racks="1=a 2=b 3=c")
    cluster.kill_broker(2)
    finding = findings_of("partitions-offline", facts(cluster))[0]
    assert (finding.subject, finding.severity) == ("topic lonely", Severity.CRITICAL)
    assert finding.summary == "1 of 2 partitions has no leader; needed: broker 2"
    # With KIP-966 the ISR of such a partition is empty: its next leader is an eligible one.
    cluster.partitions[TopicPartition("lonely", 0)].isr = set()
    cluster.eligible_leaders = {TopicPartition("lonely", 0): (2,)}
    assert "needed: broker 2" in findings_of("partitions-offline", facts(cluster))[0].summary
    cluster.restart_broker(2)
    cluster.partitions[TopicPartition("lonely", 0)].isr = {2}
    cluster.partitions[TopicPartition("lonely", 0)].leader = 2
    assert findings_of("partitions-offline", facts(cluster)) == ()


def test_a_topic_that_is_always_at_its_min_isr_is_no_finding_of_availability() -> None:
    cluster = healthy("orders-0: 1 2")
    assert findings_of("partitions-at-min-isr", facts(cluster)) == ()
    assert [finding.subject for finding in findings_of("min-insync-blocks", facts(cluster))] == [
        "topic orders"
    ]


def test_one_replica_that_is_there_is_enough_whatever_min_isr_asks_for() -> None:
    """Brokers cap min.insync.replicas at the factor (tried on 4.3), although kafka-topics lists
    such a partition.
    """
    cluster = healthy("orders-0: 1\nparcels-0: 1 2")
    cluster.configs.static[1]["min.insync.replicas"] = "3"
    assert findings_of("partitions-under-min-isr", facts(cluster)) == ()
    cluster.partitions[TopicPartition("parcels", 0)].isr = {1}
    assert subjects("partitions-under-min-isr", facts(cluster)) == [
        ("topic parcels", Severity.CRITICAL)
    ]


def test_a_reassignment_under_way_is_no_under_replication() -> None:
    cluster = healthy("orders-0: 1 2 3 size=10000000000", racks="1=a 2=b 3=c 4=a")
    cluster.alter_reassignments({TopicPartition("orders", 0): (4, 2, 3)})
    cluster.advance(1.0)
    assert findings_of("partitions-under-replicated", facts(cluster)) == ()
    cluster.partitions[TopicPartition("orders", 0)].isr.discard(2)
    assert subjects("partitions-under-replicated", facts(cluster)) == [
        ("broker 2", Severity.WARNING)
    ]


def test_a_live_broker_out_of_sync_is_no_reason_for_a_repair() -> None:
    cluster = healthy()
    cluster.partitions[TopicPartition("orders", 0)].isr.discard(2)
    finding = findings_of("partitions-under-replicated", facts(cluster))[0]
    assert (finding.subject, finding.plan) == ("broker 2", None)


def test_partitions_without_a_known_isr_are_unknown() -> None:
    found = facts(snapshot=picture_of("orders-0: 1 2 3", racks="1=a 2=b 3=c"))
    assert subjects("partitions-under-replicated", found) == [("cluster", Severity.UNKNOWN)]


def test_one_partition_without_a_known_isr_is_told_beside_others() -> None:
    known = facts().snapshot
    rows = known.tables["partitions"].to_pylist()
    rows[0]["isr"] = None
    partitions = pa.Table.from_pylist(rows, schema=known.tables["partitions"].schema)
    found = facts(snapshot=replace(known, tables={**known.tables, "partitions": partitions}))
    assert subjects("partitions-under-replicated", found) == [("cluster", Severity.UNKNOWN)]


def test_a_broker_that_holds_nothing_may_be_fenced_with_less_harm() -> None:
    cluster = healthy("orders-0: 1 2 3", racks="1=a 2=b 3=c !4=a")
    finding = findings_of("broker-fenced", facts(cluster))[0]
    assert (finding.subject, finding.severity, finding.plan) == ("broker 4", Severity.WARNING, None)
    assert finding.fix[1] == 'kafka-cluster.sh unregister --bootstrap-server "$BOOTSTRAP" --id 4'


def with_log_dirs(*rows: tuple[int, str, str | None]) -> AuditFacts:
    columns = [{"broker_id": b, "log_dir": path, "error": error} for b, path, error in rows]
    found = facts()
    tables = {**found.snapshot.tables, "log_dirs": pa.Table.from_pylist(columns, schema=LOG_DIRS)}
    return facts(snapshot=ClusterSnapshot("demo-now", "demo", "picture-id", NOW, tables))


def test_offline_log_dirs_are_findings_by_broker_and_unresponsive_brokers_are_unknown() -> None:
    rule = "log-dir-offline"
    failed = with_log_dirs(
        (1, "/a", None), (2, "/a", "KAFKA_STORAGE_ERROR"), (2, "/b", None), (3, "/a", None)
    )
    assert subjects(rule, failed) == [("broker 2", Severity.CRITICAL)]
    assert subjects(rule, with_log_dirs((1, "/a", None), (3, "/a", None))) == [
        ("cluster", Severity.UNKNOWN)
    ]
    assert findings_of(rule, facts()) == ()


def test_replicas_that_a_throttle_holds_back_say_which() -> None:
    """Not while something moves, which may need the throttle."""
    cluster = healthy("slow-0: 1 3\norders-0: 2 1", racks="1=a 2=b 3=c")
    cluster.partitions[TopicPartition("slow", 0)].isr = {1}
    topic = ConfigResource(ConfigResourceType.TOPIC, "slow")
    broker = ConfigResource(ConfigResourceType.BROKER, "3")
    cluster.configs.dynamic[topic] = {FOLLOWER_REPLICAS: "*"}
    (without_rate,) = findings_of("partitions-under-replicated", facts(cluster))
    assert "throttle" not in without_rate.summary
    cluster.configs.dynamic[broker] = {FOLLOWER_RATE: "1"}
    (finding,) = findings_of("partitions-under-replicated", facts(cluster))
    held = "; a throttle that was left behind on broker 3 holds them back"
    assert finding.summary == f"1 partition of 1 topic lacks broker 3 in their ISR{held}"
    assert "--entity-name 3 --delete-config follower.replication" in finding.fix[0]
    assert not cluster.alter_reassignments({TopicPartition("orders", 0): (2, 3)}).errors
    (moving,) = findings_of("partitions-under-replicated", facts(cluster))
    assert "throttle" not in moving.summary


def test_a_leader_that_no_live_broker_follows_is_named() -> None:
    cluster = healthy("orders-0: 2 1\norders-1: 1 3", racks="1=a 2=b 3=c")
    cluster.partitions[TopicPartition("orders", 0)].isr = {2}
    (finding,) = findings_of("partitions-under-replicated", facts(cluster))
    assert finding.summary.endswith("; no replica keeps up with broker 2")
    assert finding.fix[0].startswith("# check that other brokers reach broker 2 at ")
    cluster.partitions[TopicPartition("orders", 1)].isr = {1}
    found = findings_of("partitions-under-replicated", facts(cluster))
    assert not [one for one in found if "keeps up" in one.summary], "all fall behind everywhere"


def test_a_dead_broker_says_what_waits_for_it() -> None:
    cluster = healthy("orders-0: 1 2\norders-1: 2 1", racks="1=a 2=b 3=c")
    assert not cluster.alter_reassignments({TopicPartition("orders", 0): (1, 3)}).errors
    cluster.kill_broker(3)
    (finding,) = findings_of("broker-fenced", facts(cluster))
    assert finding.summary.endswith(", and 1 reassignment waits for it")
    assert "--cancel" in finding.fix[-1]
    (ours,) = findings_of("broker-fenced", facts(cluster, active_run_id="demo-1"))
    assert "waits" not in ours.summary


def lagging(cluster: SimulatedCluster, *before: bool) -> AuditFacts:
    """Broker 2 is out of sync in orders-0 now, and in those snapshots before that say so."""
    partition = cluster.partitions[TopicPartition("orders", 0)]
    earlier = []
    for hours, was_out in zip(range(len(before), 0, -1), before, strict=True):
        partition.isr = {1, 3} if was_out else {1, 2, 3}
        earlier.append(
            snapshot_of(
                cluster, snapshot_id=f"demo-{hours}", observed_at=NOW - timedelta(hours=hours)
            )
        )
    partition.isr, partition.copied = {1, 3}, {2: 40_000_000.0}
    found = facts(cluster)
    return replace(found, past=replace(past(found.snapshot), recent_snapshots=tuple(earlier)))


def test_a_replica_that_lags_in_each_snapshot_is_reported_with_its_size() -> None:
    rule = "replica-long-out-of-sync"
    finding = findings_of(rule, lagging(healthy(), True, True))[0]
    assert finding.subject == "broker 2"
    assert finding.evidence is not None
    assert finding.evidence.rows == (("orders", "0", "40.0 MB", "100 MB"),)
    assert "since 2026-11-22 10:00 UTC" in finding.summary
    assert findings_of(rule, lagging(healthy(), True, False)) == ()
    assert findings_of(rule, lagging(healthy(), False, True, True))[0].subject == "broker 2"
    assert subjects(rule, lagging(healthy(), True)) == [("cluster", Severity.UNKNOWN)]
    dead = healthy()
    dead.kill_broker(2)
    assert findings_of(rule, lagging(dead, True, True)) == ()


# -- racks


@pytest.mark.parametrize(
    ("rule", "racks", "expected"),
    [
        ("racks-missing", "1=a 2=b 3", [("broker 3", Severity.WARNING)]),
        ("racks-missing", "1 2 3", []),
        ("racks-missing", "1=a 2=b 3=c", []),
        ("racks-uneven", "1=a 2=a 3=b", [("cluster", Severity.INFO)]),
        ("racks-uneven", "1=a 2=a 3=a 4=b 5=b", [("cluster", Severity.INFO)]),
        ("racks-uneven", "1=a 2=a 3=b 4=b", []),
        ("racks-uneven", "1=a 2=a 3=a", []),
        ("racks-single", "1=a 2=a 3=a", [("cluster", Severity.INFO)]),
        ("racks-single", "1=a 2=a 3=b", []),
        ("racks-single", "1 2 3", []),
        ("partitions-in-one-rack", "1=a 2=a 3=a 4=b", [("topic orders", Severity.WARNING)]),
        ("partitions-in-one-rack", "1=a 2=a 3=b 4=b", []),
        ("partitions-in-one-rack", "1=a 2=a 3 4=b", []),  # broker 3 may stand anywhere
        ("partitions-in-one-rack", "1=a 2=a 3=a", []),  # there is no other rack
        ("partitions-uneven-over-racks", "1=a 2=a 3=b 4=c", [("topic orders", Severity.INFO)]),
        ("partitions-uneven-over-racks", "1=a 2=a 3=b 4=b", []),
        ("partitions-uneven-over-racks", "1=a 2=a 3=a 4=b", []),  # all in one: the other rule
        ("partitions-uneven-over-racks", "1=a 2=a 3 4=c", []),
    ],
)
def test_racks(rule: str, racks: str, expected: list[Any]) -> None:
    assert subjects(rule, facts(healthy("orders-0: 1 2 3", racks=racks))) == expected


def test_three_of_four_replicas_in_one_of_two_racks_are_uneven() -> None:
    cluster = healthy("pay-0: 1 2 3 4\npay-1: 1 2 4 5", racks="1=a 2=a 3=a 4=b 5=b 6=b")
    found = findings_of("partitions-uneven-over-racks", facts(cluster))
    assert [finding.subject for finding in found] == ["topic pay"]
    assert found[0].plan == WantedPlan(Goal.REBALANCE)
    assert found[0].evidence is not None
    assert [row[-1] for row in found[0].evidence.rows] == ["a: 3, b: 1"]


def test_partitions_in_one_rack_are_rows_of_their_topic() -> None:
    cluster = healthy("orders-0: 1 2\norders-1: 1 3\nlonely-0: 1", racks="1=a 2=a 3=b")
    found = findings_of("partitions-in-one-rack", facts(cluster))
    assert [finding.subject for finding in found] == ["topic orders"]
    assert found[0].plan == WantedPlan(Goal.REBALANCE)
    assert found[0].evidence is not None
    assert found[0].evidence.rows == (("0", "1", "1, 2", "1, 2", "a"),)
