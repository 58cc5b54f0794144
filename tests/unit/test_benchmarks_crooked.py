"""The crooked clusters are those that their records are about, and the best plans are as good as
the records say.
"""

import pytest

from benchmarks.crooked.clusters import CASES, make
from benchmarks.crooked.records import SEVERAL, read_plan, read_records
from benchmarks.crooked_plans import complaints_about

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
