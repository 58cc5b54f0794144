"""What people see of a run, and of what people request: its state, progress, waits, decisions.

as_document(RunDocument.of(details))     # GET /api/runs/ID
as_document(RunStatusView.of(status))    # counterpoise status RUN --json
"""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final, Self

from msgspec import Struct, field

from counterpoise.model.approval import Decision
from counterpoise.model.control import Control, ControlRequest
from counterpoise.model.run import OwnedKey, Run, RunState
from counterpoise.model.words import join_names
from counterpoise.views import view_of
from counterpoise.views.now import RunNow
from counterpoise.views.plan import FoundMoves, MoveView

if TYPE_CHECKING:
    from counterpoise.services.runs import RunDetails, RunStatus
    from counterpoise.views.workspace import RunWorkspace

EVENTS_SHOWN: Final = 300  # of a run, on a page


class RunView(Struct, frozen=True, kw_only=True):
    """A run as it is in lists."""

    run_id: str
    cluster: str
    state: RunState
    reason: str
    requester_name: str = field(name="requested_by")
    opened_at: datetime
    closed_at: datetime | None
    fingerprint: str
    dag_id: str | None
    dag_run_id: str | None


class WaitingRunView(RunView, frozen=True, kw_only=True):
    """A run that waits for a yes or a no."""

    waits_seconds: float
    is_mine: bool  # the viewer may answer
    may_approve: tuple[str, ...]  # names; (): everybody, unless `why_nobody`
    why_nobody: str  # may; "": somebody may
    goal: str | None  # like add-brokers 4; None: the store does not have the plan
    copied_bytes: int | None
    expected_seconds: float | None  # at the rate that is offered

    def who_may(self, viewer: str) -> str:
        """Return who may answer, or why nobody may, to a viewer of this name."""
        if self.why_nobody:
            return self.why_nobody
        others = [name for name in self.may_approve if not (self.is_mine and name == viewer)]
        if not self.may_approve:
            others = ["anybody else who may" if self.is_mine else "anybody but the requester"]
        return join_names(["you", *others] if self.is_mine else others)


class LinkView(Struct, frozen=True):
    """One direction of one broker."""

    broker_id: int
    sends: bool  # else it receives
    moves: int  # in flight
    bytes_left: int
    bytes_per_second: int
    last_progress_at: datetime


class ProgressView(Struct, frozen=True, kw_only=True):
    """How far a run is, as last observed; what it does, and whether anybody drives it."""

    observed_at: datetime
    share: float
    moves_done: int
    moves_total: int
    moves_in_flight: int
    elections_left: int
    copied_bytes: int
    total_bytes: int
    bytes_per_second: int  # all brokers
    rate_bytes_per_second: int  # in force, per broker
    seconds_left: int | None
    back_off_level: int  # each halves the rate
    links: tuple[LinkView, ...]
    now: str  # a sentence
    is_driven: bool

    @classmethod
    def of(cls, shown: RunNow) -> Self | None:
        found = shown.run_progress
        if found is None:
            return None
        told = {
            "now": shown.sentence,
            "is_driven": shown.is_driven,
            "seconds_left": shown.seconds_left,
        }
        return view_of(cls, found, found.progress, **told)


class WaitView(Struct, frozen=True):
    """What a run waits for; without a time it ends by itself."""

    what: str
    since: datetime
    halts_at: datetime | None
    goes_on_at: datetime | None  # of a freeze


class ApprovalView(Struct, frozen=True):
    at: datetime
    decision: Decision
    who: str = field(name="by")
    reason: str
    rate_bytes_per_second: int | None
    expires_at: datetime | None


class RequestView(Struct, frozen=True, kw_only=True):
    """What somebody requested of a run or of a cluster."""

    at: datetime
    control: Control
    who: str = field(name="by")
    why: str
    rate_bytes_per_second: int | None
    broker_id: int | None
    until: datetime | None
    done_at: datetime | None


class RecordedRequest(RequestView, frozen=True, kw_only=True):
    """A request, and what it is about: a run, or without one a whole cluster."""

    cluster: str
    run_id: str | None

    @classmethod
    def of(cls, request: ControlRequest) -> Self:
        return view_of(cls, request)


