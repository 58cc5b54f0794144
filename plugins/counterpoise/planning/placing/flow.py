"""Racks, replicas per broker, least bytes and topics from one minimum-cost flow.

    chosen = copy_fewest_bytes(choice)       # a flag per partition and broker

    partition -> its replicas in each rack -> the topic on each broker -> broker -> sink

    cost, each part before the next (lexicographic):
        a replica that finds no other place than on a broker that leaves
        racks    - for the first replica of a partition in a rack, + for one above the stack limit
        limits   + for each replica above the most that a broker may hold
                 - for each replica that a topic lacks on a broker (`min_topic_leaders`)
        counts   2k + 1 for the broker's replica number k + 1: the sum of these is the square of k
        topics   + for each replica above what the policy allows (`topics_max_above_share`)
        bytes    size of the replica, where it is copied
        topics   k for the broker's replica number k + 1 of the topic

Theorem: a flow of least cost exists in whole units (all capacities are whole), and every choice of
replicas is such a flow: what is chosen is best in racks, then in the sum of squared counts, then in
bytes copied. A sum of squares that is least has the least maximum and the largest minimum, too,
since every cost is convex: no chain of moves could level out two brokers that differ by two.

Worked example: brokers 1, 2 and 3 hold 3, 1 and 0 replicas of partitions with one replica each, of
5, 6 and 7 GB on broker 1. The counts 2, 1, 1 have the squares 4 + 1 + 1: one replica leaves broker
1 for broker 3, and that of 5 GB costs least.

Limits: the disk space of a broker is no capacity of a flow (sizes differ): the caller checks it.
Sizes are rounded up to units so that all costs fit into 62 bits: with some hundred replicas to a
millionth of the largest, which is as exact as sizes in a snapshot are.
"""

from dataclasses import dataclass

import numpy as np

from counterpoise.model.columns import Flags, Ints, count_within
from counterpoise.planning.arrays import UNBOUNDED
from counterpoise.planning.placing.choice import ReplicaChoice

_COST_BITS = 61


@dataclass(slots=True)
class _Arcs:
    """Arcs as they are collected, in parts."""

    tails: list[Ints]
    heads: list[Ints]
    capacities: list[Ints]
    costs: list[Ints]

    def add(
        self, tails: Ints, heads: Ints | int, capacities: Ints | int, costs: Ints | int
    ) -> None:
        for column, values in zip(
            (self.tails, self.heads, self.capacities, self.costs),
            np.broadcast_arrays(tails, heads, capacities, costs),
            strict=True,
        ):
            column.append(np.asarray(values.ravel(), dtype=np.int64))


