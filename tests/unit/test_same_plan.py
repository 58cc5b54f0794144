"""Same input, same plan, byte for byte, in whatever order the rows of the input stand.

Clusters drawn at random: tests/property/test_planning_properties.py.
"""

from dataclasses import replace

import pyarrow as pa
import pytest

from counterpoise.model.request import Goal, PlanRequest
from counterpoise.planning import make_plan
from tests.support.pictures import cluster

SNAPSHOT = cluster(
    """
    orders-0: 1 2 size=70
    orders-1: 2 1 size=10
    orders-2: 1 2 size=30
    payments-0: 2 1 size=50
    payments-1: 1 2 size=20
    audit-0: 2 1 size=40
    """,
    racks="1=a 2=b 3=c 4=a",
)


@pytest.mark.parametrize(
    "request_", [PlanRequest(Goal.REBALANCE), PlanRequest(Goal.ADD_BROKERS, (3, 4))]
)
def test_the_order_of_rows_does_not_matter(request_: PlanRequest) -> None:
    turned = {
        name: table.take(pa.array(range(table.num_rows - 1, -1, -1), pa.int64()))
        for name, table in SNAPSHOT.tables.items()
    }
    plan = make_plan(SNAPSHOT, request_)
    assert plan.moves
    assert make_plan(SNAPSHOT, request_).to_json() == plan.to_json()
    assert make_plan(replace(SNAPSHOT, tables=turned), request_).to_json() == plan.to_json()
