"""Load: each figure against a small calculation of its own; nulls, gaps, moves and rebuilt clusters
do not count.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from counterpoise.analysis.daily_sums import busy_partitions
from counterpoise.analysis.load import cluster_load, typical_bytes_in
from counterpoise.model.evenness import evenness
from counterpoise.model.kafka import by_disk, disk_over
from counterpoise.model.load import BusyPartition, ClusterLoad, DiskForecast, Outlook, Rates
from counterpoise.model.tables import (
    LOG_DIR_LOAD,
    PARTITION_LOAD,
    PARTITIONS,
    TOPIC_LOAD,
    TOPIC_LOAD_DAILY,
)
from counterpoise.reporting.html import known_rate
from counterpoise.reporting.load_section import (
    about_bounds,
    load_tiles,
    share_of_bytes_in,
    share_of_period,
)
from tests.support.loads import log_dirs, partitions, topics
from tests.support.series import NOON, Broker, rows

DAY = 86_400
NOTHING = (TOPIC_LOAD.empty_table(), PARTITION_LOAD.empty_table(), LOG_DIR_LOAD.empty_table())


def series(*hours: Sequence[Broker], **changes: dict[int, Any]) -> pa.Table:
    """A snapshot an hour; `changes` give a column of SNAPSHOT_CHANGES in the snapshots by hour."""
    return pa.concat_tables(
        rows(
            hour,
            brokers,
            **{name: by_hour[hour] for name, by_hour in changes.items() if hour in by_hour},
        )
        for hour, brokers in enumerate(hours)
    )


def brokers(*bytes_in: int | None) -> list[Broker]:
    return [Broker(at + 1, "ab"[at % 2], bytes_in=rate) for at, rate in enumerate(bytes_in)]


def loaded(table: pa.Table, *others: pa.Table, **period: Any) -> ClusterLoad:
    load = cluster_load(table, *(others or NOTHING), cluster="demo", **period)
    assert load is not None
    return load


# -- traffic


def test_rates_now_and_percentiles_are_weighed_by_how_long_each_stood() -> None:
    rates = [(None, None), (100, 10), (300, 30), (200, 20), (900, 90)]
    seconds = {1: 3600.0, 2: 1800.0, 3: 5400.0, 4: 60.0}
    load = loaded(series(*(brokers(*pair) for pair in rates), seconds=seconds))

    stood = np.repeat(
        [100, 300, 200, 900], [3600, 1800, 5400, 60]
    )  # the first broker's rate in each second
    expected = [int(np.percentile(stood, part, method="inverted_cdf")) for part in (50, 95)]
    assert load.brokers[0].as_leader == Rates(900, *expected, 900)
    assert load.brokers[0].as_follower == Rates(1800, *(2 * rate for rate in expected), 1800)
    assert load.bytes_in == Rates(990, 220, 330, 990)
    assert load.replicated_in.now == 1980


def test_evenness_is_that_of_the_live_brokers_now() -> None:
    dead = Broker(4, "a", is_fenced=True, leaders=0, replicas=9, bytes_in=None)
    load = loaded(series(brokers(None, None, None), [*brokers(700, 200, 300), dead]))
    assert load.leaders == evenness([700, 200, 300])
    assert load.followers == evenness([1400, 400, 600])
    assert [broker.is_fenced for broker in load.brokers] == [False, False, False, True]
    assert load.brokers[3].as_follower.now == 0  # a dead broker fetches nothing


def test_a_rate_that_is_not_known_is_no_zero() -> None:
    load = loaded(series(brokers(None, None), brokers(100, 300), brokers(500, None)))
    assert load.brokers[1].as_leader == Rates(None, 300, 300, 300)
    assert load.bytes_in == Rates(
        None, 400, 400, 400
    )  # the last snapshot says nothing of the cluster
    assert load.leaders is None
    assert (load.rates_known, load.rates_unknown) == (6, 6)


def test_a_broker_that_leads_nothing_takes_in_nothing_as_soon_as_rates_are_known() -> None:
    idle = Broker(3, leaders=0, replicas=0, bytes_in=None)
    first, second = loaded(series([*brokers(None, None), idle])), [*brokers(100, 300), idle]
    assert first.brokers[2].as_leader.now is None
    load = loaded(series([*brokers(None, None), idle], second))
    assert load.brokers[2].as_leader.now == 0
    assert load.leaders == evenness([100, 300, 0])


def test_a_sum_with_a_lower_bound_in_it_is_one() -> None:
    """Broker 2 led a partition of a compacted topic in the second snapshot."""
    first, second = (
        brokers(100, 300),
        [Broker(1, bytes_in=100), Broker(2, bytes_in=300, at_least=1)],
    )
    load = loaded(series(brokers(None, None), second, first))
    assert load.bytes_in == Rates(400, 400, 400, 400, is_at_least=True, is_period_at_least=True)
    assert [broker.as_leader.is_at_least for broker in load.brokers] == [False, True]
    assert [broker.as_follower.is_at_least for broker in load.brokers] == [False, False]
    assert not loaded(series(brokers(None, None), first)).bytes_in.is_at_least


@pytest.mark.parametrize("partial_hours", [1, 2, 3])
def test_a_sum_without_the_rates_of_some_partitions_is_a_lower_bound(partial_hours: int) -> None:
    """Each of two brokers leads 12 partitions of 100 B/s, in one rack each. In the last hours the
    rates of six that broker 2 leads are not known: it really takes in 1,200 B/s.
    """
    whole = [Broker(1, "a", leaders=12, bytes_in=1200), Broker(2, "b", leaders=12, bytes_in=1200)]
    partial = [whole[0], Broker(2, "b", leaders=12, bytes_in=600, unknown=6)]
    hours = [*[whole] * (40 - partial_hours), *[partial] * partial_hours]
    load = loaded(series(brokers(None, None), *hours))

    is_often = partial_hours > 2  # of 40 hours: more than a twentieth
    assert load.bytes_in.now == 1800
    for rates in (load.bytes_in, load.brokers[1].as_leader, load.racks[1].as_leader):
        assert (rates.is_at_least, rates.is_period_at_least) == (True, is_often)
    for rates in (load.brokers[0].as_leader, load.racks[0].as_leader, load.replicated_in):
        assert not (rates.is_at_least or rates.is_period_at_least)
    now, p95, *_ = (tile.value for tile in load_tiles(load))
    assert now == "≥ 1.8 kB/s"
    assert p95 == ("≥ 2.4 kB/s" if is_often else "2.4 kB/s")
    assert "Rates of some partitions are not known" in about_bounds(load)
    again = loaded(series(brokers(None, None), *hours, whole)).bytes_in
    assert (again.now, again.is_at_least, again.is_period_at_least) == (2400, False, is_often)
    copies = [Broker(1, bytes_in=100, follower_unknown=1)]
    assert loaded(series(brokers(None), copies)).replicated_in.is_at_least


def first_busy(load: ClusterLoad) -> BusyPartition:
    assert load.busy_partitions
    return load.busy_partitions.partitions[0]


@pytest.mark.parametrize(("unknown_hours", "is_often"), [(1, False), (2, False), (3, True)])
def test_a_share_is_at_most_what_it_says_where_no_rate_of_a_broker_is_known(
    unknown_hours: int, is_often: bool
) -> None:
    """Two brokers take in 1,200 B/s each; of the second nothing is known in the last hours. So
    topic `a`, half of what the first takes in, has a quarter of all, and half of what is known.
    """
    whole, partial = brokers(1200, 1200), brokers(1200, None)
    hours = [*[whole] * (40 - unknown_hours), *[partial] * unknown_hours]
    known = partitions(40, {"a": [600], "b": [600]})
    told = series(brokers(None, None), *hours)
    tables = (topics(40, [("a", 600, 1, 0), ("b", 600, 1, 0)]), known, NOTHING[2])
    load = loaded(told, *tables)
    load = replace(load, busy_partitions=busy_partitions([known]))
    hot, busy = load.hot_topics[0], first_busy(load)
    rates = hot.bytes_in
    assert known_rate(rates.now, rates.is_at_least) == "600 B/s"
    assert known_rate(rates.p95, rates.is_period_at_least) == "600 B/s"
    assert share_of_bytes_in(load, hot.share, rates.is_at_least) == "≤ 50.0 %"
    both = (busy.mean_bytes_in_per_second, busy.highest_bytes_in_per_second)
    assert [known_rate(rate, busy.is_at_least) for rate in both] == ["600 B/s"] * 2
    assert share_of_period(load, busy) == ("≤ 50.0 %" if is_often else "50.0 %")
    assert "a share of the sum is at most (≤)" in about_bounds(load)
    everything = series(brokers(None, None), *[whole] * 40)
    load = replace(loaded(everything, *tables), busy_partitions=busy_partitions([known]))
    hot = load.hot_topics[0]
    assert share_of_bytes_in(load, hot.share, hot.bytes_in.is_at_least) == "50.0 %"
    assert share_of_period(load, first_busy(load)) == "50.0 %"
    assert about_bounds(load) == ""


@pytest.mark.parametrize(("partial_hours", "is_often"), [(1, False), (2, True)])
def test_a_topic_without_the_rates_of_some_partitions_is_a_lower_bound(
    partial_hours: int, is_often: bool
) -> None:
    """Yesterday's rates are in the table of the day, those of today by the hour."""
    hours = range(-12, 5)
    table = pa.concat_tables([rows(hour, brokers(100)) for hour in (-14, *hours)])
    now = topics(4, [("a", 600, 1, None), ("b", 90, 1, None)])
    place = now.schema.get_field_index("rates_unknown")
    now = now.set_column(place, "rates_unknown", pa.array([6, 0], pa.int64()))
    before = [topics(hour, [("a", 1200, 1, None), ("b", 90, 1, None)]) for hour in range(-12, 4)]
    day = {"cluster": "demo", "date": (NOON - timedelta(days=1)).date(), "topic": "a"}
    day |= {"rates": [{"rate": 1200.0, "seconds": 10 * 3600.0}], "max_bytes_in_per_second": 1200}
    day |= {"unknown_seconds": 3600.0 * (partial_hours - 1)}
    daily = pa.Table.from_pylist([day], schema=TOPIC_LOAD_DAILY)
    load = cluster_load(
        table, pa.concat_tables([*before, now]), *NOTHING[1:], daily, cluster="demo"
    )
    assert load is not None
    found = {hot.topic: hot.bytes_in for hot in load.hot_topics}
    assert (found["a"].now, found["a"].is_at_least) == (600, True)
    assert found["a"].is_period_at_least == is_often, "of 27 hours: more than a twentieth"
    assert not (found["b"].is_at_least or found["b"].is_period_at_least)


