"""Which reassignments to cancel next: what earlier runs left, what is stuck, what has to end. Pure.

next_cancel(inputs, cancel_stuck(inputs))    # of a run that may move
next_cancel(inputs, cancel_moves(inputs))    # of a run that settles
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from counterpoise.execution.commands import Cancel, CancelLate
from counterpoise.execution.decision_inputs import DecisionInputs
from counterpoise.execution.full_log_dirs import brokers_filled_by
from counterpoise.execution.halting import slowed_links
from counterpoise.execution.links import stalled_links
from counterpoise.execution.observation import MoveState
from counterpoise.execution.waits import CANCELS_SENT, Moving, NoRunProgress
from counterpoise.execution.waits_for_cluster import (
    DeadBrokers,
    LeaderlessPartitions,
    UnmeasuredBrokers,
    name_of_slowed,
)
from counterpoise.model.plan import Move
from counterpoise.model.policy import InFlight

_TRIED_AGAIN_AFTER: Final = timedelta(seconds=30)
_CANCELS_ALL: Final = (
    "the run was cancelled, its halt demands it, or the policy has on_halt: cancel"
)
_CANNOT_FINISH: Final = (
    "a target replica is on a dead broker or on a log dir past its limit, the partition has no "
    "leader to copy from, its broker makes no progress, the same replica is added and removed, or "
    "the call came late"
)


def next_cancel(inputs: DecisionInputs, own: Cancel | None) -> CancelLate | Cancel | None:
    """Return the next cancel: of what earlier runs left, or of moves of this run.

    What earlier runs left comes first. Where Kafka refuses to cancel that, this run's own are tried
    at once, and again every 30 s.
    """
    late = _cancel_late(inputs)
    if late is None or own is None:
        return late or own
    without_effect_since = inputs.run_progress.conditions_since.get(CANCELS_SENT)
    if without_effect_since is None:
        return late
    tried_again_at = inputs.observation.observed_at - _TRIED_AGAIN_AFTER
    is_own_turn = _tried_at(inputs, own.moves[0]) < max(without_effect_since, tried_again_at)
    return own if is_own_turn else late


def cancel_stuck(inputs: DecisionInputs) -> Cancel | None:
    """Return the cancel of what never ends by itself; None where there is none."""
    reason = "the same replica is added and removed, which Kafka never ends, or the call came late"
    return _cancel(inputs, inputs.by_state[MoveState.STUCK], reason)


def cancel_moves(inputs: DecisionInputs) -> Cancel | None:
    """Return the cancel of what may not go on in a run that settles; None where there is none."""
    reason = _CANCELS_ALL if _cancels_all(inputs) else _CANNOT_FINISH
    return _cancel(inputs, _moves_to_cancel(inputs), reason)


def _moves_to_cancel(inputs: DecisionInputs) -> list[Move]:
    """Return the moves in flight that cannot finish, or must not.

    The policy, a person, or the reason of the halt may want that all of them are cancelled.
    """
    moving = inputs.moving
    stuck = inputs.by_state[MoveState.STUCK]
    stand_still = inputs.is_over(Moving(len(moving))) or inputs.is_over(NoRunProgress())
    if not stand_still and not _cancels_all(inputs):
        moving = [move for move in moving if _cannot_finish(move, inputs)]
    cancelled_just_now = inputs.observation.cancel_may_not_show_yet
    return [move for move in (*stuck, *moving) if not cancelled_just_now(move)]


def _cannot_finish(move: Move, inputs: DecisionInputs) -> bool:
    """Return whether a move in flight has been waited for in vain, or would fill a full log dir.

    Kafka ends a reassignment when every target replica is in the ISR, and copies from the leader
    alone. A broker that is down may come back: what it has is lost only after the patience.
    """
    observation = inputs.observation
    if brokers_filled_by(move, observation):
        return True
    copying = observation.copying_brokers(move)
    dead = tuple(set(move.replicas_after) - observation.live_broker_ids)
    if inputs.is_over(DeadBrokers(dead)) or inputs.is_over(UnmeasuredBrokers(copying)):
        return True
    leaderless = LeaderlessPartitions((str(move.topic_partition),))
    if observation.leader_of(move) is None and inputs.is_over(leaderless):
        return True
    stalled = stalled_links(inputs.run_progress, patience_factor=2)
    slowed = inputs.names_over(slowed_links(inputs))
    stuck_brokers = {link.broker_id for link in stalled}
    stuck_brokers |= {
        link.broker_id for link in inputs.run_progress.links if name_of_slowed(link.name) in slowed
    }
    return bool(stuck_brokers & set(copying))


def _cancels_all(inputs: DecisionInputs) -> bool:
    return (
        inputs.run_progress.is_cancelling
        or inputs.limits.on_halt is InFlight.CANCEL
        or inputs.observation.active_requests.cancelled is not None
    )


def _cancel_late(inputs: DecisionInputs) -> CancelLate | None:
    late = inputs.observation.conditions.late_reassignments
    return CancelLate(dict(islice(late.items(), inputs.max_partitions_per_call))) if late else None


def _cancel(inputs: DecisionInputs, moves: Sequence[Move], reason: str) -> Cancel | None:
    """Return the cancel of as many moves as a call takes, those first that were tried longest ago:
    what Kafka refuses keeps no others from it.
    """
    if not moves:
        return None
    by_age = sorted(moves, key=lambda move: _tried_at(inputs, move))
    return Cancel(tuple(by_age[: inputs.max_partitions_per_call]), reason)


def _tried_at(inputs: DecisionInputs, move: Move) -> datetime:
    """Return when a move of this run was submitted, or its cancel, whichever was last."""
    return inputs.observation.submissions[move.topic_partition].submitted_at
