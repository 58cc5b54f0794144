"""The pages: hostile names stay names, nothing is fetched or run, same values give the same bytes."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser

import pytest

from counterpoise.model.approval import Approval, Decision
from counterpoise.model.balance import (
    BalancePoint,
    BrokerBalance,
    LeaderBalance,
    RackBalance,
    TopicLean,
    WantedRebalance,
)
from counterpoise.model.measures import evenness
from counterpoise.model.plan import BrokerFigure, Left, LowerBound, Move, RebalancePlan, Why
from counterpoise.model.report import BrokerLoad, RunReport, ThrottleKey
from counterpoise.model.request import Budget, Goal, Scope
from counterpoise.model.run import Event, Run, RunState
from counterpoise.reporting import (
    leader_balance_json,
    leader_balance_markdown,
    leader_balance_report,
    plan_markdown,
    plan_picture,
    plan_report,
    run_report,
)

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
SCRIPT = "<script>alert(1)</script>"
BREAKOUT = '"><img src=x onerror=alert(1)> {{ 7 * 7 }} $\\frac{1}$ ]]> --> | `x`'


class Page(HTMLParser):
    """Every element with its attributes, the visible words, and nothing else."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def balance(count: int = 4, snapshots: int = 3, *, rack: str = "a", topic: str = "orders") -> LeaderBalance:
    """`count` brokers; the last one is idle and joined at the last snapshot."""
    brokers = [BrokerBalance(i, rack, False, 10 + i % 3, 11, i % 2, 33, 1_000_000 * i) for i in range(1, count)]
    brokers.append(BrokerBalance(count, None, False, 0, 0, 0, 0, 0))
    spread = evenness([broker.leaders for broker in brokers])
    series = [
        BalancePoint(
            snapshot_id=f"demo-{hour}",
            observed_at=NOON + timedelta(hours=hour),
            leaders=spread,
            preferred_leaders=spread,
            replicas=evenness([broker.replicas for broker in brokers]),
            bytes=evenness([broker.bytes for broker in brokers]),
            share_not_preferred=0.25,
            live_broker_ids=tuple(range(1, count + 1)),
            joined_broker_ids=(count,) if hour and hour == snapshots - 1 else (),
        )
        for hour in range(snapshots)
    ]
    return LeaderBalance(
        cluster="demo",
        latest=series[-1],
        brokers=tuple(brokers),
        racks=(RackBalance(rack, count - 1, 30, 99, 5), RackBalance(None, 1, 0, 0, 0)),
        topics=(TopicLean(topic, 12, 9, 0, 5_000_000, 8),),
        topic_count=3,
        leaning_topic_count=1,
        series=tuple(series),
    )


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


def plan(topic: str = "orders", count: int = 3, brokers: int = 4, **changes: object) -> RebalancePlan:
    made = RebalancePlan(
        cluster="demo",
        cluster_id="Kafka-Id",
        snapshot_id="demo-20261121T120000Z",
        goal=Goal.ADD_BROKERS,
        broker_ids=(4,),
        policy_digest="0123456789abcdef",
        moves=tuple(Move(topic, p, "id", (1, 2, 3), (4, 2, 3), 1, 1_000_000 * (p + 1)) for p in range(count)),
        figures=tuple(figure(i) for i in range(1, brokers + 1)),
        lower_bound=LowerBound(count, 5_000_000, 0),
        warnings=(f"a warning {BREAKOUT}",),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def run(topic: str = "orders", **changes: object) -> RunReport:
    moved = plan(topic)
    values: dict[str, object] = {
        "run": Run(
            "run-1", "demo", moved.fingerprint, "plans/p.json", RunState.DONE, "", NOON, NOON + timedelta(seconds=432)
        ),
        "plan": moved,
        "approval": Approval("run-1", moved.fingerprint, Decision.GRANTED, "alice", BREAKOUT, NOON, 20_000_000),
        "before": tuple(
            BrokerLoad(f.broker_id, f.leaders_before, f.replicas_before, f.bytes_before) for f in moved.figures
        ),
        "after": tuple(
            BrokerLoad(f.broker_id, f.leaders_after, f.replicas_after, f.bytes_after) for f in moved.figures
        ),
        "copied_bytes": 6_000_000,
        "moves_done": 3,
        "throttle_keys": (ThrottleKey("broker 4", "follower.replication.throttled.rate", None, "20000000", None),),
        "events": (Event(NOON, "submit", SCRIPT),),
    }
    return RunReport(**(values | changes))  # type: ignore[arg-type]


def hostile_pages() -> Iterator[str]:
    yield leader_balance_report(balance(rack=SCRIPT, topic=BREAKOUT), wanted=WANTED)
    yield plan_report(
        plan(BREAKOUT, figures=tuple(figure(i, rack=SCRIPT) for i in range(1, 5)), scope=Scope(topics=(BREAKOUT,))),
        rate_bytes_per_second=10**6,
        violations=(SCRIPT,),
        data_check_failures=(BREAKOUT,),
        data_checks_passed=3,
    )
    yield run_report(run(BREAKOUT, problems=(SCRIPT,)))


@pytest.mark.parametrize("html", hostile_pages())
def test_hostile_names_stay_names_and_nothing_is_fetched_or_run(html: str) -> None:
    page = Page(html)
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "img", "iframe", "object", "embed", "link", "form", "base", "foreignobject", "image"}
    for _, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "src"]
        assert all((attributes.get(name) or "#").startswith("#") for name in ("href", "xlink:href"))
    assert not re.search(r"https?://(?!www\.w3\.org/)|@import|url\((?!#)", html)
    assert "alert(1)" in page.text  # the names are shown, as text
    policies = [a["content"] for tag, a in page.elements if tag == "meta" and "http-equiv" in a]
    assert policies and policies[0] is not None
    assert policies[0].startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:")


