"""The result of planning: replica sets before and after, and what is derived from them.

    assignment = FinalAssignment.of(placement, first, is_free=is_free, elects=True, last=demoted)
    result = PlanningResult(request, cluster, roles, before, placement, assignment)
    result.best_counts, result.out_of_band

Moves, figures, warnings and reasons are all written from it.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from counterpoise.model.columns import Flags, Ints, missing_from
from counterpoise.model.evenness import ByteBand
from counterpoise.model.plan import Deferred
from counterpoise.model.request import PlanRequest
from counterpoise.planning.arrays import ClusterArrays
from counterpoise.planning.placement import Placement
from counterpoise.planning.placing.targets import byte_band, count_targets
from counterpoise.planning.roles import Roles


@dataclass(frozen=True, slots=True, eq=False)
class FinalAssignment:
    """Per partition: the replicas before and in their final order, and whether the plan has it."""

    cluster: ClusterArrays
    before: Ints
    replicas: Ints
    is_in_plan: Flags

    @classmethod
    def of(
        cls, placement: Placement, first: Ints, *, is_free: Flags, elects: bool, last: Flags
    ) -> "FinalAssignment":
        """Return the replicas with the chosen leader first; the others keep their order.

        `first` leads the partitions that are free. Others that change keep their leader, if it
        keeps its replica. With `elects`, free partitions are in the plan too when an election is
        all that they need. Brokers that are `last` (one flag each) come last in the rows whose
        leader changes from one of them.

        Worked example: the row [1, 2, 3] with first 3 becomes [3, 1, 2]; if broker 1 is `last`, it
        becomes [3, 2, 1].
        """
        cluster, before, now = placement.cluster, placement.original, placement.replicas
        leaders_now = cluster.leaders_now
        is_last_broker = np.append(last, False)
        still_has_leader = (now == leaders_now[:, None]).any(axis=1) & (leaders_now >= 0)
        is_changed = (now != before).any(axis=1)
        first = np.where(still_has_leader & is_changed & ~is_free, leaders_now, first)

        leader_gives_up = is_free & is_last_broker[leaders_now]
        is_new_order = (first != now[:, 0]) | leader_gives_up
        is_last = is_last_broker[now] & is_new_order[:, None]
        width = now.shape[1]
        rank = np.where(now == first[:, None], -1, np.arange(width))
        rank = np.where(is_last, rank + width, rank)
        rank = np.where(now < 0, 2 * width, rank)
        replicas = np.take_along_axis(now, np.argsort(rank, axis=1, kind="stable"), axis=1)

        is_in_plan = (replicas != before).any(axis=1)
        if elects:
            is_led_by_another = (cluster.leaders >= 0) & (cluster.leaders != replicas[:, 0])
            is_in_plan |= is_free & is_led_by_another
        return cls(cluster, before, replicas, is_in_plan)

    @classmethod
    def unchanged(cls, cluster: ClusterArrays) -> "FinalAssignment":
        is_in_plan = np.zeros(cluster.partition_count, dtype=np.bool_)
        return cls(cluster, cluster.replicas, cluster.replicas, is_in_plan)

    @property
    def leaders(self) -> Ints:
        """Return the leaders once the plan is executed.

        NOBODY where a partition without a leader is left alone.
        """
        return np.where(self.is_in_plan, self.replicas[:, 0], self.cluster.leaders_now)

    @property
    def is_added(self) -> Flags:
        """Return which of `replicas` are new."""
        return missing_from(self.before, self.replicas)

    @property
    def is_removed(self) -> Flags:
        """Return which of the replicas before are gone."""
        return missing_from(self.replicas, self.before)


@dataclass(frozen=True, eq=False)
class PlanningResult:
    request: PlanRequest
    cluster: ClusterArrays
    roles: Roles
    before: Placement
    after: Placement
    assignment: FinalAssignment
    deferred: Deferred = field(default_factory=Deferred)  # by the budget, for a later plan

    @cached_property
    def best_counts(self) -> Ints:
        """Return replicas per broker if all that share could give and receive: as even as racks
        allow.
        """
        return count_targets(self.after, self.roles.unrestricted)

    @cached_property
    def band(self) -> ByteBand:
        return byte_band(self.after, self.roles, self.request.policy.bytes_tolerance_percent)

    @cached_property
    def out_of_band(self) -> Ints:
        """Return positions of the brokers whose bytes are outside the tolerated band in the end."""
        is_outside = self.band.bytes_outside(self.after.bytes_held) > 0
        return np.flatnonzero(self.roles.sharing & is_outside)

    @cached_property
    def leader_counts(self) -> Ints:
        """Return partitions that each broker leads in the end."""
        return self.cluster.leader_load(self.assignment.leaders)

    @property
    def sharing(self) -> Flags:
        return self.roles.sharing


def is_worse(counts: Ints, best: Ints) -> bool:
    """Return whether counts per broker are clearly less even than the best possible.

    A hundredth of the mean more does not matter: with a mean of 500 a range of 5 more is fine.
    """
    tolerated = int(counts.mean()) // 100
    return int(np.ptp(counts)) > max(1, int(np.ptp(best))) + tolerated
