"""The exact choice: leaders per broker as even as the replica sets allow, with the fewest changes
of leader.

    leads = even_leaders(candidates)        # a broker per partition

A minimum-cost flow carries every leadership to a broker and on to the sink. At the broker each
further unit costs more, so the counts that come out are as even as any choice allows: no other
choice has a smaller maximum or a larger minimum. Costs are lexicographic: evenness, then changes of
leader, then changes of order. Weights of about twice the number of brokers per step are enough,
since an improving cycle of the flow passes each broker at most once.

What leads already starts at its broker, and partitions that could go from there to the same other
broker share a lane: few do, so a million partitions need no nodes of their own. Only those whose
present leader may not stay are nodes, one for all that have the same candidates and first replica.
A partition can take only one of its lanes, which the flow does not know. So its cost is a lower
bound, reached when partitions can be sent as it says. If not, it is solved again with each
partition on one lane only, which can always be followed; and if that costs more than the bound,
with a node for each partition. The choice is exact in any case.
"""

from dataclasses import dataclass

import numpy as np

from counterpoise.model.columns import NOBODY, Ints
from counterpoise.planning.leading.candidates import Candidates
from counterpoise.planning.water_filling import fill


@dataclass(frozen=True, slots=True, eq=False)
class _Groups:
    """Partitions that are alike to the flow: one node and one row each."""

    partitions: Ints
    # candidates; in the first column the first replica, if it is one: it costs no change of order
    rows: Ints
    leaders: Ints  # the present one, if it is a candidate
    sizes: Ints
    member_of: Ints  # the group of each of `partitions`


@dataclass(frozen=True, slots=True, eq=False)
class _Lanes:
    """Partitions that may stay where they lead, by where they could go instead and what that costs
    in order.
    """

    partitions: Ints  # lane by lane
    starts: Ints  # of each lane in `partitions`, and the end
    tails: Ints
    heads: Ints
    orders: Ints  # changes of order more than when it stays: -1, 0 or 1
    held: Ints  # per broker: how many may stay there


@dataclass(frozen=True, slots=True, eq=False)
class _Steps:
    """What further units cost at brokers: up to so many at that height."""

    brokers: Ints
    capacities: Ints
    heights: Ints


@dataclass(frozen=True, slots=True, eq=False)
class _Answer:
    leads: Ints
    cost: int
    arrivals: Ints  # per broker, at the sink
    sent: dict[int, int]  # by partition: the broker that a lane has brought it to
    is_sound: bool  # all could be sent as the flow asks


def even_leaders(candidates: Candidates) -> Ints:
    """The leader of each partition; the present one (or NOBODY) where it cannot be chosen.

    One at least can be.
    """
    may_stay = ((candidates.rows == candidates.present[:, None]) & (candidates.rows >= 0)).any(
        axis=1
    )
    staying, all_free = np.flatnonzero(may_stay), candidates.free
    lanes, groups = (
        _lanes(candidates, staying),
        _grouped(candidates, np.flatnonzero(candidates.is_free & ~may_stay)),
    )
    steps, answer = _cheapest(candidates, lanes, groups)
    if not answer.is_sound:
        bound, lanes = answer.cost, _lanes(candidates, staying, answer.sent)
        answer = _flow(candidates, lanes, groups, steps)
        if answer.cost > bound:
            lanes, groups = _lanes(candidates, all_free[:0]), _grouped(candidates, all_free)
            answer = _cheapest(candidates, lanes, groups)[1]
    return answer.leads


def _cheapest(candidates: Candidates, lanes: _Lanes, groups: _Groups) -> tuple[_Steps, _Answer]:
    """The steps that the brokers need, and the answer for them."""
    brokers, fixed = candidates.leading, candidates.present[~candidates.is_free]
    lower = np.bincount(fixed[fixed >= 0], minlength=candidates.broker_count)[brokers].astype(
        np.int64
    )
    able = candidates.rows[candidates.rows >= 0]
    upper = lower + np.bincount(able, minlength=candidates.broker_count)[brokers]
    shares = fill(len(candidates.free) + int(lower.sum()), lower, upper, lower)
    steps = _three_steps(brokers, lower, upper, shares)
    answer = _flow(candidates, lanes, groups, steps)
    if (np.sort(lower + answer.arrivals[brokers]) != np.sort(shares)).any():
        steps = _unit_steps(brokers, lower, upper)
        answer = _flow(candidates, lanes, groups, steps)
    return steps, answer


