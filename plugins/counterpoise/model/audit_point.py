"""One audit in the series of a cluster: the numbers of findings that nobody had waived then.

AuditPoint(audited_at, {Severity.CRITICAL: 2}, new_count=1, resolved_count=0)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from counterpoise.model.severity import Severity


@dataclass(frozen=True, slots=True)
class AuditPoint:
    audited_at: datetime  # UTC
    open_counts: Mapping[Severity, int]
    new_count: int  # since the audit before it
    resolved_count: int
