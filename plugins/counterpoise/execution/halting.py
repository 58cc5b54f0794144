"""When a run stops by itself, and when it submits nothing new for a while. Pure.

    reason_to_halt(inputs)    # Halt, or None
    reason_to_pause(inputs)   # "" unless people or the calendar want nothing new
    reason_to_hold(inputs)    # "" unless something has to pass first

What a run can wait out is waited out first: `progress_update` records since when each condition
lasts, and the policy says for how long that may be.
"""

from collections.abc import Sequence

from counterpoise.execution.commands import Halt
from counterpoise.execution.decision_inputs import DecisionInputs
from counterpoise.execution.observation import MoveState, Observation
from counterpoise.execution.progress_update import (
    LEADERLESS,
    OUT_OF_SYNC,
    UNAVAILABLE,
    dead_brokers,
    stalled_links,
)
from counterpoise.execution.throttling.targets import default_rate
from counterpoise.model.calendar import opens_at
from counterpoise.model.grouping import grouped
from counterpoise.model.plan import Move
from counterpoise.model.run_progress import Link, RunProgress
from counterpoise.model.words import join_names, name_brokers, pluralize
from counterpoise.units import format_moment, format_rate, format_seconds

_MAX_THROTTLE_GAPS = 1  # keys that somebody else removed are set again once
# With something in flight. Setting keys takes one observation, reading them back another.
_MAX_UNTHROTTLED_OBSERVATIONS = 5
_MAX_LINKS_NAMED = 5
EXECUTE_AGAIN = "execute the plan again (`counterpoise execute PLAN`)"


def reason_to_halt(inputs: DecisionInputs) -> Halt | None:
    """Return the first reason to start nothing new; None when there is none."""
    if cancel := inputs.observation.active_requests.cancelled:
        return Halt(str(cancel), cancels=True)
    return (
        _foreign_changes(inputs)
        or _dead_brokers(inputs)
        or _unavailable_partitions(inputs)
        or _full_log_dirs(inputs)
        or _stalled_links(inputs)
        or _isr_loss(inputs)
        or _leaderless_partitions(inputs)
        or _below_min_isr(inputs)
    )


def reason_to_pause(inputs: DecisionInputs) -> str:
    """Return why people or the calendar want nothing new for now; "" when they do not."""
    requests = inputs.observation.active_requests
    if freeze := requests.frozen:
        return f"the cluster is {freeze.frozen_in_words}"
    if pause := requests.paused:
        return f"paused by {pause.person.shown}: {pause.why}"
    if opens := opens_at(inputs.limits, inputs.observation.observed_at):
        return f"outside the maintenance windows; the next one opens at {format_moment(opens)}"
    return ""


def reason_to_hold(inputs: DecisionInputs) -> str:
    """Return what has to pass before anything new is submitted; "" when nothing has to."""
    if upgrade := different_versions(inputs.observation):
        return upgrade
    conditions = [name for name in inputs.run_progress.conditions_since if name != OUT_OF_SYNC]
    return f"{', '.join(conditions)}: waiting for that to pass" if conditions else ""


