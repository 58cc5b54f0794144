"""What happened in a simulated month, for whoever computes what it has to leave behind.

Event(Kind.SNAPSHOT, at, "small-003", count=12)
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Kind(StrEnum):
    SNAPSHOT = "snapshot"  # count: partitions whose leader changed since the snapshot before
    RUN = "run"  # count: partitions that another broker led than the preferred one
    AUDIT = "audit"
    ANALYSIS = "analysis"
    COMPACTION = "compaction"
    PRUNE = "prune"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that was done, to one cluster or (AUDIT and below) to all of them."""

    kind: Kind
    at: datetime
    cluster: str = ""
    count: int = 0
