"""The load section and the stored fleet: all figures are shown, hostile names stay names, nothing
is fetched or run.
"""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from counterpoise.analysis import leader_balance, wanted_goals
from counterpoise.analysis.fleets import fleet, fleet_entry
from counterpoise.analysis.load import cluster_load
from counterpoise.model.fleet_document import (
    ClusterState,
    FleetDocument,
    entry_text,
    fleet_json,
    read_entry,
)
from counterpoise.model.load import ClusterLoad, Rates
from counterpoise.model.policy import BalancePolicy
from counterpoise.reporting.html import render
from counterpoise.reporting.load_section import about_bounds, load_section
from counterpoise.views.balance import leader_balance_json, read_balance
from counterpoise.views.pages import fleet_copy
from tests.support.loads import loads_of
from tests.support.report_page import Page
from tests.support.series import NO_TOPICS, Broker, rows, story

NOW = datetime(2026, 12, 9, tzinfo=UTC)
BREAKOUT = (
    '"><img src=x onerror=alert(1)><script>alert(1)</script> {{ 7 * 7 }} $\\frac{1}$ ]]> --> | `x`'
)


def made_up(brokers: int = 6, snapshots: int = 60) -> ClusterLoad:
    load = cluster_load(*loads_of(story(brokers=brokers, snapshots=snapshots)), cluster="demo")
    assert load is not None
    return load


def section(load: ClusterLoad) -> str:
    return render("load_body.html", section=load_section(load))


def hostile(load: ClusterLoad) -> ClusterLoad:
    return replace(
        load,
        cluster=BREAKOUT,
        brokers=tuple(replace(broker, rack=BREAKOUT) for broker in load.brokers),
        hot_partitions=tuple(replace(hot, topic=BREAKOUT) for hot in load.hot_partitions),
        hot_topics=tuple(replace(hot, topic=BREAKOUT) for hot in load.hot_topics),
        growing_topics=tuple(replace(topic, topic=BREAKOUT) for topic in load.growing_topics),
        disks=tuple(replace(disk, log_dirs=(BREAKOUT,)) for disk in load.disks),
        unknown=((BREAKOUT, 3),),
    )


def state(cluster: str = "demo", *, brokers: int = 6, snapshots: int = 30) -> ClusterState:
    told = story(brokers=brokers, snapshots=snapshots, cluster=cluster)
    balance = leader_balance(told.table, NO_TOPICS, cluster=cluster)
    load = cluster_load(*loads_of(told, topic_count=5), cluster=cluster)
    assert balance is not None
    return ClusterState(
        cluster,
        timedelta(minutes=7),
        balance,
        load,
        next(iter(wanted_goals(balance, BalancePolicy())), None),
    )


def fleet_of(*states: ClusterState) -> FleetDocument:
    return fleet(map(fleet_entry, states), as_of=NOW)


def assert_harmless(html: str) -> None:
    page = Page(html)
    assert page.tags.isdisjoint({"script", "img", "iframe", "object", "link", "form"})
    assert not [
        attributes
        for _, attributes in page.elements
        if any(name.startswith("on") for name in attributes)
    ]
    assert "49 $" not in page.text  # 7 * 7
    for attribute in ("src", "href", "xlink:href"):
        found = [a[attribute] or "" for _, a in page.elements if attribute in a]
        assert not [target for target in found if ":" in target or target.startswith("//")]


# -- the load section


def test_the_section_shows_every_figure() -> None:
    load = made_up()
    text = Page(section(load)).text
    for hot in load.hot_partitions:
        assert f"{hot.topic}-{hot.partition}" in text
    for topic in (*load.hot_topics, *load.growing_topics):
        assert topic.topic in text
    for disk in load.disks:
        assert disk.in_words in text
    assert f"{len(load.brokers)}" in text
    assert "95 % of the time" in text


def test_what_is_not_known_is_said_and_never_shown_as_zero() -> None:
    table = pa.concat_tables([rows(0, [Broker(1), Broker(2)])])
    load = cluster_load(
        table, *(part.slice(0, 0) for part in loads_of(story(snapshots=20))[1:]), cluster="demo"
    )
    assert load is not None
    text = Page(section(load)).text
    for sentence in (
        "Not known yet: a rate needs two snapshots.",
        "No topic is known to grow.",
        "No rate is known, or nothing is written.",
        "No log dir is known.",
    ):
        assert sentence in text
    assert "0 B/s" not in text
    assert "not known" in text


def load_document(load: ClusterLoad) -> dict[str, Any]:
    """Return what the report for programs has of a load, which can be read again."""
    told = story(brokers=6, snapshots=3)
    balance = leader_balance(told.table, NO_TOPICS, cluster="demo")
    assert balance is not None
    text = leader_balance_json(balance, load=load)
    read_again = read_balance(text, where="report").load
    assert read_again is not None and read_again.bytes_in == load.bytes_in
    document: dict[str, Any] = json.loads(text)["load"]
    return document


