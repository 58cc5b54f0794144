"""Candidates: which replicas may lead which partition.

    candidates = Candidates.of(placement, is_eligible, may_change, elects=True)
    candidates.replicas[7]            # the brokers that may lead partition 7; -1 for the others

A replica may lead when its broker is eligible and it is in sync, or leads already, or is new: a new
replica is in sync once the move is done. A replica that is out of sync may not: the election would
have to wait until it has caught up.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from counterpoise.model.columns import NOBODY, Flags, Ints
from counterpoise.planning.placement import Placement


@dataclass(frozen=True, eq=False)
class Candidates:
    """The partitions as those who choose leaders need them; brokers are positions, not ids."""

    # one row or entry per partition
    replicas: Ints  # as in the placement; NOBODY for a replica that may not be chosen
    leaders_now: Ints  # who leads unless something changes; NOBODY without a leader
    preferred: Ints  # the first replica: to choose another one changes the order
    is_in_plan: Flags  # the plan has this partition anyway, since it gets a new replica
    topic_numbers: Ints
    bytes_in: Ints  # per second; 0 where not known
    rack_preferences: Ints  # the row of `is_outside` that holds for it
    # one entry per broker
    is_eligible: Flags
    is_outside: Flags  # by preference of the policy's `leader_racks`: is it in none of these racks?

    topic_count: int

    @classmethod
    def of(
        cls, placement: Placement, is_eligible: Flags, may_change: Flags, *, elects: bool
    ) -> "Candidates":
        """Return the candidates of all partitions; there are none where no leader can be chosen.

        That is where the partition may not change, or where a broker outside the scope of the
        request leads. `elects` says whether the plan has leaders elected in partitions whose
        replicas stay as they are. If not, such a partition counts as led by its preferred leader:
        Kafka will elect it without the plan's help.
        """
        cluster = placement.cluster
        leaders_now = cluster.leaders_now
        is_led_in_scope = np.append(cluster.is_in_scope, True)[leaders_now]
        may_change_leader = may_change & is_led_in_scope
        may_be_chosen = _may_lead(placement, is_eligible) & may_change_leader[:, None]
        replicas = np.where(may_be_chosen, placement.replicas, NOBODY)
        preferred = placement.replicas[:, 0]
        is_in_plan = (placement.replicas != placement.original).any(axis=1)
        if not elects:
            is_elected_by_kafka = ~is_in_plan & (replicas[:, 0] >= 0)
            leaders_now = np.where(is_elected_by_kafka, preferred, leaders_now)
        return cls(
            replicas=replicas,
            leaders_now=leaders_now,
            preferred=preferred,
            is_in_plan=is_in_plan,
            topic_numbers=cluster.topic_numbers,
            bytes_in=cluster.bytes_in,
            rack_preferences=cluster.rack_preferences[cluster.topic_numbers],
            is_eligible=is_eligible,
            is_outside=~cluster.leader_racks[:, cluster.racks],
            topic_count=len(cluster.topic_names),
        )

    def keeping_racks(self, leaders: Ints) -> "Candidates":
        """Return the candidates without those that take a leader out of its `leader_racks`."""
        if not self.is_outside.any():
            return self
        everything = np.arange(len(self.replicas))
        is_led_inside = (leaders >= 0) & ~self.outside(everything, leaders)
        is_barred = self.outside(everything[:, None], self.replicas) & is_led_inside[:, None]
        return replace(self, replicas=np.where(is_barred, NOBODY, self.replicas))

    def led_by(self, leaders: Ints) -> "Candidates":
        """Return the candidates once these lead, and come first."""
        return replace(self, leaders_now=leaders, preferred=leaders)

    def outside(self, partitions: Ints, brokers: Ints) -> Flags:
        """Return whether each broker is in none of the racks of a partition's topic."""
        return np.asarray(self.is_outside[self.rack_preferences[partitions], brokers])

    @property
    def broker_count(self) -> int:
        return len(self.is_eligible)

    @cached_property
    def eligible_brokers(self) -> Ints:
        return np.flatnonzero(self.is_eligible)

    @cached_property
    def is_free(self) -> Flags:
        """Return whether each partition has a choice of leaders."""
        return np.asarray((self.replicas >= 0).any(axis=1))

    @cached_property
    def free_partitions(self) -> Ints:
        return np.flatnonzero(self.is_free)

    def alternatives(self, partitions: Ints, leaders: Ints | int) -> tuple[Ints, Ints]:
        """Return every choice of another leader, as two columns: rows of `partitions`, brokers.

        `leaders` are the present choices, one for each of the partitions or one for all.
        """
        replicas = self.replicas[partitions]
        present = np.reshape(leaders, (-1, 1))
        rows, columns = np.nonzero((replicas >= 0) & (replicas != present))
        return rows, replicas[rows, columns]

    def counts(self, brokers: Ints) -> Ints:
        """Return how often each broker is among `brokers`, which may have NOBODY among them."""
        counts = np.bincount(brokers[brokers >= 0], minlength=self.broker_count)
        return counts.astype(np.int64)

    def led_bytes(self, leaders: Ints) -> Ints:
        """Return bytes-in that each broker leads; `leaders` may have NOBODY among them."""
        loads = np.zeros(self.broker_count, dtype=np.int64)
        has_leader = leaders >= 0
        np.add.at(loads, leaders[has_leader], self.bytes_in[has_leader])
        return loads

    @property
    def max_bytes(self) -> Ints:
        """Return bytes-in that each broker would lead if it led all that it may."""
        total = self.fixed_bytes
        partitions, columns = np.nonzero(self.replicas >= 0)
        np.add.at(total, self.replicas[partitions, columns], self.bytes_in[partitions])
        return total

    @property
    def fixed_bytes(self) -> Ints:
        """Return bytes-in that each broker leads of partitions without a choice."""
        return self.led_bytes(np.where(self.is_free, NOBODY, self.leaders_now))

    def shared_by(self, broker: int, other: int) -> Ints:
        """Return the partitions that both brokers may lead, in order."""
        return self._partitions_at(self._by_pair, int(self._pair_number(broker, other)))

    def _partitions_at(self, keys: Ints, number: int) -> Ints:
        """Return the partitions of a broker or pair by its number: a slice of sorted keys.

        A key is number x partition count + partition.
        """
        start = number * len(self.replicas)
        first, end = np.searchsorted(keys, (start, start + len(self.replicas)))
        return np.asarray(keys[first:end] - start)

    @cached_property
    def _by_pair(self) -> Ints:
        """Return one key for each partition and pair of its candidates; the number is the pair.

        One million partitions with three replicas need 24 MB for it.
        """
        parts = [np.empty(0, dtype=np.int64)]
        for column, other_column in combinations(range(self.replicas.shape[1]), 2):
            brokers = self.replicas[:, column]
            others = self.replicas[:, other_column]
            partitions = np.flatnonzero((brokers >= 0) & (others >= 0))
            pairs = self._pair_number(brokers[partitions], others[partitions])
            parts.append(pairs * len(self.replicas) + partitions)
        return np.sort(np.concatenate(parts))

    def _pair_number(self, brokers: Ints | int, others: Ints | int) -> Ints:
        lower = np.minimum(brokers, others)
        higher = np.maximum(brokers, others)
        return np.asarray(lower * self.broker_count + higher)

    def cost(self, partitions: Ints, leaders: Ints | int) -> Ints:
        """Return what each choice of a leader costs.

        It is 4 for a change of leader, 2 for one more partition in the plan, and 1 for a change of
        order.
        """
        is_change = self.leaders_now[partitions] != leaders
        is_reorder = self.preferred[partitions] != leaders
        joins_plan = ~self.is_in_plan[partitions] & (is_change | is_reorder)
        return np.asarray(4 * is_change + 2 * joins_plan + is_reorder)


def _may_lead(placement: Placement, is_eligible: Flags) -> Flags:
    """Return, in the shape of `placement.replicas`, which replicas may be chosen as leader."""
    cluster = placement.cluster
    replicas = placement.replicas
    may_be_chosen = np.append(is_eligible, False)[replicas]
    is_leader = cluster.replicas == cluster.leaders[:, None]
    lagging = np.where(cluster.is_in_sync | is_leader, NOBODY, cluster.replicas)
    concerned = np.flatnonzero((lagging >= 0).any(axis=1))
    same_broker = replicas[concerned][:, :, None] == lagging[concerned][:, None, :]
    may_be_chosen[concerned] &= ~same_broker.any(axis=2)
    return np.asarray(may_be_chosen)
