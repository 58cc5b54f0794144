"""The run: what happened to a plan. Its legal state changes are in one table.

    RunState.RUNNING in TRANSITIONS[RunState.APPROVED]

At most one run per cluster waits, and at most one is under way; a newer plan supersedes one that
nobody has started.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from counterpoise.model.approval import Decision
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import RATE_KEYS, ConfigResource, ResourceKey
from counterpoise.model.person import Person
from counterpoise.model.words import pluralize
from counterpoise.units import format_bytes


class RunState(StrEnum):
    PROPOSED = "proposed"  # waits for a yes or a no
    APPROVED = "approved"
    RUNNING = "running"  # may have changed the cluster
    SETTLING = "settling"  # starts nothing new; waits for what is in flight, then restores
    DONE = "done"
    HALTED = "halted"  # stopped because of trouble, and settled; may be executed again
    CANCELLED = "cancelled"  # by a person, and settled; not executed again
    REJECTED = "rejected"
    SUPERSEDED = "superseded"


# The cluster may have changed.
UNDER_WAY_STATES: Final = frozenset({RunState.RUNNING, RunState.SETTLING})
# Was under way; config keys of dead brokers may still wait to be restored.
ENDED_STATES: Final = frozenset({RunState.DONE, RunState.HALTED, RunState.CANCELLED})
# What a run left is looked after in these: somebody may have said no to one that had halted.
LOOKED_AFTER_STATES: Final = ENDED_STATES | {RunState.REJECTED}
# Ended by a person, by silence, or by a newer plan, and executed no more.
ENDED_BY_PEOPLE: Final = frozenset({RunState.CANCELLED, RunState.REJECTED, RunState.SUPERSEDED})
WAITING_STATES: Final = frozenset({RunState.PROPOSED, RunState.APPROVED})
OPEN_STATES: Final = WAITING_STATES | UNDER_WAY_STATES
CLOSED_STATES: Final = ENDED_BY_PEOPLE | {RunState.DONE}  # executed no more

# A run that is RUNNING or SETTLING leaves through SETTLING alone: nothing ends with a throttle left
# behind.
TRANSITIONS: Final[Mapping[RunState, frozenset[RunState]]] = {
    RunState.PROPOSED: frozenset({RunState.APPROVED, RunState.REJECTED, RunState.SUPERSEDED}),
    RunState.APPROVED: frozenset({RunState.RUNNING, RunState.REJECTED, RunState.SUPERSEDED}),
    RunState.RUNNING: frozenset({RunState.SETTLING}),
    RunState.SETTLING: ENDED_STATES,
    RunState.HALTED: frozenset({RunState.RUNNING, RunState.REJECTED}),
    RunState.DONE: frozenset(),
    RunState.CANCELLED: frozenset(),
    RunState.REJECTED: frozenset(),
    RunState.SUPERSEDED: frozenset(),
}

# An event of a run: why its plan was requested, as somebody typed it or an asset event had it.
WHY_REQUESTED: Final = "reason"
UNDO_PLAN_ASKED: Final = "undo plan asked"  # another one: of an ended run, who takes it back
ASKED: Final = "asked"  # another one: people were asked for a yes or a no
# So long after its answer a change may not show: a busy broker's metadata was seen to be behind for
# 1 s, and after a failover the controller of before may answer for a moment.
SHOWS_WITHIN: Final = timedelta(seconds=5)
# A process that was stopped for so long, and then applies what it holds, was never seen; a broker
# that is dead for good would keep calls to it open for ever.
LOST_AFTER: Final = timedelta(days=1)
# An event of a run: a config key, and the value of somebody else that stays there (`left_values`).
LEFT: Final = "left as somebody else set it"

# How long a step lock lasts; longer than any one call to the cluster may take.
STEP_LOCK_SECONDS: Final = 30


# The events of a plan that nothing speaks against, and of one that must not run; the last counts.
# The text is the fingerprint; after a semicolon, what was left out of the check.
VALIDATED: Final = "validated"
NOT_VALIDATED: Final = "not validated"
MUST_NOT_RUN: Final = "must not run"  # follows NOT_VALIDATED, and says why


@dataclass(frozen=True, slots=True)
class Run:
    run_id: str
    cluster: str
    fingerprint: str
    plan_uri: str  # relative to the store
    state: RunState
    reason: str  # why it halted, was cancelled, rejected or superseded; "" otherwise
    opened_at: datetime  # UTC
    closed_at: datetime | None
    requested_by: str = ""  # as `Person.recorded`
    dag_id: str | None = None  # of the Dag run that proposed it
    dag_run_id: str | None = None

    @property
    def requester(self) -> Person:
        return Person.from_ledger(self.requested_by)

    @property
    def requester_name(self) -> str:
        return self.requester.shown

    @property
    def in_words(self) -> str:
        """Return for example `rejected: too large`."""
        return f"{self.state}: {self.reason}" if self.reason else str(self.state)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is, according to the cluster and the ledger."""

    moves_done: int
    moves_total: int
    moves_in_flight: int
    copied_bytes: int
    total_bytes: int  # that the plan copies
    elections_left: int

    @property
    def share(self) -> float:
        """Return 0.0 to 1.0: the share of the bytes, or of the moves where nothing is copied."""
        if self.total_bytes:
            return min(1.0, self.copied_bytes / self.total_bytes)
        return self.moves_done / self.moves_total if self.moves_total else 1.0

    @property
    def in_words(self) -> str:
        """Return for example `62 %: 120 MB of 193 MB, 14 of 23 partitions, 4 in flight`."""
        to_elect = pluralize(self.elections_left, "leader to elect", "leaders to elect")
        elections = f", {to_elect}" if self.elections_left else ""
        return (
            f"{self.share * 100:.0f} %: {format_bytes(self.copied_bytes)} of "
            f"{format_bytes(self.total_bytes)}, {self.moves_done} of {self.moves_total} "
            f"partitions, {self.moves_in_flight} in flight{elections}"
        )


