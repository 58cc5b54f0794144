"""The choice of leaders: who leads each partition, over the replica sets that were found.

    candidates = Candidates.of(placement, is_eligible, may_change, elects=True)
    leaders = choose_leaders(candidates, policy)

    1. `even_leaders`: the most even counts per broker that the replica sets allow, with the fewest
       changes of leader; an exact optimum.
    2. `leader_topics`: each topic as even as it can be, each broker keeping its count.
    3. `leader_bytes_in`, where rates are known and the goal evens traffic: exchanges that bring
       bytes-in within the tolerance, and leave counts and topics as they are.

The exact choice is a minimum-cost flow: every leadership starts at the broker that has it now and
flows to the sink.

    node per broker, and one sink
    arc broker -> broker   capacity: partitions that could change so; cost: one change of leader
    arc broker -> sink     one more partition led; each further one costs more than the last
    cost = unevenness, then leaders outside of their `leader_racks`, then changes of leader, then
           changes of order (lexicographic)

Since each further unit costs more, no other choice has a smaller maximum or a larger minimum.
Weights of about twice the number of brokers keep the parts of the cost apart, since an improving
cycle of the flow passes each broker at most once.

Worked example: brokers 0, 1 and 2; partitions with the candidates [0, 1], [0, 1] and [0, 2], all
led by broker 0. Three units start at broker 0; arc 0 -> 1 has capacity 2, arc 0 -> 2 capacity 1.
One unit each at the sink is cheapest, so one unit flows along each arc and one stays: two changes
of leader. Only partition 2 can take arc 0 -> 2, and partition 0 is the first that can take 0 -> 1:
the leaders are [1, 0, 2].

Partitions are not nodes, or a million of them would be too many: an arc stands for all partitions
that could take it. Only those whose present leader may not stay are nodes, one for all that have
the same candidates and the same preferred replica. The price of that: a partition can take only one
of its arcs, which the flow does not know. So its cost is a lower bound, reached when every arc
finds enough partitions. If few are missing, it is solved again with each partition on one arc only,
where all find enough. Where that costs more than the bound, or many are missing, it is solved with
every partition in a node. So the choice is exact in any case.

Limits: replicas that are out of sync are not chosen (`leader_candidates`); what is promised holds
for the others. Choosing again once the chosen leaders lead changes nothing.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from counterpoise.model.columns import NOBODY, Flags, Ints, count_within
from counterpoise.model.policy import BalancePolicy
from counterpoise.planning.fair_shares import fill
from counterpoise.planning.leader_bytes_in import even_leader_traffic
from counterpoise.planning.leader_candidates import Candidates
from counterpoise.planning.leader_topics import even_topics

_MAX_TURNS: Final = 20
_FEW_MISSING: Final = 30
_FIRST_IN_SORT: Final = NOBODY - 1


def choose_leaders(
    candidates: Candidates, policy: BalancePolicy, *, evens_traffic: bool = False
) -> Ints:
    """Return the broker that is to be the first replica of each partition.

    Partitions that are not free keep their first replica, and count for the broker that leads them.
    With `evens_traffic`, bytes-in of leaders come within the tolerance, too.
    """
    if not len(candidates.free_partitions):
        return candidates.preferred
    leaders = even_leaders(candidates)
    candidates = candidates.keeping_racks(leaders)
    leaders = even_topics(candidates, leaders)
    if evens_traffic:
        leaders = _with_even_traffic(candidates, leaders, policy.bytes_in_tolerance_percent)
    return np.where(candidates.is_free, leaders, candidates.preferred)


def _with_even_traffic(candidates: Candidates, leaders: Ints, tolerance_percent: int) -> Ints:
    """Return leaders exchanged for traffic, then for topics, until traffic changes none.

    For topics, a leader that was exchanged counts as the present one, as when planned again.
    """
    for _ in range(_MAX_TURNS):
        evened = even_leader_traffic(candidates, leaders, tolerance_percent)
        if (evened == leaders)[candidates.is_free].all():
            break
        leaders = even_topics(candidates.led_by(evened), evened)
    return leaders


# -- the exact choice by number


@dataclass(frozen=True, slots=True, eq=False)
class _Groups:
    """Partitions that are alike to the flow: one node each, and one row or entry in each field."""

    partitions: Ints  # of all groups, in the order given
    group_of: Ints  # the group of each of `partitions`
    replicas: Ints  # candidates; the preferred replica in column 0, NOBODY there if it is none
    leaders_now: Ints  # NOBODY if the leader is no candidate
    is_outside: Flags  # as `replicas`
    sizes: Ints


@dataclass(frozen=True, slots=True, eq=False)
class _Arcs:
    """Arcs between brokers, for the partitions whose leader may stay."""

    partitions: Ints  # those that could take each arc, arc by arc
    starts: Ints  # where each arc begins in `partitions`, and the end
    tails: Ints  # the broker that leads
    heads: Ints  # the broker that would lead
    reorders: Ints  # changes of order compared to staying: -1, 0 or 1
    outside: Ints  # leaders outside of their racks compared to staying: -1, 0 or 1
    supplies: Ints  # per broker: partitions that start there

    @property
    def capacities(self) -> Ints:
        return np.diff(self.starts)

    def partitions_of(self, arc: int) -> list[int]:
        start, end = int(self.starts[arc]), int(self.starts[arc + 1])
        return list(self.partitions[start:end].tolist())


@dataclass(frozen=True, slots=True, eq=False)
class _SinkArcs:
    """Arcs from brokers to the sink: what each further partition led costs in unevenness."""

    brokers: Ints
    capacities: Ints
    unevenness: Ints


@dataclass(frozen=True, slots=True, eq=False)
class _Solution:
    leaders: Ints  # per partition
    cost: int
    arrivals: Ints  # per broker: units that reach the sink from it
    changes: dict[int, int]  # by partition: the broker to which an arc has brought it
    missing: int  # units for which arcs found no partition; those after many are not counted


def even_leaders(candidates: Candidates) -> Ints:
    """Return the leader of each partition; the present one (or NOBODY) where it cannot be chosen.

    At least one partition has to be free.
    """
    leads_now = candidates.replicas == candidates.leaders_now[:, None]
    may_stay = (leads_now & (candidates.replicas >= 0)).any(axis=1)
    staying = np.flatnonzero(may_stay)
    leaving = np.flatnonzero(candidates.is_free & ~may_stay)
    arcs, groups = _arcs(candidates, staying), _groups(candidates, leaving)
    sink_arcs, solution = _solve(candidates, arcs, groups)
    if not solution.missing:
        return solution.leaders
    if solution.missing <= _FEW_MISSING:
        lower_bound = solution.cost
        arcs = _arcs(candidates, staying, one_each=solution.changes)
        solution = _flow(candidates, arcs, groups, sink_arcs)
        if solution.cost <= lower_bound:
            return solution.leaders
    arcs, groups = _arcs(candidates, staying[:0]), _groups(candidates, candidates.free_partitions)
    _, solution = _solve(candidates, arcs, groups)
    return solution.leaders


def _solve(candidates: Candidates, arcs: _Arcs, groups: _Groups) -> tuple[_SinkArcs, _Solution]:
    """Return the cheapest solution, and the arcs to the sink that it took to find it.

    A few arcs per broker mostly do; one per unit, which are many more, always do.
    """
    brokers = candidates.eligible_brokers
    fixed = candidates.leaders_now[~candidates.is_free]
    lower = candidates.counts(fixed)[brokers]
    upper = lower + candidates.counts(candidates.replicas)[brokers]
    total = len(candidates.free_partitions) + int(lower.sum())
    shares = fill(total, lower, upper, lower)
    sink_arcs = _level_sink_arcs(brokers, lower, upper, shares)
    solution = _flow(candidates, arcs, groups, sink_arcs)
    counts = lower + solution.arrivals[brokers]
    if (np.sort(counts) != np.sort(shares)).any() and solution.missing <= _FEW_MISSING:
        sink_arcs = _unit_sink_arcs(brokers, lower, upper)
        solution = _flow(candidates, arcs, groups, sink_arcs)
    return sink_arcs, solution


def _level_sink_arcs(brokers: Ints, lower: Ints, upper: Ints, shares: Ints) -> _SinkArcs:
    """Return three arcs per broker: up to a common level, one unit more, any more.

    They find the optimum when only the number of partitions that brokers can lead, or have to
    lead, keeps them from that level. Nothing could be more even than such shares.
    """
    level = int(shares[shares < upper].min(initial=int(shares.max())))
    up_to_level = np.maximum(0, level - lower)
    one_more = lower <= level
    any_more = upper - lower
    capacities = np.concatenate([up_to_level, one_more, any_more]).astype(np.int64)
    unevenness = np.repeat(np.arange(3), len(brokers))
    return _SinkArcs(np.tile(brokers, 3), capacities, unevenness)


def _unit_sink_arcs(brokers: Ints, lower: Ints, upper: Ints) -> _SinkArcs:
    """Return one arc for each partition that a broker could lead more, each dearer than the last.

    A broker with lower 2 and upper 5 has three arcs, with the unevenness 2, 3 and 4.
    """
    units = upper - lower
    unevenness = np.repeat(lower, units) + count_within(units)
    return _SinkArcs(np.repeat(brokers, units), np.ones_like(unevenness), unevenness)


def _arcs(
    candidates: Candidates, partitions: Ints, one_each: dict[int, int] | None = None
) -> _Arcs:
    """Return all arcs of partitions that may stay; with `one_each`, one arc of each partition.

    That one leads to the broker that `one_each` has for the partition; where it has none, to any,
    so that all of them are used about as often.
    """
    leaders_now = candidates.leaders_now[partitions]
    rows, heads = candidates.alternatives(partitions, leaders_now)
    tails, on_arc = leaders_now[rows], partitions[rows]
    outside = candidates.outside(on_arc, heads).astype(np.int64)
    outside -= candidates.outside(on_arc, tails)
    if one_each is not None:
        _, starts, counts = np.unique(rows, return_index=True, return_counts=True)
        first = on_arc[starts]
        chosen_heads = np.full(len(candidates.replicas), NOBODY)
        chosen_heads[first] = heads[starts + first % counts]
        chosen_heads[list(one_each)] = list(one_each.values())
        is_kept = heads == chosen_heads[on_arc]
        heads, tails, on_arc = heads[is_kept], tails[is_kept], on_arc[is_kept]
        outside = outside[is_kept]
    preferred = candidates.preferred[on_arc]
    reorders = (heads != preferred).astype(np.int64) - (tails != preferred)
    between = tails * candidates.broker_count + heads
    arc_keys = (between * 3 + reorders + 1) * 3 + outside + 1
    order = np.argsort(arc_keys, kind="stable")
    keys, starts = np.unique(arc_keys[order], return_index=True)
    arc_tails, arc_heads = np.divmod(keys // 9, candidates.broker_count)
    return _Arcs(
        partitions=on_arc[order],
        starts=np.append(starts, len(order)),
        tails=arc_tails,
        heads=arc_heads,
        reorders=keys // 3 % 3 - 1,
        outside=keys % 3 - 1,
        supplies=candidates.counts(leaders_now),
    )


def _groups(candidates: Candidates, partitions: Ints) -> _Groups:
    """Return groups of partitions with the same candidates, preferred replica and leader."""
    replicas = candidates.replicas[partitions]
    preferred = candidates.preferred[partitions]
    leaders_now = candidates.leaders_now[partitions]
    leaders_now = np.where((replicas == leaders_now[:, None]).any(axis=1), leaders_now, NOBODY)
    is_preferred = replicas == preferred[:, None]
    first_column = np.where(is_preferred.any(axis=1), preferred, NOBODY)
    others = np.sort(np.where(is_preferred, _FIRST_IN_SORT, replicas), axis=1)
    others[others == _FIRST_IN_SORT] = NOBODY
    preferences = candidates.rack_preferences[partitions]
    table = np.column_stack([preferences, first_column, leaders_now, others])
    order = np.lexsort(table.T[::-1])
    ordered = table[order]
    is_new_group = np.ones(len(order), dtype=np.bool_)
    is_new_group[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    group_of = np.empty(len(order), dtype=np.int64)
    group_of[order] = np.cumsum(is_new_group) - 1
    unique = ordered[is_new_group]
    unique_replicas = np.column_stack([unique[:, 1], unique[:, 3:]])
    return _Groups(
        partitions=partitions,
        group_of=group_of,
        replicas=unique_replicas,
        leaders_now=unique[:, 2],
        is_outside=candidates.is_outside[unique[:, :1], unique_replicas],
        sizes=np.bincount(group_of, minlength=len(unique)),
    )


def _flow(candidates: Candidates, arcs: _Arcs, groups: _Groups, sink_arcs: _SinkArcs) -> _Solution:
    """Return the leaders to which the cheapest flow leads.

    Nodes: the brokers, the sink, the groups.
    """
    from ortools.graph.python import min_cost_flow

    sink, group_count = candidates.broker_count, len(groups.sizes)
    cost_per_change = 2 * sink + 1
    cost_per_leader_outside = 0
    if candidates.is_outside.any():
        cost_per_leader_outside = 2 * sink * (cost_per_change + 1) + 1
    cost_per_unevenness = 2 * sink * (cost_per_leader_outside + cost_per_change + 1) + 1
    rows, columns = np.nonzero(groups.replicas >= 0)
    heads = groups.replicas[rows, columns]
    is_change, is_reorder = heads != groups.leaders_now[rows], columns != 0

    solver = min_cost_flow.SimpleMinCostFlow()
    add_arcs = solver.add_arcs_with_capacity_and_unit_cost
    arc_costs = cost_per_leader_outside * arcs.outside + cost_per_change + arcs.reorders
    between_brokers = add_arcs(arcs.tails, arcs.heads, arcs.capacities, arc_costs)
    is_outside = groups.is_outside[rows, columns]
    group_costs = cost_per_leader_outside * is_outside + cost_per_change * is_change + is_reorder
    from_groups = add_arcs(sink + 1 + rows, heads, groups.sizes[rows], group_costs)
    sinks = np.full(len(sink_arcs.brokers), sink)
    sink_costs = sink_arcs.unevenness * cost_per_unevenness
    to_sink = add_arcs(sink_arcs.brokers, sinks, sink_arcs.capacities, sink_costs)
    demand = [-len(candidates.free_partitions)]
    supplies = np.concatenate([arcs.supplies, demand, groups.sizes])
    solver.set_nodes_supplies(np.arange(sink + 1 + group_count), supplies)
    status = solver.solve()
    if status != solver.OPTIMAL:
        raise AssertionError(f"the leader flow always has a solution, but the solver says {status}")

    group_flows = np.zeros(groups.replicas.shape, dtype=np.int64)
    group_flows[rows, columns] = solver.flows(from_groups)
    changes, missing = _assign_arcs(arcs, solver.flows(between_brokers))
    leaders = candidates.leaders_now.copy()
    leaders[groups.partitions] = _assign_groups(groups, group_flows)
    leaders[list(changes)] = list(changes.values())
    arrivals = np.zeros(candidates.broker_count, dtype=np.int64)
    np.add.at(arrivals, sink_arcs.brokers, solver.flows(to_sink))
    return _Solution(leaders, solver.optimal_cost(), arrivals, changes, missing)


def _assign_groups(groups: _Groups, flows: Ints) -> Ints:
    """Return a leader for each partition of the groups; those that keep their leader come first."""
    by_group = np.argsort(groups.group_of, kind="stable")
    is_leader_now = groups.replicas == groups.leaders_now[:, None]
    columns = np.argsort(~is_leader_now, axis=1, kind="stable")
    leaders = np.take_along_axis(groups.replicas, columns, axis=1)
    counts = np.take_along_axis(flows, columns, axis=1)
    chosen = np.empty(len(by_group), dtype=np.int64)
    chosen[by_group] = np.repeat(leaders.ravel(), counts.ravel())
    return chosen


def _assign_arcs(arcs: _Arcs, flows: Ints) -> tuple[dict[int, int], int]:
    """Return the new leader of each partition that takes an arc, and how many units found none.

    Arcs with the least choice of partitions come first. Once many are missing, the rest is left.
    """
    arc_of: dict[int, int] = {}
    used = np.flatnonzero(flows)
    spare_partitions = arcs.capacities[used] - flows[used]
    missing = 0
    for arc in used[np.argsort(spare_partitions, kind="stable")].tolist():
        for _ in range(int(flows[arc])):
            if missing <= _FEW_MISSING and not _assign_one(arc, arcs, arc_of):
                missing += 1
    changes = {partition: int(arcs.heads[arc]) for partition, arc in arc_of.items()}
    return changes, missing


def _assign_one(arc: int, arcs: _Arcs, arc_of: dict[int, int]) -> bool:
    """Assign one more partition to an arc; return whether there is one.

    If all of its partitions have an arc already, the shortest chain of them changes arcs
    (augmenting paths for matchings in bipartite graphs, Kuhn 1955). Example: only partition 1 could
    take arc B, but it has arc A. Partition 2 could take A and has none yet: it takes A from
    partition 1, which takes B.
    """
    taken_from: dict[int, tuple[int, int]] = {}  # partition: its new arc, who leaves that arc to it
    queue = [(arc, NOBODY)]
    while queue:
        following = []
        for wanted_arc, leaving_partition in queue:
            for partition in arcs.partitions_of(wanted_arc):
                if partition in taken_from:
                    continue
                taken_from[partition] = wanted_arc, leaving_partition
                if partition not in arc_of:
                    while partition != NOBODY:
                        arc_of[partition], partition = taken_from[partition]
                    return True
                following.append((arc_of[partition], partition))
        queue = following
    return False
