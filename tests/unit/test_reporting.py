"""The pages: hostile names are escaped, nothing is fetched or run, same values, same bytes."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import cache

import pyarrow as pa
import pytest

from counterpoise.analysis import leader_balance
from counterpoise.analysis.load import cluster_load
from counterpoise.cli.plan_picture import plan_picture
from counterpoise.model.balance import (
    LeaderBalance,
    LeftOut,
    PlanSize,
    TopicSkew,
    TopicSkewOverTime,
    WantedRebalance,
)
from counterpoise.model.load import BusyPartition, BusyPartitions
from counterpoise.model.plan import (
    BrokerFigure,
    LowerBound,
    Move,
    RebalancePlan,
)
from counterpoise.model.request import Goal
from counterpoise.reporting import leader_balance_report
from counterpoise.reporting.event_words import event_in_words
from counterpoise.reporting.plots import Point
from counterpoise.reporting.timelines import Line, over_time
from counterpoise.units import format_moment
from counterpoise.views.balance import leader_balance_json
from counterpoise.views.plan import PlanView, goal_title
from tests.support.loads import loads_of
from tests.support.report_page import Page, ReportPage, check_tables_of_charts
from tests.support.series import NO_TOPICS, NOON, Broker, Story, rows, story, topics

SCRIPT = "<script>alert(1)</script>"
BREAKOUT = '"><img src=x onerror=alert(1)> {{ 7 * 7 }} $\\frac{1}$ ]]> --> | `x`'


def balance(
    count: int = 4,
    snapshots: int = 3,
    *,
    rack: str = "a",
    topic: str = "orders",
    cluster: str = "demo",
) -> LeaderBalance:
    """`count` brokers; the last one is idle and joined at the last snapshot; snapshots an hour
    apart.
    """
    old = [
        Broker(
            i,
            rack,
            leaders=10 + i % 3,
            preferred=11,
            not_preferred=i % 2,
            replicas=33,
            bytes=1_000_000 * i,
        )
        for i in range(1, count)
    ]
    new = Broker(count, leaders=0, replicas=0, bytes=0)
    tables = [
        rows(hour, [*old, new] if hour == snapshots - 1 else old, cluster=cluster)
        for hour in range(snapshots)
    ]
    skewed = topics(
        snapshots - 1, [(topic, 12, 9, 0, 5_000_000), ("even", count, 1, 1, 5)], cluster
    )
    made = leader_balance(pa.concat_tables(tables), skewed, cluster=cluster)
    assert made is not None
    return made


@cache
def usual_page() -> str:
    return leader_balance_report(balance(), wanted=WANTED)


def of_story(brokers: int, snapshots: int) -> tuple[Story, LeaderBalance]:
    told = story(brokers, snapshots)
    made = leader_balance(told.table, NO_TOPICS, cluster="demo")
    assert made is not None
    return told, made


SIZE = PlanSize(120, 500_000_000_000, 87, 8_400.0, 20_000_000)
WANTED = WantedRebalance(Goal.ADD_BROKERS, (4,), f"broker 4 is idle {SCRIPT}")


def figure(broker_id: int, **changes: object) -> BrokerFigure:
    """One of three brokers that give to broker 4, which is new."""
    values: dict[str, object] = {
        "broker_id": broker_id,
        "rack": "abc"[broker_id % 3],
        "leaders_before": 8 if broker_id < 4 else 0,
        "leaders_after": 6,
        "leaders_best": 6,
        "replicas_before": 24 if broker_id < 4 else 0,
        "replicas_after": 18,
        "replicas_best": 18,
        "bytes_before": 900 if broker_id < 4 else 0,
        "bytes_after": 675,
        "bytes_best": 675,
        "bytes_peak": 900 if broker_id < 4 else 675,
    }
    return BrokerFigure(**(values | changes))  # type: ignore[arg-type]


def plan(
    topic: str = "orders", count: int = 3, brokers: int = 4, **changes: object
) -> RebalancePlan:
    made = RebalancePlan(
        cluster="demo",
        cluster_id="Kafka-Id",
        snapshot_id="demo-20261121T120000Z",
        goal=Goal.ADD_BROKERS,
        broker_ids=(4,),
        policy_digest="0123456789abcdef",
        moves=tuple(
            Move(topic, p, "id", (1, 2, 3), (4, 2, 3), 1, 1_000_000 * (p + 1)) for p in range(count)
        ),
        figures=tuple(figure(i) for i in range(1, brokers + 1)),
        lower_bound=LowerBound(count, 5_000_000, 0),
        warnings=(f"a warning {BREAKOUT}",),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def renamed() -> LeaderBalance:
    """Racks whose names break out of what they stand in change over time."""
    before, after = ([Broker(i, rack) for i in (1, 2)] for rack in (SCRIPT, BREAKOUT))
    made = leader_balance(
        pa.concat_tables([rows(0, before), rows(1, after)]), NO_TOPICS, cluster="demo"
    )
    assert made is not None
    return made


def hostile_pages() -> Iterator[str]:
    yield leader_balance_report(
        balance(rack=SCRIPT, topic=BREAKOUT, cluster=f"demo {SCRIPT}{BREAKOUT}"),
        wanted=WANTED,
        left_out=(LeftOut(BREAKOUT, SCRIPT),),
    )
    yield leader_balance_report(renamed())


def test_ids_of_pictures_do_not_meet_and_colours_follow_the_theme() -> None:
    told, made = of_story(3, 20)
    load = cluster_load(*loads_of(told), cluster="demo")
    html = leader_balance_report(made, load=load)
    assert "Traffic, growth and disks" in html and "Traffic, growth and disks" not in usual_page()
    ids = [attributes["id"] for _, attributes in Page(html).elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for reference in re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', html):
        assert (reference[0] or reference[1]) in ids
    pictures = "".join(re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL))
    assert not re.search(
        r"#[0-9a-f]{6}\b", pictures
    )  # a fixed colour would vanish in light or in dark
    assert set(re.findall(r"var\((--[\w-]+)\)", html)) <= set(re.findall(r"(--[\w-]+):", html))


@pytest.mark.parametrize(("brokers", "snapshots"), [(2, 1), (36, 2), (220, 10)])
def test_the_same_values_give_the_same_bytes_at_every_size(brokers: int, snapshots: int) -> None:
    one = leader_balance_report(balance(brokers, snapshots), wanted=WANTED)
    assert one == leader_balance_report(balance(brokers, snapshots), wanted=WANTED)
    assert ("Max − min over the live brokers" in one) == (snapshots > 1)
    assert len(one) < 1_000_000


UNEVEN_TOPICS = "Topics led less evenly than whole partitions allow"


def test_uneven_topics_are_drawn_where_they_are_known() -> None:
    def drawn(*counts: int | None) -> str:
        tables = [rows(hour, [Broker(1)], uneven_topics=one) for hour, one in enumerate(counts)]
        made = leader_balance(pa.concat_tables(tables), NO_TOPICS, cluster="demo")
        assert made is not None
        return leader_balance_report(made)

    assert f'aria-label="{UNEVEN_TOPICS} over time"' in drawn(3, 0, 2)
    assert "Not known" not in drawn(3, 0, 2)
    in_part = drawn(None, None, 2)
    assert f'aria-label="{UNEVEN_TOPICS} over time"' in in_part
    words = "Not known for 2 of 3 snapshots."
    assert words in Page(in_part).text
    unknown = drawn(None, None)
    assert f'aria-label="{UNEVEN_TOPICS} over time"' not in unknown
    assert f"{UNEVEN_TOPICS} Not known for these" in Page(unknown).text


def test_the_json_has_the_figures_of_the_page() -> None:
    one = balance(rack=SCRIPT, topic=BREAKOUT)
    told = {"wanted": WANTED, "plan_size": SIZE, "left_out": (LeftOut("demo-9", SCRIPT),)}
    document = json.loads(leader_balance_json(one, **told))  # type: ignore[arg-type]
    assert document["latest"]["leaders"]["max_minus_min"] == one.latest.leaders.max_minus_min
    assert document["brokers"][3] == {
        "broker_id": 4,
        "rack": None,
        "is_fenced": False,
        "is_idle": True,
        "leaders": 0,
        "preferred_leaders": 0,
        "leaders_not_preferred": 0,
        "replicas": 0,
        "bytes": 0,
    }
    assert document["topics_that_lean"][0]["topic"] == BREAKOUT
    assert (len(document["series"]), document["wanted"]["broker_ids"]) == (3, [4])
    assert document["period"] == {
        "from": "2026-11-21T12:00:00+00:00",
        "until": "2026-11-21T14:00:00+00:00",
        "snapshots": 3,
    }
    assert [(event["kind"], event["broker_ids"]) for event in document["events"]] == [
        ("joined", [4])
    ]
    assert document["plan_size"]["bytes_copied"] == SIZE.bytes_copied
    assert document["left_out"] == [{"snapshot_id": "demo-9", "reason": SCRIPT}]


def test_the_page_says_what_was_left_out_and_what_help_would_cost() -> None:
    left_out = tuple(LeftOut(f"demo-{i}", f"reason {i} {SCRIPT}") for i in range(30))
    text = Page(
        leader_balance_report(balance(), wanted=WANTED, plan_size=SIZE, left_out=left_out)
    ).text
    assert (
        "2026-11-21 12:00:00 UTC – 2026-11-21 14:00:00 UTC, 3 snapshots, 30 more left out" in text
    )
    assert "demo-29 reason 29 <script>" in text and "The last 20 of 30." in text
    assert (
        "Replicas copied 120 Bytes copied 500 GB Leaders changed 87 "
        "Expected time 2 h 20 min at 20.0 MB/s" in text
    )
    unknown = Page(usual_page()).text
    assert "is shown when the plan is made" in unknown and "Left out" not in unknown


def test_a_single_snapshot_has_a_page_without_anything_over_time() -> None:
    text = Page(leader_balance_report(balance(4, 1))).text
    assert "One snapshot: charts over time appear from the second one on" in text
    for heading in (
        "What happened",
        "over time Lea",
        "How often leaders changed",
        "Max − min over the live",
    ):
        assert heading not in text


@pytest.mark.parametrize(("brokers", "snapshots"), [(3, 20), (36, 60), (220, 400)])
def test_a_long_story_is_told_in_words_and_pictures(brokers: int, snapshots: int) -> None:
    told, made = of_story(brokers, snapshots)
    html = leader_balance_report(made)
    text = Page(html).text
    for at, words in (
        (told.joined_at, f"Broker {told.new_broker} joined 1 broker"),
        (told.died_at, "Broker 1 died 1 broker"),
        (told.died_at, "Failover: the leader died or fell behind"),
        (told.returned_at, "Broker 1 returned 1 broker"),
        (told.elected_at, "Preferred leaders lead again"),
    ):
        assert f"{told.times[at]:%Y-%m-%d %H:%M} {words}" in text, words
    for event in made.events[-10:]:
        lines = re.findall(rf"<title>{format_moment(event.first_at)}: ([^<]+)</title>", html)
        assert sum(event_in_words(event) in line for line in lines) > 3
    assert (
        "Leaders of each broker over time" in text and "Bytes in of each broker over time" in text
    )
    assert ("The 60 of 220 brokers that were farthest from their share" in text) == (brokers == 220)
    assert ("One column is the mean over 3 h" in text) == (snapshots == 400)
    assert len(html) < 1_000_000


@pytest.mark.parametrize(("brokers", "snapshots"), [(3, 20), (36, 60)])
def test_every_line_and_every_broker_over_time_stands_in_a_table(
    brokers: int, snapshots: int
) -> None:
    _, made = of_story(brokers, snapshots)
    page = ReportPage(leader_balance_report(made))
    check_tables_of_charts(page, json.loads(leader_balance_json(made)))


def drawn_line(values: list[float], breaks: tuple[int, ...], minutes: int = 60) -> list[Point]:
    times = [NOON + timedelta(minutes=minutes * at) for at in range(len(values))]
    it = over_time("p", str, times, [Line("leaders", values, "l1")], breaks, ())
    assert it.chart is not None
    ((_, points),) = it.chart.lines
    return list(points)


def test_lines_break_at_gaps_and_where_nothing_is_known() -> None:
    values = [1.0, 2.0, 3.0, 4.0, float("nan"), 6.0, 7.0, 8.0, 9.0]

    def gaps(*breaks: int) -> int:
        return [value for _, value in drawn_line(values, breaks)].count(None)

    assert (gaps(), gaps(2), gaps(2, 7)) == (1, 2, 3)


def test_thinned_lines_keep_their_peaks_and_gaps() -> None:
    values = [10.0] * 5000
    values[3210], values[4000] = 500.0, float("nan")
    points = drawn_line(values, (), minutes=1)
    assert len(points) < 1000
    assert max(value for _, value in points if value is not None) == 500.0
    assert [value for _, value in points].count(None) == 1


@pytest.mark.parametrize("goal", list(Goal))
def test_every_goal_has_a_title_and_a_sentence(goal: Goal) -> None:
    view = PlanView.of(plan(goal=goal), 10**6)
    assert goal_title(plan(goal=goal)) and view.goal_in_words.startswith(goal)
    assert view.sentence.startswith("Moves ") and f" in about {view.expected_time}" in view.sentence


def test_a_plan_in_a_sentence_names_few_brokers_and_counts_many() -> None:
    assert " to broker 4 in about " in PlanView.of(plan(), 10**6).sentence
    moves = tuple(Move("orders", p, "id", (1, 2, 3), (4 + p, 2, 3), 1, 1_000_000) for p in range(6))
    assert PlanView.of(plan(moves=moves), 10**6).sentence.startswith("Moves 6.0 MB to 6 brokers in")
    reordered = (Move("orders", 0, "id", (1, 2), (2, 1), 1, 10),)
    leaders = PlanView.of(plan(goal=Goal.LEADERS, moves=reordered))
    assert leaders.sentence == "Changes leaders of 1 partition, and copies nothing"


def test_few_brokers_are_bars_and_many_are_columns_with_what_is_best() -> None:
    few = plan_picture(PlanView.of(plan()), width=76).splitlines()
    assert few[0].split() == ["broker", "leaders", "replicas", "bytes"]
    assert few[1].split()[:2] == ["1", "█" * 14 + "│" + "░" * 4]
    assert few[4].split()[:2] == ["4", "▓" * 14 + "│"]
    many = plan_picture(PlanView.of(plan(brokers=1000)), width=76).splitlines()
    assert [line.split()[-2] for line in many[:3]] == ["before", "after", "best"]
    assert max(len(line) for line in [*few, *many]) <= 76
    assert plan_picture(PlanView.of(plan(brokers=0)), width=76) == ""


def test_the_page_of_a_large_cluster_stays_small() -> None:
    """220 brokers and 2,000 snapshots, with traffic, the period before, and events below every
    chart.
    """
    told = story(brokers=220, snapshots=2_000)
    tables = loads_of(told)
    early = told.table["observed_at"][told.table.num_rows // 4].as_py()
    now = leader_balance(told.table, NO_TOPICS, cluster="demo")
    before = leader_balance(told.table, NO_TOPICS, cluster="demo", until=early)
    load = cluster_load(*tables, cluster="demo")
    load_before = cluster_load(*tables, cluster="demo", until=early)
    assert now and before and load and load_before
    long = "a-topic-with-a-name-as-long-as-those-of-some-teams." * 2
    skew = TopicSkewOverTime(
        tuple(TopicSkew(f"{long}{n}", 3.25, 12, 0.5) for n in range(20)), 9_000, 10_000, 86_400.0
    )
    busy = BusyPartitions(
        tuple(BusyPartition(long, n, 2_500_000 + n, 9_000_000, 0.04, False) for n in range(20)),
        True,
    )
    page = leader_balance_report(
        replace(now, topic_skew=skew, before=replace(before, topic_skew=skew)),
        load=replace(load, busy_partitions=busy, before=replace(load_before, busy_partitions=busy)),
    )
    assert "from" in page and "as before" in page
    assert len(page.encode()) <= 500_000
