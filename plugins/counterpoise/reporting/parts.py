"""What the pages share: tiles, charts in two shapes, and comparisons per broker before and after.

Tile("Idle brokers", "1", "broker 4", is_alert=True)
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from markupsafe import Markup

from counterpoise.reporting.pairs import Pair, before_after
from counterpoise.reporting.plots import Unit

_MANY_BROKERS: Final = 12  # more than that, and bars of before and after become columns with marks


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure at the top of the page; `is_alert` marks the one that needs attention.

    `number` is the figure itself, if it is one; `before` compares it with the period before.
    """

    title: str
    value: str
    note: str
    is_alert: bool = False
    number: float | None = None
    before: str = ""


def beside(tiles: Sequence[Tile], tiles_before: Sequence[Tile]) -> tuple[Tile, ...]:
    """Return the tiles, each compared with that of the same title of the period before."""
    by_title = {tile.title: tile for tile in tiles_before}
    return tuple(
        replace(tile, before=trend(tile.number, was.number, tile.value, was.value))
        if (was := by_title.get(tile.title))
        else replace(tile, before=trend(tile.number, None, tile.value, ""))
        for tile in tiles
    )


def trend(now: float | None, before: float | None, text: str, text_before: str) -> str:
    """Return `↑ from 5`, `↓ from 9`, `as before`, or `before: not known`.

    `text` and `text_before` are the figures as they are printed; without the numbers (None) no
    arrow can be told.
    """
    if not text_before:
        return "before: not known"
    if text == text_before:
        return "as before"
    if now is None or before is None:
        return f"before: {text_before}"
    return f"{'↑' if now > before else '↓'} from {text_before}"


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture in two shapes: for a wide page and for a phone. A card has only the latter."""

    narrow: Markup
    wide: Markup | None = None

    @classmethod
    def of(cls, name: str, draw: Callable[[str, bool], Markup]) -> "Picture":
        """Return both shapes of what `draw` draws, given a name and whether it is wide."""
        return cls(draw(f"{name}-n", False), draw(f"{name}-w", True))


@dataclass(frozen=True, slots=True)
class Comparison:
    """A picture of every broker before and after, with the words of its legend."""

    title: str
    picture: Picture
    has_best: bool = False
    after: str = "after"
    has_many: bool = False  # brokers: columns with marks, where few have a bar each


class BrokerChart(Protocol):
    """What is known of each broker: its id, before, after, and at best."""

    @property
    def title(self) -> str: ...
    @property
    def rows(self) -> Sequence[tuple[int, int, int, int | None]]: ...
    @property
    def unit(self) -> Unit: ...
    @property
    def after(self) -> str: ...


def drawn(charts: Iterable[BrokerChart]) -> list[Comparison]:
    """Return a card for few brokers; for many a wide chart, and one for phones."""
    return [_comparison(chart, [Pair(*row) for row in chart.rows]) for chart in charts]


def _comparison(chart: BrokerChart, pairs: Sequence[Pair]) -> Comparison:
    label = f"{chart.title}, before and {chart.after}"
    picture = Picture(before_after(pairs, label=label, unit=chart.unit))
    has_many = len(pairs) > _MANY_BROKERS
    if has_many:
        wide = before_after(pairs, label=label, unit=chart.unit, wide=True)
        picture = replace(picture, wide=wide)
    has_best = all(pair.best is not None for pair in pairs)
    return Comparison(chart.title, picture, has_best, chart.after, has_many)
