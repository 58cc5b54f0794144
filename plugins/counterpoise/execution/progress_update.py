"""The progress of a run, from one observation to the next. Pure.

    run_progress = update_progress(previous, observation, by_state, plan, limits, approved_rate)

It remembers what one observation cannot show: since when a link makes no progress, a broker is
dead, or partitions outside the plan lack in-sync replicas.

Example of a back-off from an approved 20 MB/s, with the policy's 30 s: at 12:00:00 a partition
outside the plan loses an in-sync replica; at 12:00:30 it still lacks it, the rate is halved to
10 MB/s, at 12:01:00 to 5 MB/s. At 12:01:10 it is in sync again; 2 min later the rate doubles.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from counterpoise.execution.observation import (
    MovesByState,
    MoveState,
    Observation,
    changes_replica_set,
)
from counterpoise.execution.throttling.targets import (
    default_rate,
    missing_changes,
    removed_by_others,
    wanted_throttles,
)
from counterpoise.model.calendar import rate_at
from counterpoise.model.grouping import grouped
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.policy import MovementPolicy, ThrottleBackOffPolicy
from counterpoise.model.run import Progress
from counterpoise.model.run_progress import Link, RunProgress

# Kept in the ledger, with the time since when: the words of what a run waits for stay as they are.
OUT_OF_SYNC = "replicas that are kept are not in sync"
LEADERLESS = "partitions of the plan have no leader"
UNAVAILABLE = "partitions outside the plan take no writes"
_SOON_SECONDS = 15


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
    base = previous or _first_progress(plan, observation)
    back_off = _back_off(base, observation, moving, limits.throttle_back_off, approved_rate)
    requested_rate = observation.active_requests.rate_bytes_per_second
    wanted_rate = min(requested_rate, max_rate or requested_rate) if requested_rate else None
    rate = rate_in_force(observation, limits, wanted_rate or approved_rate, back_off.level)
    throttles = wanted_throttles(moving, base.rate_bytes_per_second or rate)
    missing = missing_changes(throttles, observation.configs, observation.touched_keys)
    removed = removed_by_others(missing, observation.touched_keys, observation.configs)
    return RunProgress(
        observed_at=observation.observed_at,
        progress=_progress(plan, by_state, observation),
        rate_bytes_per_second=rate,
        links=tuple(_links(base, observation, moving)),
        arrived_bytes={str(m.topic_partition): _arrived_bytes(m, observation) for m in moving},
        seconds_left=_seconds_left(by_state, observation, rate),
        back_off_level=back_off.level,
        has_isr_loss=back_off.has_isr_loss,
        isr_loss_changed_at=back_off.changed_at,
        throttle_gaps=base.throttle_gaps + bool(removed),
        unthrottled_observations=base.unthrottled_observations + 1 if missing else 0,
        is_cancelling=base.is_cancelling,
        conditions_since=_conditions(base, by_state, observation),
        under_replicated_at_start=base.under_replicated_at_start,
        unavailable_at_start=base.unavailable_at_start,
    )


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
    """Return whether the last copies are about to arrive; False where nothing is copied."""
    return (
        run_progress.seconds_left is not None
        and run_progress.seconds_left <= _SOON_SECONDS
        and run_progress.bytes_per_second > 0
    )


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


def _links(base: RunProgress, observation: Observation, moving: Iterable[Move]) -> Iterator[Link]:
    """Yield each direction of each broker that copies, with its bytes and since when it is stuck.

    A link that had 50 MB left at 12:00:00, its least, and has 60 MB at 12:00:10 has made no
    progress: its `last_progress_at` stays 12:00:00. It begins anew whenever one of its moves begins
    or ends.
    """
    copies_by_link = grouped(
        ((broker_id, sends), (move, destination))
        for move in moving
        for destination in observation.adding_replicas(move)
        for broker_id, sends in ((destination, False), (observation.leader_of(move), True))
        if broker_id is not None
    )
    links_before = {(link.broker_id, link.sends): link for link in base.links}
    for (broker_id, sends), copies in sorted(copies_by_link.items()):
        yield _link(
            base, observation, broker_id, sends, copies, links_before.get((broker_id, sends))
        )


def _link(
    base: RunProgress,
    observation: Observation,
    broker_id: int,
    sends: bool,
    copies: list[tuple[Move, int]],
    before: Link | None,
) -> Link:
    seconds = (observation.observed_at - base.observed_at).total_seconds()
    bytes_left = 0
    bytes_since = 0
    for move, destination in copies:
        bytes_left += observation.bytes_to_copy(move, destination)
        arrived_before = base.arrived_bytes.get(str(move.topic_partition), 0)
        bytes_since += max(0, _arrived_bytes(move, observation) - arrived_before)
    min_bytes_left, last_progress_at = bytes_left, observation.observed_at
    partitions = {str(move.topic_partition) for move, _ in copies}
    has_same_copies = (
        before is not None
        and before.moves == len(copies)
        and partitions <= base.arrived_bytes.keys()
    )
    if before is not None and has_same_copies and bytes_left >= before.min_bytes_left:
        min_bytes_left = before.min_bytes_left
        last_progress_at = before.last_progress_at
    return Link(
        broker_id=broker_id,
        sends=sends,
        moves=len(copies),
        bytes_left=bytes_left,
        bytes_per_second=round(bytes_since / seconds) if seconds > 0 else 0,
        min_bytes_left=min_bytes_left,
        last_progress_at=last_progress_at,
    )


def _arrived_bytes(move: Move, observation: Observation) -> int:
    """Return the bytes that the replicas being added have, all together."""
    return sum(
        observation.replica_bytes.get((move.topic_partition, broker_id), 0)
        for broker_id in observation.adding_replicas(move)
    )


def _progress(plan: RebalancePlan, by_state: MovesByState, observation: Observation) -> Progress:
    done, moving = by_state[MoveState.DONE], by_state[MoveState.MOVING]
    done_bytes = sum(move.copied_bytes for move in done)
    arrived_bytes = sum(
        min(move.copied_bytes, _arrived_bytes(move, observation)) for move in moving
    )
    return Progress(
        moves_done=len(done),
        moves_total=len(plan.moves),
        moves_in_flight=len(moving),
        copied_bytes=done_bytes + arrived_bytes,
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


def _conditions(
    base: RunProgress, by_state: MovesByState, observation: Observation
) -> dict[str, datetime]:
    """Return what is waited for, with the time since when it lasts."""
    present = [f"broker {b} is dead" for b in sorted(dead_brokers(by_state, observation))]
    if set(observation.conditions.unavailable_partitions) - set(base.unavailable_at_start):
        present.append(UNAVAILABLE)
    moving = by_state[MoveState.MOVING]
    pending = [*by_state[MoveState.PENDING], *by_state[MoveState.CANCELLED]]
    if any(move.adding and observation.leader_of(move) is None for move in (*pending, *moving)):
        present.append(LEADERLESS)
    if pending and not moving and all(observation.out_of_sync_replicas(m) for m in pending):
        present.append(OUT_OF_SYNC)
    return {name: base.conditions_since.get(name, observation.observed_at) for name in present}


def dead_brokers(by_state: MovesByState, observation: Observation) -> set[int]:
    """Return the brokers that the rest of the plan needs, and that are not live."""
    unfinished = (MoveState.PENDING, MoveState.MOVING, MoveState.CANCELLED, MoveState.STUCK)
    remaining = [move for state in unfinished for move in by_state[state]]
    remaining += [m for m in by_state[MoveState.DONE] if not observation.has_planned_leader(m)]
    needed = {b for move in remaining for b in _brokers_needed(move, observation)}
    return needed - observation.live_broker_ids


def _brokers_needed(move: Move, observation: Observation) -> tuple[int, ...]:
    """Return the brokers without which a move cannot end; those that it leaves may be dead.

    Where a replica is added or removed, every target replica has to be in sync in the end. A new
    order alone is taken at once, and only its preferred leader has to be live.
    """
    if changes_replica_set(move) and observation.state_of(move) is not MoveState.DONE:
        return move.replicas_after
    return move.replicas_after[:1]
