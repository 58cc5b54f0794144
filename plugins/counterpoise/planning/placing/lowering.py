"""Fewer replicas: out-of-sync ones go first, then those that share a rack, and the leader last,
where counts per broker allow it.

    drop_surplus(placement, roles, factor=2)

    while partitions have more replicas than they should:
        rank replicas: in sync? then few neighbours in its rack? then leader?
        one is ranked lowest: drop it
        several: drop the one on the broker with most replicas of the topic, measured by its share;
                 then with most replicas and bytes
    settle what is uneven by keeping another replica of a partition (`even_free_replicas`)

Worked example, from 3 replicas to 2: replicas on brokers 1 (rack a, leads), 2 (rack a) and 3
(rack b), all in sync. The replicas on 1 and 2 share a rack, and 1 leads: broker 2's goes. If broker
3's were out of sync, that one would go, although 1 and 2 share a rack.

In the end a flow over all partitions makes racks and counts the best that there are, changing as
little of that as can be; so a leader loses its replica where that makes counts more even.

Promised: as many in-sync replicas stay as can: at least the smaller of the factor and those that
are in sync now. Within that as many racks as can be, then even counts, then the present leader.
Brokers out of scope lose no replica, and come to lead nothing by it.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from counterpoise.model.columns import NOBODY, Flags, Ints, missing_from
from counterpoise.model.evenness import ByteBand
from counterpoise.planning.arrays import UNBOUNDED
from counterpoise.planning.placement import Placement, Replicas, Roles
from counterpoise.planning.placing.free_replicas import (
    BYTES_FIRST,
    TOLERANCE_PERCENT,
    even_free_replicas,
    largest_topics_first,
    per_broker,
    whole_shares,
)
from counterpoise.planning.placing.replica_choice import ReplicaChoice
from counterpoise.planning.placing.small import is_affordable, make_counts_best


def drop_surplus(placement: Placement, roles: Roles, factor: int) -> None:
    """Drop replicas of partitions that may change until `factor` are left, or none may go."""
    cluster = placement.cluster
    surplus = np.flatnonzero(cluster.may_change & (placement.replica_counts > factor))
    if not len(surplus):
        return
    shares = per_broker(factor, cluster.rack_sizes(roles.staying))[cluster.racks]
    rows = _ShrinkingRows.of(placement, surplus, factor)
    start = placement.copy()
    if not len(rows.too_long()):
        return
    while len(too_long := rows.too_long()):
        is_lowest = rows.ranked_lowest(too_long)
        is_decided = is_lowest.sum(axis=1) == 1
        rows.drop(too_long[is_decided], is_lowest[is_decided].argmax(axis=1))
        _drop_from_fullest(rows, too_long[~is_decided], is_lowest[~is_decided], shares)
    has_rows = np.diff(rows.starts) > 0
    involved = cluster.is_in_scope & has_rows

    def find_band(after: Placement) -> ByteBand:
        # Around the mean of the brokers involved: the others lose nothing here.
        mean = int(after.bytes_held[involved].mean())
        return ByteBand.around(np.full(len(involved), mean), TOLERANCE_PERCENT)

    even_free_replicas(placement, involved, rows, find_band)
    rows.restore_order()
    if is_affordable(placement, roles):
        kept = rows.wanted, rows.may_stay, rows.must_stay
        make_counts_best(placement, ReplicaChoice.to_drop(start, roles, surplus, *kept))


@dataclass(frozen=True, slots=True, eq=False)
class _ShrinkingRows:
    """The partitions that get fewer replicas, numbered as rows; they are `ChoosableReplicas`.

    A replica that is dropped leaves a gap until `restore_order` closes it.
    """

    placement: Placement
    partitions: Ints
    is_good: Flags  # as the rows before: in sync and live
    may_go: Flags  # as the rows before: on a broker in scope
    wanted: Ints  # replicas in the end
    by_broker: Ints  # numbers of rows, by the brokers that were in them
    starts: Ints  # where those of a broker begin in `by_broker`
    # Cached by source: replicas of it, and a broker whose dropped one would do as well, for each.
    exchanges: dict[int, tuple[Replicas, Ints]] = field(default_factory=dict)

    @classmethod
    def of(cls, placement: Placement, partitions: Ints, factor: int) -> "_ShrinkingRows":
        cluster = placement.cluster
        rows = cluster.replicas[partitions]
        is_live = np.append(cluster.is_live, False)[rows]
        is_good = cluster.is_in_sync[partitions] & is_live
        may_go = np.append(cluster.is_in_scope, False)[rows]
        is_leader = rows == cluster.leaders_now[partitions, None]
        row_numbers, _ = np.nonzero(rows >= 0)
        brokers = rows[rows >= 0]
        by_broker = np.argsort(brokers, kind="stable")
        starts = np.searchsorted(brokers[by_broker], np.arange(cluster.broker_count + 1))
        wanted = _wanted_counts(rows, is_good, may_go, is_leader, factor)
        return cls(placement, partitions, is_good, may_go, wanted, row_numbers[by_broker], starts)

    @property
    def has_enough_bad(self) -> Flags:
        """Return whether as many replicas as have to go are out of sync or dead."""
        is_held = self.placement.cluster.replicas[self.partitions] >= 0
        bad_counts = (self.may_go & ~self.is_good & is_held).sum(axis=1)
        return np.asarray(bad_counts >= is_held.sum(axis=1) - self.wanted)

    @property
    def may_stay(self) -> Flags:
        """Return, as the rows before, which replicas may stay: in-sync ones go after all others."""
        return np.asarray(self.is_good | ~self.may_go | self.has_enough_bad[:, None])

    @property
    def must_stay(self) -> Flags:
        """Return, as the rows before, which replicas have to stay."""
        return np.asarray(~self.may_go | (self.is_good & self.has_enough_bad[:, None]))

    def too_long(self) -> Ints:
        """Return the rows that have more replicas than wanted."""
        counts = (self.placement.replicas[self.partitions] >= 0).sum(axis=1)
        return np.flatnonzero(counts > self.wanted)

    def ranked_lowest(self, rows: Ints) -> Flags:
        """Return, by row and position, the replicas that a row can do without first."""
        placement = self.placement
        replicas = placement.replicas[self.partitions[rows]]
        leaders = placement.cluster.leaders_now[self.partitions[rows]]
        racks = placement.racks_by_position[replicas]
        is_same_rack = (racks[:, :, None] == racks[:, None, :]) & (racks >= 0)[:, None, :]
        neighbours = is_same_rack.sum(axis=2)
        width = replicas.shape[1]
        ranks = self.is_good[rows] * (4 * width)
        ranks += (width - neighbours) * 2
        ranks += replicas == leaders[:, None]
        may_be_dropped = (replicas >= 0) & self.may_go[rows]
        ranks = np.where(may_be_dropped, ranks, 8 * width)
        return np.asarray(ranks == ranks.min(axis=1)[:, None])

    def drop(self, rows: Ints, positions: Ints) -> None:
        partitions = self.partitions[rows]
        self._count(partitions, self.placement.replicas[partitions, positions], -1)
        self.placement.replicas[partitions, positions] = NOBODY

    def _count(self, partitions: Ints, brokers: Ints, by: int) -> None:
        """Count replicas; unlike what `Placement.give_all` does, nothing arrives anywhere."""
        placement, cluster = self.placement, self.placement.cluster
        np.add.at(placement.counts, brokers, by)
        np.add.at(placement.bytes_held, brokers, by * cluster.size_bytes[partitions])
        np.add.at(placement.topic_counts, (cluster.topic_numbers[partitions], brokers), by)

    def restore_order(self) -> None:
        """Close the gaps; the other replicas keep their order."""
        placement = self.placement
        before = placement.cluster.replicas[self.partitions]
        is_kept = (before >= 0) & ~missing_from(placement.replicas[self.partitions], before)
        kept_first = np.argsort(~is_kept, axis=1, kind="stable")
        closed = np.take_along_axis(np.where(is_kept, before, NOBODY), kept_first, axis=1)
        placement.replicas[self.partitions, : closed.shape[1]] = closed
        placement.reset_to(placement.replicas)

    def reachable(self, source: int) -> Flags:
        found = np.zeros(self.placement.cluster.broker_count, dtype=np.bool_)
        _, dropped_from = self._exchanges(source)
        found[dropped_from] = True
        return found

    def choices(self, source: int, destination: int) -> Replicas:
        replicas, dropped_from = self._exchanges(source)
        return replicas.only(dropped_from == destination)

    def move(self, replicas: Replicas, destination: int) -> None:
        partitions = replicas.partitions
        self._count(partitions, self.placement.replicas[replicas], -1)
        self.placement.replicas[replicas] = destination
        self._count(partitions, np.full(len(partitions), destination), 1)
        for broker in np.unique(self.placement.cluster.replicas[partitions]).tolist():
            self.exchanges.pop(broker, None)

    def room(self, destination: int) -> int:
        return UNBOUNDED  # what it keeps is there already

    def _exchanges(self, source: int) -> tuple[Replicas, Ints]:
        if source not in self.exchanges:
            self.exchanges[source] = self._find_exchanges(source)
        return self.exchanges[source]

    def _find_exchanges(self, source: int) -> tuple[Replicas, Ints]:
        """Return replicas of a source, and a broker whose dropped one would do as well for each.

        for each row that keeps a replica on the source, but is not led by it:
            of the replicas that it had before and has dropped, on brokers in scope:
                as good (in sync and live) as the source's, and with no more neighbours in its rack

        Worked example: a row had [1, 2, 3] and keeps [1, 2], which share rack a; 3 was on rack b.
        For source 2 broker 3 does as well: its rack has no other replica, that of 2 has one. In the
        end the row may keep [1, 3] instead.
        """
        placement, cluster = self.placement, self.placement.cluster
        rows = self.by_broker[self.starts[source] : self.starts[source + 1]]
        is_on_source = placement.replicas[self.partitions[rows]] == source
        is_led_by_source = cluster.leaders_now[self.partitions[rows]] == source
        is_usable = is_on_source.any(axis=1) & ~is_led_by_source
        rows, positions = rows[is_usable], is_on_source[is_usable].argmax(axis=1)
        partitions = self.partitions[rows]
        before, kept = cluster.replicas[partitions], placement.replicas[partitions]
        own_position = (before == source).argmax(axis=1)
        own_is_good = self.is_good[rows, own_position][:, None]
        own_may_go = self.may_go[rows, own_position][:, None]
        does_as_well = missing_from(kept, before) & self.may_go[rows] & own_may_go
        does_as_well &= self.is_good[rows] >= own_is_good

        own_rack = int(cluster.racks[source])
        racks_before = placement.racks_by_position[before]
        racks_kept = placement.racks_by_position[kept]
        is_same_rack = racks_before[:, :, None] == racks_kept[:, None, :]
        neighbours = is_same_rack.sum(axis=2) - (racks_before == own_rack)
        own_neighbours = (racks_kept == own_rack).sum(axis=1) - 1
        does_as_well &= neighbours <= own_neighbours[:, None]
        own, _ = np.nonzero(does_as_well)
        return Replicas(partitions, positions).only(own), before[does_as_well]


def _wanted_counts(
    rows: Ints, is_good: Flags, may_go: Flags, is_leader: Flags, factor: int
) -> Ints:
    """Return replicas in the end: `factor`, or as many as have to stay.

    A good one only goes where no other is left: no step may take more of those in sync than the
    factor does. And where all others are on brokers out of scope, one of those in scope stays to
    lead, if one leads now.
    """
    is_held = rows >= 0
    has_stuck_bad_one = (is_held & ~is_good & ~may_go).any(axis=1)
    bad_ones_to_go = (may_go & ~is_good).sum(axis=1)
    removable = np.where(has_stuck_bad_one, bad_ones_to_go, may_go.sum(axis=1))
    has_one_outside = (is_held & ~may_go).any(axis=1)
    leader_may_go = (may_go & is_leader).any(axis=1)
    leader_has_to_stay = leader_may_go & has_one_outside & ~has_stuck_bad_one
    return np.asarray(np.maximum(factor, is_held.sum(axis=1) - removable + leader_has_to_stay))


def _drop_from_fullest(
    rows: _ShrinkingRows, row_numbers: Ints, is_lowest: Flags, shares: NDArray[np.float64]
) -> None:
    """Drop one of each row's lowest replicas: the one on the broker that holds most."""
    placement, cluster = rows.placement, rows.placement.cluster
    order = largest_topics_first(placement, rows.partitions[row_numbers])
    row_numbers, is_lowest = row_numbers[order], is_lowest[order]
    partitions = rows.partitions[row_numbers]
    sizes = cluster.size_bytes[partitions]
    bytes_first = np.cumsum(sizes) <= BYTES_FIRST * sizes.sum()
    partition_counts = np.bincount(cluster.topic_numbers, minlength=len(cluster.topic_names))
    fullness = _Fullness(placement.counts.tolist(), placement.bytes_held.tolist())
    positions: list[int] = []
    last_topic = -1
    columns = (
        cluster.topic_numbers[partitions].tolist(),
        sizes.tolist(),
        bytes_first.tolist(),
        placement.replicas[partitions].tolist(),
        is_lowest,
    )
    for topic, size, by_bytes, replicas, is_option in zip(*columns, strict=True):
        if topic != last_topic:
            last_topic = topic
            fullness.begin(placement.topic_counts[topic], partition_counts[topic] * shares)
        options = np.flatnonzero(is_option).tolist()
        ranks = [(*fullness.rank(replicas[position], by_bytes), position) for position in options]
        position = max(ranks)[-1]
        fullness.drop(replicas[position], size)
        positions.append(position)
    rows.drop(row_numbers, np.array(positions, dtype=np.int64))


