"""A goal and the result of planning for it, which speak of each other.

A goal says who gives, receives and leads, how replicas move, what cannot be asked, and why:

    class Leaders(PlanningGoal):
        name = Goal.LEADERS

The planner asks a goal in this order; what a goal does not say itself stands here.

    check_brokers, others_may          what is wrong with a request, before anything is computed
    roles, left_to_repair              which brokers and partitions take part
    refuse_impossible                  what must be left alone stands in the way
    place                              replicas move; only a goal worth nothing half done is refused
    may_change_leader                  leaders are then chosen for all goals in the same way
    copies, lower_bound                the least that has to be copied (`goals/lower_bounds.py`)
    done, unreached, undone            why nothing moves, and what is left undone

The result is that of the whole cluster, with a part for each broker set:

    assignment = FinalAssignment.of(placement, leaders, is_free, is_demoted, elects=True)
    result.best_counts, result.out_of_band

Moves, figures, warnings and reasons are all written from it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Final

import numpy as np

from counterpoise.errors import RefusedError
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.columns import NOBODY, Flags, Ints, missing_from
from counterpoise.model.evenness import ByteBand, is_worse
from counterpoise.model.plan import Deferred, LowerBound, MoveReason
from counterpoise.model.request import KINDS, Goal, PlanRequest
from counterpoise.model.words import agree, list_brokers, name_brokers, pluralize, verb
from counterpoise.planning.arrays import UNBOUNDED, ClusterArrays
from counterpoise.planning.broker_sets import BrokerSetPart, parts_of, place_sets
from counterpoise.planning.fair_shares import (
    byte_band,
    fill,
    has_equal_shares,
    traffic_band,
)
from counterpoise.planning.placement import Placement, Roles

_IS_MOVING: Final = "under reassignment; wait until it is done, or cancel it"
_IS_LEADERLESS: Final = "without a leader to copy from; bring a broker back"
HAS_NO_DESTINATION: Final = (
    "without a broker to go to: no other live one in scope has room and may have a replica; add "
    "brokers or disk, widen the scope, or raise the limit that binds (disk_limit_percent, "
    "max_replicas_per_broker)"
)
_IS_LEFT_TO_REPAIR = "left to goal repair: with a replica on a dead broker no copy could end"
_IS_BESIDE_ANOTHER = (
    "left alone: with a replica on another dead broker no copy could end; repair that one, too"
)


# -- goals


class PlanningGoal:
    name: ClassVar[Goal]
    # Are partitions in the plan too whose only change is the election of their preferred leader?
    elects: ClassVar[bool] = True
    evens_replicas: ClassVar[bool] = False  # also where it does so only with what it moves anyway
    copies_for_traffic: ClassVar[bool] = False  # also what nothing else asks for
    evens_bytes_in_of_leaders: ClassVar[bool] = False
    keeps_order: ClassVar[bool] = False  # replica lists stay as placed: no leader is chosen
    shares_scope: ClassVar[bool] = False  # even are the topics of the request, not the cluster
    copy_reason: ClassVar[MoveReason | None] = None  # of every copy; None where it is evenness
    # What live brokers in scope may do, beside those of the request; "": two or more become even.
    others_may: ClassVar[str] = ""

    @property
    def moves_replicas(self) -> bool:
        return KINDS[self.name].copies

    def check_brokers(self, dead: Sequence[int], alive: Sequence[int]) -> None:
        """Raise InputError for brokers of the request that the goal cannot take."""

    def roles(self, cluster: ClusterArrays, named: Flags) -> Roles:
        """Return which brokers give, receive and lead; `named` has the brokers of the request."""
        able = cluster.is_live & cluster.is_in_scope
        return Roles(
            destinations=cluster.takes_replicas,
            sources=able,
            leaving=np.zeros_like(able),
            staying=cluster.is_live,
            sharing=able,
            leading=able,
        )

    def within(self, roles: Roles, part: ClusterArrays, brokers: Flags) -> Roles:
        """Return what brokers do for the partitions of one broker set, which has `brokers`.

        `part` has these partitions. Replicas on other brokers stay, as far as the goal is not about
        them.
        """
        return roles.but(
            destinations=roles.destinations & brokers,
            staying=roles.staying & brokers,
            sharing=roles.sharing & brokers,
            leading=roles.leading & brokers,
        )

    def left_to_repair(self, cluster: ClusterArrays, request: PlanRequest) -> Flags:
        """Return, per partition, whether it would keep a replica on a dead broker beside a new one.

        Kafka ends a reassignment when every replica of its target is in sync, so a run would halt
        at such a partition.
        """
        return np.zeros(cluster.partition_count, dtype=np.bool_)

    def refuse_impossible(self, result: "PlanningResult") -> None:
        """Raise RefusedError when what must be left alone stands in the way of the goal.

        Raise InputError when there are too few brokers to take the replicas.
        """
        cluster = result.cluster
        if cluster.partition_count and not cluster.may_reorder.any():
            raise RefusedError(
                f"nothing can be planned: all {cluster.partition_count} partitions are excluded by "
                "the policy or the request, being reassigned or without a leader; change what is "
                "excluded, wait, or bring the brokers back"
            )

    def place(self, result: "PlanningResult") -> Placement:
        """Return the replicas when the goal is reached, as far as it can be.

        Each broker set is placed by itself. Raise RefusedError where too little could be moved to
        be worth anything.
        """
        placement = result.before.copy()

        def place(part: BrokerSetPart, after: Placement) -> None:
            self.place_part(after, part.roles, result.request)

        place_sets(placement, result.roles, self.within, place)
        return placement

    def place_part(self, placement: Placement, roles: Roles, request: PlanRequest) -> None:
        """Move the replicas of a broker set."""

    def place_within(
        self, cut: Placement, roles: Roles, request: PlanRequest, max_bytes: int
    ) -> None:
        """Better the part of a plan that a budget leaves, by what so many bytes buy."""

    def may_change_leader(self, cluster: ClusterArrays, roles: Roles) -> Flags:
        """Return, per partition, whether the goal may give it another leader."""
        return cluster.may_reorder

    def copies(self, result: "PlanningResult") -> Ints:
        """Return, per partition, how many replicas any plan for the goal has to copy."""
        return np.zeros(result.cluster.partition_count, dtype=np.int64)

    def lower_bound(self, result: "PlanningResult") -> LowerBound:
        """Return the least that any plan copies, and how even leaders can be at best."""
        copies = self.copies(result)
        copied_bytes = int((copies * result.cluster.size_bytes).sum())
        if not self.keeps_order:
            return LowerBound(int(copies.sum()), copied_bytes, min_leader_range(result))
        leaders = result.leader_counts[result.roles.leading]
        leader_range = int(np.ptp(leaders)) if len(leaders) else 0
        return LowerBound(int(copies.sum()), copied_bytes, leader_range)

    def bounds(self, result: "PlanningResult") -> tuple[LowerBound, LowerBound | None]:
        """Return the bound for what the plan reaches, and that of the whole goal if it is more."""
        return self.lower_bound(result), None

    def reason(self, result: "PlanningResult") -> str:
        """Return one sentence that says why nothing moves, and what would help."""
        undone = [*filter(None, (self.undone(result), result.list_left_to_repair()))]
        sentence = f"cannot, because {'; '.join(undone)}" if undone else self.done(result)
        return "; ".join(filter(None, (sentence, result.list_non_empty())))

    def done(self, result: "PlanningResult") -> str:
        """Return the sentence for a plan without moves that leaves nothing undone."""
        raise NotImplementedError

    def unreached(self, result: "PlanningResult") -> Flags:
        """Return the partitions for which the goal is not reached, if no budget is the reason."""
        return np.zeros(result.cluster.partition_count, dtype=np.bool_)

    def undone(self, result: "PlanningResult") -> str:
        """Return a warning of what a plan for the goal leaves undone; "" when nothing."""
        return ""


# -- the result


@dataclass(frozen=True, slots=True, eq=False)
class FinalAssignment:
    """Per partition: the replicas before and in their final order, and whether the plan has it."""

    cluster: ClusterArrays
    before: Ints
    replicas: Ints
    is_in_plan: Flags

    @classmethod
    def of(
        cls, placement: Placement, leaders: Ints, is_free: Flags, is_demoted: Flags, *, elects: bool
    ) -> "FinalAssignment":
        """Return the replicas with the chosen leader first; the others keep their order.

        `leaders` lead the partitions that are free. Others that change keep their leader, if it
        keeps its replica. With `elects`, free partitions are in the plan too when an election is
        all that they need. Demoted brokers (`Roles.is_demoted`) come last in the rows whose
        leader changes from one of them.

        Worked example: the row [1, 2, 3] with leader 3 becomes [3, 1, 2]; if broker 1 is demoted,
        it becomes [3, 2, 1].
        """
        cluster, before, placed = placement.cluster, placement.original, placement.replicas
        leaders_now = cluster.leaders_now
        still_has_leader = (placed == leaders_now[:, None]).any(axis=1) & (leaders_now >= 0)
        is_changed = (placed != before).any(axis=1)
        leaders = np.where(still_has_leader & is_changed & ~is_free, leaders_now, leaders)

        leader_gives_up = is_free & is_demoted[leaders_now]
        is_new_order = (leaders != placed[:, 0]) | leader_gives_up
        is_last = is_demoted[placed] & is_new_order[:, None]
        width = placed.shape[1]
        ranks = np.where(placed == leaders[:, None], -1, np.arange(width))
        ranks = np.where(is_last, ranks + width, ranks)
        ranks = np.where(placed < 0, 2 * width, ranks)
        replicas = np.take_along_axis(placed, np.argsort(ranks, axis=1, kind="stable"), axis=1)

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
    goal: PlanningGoal
    request: PlanRequest
    roles: Roles
    before: Placement
    after: Placement
    assignment: FinalAssignment
    deferred: Deferred = field(default_factory=Deferred)  # by the budget, for a later plan
    # Partitions that the request leaves out, where what it names is evened out among itself.
    left_out: ClusterArrays | None = None

    @property
    def cluster(self) -> ClusterArrays:
        return self.before.cluster

    @cached_property
    def parts(self) -> tuple[BrokerSetPart, ...]:
        """Return the parts of the broker sets, with what each has before and after the plan."""
        parts = parts_of(self.before, self.roles, self.goal.within)
        return tuple(replace(part, after=part.of(self.after)) for part in parts)

    @property
    def has_sets(self) -> bool:
        """Return whether broker sets keep any topics from any brokers."""
        return not all(part.brokers.all() for part in self.parts)

    def by_broker(self, measure: Callable[[BrokerSetPart], Ints]) -> Ints:
        """Return one entry per broker: that of its own broker set."""
        column = np.zeros(self.cluster.broker_count, dtype=np.int64)
        for part in self.parts:
            column[part.brokers] = measure(part)[part.brokers]
        return column

    def by_partition(self, measure: Callable[[BrokerSetPart], Ints]) -> Ints:
        """Return one entry per partition: that of its own broker set."""
        column = np.zeros(self.cluster.partition_count, dtype=np.int64)
        for part in self.parts:
            column[part.rows] = measure(part)
        return column

    @cached_property
    def rack_moves_before(self) -> Ints:
        return self.by_partition(lambda part: part.rack_moves_before)

    @cached_property
    def rack_moves_after(self) -> Ints:
        return self.by_partition(lambda part: part.rack_moves_after)

    @cached_property
    def bounds(self) -> tuple[LowerBound, LowerBound | None]:
        """Return the bound for what the plan reaches, and that of the whole goal if it is more."""
        return self.goal.bounds(self)

    @cached_property
    def best_counts(self) -> Ints:
        return self.by_broker(lambda part: part.best_counts)

    @cached_property
    def ideal_counts(self) -> Ints:
        return self.by_broker(lambda part: part.ideal_counts)

    @property
    def is_to_leave(self) -> Flags:
        """Return the partitions that still have a replica on a broker that is to be emptied."""
        return np.asarray(self.after.count_on(self.roles.leaving) > 0)

    @property
    def has_equal_shares(self) -> bool:
        """Return whether the fair share is the same for all brokers, and does not follow disks."""
        return has_equal_shares(self.cluster, self.roles)

    def is_less_even(self, counts: Ints, best: Ints) -> bool:
        """Return whether replicas per broker are clearly less even than the best ones."""
        sharing = self.roles.sharing
        return is_worse(counts[sharing], best[sharing], by_disk=not self.has_equal_shares)

    def most_leaders(self, part: BrokerSetPart) -> Ints:
        """Return how many partitions each broker can lead at most: no more than it is to hold."""
        if self.goal.evens_replicas and not has_equal_shares(part.cluster, part.roles):
            return part.best_counts
        return np.full(part.cluster.broker_count, UNBOUNDED)

    @cached_property
    def band(self) -> ByteBand:
        percent = self.request.policy.bytes_tolerance_percent
        fair = self.by_broker(lambda part: byte_band(part.after, part.roles, percent).fair)
        return ByteBand.around(fair, percent)

    @cached_property
    def out_of_band(self) -> Ints:
        """Return positions of the brokers whose bytes are outside the tolerated band in the end."""
        is_outside = self.band.bytes_outside(self.after.bytes_held) > 0
        return np.flatnonzero(self.roles.sharing & is_outside)

    @property
    def evens_traffic(self) -> bool:
        return self.goal.evens_replicas and self.cluster.knows_traffic

    @cached_property
    def traffic_band(self) -> ByteBand:
        percent = self.request.policy.bytes_in_tolerance_percent
        fair = self.by_broker(lambda part: traffic_band(part.after, part.roles, percent).fair)
        return ByteBand.around(fair, percent)

    @cached_property
    def out_of_traffic_band(self) -> Ints:
        """Return positions of the brokers that take in more or less than tolerated in the end."""
        is_outside = self.traffic_band.bytes_outside(self.after.traffic) > 0
        return np.flatnonzero(self.roles.sharing & is_outside)

    @cached_property
    def leader_counts(self) -> Ints:
        """Return partitions that each broker leads in the end."""
        return self.cluster.leader_load(self.assignment.leaders)

    @cached_property
    def free_destinations(self) -> Ints:
        return self.by_partition(lambda part: part.free_destinations)

    # -- for sentences

    @property
    def in_scope(self) -> str:
        return " in the scope of this plan" if self.request.scope.names_topics else ""

    @property
    def per_broker(self) -> str:
        """Return what counts per broker are of, where other partitions stand beside them."""
        has_others = self.left_out is not None and self.left_out.partition_count
        return f"per broker{self.in_scope if has_others else ''}"

    @property
    def leaders_per_broker(self) -> str:
        return as_range(self.leader_counts[self.roles.leading])

    @property
    def or_rebalance(self) -> str:
        """Return the end of a sentence about what another goal may do better."""
        return "" if self.request.goal is Goal.REBALANCE else "; goal rebalance may do more"

    def list_brokers(self, positions: Ints) -> str:
        """Return a list of some brokers for a sentence: how many, and the first few ids."""
        return list_brokers(self.cluster.broker_ids[positions].tolist())

    def name_partitions(self, is_concerned: Flags, sentence: str, noun: str = "partition") -> str:
        """Return a sentence that names the first few partitions; "" when there are none.

        It goes on after the noun: "{has} no leader" as in "2 partitions have no leader: a-0, a-1".
        """
        partitions = np.flatnonzero(is_concerned)
        if not len(partitions):
            return ""
        sentence = agree(len(partitions), f"{pluralize(len(partitions), noun)} {sentence}")
        return f"{sentence}: {self.cluster.names(partitions)}"

    def name_others(self, is_concerned: Flags, sentence: str) -> str:
        """Return such a sentence of partitions that are not named as undone."""
        is_other = is_concerned & ~self.unreached
        noun = "partition" if (is_other == is_concerned).all() else "other partition"
        return self.name_partitions(is_other, sentence, noun)

    @cached_property
    def unreached(self) -> Flags:
        """Return the partitions for which the goal is not reached, though no budget stops it."""
        return self.goal.unreached(self) & (not self.deferred.partitions)

    def list_undone(self, *kinds: tuple[Flags, str]) -> str:
        """Return for which partitions the goal is not reached and why; "" for none.

        That is where they move or have no leader, and for each other kind that has any.
        """
        is_concerned = self.unreached
        is_moving, is_leaderless = self.cluster.is_moving, self.cluster.is_leaderless
        sentences = [
            self._is_left(is_concerned & is_moving, _IS_MOVING),
            self._is_left(is_concerned & is_leaderless & ~is_moving, _IS_LEADERLESS),
            *(self._is_left(is_concerned & is_of_kind, why) for is_of_kind, why in kinds),
        ]
        return "; ".join(filter(None, sentences))

    def list_left_to_repair(self) -> str:
        """Return partitions left alone for a replica on a dead broker, which is not the goal's."""
        is_repair = self.request.goal is Goal.REPAIR
        why = _IS_BESIDE_ANOTHER if is_repair else _IS_LEFT_TO_REPAIR
        return self._is_left(self.cluster.is_left_to_repair, why)

    def _is_left(self, is_concerned: Flags, why: str) -> str:
        partitions = np.flatnonzero(is_concerned)
        if not len(partitions):
            return ""
        which = f"({self.cluster.names(partitions)})"
        return pluralize(
            len(partitions), f"partition {which} is {why}", f"partitions {which} are {why}"
        )

    def list_non_empty(self) -> str:
        """Return excluded partitions that keep a replica on a broker that is to be taken away."""
        if not KINDS[self.goal.name].empties:
            return ""
        cluster = self.cluster
        is_own = np.isin(cluster.topic_names, list(self.request.own_topics))[cluster.topic_numbers]
        stays = (self.after.count_on(self.roles.leaving) > 0) & cluster.is_excluded & ~is_own
        brokers = name_brokers(sorted(self.request.broker_ids))
        remain = verb(len(self.request.broker_ids), "stays", "stay")
        return self.name_partitions(
            stays, f"{{is}} excluded, so {brokers} {remain} non-empty and must not be stopped"
        )


