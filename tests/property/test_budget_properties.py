"""A budget that defers copies, on a cluster with broker sets: leaders are chosen of the replicas
that are left.
"""

import json
import random
from collections import Counter
from dataclasses import replace

import pytest

from counterpoise.model.constraints import BrokerSet, Constraints
from counterpoise.model.document import from_document_text
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.request import Budget, Goal, Scope
from counterpoise.planning import make_plan
from tests.support.placement_oracle import OracleCase
from tests.support.small_clusters import draw_case, executed

# Of the first clusters drawn, those in which each set has as many brokers as its topics need.
FEASIBLE = (0, 5, 6, 7, 9, 10, 12, 13, 16, 17, 19, 20, 24, 25, 26, 27, 29, 30, 33, 34)


def drawn(seed: int) -> OracleCase:
    """A cluster whose even topics stay on half of the brokers, and a budget of a tenth of it."""
    chance = random.Random(seed)
    case = draw_case(chance, Goal.REBALANCE, partitions=(20, 60))
    broker_ids = sorted(broker["id"] for broker in case.document["brokers"])
    topics = sorted({row[0] for row in case.document["partitions"]})
    in_set = tuple(chance.sample(broker_ids, max(3, len(broker_ids) // 2)))
    constraints = Constraints(broker_sets=(BrokerSet("some", tuple(topics[::2]), in_set),))
    policy = replace(case.request.policy, constraints=constraints)
    max_bytes = sum(row[4] for row in case.document["partitions"]) // 10
    budget = Budget(max_bytes=max_bytes)
    return OracleCase(
        case.document, replace(case.request, policy=policy, budget=budget, scope=Scope())
    )


def plan_of(case: OracleCase) -> RebalancePlan:
    return make_plan(from_document_text(json.dumps(case.document)), case.request)


def unevenness(case: OracleCase) -> int:
    """Return the sum of the squares of what each broker leads."""
    leaders = Counter(row[3] for row in case.document["partitions"])
    return sum(count**2 for count in leaders.values())


@pytest.mark.parametrize("seed", FEASIBLE)
def test_leaders_are_as_even_as_the_replicas_allow_that_the_budget_leaves(seed: int) -> None:
    case = drawn(seed)
    afterwards = executed(case, plan_of(case))
    request = replace(case.request, goal=Goal.LEADERS, budget=Budget())
    by_leaders_alone = executed(afterwards, plan_of(replace(afterwards, request=request)))
    assert unevenness(afterwards) <= unevenness(by_leaders_alone)
