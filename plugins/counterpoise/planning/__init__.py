"""Planning: which replicas move and who leads, as even as can be with the least data.

    from counterpoise.planning import plan_from

    plan = plan_from(snapshot, RebalanceRequest(Goal.ADD_BROKERS, (4,)), policy)
    make_plan(snapshot, PlanRequest(Goal.ADD_BROKERS, (4,)))
    plan_to_reach(snapshot, wanted, policy)              # a plan that somebody else made

Pure: no I/O, no clock, no chance. In the order of work, which `planner.py` has:

    request_checks, goals/            what cannot be asked, and what each goal may do
    arrays, placement, fair_shares    the cluster, its replicas, what each broker should have
    broker_sets                       each set is planned by itself
    placing/                          replicas find their brokers
    leader_choice                     leaders are chosen of the leader_candidates: by number, by
                                      leader_topics, and by leader_bytes_in
    budget, minimum_gain              what fits, and whether it is worth a move
    planning_result, explanation      all of it as one result, and the plan written from it,
                                      with its plan_warnings
"""

from dataclasses import replace

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.constraints import matching
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.provider import Provider, profile_of
from counterpoise.model.request import KINDS, RebalanceRequest
from counterpoise.planning.planner import make_plan, plan_to_reach
from counterpoise.planning.request_checks import check_fits_together

__all__ = ["check_fits_together", "make_plan", "plan_from", "plan_to_reach"]


def plan_from(
    snapshot: ClusterSnapshot,
    rebalance_request: RebalanceRequest,
    policy: BalancePolicy,
    provider: Provider | None = None,
) -> RebalancePlan:
    """Return a plan from a snapshot or a cluster document; no cluster is needed.

    Where the request goes against the policy, or the provider has to be asked for something first,
    the plan warns. Topics that the provider places itself are left out. Raises InputError,
    RefusedError.
    """
    profile, request = profile_of(provider), rebalance_request.request(policy)
    own_topics = matching(profile.own_topics, snapshot.topics["topic"].to_pylist())
    excluded_topics = (*request.scope.excluded_topics, *sorted(own_topics))
    scope = replace(request.scope, excluded_topics=excluded_topics)
    new_plan = make_plan(snapshot, replace(request, scope=scope, own_topics=own_topics))
    emptying: tuple[str, ...] = ()
    if KINDS[request.goal].empties:
        racks = {broker_id: rack for broker_id, rack in snapshot.racks.items() if rack}
        emptying = profile.emptying_warnings(own_topics, request.broker_ids, racks)
    return replace(
        new_plan,
        policy_digest=policy.digest,
        constraints=rebalance_request.constraints,
        warnings=(
            *profile.plan_warnings,
            *emptying,
            *rebalance_request.deviations(policy),
            *new_plan.warnings,
        ),
    )
