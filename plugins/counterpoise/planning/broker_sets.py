"""Broker sets: each is planned by itself, since no replica may go from one to another.

    for part in parts_of(cluster, roles, within): ...      # one part where there are no sets
    place_in_each(parts, placement, place)

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

import numpy as np

from counterpoise.model.columns import NOBODY, Flags, Ints
from counterpoise.planning.arrays import ClusterArrays
from counterpoise.planning.placement import CopyBound, Placement, Roles

Within = Callable[[Roles, ClusterArrays, Flags], Roles]


@dataclass(frozen=True, slots=True, eq=False)
class BrokerSetPart:
    """The partitions of one broker set."""

    number: int
    rows: Flags  # per partition of the whole cluster
    brokers: Flags  # those of the set
    cluster: ClusterArrays  # its partitions, and all brokers
    roles: Roles

    @property
    def alone(self) -> "BrokerSetPart":
        """Return the part as if it were the whole cluster."""
        return _whole(self.cluster, self.roles)

    def of(self, placement: Placement) -> Placement:
        """Return the replica sets of the part."""
        return Placement.of(self.cluster, placement.replicas[self.rows])


def parts_of(
    cluster: ClusterArrays, roles: Roles, within: Within, *, may_give_all: bool = True
) -> tuple[BrokerSetPart, ...]:
    """Return the parts, in the order of the sets; the whole cluster where there are no sets.

    A broker may hold as many replicas of a part as it may hold in all, without those of other parts
    that it keeps. With `may_give_all`, replicas that are to leave it for another set leave it.
    """
    sets = np.concatenate([cluster.broker_sets, cluster.topic_sets])
    if not len(cluster.topic_sets) or (sets == sets[:1]).all():
        return (_whole(cluster, roles),)
    parts = []
    for number in np.unique(cluster.topic_sets).tolist():
        rows, brokers = cluster.sets_of_partitions == number, cluster.broker_sets == number
        part = cluster.only(rows)
        parts.append(BrokerSetPart(number, rows, brokers, part, within(roles, part, brokers)))
    remaining = [_remaining(part, may_give_all=may_give_all) for part in parts]
    total = np.sum(remaining, axis=0)
    return tuple(
        replace(part, cluster=replace(part.cluster, max_counts=cluster.max_counts - (total - own)))
        for part, own in zip(parts, remaining, strict=True)
    )


def _remaining(part: BrokerSetPart, *, may_give_all: bool) -> Ints:
    """Return, per broker, the replicas of the part that it keeps at least."""
    leaves = np.append(part.roles.leaving & may_give_all, False)[part.cluster.replicas]
    leaves &= part.cluster.may_change[:, None]
    return part.cluster.load(np.where(leaves, NOBODY, part.cluster.replicas))


def _whole(cluster: ClusterArrays, roles: Roles) -> BrokerSetPart:
    everything = np.ones(cluster.partition_count, dtype=np.bool_)
    return BrokerSetPart(0, everything, np.ones(cluster.broker_count, np.bool_), cluster, roles)


def place_in_each(
    parts: Sequence[BrokerSetPart],
    placement: Placement,
    place: Callable[[BrokerSetPart, Placement], None],
) -> None:
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
