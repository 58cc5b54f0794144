"""New replicas: which brokers get the replicas of drained ones, or those of a higher factor.

    drain(placement, roles, policy, is_movable)
    add_missing(placement, roles, policy, factor=3)

No other replica moves. Each new one goes to a rack with fewest of its partition:

    for each topic, those with most bytes first; for each partition that lacks replicas:
        racks with fewest replicas of the partition first; of the brokers there with room
        the one that is least above its share of the topic, then with fewest bytes above its fair
        share (or, for the small topics at the end, with fewest replicas)
    if one finds no room: once more from the start, with its partition first
    pass new replicas on until counts are even (`local_search`); where they cannot be quite even, a
        flow over all that are new makes them the best that there are (`replica_choice`)
    exchange new replicas until bytes are even (`local_search`)

Worked example: partition orders-0 has a replica on rack a and is to have two. Racks b and c have
none. Broker 2 (rack b) has its share of topic orders already, broker 3 (rack c) has not: broker 3
gets the replica, even if broker 2 holds fewer bytes.

Limits: where racks leave no other way, counts give way first, then racks (the last broker of a rack
leaves); the partition is then stacked as low as the others allow. Nothing goes where it would fill
a log dir too far; what fits nowhere stays.
"""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from counterpoise.model.columns import NOBODY, Flags, Ints
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.racks import bounds_of_partition
from counterpoise.planning.arrays import UNBOUNDED, ClusterArrays
from counterpoise.planning.fair_shares import byte_band, count_targets, replica_costs
from counterpoise.planning.placement import Placement, Roles
from counterpoise.planning.placing.local_search import Search
from counterpoise.planning.placing.replica_choice import ReplicaChoice
from counterpoise.planning.placing.small import is_affordable, make_counts_best, place_best

BYTES_FIRST: Final = 0.9  # this part of all bytes is placed before the number of replicas decides
TOLERANCE_PERCENT: Final = 5  # of bytes: nothing more is copied for it
_MAX_ORDERS: Final = 5  # where disks are full after these, brokers are missing, no better order
_ROUNDING_ERROR: Final = 1e-9
_BISECTION_STEPS: Final = 60

# Level above the share of the topic, then bytes and replicas or the reverse, then the broker.
_Entry: TypeAlias = tuple[int, int, int, int]


def drain(placement: Placement, roles: Roles, policy: BalancePolicy, is_movable: Flags) -> None:
    """Move replicas off the brokers that leave; `is_movable` says of which partitions."""
    is_leaving = np.append(roles.leaving, False)
    is_open = np.asarray(is_leaving[placement.replicas] & is_movable[:, None])
    choose = partial(ReplicaChoice.to_empty, roles=roles, is_chosen=np.asarray(is_open.any(axis=1)))
    _place(placement, roles, policy, is_open, choose)


def add_missing(placement: Placement, roles: Roles, policy: BalancePolicy, factor: int) -> None:
    """Add replicas to every partition that may change until it has `factor`, or none has room.

    In small clusters bytes end within the tolerance, where that can be; in larger ones new replicas
    aim nearer to the fair share, since they only come near it.
    """
    counts = placement.replica_counts
    is_short = placement.cluster.may_change & (counts < factor)
    choose = partial(ReplicaChoice.to_add, roles=roles, factor=factor)
    if placement.is_small(is_short):
        percent = policy.bytes_tolerance_percent
        find_band = partial(byte_band, roles=roles, tolerance_percent=percent)
        if place_best(placement, choose(placement), find_band, roles.destinations):
            return
    placement.widen(factor)
    columns = np.arange(placement.replicas.shape[1])
    is_missing = (columns >= counts[:, None]) & (columns < factor)
    added_only = roles.but(sources=roles.leaving)
    nearer = replace(policy, bytes_tolerance_percent=TOLERANCE_PERCENT)
    _place(placement, added_only, nearer, is_missing & is_short[:, None], choose)


