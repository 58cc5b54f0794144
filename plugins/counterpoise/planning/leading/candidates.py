"""Who may lead which partition, and who does now: what every way to choose leaders starts from.

    candidates = Candidates.of(placement, eligible, is_free, elects=True)
    candidates.rows[7]            # the brokers that may lead partition 7; -1 in place of the others

A replica may lead when its broker is eligible and it is in sync, or it leads already, or it is new:
a new one is in sync once the move is done. One that lags behind may not, since the election would
wait for it, for as long as it lags.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from counterpoise.model.columns import NOBODY, Flags, Ints
from counterpoise.planning.placement import Placement


@dataclass(frozen=True, eq=False)
class Candidates:
    """One row per partition in each field but the last three."""

    rows: Ints  # by place in the row of replicas; all NOBODY where the leader cannot be chosen
    present: (
        Ints  # who leads unless something changes, whether it may or not; NOBODY without a leader
    )
    first: Ints  # the first replica: choosing another one changes the order
    is_named: Flags  # the plan has this partition anyway, since it gets a new replica
    topics: Ints
    bytes_in: Ints  # per second; 0 where not known
    topic_count: int
    eligible: Flags  # per broker
    leading: Ints  # positions of the brokers that are eligible

    @classmethod
    def of(
        cls, placement: Placement, eligible: Flags, is_free: Flags, *, elects: bool
    ) -> "Candidates":
        """`elects`: does the plan have leaders elected in partitions whose replicas stay as they
        are?

        If not, such a partition counts as led by its preferred leader: it will be, and nothing has
        to be done for it.
        """
        cluster = placement.cluster
        rows = np.where(
            may_lead(placement, eligible) & is_free[:, None], placement.replicas, NOBODY
        )
        first = placement.replicas[:, 0]
        is_named = (placement.replicas != placement.original).any(axis=1)
        present = cluster.leaders_now
        if not elects:
            present = np.where(~is_named & (rows[:, 0] >= 0), first, present)
        return cls(
            rows=rows,
            present=present,
            first=first,
            is_named=is_named,
            topics=cluster.topic_numbers,
            bytes_in=cluster.bytes_in,
            topic_count=len(cluster.topic_names),
            eligible=eligible,
            leading=np.flatnonzero(eligible),
        )

    @property
    def broker_count(self) -> int:
        return len(self.eligible)

    @cached_property
    def is_free(self) -> Flags:
        return np.asarray((self.rows >= 0).any(axis=1))

    @cached_property
    def free(self) -> Ints:
        """The partitions whose leader can be chosen."""
        return np.flatnonzero(self.is_free)

    @cached_property
    def _by_pair(self) -> Ints:
        """A number for each partition and pair of its candidates: in order, so that those of a pair
        are a slice.

        One million partitions with three replicas have 24 MB of these.
        """
        parts = []
        for left, right in combinations(range(self.rows.shape[1]), 2):
            one, other = self.rows[:, left], self.rows[:, right]
            both = np.flatnonzero((one >= 0) & (other >= 0))
            parts.append(self._pair(one[both], other[both]) * len(self.rows) + both)
        return np.sort(np.concatenate([np.empty(0, dtype=np.int64), *parts]))

    def _pair(self, one: Ints, other: Ints) -> Ints:
        return np.asarray(np.minimum(one, other) * self.broker_count + np.maximum(one, other))

    def shared_by(self, one: int, other: int) -> Ints:
        """The partitions that both brokers may lead, in order."""
        start = (min(one, other) * self.broker_count + max(one, other)) * len(self.rows)
        first, end = np.searchsorted(self._by_pair, (start, start + len(self.rows)))
        return np.asarray(self._by_pair[first:end] - start)

    def cost(self, partitions: Ints, leaders: Ints | int) -> Ints:
        """What the choice of a leader costs: 4 for a change, 2 for one more partition in the plan,
        1 for an order.
        """
        changes, reorders = self.present[partitions] != leaders, self.first[partitions] != leaders
        return np.asarray(
            4 * changes + 2 * (~self.is_named[partitions] & (changes | reorders)) + reorders
        )


def may_lead(placement: Placement, eligible: Flags) -> Flags:
    """As `placement.replicas`: which of them may be chosen as leader."""
    cluster, replicas = placement.cluster, placement.replicas
    able = np.append(eligible, False)[replicas]
    lagging = np.where(
        cluster.is_in_sync | (cluster.replicas == cluster.leaders[:, None]),
        NOBODY,
        cluster.replicas,
    )
    behind = np.flatnonzero((lagging >= 0).any(axis=1))
    able[behind] &= ~(replicas[behind][:, :, None] == lagging[behind][:, None, :]).any(axis=2)
    return np.asarray(able)


def free_to_lead(placement: Placement, eligible: Flags, may_change: Flags) -> Flags:
    """The partitions whose leader can be chosen.

    Not those that may not change, that no replica may lead, or that a broker outside the request's
    scope leads.
    """
    cluster = placement.cluster
    can_lead = may_lead(placement, eligible).any(axis=1)
    return np.asarray(
        may_change & can_lead & np.append(cluster.is_in_scope, True)[cluster.leaders_now]
    )
