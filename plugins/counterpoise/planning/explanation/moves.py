"""Moves with their reasons, and the settings that a run of them will change.

    moves = moves_of(result)         # each with the measure that the change serves first

    a copy of a plan that evens out      RACKS, TRAFFIC, REPLICAS or BYTES (below)
    no copy, but another leader          LEADERS
    only another order or an election    PREFERRED

Goals that copy for one reason only (drain, repair ...) give that reason instead of the first four.
In plans that even out, the first of these that holds:

    racks      the partition is on more racks than before
    traffic    it was moved, or moved on, to even traffic out
    replicas   a link of a path from a broker that ends up with fewer replicas to one that held at
               least two fewer and ends up with more
    bytes      all others: brokers exchange replicas, and no count changes

Worked example: brokers 1, 2 and 3 (new) hold 3, 3 and 0 replicas. Partition a goes from broker 1 to
2, b from 2 to 3, c from 2 to 3. The path 1, 2, 3 and the path 2, 3 take one replica each from
brokers that held three, so all three moves are for replicas; that a goes to a broker which held as
many does not matter. Were there also d from 1 to 2 and e from 2 to 1, these two would be for bytes.
Where several paths would do, one is chosen, the shortest first.

    settings_before(snapshot.throttles, moves)
    # (SettingBefore(ConfigResourceType.BROKER, "4", FOLLOWER_RATE, "20000000"),)

Those are the throttle keys that are set already where the copies will throttle: what a run restores
in the end. Limits: as of the snapshot; a run reads the keys again before it sets them, and its
ledger has what it found.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from counterpoise.model.columns import Flags, Ints
from counterpoise.model.kafka import EVERY_BROKER, ConfigResourceType
from counterpoise.model.plan import Move, MoveReason, SettingBefore
from counterpoise.planning.arrays import ClusterArrays
from counterpoise.planning.planning_result import PlanningResult

_Arc: TypeAlias = tuple[int, int]  # from a broker to another


def moves_of(result: PlanningResult) -> tuple[Move, ...]:
    """Return the moves, by topic and partition."""
    cluster, assignment, topic_ids = result.cluster, result.assignment, result.snapshot.topic_ids
    planned = np.flatnonzero(assignment.is_in_plan)
    broker_ids = np.append(cluster.broker_ids, -1)
    rates = np.where(cluster.is_rate_known[planned], cluster.bytes_in[planned], -1)
    columns = (
        cluster.topics.take(planned).to_pylist(),
        cluster.numbers[planned].tolist(),
        _broker_ids_of(cluster, assignment.before[planned]),
        _broker_ids_of(cluster, assignment.replicas[planned]),
        broker_ids[cluster.leaders[planned]].tolist(),
        cluster.size_bytes[planned].tolist(),
        rates.tolist(),
        _reasons(result, planned),
        planned.tolist(),
    )
    gains = result.traffic_gains
    return tuple(
        Move(
            topic=topic,
            partition=number,
            topic_id=topic_ids.get(topic) or "",
            replicas_before=replicas_before,
            replicas_after=replicas_after,
            leader_before=leader,
            size_bytes=size_bytes,
            bytes_in_per_second=rate if rate >= 0 else None,
            why=reason,
            traffic_gain=gains.get(row) if reason is MoveReason.TRAFFIC else None,
        )
        for (
            topic,
            number,
            replicas_before,
            replicas_after,
            leader,
            size_bytes,
            rate,
            reason,
            row,
        ) in zip(*columns, strict=True)
    )


def settings_before(throttles: pa.Table, moves: Sequence[Move]) -> tuple[SettingBefore, ...]:
    """Return the keys of the brokers and topics of moves that copy, sorted.

    Any of the replicas before may be copied from. The default of all brokers is among them.
    """
    broker_ids: set[int] = set()
    topics: set[str] = set()
    for move in moves:
        adding = move.adding
        if adding:
            broker_ids.update(move.replicas_before, adding)
            topics.add(move.topic)
    brokers = {str(broker_id) for broker_id in broker_ids}
    if brokers:
        brokers.add(EVERY_BROKER.name)
    throttled = {ConfigResourceType.BROKER: brokers, ConfigResourceType.TOPIC: topics}
    found = []
    for row in throttles.to_pylist():
        resource_type, name = ConfigResourceType(row["resource_type"]), row["resource_name"]
        if name in throttled[resource_type]:
            found.append(SettingBefore(resource_type, name, row["key"], row["value"]))
    return tuple(sorted(found))


def _broker_ids_of(cluster: ClusterArrays, replicas: Ints) -> list[tuple[int, ...]]:
    """Return the broker ids of each row of replicas, without what fills it up."""
    counts = (replicas >= 0).sum(axis=1).tolist()
    rows = np.append(cluster.broker_ids, -1)[replicas].tolist()
    return [tuple(row[:count]) for row, count in zip(rows, counts, strict=True)]


def _reasons(result: PlanningResult, planned: Ints) -> list[MoveReason]:
    """Return one reason for each partition in the plan, in order."""
    cluster, assignment, copy_reason = result.cluster, result.assignment, result.goal.copy_reason
    if copy_reason in (MoveReason.DEMOTE, MoveReason.IMPORTED):
        return [copy_reason] * len(planned)
    is_leader_change = assignment.leaders[planned] != cluster.leaders_now[planned]
    leaders, preferred = MoveReason.LEADERS.value, MoveReason.PREFERRED.value
    reasons = np.where(is_leader_change, leaders, preferred).astype(object)
    is_copy = assignment.is_added[planned].any(axis=1)
    if copy_reason is None:
        reasons[is_copy] = [reason.value for reason in _evening_reasons(result, planned[is_copy])]
    else:
        counts_before = (assignment.before[planned] >= 0).sum(axis=1)
        counts_after = (assignment.replicas[planned] >= 0).sum(axis=1)
        reasons[is_copy | (counts_before != counts_after)] = copy_reason.value
    return [MoveReason(reason) for reason in reasons.tolist()]


# -- what each copy of a plan that evens out is for


def _evening_reasons(result: PlanningResult, copied: Ints) -> list[MoveReason]:
    """Return the reason of each partition that is copied."""
    assignment = result.assignment
    racks_gained = result.racks_missing(result.before) - result.racks_missing(result.after)
    is_for_racks = racks_gained[copied] > 0
    # In a row as many replicas come as go, so the pairs are in the same order.
    rows, columns = np.nonzero(assignment.is_removed[copied])
    sources = assignment.before[copied][rows, columns]
    destinations = assignment.replicas[copied][np.nonzero(assignment.is_added[copied])]
    is_for_traffic = np.isin(copied, list(result.traffic_gains))
    counts = result.before.counts.copy()
    of_racks = is_for_racks[rows]
    np.add.at(counts, sources[of_racks], -1)
    np.add.at(counts, destinations[of_racks], 1)
    is_for_counts = _serve_counts(counts, sources, destinations, ~of_racks)
    serves_counts = np.zeros(len(copied), dtype=np.bool_)
    serves_counts[rows[is_for_counts]] = True
    reasons = []
    flags = zip(is_for_racks.tolist(), serves_counts.tolist(), is_for_traffic.tolist(), strict=True)
    for for_racks, for_counts, for_traffic in flags:
        if for_racks:
            reasons.append(MoveReason.RACKS)
        elif for_traffic:
            reasons.append(MoveReason.TRAFFIC)
        else:
            reasons.append(MoveReason.REPLICAS if for_counts else MoveReason.BYTES)
    return reasons


def _serve_counts(counts: Ints, sources: Ints, destinations: Ints, is_open: Flags) -> Flags:
    """Return which of the open moves are links of paths that make counts more even."""
    arcs = list(zip(sources.tolist(), destinations.tolist(), strict=True))
    moves = Counter(arc for arc, may_serve in zip(arcs, is_open.tolist(), strict=True) if may_serve)
    serving = _paths(counts.tolist(), moves)
    is_serving = np.zeros(len(arcs), dtype=np.bool_)
    for number in np.flatnonzero(is_open).tolist():
        if serving[arcs[number]] > 0:
            serving[arcs[number]] -= 1
            is_serving[number] = True
    return is_serving


def _paths(counts: list[int], moves: Counter[_Arc]) -> Counter[_Arc]:
    """Return, for each arc, how many of its moves are on paths that make counts more even."""
    surplus: Counter[int] = Counter()
    for (tail, head), number in moves.items():
        surplus[tail] += number
        surplus[head] -= number
    serving: Counter[_Arc] = Counter()
    remaining = +moves
    heads: dict[int, list[int]] = {}
    for tail, head in sorted(remaining):
        heads.setdefault(tail, []).append(head)
    sources = [broker for broker, number in surplus.items() if number > 0]
    sources.sort(key=lambda broker: (-counts[broker], broker))
    for source in sources:
        while surplus[source] > 0:
            path = _shortest_path(remaining, heads, surplus, source)
            destination = path[-1]
            links = list(pairwise(path))
            number = min(
                surplus[source], -surplus[destination], *(remaining[link] for link in links)
            )
            gaining = max(0, min(number, (counts[source] - counts[destination]) // 2))
            for link in links:
                serving[link] += gaining
                remaining[link] -= number
            for broker, change in ((source, -number), (destination, number)):
                counts[broker] += change
                surplus[broker] += change
    return serving


def _shortest_path(
    remaining: Counter[_Arc], heads: Mapping[int, Sequence[int]], surplus: Counter[int], source: int
) -> list[int]:
    """Return the brokers of a path to one that ends up with more replicas; there is always one."""
    came_from, layer = {source: source}, [source]
    while layer:
        reached = []
        for broker in layer:
            for other in heads.get(broker, ()):
                if other not in came_from and remaining[broker, other]:
                    came_from[other] = broker
                    reached.append(other)
        for broker in reached:
            if surplus[broker] < 0:
                path = [broker]
                while path[-1] != source:
                    path.append(came_from[path[-1]])
                return path[::-1]
        layer = reached
    raise AssertionError(f"broker {source} gives more than it gets, and nobody gets it")
