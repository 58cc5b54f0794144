"""The throttle keys that a plan carries: those that were set where its copies will throttle, and no
others.
"""

import json

from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import (
    FOLLOWER_RATE,
    LEADER_RATE,
    LEADER_REPLICAS,
    ConfigResourceType,
)
from counterpoise.model.plan import RebalancePlan, SettingBefore
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.planning import make_plan, plan_to_reach
from tests.support.pictures import cluster

SET = [
    ["topic", "orders", LEADER_REPLICAS, ""],
    ["topic", "payments", LEADER_REPLICAS, "*"],
    *(["broker", str(broker_id), FOLLOWER_RATE, "5"] for broker_id in (5, 4, 3, 2, 1)),
    ["broker", "1", LEADER_RATE, "6"],
]


def told(plan: RebalancePlan) -> list[list[str]]:
    settings: list[list[str]] = json.loads(plan.to_json())["settings_before"]
    return settings


def test_a_plan_carries_the_keys_of_sources_and_destinations_of_its_copies_sorted() -> None:
    snapshot = cluster(
        "orders-0: 1 2 size=9\npayments-0: 2 1 size=9", racks="1 2 3 4 5", throttles=SET
    )
    plan = plan_to_reach(snapshot, {TopicPartition("orders", 0): (4, 2)}, BalancePolicy())
    assert told(plan) == [
        ["broker", "1", FOLLOWER_RATE, "5"],
        ["broker", "1", LEADER_RATE, "6"],
        ["broker", "2", FOLLOWER_RATE, "5"],
        ["broker", "4", FOLLOWER_RATE, "5"],
        ["topic", "orders", LEADER_REPLICAS, ""],
    ]
    assert plan.settings_before[-1] == SettingBefore(
        ConfigResourceType.TOPIC, "orders", LEADER_REPLICAS, ""
    )


def test_a_made_plan_carries_them_too_and_one_that_copies_nothing_has_none() -> None:
    snapshot = cluster(
        "\n".join(f"orders-{n}: 1 2 size=9" for n in range(6)), racks="1 2 3", throttles=SET
    )
    plan = make_plan(snapshot, PlanRequest(Goal.ADD_BROKERS, (3,)))
    assert [row[:2] for row in told(plan)] == [
        ["broker", "1"],
        ["broker", "1"],
        ["broker", "2"],
        ["broker", "3"],
        ["topic", "orders"],
    ]
    leaders_alone = make_plan(snapshot, PlanRequest(Goal.LEADERS))
    assert leaders_alone.moves
    assert told(leaders_alone) == []
