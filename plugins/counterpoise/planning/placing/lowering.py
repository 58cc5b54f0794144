"""Fewer replicas: out-of-sync ones go first, then those that share a rack, and the leader last,
where counts per broker allow it.

    drop_surplus(placement, roles, factor=2)

    while partitions have more replicas than they should:
        rank replicas: in sync? then few neighbours in its rack? then leader?
        one is ranked lowest: drop it
        several: drop the one on the broker with most replicas of the topic, measured by its share;
                 then with most replicas and bytes
    a flow makes racks and counts the best that there are, changing as little of that as can be; so
        a leader loses its replica where that makes counts more even
    keep other replicas of partitions where that makes bytes more even (`local_search`); in clusters
        that are too large for the flow, and where its costs are not exact, counts first

Worked example, from 3 replicas to 2: replicas on brokers 1 (rack a, leads), 2 (rack a) and 3
(rack b), all in sync. The replicas on 1 and 2 share a rack, and 1 leads: broker 2's goes. If broker
3's were out of sync, that one would go, although 1 and 2 share a rack.

Promised: as many in-sync replicas stay as can: at least the smaller of the factor and those that
are in sync now. Within that as many racks as can be, then even counts, then the present leader.
Brokers out of scope lose no replica, and come to lead nothing by it.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from counterpoise.model.columns import NOBODY, Flags, Ints, missing_from
from counterpoise.model.policy import BalancePolicy
from counterpoise.planning.placement import Placement, Roles
from counterpoise.planning.placing.local_search import Search
from counterpoise.planning.placing.new_replicas import (
    BYTES_FIRST,
    TOLERANCE_PERCENT,
    Shares,
    even_counts_of,
    largest_topics_first,
)
from counterpoise.planning.placing.replica_choice import ReplicaChoice
from counterpoise.planning.placing.small import is_affordable, make_counts_best


def drop_surplus(placement: Placement, roles: Roles, policy: BalancePolicy, factor: int) -> None:
    """Drop replicas of partitions that may change until `factor` are left, or none may go."""
    cluster = placement.cluster
    surplus = np.flatnonzero(cluster.may_change & (placement.replica_counts > factor))
    rows = _ShrinkingRows.of(placement, surplus, factor)
    start = placement.copy()
    if not len(rows.too_long()):
        return
    shares = Shares.of(placement, roles, np.minimum(placement.replica_counts, factor))
    while len(too_long := rows.too_long()):
        is_lowest = rows.ranked_lowest(too_long)
        is_decided = is_lowest.sum(axis=1) == 1
        rows.drop(too_long[is_decided], is_lowest[is_decided].argmax(axis=1))
        _drop_from_fullest(rows, too_long[~is_decided], is_lowest[~is_decided], shares)
    nowhere = np.zeros_like(roles.destinations)
    if is_affordable(placement, nowhere, len(surplus)):
        kept = rows.wanted, rows.may_stay, rows.must_stay
        make_counts_best(placement, ReplicaChoice.to_drop(start, roles, surplus, *kept))
    _keep_others(rows, roles, policy)
    rows.restore_order()


def _keep_others(rows: "_ShrinkingRows", roles: Roles, policy: BalancePolicy) -> None:
    """Keep other replicas instead where that makes counts, then bytes more even.

    A replica may go "home": to a broker of its row that had one as good, in sync and live. Nothing
    is copied, so nowhere else. What leads stays, and what is out of sync or out of scope.

    Worked example: a row had [1, 2, 3] and keeps [1, 2], which share rack a; 3 was on rack b. The
    replica on broker 2 may go home to 3: its rack has no other replica. Then the row keeps [1, 3].
    """
    placement, cluster = rows.placement, rows.placement.cluster
    homes = np.full_like(cluster.replicas, NOBODY)
    may_return = rows.is_good & rows.may_go
    homes[rows.partitions] = np.where(may_return, cluster.replicas[rows.partitions], NOBODY)
    again = Placement.of(replace(cluster, replicas=homes), placement.replicas.copy())
    is_leader = again.replicas == cluster.leaders_now[:, None]
    may_leave = ~is_leader & ~again.is_added
    nowhere_else = roles.but(destinations=np.zeros_like(roles.destinations), sources=roles.sharing)
    nearer = replace(policy, bytes_tolerance_percent=TOLERANCE_PERCENT)
    search = Search.of(again, nowhere_else, nearer, may_copy_for_traffic=False, may_leave=may_leave)
    even_counts_of(search, roles.unrestricted)
    search.run()
    placement.replicas[:] = again.replicas


@dataclass(frozen=True, slots=True, eq=False)
class _ShrinkingRows:
    """The partitions that get fewer replicas, numbered as rows.

    A replica that is dropped leaves a gap until `restore_order` closes it.
    """

    placement: Placement
    partitions: Ints
    is_good: Flags  # as the rows before: in sync and live
    may_go: Flags  # as the rows before: on a broker in scope
    wanted: Ints  # replicas in the end

    @classmethod
    def of(cls, placement: Placement, partitions: Ints, factor: int) -> "_ShrinkingRows":
        cluster = placement.cluster
        rows = cluster.replicas[partitions]
        is_live = np.append(cluster.is_live, False)[rows]
        is_good = cluster.is_in_sync[partitions] & is_live
        may_go = np.append(cluster.is_in_scope, False)[rows]
        is_leader = rows == cluster.leaders_now[partitions, None]
        wanted = _wanted_counts(rows, is_good, may_go, is_leader, factor)
        return cls(placement, partitions, is_good, may_go, wanted)

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
        replicas = self.placement.replicas
        replicas[self.partitions[rows], positions] = NOBODY
        self.placement.reset_to(replicas)

    def restore_order(self) -> None:
        """Close the gaps; the other replicas keep their order."""
        placement = self.placement
        before = placement.cluster.replicas[self.partitions]
        is_kept = (before >= 0) & ~missing_from(placement.replicas[self.partitions], before)
        kept_first = np.argsort(~is_kept, axis=1, kind="stable")
        closed = np.take_along_axis(np.where(is_kept, before, NOBODY), kept_first, axis=1)
        placement.replicas[self.partitions, : closed.shape[1]] = closed
        placement.reset_to(placement.replicas)


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
    rows: _ShrinkingRows, row_numbers: Ints, is_lowest: Flags, shares: Shares
) -> None:
    """Drop one of each row's lowest replicas: the one on the broker that holds most."""
    placement, cluster = rows.placement, rows.placement.cluster
    order = largest_topics_first(cluster, rows.partitions[row_numbers])
    row_numbers, is_lowest = row_numbers[order], is_lowest[order]
    partitions = rows.partitions[row_numbers]
    sizes = cluster.size_bytes[partitions]
    bytes_first = np.cumsum(sizes) <= BYTES_FIRST * sizes.sum()
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
            fullness.begin(placement.topic_counts[topic], shares.of_topic(topic))
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

    def begin(self, topic_counts: Ints, share: tuple[Ints, Ints]) -> None:
        """Begin with another topic."""
        self.topic_counts = topic_counts.tolist()
        lowest, highest = share
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
