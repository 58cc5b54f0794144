"""The choice of replicas: where each partition may stand, and the best choice by one flow.

    choice = ReplicaChoice.to_even(placement, roles)
    chosen = copy_fewest_bytes(choice)              # a flag per partition and broker
    choice.apply(placement, chosen)

The one place that answers "may this partition stand on that broker": the flow here and the program
of `small` ask it and know no goals, so that a constraint needs a line here and nothing there.

    to even out      present brokers, and destinations with room; those that may give nothing stay
    to empty         only replicas on brokers that leave are chosen anew
    to add           all present replicas stay, destinations with room may get one
    to drop          only present brokers; the in-sync replicas stay as long as there are others

Worked example: brokers 1, 2 and 3 (new), partition a-0 on [1, 2]. For goal add-brokers it may stand
on 1, 2 and 3 and has two replicas in the end; to empty broker 2 it must stand on 1, and may on 3.

The flow of least cost:

    partition -> its replicas in each rack -> the topic on each broker -> broker -> sink

    cost, each part before the next (lexicographic):
        a replica that finds no other place than on a broker that leaves
        racks    k for the partition's replica number k + 1 in a rack: as even as can be
        limits   + for each replica above the most that a broker may hold
        counts   2k + 1 for the broker's replica number k + 1: the sum of these is the square of k;
                 where disks differ, its place among the costs of all (`unit_costs`)
        topics   + for each replica above the limit of its topic
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

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from counterpoise.model.columns import NOBODY, Flags, Ints, count_within
from counterpoise.planning.arrays import UNBOUNDED
from counterpoise.planning.fair_shares import replica_costs
from counterpoise.planning.placement import Placement, Roles

_COST_BITS = 61


@dataclass(frozen=True, eq=False)
class ReplicaChoice:
    """Partitions whose replicas are chosen: a row for each, and mostly a column per broker."""

    start: Placement
    roles: Roles  # a replica stays on a broker that leaves only where no other may have it
    partitions: Ints
    factors: Ints  # replicas in the end
    may_stand: Flags
    must_stand: Flags
    max_counts: Ints  # per broker, of all partitions
    topic_limits: Ints  # per topic: no broker should get more of its replicas

    @classmethod
    def to_even(cls, placement: Placement, roles: Roles) -> "ReplicaChoice":
        """Return the choice of goals about evenness."""
        partitions = np.flatnonzero(placement.cluster.may_change)
        return cls._of(placement, roles, partitions, roles.sources)

    @classmethod
    def to_empty(cls, placement: Placement, roles: Roles, is_chosen: Flags) -> "ReplicaChoice":
        """Return the choice of goals that empty brokers; `is_chosen` has partitions on these."""
        return cls._of(placement, roles, np.flatnonzero(is_chosen), roles.leaving)

    @classmethod
    def to_add(cls, placement: Placement, roles: Roles, factor: int) -> "ReplicaChoice":
        """Return the choice of new replicas until each partition has `factor`."""
        is_short = placement.cluster.may_change & (placement.replica_counts < factor)
        no_sources = np.zeros_like(roles.sources)
        choice = cls._of(placement, roles, np.flatnonzero(is_short), no_sources)
        return replace(choice, factors=np.full_like(choice.factors, factor))

    @classmethod
    def to_drop(
        cls,
        placement: Placement,
        roles: Roles,
        partitions: Ints,
        factors: Ints,
        may_stay: Flags,
        must_stay: Flags,
    ) -> "ReplicaChoice":
        """Return the choice of the replicas that stay; the flags are as the rows of replicas."""
        choice = cls._of(placement, roles, partitions, roles.sources)
        may_stand, must_stand = np.zeros_like(choice.stands), np.zeros_like(choice.stands)
        rows, columns = np.nonzero(placement.replicas[partitions][:, : may_stay.shape[1]] >= 0)
        brokers = placement.replicas[partitions][rows, columns]
        may_stand[rows, brokers] = may_stay[rows, columns]
        must_stand[rows, brokers] = must_stay[rows, columns]
        return replace(choice, factors=factors, may_stand=may_stand, must_stand=must_stand)

    @classmethod
    def _of(
        cls, placement: Placement, roles: Roles, partitions: Ints, sources: Flags
    ) -> "ReplicaChoice":
        """Return the choice where replicas may leave `sources`, and come to any destination with
        room.
        """
        cluster, stands = placement.cluster, stands_of(placement, partitions)
        has_room = cluster.size_bytes[partitions, None] <= cluster.headroom_bytes
        return cls(
            start=placement.copy(),
            roles=roles,
            partitions=partitions,
            factors=placement.replica_counts[partitions],
            may_stand=stands | (roles.destinations & has_room),
            must_stand=stands & ~sources,
            max_counts=cluster.max_counts,
            topic_limits=np.full(len(cluster.topic_names), UNBOUNDED),
        )

    @property
    def is_open(self) -> Flags:
        """Return which cells the search decides."""
        return np.asarray(self.may_stand & ~self.must_stand)

    @property
    def replica_count(self) -> int:
        """Return how many replicas are chosen."""
        return int(self.factors.sum() - self.must_stand.sum())

    @property
    def may_lack_place(self) -> bool:
        """Return whether a replica may find no place; else each may stay where it is."""
        must_move = bool(self.roles.leaving.any())
        return must_move or bool((self.factors > self.stands.sum(axis=1)).any())

    @cached_property
    def stands(self) -> Flags:
        """Return where each partition stands now."""
        return stands_of(self.start, self.partitions)

    @cached_property
    def fixed_counts(self) -> Ints:
        """Return replicas per broker that are not chosen: of other partitions."""
        return np.asarray(self.start.counts - self.stands.sum(axis=0))

    @cached_property
    def fixed_bytes(self) -> Ints:
        return np.asarray(self.start.bytes_held - self.sizes @ self.stands)

    @property
    def sizes(self) -> Ints:
        return np.asarray(self.start.cluster.size_bytes[self.partitions])

    @cached_property
    def in_rack(self) -> Ints:
        """Return a row of flags for each rack: is the broker there?"""
        racks = self.start.cluster.racks
        return np.asarray(racks == np.arange(int(racks.max(initial=-1)) + 1)[:, None], np.int64)

    def unit_costs(self, brokers: Ints, counts: Ints) -> Ints:
        """Return what the replica after so many others costs each broker.

        (2 x count + 1) x (largest disks / own disks), as its place in the order of all costs: the
        choices of least cost are the same, since they are a matroid's (`small`).
        """
        costs = (2 * counts + 1) * self.replica_costs[brokers]
        return np.asarray(np.unique(costs, return_inverse=True)[1])

    @cached_property
    def replica_costs(self) -> Ints:
        return replica_costs(self.start.cluster, self.roles)

    @cached_property
    def rack_rooms(self) -> Ints:
        """Return, per partition and rack, how many of its replicas may be there.

        A partition that is spread as evenly as it can be gets no higher stack than it has: it does
        not give its place in a rack up for another partition.
        """
        rooms, stacks = self.may_stand @ self.in_rack.T, self.stands @ self.in_rack.T
        has_all = self.stands.sum(axis=1) == self.factors
        has_all &= ~(self.stands & self.roles.leaving).any(axis=1)
        pairs = (stacks * (stacks - 1) // 2).sum(axis=1)
        is_even = has_all & (pairs == self.fewest_pairs(self.factors))
        highest = stacks.max(axis=1, initial=0)[:, None]
        return np.asarray(np.where(is_even[:, None], np.minimum(rooms, highest), rooms))

    def fewest_pairs(self, factors: Ints) -> Ints:
        """Return, per partition, the fewest pairs in the same rack of so many replicas."""
        rows = np.arange(len(factors))
        stays = self.must_stand & ~self.roles.leaving
        stacks = stays @ self.in_rack.T
        rooms = (self.may_stand & ~self.roles.leaving) @ self.in_rack.T
        pairs = (stacks * (stacks - 1) // 2).sum(axis=1)
        for _ in range(int(factors.max(initial=0))):
            heights = np.where(stacks < rooms, stacks, UNBOUNDED)
            lowest = heights.argmin(axis=1)
            is_placed = (stacks.sum(axis=1) < factors) & (heights[rows, lowest] < UNBOUNDED)
            pairs += np.where(is_placed, heights[rows, lowest], 0)
            stacks[rows, lowest] += is_placed
        return np.asarray(pairs)

    def has_room_for(self, chosen: Flags) -> bool:
        """Return whether all that arrives fits onto every broker at once."""
        arriving = self.sizes @ (chosen & ~self.stands)
        return bool((arriving <= self.start.cluster.headroom_bytes).all())

    def new_replicas(self, chosen: Flags) -> Ints:
        """Return how many replicas of each partition are copied."""
        return np.asarray((chosen & ~self.stands).sum(axis=1))

    def counts_of(self, chosen: Flags) -> Ints:
        return np.asarray(self.fixed_counts + chosen.sum(axis=0))

    def apply(self, placement: Placement, chosen: Flags) -> None:
        """Set the chosen replicas: those that stay keep their places, new ones fill the gaps."""
        placement.widen(int(self.factors.max(initial=0)))
        rows = np.full_like(placement.replicas, NOBODY)
        rows[:, : self.start.replicas.shape[1]] = self.start.replicas
        for number in np.flatnonzero((chosen != self.stands).any(axis=1)).tolist():
            row, is_chosen = rows[self.partitions[number]], chosen[number]
            arriving = iter(np.flatnonzero(is_chosen & ~self.stands[number]).tolist())
            new_row = [
                broker if is_chosen[broker] else next(arriving, NOBODY) for broker in row[row >= 0]
            ]
            new_row = [broker for broker in new_row if broker != NOBODY]
            new_row += arriving
            row[:] = NOBODY
            row[: len(new_row)] = new_row
        placement.reset_to(rows)


def stands_of(placement: Placement, partitions: Ints) -> Flags:
    """Return a flag for each of the partitions and each broker: does the partition stand there?"""
    rows = placement.replicas[partitions]
    stands = np.zeros((len(partitions), placement.cluster.broker_count + 1), dtype=np.bool_)
    stands[np.arange(len(partitions))[:, None], rows] = True
    return stands[:, :NOBODY]


# -- the flow of least cost


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
        is_equal = bool((choice.replica_costs == choice.replica_costs[:1]).all())
        unit_costs = (max_count + 1) * (1 if is_equal else brokers)  # so many different ones
        limits = counts * (unit_costs + 3)
        racks = limits * 3
        highest_stack = int(choice.factors.max(initial=1))
        unplaced = racks * highest_stack * (partitions + 1) if choice.may_lack_place else racks
        largest_cost = max(2 * unplaced, racks * highest_stack)
        bits = max(1, _COST_BITS - (largest_cost * node_count).bit_length())
        largest = int(sizes.max(initial=0))
        size_unit = max(1, -(-largest >> min(bits, 40)))
        cost_of_largest = -(-largest // size_unit) + 1
        parts = (above, counts, limits, racks, unplaced)
        return cls(size_unit, copies, *(part * cost_of_largest for part in parts))


def copy_fewest_bytes(choice: ReplicaChoice) -> Flags:
    """Return, per partition of the choice and broker, whether a replica stands there in the end."""
    return _solve(choice, choice.stands, choice.sizes)


def nearest_to(choice: ReplicaChoice, preferred: Flags) -> Flags:
    """Return, of the best choices in racks and counts, the one with most of `preferred`.

    With `choice.stands` it copies as few replicas as can be, whatever their sizes.
    """
    return _solve(choice, preferred, np.zeros_like(choice.sizes))


def are_costs_exact(choice: ReplicaChoice) -> bool:
    """Return whether all costs fit into the numbers of the solver, sizes aside."""
    cells = int(choice.may_stand.sum())
    nodes = cells + len(choice.partitions) * (1 + len(choice.in_rack)) + len(choice.max_counts)
    weights = _Weights.of(choice, np.zeros_like(choice.sizes), nodes)
    largest_cost = max(2 * weights.unplaced, weights.racks * int(choice.factors.max(initial=1)))
    return (largest_cost * nodes).bit_length() <= _COST_BITS


def _solve(choice: ReplicaChoice, stays: Flags, sizes: Ints) -> Flags:
    """Return the choice of least cost, where what does not stay costs its size."""
    from ortools.graph.python import min_cost_flow

    rows, brokers = np.nonzero(choice.is_open)
    is_copied = ~stays[rows, brokers]
    network = _Network.of(choice, rows, brokers)
    weights = _Weights.of(choice, sizes, network.node_count)
    copy_costs = (-(-sizes[rows] // weights.size_unit) + 1) * weights.copies * is_copied

    from_racks = network.rack_nodes[rows, choice.start.cluster.racks[brokers]]
    arcs = [
        _arcs(from_racks, network.cells, 1, copy_costs),
        *_rack_arcs(choice, network, weights),
        _topic_arcs(choice, network, weights),
        _count_arcs(choice, network, weights),
    ]
    solver = min_cost_flow.SimpleMinCostFlow()
    solver.add_arcs_with_capacity_and_unit_cost(*np.concatenate(arcs, axis=1))
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
            supplies=choice.factors - choice.must_stand.sum(axis=1),
            cells=cells + first_cell,
            used_cells=used_cells,
            first_cell=first_cell,
            partition_nodes=partition_nodes,
            rack_nodes=rack_nodes.reshape(partition_count, rack_count),
            sink=sink,
            node_count=first_cell + len(used_cells),
        )


def _arcs(tails: Ints, heads: Ints | int, capacities: Ints | int, costs: Ints | int) -> Ints:
    """Return arcs as four rows: tails, heads, capacities and costs, broadcast to one shape."""
    columns = np.broadcast_arrays(tails, heads, capacities, costs)
    return np.array([column.ravel() for column in columns], dtype=np.int64)


def _rack_arcs(choice: ReplicaChoice, network: _Network, weights: _Weights) -> Iterator[Ints]:
    """Yield the arcs of each partition to its racks, and to the sink for what finds no place."""
    counts_before = choice.must_stand @ choice.in_rack.T
    capacities = np.minimum(choice.rack_rooms - counts_before, network.supplies[:, None])
    rows, racks = np.nonzero(capacities > 0)
    capacities = capacities[rows, racks]
    arcs = np.repeat(np.arange(len(rows)), capacities)
    costs = (counts_before[rows, racks][arcs] + count_within(capacities)) * weights.racks
    tails, heads = network.partition_nodes[rows], network.rack_nodes[rows, racks]
    yield _arcs(tails[arcs], heads[arcs], 1, costs)
    if choice.may_lack_place:
        unplaced_cost = 2 * weights.unplaced
        yield _arcs(network.partition_nodes, network.sink, network.supplies, unplaced_cost)


def _topic_arcs(choice: ReplicaChoice, network: _Network, weights: _Weights) -> Ints:
    """Return the arcs from each topic on a broker to the broker: one for each further replica."""
    cluster = choice.start.cluster
    topics, brokers = np.divmod(network.used_cells, cluster.broker_count)
    chosen_now = np.zeros_like(choice.start.topic_counts)
    np.add.at(chosen_now, cluster.topic_numbers[choice.partitions], choice.stands & choice.is_open)
    fixed = choice.start.topic_counts[topics, brokers] - chosen_now[topics, brokers]
    capacities = np.bincount(network.cells - network.first_cell)
    cells = np.repeat(np.arange(len(topics)), capacities)
    counts_before = fixed[cells] + count_within(capacities)
    is_above = counts_before >= choice.topic_limits[topics[cells]]
    costs = counts_before + is_above * weights.topics_above
    return _arcs(network.first_cell + cells, brokers[cells], 1, costs)


def _count_arcs(choice: ReplicaChoice, network: _Network, weights: _Weights) -> Ints:
    """Return the arcs from each broker to the sink: one for each further replica."""
    cluster, now = choice.start.cluster, choice.start.counts
    fixed = choice.fixed_counts + choice.must_stand.sum(axis=0)
    room = np.maximum(cluster.max_counts, now) - fixed  # a constraint, and not only a limit
    capacities = np.minimum(choice.is_open.sum(axis=0), room)
    allowed = np.minimum(np.maximum(choice.max_counts, now), cluster.max_counts) - fixed
    brokers = np.repeat(np.arange(cluster.broker_count), capacities)
    units = count_within(capacities)
    costs = choice.unit_costs(brokers, fixed[brokers] + units) * weights.counts
    costs += (units >= allowed[brokers]) * weights.limits
    costs = np.where(choice.roles.leaving[brokers], weights.unplaced, costs)
    return _arcs(brokers, network.sink, 1, costs)