def test_a_topic_with_a_lower_bound_in_the_period_is_marked_whichever_table_has_it() -> None:
    table = pa.concat_tables([rows(hour, brokers(100)) for hour in (-24, 1, 2)])
    now = [topics(2, [("a", 100, 1, None), ("b", 70, 1, None), ("c", 60, 1, None)])]
    before = topics(1, [("a", 100, 1, None), ("b", 70, 1, None)])
    marked = pa.array([1, 0], pa.int64())
    place = before.schema.get_field_index("rates_at_least")
    load_rows = pa.concat_tables([before.set_column(place, "rates_at_least", marked), *now])
    day = {"cluster": "demo", "date": (NOON - timedelta(days=1)).date(), "topic": "c"}
    day |= {"rates": [{"rate": 60.0, "seconds": 3600.0}], "max_bytes_in_per_second": 60}
    daily = pa.Table.from_pylist([day | {"rates_at_least": 2}], schema=TOPIC_LOAD_DAILY)
    load = cluster_load(table, load_rows, *NOTHING[1:], daily, cluster="demo")
    assert load is not None
    found = {hot.topic: hot.bytes_in.is_at_least for hot in load.hot_topics}
    assert found == {"a": True, "b": False, "c": True}
    found = {hot.topic: hot.bytes_in.is_period_at_least for hot in load.hot_topics}
    assert found == {"a": True, "b": False, "c": True}