def _three_steps(brokers: Ints, lower: Ints, upper: Ints, shares: Ints) -> _Steps:
    """Up to a common level, one more, any more.

    They find the answer when all that keeps brokers from that level is how many partitions they can
    lead, or have to. Nothing could be more even than such shares.
    """
    level = int(shares[shares < upper].min(initial=int(shares.max())))
    capacities = np.concatenate([np.maximum(0, level - lower), lower <= level, upper - lower])
    return _Steps(
        np.tile(brokers, 3), capacities.astype(np.int64), np.repeat(np.arange(3), len(brokers))
    )


def _unit_steps(brokers: Ints, lower: Ints, upper: Ints) -> _Steps:
    """One for each further partition that a broker could lead, each dearer than the one before."""
    at_most = upper - lower
    starts = np.repeat(np.cumsum(at_most) - at_most, at_most)
    heights = np.repeat(lower, at_most) + np.arange(len(starts)) - starts
    return _Steps(np.repeat(brokers, at_most), np.ones(len(starts), dtype=np.int64), heights)


def _lanes(candidates: Candidates, partitions: Ints, sent: dict[int, int] | None = None) -> _Lanes:
    """All lanes of the partitions; or one of each: the one it was sent along, or else any, all
    about as often.
    """
    rows, leaders = candidates.rows[partitions], candidates.present[partitions]
    at, column = np.nonzero((rows >= 0) & (rows != leaders[:, None]))
    heads, tails, on = rows[at, column], leaders[at], partitions[at]
    if sent is not None:
        starts, sizes = np.unique(at, return_index=True, return_counts=True)[1:]
        wanted = np.full(len(candidates.rows), NOBODY)
        wanted[on[starts]] = heads[starts + on[starts] % sizes]
        wanted[list(sent)] = list(sent.values())
        kept = heads == wanted[on]
        heads, tails, on = heads[kept], tails[kept], on[kept]
    orders = (heads != candidates.first[on]).astype(np.int64) - (tails != candidates.first[on])
    keys = (tails * candidates.broker_count + heads) * 3 + orders + 1
    order = np.argsort(keys, kind="stable")
    lanes, starts = np.unique(keys[order], return_index=True)
    tails, heads = np.divmod(lanes // 3, candidates.broker_count)
    held = np.bincount(leaders, minlength=candidates.broker_count)
    return _Lanes(on[order], np.append(starts, len(order)), tails, heads, lanes % 3 - 1, held)


def _grouped(candidates: Candidates, partitions: Ints) -> _Groups:
    """Groups by candidates (the first replica in front, the others sorted) and by leader."""
    rows, leaders, firsts = (
        candidates.rows[partitions],
        candidates.present[partitions],
        candidates.first[partitions],
    )
    leaders = np.where((rows == leaders[:, None]).any(axis=1), leaders, NOBODY)
    is_first = rows == firsts[:, None]
    keys = np.sort(np.where(is_first, NOBODY - 1, rows), axis=1)
    head = np.where(is_first.any(axis=1), firsts, NOBODY)
    keys[keys == NOBODY - 1] = NOBODY
    table = np.column_stack([head, leaders, keys])
    order = np.lexsort(table.T[::-1])
    ordered = table[order]
    is_new = np.ones(len(order), dtype=np.bool_)
    is_new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    member_of = np.empty(len(order), dtype=np.int64)
    member_of[order] = np.cumsum(is_new) - 1
    unique = ordered[is_new]
    rows = np.column_stack([unique[:, 0], unique[:, 2:]])
    return _Groups(
        partitions, rows, unique[:, 1], np.bincount(member_of, minlength=len(unique)), member_of
    )


def _flow(candidates: Candidates, lanes: _Lanes, groups: _Groups, steps: _Steps) -> _Answer:
    """The leaders that the cheapest flow leads to."""
    from ortools.graph.python import min_cost_flow

    sink, group_count = candidates.broker_count, len(groups.sizes)
    per_change = 2 * sink + 1
    per_unevenness = 2 * sink * (per_change + 1) + 1
    at, column = np.nonzero(groups.rows >= 0)
    heads = groups.rows[at, column]
    costs = per_change * (heads != groups.leaders[at]) + (column != 0)
    solver = min_cost_flow.SimpleMinCostFlow()
    add = solver.add_arcs_with_capacity_and_unit_cost
    on_lanes = add(lanes.tails, lanes.heads, np.diff(lanes.starts), per_change + lanes.orders)
    from_groups = add(sink + 1 + at, heads, groups.sizes[at], costs)
    sinks = np.full(len(steps.brokers), sink)
    to_sink = add(steps.brokers, sinks, steps.capacities, steps.heights * per_unevenness)
    supplies = np.concatenate([lanes.held, [-len(candidates.free)], groups.sizes])
    solver.set_nodes_supplies(np.arange(sink + 1 + group_count), supplies)
    status = solver.solve()
    if status != solver.OPTIMAL:
        raise AssertionError(f"the leader flow always has a solution, but the solver says {status}")
    leads, flows = candidates.present.copy(), np.zeros(groups.rows.shape, dtype=np.int64)
    flows[at, column] = solver.flows(from_groups)
    leads[groups.partitions] = _shared_out(groups, flows)
    sent, is_sound = _sent(lanes, solver.flows(on_lanes))
    leads[list(sent)] = list(sent.values())
    arrivals = np.zeros(candidates.broker_count, dtype=np.int64)
    np.add.at(arrivals, steps.brokers, solver.flows(to_sink))
    return _Answer(leads, solver.optimal_cost(), arrivals, sent, is_sound)


def _shared_out(groups: _Groups, flows: Ints) -> Ints:
    """A leader for each partition: in partition order, the present leader's units of its group come
    first.
    """
    order = np.argsort(groups.member_of, kind="stable")
    stays = groups.rows == groups.leaders[:, None]
    columns = np.argsort(~stays, axis=1, kind="stable")
    leaders = np.take_along_axis(groups.rows, columns, axis=1)
    counts = np.take_along_axis(flows, columns, axis=1)
    chosen = np.empty(len(order), dtype=np.int64)
    chosen[order] = np.repeat(leaders.ravel(), counts.ravel())
    return chosen


def _sent(lanes: _Lanes, flows: Ints) -> tuple[dict[int, int], bool]:
    """Where partitions go that are sent along lanes, as many as flow there, each on one; and could
    all be sent?
    """
    lane_of: dict[int, int] = {}
    used = np.flatnonzero(flows)
    spare = np.diff(lanes.starts)[used] - flows[used]
    is_sound = True
    for lane in used[np.argsort(spare, kind="stable")].tolist():
        for _ in range(int(flows[lane])):
            is_sound &= _send_one(lane, lanes, lane_of)
    return {partition: int(lanes.heads[lane]) for partition, lane in lane_of.items()}, is_sound


def _send_one(lane: int, lanes: _Lanes, lane_of: dict[int, int]) -> bool:
    """One partition more on a lane, by the shortest chain of others that change lanes for it (Kuhn
    1955).
    """
    found: dict[
        int, tuple[int, int]
    ] = {}  # by partition: the lane that it should take, for which one that leaves it
    front = [(lane, NOBODY)]
    while front:
        following = []
        for wanting, leaving in front:
            for partition in lanes.partitions[
                lanes.starts[wanting] : lanes.starts[wanting + 1]
            ].tolist():
                if partition in found:
                    continue
                found[partition] = wanting, leaving
                if partition not in lane_of:
                    while partition != NOBODY:
                        lane_of[partition], partition = found[partition]
                    return True
                following.append((lane_of[partition], partition))
        front = following
    return False
