"""Balance, partitions, disk, snapshots: each rule on a cluster that it is for, and on one that
nearly is.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from counterpoise.audit.facts import AuditFacts, PastFacts
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.finding import Finding, WantedPlan
from counterpoise.model.kafka import ConfigSource, ConfigValue
from counterpoise.model.load import DiskForecast, Outlook
from counterpoise.model.request import Goal
from counterpoise.model.severity import Severity
from counterpoise.model.tables import BROKERS, LOG_DIRS, SERIES, TOPIC_LOAD, TOPICS
from tests.support.audits import (
    HEALTHY,
    NOW,
    facts,
    findings_of,
    healthy,
    past,
    snapshot_of,
)

GB = 10**9
Given = Callable[[], AuditFacts]


def of(picture: str, *, racks: str = "1=a 2=b 3=c", **changes: Any) -> AuditFacts:
    return facts(healthy(picture, racks=racks), **changes)


def lines(topic: str, *replicas: str, size: int = 100) -> str:
    return "\n".join(f"{topic}-{number}: {ids} size={size}" for number, ids in enumerate(replicas))


def with_past(given: AuditFacts, **changes: Any) -> AuditFacts:
    assert given.past is not None
    return replace(given, past=replace(given.past, **changes))


def with_columns(table: pa.Table, schema: pa.Schema, **values: Any) -> pa.Table:
    """The table with the same value in every row of the named columns."""
    return pa.Table.from_pylist([row | values for row in table.to_pylist()], schema=schema)


def with_table(name: str, schema: pa.Schema, where: dict[str, Any], **values: Any) -> AuditFacts:
    """Healthy facts with other values in the rows of one table of the snapshot that `where`
    matches.
    """
    snapshot = snapshot_of(healthy())
    rows = [
        row | values if all(row[key] == value for key, value in where.items()) else row
        for row in snapshot.tables[name].to_pylist()
    ]
    tables = {**snapshot.tables, name: pa.Table.from_pylist(rows, schema=schema)}
    return facts(snapshot=replace(snapshot, tables=tables))


def the_only(rule: str, given: AuditFacts) -> Finding:
    (finding,) = findings_of(rule, given)
    return finding


# -- balance


def test_idle_brokers_are_named_one_by_one_and_one_plan_helps_them_all() -> None:
    given = of(HEALTHY, racks="1=a 2=b 3=c 4=a 5=b !6=c")
    since = NOW - timedelta(days=9, hours=2)
    found = findings_of("idle-broker", with_past(given, idle_since={4: since}))
    assert [finding.subject for finding in found] == ["broker 4", "broker 5"], (
        "a dead broker is no idle one"
    )
    assert "since 2026-11-13 10:00 UTC, 9 days ago" in found[0].summary
    assert "since when is not known" in found[1].summary
    assert found[0].plan is not None
    assert (found[0].plan.goal, found[0].plan.broker_ids) == (Goal.ADD_BROKERS, (4, 5))


def test_an_empty_cluster_has_no_idle_brokers() -> None:
    assert findings_of("idle-broker", of("", racks="1=a 2=b 3=c")) == ()


def test_leaders_are_uneven_beyond_what_the_policy_allows() -> None:
    uneven = lines("a", "1 2 3", "1 2 3", "1 3 2", "1 3 2", "2 3 1", "3 1 2")
    finding = the_only("leaders-uneven", of(uneven))
    assert "1 to 4 (max - min 3, at best 0)" in finding.summary
    assert finding.plan is not None and finding.plan.goal is Goal.LEADERS, (
        "replicas are even: no byte has to move"
    )
    assert finding.evidence is not None
    assert finding.evidence.rows[0] == ("1", "a", "4", "6")
    # With room for one more, as the default policy has, a difference of one above the best is fine.
    assert (
        findings_of("leaders-uneven", of(lines("a", "1 2 3", "1 3 2", "2 3 1", "3 1 2", "3 2 1")))
        == ()
    )
    # An idle broker is a finding of its own, and says nothing about the others.
    assert findings_of("leaders-uneven", of(HEALTHY, racks="1=a 2=b 3=c 4=a")) == ()


def test_where_replicas_are_uneven_too_leaders_need_a_rebalance() -> None:
    given = of(lines("a", *["1 2 3"] * 6, *["1 2"] * 6))
    finding = the_only("leaders-uneven", given)
    assert finding.plan is not None and finding.plan.goal is Goal.REBALANCE
    assert the_only("replicas-uneven", given).plan == finding.plan


def test_replicas_may_differ_a_little() -> None:
    assert (
        findings_of("replicas-uneven", of(lines("a", "1 2 3", "1 2 3", "1 2", "1 2", "1 3"))) == ()
    )


def test_leaders_that_are_not_preferred_are_counted_as_kafka_counts_them() -> None:
    away = "\n".join(f"a-{n}: 1 2 3 @2" if n < 2 else f"a-{n}: 1 2 3" for n in range(10))
    finding = the_only("leaders-not-preferred", of(away))
    assert finding.evidence is not None
    assert finding.evidence.rows == (("1", "10", "2", "20.0 %"),)
    assert finding.fix == (
        'kafka-leader-election.sh --bootstrap-server "$BOOTSTRAP" '
        "--election-type preferred --all-topic-partitions",
    )
    exactly = "\n".join(f"a-{n}: 1 2 3 @2" if n < 1 else f"a-{n}: 1 2 3" for n in range(10))
    assert findings_of("leaders-not-preferred", of(exactly)) == (), (
        "Kafka acts above 10 %, not at it"
    )


def test_a_dead_broker_cannot_lead_what_names_it_first() -> None:
    assert (
        findings_of(
            "leaders-not-preferred", of(lines("a", "3 1 2", "1 2 3", "2 1 3"), racks="1=a 2=b !3=c")
        )
        == ()
    )


def test_topics_with_skewed_leaders_are_rows_of_one_finding() -> None:
    skewed = lines("skewed", *["1 2 3"] * 3) + "\n" + lines("other", *["2 3 1"] * 3, *["3 1 2"] * 3)
    finding = the_only("topic-leaders-uneven", of(f"{HEALTHY}\n{skewed}"))
    assert finding.subject == "cluster"
    assert finding.evidence is not None
    assert finding.evidence.rows == (("other", "6", "3", "0", "3"), ("skewed", "3", "3", "0", "3"))
    assert findings_of("topic-leaders-uneven", of(lines("a", *["1 2 3", "2 3 1"] * 2))) == (), (
        "one above the best"
    )


def test_bytes_are_compared_where_there_are_some() -> None:
    heavy = lines("a", "1 2", "1 2", size=40 * GB) + "\n" + lines("b", "3 1", size=GB)
    finding = the_only("bytes-uneven", of(heavy))
    assert finding.plan is not None and finding.plan.goal is Goal.REBALANCE
    assert "1.0 GB to 81.0 GB" in finding.summary
    assert findings_of("bytes-uneven", of(heavy.replace("000000", "000"))) == (), (
        "kilobytes are no load"
    )


def test_unknown_sizes_make_bytes_unknown() -> None:
    snapshot = snapshot_of(healthy())
    replicas = snapshot.replicas.set_column(
        snapshot.replicas.schema.get_field_index("size_bytes"),
        snapshot.replicas.schema.field("size_bytes"),
        pa.nulls(snapshot.replicas.num_rows, pa.int64()),
    )
    given = facts(snapshot=replace(snapshot, tables={**snapshot.tables, "replicas": replicas}))
    assert the_only("bytes-uneven", given).severity is Severity.UNKNOWN


def _rates(snapshot: ClusterSnapshot, rates: dict[int, int | None]) -> AuditFacts:
    rows = [
        row | {"leader_bytes_in_per_second": rates[row["broker_id"]]}
        for row in past(snapshot).series.to_pylist()
    ]
    return with_past(facts(snapshot=snapshot), series=pa.Table.from_pylist(rows, schema=SERIES))


def test_bytes_in_come_from_the_newest_analysed_snapshot() -> None:
    snapshot = snapshot_of(healthy())
    finding = the_only(
        "bytes-in-uneven", _rates(snapshot, {1: 30_000_000, 2: 5_000_000, 3: 5_000_000})
    )
    assert "2.25 times the mean" in finding.summary
    assert finding.plan is not None
    assert finding.plan.command(("--cluster", "demo")) == (
        "counterpoise plan --cluster demo --goal rebalance --out rebalance.json"
    )
    assert (
        findings_of("bytes-in-uneven", _rates(snapshot, {1: 9_000_000, 2: 6_000_000, 3: 5_000_000}))
        == ()
    )
    assert findings_of("bytes-in-uneven", _rates(snapshot, {1: 300_000, 2: 5_000, 3: 5_000})) == ()
    assert (
        the_only("bytes-in-uneven", _rates(snapshot, {1: 9, 2: None, 3: 5})).severity
        is Severity.UNKNOWN
    )


# -- partitions


def test_too_many_replicas_are_too_many_for_a_broker() -> None:
    given = facts()
    few = replace(given, thresholds={**given.thresholds, "partitions-per-broker": {"most": 20}})
    assert [f.subject for f in findings_of("partitions-per-broker", few)] == [
        "broker 1",
        "broker 2",
        "broker 3",
    ]
    exactly = replace(given, thresholds={**given.thresholds, "partitions-per-broker": {"most": 21}})
    assert findings_of("partitions-per-broker", exactly) == ()


def _topic_rates(given: AuditFacts, *rates: tuple[str, int, int | None]) -> AuditFacts:
    """Topic, partitions, bytes in per second."""
    keys = {"cluster": "demo", "snapshot_id": "demo-1", "observed_at": NOW}
    rows = [
        keys
        | {
            "topic": topic,
            "partition_count": count,
            "bytes_in_per_second": rate,
            "size_bytes": 1000,
        }
        for topic, count, rate in rates
    ]
    return with_past(given, topic_load=pa.Table.from_pylist(rows, schema=TOPIC_LOAD))


def test_many_partitions_with_next_to_nothing_in_them() -> None:
    finding = the_only(
        "topics-over-provisioned",
        _topic_rates(facts(), ("orders", 24, 2400), ("payments", 24, 2424)),
    )
    assert finding.evidence is not None
    assert [row[0] for row in finding.evidence.rows] == ["orders"], (
        "100 bytes a second for each partition, and no more"
    )
    assert "Kafka cannot remove partitions" in _how("topics-over-provisioned")
    assert findings_of("topics-over-provisioned", _topic_rates(facts(), ("orders", 23, 0))) == ()
    assert (
        findings_of("topics-over-provisioned", _topic_rates(facts(), ("__consumer_offsets", 50, 0)))
        == ()
    )
    assert (
        the_only("topics-over-provisioned", _topic_rates(facts(), ("orders", 24, None))).severity
        is Severity.UNKNOWN
    )


def _how(rule_id: str) -> str:
    from counterpoise.audit import RULES

    return next(rule.how for rule in RULES if rule.id == rule_id)


def test_a_hot_topic_with_few_partitions_and_what_more_of_them_do_to_keys() -> None:
    two = f"{HEALTHY}\n{lines('clicks & more', '1 2 3', '2 3 1')}".replace(
        "clicks & more", "clicks"
    )
    given = _topic_rates(of(two), ("clicks", 2, 30_000_000), ("orders", 6, 9_000_000))
    finding = the_only("hot-topic-few-partitions", given)
    assert finding.subject == "topic clicks"
    assert "(77 % of the cluster) on 2 partitions; broker 3 leads none" in finding.summary
    warning, command = finding.fix
    assert warning.startswith("# adding partitions changes which partition a key maps to")
    assert command.endswith("--alter --topic clicks --partitions 3")
    assert (
        findings_of("hot-topic-few-partitions", _topic_rates(of(two), ("clicks", 3, 30_000_000)))
        == ()
    )
    assert (
        findings_of("hot-topic-few-partitions", _topic_rates(of(two), ("clicks", 2, 999_999))) == ()
    )
    cool = _topic_rates(of(two), ("clicks", 2, 2_000_000), ("orders", 6, 90_000_000))
    assert findings_of("hot-topic-few-partitions", cool) == ()


# -- disk


def _disk(broker_id: int, days: float | None, outlook: Outlook = Outlook.FILLS) -> DiskForecast:
    return DiskForecast(
        broker_id, (f"/data/{broker_id}",), GB, 10 * GB, GB, GB, 10**6, outlook, days
    )


@pytest.mark.parametrize(
    ("days", "severity"),
    [(31.0, None), (30.0, Severity.WARNING), (7.5, Severity.WARNING), (7.0, Severity.CRITICAL)],
)
def test_a_disk_that_fills(days: float, severity: Severity | None) -> None:
    found = findings_of(
        "disk-full-soon", with_past(facts(), disk_forecasts=(_disk(2, days), _disk(1, 300.0)))
    )
    assert [(finding.subject, finding.severity) for finding in found] == (
        [] if severity is None else [("broker 2", severity)]
    )
    if severity:
        assert found[0].plan == WantedPlan(Goal.RELIEF, below_percent=85)
        assert (
            found[0].fix[1].endswith("--entity-name orders --add-config retention.ms=MILLISECONDS")
        )


def test_where_every_disk_fills_no_plan_helps() -> None:
    full = with_past(
        facts(), disk_forecasts=tuple(_disk(broker_id, 3.0) for broker_id in (1, 2, 3))
    )
    assert [finding.plan for finding in findings_of("disk-full-soon", full)] == [None, None, None]


def test_a_disk_without_a_trend_is_unknown_beside_those_that_fill() -> None:
    given = with_past(facts(), disk_forecasts=(_disk(2, 3.0), _disk(1, None, Outlook.NOT_KNOWN)))
    found = {finding.subject: finding for finding in findings_of("disk-full-soon", given)}
    assert found["broker 2"].severity is Severity.CRITICAL
    assert "no trend of 1 disk: broker 1 /data/1" in found["cluster"].summary
    assert (
        the_only("disk-full-soon", with_past(facts(), disk_forecasts=())).severity
        is Severity.UNKNOWN
    )


@pytest.mark.parametrize(
    ("usable", "severity"),
    [(150, None), (149, Severity.WARNING), (50, Severity.WARNING), (49, Severity.CRITICAL)],
)
def test_a_disk_that_is_nearly_full(usable: int, severity: Severity | None) -> None:
    given = with_table(
        "log_dirs", LOG_DIRS, {"broker_id": 2}, total_bytes=1000 * GB, usable_bytes=usable * GB
    )
    found = findings_of("disk-nearly-full", given)
    assert [(finding.subject, finding.severity) for finding in found] == (
        [] if severity is None else [("broker 2", severity)]
    )


def test_a_disk_without_sizes_is_unknown() -> None:
    finding = the_only(
        "disk-nearly-full", with_table("log_dirs", LOG_DIRS, {"broker_id": 3}, total_bytes=None)
    )
    assert (finding.severity, finding.subject) == (Severity.UNKNOWN, "cluster")
    assert "broker 3" in finding.summary


def _two_dirs(usable: int) -> AuditFacts:
    snapshot = snapshot_of(healthy())
    second = {
        "broker_id": 1,
        "log_dir": "/second",
        "total_bytes": 10**12,
        "usable_bytes": usable,
        "error": None,
    }
    dead = {
        "broker_id": 1,
        "log_dir": "/dead",
        "total_bytes": None,
        "usable_bytes": None,
        "error": "offline",
    }
    table = pa.Table.from_pylist([*snapshot.log_dirs.to_pylist(), second, dead], schema=LOG_DIRS)
    return facts(snapshot=replace(snapshot, tables={**snapshot.tables, "log_dirs": table}))


def test_log_dirs_of_one_broker_are_compared_with_each_other() -> None:
    assert the_only("log-dirs-uneven", _two_dirs(700 * GB)).subject == "broker 1"
    assert findings_of("log-dirs-uneven", _two_dirs(760 * GB)) == ()


def _kept(
    retention_ms: int,
    retention_bytes: int,
    policy: str = "delete",
    rate: int | None = 100_000,
    **configs: object,
) -> AuditFacts:
    """Topic orders, six partitions on each of three brokers, with this retention and rate; the
    others keep little.
    """
    snapshot = snapshot_of(healthy())
    topics = [
        row
        | (
            {
                "retention_ms": retention_ms,
                "retention_bytes": retention_bytes,
                "cleanup_policy": policy,
            }
            | configs
            if row["topic"] == "orders"
            else {"retention_bytes": 0}
        )
        for row in snapshot.topics.to_pylist()
    ]
    snapshot = replace(
        snapshot, tables={**snapshot.tables, "topics": pa.Table.from_pylist(topics, schema=TOPICS)}
    )
    given = facts(snapshot=snapshot)
    rates = pa.array([rate] * snapshot.partitions.num_rows, pa.int64())
    return with_past(given, usual_bytes_in=rates)


WEEK, MONTHS = 7 * 86_400_000, 70 * 86_400_000


@pytest.mark.parametrize(
    ("given", "fires"),
    [
        (lambda: _kept(MONTHS, -1), True),  # 6 partitions x 100 kB/s x 70 days are 3.6 TB
        (lambda: _kept(WEEK, -1), False),
        (lambda: _kept(MONTHS, 100 * GB), False),  # whatever time allows, bytes do not
        (lambda: _kept(-1, 200 * GB), True),
        (lambda: _kept(-1, -1), False),  # has no end; that is another rule's
        (
            lambda: _kept(MONTHS, -1, "compact"),
            False,
        ),  # what compaction leaves is not known from rates
    ],
)
def test_retention_that_cannot_fit(given: Given, fires: bool) -> None:
    found = findings_of("retention-cannot-fit", given())
    assert [finding.subject for finding in found] == (
        ["broker 1", "broker 2", "broker 3"] if fires else []
    )
    if fires:
        assert found[0].evidence is not None and found[0].evidence.rows[0][0] == "orders"
        assert "retention.bytes=BYTES_PER_PARTITION" in found[0].fix[1]


def test_of_a_topic_with_tiered_storage_local_retention_counts() -> None:
    is_tiered = {"remote_storage_enable": "true", "local_retention_ms": WEEK // 7}
    assert findings_of("retention-cannot-fit", _kept(MONTHS, -1)) != ()
    assert findings_of("retention-cannot-fit", _kept(MONTHS, -1, **is_tiered)) == ()
    assert findings_of("retention-without-end", _kept(-1, -1, **is_tiered)) == ()
    as_the_other = is_tiered | {"local_retention_ms": -2}
    (finding, *_) = findings_of("retention-cannot-fit", _kept(MONTHS, -1, **as_the_other))
    assert "local.retention.bytes=BYTES_PER_PARTITION" in finding.fix[1]
    assert findings_of("retention-without-end", _kept(-1, -1, **as_the_other)) != ()


def test_without_rates_what_retention_holds_is_unknown() -> None:
    (finding,) = findings_of("retention-cannot-fit", _kept(MONTHS, -1, rate=None))
    assert finding.severity is Severity.UNKNOWN
    found = findings_of("retention-cannot-fit", _kept(MONTHS, 200 * GB, rate=None))
    assert {finding.subject for finding in found} == {"cluster", "broker 1", "broker 2", "broker 3"}


def test_a_disk_of_unknown_size_is_not_overfull() -> None:
    given = _kept(MONTHS, -1)
    brokers = with_columns(given.snapshot.brokers, BROKERS, disk_total_bytes=None)
    snapshot = replace(given.snapshot, tables={**given.snapshot.tables, "brokers": brokers})
    assert findings_of("retention-cannot-fit", replace(given, snapshot=snapshot)) == ()


def test_topics_that_keep_everything() -> None:
    finding = the_only("retention-without-end", _kept(-1, -1))
    assert finding.evidence is not None and finding.evidence.rows == (("orders",),)
    assert findings_of("retention-without-end", _kept(-1, -1, "compact")) == ()
    assert findings_of("retention-without-end", _kept(-1, 5)) == ()


def test_topics_that_keep_everything_since_their_brokers_do() -> None:
    key, given = "log.retention.hours", _kept(-1, -1)
    value = ConfigValue("-1", ConfigSource.STATIC_BROKER)
    brokers = {one: {**own, key: value} for one, own in given.broker_configs.items()}
    inspected = replace(given.inspection, broker_configs=brokers)
    finding = the_only("retention-without-end", replace(given, inspection=inspected))
    assert finding.summary.endswith(f"are both -1; the brokers set {key} to -1")
    assert finding.fix[1] == f"# remove {key}, or set what was meant"
    assert "brokers" not in the_only("retention-without-end", given).summary


def test_facts_of_an_empty_history_are_no_crash() -> None:
    nothing = PastFacts()
    for rule in (
        "bytes-in-uneven",
        "topics-over-provisioned",
        "retention-cannot-fit",
        "disk-full-soon",
    ):
        assert the_only(rule, facts(past=nothing)).severity is Severity.UNKNOWN
