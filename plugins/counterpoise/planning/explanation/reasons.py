"""What each copy of a plan that evens a cluster out is for.

    reasons = evening_reasons(result, copied)      # one for each of these partitions

    racks      the partition is on more racks than before
    traffic    of the others: what was moved, or moved on, to even traffic out
    replicas   of the others: a link of a path from a broker that ends up with fewer replicas to one
               that held at least two fewer and ends up with more
    bytes      all others: brokers exchange replicas, and no count changes

Worked example: brokers 1, 2 and 3 (new) hold 3, 3 and 0 replicas. Partition a goes from broker 1 to
2, b from 2 to 3, c from 2 to 3. The path 1, 2, 3 and the path 2, 3 take one replica each from
brokers that held three, so all three moves are for replicas; that a goes to a broker which held as
many does not matter. Were there also d from 1 to 2 and e from 2 to 1, these two would be for bytes.

Limits: where several paths would do, one is chosen, the shortest first.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from counterpoise.model.columns import Flags, Ints
from counterpoise.model.plan import MoveReason
from counterpoise.planning.explanation.planning_result import PlanningResult

_Arc: TypeAlias = tuple[int, int]  # from a broker to another


def evening_reasons(result: PlanningResult, copied: Ints) -> list[MoveReason]:
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
    left = +moves
    heads: dict[int, list[int]] = {}
    for tail, head in sorted(left):
        heads.setdefault(tail, []).append(head)
    sources = sorted((b for b in surplus if surplus[b] > 0), key=lambda b: (-counts[b], b))
    for source in sources:
        while surplus[source] > 0:
            path = _shortest_path(left, heads, surplus, source)
            destination = path[-1]
            links = list(pairwise(path))
            number = min(surplus[source], -surplus[destination], *(left[link] for link in links))
            gaining = max(0, min(number, (counts[source] - counts[destination]) // 2))
            for link in links:
                serving[link] += gaining
                left[link] -= number
            for broker, change in ((source, -number), (destination, number)):
                counts[broker] += change
                surplus[broker] += change
    return serving


def _shortest_path(
    left: Counter[_Arc], heads: Mapping[int, Sequence[int]], surplus: Counter[int], source: int
) -> list[int]:
    """Return the brokers of a path to one that ends up with more replicas; there is always one."""
    came_from, layer = {source: source}, [source]
    while layer:
        reached = []
        for broker in layer:
            for other in heads.get(broker, ()):
                if other not in came_from and left[broker, other]:
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
