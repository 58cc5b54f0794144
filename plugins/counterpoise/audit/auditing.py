"""Runs the rules, and compares what they found with the previous audit.

    thresholds = resolve(policy.audit)      # raises InputError for a rule or a name without a rule
    findings = find(facts)
    report = compare(previous, findings, facts)

A rule whose data is unavailable says "unknown", so that missing data never passes as health. Rules
that lack the same data stand together in one finding (`not-answered`). A rule about something that
the cluster does not have is not applicable: it has no finding.

Limits: a finding is recognised by rule and subject, so what is renamed is resolved there and new
here. What a rule could not check this time is neither present nor resolved.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Final

from counterpoise.audit import RULES, RULES_BY_AREA, RULES_WITHOUT_SNAPSHOT
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.rule import UNKNOWN_PREFIX, CheckResult, Rule, unknown
from counterpoise.audit.rules.availability import replica_long_out_of_sync
from counterpoise.audit.rules.leftovers import reassignment_stalled
from counterpoise.audit.unavailable_data import (
    SNAPSHOT,
    absent_needs,
    data_not_available,
    not_applicable,
    out_of_reach,
    partial_needs,
)
from counterpoise.errors import InputError
from counterpoise.model.finding import (
    CAUSE_RULES,
    AuditReport,
    Evidence,
    Finding,
    ReportedFinding,
    RuleText,
)
from counterpoise.model.policy import AuditPolicy
from counterpoise.model.severity import Severity, Waiver
from counterpoise.model.words import list_brokers, pluralize

_BALANCE: Final = "balance"  # an area
MAX_FINDINGS_NAMED: Final = 20  # in the message of a failed run

# -- thresholds


def resolve(policy: AuditPolicy) -> dict[str, dict[str, int]]:
    """Return thresholds by rule id: the defaults, and over them the policy's values.

    Raises InputError that lists every name without a rule: such a threshold or waiver would do
    nothing.
    """
    thresholds = {rule.id: dict(rule.thresholds) for rule in RULES}
    errors = [*_threshold_errors(policy, thresholds), *_waiver_errors(policy, thresholds)]
    if errors:
        lines = "\n".join(f"  {error}" for error in errors)
        raise InputError(f"policy.audit:\n{lines}")
    for rule_id, values in policy.thresholds.items():
        thresholds[rule_id].update(values)
    return thresholds


def _threshold_errors(
    policy: AuditPolicy, thresholds: Mapping[str, Mapping[str, int]]
) -> Iterator[str]:
    for rule_id, values in policy.thresholds.items():
        if rule_id not in thresholds:
            yield f'thresholds: there is no rule "{rule_id}"{_suggestion(rule_id, thresholds)}'
            continue
        known_names = thresholds[rule_id]
        for name in values:
            if name not in known_names:
                listed = ", ".join(known_names) or "none"
                yield f'thresholds: rule "{rule_id}" has no threshold "{name}"; it has {listed}'


def _waiver_errors(policy: AuditPolicy, known_ids: Iterable[str]) -> Iterator[str]:
    known_ids = list(known_ids)
    for waiver in policy.waivers:
        if waiver.rule not in known_ids:
            suggestion = _suggestion(waiver.rule, known_ids)
            yield f'waivers: there is no rule "{waiver.rule}"{suggestion}'


def _suggestion(name: str, known_names: Iterable[str]) -> str:
    matches = get_close_matches(name, list(known_names), n=1)
    return f'; did you mean "{matches[0]}"?' if matches else ""


def chosen_rules(wanted: Sequence[str], skipped: Sequence[str]) -> tuple[Rule, ...]:
    """Return the rules whose ids match a pattern of `wanted`, and none of `skipped`.

    Without `wanted` all rules count as wanted, but for those that run by their name alone; only
    their whole id matches these. Raises InputError for a pattern without a rule.
    """

    def matches(rule: Rule, pattern: str) -> bool:
        return rule.id == pattern if rule.by_name_alone else fnmatchcase(rule.id, pattern)

    for pattern in (*wanted, *skipped):
        if not any(matches(rule, pattern) for rule in RULES):
            suggestion = _suggestion(pattern, [rule.id for rule in RULES])
            raise InputError(f'there is no rule "{pattern}"{suggestion}')
    return tuple(
        rule
        for rule in RULES
        if any(matches(rule, pattern) for pattern in wanted or ["*"])
        and not any(matches(rule, pattern) for pattern in skipped)
    )


def history_needed(thresholds: Mapping[str, Mapping[str, int]]) -> tuple[int, timedelta]:
    """Return how many snapshots before the present one rules compare with, and how old the oldest
    has to be.
    """
    snapshots = thresholds[replica_long_out_of_sync.id]["snapshots"]
    minutes = thresholds[reassignment_stalled.id]["minutes"]
    return snapshots - 1, timedelta(minutes=minutes)


# -- findings


def find(facts: AuditFacts, rules: Iterable[Rule] = RULES) -> tuple[Finding, ...]:
    """Return what every rule found, the worst first, then in the order of rules and subjects."""
    findings = [
        _finding(rule, result, facts)
        for rule in rules
        if not _inapplicable_reason(rule, facts)
        for result in _results(rule, facts)
    ]
    return tuple(sorted(findings, key=lambda finding: -finding.severity.rank))


def _inapplicable_reason(rule: Rule, facts: AuditFacts) -> str:
    """Return why the rule has nothing to look at; "" where it has.

    While brokers or disks are down, balance would be about where leaders went meanwhile.
    """
    if rule in RULES_BY_AREA[_BALANCE] and facts.brokers_down:
        brokers = list_brokers(sorted(facts.brokers_down))
        return f"balance waits until {brokers} and all of their disks are back"
    return not_applicable(facts, rule.needs)


def _results(rule: Rule, facts: AuditFacts) -> list[CheckResult]:
    if facts.snapshot_failure and rule not in (*RULES_WITHOUT_SNAPSHOT, data_not_available):
        return [unknown(facts.snapshot_failure, causes=(SNAPSHOT,))]
    if unknown_results := absent_needs(facts, rule.needs):
        return unknown_results
    return [*rule.results(facts), *partial_needs(facts, rule.needs)]


def _finding(rule: Rule, result: CheckResult, facts: AuditFacts) -> Finding:
    return Finding(
        rule=rule.id,
        severity=result.severity or rule.severity,
        subject=result.subject,
        summary=result.summary,
        evidence=result.evidence,
        fix=result.fix,
        plan=result.plan,
        causes=result.causes,
    )


# -- the report


@dataclass(frozen=True, slots=True)
class PreviousAudit:
    """The audit before this one, as it was stored: its findings, each with its first time."""

    audited_at: datetime  # UTC
    findings: Mapping[tuple[str, str], tuple[Finding, datetime]] = field(default_factory=dict)
    not_applicable: Collection[str] = ()  # rules

    @classmethod
    def of(cls, report: AuditReport) -> "PreviousAudit":
        findings = {
            reported.finding.key: (reported.finding, reported.first_seen)
            for reported in report.findings
        }
        return cls(report.audited_at, findings, frozenset(report.not_applicable))


def compare(
    previous: PreviousAudit | None,
    findings: Sequence[Finding],
    facts: AuditFacts,
    rules: Iterable[Rule] = RULES,
) -> AuditReport:
    """Return the report: what is new, still there, resolved, and waived."""
    rules = list(rules)
    old = previous.findings if previous is not None else {}
    keys = {finding.key for finding in findings}
    rule_ids_with_findings = {finding.rule for finding in findings}
    unknown = _unknown(findings)
    inapplicable = _inapplicable(facts, rules, rule_ids_with_findings)
    unchecked_ids = unknown.keys() | inapplicable.keys()
    resolved = [
        finding
        for key, (finding, _) in sorted(old.items())
        if key not in keys and finding.rule not in unchecked_ids and not finding.causes
    ]
    passed = [rule.id for rule in rules if rule.id not in rule_ids_with_findings | unchecked_ids]
    rule_ids_that_ran = {rule.id for rule in rules} - unchecked_ids
    return AuditReport(
        cluster=facts.snapshot.cluster,
        cluster_id=facts.snapshot.cluster_id,
        audited_at=facts.now,
        snapshot_id=facts.snapshot.snapshot_id,
        findings=tuple(
            _reported(finding, previous, facts) for finding in _grouped(findings, facts, rules)
        ),
        resolved=tuple(resolved),
        passed=tuple(passed),
        previous_at=None if previous is None else previous.audited_at,
        unknown=unknown,
        not_applicable=inapplicable,
        unused_waivers=tuple(_unused_waivers(findings, facts, rule_ids_that_ran)),
    )


def _unused_waivers(
    findings: Sequence[Finding], facts: AuditFacts, rule_ids: Collection[str]
) -> Iterator[Waiver]:
    """Yield the waivers that are in force, and waive nothing of what their rules found."""
    for waiver in facts.waivers:
        is_in_force = _is_in_force(waiver, facts.now)
        is_used = any(_waives(waiver, finding, facts.now) for finding in findings)
        if waiver.rule in rule_ids and is_in_force and not is_used:
            yield waiver


def _unknown(findings: Iterable[Finding]) -> dict[str, str]:
    """Return the rules that could not run, in whole or in part, each with its first reason.

    The rule that lists the unavailable data did run.
    """
    reasons: dict[str, str] = {}
    for finding in findings:
        if finding.severity is Severity.UNKNOWN and finding.rule != data_not_available.id:
            reasons.setdefault(finding.rule, finding.summary.removeprefix(UNKNOWN_PREFIX))
    return reasons


def _inapplicable(
    facts: AuditFacts, rules: Iterable[Rule], rule_ids_with_findings: Collection[str]
) -> dict[str, str]:
    """Return the rules about something that the cluster does not have, each with the reason."""
    reasons = {}
    for rule in rules:
        if rule.id not in rule_ids_with_findings:
            reason = _inapplicable_reason(rule, facts) or out_of_reach(facts, rule.needs)
            if reason:
                reasons[rule.id] = reason
    return reasons


def _grouped(
    findings: Sequence[Finding], facts: AuditFacts, rules: Iterable[Rule]
) -> Iterator[Finding]:
    """Yield the findings, those that explain others first among their severity; rules without
    their data move into the finding of the cause.

    A rule that a team waived stays out of that list, so that the waiver shows. A cause that a team
    waived explains nothing: what follows from it stays a finding.
    """
    open_outages = {
        finding.subject
        for finding in findings
        if finding.rule in CAUSE_RULES and _waiver(finding, facts) is None
    }
    titles = {rule.id: rule.title for rule in rules}
    cause_id = data_not_available.id
    reported_causes = {finding.subject for finding in findings if finding.rule == cause_id}
    rule_ids_by_cause: dict[str, list[str]] = {}
    remaining = []
    for finding in findings:
        has_reported_causes = bool(finding.causes) and reported_causes.issuperset(finding.causes)
        if has_reported_causes and _waiver(finding, facts) is None:
            for cause in finding.causes:
                rule_ids_by_cause.setdefault(cause, []).append(finding.rule)
        else:
            remaining.append(finding)
    for finding in sorted(remaining, key=_causes_first):
        rule_ids = rule_ids_by_cause.get(finding.subject, [])
        if finding.rule == cause_id and rule_ids:
            yield _with_rules(finding, rule_ids, titles)
        else:
            yield replace(finding, causes=tuple(filter(open_outages.__contains__, finding.causes)))


def _causes_first(finding: Finding) -> tuple[int, int]:
    is_cause = finding.rule in CAUSE_RULES
    place = CAUSE_RULES.index(finding.rule) if is_cause else len(CAUSE_RULES)
    return -finding.severity.rank, place


def _with_rules(finding: Finding, rule_ids: Sequence[str], titles: Mapping[str, str]) -> Finding:
    """Return the finding of a cause with the rules that could not run because of it."""
    rows = tuple((rule_id, titles[rule_id]) for rule_id in rule_ids)
    return replace(
        finding,
        summary=f"{finding.summary}; {pluralize(len(rows), 'rule')} could not run",
        evidence=Evidence(("rule", "what it checks for"), rows, len(rows)),
    )


def _reported(
    finding: Finding, previous: PreviousAudit | None, facts: AuditFacts
) -> ReportedFinding:
    known = previous.findings.get(finding.key) if previous else None
    # What a rule waits for since it applies, like a day of history, is no news.
    is_late = (
        previous is not None
        and finding.severity is Severity.UNKNOWN
        and finding.rule in previous.not_applicable
    )
    return ReportedFinding(
        finding=finding,
        first_seen=facts.now if known is None else known[1],
        is_new=known is None and not is_late,
        waived_by=_waiver(finding, facts),
    )


# -- waivers


def _waiver(finding: Finding, facts: AuditFacts) -> Waiver | None:
    return waiver_of(finding, facts.waivers, facts.now)


def waiver_of(finding: Finding, waivers: Iterable[Waiver], now: datetime) -> Waiver | None:
    """Return the first waiver in force that names the finding's rule and subject."""
    return next((waiver for waiver in waivers if _waives(waiver, finding, now)), None)


