"""What the pages share: tiles, charts in two shapes, and comparisons per broker before and after.

Tile("Idle brokers", "1", "broker 4", is_alert=True)
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from markupsafe import Markup

from counterpoise.model.plan_view import MEASURES
from counterpoise.model.report import BrokerLoad
from counterpoise.reporting.charts import Bar, Pair, Unit, before_after, broker_bars

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


def comparison(
    pairs: Sequence[Pair], *, title: str, unit: Unit, after: str = "after"
) -> Comparison:
    """Return a card for few brokers; for many a wide chart, and one for phones."""
    label = f"{title}, before and {after}"
    picture = Picture(before_after(pairs, label=label, unit=unit))
    has_many = len(pairs) > _MANY_BROKERS
    if has_many:
        wide = before_after(pairs, label=label, unit=unit, wide=True)
        picture = replace(picture, wide=wide)
    has_best = all(pair.best is not None for pair in pairs)
    return Comparison(title, picture, has_best, after, has_many)


def bar_picture(bars: Sequence[Bar], name: str, label: str, unit: Unit, fair: float) -> Picture:
    """Return a bar for each broker against the fair share; on a phone each has its name."""
    return Picture.of(
        name,
        lambda name, wide: broker_bars(
            bars, name=name, label=label, unit=unit, fair=fair, wide=wide, named=not wide
        ),
    )


def before_after_pictures(
    before: Sequence[BrokerLoad], after: Sequence[BrokerLoad]
) -> tuple[Comparison, ...]:
    """Return charts of leaders, replicas and bytes per broker; none without both observations."""
    if not before or not after:
        return ()
    was, now = by_broker(before), by_broker(after)
    return tuple(
        comparison(
            [
                Pair(i, _value(was, i, measure.field), _value(now, i, measure.field))
                for i in sorted(was.keys() | now.keys())
            ],
            title=f"{measure.title} per broker",
            unit=measure.unit,
        )
        for measure in MEASURES[:3]  # bytes in are not known of a run
    )


def rack_indexes(racks: Iterable[str | None]) -> Mapping[str | None, int | None]:
    """Return a number for each rack by name, which gives it its colour; None for no rack."""
    named = sorted({rack for rack in racks if rack is not None})
    return {None: None} | {rack: index for index, rack in enumerate(named)}


def by_broker(loads: Sequence[BrokerLoad]) -> Mapping[int, BrokerLoad]:
    return {load.broker_id: load for load in loads}


def _value(loads: Mapping[int, BrokerLoad], broker_id: int, name: str) -> int:
    """Return 0 for a broker that was not registered then."""
    return int(getattr(loads[broker_id], name)) if broker_id in loads else 0