def test_text_in_a_picture_is_escaped_and_not_mathematics() -> None:
    from counterpoise.reporting.svg import inline_svg

    def draw(figure):  # type: ignore[no-untyped-def]
        figure.add_subplot().set_yticks([0, 1], [SCRIPT, BREAKOUT])

    page = Page(str(inline_svg(draw, name="p", label=BREAKOUT, width=600, height=100)))
    assert {"script", "img"}.isdisjoint(tag for tag, _ in page.elements)
    assert page.elements[0][1]["aria-label"] == BREAKOUT
    assert SCRIPT in page.text and "$\\frac{1}$" in page.text


def test_ids_of_pictures_do_not_meet_and_colours_follow_the_theme() -> None:
    html = leader_balance_report(balance(), wanted=WANTED)
    ids = [attributes["id"] for _, attributes in Page(html).elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for reference in re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', html):
        assert (reference[0] or reference[1]) in ids
    pictures = "".join(re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL))
    assert not re.search(r"#[0-9a-f]{6}\b", pictures)  # a fixed colour would vanish in light or in dark
    assert set(re.findall(r"var\((--[\w-]+)\)", html)) <= set(re.findall(r"(--[\w-]+):", html))


@pytest.mark.parametrize(("brokers", "snapshots"), [(2, 1), (4, 3), (36, 2), (220, 30)])
def test_the_same_values_give_the_same_bytes_at_every_size(brokers: int, snapshots: int) -> None:
    one = leader_balance_report(balance(brokers, snapshots), wanted=WANTED)
    assert one == leader_balance_report(balance(brokers, snapshots), wanted=WANTED)
    assert ("Max − min over the live brokers" in one) == (snapshots > 1)
    assert len(one) < 1_000_000


def test_an_idle_broker_is_marked_and_a_command_is_at_hand() -> None:
    text = Page(leader_balance_report(balance(), wanted=WANTED)).text
    assert "idle: holds nothing" in text
    assert "joined: 4" in text
    assert "counterpoise plan --cluster demo --goal add-brokers --brokers 4 --out plan.json" in text
    assert "Nothing needs doing" in Page(leader_balance_report(balance())).text


def test_markdown_and_json_have_the_figures_of_the_page() -> None:
    one = balance(rack=SCRIPT, topic=BREAKOUT)
    document = json.loads(leader_balance_json(one, wanted=WANTED))
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

    markdown = leader_balance_markdown(one, wanted=WANTED)
    assert "| 4 (idle) |  | 0 | 0 | 0 | 0 | 0 B |" in markdown
    assert "<script" not in markdown.replace("\\<", "") and '\n| "\\>\\<img' in markdown


def test_the_plan_page_says_what_it_costs_and_what_forbids_it() -> None:
    text = Page(plan_report(plan(), rate_bytes_per_second=1_000_000, data_checks_passed=14, moves_shown=2)).text
    assert "6.0 MB at least 5.0 MB (1.200 ×)" in text
    assert "6 s at 1.0 MB/s per broker" in text
    assert "8 → 0 best possible 0" in text
    assert "The largest 2 of 3; the plan document has all." in text
    assert "and 1 more, 1 replicas copied 1.0 MB evens replicas" in text
    assert plan().fingerprint in text
    assert "All rules hold" in text and "14 data checks passed" in text

    refused = Page(plan_report(plan(), rate_bytes_per_second=10**6, violations=("rule 7 is violated",))).text
    assert "This plan must not run. rule 7 is violated" in refused
    assert "The data checks did not run" in refused


@pytest.mark.parametrize("goal", list(Goal))
def test_every_goal_has_a_page_and_a_question(goal: Goal) -> None:
    assert f"demo: {goal}" in Page(plan_report(plan(goal=goal), rate_bytes_per_second=10**6)).text
    assert f"**{goal}**" in plan_markdown(plan(goal=goal), rate_bytes_per_second=10**6)


