"""The audit as a whole: the healthy cluster, thresholds, waivers, and what changed since the audit
before.
"""

from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from counterpoise.audit import RULES
from counterpoise.audit.auditing import PreviousAudit, compare, find, resolve
from counterpoise.audit.facts import AuditFacts, PastFacts
from counterpoise.audit.rule import CheckResult, Need, Rule
from counterpoise.errors import ClusterError
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.finding import AuditReport, Finding, ReportedFinding, from_json, to_json
from counterpoise.model.inspection import InspectionItem
from counterpoise.model.policy import AuditPolicy
from counterpoise.model.severity import Severity, Waiver
from tests.support.audits import NOW, facts, findings_of, fired, healthy, quorum, snapshot_of

ILL = "orders-0: 1\nparcels-0: 2\npayments-0: 1 2 3"


def report(given: AuditFacts, before: PreviousAudit | None = None) -> AuditReport:
    return compare(before, find(given), given)


def one_replica(*waivers: Waiver) -> AuditFacts:
    return facts(
        healthy(ILL),
        audit=AuditPolicy(waivers=waivers, controller_racks={101: "a", 102: "b", 103: "c"}),
    )


def waived(found: AuditReport) -> list[str]:
    return sorted(
        one.finding.subject
        for one in found.findings
        if one.waived_by and one.finding.rule != "waiver-expired"
    )


def test_no_rule_fires_on_the_healthy_cluster() -> None:
    assert fired(facts()) == {}
    combined = healthy()
    combined.quorum = quorum(voters=(1, 2, 3))
    assert fired(facts(combined)) == {}
    assert sorted(report(facts(combined)).passed) == sorted(rule.id for rule in RULES)


def test_the_worst_comes_first() -> None:
    ranks = [finding.severity.rank for finding in find(facts(healthy(ILL, racks="1=a 2=b 3")))]
    assert len(set(ranks)) > 1
    assert ranks == sorted(ranks, reverse=True)


# -- thresholds


def test_thresholds_are_the_rules_and_over_them_the_policys() -> None:
    found = resolve(AuditPolicy(thresholds={"quorum-size": {"most": 9}}))
    assert found["quorum-size"] == {"most": 9}
    assert found["bootstrap-few-addresses"] == {"least": 3}
    assert found["racks-missing"] == {}
    assert resolve(AuditPolicy())["quorum-size"] == {"most": 5}  # the rule's own is untouched


# -- waivers


@pytest.mark.parametrize(
    ("waiver", "subjects"),
    [
        pytest.param(
            Waiver("replication-factor-1", "legacy"),
            ["topic orders", "topic parcels"],
            id="all of a rule",
        ),
        pytest.param(
            Waiver("replication-factor-1", "legacy", ("topic or*",)),
            ["topic orders"],
            id="a pattern",
        ),
        pytest.param(
            Waiver("replication-factor-1", "legacy", ("topic parcel?",)),
            ["topic parcels"],
            id="one character",
        ),
        pytest.param(
            Waiver("replication-factor-1", "legacy", ("orders",)), [], id="not the subject"
        ),
        pytest.param(Waiver("replication-factor-low", "legacy"), [], id="another rule"),
        pytest.param(
            Waiver("replication-factor-1", "legacy", until=NOW + timedelta(seconds=1)),
            ["topic orders", "topic parcels"],
            id="until later",
        ),
        pytest.param(Waiver("replication-factor-1", "legacy", until=NOW), [], id="until now"),
        pytest.param(Waiver("replication-factor-1", "  "), [], id="without a reason"),
    ],
)
def test_a_waiver_in_force_waives_what_it_names(waiver: Waiver, subjects: list[str]) -> None:
    found = report(one_replica(waiver))
    assert waived(found) == subjects
    open_subjects = {
        one.finding.subject for one in found.open if one.finding.rule == "replication-factor-1"
    }
    assert open_subjects == {"topic orders", "topic parcels"} - set(subjects)
    assert (found.worst is Severity.CRITICAL) is bool(open_subjects)


@pytest.mark.parametrize(
    "waiver", [Waiver("racks-missing", "old", until=NOW), Waiver("racks-missing", "")]
)
def test_a_waiver_without_force_is_a_finding_itself(waiver: Waiver) -> None:
    given = facts(
        audit=AuditPolicy(waivers=(waiver,), controller_racks={101: "a", 102: "b", 103: "c"})
    )
    assert [(f.rule, f.severity) for f in find(given)] == [("waiver-expired", Severity.INFO)]
    in_force = replace(waiver, reason="old", until=NOW + timedelta(days=1))
    given = facts(
        audit=AuditPolicy(waivers=(in_force,), controller_racks={101: "a", 102: "b", 103: "c"})
    )
    assert find(given) == ()


