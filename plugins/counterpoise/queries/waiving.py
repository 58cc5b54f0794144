"""A waiver as a person wants it, checked, and as lines to paste into clusters.yaml.

    WantedWaiver("racks-missing", "broker *", "new racks in June", "2027-01-31").problems(now)
    waiver_lines(wanted)

Nothing is written: a waiver is in force when the file has it, which a team reviews.
"""

from dataclasses import dataclass
from datetime import datetime

from counterpoise.audit import RULES
from counterpoise.errors import InputError
from counterpoise.reporting.policy_lines import policy_lines
from counterpoise.units import parse_moment


@dataclass(frozen=True, slots=True)
class WantedWaiver:
    """What the form has; `until` is a date or a time (UTC), "" for no end."""

    rule: str
    subject: str
    reason: str
    until: str

    def problems(self, now: datetime) -> tuple[str, ...]:
        """Return what is wrong, in sentences; () where the lines can be pasted."""
        found = []
        if self.rule not in rule_titles():
            found.append(f"There is no rule {self.rule!r}." if self.rule else "Choose a rule.")
        if not self.subject.strip():
            found.append("Say which subject, or * for every one.")
        if not self.reason.strip():
            found.append("Say why the finding may stay: without a reason no waiver is in force.")
        if self.until.strip():
            found += self._problems_of_until(now)
        return tuple(found)

    def _problems_of_until(self, now: datetime) -> list[str]:
        try:
            until = parse_moment(self.until.strip(), where="Until", like="2027-01-31")
        except InputError as error:
            return [f"{error}."]
        return [] if until > now else [f"Until: {self.until.strip()} is over."]


def waiver_lines(wanted: WantedWaiver) -> str:
    """Return the lines for `policy:` of the cluster; `wanted` has no problems."""
    return policy_lines(
        wanted.rule,
        [wanted.subject.strip()],
        {},
        reason=" ".join(wanted.reason.split()),
        until=wanted.until.strip(),
    )


def rule_titles() -> dict[str, str]:
    """Return the title of every rule by id, by title."""
    return dict(sorted(((rule.id, rule.title) for rule in RULES), key=lambda item: item[1]))
