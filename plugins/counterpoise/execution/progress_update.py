"""The progress of a run, from one observation to the next. Pure.

    run_progress = update_progress(previous, observation, by_state, plan, limits, approved_rate)

It remembers what one observation cannot show: since when a link makes no progress, a broker is
dead, or partitions outside the plan lack in-sync replicas.

Example of a back-off from an approved 20 MB/s, with the policy's 30 s: at 12:00:00 a partition
outside the plan loses an in-sync replica; at 12:00:30 it still lacks it, the rate is halved to
10 MB/s, at 12:01:00 to 5 MB/s. At 12:01:10 it is in sync again; 2 min later the rate doubles.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from counterpoise.execution.conditions import find_conditions, since
from counterpoise.execution.observation import MovesByState, MoveState, Observation
from counterpoise.execution.readings import kept_readings
from counterpoise.execution.throttling.targets import (
    default_rate,
    missing_changes,
    removed_by_others,
    wanted_throttles,
)
from counterpoise.execution.waits import DECIDED, NO_PROGRESS
from counterpoise.execution.waits_for_cluster import name_of_slowed
from counterpoise.model.calendar import rate_at
from counterpoise.model.grouping import grouped
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.policy import MovementPolicy, ThrottleBackOffPolicy
from counterpoise.model.run import Progress
from counterpoise.model.run_progress import Link, RunProgress

_SOON_SECONDS = 15
_STILL_AFTER = timedelta(seconds=5)
# More than that is a gap: no process was at work on the run.
_MAX_TIME_BETWEEN_OBSERVATIONS = timedelta(minutes=1)


def update_progress(
    previous: RunProgress | None,
    observation: Observation,
    by_state: MovesByState,
    plan: RebalancePlan,
    limits: MovementPolicy,
    approved_rate: int,
    max_rate: int | None = None,
) -> RunProgress:
    """Return the progress after this observation; the first one records how the cluster was.

    A request sets no rate above `max_rate`.
    """
    moving = by_state[MoveState.MOVING]
    if previous is not None:
        previous = _without_unobserved_time(previous, observation.observed_at)
    base = previous or _first_progress(plan, observation)
    back_off = _back_off(base, observation, moving, limits.throttle_back_off, approved_rate)
    requested_rate = observation.active_requests.rate_bytes_per_second
    wanted_rate = min(requested_rate, max_rate or requested_rate) if requested_rate else None
    rate = rate_in_force(observation, limits, wanted_rate or approved_rate, back_off.level)
    throttles = wanted_throttles(moving, base.rate_bytes_per_second or rate)
    missing = missing_changes(throttles, observation.configs, observation.touched_keys)
    removed = removed_by_others(missing, observation.touched_keys, observation.configs)
    is_lowered = rate < approved_rate
    links = tuple(_links(base, observation, moving, is_lowered=is_lowered))
    arrived_bytes = {str(m.topic_partition): _arrived_bytes(m, observation, base) for m in moving}
    progress = _progress(plan, by_state, arrived_bytes, observation)
    run_progress = RunProgress(
        observed_at=observation.observed_at,
        progress=progress,
        rate_bytes_per_second=rate,
        links=links,
        arrived_bytes=arrived_bytes,
        seconds_left=_seconds_left(by_state, observation, rate),
        back_off_level=back_off.level,
        has_isr_loss=back_off.has_isr_loss,
        isr_loss_changed_at=back_off.changed_at,
        throttle_gaps=base.throttle_gaps + bool(removed),
        unthrottled_observations=base.unthrottled_observations + 1 if missing else 0,
        is_cancelling=base.is_cancelling,
        conditions_since=find_conditions(base, by_state, observation),
        under_replicated_at_start=base.under_replicated_at_start,
        unavailable_at_start=base.unavailable_at_start,
    )
    run_progress = replace(run_progress, readings=kept_readings(observation))
    return _with_progress_conditions(previous, run_progress, observation, is_lowered=is_lowered)


def _without_unobserved_time(previous: RunProgress, now: datetime) -> RunProgress:
    """Return the progress before as if only observed time had passed: who did not look does not
    know that a broker was dead all the while.

    Nor has time gone back where the clock of this process is behind that of the one before: what
    has lasted for 10 min has lasted for 10 min.
    """
    passed = now - previous.observed_at
    observed = min(max(passed, timedelta(0)), _MAX_TIME_BETWEEN_OBSERVATIONS)
    shift = passed - observed
    if not shift:
        return previous
    conditions = {name: at + shift for name, at in previous.conditions_since.items()}
    links = tuple(
        replace(link, last_progress_at=link.last_progress_at + shift) for link in previous.links
    )
    loss_since = previous.isr_loss_changed_at and previous.isr_loss_changed_at + shift
    return replace(
        previous, conditions_since=conditions, links=links, isr_loss_changed_at=loss_since
    )


def _with_progress_conditions(
    previous: RunProgress | None,
    run_progress: RunProgress,
    observation: Observation,
    *,
    is_lowered: bool,
) -> RunProgress:
    """Return the progress with since when nothing moves, and which links lose ground.

    Where what has arrived is not known, it is not known either whether anything moves.
    """
    if previous is None:
        return run_progress
    names = []
    if is_lowered and not observation.unmeasured_broker_ids:
        names += [name_of_slowed(link.name) for link in _losing_links(previous, run_progress)]
    if not _has_progressed(previous, run_progress):
        names += [name for name in previous.conditions_since if name.startswith(DECIDED)]
        names += [] if observation.unmeasured_broker_ids else [NO_PROGRESS]
    conditions = dict(run_progress.conditions_since)
    conditions |= since(previous, names, observation.observed_at)
    return replace(run_progress, conditions_since=conditions)


def _has_progressed(previous: RunProgress, run_progress: RunProgress) -> bool:
    """Return whether a move began or ended, bytes arrived, or a leader was elected."""
    arrived_before = previous.arrived_bytes
    has_more_bytes = any(
        size_bytes > arrived_before.get(partition, 0)
        for partition, size_bytes in run_progress.arrived_bytes.items()
    )
    return has_more_bytes or previous.progress != run_progress.progress


def _losing_links(previous: RunProgress, run_progress: RunProgress) -> list[Link]:
    """Return the links with no fewer bytes left than at the observation before."""
    bytes_before = {link.name: link.bytes_left for link in previous.links}
    return [
        link
        for link in run_progress.links
        if link.bytes_left and link.bytes_left >= bytes_before.get(link.name, link.bytes_left + 1)
    ]


def _first_progress(plan: RebalancePlan, observation: Observation) -> RunProgress:
    return RunProgress(
        observed_at=observation.observed_at,
        progress=Progress(
            moves_done=0,
            moves_total=len(plan.moves),
            moves_in_flight=0,
            copied_bytes=0,
            total_bytes=plan.copied_bytes,
            elections_left=0,
        ),
        under_replicated_at_start=tuple(observation.conditions.under_replicated),
        unavailable_at_start=observation.conditions.unavailable_partitions,
    )


def rate_in_force(
    observation: Observation, limits: MovementPolicy, wanted_rate: int, back_off_level: int
) -> int:
    """Return bytes per second: the wanted rate, lowered where it has to be.

    The time of day lowers it, and each level of the back-off halves it, down to the policy's lowest
    rate: 20 MB/s at level 2 is 5 MB/s. A default of all brokers is somebody else's limit: where it
    is lower, it holds.
    """
    rate = min(wanted_rate, rate_at(limits, observation.observed_at) or wanted_rate)
    default = default_rate(observation.configs)
    rate = rate if default is None else min(rate, default)
    lowest_rate = min(rate, limits.throttle_back_off.lowest_rate_bytes_per_second)
    return max(lowest_rate, rate >> back_off_level)


def stalled_links(
    run_progress: RunProgress, limits: MovementPolicy, patience_factor: int = 1
) -> tuple[Link, ...]:
    """Return the links without progress for `patience_factor` times the policy's patience."""
    patience = patience_factor * limits.stall_patience
    return tuple(
        link
        for link in run_progress.links
        if link.moves and run_progress.observed_at - link.last_progress_at >= patience
    )


