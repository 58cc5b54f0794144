"""Where a rule was wrong or noisy: the healthy cluster that it accused, or the fix that harmed."""

import tracemalloc
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest

from counterpoise.audit.auditing import PreviousAudit, compare, find, resolve
from counterpoise.audit.facts import AuditFacts
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.connectivity import Certificate
from counterpoise.model.kafka import (
    LEADER_REPLICAS,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    ConfigValue,
)
from counterpoise.model.policy import AuditPolicy
from counterpoise.model.severity import Severity
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.audits import (
    HEALTHY,
    NOW,
    connectivity,
    endpoint,
    facts,
    findings_of,
    healthy,
    keeping_empty,
    past,
    quorum,
    snapshot_of,
)

MOVED = TopicPartition("orders", 0)
ORDERS = ConfigResource(ConfigResourceType.TOPIC, "orders")


def with_configs(cluster: SimulatedCluster, **values: str) -> SimulatedCluster:
    for broker_id in cluster.brokers:
        named = {key.replace("_", "."): value for key, value in values.items()}
        cluster.configs.static[broker_id] = {**cluster.configs.static[broker_id], **named}
    return cluster


def with_config(given: AuditFacts, key: str, value: ConfigValue) -> AuditFacts:
    configs = {
        broker_id: {**values, key: value}
        for broker_id, values in given.inspection.broker_configs.items()
    }
    return replace(given, inspection=replace(given.inspection, broker_configs=configs))


# -- factors


TWO_BROKERS = "orders-0: 1 2 size=100000000\norders-1: 2 1 size=100000000"


@pytest.mark.parametrize(
    ("rule", "key"),
    [
        ("default-replication-factor", "default.replication.factor"),
        ("internal-replication-factor", "offsets.topic.replication.factor"),
    ],
)
def test_two_brokers_are_advised_two_replicas(rule: str, key: str) -> None:
    two = with_configs(healthy(TWO_BROKERS, racks="1=a 2=b"), **{key.replace(".", "_"): "1"})
    two.quorum = quorum(voters=(1, 2))
    (finding,) = findings_of(rule, facts(two))
    assert finding.fix[-1] == f"{key}=2"
    three = with_configs(healthy("orders-0: 1 2 3"), **{key.replace(".", "_"): "1"})
    three.quorum = quorum(voters=(1, 2, 3))
    (finding,) = findings_of(rule, facts(three))
    assert finding.fix[-1] == f"{key}=3"


def test_the_plan_has_the_factor_that_the_policy_asks_for() -> None:
    cluster = healthy(racks="1=a 2=b 3=c 4=d")
    audit = AuditPolicy(thresholds={"replication-factor-low": {"least": 4}})
    found = findings_of("replication-factor-low", facts(cluster, audit=audit))
    assert {finding.plan.replication_factor for finding in found if finding.plan} == {4}
    assert all("fewer than 4 replicas" in finding.summary for finding in found)


def test_two_brokers_cannot_hold_three_replicas() -> None:
    found = findings_of("replication-factor-low", facts(healthy(TWO_BROKERS, racks="1=a 2=b")))
    assert {(finding.severity, finding.plan) for finding in found} == {(Severity.INFO, None)}
    one = "orders-0: 1 size=100000000\norders-1: 2 size=100000000"
    (alone,) = findings_of("replication-factor-1", facts(healthy(one, racks="1=a 2=b")))
    assert alone.plan is not None
    assert alone.plan.replication_factor == 2


def test_a_cluster_default_of_min_isr_stops_no_topic_of_two_replicas() -> None:
    cluster = healthy(f"{HEALTHY}\npairs-0: 1 2\nsingle-0: 3")
    given = facts(with_configs(cluster, min_insync_replicas="1"))
    (finding,) = findings_of("min-insync-1", given)
    *kept, default = finding.fix
    assert [line.partition("--entity-name ")[2] for line in kept if not line.startswith("#")] == [
        "pairs --add-config min.insync.replicas=1",
        "single --add-config min.insync.replicas=1",
    ]
    assert default.endswith("--entity-default --add-config min.insync.replicas=2")


# -- reassignments and throttles


def test_a_move_whose_destination_is_dead_is_stalled() -> None:
    cluster = healthy(racks="1=a 2=b 3=c 4=a")
    assert not cluster.alter_reassignments({MOVED: (4, 2, 3)}).errors
    before = snapshot_of(cluster, snapshot_id="before", observed_at=NOW - timedelta(hours=1))
    cluster.kill_broker(4)
    given = facts(cluster)
    given = replace(given, past=replace(past(given.snapshot), recent_snapshots=(before,)))
    (finding,) = findings_of("reassignment-stalled", given)
    assert finding.subject == "topic orders"
    assert finding.evidence is not None
    assert finding.evidence.rows == (("0", "4 (not live)", "1", "not known"),)


