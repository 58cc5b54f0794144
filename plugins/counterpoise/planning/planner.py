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
from counterpoise.model.plan import LowerBound, MoveReason, RebalancePlan
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.request import PLANNED_GOALS, Goal, PlanRequest
from counterpoise.model.words import pluralize
from counterpoise.planning.arrays import ClusterArrays, read_cluster
from counterpoise.planning.budget import keep_copies_within
from counterpoise.planning.evenness import is_worth_copying, is_worth_moving
from counterpoise.planning.explanation import explain
from counterpoise.planning.goals import GOALS
from counterpoise.planning.goals.evening import EveningGoal
from counterpoise.planning.leader_candidates import Candidates
from counterpoise.planning.leader_choice import choose_leaders
from counterpoise.planning.placement import CopyBound, Placement, Roles
from counterpoise.planning.placing.local_search import search
from counterpoise.planning.placing.several_new import spread_new_replicas
from counterpoise.planning.planning_result import (
    BrokerSetPart,
    FinalAssignment,
    PlanningGoal,
    PlanningResult,
    parts_of,
)
from counterpoise.planning.request_checks import (
    check_parts,
    check_request,
    refuse_impossible_constraints,
)

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
    parts = parts_of(cluster, roles, goal.within)
    unchanged = PlanningResult(
        snapshot=snapshot,
        goal=goal,
        request=request,
        cluster=cluster,
        left_out=left_out if goal.shares_scope else None,
        roles=roles,
        before=before,
        after=before,
        assignment=FinalAssignment.unchanged(cluster),
        parts=parts,
    )
    refuse_impossible_constraints(unchanged)
    goal.refuse_impossible(unchanged)

    placement = before.copy()
    traffic_gains = _place_parts(unchanged, placement)
    if goal.copy_reason is None and not unchanged.has_sets:
        copied = placement.new_replicas.copy()
        spread_new_replicas(placement, roles, request.policy)
        traffic_gains |= _copied_instead(copied, placement.new_replicas, traffic_gains)
        if goal.copies_for_traffic and (placement.new_replicas != copied).any():
            traffic_gains |= _place_on(goal, placement, roles, request)
    before.has_budget_ended = placement.has_budget_ended  # also where nothing is worth a move
    result = replace(unchanged, after=placement, traffic_gains=traffic_gains)
    goal.refuse_unplaced(result)
    if not is_worth_copying(result):
        placement = before.copy()
        result = replace(unchanged, after=placement)
    max_bytes = request.budget.max_bytes
    if max_bytes is not None:
        deferred = keep_copies_within(placement, before, max_bytes)
        if deferred.partitions and isinstance(goal, EveningGoal):
            traffic_gains = _place_within(result, goal, placement, max_bytes)
            result = replace(result, traffic_gains=traffic_gains)
        # Made anew, since what is known of each broker set was found before copies were taken back.
        result = replace(result, deferred=deferred)
    result = replace(result, assignment=_with_leaders(result))
    if is_worth_moving(result):
        return explain(result)
    return explain(unchanged)


def check_fits_together(request: PlanRequest) -> None:
    """Raise InputError for a request of which no cluster could have a plan."""
    check_parts(_goal_named(request.goal), request)


def _goal_named(name: Goal) -> PlanningGoal:
    """Return the goal of that name; raise InputError for one that cannot be planned."""
    for goal in GOALS:
        if goal.name is name:
            return goal
    goals = ", ".join(PLANNED_GOALS)
    raise InputError(f"goal {name} cannot be planned; choose one of {goals}")


def _copied_instead(before: Ints, after: Ints, traffic_gains: Mapping[int, int]) -> dict[int, int]:
    """Return partitions that are copied in place of others, where those were for traffic.

    The gain stays with the others: it is that of the same exchange.
    """
    replaced = np.flatnonzero(after < before).tolist()
    if not all(partition in traffic_gains for partition in replaced):
        return {}
    return dict.fromkeys(np.flatnonzero((before == 0) & (after > 0)).tolist(), 0)


def _place_parts(result: PlanningResult, placement: Placement) -> dict[int, int]:
    """Move replicas in each broker set; return what traffic gains, by partition.

    Each set counts on what is to leave its brokers for another set. Where that finds no place there
    and a broker would hold more replicas than it may, nothing is counted on: replicas leave first,
    and the sets are planned again from there for as long as that changes anything.
    """
    if result.goal.is_placed_whole:
        result.goal.place_whole(result, placement)
        return {}
    if not result.has_sets:
        return _place(result.goal, placement, result.roles, result.request)
    traffic_gains = _place_each(result, placement, result.parts)
    max_counts = np.maximum(placement.cluster.max_counts, result.before.counts)
    if not (placement.counts > max_counts).any():
        return traffic_gains

    def place_again(again: Placement) -> dict[int, int]:
        within = result.goal.within
        parts = parts_of(again.cluster, result.roles, within, may_give_all=False)
        return _place_each(result, again, parts)

    placement.reset_to(result.before.replicas.copy())
    return placement.repeat(place_again)


def _place_each(
    result: PlanningResult, placement: Placement, parts: tuple[BrokerSetPart, ...]
) -> dict[int, int]:
    traffic_gains: dict[int, int] = {}
    placed = []
    for part in parts:
        after = part.of(placement)
        gains = _place(result.goal, after, part.roles, result.request)
        rows = np.flatnonzero(part.rows)
        traffic_gains |= {int(rows[row]): gain for row, gain in gains.items()}
        placed.append(after)
    _put_together(placement, parts, placed)
    return traffic_gains