def test_a_large_plan_shows_the_top_of_each_list_and_counts_the_rest() -> None:
    moved = plan(count=60_000, brokers=220)
    page = plan_report(moved, rate_bytes_per_second=10**6, data_checks_passed=1)
    assert "and 59 975 more, 59 975 replicas copied" in Page(page).text
    assert "The other 200: leaders 0 to 8 → 6;" in Page(page).text
    assert len(page) < 400_000
    question = plan_markdown(moved, rate_bytes_per_second=10**6)
    assert "and 59 990 more" in question
    assert "brokers 1 to 220; a column is 5 brokers, their mean" in question
    assert len(question) < 8_000


def test_names_stay_names_in_the_question() -> None:
    question = plan_markdown(plan(BREAKOUT, scope=Scope(topics=(SCRIPT,))), rate_bytes_per_second=10**6)
    assert "<script" not in question.replace("\\<", "") and "<img" not in question.replace("\\<", "")
    assert question.count("```") == 2


def test_what_a_person_has_to_know_is_on_the_page_and_in_the_question() -> None:
    offsets = Move("__consumer_offsets", 7, "id", (1, 2, 3), (4, 2, 3), 1, 10, 7_000_000, Why.RACKS)
    told = plan(
        moves=(offsets,),
        scope=Scope(excluded_topics=("audit-*",)),
        budget=Budget(max_bytes=500_000_000_000),
        left=Left(2, 3, 9_000_000),
        figures=tuple(figure(i, disk_total_bytes=1000, disk_used_bytes=950 if i < 4 else 0) for i in range(1, 5)),
    )
    page = Page(plan_report(told, rate_bytes_per_second=5_000_000)).text
    for shown in (page, plan_markdown(told, rate_bytes_per_second=5_000_000).replace("\\", "")):
        for expected in (
            "not topics audit-*; copying at most 500 GB",
            "for a later plan: 2 partitions, 3 replicas, 9.0 MB",
            "__consumer_offsets: 1 coordinator to another broker",
            "producers write 7.0 MB/s to the partitions that broker 4 receives at once",
            "take at least 8.8 MB/s",
            "onto more racks",
            "0 → 6 (6)",
            "675 B, 68 %",
        ):
            assert expected in shown, expected
    assert "Fullest disks 95 %" in page
    assert "may never end" not in plan_markdown(told, rate_bytes_per_second=8_000_000)


def test_an_empty_plan_says_why_nothing_moves() -> None:
    empty = RebalancePlan("demo", "", "s", Goal.LEADERS, (), "d", (), (), LowerBound(0, 0, 0), reason="all is even")
    text = Page(plan_report(empty, rate_bytes_per_second=10**6, data_checks_passed=1)).text
    assert "Nothing needs to move. all is even" in text
    assert "all is even" in plan_markdown(empty, rate_bytes_per_second=10**6)


def test_few_brokers_are_bars_and_many_are_columns_with_what_is_best() -> None:
    few = plan_picture(plan(), width=76).splitlines()
    assert few[0].split() == ["broker", "leaders", "replicas", "bytes"]
    assert few[1].split()[:2] == ["1", "█" * 14 + "│" + "░" * 4]
    assert few[4].split()[:2] == ["4", "▓" * 14 + "│"]
    many = plan_picture(plan(brokers=1000), width=76).splitlines()
    assert [line.split()[-2] for line in many[:3]] == ["before", "after", "best"]
    assert max(len(line) for line in [*few, *many]) <= 76
    assert plan_picture(plan(brokers=0), width=76) == ""


def test_the_run_page_is_green_only_when_all_is_well() -> None:
    assert "Done: the cluster is as planned" in Page(run_report(run())).text
    owed = ThrottleKey("broker 2", "leader.replication.throttled.rate", None, "1", None, owed=True)
    left = ThrottleKey("topic t", "leader.replication.throttled.replicas", "", "0:1", None)
    text = Page(run_report(run(throttle_keys=(owed, left)))).text
    assert "Done: the cluster" not in text
    assert "broker 2: leader.replication.throttled.rate is owed" in text
    assert "topic t: leader.replication.throttled.replicas is not as it was before" in text
    assert "0 of 2" in text
    assert "Done: the cluster" not in Page(run_report(run(problems=("broker 4 leads too little",)))).text


def test_a_long_run_shows_its_beginning_and_its_end() -> None:
    events = tuple(Event(NOON + timedelta(seconds=i), "look", f"event-{i}-") for i in range(50))
    text = Page(run_report(run(events=events, after=()), events_shown=10)).text
    assert [int(i) for i in re.findall(r"event-(\d+)-", text)] == [0, 1, 2, 3, 4, 45, 46, 47, 48, 49]
    assert "40 events between" in text
    assert "could not be looked at afterwards" in text
