"""What has to be true before a run starts, or goes on after a halt. Pure.

check_drift(plan, RunState.APPROVED, observation)     # raises StalePlanError
check_health(plan, observation)                       # raises RefusedError
"""

from collections.abc import Iterable

from counterpoise.errors import RefusedError, StalePlanError
from counterpoise.execution.conditions import in_words, of
from counterpoise.execution.observation import (
    MoveState,
    Observation,
    moves_by_state,
)
from counterpoise.execution.troubles import dead_brokers, different_versions
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.request import KINDS
from counterpoise.model.run import RunState
from counterpoise.model.run_progress import Condition
from counterpoise.model.words import join_names, pluralize


def check_drift(plan: RebalancePlan, state: RunState, observation: Observation) -> None:
    """Raise StalePlanError where somebody else moves partitions, or has moved some of the plan."""
    if foreign := observation.conditions.foreign_reassignments:
        raise StalePlanError(
            "somebody else is reassigning partitions of this cluster "
            f"({join_names(foreign)}); wait for their end"
        )
    if state is RunState.APPROVED:
        drifted = _drifted_before_start(plan.moves, observation)
    else:
        drifted = _drifted_since_start(plan, observation)
    # A list may be behind: a run that is under way waits for that, one that begins does not.
    drifted += tuple(m for m in plan.moves if m.topic_partition in observation.unlisted)
    if drifted:
        names = join_names([move.topic_partition for move in drifted])
        raise StalePlanError(
            f"{pluralize(len(drifted), 'partition')} changed since the plan was made "
            f"({names}); make a new plan"
        )


def _drifted_before_start(moves: Iterable[Move], observation: Observation) -> tuple[Move, ...]:
    """Return the moves whose partition is not exactly as the plan found it.

    Before the first start of a run, any of these is drift.
    """

    def is_unchanged(move: Move) -> bool:
        partition = observation.partitions.get(move.topic_partition)
        return (
            partition is not None
            and partition.reassignment is None
            and partition.description.replicas == move.replicas_before
            and not move.is_of_another_topic(partition.topic_id)
        )

    return tuple(move for move in moves if not is_unchanged(move))


def _drifted_since_start(plan: RebalancePlan, observation: Observation) -> tuple[Move, ...]:
    """Return the moves that somebody else changed meanwhile; a topic that is gone is skipped, as it
    is by a run under way.
    """
    drifted_states = (MoveState.DRIFTED, MoveState.FOREIGN)
    return tuple(move for move in plan.moves if observation.state_of(move) in drifted_states)


def check_health(plan: RebalancePlan, observation: Observation) -> None:
    """Raise RefusedError where the cluster is in no state to move anything."""
    if freeze := observation.active_requests.frozen:
        raise RefusedError(
            f"cluster {plan.cluster} is {freeze.frozen_in_words}; nothing may start "
            "before `counterpoise unfreeze` or the end of the freeze"
        )
    if upgrade := different_versions(observation):
        raise RefusedError(in_words(upgrade))
    by_state = moves_by_state(plan.moves, observation)
    if dead := sorted(dead_brokers(by_state, observation)):
        them = "it" if len(dead) == 1 else "them"
        raise RefusedError(
            f"{in_words(of(Condition.DEAD, dead))}: bring {them} back, or make a new plan"
        )
    unavailable = observation.conditions.unavailable_partitions
    if unavailable and not KINDS[plan.goal].restores:
        affected = pluralize(
            len(unavailable),
            "partition outside the plan takes",
            "partitions outside the plan take",
        )
        them = "it" if len(unavailable) == 1 else "them"
        raise RefusedError(
            f"{affected} no writes ({join_names(unavailable)}): repair {them} first, for "
            "example with a plan of the goal repair"
        )