@dataclass(frozen=True, slots=True)
class OwnedKey:
    """A config key that a run sets: what it would be without the run, and what of it is the run's.

    A value equal to one that the run wrote counts as the run's.
    """

    run_id: str
    resource: ConfigResource
    key: str
    before: str | None  # without what is the run's; None: not set at this resource
    # The list entries that the run added. Or its rates: the one that it set last is the last one,
    # and the only one once its broker shows it.
    written: tuple[str, ...]
    # Since when a call that sets it has no answer: it may still be made. None where all were
    # answered, or are void.
    unanswered_at: datetime | None = None
    # Since when nothing of the run is in it; a call without an answer may bring it back.
    done_at: datetime | None = None

    @property
    def resource_key(self) -> ResourceKey:
        return self.resource, self.key

    @property
    def name(self) -> str:
        """Return for example `topic orders: leader.replication.throttled.replicas`."""
        return f"{self.resource.type} {self.resource.name}: {self.key}"

    @property
    def during(self) -> str:
        """Return the rate that the run set last, or the entries that it added."""
        return ",".join(self.written[-1:] if self.key in RATE_KEYS else self.written)

    @property
    def is_open(self) -> bool:
        """Return whether something of the run is in it, or may come."""
        return self.done_at is None or self.unanswered_at is not None


