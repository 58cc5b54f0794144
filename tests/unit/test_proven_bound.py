"""The bound that a plan names is that of the cluster, whatever the plan copies."""

import pytest

from counterpoise.model.policy import BalancePolicy
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.planning import make_plan
from tests.support.pictures import cluster

SIZES = [1000 + 37 * number for number in range(200)]
PICTURE = "\n".join(
    f"t-{n}: {' '.join('123123'[n % 3 : n % 3 + 3])} size={size}" for n, size in enumerate(SIZES)
)


@pytest.mark.parametrize(
    "wanted", [PlanRequest(Goal.ADD_BROKERS, (4,)), PlanRequest(Goal.REBALANCE)]
)
def test_a_new_broker_has_to_receive_its_share_less_what_the_policy_tolerates(
    wanted: PlanRequest,
) -> None:
    plan = make_plan(cluster(PICTURE, racks="1=a 2=b 3=c 4=d"), wanted)
    share = 3 * sum(SIZES) // 4
    assert plan.lower_bound.replicas == 3 * len(SIZES) // 4
    assert plan.lower_bound.bytes == (
        share - share * BalancePolicy().bytes_tolerance_percent // 100
    )
    assert plan.copied_bytes >= plan.lower_bound.bytes