def _place(
    placement: Placement,
    roles: Roles,
    policy: BalancePolicy,
    is_open: Flags,
    choose: Callable[[Placement], ReplicaChoice],
) -> None:
    """Fill the open places in the rows of replicas, and even out what has come."""
    if not is_open.any() or not roles.destinations.any():
        return
    start = placement.copy()
    partitions, columns, brokers = _best_of_orders(placement, roles, is_open).T
    replicas = placement.replicas.copy()
    replicas[partitions, columns] = brokers
    placement.reset_to(replicas)
    search = Search.of(placement, roles, policy, may_copy_for_traffic=False)
    if not even_counts_of(search, roles, max_turns=1):
        count = int(is_open.any(axis=1).sum())
        is_small_enough = is_affordable(placement, roles.destinations, count)
        if is_small_enough and make_counts_best(placement, choose(start)):
            search = Search.of(placement, roles, policy, may_copy_for_traffic=False)
        else:
            even_counts_of(search, roles)
    search.run()


def _best_of_orders(placement: Placement, roles: Roles, is_open: Flags) -> Ints:
    """Return a row for each replica that has room: partition, column and broker.

    Partitions that found no room for all come first in the next order that is tried.
    """
    cluster, open_counts = placement.cluster, is_open.sum(axis=1)
    partitions = np.flatnonzero(open_counts)
    partitions = partitions[largest_topics_first(cluster, partitions)]
    best, comes_first = np.zeros((0, 3), dtype=np.int64), np.zeros(len(is_open), dtype=np.bool_)
    for _ in range(_MAX_ORDERS):
        placed = list(_place_in_order(placement, roles, is_open, partitions))
        chosen = np.array(placed, dtype=np.int64).reshape(-1, 3)
        best = max(best, chosen, key=len)
        is_left = np.bincount(chosen[:, 0], minlength=len(is_open)) < open_counts
        if not is_left.any():
            break
        comes_first |= is_left
        partitions = partitions[np.argsort(~comes_first[partitions], kind="stable")]
    return best


def _place_in_order(
    placement: Placement, roles: Roles, is_open: Flags, partitions: Ints
) -> Iterator[tuple[int, int, int]]:
    """Yield partition, column and broker of each replica that has room."""
    cluster = placement.cluster
    topics, sizes = cluster.topic_numbers[partitions], cluster.size_bytes[partitions]
    kept = np.where(is_open, NOBODY, placement.replicas)[partitions]
    shares = Shares.of(placement, roles, (is_open | (placement.replicas >= 0)).sum(axis=1))
    missing_bytes = sizes * is_open[partitions].sum(axis=1)
    bytes_first = np.cumsum(missing_bytes) <= BYTES_FIRST * missing_bytes.sum()
    brokers = _Brokers.of(placement, roles, shares.bytes_of_brokers)
    starts = np.flatnonzero(np.append(True, topics[1:] != topics[:-1])).tolist()
    for start, end in zip(starts, [*starts[1:], len(partitions)], strict=True):
        topic = int(topics[start])
        ranking = _TopicRanking.of(
            brokers,
            placement.topic_counts[topic],
            shares.of_topic(topic),
            bytes_first=bool(bytes_first[start]),
        )
        of_topic = slice(start, end)
        columns = partitions[of_topic].tolist(), sizes[of_topic].tolist(), kept[of_topic].tolist()
        for partition, size, row in zip(*columns, strict=True):
            holders = [broker for broker in row if broker >= 0]
            places = np.flatnonzero(is_open[partition]).tolist()
            added = brokers.add(ranking, holders, len(places), size)
            for column, broker in zip(places, added, strict=False):
                yield partition, column, broker


def even_counts_of(search: Search, roles: Roles, max_turns: int = UNBOUNDED) -> bool:
    """Pass replicas on until counts are even, over the brokers that can have more; return whether
    they are as even as racks and brokers allow.
    """
    placement, max_counts = search.placement, search.placement.cluster.max_counts.copy()
    is_short = roles.destinations
    for _ in range(max_turns):
        wanted = count_targets(placement, roles, max_counts)
        search.even_counts(wanted)
        is_short = roles.destinations & (placement.counts < wanted)
        if not is_short.any():
            break
        max_counts[is_short] = placement.counts[is_short]
    return not is_short.any()


# -- which broker gets the next one