class Submitted(NamedTuple):
    """That a run has asked for these replicas of a partition, or for them once more by a cancel; a
    tuple, since an observation reads one of each move.
    """

    run_id: str
    topic_partition: TopicPartition
    target: tuple[int, ...]
    sent_at: datetime  # the last call about it
    # Since when a call about it has no answer: it may have been made, and may still come. None
    # where all were answered, or are lost.
    unanswered_at: datetime | None = None
    answered_at: datetime | None = None  # the last one
    # Since when nothing of it can be under way any more; whoever moves there then is somebody else.
    done_at: datetime | None = None

    def was_just_answered(self, now: datetime) -> bool:
        """Return whether it was, also where the clock was set back by some seconds since: it counts
        as in flight then, whatever is shown.
        """
        return self.answered_at is not None and abs(now - self.answered_at) < SHOWS_WITHIN

    def is_answered(self, now: datetime) -> bool:
        """Return whether all calls about it were, and long enough ago to show."""
        return self.unanswered_at is None and not self.was_just_answered(now)

    def is_lost(self, now: datetime) -> bool:
        """Return whether nobody answered for a day, and nobody saw it under way either."""
        return self._is_void(now) and not self.was_made

    def without_void(self, now: datetime) -> "Submitted":
        """Return the row without the call that nobody answered for a day, where another was made
        since: a move that lasts for longer than that is the run's all the while.
        """
        return self._replace(unanswered_at=None) if self._is_void(now) and self.was_made else self

    def _is_void(self, now: datetime) -> bool:
        return self.unanswered_at is not None and now - self.unanswered_at >= LOST_AFTER

    @property
    def may_have_been_made(self) -> bool:
        """Return whether a call about it was answered, seen or lost: all others were refused."""
        return self.answered_at is not None or self.unanswered_at is not None

    @property
    def was_made(self) -> bool:
        """Return whether a call about it was answered, or seen, since one was not."""
        if self.unanswered_at is None:
            return True
        return self.answered_at is not None and self.answered_at >= self.unanswered_at

    @property
    def is_first_call(self) -> bool:
        """Return whether only one call about it was made since all were answered: what is under way
        is its doing.
        """
        return self.unanswered_at == self.sent_at


@dataclass(frozen=True, slots=True)
class Event:
    at: datetime
    kind: str
    text: str


def has_all_events(events: Sequence[Event]) -> bool:
    """Return whether `ledger prune` has deleted no event of a run; the oldest goes first."""
    return bool(events) and events[0].kind == RunState.PROPOSED


def events_since_halt(events: Sequence[Event]) -> Sequence[Event]:
    """Return what happened since a run halted last; all where it never has."""
    halts = [number for number, event in enumerate(events) if event.kind == RunState.HALTED]
    return events[halts[-1] + 1 :] if halts else events


def left_values(events: Sequence[Event]) -> dict[str, str]:
    """Return the values of somebody else that stay in config keys of a run, by `OwnedKey.name`, as
    of its last execution.
    """
    starts = [number for number, event in enumerate(events) if event.kind == RunState.RUNNING]
    recent = events[starts[-1] :] if starts else events
    texts = (event.text.partition(" = ") for event in recent if event.kind == LEFT)
    return {name: value for name, _, value in texts}


def asked_since(events: Sequence[Event]) -> datetime | None:
    """Return since when a run waits for the answer that people were asked for: from then on, or
    from the last yes. None where nobody was asked, or not again since it halted.
    """
    recent = events_since_halt(events)
    asked = [number for number, event in enumerate(recent) if event.kind == ASKED]
    if not asked:
        return None
    return max(event.at for event in recent[asked[0] :] if event.kind in (ASKED, Decision.GRANTED))


def why_requested(events: Iterable[Event]) -> str:
    """Return why the plan of a run was requested; "" where nobody said so."""
    return next((event.text for event in events if event.kind == WHY_REQUESTED), "")


def validated_at(run: Run, events: Sequence[Event]) -> datetime | None:
    """Return when rules and data were last checked; None where that was never, or the last check
    found that the plan must not run.
    """
    last = _last_check(run, events)
    return last.at if last is not None and last.kind == VALIDATED else None


def left_unchecked(run: Run, events: Sequence[Event]) -> str:
    """Return what the last check of a plan has left out, in words; "" for nothing."""
    last = _last_check(run, events)
    return last.text.partition("; ")[2] if last is not None else ""


def is_refused_by_validation(run: Run, events: Sequence[Event]) -> bool:
    """Return whether the last check of rules and data found that the plan must not run."""
    last = _last_check(run, events)
    return last is not None and last.kind == NOT_VALIDATED


def why_refused_by_validation(events: Sequence[Event]) -> str:
    """Return what the last check found; "" where it did not refuse the plan."""
    found = [event for event in events if event.kind in (NOT_VALIDATED, MUST_NOT_RUN)]
    return found[-1].text if found and found[-1].kind == MUST_NOT_RUN else ""


def _last_check(run: Run, events: Sequence[Event]) -> Event | None:
    kinds = (VALIDATED, NOT_VALIDATED)
    checks = [event for event in events if event.kind in kinds]
    of_plan = [event for event in checks if event.text.partition("; ")[0] == run.fingerprint]
    return of_plan[-1] if of_plan else None