def test_the_document_of_the_load_is_plain_json() -> None:
    load = made_up()
    document = load_document(load)
    assert document["bytes_in"]["p95"] == load.bytes_in.p95
    assert document["observed_at"].endswith("+00:00")
    assert [disk["outlook"] for disk in document["disks"]] == [
        str(disk.outlook) for disk in load.disks
    ]


def test_a_bound_is_explained_wherever_it_stands() -> None:
    """Of a broker or a rack whose sum over the cluster is not known, or of the tiles of before."""
    load = replace(made_up(), hot_topics=(), hot_partitions=())
    assert not about_bounds(load)
    bound = Rates(5, 5, 5, 5, is_at_least=True)
    brokers = (replace(load.brokers[0], as_follower=bound), *load.brokers[1:])
    racks = (replace(load.racks[0], as_leader=bound), *load.racks[1:])
    for shown in (replace(load, brokers=brokers), replace(load, racks=racks)):
        assert "≥ 5 B/s" in section(shown)
        assert about_bounds(shown) in Page(section(shown)).text
        assert about_bounds(shown)
    assert about_bounds(replace(load, before=replace(load, bytes_in=bound)))


# -- the stored fleet


def test_each_cluster_links_to_its_page_the_worst_first() -> None:
    states = [state("b"), replace(state("a"), age=timedelta(days=3)), ClusterState("never", None)]
    page = Page(fleet_copy(fleet_of(*states)))
    links = [attributes["href"] for tag, attributes in page.elements if tag == "a"]
    assert links == [
        "#content",
        *["../fleet"] * 2,  # the ways back
        "a/leader-balance.html",
        "b/leader-balance.html",
    ]  # who was never analysed has no page
    words = ("No snapshot for 3 d", "Broker 4's disk full now", "No snapshot yet")
    order = [page.text.index(word) for word in words]
    assert order == sorted(order)
    assert "script" not in page.tags


@pytest.mark.parametrize("count", [0, 1, 200])
def test_a_fleet_of_any_size_is_one_small_page(count: int) -> None:
    one = state()
    found = fleet_of(*(replace(one, cluster=f"cluster-{at}") for at in range(count)))
    html = fleet_copy(found)
    assert_harmless(html)
    assert html == fleet_copy(found)
    assert len(html) < 400_000
    assert html.count('<tr><th scope="row">') == count
    assert "No cluster is configured yet." in html or count


def test_the_json_has_the_figures_of_the_page() -> None:
    one = state()
    found = fleet_of(one, ClusterState("never", None))
    never, document = json.loads(fleet_json(found))["clusters"]
    assert one.balance is not None
    assert one.load is not None
    assert document["leaders_max_minus_min"] == one.balance.latest.leaders.max_minus_min
    assert document["bytes_in_per_second"] == one.load.bytes_in.now
    assert document["age_seconds"] == 420.0
    assert never["leaders_max_minus_min"] is None
    (silent,) = never["findings"]
    assert (silent["concern"], silent["words"]) == ("silent", "has no snapshot yet")


@pytest.mark.parametrize(
    ("now", "period"), [(True, False), (False, True), (True, True), (False, False)]
)
def test_each_rate_of_the_fleet_is_a_lower_bound_by_itself(now: bool, period: bool) -> None:
    one = state("a")
    assert one.load is not None
    bytes_in = Rates(4000, 2000, 3000, 5000, is_at_least=now, is_period_at_least=period)
    load = replace(one.load, bytes_in=bytes_in)
    entry = read_entry(entry_text(fleet_entry(replace(one, load=load))))

    def rate(is_bound: bool) -> str:
        return f"{'≥ ' if is_bound else ''}4.0 kB/s"

    found = FleetDocument(datetime.now(UTC), (entry,))
    assert rate(now) in Page(fleet_copy(found)).text.replace("\xa0", " ")
    (document,) = json.loads(fleet_json(found))["clusters"]
    assert document["bytes_in_p95_is_at_least"] is period


@pytest.mark.parametrize("snapshots", [30, 400])
def test_racks_have_a_chart_over_time_whose_lines_add_up(snapshots: int) -> None:
    load = made_up(snapshots=snapshots)
    assert len(load.racks) > 1
    assert {rack.trace.at for rack in load.racks} == {load.bytes_in_trace.at}
    of_racks = zip(*(rack.trace.values for rack in load.racks), strict=True)
    for total, values in zip(load.bytes_in_trace.values, of_racks, strict=True):
        if total is not None:
            known = [value for value in values if value is not None]
            assert sum(known) == pytest.approx(total, abs=len(values))
    drawn = load_section(load).racks_in_time
    assert drawn is not None
    assert [label for _, label in drawn.keys] == [rack.rack for rack in load.racks]
    assert "Bytes in per rack over time" in section(load)
    assert all("trace" not in rack for rack in load_document(load)["racks"])
