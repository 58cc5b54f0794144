"""Which partitions flap, by the elections of a period."""

from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest

from counterpoise.analysis import elections, flapping, leader_balance
from counterpoise.model.balance import FlappingPartition
from counterpoise.model.result_tables import LEADER_CHANGES
from counterpoise.reporting import leader_balance_markdown
from tests.support.series import NO_TOPICS, NOON, Broker, rows

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


def test_the_markdown_names_topics_and_partitions_that_flap() -> None:
    table = changes(("or|ders", 1, 12), ("clicks", 0, 11))
    found = flapping(elections([table]), MONTH, snapshot_count=24)
    told = leader_balance(rows(0, [Broker(1)]), NO_TOPICS, cluster="demo")
    assert told is not None
    assert "flap" not in leader_balance_markdown(told), "nobody asked"
    text = leader_balance_markdown(replace(told, flapping=found))
    _, _, section = text.partition("## Leaders that flap\n\n")
    assert section.startswith(
        "| Partition | Leader elections |\n| --- | --- |\n"
        "| or\\|ders-1 | 12 |\n| clicks-0 | 11 |\n\n"
        "| Topic | Partitions that flap |\n| --- | --- |\n"
        "| clicks | 1 partition |\n| or\\|ders | 1 partition |\n\n"
        "2 partitions had more than 10 leader elections in the period (before: not known)"
    )
    calm = flapping(elections([LEADER_CHANGES.empty_table()]), MONTH, snapshot_count=3)
    calm_text = leader_balance_markdown(replace(told, flapping=calm))
    assert "## Leaders that flap\n\n0 partitions had more than 10" in calm_text
