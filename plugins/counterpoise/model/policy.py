"""What a team wants of a cluster: how even, how fast, who may approve, what is kept.

    ClusterPolicy(movement=MovementPolicy(rate_bytes_per_second=20_000_000))

Each field says by its type and its annotations what may be written for it in
`config/clusters.yaml`; `settings/policies.py` reads the file by them. A key has the name of its
field, without a unit that the value brings along: `rate_bytes_per_second` is `rate: 20MB/s`.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import time, timedelta
from enum import StrEnum
from typing import Annotated, Final

from counterpoise.model.constraints import Constraints
from counterpoise.model.json_values import Range
from counterpoise.model.provider import Provider
from counterpoise.model.severity import Severity, Waiver
from counterpoise.model.written import AtLeast, Key, Written

PERCENT: Final = Range(1, 100)
Percent = Annotated[int, PERCENT]
BytesPerSecond = Annotated[int, Written.RATE]
Bytes = Annotated[int, Written.BYTES]
_BYTES_IN_TOLERANCE_PERCENT: Final = 10
AIRFLOW_ROLE: Final = "airflow-role:"


class LeaderWeight(StrEnum):
    """What leaders are to be even in."""

    COUNT = "count"
    BYTES_IN = "bytes-in"  # bytes from producers first, counts second; needs rates in the snapshot


@dataclass(frozen=True, slots=True)
class BalancePolicy:
    """How even is even enough; a plan depends on this and on nothing else of the policy."""

    bytes_tolerance_percent: Percent = 10
    # a difference that is larger than the best possible by more than this asks for a plan
    leaders_max_minus_min: Annotated[int, Range(0, 10**6)] = 1
    # names or patterns (`audit-*`); their replicas stay where they are
    excluded_topics: Annotated[tuple[str, ...], Written.TOPIC_PATTERNS] = ()
    # of a topic's replicas; rebalance then moves some for that alone
    topics_max_above_share: Annotated[int, Range(0, 10**6)] | None = None
    leader_weight: LeaderWeight = LeaderWeight.COUNT
    # around each broker's fair share of what brokers take in, as leaders and as followers
    bytes_in_tolerance_percent: Percent = _BYTES_IN_TOLERANCE_PERCENT
    disk_limit_percent: Percent = 85  # of each log dir, at any moment of a move
    # an improvement smaller than this part of the mean is not worth a plan
    ignorable_permille: Annotated[int, Range(0, 100)] = 2
    constraints: Constraints = field(default_factory=Constraints)

    @property
    def digest(self) -> str:
        """Return what names this policy inside a plan: 16 hex digits of a SHA-256."""
        values = asdict(self)
        # Earlier versions did not know these two.
        if self.bytes_in_tolerance_percent == _BYTES_IN_TOLERANCE_PERCENT:
            del values["bytes_in_tolerance_percent"]
        if self.constraints == Constraints():
            del values["constraints"]
        canonical = json.dumps(values, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class ProposalPolicy:
    """When the analysis asks for a plan: at once for an idle broker; `balance` says what leaders
    are uneven.
    """

    # the newest ones, all with leaders beyond `leaders_max_minus_min`, or beyond `uneven_percent`
    uneven_snapshots: Annotated[int, Range(1, 100)] = 1
    # since somebody rejected a plan with the same goal and the same brokers
    again_after: timedelta = timedelta(days=7)
    # of a broker's fair share: replicas or bytes farther off ask for a rebalance; None: they do not
    uneven_percent: Annotated[int, Range(1, 1000)] | None = None


class InFlight(StrEnum):
    """What becomes of moves under way when a run stops before its end."""

    FINISH = "finish"  # under their throttle
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class MaintenanceWindow:
    """When new moves may be submitted: from each time that `starts` names, for that long."""

    starts: Annotated[str, Written.CRON]
    lasts: timedelta


@dataclass(frozen=True, slots=True)
class DailyRate:
    """The most that a broker may copy from one time of day until another.

    It goes past midnight when `until` is earlier.
    """

    starts: Annotated[time, Key("from")]
    until: time
    rate_bytes_per_second: BytesPerSecond


@dataclass(frozen=True, slots=True)
class ThrottleBackOffPolicy:
    """How a run slows down while its copies harm clients outside the plan, and speeds up again.

    Each level halves the rate, down to the lowest. The sign of harm is ISR loss: a partition
    outside the plan lost an in-sync replica since the run began, although the broker of that
    replica is live, and has had its time to catch up where it was down; and its leader is on a
    broker that copies are read from.
    """

    lowest_rate_bytes_per_second: BytesPerSecond = 1_000_000
    step_after: timedelta = timedelta(seconds=30)  # of ISR loss: one level down
    calm_after: timedelta = timedelta(minutes=2)  # without: one level up
    halt_after: timedelta = timedelta(minutes=10)  # of ISR loss at the lowest rate


@dataclass(frozen=True, slots=True)
class MovementPolicy:
    """How fast, when, and how much at once.

    The rate is per broker, for leaders and followers alike (KIP-73).
    """

    rate_bytes_per_second: BytesPerSecond = 20_000_000
    max_moves_in_flight: Annotated[int, Range(1, 10**5)] = 500
    max_moves_in_flight_per_broker: Annotated[int, Range(1, 10**4)] = 50
    # of the cluster; one move is always allowed, however large
    max_bytes_in_flight: Bytes | None = None
    max_bytes_in_flight_per_broker: Bytes | None = None
    # of the topics of offsets, transactions and share groups, which come last
    max_coordinator_moves_in_flight: Annotated[int, Range(1, 10**4)] = 5
    max_elections_per_look: Annotated[int, Range(1, 10**5)] = 100
    on_halt: InFlight = InFlight.FINISH
    windows: tuple[MaintenanceWindow, ...] = ()  # none: always
    daily_rates: tuple[DailyRate, ...] = ()  # they only lower what was approved
    time_zone: Annotated[str, Written.TIME_ZONE] = "UTC"  # of windows and daily rates
    # of each broker's network; a safe rate is suggested from it
    link_capacity_bytes_per_second: BytesPerSecond | None = None
    throttle_back_off: Annotated[ThrottleBackOffPolicy, Key("brakes")] = field(
        default_factory=ThrottleBackOffPolicy
    )
    # with a broker that is dead or does not respond, and what follows from it; then a run halts
    dead_broker_patience: timedelta = timedelta(minutes=15)
    # with brokers of different versions, copies whose bytes are not known
    hold_patience: timedelta = timedelta(days=1)
    # with a pause, and with a rate that was lowered below what producers write
    pause_patience: timedelta = timedelta(days=7)
    # Observations are 10 s apart through Airflow: a time of fewer than three would be chance.
    # without a byte less to copy on a link: alarm; after twice that: halt
    stall_patience: Annotated[timedelta, AtLeast("30s")] = timedelta(seconds=90)
    # since the last observation; then kafka_throttle_watch settles the run
    orphaned_after: Annotated[timedelta, AtLeast("2m")] = timedelta(minutes=15)


class Action(StrEnum):
    """What somebody does: the permission for it is the field of AccessPolicy of the same name."""

    VIEW = "view"  # runs, plans and reports
    PROPOSE = "propose"  # plans, undo plans
    APPROVE = "approve"  # or reject; a rate above the approved one
    OPERATE = "operate"  # execute, pause, resume, rate, cancel, undo, settle, freeze, unfreeze


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """Who may do what; () is everybody whom Airflow, or the file system, lets in.

    Each entry is a person, "group:NAME", or, for `view`, "airflow-role:NAME". `access.py` checks.
    """

    view: Annotated[tuple[str, ...], Written.PEOPLE_OR_ROLES] = ()
    propose: Annotated[tuple[str, ...], Written.PEOPLE] = ()
    approve: Annotated[tuple[str, ...], Written.PEOPLE] = ()
    operate: Annotated[tuple[str, ...], Written.PEOPLE] = ()


# What a rule has approved counts against its `copies_at_most` for so long.
RULE_APPROVALS_COUNT_FOR: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """Plans that no person has to approve: all that the rule says holds for them.

    It never approves what two people have to approve, or what somebody has rejected.
    """

    name: Annotated[str, Written.RULE_NAME]
    goals: Annotated[tuple[str, ...], Written.GOALS]
    # by all that it approves within 24 h; 0: only what copies no replica
    copies_at_most_bytes: Annotated[int, Written.BYTES, Key("copies_at_most")] = 0
    windows: tuple[MaintenanceWindow, ...] = ()  # when it approves and runs start; none: always


@dataclass(frozen=True, slots=True)
class ApprovalPolicy:
    """How many eyes, how fast at most, how long a question stays open, and how long a yes holds."""

    approvers: Annotated[
        tuple[str, ...], Written.APPROVERS
    ] = ()  # the older way to write `access.approve`
    # None: no where the policy names who may approve, else yes
    requester_may_approve: bool | None = None
    max_rate_bytes_per_second: BytesPerSecond | None = None
    wait_for: timedelta = timedelta(hours=24)
    expires_after: timedelta = timedelta(hours=24)
    # Plans that two different people have to approve, beside those that give replicas up.
    two_people_above_bytes: Annotated[int, Written.BYTES, Key("two_people_above")] | None = (
        None  # copied
    )
    two_people_for_removals: bool = False  # goal remove-brokers
    critical: bool = False  # every plan of the cluster
    by_rule: tuple[ApprovalRule, ...] = ()  # none: a person approves every plan

    @property
    def may_need_two_people(self) -> bool:
        """Return whether a rule of this policy asks for two people."""
        return self.critical or self.two_people_for_removals or bool(self.two_people_above_bytes)


@dataclass(frozen=True, slots=True)
class HistoryPolicy:
    """How long which snapshots are kept; none of the three is shorter than the one before it."""

    keep_all: Annotated[timedelta, AtLeast("1d")] = timedelta(days=14)
    keep_hourly: timedelta = timedelta(days=90)  # the first of each hour
    keep_daily: timedelta = timedelta(days=730)  # the first of each day
    # for a file that nothing names any more: longer than any job reads
    grace: Annotated[timedelta, AtLeast("1h")] = timedelta(days=1)
    # of brokers, topics, partitions, replicas; a snapshot with less is quarantined
    least_share_of_previous_percent: Annotated[int, Range(0, 100)] = 50
    believed_after: Annotated[int, Range(1, 1000)] = 3  # snapshots in a row with the same loss


@dataclass(frozen=True, slots=True)
class AuditPolicy:
    """What rules are measured against, what a team already knows, and what makes an audit fail."""

    # by rule, then by name
    thresholds: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    waivers: tuple[Waiver, ...] = ()
    controller_racks: Mapping[int, str] = field(
        default_factory=dict
    )  # of those that are no brokers
    fails_at: Severity | None = None  # the Dag run, when a finding that nobody waived is this bad


@dataclass(frozen=True, slots=True)
class NotifyPolicy:
    """Who is told of what. Addresses and tokens of webhooks are in Airflow's connections."""

    # ids of Airflow connections of type http
    webhooks: Annotated[tuple[str, ...], Written.CONNECTION_IDS] = ()
    email: tuple[str, ...] = ()  # addresses
    smtp_connection: str = "smtp_default"
    min_severity: Severity = Severity.WARNING
    events: Annotated[tuple[str, ...], Written.EVENTS] = ()  # of NotificationEvent; (): all
    remind_after: Annotated[timedelta, AtLeast("10m")] = timedelta(hours=4)  # and again
    overdue_after: Annotated[timedelta, AtLeast("10m")] = timedelta(hours=3)  # without a snapshot


@dataclass(frozen=True, slots=True)
class ClusterPolicy:
    provider: Provider | None = None  # that runs the brokers; None: the team itself
    balance: BalancePolicy = field(default_factory=BalancePolicy)
    proposals: ProposalPolicy = field(default_factory=ProposalPolicy)
    movement: MovementPolicy = field(default_factory=MovementPolicy)
    access: AccessPolicy = field(default_factory=AccessPolicy)
    approval: ApprovalPolicy = field(default_factory=ApprovalPolicy)
    history: HistoryPolicy = field(default_factory=HistoryPolicy)
    audit: AuditPolicy = field(default_factory=AuditPolicy)
    notify: NotifyPolicy = field(default_factory=NotifyPolicy)

    @property
    def approvers(self) -> tuple[str, ...]:
        """Return who may approve, as the file names them; () is everybody."""
        return self.access.approve or self.approval.approvers

    @property
    def requester_may_approve(self) -> bool:
        if self.approval.requester_may_approve is not None:
            return self.approval.requester_may_approve
        return not self.approvers
