"""What a team wants of a cluster: how even, how fast, who may approve, what is kept.

    ClusterPolicy(movement=MovementPolicy(rate_bytes_per_second=20_000_000))

Each field is a key of `config/clusters.yaml`; its type says how the value is written, and the text
under it is the key's line in docs/settings.md. A key has the name of its field, without a unit that
the value brings along: `rate_bytes_per_second` is `rate: 20MB/s`.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Final

from counterpoise.model.broker_weight import BY_DISK, WEIGHT_WRITTEN, BrokerWeight
from counterpoise.model.constraints import Constraints
from counterpoise.model.json_values import Range
from counterpoise.model.notification import Channel, NotificationEvent, Target
from counterpoise.model.provider import Provider
from counterpoise.model.setting import (
    AccountOrGroup,
    Bytes,
    ConnectionId,
    ControllerId,
    Cron,
    Duration,
    GoalName,
    NotEmpty,
    Percent,
    Rate,
    Section,
    Text,
    Threshold,
    TimeOfDay,
    TimeZone,
    TopicPattern,
    Viewer,
    at_least,
    choice,
    whole,
)
from counterpoise.model.severity import FindingSeverity, Waiver

PERCENT: Final = Range(1, 100)


@dataclass(frozen=True, slots=True)
class BalancePolicy(Section):
    """How even is even enough; a plan depends on this and on nothing else of the policy."""

    bytes_tolerance_percent: Percent = 10
    """How far a broker's bytes may be from its fair share. Raise it where a plan copies too much
    for too little evenness."""
    leaders_max_minus_min: Annotated[int, whole(0, 10**6)] = 1
    """Leaders that the busiest broker may have more than the idlest, beyond the best possible,
    before a plan is asked for. Raise it where you want fewer plans."""
    broker_weight: Annotated[BrokerWeight, WEIGHT_WRITTEN] = BY_DISK
    """Whose share of replicas and bytes is larger: `disk` by the size of its disks, where the
    largest has more than 1.1 times the smallest. Set weights where a broker is larger otherwise."""
    excluded_topics: tuple[TopicPattern, ...] = ()
    """Topics whose replicas stay where they are. Name those that another tool places."""
    bytes_in_tolerance_percent: Percent = 10
    """How far the bytes per second that a broker takes in may be from its fair share, where rates
    are known. Lower it where the network is the bottleneck, not the disks."""
    disk_limit_percent: Percent = 85
    """No log dir is filled further than this while copies arrive. Lower it where disks fill
    fast."""
    constraints: Constraints = field(default_factory=Constraints)
    leader_racks: Mapping[TopicPattern, Annotated[tuple[Text, ...], NotEmpty()]] = field(
        default_factory=dict, hash=False
    )
    """Racks in which the clients of topics are, by pattern (the first that matches counts): leaders
    are there where leaders per broker stay as even. No data moves for it."""

    @property
    def digest(self) -> str:
        """Return what names this policy inside a plan: 16 hex digits of a SHA-256."""
        canonical = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class ProposalPolicy(Section):
    """When the analysis asks for a plan: at once for an idle broker; `balance` says what leaders
    are uneven.
    """

    uneven_snapshots: Annotated[int, whole(1, 100)] = 1
    """The newest snapshots that all have to show uneven leaders. Raise it where leaders are uneven
    for an hour and even again, as in rolling restarts."""
    propose_again_after: Duration = timedelta(days=1)
    """How long after a person's cancel, undo or no the analysis proposes nothing for the cluster.
    Raise it where people need longer to look into it."""
    uneven_percent: Annotated[int, whole(1, 1000)] | None = None
    """A broker's replicas or bytes that are this far off its fair share ask for a rebalance. Set it
    where a rebalance is to be proposed, too, and not only leaders."""


class InFlight(StrEnum):
    """What becomes of moves under way when a run stops before its end."""

    FINISH = "finish"  # under their throttle
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class MaintenanceWindow(Section):
    """When new moves may be submitted: from each time that `starts` names, for that long."""

    starts: Cron
    """When the window opens: minute, hour, day of month, month, day of week."""
    lasts: Duration
    """How long it stays open."""


@dataclass(frozen=True, slots=True)
class DailyRate(Section):
    """The most that a broker may copy from one time of day until another.

    It goes past midnight when `until` is earlier.
    """

    from_: TimeOfDay
    """From when the rate holds."""
    until: TimeOfDay
    """Until when; an earlier time is one of the next day."""
    rate_bytes_per_second: Rate
    """The most that a broker copies meanwhile. It only lowers what was approved."""


@dataclass(frozen=True, slots=True)
class MovementPolicy(Section):
    """How fast, when, and how much at once.

    The rate is per broker, for leaders and followers alike (KIP-73).
    """

    rate_bytes_per_second: Rate = 20_000_000
    """What each broker may send and receive in copies, unless an approver says another. Raise it
    where brokers have network and disks to spare."""
    max_moves_in_flight: Annotated[int, whole(1, 10**5)] = 500
    """Moves at once in the cluster. Lower it where the controller is busy."""
    max_moves_in_flight_per_broker: Annotated[int, whole(1, 10**4)] = 50
    """Moves at once with one broker as source or destination. Lower it where brokers have slow
    disks."""
    on_halt: Annotated[InFlight, choice(*InFlight)] = InFlight.FINISH
    """What becomes of copies in flight when a run halts: `finish` under their throttle, or
    `cancel`. Choose `cancel` where a halt has to take the load away at once."""
    windows: tuple[MaintenanceWindow, ...] = ()
    """When new moves may be submitted; without windows always. Set them where copies are for the
    night alone."""
    daily_rates: tuple[DailyRate, ...] = ()
    """Lower rates at times of day. Set them where a run may go on during the day, only slower."""
    time_zone: TimeZone = "UTC"
    """Time zone of windows and daily rates. Set it where these are meant in local time."""
    link_capacity_bytes_per_second: Rate | None = None
    """Network of each broker: no higher rate can be approved, and one that leaves room for clients
    is suggested. Set it where you know it."""
    dead_broker_patience: Duration = timedelta(minutes=15)
    """How long a run waits for a broker that is dead or does not respond, or for a copy that comes
    no nearer to its end, before it halts. Raise it where a restart takes longer."""
    hold_patience: Duration = timedelta(days=1)
    """How long a run waits for brokers of different versions, or for log dirs that nobody reports,
    before it halts. Raise it where rolling upgrades take longer than a day."""
    pause_patience: Duration = timedelta(days=7)
    """How long a run stays paused before it halts. Raise it where a change freeze lasts longer."""


class Action(StrEnum):
    """What somebody does: the permission for it is the field of AccessPolicy of the same name."""

    VIEW = "view"  # runs, plans and reports
    PROPOSE = "propose"  # plans, undo plans
    APPROVE = "approve"  # or reject; a rate above the approved one
    OPERATE = "operate"  # execute, pause, ..., settle, freeze, unfreeze, release


@dataclass(frozen=True, slots=True)
class AccessPolicy(Section):
    """Who may do what; () is everybody whom Airflow, or the file system, lets in.

    Each entry is a login name, "airflow:NAME", "system:NAME", or, for `view`, "airflow-role:NAME";
    the file may name groups, too. `access.py` checks.
    """

    view: Annotated[tuple[Viewer, ...], NotEmpty()] = ()
    """Who sees runs, plans and reports. Set it where names of topics are not for everybody."""
    propose: Annotated[tuple[AccountOrGroup, ...], NotEmpty()] = ()
    """Who may ask for plans. Set it where not everybody in Airflow belongs to the team."""
    approve: Annotated[tuple[AccountOrGroup, ...], NotEmpty()] = ()
    """Who may approve or reject. Set it before the first run in production."""
    operate: Annotated[tuple[AccountOrGroup, ...], NotEmpty()] = ()
    """Who may execute, pause, resume, cancel, undo, settle, freeze, release, and change the
    rate. Set it with `approve`."""


# What a rule has approved counts against its `max_bytes_per_day` for so long.
AUTOMATIC_APPROVALS_COUNT_FOR: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class AutomaticApproval(Section):
    """Plans for a goal that no person has to approve.

    Never what two people have to approve, or what somebody has rejected.
    """

    goal: GoalName
    """The goal of the plans, such as `leaders`."""
    max_bytes_per_day: Bytes = 0
    """Bytes that all plans approved so within 24 h may copy; without it, only plans that copy no
    replica."""
    windows: Annotated[
        tuple[MaintenanceWindow, ...],
        NotEmpty("is empty; leave the key out for any time"),
    ] = ()
    """When plans are approved so, and their runs start; without windows always."""


@dataclass(frozen=True, slots=True)
class ApprovalPolicy(Section):
    """How many eyes, how fast at most, how long a question stays open, and how long a yes holds."""

    requester_may_approve: bool | None = None
    """Whether somebody may approve a plan that they asked for; by default no where the policy names
    who may approve, else yes. Set it where the default is not what you want."""
    max_rate_bytes_per_second: Rate | None = None
    """The highest rate that anybody may approve. Set it where more would harm clients."""
    wait_for: Duration = timedelta(hours=24)
    """How long a question stays open; then silence is a no. Raise it for weekends."""
    expires_after: Duration = timedelta(hours=24)
    """How long a yes holds before the run has to start. Raise it where windows are rare."""
    two_people_above_bytes: Bytes | None = None
    """Plans that copy more than this take two people, as plans that lower replication factors
    always do. Set it where a large plan is a large risk."""
    critical: bool = False
    """Whether every plan of this cluster takes two people."""
    automatic: tuple[AutomaticApproval, ...] = ()
    """Plans that no person has to approve. Set it once you have approved such plans often
    enough."""

    @property
    def may_need_two_people(self) -> bool:
        """Return whether a rule of this policy asks for two people."""
        return self.critical or bool(self.two_people_above_bytes)


@dataclass(frozen=True, slots=True)
class HistoryPolicy(Section):
    """How long which snapshots are kept; none of the three is shorter than the one before it."""

    keep_all: Annotated[timedelta, at_least("1d")] = timedelta(days=14)
    """How long every snapshot is kept. Raise it where snapshots are more frequent than hourly, and
    you compare them."""
    keep_hourly: Duration = timedelta(days=90)
    """How long the first snapshot of each hour is kept. Lower it where the store grows too large:
    most of it is these."""
    keep_daily: Duration = timedelta(days=730)
    """How long the first snapshot of each day is kept. Lower it where nobody asks for last year."""
    grace: Annotated[timedelta, at_least("1h")] = timedelta(days=1)
    """How long a file stays that nothing names any more: longer than any job reads. Raise it where
    a Spark job takes longer than a day."""
    least_share_of_previous_percent: Annotated[int, whole(0, 100)] = 50
    """A snapshot with less than this share of the brokers, topics, partitions or replicas of the
    previous one is quarantined; 0 never. Set it to 0 while you remove many topics."""


@dataclass(frozen=True, slots=True)
class AuditPolicy(Section):
    """What rules are measured against, what a team already knows, and what makes an audit fail."""

    thresholds: Mapping[str, Mapping[str, Threshold]] = field(default_factory=dict)
    """Thresholds of rules, such as `leaders-uneven: {most_percent_of_mean: 120}`. Set one where its
    default finds what you accept."""
    waivers: tuple[Waiver, ...] = ()
    """Findings that the team knows of. The report has the lines to paste."""
    controller_racks: Mapping[ControllerId, Text] = field(default_factory=dict)
    """Racks of controllers that are no brokers, by node id: Kafka does not tell them. Set it with
    separate controllers."""
    fails_at: FindingSeverity | None = None
    """A finding this bad, or worse, fails the audit's Dag run. Set it where somebody watches failed
    runs."""


@dataclass(frozen=True, slots=True)
class NotifyPolicy(Section):
    """Who is notified of what. Addresses and tokens of webhooks are in Airflow's connections."""

    webhooks: tuple[ConnectionId, ...] = ()
    """Airflow connections of type http whose webhooks are sent messages, as Slack takes them."""
    email: tuple[Text, ...] = ()
    """Addresses that are sent messages by mail."""
    smtp_connection: Text = "smtp_default"
    """Airflow connection of the mail server."""
    events: tuple[Annotated[NotificationEvent, choice(*NotificationEvent)], ...] = ()
    """Events that people are notified of; without it all seven."""

    @property
    def targets(self) -> tuple[Target, ...]:
        """Return everybody whom the policy names, each once."""
        webhooks = (Target(Channel.WEBHOOK, name, name) for name in self.webhooks)
        people = (Target(Channel.EMAIL, name, self.smtp_connection) for name in self.email)
        return tuple(dict.fromkeys((*webhooks, *people)))


@dataclass(frozen=True, slots=True)
class ClusterPolicy(Section):
    provider: Annotated[Provider, choice(*Provider)] | None = None
    """Who runs the brokers; without it the team itself."""
    balance: BalancePolicy = field(default_factory=BalancePolicy)
    proposals: ProposalPolicy = field(default_factory=ProposalPolicy)
    movement: MovementPolicy = field(default_factory=MovementPolicy)
    access: AccessPolicy = field(default_factory=AccessPolicy)
    approval: ApprovalPolicy = field(default_factory=ApprovalPolicy)
    history: HistoryPolicy = field(default_factory=HistoryPolicy)
    audit: AuditPolicy = field(default_factory=AuditPolicy)
    notify: NotifyPolicy = field(default_factory=NotifyPolicy)

    @property
    def requester_may_approve(self) -> bool:
        if self.approval.requester_may_approve is not None:
            return self.approval.requester_may_approve
        return not self.access.approve
