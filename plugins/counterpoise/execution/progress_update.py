"""From one look to the next: the pulse of a run, folded from the pulse before and from what is seen
now. Pure.

    pulse = beat(previous, seen, by_state, plan, limits, approved_rate)

It remembers what one look cannot know: since when a link copies nothing, a broker is dead, or
clients suffer.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from counterpoise.execution.observation import MoveState, Observation, States, changes_set
from counterpoise.execution.throttles import gaps, missing, wanted_throttles
from counterpoise.model.calendar import rate_at
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.policy import BrakePolicy, MovementPolicy
from counterpoise.model.run import Progress
from counterpoise.model.run_progress import Link, RunProgress

LAGGING = "replicas that are kept are not in sync"
UNLED = "partitions of the plan have no leader"
STOPPED = "partitions outside the plan take no writes"
_SOON_SECONDS = 15


def update_progress(
    previous: RunProgress | None,
    seen: Observation,
    by_state: States,
    plan: RebalancePlan,
    limits: MovementPolicy,
    approved_rate: int,
) -> RunProgress:
    """The pulse after this look. The first one of a run says how the cluster was when it began."""
    moving = by_state[MoveState.MOVING]
    base = previous or RunProgress(
        at=seen.now,
        progress=Progress(0, len(plan.moves), 0, 0, plan.copied_bytes, 0),
        short_at_start=tuple(seen.around.short),
        stopped_at_start=seen.around.stopped,
    )
    brake = _brake(base, seen, moving, limits.brakes, approved_rate)
    rate = rate_in_force(seen, limits, approved_rate, brake.steps)
    links = tuple(_links(base, seen, moving))
    target = wanted_throttles(moving, base.rate_bytes_per_second or rate)
    lacking = missing(target, seen.configs, seen.touched)
    return RunProgress(
        at=seen.now,
        progress=_progress(plan, by_state, seen),
        rate_bytes_per_second=rate,
        links=links,
        copied={str(m.topic_partition): _arrived(m, seen) for m in moving},
        seconds_left=_seconds_left(
            [*moving, *by_state[MoveState.PENDING], *by_state[MoveState.CANCELLED]], seen, rate
        ),
        brake=brake.steps,
        is_hurting=brake.is_hurting,
        hurting_changed_at=brake.changed_at,
        gaps=base.gaps + bool(gaps(lacking, seen.touched, seen.configs)),
        unthrottled_looks=base.unthrottled_looks + 1 if lacking else 0,
        is_cancelling=base.is_cancelling,
        troubles=_troubles(base, by_state, seen),
        short_at_start=base.short_at_start,
        stopped_at_start=base.stopped_at_start,
    )


def rate_in_force(seen: Observation, limits: MovementPolicy, approved_rate: int, brake: int) -> int:
    """Bytes per second: what was asked for last, else approved; lowered by the time of day and by
    the brakes.
    """
    rate = seen.standing.rate_bytes_per_second or approved_rate
    rate = min(rate, rate_at(limits, seen.now) or rate)
    floor = min(rate, limits.brakes.lowest_rate_bytes_per_second)
    return max(floor, rate >> brake)


def stalled_links(
    run_progress: RunProgress, limits: MovementPolicy, times: int = 1
) -> tuple[Link, ...]:
    """Links on which nothing has become less for `times` the patience."""
    return tuple(
        k
        for k in run_progress.links
        if k.moves and run_progress.at - k.fell_at >= times * limits.stall_patience
    )


@dataclass(frozen=True, slots=True)
class _Brake:
    steps: int
    is_hurting: bool
    changed_at: datetime


def ends_soon(run_progress: RunProgress) -> bool:
    """Whether the last copies are about to arrive. Where nothing is copied, there is no telling."""
    return (
        run_progress.seconds_left is not None
        and run_progress.seconds_left <= _SOON_SECONDS
        and run_progress.bytes_per_second > 0
    )


def _brake(
    base: RunProgress,
    seen: Observation,
    moving: Iterable[Move],
    policy: BrakePolicy,
    approved_rate: int,
) -> _Brake:
    sources = {seen.leader_of(move) for move in moving}
    known = set(base.short_at_start)
    hurts = any(
        leader in sources and name not in known for name, leader in seen.around.short.items()
    )
    since = base.hurting_changed_at or seen.now
    if hurts != base.is_hurting:
        return _Brake(base.brake, hurts, seen.now)
    at_floor = approved_rate >> base.brake <= policy.lowest_rate_bytes_per_second
    if hurts and not at_floor and seen.now - since >= policy.step_after:
        return _Brake(base.brake + 1, True, seen.now)
    if not hurts and base.brake and seen.now - since >= policy.calm_after:
        return _Brake(base.brake - 1, False, seen.now)
    return _Brake(base.brake, hurts, since)


def _links(base: RunProgress, seen: Observation, moving: Iterable[Move]) -> Iterable[Link]:
    before = {(link.broker_id, link.sends): link for link in base.links}
    by_link: dict[tuple[int, bool], list[tuple[Move, int]]] = {}
    for move in moving:
        for destination in seen.arriving(move):
            by_link.setdefault((destination, False), []).append((move, destination))
            if (leader := seen.leader_of(move)) is not None:
                by_link.setdefault((leader, True), []).append((move, destination))
    seconds = (seen.now - base.at).total_seconds()
    for (broker_id, sends), copies in sorted(by_link.items()):
        left = sum(seen.left_to_copy(move, destination) for move, destination in copies)
        names = {str(move.topic_partition) for move, _ in copies}
        copied = sum(
            max(0, _arrived(m, seen) - base.copied.get(str(m.topic_partition), 0))
            for m, _ in copies
        )
        known = before.get((broker_id, sends))
        is_as_before = (
            known is not None and known.moves == len(copies) and names <= base.copied.keys()
        )
        fell = known is None or not is_as_before or left < known.least_left
        yield Link(
            broker_id=broker_id,
            sends=sends,
            moves=len(copies),
            bytes_left=left,
            bytes_per_second=round(copied / seconds) if seconds > 0 else 0,
            least_left=left if known is None or not is_as_before else min(left, known.least_left),
            fell_at=seen.now if fell or known is None else known.fell_at,
        )


def _arrived(move: Move, seen: Observation) -> int:
    return sum(seen.sizes.get((move.topic_partition, b), 0) for b in seen.arriving(move))


def _progress(plan: RebalancePlan, by_state: States, seen: Observation) -> Progress:
    done, moving = by_state[MoveState.DONE], by_state[MoveState.MOVING]
    copied = sum(move.copied_bytes for move in done)
    copied += sum(min(move.copied_bytes, _arrived(move, seen)) for move in moving)
    return Progress(
        moves_done=len(done),
        moves_total=len(plan.moves),
        moves_in_flight=len(moving),
        copied_bytes=copied,
        total_bytes=plan.copied_bytes,
        elections_left=sum(not seen.is_led_as_planned(move) for move in done),
    )


def _seconds_left(unfinished: Iterable[Move], seen: Observation, rate: int) -> int | None:
    left: dict[tuple[int | None, bool], int] = {}
    for move in unfinished:
        for destination in move.adding:
            if destination in seen.partitions[move.topic_partition].description.isr:
                continue
            missing_bytes = seen.left_to_copy(move, destination)
            for link in ((destination, False), (seen.leader_of(move), True)):
                left[link] = left.get(link, 0) + missing_bytes
    return round(max(left.values()) / rate) if left and rate else None


def _troubles(base: RunProgress, by_state: States, seen: Observation) -> dict[str, datetime]:
    present = [f"broker {b} is dead" for b in sorted(dead_brokers(by_state, seen))]
    if set(seen.around.stopped) - set(base.stopped_at_start):
        present.append(STOPPED)
    pending = [*by_state[MoveState.PENDING], *by_state[MoveState.CANCELLED]]
    if any(m.adding and seen.leader_of(m) is None for m in (*pending, *by_state[MoveState.MOVING])):
        present.append(UNLED)
    if pending and not by_state[MoveState.MOVING] and all(seen.lagging(move) for move in pending):
        present.append(LAGGING)
    return {what: base.troubles.get(what, seen.now) for what in present}


def dead_brokers(by_state: States, seen: Observation) -> set[int]:
    """Brokers that the rest of the plan needs, and that are not live."""
    unfinished = (MoveState.PENDING, MoveState.MOVING, MoveState.CANCELLED, MoveState.STUCK)
    needing = [m for state in unfinished for m in by_state[state]]
    needing += [m for m in by_state[MoveState.DONE] if not seen.is_led_as_planned(m)]
    return {b for move in needing for b in _brokers_needed(move, seen)} - seen.live_broker_ids


def _brokers_needed(move: Move, seen: Observation) -> tuple[int, ...]:
    """The brokers without which a move cannot end. Those that a partition only moves away from may
    be dead.

    Where a replica comes or goes, every replica of the target has to be in sync in the end; an
    order changes at once, and only its new leader has to be there.
    """
    if changes_set(move) and seen.state_of(move) is not MoveState.DONE:
        return move.replicas_after
    return move.replicas_after[:1]