class KeyView(Struct, frozen=True):
    """A config key that a run changed; None: it was not set, or was not read."""

    resource: str
    key: str
    before: str | None
    during: str | None
    after: str | None
    restored_at: datetime | None

    @classmethod
    def of(cls, key: OwnedKey, left: Mapping[str, str]) -> Self:
        after = left.get(key.name, key.before) if key.done_at else None
        resource = f"{key.resource.type} {key.resource.name}"
        return cls(resource, key.key, key.before, key.during, after, key.done_at)


class EventView(Struct, frozen=True):
    at: datetime
    kind: str
    text: str


class RunDocument(RunView, frozen=True, kw_only=True):
    """A run with all that its page shows."""

    progress: ProgressView | None  # None before the first observation
    waits: tuple[WaitView, ...]
    approvals: tuple[ApprovalView, ...]
    people_needed: int
    requests: tuple[RequestView, ...]
    keys: tuple[KeyView, ...]
    events: tuple[EventView, ...]  # the newest, oldest first
    reports: tuple[str, ...]

    @classmethod
    def of(cls, details: "RunDetails") -> Self:
        return view_of(
            cls,
            details,
            details.run,
            progress=ProgressView.of(details.doing),
            people_needed=details.yes.needed,
            keys=tuple(KeyView.of(key, details.left_values) for key in details.keys),
            events=details.events[-EVENTS_SHOWN:],
        )


class ProgressDocument(Struct, frozen=True, kw_only=True):
    """What the page of a run asks for while it moves: at most 20 kB, however large the plan is."""

    run_id: str
    state: RunState
    version: str  # another one: the page has to be drawn anew
    observed_at: datetime | None
    share: float | None
    copied_bytes: int | None
    total_bytes: int | None
    ends_at: datetime | None
    shown: dict[str, str]  # texts, by the places of the page
    now: dict[str, tuple[float, ...]]  # by measure, for each broker of the plan
    trail: tuple[tuple[float, int, int], ...]  # seconds since 1970, bytes copied, bytes per second

    @classmethod
    def of(cls, seen: "RunWorkspace") -> Self:
        found = seen.status.run_progress
        done = found.progress if found else None
        return cls(
            run_id=seen.status.run.run_id,
            state=seen.status.run.state,
            version=seen.version,
            observed_at=found.observed_at if found else None,
            share=done.share if done else None,
            copied_bytes=done.copied_bytes if done else None,
            total_bytes=done.total_bytes if done else None,
            ends_at=seen.ends_at,
            shown=seen.shown,
            now={name: tuple(values) for name, values in seen.now_values.items()},
            trail=tuple(
                (point.at.timestamp(), point.copied_bytes, point.bytes_per_second)
                for point in (found.trail if found else ())
            ),
        )


class MovesDocument(Struct, frozen=True, kw_only=True):
    """One page of the moves of a plan that somebody looks for."""

    run_id: str
    fingerprint: str
    moves: tuple[MoveView, ...]
    count: int
    page: int
    pages: int

    @classmethod
    def of(cls, run: Run, found: FoundMoves) -> Self:
        return view_of(cls, run, found)


class RunStatusView(RunView, frozen=True, kw_only=True):
    """A run as `counterpoise status` lists it."""

    moves_submitted: int
    moves_done: int
    decision: Decision | None  # the last one
    decided_by: str | None
    rate_bytes_per_second: int | None  # that was approved
    config_keys_owed: tuple[str, ...]  # that an ended run could not restore yet
    progress: ProgressView | None
    requests: tuple[RecordedRequest, ...]

    @classmethod
    def of(cls, status: "RunStatus") -> Self:
        approval = status.approval
        return view_of(
            cls,
            status,
            status.run,
            decision=approval.decision if approval else None,
            decided_by=approval.who if approval else None,
            rate_bytes_per_second=approval.rate_bytes_per_second if approval else None,
            config_keys_owed=tuple(key.name for key in status.pending_restores),
            progress=ProgressView.of(status.doing),
        )