def test_rates_over_a_gap_do_not_count() -> None:
    hours = [0, 1, 2, 3, 12, 13]
    rates = [None, 100, 100, 100, 9000, 100]
    table = pa.concat_tables(
        rows(
            hour,
            brokers(rate),
            previous_snapshot_id=f"demo-{before}",
            seconds=3600.0 * (hour - before),
        )
        for before, hour, rate in zip([None, *hours], hours, rates, strict=False)
        if before is not None
    )
    load = loaded(pa.concat_tables([rows(0, brokers(None)), table]))
    assert load.bytes_in == Rates(100, 100, 100, 100)
    assert None in load.bytes_in_trace.values[1:]  # the line breaks


def test_nothing_is_compared_across_a_rebuilt_cluster() -> None:
    table = series(
        brokers(None),
        brokers(9000),
        brokers(None),
        brokers(100),
        is_rebuilt={2: True},
        cluster_id={0: "old", 1: "old", 2: "new", 3: "new"},
    )
    held = [
        log_dirs(hour, [(1, "/d", size, 10**12, 10**11)])
        for hour, size in enumerate([0, 10**9, 10**10, 10**10])
    ]
    load = loaded(table, *NOTHING[:2], pa.concat_tables(held))
    assert load.bytes_in == Rates(100, 100, 100, 100)
    assert (load.since, load.snapshot_count) == (NOON + timedelta(hours=2), 2)
    assert (load.bytes_per_day, load.growth_watched_seconds) == (0, 3600.0)