def _place_within(
    result: PlanningResult, goal: EveningGoal, placement: Placement, max_bytes: int
) -> dict[int, int]:
    """Replace the part of the plan that fits by the best that so many bytes buy, in each set.

    Each broker set has what its part copies; the last one also what is left.
    """
    traffic_gains: dict[int, int] = {}
    placed, bytes_left = [], max_bytes
    for part in result.parts:
        cut = part.of(placement)
        is_last = part is result.parts[-1]
        budget = bytes_left if is_last else int(cut.arriving.sum())
        after = part.of(result.before)
        gains = goal.place_within(after, part.roles, result.request, budget, cut)
        bytes_left -= int(after.arriving.sum())
        rows = np.flatnonzero(part.rows)
        traffic_gains |= {int(rows[row]): gain for row, gain in gains.items()}
        placed.append(after)
    _put_together(placement, result.parts, placed)
    return traffic_gains


def _put_together(
    placement: Placement, parts: tuple[BrokerSetPart, ...], placed: list[Placement]
) -> None:
    """Set the replicas of all parts, and the bound where each part has one."""
    width = max(part.replicas.shape[1] for part in placed)
    placement.widen(width)
    replicas = placement.replicas.copy()
    for part, after in zip(parts, placed, strict=True):
        after.widen(width)
        replicas[part.rows] = after.replicas
    placement.reset_to(replicas)
    placement.has_budget_ended |= any(after.has_budget_ended for after in placed)
    bounds = [after.bound for after in placed]
    known = [bound for bound in bounds if bound is not None]
    if len(known) == len(bounds):
        placement.bound = CopyBound(
            sum(bound.replicas for bound in known),
            sum(bound.bytes for bound in known),
            all(bound.is_reached for bound in known),
        )
    placement.min_copied_bytes = sum(part.min_copied_bytes for part in placed)


def _place(
    goal: PlanningGoal, placement: Placement, roles: Roles, request: PlanRequest
) -> dict[int, int]:
    """Move replicas for the goal, then by a search; return what traffic gains, by partition.

    What the search moves may let the goal do better. So both go on from there as if that were the
    cluster, until they leave it as it is: to plan again moves nothing. Before that, where there is
    time, a linear program says what to copy instead.
    """
    goal.place(placement, roles, request)
    if not goal.evens_replicas:
        return {}
    may_copy = goal.copies_for_traffic
    placed = placement.replicas.copy()
    traffic_gains = search(placement, roles, request.policy, may_copy_for_traffic=may_copy)
    if not placement.is_small() and not request.is_quick:
        searched = placement.replicas.copy()
        placement.min_copied_bytes = goal.copy_less(placement, roles, request)
        is_as_searched = (placement.replicas == searched).all(axis=1)
        traffic_gains = {row: gain for row, gain in traffic_gains.items() if is_as_searched[row]}
    if may_copy and (placement.replicas != placed).any():
        traffic_gains |= _place_on(goal, placement, roles, request)
    return traffic_gains


def _place_on(
    goal: PlanningGoal, placement: Placement, roles: Roles, request: PlanRequest
) -> dict[int, int]:
    """Go on placing until that leaves everything as it is; return what traffic gains.

    What any plan as even has to copy stays the same.
    """
    min_copied_bytes = placement.min_copied_bytes

    def place_again(again: Placement) -> dict[int, int]:
        goal.place(again, roles, request)
        return search(again, roles, request.policy, may_copy_for_traffic=True)

    traffic_gains = placement.repeat(place_again)
    placement.min_copied_bytes = min_copied_bytes
    return traffic_gains


def _with_leaders(result: PlanningResult) -> FinalAssignment:
    """Return the replicas that were placed, with the leaders that are chosen over them.

    Each broker set is led by itself.
    """
    cluster = result.cluster
    goal = result.goal
    if goal.keeps_order:
        placed, before = result.after.replicas, result.after.original
        return FinalAssignment(cluster, before, placed, (placed != before).any(axis=1))
    leaders = result.after.replicas[:, 0].copy()
    is_free = np.zeros(cluster.partition_count, dtype=np.bool_)
    for part, of_part, candidates in zip(
        result.parts, result.results_by_part, _candidates_by_part(result), strict=True
    ):
        evens_traffic = of_part.evens_traffic and goal.copies_for_traffic
        leaders[part.rows] = choose_leaders(
            candidates, result.request.policy, evens_traffic=evens_traffic
        )
        is_free[part.rows] = candidates.is_free
    return FinalAssignment.of(
        result.after, leaders, is_free, result.roles.is_demoted, elects=goal.elects
    )


def _candidates_by_part(result: PlanningResult) -> list[Candidates]:
    """Return the candidates of each broker set."""
    goal = result.goal
    return [
        Candidates.of(
            part.after,
            part.roles.leading,
            goal.may_change_leader(part.cluster, part.roles),
            elects=goal.elects,
        )
        for part in result.results_by_part
    ]


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
    live = cluster.is_live
    roles = Roles(
        destinations=live,
        sources=live,
        leaving=np.zeros_like(live),
        staying=live,
        sharing=live,
        leading=live,
    )
    result = PlanningResult(
        snapshot=snapshot,
        goal=_Imported(),
        request=PlanRequest(Goal.IMPORTED, policy=policy),
        cluster=cluster,
        roles=roles,
        before=Placement.of(cluster),
        after=Placement.of(cluster, replicas.copy()),
        assignment=FinalAssignment(cluster, cluster.replicas, replicas, is_in_plan),
        parts=parts_of(cluster, roles, _Imported().within),
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
