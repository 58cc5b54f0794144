"""Fewer replicas: what goes first is not in sync, then what shares its rack, and the leader goes
last.

    drop_surplus(placement, roles, factor=2)

Kept are as many in-sync replicas as there can be: at least the smaller of the factor and those that
are in sync now. Within that, as many racks as there can be, and within that the present leader.
Where all this leaves a choice, the broker with most replicas of the topic, measured by its share,
gives one up; then the one with most replicas; then with most bytes. What that leaves uneven in all
`even_counts` settles by keeping another replica of a partition.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from counterpoise.model.columns import NOBODY, Flags, Ints, missing_from
from counterpoise.model.evenness import ByteBand
from counterpoise.planning.arrays import UNBOUNDED
from counterpoise.planning.placement import Placement
from counterpoise.planning.placing.exchange import even_bytes, even_counts
from counterpoise.planning.placing.racks import rack_sizes
from counterpoise.planning.placing.shares import (
    BYTES_FIRST,
    TOLERANCE_PERCENT,
    largest_topics_first,
    per_broker,
    whole_shares,
)
from counterpoise.planning.roles import Roles


def drop_surplus(placement: Placement, roles: Roles, factor: int) -> None:
    """Takes replicas from partitions that may change until `factor` are left, or none that is left
    may go.

    Brokers out of scope lose none, and come to lead nothing by it.
    """
    surplus = np.flatnonzero(placement.cluster.may_change & (placement.replica_counts > factor))
    if not len(surplus):
        return
    shares = per_broker(factor, rack_sizes(placement.cluster, roles.staying))[
        placement.cluster.racks
    ]
    rows = _Rows.of(placement, surplus, factor)
    if not len(rows.too_long()):
        return
    while len(which := rows.too_long()):
        worst = rows.worst(which)
        only = worst.sum(axis=1) == 1
        rows.drop(which[only], worst[only].argmax(axis=1))
        _drop_from_fullest(rows, which[~only], worst[~only], shares)
    involved = placement.cluster.is_in_scope & (np.diff(rows.starts) > 0)
    even_counts(placement, involved, rows)
    even_bytes(placement, involved, rows, _band(placement, involved))
    rows.restore_order()


def _band(placement: Placement, brokers: Flags) -> ByteBand:
    """Around the mean of these brokers: what the others hold is not to be had by taking replicas
    away.
    """
    fair = np.full(len(brokers), int(placement.bytes_held[brokers].mean()))
    return ByteBand.around(fair, TOLERANCE_PERCENT)


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """The rows that get shorter.

    A replica that is taken away leaves a gap until `restore_order` closes it.
    """

    placement: Placement
    partitions: Ints
    is_good: Flags  # as the rows before: in sync and live
    may_go: Flags  # as the rows before: on a broker in scope
    wanted: Ints  # replicas in the end
    by_broker: Ints  # numbers of rows, in order of the brokers that were in them
    starts: Ints  # where those of a broker begin
    found: dict[int, tuple[Ints, Ints, Ints]] = field(
        default_factory=dict
    )  # exchanges by giver, while they are true

    @classmethod
    def of(cls, placement: Placement, partitions: Ints, factor: int) -> "_Rows":
        cluster = placement.cluster
        rows = cluster.replicas[partitions]
        is_good = cluster.is_in_sync[partitions] & np.append(cluster.is_live, False)[rows]
        may_go = np.append(cluster.is_in_scope, False)[rows]
        held, _ = np.nonzero(rows >= 0)
        brokers = rows[rows >= 0]
        order = np.argsort(brokers, kind="stable")
        starts = np.searchsorted(brokers[order], np.arange(cluster.broker_count + 1))
        wanted = _wanted(
            rows, is_good, may_go, rows == cluster.leaders_now[partitions, None], factor
        )
        return cls(placement, partitions, is_good, may_go, wanted, held[order], starts)

    def too_long(self) -> Ints:
        """Which of the rows have more replicas than wanted."""
        held = (self.placement.replicas[self.partitions] >= 0).sum(axis=1)
        return np.flatnonzero(held > self.wanted)

    def worst(self, which: Ints) -> Flags:
        """Per row the positions that it can do without first."""
        placement = self.placement
        rows = placement.replicas[self.partitions[which]]
        leaders = placement.cluster.leaders_now[self.partitions[which]]
        racks = placement.racks_by_position[rows]
        neighbours = ((racks[:, :, None] == racks[:, None, :]) & (racks >= 0)[:, None, :]).sum(
            axis=2
        )
        width = rows.shape[1]
        value = (
            self.is_good[which] * (4 * width)
            + (width - neighbours) * 2
            + (rows == leaders[:, None])
        )
        value = np.where((rows >= 0) & self.may_go[which], value, 8 * width)
        return np.asarray(value == value.min(axis=1)[:, None])

    def drop(self, which: Ints, positions: Ints) -> None:
        partitions = self.partitions[which]
        self._count(partitions, self.placement.replicas[partitions, positions], -1)
        self.placement.replicas[partitions, positions] = NOBODY

    def _count(self, partitions: Ints, brokers: Ints, by: int) -> None:
        """Unlike what `give_all` does, since nothing arrives anywhere."""
        placement, cluster = self.placement, self.placement.cluster
        np.add.at(placement.counts, brokers, by)
        np.add.at(placement.bytes_held, brokers, by * cluster.size_bytes[partitions])
        np.add.at(placement.topic_counts, (cluster.topic_numbers[partitions], brokers), by)

    def restore_order(self) -> None:
        """Closes the gaps; what is left keeps its order."""
        placement = self.placement
        before, rows = (
            placement.cluster.replicas[self.partitions],
            placement.replicas[self.partitions],
        )
        kept = (before >= 0) & ~missing_from(rows, before)
        order = np.argsort(~kept, axis=1, kind="stable")
        closed = np.take_along_axis(np.where(kept, before, NOBODY), order, axis=1)
        placement.replicas[self.partitions, : closed.shape[1]] = closed
        placement.reset_to(placement.replicas)

    def reachable(self, source: int) -> Flags:
        found = np.zeros(self.placement.cluster.broker_count, dtype=np.bool_)
        partitions, _, others = self._exchanges(source)
        found[self.placement.cluster.replicas[partitions, others]] = True
        return found

    def choices(self, source: int, destination: int) -> tuple[Ints, Ints]:
        partitions, positions, others = self._exchanges(source)
        usable = self.placement.cluster.replicas[partitions, others] == destination
        return partitions[usable], positions[usable]

    def pass_on(self, partitions: Ints, positions: Ints, destination: int) -> None:
        self._count(partitions, self.placement.replicas[partitions, positions], -1)
        self.placement.replicas[partitions, positions] = destination
        self._count(partitions, np.full(len(partitions), destination), 1)
        for broker in np.unique(self.placement.cluster.replicas[partitions]).tolist():
            self.found.pop(broker, None)

    def room(self, destination: int) -> int:
        return UNBOUNDED  # what it keeps is there already

    def _exchanges(self, source: int) -> tuple[Ints, Ints, Ints]:
        """Partitions, the position of the giver's replica, and that of one taken away that would do
        as well.
        """
        if source not in self.found:
            self.found[source] = self._find_exchanges(source)
        return self.found[source]

    def _find_exchanges(self, source: int) -> tuple[Ints, Ints, Ints]:
        placement = self.placement
        rows = self.by_broker[self.starts[source] : self.starts[source + 1]]
        kept = placement.replicas[self.partitions[rows]] == source
        rows, positions = rows[kept.any(axis=1)], kept[kept.any(axis=1)].argmax(axis=1)
        usable = placement.cluster.leaders_now[self.partitions[rows]] != source
        rows, positions = rows[usable], positions[usable]
        partitions = self.partitions[rows]
        before, kept = placement.cluster.replicas[partitions], placement.replicas[partitions]
        own = (before == source).argmax(axis=1)
        gone = missing_from(kept, before) & self.may_go[rows]
        gone &= (self.is_good[rows] >= self.is_good[rows, own][:, None]) & self.may_go[rows, own][
            :, None
        ]
        kept_racks = placement.racks_by_position[kept]
        racks = placement.racks_by_position[before]
        own_rack = int(placement.cluster.racks[source])
        neighbours = (racks[:, :, None] == kept_racks[:, None, :]).sum(axis=2) - (racks == own_rack)
        gone &= neighbours <= ((kept_racks == own_rack).sum(axis=1) - 1)[:, None]
        at, others = np.nonzero(gone)
        return partitions[at], positions[at].astype(np.int64), others.astype(np.int64)


def _wanted(rows: Ints, is_good: Flags, may_go: Flags, leads: Flags, factor: int) -> Ints:
    """Replicas in the end: `factor`, or as many as have to stay.

    A good one only goes where no other is left: no step may take more of those in sync than the
    factor does. And where all others are on brokers out of scope, one of those in scope stays to
    lead, if one leads now.
    """
    held = rows >= 0
    is_stuck = (held & ~is_good & ~may_go).any(axis=1)
    may_go_in_all = np.where(is_stuck, (may_go & ~is_good).sum(axis=1), may_go.sum(axis=1))
    outside = (held & ~may_go).sum(axis=1)
    may_go_in_all -= (may_go & leads).any(axis=1) & (outside > 0) & ~is_stuck
    return np.asarray(np.maximum(factor, held.sum(axis=1) - may_go_in_all))


def _drop_from_fullest(rows: _Rows, which: Ints, worst: Flags, shares: NDArray[np.float64]) -> None:
    """Of each row's `worst` positions, the one on the broker that holds most is dropped."""
    placement = rows.placement
    cluster = placement.cluster
    order = largest_topics_first(placement, rows.partitions[which])
    which, worst = which[order], worst[order]
    partitions = rows.partitions[which]
    topics, sizes = cluster.topic_numbers[partitions].tolist(), cluster.size_bytes[partitions]
    bytes_first = (np.cumsum(sizes) <= BYTES_FIRST * sizes.sum()).tolist()
    fullness = _Fullness(placement.counts.tolist(), placement.bytes_held.tolist())
    brokers = placement.replicas[partitions].tolist()
    options = [np.flatnonzero(row).tolist() for row in worst]
    in_topic = np.bincount(cluster.topic_numbers, minlength=len(cluster.topic_names))
    chosen, topic = np.zeros(len(which), dtype=np.int64), -1
    for at, size in enumerate(sizes.tolist()):
        if topics[at] != topic:
            topic = topics[at]
            fullness.begin(placement.topic_counts[topic], in_topic[topic] * shares)
        row = brokers[at]
        position = max(options[at], key=lambda p: fullness.rank(row[p], bytes_first[at]))
        fullness.take(row[position], size)
        chosen[at] = position
    rows.drop(which, chosen)


@dataclass(slots=True)
class _Fullness:
    """What the brokers hold, as it falls. Lists have an entry per broker."""

    counts: list[int]
    held: list[int]
    topic_counts: list[int] = field(default_factory=list)
    lowest: list[int] = field(
        default_factory=list
    )  # replicas of the topic that are its share, rounded down
    highest: list[int] = field(default_factory=list)  # and up

    def begin(self, topic_counts: Ints, share: NDArray[np.float64]) -> None:
        self.topic_counts = topic_counts.tolist()
        self.lowest, self.highest = (rounded.tolist() for rounded in whole_shares(share))

    def rank(self, broker: int, bytes_first: bool) -> tuple[int, int, int, int]:
        """The higher, the rather it gives."""
        held = self.topic_counts[broker]
        if held <= self.lowest[broker]:
            level = held - self.lowest[broker]
        else:
            level = 1 if held <= self.highest[broker] else 1 + held - self.highest[broker]
        load = self.counts[broker], self.held[broker]
        return level, *(load[::-1] if bytes_first else load), broker

    def take(self, broker: int, size: int) -> None:
        self.counts[broker] -= 1
        self.topic_counts[broker] -= 1
        self.held[broker] -= size
