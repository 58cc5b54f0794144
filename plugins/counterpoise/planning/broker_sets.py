"""Broker sets: each is planned by itself, since no replica may go from one to another.

    place_sets(placement, roles, within, place)
    parts = parts_of(placement, roles, within)      # one part where there are no sets
    parts[0].best_counts, parts[0].rack_moves_after

A part has the partitions whose topics belong to the set, and all brokers; what each broker does in
it is for the goal to say (`PlanningGoal.within`). So racks, counts, bytes and leaders are as good
in each set as they are in a cluster of its own. What stands outside of its set counts for no
broker's share: it is to go.

Worked example: topics pay-* on brokers 1 and 2, all others on 3 and 4; pay-0 stands on [1, 3]. In
the part of pay-*, brokers 1 and 2 share, and broker 3 has to give pay-0 away.

Limits: where brokers are full (`max_replicas_per_broker`) and replicas are outside of their sets,
what one set may do depends on what leaves for another; the result is then not proven.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from counterpoise.model.columns import NOBODY, Flags, Ints
from counterpoise.model.racks import spread_bounds
from counterpoise.planning.arrays import ClusterArrays
from counterpoise.planning.fair_shares import count_targets, fill_racks, replica_weights
from counterpoise.planning.placement import CopyBound, Placement, Roles
from counterpoise.planning.placing.small import best_counts

Within = Callable[[Roles, ClusterArrays, Flags], Roles]

PlacePart = Callable[["BrokerSetPart", Placement], None]  # moves its replicas in the placement


@dataclass(frozen=True, eq=False)
class BrokerSetPart:
    """The partitions of one broker set before the plan and after it, and what is best for them.

    Where there are no sets, these are the placements of the whole cluster.
    """

    number: int
    rows: Flags  # per partition of the whole cluster
    brokers: Flags  # those of the set
    roles: Roles
    before: Placement  # of its partitions, over all brokers
    after: Placement

    @property
    def cluster(self) -> ClusterArrays:
        return self.before.cluster

    def of(self, whole: Placement) -> Placement:
        """Return the replica sets of the part, of those of the whole cluster."""
        if whole.cluster is self.cluster:
            return whole
        return Placement.of(self.cluster, whole.replicas[self.rows])

    @cached_property
    def rack_moves_before(self) -> Ints:
        """Return, per partition, how many replicas have to change racks until it is spread as
        evenly as can be, over the racks of the set.
        """
        return self.before.rack_moves(self.roles.staying)

    @cached_property
    def rack_moves_after(self) -> Ints:
        """Return the same in the end."""
        return self.after.rack_moves(self.roles.staying)

    @cached_property
    def free_destinations(self) -> Ints:
        """Return, per partition, how many destinations have no replica of it before."""
        destinations = self.roles.destinations
        return int(destinations.sum()) - self.before.count_on(destinations)

    @cached_property
    def best_counts(self) -> Ints:
        """Return replicas per broker if all that share could give and receive: as even as racks
        allow.
        """
        if self.after.is_small():
            return best_counts(self.after, self.roles)
        return count_targets(self.after, self.roles.unrestricted)

    @cached_property
    def ideal_counts(self) -> Ints:
        """Return replicas per broker if nothing had to be left alone: as even as racks allow."""
        counts, sharing = self.after.counts, self.roles.sharing
        one_each = np.ones(self.cluster.partition_count, dtype=np.int64)
        rack_sizes = self.cluster.rack_sizes(self.roles.staying)
        return fill_racks(
            loads=counts,
            lower=np.where(sharing, 0, counts),
            upper=np.where(sharing, self.cluster.partition_count, counts),
            racks=self.cluster.racks,
            rack_bounds=spread_bounds(
                self.after.replica_counts, one_each > 0, one_each, rack_sizes
            ),
            weights=replica_weights(self.cluster, self.roles),
        )


def parts_of(
    before: Placement, roles: Roles, within: Within, *, may_give_all: bool = True
) -> tuple[BrokerSetPart, ...]:
    """Return the parts, in the order of the sets; the whole cluster where there are no sets.

    A broker may hold as many replicas of a part as it may hold in all, without those of other parts
    that it keeps. With `may_give_all`, replicas that are to leave it for another set leave it.
    """
    cluster = before.cluster
    sets = np.concatenate([cluster.broker_sets, cluster.topic_sets])
    if not len(cluster.topic_sets) or (sets == sets[:1]).all():
        everything = np.ones(cluster.partition_count, dtype=np.bool_)
        brokers = np.ones(cluster.broker_count, dtype=np.bool_)
        return (BrokerSetPart(0, everything, brokers, roles, before, before),)
    parts = []
    for number in np.unique(cluster.topic_sets).tolist():
        rows, brokers = cluster.sets_of_partitions == number, cluster.broker_sets == number
        part = cluster.only(rows)
        own = Placement.of(part)
        parts.append(BrokerSetPart(number, rows, brokers, within(roles, part, brokers), own, own))
    remaining = [_remaining(part, may_give_all=may_give_all) for part in parts]
    total = np.sum(remaining, axis=0)
    return tuple(
        _limited(part, cluster.max_counts - (total - own))
        for part, own in zip(parts, remaining, strict=True)
    )


def _remaining(part: BrokerSetPart, *, may_give_all: bool) -> Ints:
    """Return, per broker, the replicas of the part that it keeps at least."""
    leaves = np.append(part.roles.leaving & may_give_all, False)[part.cluster.replicas]
    leaves &= part.cluster.may_change[:, None]
    return part.cluster.load(np.where(leaves, NOBODY, part.cluster.replicas))


def _limited(part: BrokerSetPart, max_counts: Ints) -> BrokerSetPart:
    before = Placement.of(replace(part.cluster, max_counts=max_counts))
    return replace(part, before=before, after=before)


def place_sets(placement: Placement, roles: Roles, within: Within, place: PlacePart) -> None:
    """Move the replicas of each broker set by itself.

    Each counts on what is to leave its brokers for another set. Where that finds no place there and
    a broker would hold more replicas than it may, nothing is counted on: replicas leave first, and
    the sets are placed again from there for as long as that changes anything.
    """
    before = placement.replicas.copy()
    max_counts = np.maximum(placement.cluster.max_counts, placement.counts)
    parts = parts_of(placement, roles, within)
    place_in_each(parts, placement, place)
    if len(parts) == 1 or not (placement.counts > max_counts).any():
        return

    def place_again(again: Placement) -> None:
        place_in_each(parts_of(again, roles, within, may_give_all=False), again, place)

    placement.reset_to(before)
    placement.repeat(place_again)


def place_in_each(parts: Sequence[BrokerSetPart], placement: Placement, place: PlacePart) -> None:
    """Move the replicas of each part by itself, then put them together: replicas, what traffic
    gains, and the bounds where each part has one.
    """
    if len(parts) == 1:
        place(parts[0], placement)
        return
    placed = [part.of(placement) for part in parts]
    for part, after in zip(parts, placed, strict=True):
        place(part, after)
        placement.widen(after.replicas.shape[1])
    replicas, traffic_gains = placement.replicas.copy(), {}
    for part, after in zip(parts, placed, strict=True):
        after.widen(replicas.shape[1])
        replicas[part.rows] = after.replicas
        rows = np.flatnonzero(part.rows)
        traffic_gains.update({int(rows[row]): gain for row, gain in after.traffic_gains.items()})
    placement.reset_to(replicas)
    placement.traffic_gains = traffic_gains
    placement.has_budget_ended |= any(after.has_budget_ended for after in placed)
    placement.min_copied_bytes = sum(after.min_copied_bytes for after in placed)
    bounds = [after.bound for after in placed]
    known = [bound for bound in bounds if bound is not None]
    if len(known) == len(bounds):
        placement.bound = CopyBound(
            sum(bound.replicas for bound in known),
            sum(bound.bytes for bound in known),
            all(bound.is_reached for bound in known),
        )
