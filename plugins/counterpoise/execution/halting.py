"""When a run stops by itself, and when it only holds back. Pure.

reason_to_halt(plan, seen, pulse, limits)      # Halt, or None reason_to_rest(seen, limits)
# "" unless people or the calendar want nothing new for a while reason_to_hold(seen, pulse)
# "" unless something has to pass first
"""

from collections.abc import Sequence
from datetime import timedelta

from counterpoise.execution.commands import Halt
from counterpoise.execution.observation import MoveState, Observation, States
from counterpoise.execution.progress_update import (
    LAGGING,
    STOPPED,
    UNLED,
    dead_brokers,
    stalled_links,
)
from counterpoise.model.calendar import opens_at
from counterpoise.model.kafka import BrokerVersion
from counterpoise.model.plan import Move
from counterpoise.model.policy import MovementPolicy
from counterpoise.model.run_progress import RunProgress
from counterpoise.model.words import join_names
from counterpoise.units import format_moment, format_rate, format_seconds

_MOST_GAPS = 1  # keys that somebody else removed are set again once
_MOST_UNTHROTTLED_LOOKS = (
    5  # with something in flight; setting keys takes one, reading them back another
)


def reason_to_halt(
    by_state: States, seen: Observation, run_progress: RunProgress, limits: MovementPolicy
) -> Halt | None:
    """The first reason to start nothing new, if there is one."""
    if asked := seen.standing.cancelled:
        return Halt(str(asked), cancels=True)
    return (
        _strangers(by_state, seen, run_progress)
        or _damage(by_state, seen, run_progress, limits)
        or _no_way(by_state, seen, run_progress, limits)
    )


def reason_to_rest(seen: Observation, limits: MovementPolicy) -> str:
    """Why nothing new is submitted for some time, by people's or the calendar's will; "" when it
    may be.
    """
    if frozen := seen.standing.frozen:
        return f"the cluster is {frozen.frozen_in_words}"
    if paused := seen.standing.paused:
        return f"paused by {paused.by}: {paused.why}"
    if opens := opens_at(limits, seen.now):
        return f"outside the maintenance windows; the next one opens at {format_moment(opens)}"
    return ""


def reason_to_hold(seen: Observation, run_progress: RunProgress) -> str:
    """What has to pass before anything new is submitted; "" when nothing has."""
    if upgrade := different_versions(seen):
        return upgrade
    waiting = [what for what in run_progress.troubles if what != LAGGING]
    return f"{', '.join(waiting)}: waiting for that to pass" if waiting else ""


def different_versions(seen: Observation) -> str:
    """What shows that a rolling upgrade is under way; "" when all live brokers are alike."""
    versions = seen.around.versions
    groups: dict[BrokerVersion, list[str]] = {}
    for broker_id, version in sorted(versions.items()):
        groups.setdefault(version, []).append(str(broker_id))
    if len(groups) <= 1:
        return ""
    told = " and ".join(
        f"brokers {', '.join(ids)}" if len(ids) > 1 else f"broker {ids[0]}"
        for ids in groups.values()
    )
    return f"a rolling upgrade seems to be under way: {told} speak different versions; nothing new until it is over"


def _strangers(by_state: States, seen: Observation, run_progress: RunProgress) -> Halt | None:
    strangers = [str(m.topic_partition) for m in by_state[MoveState.FOREIGN]]
    strangers += [str(tp) for tp in seen.around.reassignments]
    if strangers:
        return Halt(
            f"somebody else is reassigning {len(strangers)} partitions: {join_names(strangers)}"
        )
    if drifted := by_state[MoveState.DRIFTED]:
        return Halt(
            f"somebody else moved {len(drifted)} partitions of the plan: {join_names(_names(drifted))}"
        )
    if run_progress.gaps > _MOST_GAPS:
        return Halt(
            "somebody else removed our throttle keys again, after they had been set anew once",
            cancels=True,
        )
    if run_progress.unthrottled_looks > _MOST_UNTHROTTLED_LOOKS:
        return Halt("somebody else removes our throttle keys as fast as they are set", cancels=True)
    return None