def ends_soon(run_progress: RunProgress) -> bool:
    """Return whether the last copies are about to arrive, or to be completed by Kafka.

    A throttled follower fetches, and then waits for a second or more: that nothing arrives between
    two observations says little, that nothing moves for some seconds does. Where what has arrived
    is not known, neither is the end.
    """
    is_measured = all(
        str(link.broker_id) in run_progress.readings.log_dirs for link in run_progress.links
    )
    if not run_progress.progress.moves_in_flight or not is_measured:
        return False
    now = run_progress.observed_at
    is_still = now - run_progress.conditions_since.get(NO_PROGRESS, now) >= _STILL_AFTER
    return not is_still and (run_progress.seconds_left or 0) <= _SOON_SECONDS


@dataclass(frozen=True, slots=True)
class _BackOff:
    level: int  # how often the rate is halved
    has_isr_loss: bool
    changed_at: datetime


def _back_off(
    base: RunProgress,
    observation: Observation,
    moving: Iterable[Move],
    policy: ThrottleBackOffPolicy,
    approved_rate: int,
) -> _BackOff:
    """Return the back-off: one level up after a time with ISR loss, one down after a time without.

    ISR loss: a partition outside the plan has lost an in-sync replica since the run began, and its
    leader is a broker that copies are read from, so that the copies may be the cause.
    """
    now = observation.observed_at
    sources = {observation.leader_of(move) for move in moving}
    has_isr_loss = any(
        leader in sources and partition not in base.under_replicated_at_start
        for partition, leader in observation.conditions.under_replicated.items()
    )
    if has_isr_loss != base.has_isr_loss:
        return _BackOff(base.back_off_level, has_isr_loss, now)
    since = base.isr_loss_changed_at or now
    is_at_lowest_rate = approved_rate >> base.back_off_level <= policy.lowest_rate_bytes_per_second
    if has_isr_loss and not is_at_lowest_rate and now - since >= policy.step_after:
        return _BackOff(base.back_off_level + 1, True, now)
    if not has_isr_loss and base.back_off_level and now - since >= policy.calm_after:
        return _BackOff(base.back_off_level - 1, False, now)
    return _BackOff(base.back_off_level, has_isr_loss, since)


