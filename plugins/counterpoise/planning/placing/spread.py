"""The main steps: racks are repaired, then brokers above their target count give replicas to
brokers below it.

    part_giants(placement, roles, is_giant)
    repair_racks(placement, roles, wanted, max_counts)
    spread(placement, roles, wanted, band, shares, is_pinned=is_giant)

    surplus, missing = how many replicas each broker has above or below its wanted count
    quotas           = who gives how many replicas to which rack (`transfers`)
    bytes            = first what the destinations need to reach the band, then what the sources
                       have above it, as far as there is room; by water filling from the sources
                       that hold most of their share
    for each destination rack:
        for each source: choose replicas by topic and size (`transfers`)
        assign them, largest first, to the brokers of the rack (`_Destinations`)

Worked example of bytes: if broker 1 holds 60 GB, broker 2 40 GB, and a rack needs 30 GB of them,
then filled up to 35 GB each keeps the same: broker 1 gives 25 GB, broker 2 gives 5.

Limits: a partition gets at most one new replica in `spread`, so that it keeps its others as they
are.
It reaches its targets wherever racks are regular. What it could not do (small clusters, mixed
replication factors, partitions that have a new replica) is for `local_search`.
"""

import heapq
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from counterpoise.model.columns import NOBODY, Flags, Ints
from counterpoise.model.evenness import ByteBand
from counterpoise.planning.arrays import UNBOUNDED
from counterpoise.planning.fair_shares import ByteWeights, TopicShares, fill
from counterpoise.planning.placement import Placement, Replicas, Roles
from counterpoise.planning.placing.transfers import (
    TopicQuotas,
    TransferQuota,
    choose_of_all,
    make_transfer_quotas,
)

_MAX_COMPARED = 3
_MIN_WEIGHT = 1e-6

_Entry: TypeAlias = tuple[int, int]  # (-missing bytes, broker): the smallest comes first in a heap


def repair_racks(
    placement: Placement,
    roles: Roles,
    wanted: Ints,
    max_counts: Ints,
    max_copied_bytes: int = UNBOUNDED,
) -> None:
    """Move replicas to racks that have two fewer of their partition, while brokers can.

    With `max_copied_bytes` the smallest partitions come first, and nothing is copied beyond that.

    A destination must have fewer replicas than its `max_counts`. The one that is furthest below its
    `wanted` count gets the replica.
    """
    sizes = placement.cluster.size_bytes
    uneven = np.flatnonzero(placement.rack_moves(roles.staying) * placement.cluster.may_change)
    if max_copied_bytes < UNBOUNDED:
        uneven = uneven[np.lexsort((uneven, sizes[uneven]))]
    for partition in uneven.tolist():
        highest = max_copied_bytes - int(sizes[partition])
        while int(placement.arriving.sum()) <= highest:
            if not _repair_one(placement, roles, wanted, max_counts, partition):
                break


def _repair_one(
    placement: Placement, roles: Roles, wanted: Ints, max_counts: Ints, partition: int
) -> bool:
    """Move one replica of a partition to a rack that has two fewer; False when that cannot be.

    It goes from the highest stack, and there from the broker that is furthest above its count, to
    the lowest one.
    """
    row = placement.replicas[partition]
    held_by = row[row >= 0]
    racks = placement.racks_by_position
    replicas_in_rack = np.bincount(racks[held_by], minlength=int(racks.max()) + 1)
    has_room = placement.room >= placement.cluster.size_bytes[partition]
    is_able = roles.destinations & (placement.counts < max_counts) & has_room
    is_able[held_by] = False
    able = np.flatnonzero(is_able)
    above_wanted = placement.counts - wanted
    choices = []
    for position in np.flatnonzero(row >= 0).tolist():
        source = int(row[position])
        if roles.sources[source]:
            stack = int(replicas_in_rack[racks[source]])
            choices.append((-stack, -int(above_wanted[source]), position))
    if not choices or not len(able):
        return False
    lowest_first = np.lexsort((able, above_wanted[able], replicas_in_rack[racks[able]]))
    destination = int(able[lowest_first[0]])
    stack, _, position = min(choices)
    if replicas_in_rack[racks[destination]] + 1 >= -stack:
        return False
    placement.give(partition, position, destination)
    return True


