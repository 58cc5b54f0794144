"""Leaders: the most even choice that the replica sets allow, exactly, with the fewest changes of leader.

    is_free = free_to_lead(placement, eligible, may_change)
    first = choose_leaders(placement, eligible, is_free)        # a broker per partition

A minimum-cost flow sends one unit from each partition through one of its replicas to a broker and on to the sink.
At the broker each further unit costs more, so the counts that come out are as even as any choice allows: no other
choice has a smaller maximum or a larger minimum. Partitions with the same replicas, leader and first replica
are one node.

Costs are lexicographic: evenness, then changes of leader, then changes of order. Weights of about twice the number
of brokers per step are enough, since an improving cycle of the flow passes each broker at most once.
"""

from dataclasses import dataclass

import numpy as np

from counterpoise.planning.arrays import NOBODY, Flags, Ints
from counterpoise.planning.placement import Placement


@dataclass(frozen=True, slots=True, eq=False)
class _Groups:
    """Partitions that are alike to the flow. `member_of` says which group each free partition is in."""

    replicas: Ints
    leaders: Ints
    sizes: Ints
    member_of: Ints


def free_to_lead(placement: Placement, eligible: Flags, may_change: Flags) -> Flags:
    """The partitions whose leader can be chosen.

    Not those that may not change, that have no eligible broker, or that a broker outside the request's scope leads.
    """
    cluster = placement.cluster
    can_lead = np.append(eligible, False)[placement.replicas].any(axis=1)
    return np.asarray(may_change & can_lead & np.append(cluster.is_in_scope, True)[cluster.leaders_now])


def choose_leaders(placement: Placement, eligible: Flags, is_free: Flags) -> Ints:
    """The broker that is to be the first replica of each partition; as it is where the partition is not free.

    `eligible` brokers may lead.
    """
    cluster = placement.cluster
    can_lead = np.append(eligible, False)[placement.replicas]
    chosen = placement.replicas[:, 0].copy()
    free = np.flatnonzero(is_free)
    if not len(free):
        return chosen
    fixed = cluster.leaders_now[~is_free]
    loads = np.bincount(fixed[fixed >= 0], minlength=cluster.broker_count).astype(np.int64)
    rows = np.where(can_lead[free], placement.replicas[free], NOBODY)
    groups = _grouped(rows, cluster.leaders[free], placement.replicas[free, 0])
    flows = _solve(groups, loads, eligible)
    chosen[free] = _shared_out(groups, flows)
    return chosen


def _grouped(rows: Ints, leaders: Ints, firsts: Ints) -> _Groups:
    """Groups by candidates (the first replica in front, the others sorted) and by leader."""
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
    # The head of a row costs nothing in order, so the flow has to know it: it stays the first column.
    candidates = np.column_stack([unique[:, 0], unique[:, 2:]])
    return _Groups(candidates, unique[:, 1], np.bincount(member_of), member_of)


def _solve(groups: _Groups, loads: Ints, eligible: Flags) -> Ints:
    """Units from each group to each of its candidates, in the shape of `groups.replicas`."""
    brokers = np.flatnonzero(eligible)
    total = int(groups.sizes.sum() + loads[brokers].sum())
    level = total // len(brokers)
    # Three steps per broker find the answer when every broker can lead floor(mean) or ceil(mean) partitions.
    steps = [
        (brokers, np.maximum(0, level - loads[brokers]), np.zeros(len(brokers), dtype=np.int64)),
        (brokers, (loads[brokers] <= level).astype(np.int64), np.ones(len(brokers), dtype=np.int64)),
        (brokers, np.full(len(brokers), total), np.full(len(brokers), 2)),
    ]
    flows = _min_cost_flow(groups, steps, len(loads))
    reached = loads + _arrivals(groups, flows, len(loads))
    if reached[brokers].max() - reached[brokers].min() <= 1:
        return flows
    return _min_cost_flow(groups, _unit_steps(groups, loads, brokers, level), len(loads))


def _unit_steps(groups: _Groups, loads: Ints, brokers: Ints, level: int) -> list[tuple[Ints, Ints, Ints]]:
    """One arc for each further partition that a broker could lead, each dearer than the one before."""
    at_most = _arrivals(groups, np.where(groups.replicas >= 0, groups.sizes[:, None], 0), len(loads))
    owners = np.repeat(brokers, at_most[brokers])
    starts = np.repeat(np.cumsum(at_most[brokers]) - at_most[brokers], at_most[brokers])
    heights = loads[owners] + np.arange(len(owners)) - starts
    return [(owners, np.ones(len(owners), dtype=np.int64), heights)]


def _arrivals(groups: _Groups, flows: Ints, broker_count: int) -> Ints:
    arrived = np.zeros(broker_count + 1, dtype=np.int64)
    np.add.at(arrived, groups.replicas, flows)
    return arrived[:broker_count]


def _min_cost_flow(groups: _Groups, steps: list[tuple[Ints, Ints, Ints]], broker_count: int) -> Ints:
    from ortools.graph.python import min_cost_flow

    per_change = 2 * broker_count + 1
    per_unevenness = 2 * broker_count * (per_change + 1) + 1
    group_at, column = np.nonzero(groups.replicas >= 0)
    heads = groups.replicas[group_at, column]
    leaders = groups.leaders[group_at]
    costs = per_change * (heads != leaders) + (column != 0)
    sink = broker_count
    solver = min_cost_flow.SimpleMinCostFlow()
    solver.add_arcs_with_capacity_and_unit_cost(sink + 1 + group_at, heads, groups.sizes[group_at], costs)
    for brokers, capacities, heights in steps:
        sinks = np.full(len(brokers), sink)
        solver.add_arcs_with_capacity_and_unit_cost(brokers, sinks, capacities, heights * per_unevenness)
    supplies = np.zeros(sink + 1 + len(groups.sizes), dtype=np.int64)
    supplies[sink + 1 :] = groups.sizes
    supplies[sink] = -groups.sizes.sum()
    solver.set_nodes_supplies(np.arange(len(supplies)), supplies)
    status = solver.solve()
    if status != solver.OPTIMAL:
        raise AssertionError(f"the leader flow always has a solution, but the solver says {status}")
    flows = np.zeros(groups.replicas.shape, dtype=np.int64)
    flows[group_at, column] = solver.flows(np.arange(len(heads)))
    return flows


def _shared_out(groups: _Groups, flows: Ints) -> Ints:
    """A leader for each partition: in partition order, the current leader's units of its group come first."""
    order = np.argsort(groups.member_of, kind="stable")
    stays = groups.replicas == groups.leaders[:, None]
    columns = np.argsort(~stays, axis=1, kind="stable")
    leaders = np.take_along_axis(groups.replicas, columns, axis=1)
    counts = np.take_along_axis(flows, columns, axis=1)
    chosen = np.empty(len(order), dtype=np.int64)
    chosen[order] = np.repeat(leaders.ravel(), counts.ravel())
    return chosen
