"""Goals that make a cluster more even: racks repaired, then replicas and bytes.

rebalance evens out all live brokers. add-brokers brings new brokers to their fair share; old ones
receive nothing. Small clusters are solved. In all others:

    replicas larger than a share that stand on one broker part (`spread`)
    repeat, while racks or counts get more even:
        partitions with replicas that share a rack without need get another one (`spread`)
        brokers above their count give replicas to those below it: in bulk, by topic and size
            (`spread`), then whatever suits (`local_search`)
    bytes, traffic and copies get better by moves and exchanges (`local_search`)
    up to 70,000 replicas, a linear program finds what to copy instead (`rack_program`); above
        25,000, where that is much, it goes on once bytes are even

What remains in the end is a state that another planning would leave as it is: to plan again moves
nothing. Most plans take one round.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np

from counterpoise.errors import InputError
from counterpoise.model.columns import NOBODY, Flags, Ints
from counterpoise.model.evenness import highest_share
from counterpoise.model.plan import LowerBound
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.model.words import verb
from counterpoise.planning.arrays import UNBOUNDED, ClusterArrays
from counterpoise.planning.fair_shares import (
    TopicShares,
    byte_band,
    bytes_outside_band,
    count_targets,
    has_equal_shares,
    shares_of_bytes,
    traffic_band,
    uneven_counts,
)
from counterpoise.planning.goals.lower_bounds import evening_bound, reached_bound
from counterpoise.planning.placement import Placement, Roles
from counterpoise.planning.placing.local_search import Search, even_counts, search
from counterpoise.planning.placing.new_replicas import drain
from counterpoise.planning.placing.rack_program import MARGINS, MAX_REPLICAS, RackProgram
from counterpoise.planning.placing.replica_choice import ReplicaChoice
from counterpoise.planning.placing.several_new import spread_new_replicas
from counterpoise.planning.placing.small import (
    best_counts,
    is_affordable,
    make_counts_best,
    solve,
)
from counterpoise.planning.placing.spread import part_giants, repair_racks, spread
from counterpoise.planning.placing.within_budget import place_within, search_within
from counterpoise.planning.planning_result import PlanningGoal, PlanningResult, as_range
from counterpoise.planning.request_checks import brokers_are

_MAX_ROUNDS = 50
_NEAR = 1.005  # of the bytes that have to be copied anyway
_FAR = 1.05  # of them: from there on the linear program saves more than a search, and as quickly
_REPLICAS_OF_ALL_TRIES = 16_000  # of a linear program that is solved again with another margin
_TIMES_A_BUDGET = 2  # what copies more is cut to the budget whatever a linear program says
_REPLICAS_WITH_TIME = 25_000  # to mend in two ways
_MAX_STEPS_TO_MEND = 100  # small ones: of a program that is to copy less, not of every search
_MAX_WORK_OF_ARRIVALS = 1_000_000  # replicas looked at

_Unevenness = tuple[int, int]  # racks, counts: the smaller the more even


class EveningGoal(PlanningGoal):
    """What goals have in common that make a cluster more even."""

    evens_replicas: ClassVar[bool] = True
    shares_scope: ClassVar[bool] = True
    more_would_help: ClassVar[str] = (
        "goal rebalance may do more, since it moves replicas between all brokers"
    )

    def left_to_repair(self, cluster: ClusterArrays, request: PlanRequest) -> Flags:
        return cluster.is_on_dead

    def max_counts(self, placement: Placement, roles: Roles) -> Ints:
        """Return the most replicas that each broker may hold in the end."""
        return placement.cluster.max_counts

    def place_part(self, placement: Placement, roles: Roles, request: PlanRequest) -> None:
        """Even replicas out, then search for better; where there is time, a linear program says
        what to copy instead.

        What that moves may let the goal do better. So both go on from there as if that were the
        cluster, until they leave it as it is: to plan again moves nothing.
        """
        self.place_evenly(placement, roles, request)
        evened = placement.replicas.copy()
        is_for_program = _is_for_program(placement, request)
        if not is_for_program or _copies_little_once_even(placement, roles, request.policy):
            self.search(placement, roles, request)
        if not placement.is_small() and not request.is_quick:
            searched = placement.replicas.copy()
            placement.min_copied_bytes = self.copy_less(placement, roles, request)
            if is_for_program and (placement.replicas == searched).all():
                self.search(placement, roles, request)
        spread_new_replicas(placement, roles, request.policy)
        if not self.copies_for_traffic or (placement.replicas == evened).all():
            return

        def place_again(again: Placement) -> None:
            self.place_evenly(again, roles, request)
            self.search(again, roles, request)

        placement.repeat(place_again)

    def search(self, placement: Placement, roles: Roles, request: PlanRequest) -> None:
        """Make bytes, traffic and copies better."""
        search(placement, roles, request.policy, may_copy_for_traffic=self.copies_for_traffic)

    def place_evenly(self, placement: Placement, roles: Roles, request: PlanRequest) -> None:
        """Make racks and replicas per broker as even as can be: proven in small clusters."""
        choose = partial(self._choice, roles=roles, request=request)
        percent = request.policy.bytes_tolerance_percent
        find_band = partial(byte_band, roles=roles, tolerance_percent=percent)
        solved = Placement.of(placement.cluster)
        if placement.is_small() and solve(solved, choose, find_band, roles.sharing):
            placement.take_over(solved)
        else:
            self._place_large(placement, roles, request)

    def copy_less(self, placement: Placement, roles: Roles, request: PlanRequest) -> int:
        """Move replicas of a placement that was searched, so that fewer bytes are copied.

        Return the bytes that any placement as even copies, as far as that is known.
        """
        replica_count = int(placement.counts.sum())
        max_bytes = request.budget.max_bytes
        is_cut = max_bytes and int(placement.arriving.sum()) > _TIMES_A_BUDGET * max_bytes
        has_time = replica_count <= _REPLICAS_WITH_TIME
        if replica_count > MAX_REPLICAS or (is_cut and not has_time):
            return 0
        choice = self._choice_once_placed(placement, roles, request)
        if (choice.topic_limits < UNBOUNDED).any():  # the program knows no topics
            return 0
        min_copied_bytes = 0
        for margin in MARGINS[: max(1, _REPLICAS_OF_ALL_TRIES // replica_count)]:
            searched = Search.of(placement, roles, request.policy, may_copy_for_traffic=True)
            if searched.copies_little_more_than_needed(_NEAR):
                break
            program = RackProgram.of(
                placement, choice, searched.loads, searched.is_pinned, margin=margin
            )
            cheaper, bound = program.solve()
            min_copied_bytes = max(min_copied_bytes, bound)
            self._take_if_better(placement, cheaper, roles, request)
        return min_copied_bytes

    def _take_if_better(
        self, placement: Placement, cheaper: Placement, roles: Roles, request: PlanRequest
    ) -> None:
        """Mend what a linear program has left outside, and take its placement where it is better.

        Exchanges of what is copied anyway come first. Where there is time, also without them.
        """
        even_counts(cheaper, roles, request.policy, placement.counts)
        by_arrivals = cheaper.copy()
        of_arrivals = Search.of(
            by_arrivals,
            roles,
            request.policy,
            may_copy_for_traffic=False,
            max_copied_bytes=int(cheaper.arriving.sum()),
            max_work=_MAX_WORK_OF_ARRIVALS,
            max_steps=_MAX_STEPS_TO_MEND,
        )
        of_arrivals.run()
        has_time = int(placement.counts.sum()) <= _REPLICAS_WITH_TIME
        for mended in (cheaper, by_arrivals) if has_time else (by_arrivals,):
            search(
                mended,
                roles,
                request.policy,
                may_copy_for_traffic=self.copies_for_traffic,
                max_steps=_MAX_STEPS_TO_MEND,
            )
            has_room = (mended.arriving <= placement.arriving) | (mended.room >= 0)
            if has_room.all() and _is_better(mended, placement, roles, request.policy):
                placement.take_over(mended)
                placement.has_budget_ended = mended.has_budget_ended

    def _place_large(self, placement: Placement, roles: Roles, request: PlanRequest) -> None:
        """Come near to the best, as clusters of any size can."""
        if roles.leaving.any():
            drain(placement, roles, request.policy, placement.cluster.may_change)
        percent = request.policy.bytes_tolerance_percent
        part_giants(placement, roles, shares_of_bytes(placement, roles, percent).is_giant)
        self.place_in_rounds(placement, roles, request)
        count = int(placement.cluster.may_change.sum())
        is_affordable_now = is_affordable(placement, roles.destinations, count)
        if self._may_be_better(placement, roles) and is_affordable_now:
            make_counts_best(placement, self._choice_once_placed(placement, roles, request))

    def place_within(
        self, cut: Placement, roles: Roles, request: PlanRequest, max_bytes: int
    ) -> None:
        """Move replicas for what so many bytes buy; where a search comes to less, `cut` stays."""
        placement = Placement.of(cut.cluster)
        policy, max_counts = request.policy, self.max_counts(placement, roles)
        if placement.is_small():
            percent = policy.bytes_tolerance_percent
            find_band = partial(byte_band, roles=roles, tolerance_percent=percent)
            choice = replace(ReplicaChoice.to_even(placement, roles), max_counts=max_counts)
            place_within(placement, choice, find_band, roles.sharing, max_bytes, cut)
            cut.take_over(placement)
            return
        search_within(placement, roles, policy, max_counts, max_bytes)
        if _rank(placement, roles, policy) <= _rank(cut, roles, policy):
            cut.take_over(placement)

    def _choice(self, start: Placement, roles: Roles, request: PlanRequest) -> ReplicaChoice:
        return replace(
            ReplicaChoice.to_even(start, roles),
            max_counts=self.max_counts(start, roles),
            topic_limits=self.topic_limits(start, roles, request),
        )

    def _choice_once_placed(
        self, placement: Placement, roles: Roles, request: PlanRequest
    ) -> ReplicaChoice:
        """Return the choice of all replicas, where brokers get what is fair once racks are cured.

        While partitions are stacked on other racks, a rack with few brokers seems to need fewer
        replicas than it does in the end.
        """
        choice = self._choice(Placement.of(placement.cluster), roles, request)
        return replace(choice, max_counts=self.max_counts(placement, roles))

    def _may_be_better(self, placement: Placement, roles: Roles) -> bool:
        """Return whether racks or counts are worse than their bounds."""
        cluster = placement.cluster
        if placement.rack_moves(roles.staying).any():
            return True
        if _are_within_one(placement, roles):
            return False
        best = count_targets(placement, roles, self.max_counts(placement, roles))
        reached = uneven_counts(cluster, roles, placement.counts)
        return reached > uneven_counts(cluster, roles, best)

    def topic_limits(self, placement: Placement, roles: Roles, request: PlanRequest) -> Ints:
        """Return the most replicas of each topic that a broker may hold in the end.

        Where the request names topics, none may end up more concentrated than it was.
        """
        if not request.scope.topics:
            return np.full(len(placement.cluster.topic_names), UNBOUNDED)
        counts = placement.topic_counts
        shares = highest_share(counts.sum(axis=1), int(roles.sharing.sum()))
        return np.asarray(np.maximum(counts.max(axis=1, initial=0), shares), dtype=np.int64)

    def place_in_rounds(self, placement: Placement, roles: Roles, request: PlanRequest) -> None:
        """Repeat rounds for as long as they make racks or counts more even."""
        reached = _unevenness(placement, roles)
        for _ in range(_MAX_ROUNDS):
            before = placement.replicas.copy()
            even_out(placement, roles, request, self.max_counts(placement, roles))
            unevenness = _unevenness(placement, roles)
            if unevenness >= reached:
                placement.reset_to(before)
                return
            reached = unevenness
            if not unevenness[0] and _are_within_one(placement, roles):
                return

    def bounds(self, result: PlanningResult) -> tuple[LowerBound, LowerBound | None]:
        needed = evening_bound(result)
        reached = reached_bound(result, needed)
        is_more = needed.replicas > reached.replicas or needed.bytes > reached.bytes
        return reached, needed if is_more else None

    def reason(self, result: PlanningResult) -> str:
        counts = result.after.counts
        replicas = as_range(counts[result.roles.sharing])
        facts = f"leaders {result.leaders_per_broker} and replicas {replicas} {result.per_broker}"
        if not result.is_less_even(counts, result.ideal_counts) and not len(result.out_of_band):
            percent = result.request.policy.bytes_tolerance_percent
            balanced = f"already balanced: {facts}, bytes within {percent} % of the fair share"
            return f"{balanced}{_traffic_in_words(result)}"
        why = "no move that this goal allows makes the cluster more even"
        if result.after.has_budget_ended:
            why = "the search ended by its budget before it found a more even cluster"
        return f"cannot, because {why}: {facts}; {self.more_would_help}"


def _traffic_in_words(result: PlanningResult) -> str:
    if not result.evens_traffic:
        return ""
    percent = result.request.policy.bytes_in_tolerance_percent
    if not len(result.out_of_traffic_band):
        return f", and traffic within {percent} %"
    return f"; no move brings traffic within {percent} %"


class Rebalance(EveningGoal):
    name: ClassVar[Goal] = Goal.REBALANCE
    copies_for_traffic: ClassVar[bool] = True
    evens_bytes_in_of_leaders: ClassVar[bool] = True
    more_would_help: ClassVar[str] = (
        "more partitions, other sizes, brokers in the racks that lack some, or a wider scope "
        "would help"
    )

    def within(self, roles: Roles, part: ClusterArrays, brokers: Flags) -> Roles:
        """Return roles in which brokers outside of the set give its replicas away."""
        misplaced = part.load(np.where(part.may_change[:, None], part.replicas, NOBODY)) > 0
        leaving = roles.sources & ~brokers & misplaced
        return super().within(roles, part, brokers).but(leaving=leaving)


class AddBrokers(EveningGoal):
    name: ClassVar[Goal] = Goal.ADD_BROKERS
    others_may: ClassVar[str] = "give replicas"

    def check_brokers(self, dead: Sequence[int], alive: Sequence[int]) -> None:
        if dead:
            raise InputError(
                f"{brokers_are(dead)} fenced (not live) and cannot receive replicas; "
                f"start {verb(len(dead), 'it', 'them')}, then try again"
            )

    def roles(self, cluster: ClusterArrays, named: Flags) -> Roles:
        roles = super().roles(cluster, named)
        return roles.but(destinations=roles.destinations & named, sources=roles.sharing & ~named)

    def within(self, roles: Roles, part: ClusterArrays, brokers: Flags) -> Roles:
        roles = super().within(roles, part, brokers)
        return roles.but(sources=roles.sources & brokers)

    def max_counts(self, placement: Placement, roles: Roles) -> Ints:
        """Return what is fair for each broker: its share, the mean of its rack say, rounded up.

        A goal that cannot cure all racks may need more of a broker than is most even once they are
        as good as can be, which is known exactly in small clusters. New brokers stop here even
        where old ones hold more for lack of moves among themselves; those are for goal rebalance.
        """
        even = count_targets(placement, roles.unrestricted)
        if placement.is_small():
            even = np.maximum(even, best_counts(placement, roles))
        weights = placement.cluster.weights(roles.sharing)
        is_peer = (weights[:, None] == weights) & roles.sharing
        has_peer_with_one_more = (is_peer & (even[:, None] + 1 == even)).any(axis=1)
        return np.asarray(np.minimum(even + has_peer_with_one_more, placement.cluster.max_counts))


# -- one round


def even_out(placement: Placement, roles: Roles, request: PlanRequest, max_counts: Ints) -> None:
    """Repair racks, then move replicas to their targets; none gets more than `max_counts`."""
    repair_racks(placement, roles, count_targets(placement, roles, max_counts), max_counts)
    wanted = count_targets(placement, roles, max_counts)
    of_bytes = shares_of_bytes(placement, roles, request.policy.bytes_tolerance_percent)
    shares = TopicShares.of(placement, roles, wanted)
    spread(placement, roles, wanted, of_bytes.band, shares, is_pinned=of_bytes.is_giant)
    even_counts(placement, roles, request.policy, wanted)


def _rank(placement: Placement, roles: Roles, policy: BalancePolicy) -> tuple[int, ...]:
    """Return what is left on brokers that leave, racks, counts, bytes and traffic outside of their
    bands, and bytes copied.
    """
    left_behind = int(placement.counts[roles.leaving].sum())
    outside = bytes_outside_band(placement, roles, policy.bytes_tolerance_percent)
    traffic = 0
    if placement.cluster.knows_traffic:
        band = traffic_band(placement, roles, policy.bytes_in_tolerance_percent)
        traffic = int(band.bytes_outside(placement.traffic)[roles.sharing].sum())
    copied = int(placement.arriving.sum())
    return (left_behind, *_unevenness(placement, roles), outside, traffic, copied)


def _is_for_program(placement: Placement, request: PlanRequest) -> bool:
    """Return whether a search leaves what is left to save to the linear program.

    In a large cluster it would take as long as the program, which goes on from any placement.
    """
    is_large = _REPLICAS_WITH_TIME < int(placement.counts.sum()) <= MAX_REPLICAS
    return is_large and not (request.is_quick or request.budget.max_bytes or request.scope.topics)


def _copies_little_once_even(placement: Placement, roles: Roles, policy: BalancePolicy) -> bool:
    """Bring bytes into their band, and return whether that copies little more than has to be."""
    searched = Search.of(placement, roles, policy, may_copy_for_traffic=False)
    searched.even_bytes()
    return searched.copies_little_more_than_needed(_FAR)


def _is_better(first: Placement, second: Placement, roles: Roles, policy: BalancePolicy) -> bool:
    """Return whether the first placement is better. What is outside is the same within a hundredth:
    a broker that cannot come into its band is no reason to copy more.
    """
    *first_even, first_bytes, first_traffic, first_copied = _rank(first, roles, policy)
    *second_even, second_bytes, second_traffic, second_copied = _rank(second, roles, policy)

    def hundredths(outside: int, other: int) -> int:
        return 100 * outside // max(1, other)

    is_less = hundredths(first_bytes, second_bytes), hundredths(first_traffic, second_traffic)
    other = hundredths(second_bytes, second_bytes), hundredths(second_traffic, second_traffic)
    return (*first_even, *is_less, first_copied) < (*second_even, *other, second_copied)


def _unevenness(placement: Placement, roles: Roles) -> _Unevenness:
    """Return racks first, then counts."""
    racks = int(placement.rack_moves(roles.staying).sum())
    return racks, uneven_counts(placement.cluster, roles, placement.counts)


def _are_within_one(placement: Placement, roles: Roles) -> bool:
    """Return whether all brokers hold the same number of replicas, or one more, as they should, and
    none is above its limit.
    """
    counts = placement.counts[roles.sharing]
    is_above = counts > placement.cluster.max_counts[roles.sharing]
    is_even = int(np.ptp(counts)) <= 1 and not is_above.any()
    return is_even and has_equal_shares(placement.cluster, roles)
