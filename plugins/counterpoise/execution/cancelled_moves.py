"""Moves that somebody else cancels while a run is under way: sent again once, with an event. Pure.

    names_of_cancelled(base, by_state, observation)    # what the ledger keeps since when
    seem_cancelled(run_progress)                       # a broker may be behind: nothing is sent yet
    cancelled_again(run_progress)                      # (): nothing was, or not twice

A move was cancelled by somebody else where it was in flight at the observation before, and is at
rest where it began now, although every call about it was answered and the last one asked for its
target. After a cancel of this run nothing is asked for, or its answer is missing.

Example: orders-0 is in flight at 12:00:10, and back at its old replicas at 12:00:12. At 12:00:17
it is so still, and is sent again. When somebody cancels it once more, the run halts.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from counterpoise.execution.observation import MovesByState, MoveState, Observation
from counterpoise.execution.waits import CANCELLED_BY_OTHERS
from counterpoise.execution.waits_for_cluster import CancelledByOthers
from counterpoise.model.plan import Move
from counterpoise.model.run import SHOWS_WITHIN, Submission
from counterpoise.model.run_progress import RunProgress

_SENT_AGAIN: Final = f"sent again after {CANCELLED_BY_OTHERS}"
_AGAIN: Final = f"once more, {CANCELLED_BY_OTHERS}"


def names_of_cancelled(
    base: RunProgress, by_state: MovesByState, observation: Observation
) -> Iterator[str]:
    """Yield what is kept of moves that somebody else cancelled; that one was sent again is kept
    until the run is executed again.
    """
    lasting = base.conditions_since
    yield from (name for name in lasting if name.startswith(_SENT_AGAIN))
    for move, submission in _at_rest_again(by_state, observation):
        partition = str(move.topic_partition)
        once, again = f"{CANCELLED_BY_OTHERS}{partition}", f"{_AGAIN}{partition}"
        is_sent_since = submission.submitted_at >= base.observed_at
        is_new = partition in base.arrived_bytes and not is_sent_since
        if f"{_SENT_AGAIN}{partition}" in lasting:
            if is_new or again in lasting:
                yield again
        elif is_new or (once in lasting and not is_sent_since):
            yield once
    yield from _sent_again(base, by_state, observation)


def _at_rest_again(
    by_state: MovesByState, observation: Observation
) -> Iterator[tuple[Move, Submission]]:
    """Yield the moves that do not move and are not where the last answered call wanted them, and
    no other call about them may still come.
    """
    answered = {
        partition: submission
        for partition, submission in observation.submissions.items()
        if submission.target and submission.done_at is None and not submission.may_come_late
    }
    for move in by_state[MoveState.MOVING]:
        answered.pop(move.topic_partition, None)
    if not answered:
        return
    for move in (*by_state[MoveState.PENDING], *by_state[MoveState.CANCELLED]):
        submission = answered.get(move.topic_partition)
        if submission is None:
            continue
        if submission.target != observation.partitions[move.topic_partition].description.replicas:
            yield move, submission


def _sent_again(
    base: RunProgress, by_state: MovesByState, observation: Observation
) -> Iterator[str]:
    """Yield what is kept of moves that somebody cancelled, and that were submitted since the
    observation before.
    """
    if not any(name.startswith(CANCELLED_BY_OTHERS) for name in base.conditions_since):
        return
    for state in (MoveState.PENDING, MoveState.CANCELLED, MoveState.MOVING):
        for move in by_state[state]:
            submission = observation.submissions.get(move.topic_partition)
            if submission is None or submission.submitted_at < base.observed_at:
                continue
            if f"{CANCELLED_BY_OTHERS}{move.topic_partition}" in base.conditions_since:
                yield f"{_SENT_AGAIN}{move.topic_partition}"


def cancelled_moves(run_progress: RunProgress, moves: Iterable[Move]) -> tuple[Move, ...]:
    """Return those of the moves that somebody else cancelled, for the first time."""
    lasting = run_progress.conditions_since
    return tuple(m for m in moves if f"{CANCELLED_BY_OTHERS}{m.topic_partition}" in lasting)


def seem_cancelled(run_progress: RunProgress) -> CancelledByOthers | None:
    """Return the moves that seem to be cancelled, where a broker's metadata may only be behind."""
    shown_by = {
        name.removeprefix(prefix): began_at + SHOWS_WITHIN
        for name, began_at in run_progress.conditions_since.items()
        for prefix in (CANCELLED_BY_OTHERS, _AGAIN)
        if name.startswith(prefix) and _is_recent(run_progress, name)
    }
    return CancelledByOthers(tuple(sorted(shown_by)), max(shown_by.values())) if shown_by else None


def cancelled_again(run_progress: RunProgress) -> tuple[str, ...]:
    """Return the partitions whose moves somebody else cancelled after they were sent again."""
    names = sorted(name for name in run_progress.conditions_since if name.startswith(_AGAIN))
    return tuple(name.removeprefix(_AGAIN) for name in names if not _is_recent(run_progress, name))


def _is_recent(run_progress: RunProgress, name: str) -> bool:
    began_at = run_progress.conditions_since.get(name)
    return began_at is not None and run_progress.observed_at - began_at < SHOWS_WITHIN
