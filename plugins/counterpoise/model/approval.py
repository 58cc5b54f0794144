"""The approval of a plan: **how** it may run, and **who** said so and why.

    Approval(fingerprint=plan.fingerprint, decision=Decision.GRANTED, by="alice", ...)

It is bound to the fingerprint of one plan, and it expires.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Decision(StrEnum):
    GRANTED = "granted"
    REJECTED = "rejected"
    TIMED_OUT = "timed out"  # nobody responded, which counts as a no


@dataclass(frozen=True, slots=True)
class Approval:
    run_id: str
    fingerprint: str
    decision: Decision
    by: str  # a user id; "nobody" where the request timed out
    reason: str
    at: datetime  # UTC
    rate_bytes_per_second: int | None = None  # granted ones have it
    expires_at: datetime | None = None  # granted ones have it
    account: str | None = None  # verified, like "airflow:2"; None where `by` is only claimed


@dataclass(frozen=True, slots=True)
class Question:
    """What a person was asked: which run and plan, by which task of which Dag run."""

    dag_id: str
    dag_run_id: str
    task_id: str
    run_id: str
    fingerprint: str
    asked_at: datetime  # UTC
