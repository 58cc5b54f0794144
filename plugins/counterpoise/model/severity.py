"""How bad a finding is, and the waiver of a team that knows of it.

Severity.WARNING.rank > Severity.INFO.rank
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Severity(StrEnum):
    """How bad a finding is.

    `unknown` is neither good nor bad: the data of the rule is unavailable. It is never shown as
    healthy.
    """

    UNKNOWN = "unknown"
    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """Return the position from `unknown` to `critical`; higher is worse."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class Waiver:
    """A team's statement that it knows of findings.

    It is not in force after `until`, nor without a reason.
    """

    rule: str
    reason: str
    subjects: tuple[str, ...] = ("*",)  # names or patterns (`topic audit-*`)
    until: datetime | None = None  # UTC
