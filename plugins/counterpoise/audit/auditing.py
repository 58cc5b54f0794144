"""Runs the rules, and compares what they found with the audit before.

    thresholds = resolve(policy.audit)                   # raises InputError for a rule or a name that does not exist
    findings = find(facts)
    report = compare(previous, findings, ...)

A rule that needs the walk where there is none says "unknown" for the cluster, so that silence is
never taken for health. Those that need a history where there is none yet are named once, together,
among what could not be asked; those that all lack the same answer are named once, in the finding of
that broker or question (`not-answered`).

Limits: a finding is recognised by rule and subject: what is renamed is gone, and new. What a rule
could not look at this time is neither there nor gone.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import chain
from typing import Final

from counterpoise.audit import RULES
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.rule import Need, Rule, Sighting, unknown
from counterpoise.audit.unavailable_data import NOBODY_WALKED, NOT_ANSWERED, WALK, silent
from counterpoise.errors import InputError
from counterpoise.model.finding import AuditReport, Evidence, Finding, Seen
from counterpoise.model.policy import AuditPolicy
from counterpoise.model.severity import Severity, Waiver
from counterpoise.model.words import pluralize

_CLUSTER: Final = "cluster"


def resolve(policy: AuditPolicy, rules: Iterable[Rule] = RULES) -> dict[str, dict[str, int]]:
    """Thresholds by rule: their defaults, and over them the policy's.

    Raises InputError, with every name that no rule has: a threshold or a waiver that names none
    would do nothing.
    """
    resolved = {rule.id: dict(rule.thresholds) for rule in rules}
    complaints = [*_unknown_thresholds(policy, resolved), *_unknown_waivers(policy, resolved)]
    if complaints:
        raise InputError(
            "policy.audit:\n" + "\n".join(f"  {complaint}" for complaint in complaints)
        )
    for rule_id, values in policy.thresholds.items():
        resolved[rule_id].update(values)
    return resolved


def _unknown_thresholds(
    policy: AuditPolicy, known: Mapping[str, Mapping[str, int]]
) -> Iterator[str]:
    for rule_id, values in policy.thresholds.items():
        if rule_id not in known:
            yield f'thresholds: there is no rule "{rule_id}"{_perhaps(rule_id, known)}'
            continue
        for name in values:
            if name not in known[rule_id]:
                has = ", ".join(known[rule_id]) or "none"
                yield f'thresholds: rule "{rule_id}" has no threshold "{name}"; it has {has}'


def _unknown_waivers(policy: AuditPolicy, known: Mapping[str, object]) -> Iterator[str]:
    for waiver in policy.waivers:
        if waiver.rule not in known:
            yield f'waivers: there is no rule "{waiver.rule}"{_perhaps(waiver.rule, known)}'


def _perhaps(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known), n=1)
    return f'; did you mean "{close[0]}"?' if close else ""


def find(facts: AuditFacts, rules: Iterable[Rule] = RULES) -> tuple[Finding, ...]:
    """What every rule sees, the worst first, then in the order of the rules and by subject."""
    found = [
        _finding(rule, sighting)
        for rule in rules
        if _can_look(rule, facts)
        for sighting in _look(rule, facts)
    ]
    return tuple(sorted(found, key=lambda finding: -finding.severity.rank))


def _can_look(rule: Rule, facts: AuditFacts) -> bool:
    return facts.past is not None or Need.HISTORY not in rule.needs


def _look(rule: Rule, facts: AuditFacts) -> list[Sighting]:
    if Need.WALK in rule.needs and facts.walk is None:
        return [unknown(_CLUSTER, NOBODY_WALKED, (WALK,))]
    return sorted(rule.look(facts), key=lambda sighting: sighting.subject)


def _finding(rule: Rule, sighting: Sighting) -> Finding:
    return Finding(
        rule=rule.id,
        severity=rule.severity if sighting.severity is None else sighting.severity,
        subject=sighting.subject,
        seen=sighting.seen,
        evidence=sighting.evidence,
        fix=sighting.fix,
        plan=sighting.plan,
        causes=sighting.causes,
    )


@dataclass(frozen=True, slots=True)
class Before:
    """The audit before, as it was kept: its findings, each with when it was first seen."""

    at: datetime  # UTC
    found: Mapping[tuple[str, str], tuple[Finding, datetime]] = field(
        default_factory=dict
    )  # by key

    @classmethod
    def of(cls, report: AuditReport) -> "Before":
        return cls(
            report.at, {one.finding.key: (one.finding, one.first_seen) for one in report.found}
        )


def compare(
    before: Before | None, now: Sequence[Finding], facts: AuditFacts, rules: Iterable[Rule] = RULES
) -> AuditReport:
    """What was found now, against the audit before: new, still there, gone, and what a team waived."""
    old = before.found if before is not None else {}
    keys = {finding.key for finding in now}
    fired = {finding.rule for finding in now}
    waiting = [rule.id for rule in rules if not _can_look(rule, facts)]
    could_not = (finding.rule for finding in now if finding.severity is Severity.UNKNOWN)
    told = set(chain.from_iterable(silent(facts).values()))  # in findings of their own
    blind = {*waiting, *could_not} - {NOT_ANSWERED}  # which looked, and saw who kept silent
    return AuditReport(
        cluster=facts.snapshot.cluster,
        cluster_id=facts.snapshot.cluster_id,
        at=facts.now,
        snapshot_id=facts.snapshot.snapshot_id,
        found=tuple(_seen(finding, old, facts) for finding in _folded(now, facts, rules)),
        gone=tuple(
            finding
            for key, (finding, _) in sorted(old.items())
            if key not in keys and finding.rule not in blind
        ),
        passed=tuple(rule.id for rule in rules if rule.id not in fired and rule.id not in blind),
        previous_at=None if before is None else before.at,
        not_asked=(
            *_without_history(waiting),
            *(
                f"{what}: {why}"
                for what, why in facts.inspection.unanswered.items()
                if what not in told
            ),
        ),
    )


def _folded(
    findings: Sequence[Finding], facts: AuditFacts, rules: Iterable[Rule]
) -> Iterator[Finding]:
    """Rules that could not look stand in the findings of what did not answer, but for those that a
    team waived.
    """
    titles = {rule.id: rule.title for rule in rules}
    causes = {finding.subject for finding in findings if finding.rule == NOT_ANSWERED}
    waiting: dict[str, list[str]] = {}
    kept = []
    for finding in findings:
        if finding.causes and causes.issuperset(finding.causes) and _waiver(finding, facts) is None:
            for cause in finding.causes:
                waiting.setdefault(cause, []).append(finding.rule)
        else:
            kept.append(finding)
    for finding in kept:
        if finding.rule == NOT_ANSWERED and (blind := waiting.get(finding.subject)):
            rows = tuple((rule_id, titles[rule_id]) for rule_id in blind)
            said = f"{finding.seen}; {pluralize(len(rows), 'rule')} could not look"
            yield replace(
                finding,
                seen=said,
                evidence=Evidence(("rule", "what it looks for"), rows, len(rows)),
            )
        else:
            yield replace(finding, causes=())


def _without_history(waiting: Sequence[str]) -> Iterator[str]:
    if waiting:
        rules = "1 rule needs" if len(waiting) == 1 else f"{len(waiting)} rules need"
        yield f"{rules} a history, which begins with the first snapshots: {', '.join(waiting)}"


def _seen(
    finding: Finding, old: Mapping[tuple[str, str], tuple[Finding, datetime]], facts: AuditFacts
) -> Seen:
    known = old.get(finding.key)
    return Seen(
        finding=finding,
        first_seen=facts.now if known is None else known[1],
        is_new=known is None,
        waived_by=_waiver(finding, facts),
    )


def _waiver(finding: Finding, facts: AuditFacts) -> Waiver | None:
    return waiver_of(finding, facts.policy.audit.waivers, facts.now)


def waiver_of(finding: Finding, waivers: Iterable[Waiver], now: datetime) -> Waiver | None:
    """The first waiver in force that names the finding's rule and subject."""
    return next((waiver for waiver in waivers if _waives(waiver, finding, now)), None)


def _waives(waiver: Waiver, finding: Finding, now: datetime) -> bool:
    is_in_force = bool(waiver.reason.strip()) and (waiver.until is None or now < waiver.until)
    # As in the patterns of topics, only `*` and `?` are special: an IPv6 address has brackets.
    patterns = (pattern.replace("[", "[[]") for pattern in waiver.subjects)
    is_named = any(fnmatchcase(finding.subject, pattern) for pattern in patterns)
    return is_in_force and waiver.rule == finding.rule and is_named
