"""Inflow from two snapshots: what offsets and sizes tell, and every case in which they tell
nothing.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from counterpoise.analysis import observed_inflow, with_inflow
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.tables import PARTITIONS, TOPICS
from tests.support.pictures import cluster

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
PICTURE = "orders-0: 1 2 size=1000\norders-1: 2 1 size=6000"


def observed(
    *ends: tuple[int | None, int | None], at: float = 0, picture: str = PICTURE, **ids: str
) -> ClusterSnapshot:
    """The picture at `at` seconds past noon, with the earliest and latest offset of each of its
    partitions.
    """
    drawn = cluster(picture, racks="1 2", **ids)
    rows = drawn.partitions.to_pylist()
    for row, (earliest, latest) in zip(rows, ends, strict=True):
        row |= {"earliest_offset": earliest, "latest_offset": latest}
    tables = {**drawn.tables, "partitions": pa.Table.from_pylist(rows, schema=PARTITIONS)}
    return replace(drawn, observed_at=NOON + timedelta(seconds=at), tables=tables)


def with_topic_id(snapshot: ClusterSnapshot, topic_id: str | None) -> ClusterSnapshot:
    rows: list[dict[str, Any]] = [
        row | {"topic_id": topic_id} for row in snapshot.topics.to_pylist()
    ]
    return replace(
        snapshot, tables={**snapshot.tables, "topics": pa.Table.from_pylist(rows, schema=TOPICS)}
    )


def test_records_between_the_snapshots_count_with_the_average_size_of_those_kept() -> None:
    earlier = observed((0, 50), (0, 200))
    later = observed((0, 100), (100, 500), at=10)  # 10 and 15 bytes a record
    assert observed_inflow(earlier, later).to_pylist() == [50, 450]


def test_each_partition_keeps_its_place_whatever_the_order_and_new_ones_are_unknown() -> None:
    earlier = observed((0, 200), picture="orders-1: 2 1 size=10")
    assert observed_inflow(earlier, observed((0, 9), (100, 500), at=10)).to_pylist() == [
        None,
        450,
    ]


@pytest.mark.parametrize(
    ("earlier", "later", "says"),
    [
        ((0, None), (0, 100), None),  # it had no leader
        ((0, 50), (None, 100), None),
        ((0, 50), (0, None), None),
        ((0, 101), (0, 100), None),  # an unclean election took records back
        ((0, 50), (100, 100), None),  # all of it deleted since: nothing tells the size of a record
        ((0, 100), (100, 100), 0),
        ((0, 100), (0, 100), 0),
    ],
)
def test_what_cannot_be_told_is_null_and_nothing_new_is_zero(
    earlier: tuple[int | None, int | None], later: tuple[int | None, int | None], says: int | None
) -> None:
    picture = "orders-0: 1 2 size=1000"
    inflow = observed_inflow(
        observed(earlier, picture=picture), observed(later, at=5, picture=picture)
    )
    assert inflow.to_pylist() == [says]


def test_without_a_size_nothing_is_told() -> None:
    picture = "orders-0: 1 2"
    assert (
        observed_inflow(
            observed((0, 1), picture=picture), observed((0, 2), at=5, picture=picture)
        ).null_count
        == 1
    )


def test_another_cluster_another_topic_of_the_name_and_no_time_between_tell_nothing() -> None:
    earlier, later = observed((0, 50), (0, 200)), observed((0, 100), (0, 500), at=10)
    others = [
        replace(earlier, cluster_id="another"),
        replace(earlier, observed_at=later.observed_at),
        replace(earlier, observed_at=NOON + timedelta(seconds=20)),
        replace(earlier, observed_at=None),
        with_topic_id(earlier, "recreated"),
    ]
    for other in others:
        assert observed_inflow(other, later).to_pylist() == [None, None]
    assert observed_inflow(with_topic_id(earlier, None), with_topic_id(later, None)).null_count == 2


def test_inflow_fills_what_is_not_known_and_nothing_else() -> None:
    snapshot = cluster("orders-0: 1 2 rate=7\norders-1: 2 1\npayments-0: 1", racks="1 2")
    filled = with_inflow(snapshot, pa.array([1, 2, None], pa.int64()))
    assert filled.partitions["bytes_in_per_second"].to_pylist() == [7, 2, None]
    assert filled.partitions.drop_columns(
        ["bytes_in_per_second"]
    ) == snapshot.partitions.drop_columns(["bytes_in_per_second"])
    assert snapshot.partitions["bytes_in_per_second"].to_pylist() == [7, None, None]
