"""What the pages share: tiles, charts in two shapes, and comparisons per broker before and after.

Tile("Idle brokers", "1", "broker 4", is_alert=True)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from counterpoise.model.report import BrokerLoad
from counterpoise.reporting.charts import Pair, before_after
from counterpoise.units import format_bytes, format_count

MANY_BROKERS: Final = 12  # more than that, and bars of before and after become columns with marks


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure at the top of the page; `is_alert` marks the one that needs attention."""

    title: str
    value: str
    note: str
    is_alert: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture in two shapes: for a wide page and for a phone. A card has only the latter."""

    narrow: Markup
    wide: Markup | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """A picture of every broker before and after, with the words of its legend."""

    title: str
    picture: Picture
    has_best: bool = False
    after: str = "after"


def comparison(
    pairs: Sequence[Pair],
    *,
    name: str,
    title: str,
    unit: Callable[[float], str],
    after: str = "after",
) -> Comparison:
    """Return a card for few brokers; for many a wide chart, and one for phones."""

    def drawn(shape: str) -> Markup:
        label = f"{title}, before and {after}"
        return before_after(
            pairs, name=f"{name}-{shape}", label=label, unit=unit, wide=shape == "w"
        )

    picture = Picture(drawn("n"), drawn("w") if len(pairs) > MANY_BROKERS else None)
    return Comparison(title, picture, all(pair.best is not None for pair in pairs), after)


def before_after_pictures(
    before: Sequence[BrokerLoad], after: Sequence[BrokerLoad]
) -> tuple[Comparison, ...]:
    """Return charts of leaders, replicas and bytes per broker; none without both observations."""
    if not before or not after:
        return ()
    was, now = by_broker(before), by_broker(after)
    wanted: tuple[tuple[str, str, Callable[[float], str]], ...] = (
        ("leaders", "Leaders per broker", format_count),
        ("replicas", "Replicas per broker", format_count),
        ("bytes", "Bytes per broker", format_bytes),
    )
    return tuple(
        comparison(
            [
                Pair(i, _value(was, i, name), _value(now, i, name))
                for i in sorted(was.keys() | now.keys())
            ],
            name=name,
            title=title,
            unit=unit,
        )
        for name, title, unit in wanted
    )


def by_broker(loads: Sequence[BrokerLoad]) -> Mapping[int, BrokerLoad]:
    return {load.broker_id: load for load in loads}


def _value(loads: Mapping[int, BrokerLoad], broker_id: int, name: str) -> int:
    """Return 0 for a broker that was not registered then."""
    return int(getattr(loads[broker_id], name)) if broker_id in loads else 0