def test_brackets_of_an_address_are_no_pattern() -> None:
    subject = "endpoint [::1]:9092"
    rule = Rule(
        "advertised-duplicate",
        Severity.CRITICAL,
        title="t",
        why="w",
        how="h",
        source="s",
        check=lambda _: [CheckResult(subject, "seen")],
    )
    given = facts(audit=AuditPolicy(waivers=(Waiver("advertised-duplicate", "known", (subject,)),)))
    assert waived(compare(None, find(given, [rule]), given, [rule])) == [subject]


# -- since the audit before


def test_what_is_new_still_there_and_resolved() -> None:
    first = report(facts(healthy(ILL), now=NOW - timedelta(days=1)))
    assert {one.is_new for one in first.findings} == {True}
    assert first.previous_at is None
    second = report(
        facts(healthy("orders-0: 1\nshop-0: 3\npayments-0: 1 2 3")), PreviousAudit.of(first)
    )
    known = {
        one.finding.subject: (one.is_new, one.first_seen)
        for one in second.findings
        if "factor-1" in one.finding.rule
    }
    assert known == {"topic orders": (False, NOW - timedelta(days=1)), "topic shop": (True, NOW)}
    assert ("replication-factor-1", "topic parcels") in {finding.key for finding in second.resolved}
    assert ("replication-factor-1", "topic orders") not in {
        finding.key for finding in second.resolved
    }
    assert second.previous_at == NOW - timedelta(days=1)
    third = report(
        facts(healthy("orders-0: 1\npayments-0: 1 2 3"), now=NOW + timedelta(days=1)),
        PreviousAudit.of(second),
    )
    assert {one.finding.subject: one.first_seen for one in third.findings}[
        "topic orders"
    ] == NOW - timedelta(days=1)


def test_what_a_rule_could_not_check_is_not_resolved() -> None:
    cluster = healthy()
    cluster.quorum = None  # the three brokers vote, and are static
    first = report(facts(cluster))
    assert ("quorum-static", "quorum") in {one.finding.key for one in first.findings}
    snapshot = snapshot_of(cluster)
    cluster.fail_next("describe_quorum", ClusterError("not allowed"))
    second = report(facts(cluster, snapshot=snapshot), PreviousAudit.of(first))
    assert "quorum-static" not in {finding.rule for finding in second.resolved}
    assert "quorum-static" not in second.passed
    assert second.unknown["quorum-static"] == "metadata quorum: not allowed"
    (one,) = [one.finding for one in second.findings if one.finding.subject == "metadata quorum"]
    assert one.summary.startswith("not known: metadata quorum: not allowed; ")


def test_without_history_the_rules_that_need_it_are_not_applicable() -> None:
    given = facts(past=None)
    assert findings_of("replica-long-out-of-sync", given) == ()
    found = report(given)
    assert found.worst is None
    needing = {rule.id for rule in RULES if Need.HISTORY in rule.needs}
    reason = "no history yet: it begins with the first snapshots"
    assert {rule_id for rule_id, why in found.not_applicable.items() if why == reason} == needing
    assert not needing & set(found.passed)
    of_controllers = "no broker reports the configs of controllers 101, 102, 103"
    assert found.not_applicable["auto-leader-rebalance"] == of_controllers


def test_what_a_rule_without_its_history_could_not_check_is_not_resolved() -> None:
    kept = replace(
        report(facts()),
        findings=(
            ReportedFinding(
                Finding("disk-full-soon", Severity.WARNING, "broker 2", "s"), NOW, True
            ),
        ),
    )
    assert report(facts(past=None), PreviousAudit.of(kept)).resolved == ()


# -- what did not answer


def without_data_of(broker_id: int, **changes: object) -> AuditFacts:
    """Return a healthy cluster of which one broker reported nothing but its metadata."""
    given = facts(**changes)
    asked, dirs = given.inspection, given.snapshot.log_dirs
    reported = {
        name: {b: value for b, value in getattr(asked, name).items() if b != broker_id}
        for name in ("broker_configs", "versions", "features")
    }
    why = dict.fromkeys(
        (InspectionItem.BROKER_CONFIGS, InspectionItem.VERSIONS, InspectionItem.FEATURES),
        f"no answer from broker {broker_id}",
    )
    return replace(
        given,
        inspection=replace(asked, unavailable=why, **reported),
        snapshot=with_log_dirs(given, dirs.filter(pc.not_equal(dirs["broker_id"], broker_id))),
    )


def with_log_dirs(given: AuditFacts, dirs: pa.Table) -> ClusterSnapshot:
    return replace(given.snapshot, tables={**given.snapshot.tables, "log_dirs": dirs})


def unknowns(found: AuditReport) -> list[tuple[str, str]]:
    return [one.finding.key for one in found.findings if one.finding.severity is Severity.UNKNOWN]