def part_giants(placement: Placement, roles: Roles, is_giant: Flags) -> None:
    """Give replicas that are larger than a share a broker of their own, as far as there are any.

    Where several stand on one broker the smaller ones leave it, each to the broker without any that
    holds least. No exchange for smaller replicas would do that: either broker is far outside.
    """
    cluster = placement.cluster
    giants = np.flatnonzero(is_giant & cluster.may_change)
    held = cluster.load(np.where(is_giant[:, None], placement.replicas, NOBODY))
    smallest_first = giants[np.lexsort((giants, cluster.size_bytes[giants]))]
    for partition in smallest_first.tolist():
        row = placement.replicas[partition].copy()
        for position in np.flatnonzero(row >= 0).tolist():
            source = int(row[position])
            if held[source] < 2 or not roles.sources[source]:
                continue
            has_room = placement.room >= cluster.size_bytes[partition]
            has_room &= placement.counts < cluster.max_counts
            may_get = roles.destinations & roles.sharing & (held == 0) & has_room
            may_get[row[row >= 0]] = False
            replica = Replicas(np.array([partition]), np.array([position]))
            able = [
                broker
                for broker in np.flatnonzero(may_get).tolist()
                if placement.suits(replica, int(cluster.racks[broker]))[0]
            ]
            if able:
                destination = min(able, key=lambda broker: (placement.bytes_held[broker], broker))
                placement.give(partition, position, destination)
                held[[source, destination]] += (-1, 1)


def spread(
    placement: Placement,
    roles: Roles,
    wanted: Ints,
    band: ByteBand,
    shares: TopicShares,
    *,
    is_pinned: Flags,
) -> None:
    """Move replicas until counts are as `wanted`, where racks and partitions without a new replica
    allow it.

    Partitions that are pinned stay where they are: a replica larger than a share helps no other
    broker either.
    """
    counts = placement.counts
    surplus = np.where(roles.sources, np.maximum(0, counts - wanted), 0)
    missing = np.where(roles.destinations, np.maximum(0, wanted - counts), 0)
    if not surplus.any() or not missing.any():
        return
    may_go = placement.cluster.may_change & ~is_pinned & (placement.new_replicas == 0)
    quotas = make_transfer_quotas(placement, surplus, missing, may_go)
    _plan_bytes(placement, band, quotas, missing)
    planned_bytes = Counter[int]()
    for rack_quotas in quotas.values():
        for quota in rack_quotas:
            planned_bytes[quota.source] += quota.wanted_bytes
    for to_rack, rack_quotas in quotas.items():
        is_destination = (placement.cluster.racks == to_rack) & (missing > 0)
        destinations = np.flatnonzero(is_destination)
        sources = np.array(sorted({quota.source for quota in rack_quotas}), dtype=np.int64)
        topic_quotas = TopicQuotas.of(placement, shares, sources, destinations)
        chosen = choose_of_all(placement, band, topic_quotas, rack_quotas, planned_bytes)
        _assign(placement, band, shares, missing, destinations, chosen)


def _plan_bytes(
    placement: Placement, band: ByteBand, quotas: Mapping[int, list[TransferQuota]], missing: Ints
) -> None:
    """Set the bytes of all quotas: what destinations need, then what sources have too much."""
    bytes_held = placement.bytes_held.copy()  # as the quotas planned so far leave it
    planned = dict.fromkeys(quotas, 0)
    for is_relief in (False, True):
        for rack, rack_quotas in quotas.items():
            is_destination = (placement.cluster.racks == rack) & (missing > 0)
            needed, space = _needed_and_space(placement, band, np.flatnonzero(is_destination))
            wanted = needed
            sources = np.array([quota.source for quota in rack_quotas], dtype=np.int64)
            if is_relief:
                above_band = np.maximum(0, bytes_held[sources] - band.inner.highest[sources])
                relief = min(int(above_band.sum()), space - planned[rack])
                wanted = planned[rack] + max(0, relief)
            bytes_held[sources] += [quota.wanted_bytes for quota in rack_quotas]
            planned[rack] = _share_out(placement, band, rack_quotas, bytes_held[sources], wanted)
            bytes_held[sources] -= [quota.wanted_bytes for quota in rack_quotas]


def _needed_and_space(placement: Placement, band: ByteBand, destinations: Ints) -> tuple[int, int]:
    """Return what destinations need to reach the band, and what they have room for inside it."""
    bytes_held, inner = placement.bytes_held[destinations], band.inner
    room = np.maximum(0, placement.room[destinations])
    needed = np.clip(inner.lowest[destinations] - bytes_held, 0, room)
    space = np.clip(inner.highest[destinations] - bytes_held, 0, room)
    return int(needed.sum()), int(space.sum())