def _damage(
    by_state: States, seen: Observation, run_progress: RunProgress, limits: MovementPolicy
) -> Halt | None:
    """What the run may have caused, or must not make worse."""
    patience = limits.dead_broker_patience
    dead = sorted(
        b
        for b in dead_brokers(by_state, seen)
        if _lasts(run_progress, f"broker {b} is dead", seen, patience)
    )
    if dead:
        return Halt(f"brokers of the plan are dead: {', '.join(map(str, dead))}")
    if _lasts(run_progress, STOPPED, seen, patience):
        stopped = sorted(set(seen.around.stopped) - set(run_progress.stopped_at_start))
        return Halt(
            f"{len(stopped)} partitions outside the plan take no writes: {join_names(stopped)}"
        )
    receiving = {b for move in by_state[MoveState.MOVING] for b in seen.arriving(move)}
    receiving |= {b for move in by_state[MoveState.PENDING] for b in seen.arriving(move)}
    if full := sorted(receiving & seen.around.full_dirs.keys()):
        return Halt(
            f"a log dir is past its limit: {', '.join(seen.around.full_dirs[b] for b in full)}",
            cancels=True,
        )
    if stalled := stalled_links(run_progress, limits, times=2):
        names = ", ".join(f"{link.name} ({link.moves} partitions)" for link in stalled[:5])
        waited = format_seconds(2 * limits.stall_patience.total_seconds())
        return Halt(
            f"nothing has become less to copy for {waited}: {names}. At {format_rate(run_progress.rate_bytes_per_second)} "
            "producers may write faster than the throttle lets through: a higher rate, or a look at these brokers"
        )
    brakes, rate = limits.brakes, run_progress.rate_bytes_per_second
    hurts_since = run_progress.hurting_changed_at if run_progress.is_hurting else None
    if (
        hurts_since
        and rate <= brakes.lowest_rate_bytes_per_second
        and seen.now - hurts_since >= brakes.halt_after
    ):
        hurt = sorted(set(seen.around.short) - set(run_progress.short_at_start))
        return Halt(
            f"even at {format_rate(rate)}, partitions outside the plan lose in-sync replicas: {join_names(hurt)}"
        )
    return None


def _no_way(
    by_state: States, seen: Observation, run_progress: RunProgress, limits: MovementPolicy
) -> Halt | None:
    """What cannot be done at all."""
    if _lasts(run_progress, UNLED, seen, limits.dead_broker_patience):
        unled = [
            m
            for s in (MoveState.PENDING, MoveState.MOVING, MoveState.CANCELLED)
            for m in by_state[s]
        ]
        unled = [m for m in unled if m.adding and seen.leader_of(m) is None]
        return Halt(
            f"{len(unled)} partitions of the plan have no leader to copy from: {join_names(_names(unled))}"
        )
    waiting = [*by_state[MoveState.PENDING], *by_state[MoveState.CANCELLED]]
    if short := [move for move in waiting if _falls_below_min_isr(move, seen)]:
        names = [f"{m.topic_partition} (to {len(m.replicas_after)} replicas)" for m in short]
        return Halt(
            f"{len(short)} partitions would have fewer replicas than min.insync.replicas: {join_names(names)}"
        )
    return None


def skipped_for_lagging(
    by_state: States, seen: Observation, run_progress: RunProgress, limits: MovementPolicy
) -> Halt | None:
    """The end of a run that has nothing left but partitions whose kept replicas stay out of sync."""
    if not _lasts(run_progress, LAGGING, seen, limits.dead_broker_patience):
        return None
    lagging = [
        m for m in (*by_state[MoveState.PENDING], *by_state[MoveState.CANCELLED]) if seen.lagging(m)
    ]
    names = [f"{m.topic_partition} (brokers {list(seen.lagging(m))})" for m in lagging]
    return Halt(
        f"{len(lagging)} partitions skipped: replicas that they keep are not in sync: {join_names(names)}"
    )


def _lasts(run_progress: RunProgress, trouble: str, seen: Observation, patience: timedelta) -> bool:
    since = run_progress.troubles.get(trouble)
    return since is not None and seen.now - since >= patience


def _falls_below_min_isr(move: Move, seen: Observation) -> bool:
    least = seen.min_insync_replicas.get(move.topic, 0)
    return len(move.replicas_after) < min(least, len(move.replicas_before))


def _names(moves: Sequence[Move]) -> list[str]:
    return [str(move.topic_partition) for move in moves]