def _links(
    base: RunProgress, observation: Observation, moving: Iterable[Move], *, is_lowered: bool
) -> Iterator[Link]:
    """Yield each direction of each broker that copies, with its bytes and since when it is stuck.

    A link that had 50 MB left at 12:00:00, its least, and has 60 MB at 12:00:10 has made no
    progress: its `last_progress_at` stays 12:00:00. It begins anew whenever one of its moves begins
    or ends, and where what has arrived is not known.
    """
    copies_by_link = grouped(
        ((broker_id, sends), (move, destination))
        for move in moving
        if (leader := observation.leader_of(move)) is not None  # else it waits for a leader
        for destination in observation.adding_replicas(move)
        for broker_id, sends in ((destination, False), (leader, True))
    )
    links_before = {(link.broker_id, link.sends): link for link in base.links}
    for (broker_id, sends), copies in sorted(copies_by_link.items()):
        link = _new_link(base, observation, broker_id, sends, copies)
        before = links_before.get((broker_id, sends))
        if before is not None and _has_same_copies(base, observation, before, copies):
            link = _followed(link, before, is_lowered=is_lowered)
        yield link


def _new_link(
    base: RunProgress,
    observation: Observation,
    broker_id: int,
    sends: bool,
    copies: list[tuple[Move, int]],
) -> Link:
    """Return a link as if its moves began now.

    Copies without a leader, and those of unknown size, are not counted as stuck.
    """
    bytes_left = 0
    known_bytes_left = 0
    for move, destination in copies:
        arrived_before = base.arrived_bytes.get(str(move.topic_partition), 0)
        missing_bytes = observation.bytes_to_copy(move, destination)
        has_leader = observation.leader_of(move) is not None
        if destination in observation.partitions[move.topic_partition].description.isr:
            missing_bytes = 0  # it follows its leader, and waits for another replica
        elif has_leader and observation.is_measured(move):
            known_bytes_left += missing_bytes
        else:
            missing_bytes = max(0, missing_bytes - arrived_before)
        bytes_left += missing_bytes
    return Link(
        broker_id=broker_id,
        sends=sends,
        moves=len(copies),
        bytes_left=bytes_left,
        bytes_per_second=sum(observation.speed_of(*copy) for copy in copies),
        min_bytes_left=known_bytes_left,
        last_progress_at=observation.observed_at,
    )


