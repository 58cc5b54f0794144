"""Which partitions flap, by the elections of a period."""

import pyarrow as pa

from counterpoise.analysis import flapping
from counterpoise.model.balance import FlappingPartition
from counterpoise.model.result_tables import LEADER_CHANGES
from tests.support.series import NOON


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
    found = flapping(table, snapshot_count=24)
    assert found.partitions == (
        FlappingPartition("orders", 1, 12),
        FlappingPartition("clicks", 0, 11),
        FlappingPartition("orders", 0, 11),
    )
    assert found.topics == (("orders", 2), ("clicks", 1))
    assert (found.partition_count, found.snapshot_count) == (3, 24)


def test_nothing_flaps_where_no_leader_changed() -> None:
    assert flapping(LEADER_CHANGES.empty_table(), snapshot_count=3).partition_count == 0
