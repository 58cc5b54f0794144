"""Plans for what somebody requests: one, or several for one snapshot beside each other.

plan_from(snapshot, RebalanceRequest(Goal.ADD_BROKERS, (7,)), policy)
compare(snapshot, requests, policy)      # a plan or a refusal for each request
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from counterpoise.errors import InputError, RefusedError
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.provider import Provider, profile_of
from counterpoise.model.rebalance_request import RebalanceRequest
from counterpoise.planning.planner import make_plan


def plan_from(
    snapshot: ClusterSnapshot,
    rebalance_request: RebalanceRequest,
    policy: BalancePolicy,
    provider: Provider | None = None,
) -> RebalancePlan:
    """Return a plan from a snapshot or a cluster document; no cluster is needed.

    Where the request goes against the policy, or the provider has to be asked for something first,
    the plan warns. Raises InputError, RefusedError.
    """
    new_plan = make_plan(snapshot, rebalance_request.request(policy))
    return replace(
        new_plan,
        policy_digest=policy.digest,
        warnings=(
            *profile_of(provider).plan_warnings,
            *rebalance_request.deviations(policy),
            *new_plan.warnings,
        ),
    )


@dataclass(frozen=True, slots=True)
class ComparedPlan:
    """What a request leads to: a plan, or why there can be none."""

    request: RebalanceRequest
    plan: RebalancePlan | None
    refusal: str = ""


def compare(
    snapshot: ClusterSnapshot,
    requests: Sequence[RebalanceRequest],
    policy: BalancePolicy,
    provider: Provider | None = None,
) -> tuple[ComparedPlan, ...]:
    """Return a plan for each request; one that cannot be made does not hide the others."""
    return tuple(_compared(snapshot, request, policy, provider) for request in requests)


def _compared(
    snapshot: ClusterSnapshot,
    request: RebalanceRequest,
    policy: BalancePolicy,
    provider: Provider | None,
) -> ComparedPlan:
    try:
        return ComparedPlan(request, plan_from(snapshot, request, policy, provider))
    except (InputError, RefusedError) as error:
        return ComparedPlan(request, None, str(error))
