"""The charts of all pages: numbers at axes, leads, tips, and what the macros write of them."""

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from counterpoise.reporting.html import environment
from counterpoise.reporting.plots import (
    HEAT_LEVELS,
    Axis,
    bar_chart,
    heat_over_time,
    line_chart,
)
from counterpoise.units import format_bytes, format_count, format_rate
from tests.support.hostile import HOSTILE, MARK, check_html

AT = datetime(2026, 11, 29, 10, 20, tzinfo=UTC)


def drawn(template: str, **values: object) -> str:
    imports = '{% from "charts.html" import bars, line, events, heat_time, spark, legend, level %}'
    return environment().from_string(imports + template).render(**values)


@pytest.mark.parametrize(
    ("highest", "unit", "word", "ticks"),
    [
        (119, format_count, "", ["0", "50", "100"]),
        (838e9, format_bytes, "GB", ["0", "250", "500", "750"]),
        (136e6, format_rate, "MB/s", ["0", "50", "100"]),
        (2, format_count, "", ["0", "1", "2"]),
        (6, format_count, "", ["0", "2", "4", "6"]),
        (0, format_bytes, "B", ["0"]),
    ],
)
def test_an_axis_has_few_round_numbers_of_one_unit(highest, unit, word, ticks) -> None:  # type: ignore[no-untyped-def]
    axis = Axis.of(highest, unit)
    assert (axis.unit, [label for _, label in axis.ticks]) == (word, ticks)
    assert axis.top > axis.ticks[-1][0] >= 0


def test_the_lead_says_what_the_busiest_broker_has() -> None:
    before = bar_chart(
        "Leaders", format_count, [1, 2], was=[119, 0], promise=[60, 59], best=[60, 60]
    )
    assert before.lead == "most 119 → 60, best 60"
    moving = bar_chart("Bytes", format_bytes, [1], was=[838e9], now=[697e9], promise=[598e9])
    assert (moving.lead, moving.unit) == ("most 838 → 697, promised 598", "GB")


def test_what_is_not_known_is_said_in_the_tip() -> None:
    chart = bar_chart("Bytes in", format_rate, [7], was=[None], promise=[2e6], racks={7: "b"})
    assert chart.tips == ("Broker 7, rack b\nbefore: not known\nafter: 2.0 MB/s",)


@pytest.mark.parametrize("brokers", [1, 24, 25, 300])
def test_many_brokers_are_steps_and_few_have_a_bar_each(brokers: int) -> None:
    ids = list(range(1, brokers + 1))
    ones = [1.0] * brokers
    chart = bar_chart("Leaders", format_count, ids, was=ones, now=ones, promise=ones, best=ones)
    page = drawn("{{ bars(chart) }}", chart=chart)
    assert page.count('<rect class="b-is"') == (brokers if brokers <= 24 else 0)
    assert page.count('<path class="b-is"') == (brokers > 24)
    assert "style=" not in page
    assert page.count('<text class="x"') <= 16


def test_a_line_breaks_where_nothing_is_known_and_has_its_events() -> None:
    points = [(AT + timedelta(minutes=m), None if m == 20 else m * 1e9) for m in range(0, 60, 10)]
    chart = line_chart(
        "Bytes copied", format_bytes, AT, AT + timedelta(minutes=60), [("l1", points)],
        is_filled=True, events=[(AT + timedelta(minutes=30), "1", "alice: faster", "")],
    )  # fmt: skip
    page = drawn("{{ line(chart) }}{{ events(chart) }}", chart=chart)
    assert page.count("M0 ") == 2 and "M500 " in page and ">10:30<" in page
    assert page.count("alice: faster") == 2


def test_no_time_is_written_over_now() -> None:
    points = [(AT + timedelta(minutes=m), m * 1e9) for m in (0, 29)]
    chart = line_chart(
        "Bytes copied", format_bytes, AT, AT + timedelta(minutes=60), [("l1", points)],
        now=points[-1][0],
    )  # fmt: skip
    page = drawn("{{ line(chart) }}", chart=chart)
    assert re.findall(r'<text class="t[^>]* hidden>([^<]*)<', page) == ["10:50"]


def test_each_part_of_a_fair_share_has_a_level_and_neighbours_of_one_level_are_one() -> None:
    ends = [AT + timedelta(hours=hour) for hour in range(9)]
    parts = [0.1, 0.7, 0.85, 1.0, 1.0, 1.15, 1.3, 2.0]
    chart = heat_over_time("", ["1"], list(pairwise(ends)), [parts])
    assert [len(spans) for spans in chart.levels] == [1] * HEAT_LEVELS
    assert chart.levels[3] == ((3 / 8, 5 / 8, 0),)


def test_no_name_gets_out_of_a_chart() -> None:
    chart = bar_chart(
        HOSTILE, format_count, [1], was=[1], racks={1: HOSTILE}, marks={1: ("new", HOSTILE)}
    )
    lines = line_chart(
        HOSTILE, format_count, AT, AT, [("l1", [(AT, 1)])], events=[(AT, "1", HOSTILE, "")]
    )
    cells = heat_over_time(HOSTILE, [HOSTILE], [(AT, AT)], [[1.0]])
    page = drawn(
        "{{ bars(a, keys=[('was', b.title)]) }}{{ line(b) }}{{ events(b) }}{{ heat_time(c) }}"
        "{{ spark([1, 2], 1.5, b.title) }}{{ level(0.5) }}",
        a=chart, b=lines, c=cells,
    )  # fmt: skip
    assert page.count(MARK) > 8
    check_html(page)
