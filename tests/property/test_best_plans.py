"""Plans for small crooked clusters, beside the best that a solver finds for goal and priorities.

`COUNTERPOISE_SOAK=20` makes 20 times as many clusters, drawn anew each time; the seed is in the
message of a failure.
"""

import json
import random

import pytest

from counterpoise.errors import InputError, RefusedError
from counterpoise.model.document import from_document_text
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.request import Goal
from counterpoise.planning import make_plan
from tests.support.examples import seeds
from tests.support.placement_oracle import OracleCase, Placed, best_placement
from tests.support.small_clusters import ORACLE_GOALS, draw_case, executed, with_constraints

CLUSTERS = 4


@pytest.mark.parametrize("is_constrained", (False, True), ids=("free", "constrained"))
@pytest.mark.parametrize("goal", ORACLE_GOALS)
def test_no_plan_is_worse_than_the_best_in_racks_or_counts_or_copies_much_more(
    goal: Goal, is_constrained: bool
) -> None:
    for seed in seeds(CLUSTERS):
        chance = random.Random(seed)
        case = draw_case(chance, goal, partitions=(8, 16))
        if is_constrained:
            case = with_constraints(chance, case)
        plan = planned(case)
        if plan is None:
            continue
        found, best, name = Placed.of(case, plan), best_placement(case, plan), f"{goal} {seed}"
        assert found.priorities[:4] <= best.priorities[:4], name
        assert keeps_constraints(case, plan), name
        if found.priorities == best.priorities and best.is_proven:
            assert found.copied_bytes <= 1.2 * best.copied_bytes + case.ignorable_bytes, name
        again = planned(executed(case, plan))
        assert again is None or again.moves == (), f"{name}: planned again"


@pytest.mark.parametrize(
    ("goal", "seed"),
    [
        # A replica outside of its broker set counted as one that racks of the set will hold.
        pytest.param(Goal.ADD_BROKERS, 5117, id="broker set"),
        # Which partitions are on a rack too few decides what is fair for the bytes of each rack.
        pytest.param(Goal.REBALANCE, 5131, id="full brokers"),
    ],
)
def test_a_second_plan_moves_nothing_where_racks_cannot_be_cured(goal: Goal, seed: int) -> None:
    chance = random.Random(seed)
    case = with_constraints(chance, draw_case(chance, goal, partitions=(8, 16)))
    first = planned(case)
    assert first is not None and first.moves
    second = planned(executed(case, first))
    assert second is not None and second.moves == ()


def keeps_constraints(case: OracleCase, plan: RebalancePlan) -> bool:
    """Whether every replica that comes goes where the constraints allow one."""
    closed = set(case.request.policy.constraints.no_new_replicas_on)
    return all(
        set(move.adding) <= case.allowed((move.topic, move.partition)) - closed
        for move in plan.moves
    ) and all(
        figure.replicas_after <= max(most, figure.replicas_before)
        for figure in plan.figures
        if (most := case.request.policy.constraints.max_replicas_per_broker) is not None
    )


def planned(case: OracleCase) -> RebalancePlan | None:
    """The plan; None where there can be none."""
    try:
        return make_plan(from_document_text(json.dumps(case.document)), case.request)
    except (InputError, RefusedError) as error:
        assert str(error)
        return None
