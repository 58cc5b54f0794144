"""Waivers: one that is not in force any more would still be believed to be.

Limits: whether a waiver's finding is still there is not said here; the report shows what each
waives.
"""

from collections.abc import Iterator
from typing import Final

from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.rule import Area, Rule, Sighting
from counterpoise.model.severity import Severity
from counterpoise.units import format_moment


def _without_force(facts: AuditFacts) -> Iterator[Sighting]:
    for waiver in facts.policy.audit.waivers:
        subject = f"waiver of {waiver.rule} for {', '.join(waiver.subjects)}"
        fix = (
            f"# policy.audit.waivers: remove the waiver of {waiver.rule}, or give it a reason and a later end",
        )
        if not waiver.reason.strip():
            yield Sighting(subject, "it has no reason, so it waives nothing", fix=fix)
        elif waiver.until is not None and waiver.until <= facts.now:
            ended = f"it ended at {format_moment(waiver.until)} and waives nothing any more"
            yield Sighting(subject, ended, fix=fix)


RULES: Final = (
    Rule(
        "waiver-expired",
        Area.WAIVERS,
        Severity.INFO,
        title="Waivers that waive nothing",
        why="A team that reads its policy takes the finding for waived, while the audit counts it again.",
        how="Renew the waiver with a reason and a later end, or remove it.",
        source="docs/audit-rules.md",
        look=_without_force,
    ),
)
