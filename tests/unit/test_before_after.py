"""The pictures of brokers before and after: what stands where, and what has room."""

import re
from itertools import pairwise

import pytest

from counterpoise.reporting.pairs import Pair, before_after
from counterpoise.units import format_bytes, format_count

LETTER = 5.5  # units, about


def texts(picture: str, anchor: str) -> list[tuple[float, float, str]]:
    """Return where each text with this anchor stands, and what it says."""
    found = re.findall(
        rf'<text x="([\d.]+)" y="([\d.]+)" style="text-anchor: {anchor};[^"]*">([^<]*)<', picture
    )
    return [(float(x), float(y), text) for x, y, text in found]


def areas(picture: str, colour: str) -> list[str]:
    return re.findall(rf'<path d="([^"]+)" style="fill: var\(--{colour}\)"/>', picture)


def test_few_brokers_are_two_bars_each_with_their_numbers() -> None:
    picture = before_after(
        [Pair(1, 40, 30, 25), Pair(4, 0, 20, 25)], label="Leaders", unit=format_count
    )
    widths = {
        colour: [float(re.findall(r"h([\d.]+)v", shape)[0]) for shape in areas(picture, colour)]
        for colour in ("before", "after")
    }
    longest = widths["before"][0]
    assert widths["before"] == [longest, 0]
    assert widths["after"] == pytest.approx([longest * 3 / 4, longest / 2], abs=0.1)
    assert [text for *_, text in texts(picture, "start")] == ["40", "30", "0", "20"]
    assert [text for *_, text in texts(picture, "end")] == ["1", "4"]
    assert [text for *_, text in texts(picture, "middle")] == ["0", "10", "20", "30", "40"]
    assert picture.count("stroke: var(--fair)") == 2


@pytest.mark.parametrize(
    ("brokers", "columns", "lines"),
    [(13, 12, 1), (143, 142, 1), (144, 1, 1), (360, 1, 1), (361, 1, 0)],
)
def test_many_brokers_are_columns_and_then_one_outline(
    brokers: int, columns: int, lines: int
) -> None:
    """Without a line where it would only be a tangle; one of the brokers has nothing."""
    pairs = [Pair(i, i, brokers - 1 - i) for i in range(brokers)]
    picture = before_after(pairs, label="Leaders", unit=format_count, wide=True)
    for colour in ("before", "after"):
        (shape,) = areas(picture, colour)
        assert shape.count("z") == columns
    assert picture.count("stroke: var(--ink)") == lines
    assert "--fair" not in picture  # nobody says what would be best


@pytest.mark.parametrize("most", [0, 1, 2, 7, 99, 420, 999, 1_000, 10**12 + 1, 2**63 - 1])
@pytest.mark.parametrize(("brokers", "axis"), [(3, "middle"), (20, "end")])
@pytest.mark.parametrize("wide", [True, False])
def test_an_axis_has_few_round_whole_numbers(
    most: int, brokers: int, axis: str, wide: bool
) -> None:
    pairs = [Pair(i, most, most // 2) for i in range(brokers)]
    picture = before_after(pairs, label="Bytes", unit="{:.0f} B".format, wide=wide)
    ticks = [int(text[:-2]) for *_, text in texts(picture, axis) if text.endswith(" B")]
    assert ticks[0] == 0 and 1 <= len(ticks) <= 6 and ticks[-1] <= max(1, most)
    steps = {str(after - before) for before, after in pairwise(ticks)}
    assert len(steps) <= 1
    assert {step.rstrip("0") for step in steps} <= {"1", "2", "25", "5"}


def test_no_text_stands_on_another() -> None:
    few = before_after(
        [Pair(1, 0, 0), Pair(2**31 - 1, 2**63 - 1, 10**18)], label="Bytes", unit=format_bytes
    )
    many = before_after(
        [Pair(2**31 - 1 - i, 1, 2) for i in range(30)], label="Leaders", unit=format_count
    )
    for picture in (few, many):
        row = texts(picture, "middle")
        for (x, _, text), (next_x, _, next_text) in pairwise(row):
            assert next_x - x > LETTER * (len(text) + len(next_text)) / 2
        for x, _, text in texts(picture, "end"):
            assert x > LETTER * len(text) - 2
        for x, _, text in texts(picture, "start"):
            assert x + LETTER * len(text) < 245 + 2
