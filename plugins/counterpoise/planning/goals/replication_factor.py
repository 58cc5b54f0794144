"""Goal replication-factor: replicas are added or dropped, none moves.

Partitions that may not change stay as they are, and so do those without a leader, since there is no
broker to copy from. Where no broker may receive a replica (each has one, is out of scope, or has no
room) a partition stays short of the factor; a warning names it.
"""

from typing import ClassVar

import numpy as np

from counterpoise.errors import InputError
from counterpoise.model.columns import Flags, Ints
from counterpoise.model.plan import MoveReason
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.model.words import join_names, pluralize
from counterpoise.planning.arrays import ClusterArrays
from counterpoise.planning.placement import Placement, Roles
from counterpoise.planning.placing.lowering import drop_surplus
from counterpoise.planning.placing.new_replicas import add_missing
from counterpoise.planning.planning_result import (
    HAS_NO_DESTINATION,
    PlanningGoal,
    PlanningResult,
)
from counterpoise.planning.request_checks import name_cluster

_HAS_TOO_FEW_IN_SCOPE = "with too few replicas on brokers in scope; widen it"


class ReplicationFactor(PlanningGoal):
    name: ClassVar[Goal] = Goal.REPLICATION_FACTOR
    elects: ClassVar[bool] = False
    copy_reason: ClassVar[MoveReason | None] = MoveReason.REPLICATION_FACTOR
    others_may: ClassVar[str] = "get or lose replicas"

    def left_to_repair(self, cluster: ClusterArrays, request: PlanRequest) -> Flags:
        gets_copies = cluster.replica_counts < (request.replication_factor or 0)
        return cluster.is_on_dead & gets_copies

    def refuse_impossible(self, result: PlanningResult) -> None:
        factor, live = result.request.replication_factor or 0, int(result.cluster.is_live.sum())
        if factor > live:
            raise InputError(
                f"--replication-factor {factor}: {name_cluster(result.snapshot)} has "
                f"{pluralize(live, 'live broker')}, and each holds at most one replica of a "
                "partition; give fewer, or add brokers first"
            )
        _refuse_below_min_insync(result, factor)
        super().refuse_impossible(result)

    def place_part(self, placement: Placement, roles: Roles, request: PlanRequest) -> None:
        if request.replication_factor is not None:
            # Dropped first, so that added replicas go to the brokers that are emptier then.
            drop_surplus(placement, roles, request.policy, request.replication_factor)
            add_missing(placement, roles, request.policy, request.replication_factor)

    def copies(self, result: PlanningResult) -> Ints:
        factor, counts = result.request.replication_factor or 0, result.before.replica_counts
        missing = np.minimum(np.maximum(0, factor - counts), result.free_destinations)
        return np.where(result.cluster.may_change, missing, 0)

    def done(self, result: PlanningResult) -> str:
        replicas = pluralize(result.request.replication_factor or 0, "replica")
        may_change = int(result.cluster.may_change.sum())
        return f"already done: each of the {may_change} partitions that may change has {replicas}"

    def unreached(self, result: PlanningResult) -> Flags:
        """Return partitions in scope that do not have the wanted number of replicas."""
        cluster, factor = result.cluster, result.request.replication_factor or 0
        is_left = result.after.replica_counts != factor
        return np.asarray(is_left & ~cluster.is_excluded & ~cluster.is_left_to_repair)

    def undone(self, result: PlanningResult) -> str:
        counts, factor = result.after.replica_counts, result.request.replication_factor or 0
        may_change = result.cluster.may_change
        return result.list_undone(
            (may_change & (counts < factor), HAS_NO_DESTINATION),
            (may_change & (counts > factor), _HAS_TOO_FEW_IN_SCOPE),
        )


def _refuse_below_min_insync(result: PlanningResult, factor: int) -> None:
    cluster = result.cluster
    is_planned = cluster.is_requested & ~cluster.is_excluded
    topics = np.unique(cluster.topic_numbers[is_planned])
    too_high = [
        f"{cluster.topic_names[topic]} ({cluster.min_insync_replicas[topic]})"
        for topic in topics[cluster.min_insync_replicas[topics] > factor].tolist()
    ]
    if too_high:
        raise InputError(
            f"--replication-factor {factor} is below min.insync.replicas of "
            f"{join_names(too_high)}: producers that wait for all acknowledgements would be "
            "refused; lower min.insync.replicas first, or leave these topics out"
        )
