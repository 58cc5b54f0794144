"""Waivers: one that is not in force any more, while its team believes that it is.

Limits: whether the waived finding is still there is not checked here; the report shows what each
waiver covers.
"""

from collections.abc import Iterator

from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.rule import CheckResult, rule
from counterpoise.model import subjects
from counterpoise.model.severity import Severity
from counterpoise.units import format_moment


@rule(
    "waiver-expired",
    Severity.INFO,
    title="Waivers that are not in force",
    why="A team that reads its policy takes the finding for waived, while the audit counts it.",
    how="Renew the waiver with a reason and a later end, or remove it.",
    source="docs/audit-rules.md",
)
def waiver_expired(facts: AuditFacts) -> Iterator[CheckResult]:
    for waiver in facts.waivers:
        if not waiver.reason.strip():
            summary = "it has no reason, so it is not in force"
        elif waiver.until is not None and waiver.until <= facts.now:
            summary = f"it ended at {format_moment(waiver.until)} and is not in force any more"
        else:
            continue
        yield CheckResult(
            subjects.waiver(waiver.rule, waiver.subjects),
            summary,
            fix=(
                f"# policy.audit.waivers: remove the waiver of {waiver.rule}, "
                "or give it a reason and a later end",
            ),
        )
