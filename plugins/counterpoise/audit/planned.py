"""Findings that a plan should mend, checked against the planner: what would the plan bring?

    wanted = wanted_plans(findings)                  # one for each goal that is asked for
    outlooks = {one: ... for one in wanted}          # the planner's, made by the caller
    findings = with_outlooks(findings, outlooks, facts)

A finding about balance stands only where a plan takes away a tenth of the difference that it is
about: brokers in racks a, a, b, c hold uneven numbers of replicas at three replicas each, and no
plan can change that; one partition of 500 GB is on some broker after any plan. Any other finding
stands as it is, and says what the plan brings, or why there is none. While a run of ours is under
way no plan is asked for, and balance is an info: the run is what changes it.

Limits: one plan for all topics that want the same factor; the sentence of each counts its own.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from counterpoise.audit import RULES
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.rule import Measure
from counterpoise.model.finding import Finding, PlanOutlook, WantedPlan, merged_plans
from counterpoise.model.plan import BrokerFigure, Move, RebalancePlan
from counterpoise.model.severity import Severity
from counterpoise.model.words import pluralize
from counterpoise.units import format_bytes, format_rate

_NOTICED_PERCENT = 10  # of the difference between the brokers
_IMPROVES = {rule.id: rule.improves for rule in RULES}
_IN_WORDS = {
    Measure.LEADERS: "leaders per broker",
    Measure.REPLICAS: "replicas per broker",
    Measure.BYTES: "bytes per broker",
    Measure.BYTES_IN: "bytes in per broker",
}


def wanted_plans(findings: Iterable[Finding], facts: AuditFacts) -> tuple[WantedPlan, ...]:
    """Return the plans that findings ask for; those that differ in topics alone are one."""
    if facts.active_run_id:
        return ()
    return merged_plans(finding.plan for finding in findings if finding.plan is not None)


def with_outlooks(
    findings: Iterable[Finding], outlooks: Mapping[WantedPlan, PlanOutlook], facts: AuditFacts
) -> tuple[Finding, ...]:
    """Return the findings that stand, each with what its plan brings; the worst first."""
    by_key = {_key(wanted): outlook for wanted, outlook in outlooks.items()}
    moves_by_key = {key: _moves_by_topic(outlook.plan) for key, outlook in by_key.items()}
    checked: list[Finding] = []
    for finding in findings:
        if finding.plan is None:
            checked.append(finding)
        elif facts.active_run_id:
            checked.append(_during_run(finding, facts.active_run_id))
        elif (outlook := by_key.get(_key(finding.plan))) is None:
            checked.append(finding)
        else:
            moves = _moves_of(finding.plan, moves_by_key[_key(finding.plan)])
            checked.extend(_checked(finding, outlook, moves))
    return tuple(sorted(checked, key=lambda finding: -finding.severity.rank))


def _key(wanted: WantedPlan) -> WantedPlan:
    return replace(wanted, topics=())


def _moves_by_topic(plan: RebalancePlan | None) -> dict[str, list[Move]]:
    moves_by_topic: dict[str, list[Move]] = {}
    for move in plan.moves if plan else ():
        moves_by_topic.setdefault(move.topic, []).append(move)
    return moves_by_topic


def _moves_of(wanted: WantedPlan, moves_by_topic: Mapping[str, list[Move]]) -> list[Move]:
    topics = wanted.topics or moves_by_topic
    return [move for topic in topics for move in moves_by_topic.get(topic, ())]


def _during_run(finding: Finding, run_id: str) -> Finding:
    is_about_balance = _IMPROVES.get(finding.rule) is not None
    return replace(
        finding,
        severity=Severity.INFO if is_about_balance else finding.severity,
        summary=f"{finding.summary}; run {run_id} is under way",
        plan=None,
    )


def _checked(finding: Finding, outlook: PlanOutlook, moves: list[Move]) -> Iterator[Finding]:
    """Yield the finding with what the plan brings; nothing where no plan improves its measure."""
    measure = _IMPROVES.get(finding.rule)
    plan = outlook.plan
    if plan is None:
        summary = f"{finding.summary}; no plan can be made now: {outlook.refusal}"
        yield replace(finding, summary=summary, plan=None)
    elif moves and _is_improved(plan, measure):
        brings = _brings(plan, moves, measure)
        yield replace(finding, summary=f"{finding.summary}; a plan {brings}")
    elif measure is None:
        reason = plan.reason or "nothing of it would move"
        yield replace(finding, summary=f"{finding.summary}; no plan mends it: {reason}", plan=None)


def _is_improved(plan: RebalancePlan, measure: Measure | None) -> bool:
    if measure is None or measure is Measure.ANYTHING:
        return True
    before, after = _spread(plan, f"{measure}_before"), _spread(plan, f"{measure}_after")
    difference = before[1] - before[0]
    gain = difference - (after[1] - after[0])
    return gain > 0 and gain * 100 >= difference * _NOTICED_PERCENT


def _spread(plan: RebalancePlan, name: str) -> tuple[int, int]:
    """Return the least and the most of a figure, over the brokers that held something before."""
    values = [getattr(figure, name) or 0 for figure in _holding(plan)]
    return min(values, default=0), max(values, default=0)


def _holding(plan: RebalancePlan) -> list[BrokerFigure]:
    return [figure for figure in plan.figures if figure.replicas_before]


def _brings(plan: RebalancePlan, moves: list[Move], measure: Measure | None) -> str:
    """Return `copies 12 GB in 34 moves, and brings replicas per broker from 3-19 to 11-12`."""
    copied = format_bytes(sum(move.copied_bytes for move in moves))
    text = f"copies {copied} and changes {pluralize(len(moves), 'partition')}"
    if measure not in _IN_WORDS:
        return text
    formats = {Measure.BYTES: format_bytes, Measure.BYTES_IN: format_rate}
    in_words = formats.get(measure, "{:,}".format)
    before, after = _spread(plan, f"{measure}_before"), _spread(plan, f"{measure}_after")
    return (
        f"{text}, and brings {_IN_WORDS[measure]} from {in_words(before[0])} to "
        f"{in_words(before[1])} to between {in_words(after[0])} and {in_words(after[1])}"
    )
