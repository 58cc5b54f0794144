"""Causes and consequences: what follows from a dead broker stands below it, and nowhere else."""

from dataclasses import replace

from counterpoise.audit.auditing import PreviousAudit, compare, find
from counterpoise.audit.facts import AuditFacts
from counterpoise.model.connectivity import ConnectionStage
from counterpoise.model.finding import AuditReport, from_json, to_json
from counterpoise.model.finding_groups import groups_of
from counterpoise.model.policy import AuditPolicy
from counterpoise.model.severity import Severity, Waiver
from tests.support.audits import endpoint, facts, healthy

FENCED, UNDER_MIN_ISR = "broker-fenced", "partitions-under-min-isr"


def two_dead(*waivers: Waiver) -> AuditFacts:
    cluster = healthy()
    cluster.kill_broker(2)
    cluster.kill_broker(3)
    return facts(
        cluster, audit=AuditPolicy(waivers=waivers, controller_racks={101: "a", 102: "b", 103: "c"})
    )


def audited(given: AuditFacts, previous: AuditReport | None = None) -> AuditReport:
    before = PreviousAudit.of(previous) if previous else None
    return compare(before, find(given), given)


def test_what_a_dead_broker_explains_stands_below_it() -> None:
    report = audited(two_dead())
    first, *others = groups_of(report)
    assert (first.rule, first.subjects) == (FENCED, ("broker 2", "broker 3"))
    below = {group.rule for group in first.consequences}
    assert {UNDER_MIN_ISR, "partitions-under-replicated"} <= below
    assert not below & {group.rule for group in others}
    assert report.open_counts[Severity.CRITICAL] == 2, "causes count, once each"
    assert report.open_at(Severity.CRITICAL)[0].finding.rule == FENCED


def test_balance_waits_until_the_broker_is_back() -> None:
    report = audited(two_dead())
    assert "brokers 2, 3" in report.not_applicable["leaders-not-preferred"]
    rules = {reported.finding.rule for reported in report.findings}
    assert "leaders-not-preferred" not in rules.union(report.passed)


def test_a_waived_cause_explains_nothing() -> None:
    report = audited(two_dead(Waiver(FENCED, "it is being repaired")))
    assert any(one.finding.rule == UNDER_MIN_ISR for one in report.unexplained)


def test_a_consequence_is_neither_new_nor_resolved_by_itself() -> None:
    first = audited(facts())
    second = audited(two_dead(), first)
    assert [one.finding.rule for one in second.new if one.finding.rule in (FENCED, UNDER_MIN_ISR)]
    assert UNDER_MIN_ISR not in {one.finding.rule for one in second.new}
    third = audited(facts(), from_json(to_json(second), where="the second"))
    assert FENCED in {finding.rule for finding in third.resolved}
    assert UNDER_MIN_ISR not in {finding.rule for finding in third.resolved}


def test_a_live_broker_that_lags_stays_a_finding_during_the_outage() -> None:
    cluster = healthy()
    cluster.kill_broker(2)
    for partition in cluster.partitions.values():
        partition.isr.discard(3)
    report = audited(facts(cluster))
    keys = {one.finding.key for one in report.unexplained}
    assert ("partitions-under-replicated", "broker 3") in keys
    assert ("partitions-under-replicated", "broker 2") not in keys


def test_the_bootstrap_address_of_a_dead_broker_follows_from_it() -> None:
    cluster = healthy()
    cluster.kill_broker(2)
    given = facts(cluster)
    assert given.connectivity is not None
    dead = (endpoint(f"{host}:9092", failed=ConnectionStage.TCP) for host in ("broker-2", "old"))
    bootstrap = (*given.connectivity.bootstrap, *dead)
    given = replace(given, connectivity=replace(given.connectivity, bootstrap=bootstrap))
    keys = {one.finding.key for one in audited(given).unexplained}
    assert ("bootstrap-dead-address", "bootstrap address old:9092") in keys
    assert ("bootstrap-dead-address", "bootstrap address broker-2:9092") not in keys