@dataclass(frozen=True, slots=True)
class _Weights:
    """What one unit of each part of the cost is worth."""

    size_unit: int  # bytes
    copies: int
    topics_above: int
    counts: int
    limits: int
    racks: int
    unplaced: int

    @classmethod
    def of(cls, choice: ReplicaChoice, sizes: Ints, node_count: int) -> "_Weights":
        """Return weights that keep the parts apart.

        An improving cycle passes each node at most once, so each part changes by no more than its
        largest cost times the brokers (counts and topics), or the partitions (bytes, racks).
        """
        cluster, partitions = choice.start.cluster, len(choice.partitions)
        brokers, max_count = cluster.broker_count, cluster.partition_count
        has_limits = bool((choice.topic_limits < UNBOUNDED).any())
        copies = 2 * brokers * int(np.bincount(cluster.topic_numbers).max(initial=1))
        above = copies * (partitions + 1)  # for sizes of one unit
        counts = above * (2 * brokers if has_limits else 1)
        limits = counts * (2 * max_count + 3)
        has_minimum = bool(choice.min_topic_counts.any())
        racks = limits * (3 + 2 * brokers * has_minimum)
        unplaced = racks * 2 * (partitions + 1) if choice.may_lack_place else racks
        bits = max(1, _COST_BITS - (2 * unplaced * node_count).bit_length())
        largest = int(sizes.max(initial=0))
        size_unit = max(1, -(-largest >> min(bits, 40)))
        cost_of_largest = -(-largest // size_unit) + 1
        parts = (above, counts, limits, racks, unplaced)
        return cls(size_unit, copies, *(part * cost_of_largest for part in parts))


def copy_fewest_bytes(choice: ReplicaChoice) -> Flags:
    """Return, per partition of the choice and broker, whether a replica stands there in the end."""
    return _solve(choice, choice.stands, choice.sizes)


def copy_fewest_replicas(choice: ReplicaChoice) -> Flags:
    """Return a choice that copies as few replicas as can be, whatever their sizes."""
    return nearest_to(choice, choice.stands)


def nearest_to(choice: ReplicaChoice, preferred: Flags) -> Flags:
    """Return, of the best choices in racks and counts, the one with most of `preferred`."""
    return _solve(choice, preferred, np.zeros_like(choice.sizes))


def are_costs_exact(choice: ReplicaChoice) -> bool:
    """Return whether all costs fit into the numbers of the solver, sizes aside."""
    cells = int(choice.may_stand.sum())
    nodes = cells + len(choice.partitions) * (1 + len(choice.in_rack)) + len(choice.max_counts)
    largest_cost = 2 * _Weights.of(choice, np.zeros_like(choice.sizes), nodes).unplaced
    return (largest_cost * nodes).bit_length() <= _COST_BITS


def _solve(choice: ReplicaChoice, stays: Flags, sizes: Ints) -> Flags:
    """Return the choice of least cost, where what does not stay costs its size."""
    from ortools.graph.python import min_cost_flow

    rows, brokers = np.nonzero(choice.may_stand & ~choice.must_stand)
    is_copied = ~stays[rows, brokers]
    network = _Network.of(choice, rows, brokers)
    weights = _Weights.of(choice, sizes, network.node_count)
    copy_costs = (-(-sizes[rows] // weights.size_unit) + 1) * weights.copies * is_copied

    arcs = _Arcs([], [], [], [])
    arcs.add(network.rack_nodes[rows, network.racks[brokers]], network.cells, 1, copy_costs)
    _add_racks(arcs, choice, network, weights)
    _add_topics(arcs, choice, network, weights)
    _add_counts(arcs, choice, network, weights)
    solver = min_cost_flow.SimpleMinCostFlow()
    columns = (arcs.tails, arcs.heads, arcs.capacities, arcs.costs)
    solver.add_arcs_with_capacity_and_unit_cost(*map(np.concatenate, columns))
    supplies = np.zeros(network.node_count, dtype=np.int64)
    supplies[network.partition_nodes] = network.supplies
    supplies[network.sink] = -network.supplies.sum()
    solver.set_nodes_supplies(np.arange(network.node_count), supplies)
    status = solver.solve()
    if status != solver.OPTIMAL:
        raise AssertionError(f"replicas always find a place, but the solver says {status}")
    chosen = choice.must_stand.copy()
    chosen[rows, brokers] = solver.flows(np.arange(len(rows))) > 0
    return chosen


@dataclass(frozen=True, slots=True, eq=False)
class _Network:
    """The numbers of the nodes: brokers first, then the sink, partitions, racks of each, topics."""

    racks: Ints  # of each broker
    supplies: Ints  # replicas that each partition has to place
    cells: Ints  # topic and broker of each replica that may be placed: its node
    used_cells: Ints  # topic x brokers + broker of each of these nodes
    first_cell: int
    partition_nodes: Ints
    rack_nodes: Ints  # a row per partition
    sink: int
    node_count: int

    @classmethod
    def of(cls, choice: ReplicaChoice, rows: Ints, brokers: Ints) -> "_Network":
        cluster = choice.start.cluster
        partition_count, rack_count = len(choice.partitions), len(choice.in_rack)
        sink = cluster.broker_count
        partition_nodes = np.arange(partition_count) + sink + 1
        rack_nodes = np.arange(partition_count * rack_count) + sink + 1 + partition_count
        first_cell = sink + 1 + partition_count * (1 + rack_count)
        topics = cluster.topic_numbers[choice.partitions[rows]]
        used_cells, cells = np.unique(topics * sink + brokers, return_inverse=True)
        return cls(
            racks=cluster.racks,
            supplies=choice.factors - choice.must_stand.sum(axis=1),
            cells=cells + first_cell,
            used_cells=used_cells,
            first_cell=first_cell,
            partition_nodes=partition_nodes,
            rack_nodes=rack_nodes.reshape(partition_count, rack_count),
            sink=sink,
            node_count=first_cell + len(used_cells),
        )


def _add_racks(arcs: _Arcs, choice: ReplicaChoice, network: _Network, weights: _Weights) -> None:
    """Add the arcs of each partition to its racks, and to the sink for what finds no place."""
    rack_counts = choice.must_stand @ choice.in_rack.T
    is_new_rack = rack_counts == 0
    below_limit = np.maximum(0, choice.stack_limits - rack_counts - is_new_rack)
    tails = network.partition_nodes[:, None]
    arcs.add(tails, network.rack_nodes, is_new_rack, -weights.racks)
    arcs.add(tails, network.rack_nodes, below_limit, 0)
    arcs.add(tails, network.rack_nodes, choice.factors[:, None], weights.racks)
    if choice.may_lack_place:
        arcs.add(network.partition_nodes, network.sink, network.supplies, 2 * weights.unplaced)


def _add_topics(arcs: _Arcs, choice: ReplicaChoice, network: _Network, weights: _Weights) -> None:
    """Add the arcs from each topic on a broker to the broker: one for each further replica."""
    cluster, is_chosen = choice.start.cluster, ~choice.must_stand & choice.may_stand
    topics, brokers = np.divmod(network.used_cells, cluster.broker_count)
    chosen_now = np.zeros_like(choice.start.topic_counts)
    np.add.at(chosen_now, cluster.topic_numbers[choice.partitions], choice.stands & is_chosen)
    fixed = choice.start.topic_counts[topics, brokers] - chosen_now[topics, brokers]
    capacities = np.bincount(network.cells - network.first_cell)
    cells = np.repeat(np.arange(len(topics)), capacities)
    units = count_within(capacities)
    counts_before = fixed[cells] + units
    is_above = counts_before >= choice.topic_limits[topics[cells]]
    is_below = counts_before < choice.min_topic_counts[topics[cells]]
    costs = counts_before + is_above * weights.topics_above - is_below * weights.limits
    arcs.add(network.first_cell + cells, brokers[cells], 1, costs)


def _add_counts(arcs: _Arcs, choice: ReplicaChoice, network: _Network, weights: _Weights) -> None:
    """Add the arcs from each broker to the sink: one for each further replica."""
    cluster, is_chosen = choice.start.cluster, ~choice.must_stand & choice.may_stand
    fixed = choice.fixed_counts + choice.must_stand.sum(axis=0)
    now = choice.start.counts
    room = np.maximum(cluster.max_counts, now) - fixed  # a constraint, and not only a limit
    capacities = np.minimum(is_chosen.sum(axis=0), room)
    allowed = np.maximum(choice.max_counts, now) - fixed
    brokers = np.repeat(np.arange(cluster.broker_count), capacities)
    units = count_within(capacities)
    costs = (2 * (fixed[brokers] + units) + 1) * weights.counts
    costs += (units >= allowed[brokers]) * weights.limits
    costs = np.where(choice.leaving[brokers], weights.unplaced, costs)
    arcs.add(brokers, network.sink, 1, costs)
