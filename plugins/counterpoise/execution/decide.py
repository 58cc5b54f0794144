"""What to do next: a pure function of the plan and of one observation. No clock, no I/O.

    command = next_command(inputs)       # for a run that may move
    command = settle_command(inputs)     # for a run that starts nothing new

The first of these that there is something to do for is the next command:

    running: halt, cancel what earlier runs left or is stuck, set and take back throttles, wait,
        submit, elect
    settling: cancel, set and take back throttles, wait, restore order, restore, finish

What is sent is always the difference between the plan and the cluster, so that running it again is
harmless.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from counterpoise.execution.batching import MAX_PARTITIONS_PER_CALL, next_batch
from counterpoise.execution.commands import (
    Cancel,
    CancelLate,
    Command,
    Elect,
    Finish,
    Halt,
    RestoreOrder,
    Submit,
    Wait,
)
from counterpoise.execution.decision_inputs import QUIET_SECONDS, DecisionInputs
from counterpoise.execution.halting import (
    EXECUTE_AGAIN,
    halt_for_out_of_sync_replicas,
    out_of_sync_names,
    reason_to_halt,
    reason_to_hold,
    reason_to_pause,
)
from counterpoise.execution.observation import MoveState
from counterpoise.execution.progress_update import stalled_links
from counterpoise.execution.throttling.next_change import throttle_command, with_listed_first
from counterpoise.execution.throttling.restore import restore_all_keys
from counterpoise.model.plan import Move
from counterpoise.model.policy import InFlight
from counterpoise.model.words import join_ids, join_names, pluralize

MAX_ELECTION_ATTEMPTS: Final = 10
_CANCELS_ALL: Final = (
    "the run was cancelled, its halt demands it, or the policy has on_halt: cancel"
)
_CANNOT_FINISH: Final = (
    "a target replica is on a dead broker, the partition has no leader to copy from, its broker "
    "makes no progress, or the same replica is added and removed"
)


def next_command(inputs: DecisionInputs) -> Command:
    """Return the next thing to do for a run that may move."""
    if halt := reason_to_halt(inputs):
        return halt
    if late := inputs.observation.conditions.late_reassignments:
        return CancelLate(late)
    if stuck := inputs.by_state[MoveState.STUCK]:
        return _cancel(stuck, "they add and remove the same replica, which Kafka never ends")
    pause = reason_to_pause(inputs)
    hold = pause or reason_to_hold(inputs)
    batch = () if hold else _next_batch(inputs)
    remaining = inputs.unknown_outcomes if pause else inputs.pending
    in_flight = [*inputs.moving, *filter(partial(_keeps_entries, inputs), remaining)]
    if command := throttle_command(inputs, in_flight, batch, remaining):
        return command
    if hold:
        return Wait(f"{_are_moving(inputs)}; {hold}" if inputs.moving else hold)
    if batch:
        return Submit(batch)
    return _wait_for_moves(inputs) or _next_election(inputs)


def _next_batch(inputs: DecisionInputs) -> tuple[Move, ...]:
    return with_listed_first(inputs, next_batch(_may_be_submitted(inputs), inputs))


def _keeps_entries(inputs: DecisionInputs, move: Move) -> bool:
    """Return whether a pending move stays listed: a call may still start it, or a step is done."""
    is_between_steps = inputs.observation.is_between_steps(move)
    return is_between_steps or inputs.has_unknown_outcome(move)


def _may_be_submitted(inputs: DecisionInputs) -> list[Move]:
    """Return the pending moves, without those that a late call could take back.

    Where a move has several reassignments, a late call about an earlier one would do that.
    """
    return [
        move
        for move in inputs.pending
        if len(move.adding) <= 1 or not inputs.has_unknown_outcome(move)
    ]


def settle_command(inputs: DecisionInputs) -> Command:
    """Return the next thing to do for a run that starts nothing new.

    First nothing of ours is in flight any more, then every throttle key is restored.
    """
    moving, unknown_outcomes = inputs.moving, inputs.unknown_outcomes
    if to_cancel := _moves_to_cancel(inputs):
        return _cancel(to_cancel, _CANCELS_ALL if _cancels_all(inputs) else _CANNOT_FINISH)
    in_flight = [*moving, *unknown_outcomes]
    if in_flight and (command := throttle_command(inputs, in_flight)):
        return command
    if moving:
        finish = "finishes" if len(moving) == 1 else "finish"
        return Wait(f"{_are_moving(inputs)} and {finish} under the throttle")
    if cancelled := _own_cancelled(inputs):
        return RestoreOrder(tuple(cancelled[:MAX_PARTITIONS_PER_CALL]))
    if unknown_outcomes:
        were_sent = pluralize(len(unknown_outcomes), "move was sent", "moves were sent")
        they = "it" if len(unknown_outcomes) == 1 else "they"
        return Wait(
            f"{were_sent}, no answer came, and {they} may still be applied: waiting until "
            f"{QUIET_SECONDS:.0f} s have passed and the brokers respond"
        )
    return restore_all_keys(inputs.observation)


def _own_cancelled(inputs: DecisionInputs) -> list[Move]:
    """Return the cancelled moves whose replica order this run has to restore.

    One that it never submitted was reordered by somebody else.
    """
    submissions = inputs.observation.submissions
    cancelled = inputs.by_state[MoveState.CANCELLED]
    return [move for move in cancelled if move.topic_partition in submissions]


def _moves_to_cancel(inputs: DecisionInputs) -> list[Move]:
    """Return the moves in flight that cannot finish, or must not.

    The policy, a person, or the reason of the halt may want that all of them are cancelled.
    """
    observation, moving = inputs.observation, inputs.moving
    stuck = inputs.by_state[MoveState.STUCK]
    if _cancels_all(inputs):
        return [*stuck, *moving]
    stalled_links_now = stalled_links(inputs.run_progress, inputs.limits, patience_factor=2)
    stalled_brokers = {link.broker_id for link in stalled_links_now}

    def cannot_finish(move: Move) -> bool:
        """Kafka ends a reassignment when every target replica is in the ISR, and copies from the
        leader alone.
        """
        needs_dead_broker = bool(set(move.replicas_after) - observation.live_broker_ids)
        has_no_leader = observation.leader_of(move) is None
        is_stalled = bool(stalled_brokers & set(observation.copying_brokers(move)))
        return needs_dead_broker or has_no_leader or is_stalled

    return [*stuck, *(move for move in moving if cannot_finish(move))]


def _cancels_all(inputs: DecisionInputs) -> bool:
    return (
        inputs.run_progress.is_cancelling
        or inputs.limits.on_halt is InFlight.CANCEL
        or inputs.observation.active_requests.cancelled is not None
    )


def _are_moving(inputs: DecisionInputs) -> str:
    return pluralize(len(inputs.moving), "partition is moving", "partitions are moving")


def _cancel(moves: Sequence[Move], reason: str) -> Cancel:
    return Cancel(tuple(moves[:MAX_PARTITIONS_PER_CALL]), reason)


def _wait_for_moves(inputs: DecisionInputs) -> Command | None:
    """Return the wait, or the halt, of a run with moves of which none may be submitted now."""
    if inputs.moving:
        return Wait(_are_moving(inputs))
    if not inputs.pending:
        return None
    if halt := halt_for_out_of_sync_replicas(inputs):
        return halt
    if names := out_of_sync_names(inputs):
        waiting = pluralize(
            len(names),
            "partition waits until the replicas that it keeps",
            "partitions wait until the replicas that they keep",
        )
        return Wait(f"{waiting} are in sync: {join_names(names)}")
    waiting = pluralize(len(inputs.pending), "partition waits", "partitions wait")
    if unresponsive := sorted(inputs.observation.unresponsive_broker_ids):
        return Wait(f"{waiting} for brokers that do not respond: {join_ids(unresponsive)}")
    return Wait(
        f"{waiting}: the moves of other clusters use up the fleet's max_moves_in_flight, or a call "
        "without a response may still be applied"
    )


def _next_election(inputs: DecisionInputs) -> Command:
    observation = inputs.observation
    done = inputs.by_state[MoveState.DONE]
    to_elect = [move for move in done if not observation.has_planned_leader(move)]
    if not to_elect:
        return Finish()
    attempts = observation.election_attempts
    given_up = [
        move for move in to_elect if attempts.get(move.topic_partition, 0) >= MAX_ELECTION_ATTEMPTS
    ]
    if given_up:
        names = [f"{m.topic_partition} (to broker {m.replicas_after[0]})" for m in given_up]
        return Halt(
            f"{pluralize(len(given_up), 'preferred leader')} could not be elected in "
            f"{MAX_ELECTION_ATTEMPTS} attempts: {join_names(names)}; read the controller's log, "
            f"then {EXECUTE_AGAIN}"
        )

    def is_electable(move: Move) -> bool:
        isr = observation.partitions[move.topic_partition].description.isr
        return move.replicas_after[0] in isr

    electable = tuple(move for move in to_elect if is_electable(move))
    if not electable:
        leaders = pluralize(len(to_elect), "preferred leader is", "preferred leaders are")
        return Wait(f"{leaders} not in sync yet")
    max_elections = inputs.limits.max_elections_per_look
    return Elect(electable[:max_elections], is_last=len(electable) <= max_elections)
