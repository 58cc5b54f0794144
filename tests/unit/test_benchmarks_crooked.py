"""The crooked clusters are those that their records are about, and the best plans are as good as
the records say.
"""

import pytest

from benchmarks.crooked.clusters import CASES, make
from benchmarks.crooked.records import SEVERAL, read_plan, read_records
from benchmarks.crooked_plans import complaints_about
from benchmarks.skewed_plans import explained

WITHOUT_RECORD = {  # larger than what was searched for a best plan
    "rebalance-8000",
    "rebalance-10000-giants",
    "rebalance-12000-mixed",
    "rebalance-16000-disks",
    "rebalance-20000",
    "rebalance-20000-few",
}


def test_every_other_cluster_has_a_record_and_a_plan() -> None:
    records = read_records()
    assert CASES.keys() - WITHOUT_RECORD == {key.removesuffix(SEVERAL) for key in records}
    for key in records:
        assert read_plan(key)["partitions"]


@pytest.mark.parametrize("name", CASES)
def test_clusters_and_plans_are_those_of_the_records(name: str) -> None:
    case = CASES[name]
    assert complaints_about(case, make(case), read_records()) == []


def test_brokers_of_a_budget_are_counted_behind_what_it_leaves_of_counts() -> None:
    text = (
        "replicas per broker will not follow the shares: broker 2 will hold 9, where 8 is "
        "possible; brokers 1, 2 and 45 more will hold bytes more than 10 % away from the fair "
        "share: the budget of the request leaves the rest for a later plan"
    )
    assert explained([text]) == 47


@pytest.mark.parametrize(
    ("reasons", "count"),
    [
        ("no move or exchange of two replicas that this goal allows takes a tenth off that", 0),
        ("the search ended by its budget; a scope of fewer topics may find better", 0),
        ("no move that this goal allows is better; goal rebalance may do more", 6),
        (
            "brokers 6, 17, 18 will take in more than 10 % away from the fair share: the budget of "
            "the request leaves the rest for a later plan",
            6,
        ),
        (
            "brokers 1, 2 and 3 more: t-0 alone is more than a fair share; broker 7: the search "
            "ended by its budget; a scope of fewer topics may find better",
            5,
        ),
    ],
)
def test_brokers_with_a_reason_are_counted(reasons: str, count: int) -> None:
    brokers = "brokers 1, 2, 7 and 3 more will hold bytes more than 10 % away from the fair share"
    assert explained(["another warning", f"{brokers}; {reasons}"]) == count
