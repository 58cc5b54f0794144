"""Leftovers, drift, rights, coexistence: each rule on a cluster that it is for, and on one that
nearly is.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.rules.rights import GOALS_WITHOUT
from counterpoise.model.acl import CHANGES, ELECT, READ_TOPICS, REASSIGN, SET_LISTS, SET_RATE
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.finding import Finding
from counterpoise.model.inspection import FeatureLevel
from counterpoise.model.kafka import (
    LEADER_RATE,
    LEADER_REPLICAS,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    ConfigValue,
)
from counterpoise.model.severity import Severity
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.audits import HEALTHY, NOW, facts, findings_of, healthy, quorum, snapshot_of

ORDERS = ConfigResource(ConfigResourceType.TOPIC, "orders")
BROKER_2 = ConfigResource(ConfigResourceType.BROKER, "2")
MOVED = TopicPartition("orders", 0)


def the_only(rule: str, given: AuditFacts) -> Finding:
    (finding,) = findings_of(rule, given)
    return finding


def with_static(broker_id: int, key: str, value: str) -> SimulatedCluster:
    cluster = healthy()
    cluster.configs.static[broker_id] = {**cluster.configs.static[broker_id], key: value}
    return cluster


def with_config(
    given: AuditFacts, broker_id: int, key: str, value: str | None, source: ConfigSource
) -> AuditFacts:
    changed = {**given.inspection.broker_configs[broker_id], key: ConfigValue(value, source)}
    configs = {**given.inspection.broker_configs, broker_id: changed}
    return replace(given, inspection=replace(given.inspection, broker_configs=configs))


def moving(size: int = 100_000_000) -> SimulatedCluster:
    """orders-0 is on its way to broker 4."""
    cluster = healthy(HEALTHY.replace("size=100000000", f"size={size}"), racks="1=a 2=b 3=c 4=a")
    assert not cluster.alter_reassignments({MOVED: (4, 2, 3)}).errors
    return cluster


# -- throttles


def test_a_list_that_is_set_and_empty_harms_nobody() -> None:
    cluster = healthy()
    cluster.configs.dynamic[ORDERS] = {LEADER_REPLICAS: ""}
    assert the_only("leftover-throttle", facts(cluster)).severity is Severity.INFO


def test_what_moves_may_be_throttled_and_the_rest_may_not() -> None:
    cluster = moving()
    cluster.configs.dynamic[ORDERS] = {LEADER_REPLICAS: "0:1"}
    cluster.configs.dynamic[BROKER_2] = {LEADER_RATE: "1000"}
    assert findings_of("leftover-throttle", facts(cluster)) == ()
    cluster.configs.dynamic[ConfigResource(ConfigResourceType.TOPIC, "payments")] = {
        LEADER_REPLICAS: "0:1"
    }
    assert the_only("leftover-throttle", facts(cluster)).subject == "topic payments"


def test_throttles_of_a_run_of_ours_are_no_leftovers() -> None:
    cluster = healthy()
    cluster.configs.dynamic[ORDERS] = {LEADER_REPLICAS: "0:1,0:2"}
    finding = the_only("leftover-throttle", facts(cluster, active_run_id="demo-1"))
    assert finding.severity is Severity.UNKNOWN


# -- reassignments


def test_since_when_something_moves_may_be_unknown() -> None:
    assert the_only("reassignment-old", facts(moving())).severity is Severity.UNKNOWN
    assert the_only("reassignment-stalled", facts(moving())).severity is Severity.UNKNOWN
    assert (
        findings_of("reassignment-old", facts())
        == findings_of("reassignment-stalled", facts())
        == ()
    )


def _between(seconds: float, *, minutes: float = 30, before_the_move: bool = False) -> AuditFacts:
    """An observation of a move, then `seconds` of copying, then the audit."""
    cluster = moving(size=100_000_000_000)
    at = NOW - timedelta(minutes=minutes)
    earlier = snapshot_of(
        healthy() if before_the_move else cluster, snapshot_id="demo-then", observed_at=at
    )
    cluster.advance(seconds)
    given = facts(cluster)
    assert given.past is not None
    return replace(given, past=replace(given.past, recent_snapshots=(earlier,)))


def test_a_reassignment_that_copies_nothing() -> None:
    finding = the_only("reassignment-stalled", _between(0))
    assert finding.subject == "topic orders"
    assert finding.evidence is not None and finding.evidence.rows[0][:3] == ("0", "4", "1")
    assert finding.fix[-1].endswith(
        "--cancel --preserve-throttles --reassignment-json-file moves.json"
    )
    assert findings_of("reassignment-stalled", _between(1)) == (), "it gets on"
    assert findings_of("reassignment-stalled", _between(0, before_the_move=True)) == (), (
        "it has just begun"
    )
    assert the_only("reassignment-stalled", _between(0, minutes=29)).severity is Severity.UNKNOWN


# -- configs


@pytest.mark.parametrize(
    "rule",
    [
        "cordoned-log-dirs",
        "static-configs-differ",
        "dynamic-config-drift",
        "auto-leader-rebalance",
    ],
)
def test_unavailable_configs_are_unknown(rule: str) -> None:
    cluster = healthy()
    cluster.freeze_broker(3)
    finding = the_only(rule, facts(cluster))
    assert finding.severity is Severity.UNKNOWN
    assert "broker 3" in finding.summary


def test_unavailable_versions_and_features_are_unknown() -> None:
    cluster = healthy()
    cluster.freeze_broker(3)
    assert the_only("mixed-versions", facts(cluster)).severity is Severity.UNKNOWN
    found = findings_of("features-below-possible", facts(cluster))
    assert {finding.severity for finding in found} == {Severity.UNKNOWN}


def test_static_configs_name_the_brokers_that_differ() -> None:
    finding = the_only("static-configs-differ", facts(with_static(3, "min.insync.replicas", "1")))
    assert finding.summary == "min.insync.replicas is 2 on brokers 1, 2 and 1 on broker 3"
    assert finding.fix == (
        "# server.properties of broker 3, then restart one by one:",
        "min.insync.replicas=2",
    )
    assert (
        findings_of("static-configs-differ", facts(with_static(3, "num.network.threads", "5")))
        == ()
    ), "these may differ"


@pytest.mark.parametrize(
    "key", [LEADER_RATE, "listeners", "listener.name.client.ssl.keystore.location", "broker.rack"]
)
def test_what_is_a_brokers_own_is_not_compared(key: str) -> None:
    cluster = healthy()
    cluster.configs.dynamic[BROKER_2] = {key: "1000"}
    assert findings_of("dynamic-config-drift", facts(cluster)) == ()


@pytest.mark.parametrize("key", ["my.plugin.api.token", "some.credential.file"])
def test_secrets_are_never_shown(key: str) -> None:
    given = with_config(facts(), 2, key, "hunter2", ConfigSource.DYNAMIC_BROKER)
    assert "hunter2" not in str(findings_of("dynamic-config-drift", given))
    assert findings_of("dynamic-config-drift", given)


def test_auto_leader_rebalance() -> None:
    key = "auto.leader.rebalance.enable"
    cluster = with_static(2, key, "false")
    cluster.quorum = quorum(voters=(1, 2, 3))
    assert the_only("auto-leader-rebalance", facts(cluster)).severity is Severity.WARNING, (
        "it depends on who decides"
    )
    for broker_id in (1, 3):
        cluster.configs.static[broker_id] = {**cluster.configs.static[broker_id], key: "false"}
    off = the_only("auto-leader-rebalance", facts(cluster))
    every = f"{key} is off on every controller that reported it, brokers"
    assert (off.severity, off.summary) == (Severity.INFO, f"{every} 1, 2, 3")
    cluster.freeze_broker(3)
    seen_of_two = [
        finding.summary for finding in findings_of("auto-leader-rebalance", facts(cluster))
    ]
    assert f"{every} 1, 2" in seen_of_two


# -- versions


def test_an_upgrade_that_was_not_finished() -> None:
    cluster = healthy()
    newer = {"metadata.version": FeatureLevel(29, 7, 30)}
    cluster.features = {1: newer, 2: newer}
    assert findings_of("features-below-possible", facts(cluster)) == (), (
        "broker 3 does not know level 30 yet"
    )
    cluster.features[3] = newer
    finding = the_only("features-below-possible", facts(cluster))
    assert finding.fix[-1].endswith(
        ["kafka-features.sh", "upgrade --feature metadata.version=30"][1]
    )


# -- rights


def test_every_operation_that_is_probed_has_the_goals_that_need_it() -> None:
    assert set(GOALS_WITHOUT) == set(CHANGES)


@pytest.mark.parametrize(
    ("denied", "left", "fix"),
    [
        ({ELECT: "no"}, "replication-factor, repair", "--operation Alter --cluster"),
        ({SET_RATE: "no"}, "demote-brokers, leaders", "--operation AlterConfigs --cluster"),
        ({SET_LISTS: "no"}, "demote-brokers, leaders", "--operation AlterConfigs --topic '*'"),
        ({REASSIGN: "no"}, "none", "--operation Alter --cluster"),
        ({READ_TOPICS: "no"}, "none", "--operation Describe --topic '*'"),
    ],
)
def test_goals_that_remain(denied: Mapping[str, str], left: str, fix: str) -> None:
    cluster = healthy()
    cluster.denied = dict(denied)
    finding = the_only("rights-refused", facts(cluster))
    assert finding.summary.endswith(f"goals that remain: {left}")
    assert finding.fix[1].endswith(fix)


def test_rights_that_were_not_probed_are_unknown() -> None:
    given = facts()
    unasked = replace(
        given,
        inspection=replace(given.inspection, refused=None, unavailable={"permissions": "who?"}),
    )
    assert the_only("rights-refused", unasked).summary == "not known: permissions: who?"


# -- coexistence


def test_a_hostile_name_stays_one_word_of_the_line_to_paste() -> None:
    given: Any = facts()
    row = {
        "resource_type": "topic",
        "resource_name": "x'; rm -rf / #",
        "key": LEADER_REPLICAS,
        "value": "0:1",
    }
    table = given.snapshot.throttles.from_pylist([row], schema=given.snapshot.throttles.schema)
    snapshot = replace(given.snapshot, tables={**given.snapshot.tables, "throttles": table})
    import shlex

    for line in the_only("leftover-throttle", replace(given, snapshot=snapshot)).fix:
        assert shlex.split(line)[7] == "x'; rm -rf / #"
