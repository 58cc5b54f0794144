"""Which reassignments to cancel next: what is stuck, what has to end, what came late. Pure.

cancel_moves(inputs)    # of a run that settles
cancel_late(inputs)     # of one that has ended
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from counterpoise.execution.commands import Cancel
from counterpoise.execution.conditions import in_words, of
from counterpoise.execution.decision_inputs import DecisionInputs
from counterpoise.execution.observation import MoveState, Observation
from counterpoise.model.plan import Move
from counterpoise.model.policy import InFlight
from counterpoise.model.run_progress import Condition
from counterpoise.model.words import name_brokers
from counterpoise.units import format_rate

_NEVER_ENDS: Final = (
    "the same replica is added and removed, which Kafka never ends, or the call came late"
)


def cancel_late(inputs: DecisionInputs) -> Cancel | None:
    """Return the cancel of what an ended run has in flight by a call that nobody answered; what
    else is in flight, or in sync only by its new replicas, ends under its throttle.
    """
    in_flight = [*inputs.by_state[MoveState.STUCK], *inputs.moving]
    late = [
        move
        for move in in_flight
        if (row := inputs.observation.row_in_flight(move))
        and row.unanswered_at is not None
        and not _lowers_isr(move, inputs.observation)
    ]
    return _cancel(inputs, dict.fromkeys(late, "the call came after the end of its run"))


def _lowers_isr(move: Move, observation: Observation) -> bool:
    """Return whether a cancel would leave fewer replicas in sync than the move is to have."""
    _, description, moving = observation.partitions[move.topic_partition]
    kept = set(description.isr).difference(moving.adding if moving else ())
    return len(kept) < min(len(move.replicas_after), len(description.isr))


def cancel_moves(inputs: DecisionInputs) -> Cancel | None:
    """Return the cancel of what may not go on in a run that settles; None where there is none."""
    return _cancel(inputs, _moves_to_cancel(inputs))


def _moves_to_cancel(inputs: DecisionInputs) -> dict[Move, str]:
    """Return the moves in flight that cannot finish, or must not, each with why.

    The policy, a person, or the reason of the halt may want that all of them are cancelled.
    """
    moving = inputs.moving
    why_all = _why_all(inputs)
    reasons = {move: why_all or _why_not(move, inputs) for move in moving}
    reasons = dict.fromkeys(inputs.by_state[MoveState.STUCK], _NEVER_ENDS) | reasons
    return {move: why for move, why in reasons.items() if why}


def _why_all(inputs: DecisionInputs) -> str:
    """Return why nothing may finish; "" where what can may."""
    if inputs.observation.active_requests.cancelled is not None:
        return "a person cancelled the run"
    if inputs.run_progress.is_cancelling:
        return "the run halted for a reason that lets no copy finish"
    if inputs.limits.on_halt is InFlight.CANCEL:
        return "the policy has on_halt: cancel"
    for condition in (Condition.COPYING, Condition.NO_PROGRESS):
        if inputs.is_over(of(condition)):
            return "nothing has come nearer to its end for longer than the policy's patience"
    return ""


def _why_not(move: Move, inputs: DecisionInputs) -> str:
    """Return why a move in flight cannot finish: it was waited for in vain, or it would fill a full
    log dir; "" where it can.

    Kafka ends a reassignment when every target replica is in the ISR, and copies from the leader
    alone. A broker that is down may come back: what it has is lost only after the patience.
    """
    observation = inputs.observation
    if full := brokers_filled_by(move, observation):
        return f"a log dir of {name_brokers(full)} is past its limit"
    copying, rate = observation.copying_brokers(move), inputs.run_progress.rate_bytes_per_second
    dead = set(move.replicas_after) - observation.live_broker_ids
    leaderless = [move.topic_partition] if observation.leader_of(move) is None else []
    for trouble in (
        of(Condition.DEAD, sorted(dead)),
        of(Condition.UNMEASURED, copying),
        of(Condition.LEADERLESS, leaderless),
        of(Condition.SLOWED, [move.topic_partition], detail=format_rate(rate)),
        of(Condition.STALLED, [move.topic_partition]),
    ):
        if names := inputs.subjects_over(trouble):
            return in_words(replace(trouble, subjects=names, count=len(names)))
    return ""


def brokers_filled_by(move: Move, observation: Observation) -> tuple[int, ...]:
    """Return the brokers with a full log dir into which the move copies, as far as is known.

    A replica that is in sync has nothing left to copy, and one that is known to lie in another log
    dir of its broker fills that one. Where a new replica will come is not known before it is there.
    """
    partition, name = observation.partitions[move.topic_partition], str(move.topic_partition)
    return tuple(
        broker_id
        for broker_id in observation.adding_replicas(move)
        if broker_id in observation.conditions.full_log_dirs
        and broker_id not in partition.description.isr
        and name not in observation.log_dirs[broker_id].beside_full
    )


def _cancel(inputs: DecisionInputs, reasons: Mapping[Move, str]) -> Cancel | None:
    """Return the cancel of as many moves as a call takes, those first that were tried longest ago:
    what Kafka refuses keeps no others from it.
    """
    if not reasons:
        return None
    by_age = sorted(reasons, key=lambda move: _tried_at(inputs, move))
    moves = by_age[: inputs.max_partitions_per_call]
    counts = Counter(reasons[move] for move in moves)
    is_one = len(counts) == 1
    texts = (why if is_one else f"{why} ({count:,})" for why, count in counts.most_common())
    return Cancel(tuple(moves), "; ".join(texts))


def _tried_at(inputs: DecisionInputs, move: Move) -> datetime:
    """Return when a move of this run was submitted, or its cancel, whichever was last."""
    return max(row.sent_at for row in inputs.observation.submitted[move.topic_partition])
