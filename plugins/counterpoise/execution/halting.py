"""When a run stops by itself, when it submits nothing new for a while, and how it ends. Pure.

    reason_to_halt(inputs)    # Halt, or None
    reason_to_pause(inputs)   # None unless people or the calendar want nothing new
    reason_to_hold(inputs)    # None unless something has to pass first
    end_state(plan, observation, reason, finish, best)    # (RunState.HALTED, "interrupted; ...")

What a run can wait out is waited out first: `conditions` records since when each condition lasts,
and the policy says for how long that may be.
"""

from collections.abc import Collection, Iterator, Sequence
from datetime import timedelta

from counterpoise.execution.back_off import HALT_AFTER, LOWEST_RATE, lost_partitions
from counterpoise.execution.cancelled_moves import cancelled_again
from counterpoise.execution.commands import Finish, Halt
from counterpoise.execution.conditions import (
    leaderless_moves,
    unavailable_since_start,
)
from counterpoise.execution.decision_inputs import DecisionInputs
from counterpoise.execution.full_log_dirs import brokers_filled_by
from counterpoise.execution.observation import MoveState, Observation
from counterpoise.execution.stalls import stall_to_halt_for
from counterpoise.execution.throttling.pending_restores import pending_in_words
from counterpoise.execution.waits import (
    EXECUTE_AGAIN,
    UNTHROTTLED,
    DifferentVersions,
    Frozen,
    NoRunProgress,
    OutsideWindows,
    Paused,
    WaitReason,
)
from counterpoise.execution.waits_for_cluster import (
    DeadBrokers,
    LeaderlessPartitions,
    SlowedLinks,
    UnavailablePartitions,
    name_of_dead,
    name_of_slowed,
    name_of_unavailable,
)
from counterpoise.model.calendar import opens_at
from counterpoise.model.grouping import grouped
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.run import RunState
from counterpoise.model.run_progress import BestProgress, RunProgress
from counterpoise.model.words import join_names, pluralize, verb
from counterpoise.units import format_rate

_MAX_THROTTLE_GAPS = 1  # keys that somebody else removed are set again once
# With something in flight. Setting keys takes one observation, reading them back another.
_MAX_UNTHROTTLED_OBSERVATIONS = 5
# So long a busy broker's metadata is not behind: it was seen to be for 1 s.
_UNTHROTTLED_PATIENCE = timedelta(seconds=5)


def reason_to_halt(inputs: DecisionInputs) -> Halt | None:
    """Return the first reason to start nothing new; None when there is none."""
    if cancel := inputs.observation.active_requests.cancelled:
        return Halt(str(cancel), cancels=True)
    return (
        _foreign_changes(inputs)
        or _lasting_trouble(inputs)
        or _full_log_dirs(inputs)
        or stall_to_halt_for(inputs)
        or _isr_loss(inputs)
        or _below_min_isr(inputs)
    )


def reason_to_pause(inputs: DecisionInputs) -> WaitReason | None:
    """Return why people or the calendar want nothing new for now; None when they do not."""
    requests = inputs.observation.active_requests
    if requests.frozen:
        return Frozen(requests.frozen)
    if requests.paused:
        return Paused(requests.paused)
    if opens := opens_at(inputs.limits, inputs.observation.observed_at):
        return OutsideWindows(opens)
    return None


def reason_to_hold(inputs: DecisionInputs) -> WaitReason | None:
    """Return what has to pass before anything new is submitted; None when nothing has to."""
    return different_versions(inputs.observation) or next(_troubles(inputs), None)


def different_versions(observation: Observation) -> DifferentVersions | None:
    """Return what shows that a rolling upgrade is under way; None when all live brokers are
    alike.
    """
    versions = sorted(observation.conditions.versions.items())
    brokers_by_version = grouped((reading.version, broker_id) for broker_id, reading in versions)
    if len(brokers_by_version) <= 1:
        return None
    return DifferentVersions(
        tuple((version, tuple(ids)) for version, ids in brokers_by_version.items())
    )


def unreadable_text(observation: Observation) -> str:
    """Return what of the cluster outside the plan may not be read; "" when nothing is missed."""
    topics = observation.conditions.unreadable_topics
    if not topics:
        return ""
    return (
        f"min.insync.replicas of {join_names(topics)}, outside the plan: whether under-replicated "
        "partitions there take writes is not known, and this run does not halt for them; "
        "`counterpoise preflight PLAN` names the permission that is missing"
    )