def test_a_period_and_a_cluster_are_kept_to() -> None:
    other = rows(1, brokers(7), cluster="other")
    table = pa.concat_tables([series(brokers(None), brokers(100), brokers(300)), other])
    load = loaded(table, until=NOON + timedelta(hours=2))
    assert (load.snapshot_id, load.bytes_in.now) == ("demo-1", 100)
    assert loaded(table, since=NOON + timedelta(hours=1)).since == NOON + timedelta(hours=1)
    assert cluster_load(table, *NOTHING, cluster="nobody") is None
    assert cluster_load(table, *NOTHING, cluster="demo", since=NOON + timedelta(days=9)) is None


# -- what is hot, what grows


def test_the_hottest_partitions_with_their_share_and_why_others_are_not_known() -> None:
    now = partitions(1, {"a": [50, 300, "recreated"], "b": [0, 50, "gap", "gap"]})
    now = now.set_column(
        now.schema.get_field_index("how"),
        "how",
        pa.array(["records", "at_least", *now["how"].to_pylist()[2:]]),
    )
    load = loaded(
        series(brokers(1), brokers(400)), TOPIC_LOAD.empty_table(), now, LOG_DIR_LOAD.empty_table()
    )
    found = [
        (hot.topic, hot.partition, hot.bytes_in_per_second, hot.share, hot.is_at_least)
        for hot in load.hot_partitions
    ]
    assert found == [
        ("a", 1, 300, 0.75, True),
        ("a", 0, 50, 0.125, False),
        ("b", 1, 50, 0.125, False),
    ]
    assert load.unknown == (("gap", 2), ("recreated", 1))


def test_the_hottest_topics_with_their_percentiles() -> None:
    table = pa.concat_tables(
        [
            topics(0, [("cold", None, 1, None), ("hot", None, 1, None)]),
            topics(1, [("cold", 10, 1, 0), ("hot", 500, 1, 0), ("gone", 9000, 1, 0)]),
            topics(2, [("cold", 30, 1, 0), ("hot", 90, 1, 0), ("unknown", None, 1, None)]),
        ]
    )
    load = loaded(series(brokers(None), brokers(1), brokers(1)), table, *NOTHING[1:])
    assert [(hot.topic, hot.share) for hot in load.hot_topics] == [("hot", 0.75), ("cold", 0.25)]
    assert load.hot_topics[0].bytes_in == Rates(90, 90, 500, 500)
    assert (
        load.hot_topics[0].hottest_partition,
        load.hot_topics[0].hottest_bytes_in_per_second,
    ) == (2, 45)