@dataclass(slots=True)
class _Fullness:
    """What the brokers hold, as it falls. Lists have an entry per broker."""

    counts: list[int]
    bytes_held: list[int]
    topic_counts: list[int] = field(default_factory=list)
    lowest: list[int] = field(default_factory=list)  # share of the topic, rounded down
    highest: list[int] = field(default_factory=list)  # and up

    def begin(self, topic_counts: Ints, share: NDArray[np.float64]) -> None:
        """Begin with another topic."""
        self.topic_counts = topic_counts.tolist()
        lowest, highest = whole_shares(share)
        self.lowest, self.highest = lowest.tolist(), highest.tolist()

    def rank(self, broker: int, bytes_first: bool) -> tuple[int, int, int, int]:
        """Return a rank: the broker with the highest one loses its replica."""
        count, lowest, highest = (
            self.topic_counts[broker],
            self.lowest[broker],
            self.highest[broker],
        )
        if count <= lowest:
            level = count - lowest
        elif count <= highest:
            level = 1
        else:
            level = 1 + count - highest
        if bytes_first:
            return level, self.bytes_held[broker], self.counts[broker], broker
        return level, self.counts[broker], self.bytes_held[broker], broker

    def drop(self, broker: int, size: int) -> None:
        self.counts[broker] -= 1
        self.topic_counts[broker] -= 1
        self.bytes_held[broker] -= size