def min_leader_range(result: PlanningResult) -> int:
    """Return the least that the largest and the smallest count of leaders can differ by."""
    counts = np.concatenate([_even_leader_counts(result, part) for part in result.parts])
    return int(np.ptp(counts)) if len(counts) else 0


def _even_leader_counts(result: PlanningResult, part: BrokerSetPart) -> Ints:
    """Return leaders of the brokers that may lead, as even as any replica sets would allow."""
    cluster, roles, leaders_now = part.cluster, part.roles, part.cluster.leaders_now
    is_led_in_scope = (leaders_now >= 0) & np.append(cluster.is_in_scope, False)[leaders_now]
    is_free = result.goal.may_change_leader(cluster, roles) & is_led_in_scope
    if not result.goal.moves_replicas:
        is_free &= part.before.count_on(roles.leading) > 0
    fixed = cluster.leader_load(np.where(is_free, NOBODY, leaders_now))[roles.leading]
    if not len(fixed):
        return fixed
    total = int(fixed.sum() + is_free.sum())
    return fill(total, fixed, result.most_leaders(part)[roles.leading], fixed)


def as_range(values: Ints) -> str:
    """Return `4 to 7`, or `4` where all are the same."""
    low, high = int(np.min(values)), int(np.max(values))
    return str(low) if low == high else f"{low} to {high}"
