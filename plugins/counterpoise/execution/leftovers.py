"""What runs leave when nobody drives them: orphaned runs, moves in flight. Pure.

is_orphaned(run, unobserved_for)
moves_in_flight(plan, reassignments, rows)     # those of its moves that a run has in flight
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Final

from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import Reassignment
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.run import UNDER_WAY_STATES, Run, Submitted

ORPHANED_AFTER: Final = timedelta(minutes=15)  # without an observation; then the watch settles


def is_orphaned(run: Run, unobserved_for: timedelta) -> bool:
    """Return whether nobody has observed a run under way for ORPHANED_AFTER."""
    return run.state in UNDER_WAY_STATES and unobserved_for >= ORPHANED_AFTER


def moves_in_flight(
    plan: RebalancePlan,
    reassignments: Mapping[TopicPartition, Reassignment],
    rows: Iterable[Submitted],
) -> tuple[Move, ...]:
    """Return the moves that go where the open rows of a run want them."""
    in_flight = {
        row.topic_partition
        for row in rows
        if (moving := reassignments.get(row.topic_partition)) and moving.target == row.target
    }
    return tuple(move for move in plan.moves if move.topic_partition in in_flight)
