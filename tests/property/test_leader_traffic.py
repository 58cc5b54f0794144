"""What leaders take in, beside the least that a solver finds for the same counts and topics."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from counterpoise.model.document import from_document_text
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.planning import make_plan
from tests.support.examples import seeds
from tests.support.leader_oracle import least_largest_rate

CASE = Path(__file__).parents[1] / "unit" / "crooked_clusters" / "leader-bytes-120.json"


def drawn(seed: int) -> dict[str, Any]:
    """60 to 200 partitions with three replicas, and rates of which a few are large."""
    chance = random.Random(seed)
    brokers = range(1, chance.randint(5, 12) + 1)
    rows: list[list[Any]] = []
    while len(rows) < 60 + 14 * (seed % 10):
        topic = f"t{len(rows)}"
        for number in range(chance.choice([1, 3, 6, 12])):
            replicas = chance.sample(brokers, 3)
            rate = int(chance.lognormvariate(10, 1.3))
            rows.append([topic, number, replicas, replicas[0], 10**6, rate])
    return {"brokers": [{"id": broker} for broker in brokers], "partitions": rows}


def largest_and_least(document: dict[str, Any]) -> tuple[int, int, float]:
    """The largest bytes-in after the plan, the least that the solver finds, and the mean."""
    plan = make_plan(from_document_text(json.dumps(document)), PlanRequest(Goal.REBALANCE))
    after = {(row[0], row[1]): tuple(row[2]) for row in document["partitions"]}
    leaders = {(row[0], row[1]): row[3] for row in document["partitions"]}
    rates = {(row[0], row[1]): row[5] for row in document["partitions"]}
    for move in plan.moves:
        after[move.topic, move.partition] = move.replicas_after
        leaders[move.topic, move.partition] = move.replicas_after[0]
    taken = Counter[int]()
    for key, leader in leaders.items():
        taken[leader] += rates[key]
    mean = taken.total() / len(document["brokers"])
    return max(taken.values()), least_largest_rate(after, leaders, rates), mean


@pytest.mark.parametrize("seed", seeds(3))
def test_the_largest_bytes_in_is_within_a_twentieth_of_the_solvers(seed: int) -> None:
    largest, least, _ = largest_and_least(drawn(seed))
    assert largest <= 1.05 * least


def test_a_topic_on_all_brokers_keeps_its_leaders_spread() -> None:
    """No leaders over these replica sets are better, which a solver proves. With other destinations
    of the same copies 1.11 times the mean is possible at these leaders per topic, but topics could
    be led more evenly over them, and come first: at their best, 1.238 is the least.
    """
    largest, least, mean = largest_and_least(json.loads(CASE.read_text()))
    assert largest <= 1.05 * least
    assert largest <= 1.26 * mean
