"""Goals about leaders only: no byte moves.

leaders: replicas are reordered and leaders elected. demote-brokers: the named brokers give up what
they lead, and keep their replicas, last.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from counterpoise.errors import InputError
from counterpoise.model.columns import Flags
from counterpoise.model.plan import MoveReason
from counterpoise.model.request import Goal
from counterpoise.model.words import name_brokers, pluralize, verb
from counterpoise.planning.arrays import ClusterArrays
from counterpoise.planning.placement import Roles
from counterpoise.planning.planning_result import PlanningGoal, PlanningResult
from counterpoise.planning.request_checks import brokers_are


class Leaders(PlanningGoal):
    name: ClassVar[Goal] = Goal.LEADERS
    evens_bytes_in_of_leaders: ClassVar[bool] = True

    def roles(self, cluster: ClusterArrays, named: Flags) -> Roles:
        nobody = np.zeros_like(named)
        return super().roles(cluster, named).but(destinations=nobody, sources=nobody)

    def reason(self, result: PlanningResult) -> str:
        scope = result.request.scope
        has_scope = scope.names_topics or scope.names_brokers
        within = " within the scope of the request" if has_scope else ""
        return (
            f"already balanced: each broker leads {result.leaders_per_broker} partitions, "
            f"as even as the replica sets allow{within}"
        )


class DemoteBrokers(Leaders):
    name: ClassVar[Goal] = Goal.DEMOTE_BROKERS
    evens_bytes_in_of_leaders: ClassVar[bool] = False
    copy_reason: ClassVar[MoveReason | None] = MoveReason.DEMOTE
    others_may: ClassVar[str] = "lead instead"

    def check_brokers(self, dead: Sequence[int], alive: Sequence[int]) -> None:
        if dead:
            raise InputError(
                f"{brokers_are(dead)} fenced (not live) and "
                f"{verb(len(dead), 'leads', 'lead')} nothing; name live brokers only. Goal leaders "
                "puts live brokers first where a fenced one is first"
            )

    def roles(self, cluster: ClusterArrays, named: Flags) -> Roles:
        roles = super().roles(cluster, named)
        return roles.but(leading=roles.leading & ~named)

    def within(self, roles: Roles, part: ClusterArrays, brokers: Flags) -> Roles:
        """Return the roles of the whole cluster: who is demoted, and who may lead what it holds,
        does not depend on broker sets.
        """
        return roles

    def may_change_leader(self, cluster: ClusterArrays, roles: Roles) -> Flags:
        """Return where a named broker leads, or is the preferred leader."""
        leads, is_first = cluster.leaders, cluster.replicas[:, 0]
        is_concerned = roles.is_demoted[leads] | roles.is_demoted[is_first]
        return np.asarray(cluster.may_reorder & is_concerned)

    def reason(self, result: PlanningResult) -> str:
        brokers = name_brokers(sorted(result.request.broker_ids))
        broker_count = len(result.request.broker_ids)
        assignment, is_demoted = result.assignment, result.roles.is_demoted
        leads, is_first = is_demoted[assignment.leaders], is_demoted[assignment.replicas[:, 0]]
        partitions = np.flatnonzero(result.cluster.may_reorder & (leads | is_first))
        if not len(partitions):
            lead = verb(broker_count, "leads no partition and is", "lead no partition and are")
            return f"already done: {brokers} {lead} preferred leader of none{result.in_scope}"
        count = pluralize(len(partitions), "partition")
        return (
            f"cannot, because no other live replica may lead the {count} that "
            f"{verb(broker_count, 'it leads', 'they lead')} ({result.cluster.names(partitions)}); "
            "raise their replication factor, bring brokers back, or widen the scope"
        )

    def undone(self, result: PlanningResult) -> str:
        """Return what demoted brokers still lead."""
        is_led_by_demoted = result.roles.is_demoted[result.assignment.leaders]
        may_reorder = result.cluster.may_reorder
        no_other = "{is} still led by a demoted broker: no other live replica may lead {them}"
        left_alone = (
            "{is} still led by a demoted broker: the topics of the plan, or a reassignment, "
            "leave {them} alone"
        )
        sentences = (
            result.name_partitions(is_led_by_demoted & may_reorder, no_other),
            result.name_partitions(is_led_by_demoted & ~may_reorder, left_alone),
        )
        return "; ".join(filter(None, sentences))
