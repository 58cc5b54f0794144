"""What a team wants for a cluster: how even, how fast, who may say yes. `settings` parses these from YAML.

ClusterPolicy(movement=MovementPolicy(rate_bytes_per_second=20_000_000))
"""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from enum import StrEnum


class LeaderWeight(StrEnum):
    """What leaders are to be even in."""

    COUNT = "count"
    BYTES_IN = "bytes-in"  # bytes from producers first, counts second; needs rates in the snapshot


@dataclass(frozen=True, slots=True)
class BalancePolicy:
    """How even is even enough; a plan depends on this and on nothing else of the policy."""

    bytes_tolerance_percent: int = 10
    leaders_max_minus_min: int = 1  # more than this above the best possible asks for a plan
    excluded_topics: tuple[str, ...] = ()  # names or patterns (`audit-*`); their replicas stay where they are
    topics_max_above_share: int | None = None  # of a topic's replicas; rebalance then moves some for that alone
    leader_weight: LeaderWeight = LeaderWeight.COUNT
    disk_limit_percent: int = 85  # no log dir is filled further than this at any moment of a move
    ignorable_permille: int = 2  # an evenness gained that is less than this part of the mean is not worth a plan

    @property
    def digest(self) -> str:
        """Names this policy inside a plan: the first 16 hex digits of the SHA-256 of its canonical JSON."""
        canonical = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class MovementPolicy:
    """How fast, and how much at once. The rate is per broker, for the leader and the follower side alike (KIP-73)."""

    rate_bytes_per_second: int = 20_000_000
    max_moves_in_flight: int = 100
    max_moves_in_flight_per_broker: int = 20


@dataclass(frozen=True, slots=True)
class ApprovalPolicy:
    """Who may approve, how long a question stays open, and how long a yes holds."""

    approvers: tuple[str, ...] = ()  # user ids; empty: everybody whom Airflow lets answer
    wait_for: timedelta = timedelta(hours=24)
    expires_after: timedelta = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class ClusterPolicy:
    balance: BalancePolicy = field(default_factory=BalancePolicy)
    movement: MovementPolicy = field(default_factory=MovementPolicy)
    approval: ApprovalPolicy = field(default_factory=ApprovalPolicy)
