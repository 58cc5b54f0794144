"""Published clusters with rates: traffic within the tolerance, all else as without them."""

import json
from typing import Any

from benchmarks.published_clusters import after, astraea_experiment_1
from counterpoise.model.document import from_document_text
from counterpoise.model.plan import MoveReason, RebalancePlan
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.planning import make_plan

MIB = 2**20


def planned(document: dict[str, Any]) -> RebalancePlan:
    return make_plan(from_document_text(json.dumps(document)), PlanRequest(Goal.REBALANCE))


def test_four_brokers_whose_leaders_are_even_and_whose_traffic_is_not() -> None:
    document = astraea_experiment_1()
    plan = planned(document)
    before = sorted((figure.network_in_before or 0) // MIB for figure in plan.figures)
    now = [figure.network_in_after or 0 for figure in plan.figures]
    assert (len(document["partitions"]), before[0], before[-1]) == (703, 348, 567)
    mean = sum(now) / len(now)
    assert max(abs(load - mean) for load in now) <= 0.1 * mean
    unrated = document | {"partitions": [row[:5] for row in document["partitions"]]}
    blind = planned(unrated)
    for field in ("replicas_after", "leaders_after"):
        assert spread(plan, field) == spread(blind, field) == 1
    for_traffic = [move for move in plan.moves if move.why is MoveReason.TRAFFIC]
    assert sum(len(move.adding) for move in for_traffic) <= 4
    assert plan.copied_replicas <= blind.copied_replicas + 4
    assert planned(after(document, plan)).moves == ()


def spread(plan: RebalancePlan, field: str) -> int:
    values = [getattr(figure, field) for figure in plan.figures]
    return max(values) - min(values)
