"""The approval of a plan: **how** it may run, and **who** said so and why.

    Approval(fingerprint=plan.fingerprint, decision=Decision.GRANTED, by="airflow:alice", ...)

It is bound to the fingerprint of one plan, and it expires.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from counterpoise.model.person import Person


class Decision(StrEnum):
    GRANTED = "granted"
    REJECTED = "rejected"
    TIMED_OUT = "timed out"  # nobody responded, which counts as a no


@dataclass(frozen=True, slots=True)
class Approval:
    run_id: str
    fingerprint: str
    decision: Decision
    by: str  # as `Person.recorded`
    reason: str
    at: datetime  # UTC
    rate_bytes_per_second: int | None = None  # granted ones have it
    expires_at: datetime | None = None  # granted ones have it

    @property
    def person(self) -> Person:
        """Return who decided."""
        return Person.from_ledger(self.by)

    @property
    def who(self) -> str:
        """Return that person's name."""
        return self.person.shown
