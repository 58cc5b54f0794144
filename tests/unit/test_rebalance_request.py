"""What somebody asks for: the same fields from options, from a form and from an event, and every
complaint at once.
"""

import pytest

from counterpoise.errors import InputError
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.request import (
    Budget,
    Goal,
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


def test_a_request_that_differs_from_the_policy_says_so() -> None:
    rebalance_request = read_rebalance_request({"goal": "rebalance", "bytes_tolerance_percent": 5})
    assert rebalance_request.request(POLICY).policy.bytes_tolerance_percent == 5
    assert rebalance_request.request(POLICY).policy.excluded_topics == ("audit",)
    assert rebalance_request.deviations(POLICY) == (
        "made for a bytes tolerance of 5 %, as requested; the policy says 15 %",
    )


def test_all_complaints_come_at_once() -> None:
    with pytest.raises(InputError) as caught:
        read_rebalance_request({"broker_ids": "x", "max_bytes": "5"})
    message = str(caught.value)
    assert message.startswith("3 problems")
    assert all(word in message for word in ("broker_ids 'x'", "5 B or 5 GB?", "goal is missing"))
