"""Goals: who gives, receives and leads, how replicas move, what cannot be asked, and why.

    class Leaders(PlanningGoal):
        name = Goal.LEADERS

evening.py has those about evenness, emptying.py those that empty brokers, leaders.py those that
move no byte, replication_factor.py the one that adds and drops replicas; lower_bounds.py has what
any plan has to copy for evenness. A new goal is a name in `model/request.py`, with its sentence for
people, its class here, and its line in `planner.py`.

The planner asks a goal in this order; what a goal does not say itself stands here.

    check_brokers, check, lacking      what is wrong with a request, before anything is computed
    roles, left_to_repair              which brokers and partitions take part
    refuse_impossible                  what must be left alone stands in the way
    place, refuse_unplaced             replicas move; only a goal worth nothing half done is refused
    may_change_leader                  leaders are then chosen for all goals in the same way
    copies, lower_bound                the least that has to be copied
    reason, undone                     why nothing moves, and what is left undone
"""

from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from counterpoise.errors import RefusedError
from counterpoise.model.columns import Flags, Ints
from counterpoise.model.plan import LowerBound, MoveReason
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.model.words import pluralize
from counterpoise.planning.arrays import ClusterArrays
from counterpoise.planning.goals.lower_bounds import min_leader_range
from counterpoise.planning.placement import Placement, Roles

if TYPE_CHECKING:
    from counterpoise.planning.planning_result import PlanningResult

IS_MOVING: Final = "under reassignment; wait until it is done, or cancel it"
IS_LEADERLESS: Final = "without a leader to copy from; bring a broker back"
HAS_NO_DESTINATION: Final = (
    "for which no other live broker in scope has room and no constraint is against it; add brokers "
    "or disk, widen the scope, or raise disk_limit_percent"
)
_IS_LEFT_TO_REPAIR = "left to goal repair: with a replica on a dead broker no copy could end"


class PlanningGoal:
    name: ClassVar[Goal]
    which_brokers: ClassVar[str] = ""  # that the request has to name; "" where it names none
    # Are partitions in the plan too whose only change is the election of their preferred leader?
    elects: ClassVar[bool] = True
    evens_replicas: ClassVar[bool] = False  # also where it does so only with what it moves anyway
    copies_for_traffic: ClassVar[bool] = False  # also what nothing else asks for
    moves_replicas: ClassVar[bool] = True
    shares_scope: ClassVar[bool] = False  # even are the topics of the request, not the cluster
    copy_reason: ClassVar[MoveReason | None] = None  # of every copy; None where it is evenness

    def check_brokers(self, dead: Sequence[int], alive: Sequence[int], live: Set[int]) -> None:
        """Raise InputError for brokers of the request, dead and alive, that the goal cannot take.

        `live` are all live brokers of the cluster.
        """

    def check(self, request: PlanRequest) -> None:
        """Raise InputError for what else the goal lacks in the request."""

    def lacking(self, in_scope: Set[int], others: Set[int]) -> str:
        """Return what the scope leaves too few of; `others` in scope are not named by the request.

        Both are live brokers.
        """
        return "" if len(in_scope) > 1 else "fewer than two live brokers to even out"

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

    def place(self, placement: Placement, roles: Roles, request: PlanRequest) -> None:
        """Move replicas until the goal is reached, as far as it can be."""

    def refuse_unplaced(self, result: "PlanningResult") -> None:
        """Raise RefusedError when too little could be moved to be worth anything."""

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
        return LowerBound(int(copies.sum()), copied_bytes, min_leader_range(result))

    def bounds(self, result: "PlanningResult") -> tuple[LowerBound, LowerBound | None]:
        """Return the bound for what the plan reaches, and that of the whole goal if it is more."""
        return self.lower_bound(result), None

    def reason(self, result: "PlanningResult") -> str:
        """Return one sentence that says why nothing moves, and what would help."""
        raise NotImplementedError

    def undone(self, result: "PlanningResult") -> str:
        """Return a warning of what a plan for the goal leaves undone; "" when nothing."""
        return ""


# -- what a plan leaves undone


def list_undone(result: "PlanningResult", *kinds: tuple[Flags, str]) -> str:
    """Return which partitions are left and why, for each kind that has any; "" when none has."""
    sentences = []
    for is_concerned, why in kinds:
        partitions = np.flatnonzero(is_concerned)
        if len(partitions):
            names = result.cluster.names(partitions)
            singular, plural = f"partition ({names}) is {why}", f"partitions ({names}) are {why}"
            sentences.append(pluralize(len(partitions), singular, plural))
    return "; ".join(sentences)


def list_left_to_repair(result: "PlanningResult") -> str:
    """Return partitions that stay as they are because a replica is on a dead broker.

    The goal is not about that broker.
    """
    return list_undone(result, (result.cluster.is_left_to_repair, _IS_LEFT_TO_REPAIR))
