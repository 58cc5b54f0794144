"""What people ask of a run while it is under way: rows of the ledger's `requests`, obeyed by the
next look.

    standing = standing_requests(requests, now)
    standing.paused, standing.cancelled, standing.frozen, standing.rate_bytes_per_second

The last word counts. A freeze concerns a cluster, whatever runs there, and ends by itself.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from counterpoise.units import format_moment


class Control(StrEnum):
    PAUSE = "pause"  # nothing new; what is in flight finishes
    RESUME = "resume"
    RATE = "rate"
    CANCEL = "cancel"  # what is in flight is cancelled, then the run settles
    UNDO = "undo"  # as cancel, because somebody wants to go back
    FREEZE = "freeze"  # of a cluster, until a time
    UNFREEZE = "unfreeze"


@dataclass(frozen=True, slots=True)
class ControlRequest:
    """Who asked for what, when and why. `run_id` is None where it concerns the cluster."""

    cluster: str
    run_id: str | None
    control: Control
    by: str
    why: str
    at: datetime  # UTC
    rate_bytes_per_second: int | None = None  # of RATE
    until: datetime | None = None  # of FREEZE
    obeyed_at: datetime | None = None
    request_id: int = 0  # given by the ledger

    def __str__(self) -> str:
        return f"{self.control} by {self.by}: {self.why}"

    @property
    def until_in_words(self) -> str:
        """` until 2026-01-31 22:00 UTC`, with the blank before it; "" without an end."""
        return f" until {format_moment(self.until)}" if self.until else ""

    @property
    def frozen_in_words(self) -> str:
        """Of a FREEZE: `frozen until 2026-01-31 22:00 UTC by bob: month end`."""
        return f"frozen{self.until_in_words} by {self.by}: {self.why}"


@dataclass(frozen=True, slots=True)
class Standing:
    """The requests that hold now."""

    paused: ControlRequest | None = None
    cancelled: ControlRequest | None = None
    frozen: ControlRequest | None = None
    rate: ControlRequest | None = None

    @property
    def rate_bytes_per_second(self) -> int | None:
        return self.rate.rate_bytes_per_second if self.rate else None


def standing_requests(requests: Iterable[ControlRequest], now: datetime) -> Standing:
    """What holds now, of all requests about one run and its cluster, oldest first.

    A cancel that was obeyed is over: the run may be executed again. Pause and rate hold until
    others take their place.
    """
    paused = cancelled = frozen = rate = None
    for request in requests:
        match request.control:
            case Control.PAUSE:
                paused = request
            case Control.RESUME:
                paused = None
            case Control.RATE:
                rate = request
            case Control.CANCEL | Control.UNDO:
                cancelled = None if request.obeyed_at else request
            case Control.FREEZE:
                frozen = request
            case Control.UNFREEZE:
                frozen = None
    if frozen and frozen.until and frozen.until <= now:
        frozen = None
    return Standing(paused, cancelled, frozen, rate)
