"""Broker sets: each is planned by itself, since no replica may go from one to another.

    for part in parts_of(cluster, roles, within):      # one part where there are no sets
        goal.place(part.of(placement), part.roles, request)

A part has the partitions whose topics belong to the set, and all brokers; what each broker does in
it is for the goal to say (`PlanningGoal.within`). So racks, counts, bytes and leaders are as good
in each set as they are in a cluster of its own. What stands outside of its set counts for no
broker's share: it is to go.

Limits: where brokers are full (`max_replicas_per_broker`) and replicas are outside of their sets,
what one set may do depends on what leaves for another; the result is then not proven.

Worked example: topics pay-* on brokers 1 and 2, all others on 3 and 4; pay-0 stands on [1, 3]. In
the part of pay-*, brokers 1 and 2 share, and broker 3 has to give pay-0 away.
"""

from collections.abc import Callable
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


def parts_of(cluster: ClusterArrays, roles: Roles, within: Within) -> tuple[BrokerSetPart, ...]:
    """Return the parts, in the order of the sets; the whole cluster where there are no sets."""
    if not _has_sets(cluster):
        return (_whole(cluster, roles),)
    parts = []
    for number in np.unique(cluster.topic_sets).tolist():
        rows, brokers = cluster.sets_of_partitions == number, cluster.broker_sets == number
        part = _with_own_topics(cluster.only(rows))
        parts.append(BrokerSetPart(number, rows, brokers, part, within(roles, part, brokers)))
    return with_room(tuple(parts), cluster.max_counts, may_give_all=True)


def with_room(
    parts: tuple[BrokerSetPart, ...], max_counts: Ints, *, may_give_all: bool
) -> tuple[BrokerSetPart, ...]:
    """Return the parts with the replicas that a broker may hold beside those of other parts.

    With `may_give_all`, replicas that are to leave a broker for another set leave it.
    """
    remaining = [_remaining(part, may_give_all=may_give_all) for part in parts]
    total = np.sum(remaining, axis=0)
    return tuple(
        replace(part, cluster=replace(part.cluster, max_counts=max_counts - (total - own)))
        for part, own in zip(parts, remaining, strict=True)
    )


def _with_own_topics(part: ClusterArrays) -> ClusterArrays:
    """Return the part without what constraints say of topics that it does not have."""
    topic_count = len(part.topic_names)
    has_partitions = np.bincount(part.topic_numbers, minlength=topic_count) > 0
    return replace(
        part,
        min_topic_leaders=np.where(has_partitions, part.min_topic_leaders, 0),
    )


def _remaining(part: BrokerSetPart, *, may_give_all: bool) -> Ints:
    """Return, per broker, the replicas of the part that it keeps at least."""
    leaves = np.append(part.roles.leaving & may_give_all, False)[part.cluster.replicas]
    leaves &= part.cluster.may_change[:, None]
    return part.cluster.load(np.where(leaves, NOBODY, part.cluster.replicas))


def _whole(cluster: ClusterArrays, roles: Roles) -> BrokerSetPart:
    everything = np.ones(cluster.partition_count, dtype=np.bool_)
    return BrokerSetPart(0, everything, np.ones(cluster.broker_count, np.bool_), cluster, roles)


def _has_sets(cluster: ClusterArrays) -> bool:
    numbers = np.concatenate([cluster.broker_sets, cluster.topic_sets])
    return bool((numbers != numbers[:1]).any())


def put_together(
    placement: Placement, parts: tuple[BrokerSetPart, ...], placed: list[Placement]
) -> None:
    """Set the replicas of all parts, and the bound where each part has one."""
    width = max(part.replicas.shape[1] for part in placed)
    placement.widen(width)
    replicas = placement.replicas.copy()
    for part, after in zip(parts, placed, strict=True):
        after.widen(width)
        replicas[part.rows] = after.replicas
    placement.reset_to(replicas)
    bounds = [after.bound for after in placed]
    known = [bound for bound in bounds if bound is not None]
    if len(known) == len(bounds):
        placement.bound = CopyBound(
            sum(bound.replicas for bound in known),
            sum(bound.bytes for bound in known),
            all(bound.is_reached for bound in known),
        )
