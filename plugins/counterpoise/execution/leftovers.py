"""What runs leave when nobody drives them: orphaned runs, late moves. Pure.

is_orphaned(run, unobserved_for)
late_moves_by_run(plans, reassignments)        # moves of ended runs that are under way
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Final

from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import Reassignment
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.reassignment import reassignment_targets
from counterpoise.model.run import UNDER_WAY_STATES, Run, Submission

ORPHANED_AFTER: Final = timedelta(minutes=15)  # without an observation; then the watch settles


def is_orphaned(run: Run, unobserved_for: timedelta) -> bool:
    """Return whether nobody has observed a run under way for ORPHANED_AFTER."""
    return run.state in UNDER_WAY_STATES and unobserved_for >= ORPHANED_AFTER


def late_moves(
    plan: RebalancePlan,
    reassignments: Mapping[TopicPartition, Reassignment],
    submissions: Mapping[TopicPartition, Submission],
) -> tuple[Move, ...]:
    """Return the moves of an ended run that are under way although nobody drives it.

    Ours is what the run has submitted and not seen arrive, and what goes where its plan wanted it,
    or where a call without an answer did. Whatever else moves again, after it arrived or came to
    rest, is somebody else's.
    """

    def is_under_way(move: Move) -> bool:
        reassignment = reassignments.get(move.topic_partition)
        submission = submissions.get(move.topic_partition)
        if reassignment is None or submission is None:
            return False
        target = reassignment.target
        is_planned = not submission.is_over and target in reassignment_targets(move)
        return is_planned or submission.may_have_asked_for(target)

    return tuple(move for move in plan.moves if is_under_way(move))


def late_moves_by_run(
    plans: Iterable[tuple[Run, RebalancePlan, Mapping[TopicPartition, Submission]]],
    reassignments: Mapping[TopicPartition, Reassignment],
) -> Iterator[tuple[Run, tuple[Move, ...]]]:
    """Yield each ended run that has moves under way, with these moves.

    `plans` begin with the newest run, each with its plan and what it has submitted. A partition
    belongs to the newest run that wanted it where it goes now: when the runs 8 and 9 both moved
    orders-0 to broker 4, it is late in run 9 alone.
    """
    claimed: set[TopicPartition] = set()
    for run, plan, submissions in plans:
        late = late_moves(plan, reassignments, submissions)
        own_moves = tuple(move for move in late if move.topic_partition not in claimed)
        claimed.update(move.topic_partition for move in own_moves)
        if own_moves:
            yield run, own_moves
