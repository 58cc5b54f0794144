"""Moves that somebody else cancels while a run is under way: sent again once, with an event. Pure.

    names_of_cancelled(base, by_state, observation)    # what the ledger keeps since when
    may_only_seem_cancelled(run_progress, move)        # a broker may be behind: not sent again yet
    cancelled_again(run_progress)                      # (): nothing was, or not twice

A move was cancelled by somebody else where it was in flight at the observation before, and is at
rest where it began now, although every call about it was answered and the last one asked for its
target. After a cancel of this run nothing is asked for, or its answer is missing.

Example: orders-0 is in flight at 12:00:10, and back at its old replicas at 12:00:12. At 12:00:17
it is so still, and is sent again. When somebody cancels it once more, the run halts.
"""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Final

from counterpoise.execution.observation import (
    SHOWS_WITHIN_SECONDS,
    MovesByState,
    MoveState,
    Observation,
)
from counterpoise.execution.waits import CANCELLED_BY_OTHERS
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.plan import Move
from counterpoise.model.run import Submission
from counterpoise.model.run_progress import RunProgress

# So long a busy broker's metadata may be behind, and show a move that has arrived as it began.
_SHOWS_WITHIN: Final = timedelta(seconds=SHOWS_WITHIN_SECONDS)
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
    for move in (*by_state[MoveState.PENDING], *by_state[MoveState.CANCELLED]):
        partition = str(move.topic_partition)
        submission = observation.submissions.get(move.topic_partition)
        if submission is None or not _is_at_rest_again(move, submission, observation):
            continue
        once, again = f"{CANCELLED_BY_OTHERS}{partition}", f"{_AGAIN}{partition}"
        is_sent_since = submission.submitted_at >= base.observed_at
        is_new = partition in base.arrived_bytes and not is_sent_since
        if f"{_SENT_AGAIN}{partition}" in lasting:
            if is_new or again in lasting:
                yield again
        elif is_new or (once in lasting and not is_sent_since):
            yield once
    for state in (MoveState.PENDING, MoveState.CANCELLED, MoveState.MOVING):
        for move in by_state[state]:
            if _was_sent_again(move.topic_partition, base, observation):
                yield f"{_SENT_AGAIN}{move.topic_partition}"


def _is_at_rest_again(move: Move, submission: Submission, observation: Observation) -> bool:
    """Return whether a partition that does not move is not where the last answered call wanted it,
    and no other call may still come.
    """
    replicas = observation.partitions[move.topic_partition].description.replicas
    is_answered = not submission.may_come_late and submission.done_at is None
    return is_answered and bool(submission.target) and submission.target != replicas


def _was_sent_again(partition: TopicPartition, base: RunProgress, observation: Observation) -> bool:
    """Return whether a move that somebody cancelled was submitted since the observation before."""
    submission = observation.submissions.get(partition)
    was_cancelled = f"{CANCELLED_BY_OTHERS}{partition}" in base.conditions_since
    return was_cancelled and submission is not None and submission.submitted_at >= base.observed_at


def cancelled_moves(run_progress: RunProgress, moves: Iterable[Move]) -> tuple[Move, ...]:
    """Return those of the moves that somebody else cancelled, for the first time."""
    lasting = run_progress.conditions_since
    return tuple(m for m in moves if f"{CANCELLED_BY_OTHERS}{m.topic_partition}" in lasting)


def may_only_seem_cancelled(run_progress: RunProgress, move: Move) -> bool:
    """Return whether a move seems to be cancelled, and a broker's metadata may only be behind."""
    partition = move.topic_partition
    names = (f"{CANCELLED_BY_OTHERS}{partition}", f"{_AGAIN}{partition}")
    return any(_is_recent(run_progress, name) for name in names)


def cancelled_again(run_progress: RunProgress) -> tuple[str, ...]:
    """Return the partitions whose moves somebody else cancelled after they were sent again."""
    names = sorted(name for name in run_progress.conditions_since if name.startswith(_AGAIN))
    return tuple(name.removeprefix(_AGAIN) for name in names if not _is_recent(run_progress, name))


def _is_recent(run_progress: RunProgress, name: str) -> bool:
    began_at = run_progress.conditions_since.get(name)
    return began_at is not None and run_progress.observed_at - began_at < _SHOWS_WITHIN
