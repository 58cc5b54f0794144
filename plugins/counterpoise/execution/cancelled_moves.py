"""Moves that somebody else cancels while a run is under way: sent again once, with an event. Pure.

    cancelled_by_others(base, by_state, observation)   # what the ledger keeps since when
    seem_cancelled(run_progress)                       # a broker may be behind: nothing is sent yet
    cancelled_again(run_progress)                      # (): nothing was, or not twice

A move was cancelled by somebody else where it was in flight at the observation before, and is at
rest where it began now, although every call about it was answered and the last one asked for its
target. After a cancel of this run nothing is asked for, or its answer is missing.

Example: orders-0 is in flight at 12:00:10, and back at its old replicas at 12:00:12. At 12:00:17
it is so still, and is sent again. When somebody cancels it once more, the run halts.
"""

from collections.abc import Iterable, Iterator

from counterpoise.execution.conditions import of
from counterpoise.execution.observation import MovesByState, MoveState, Observation
from counterpoise.model.plan import Move
from counterpoise.model.run import SHOWS_WITHIN, Submission
from counterpoise.model.run_progress import Activity, Condition, RunProgress


def cancelled_by_others(
    base: RunProgress, by_state: MovesByState, observation: Observation
) -> Iterator[tuple[Condition, list[str]]]:
    """Yield what is kept of moves that somebody else cancelled; that one was sent again is kept
    until the run is executed again.
    """
    lasting = base.conditions.get(Condition.CANCELLED, {})
    lasting_again = base.conditions.get(Condition.CANCELLED_AGAIN, {})
    were_sent_again = base.conditions.get(Condition.SENT_AGAIN, {})
    once, again = [], []
    for move, submission in _at_rest_again(by_state, observation):
        partition = str(move.topic_partition)
        is_sent_since = submission.submitted_at >= base.observed_at
        is_new = partition in base.arrived_bytes and not is_sent_since
        if partition in were_sent_again:
            if is_new or partition in lasting_again:
                again.append(partition)
        elif is_new or (partition in lasting and not is_sent_since):
            once.append(partition)
    yield Condition.CANCELLED, once
    yield Condition.CANCELLED_AGAIN, again
    yield Condition.SENT_AGAIN, [*were_sent_again, *_sent_again(base, by_state, observation)]


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
    """Yield the moves that somebody cancelled, and that were submitted since the observation
    before.
    """
    lasting = base.conditions.get(Condition.CANCELLED, {})
    if not lasting:
        return
    for state in (MoveState.PENDING, MoveState.CANCELLED, MoveState.MOVING):
        for move in by_state[state]:
            submission = observation.submissions.get(move.topic_partition)
            if submission is None or submission.submitted_at < base.observed_at:
                continue
            if str(move.topic_partition) in lasting:
                yield str(move.topic_partition)


def cancelled_moves(run_progress: RunProgress, moves: Iterable[Move]) -> tuple[Move, ...]:
    """Return those of the moves that somebody else cancelled, for the first time."""
    lasting = run_progress.conditions.get(Condition.CANCELLED, {})
    return tuple(move for move in moves if str(move.topic_partition) in lasting)


def seem_cancelled(run_progress: RunProgress) -> Activity | None:
    """Return the moves that seem to be cancelled, where a broker's metadata may only be behind."""
    shown_by = {
        partition: began_at + SHOWS_WITHIN
        for condition in (Condition.CANCELLED, Condition.CANCELLED_AGAIN)
        for partition, began_at in run_progress.conditions.get(condition, {}).items()
        if run_progress.observed_at - began_at < SHOWS_WITHIN
    }
    if not shown_by:
        return None
    return of(Condition.CANCELLED, sorted(shown_by), ends_at=max(shown_by.values()))


def cancelled_again(run_progress: RunProgress) -> tuple[str, ...]:
    """Return the partitions whose moves somebody else cancelled after they were sent again."""
    lasting = run_progress.conditions.get(Condition.CANCELLED_AGAIN, {})
    now = run_progress.observed_at
    return tuple(sorted(name for name, at in lasting.items() if now - at >= SHOWS_WITHIN))