@dataclass(slots=True)
class _Brokers:
    """The brokers as they fill up. Lists have an entry per broker, `by_rack` one per rack."""

    by_rack: list[list[int]]  # those that may receive replicas
    racks: list[int]
    counts: list[int]
    costs: list[int]  # of one replica, in hundredths of that on the largest broker
    over_fair: list[int]  # bytes held, less the fair share of all bytes
    room: list[int]
    max_counts: list[int]
    rack_groups: dict[tuple[int, ...], list[list[int]]]  # by the racks of a row, the best first

    @classmethod
    def of(cls, placement: Placement, roles: Roles, fair_bytes: Ints) -> "_Brokers":
        racks = placement.cluster.racks
        by_rack: list[list[int]] = [[] for _ in range(int(racks.max(initial=-1)) + 1)]
        for broker in np.flatnonzero(roles.destinations).tolist():
            by_rack[racks[broker]].append(broker)
        return cls(
            by_rack=by_rack,
            racks=racks.tolist(),
            counts=placement.counts.tolist(),
            costs=replica_costs(placement.cluster, roles).tolist(),
            over_fair=(placement.bytes_held - fair_bytes).tolist(),
            room=placement.room.tolist(),
            max_counts=placement.cluster.max_counts.tolist(),
            rack_groups={},
        )

    def add(
        self, ranking: "_TopicRanking", held_by: list[int], wanted: int, size: int
    ) -> list[int]:
        """Return brokers for `wanted` more replicas of a partition with these, and count them.

        They are fewer where there is no room.
        """
        row = held_by.copy()
        while len(row) < len(held_by) + wanted and (best := self._best(ranking, row, size)):
            broker = best[-1]
            row.append(broker)
            self.counts[broker] += 1
            self.over_fair[broker] += size
            self.room[broker] -= size
            ranking.update(self, best)
        return row[len(held_by) :]

    def _best(self, ranking: "_TopicRanking", row: list[int], size: int) -> _Entry | None:
        for racks in self._rack_groups_of(row):
            entries = [self._first(ranking.heaps[rack], row, size) for rack in racks]
            if best := min(filter(None, entries), default=None):
                return best
        return None

    def _first(self, heap: list[_Entry], row: list[int], size: int) -> _Entry | None:
        """Return the first entry of a rack that may take the replica; None when there is none."""
        if heap and self._may_take(heap[0], row, size):
            return heap[0]
        return min((entry for entry in heap if self._may_take(entry, row, size)), default=None)

    def _may_take(self, entry: _Entry, row: list[int], size: int) -> bool:
        broker = entry[-1]
        has_room = self.room[broker] >= size and self.counts[broker] < self.max_counts[broker]
        return broker not in row and has_room

    def _rack_groups_of(self, row: list[int]) -> list[list[int]]:
        """Return racks that can receive, grouped by how many replicas of the row they have."""
        racks_of_row = tuple(sorted([self.racks[broker] for broker in row]))
        if racks_of_row not in self.rack_groups:
            by_count: dict[int, list[int]] = {}
            for rack, brokers in enumerate(self.by_rack):
                if brokers:
                    by_count.setdefault(racks_of_row.count(rack), []).append(rack)
            self.rack_groups[racks_of_row] = [by_count[count] for count in sorted(by_count)]
        return self.rack_groups[racks_of_row]


@dataclass(slots=True)
class _TopicRanking:
    """The order in which the brokers of each rack get replicas of one topic: a heap per rack."""

    topic_counts: list[int]
    lowest: list[int]  # replicas of the topic that are a broker's share, rounded down
    highest: list[int]  # and up
    bytes_first: bool
    heaps: list[list[_Entry]]

    @classmethod
    def of(
        cls,
        brokers: _Brokers,
        topic_counts: Ints,
        shares: tuple[Ints, Ints],
        *,
        bytes_first: bool,
    ) -> "_TopicRanking":
        lowest, highest = shares
        ranking = cls(topic_counts.tolist(), lowest.tolist(), highest.tolist(), bytes_first, [])
        for rack_brokers in brokers.by_rack:
            heap = [ranking._entry(brokers, broker) for broker in rack_brokers]
            heapq.heapify(heap)
            ranking.heaps.append(heap)
        return ranking

    def _entry(self, brokers: _Brokers, broker: int) -> _Entry:
        count, highest = self.topic_counts[broker], self.highest[broker]
        if count < self.lowest[broker]:
            level = 0
        elif count < highest:
            level = 1
        else:
            level = 2 + count - highest
        cost = (2 * brokers.counts[broker] + 1) * brokers.costs[broker]
        if self.bytes_first:
            return level, brokers.over_fair[broker], cost, broker
        return level, cost, brokers.over_fair[broker], broker

    def update(self, brokers: _Brokers, entry: _Entry) -> None:
        """Move a broker that has just received a replica to its new place."""
        broker = entry[-1]
        self.topic_counts[broker] += 1
        heap, new_entry = self.heaps[brokers.racks[broker]], self._entry(brokers, broker)
        if heap[0] is entry:
            heapq.heapreplace(heap, new_entry)
        else:
            heap[heap.index(entry)] = new_entry
            heapq.heapify(heap)


