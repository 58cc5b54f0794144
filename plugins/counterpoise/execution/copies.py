"""Copies in flight: how near each has come to its end, and since when no nearer; what each broker
sends and receives of them; how long they take yet; and what to do where they stall. Pure.

    best = best_progress(base, by_state, observation, progress)
    has_progressed(base.best, best)    # a move began, came nearer, ended, or a leader was elected
    stalled_copies(best, observation, moving)           # {Condition.STALLED: ...}
    find_links(best, base, observation, moving)
    stall_advice(names, moving, observation, rate)      # "check network and disk of ..."
    limit_of_others(moves, observation, rate)           # the lowest rate that somebody has set

Never against the observation before: bytes that producers write arrive without an end, and so do
leaders that are elected, lost and elected again.

Example: of orders-0 50 MB are left at 12:00:00, 60 MB at 12:00:10, 55 MB at 12:00:20: it has come
no nearer since 12:00:00, until fewer than 50 MB are left.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from counterpoise.execution.conditions import EXECUTE_AGAIN
from counterpoise.execution.observation import MovesByState, MoveState, Observation
from counterpoise.execution.throttling.targets import (
    broker_resource,
    default_rate,
    dynamic_value,
)
from counterpoise.model.grouping import grouped
from counterpoise.model.kafka import FOLLOWER_RATE, LEADER_RATE
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.run import Progress
from counterpoise.model.run_progress import (
    TRAIL_POINTS,
    Arrived,
    BestProgress,
    BrokerLoad,
    Condition,
    Conditions,
    Copy,
    Limit,
    Link,
    RunProgress,
    TrailPoint,
)
from counterpoise.model.words import list_brokers
from counterpoise.units import format_rate

# Over which bytes that arrived tell the speed: Kafka's quota has windows of 1 s, 11 of them.
_SPEED_OVER: Final = timedelta(minutes=5)
_SAMPLED_EVERY: Final = timedelta(seconds=30)
_LATE_AFTER: Final = timedelta(seconds=30)  # a follower that is throttled fetches now and then


def best_progress(
    base: RunProgress,
    by_state: MovesByState,
    observation: Observation,
    progress: Progress,
    *,
    is_lowered: bool,
) -> BestProgress:
    """Return the farthest that a run has come, this observation included."""
    before, now = base.best, observation.observed_at
    done = {str(move.topic_partition) for move in by_state[MoveState.DONE]}
    # One that is not in flight may be submitted again: its patience then begins anew.
    copies = {
        name: Copy(copy.bytes_left, now) for name, copy in before.copies.items() if name not in done
    }
    for move in by_state[MoveState.MOVING]:
        name = str(move.topic_partition)
        copies[name] = _nearest(before.copies.get(name), move, observation, is_lowered=is_lowered)
    elected = progress.moves_done - progress.elections_left + len(by_state[MoveState.GONE])
    return BestProgress(
        moves_done=max(before.moves_done, progress.moves_done),
        leaders_elected=max(before.leaders_elected, elected),
        copies=copies,
    )


def _nearest(
    before: Copy | None, move: Move, observation: Observation, *, is_lowered: bool
) -> Copy:
    """Return how near a move has come to its end, and since when no nearer.

    Any bytes count while we hold the rate below the approved one, since producers may write more
    than that; and where the destination is as large as its leader and not in sync, since the leader
    has compacted what the destination has not. A move that waits for another replica is in time,
    and so is one of which it is not known what has arrived.
    """
    now, left = observation.observed_at, _bytes_left(move, observation)
    if before is None:
        return Copy(move.copied_bytes if left is None else left, now)
    if left is None or not _unfinished(move, observation):
        return Copy(before.bytes_left if left is None else min(left, before.bytes_left), now)
    arrives = _speed(move, observation) > 0
    if left < before.bytes_left or (arrives and not left):
        return Copy(left, now)
    return Copy(before.bytes_left, now if arrives and is_lowered else before.nearer_at)


def _bytes_left(move: Move, observation: Observation) -> int | None:
    """Return what the replicas that are added still have to copy; None where that is not known.

    A replica in the ISR has copied all, however much producers write.
    """
    if observation.leader_of(move) is None or not observation.is_measured(move):
        return None
    return sum(observation.bytes_to_copy(move, b) for b in _unfinished(move, observation))


def _unfinished(move: Move, observation: Observation) -> list[int]:
    """Return the replicas that are added and not in sync yet."""
    isr = observation.partitions[move.topic_partition].description.isr
    return [b for b in observation.adding_replicas(move) if b not in isr]


def _speed(move: Move, observation: Observation) -> int:
    return sum(observation.speed_of(move, b) for b in observation.adding_replicas(move))


def has_progressed(before: BestProgress, best: BestProgress) -> bool:
    """Return whether a move began, came nearer to its end or ended, or a leader was elected."""
    return (
        best.moves_done > before.moves_done
        or best.leaders_elected > before.leaders_elected
        or any(
            name not in before.copies or copy.bytes_left < before.copies[name].bytes_left
            for name, copy in best.copies.items()
        )
    )


def is_anything_arriving(
    best: BestProgress, observation: Observation, moving: Iterable[Move]
) -> bool:
    """Return whether bytes have arrived of a copy since the observation before."""
    now = observation.observed_at
    return any(
        _speed(move, observation) or best.copies[str(move.topic_partition)].nearer_at == now
        for move in moving
        if _bytes_left(move, observation) is not None and _unfinished(move, observation)
    )


def stalled_copies(
    best: BestProgress, observation: Observation, moving: Iterable[Move]
) -> Conditions:
    """Return the copies that come no nearer to their end, with since when."""
    since = {
        name: best.copies[name].nearer_at
        for name in (str(move.topic_partition) for move in moving)
        if observation.observed_at - best.copies[name].nearer_at >= _LATE_AFTER
    }
    return {Condition.STALLED: since} if since else {}


# -- links


def find_links(
    best: BestProgress, base: RunProgress, observation: Observation, moving: Iterable[Move]
) -> tuple[Link, ...]:
    """Return what each broker sends and receives of the copies in flight."""
    copies_by_link = grouped(
        ((broker_id, sends), (move, destination))
        for move in moving
        if (leader := observation.leader_of(move)) is not None  # else it waits for a leader
        for destination in observation.adding_replicas(move)
        for broker_id, sends in ((destination, False), (leader, True))
    )
    return tuple(
        Link(
            broker_id=broker_id,
            sends=sends,
            moves=len(copies),
            bytes_left=sum(_left_of(copy, base, observation) for copy in copies),
            bytes_per_second=sum(observation.speed_of(*copy) for copy in copies),
            last_progress_at=max(
                best.copies[str(move.topic_partition)].nearer_at for move, _ in copies
            ),
        )
        for (broker_id, sends), copies in sorted(copies_by_link.items())
    )


def _left_of(copy: tuple[Move, int], base: RunProgress, observation: Observation) -> int:
    """Return what is left of a copy; where that is not known now, by what had arrived before."""
    move, destination = copy
    if destination not in _unfinished(move, observation):
        return 0
    arrived = 0
    if not observation.is_measured(move):
        arrived = base.arrived_bytes.get(str(move.topic_partition), 0)
    return max(0, observation.bytes_to_copy(move, destination) - arrived)


# -- the time that copies take yet


def arrivals(base: RunProgress, copied_bytes: int, now: datetime) -> tuple[Arrived, ...]:
    """Return how much had arrived when, over the last minutes, this observation included."""
    kept = [a for a in base.arrivals if now - a.at <= _SPEED_OVER]
    if kept and now - kept[-1].at < _SAMPLED_EVERY:
        return tuple(kept)
    return (*kept, Arrived(now, copied_bytes))


def with_point(trail: Sequence[TrailPoint], point: TrailPoint) -> tuple[TrailPoint, ...]:
    """Return the line of a run with what is known now: the newest point is always the last one.

    Of a full line every second point goes, so that it covers the whole run however long it takes.
    Example: of 120 points, one a minute, 60 are left, one every two minutes; until two minutes have
    passed, the newest point replaces the one before.
    """
    if len(trail) < 2:
        return (*trail, point)
    if len(trail) >= TRAIL_POINTS:
        trail = [*trail[:-1:2], trail[-1]]
    spacing = trail[1].at - trail[0].at
    kept = trail[:-1] if trail[-1].at - trail[-2].at < spacing else trail
    return (*kept, point)


def broker_loads(
    plan: RebalancePlan, by_state: MovesByState, observation: Observation
) -> tuple[BrokerLoad, ...]:
    """Return what each broker of the plan leads and holds now.

    Partitions outside the plan count as when it was made, and those of the plan that stand as
    before. Producers go on writing: a replica counts with the size that it has in the plan.
    """
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    held_bytes: Counter[int] = Counter()
    for move in by_state[MoveState.DONE]:
        for broker_id in move.adding:
            replicas[broker_id] += 1
            held_bytes[broker_id] += move.size_bytes
        for broker_id in move.removing:
            replicas[broker_id] -= 1
            held_bytes[broker_id] -= move.size_bytes
    for move in by_state[MoveState.MOVING]:
        for broker_id in observation.adding_replicas(move):
            arrived = observation.size_at(move, broker_id) or 0
            held_bytes[broker_id] += min(arrived, move.size_bytes)
    for state in (MoveState.DONE, MoveState.MOVING):
        for move in by_state[state]:
            leader = observation.leader_of(move)
            if leader is not None and leader != move.leader_before:
                leaders[leader] += 1
                leaders[move.leader_before] -= 1
    return tuple(
        BrokerLoad(
            figure.broker_id,
            figure.leaders_before + leaders[figure.broker_id],
            figure.replicas_before + replicas[figure.broker_id],
            figure.bytes_before + held_bytes[figure.broker_id],
        )
        for figure in plan.figures
    )


def seconds_left(
    by_state: MovesByState,
    observation: Observation,
    rate: int,
    arrived: Sequence[Arrived],
    progress: Progress,
) -> int | None:
    """Return how long the copies take yet; None where nothing is left to copy, or nothing arrives.

    At least as long as the busiest broker needs at its rate, and as all bytes need at the speed at
    which they have arrived over the last minutes. Broker 4 receives 100 MB and 50 MB, broker 1
    sends the 100 MB: 150 MB at 10 MB/s are 15 s.
    """
    states = (MoveState.MOVING, MoveState.PENDING, MoveState.CANCELLED)
    to_copy: Counter[tuple[int | None, str]] = Counter()
    for move in (move for state in states for move in by_state[state]):
        description = observation.partitions[move.topic_partition].description
        for destination in move.adding:
            if destination not in description.isr:
                missing_bytes = observation.bytes_to_copy(move, destination)
                to_copy[description.leader, LEADER_RATE] += missing_bytes
                to_copy[destination, FOLLOWER_RATE] += missing_bytes
    if not to_copy or not rate:
        return None
    by_rates = max(
        size_bytes / _rate_at(broker_id, key, rate, observation)
        for (broker_id, key), size_bytes in to_copy.items()
    )
    passed = (observation.observed_at - arrived[0].at) if arrived else timedelta(0)
    if passed < _SAMPLED_EVERY:
        return round(by_rates)
    speed = (progress.copied_bytes - arrived[0].copied_bytes) / passed.total_seconds()
    if speed <= 0:
        return None
    return round(max(by_rates, (progress.total_bytes - progress.copied_bytes) / speed))


def _rate_at(broker_id: int | None, key: str, rate: int, observation: Observation) -> int:
    """Return the rate that holds at a broker: somebody may have set a lower one there."""
    if broker_id is None:
        return rate
    value = dynamic_value(observation.configs, broker_resource(broker_id), key)
    return min(rate, int(value)) or 1 if value and value.isdecimal() else rate


# -- what there is to do where copies have stalled


def stall_advice(
    names: Collection[str], moving: Sequence[Move], observation: Observation, rate: int
) -> str:
    """Return what there is to do where copies of these partitions have stalled."""
    moves = [move for move in moving if str(move.topic_partition) in names]
    brokers = list_brokers(sorted({b for m in moves for b in observation.copying_brokers(m)}))
    default = default_rate(observation.configs)
    if default is not None and default <= rate:
        limit = (
            f"the cluster's default of the throttle rates is {format_rate(default)}, and no copy "
            "is faster: raise or delete it (`kafka-configs --entity-type brokers --entity-default`)"
        )
        return f"{limit}, then {EXECUTE_AGAIN}; or check network and disk of {brokers}"
    if lowest := limit_of_others(moves, observation, rate):
        return (
            f"{limit_in_words(lowest)}: raise or delete it (`kafka-configs --entity-type brokers "
            f"--entity-name {lowest.broker_id}`), then {EXECUTE_AGAIN}; or check network and disk "
            f"of {brokers}"
        )
    catching_up = _catching_up_beside(moves, moving, observation)
    and_replicas = (
        f", while replicas on {list_brokers(catching_up)} catch up under the same rate"
        if catching_up
        else ""
    )
    return (
        f"check network and disk of {brokers}. Or producers write faster than {format_rate(rate)} "
        f"lets through{and_replicas}: approve a higher rate (`counterpoise approve RUN --rate "
        f"RATE --reason TEXT`), then {EXECUTE_AGAIN}"
    )


def limit_in_words(limit: Limit) -> str:
    """Return which rate of somebody else holds copies back."""
    rate = format_rate(limit.bytes_per_second)
    return (
        f"{limit.key} of broker {limit.broker_id} was set to {rate} by somebody else, and no copy "
        "there is faster"
    )


def limit_of_others(moves: Iterable[Move], observation: Observation, rate: int) -> Limit | None:
    """Return the lowest rate below ours that somebody else has set where these moves copy."""
    configs = observation.configs
    own_rates = {
        (owned.resource_key, value)
        for owned in observation.owned_keys
        for value in owned.written
        if value != owned.before
    }
    limits = [
        (int(value), broker_id, key)
        for broker_id, key in _throttled_by(moves, observation)
        if (value := dynamic_value(configs, broker_resource(broker_id), key))
        and value.isdecimal()
        and int(value) < rate
        and ((broker_resource(broker_id), key), value) not in own_rates  # of before it was raised
    ]
    if not limits:
        return None
    lowest, broker_id, key = min(limits)
    return Limit(broker_id, key, lowest)


def _throttled_by(moves: Iterable[Move], observation: Observation) -> set[tuple[int, str]]:
    """Return each broker that these copies are read from or written to, with its key."""
    keys = set()
    for move in moves:
        keys |= {(b, FOLLOWER_RATE) for b in observation.adding_replicas(move)}
        if (leader := observation.leader_of(move)) is not None:
            keys.add((leader, LEADER_RATE))
    return keys


def _catching_up_beside(
    moves: Iterable[Move], moving: Iterable[Move], observation: Observation
) -> list[int]:
    """Return the brokers with replicas that catch up at the leaders of stalled copies."""
    leaders = {observation.leader_of(move) for move in moves}
    at_these = (move for move in moving if observation.leader_of(move) in leaders)
    return sorted({b for m in at_these for b in observation.kept_out_of_sync(m)})
