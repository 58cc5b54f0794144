"""Which partitions flap, by the elections of a period."""

from datetime import timedelta

import pyarrow as pa
import pytest

from counterpoise.analysis import elections, flapping
from counterpoise.model.balance import FlappingPartition
from counterpoise.model.tables import LEADER_CHANGES
from tests.support.series import NOON

MONTH = timedelta(days=30)


def changes(*told: tuple[str, int, int | None]) -> pa.Table:
    """Rows of LEADER_CHANGES: topic, partition, and how many elections."""
    head = {"cluster": "demo", "snapshot_id": "demo-1", "observed_at": NOON, "kind": "other"}
    rows = [
        head | {"topic": topic, "partition": partition, "leader_epochs": epochs}
        for topic, partition, epochs in told
    ]
    return pa.Table.from_pylist(rows, schema=LEADER_CHANGES)


def test_more_than_ten_elections_flap_whether_a_snapshot_shows_them_or_not() -> None:
    often = [("orders", 1, 2)] * 6  # 12 elections, of which a snapshot may show none
    unknown = [("clicks", 0, None)] * 11  # a change whose epochs are not known is one
    table = changes(*often, ("orders", 2, 10), *unknown, ("orders", 0, 11))
    found = flapping(elections([table]), MONTH, snapshot_count=24)
    assert found.partitions == (
        FlappingPartition("orders", 1, 12),
        FlappingPartition("clicks", 0, 11),
        FlappingPartition("orders", 0, 11),
    )
    assert found.topics == (("orders", 2), ("clicks", 1))
    assert (found.partition_count, found.snapshot_count) == (3, 24)


def test_nothing_flaps_where_no_leader_changed() -> None:
    assert (
        flapping(elections([LEADER_CHANGES.empty_table()]), MONTH, snapshot_count=3).partition_count
        == 0
    )


@pytest.mark.parametrize(
    ("days", "limit"), [(1, 10), (30, 10), (31, 10), (45, 15), (90, 30), (365, 121)]
)
def test_who_restarts_each_broker_once_a_week_sees_no_flapping_in_any_period(
    days: int, limit: int
) -> None:
    restarts = changes(*[("orders", 0, 2)] * (days // 7))
    flaps = changes(("orders", 1, limit), ("orders", 2, limit + 1))
    found = flapping(elections([restarts, flaps]), timedelta(days=days), snapshot_count=24)
    assert [(one.partition, one.elections) for one in found.partitions] == [(2, limit + 1)]
    assert found.max_elections == limit