def test_a_move_whose_sizes_are_not_known_is_unknown() -> None:
    cluster = healthy(racks="1=a 2=b 3=c 4=a")
    assert not cluster.alter_reassignments({MOVED: (4, 2, 3)}).errors
    now = snapshot_of(cluster)
    sizes = pa.nulls(now.replicas.num_rows, pa.int64())
    index = now.replicas.schema.get_field_index("size_bytes")
    replicas = now.replicas.set_column(index, "size_bytes", sizes)
    blind = replace(now, tables={**now.tables, "replicas": replicas})
    before = replace(blind, snapshot_id="before", observed_at=NOW - timedelta(hours=1))
    given = facts(cluster, snapshot=blind)
    given = replace(given, past=replace(past(now), recent_snapshots=(before,)))
    (finding,) = findings_of("reassignment-stalled", given)
    assert finding.severity is Severity.UNKNOWN


def test_a_run_of_ours_does_not_make_a_leftover_gone() -> None:
    cluster = healthy()
    cluster.configs.dynamic[ORDERS] = {LEADER_REPLICAS: "0:1,0:2"}
    before = facts(cluster)
    first = compare(None, find(before), before)
    assert "leftover-throttle" in {one.finding.rule for one in first.findings}
    during = facts(cluster, active_run_id="demo-1")
    second = compare(PreviousAudit.of(first), find(during), during)
    assert [finding.rule for finding in second.resolved] == []
    assert "leftover-throttle" not in second.passed
    (found,) = [one.finding for one in second.findings if one.finding.rule == "leftover-throttle"]
    assert found.severity is Severity.UNKNOWN
    assert "demo-1" in found.summary


# -- listeners, bootstrap list, certificates


def test_one_address_that_is_no_brokers_own_is_only_mentioned() -> None:
    given = facts()
    balancer = connectivity(given.snapshot, bootstrap=(endpoint("kafka.example:9092"),))
    (finding,) = findings_of("bootstrap-few-addresses", replace(given, connectivity=balancer))
    assert finding.severity is Severity.INFO
    assert "load balancer" in finding.summary
    one = connectivity(given.snapshot, bootstrap=(endpoint("broker-1:9092"),))
    (finding,) = findings_of("bootstrap-few-addresses", replace(given, connectivity=one))
    assert finding.severity is Severity.WARNING


@pytest.mark.parametrize(
    ("lifetime", "left", "severity"),
    [
        (timedelta(hours=72), timedelta(hours=71), None),
        (timedelta(hours=72), timedelta(hours=24), None),
        (timedelta(hours=72), timedelta(hours=14), Severity.WARNING),
        (timedelta(hours=72), timedelta(hours=7), Severity.CRITICAL),
        (timedelta(days=90), timedelta(days=30), None),
        (timedelta(days=90), timedelta(days=17), Severity.WARNING),
        (timedelta(days=365), timedelta(days=31), None),
        (timedelta(days=365), timedelta(days=29), Severity.WARNING),
        (timedelta(days=365), timedelta(days=6), Severity.CRITICAL),
        (None, timedelta(days=29), Severity.WARNING),
        (timedelta(hours=72), timedelta(0), Severity.CRITICAL),
    ],
)
def test_a_certificate_expires_soon_for_its_lifetime(
    lifetime: timedelta | None, left: timedelta, severity: Severity | None
) -> None:
    given = facts()
    issued_at = None if lifetime is None else NOW + left - lifetime
    certificate = Certificate(
        "CN=kafka", "CN=ca", ("broker-1",), NOW + left, matches_host=True, issued_at=issued_at
    )
    checks = {1: endpoint("broker-1:9092", is_expected_broker=True, certificate=certificate)}
    seen = replace(given, connectivity=connectivity(given.snapshot, advertised=checks))
    found = findings_of("certificate-expires", seen)
    assert [finding.severity for finding in found] == ([] if severity is None else [severity])


# -- configs that the controllers decide


@pytest.mark.parametrize(
    ("rule", "key", "value"),
    [
        ("auto-leader-rebalance", "auto.leader.rebalance.enable", "false"),
        ("default-replication-factor", "default.replication.factor", "1"),
    ],
)
def test_configs_of_brokers_are_no_configs_of_dedicated_controllers(
    rule: str, key: str, value: str
) -> None:
    cluster = with_configs(healthy(), **{key.replace(".", "_"): value})
    before = facts(cluster, inspection=replace(facts(cluster).inspection, quorum=None))
    first = compare(None, find(before), before)
    given = facts(cluster)
    assert findings_of(rule, given) == ()
    second = compare(PreviousAudit.of(first), find(given), given)
    assert rule not in second.passed
    assert rule not in {finding.rule for finding in second.resolved}
    assert "controllers 101, 102, 103" in second.not_applicable[rule]
    cluster.quorum = quorum(voters=(1, 2, 3))
    assert len(findings_of(rule, facts(cluster))) == 1


