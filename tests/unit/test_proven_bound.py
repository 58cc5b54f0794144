"""The bound that a plan names is that of the cluster, whatever the plan copies."""

import pytest

from counterpoise.model.constraints import BrokerSet, Constraints
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


@pytest.mark.parametrize("count", [40, 400])
def test_what_stands_outside_of_its_broker_set_is_part_of_the_bound(count: int) -> None:
    """Half of the replicas stand on the brokers of the other set, as even as they are there."""
    rows = [f"pay-{n}: {1 + n % 4} {1 + (n + 2) % 4} size={SIZES[n % 200]}" for n in range(count)]
    rows += [f"web-{n}: {3 + n % 2} {6 - n % 2} size=500" for n in range(count)]
    sets = (
        BrokerSet("pay", ("pay*",), (1, 2)),
        BrokerSet("web", ("web*",), (3, 4, 5, 6)),
    )
    policy = BalancePolicy(constraints=Constraints(broker_sets=sets))
    snapshot = cluster("\n".join(rows), racks="1=a 2=b 3=a 4=b 5=a 6=b")
    plan = make_plan(snapshot, PlanRequest(Goal.REBALANCE, policy=policy))
    outside_bytes = sum(SIZES[n % 200] for n in range(count))
    assert plan.lower_bound.replicas == count
    assert plan.copied_replicas >= plan.lower_bound.replicas
    assert outside_bytes <= plan.lower_bound.bytes <= plan.copied_bytes
