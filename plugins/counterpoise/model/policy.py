"""What a team wants of a cluster: how even, how fast, who may say yes, what is kept. `settings`
reads it from YAML.

ClusterPolicy(movement=MovementPolicy(rate_bytes_per_second=20_000_000))
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import time, timedelta
from enum import StrEnum

from counterpoise.model.severity import Severity, Waiver


class LeaderWeight(StrEnum):
    """What leaders are to be even in."""

    COUNT = "count"
    BYTES_IN = "bytes-in"  # bytes from producers first, counts second; needs rates in the snapshot


@dataclass(frozen=True, slots=True)
class BalancePolicy:
    """How even is even enough; a plan depends on this and on nothing else of the policy."""

    bytes_tolerance_percent: int = 10
    leaders_max_minus_min: int = 1  # more than this above the best possible asks for a plan
    excluded_topics: tuple[
        str, ...
    ] = ()  # names or patterns (`audit-*`); their replicas stay where they are
    topics_max_above_share: int | None = (
        None  # of a topic's replicas; rebalance then moves some for that alone
    )
    leader_weight: LeaderWeight = LeaderWeight.COUNT
    disk_limit_percent: int = 85  # no log dir is filled further than this at any moment of a move
    ignorable_permille: int = (
        2  # an evenness gained that is less than this part of the mean is not worth a plan
    )

    @property
    def digest(self) -> str:
        """Names this policy inside a plan: the first 16 hex digits of the SHA-256 of its canonical
        JSON.
        """
        canonical = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]


class InFlight(StrEnum):
    """What becomes of moves under way when a run stops before its end."""

    FINISH = "finish"  # under their throttle
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class MaintenanceWindow:
    """When new moves may be submitted: from each time that `starts` names, for as long as `lasts`."""

    starts: str  # five cron fields: minute, hour, day of month, month, day of week
    lasts: timedelta


@dataclass(frozen=True, slots=True)
class DailyRate:
    """The most that a broker may copy from one time of day until another; past midnight when
    `until` is earlier.
    """

    starts: time
    until: time
    rate_bytes_per_second: int


@dataclass(frozen=True, slots=True)
class ThrottleBackOffPolicy:
    """How a run slows down while clients outside the plan suffer, and speeds up again.

    Each step halves the rate, down to the floor. Pain is a partition outside the plan that lost an
    in-sync replica since the run began, although its broker is live, with a leader on a broker that
    copies are read from.
    """

    lowest_rate_bytes_per_second: int = 1_000_000
    step_after: timedelta = timedelta(seconds=30)  # of pain: one step down
    calm_after: timedelta = timedelta(minutes=2)  # without pain: one step up
    halt_after: timedelta = timedelta(minutes=10)  # of pain at the floor


@dataclass(frozen=True, slots=True)
class MovementPolicy:
    """How fast, when, and how much at once.

    The rate is per broker, for leaders and followers alike (KIP-73).
    """

    rate_bytes_per_second: int = 20_000_000
    max_moves_in_flight: int = 500
    max_moves_in_flight_per_broker: int = 50
    max_bytes_in_flight: int | None = (
        None  # of the cluster; one move is always allowed, however large
    )
    max_bytes_in_flight_per_broker: int | None = None
    max_coordinator_moves_in_flight: int = (
        5  # of offsets, transactions and share groups, which come last
    )
    max_elections_per_look: int = 100
    on_halt: InFlight = InFlight.FINISH
    windows: tuple[MaintenanceWindow, ...] = ()  # none: always
    daily_rates: tuple[DailyRate, ...] = ()  # they only lower what was approved
    time_zone: str = "UTC"  # of windows and daily rates
    link_capacity_bytes_per_second: int | None = (
        None  # of each broker's network; a safe rate is suggested from it
    )
    throttle_back_off: ThrottleBackOffPolicy = field(default_factory=ThrottleBackOffPolicy)
    dead_broker_patience: timedelta = timedelta(
        minutes=2
    )  # nothing new meanwhile; then the run halts
    stall_patience: timedelta = timedelta(
        seconds=90
    )  # without a byte less to copy on a link: alarm; twice: halt
    orphaned_after: timedelta = timedelta(
        minutes=15
    )  # since the last look; then kafka_throttle_watch settles the run


@dataclass(frozen=True, slots=True)
class ApprovalPolicy:
    """Who may approve, how long a question stays open, and how long a yes holds."""

    approvers: tuple[str, ...] = ()  # user ids; empty: everybody whom Airflow lets answer
    wait_for: timedelta = timedelta(hours=24)
    expires_after: timedelta = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class HistoryPolicy:
    """How long which snapshots are kept.

    Each time is the least, and none is shorter than the one before it.
    """

    keep_all: timedelta = timedelta(days=14)
    keep_hourly: timedelta = timedelta(days=90)  # the first of each hour
    keep_daily: timedelta = timedelta(days=730)  # the first of each day
    grace: timedelta = timedelta(days=1)  # a file that nothing names any more stays for as long
    least_share_of_previous_percent: int = (
        50  # of brokers, topics, partitions, replicas; with less, it is set aside
    )
    believed_after: int = 3  # times in a row; then such a loss is how the cluster is


@dataclass(frozen=True, slots=True)
class AuditPolicy:
    """What rules are measured against, what a team already knows, and what makes an audit fail."""

    thresholds: Mapping[str, Mapping[str, int]] = field(
        default_factory=dict
    )  # by rule, then by name
    waivers: tuple[Waiver, ...] = ()
    controller_racks: Mapping[int, str] = field(
        default_factory=dict
    )  # of controllers that are no brokers
    fails_at: Severity | None = None  # the Dag run, when a finding that nobody waived is this bad


@dataclass(frozen=True, slots=True)
class ClusterPolicy:
    balance: BalancePolicy = field(default_factory=BalancePolicy)
    movement: MovementPolicy = field(default_factory=MovementPolicy)
    approval: ApprovalPolicy = field(default_factory=ApprovalPolicy)
    history: HistoryPolicy = field(default_factory=HistoryPolicy)
    audit: AuditPolicy = field(default_factory=AuditPolicy)
