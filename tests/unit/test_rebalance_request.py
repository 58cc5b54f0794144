"""What somebody asks for: the same fields from options, from a form and from an event, and every
complaint at once.
"""

import pytest

from counterpoise.errors import InputError
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.request import (
    Budget,
    Goal,
    PlanRequest,
    RebalanceRequest,
    Scope,
    read_rebalance_request,
)

POLICY = BalancePolicy(bytes_tolerance_percent=15, excluded_topics=("audit",))

TYPED = {
    "goal": "replication-factor",
    "broker_ids": None,
    "topics": "orders-*, payments",
    "excluded_topics": "orders-old",
    "only_broker_ids": "1,2,3",
    "excluded_broker_ids": "3",
    "replication_factor": "3",
    "max_bytes": "1.5TB",
    "bytes_tolerance_percent": "20",
}
FROM_A_FORM = TYPED | {
    "broker_ids": [],
    "topics": ["orders-*", "payments"],
    "excluded_topics": ["orders-old"],
    "only_broker_ids": [1, 2, 3],
    "excluded_broker_ids": [3],
    "replication_factor": 3,
    "bytes_tolerance_percent": 20,
}


@pytest.mark.parametrize("given", [TYPED, FROM_A_FORM], ids=["typed", "form"])
def test_the_same_request_whichever_way_it_comes(given: dict[str, object]) -> None:
    assert read_rebalance_request(given) == RebalanceRequest(
        Goal.REPLICATION_FACTOR,
        scope=Scope(("orders-*", "payments"), ("orders-old",), (1, 2, 3), (3,)),
        budget=Budget(1_500_000_000_000),
        replication_factor=3,
        bytes_tolerance_percent=20,
    )


def test_an_event_of_before_names_only_goal_and_brokers_and_leaves_all_else_to_the_policy() -> None:
    rebalance_request = read_rebalance_request({"goal": "add-brokers", "broker_ids": [4]})
    assert rebalance_request.request(POLICY) == PlanRequest(Goal.ADD_BROKERS, (4,), POLICY)
    assert rebalance_request.deviations(POLICY) == ()


def test_a_request_that_differs_from_the_policy_says_so() -> None:
    rebalance_request = read_rebalance_request({"goal": "rebalance", "bytes_tolerance_percent": 5})
    assert rebalance_request.request(POLICY).policy.bytes_tolerance_percent == 5
    assert rebalance_request.request(POLICY).policy.excluded_topics == ("audit",)
    assert rebalance_request.deviations(POLICY) == (
        "made for a bytes tolerance of 5 %, as requested; the policy says 15 %",
    )


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("goal", "imported", "there are: add-brokers"),
        ("goal", ["leaders"], "is unknown"),
        ("broker_ids", "7,,8", "write broker ids like 7,8"),
        ("broker_ids", [True], "write broker ids like 7,8"),
        ("broker_ids", "-1", "write broker ids like 7,8"),
        ("only_broker_ids", "9" * 30, "write broker ids like 7,8"),
        ("topics", "", "'' is no topic"),
        ("topics", ["a/b"], "'a/b' is no topic"),
        ("excluded_topics", "a,,b", "'' is no topic"),
        ("replication_factor", "0", "a whole number from 1"),
        ("replication_factor", "three", "a whole number from 1"),
        ("replication_factor", True, "a whole number from 1"),
        ("max_bytes", "500", "500 B or 500 GB?"),
        ("max_bytes", "5GB/s", "is a rate, not an amount; did you mean 5GB?"),
        ("max_bytes", "0GB", "out of range"),
        ("max_bytes", "5XB", "unknown unit 'XB'"),
        ("bytes_tolerance_percent", "101", "from 1 to 100"),
        ("max_byte", "5GB", "'max_byte' is unknown"),
    ],
)
def test_what_is_malformed_is_named_as_it_was_typed(name: str, value: object, says: str) -> None:
    with pytest.raises(InputError) as caught:
        read_rebalance_request(
            {"goal": "rebalance"} | {name: value}, word=lambda field: f"--{field}"
        )
    assert says in str(caught.value)
    assert name in str(caught.value)


def test_all_complaints_come_at_once() -> None:
    with pytest.raises(InputError) as caught:
        read_rebalance_request({"broker_ids": "x", "max_bytes": "5"})
    message = str(caught.value)
    assert message.startswith("3 problems")
    assert all(word in message for word in ("broker_ids 'x'", "5 B or 5 GB?", "goal is missing"))