def _share_out(
    placement: Placement, band: ByteBand, quotas: list[TransferQuota], bytes_held: Ints, wanted: int
) -> int:
    """Set the part of each quota in the wanted bytes, and return their sum.

    What the sources keep is even in proportion to their fair shares, within what the count of each
    quota allows.
    """
    sizes = placement.cluster.size_bytes
    sorted_sizes = [sizes[quota.replicas.partitions] for quota in quotas]
    columns = list(zip(sorted_sizes, [quota.count for quota in quotas], strict=True))
    smallest = np.array([own_sizes[:count].sum() for own_sizes, count in columns])
    largest = np.array([own_sizes[-count:].sum() for own_sizes, count in columns])
    weights = _weights_of(band.fair[[quota.source for quota in quotas]])
    total = int(bytes_held.sum()) - wanted
    kept = fill(total, bytes_held - largest, bytes_held - smallest, bytes_held, weights)
    given = bytes_held - kept
    for quota, given_bytes in zip(quotas, given.tolist(), strict=True):
        quota.wanted_bytes = given_bytes
    return int(np.minimum(given.sum(), UNBOUNDED))


def _assign(
    placement: Placement,
    band: ByteBand,
    shares: TopicShares,
    missing: Ints,
    destinations: Ints,
    replicas: Replicas,
) -> None:
    """Move the chosen replicas, largest first, each to the destination that suits it best."""
    all_sizes = placement.cluster.size_bytes
    largest_first = np.lexsort((replicas.partitions, -all_sizes[replicas.partitions]))
    replicas = replicas.only(largest_first)
    partitions, sizes = replicas.partitions, all_sizes[replicas.partitions]
    missing_bytes = _missing_bytes(placement, band, destinations, int(sizes.sum()))
    assignment = _Destinations.of(placement, destinations, missing, shares, missing_bytes)
    columns = (
        placement.replicas[partitions].tolist(),
        placement.replicas[replicas].tolist(),
        placement.cluster.topic_numbers[partitions].tolist(),
        sizes.tolist(),
    )
    assigned = [assignment.next_for(*replica) for replica in zip(*columns, strict=True)]
    chosen = np.array(assigned, dtype=np.int64)
    is_placed = chosen >= 0
    placement.give_all(replicas.only(is_placed), chosen[is_placed])


def _missing_bytes(
    placement: Placement, band: ByteBand, destinations: Ints, arriving_bytes: int
) -> Ints:
    """Return what each destination misses to be even with the others when all has arrived."""
    bytes_held = placement.bytes_held[destinations]
    total = int(bytes_held.sum()) + arriving_bytes
    upper = np.full(len(destinations), UNBOUNDED)
    even = fill(total, bytes_held, upper, bytes_held, _weights_of(band.fair[destinations]))
    return even - bytes_held


def _weights_of(fair_shares: Ints) -> ByteWeights | None:
    """Return fair shares as weights for `fill`; None where nothing is to be shared."""
    largest = int(fair_shares.max(initial=0))
    if not largest:
        return None
    return ByteWeights(np.maximum(fair_shares / largest, _MIN_WEIGHT))


# -- who gets them


@dataclass(slots=True)
class _Destination:
    """What one broker may still get; lists have an entry per topic, or per broker."""

    replicas_left: int
    bytes_left: int
    topic_counts: list[int]
    topic_shares: list[int]  # below this it should get more of the topic
    topic_limits: list[int]  # below this it may get more of the topic
    shared_partitions: list[int]  # with each other broker


