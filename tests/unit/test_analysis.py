"""What a series says, against numbers worked out with numpy, and what would help."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from counterpoise.analysis import leader_balance, uneven_snapshots, wanted_goals
from counterpoise.model.balance import LeaderBalance
from counterpoise.model.evenness import Evenness
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.request import Goal
from counterpoise.model.tables import SERIES
from tests.support.series import NO_TOPICS, NOON, Broker, rows, story, topics

THREE = [
    Broker(1, "a", leaders=9, preferred=6, not_preferred=4, bytes=900),
    Broker(2, "b", leaders=4, preferred=6, bytes=1100),
    Broker(3, "a", leaders=5, preferred=6, not_preferred=1),
]
IDLE = Broker(4, leaders=0, replicas=0, bytes=0)
DEAD = Broker(5, "b", is_fenced=True, leaders=0, preferred=2, replicas=7, bytes=500)


def analysed(*tables: pa.Table, topic_table: pa.Table = NO_TOPICS) -> LeaderBalance:
    balance = leader_balance(pa.concat_tables(tables), topic_table, cluster="demo")
    assert balance is not None
    return balance


def even(leaders: Sequence[int], preferred: Sequence[int] | None = None) -> LeaderBalance:
    pairs = zip(leaders, preferred or leaders, strict=True)
    return analysed(
        rows(
            0, [Broker(i, leaders=led, preferred=first) for i, (led, first) in enumerate(pairs, 1)]
        )
    )


def test_measures_are_over_live_brokers_zeros_included() -> None:
    balance = analysed(rows(0, [*THREE, IDLE, DEAD], partitions=20))
    latest = balance.latest

    led = np.array([9, 4, 5, 0])
    assert (latest.leaders.minimum, latest.leaders.maximum, latest.leaders.max_minus_min) == (
        0,
        9,
        9,
    )
    assert latest.leaders.coefficient_of_variation == pytest.approx(led.std() / led.mean())
    assert latest.leaders.max_over_mean == pytest.approx(9 / 4.5)
    assert latest.bytes.total == 3000
    assert latest.share_not_preferred == pytest.approx(
        5 / 20
    )  # the dead broker's two partitions count
    assert latest.live_broker_ids == (1, 2, 3, 4)
    assert [(b.broker_id, b.rack, b.is_fenced, b.replicas) for b in balance.brokers[3:]] == [
        (4, None, False, 0),
        (5, "b", True, 7),
    ]
    assert balance.idle_broker_ids == (4,)


def test_every_measure_of_every_snapshot_is_what_numpy_says() -> None:
    told = story(brokers=7, snapshots=40)
    balance = analysed(told.table)
    frame = told.table.to_pydict()
    assert len(balance.series) == 40
    for point in balance.series:
        of = [i for i, name in enumerate(frame["snapshot_id"]) if name == point.snapshot_id]
        live = [i for i in of if not frame["is_fenced"][i]]
        for measure, column in (
            (point.leaders, "leaders"),
            (point.preferred_leaders, "preferred_leaders"),
            (point.replicas, "replicas"),
            (point.bytes, "bytes"),
            (point.bytes_in, "leader_bytes_in_per_second"),
        ):
            values = [frame[column][i] for i in live]
            if None in values:
                assert measure is None
                continue
            assert_even(measure, values)
        for rack in point.racks:
            inside = [i for i in live if frame["rack"][i] == rack.rack]
            assert_even(rack.leaders, [frame["leaders"][i] for i in inside])
        all_partitions = frame["partitions"][of[0]]
        assert (
            point.share_not_preferred
            == sum(frame["leaders_not_preferred"][i] for i in of) / all_partitions
        )
        assert point.changes is not None
        assert point.changes.leaders_changed == frame["leaders_changed"][of[0]]
        assert (
            point.changes.epochs_unseen
            == frame["leader_epochs"][of[0]] - frame["leaders_changed"][of[0]]
        )


def test_partitions_that_prefer_a_broker_which_is_gone_count_too() -> None:
    """Before Kafka 4.0 a dead broker is in no list: of three partitions one prefers it."""
    alive = [
        Broker(1, leaders=2, preferred=1, not_preferred=1),
        Broker(2, leaders=1, preferred=1),
    ]
    balance = analysed(rows(0, alive, partitions=3))
    assert balance.latest.share_not_preferred == pytest.approx(1 / 3)


def assert_even(measure: Evenness | None, values: Sequence[int]) -> None:
    assert measure is not None
    numbers = np.array(values, dtype=float)
    assert (measure.minimum, measure.maximum, measure.total) == (
        min(values),
        max(values),
        sum(values),
    )
    assert measure.broker_count == len(values)
    assert measure.coefficient_of_variation == pytest.approx(numbers.std() / numbers.mean())
    assert measure.max_over_mean == pytest.approx(numbers.max() / numbers.mean())


def test_bytes_in_is_not_known_while_that_of_one_live_broker_is_not() -> None:
    known = [
        Broker(1, bytes_in=500),
        Broker(2, bytes_in=100),
        Broker(3, leaders=0),
        Broker(4, is_fenced=True),
    ]
    inflow = analysed(rows(0, known)).latest.bytes_in  # who leads nothing takes in nothing
    assert inflow is not None
    assert (inflow.broker_count, inflow.total, inflow.minimum) == (3, 600, 0)
    assert analysed(rows(0, [*known, Broker(5)])).latest.bytes_in is None


def test_order_of_rows_does_not_matter_and_racks_may_be_unknown() -> None:
    tables = [rows(2, [*THREE, IDLE]), rows(0, THREE), rows(1, [*THREE, IDLE])]
    balance = analysed(*tables)
    assert [point.snapshot_id for point in balance.series] == ["demo-0", "demo-1", "demo-2"]
    assert balance.latest is balance.series[-1]
    whole = pa.concat_tables(tables)
    shuffled = whole.take(pa.array(np.random.default_rng(1).permutation(whole.num_rows)))
    assert analysed(shuffled) == balance


def test_a_row_that_is_there_twice_counts_once_and_other_clusters_not_at_all() -> None:
    twice = analysed(
        rows(0, THREE),
        rows(0, THREE),
        rows(0, [IDLE], cluster="other"),
        topic_table=pa.concat_tables([topics(0, [("t", 3, 3, 0, 1)])] * 2),
    )
    assert twice == analysed(rows(0, THREE), topic_table=topics(0, [("t", 3, 3, 0, 1)]))


def test_a_period_takes_its_beginning_and_not_its_end_and_none_is_no_data() -> None:
    series = pa.concat_tables([rows(hour, THREE) for hour in range(6)])
    since, until = NOON + timedelta(hours=2), NOON + timedelta(hours=5)
    balance = leader_balance(series, NO_TOPICS, cluster="demo", since=since, until=until)
    assert balance is not None
    assert [point.snapshot_id for point in balance.series] == ["demo-2", "demo-3", "demo-4"]
    after = datetime(2027, 1, 1, tzinfo=UTC)
    assert leader_balance(series, NO_TOPICS, cluster="demo", since=after) is None
    assert leader_balance(SERIES.empty_table(), NO_TOPICS, cluster="demo") is None


def test_a_single_snapshot_has_figures_and_nothing_over_time() -> None:
    balance = analysed(rows(0, THREE))
    assert (len(balance.series), balance.events, balance.heat_maps, balance.breaks) == (
        1,
        (),
        (),
        (),
    )
    assert balance.churn.snapshots == 0


def test_racks_sum_their_live_brokers_the_nameless_last() -> None:
    balance = analysed(rows(0, [*THREE, IDLE, DEAD]))
    assert [(r.rack, r.broker_count, r.leaders, r.replicas, r.bytes) for r in balance.racks] == [
        ("a", 2, 14, 36, 1900),
        ("b", 1, 4, 18, 1100),
        (None, 1, 0, 0, 0),
    ]
    assert [(r.rack, r.leaders.max_minus_min) for r in balance.latest.racks] == [
        ("a", 4),
        ("b", 0),
        (None, 0),
    ]


def test_topics_lean_by_what_whole_partitions_do_not_excuse() -> None:
    found = [
        ("best-possible", 4, 2, 1, 9),  # 4 partitions on 3 brokers: 1, 1, 2
        ("even", 6, 2, 2, 9),
        ("off-by-one", 6, 3, 1, 9),
        ("worst", 10, 8, 0, 1),
        ("few", 2, 1, 0, 9),
    ]
    old = topics(0, [("old", 9, 9, 0, 1)])
    balance = analysed(rows(1, THREE), topic_table=pa.concat_tables([topics(1, found), old]))
    assert [(topic.topic, topic.excess) for topic in balance.topics] == [
        ("worst", 7),
        ("off-by-one", 2),
    ]
    assert (balance.topic_count, balance.skewed_topic_count) == (5, 2)


def test_a_heat_map_is_each_broker_s_part_of_the_fair_share() -> None:
    live = [Broker(1, leaders=9, bytes_in=10), Broker(2, leaders=3, bytes_in=30)]
    dead = [Broker(1, leaders=0, is_fenced=True), Broker(2, leaders=12, bytes_in=40)]
    heat, inflow = analysed(rows(0, live), rows(1, dead), rows(2, live)).heat_maps
    assert (heat.measure, inflow.measure) == ("leaders", "bytes_in")
    assert heat.values == ((1.5, None, 1.5), (0.5, 1.0, 0.5))
    assert inflow.values == ((0.5, None, 0.5), (1.5, 1.0, 1.5))
    hours = [NOON + timedelta(hours=hour) for hour in range(4)]
    assert heat.columns == tuple(pairwise(hours))
    assert (heat.broker_ids, heat.bucket_seconds, heat.is_cut) == ((1, 2), None, False)


def test_many_snapshots_become_means_over_buckets_and_many_brokers_the_farthest() -> None:
    told = story(brokers=80, snapshots=600)
    balance = analysed(told.table)
    heat = balance.heat_maps[0]
    assert heat.bucket_seconds == 4 * 3600
    assert len(heat.columns) <= 200 and len(heat.broker_ids) == 60 and heat.is_cut
    assert heat.broker_ids == tuple(sorted(heat.broker_ids))
    assert all(
        start.hour % 4 == 0 and end - start == timedelta(hours=4) for start, end in heat.columns
    )
    assert told.new_broker in heat.broker_ids  # which was farthest from its share for weeks
    start, end = heat.columns[50]
    inside = [p for p in balance.series if start <= p.observed_at < end]
    frame = told.table.to_pydict()
    shares = [
        frame["leaders"][i] * point.leaders.broker_count / point.leaders.total
        for point in inside
        for i, name in enumerate(frame["snapshot_id"])
        if name == point.snapshot_id and frame["broker_id"][i] == heat.broker_ids[3]
    ]
    assert heat.values[3][50] == pytest.approx(np.mean(shares), abs=1e-4)


def test_an_idle_broker_asks_for_add_brokers() -> None:
    nothing = Broker(5, "b", is_fenced=True, leaders=0, replicas=0)
    (wanted,) = wanted_goals(analysed(rows(0, [*THREE, IDLE, nothing])), BalancePolicy())
    assert (wanted.goal, wanted.broker_ids) == (Goal.ADD_BROKERS, (4,))
    assert (
        wanted.reason
        == "broker 4 is live but holds no replica, while 54 replicas are on the other 3 brokers"
    )


def test_brokers_without_anything_to_hold_ask_for_nothing() -> None:
    empty = [Broker(i, leaders=0, replicas=0) for i in (1, 2, 3)]
    assert wanted_goals(analysed(rows(0, empty)), BalancePolicy()) == ()
    nearly_empty = [*empty, Broker(4, leaders=1, replicas=1)]
    assert wanted_goals(analysed(rows(0, nearly_empty)), BalancePolicy()) == ()


def test_uneven_snapshots_are_counted_back_to_the_first_even_one_or_a_gap() -> None:
    uneven, even_now = [Broker(1, leaders=9), Broker(2, leaders=1)], [Broker(1), Broker(2)]

    def count(*hours_and_brokers: tuple[int, list[Broker]]) -> int:
        found = analysed(*(rows(hour, brokers) for hour, brokers in hours_and_brokers))
        return uneven_snapshots(found, Goal.LEADERS, BalancePolicy())

    assert count((0, even_now)) == 0
    assert count((0, uneven), (1, even_now)) == 0
    assert count((0, uneven), (1, even_now), (2, uneven), (3, uneven)) == 2
    assert count((0, uneven), (1, uneven), (2, uneven), (500, uneven)) == 1


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
    wanted = wanted_goals(even(leaders, preferred), BalancePolicy(leaders_max_minus_min=allowed))
    found = [(one.goal, one.broker_ids) for one in wanted]
    assert found == ([(Goal.LEADERS, ())] if asks else [])