# -- shares of topics, as racks allow


@dataclass(frozen=True, slots=True, eq=False)
class Shares:
    """What each broker should have of each topic, and of all bytes, when all is placed."""

    racks: Ints  # of each broker
    by_rack: NDArray[np.float64]  # replicas of each topic per broker of each rack
    bytes_of_brokers: Ints

    @classmethod
    def of(cls, placement: Placement, roles: Roles, factors: Ints) -> "Shares":
        """Return the shares where partitions have so many replicas in the end."""
        cluster = placement.cluster
        rack_sizes = cluster.rack_sizes(roles.staying)
        by_rack = np.zeros((len(cluster.topic_names), len(rack_sizes)))
        parts = np.zeros(len(rack_sizes))  # of all bytes
        for factor in np.unique(factors).tolist():
            share, is_counted = _per_broker(factor, rack_sizes), factors == factor
            topics = np.bincount(cluster.topic_numbers[is_counted], minlength=len(by_rack))
            by_rack += topics[:, None] * share
            parts += float(cluster.size_bytes[is_counted].sum()) * share
        weights = parts[cluster.racks] * cluster.weights(roles.sharing)
        total = float(cluster.size_bytes @ factors) / max(1e-9, float(weights[roles.staying].sum()))
        return cls(cluster.racks, by_rack, (weights * total).astype(np.int64))

    def of_topic(self, topic: int) -> tuple[Ints, Ints]:
        """Return the share of each broker, rounded down and up."""
        share = self.by_rack[topic][self.racks]
        lowest = np.floor(share + _ROUNDING_ERROR).astype(np.int64)
        highest = np.ceil(share - _ROUNDING_ERROR).astype(np.int64)
        return lowest, highest


def _per_broker(factor: int, rack_sizes: Ints) -> NDArray[np.float64]:
    """Return replicas of one partition per broker of each rack, as even as the racks allow.

    `rack_sizes` are the brokers per rack. The level is the part of a replica per broker that adds
    up to `factor` over all racks; it is found by bisection.

    Worked example: 3 replicas on racks of 4, 1 and 1 brokers: each rack holds one replica, so a
    broker has 0.25, 1 or 1 of them. A topic of 8 partitions has 2, 8 and 8 per broker.
    """
    lowest, highest = bounds_of_partition(factor, rack_sizes)
    low, high = 0.0, 1.0
    for _ in range(_BISECTION_STEPS):
        level = (low + high) / 2
        if np.clip(level * rack_sizes, lowest, highest).sum() < factor:
            low = level
        else:
            high = level
    in_rack = np.clip(high * rack_sizes, lowest, highest)
    return np.asarray(in_rack / np.maximum(1, rack_sizes), dtype=np.float64)


def largest_topics_first(cluster: ClusterArrays, partitions: Ints) -> Ints:
    """Return the order of `partitions`: topics with most bytes first, then large partitions.

    At first bytes decide where replicas go; in the small topics at the end the number of replicas
    does. So both come out even: few replicas hold most bytes, and many replicas few.
    """
    topics, sizes = cluster.topic_numbers[partitions], cluster.size_bytes[partitions]
    topic_bytes = np.zeros(len(cluster.topic_names), dtype=np.int64)
    np.add.at(topic_bytes, topics, sizes)
    return np.lexsort((partitions, -sizes, topics, -topic_bytes[topics]))