def _waives(waiver: Waiver, finding: Finding, now: datetime) -> bool:
    # As in the patterns of topics, only `*` and `?` are special: an IPv6 address has brackets.
    patterns = (pattern.replace("[", "[[]") for pattern in waiver.subjects)
    is_named = any(fnmatchcase(finding.subject, pattern) for pattern in patterns)
    return _is_in_force(waiver, now) and waiver.rule == finding.rule and is_named


def _is_in_force(waiver: Waiver, now: datetime) -> bool:
    return bool(waiver.reason.strip()) and (waiver.until is None or now < waiver.until)


# -- for people


def failure_message(report: AuditReport, fails_at: Severity | None) -> str | None:
    """Return why this audit fails a run, with the titles of the findings; None: it does not.

    `fails_at` is the policy's severity; None lets every audit pass.
    """
    if fails_at is None:
        return None
    titles = {rule.id: rule.title for rule in RULES}
    found = [
        f"{finding.severity}: {titles.get(finding.rule, finding.rule)} ({finding.subject})"
        for finding in (reported.finding for reported in report.open_at(fails_at))
    ]
    if not found:
        return None
    count = pluralize(len(found), "finding")
    shown = "; ".join(found[:MAX_FINDINGS_NAMED])
    others = len(found) - MAX_FINDINGS_NAMED
    more = f"; and {others} more" if others > 0 else ""
    return f"{report.cluster}: {count} as bad as {fails_at} or worse: {shown}{more}"


def rule_texts(thresholds: Mapping[str, Mapping[str, int]]) -> dict[str, RuleText]:
    """Return the texts of every rule by id, with the thresholds in force."""
    return {
        rule.id: RuleText(
            id=rule.id,
            area=area,
            title=rule.title,
            why=rule.why,
            how=rule.how,
            source=rule.source,
            thresholds=thresholds.get(rule.id, {}),
        )
        for area, rules in RULES_BY_AREA.items()
        for rule in rules
    }
