"""What people request of a run while it is under way: rows of the ledger's table `requests`.

    active = find_active_requests(requests, now)
    active.paused, active.cancelled, active.frozen, active.rate_bytes_per_second
    active.kept_empty[7]            # the request that keeps broker 7 empty

The next observation of the run reads and follows them; of two that contradict each other the later
one counts. A freeze concerns a cluster, whatever runs there, and ends by itself; of several, which
different people may have asked for, the one that ends last holds. A broker that somebody emptied is
kept empty until somebody releases it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from operator import attrgetter
from typing import Final

from counterpoise.model.person import Person
from counterpoise.units import format_moment, format_rate


class Control(StrEnum):
    PAUSE = "pause"  # nothing new; what is in flight finishes
    RESUME = "resume"
    RATE = "rate"
    CANCEL = "cancel"  # what is in flight is cancelled, then the run settles
    UNDO = "undo"  # as cancel, because somebody wants to go back
    FREEZE = "freeze"  # of a cluster, until a time
    UNFREEZE = "unfreeze"
    KEEP_EMPTY = "keep-empty"  # a broker of a cluster, which a run of ours has emptied
    RELEASE = "release"


CONTROL_EFFECTS: Final[Mapping[Control, str]] = {
    Control.PAUSE: "Asks a run under way to submit nothing new. What is in flight finishes under "
    "its throttle, and the throttle stays in force until then.",
    Control.RESUME: "Asks a paused run to go on where it stopped.",
    Control.RATE: "Changes how much a broker may copy per second in a run under way; more than was "
    "approved is for those who may approve. Daily rates of the policy and the throttle back-off "
    "still lower it.",
    Control.CANCEL: "Asks a run under way to stop. What is in flight is cancelled, every config "
    "goes back to what it was, and the run ends as cancelled; what has moved stays where it is "
    "(Undo on the page of the run, or `counterpoise undo`, makes the plan that brings it back).",
    Control.UNDO: "Cancels a run under way, because somebody wants to go back. When it has ended, "
    "Undo on the page of the run, or `counterpoise undo`, makes the plan that brings back what has "
    "moved, which is approved on its own.",
    Control.FREEZE: "Until then no run of the cluster starts, and none submits anything new. What "
    "is in flight finishes. The freeze ends by itself; of several, the one that ends last holds.",
    Control.UNFREEZE: "Ends a cluster's freeze before its time, and all others there are.",
    Control.KEEP_EMPTY: "No plan moves a replica or a leader to the broker.",
    Control.RELEASE: "Lets plans move replicas and leaders to the brokers again. A broker that a "
    "finished run emptied, as its plan said, is kept empty until then.",
}


@dataclass(frozen=True, slots=True)
class ControlRequest:
    """Who requests what, when and why. `run_id` is None where it concerns the cluster."""

    cluster: str
    run_id: str | None
    control: Control
    by: str  # as `Person.recorded`
    why: str
    at: datetime  # UTC
    rate_bytes_per_second: int | None = None  # of RATE
    until: datetime | None = None  # of FREEZE
    done_at: datetime | None = None
    request_id: int = 0  # assigned by the ledger
    broker_id: int | None = None  # of KEEP_EMPTY and RELEASE

    def __str__(self) -> str:
        return f"{self.control}{self.broker_in_words} by {self.person.shown}: {self.why}"

    @property
    def person(self) -> Person:
        """Return who requests it."""
        return Person.from_ledger(self.by)

    @property
    def who(self) -> str:
        """Return that person's name."""
        return self.person.shown

    @property
    def broker_in_words(self) -> str:
        """Return ` broker 7`, with the leading space; "" where it is about no broker."""
        return "" if self.broker_id is None else f" broker {self.broker_id}"

    @property
    def until_in_words(self) -> str:
        """Return ` until 2026-01-31 22:00 UTC`, with the leading space; "" without an end."""
        return f" until {format_moment(self.until)}" if self.until else ""

    @property
    def in_words(self) -> str:
        """Return `rate 20.0 MB/s`, `freeze until 2026-01-31 22:00 UTC`, `release broker 7`."""
        rate = self.rate_bytes_per_second
        at_rate = "" if rate is None else f" {format_rate(rate)}"
        return f"{self.control}{self.broker_in_words}{at_rate}{self.until_in_words}"

    @property
    def frozen_until(self) -> datetime:
        """Return, of a FREEZE, when it ends: never where it has no end."""
        return self.until or datetime.max.replace(tzinfo=UTC)

    @property
    def frozen_in_words(self) -> str:
        """Return, of a FREEZE, `frozen until 2026-01-31 22:00 UTC by bob: month end`."""
        return f"frozen{self.until_in_words} by {self.person.shown}: {self.why}"

    @property
    def kept_empty_in_words(self) -> str:
        """Return, of a KEEP_EMPTY, `broker 7 is kept empty since 2026-01-31 22:00 UTC (run demo-7
        emptied it, requested by bob)`.
        """
        since, by = format_moment(self.at), self.person.shown
        return (
            f"broker {self.broker_id} is kept empty since {since} ({self.why}, requested by {by})"
        )


@dataclass(frozen=True, slots=True)
class ActiveRequests:
    """The requests that hold now; None where there is no such request."""

    paused: ControlRequest | None = None
    cancelled: ControlRequest | None = None
    frozen: ControlRequest | None = None
    rate: ControlRequest | None = None
    highest_rate_bytes_per_second: int | None = None  # since the last approval
    kept_empty: Mapping[int, ControlRequest] = field(default_factory=dict)  # by broker

    @property
    def rate_bytes_per_second(self) -> int | None:
        return self.rate.rate_bytes_per_second if self.rate else None


def emptied_by(run_id: str) -> str:
    """Return why a broker is kept empty that a run has emptied, as the ledger keeps it."""
    return f"run {run_id} emptied it"


def find_active_requests(requests: Iterable[ControlRequest], now: datetime) -> ActiveRequests:
    """Return what holds now, of all requests about one run and its cluster, oldest first.

    A cancel that was done is over: the run may be executed again. A pause and a rate hold until
    another request takes their place; a rate also until a later approval, with which it is done.
    """
    paused = cancelled = rate = None
    freezes: list[ControlRequest] = []
    rates: list[int] = []
    kept_empty: dict[int, ControlRequest] = {}
    for request in requests:
        match request.control:
            case Control.PAUSE:
                paused = request
            case Control.RESUME:
                paused = None
            case Control.RATE:
                rate = None if request.done_at else request
                rates = [*rates, request.rate_bytes_per_second or 0] if rate else []
            case Control.CANCEL | Control.UNDO:
                cancelled = None if request.done_at else request
            case Control.FREEZE:
                freezes.append(request)
            case Control.UNFREEZE:
                freezes.clear()
            case Control.KEEP_EMPTY if request.broker_id is not None:
                kept_empty.setdefault(request.broker_id, request)
            case Control.RELEASE if request.broker_id is not None:
                kept_empty.pop(request.broker_id, None)
    in_force = (freeze for freeze in freezes if freeze.frozen_until > now)
    frozen = max(in_force, key=attrgetter("frozen_until"), default=None)
    return ActiveRequests(
        paused, cancelled, frozen, rate, max(rates, default=None), dict(sorted(kept_empty.items()))
    )
