"""How bad a finding is, and a team's word that it knows of one.

Severity.WARNING.rank > Severity.INFO.rank
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Severity(StrEnum):
    """How bad.

    `unknown` is neither well nor ill: what a rule needs could not be read; never shown as fine.
    """

    UNKNOWN = "unknown"
    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """Higher is worse."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class Waiver:
    """A team's word that it knows of a finding.

    After `until` (or without a reason) it waives nothing.
    """

    rule: str
    reason: str
    subjects: tuple[str, ...] = ("*",)  # names or patterns (`topic audit-*`)
    until: datetime | None = None  # UTC
