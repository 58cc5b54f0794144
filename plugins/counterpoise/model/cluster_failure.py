"""What does not work with a cluster now: its brokers do not answer, or its last snapshot failed.

    ClusterFailure("orders-eu", FailureKind.NOT_ANSWERING, since, "no broker answered: ...")

Whoever connects, or makes a snapshot, records it; the next time that it works ends it.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class FailureKind(StrEnum):
    """The worse one first."""

    NOT_ANSWERING = "not answering"  # no broker answered whoever connected last
    SNAPSHOT = "snapshot failed"


@dataclass(frozen=True, slots=True)
class ClusterFailure:
    cluster: str
    kind: FailureKind
    since: datetime  # UTC
    text: str  # why, in one line; what went wrong last