def _troubles(inputs: DecisionInputs) -> Iterator[WaitReason]:
    """Yield the troubles of brokers and partitions that hold a run for a while, then halt it."""
    observation = inputs.observation
    if dead := inputs.dead_broker_ids:
        yield DeadBrokers(dead)
    if unavailable := unavailable_since_start(inputs.run_progress, observation):
        yield UnavailablePartitions(tuple(unavailable))
    unfinished = inputs.moves_in(MoveState.PENDING, MoveState.MOVING, MoveState.CANCELLED)
    if leaderless := leaderless_moves(unfinished, observation):
        yield LeaderlessPartitions(tuple(_names(leaderless)))


def _lasting_trouble(inputs: DecisionInputs) -> Halt | None:
    """Return the end of a run for a trouble that has lasted for longer than its patience."""
    for reason in (*_troubles(inputs), slowed_links(inputs), NoRunProgress()):
        if names := inputs.names_over(reason):
            return Halt(_lasting_part(reason, names).when_over(inputs.limits))
    return None


def _lasting_part(reason: WaitReason, names_over: Collection[str]) -> WaitReason:
    """Return, of several brokers or partitions, those in trouble for too long."""
    if isinstance(reason, DeadBrokers):
        return DeadBrokers(tuple(b for b in reason.broker_ids if name_of_dead(b) in names_over))
    if isinstance(reason, UnavailablePartitions):
        partitions = (p for p in reason.partitions if name_of_unavailable(p) in names_over)
        return UnavailablePartitions(tuple(partitions))
    return reason


def slowed_links(inputs: DecisionInputs) -> SlowedLinks:
    """Return the links that lose ground at a rate which we lowered."""
    run_progress = inputs.run_progress
    names = tuple(
        link.name
        for link in run_progress.links
        if name_of_slowed(link.name) in run_progress.conditions_since
    )
    return SlowedLinks(names, run_progress.rate_bytes_per_second)


def _foreign_changes(inputs: DecisionInputs) -> Halt | None:
    conditions = inputs.observation.conditions
    in_plan = [move.topic_partition for move in inputs.by_state[MoveState.FOREIGN]]
    of_others = [tp for tp in in_plan if tp not in conditions.late_reassignments]
    foreign = [str(tp) for tp in (*of_others, *conditions.foreign_reassignments)]
    # A run that is paused begins nothing beside them: what they move may have arrived by its end.
    if foreign and not reason_to_pause(inputs):
        return Halt(
            f"somebody else is reassigning {pluralize(len(foreign), 'partition')}: "
            f"{join_names(foreign)}; wait for the end, then {EXECUTE_AGAIN}"
        )
    if drifted := inputs.by_state[MoveState.DRIFTED]:
        return Halt(
            f"somebody else moved {pluralize(len(drifted), 'partition')} of the plan: "
            f"{join_names(_names(drifted))}; make a new plan"
        )
    if again := cancelled_again(inputs.run_progress):
        return Halt(
            f"somebody else cancelled {join_names(again)} again, after it had been sent a second "
            "time (`kafka-reassign-partitions.sh --cancel`, say, or an emergency stop); find out "
            f"who, and stop that, then {EXECUTE_AGAIN}, or leave it as it is"
        )
    if inputs.run_progress.throttle_gaps > _MAX_THROTTLE_GAPS:
        return Halt(
            "somebody else changed our throttle keys again, after some had been set a second time; "
            f"find out who, and stop that, then {EXECUTE_AGAIN}",
            cancels=True,
        )
    if _lacks_its_throttle(inputs):
        return Halt(
            "somebody else changes our throttle keys as fast as they are set; "
            f"find out who, and stop that, then {EXECUTE_AGAIN}",
            cancels=True,
        )
    return None


def _lacks_its_throttle(inputs: DecisionInputs) -> bool:
    """Return whether copies go on without their throttle however often it is set."""
    progress = inputs.run_progress
    began_at = progress.conditions_since.get(UNTHROTTLED, progress.observed_at)
    is_long = progress.observed_at - began_at >= _UNTHROTTLED_PATIENCE
    return is_long and progress.unthrottled_observations > _MAX_UNTHROTTLED_OBSERVATIONS