def different_versions(observation: Observation) -> str:
    """Return what shows that a rolling upgrade is under way; "" when all live brokers are alike."""
    versions = sorted(observation.conditions.broker_versions.items())
    brokers_by_version = grouped((version, broker_id) for broker_id, version in versions)
    if len(brokers_by_version) <= 1:
        return ""
    groups = " and ".join(map(name_brokers, brokers_by_version.values()))
    return (
        f"a rolling upgrade seems to be under way: {groups} speak different versions; "
        "nothing new is submitted until it is over"
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


def halt_for_out_of_sync_replicas(inputs: DecisionInputs) -> Halt | None:
    """Return the end of a run whose last partitions keep replicas that stay out of sync."""
    if not _has_lasted(OUT_OF_SYNC, inputs):
        return None
    names = out_of_sync_names(inputs)
    skipped = pluralize(
        len(names),
        "partition skipped: replicas that it keeps",
        "partitions skipped: replicas that they keep",
    )
    return Halt(
        f"{skipped} are not in sync: {join_names(names)}; check these brokers, then {EXECUTE_AGAIN}"
    )


def out_of_sync_names(inputs: DecisionInputs) -> list[str]:
    """Return `orders-0 (brokers [3])` for each pending move that keeps replicas out of sync."""
    names = []
    for move in inputs.pending:
        if broker_ids := inputs.observation.out_of_sync_replicas(move):
            names.append(f"{move.topic_partition} (brokers {list(broker_ids)})")
    return names


def _foreign_changes(inputs: DecisionInputs) -> Halt | None:
    conditions = inputs.observation.conditions
    in_plan = [move.topic_partition for move in inputs.by_state[MoveState.FOREIGN]]
    of_others = [tp for tp in in_plan if tp not in conditions.late_reassignments]
    foreign = [str(tp) for tp in (*of_others, *conditions.foreign_reassignments)]
    if foreign:
        return Halt(
            f"somebody else is reassigning {pluralize(len(foreign), 'partition')}: "
            f"{join_names(foreign)}; wait for the end, then {EXECUTE_AGAIN}"
        )
    if drifted := inputs.by_state[MoveState.DRIFTED]:
        return Halt(
            f"somebody else moved {pluralize(len(drifted), 'partition')} of the plan: "
            f"{join_names(_names(drifted))}; make a new plan"
        )
    if inputs.run_progress.throttle_gaps > _MAX_THROTTLE_GAPS:
        return Halt(
            "somebody else removed our throttle keys again, after they had been set a second time; "
            f"find out who, and stop that, then {EXECUTE_AGAIN}",
            cancels=True,
        )
    if inputs.run_progress.unthrottled_observations > _MAX_UNTHROTTLED_OBSERVATIONS:
        return Halt(
            "somebody else removes our throttle keys as fast as they are set; "
            f"find out who, and stop that, then {EXECUTE_AGAIN}",
            cancels=True,
        )
    return None


def _dead_brokers(inputs: DecisionInputs) -> Halt | None:
    dead = sorted(dead_brokers(inputs.by_state, inputs.observation))
    broker_ids = [b for b in dead if _has_lasted(f"broker {b} is dead", inputs)]
    if not broker_ids:
        return None
    return Halt(
        f"brokers of the plan are dead: {', '.join(map(str, broker_ids))}; bring them back and "
        f"{EXECUTE_AGAIN}, or make a new plan"
    )


def _unavailable_partitions(inputs: DecisionInputs) -> Halt | None:
    if not _has_lasted(UNAVAILABLE, inputs):
        return None
    unavailable_now = set(inputs.observation.conditions.unavailable_partitions)
    names = sorted(unavailable_now - set(inputs.run_progress.unavailable_at_start))
    affected = pluralize(
        len(names),
        "partition outside the plan takes no writes",
        "partitions outside the plan take no writes",
    )
    they_are = "it is" if len(names) == 1 else "they are"
    return Halt(
        f"{affected}: {join_names(names)}; {they_are} "
        f"offline or under min.insync.replicas: check the brokers, then {EXECUTE_AGAIN}"
    )


def _full_log_dirs(inputs: DecisionInputs) -> Halt | None:
    receiving = {
        broker_id
        for move in inputs.moves_in(MoveState.MOVING, MoveState.PENDING)
        for broker_id in inputs.observation.adding_replicas(move)
    }
    full_log_dirs = inputs.observation.conditions.full_log_dirs
    full = sorted(receiving & full_log_dirs.keys())
    if not full:
        return None
    names = ", ".join(full_log_dirs[broker_id] for broker_id in full)
    return Halt(
        f"a log dir is past its limit: {names}; free space, or make a new plan", cancels=True
    )


def _stalled_links(inputs: DecisionInputs) -> Halt | None:
    run_progress = inputs.run_progress
    links = stalled_links(run_progress, inputs.limits, patience_factor=2)
    if not links:
        return None
    names = "; ".join(stall_text(link, run_progress) for link in links[:_MAX_LINKS_NAMED])
    default = default_rate(inputs.observation.configs)
    if default is not None and default <= run_progress.rate_bytes_per_second:
        return Halt(
            f"{names}: the cluster's default of the throttle rates is {format_rate(default)}, and "
            "no copy is faster: raise or delete it (`kafka-configs --entity-type brokers "
            f"--entity-default`), then {EXECUTE_AGAIN}; or check network and disk of these brokers"
        )
    return Halt(
        f"{names}: check network and disk of these brokers. Or producers write faster than "
        f"{format_rate(run_progress.rate_bytes_per_second)} lets through: approve a higher rate "
        f"(`counterpoise approve PLAN --rate RATE --reason TEXT`), then {EXECUTE_AGAIN}"
    )


def stall_text(link: Link, run_progress: RunProgress) -> str:
    """Return `broker 4 has made no progress receiving 12 partitions for 1 min 30 s (0 B/s now)`."""
    stalled_for = format_seconds((run_progress.observed_at - link.last_progress_at).total_seconds())
    direction = "sending" if link.sends else "receiving"
    return (
        f"broker {link.broker_id} has made no progress {direction} "
        f"{pluralize(link.moves, 'partition')} for {stalled_for} "
        f"({format_rate(link.bytes_per_second)} now)"
    )


def _isr_loss(inputs: DecisionInputs) -> Halt | None:
    observation, run_progress = inputs.observation, inputs.run_progress
    back_off, rate = inputs.limits.throttle_back_off, run_progress.rate_bytes_per_second
    loss_since = run_progress.isr_loss_changed_at if run_progress.has_isr_loss else None
    if not loss_since or rate > back_off.lowest_rate_bytes_per_second:
        return None
    if observation.observed_at - loss_since < back_off.halt_after:
        return None
    under_replicated = set(observation.conditions.under_replicated)
    names = sorted(under_replicated - set(run_progress.under_replicated_at_start))
    return Halt(
        f"even at {format_rate(rate)}, partitions outside the plan lose in-sync replicas: "
        f"{join_names(names)}; when the cluster has less load, {EXECUTE_AGAIN}"
    )


def _leaderless_partitions(inputs: DecisionInputs) -> Halt | None:
    if not _has_lasted(LEADERLESS, inputs):
        return None
    unfinished = inputs.moves_in(MoveState.PENDING, MoveState.MOVING, MoveState.CANCELLED)
    leaderless = [m for m in unfinished if m.adding and inputs.observation.leader_of(m) is None]
    affected = pluralize(
        len(leaderless), "partition of the plan has", "partitions of the plan have"
    )
    return Halt(
        f"{affected} no leader to copy from: "
        f"{join_names(_names(leaderless))}; bring the brokers back, then {EXECUTE_AGAIN}"
    )


def _below_min_isr(inputs: DecisionInputs) -> Halt | None:
    def falls_below_min_isr(move: Move) -> bool:
        min_isr = inputs.observation.min_insync_replicas.get(move.topic, 0)
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


def _has_lasted(condition: str, inputs: DecisionInputs) -> bool:
    """Return whether a condition has lasted for longer than the policy's patience."""
    since = inputs.run_progress.conditions_since.get(condition)
    now, patience = inputs.observation.observed_at, inputs.limits.dead_broker_patience
    return since is not None and now - since >= patience


def _names(moves: Sequence[Move]) -> list[str]:
    return [str(move.topic_partition) for move in moves]
