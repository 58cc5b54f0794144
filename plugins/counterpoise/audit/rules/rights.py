"""Rights: which goals the operator's principal can carry out here. The probe changes nothing.

    elect leaders: CLUSTER_AUTHORIZATION_FAILED        # no leaders, no demote-brokers, no rebalance

Limits: this says what the cluster refuses, not why; a managed service refuses some of it to
everybody.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from counterpoise.audit.commands import to_fill_in
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.rule import CheckResult, evidence, rule
from counterpoise.model import subjects
from counterpoise.model.acl import CHANGES, ELECT, READS, REASSIGN, SET_LISTS, SET_RATE
from counterpoise.model.inspection import InspectionItem
from counterpoise.model.request import PLANNED_GOALS, Goal, goals_that
from counterpoise.model.severity import Severity

_COPYING: Final = goals_that(lambda kind: kind.copies)
_ELECTING: Final = goals_that(lambda kind: kind.elects)

# The goals that need an operation of `model.acl.CHANGES` (a test compares them).
GOALS_WITHOUT: Final[Mapping[str, tuple[Goal, ...]]] = {
    SET_RATE: _COPYING,
    SET_LISTS: _COPYING,
    REASSIGN: PLANNED_GOALS,
    ELECT: _ELECTING,
}


@rule(
    "rights-refused",
    Severity.INFO,
    title="Goals that this principal may not carry out",
    why="A plan that cannot be throttled, submitted or finished fails in the middle of the night "
    "for which it was scheduled; it is better to know on a working day.",
    how="Grant the missing ACLs, or do not use those goals: a managed service grants some of them "
    "to nobody.",
    source="https://kafka.apache.org/documentation/#operations_resources_and_protocols",
    needs={InspectionItem.PERMISSIONS},
)
def rights_refused(facts: AuditFacts) -> Iterator[CheckResult]:
    refused = facts.inspection.refused
    if not refused:
        return
    lost_goals = {goal for operation in refused for goal in _goals_needing(operation)}
    remaining = [str(goal) for goal in PLANNED_GOALS if goal not in lost_goals]
    rows = [
        (operation, error, ", ".join(map(str, _goals_needing(operation))))
        for operation, error in sorted(refused.items())
    ]
    acls = {**CHANGES, **READS}
    needed_acls = dict.fromkeys(acls[operation] for operation in refused if operation in acls)
    yield CheckResult(
        subjects.CLUSTER,
        f"the operator's principal may not {' and not '.join(sorted(refused))}; "
        f"goals that remain: {', '.join(remaining) or 'none'}",
        evidence(("operation", "error of the cluster", "goals that need it"), rows),
        fix=to_fill_in(*(acl.grant("User:PRINCIPAL") for acl in needed_acls)),
    )


def _goals_needing(operation: str) -> tuple[Goal, ...]:
    return GOALS_WITHOUT.get(operation, PLANNED_GOALS)