@dataclass(slots=True)
class _Destinations:
    """Which broker of a rack gets each of the replicas that go there, largest first.

    ask the brokers in order of the bytes they miss, most first
        skip it if it has a replica of the partition, or no room for the bytes
        below its share of the topic: it fits
    stop at 3 that fit, or when the next one misses less than the first by more than one replica
    of those that fit: the one that shares fewest partitions with the other brokers of this one
    if none fits: the first that was asked, or one after it that has room for the topic

    Worked example: broker 4 misses 120 GB, broker 8 misses 119, both are below their share of the
    topic. A replica of 10 GB, with other replicas on brokers 1 and 2, could go to either. Broker 4
    shares 7 partitions with broker 1 already, broker 8 at most 5 with any of the two: broker 8 gets
    it, and misses 109 GB now. So the loss of any two brokers hits few partitions.
    """

    heap: list[_Entry]
    destinations: dict[int, _Destination]

    @classmethod
    def of(
        cls,
        placement: Placement,
        destinations: Ints,
        missing: Ints,
        shares: TopicShares,
        missing_bytes: Ints,
    ) -> "_Destinations":
        """Return the destinations; each gets as many replicas as it is `missing`, at most."""
        brokers = destinations.tolist()
        heap = list(zip((-missing_bytes).tolist(), brokers, strict=True))
        heapq.heapify(heap)
        shared = _shared_partitions(placement, destinations)
        topic_shares = np.maximum(1, shares.lowest(destinations))
        topic_limits = shares.highest(destinations)
        by_broker = {
            broker: _Destination(
                replicas_left=int(missing[broker]),
                bytes_left=int(room),
                topic_counts=placement.topic_counts[:, broker].tolist(),
                topic_shares=topic_shares[:, number].tolist(),
                topic_limits=topic_limits[:, number].tolist(),
                shared_partitions=shared[number].tolist(),
            )
            for number, (broker, room) in enumerate(
                zip(brokers, placement.room[destinations], strict=True)
            )
        }
        return cls(heap, by_broker)

    def next_for(self, row: list[int], source: int, topic: int, size: int) -> int:
        """Return the broker that gets a replica of the partition with replicas `row`.

        It is -1 when no broker may take it.
        """
        asked: list[_Entry] = []
        fitting: list[_Entry] = []
        fallback: _Entry | None = None
        while self.heap and len(fitting) < _MAX_COMPARED:
            entry = self.heap[0]
            if fitting and entry[0] - fitting[0][0] > size:
                break
            asked.append(heapq.heappop(self.heap))
            broker = entry[1]
            destination = self.destinations[broker]
            if broker in row or destination.bytes_left < size:
                continue
            if destination.topic_counts[topic] < destination.topic_shares[topic]:
                fitting.append(entry)
            elif fallback is None or self._suits_topic_better(entry, fallback, topic):
                fallback = entry
        others = [broker for broker in row if broker >= 0 and broker != source]
        chosen = self._with_fewest_shared(fitting, others) if fitting else fallback
        for entry in asked:
            if entry is not chosen:
                heapq.heappush(self.heap, entry)
        if chosen is None:
            return -1
        self._take(chosen, others, topic, size)
        return chosen[1]

    def _suits_topic_better(self, entry: _Entry, other: _Entry, topic: int) -> bool:
        """Return whether it may get more of the topic, and the other one may not."""
        destination, other_destination = self.destinations[entry[1]], self.destinations[other[1]]
        if destination.topic_counts[topic] >= destination.topic_limits[topic]:
            return False
        return other_destination.topic_counts[topic] >= other_destination.topic_limits[topic]

    def _with_fewest_shared(self, entries: list[_Entry], others: list[int]) -> _Entry:
        """Return the entry whose broker shares fewest partitions with any of `others`."""

        def max_shared(entry: _Entry) -> int:
            shared = self.destinations[entry[1]].shared_partitions
            return max((shared[other] for other in others), default=0)

        return min(entries, key=lambda entry: (max_shared(entry), entry))

    def _take(self, entry: _Entry, others: list[int], topic: int, size: int) -> None:
        """Count the replica, and put the broker back in the heap if it may get more."""
        negative_bytes, broker = entry
        destination = self.destinations[broker]
        destination.replicas_left -= 1
        destination.bytes_left -= size
        destination.topic_counts[topic] += 1
        for other in others:
            destination.shared_partitions[other] += 1
        if destination.replicas_left:
            heapq.heappush(self.heap, (negative_bytes + size, broker))


def _shared_partitions(placement: Placement, brokers: Ints) -> Ints:
    """Return how many partitions each of `brokers` (rows) shares with each broker (columns)."""
    replicas, broker_count = placement.replicas, placement.cluster.broker_count
    row_of = np.full(broker_count + 1, -1, dtype=np.int64)
    row_of[brokers] = np.arange(len(brokers))
    counts = np.zeros(len(brokers) * broker_count, dtype=np.int64)
    for column in range(replicas.shape[1]):
        rows = row_of[replicas[:, column]]
        for other_column in range(replicas.shape[1]):
            others = replicas[:, other_column]
            is_pair = (rows >= 0) & (others >= 0)
            if column != other_column and is_pair.any():
                cells = rows[is_pair] * broker_count + others[is_pair]
                counts += np.bincount(cells, minlength=len(counts))
    return counts.reshape(len(brokers), broker_count)