def test_of_combined_nodes_only_the_voters_decide() -> None:
    cluster = healthy(racks="1=a 2=b 3=c 4=d")
    cluster.quorum = quorum(voters=(1, 2, 3), observers=(4,))
    key = "auto.leader.rebalance.enable"
    cluster.configs.static[4] = {**cluster.configs.static[4], key: "false"}
    assert findings_of("auto-leader-rebalance", facts(cluster)) == ()


def test_brokers_decide_for_topics_that_are_created_automatically() -> None:
    values = {"default_replication_factor": "1", "auto_create_topics_enable": "true"}
    cluster = with_configs(healthy(), **values)
    (finding,) = findings_of("default-replication-factor", facts(cluster))
    assert finding.severity is Severity.WARNING


# -- load and idle brokers


def test_a_peak_hour_is_not_the_usual_rate() -> None:
    cluster = healthy()
    for broker in cluster.brokers.values():
        broker.disk_total_bytes = 6 * 10**9
    given = facts(cluster)
    topics = given.snapshot.topics
    index = topics.schema.get_field_index("retention_ms")
    week = pa.array(np.full(topics.num_rows, 604_800_000), pa.int64())
    topics = topics.set_column(index, "retention_ms", week)
    snapshot = replace(given.snapshot, tables={**given.snapshot.tables, "topics": topics})
    usual = pa.array([100] * snapshot.partitions.num_rows, pa.int64())
    given = replace(given, snapshot=snapshot, past=replace(past(snapshot), usual_bytes_in=usual))
    assert findings_of("retention-cannot-fit", given) == ()
    usual = pa.array([1000] * snapshot.partitions.num_rows, pa.int64())
    given = replace(given, past=replace(past(snapshot), usual_bytes_in=usual))
    assert len(findings_of("retention-cannot-fit", given)) == 3


def test_a_broker_that_was_emptied_on_purpose_is_not_to_be_filled_again() -> None:
    cluster = healthy(racks="1=a 2=b 3=c 4=a 5=b")
    kept_empty = {4: keeping_empty(4, "run demo-7 emptied it")}
    five, four = findings_of("idle-broker", facts(cluster, kept_empty=kept_empty))
    assert (four.severity, four.plan) == (Severity.INFO, None)
    assert "demo-7" in four.summary
    assert four.fix[-1].startswith("kafka-cluster.sh unregister")
    assert five.plan is not None
    assert (five.severity, five.plan.broker_ids) == (Severity.WARNING, (5,))


# -- lines to paste


def test_a_topic_in_kafka_topics_is_no_pattern() -> None:
    from counterpoise.audit.commands import add_partitions, describe_topic

    assert "--topic 'orders\\.v1' --partitions 4" in add_partitions("orders.v1", 4)[-1]
    assert describe_topic("orders.v1").endswith("--topic 'orders\\.v1'")


def test_a_config_is_deleted_where_it_is_set() -> None:
    key = "cordoned.log.dirs"
    levels = {
        ConfigSource.DYNAMIC_BROKER: "--entity-name 1 --delete-config cordoned.log.dirs",
        ConfigSource.DYNAMIC_DEFAULT_BROKER: "--entity-default --delete-config cordoned.log.dirs",
        ConfigSource.STATIC_BROKER: f"# remove {key}",
    }
    for source, line in levels.items():
        found = findings_of(
            "cordoned-log-dirs", with_config(facts(), key, ConfigValue("/a", source))
        )
        assert line in found[0].fix[-1], source


# -- thresholds of the policy


def test_rules_of_the_history_have_the_snapshots_that_the_policy_asks_for() -> None:
    from counterpoise.audit.auditing import history_needed

    assert history_needed(resolve(AuditPolicy())) == (2, timedelta(minutes=30))
    asked = AuditPolicy(
        thresholds={
            "replica-long-out-of-sync": {"snapshots": 6},
            "reassignment-stalled": {"minutes": 300},
        }
    )
    assert history_needed(resolve(asked)) == (5, timedelta(minutes=300))


# -- size


def test_large_broker_ids_take_no_memory() -> None:
    names = {"1": "172016001", "2": "172016002", "3": "172016003"}
    lines = [f"orders-{n}: {names['1']} {names['2']} {names['3']} size=1000" for n in range(3)]
    cluster = healthy("\n".join(lines), racks=f"{names['1']}=a {names['2']}=b {names['3']}=c")
    given = facts(cluster)
    tracemalloc.start()
    try:
        find(given)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 50_000_000


def test_a_dead_broker_of_which_kafka_tells_the_id_alone_is_not_without_a_rack() -> None:
    """Before 4.0 a dead broker's rack is not reported."""
    cluster = healthy("orders-0: 1 2 3", racks="1=a 2=b 3=c")
    cluster.kafka_version = (3, 9)
    cluster.kill_broker(3)
    assert findings_of("racks-missing", facts(cluster)) == ()
    dead = findings_of("broker-fenced", facts(cluster))
    assert [finding.subject for finding in dead] == ["broker 3"]
