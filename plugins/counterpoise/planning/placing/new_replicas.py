"""New replicas: which brokers get the replicas of drained ones, or those of a higher factor.

    drain(placement, roles, policy, is_movable)
    add_missing(placement, roles, factor=3)

To empty brokers, each of their replicas goes to another broker, and no other replica moves:

    for each replica to move, largest first: of the brokers that have room for it
        those on racks with fewest replicas of its partition
        of these, those that are least above their wanted count
        of these, those that hold least of the topic, measured by their share
        of these, the one that misses most bytes
    if no broker has room: send a replica that came to one of them on to another broker, and retry
    in the end counts are made as even as any choice of brokers makes them (`free_replicas`)

Worked example: a replica of a partition whose others are on racks a and b. Brokers 5 (rack a),
6 and 7 (rack c) have room: 6 and 7 are on the better rack. Both are below their wanted count, and
both below their share of the topic; 6 misses 40 GB, 7 misses 55 GB: broker 7 gets it.

Limits: where racks leave no other way, counts give way first, then racks (the last broker of a rack
leaves); the partition is then stacked as low as the others allow. Nothing goes where it would fill
a log dir too far; what fits nowhere stays.

To add replicas, each new one goes to a rack with fewest of its partition:

    for each topic, those with most bytes first; for each partition that lacks replicas:
        racks with fewest replicas of the partition first; of the brokers there with room
        the one that is least above its share of the topic, then with fewest bytes above its fair
        share (or, for the small topics at the end, with fewest replicas)
    settle the rest by passing new replicas on (`even_free_replicas`)

Worked example: partition orders-0 has a replica on rack a and is to have two. Racks b and c have
none. Broker 2 (rack b) has its share of topic orders already, broker 3 (rack c) has not: broker 3
gets the replica, even if broker 2 holds fewer bytes.

Limits: that comes near to even counts, and `even_free_replicas` makes them exact. A flow over all
partitions and brokers would be as exact, but it sees neither topics nor bytes, and is far larger.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from counterpoise.model.columns import Flags, Ints
from counterpoise.model.evenness import ByteBand
from counterpoise.model.policy import BalancePolicy
from counterpoise.planning.fair_shares import byte_band, count_targets, replica_costs
from counterpoise.planning.placement import Placement, Roles
from counterpoise.planning.placing.free_replicas import (
    BYTES_FIRST,
    TOLERANCE_PERCENT,
    FreeReplicas,
    even_free_replicas,
    largest_topics_first,
    of_topics,
    per_broker,
    whole_shares,
)
from counterpoise.planning.placing.replica_choice import ReplicaChoice
from counterpoise.planning.placing.small import place_best

# In vain: where disks are that full, brokers are missing, and not a better order of replicas.
_MAX_FAILED_ATTEMPTS = 20

# Level above the share of the topic, then bytes and replicas or the reverse, then the broker.
_Entry: TypeAlias = tuple[int, int, int, int]


# -- of brokers that are emptied


def drain(placement: Placement, roles: Roles, policy: BalancePolicy, is_movable: Flags) -> None:
    """Move replicas off the brokers that leave; `is_movable` says of which partitions."""
    wanted = count_targets(placement, roles)
    band = byte_band(placement, roles, policy.bytes_tolerance_percent)
    is_leaving = np.append(roles.leaving, False)
    is_to_move = is_leaving[placement.replicas] & is_movable[:, None]
    partitions, positions = np.nonzero(is_to_move)
    sizes = placement.cluster.size_bytes[partitions]
    largest_first = np.lexsort((positions, partitions, -sizes))
    destinations = _Destinations.of(placement, roles, wanted, band)
    failed_attempts = 0
    rows = np.column_stack([partitions, positions])[largest_first].tolist()
    for partition, position in rows:
        if destinations.take(partition, position, is_to_move[partition]):
            continue
        if failed_attempts < _MAX_FAILED_ATTEMPTS:
            is_placed = _make_room(placement, roles, is_to_move, partition, position)
            failed_attempts += not is_placed
    is_placed_now = is_to_move & ~is_leaving[placement.replicas]
    free = FreeReplicas(placement, roles.destinations, is_placed_now)
    even_free_replicas(placement, roles.destinations, free, lambda _: band)


@dataclass(frozen=True, slots=True, eq=False)
class _Destinations:
    """The brokers that receive replicas; columns have one entry for each of them."""

    placement: Placement
    brokers: Ints
    racks: Ints
    wanted: Ints
    fair_bytes: Ints
    number_of: Ints  # of each broker of the cluster in `brokers`; one past the end for the others
    topic_shares: NDArray[np.float64]  # by topic and rack

    @classmethod
    def of(
        cls, placement: Placement, roles: Roles, wanted: Ints, band: ByteBand
    ) -> "_Destinations":
        cluster = placement.cluster
        brokers = np.flatnonzero(roles.destinations)
        number_of = np.full(cluster.broker_count + 1, len(brokers))
        number_of[brokers] = np.arange(len(brokers))
        return cls(
            placement=placement,
            brokers=brokers,
            racks=cluster.racks[brokers],
            wanted=wanted[brokers],
            fair_bytes=band.fair[brokers],
            number_of=number_of,
            topic_shares=of_topics(placement, cluster.rack_sizes(roles.staying)),
        )

    def take(self, partition: int, position: int, is_to_move: Flags) -> bool:
        """Give a replica to the best destination; False when none may have it.

        `is_to_move` has the replicas of the row that leave their brokers.
        """
        placement, row = self.placement, self.placement.replicas[partition]
        topic = int(placement.cluster.topic_numbers[partition])
        has_room = placement.room[self.brokers] >= placement.cluster.size_bytes[partition]
        has_room &= placement.counts[self.brokers] < placement.cluster.max_counts[self.brokers]
        is_able = np.append(has_room, False)
        is_able[self.number_of[row]] = False
        able = np.flatnonzero(is_able)
        if not len(able):
            return False
        able = _smallest(able, self._neighbours(row, is_to_move)[self.racks[able]])
        counts_after = placement.counts[self.brokers[able]] + 1
        able = _smallest(able, np.maximum(0, counts_after - self.wanted[able]))
        able = _smallest(able, self._topic_levels(able, topic))
        over_fair = placement.bytes_held[self.brokers[able]] - self.fair_bytes[able]
        best = int(able[np.argmin(over_fair)])
        placement.give(partition, position, int(self.brokers[best]))
        return True

    def _neighbours(self, row: Ints, is_to_move: Flags) -> Ints:
        """Return, per rack, the replicas of a row that stay or have found their new place."""
        is_on_destination = self.number_of[row] < len(self.brokers)
        settled = row[~is_to_move | is_on_destination]
        racks = self.placement.racks_by_position[settled[settled >= 0]]
        return np.bincount(racks, minlength=self.topic_shares.shape[1])

    def _topic_levels(self, able: Ints, topic: int) -> Ints:
        """Return 0 for brokers below their share of the topic, 1 inside, else how far above."""
        topic_counts = self.placement.topic_counts[topic, self.brokers[able]].astype(np.int64)
        lowest_by_rack, highest_by_rack = whole_shares(self.topic_shares[topic])
        lowest, highest = lowest_by_rack[self.racks[able]], highest_by_rack[self.racks[able]]
        inside_or_above = np.where(topic_counts < highest, 1, 2 + topic_counts - highest)
        return np.asarray(np.where(topic_counts < lowest, 0, inside_or_above))


def _smallest(candidates: Ints, values: Ints) -> Ints:
    return np.asarray(candidates[values == values.min()])


def _make_room(
    placement: Placement, roles: Roles, is_to_move: Flags, partition: int, position: int
) -> bool:
    """Send a replica that has just come on to another broker; False where none makes room."""
    sizes = placement.cluster.size_bytes
    size = int(sizes[partition])
    is_leaving = np.append(roles.leaving, False)
    has_come = is_to_move & ~is_leaving[placement.replicas]
    free = FreeReplicas(placement, roles.destinations, has_come)
    destinations = np.flatnonzero(roles.destinations)
    destinations = destinations[~np.isin(destinations, placement.replicas[partition])]
    by_room = np.lexsort((destinations, -placement.room[destinations]))
    for destination in destinations[by_room].tolist():
        missing_bytes = size - free.room(destination)
        for other in np.flatnonzero(free.reachable(destination)).tolist():
            replicas = free.choices(destination, other)
            other_sizes = sizes[replicas.partitions]
            is_fitting = (other_sizes >= missing_bytes) & (other_sizes <= free.room(other))
            if is_fitting.any():
                fitting = replicas.only(is_fitting)
                smallest_first = np.lexsort((fitting.partitions, other_sizes[is_fitting]))
                free.move(fitting.only(smallest_first[:1]), other)
                placement.give(partition, position, destination)
                return True
    return False


# -- of a higher replication factor


def add_missing(
    placement: Placement, roles: Roles, factor: int, bytes_tolerance_percent: int
) -> None:
    """Add replicas to every partition that may change until it has `factor`, or none has room.

    In small clusters bytes end within the tolerance, where that can be; in larger ones new replicas
    aim nearer to the fair share, since they only come near it.
    """
    is_short = placement.cluster.may_change & (placement.replica_counts < factor)

    if placement.is_small(is_short):
        find_band = partial(byte_band, roles=roles, tolerance_percent=bytes_tolerance_percent)
        choice = ReplicaChoice.to_add(placement, roles, factor)
        if place_best(placement, choice, find_band, roles.destinations):
            return
    placement.widen(factor)
    is_new = _add(placement, roles, factor)
    if not is_new.any():
        return
    free = FreeReplicas(placement, roles.destinations, is_new)
    find_band = partial(byte_band, roles=roles, tolerance_percent=TOLERANCE_PERCENT)
    even_free_replicas(placement, roles.destinations, free, find_band)
    is_new |= _add(placement, roles, factor)  # what there is room for only now
    placement.touched |= is_new.any(axis=1)


def _add(placement: Placement, roles: Roles, factor: int) -> Flags:
    """Add what there is room for; return, in the shape of the replicas, which are new."""
    is_new = np.zeros(placement.replicas.shape, dtype=np.bool_)
    short = np.flatnonzero(placement.cluster.may_change & (placement.replica_counts < factor))
    if not len(short) or not roles.destinations.any():
        return is_new
    ordered = short[largest_topics_first(placement, short)]
    chosen = list(_choose(placement, roles, factor, ordered))
    partitions, columns, brokers = np.array(chosen, dtype=np.int64).reshape(-1, 3).T
    is_new[partitions, columns] = True
    replicas = placement.replicas
    replicas[partitions, columns] = brokers
    placement.reset_to(replicas)
    return is_new


def _choose(
    placement: Placement, roles: Roles, factor: int, partitions: Ints
) -> Iterator[tuple[int, int, int]]:
    """Yield partition, column and broker of each replica to add; `partitions` come by topic."""
    cluster = placement.cluster
    shares = per_broker(factor, cluster.rack_sizes(roles.staying))[cluster.racks]
    topics, sizes = cluster.topic_numbers[partitions], cluster.size_bytes[partitions]
    rows = placement.replicas[partitions]
    partition_counts = np.bincount(cluster.topic_numbers, minlength=len(cluster.topic_names))
    added_bytes = sizes * (factor - (rows >= 0).sum(axis=1))
    total_bytes = int(placement.bytes_held.sum() + added_bytes.sum())
    fair_bytes = (total_bytes * shares / shares.sum()).astype(np.int64)
    bytes_first = np.cumsum(added_bytes) <= BYTES_FIRST * added_bytes.sum()
    brokers = _Brokers.of(placement, roles, factor, fair_bytes)
    is_first_of_topic = np.append(True, topics[1:] != topics[:-1])
    starts = np.flatnonzero(is_first_of_topic).tolist()
    for start, end in zip(starts, [*starts[1:], len(partitions)], strict=True):
        topic = int(topics[start])
        ranking = _TopicRanking.of(
            brokers,
            placement.topic_counts[topic],
            partition_counts[topic] * shares,
            bytes_first=bool(bytes_first[start]),
        )
        of_topic = slice(start, end)
        columns = partitions[of_topic].tolist(), sizes[of_topic].tolist(), rows[of_topic].tolist()
        for partition, size, row in zip(*columns, strict=True):
            holders = [broker for broker in row if broker >= 0]
            added = brokers.add(ranking, holders, size)
            for column, broker in enumerate(added, start=len(holders)):
                yield partition, column, broker


@dataclass(slots=True)
class _Brokers:
    """The brokers as they fill up. Lists have an entry per broker, `by_rack` one per rack."""

    factor: int
    by_rack: list[list[int]]  # those that may receive replicas
    racks: list[int]
    counts: list[int]
    costs: list[int]  # of one replica, in hundredths of that on the largest broker
    over_fair: list[int]  # bytes held, less the fair share of all bytes
    room: list[int]
    max_counts: list[int]
    rack_groups: dict[tuple[int, ...], list[list[int]]]  # by the racks of a row, the best first

    @classmethod
    def of(cls, placement: Placement, roles: Roles, factor: int, fair_bytes: Ints) -> "_Brokers":
        racks = placement.cluster.racks
        by_rack: list[list[int]] = [[] for _ in range(int(racks.max(initial=-1)) + 1)]
        for broker in np.flatnonzero(roles.destinations).tolist():
            by_rack[racks[broker]].append(broker)
        return cls(
            factor=factor,
            by_rack=by_rack,
            racks=racks.tolist(),
            counts=placement.counts.tolist(),
            costs=replica_costs(placement.cluster, roles).tolist(),
            over_fair=(placement.bytes_held - fair_bytes).tolist(),
            room=placement.room.tolist(),
            max_counts=placement.cluster.max_counts.tolist(),
            rack_groups={},
        )

    def add(self, ranking: "_TopicRanking", held_by: list[int], size: int) -> list[int]:
        """Return the brokers that get what a partition with these replicas lacks, and count it."""
        row = held_by.copy()
        while len(row) < self.factor and (best := self._best(ranking, row, size)):
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
        share: NDArray[np.float64],
        *,
        bytes_first: bool,
    ) -> "_TopicRanking":
        lowest, highest = whole_shares(share)
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
