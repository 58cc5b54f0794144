"""How bad a finding is, and the waiver of a team that knows of it.

Severity.WARNING.rank > Severity.INFO.rank
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from counterpoise.model.setting import Moment, NotEmpty, Section, Text, choice


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


FindingSeverity = Annotated[  # of a finding whose data is available
    Severity, choice(Severity.INFO, Severity.WARNING, Severity.CRITICAL)
]


@dataclass(frozen=True, slots=True)
class Waiver(Section):
    """A team's statement that it knows of findings.

    It is not in force after `until`, nor without a reason.
    """

    rule: Text
    """Rule of the finding."""
    reason: Text
    """Why the finding may stay."""
    subjects: Annotated[
        tuple[Text, ...],
        NotEmpty('write subjects as the report names them, or patterns like "topic audit-*"'),
    ] = ("*",)
    """Subjects as the report names them, or patterns like `topic audit-*`; without it all."""
    until: Moment | None = None
    """When the waiver ends, in UTC. Set it where the finding is to be mended."""
