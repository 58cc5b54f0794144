"""Brokers before and after: two bars each for few brokers, a bar with a mark for many.

    before_after([Pair(4, 0, 12)], label="Leaders", unit=format_count)

SVG is written here as it stands in the page: a plan has up to ten of these pictures, and whoever
opens its page waits for them. Nothing but numbers, the page's colours and escaped text is in it.

Limits: how wide a text becomes is estimated, as the fonts are those of the reader.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from markupsafe import Markup, escape

from counterpoise.reporting.plots import Unit

WIDE: Final = 720.0
CARD: Final = 245.0
MAX_BAR_ROWS: Final = 12
MIN_COLOURED_WIDTH: Final = 2.0  # units: side by side, thinner columns only look grey
_MIN_PAIR_WIDTH: Final = (
    5.0  # units for one broker before and after; with less, bars grow together to a silhouette
)
_ROW: Final = 30.0
_BAR: Final = 10.8
_COLUMNS_HEIGHT: Final = 170.0
_LABELS: Final = 14.0  # below the chart
_EDGE: Final = 4.0
_GAP: Final = 4.0  # between a text and what it belongs to
_LETTER: Final = 5.4  # units that one character of a label takes at most, about
_MAX_STEPS: Final = 5  # of the axis of values
_MAX_BROKERS_NAMED: Final = 8
_ROUND: Final = (10, 20, 25, 50, 100)  # tenths


@dataclass(frozen=True, slots=True)
class Pair:
    broker_id: int
    before: int
    after: int
    best: int | None = None  # where no plan could do better


@dataclass(frozen=True, slots=True)
class _Columns:
    """Where the values of brokers stand that are columns."""

    left: float
    room: float  # for one broker
    top: int

    def edge(self, index: int) -> float:
        return self.left + index * self.room

    def height(self, value: float) -> float:
        base = _COLUMNS_HEIGHT - _LABELS
        return base - (base - _EDGE) * value / self.top


def before_after(pairs: Sequence[Pair], *, label: str, unit: Unit, wide: bool = False) -> Markup:
    """Draw each broker before and after: two bars for few brokers, a bar with a mark where it was
    for many.

    A dark line is the best possible, where the pairs tell it.
    """
    width = WIDE if wide else CARD
    if len(pairs) <= MAX_BAR_ROWS:
        body, height = _rows(pairs, unit, width), _ROW * len(pairs) + _LABELS
    else:
        body, height = _columns(pairs, unit, width), _COLUMNS_HEIGHT
    head = f'class="picture" viewBox="0 0 {width:g} {height:g}" role="img"'
    return Markup(f'<svg {head} aria-label="{escape(label)}">{"".join(body)}</svg>')


def _rows(pairs: Sequence[Pair], unit: Unit, width: float) -> Iterator[str]:
    top = max(max(pair.before, pair.after, pair.best or 0) for pair in pairs) or 1
    left = _LETTER * max(len(str(pair.broker_id)) for pair in pairs) + _GAP
    texts = [(unit(pair.before), unit(pair.after)) for pair in pairs]
    note = _LETTER * max(len(text) for both in texts for text in both)
    scale = (width - left - note - 2 * _GAP) / top
    base = _ROW * len(pairs)
    tick_room = _LETTER * len(unit(top)) + 2 * _GAP
    for tick in _round_steps(top, min(_MAX_STEPS, int(top * scale / tick_room))):
        x = left + tick * scale
        yield _line(f"M{x:.1f} 0V{base:g}", "grid", 0.6)
        yield _text(x, base + 10, unit(tick), "middle")
    for row, (pair, notes) in enumerate(zip(pairs, texts, strict=True)):
        middle = (row + 0.5) * _ROW
        bars = (
            (middle - 0.2 * _ROW, pair.before, "before", "muted", notes[0]),
            (middle + 0.2 * _ROW, pair.after, "after", "ink", notes[1]),
        )
        for y, value, colour, _, _ in bars:
            bar = f"M{left:g} {y - _BAR / 2:.1f}h{value * scale:.1f}v{_BAR}H{left:g}z"
            yield _area(bar, colour)
        if pair.best is not None:
            reach = 0.43 * _ROW
            line = f"M{left + pair.best * scale:.1f} {middle - reach:.1f}v{2 * reach:.1f}"
            yield _line(line, "fair", 1.6)
        for y, value, _, ink, text in bars:
            yield _text(left + value * scale + _GAP, y + 2.7, text, "start", ink, 7.4)
        yield _text(left - _GAP, middle + 3, str(pair.broker_id), "end", "ink")


def _columns(pairs: Sequence[Pair], unit: Unit, width: float) -> Iterator[str]:
    top = max(max(pair.before, pair.after, pair.best or 0) for pair in pairs) or 1
    ticks = _round_steps(top, _MAX_STEPS)
    left = _LETTER * max(len(unit(tick)) for tick in ticks) + _GAP
    at = _Columns(left, (width - left) / len(pairs), top)
    for tick in ticks:
        y = at.height(tick)
        yield _line(f"M{left:g} {y:.1f}H{width:g}", "grid", 0.6)
        yield _text(left - _GAP, y + 3, unit(tick), "end")
    before, after = [pair.before for pair in pairs], [pair.after for pair in pairs]
    if width / len(pairs) > _MIN_PAIR_WIDTH:
        yield _area(_bars(at, before), "before") + _area(_bars(at, after), "after")
        yield _line(_marks(at, before), "ink", 1.5)
    else:  # two outlines instead of bars: one path each, also for a thousand brokers
        yield _area(_silhouette(at, before), "before") + _area(_silhouette(at, after), "after")
        if width / len(pairs) >= MIN_COLOURED_WIDTH:  # with less, a line is a tangle
            yield _line(_outline(at, before), "ink", 0.9)
    best = [pair.best for pair in pairs if pair.best is not None]
    if len(best) == len(pairs):
        yield _line(_outline(at, best), "fair", 1.2, dashes="6 2.4")
    id_room = _LETTER * max(len(str(pair.broker_id)) for pair in pairs) + 2 * _GAP
    named = max(1, min(_MAX_BROKERS_NAMED, int((width - left) / id_room)))
    for index in range(0, len(pairs), -(-len(pairs) // named)):
        middle = at.edge(index) + at.room / 2
        yield _text(middle, _COLUMNS_HEIGHT - 3, str(pairs[index].broker_id), "middle")


def _bars(at: _Columns, values: Sequence[int]) -> str:
    base, gap = f"{at.height(0):g}", 0.1 * at.room
    across = f"h{at.room - 2 * gap:.1f}"
    return "".join(
        f"M{at.edge(index) + gap:.1f} {base}V{at.height(value):.1f}{across}V{base}z"
        for index, value in enumerate(values)
        if value
    )


def _marks(at: _Columns, values: Sequence[int]) -> str:
    gap = 0.04 * at.room
    across = f"h{at.room - 2 * gap:.1f}"
    return "".join(
        f"M{at.edge(index) + gap:.1f} {at.height(value):.1f}{across}"
        for index, value in enumerate(values)
    )


def _outline(at: _Columns, values: Sequence[int]) -> str:
    """Return steps: across one broker, then up or down to the next, where that differs."""
    rises = [
        f"H{at.edge(index):.1f}V{at.height(value):.1f}"
        for index, (last, value) in enumerate(pairwise(values), start=1)
        if value != last
    ]
    end = at.edge(len(values))
    return f"M{at.left:g} {at.height(values[0]):.1f}{''.join(rises)}H{end:.1f}"


def _silhouette(at: _Columns, values: Sequence[int]) -> str:
    base = at.height(0)
    return f"{_outline(at, values)}V{base:g}H{at.left:g}z"


def _round_steps(top: int, most: int) -> list[int]:
    """Return zero and the multiples of a round number up to `top`, at most so many, at least one.

    Whole numbers only, since brokers, replicas and bytes are: 420 in 5 is 0, 100, 200, 300, 400.
    """
    least = -(-top // max(1, most))
    power = 10 ** (len(str(least)) - 1)
    tenths = next(t for t in _ROUND if t * power >= 10 * least and t * power % 10 == 0)
    return list(range(0, top + 1, tenths * power // 10))


def _area(shape: str, colour: str) -> str:
    return f'<path d="{shape}" style="fill: var(--{colour})"/>'


def _line(shape: str, colour: str, width: float, *, dashes: str = "none") -> str:
    look = f"fill: none; stroke: var(--{colour}); stroke-width: {width:g}"
    dashed = "" if dashes == "none" else f"; stroke-dasharray: {dashes}"
    return f'<path d="{shape}" style="{look}{dashed}"/>'


def _text(
    x: float, y: float, text: str, anchor: str, colour: str = "muted", size: float | None = None
) -> str:
    """Write a text; one of another size stands over lines, which do not strike it through."""
    look = f"text-anchor: {anchor}; fill: var(--{colour})"
    if size is not None:
        look += (
            f"; font-size: {size}px; paint-order: stroke; stroke: var(--surface); stroke-width: 2px"
        )
    return f'<text x="{x:.1f}" y="{y:.1f}" style="{look}">{escape(text)}</text>'