def _full_log_dirs(inputs: DecisionInputs) -> Halt | None:
    full_log_dirs = inputs.observation.conditions.full_log_dirs
    if not full_log_dirs:
        return None
    full = {
        broker_id
        for move in inputs.moves_in(MoveState.MOVING, MoveState.PENDING)
        for broker_id in brokers_filled_by(move, inputs.observation)
    }
    if not full:
        return None
    names = ", ".join(full_log_dirs[broker_id] for broker_id in sorted(full))
    return Halt(f"a log dir is past its limit: {names}; free space, or make a new plan")


def back_off_text(previous: RunProgress, run_progress: RunProgress) -> str:
    """Return whether copies got slower or faster, and why."""
    rate = f"at most {format_rate(run_progress.rate_bytes_per_second)} per broker"
    if run_progress.back_off_level > previous.back_off_level:
        return f"slower, {rate}: partitions outside the plan lost in-sync replicas"
    return f"faster, {rate}: partitions outside the plan have their replicas in sync again"


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
        run_progress.conditions_since,
        inputs.limits.dead_broker_patience,
    )
    if not names:  # for a moment: the loss is not over yet
        return None
    return Halt(
        f"even at {format_rate(rate)}, partitions outside the plan lose in-sync replicas: "
        f"{join_names(names)}; when the cluster has less load, {EXECUTE_AGAIN}"
    )


def _below_min_isr(inputs: DecisionInputs) -> Halt | None:
    min_insync_replicas = inputs.observation.min_insync_replicas
    if not min_insync_replicas:
        return None

    def falls_below_min_isr(move: Move) -> bool:
        min_isr = min_insync_replicas.get(move.topic, 0)
        return len(move.replicas_after) < min(min_isr, len(move.replicas_before))

    too_few = [move for move in inputs.pending if falls_below_min_isr(move)]
    if not too_few:
        return None
    names = [
        f"{move.topic_partition} (to {pluralize(len(move.replicas_after), 'replica')})"
        for move in too_few
    ]
    return Halt(
        f"{pluralize(len(too_few), 'partition')} would have fewer replicas than "
        f"min.insync.replicas: {join_names(names)}; lower min.insync.replicas of the topics first, "
        "or make a new plan"
    )


def _names(moves: Sequence[Move]) -> list[str]:
    return [str(move.topic_partition) for move in moves]


# -- how a run ends


def end_state(
    plan: RebalancePlan,
    observation: Observation,
    reason: str,
    finish: Finish,
    best: BestProgress,
    *,
    is_cancelled: bool = False,
    was_done: bool = False,
) -> tuple[RunState, str]:
    """Return the state that a run ends in, and why; `reason` is why it halted, or who cancelled it
    where it `is_cancelled`.

    One that `was_done` and was settled once more is done: what others moved since is theirs. So is
    one that had elected all leaders at one time, and had nothing to halt for: a broker that
    restarts before it is settled has lost its lead since.
    """
    done = [move for move in plan.moves if observation.state_of(move) is MoveState.DONE]
    led_by_others = [move for move in done if not observation.has_planned_leader(move)]
    gone = [move for move in plan.moves if observation.state_of(move) is MoveState.GONE]
    unfinished = len(plan.moves) - len(done) + len(led_by_others)
    had_elected_all = not reason and best.leaders_elected >= len(plan.moves)
    lost_their_leader = led_by_others if had_elected_all else []
    pending = pending_in_words(
        finish.pending_restores,
        observation.live_broker_ids,
        plan.cluster,
        waits_for_moves=bool(finish.gave_up),
    )
    if was_done or unfinished == len(gone) + len(lost_their_leader):
        partitions, whose = pluralize(len(gone), "partition"), verb(len(gone), "its", "their")
        skipped = f"{partitions} skipped: {whose} topic is gone" if gone else ""
        led = "" if was_done else _led_by_others_in_words(lost_their_leader)
        return RunState.DONE, "; ".join(filter(None, (skipped, led, pending, finish.gave_up)))
    undone = f"{unfinished} of {pluralize(len(plan.moves), 'partition')} not as planned"
    parts = (reason or "interrupted", undone, pending, finish.gave_up)
    state = RunState.CANCELLED if is_cancelled else RunState.HALTED
    return state, "; ".join(filter(None, parts))


def _led_by_others_in_words(moves: Sequence[Move]) -> str:
    if not moves:
        return ""
    partitions, are = pluralize(len(moves), "partition"), verb(len(moves), "is", "are")
    return (
        f"{partitions} {are} led by another broker again since all leaders were elected: "
        f"{join_names(_names(moves))}"
    )