def _has_same_copies(
    base: RunProgress, observation: Observation, before: Link, copies: list[tuple[Move, int]]
) -> bool:
    """Return whether a link copies what it copied before, and as much of that is known."""
    moves = [move for move, _ in copies]
    partitions = {str(move.topic_partition) for move in moves}
    if before.moves != len(copies) or not partitions <= base.arrived_bytes.keys():
        return False
    known_now = [observation.is_measured(move) for move in moves]
    known_before = [_was_measured(base, move, observation) for move in moves]
    return any(known_now) and known_now == known_before


def _was_measured(base: RunProgress, move: Move, observation: Observation) -> bool:
    """Return what `is_measured` said at the observation before, with the leader of now."""
    log_dirs = base.readings.log_dirs
    leader = log_dirs.get(str(observation.leader_of(move)))
    if leader is not None and str(move.topic_partition) not in leader.sizes:
        return False
    return log_dirs.keys() >= set(map(str, observation.copying_brokers(move)))


def _followed(link: Link, before: Link, *, is_lowered: bool) -> Link:
    """Return a link with since when it has made no progress.

    Progress are fewer bytes left; while we hold the rate below the approved one, any bytes that
    arrive, since producers may write more than that. With nothing left to copy it is not stuck: its
    moves wait for other replicas.
    """
    arrives = is_lowered and link.bytes_per_second > 0
    is_complete = not link.min_bytes_left
    if arrives or is_complete or link.min_bytes_left < before.min_bytes_left:
        return link
    return replace(
        link,
        min_bytes_left=before.min_bytes_left,
        last_progress_at=before.last_progress_at,
    )


def _arrived_bytes(move: Move, observation: Observation, base: RunProgress) -> int:
    """Return the bytes that the replicas being added have, all together; the last that is known."""
    if not observation.is_measured(move):
        return base.arrived_bytes.get(str(move.topic_partition), 0)
    return sum(
        observation.size_at(move, broker_id) or 0 for broker_id in observation.adding_replicas(move)
    )


def _progress(
    plan: RebalancePlan,
    by_state: MovesByState,
    arrived_bytes: Mapping[str, int],
    observation: Observation,
) -> Progress:
    done, moving = by_state[MoveState.DONE], by_state[MoveState.MOVING]
    done_bytes = sum(move.copied_bytes for move in done)
    copied_bytes = done_bytes + sum(
        min(move.copied_bytes, arrived_bytes[str(move.topic_partition)]) for move in moving
    )
    return Progress(
        moves_done=len(done),
        moves_total=len(plan.moves),
        moves_in_flight=len(moving),
        copied_bytes=copied_bytes,
        total_bytes=plan.copied_bytes,
        elections_left=sum(not observation.has_planned_leader(move) for move in done),
    )


def _seconds_left(by_state: MovesByState, observation: Observation, rate: int) -> int | None:
    """Return how long the busiest link needs at this rate; None where nothing is left to copy.

    Broker 4 receives 100 MB and 50 MB, broker 1 sends the 100 MB: 150 MB at 10 MB/s are 15 s.
    """
    states = (MoveState.MOVING, MoveState.PENDING, MoveState.CANCELLED)
    bytes_left: dict[tuple[int | None, bool], int] = {}
    for move in (move for state in states for move in by_state[state]):
        isr = observation.partitions[move.topic_partition].description.isr
        source = (observation.leader_of(move), True)
        for destination in move.adding:
            if destination in isr:
                continue
            missing_bytes = observation.bytes_to_copy(move, destination)
            for link in ((destination, False), source):
                bytes_left[link] = bytes_left.get(link, 0) + missing_bytes
    return round(max(bytes_left.values()) / rate) if bytes_left and rate else None
