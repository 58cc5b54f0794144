"""What to do next: a pure function of the plan and of one observation. No clock, no I/O.

    command = next_command(inputs)       # for a run that may move
    command = settle_command(inputs)     # for a run that starts nothing new

The first of these that there is something to do for is the next command:

    running: halt, cancel what earlier runs left or is stuck, set and take back throttles, wait,
        submit, elect
    settling: cancel, set and take back throttles, wait, restore order, restore, finish

A gap in the throttles that a cancel did not end is closed before the next cancel.

What is sent is always the difference between the plan and the cluster, so that running it again is
harmless.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from counterpoise.execution.batching import brokers_to_wait_for, next_batch
from counterpoise.execution.cancelled_moves import cancelled_moves
from counterpoise.execution.cancelling import cancel_moves, cancel_stuck, next_cancel
from counterpoise.execution.commands import (
    Cancel,
    CancelLate,
    Command,
    Elect,
    Finish,
    Halt,
    Restore,
    RestoreOrder,
    Submit,
    Throttle,
    Wait,
)
from counterpoise.execution.decision_inputs import QUIET_SECONDS, DecisionInputs
from counterpoise.execution.halting import (
    reason_to_halt,
    reason_to_hold,
    reason_to_pause,
)
from counterpoise.execution.observation import MoveState
from counterpoise.execution.throttling.next_change import throttle_command, with_listed_first
from counterpoise.execution.throttling.restore import restore_all_keys
from counterpoise.execution.waits import (
    EXECUTE_AGAIN,
    Moving,
    UnknownOutcomes,
    WaitReason,
    WithoutEffect,
)
from counterpoise.execution.waits_for_cluster import (
    CancelledByOthers,
    LeadersOutOfSync,
    OutOfSyncReplicas,
    UnmeasuredBrokers,
    UnresponsiveBrokers,
)
from counterpoise.model.plan import Move
from counterpoise.model.reassignment import is_one_reassignment
from counterpoise.model.words import join_names, pluralize

MAX_ELECTION_ATTEMPTS: Final = 10
MAX_ELECTIONS_PER_CALL: Final = 100
# What each change does, for the case that it has no effect, however often it is sent.
_CHANGES: Final[Mapping[type[Command], str]] = {
    Throttle: "setting throttle keys",
    Submit: "submitting moves",
    Elect: "electing leaders",
    Cancel: "cancelling moves",
    CancelLate: "cancelling moves of earlier runs",
    RestoreOrder: "restoring the replica order",
    Restore: "restoring throttle keys",
}


def next_command(inputs: DecisionInputs) -> Command:
    """Return the next thing to do for a run that may move; a wait that is over halts it."""
    command = _next_command(inputs)
    reason = reason_to_wait(command)
    if reason is not None and inputs.is_over(reason):
        return Halt(reason.when_over(inputs.limits))
    return command


def reason_to_wait(command: Command) -> WaitReason | None:
    """Return what a command waits for: a change waits for its effect."""
    if isinstance(command, Wait):
        return command.reason
    what = _CHANGES.get(type(command))
    cancels = isinstance(command, Cancel | CancelLate)
    return WithoutEffect(what, cancels=cancels) if what else None


def _next_command(inputs: DecisionInputs) -> Command:
    if halt := reason_to_halt(inputs):
        return halt
    pause = reason_to_pause(inputs)
    remaining = inputs.may_be_in_flight if pause else inputs.pending
    in_flight = [*inputs.moving, *remaining] if pause else inputs.listed_moves
    if cancel := next_cancel(inputs, cancel_stuck(inputs)):
        return _gap_before_a_cancel(inputs, in_flight, remaining) or cancel
    hold, seem_cancelled = pause or reason_to_hold(inputs), inputs.seem_cancelled
    if seem_cancelled and not _may_anything_copy(inputs, seem_cancelled):
        # There is nothing to throttle: whoever cancels may take the keys back as well.
        return Wait(hold or seem_cancelled, is_brief=not hold)
    batch = () if hold or seem_cancelled else _next_batch(inputs)
    if command := throttle_command(inputs, in_flight, batch, remaining, is_held=bool(hold)):
        return command
    if hold:
        return Wait(hold, moving=len(inputs.moving))
    if batch:
        return Submit(batch, cancelled_moves(inputs.run_progress, batch))
    return _wait_for_moves(inputs) or _next_election(inputs)


def _may_anything_copy(inputs: DecisionInputs, seem_cancelled: CancelledByOthers) -> bool:
    """Return whether anything is in flight, or may be, beside the moves that seem cancelled: these
    were seen in flight.
    """
    in_flight = {str(move.topic_partition) for move in (*inputs.moving, *inputs.may_be_in_flight)}
    return not in_flight.issubset(seem_cancelled.partitions)


def _gap_before_a_cancel(
    inputs: DecisionInputs, in_flight: Sequence[Move], remaining: Sequence[Move] = ()
) -> Command | None:
    """Return what closes a gap that was there at the observation before, too.

    A cancel comes first, since it ends what copies; where it had no effect, the gap is closed, and
    then it is sent again.
    """
    observations = inputs.run_progress.unthrottled_observations
    is_closed_now = observations and observations % 2 == 0
    return throttle_command(inputs, in_flight, (), remaining) if is_closed_now else None


def _next_batch(inputs: DecisionInputs) -> tuple[Move, ...]:
    return with_listed_first(inputs, next_batch(_may_be_submitted(inputs), inputs))


def _may_be_submitted(inputs: DecisionInputs) -> list[Move]:
    """Return the pending moves, without those that a late call could take back, and those that were
    submitted just now.

    Where a move has several reassignments, a late call about an earlier one would do that.
    """
    not_shown_yet = {move.topic_partition for move in inputs.not_shown_yet}
    return [
        move
        for move in inputs.pending
        if move.topic_partition not in not_shown_yet
        and (is_one_reassignment(move) or not inputs.has_unknown_outcome(move))
    ]


def settle_command(inputs: DecisionInputs) -> Command:
    """Return the next thing to do for a run that starts nothing new.

    First nothing of ours is in flight any more, then every throttle key is restored. What cannot be
    done within its patience is left: listed, and looked after by the watch.
    """
    command = _settle_command(inputs)
    reason = reason_to_wait(command)
    is_without_effect = isinstance(reason, WithoutEffect) and inputs.is_over(reason)
    return _give_up(inputs) if is_without_effect else command


def _settle_command(inputs: DecisionInputs) -> Command:
    moving, unknown_outcomes = inputs.moving, inputs.unknown_outcomes
    in_flight = [*moving, *inputs.may_be_in_flight]
    if cancel := next_cancel(inputs, cancel_moves(inputs)):
        return _gap_before_a_cancel(inputs, in_flight) or cancel
    if in_flight and (command := throttle_command(inputs, in_flight)):
        return command
    if moving:
        return Wait(Moving(len(moving), settles=True))
    if inputs.not_shown_yet:
        return Wait(WithoutEffect(_CHANGES[Submit]))
    if cancelled := _own_cancelled(inputs):
        return RestoreOrder(tuple(cancelled[: inputs.max_partitions_per_call]))
    unanswered = UnknownOutcomes(len(unknown_outcomes), QUIET_SECONDS)
    if unknown_outcomes and not inputs.is_over(unanswered):
        return Wait(unanswered)
    command = restore_all_keys(inputs)
    may_not_show_yet = map(inputs.observation.cancel_may_not_show_yet, inputs.plan.moves)
    if isinstance(command, Finish) and any(may_not_show_yet):
        return Wait(WithoutEffect(_CHANGES[Cancel], cancels=True))
    return command


def _give_up(inputs: DecisionInputs) -> Finish:
    """Return the end of a run that the cluster does not let end: what is left, is listed."""
    unrestored = tuple(t for t in inputs.observation.touched_keys if t.restored_at is None)
    in_flight = [*inputs.moving, *inputs.by_state[MoveState.STUCK]]
    left = "the cluster refused what would end this run (`counterpoise status RUN` shows it)"
    if in_flight:
        are_moving = pluralize(len(in_flight), "partition is", "partitions are")
        left += f"; {are_moving} still in flight: {join_names(_names(in_flight))}"
    return Finish(unrestored, left)


def _own_cancelled(inputs: DecisionInputs) -> list[Move]:
    """Return the cancelled moves whose replica order this run has to restore: what it has never
    submitted is put in order by the run that did.
    """
    submissions = inputs.observation.submissions
    cancelled = inputs.by_state[MoveState.CANCELLED]
    return [move for move in cancelled if move.topic_partition in submissions]


def _wait_for_moves(inputs: DecisionInputs) -> Command | None:
    """Return what a run waits for that has moves of which none may be submitted now.

    Who lags is named last: only when nothing else goes on.
    """
    observation, pending = inputs.observation, inputs.pending
    if inputs.moving:
        return Wait(_reason_of_moving(inputs))
    if not pending:
        return None
    if inputs.not_shown_yet:
        return Wait(WithoutEffect(_CHANGES[Submit]), is_brief=True)
    if inputs.seem_cancelled:
        return Wait(inputs.seem_cancelled, is_brief=True)
    out_of_sync = [
        (str(move.topic_partition), broker_ids)
        for move in pending
        if (broker_ids := observation.out_of_sync_replicas(move))
    ]
    if out_of_sync:
        return Wait(OutOfSyncReplicas(tuple(out_of_sync)))
    unresponsive = {b for move in pending for b in brokers_to_wait_for(move, observation)}
    if unresponsive:
        return Wait(UnresponsiveBrokers(tuple(sorted(unresponsive)), len(pending)))
    return Wait(UnknownOutcomes(len(inputs.unknown_outcomes), QUIET_SECONDS))


def _reason_of_moving(inputs: DecisionInputs) -> WaitReason:
    """Return what the moves in flight wait for: their copies, or brokers that all of them need."""
    observation, moving = inputs.observation, inputs.moving
    needed = [{*move.replicas_after, *observation.copying_brokers(move)} for move in moving]
    unresponsive = [brokers & observation.unresponsive_broker_ids for brokers in needed]
    if all(unresponsive):
        broker_ids = tuple(sorted(set().union(*unresponsive)))
        return UnresponsiveBrokers(broker_ids, len(moving))
    unmeasured = [
        observation.unmeasured_broker_ids.intersection(observation.copying_brokers(move))
        for move in moving
    ]
    if all(unmeasured):
        return UnmeasuredBrokers(tuple(sorted(set().union(*unmeasured))))
    return Moving(len(moving))


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
        leaders = [(str(move.topic_partition), move.replicas_after[0]) for move in to_elect]
        return Wait(LeadersOutOfSync(tuple(leaders)))
    elected_now = electable[:MAX_ELECTIONS_PER_CALL]
    # Metadata may be a second behind: what was tried twice is tried again no sooner than that.
    were_tried = any(move.topic_partition in attempts for move in elected_now)
    return Elect(elected_now, is_last=len(electable) <= MAX_ELECTIONS_PER_CALL and not were_tried)


def _names(moves: Sequence[Move]) -> list[str]:
    return [str(move.topic_partition) for move in moves]
