"""What to do next: a pure function of the plan and of one observation. No clock, no I/O.

    command = next_command(inputs)       # for a run that may move
    command = settle_command(inputs)     # for a run that starts nothing new
    command = sweep_command(inputs)      # for one that has ended
    check_drift(plan, state, observation)    # before a run starts: raises StalePlanError
    check_health(plan, observation)          # raises RefusedError

The first of these that there is something to do for is the next command:

    running: halt, set and take back throttles, wait, submit, elect
    settling: cancel, set and take back throttles, wait, restore order, restore, finish

A gap in the throttles that a cancel did not end is closed before the next cancel. What a run can
wait out is waited out first: `conditions.py` says for how long, and in which words.

What is sent is always the difference between the plan and the cluster, so that running it again is
harmless.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from counterpoise.errors import RefusedError, StalePlanError
from counterpoise.execution.back_off import HALT_AFTER, LOWEST_RATE, lost_partitions
from counterpoise.execution.batching import brokers_to_wait_for, next_batch
from counterpoise.execution.commands import (
    Cancel,
    Command,
    Elect,
    Finish,
    Halt,
    KeyChange,
    Restore,
    RestoreOrder,
    Submit,
    Throttle,
    Wait,
)
from counterpoise.execution.conditions import (
    CHANGES,
    in_words,
    of,
    replica,
    when_over,
)
from counterpoise.execution.copies import stall_advice
from counterpoise.execution.decision_inputs import DecisionInputs
from counterpoise.execution.observation import MoveState, Observation, moves_by_state
from counterpoise.execution.progress_update import (
    dead_brokers,
    different_versions,
    leaderless_moves,
    unavailable_since_start,
)
from counterpoise.execution.throttling.restore import idle_keys, restore_all_keys, unneeded_entries
from counterpoise.execution.throttling.targets import list_entries, removed_by_others
from counterpoise.model.calendar import opens_at
from counterpoise.model.kafka import ConfigChange
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.policy import InFlight
from counterpoise.model.reassignment import is_one_reassignment
from counterpoise.model.request import KINDS
from counterpoise.model.run import RunState
from counterpoise.model.run_progress import Activity, Condition
from counterpoise.model.words import join_names, name_brokers, pluralize
from counterpoise.units import format_rate

MAX_ELECTION_ATTEMPTS: Final = 10
MAX_ELECTIONS_PER_CALL: Final = 100
_MAX_THROTTLE_GAPS: Final = 1  # keys that somebody else removed are set again once


def next_command(inputs: DecisionInputs) -> Command:
    """Return the next thing to do for a run that may move; a wait that is over halts it."""
    command = _next_command(inputs)
    activity = activity_of(command)
    if activity is not None and inputs.is_over(activity):
        return _halt(inputs, activity)
    return command


def _next_command(inputs: DecisionInputs) -> Command:
    if halt := reason_to_halt(inputs):
        return halt
    pause = reason_to_pause(inputs)
    remaining = inputs.may_be_in_flight if pause else inputs.pending
    in_flight = [*inputs.moving, *remaining] if pause else inputs.listed_moves
    hold = pause or reason_to_hold(inputs)
    ready = () if hold else next_batch(_may_be_submitted(inputs), inputs)
    batch = with_listed_first(inputs, ready)
    if command := throttle_command(inputs, in_flight, batch, remaining, is_held=bool(hold)):
        return command
    if hold:
        return Wait(hold)
    if batch:
        return Submit(batch)
    return _wait_for_moves(inputs) or _next_election(inputs)


def activity_of(command: Command) -> Activity | None:
    """Return what a run does or waits for until the next observation; a change waits for its
    effect.
    """
    match command:
        case Wait(activity):
            return activity
        case Throttle():
            return of(Condition.THROTTLING)
        case Submit(moves):
            return of(Condition.SUBMITTING, _names(moves))
        case Elect(moves):
            return of(Condition.ELECTING, _names(moves))
        case Cancel(moves):
            return of(Condition.CANCELLING, _names(moves))
        case RestoreOrder(moves):
            return of(Condition.ORDERING, _names(moves))
        case Restore():
            return of(Condition.RESTORING)
    return None


# -- why a run starts nothing new: it halts, people or the calendar say so, or something has to pass


def reason_to_halt(inputs: DecisionInputs) -> Halt | None:
    """Return the first reason to start nothing new; None when there is none."""
    if cancel := inputs.observation.active_requests.cancelled:
        return Halt(str(cancel), cancels=True)
    return (
        _foreign_changes(inputs)
        or _lasting_trouble(inputs)
        or _full_log_dirs(inputs)
        or _isr_loss(inputs)
        or _below_min_isr(inputs)
    )


def _foreign_changes(inputs: DecisionInputs) -> Halt | None:
    observation = inputs.observation
    in_plan = [move.topic_partition for move in inputs.by_state[MoveState.FOREIGN]]
    if redirected := [tp for tp in in_plan if tp in observation.submitted]:
        return _halt(inputs, of(Condition.REDIRECTED, redirected))
    foreign = [*in_plan, *observation.conditions.foreign_reassignments]
    # A run that is paused begins nothing beside them: what they move may have arrived by its end.
    if foreign and not reason_to_pause(inputs):
        return _halt(inputs, of(Condition.FOREIGN, foreign))
    if drifted := inputs.by_state[MoveState.DRIFTED]:
        return _halt(inputs, of(Condition.DRIFTED, _names(drifted)))
    if taken_back := inputs.moves_in(MoveState.TAKEN_BACK, MoveState.CANCELLED):
        return _halt(inputs, of(Condition.TAKEN_BACK, _names(taken_back)))
    if inputs.run_progress.throttle_gaps > _MAX_THROTTLE_GAPS:
        keys = keys_removed_by_others(inputs)
        return _halt(inputs, of(Condition.THROTTLE_GAP, keys), cancels=True)
    unthrottled = of(Condition.UNTHROTTLED)
    if inputs.is_over(unthrottled):
        return _halt(inputs, unthrottled, cancels=True)
    return None


def _lasting_trouble(inputs: DecisionInputs) -> Halt | None:
    """Return the end of a run for a trouble that has lasted for longer than its patience."""
    for trouble in (*_troubles(inputs), *_stalled_copies(inputs), of(Condition.NO_PROGRESS)):
        if names := inputs.subjects_over(trouble):
            over = replace(trouble, subjects=names, count=len(names))
            return _halt(inputs, over)
    return None


def _troubles(inputs: DecisionInputs) -> Iterator[Activity]:
    """Yield the troubles of brokers and partitions that hold a run for a while, then halt it."""
    observation = inputs.observation
    if dead := inputs.dead_broker_ids:
        yield of(Condition.DEAD, dead)
    if unavailable := unavailable_since_start(inputs.run_progress, observation):
        yield of(Condition.UNAVAILABLE, unavailable)
    unfinished = inputs.moves_in(MoveState.PENDING, MoveState.MOVING, MoveState.CANCELLED)
    if leaderless := leaderless_moves(unfinished, observation):
        yield of(Condition.LEADERLESS, _names(leaderless))


def _stalled_copies(inputs: DecisionInputs) -> Iterator[Activity]:
    """Yield the copies that have stalled for longer than their patience."""
    progress = inputs.run_progress
    stalled = of(Condition.STALLED, sorted(progress.conditions.get(Condition.STALLED, ())))
    if names := inputs.subjects_over(stalled):
        rate = progress.rate_bytes_per_second
        advice = stall_advice(names, inputs.moving, inputs.observation, rate)
        yield of(Condition.STALLED, names, detail=advice)


def _full_log_dirs(inputs: DecisionInputs) -> Halt | None:
    full_log_dirs = inputs.observation.conditions.full_log_dirs
    full = {
        broker_id
        for move in (inputs.moves_in(MoveState.MOVING, MoveState.PENDING) if full_log_dirs else ())
        for broker_id in brokers_filled_by(move, inputs.observation)
    }
    if not full:
        return None
    names = ", ".join(full_log_dirs[broker_id] for broker_id in sorted(full))
    return _halt(inputs, of(Condition.FULL_LOG_DIR, detail=names))


def _isr_loss(inputs: DecisionInputs) -> Halt | None:
    observation, run_progress = inputs.observation, inputs.run_progress
    rate = run_progress.rate_bytes_per_second
    loss_since = run_progress.isr_loss_changed_at if run_progress.has_isr_loss else None
    if not loss_since or rate > LOWEST_RATE:
        return None
    if observation.observed_at - loss_since < HALT_AFTER:
        return None
    names = lost_partitions(
        run_progress,
        observation,
        inputs.moving,
        run_progress.conditions.get(Condition.CATCHING_UP, {}),
        inputs.limits.dead_broker_patience,
    )
    if not names:  # for a moment: the loss is not over yet
        return None
    return _halt(inputs, of(Condition.ISR_LOSS, names, detail=format_rate(rate)))


def _below_min_isr(inputs: DecisionInputs) -> Halt | None:
    min_insync_replicas = inputs.observation.min_insync_replicas
    if not min_insync_replicas:
        return None

    def falls_below_min_isr(move: Move) -> bool:
        min_isr = min_insync_replicas.get(move.topic, 0)
        return len(move.replicas_after) < min(min_isr, len(move.replicas_before))

    names = [
        f"{move.topic_partition} (to {pluralize(len(move.replicas_after), 'replica')})"
        for move in inputs.pending
        if falls_below_min_isr(move)
    ]
    return _halt(inputs, of(Condition.BELOW_MIN_ISR, names)) if names else None


def _halt(inputs: DecisionInputs, reason: Activity, *, cancels: bool = False) -> Halt:
    """Return the end of a run; a log dir that is offline under one of its copies is named, whatever
    it waited for.
    """
    words, observation = [when_over(reason, inputs.limits)], inputs.observation
    copying = {b for move in inputs.moving for b in observation.copying_brokers(move)}
    readings = [observation.log_dirs[b] for b in sorted(copying & observation.log_dirs.keys())]
    if offline := [reading.offline for reading in readings if reading.offline]:
        words.append(f"a log dir is offline: {', '.join(offline)}: replace the disk first")
    return Halt("; ".join(words), cancels=cancels)


def reason_to_pause(inputs: DecisionInputs) -> Activity | None:
    """Return why people or the calendar want nothing new for now; None when they do not."""
    requests = inputs.observation.active_requests
    if frozen := requests.frozen:
        by = f"{frozen.person.shown}: {frozen.why}"
        return of(Condition.FROZEN, [frozen.at.isoformat()], detail=by, ends_at=frozen.until)
    if paused := requests.paused:
        by = f"{paused.person.shown}: {paused.why}"
        return of(Condition.PAUSED, [paused.at.isoformat()], detail=by)
    if opens := opens_at(inputs.limits, inputs.observation.observed_at):
        return of(Condition.OUTSIDE_WINDOWS, ends_at=opens)
    return None


def reason_to_hold(inputs: DecisionInputs) -> Activity | None:
    """Return what has to pass before anything new is submitted; None when nothing has to."""
    return different_versions(inputs.observation) or next(_troubles(inputs), None)


# -- which throttle keys to set, and which to take back


def throttle_command(
    inputs: DecisionInputs,
    in_flight: Sequence[Move],
    batch: Sequence[Move] = (),
    remaining: Sequence[Move] = (),
    *,
    is_held: bool = False,
) -> Command | None:
    """Return what to change before anything else is done; None when nothing has to be changed.

    Rates stay on the brokers of all remaining moves. The lists name the moves in flight and the
    next batch alone, since a listed replica that falls behind for another reason is throttled, too.
    While a batch is ready to be submitted, entries that nothing needs wait for the next one. So do
    those of moves to come, unless the run is held.

    Example: of orders-0 to orders-9, each from (1, 2, 3) to (4, 2, 3), two move at a time. When
    orders-0 is done while orders-1 moves, one call adds `2:4` to the follower list and takes `0:4`
    from it: `1:4,2:4`.
    """
    observation = inputs.observation
    throttles = inputs.throttles_for([*in_flight, *batch], remaining)
    restored = idle_keys(throttles, observation)
    missing = inputs.missing_changes(throttles)
    unneeded = unneeded_entries(throttles, observation)
    to_come = () if is_held else remaining
    if missing or (not batch and _is_any_idle(unneeded, inputs, to_come)):
        return Throttle(missing, unneeded, restored)
    return Restore(restored) if restored else None


def _is_any_idle(
    unneeded: Sequence[KeyChange], inputs: DecisionInputs, to_come: Sequence[Move]
) -> bool:
    """Return whether one of these entries is not of moves to come either."""
    if not unneeded:
        return False
    later_lists = inputs.throttles_for(to_come).lists

    def is_idle(change: ConfigChange) -> bool:
        return not set(list_entries(change.value)) <= set(later_lists.get(change.resource_key, ()))

    return any(is_idle(change) for _, change in unneeded)


def with_listed_first(inputs: DecisionInputs, batch: Sequence[Move]) -> tuple[Move, ...]:
    """Return those moves of the batch whose throttles are set; all of it when none has them.

    What was listed is submitted before anything else is listed, so that a batch that grows with
    each observation is never put off.
    """

    def lacks_throttles(moves: Sequence[Move]) -> bool:
        return bool(inputs.missing_changes(inputs.throttles_for(moves)))

    if not lacks_throttles(batch):
        return tuple(batch)
    listed = [move for move in batch if not lacks_throttles([move])]
    return tuple(listed or batch)


def keys_removed_by_others(inputs: DecisionInputs) -> list[str]:
    """Return the throttle keys, like `topic orders: leader...`, that moves in flight need, and that
    somebody else removed.
    """
    observation = inputs.observation
    needed_now = inputs.missing_changes(inputs.throttles_for(inputs.moving))
    removed = removed_by_others(needed_now, observation.owned_keys, observation.configs)
    return [f"{one.resource.type} {one.resource.name}: {one.key}" for one in removed]


# -- what comes next where nothing speaks against it


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
        and (is_one_reassignment(move) or not inputs.observation.has_unknown_outcome(move))
    ]


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
        return Wait(of(Condition.SUBMITTING, _names(inputs.not_shown_yet)), is_brief=True)
    out_of_sync = [
        replica(move.topic_partition, broker_id)
        for move in pending
        for broker_id in observation.out_of_sync_replicas(move)
    ]
    if out_of_sync:
        return Wait(of(Condition.OUT_OF_SYNC, out_of_sync))
    unresponsive = {b for move in pending for b in brokers_to_wait_for(move, observation)}
    if unresponsive:
        return Wait(of(Condition.UNRESPONSIVE, sorted(unresponsive)))
    return Wait(of(Condition.UNANSWERED, _names(inputs.unknown_outcomes)))


def _reason_of_moving(inputs: DecisionInputs) -> Activity:
    """Return what the moves in flight wait for: their copies, or brokers that all of them need."""
    observation, moving = inputs.observation, inputs.moving
    needed = [{*move.replicas_after, *observation.copying_brokers(move)} for move in moving]
    unresponsive = [brokers & observation.unresponsive_broker_ids for brokers in needed]
    if all(unresponsive):
        return of(Condition.UNRESPONSIVE, sorted(set().union(*unresponsive)))
    unmeasured = [
        observation.unmeasured_broker_ids.intersection(observation.copying_brokers(move))
        for move in moving
    ]
    if all(unmeasured):
        return of(Condition.UNMEASURED, sorted(set().union(*unmeasured)))
    return of(Condition.COPYING, _names(moving))


def _next_election(inputs: DecisionInputs) -> Command:
    observation = inputs.observation
    done = inputs.by_state[MoveState.DONE]
    to_elect = [move for move in done if not observation.has_planned_leader(move)]
    if not to_elect:
        return Finish()
    attempts = inputs.run_progress.election_attempts
    tried = {move: attempts.get(str(move.topic_partition), 0) for move in to_elect}
    given_up = [move for move, count in tried.items() if count >= MAX_ELECTION_ATTEMPTS]
    if given_up:
        names = [replica(move.topic_partition, move.replicas_after[0]) for move in given_up]
        in_vain = of(
            Condition.NOT_ELECTED, names, detail=pluralize(MAX_ELECTION_ATTEMPTS, "attempt")
        )
        return _halt(inputs, in_vain)

    def is_electable(move: Move) -> bool:
        isr = observation.partitions[move.topic_partition].description.isr
        return move.replicas_after[0] in isr

    electable = tuple(move for move in to_elect if is_electable(move))
    if not electable:
        leaders = [replica(move.topic_partition, move.replicas_after[0]) for move in to_elect]
        return Wait(of(Condition.LEADER_OUT_OF_SYNC, leaders))
    return Elect(electable[:MAX_ELECTIONS_PER_CALL])


def _names(moves: Iterable[Move]) -> list[str]:
    return [str(move.topic_partition) for move in moves]


# -- a run that starts nothing new, and one that has ended


def settle_command(inputs: DecisionInputs) -> Command:
    """Return the next thing to do for a run that starts nothing new.

    First nothing of ours is in flight any more, then every throttle key is restored. What cannot be
    done within its patience is left: listed, and looked after by the watch.
    """
    command = _settle_command(inputs)
    activity = activity_of(command)
    is_change = activity is not None and activity.condition in CHANGES
    is_without_effect = activity is not None and is_change and inputs.is_over(activity)
    return _give_up(inputs) if is_without_effect else command


def _settle_command(inputs: DecisionInputs) -> Command:
    moving, unknown_outcomes = inputs.moving, inputs.unknown_outcomes
    in_flight = [*moving, *inputs.may_be_in_flight]
    if cancel := _cancel(inputs, _moves_to_cancel(inputs)):
        return _gap_before_a_cancel(inputs, in_flight) or cancel
    if in_flight and (command := throttle_command(inputs, in_flight)):
        return command
    if moving:
        return Wait(of(Condition.COPYING, _names(moving)))
    if inputs.not_shown_yet:
        return Wait(of(Condition.SUBMITTING, _names(inputs.not_shown_yet)))
    if cancelled := inputs.by_state[MoveState.CANCELLED]:
        return RestoreOrder(tuple(cancelled[: inputs.max_partitions_per_call]))
    unanswered = of(Condition.UNANSWERED, _names(unknown_outcomes))
    if unknown_outcomes and not inputs.is_over(unanswered):
        return Wait(unanswered)
    return restore_all_keys(inputs)


def _gap_before_a_cancel(inputs: DecisionInputs, in_flight: Sequence[Move]) -> Command | None:
    """Return what closes a gap that was there at the observation before, too.

    A cancel comes first, since it ends what copies; where it had no effect, the gap is closed, and
    then it is sent again.
    """
    progress = inputs.run_progress
    did_before = progress.activity.condition if progress.activity else None
    was_there = progress.since(Condition.UNTHROTTLED) not in (None, progress.observed_at)
    is_closed_now = was_there and did_before is not Condition.THROTTLING
    return throttle_command(inputs, in_flight) if is_closed_now else None


def _give_up(inputs: DecisionInputs) -> Finish:
    """Return the end of a run that the cluster does not let end: what is left, is listed."""
    unrestored = tuple(key for key in inputs.observation.own_keys if key.done_at is None)
    in_flight = inputs.moving
    left = "the cluster refused what would end this run (`counterpoise status RUN` shows it)"
    if in_flight:
        are_moving = pluralize(len(in_flight), "partition is", "partitions are")
        left += f"; {are_moving} still in flight: {join_names(_names(in_flight))}"
    return Finish(unrestored, left)


def sweep_command(inputs: DecisionInputs) -> Command:
    """Return the next thing to do about what an ended run has in flight, or out of order; Finish
    where there is nothing. Its keys are restored for all runs together.
    """
    if cancel := _cancel_late(inputs):
        return cancel
    if changes := inputs.missing_changes(inputs.throttles_for(inputs.moving)):
        return Throttle(changes)
    cancelled = inputs.by_state[MoveState.CANCELLED]
    if answered := [move for move in cancelled if inputs.observation.is_order_answered(move)]:
        return RestoreOrder(tuple(answered[: inputs.max_partitions_per_call]))
    return Finish()


# -- which reassignments to cancel: what has to end, what came late


def _moves_to_cancel(inputs: DecisionInputs) -> dict[Move, str]:
    """Return the moves in flight that cannot finish, or must not, each with why.

    The policy, a person, or the reason of the halt may want that all of them are cancelled.
    """
    moving = inputs.moving
    why_all = _why_all(inputs)
    reasons = {move: why_all or _why_not(move, inputs) for move in moving}
    return {move: why for move, why in reasons.items() if why}


def _why_all(inputs: DecisionInputs) -> str:
    """Return why nothing may finish; "" where what can may."""
    if inputs.observation.active_requests.cancelled is not None:
        return "a person cancelled the run"
    if inputs.run_progress.is_cancelling:
        return "the run lets no copy finish any more"
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
    dead = set(move.replicas_after) - observation.live_broker_ids
    leaderless = [move.topic_partition] if observation.leader_of(move) is None else []
    for trouble in (
        of(Condition.DEAD, sorted(dead)),
        of(Condition.UNMEASURED, observation.copying_brokers(move)),
        of(Condition.LEADERLESS, leaderless),
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


def _cancel_late(inputs: DecisionInputs) -> Cancel | None:
    """Return the cancel of what an ended run has in flight by a call that nobody answered; what
    else is in flight, or in sync only by its new replicas, ends under its throttle.
    """
    late = [
        move
        for move in inputs.moving
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


def _cancel(inputs: DecisionInputs, reasons: Mapping[Move, str]) -> Cancel | None:
    """Return the cancel of as many moves as a call takes, those first that were tried longest ago:
    what Kafka refuses keeps no others from it.
    """
    if not reasons:
        return None
    submitted = inputs.observation.submitted

    def tried_at(move: Move) -> datetime:
        return max(row.sent_at for row in submitted[move.topic_partition])

    by_age = sorted(reasons, key=tried_at)
    moves = by_age[: inputs.max_partitions_per_call]
    counts = Counter(reasons[move] for move in moves)
    is_one = len(counts) == 1
    texts = (why if is_one else f"{why} ({count:,})" for why, count in counts.most_common())
    return Cancel(tuple(moves), "; ".join(texts))


# -- what has to be true before a run starts, or goes on after a halt


def check_drift(plan: RebalancePlan, state: RunState, observation: Observation) -> None:
    """Raise StalePlanError where somebody else moves partitions, or has moved some of the plan."""
    if foreign := observation.conditions.foreign_reassignments:
        raise StalePlanError(
            "somebody else is reassigning partitions of this cluster "
            f"({join_names(foreign)}); wait for their end"
        )
    drifted = [move for move in plan.moves if _has_drifted(move, state, observation)]
    if drifted:
        names = join_names([move.topic_partition for move in drifted])
        raise StalePlanError(
            f"{pluralize(len(drifted), 'partition')} changed since the plan was made "
            f"({names}); make a new plan"
        )


def _has_drifted(move: Move, state: RunState, observation: Observation) -> bool:
    """Return whether a partition is not exactly as the plan found it, before the first start of a
    run; later, whether somebody else changed it meanwhile. A topic that is gone is skipped then.
    """
    found = observation.state_of(move)
    if state is not RunState.APPROVED:
        return found in (MoveState.DRIFTED, MoveState.FOREIGN)
    is_at_rest = found in (MoveState.PENDING, MoveState.DONE)
    return not is_at_rest or not observation.is_as_before(move)


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