def test_topics_that_grow_fastest_by_their_mean_of_two_weeks() -> None:
    table = pa.concat_tables(
        [
            topics(0, [("fast", 1, 5, 10**9)]),  # more than two weeks ago
            topics(340, [("fast", 1, 7, 100), ("slow", 1, 9, 10), ("shrinks", 1, 9, -5)]),
            topics(341, [("fast", 1, 8, 300), ("slow", 1, 9, None), ("shrinks", 1, 9, -5)]),
        ]
    )
    told = pa.concat_tables(
        [rows(0, brokers(1)), rows(340, brokers(1), seconds=1800.0), rows(341, brokers(1))]
    )
    load = loaded(told, table, *NOTHING[1:])
    mean = (100 * 1800 + 300 * 3600) / 5400
    found = [(one.topic, one.size_bytes, one.bytes_per_day) for one in load.growing_topics]
    assert found == [("fast", 8, round(mean * DAY)), ("slow", 9, 10 * DAY)]

    hourly = [rows(hour, brokers(1), seconds=3600.0 if hour != 2 else 1200.0) for hour in range(4)]
    again = pa.concat_tables(
        [
            topics(hour, [("fast", 1, 8, growth), ("slow", 1, 9, slow)])
            for hour, growth, slow in ((1, 100, 10), (2, 700, None))
        ]
        + [topics(3, [("fast", 1, 8, 100), ("slow", 1, 9, 12)])]
    )
    load = loaded(pa.concat_tables(hourly), again, *NOTHING[1:])
    mean = (100 * 3600 + 700 * 1200 + 100 * 3600) / 8400
    assert [(one.topic, one.bytes_per_day) for one in load.growing_topics] == [
        ("fast", round(mean * DAY)),
        ("slow", 11 * DAY),
    ]


# -- disks


def disk_story(
    held: Sequence[int | None],
    *,
    usable: int | None = 100 * DAY,
    total: int | None = 10**12,
    **changes: dict[int, Any],
) -> DiskForecast:
    """The forecast of a broker with one log dir that held so much in each hour; None: it was not
    told.
    """
    tables = [
        log_dirs(hour, [(1, "/d", size, total, usable)])
        for hour, size in enumerate(held)
        if size is not None
    ]
    load = loaded(
        series(*([brokers(5)] * len(held)), **changes), *NOTHING[:2], pa.concat_tables(tables)
    )
    (found,) = load.disks
    return found


def test_a_disk_is_full_when_the_room_left_is_used_up_at_the_mean_growth() -> None:
    sizes = [
        1000 + 3600 * hour * (hour + 1) // 30 for hour in range(31)
    ]  # it grows faster and faster
    found = disk_story(sizes)
    per_second = (sizes[30] - sizes[0]) / (30 * 3600)
    assert found.outlook is Outlook.FILLS
    assert found.days_left == pytest.approx(100 * DAY / (per_second * DAY))
    assert found.bytes_per_day == round(per_second * DAY)
    assert (found.held_bytes, found.watched_seconds) == (sizes[30], 30 * 3600.0)
    assert found.in_words == f"full in {int(100 / per_second)} days"


@pytest.mark.parametrize(
    ("step", "usable", "hours", "outlook", "words"),
    [
        (3600, 200 * DAY, 30, Outlook.FILLS, "full in 200 days"),
        (3600, 366 * DAY, 30, Outlook.NOT_WITHIN_A_YEAR, "not within a year"),
        (0, 10, 30, Outlook.NOT_WITHIN_A_YEAR, "not within a year"),
        (-3600, 10, 30, Outlook.SHRINKING, "shrinking"),
        (3600, None, 30, Outlook.NOT_KNOWN, "not known"),
        (3600, 0, 30, Outlook.FILLS, "full now"),
        (3600, 40_000, 30, Outlook.FILLS, "full within a day"),
        (3600, 200 * DAY, 4, Outlook.NOT_KNOWN, "not known"),  # watched for less than a day
        (3600, 40_000, 4, Outlook.FILLS, "full within a day"),  # an alarm does not wait
    ],
)
def test_what_becomes_of_a_disk(
    step: int, usable: int | None, hours: int, outlook: Outlook, words: str
) -> None:
    found = disk_story([10**9 + hour * step for hour in range(hours)], usable=usable)
    assert (found.outlook, found.in_words) == (outlook, words)


