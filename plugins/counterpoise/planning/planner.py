"""From a snapshot and a request to a plan: pure, and the same bytes for the same input.

    make_plan(snapshot, PlanRequest(Goal.ADD_BROKERS, (4,)))

    check the request -> read the snapshot into arrays -> place replicas -> search for better
    -> keep within the budget -> choose leaders -> keep only what is worth it -> explain

Replicas come first (racks, counts, bytes), leaders last, over the final replica sets: leaders can
be exact for any sets, and the other way round they could not. Nothing here reads a clock or a file.

    plan_to_reach(snapshot, {TopicPartition("orders", 0): (4, 2, 3)}, policy)

That is a plan that somebody else made: Kafka's reassignment JSON, held against a snapshot. The
replicas are taken exactly as requested, order included; nothing is improved. What it copies is
therefore also the least that reaches it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, TypeAlias

import numpy as np

from counterpoise.errors import InputError, list_complaints
from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
from counterpoise.model.columns import NOBODY, Ints
from counterpoise.model.evenness import best_max_minus_min
from counterpoise.model.plan import Deferred, LowerBound, MoveReason, RebalancePlan
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.request import PLANNED_GOALS, Goal, PlanRequest
from counterpoise.model.words import pluralize
from counterpoise.planning.arrays import ClusterArrays, read_cluster
from counterpoise.planning.broker_sets import BrokerSetPart, place_in_each
from counterpoise.planning.budget import keep_copies_within
from counterpoise.planning.explanation import explain
from counterpoise.planning.goals import GOALS
from counterpoise.planning.leader_candidates import Candidates
from counterpoise.planning.leader_choice import choose_leaders
from counterpoise.planning.minimum_gain import is_worth_copying, is_worth_moving
from counterpoise.planning.placement import Placement
from counterpoise.planning.planning_result import FinalAssignment, PlanningGoal, PlanningResult
from counterpoise.planning.request_checks import check_request, refuse_impossible_constraints

Wanted: TypeAlias = Mapping[TopicPartition, tuple[int, ...]]


def make_plan(snapshot: ClusterSnapshot, request: PlanRequest) -> RebalancePlan:
    """Return the plan for a goal; an empty plan says in `reason` why nothing moves.

    Raise InputError for a request that does not fit the cluster, RefusedError where the goal cannot
    be reached because of what must be left alone.
    """
    goal = _goal_named(request.goal)
    check_request(goal, request, snapshot)
    cluster = read_cluster(snapshot, request.policy, request.scope)
    left_out = cluster.only(~cluster.is_requested)
    if goal.shares_scope:
        cluster = cluster.only(cluster.is_requested).beside(left_out)
    cluster = replace(cluster, is_left_to_repair=goal.left_to_repair(cluster, request))
    roles = goal.roles(cluster, cluster.flags(request.broker_ids))
    if goal.evens_replicas:
        has_topics = cluster.has_topics
        roles = roles.but(sharing=roles.sharing & has_topics, leading=roles.leading & has_topics)
    before = Placement.of(cluster)
    unchanged = PlanningResult(
        snapshot=snapshot,
        goal=goal,
        request=request,
        left_out=left_out if goal.shares_scope else None,
        roles=roles,
        before=before,
        after=before,
        assignment=FinalAssignment.unchanged(cluster),
    )
    refuse_impossible_constraints(unchanged)
    goal.refuse_impossible(unchanged)

    result = replace(unchanged, after=goal.place(unchanged))
    before.has_budget_ended = result.after.has_budget_ended  # also where nothing is worth a move
    if not is_worth_copying(result):
        result = replace(unchanged, after=before.copy())
    if request.budget.max_bytes is not None:
        result = _within_budget(result, request.budget.max_bytes)
    result = replace(result, assignment=_with_leaders(result))
    if is_worth_moving(result):
        return explain(result)
    return explain(unchanged)


def _goal_named(name: Goal) -> PlanningGoal:
    """Return the goal of that name; raise InputError for one that cannot be planned."""
    for goal in GOALS:
        if goal.name is name:
            return goal
    goals = ", ".join(PLANNED_GOALS)
    raise InputError(f"goal {name} cannot be planned; choose one of {goals}")


def _within_budget(result: PlanningResult, max_bytes: int) -> PlanningResult:
    """Return the part of the plan that fits, or the best that so many bytes buy in each broker set.

    Each set has what its part copies; the last one also what is left.
    """
    placement, bytes_left, whole = result.after, max_bytes, _extent(result.after)
    racks_gained = result.rack_moves_before - result.rack_moves_after
    if keep_copies_within(placement, result.before, racks_gained, max_bytes):
        return result

    def place(part: BrokerSetPart, after: Placement) -> None:
        nonlocal bytes_left
        is_last = part is result.parts[-1]
        budget = bytes_left if is_last else int(after.arriving.sum())
        result.goal.place_within(after, part.roles, result.request, budget)
        bytes_left -= int(after.arriving.sum())

    place_in_each(result.parts, placement, place)
    pairs = zip(whole, _extent(placement), strict=True)
    partitions, replicas, left_bytes = (max(0, of_whole - of_part) for of_whole, of_part in pairs)
    deferred = Deferred(max(1, partitions), replicas, left_bytes)
    # Made anew, since what is known of each broker set was found before copies were taken back.
    return replace(result, deferred=deferred)


def _extent(placement: Placement) -> tuple[int, int, int]:
    """Return the partitions that change, the replicas copied, and their bytes."""
    changed = (placement.replicas != placement.original).any(axis=1)
    copied_replicas = int(placement.new_replicas.sum())
    return int(changed.sum()), copied_replicas, int(placement.arriving.sum())


def _with_leaders(result: PlanningResult) -> FinalAssignment:
    """Return the replicas that were placed, with the leaders that are chosen over them.

    Each broker set is led by itself.
    """
    cluster, goal, policy = result.cluster, result.goal, result.request.policy
    if goal.keeps_order:
        placed, before = result.after.replicas, result.after.original
        return FinalAssignment(cluster, before, placed, (placed != before).any(axis=1))
    leaders = result.after.replicas[:, 0].copy()
    is_free = np.zeros(cluster.partition_count, dtype=np.bool_)
    for part in result.parts:
        may_change = goal.may_change_leader(part.cluster, part.roles)
        candidates = Candidates.of(part.after, part.roles.leading, may_change, elects=goal.elects)
        evens_traffic = goal.evens_bytes_in_of_leaders and part.cluster.knows_traffic
        leaders[part.rows] = choose_leaders(candidates, policy, evens_traffic=evens_traffic)
        is_free[part.rows] = candidates.is_free
    return FinalAssignment.of(
        result.after, leaders, is_free, result.roles.is_demoted, elects=goal.elects
    )


# -- a plan that somebody else made


class _Imported(PlanningGoal):
    """What a plan that somebody else made is for; it is not chosen by name."""

    name: ClassVar[Goal] = Goal.IMPORTED
    copy_reason: ClassVar[MoveReason | None] = MoveReason.IMPORTED

    def copies(self, result: PlanningResult) -> Ints:
        return np.asarray(result.assignment.is_added.sum(axis=1))

    def lower_bound(self, result: PlanningResult) -> LowerBound:
        cluster = result.cluster
        leader_count = int(result.roles.leading.sum())
        leader_range = best_max_minus_min(cluster.partition_count, leader_count)
        return replace(super().lower_bound(result), leaders_max_minus_min=leader_range)

    def reason(self, result: PlanningResult) -> str:
        return "every partition is already where the reassignment wants it"


def plan_to_reach(
    snapshot: ClusterSnapshot, wanted: Wanted, policy: BalancePolicy
) -> RebalancePlan:
    """Return the plan that reaches the wanted replicas.

    Raise InputError, with every complaint, for unknown partitions or brokers and a changed number
    of replicas.
    """
    cluster = read_cluster(snapshot, policy)
    rows = _rows_of(cluster, wanted)
    replicas: Ints = cluster.replicas.copy()
    is_wanted = np.zeros(cluster.partition_count, dtype=np.bool_)
    for row, broker_ids in rows.items():
        replicas[row] = NOBODY
        replicas[row, : len(broker_ids)] = cluster.positions(broker_ids)
        is_wanted[row] = True
    is_led_by_another = (cluster.leaders >= 0) & (cluster.leaders != replicas[:, 0])
    is_changed = (replicas != cluster.replicas).any(axis=1)
    is_in_plan = is_changed | (is_wanted & is_led_by_another)
    goal = _Imported()
    roles = goal.roles(cluster, cluster.flags(()))
    result = PlanningResult(
        snapshot=snapshot,
        goal=goal,
        request=PlanRequest(Goal.IMPORTED, policy=policy),
        roles=roles,
        before=Placement.of(cluster),
        after=Placement.of(cluster, replicas.copy()),
        assignment=FinalAssignment(cluster, cluster.replicas, replicas, is_in_plan),
    )
    return explain(result)


def _rows_of(cluster: ClusterArrays, wanted: Wanted) -> dict[int, tuple[int, ...]]:
    """Return the wanted replicas by row; raise InputError with every complaint."""
    names = zip(cluster.topics.to_pylist(), cluster.numbers.tolist(), strict=True)
    row_of = {TopicPartition(topic, number): row for row, (topic, number) in enumerate(names)}
    live_broker_ids = set(cluster.broker_ids[cluster.is_live].tolist())
    complaints = []
    rows = {}
    for partition, replicas in sorted(wanted.items()):
        row = row_of.get(partition)
        complaint = _complaint(cluster, row, replicas, live_broker_ids)
        if complaint:
            complaints.append(f"{partition}{complaint}")
        elif row is not None:
            rows[row] = replicas
    if complaints:
        raise InputError(list_complaints("reassignment", complaints))
    return rows


def _complaint(
    cluster: ClusterArrays, row: int | None, replicas: tuple[int, ...], live_broker_ids: set[int]
) -> str | None:
    """Return what is wrong with the replicas of one partition, to be put after its name."""
    if row is None:
        return " does not exist; correct the name and number, or leave it out"
    count = int(cluster.replica_counts[row])
    if len(replicas) != count:
        return f" has {pluralize(count, 'replica')}, not {len(replicas)}: their number would change"
    not_live = sorted(set(replicas) - live_broker_ids)
    if not_live:
        return f": {not_live} are no live brokers; name live ones, or start these first"
    if cluster.is_moving[row]:
        return " is being reassigned right now; wait until that is done"
    return None
