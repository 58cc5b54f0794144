"""The progress of a run: what one observation has to remember for the next, and what people want to
see meanwhile.

    run_progress = RunProgress.from_json(text)
    run_progress.progress.share, run_progress.links[0].bytes_left

One row per run, overwritten by every observation. Whoever makes the next observation reads it, so
no process keeps anything to itself.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from counterpoise.model.json_values import iso_time, read_json, to_content
from counterpoise.model.kafka import BrokerVersion
from counterpoise.model.run import Progress
from counterpoise.units import format_bytes, format_rate, format_seconds

LINKS_SHOWN: Final = 3  # in a log
TRAIL_POINTS: Final = 120  # at most, over all the time of a run


class Condition(StrEnum):
    """What a run does, waits for or stops for; `execution/conditions.py` has the table of them."""

    # people, the calendar, a rolling upgrade
    PAUSED = "paused"  # the subject is when it was requested
    FROZEN = "frozen"
    OUTSIDE_WINDOWS = "outside-windows"
    DIFFERENT_VERSIONS = "different-versions"
    # brokers, by id
    DEAD = "dead"
    UNRESPONSIVE = "unresponsive"
    UNMEASURED = "unmeasured"  # does not report its log dirs
    UNREPORTED = "unreported"  # does not report the restored configs
    CATCHING_UP = "catching-up"
    # partitions, or `orders-0 on broker 4`
    UNAVAILABLE = "unavailable"  # outside the plan
    LEADERLESS = "leaderless"
    OUT_OF_SYNC = "out-of-sync"
    LEADER_OUT_OF_SYNC = "leader-out-of-sync"
    TAKEN_BACK = "taken-back"  # by somebody else
    USED_BY_OTHERS = "used-by-others"  # our throttle
    # moves and calls
    COPYING = "copying"  # kept since when nothing has arrived
    NO_PROGRESS = "no-progress"
    STALLED = "stalled"
    UNANSWERED = "unanswered"
    THROTTLING = "throttling"
    SUBMITTING = "submitting"
    ELECTING = "electing"
    CANCELLING = "cancelling"
    ORDERING = "ordering"
    RESTORING = "restoring"
    UNTHROTTLED = "unthrottled"
    IN_SYNC_AGAIN = "in-sync-again"
    # what halts at once
    THROTTLE_GAP = "throttle-gap"
    FOREIGN = "foreign"
    REDIRECTED = "redirected"
    DRIFTED = "drifted"
    FULL_LOG_DIR = "full-log-dir"
    ISR_LOSS = "isr-loss"
    BELOW_MIN_ISR = "below-min-isr"
    NOT_ELECTED = "not-elected"


Conditions = Mapping[Condition, Mapping[str, datetime]]  # by subject, since when


@dataclass(frozen=True, slots=True)
class Activity:
    """What a run does or waits for: `execution/conditions.py` has its words."""

    condition: Condition
    subjects: tuple[str, ...] = ()  # brokers, partitions or replicas; of many the first
    count: int = 0  # of all subjects
    detail: str = ""  # what the sentence needs beside these: who paused a run, and why
    ends_at: datetime | None = None  # by itself
    halts_at: datetime | None = None  # where it lasts until then
    since: datetime | None = None  # the run has done nothing else


@dataclass(frozen=True, slots=True)
class Link:
    """One direction of one broker: copies that it sends as a leader, or receives as a follower."""

    broker_id: int
    sends: bool
    moves: int  # in flight
    bytes_left: int  # of those in flight
    bytes_per_second: int  # between the last two readings of the log dirs
    last_progress_at: datetime  # when one of its moves came nearer to its end than ever before

    @property
    def name(self) -> str:
        return f"broker {self.broker_id} {'sending' if self.sends else 'receiving'}"

    @property
    def in_words(self) -> str:
        speed, bytes_left = format_rate(self.bytes_per_second), format_bytes(self.bytes_left)
        return f"{self.name} {speed}, {bytes_left} left"


@dataclass(frozen=True, slots=True)
class LogDirReading:
    """What the log dirs of a broker had of the moves in flight when they were last read."""

    read_at: datetime
    sizes: Mapping[str, int]  # bytes of each replica, by partition: {"orders-0": 1048576}
    # what a replica being added received between the last two readings, by partition
    speeds: Mapping[str, int] = field(default_factory=dict)
    full: str = ""  # the log dirs that are past their limit, in words
    beside_full: tuple[str, ...] = ()  # the partitions that lie in none of these
    offline: str = ""  # the log dirs that are offline, in words


@dataclass(frozen=True, slots=True)
class VersionReading:
    """What a broker supports, when it was last asked."""

    asked_at: datetime
    api_ranges: str
    metadata_version: int | None

    @property
    def version(self) -> BrokerVersion:
        return BrokerVersion(self.api_ranges, self.metadata_version)


@dataclass(frozen=True, slots=True)
class Copy:
    """How near to its end a move in flight has come, and when; also where that was not known."""

    bytes_left: int  # the fewest so far
    nearer_at: datetime  # any bytes do at a rate that we have lowered


@dataclass(frozen=True, slots=True)
class BestProgress:
    """The farthest that a run has come: only what goes beyond it is progress."""

    moves_done: int = 0
    leaders_elected: int = 0  # of moves that are done; one whose topic is gone needs none
    # by partition that was in flight and is not done
    copies: Mapping[str, Copy] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Arrived:
    """How much of a plan had been copied at a time."""

    at: datetime
    copied_bytes: int


@dataclass(frozen=True, slots=True)
class TrailPoint:
    """How far a run was at a time, and how fast: a line over all the time of the run."""

    at: datetime
    copied_bytes: int
    bytes_per_second: int  # all brokers together
    rate_bytes_per_second: int  # in force, per broker


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """What a broker held at one observation."""

    broker_id: int
    leaders: int
    replicas: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Limit:
    """A rate that somebody else has set, below ours, at a broker that copies."""

    broker_id: int
    key: str
    bytes_per_second: int


@dataclass(frozen=True, slots=True)
class Readings:
    """What the next observation need not ask again, by the id of a live broker as text."""

    log_dirs: Mapping[str, LogDirReading] = field(default_factory=dict)
    versions: Mapping[str, VersionReading] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far a run is, and since when which condition holds; times are UTC."""

    observed_at: datetime
    progress: Progress
    # in force: what was approved or requested, lowered by the time of day and the back-off
    rate_bytes_per_second: int = 0
    activity: Activity | None = None  # None before the first decision
    links: tuple[Link, ...] = ()
    # at the destinations, by partition in flight: {"orders-0": 1048576}
    arrived_bytes: Mapping[str, int] = field(default_factory=dict)
    arrivals: tuple[Arrived, ...] = ()  # over the last minutes
    trail: tuple[TrailPoint, ...] = ()
    brokers: tuple[BrokerLoad, ...] = ()  # by id
    best: BestProgress = field(default_factory=BestProgress)
    seconds_left: int | None = None
    limit: Limit | None = None  # the lowest of others
    back_off_level: int = 0  # each halves the rate
    has_isr_loss: bool = False  # of partitions outside the plan, caused by its copies
    isr_loss_changed_at: datetime | None = None  # when that began or ended, or the level changed
    # to elect leaders, by partition: of those that do not lead yet, or took more than one
    election_attempts: Mapping[str, int] = field(default_factory=dict)
    throttle_gaps: int = 0  # observations that found throttle keys removed by others
    is_cancelling: bool = False  # it stopped for a reason that forbids copies to finish
    conditions: Conditions = field(default_factory=dict)  # {dead: {"4": 2026-12-01 06:00 UTC}}
    # Outside the plan, when the run began and ever since: replicas (`orders-7 on broker 3`), and
    # partitions that take no writes; False where the last observation showed otherwise. One alone
    # may be of a broker whose metadata is behind.
    under_replicated_at_start: Mapping[str, bool] = field(default_factory=dict)
    unavailable_at_start: Mapping[str, bool] = field(default_factory=dict)
    readings: Readings = field(default_factory=Readings)

    def since(self, condition: Condition, subject: str = "") -> datetime | None:
        """Return since when a condition lasts; None where it does not."""
        return self.conditions.get(condition, {}).get(subject)

    @property
    def bytes_per_second(self) -> int:
        """Return what all replicas being added receive together."""
        return sum(link.bytes_per_second for link in self.links if not link.sends)

    @property
    def speed_in_words(self) -> str:
        """Return for example `15.0 MB/s in all, at most 20.0 MB/s per broker`."""
        rate_in_force = format_rate(self.rate_bytes_per_second)
        limited = (
            f" and {format_rate(self.limit.bytes_per_second)} at broker {self.limit.broker_id}, "
            f"where somebody set {self.limit.key}"
            if self.limit
            else ""
        )
        speed = format_rate(self.bytes_per_second)
        return f"{speed} in all, at most {rate_in_force} per broker{limited}"

    @property
    def busiest_links(self) -> list[Link]:
        """Return the links, those with most bytes left first."""
        return sorted(self.links, key=lambda link: (-link.bytes_left, link.broker_id, link.sends))

    def has_gone_back_since(self, before: "RunProgress") -> bool:
        """Return whether throttle keys, moves that were done or elected leaders are missing now.

        Either somebody changed them, or the broker that was asked has older metadata than the one
        before.
        """
        if self.throttle_gaps > before.throttle_gaps:
            return True
        then, now = before.progress, self.progress
        return (now.moves_done, -now.elections_left) < (then.moves_done, -then.elections_left)

    @property
    def in_words(self) -> str:
        """Return `62 %: 120 MB of 193 MB, 14 of 23 partitions, 4 in flight; 15.0 MB/s in all, ...`.

        After the progress come, while replicas are copied, the speed at the last readings,
        the rate in force, the time left, and the links with most to copy.
        """
        if not self.links:
            return self.progress.in_words
        speed = self.speed_in_words
        if level := self.back_off_level:
            speed += f", rate halved {level} times by the back-off"
        if self.seconds_left is not None:
            speed += f", {format_seconds(self.seconds_left)} left"
        links = "; ".join(link.in_words for link in self.busiest_links[:LINKS_SHOWN])
        return f"{self.progress.in_words}; {speed}; busiest: {links}"

    def to_json(self) -> str:
        return json.dumps(to_content(self, {}), sort_keys=True, default=iso_time)

    @classmethod
    def from_json(cls, text: str) -> "RunProgress":
        """Return what `to_json` wrote. Raises JsonValueError for anything else."""
        return read_json(cls, text)
