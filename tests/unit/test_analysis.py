"""What the result tables say, against numbers worked out with numpy, and what would help."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from counterpoise.analysis import leader_balance, wanted_goal
from counterpoise.model.balance import LeaderBalance
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.request import Goal
from counterpoise.model.tables import BROKER_BALANCE, TOPIC_BALANCE

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
Row = tuple[int, str | None, bool, int, int, int, int, int]


def brokers(hour: int, rows: Sequence[Row], cluster: str = "demo") -> pa.Table:
    """id, rack, fenced, leaders, preferred, not preferred, replicas, bytes."""
    head = (cluster, f"{cluster}-{hour}", NOON + timedelta(hours=hour))
    columns = zip(*((*head, *row) for row in rows), strict=True)
    return pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, BROKER_BALANCE, strict=True)],
        schema=BROKER_BALANCE,
    )


def topics(hour: int, rows: Sequence[tuple[str, int, int, int, int]], cluster: str = "demo") -> pa.Table:
    head = {"cluster": cluster, "snapshot_id": f"{cluster}-{hour}", "observed_at": NOON + timedelta(hours=hour)}
    names = TOPIC_BALANCE.names[3:]
    return pa.Table.from_pylist([head | dict(zip(names, row, strict=True)) for row in rows], schema=TOPIC_BALANCE)


NO_TOPICS = TOPIC_BALANCE.empty_table()
THREE: list[Row] = [
    (1, "a", False, 9, 6, 4, 18, 900),
    (2, "b", False, 4, 6, 0, 18, 1100),
    (3, "a", False, 5, 6, 1, 18, 1000),
]
IDLE: Row = (4, None, False, 0, 0, 0, 0, 0)


def analysed(*tables: pa.Table, topic_table: pa.Table = NO_TOPICS) -> LeaderBalance:
    balance = leader_balance(pa.concat_tables(tables), topic_table, cluster="demo")
    assert balance is not None
    return balance


def even(leaders: Sequence[int], preferred: Sequence[int] | None = None) -> LeaderBalance:
    pairs = zip(leaders, preferred or leaders, strict=True)
    return analysed(brokers(0, [(i, None, False, led, first, 0, 50, 1) for i, (led, first) in enumerate(pairs, 1)]))


def test_measures_are_over_live_brokers_zeros_included() -> None:
    dead: Row = (5, "b", True, 0, 2, 0, 7, 500)
    latest = analysed(brokers(0, [*THREE, IDLE, dead])).latest

    led = np.array([9, 4, 5, 0])
    assert (latest.leaders.minimum, latest.leaders.maximum, latest.leaders.max_minus_min) == (0, 9, 9)
    assert latest.leaders.coefficient_of_variation == pytest.approx(led.std() / led.mean())
    assert latest.leaders.max_over_mean == pytest.approx(9 / 4.5)
    assert latest.bytes.total == 3000
    assert latest.share_not_preferred == pytest.approx(5 / 20)  # the dead broker's two partitions count
    assert latest.live_broker_ids == (1, 2, 3, 4)


def test_the_series_shows_who_joined_and_left_in_order_of_time() -> None:
    fenced = [(i, rack, i == 2, *rest) for i, rack, _, *rest in THREE]
    balance = analysed(brokers(2, [*fenced, IDLE]), brokers(0, THREE), brokers(1, [*THREE, IDLE]))  # type: ignore[list-item]

    assert [point.snapshot_id for point in balance.series] == ["demo-0", "demo-1", "demo-2"]
    assert [point.joined_broker_ids for point in balance.series] == [(), (4,), ()]
    assert [point.left_broker_ids for point in balance.series] == [(), (), (2,)]
    assert [point.leaders.max_minus_min for point in balance.series] == [5, 9, 9]
    assert balance.latest is balance.series[-1]


def test_a_snapshot_analysed_twice_counts_once_and_other_clusters_not_at_all() -> None:
    twice = analysed(
        brokers(0, THREE),
        brokers(0, THREE),
        brokers(0, [IDLE], cluster="other"),
        topic_table=pa.concat_tables([topics(0, [("t", 3, 3, 0, 1)])] * 2),
    )
    once = analysed(brokers(0, THREE), topic_table=topics(0, [("t", 3, 3, 0, 1)]))
    assert twice == once
    assert leader_balance(BROKER_BALANCE.empty_table(), NO_TOPICS, cluster="demo") is None


def test_racks_sum_their_live_brokers_the_nameless_last() -> None:
    racks = analysed(brokers(0, [*THREE, IDLE, (5, "b", True, 0, 0, 0, 7, 1)])).racks
    assert [(r.rack, r.broker_count, r.leaders, r.replicas, r.bytes) for r in racks] == [
        ("a", 2, 14, 36, 1900),
        ("b", 1, 4, 18, 1100),
        (None, 1, 0, 0, 0),
    ]


def test_topics_lean_by_what_whole_partitions_do_not_excuse() -> None:
    rows = [
        ("best-possible", 4, 2, 1, 9),  # 4 partitions on 3 brokers: 1, 1, 2
        ("even", 6, 2, 2, 9),
        ("off-by-one", 6, 3, 1, 9),
        ("worst", 10, 8, 0, 1),
        ("few", 2, 1, 0, 9),
    ]
    balance = analysed(
        brokers(1, THREE), topic_table=pa.concat_tables([topics(1, rows), topics(0, [("old", 9, 9, 0, 1)])])
    )
    assert [(topic.topic, topic.excess) for topic in balance.topics] == [("worst", 7), ("off-by-one", 2)]
    assert (balance.topic_count, balance.leaning_topic_count) == (5, 2)


def test_an_idle_broker_asks_for_add_brokers() -> None:
    wanted = wanted_goal(analysed(brokers(0, [*THREE, IDLE, (5, "b", True, 0, 0, 0, 0, 0)])), BalancePolicy())
    assert wanted is not None
    assert (wanted.goal, wanted.broker_ids) == (Goal.ADD_BROKERS, (4,))
    assert wanted.reason == "broker 4 is live but holds no replica, while 54 replicas lie on the other 3 brokers"


def test_brokers_without_anything_to_hold_ask_for_nothing() -> None:
    empty = [(i, None, False, 0, 0, 0, 0, 0) for i in (1, 2, 3)]
    assert wanted_goal(analysed(brokers(0, empty)), BalancePolicy()) is None
    one_replica: Row = (4, None, False, 1, 1, 0, 1, 5)
    assert wanted_goal(analysed(brokers(0, [*empty, one_replica])), BalancePolicy()) is None


@pytest.mark.parametrize(
    ("leaders", "preferred", "allowed", "asks"),
    [
        ((10, 9, 8), None, 1, True),  # 27 on 3: best 0, allowed 1
        ((10, 9, 9), None, 1, False),  # 28 on 3: best 1
        ((11, 9, 9), None, 1, False),  # 2 = best 1 + allowed 1
        ((11, 10, 9), None, 2, False),
        ((13, 9, 9), None, 1, True),
        ((13, 9, 9), None, 10, False),
        ((12, 9, 6), (9, 9, 9), 1, True),  # an election helps
        ((9, 9, 9), (12, 9, 6), 1, True),  # even now, but not after the next election
    ],
)
def test_uneven_leaders_ask_for_leaders(
    leaders: tuple[int, ...], preferred: tuple[int, ...] | None, allowed: int, asks: bool
) -> None:
    wanted = wanted_goal(even(leaders, preferred), BalancePolicy(leaders_max_minus_min=allowed))
    assert (wanted is not None and wanted.goal is Goal.LEADERS and wanted.broker_ids == ()) == asks
