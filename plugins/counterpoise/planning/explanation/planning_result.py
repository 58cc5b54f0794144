"""The result of planning: replica sets before and after, and what is derived from them.

    assignment = FinalAssignment.of(placement, first, is_free=is_free, elects=True, last=demoted)
    result.best_counts, result.out_of_band
    is_worth_moving(result)

Moves, figures, warnings and reasons are all written from it. A gain that nobody would notice counts
as balanced, so that clusters do not churn:

    for each measure: gain = what is uneven before - what is uneven after
    worth moving: any gain is more than `ignorable_permille` of what it is measured against

Worked example: 10,000 replicas, 2 permille, so 20 may be ignored. If the counts of replicas per
broker are uneven by 30 before (squared distances from the mean) and by 5 after, the gain is 25: the
plan is worth it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.columns import NOBODY, Flags, Ints, missing_from
from counterpoise.model.evenness import ByteBand, highest_share, units_misplaced
from counterpoise.model.plan import Deferred, LowerBound
from counterpoise.model.policy import LeaderWeight
from counterpoise.model.request import PlanRequest
from counterpoise.model.words import pluralize
from counterpoise.planning.arrays import UNBOUNDED, ClusterArrays
from counterpoise.planning.placement import Placement, Roles
from counterpoise.planning.placing.small import best_counts
from counterpoise.planning.placing.targets import byte_band, count_targets, spread_bounds
from counterpoise.planning.placing.topics import TopicShares
from counterpoise.planning.placing.traffic import (
    knows_traffic,
    traffic_band,
    traffic_per_broker,
)
from counterpoise.planning.water_filling import fill, fill_racks

if TYPE_CHECKING:
    from counterpoise.planning.goals.goal import PlanningGoal


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
    snapshot: ClusterSnapshot
    goal: "PlanningGoal"
    request: PlanRequest
    cluster: ClusterArrays
    roles: Roles
    before: Placement
    after: Placement
    assignment: FinalAssignment
    deferred: Deferred = field(default_factory=Deferred)  # by the budget, for a later plan
    # bytes per second, by partition that is copied for the sake of traffic
    traffic_gains: Mapping[int, int] = field(default_factory=dict)
    # Partitions that the request leaves out, where what it names is evened out among itself.
    left_out: ClusterArrays | None = None

    @cached_property
    def bounds(self) -> tuple[LowerBound, LowerBound | None]:
        """Return the bound for what the plan reaches, and that of the whole goal if it is more."""
        return self.goal.bounds(self)

    @cached_property
    def best_counts(self) -> Ints:
        """Return replicas per broker if all that share could give and receive: as even as racks
        allow.
        """
        exact = best_counts(self.after, self.roles)
        return count_targets(self.after, self.roles.unrestricted) if exact is None else exact

    @cached_property
    def ideal_counts(self) -> Ints:
        """Return replicas per broker if nothing had to be left alone: as even as racks allow."""
        counts, sharing, placement = self.after.counts, self.sharing, self.after
        everything = np.ones(self.cluster.partition_count, dtype=np.bool_)
        sizes = self.cluster.rack_sizes(self.roles.staying)
        one_each = everything.astype(np.int64)
        return fill_racks(
            total=int(counts.sum()),
            lower=np.where(sharing, 0, counts),
            upper=np.where(sharing, UNBOUNDED, counts),
            current=counts,
            racks=self.cluster.racks,
            rack_bounds=spread_bounds(placement.replica_counts, everything, one_each, sizes),
        )

    @cached_property
    def band(self) -> ByteBand:
        return byte_band(self.after, self.roles, self.request.policy.bytes_tolerance_percent)

    @cached_property
    def out_of_band(self) -> Ints:
        """Return positions of the brokers whose bytes are outside the tolerated band in the end."""
        is_outside = self.band.bytes_outside(self.after.bytes_held) > 0
        return np.flatnonzero(self.roles.sharing & is_outside)

    @property
    def evens_traffic(self) -> bool:
        return self.goal.evens_replicas and knows_traffic(self.cluster)

    @cached_property
    def traffic_band(self) -> ByteBand:
        percent = self.request.policy.bytes_in_tolerance_percent
        return traffic_band(self.after, self.roles, percent)

    @cached_property
    def out_of_traffic_band(self) -> Ints:
        """Return positions of the brokers that take in more or less than tolerated in the end."""
        is_outside = self.traffic_band.bytes_outside(traffic_per_broker(self.after)) > 0
        return np.flatnonzero(self.roles.sharing & is_outside)

    @cached_property
    def leader_counts(self) -> Ints:
        """Return partitions that each broker leads in the end."""
        return self.cluster.leader_load(self.assignment.leaders)

    @cached_property
    def free_destinations(self) -> Ints:
        """Return, per partition, how many destinations have no replica of it before."""
        destinations = self.roles.destinations
        return int(destinations.sum()) - self.before.count_on(destinations)

    @property
    def min_leader_range(self) -> int:
        """Return the least that the largest and the smallest count of leaders can differ by."""
        cluster, roles, leaders_now = self.cluster, self.roles, self.cluster.leaders_now
        is_led_in_scope = (leaders_now >= 0) & np.append(cluster.is_in_scope, False)[leaders_now]
        is_free = self.goal.may_change_leader(cluster, roles) & is_led_in_scope
        if not self.goal.moves_replicas:
            is_free &= self.before.count_on(roles.leading) > 0
        fixed = cluster.leader_load(np.where(is_free, NOBODY, leaders_now))[roles.leading]
        if not len(fixed):
            return 0
        total = int(fixed.sum() + is_free.sum())
        counts = fill(total, fixed, np.full(len(fixed), UNBOUNDED), fixed)
        return int(np.ptp(counts))

    @property
    def sharing(self) -> Flags:
        return self.roles.sharing

    # -- for sentences

    @property
    def in_scope(self) -> str:
        scope = self.request.scope
        return " in the scope of this plan" if scope.topics or scope.excluded_topics else ""

    @property
    def leaders_per_broker(self) -> str:
        return as_range(self.leader_counts[self.roles.leading])

    def name_partitions(self, partitions: Ints, singular: str, plural: str) -> str:
        """Return a sentence that names the first few partitions; "" when there are none."""
        if not len(partitions):
            return ""
        count = pluralize(len(partitions), f"partition {singular}", f"partitions {plural}")
        return f"{count}: {self.cluster.names(partitions)}"


def as_range(values: Ints) -> str:
    """Return `4 to 7`, or `4` where all are the same."""
    low, high = int(np.min(values)), int(np.max(values))
    return str(low) if low == high else f"{low} to {high}"


def is_worse(counts: Ints, best: Ints) -> bool:
    """Return whether counts per broker are clearly less even than the best possible.

    A hundredth of the mean more does not matter: with a mean of 500 a range of 5 more is fine.
    """
    tolerated = int(counts.mean()) // 100
    return int(np.ptp(counts)) > max(1, int(np.ptp(best))) + tolerated


# -- minimum gain


def is_worth_moving(result: PlanningResult) -> bool:
    """Return whether any measure that goals about evenness serve gains more than may be ignored.

    True for all other goals, and for the part of a plan that a budget leaves.
    """
    if result.goal.copy_reason is not None or result.deferred.partitions:
        return True
    return _is_noticed(result, chain(_replica_gains(result), _leader_gains(result)))


def is_worth_copying(result: PlanningResult) -> bool:
    """Return whether the replicas alone, whoever leads, are worth what they copy."""
    if result.goal.copy_reason is not None or not result.goal.moves_replicas:
        return True
    return _is_noticed(result, _replica_gains(result))


def _is_noticed(result: PlanningResult, gains: Iterator[tuple[int, int]]) -> bool:
    permille = result.request.policy.ignorable_permille
    return any(gain > total * permille // 1000 for gain, total in gains)


def _replica_gains(result: PlanningResult) -> Iterator[tuple[int, int]]:
    """Yield the gain in each measure of replicas, and what it is measured against."""
    roles, before, after = result.roles, result.before, result.after
    replica_count = int(after.counts.sum())
    racks_gained = before.racks_missing(roles.staying) - after.racks_missing(roles.staying)
    yield int(racks_gained.sum()), 0
    replicas_misplaced = _misplaced(before.counts, roles.sharing)
    yield replicas_misplaced - _misplaced(after.counts, roles.sharing), replica_count
    bytes_gained = _bytes_outside(before, result) - _bytes_outside(after, result)
    yield bytes_gained, int(after.bytes_held.sum())
    yield _above_topic_share(before, result) - _above_topic_share(after, result), replica_count
    if result.evens_traffic:
        outside = _traffic_outside(before, result) - _traffic_outside(after, result)
        yield outside, int(traffic_per_broker(after).sum())


def _leader_gains(result: PlanningResult) -> Iterator[tuple[int, int]]:
    """Yield the gain in each measure of leaders, and what it is measured against."""
    cluster, roles, partition_count = result.cluster, result.roles, result.cluster.partition_count
    leaders_before, leaders_after = cluster.leaders_now, result.assignment.leaders
    rows_before, rows_after = cluster.replicas, result.assignment.replicas
    leaders_misplaced = _misplaced(cluster.leader_load(leaders_before), roles.leading)
    yield leaders_misplaced - _misplaced(result.leader_counts, roles.leading), partition_count
    leaders_above = _leaders_above_share(result, leaders_before)
    yield leaders_above - _leaders_above_share(result, leaders_after), partition_count
    not_preferred = _not_preferred(rows_before, leaders_before)
    yield not_preferred - _not_preferred(rows_after, leaders_after), partition_count
    if result.request.policy.leader_weight is LeaderWeight.BYTES_IN:
        gained = _bytes_in_above(result, leaders_before, 0)
        gained -= _bytes_in_above(result, leaders_after, 0)
        yield gained, int(cluster.bytes_in.sum())
    if result.evens_traffic:
        percent = result.request.policy.bytes_in_tolerance_percent
        gained = _bytes_in_above(result, leaders_before, percent)
        gained -= _bytes_in_above(result, leaders_after, percent)
        yield gained, int(cluster.bytes_in.sum())


def _bytes_outside(placement: Placement, result: PlanningResult) -> int:
    """Return the bytes that would have to move for every broker to be in its band."""
    percent = result.request.policy.bytes_tolerance_percent
    band = byte_band(placement, result.roles, percent)
    bytes_outside = band.bytes_outside(placement.bytes_held)
    return int(bytes_outside[result.sharing].sum())


def _traffic_outside(placement: Placement, result: PlanningResult) -> int:
    outside = result.traffic_band.bytes_outside(traffic_per_broker(placement))
    return int(outside[result.sharing].sum())


def _misplaced(counts: Ints, is_counted: Flags) -> int:
    return units_misplaced(counts[is_counted].tolist())


def _above_topic_share(placement: Placement, result: PlanningResult) -> int:
    """Return the replicas above the highest share of their topic, over all topics and brokers."""
    shares = TopicShares.of(placement, result.roles, placement.counts)
    total = 0
    for broker in np.flatnonzero(result.sharing).tolist():
        above = placement.topic_counts[:, broker] - shares.highest(broker)
        total += int(np.maximum(0, above).sum())
    return total


def _leaders_above_share(result: PlanningResult, leaders: Ints) -> int:
    """Return the leaders above the highest share of their topic, over all topics and brokers."""
    cluster = result.cluster
    has_leader = leaders >= 0
    cells = cluster.topic_numbers[has_leader] * cluster.broker_count + leaders[has_leader]
    used_cells, counts = np.unique(cells, return_counts=True)
    partition_counts = np.bincount(cluster.topic_numbers, minlength=len(cluster.topic_names))
    shares = highest_share(partition_counts, int(result.roles.leading.sum()))
    topics = used_cells // cluster.broker_count
    return int(np.maximum(0, counts - shares[topics]).sum())


def _bytes_in_above(result: PlanningResult, leaders: Ints, tolerance_percent: int) -> int:
    """Return the bytes per second that leaders take in above the mean and the tolerance."""
    bytes_in = result.cluster.leader_load(leaders, result.cluster.bytes_in)[result.roles.leading]
    highest = int(bytes_in.sum()) * (100 + tolerance_percent) // (100 * max(1, len(bytes_in)))
    return int(np.maximum(0, bytes_in - highest).sum())


def _not_preferred(replicas: Ints, leaders: Ints) -> int:
    """Return the partitions that another replica than the preferred one leads."""
    return int(((leaders >= 0) & (replicas[:, 0] != leaders)).sum())
