"""The approval: **how and who**. Bound to one plan's fingerprint; it expires; it says who and why.

Approval(fingerprint=plan.fingerprint, decision=Decision.GRANTED, by="alice", reason="broker 4
joined", ...)
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Decision(StrEnum):
    GRANTED = "granted"
    REJECTED = "rejected"
    TIMED_OUT = "timed out"  # nobody answered: silence is a no


@dataclass(frozen=True, slots=True)
class Approval:
    run_id: str
    fingerprint: str
    decision: Decision
    by: str  # a user id; "nobody" where silence decided
    reason: str
    at: datetime  # UTC
    rate_bytes_per_second: int | None = None  # granted ones have it
    expires_at: datetime | None = None  # granted ones have it