def test_what_moves_copy_is_no_trend() -> None:
    steady = [3600 * hour for hour in range(40)]
    plain = disk_story(steady)
    # A rebalance brings 10 GB between hours 9 and 13: it is under way in 10, 11 and 12, and ends
    # before 13.
    moved = [
        size + (10**10 * min(hour - 9, 4) // 4 if hour > 9 else 0)
        for hour, size in enumerate(steady)
    ]
    found = disk_story(
        moved,
        reassigning_partitions={10: 5, 11: 5, 12: 5},
        replica_sets_changed={10: 5, 11: 0, 12: 0, 13: 0},
    )
    assert found.bytes_per_day == plain.bytes_per_day == DAY
    assert found.watched_seconds == plain.watched_seconds - 4 * 3600
    unexcused = disk_story(moved)
    assert unexcused.bytes_per_day is not None
    assert unexcused.bytes_per_day > 10**9


def test_missing_snapshots_and_sizes_that_were_not_told_are_not_averaged_over() -> None:
    sizes: list[int | None] = [3600 * hour for hour in range(40)]
    sizes[10:13] = [None, None, None]  # the broker gave no answer, and came back with more
    sizes[13:] = [3600 * hour + 10**10 for hour in range(13, 40)]
    found = disk_story(sizes)
    assert (found.bytes_per_day, found.watched_seconds) == (DAY, (39 - 4) * 3600.0)

    hours = [*range(20), *range(60, 80)]  # and here nobody took a snapshot for long
    table = pa.concat_tables(
        rows(
            hour,
            brokers(5),
            previous_snapshot_id=f"demo-{before}" if before is not None else None,
            seconds=3600.0 * (hour - before) if before is not None else None,
        )
        for before, hour in zip([None, *hours], hours, strict=False)
    )
    held = [
        log_dirs(hour, [(1, "/d", 3600 * hour + (10**10 if hour > 20 else 0), 10**12, DAY)])
        for hour in hours
    ]
    (found,) = loaded(table, *NOTHING[:2], pa.concat_tables(held)).disks
    assert (found.bytes_per_day, found.watched_seconds) == (DAY, 38 * 3600.0)
    assert None in found.held.values


@pytest.mark.parametrize("moved", [0, 5])
def test_what_a_broker_copies_onto_an_empty_disk_is_no_trend(moved: int) -> None:
    """Broker 1 was away, and came back with a new disk under the same id."""
    sizes: list[int | None] = [10**10 + 3600 * hour for hour in range(40)]
    sizes[10:16] = [None, None, None, 0, 4 * 10**9, 8 * 10**9]
    found = disk_story(sizes, replica_sets_changed={11: moved})
    if moved:  # then nobody knows what it should hold
        assert found.bytes_per_day is not None
        assert found.bytes_per_day > 10**9
    else:
        assert (found.bytes_per_day, found.watched_seconds) == (DAY, 39 * 3600.0)
    assert None in found.held.values


def test_only_pairs_that_the_series_names_are_compared() -> None:
    sizes = [3600 * hour for hour in range(40)]
    found = disk_story(sizes, previous_snapshot_id={20: "demo-gone", 21: None})
    assert (found.bytes_per_day, found.watched_seconds) == (DAY, 37 * 3600.0)


def test_growth_is_that_of_the_last_two_weeks() -> None:
    days = [*range(40)]
    table = pa.concat_tables(
        rows(
            24 * day, brokers(5), previous_snapshot_id=f"demo-{24 * (day - 1)}", seconds=float(DAY)
        )
        for day in days
    )
    held = [
        log_dirs(24 * day, [(1, "/d", 10**6 * day if day < 25 else 10**8, 10**12, DAY)])
        for day in days
    ]
    (found,) = loaded(table, *NOTHING[:2], pa.concat_tables(held)).disks
    assert (found.bytes_per_day, found.watched_seconds) == (0, 14.0 * DAY)


def test_dirs_on_one_file_system_count_together() -> None:
    def told(hour: int) -> list[tuple[int, str, int, int | None, int | None]]:
        grown = 3600 * hour
        return [
            (1, "/a/1", 10 + grown, 10**9, 40 * DAY),
            (1, "/a/2", 20 + grown, 10**9, 40 * DAY),
            (1, "/b", 30 + grown, 2 * 10**9, 40 * DAY),
            (2, "/a/1", 40, 10**9, 40 * DAY),  # of another broker
        ]

    tables = pa.concat_tables([log_dirs(hour, told(hour)) for hour in range(30)])
    load = loaded(series(*([brokers(5, 5)] * 30)), *NOTHING[:2], tables)
    found = [
        (disk.broker_id, disk.log_dirs, disk.held_bytes, disk.days_left) for disk in load.disks
    ]
    assert found == [
        (1, ("/a/1", "/a/2"), 30 + 2 * 29 * 3600, pytest.approx(20)),
        (1, ("/b",), 30 + 29 * 3600, pytest.approx(40)),
        (2, ("/a/1",), 40, None),
    ]
    assert load.held_bytes == 100 + 3 * 29 * 3600
    assert load.bytes_per_day == 3 * DAY
    assert load.first_full is load.disks[0]


def test_which_dirs_are_one_file_system() -> None:
    dirs = [(1_000, 401), (2_000, 2_000), (1_000, 400), (1_000, 700), (2_000, 2_000)]
    assert by_disk(dirs) == ((2, 0), (3,), (1, 4))
    assert disk_over(dirs) == (4_000, 3_100)
    assert (by_disk([]), disk_over([])) == ((), (None, None))


def test_a_dir_that_is_not_told_now_is_not_known_and_one_of_a_broker_that_left_is_gone() -> None:
    tables = [
        log_dirs(hour, [(1, "/d", 10, 100, 50), (2, "/d", 10, 100, 50), (3, "/d", 9, 9, 9)])
        for hour in range(29)
    ]
    tables.append(log_dirs(29, [(1, "/d", 10, 100, 50)]))
    load = loaded(
        series(*([brokers(5, 5, 5)] * 29), brokers(5, 5)), *NOTHING[:2], pa.concat_tables(tables)
    )
    assert [(disk.broker_id, disk.in_words, disk.held_bytes) for disk in load.disks] == [
        (2, "not known", None),
        (1, "not within a year", 10),
    ]
    assert load.first_full is None


def test_growth_of_the_cluster_is_told_only_where_the_same_dirs_are() -> None:
    def told(hour: int) -> list[tuple[int, str, int, int | None, int | None]]:
        first = (1, "/d", 3600 * hour, 10**9, DAY)
        return [first, (2, "/d", 10**8 + 3600 * hour, 10**9, DAY)] if hour >= 10 else [first]

    tables = pa.concat_tables([log_dirs(hour, told(hour)) for hour in range(30)])
    load = loaded(series(*([brokers(5, 5)] * 30)), *NOTHING[:2], tables)
    assert load.growth_watched_seconds == 28 * 3600.0
    assert load.bytes_per_day == round((9 * 3600 + 19 * 7200) / (28 * 3600) * DAY)


# -- for the planner


def wanted_partitions(*names: tuple[str, int]) -> pa.Table:
    found = [
        {
            "topic": topic,
            "partition": partition,
            "replicas": [1],
            "adding_replicas": [],
            "removing_replicas": [],
        }
        for topic, partition in names
    ]
    return pa.Table.from_pylist(found, schema=PARTITIONS)


def test_typical_rates_come_in_the_order_of_the_partitions() -> None:
    rates = [(3600, 100), (1800, 700), (600, None), (60, 9000)]
    load = pa.concat_tables(
        partitions(hour, {"a": ["first", rate], "b": [7]}, seconds=float(seconds))
        for hour, (seconds, rate) in enumerate(rates)
    )
    wanted = wanted_partitions(("b", 0), ("new", 0), ("a", 1), ("a", 0))
    mean = (3600 * 100 + 1800 * 700 + 60 * 9000) / 5460
    assert typical_bytes_in(load, wanted).to_pylist() == [7, None, round(mean), None]
    assert typical_bytes_in(load, wanted).type == pa.int64()
    assert typical_bytes_in(PARTITION_LOAD.empty_table(), wanted).null_count == 4


@pytest.mark.parametrize("how", ["first", "recreated", "rebuilt"])
def test_rates_of_a_former_topic_with_the_same_name_are_left_out(how: str) -> None:
    load = pa.concat_tables(
        [
            partitions(3, {"a": [40]}),
            partitions(1, {"a": [9000]}),
            partitions(2, {"a": [how]}),
            partitions(4, {"a": [60]}),
        ]
    )
    assert typical_bytes_in(load, wanted_partitions(("a", 0))).to_pylist() == [50]
