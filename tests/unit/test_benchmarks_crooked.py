"""The crooked clusters are those that their records are about, and the best plans are as good as
the records say.
"""

import pytest

from benchmarks.crooked.clusters import CASES, make
from benchmarks.crooked.records import SEVERAL, read_plan, read_records
from benchmarks.crooked_plans import complaints_about


def test_every_record_is_of_a_cluster_and_has_a_plan() -> None:
    """Of the largest clusters no best plan is known."""
    records = read_records()
    assert CASES.keys() >= {key.removesuffix(SEVERAL) for key in records}
    for key in records:
        assert read_plan(key)["partitions"]


@pytest.mark.parametrize("name", CASES)
def test_clusters_and_plans_are_those_of_the_records(name: str) -> None:
    case = CASES[name]
    assert complaints_about(case, make(case), read_records()) == []
