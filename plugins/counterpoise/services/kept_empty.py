"""Brokers that are kept empty: no plan sends anything there until somebody releases them.

    plan_for(installation, snapshot, rebalance_request)     # as `plan_from`, by policy and ledger
    check_kept_empty(installation, plan)                    # of a plan that was made elsewhere

A plan leaves them out as if the request excluded them, so they count for no share. Those that the
request names (to empty them once more, say) and dead ones stay in: nothing is sent to these anyway.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from counterpoise.errors import RefusedError
from counterpoise.installation import Installation
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.control import ControlRequest, emptied_by
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import ClusterPolicy
from counterpoise.model.request import Goal, RebalanceRequest, Scope

KeptEmpty = Mapping[int, ControlRequest]  # by broker


def plan_for(
    installation: Installation, snapshot: ClusterSnapshot, rebalance_request: RebalanceRequest
) -> RebalancePlan:
    """Return a plan for the snapshot of a cluster, by its policy and without brokers kept empty.

    Raises RefusedError where the request wants something of one of these, and what `plan_from`
    raises.
    """
    policy = installation.cluster(snapshot.cluster).policy
    kept_empty = installation.active_requests(snapshot.cluster).kept_empty
    return plan_without(kept_empty, snapshot, rebalance_request, policy)


def plan_without(
    kept_empty: KeptEmpty,
    snapshot: ClusterSnapshot,
    rebalance_request: RebalanceRequest,
    policy: ClusterPolicy,
) -> RebalancePlan:
    """Return a plan without some brokers that are kept empty. Raises what `plan_for` raises."""
    from counterpoise.planning import plan_from  # whoever only checks a plan needs no planner

    scope = rebalance_request.scope
    named = frozenset(rebalance_request.broker_ids)
    wanted = set(scope.broker_ids) - named
    if rebalance_request.goal is Goal.ADD_BROKERS:
        wanted |= named
    wanted |= set(rebalance_request.new_broker_ids)
    _refuse(snapshot.cluster, kept_empty, wanted)
    left_out = [
        broker_id
        for broker_id in sorted(kept_empty.keys() & set(snapshot.live_broker_ids) - named)
        if scope.may_touch_broker(broker_id)
    ]
    scope = replace(scope, excluded_broker_ids=(*scope.excluded_broker_ids, *left_out))
    new_plan = plan_from(
        snapshot, replace(rebalance_request, scope=scope), policy.balance, policy.provider
    )
    words = (f"{kept_empty[one].kept_empty_in_words}: it gets nothing" for one in left_out)
    return replace(new_plan, warnings=(*words, *new_plan.warnings))


def check_kept_empty(installation: Installation, plan: RebalancePlan) -> None:
    """Raise RefusedError for a plan that sends something to a broker that is kept empty.

    The undo of the run that emptied it may, and so may what that run has undone: they release the
    broker when they are done.
    """
    kept_empty = installation.active_requests(plan.cluster).kept_empty
    wanted = kept_empty.keys() & plan.receiving_broker_ids
    if wanted:
        turned_around = {
            emptied_by(run.run_id)
            for run in installation.ledger.runs(cluster=plan.cluster, were_started=True)
            if run.fingerprint == plan.undoes
            or installation.plan_of(run).undoes == plan.fingerprint
        }
        wanted = {one for one in wanted if kept_empty[one].why not in turned_around}
    _refuse(plan.cluster, kept_empty, wanted)


def is_of_whole_cluster(scope: Scope, kept_empty: Collection[int]) -> bool:
    """Return whether the scope of a plan leaves out nothing but brokers that are kept empty."""
    return replace(scope, excluded_broker_ids=()) == Scope() and (
        set(scope.excluded_broker_ids) <= set(kept_empty)
    )


def _refuse(cluster: str, kept_empty: KeptEmpty, wanted: Iterable[int]) -> None:
    refused = sorted(kept_empty.keys() & set(wanted))
    if not refused:
        return
    words = "; ".join(kept_empty[one].kept_empty_in_words for one in refused)
    brokers = ",".join(map(str, refused))
    raise RefusedError(
        f"{cluster}: {words}. Nothing is moved there before somebody releases it: "
        f"`counterpoise release {cluster} --brokers {brokers} --why TEXT`, or Release on the "
        "cluster's page"
    )
