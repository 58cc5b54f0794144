"""The progress of a run, from one observation to the next. Pure.

    run_progress = update_progress(previous, observation, by_state, plan, limits, approved_rate)

It remembers what one observation cannot show: since when a link makes no progress, a broker is
dead, or partitions outside the plan lack in-sync replicas.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain

from counterpoise.execution.back_off import (
    find_back_off,
    lagging_replicas,
    rate_in_force,
    still_in_trouble,
    still_out_of_sync,
)
from counterpoise.execution.conditions import MAX_SUBJECTS, TABLE, of, replica
from counterpoise.execution.copies import (
    arrivals,
    best_progress,
    broker_loads,
    find_links,
    has_progressed,
    is_anything_arriving,
    seconds_left,
    stalled_copies,
    with_point,
)
from counterpoise.execution.observation import MovesByState, MoveState, Observation
from counterpoise.execution.throttling.targets import (
    missing_changes,
    removed_by_others,
    wanted_throttles,
    without_own_rates,
)
from counterpoise.model.grouping import grouped
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.policy import MovementPolicy
from counterpoise.model.reassignment import changes_replica_set
from counterpoise.model.run import Progress
from counterpoise.model.run_progress import (
    Activity,
    Condition,
    Conditions,
    Copy,
    Readings,
    RunProgress,
    TrailPoint,
)
from counterpoise.model.words import name_brokers

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
    wanted_rate, highest_rate = _wanted_rates(observation, approved_rate, max_rate)
    back_off = find_back_off(base, observation, moving, limits, wanted_rate)
    rate = rate_in_force(observation, limits, wanted_rate, back_off.level)
    former_rate = base.rate_bytes_per_second or rate
    is_unthrottled, is_gap = _lacks_throttle(moving, observation, former_rate)
    is_lowered = rate < highest_rate
    arrived_bytes = {str(m.topic_partition): _arrived_bytes(m, observation, base) for m in moving}
    progress = _progress(plan, by_state, arrived_bytes, observation)
    best = best_progress(base, by_state, observation, progress, is_lowered=is_lowered)
    arrived = arrivals(base, progress.copied_bytes, observation.observed_at)
    links = find_links(best, base, observation, moving)
    point = TrailPoint(
        observation.observed_at,
        progress.copied_bytes,
        sum(link.bytes_per_second for link in links if not link.sends),
        rate,
    )
    run_progress = RunProgress(
        observed_at=observation.observed_at,
        progress=progress,
        rate_bytes_per_second=rate,
        links=links,
        arrived_bytes=arrived_bytes,
        arrivals=arrived,
        trail=with_point(base.trail, point),
        brokers=broker_loads(plan, by_state, observation),
        best=best,
        seconds_left=seconds_left(by_state, observation, rate, arrived, progress),
        limit=base.limit,
        back_off_level=back_off.level,
        has_isr_loss=back_off.has_isr_loss,
        isr_loss_changed_at=back_off.changed_at,
        election_attempts=_election_attempts(base, by_state, observation),
        throttle_gaps=base.throttle_gaps + (is_gap and not base.since(Condition.UNTHROTTLED)),
        is_cancelling=base.is_cancelling,
        activity=base.activity,
        conditions={
            **find_conditions(base, by_state, observation),
            **back_off.conditions,
            **stalled_copies(best, observation, moving),
            **(_lasts(base, Condition.UNTHROTTLED, observation) if is_unthrottled else {}),
        },
        under_replicated_at_start=still_out_of_sync(base, observation),
        unavailable_at_start=still_in_trouble(
            base.unavailable_at_start, {*observation.conditions.unavailable_partitions}
        ),
        readings=_kept_readings(observation),
    )
    if previous is None:
        return run_progress
    lasting = _without_progress(previous, run_progress, moving, observation)
    return replace(run_progress, conditions={**run_progress.conditions, **lasting})


def _lasts(base: RunProgress, condition: Condition, observation: Observation) -> Conditions:
    return {condition: since(base, condition, [""], observation.observed_at)}


def _election_attempts(
    base: RunProgress, by_state: MovesByState, observation: Observation
) -> Mapping[str, int]:
    """Return how often leaders were elected that do not lead yet, or took more than one attempt."""
    if not base.election_attempts:
        return {}
    done = by_state[MoveState.DONE]
    not_led = {str(m.topic_partition) for m in done if not observation.has_planned_leader(m)}
    return {
        name: count
        for name, count in base.election_attempts.items()
        if count > 1 or name in not_led
    }


def _wanted_rates(
    observation: Observation, approved_rate: int, max_rate: int | None
) -> tuple[int, int]:
    """Return the rate that is wanted now, and the highest one that was since the approval."""
    requests = observation.active_requests
    wanted, highest = (
        min(rate, max_rate or rate) if rate else approved_rate
        for rate in (requests.rate_bytes_per_second, requests.highest_rate_bytes_per_second)
    )
    return wanted, max(highest, approved_rate)


def _lacks_throttle(
    moving: Iterable[Move], observation: Observation, rate_bytes_per_second: int
) -> tuple[bool, bool]:
    """Return whether copies lack their throttle, and whether it was somebody else who removed it.

    Until a broker shows another rate they are throttled by the former one.
    """
    configs, owned_keys = observation.configs, observation.owned_keys
    throttles = wanted_throttles(moving, rate_bytes_per_second)
    missing = missing_changes(throttles, configs, owned_keys)
    unthrottled = without_own_rates(missing, owned_keys, configs)
    return bool(unthrottled), bool(removed_by_others(missing, owned_keys, configs))


def _without_unobserved_time(previous: RunProgress, now: datetime) -> RunProgress:
    """Return the progress before as if only observed time had passed: who did not look does not
    know that a broker was dead all the while.
    """
    shift = now - previous.observed_at - _MAX_TIME_BETWEEN_OBSERVATIONS
    if shift <= timedelta(0):
        return previous
    conditions = {
        condition: {subject: at + shift for subject, at in subjects.items()}
        for condition, subjects in previous.conditions.items()
    }
    copies = {
        name: Copy(copy.bytes_left, copy.nearer_at + shift)
        for name, copy in previous.best.copies.items()
    }
    loss_since = previous.isr_loss_changed_at and previous.isr_loss_changed_at + shift
    return replace(
        previous,
        conditions=conditions,
        best=replace(previous.best, copies=copies),
        arrivals=(),
        isr_loss_changed_at=loss_since,
    )


def _without_progress(
    previous: RunProgress,
    run_progress: RunProgress,
    moving: Iterable[Move],
    observation: Observation,
) -> dict[Condition, Mapping[str, datetime]]:
    """Return since when the run has made no progress, and since when nothing moves; and, whatever
    copies do, since when cancels have had no effect.

    Nothing moves where no link copies; where what has arrived is not known, that is not known
    either. It has lasted no longer than the replicas have been out of sync that the moves wait for
    now: when broker 3 is in sync again, broker 2 has a patience of its own.
    """
    now = run_progress.observed_at
    if has_progressed(previous.best, run_progress.best):
        are_fewer = run_progress.progress.moves_in_flight < previous.progress.moves_in_flight
        cancelling = previous.conditions.get(Condition.CANCELLING, {})
        return {Condition.CANCELLING: cancelling} if cancelling and not are_fewer else {}
    lasting = {c: previous.conditions[c] for c in previous.conditions if TABLE[c].is_decided}
    lasting[Condition.NO_PROGRESS] = since(previous, Condition.NO_PROGRESS, [""], now)
    is_copying = is_anything_arriving(run_progress.best, observation, moving)
    if is_copying or observation.unmeasured_broker_ids:
        return lasting
    out_of_sync_since = run_progress.conditions.get(Condition.OUT_OF_SYNC, {})
    waited_for_since = [out_of_sync_since[name] for name in kept_out_of_sync(moving, observation)]
    still_since = previous.since(Condition.COPYING) or now
    if waited_for_since:
        still_since = max(still_since, min(waited_for_since))
    return lasting | {Condition.COPYING: {"": still_since}}


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
        under_replicated_at_start=dict.fromkeys(lagging_replicas(observation), True),
        unavailable_at_start=dict.fromkeys(observation.conditions.unavailable_partitions, True),
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
    is_still = now - (run_progress.since(Condition.NO_PROGRESS) or now) >= _STILL_AFTER
    return not is_still and (run_progress.seconds_left or 0) <= _SOON_SECONDS


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


def _kept_readings(observation: Observation) -> Readings:
    """Return what the next observation need not ask again."""
    versions = observation.conditions.versions
    responsive = versions.keys() - observation.unresponsive_broker_ids
    return Readings(
        log_dirs={str(b): reading for b, reading in observation.log_dirs.items()},
        versions={str(b): versions[b] for b in responsive},
    )


# -- what of brokers and partitions a run has to wait for
#
# Example: broker 4 was missing at 12:00:10 and is missing at 12:00:20: its time stays 12:00:10;
# once it is back its name is gone.

_UNFINISHED = (MoveState.PENDING, MoveState.MOVING, MoveState.CANCELLED)


def find_conditions(
    base: RunProgress, by_state: MovesByState, observation: Observation
) -> dict[Condition, dict[str, datetime]]:
    """Return the brokers and partitions in trouble, with the time since when."""
    now = observation.observed_at
    found = ((c, since(base, c, names, now)) for c, names in _find(base, by_state, observation))
    return {condition: subjects for condition, subjects in found if subjects}


def since(
    base: RunProgress, condition: Condition, subjects: Iterable[str], now: datetime
) -> dict[str, datetime]:
    """Return since when a condition lasts of each of these: from now on where it is new."""
    lasting = base.conditions.get(condition, {})
    return {subject: lasting.get(subject, now) for subject in subjects}


def _find(
    base: RunProgress, by_state: MovesByState, observation: Observation
) -> Iterator[tuple[Condition, Iterable[str]]]:
    moving = by_state[MoveState.MOVING]  # each of these is waited for, or cancelled, for itself
    not_moving = [*by_state[MoveState.PENDING], *by_state[MoveState.CANCELLED]]

    def longest_lasting(condition: Condition, names: Iterable[str]) -> list[str]:
        lasting = base.conditions.get(condition, {})
        return sorted(names, key=lambda name: (name not in lasting, name))[:MAX_SUBJECTS]

    for condition, broker_ids in (
        (Condition.DEAD, dead_brokers(by_state, observation)),
        (Condition.UNRESPONSIVE, observation.unresponsive_broker_ids),
        (Condition.UNMEASURED, observation.unmeasured_broker_ids),
    ):
        yield condition, map(str, sorted(broker_ids))
    for condition, names, of_moving in (
        (Condition.UNAVAILABLE, unavailable_since_start(base, observation), ()),
        (
            Condition.LEADERLESS,
            _names(leaderless_moves(not_moving, observation)),
            _names(leaderless_moves(moving, observation)),
        ),
        (
            Condition.OUT_OF_SYNC,
            kept_out_of_sync(not_moving, observation),
            kept_out_of_sync(moving, observation),
        ),
        (
            Condition.LEADER_OUT_OF_SYNC,
            _leaders_out_of_sync(by_state[MoveState.DONE], observation),
            (),
        ),
    ):
        yield condition, chain(of_moving, longest_lasting(condition, names))


def _names(moves: Iterable[Move]) -> Iterator[str]:
    return (str(move.topic_partition) for move in moves)


def unavailable_since_start(base: RunProgress, observation: Observation) -> list[str]:
    """Return the partitions outside the plan that have come to take no writes since it began."""
    unavailable = set(observation.conditions.unavailable_partitions)
    return sorted(unavailable - base.unavailable_at_start.keys())


def different_versions(observation: Observation) -> Activity | None:
    """Return what shows that a rolling upgrade is under way; None when all live brokers are
    alike.
    """
    versions = sorted(observation.conditions.versions.items())
    ids_by_version = grouped((reading.version, broker_id) for broker_id, reading in versions)
    if len(ids_by_version) <= 1:
        return None
    groups = " and ".join(map(name_brokers, ids_by_version.values()))
    return of(Condition.DIFFERENT_VERSIONS, detail=groups)


def leaderless_moves(moves: Iterable[Move], observation: Observation) -> list[Move]:
    """Return those of unfinished moves that have no leader to copy from."""
    leaderless = observation.leaderless
    if not leaderless:
        return []
    return [move for move in moves if move.topic_partition in leaderless and move.adding]


def kept_out_of_sync(moves: Iterable[Move], observation: Observation) -> Iterator[str]:
    """Yield each replica that a move keeps, on a live broker and not in sync."""
    out_of_sync = observation.with_replicas_out_of_sync
    for move in moves:
        is_moving = observation.partitions[move.topic_partition].reassignment is not None
        if is_moving or move.topic_partition in out_of_sync:
            for broker_id in observation.kept_out_of_sync(move):
                yield replica(move.topic_partition, broker_id)


def _leaders_out_of_sync(done: Iterable[Move], observation: Observation) -> Iterator[str]:
    out_of_sync = observation.with_replicas_out_of_sync
    for move in done:
        if move.topic_partition not in out_of_sync:
            continue
        preferred_leader = move.replicas_after[0]
        isr = observation.partitions[move.topic_partition].description.isr
        is_live = preferred_leader in observation.live_broker_ids
        if is_live and preferred_leader not in isr:
            yield replica(move.topic_partition, preferred_leader)


def dead_brokers(by_state: MovesByState, observation: Observation) -> set[int]:
    """Return the brokers that the rest of the plan needs, and that are not live."""
    states = (*_UNFINISHED, MoveState.DONE)
    targets = {move.replicas_after for state in states for move in by_state[state]}
    if observation.live_broker_ids.issuperset(chain.from_iterable(targets)):
        return set()
    remaining = [move for state in _UNFINISHED for move in by_state[state]]
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