def test_rules_that_lack_data_of_one_broker_are_listed_in_one_finding() -> None:
    given = without_data_of(2)
    blind = [finding.rule for finding in find(given) if finding.rule != "not-answered"]
    assert len(blind) > 15
    found = report(given)
    assert unknowns(found) == [("not-answered", "broker 2")]
    (one,) = [one.finding for one in found.findings if one.finding.rule == "not-answered"]
    assert one.summary == (
        "not known: broker configs, versions, features, log dirs of broker 2; "
        f"{len(blind)} rules could not run"
    )
    assert one.evidence is not None
    assert [rule_id for rule_id, _ in one.evidence.rows] == blind
    assert {"advertised-loopback", "mixed-versions", "log-dir-offline", "disk-nearly-full"} <= set(
        blind
    )
    assert not set(blind) & set(found.passed)
    assert from_json(to_json(found), where="it") == found


def test_a_cluster_without_a_quorum_lacks_no_data() -> None:
    given = facts()
    zookeeper = replace(given.inspection, quorum=None, eligible_leaders=None, refused=None)
    found = report(replace(given, inspection=zookeeper))
    assert (found.findings, found.unknown) == ((), {})
    assert found.not_applicable["quorum-size"] == "the cluster has no metadata quorum"
    assert {"eligible-leaders", "rights-refused", "quorum-one-rack"} <= found.not_applicable.keys()


def test_the_line_about_what_could_not_run_counts_rules_and_names_reasons() -> None:
    found = report(without_data_of(2))
    assert found.unknown_in_words.startswith(
        f"{len(found.unknown)} of {len(RULES)} rules could not run: "
        "broker configs of broker 2: no answer from broker 2; "
    )
    assert report(facts()).unknown_in_words == ""


def test_rules_that_lack_the_same_data_are_listed_under_it() -> None:
    cluster = healthy()
    snapshot = snapshot_of(cluster)
    cluster.fail_next("describe_quorum", ClusterError("not allowed"))
    found = report(facts(cluster, snapshot=snapshot, connectivity=None))
    assert unknowns(found) == [("not-answered", "metadata quorum"), ("not-answered", "walk")]
    assert [one.finding.summary.partition(";")[0] for one in found.findings] == [
        "not known: metadata quorum: not allowed",
        "not known: walk: the connectivity check of the endpoints was not run, or it failed",
    ]


def test_unavailable_data_is_new_still_there_and_resolved() -> None:
    ill = facts(healthy(ILL))
    first = report(replace(ill, now=NOW - timedelta(days=1)))
    unchanged = replace(ill.past or PastFacts(), usual_bytes_in=None)
    second = report(replace(without_data_of(2), past=unchanged, now=NOW), PreviousAudit.of(first))
    (one,) = [one for one in second.findings if one.finding.rule == "not-answered"]
    assert (one.is_new, one.first_seen) == (True, NOW)
    third = report(
        replace(without_data_of(2), now=NOW + timedelta(hours=1)), PreviousAudit.of(second)
    )
    (one,) = [one for one in third.findings if one.finding.rule == "not-answered"]
    assert (one.is_new, one.first_seen) == (False, NOW)
    other = report(without_data_of(3), PreviousAudit.of(third))
    assert [gone.key for gone in other.resolved] == [("not-answered", "broker 2")]
    assert [gone.key for gone in report(facts(), PreviousAudit.of(other)).resolved] == [
        ("not-answered", "broker 3")
    ]


def test_what_a_listed_rule_had_found_is_not_resolved() -> None:
    had = ReportedFinding(
        Finding("advertised-loopback", Severity.CRITICAL, "broker 2", "s"), NOW, is_new=True
    )
    known = ReportedFinding(
        Finding("racks-missing", Severity.WARNING, "cluster", "s"), NOW, is_new=True
    )
    before = PreviousAudit.of(replace(report(facts()), findings=(had, known)))
    assert [gone.key for gone in report(without_data_of(2), before).resolved] == [
        ("racks-missing", "cluster")
    ]


def test_a_waived_rule_is_not_listed_and_unavailable_data_can_be_waived() -> None:
    racks = {101: "a", 102: "b", 103: "c"}
    policy = AuditPolicy(waivers=(Waiver("mixed-versions", "known"),), controller_racks=racks)
    found = report(without_data_of(2, audit=policy))
    assert waived(found) == ["cluster"]
    (one,) = [one.finding for one in found.open if one.finding.rule == "not-answered"]
    assert one.evidence is not None
    assert "mixed-versions" not in {rule_id for rule_id, _ in one.evidence.rows}
    policy = AuditPolicy(
        waivers=(Waiver("not-answered", "it is being built", ("broker 2",)),),
        controller_racks=racks,
    )
    found = report(without_data_of(2, audit=policy))
    assert (waived(found), found.open) == (["broker 2"], ())


def test_a_broker_that_reports_no_sizes_is_a_finding_of_its_own() -> None:
    given = without_data_of(2)
    rows = given.snapshot.log_dirs.to_pylist()
    rows = [row | ({"total_bytes": None} if row["broker_id"] == 3 else {}) for row in rows]
    dirs = pa.Table.from_pylist(rows, schema=given.snapshot.log_dirs.schema)
    found = report(replace(given, snapshot=with_log_dirs(given, dirs)))
    assert ("disk-nearly-full", "cluster") in unknowns(found)
