"""What only all snapshots of a period tell, from tables of a day and from results."""

from dataclasses import replace
from datetime import date, timedelta

import pyarrow as pa
import pytest

from counterpoise.analysis import (
    busy_partitions,
    days_of_period,
    leader_balance,
    reaches,
    topic_skew,
)
from counterpoise.model.tables import (
    PARTITION_LOAD,
    PARTITION_LOAD_DAILY,
    TOPIC_BALANCE,
    TOPIC_BALANCE_DAILY,
)
from counterpoise.reporting import leader_balance_report
from counterpoise.reporting.parts import Tile, beside, trend
from tests.support.series import NO_TOPICS, NOON, Broker, rows

HEAD = {"cluster": "demo", "observed_at": NOON}
DAY = {"cluster": "demo", "date": date(2026, 11, 20), "topic": "orders"}


def load(
    snapshot: int,
    rate: int | None,
    seconds: float | None,
    *,
    topic: str = "orders",
    how: str = "records",
) -> dict[str, object]:
    return HEAD | {
        "snapshot_id": f"demo-{snapshot}",
        "topic": topic,
        "partition": 3,
        "seconds": seconds,
        "bytes_in_per_second": rate,
        "how": how,
    }


def test_a_mean_of_the_period_is_weighed_by_time_over_days_and_results() -> None:
    day = DAY | {"partition": 3, "samples": 1, "seconds": 7_200.0}
    day |= {"max_bytes_in_per_second": 70}
    daily = pa.Table.from_pylist(
        [day | {"mean_bytes_in_per_second": 20, "samples_at_least": 0}], PARTITION_LOAD_DAILY
    )
    results = pa.Table.from_pylist(
        [
            load(1, 50, 3_600.0),
            load(2, None, 3_600.0, how="gap"),
            load(3, 90, None),
            load(1, 60, 3_600.0, topic="users", how="at_least"),
        ],
        PARTITION_LOAD,
    )
    found = busy_partitions([daily, results])
    users, orders = found.partitions
    assert (users.topic, users.mean_bytes_in_per_second, users.is_at_least) == ("users", 60, True)
    assert (orders.mean_bytes_in_per_second, orders.highest_bytes_in_per_second) == (30, 70)
    assert not orders.is_at_least
    assert found.is_at_least, "of a sum with a lower bound a share is at most so much"
    assert orders.share == pytest.approx(30 * 10_800 / (30 * 10_800 + 60 * 3_600))


def balance_row(snapshot: int, most: int, fewest: int, partitions: int = 7) -> dict[str, object]:
    return HEAD | {
        "snapshot_id": f"demo-{snapshot}",
        "topic": "orders",
        "partition_count": partitions,
        "most_leaders": most,
        "fewest_leaders": fewest,
        "size_bytes": 1,
    }


def test_excess_is_weighed_by_time_and_above_the_best_possible() -> None:
    table = pa.Table.from_pylist(
        [
            balance_row(1, 5, 1),  # of 7 partitions on 3 brokers max - min is 1 at best: 3 too much
            balance_row(2, 3, 2),
            balance_row(3, 7, 0),  # after a gap: how long it lasted is not known
            balance_row(4, 9, 0),  # of a snapshot that is not in the series
        ],
        TOPIC_BALANCE,
    )
    seconds = {"demo-1": 3_600.0, "demo-2": 7_200.0}
    live = dict.fromkeys(("demo-1", "demo-2", "demo-3"), 3)
    (orders,) = topic_skew([table], seconds, live).topics
    assert (orders.mean_excess, orders.max_excess) == (1.0, 3)
    assert orders.uneven_share == pytest.approx(1 / 3)
    day = DAY | {"seconds": 10_800.0, "uneven_seconds": 0.0, "excess_seconds": 0.0}
    daily = pa.Table.from_pylist([day | {"max_excess": 0}], TOPIC_BALANCE_DAILY)
    both = topic_skew([table, daily], seconds, live)
    assert both.topics[0].mean_excess == 0.5
    assert (both.uneven_topic_count, both.topic_count, both.seconds) == (1, 1, 21_600.0)
    assert topic_skew([daily], {}, {}).topics == (), "it was even"


def test_a_history_reaches_back_to_its_first_snapshot_or_to_a_rebuild() -> None:
    brokers = [Broker(1), Broker(2)]
    series = pa.concat_tables([rows(hour, brokers) for hour in range(5)])
    assert reaches(series, "demo", NOON, None)
    assert not reaches(series, "demo", NOON - timedelta(seconds=1), None)
    rebuilt = pa.concat_tables([rows(hour, brokers, is_rebuilt=hour == 2) for hour in range(5)])
    assert not reaches(rebuilt, "demo", NOON, None)
    assert reaches(rebuilt, "demo", NOON, NOON + timedelta(hours=2)), "it was rebuilt after that"
    assert reaches(rebuilt, "demo", NOON + timedelta(hours=2, minutes=1), None)
    days = days_of_period(rebuilt, "demo", NOON + timedelta(hours=1), None)
    assert days.snapshot_ids == ("demo-2", "demo-3", "demo-4")
    assert days.first_whole == NOON.date() + timedelta(days=1)


@pytest.mark.parametrize(
    ("end", "hours"), [(23, 23), (13, 13), (11, 35), (1, 25), (0, 24)], ids=str
)
def test_the_whole_days_of_a_day_are_about_as_long_as_it(end: int, hours: int) -> None:
    """`report --last 24h` at so many o'clock."""
    midnight = NOON + timedelta(hours=12)
    series = pa.concat_tables([rows(hour, [Broker(1)]) for hour in range(-72, 40)])
    until = midnight + timedelta(hours=end)
    since = until - timedelta(days=1)
    days = days_of_period(series, "demo", since, until)
    assert len(days.snapshot_ids) == hours
    short = days_of_period(series, "demo", until - timedelta(hours=2), until)
    assert short.snapshot_ids, "the midnight after it begins may be after all of it"


def test_a_figure_stands_beside_the_one_before() -> None:
    assert trend(5, 3, "5", "3") == "↑ from 3"
    assert trend(3, 5, "3", "5") == "↓ from 5"
    assert trend(5.01, 5.02, "5.0", "5.0") == "as before"
    assert trend(5, None, "5", "") == "before: not known"
    assert trend(None, 3, "not known", "3") == "before: 3"
    tiles = (Tile("Leaders", "7", "", number=7), Tile("New", "1", "", number=1))
    found = beside(tiles, (Tile("Leaders", "9", "", number=9),))
    assert [tile.before for tile in found] == ["↓ from 9", "before: not known"]


def test_the_page_tells_the_period_before_or_that_it_is_not_known() -> None:
    brokers = [Broker(1, leaders=9), Broker(2, leaders=3)]
    even = [Broker(1, leaders=6), Broker(2, leaders=6)]
    series = pa.concat_tables(
        [rows(hour, even if hour < 3 else brokers, failovers=hour) for hour in range(6)]
    )
    middle = NOON + timedelta(hours=3)
    now = leader_balance(series, NO_TOPICS, cluster="demo", since=middle)
    before = leader_balance(series, NO_TOPICS, cluster="demo", until=middle)
    assert now and before
    page = leader_balance_report(replace(now, before=before))
    assert "2026-11-21 12:00:00 UTC – 2026-11-21 14:00:00 UTC, 3 snapshots" in page
    assert "↑ from 0" in page, "leaders were even"
    alone = leader_balance_report(now)
    assert "The period before is not known" in alone
    assert "before: not known" in alone and "from 0" not in alone
