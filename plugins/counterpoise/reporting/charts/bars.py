"""Bars per broker against the fair share: named rows for few brokers, columns from the largest to
the smallest for many.

    broker_bars([Bar(1, 40, 0)], name="leaders", label="Leaders", unit=count, fair=40.0)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup

from counterpoise.reporting.charts.frame import (
    CARD,
    MAX_BAR_ROWS,
    MIN_COLOURED_WIDTH,
    WIDE,
    Unit,
)
from counterpoise.reporting.svg import (
    ALERT,
    FAIR,
    INK,
    MUTED,
    NO_RACK,
    SURFACE,
    inline_svg,
    plain_axes,
    rack_colour,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAX_ROWS_NARROW: Final = 48
_ENDS_NAMED: Final = 3
_MIN_HATCHED_WIDTH: Final = 6.0  # units; a thinner column is drawn pale instead of hatched
_LETTER: Final = 5.4  # units that one character of a label takes, about

# What lies under a number, so that a line that crosses it does not strike it through.
_PLATE: Final = {"facecolor": SURFACE, "edgecolor": "none", "pad": 0.8}
_FAIR_LINE: Final[dict[str, Any]] = {"color": FAIR, "linewidth": 1.3, "linestyle": (0, (5, 2))}


@dataclass(frozen=True, slots=True)
class Bar:
    """One broker's value. `hatched` is the part of it that is drawn hatched, as not preferred."""

    broker_id: int
    value: int
    rack_index: int | None
    hatched: int = 0
    is_idle: bool = False
    is_fenced: bool = False


def broker_bars(
    bars: Sequence[Bar],
    *,
    name: str,
    label: str,
    unit: Unit,
    fair: float,
    wide: bool = False,
    named: bool = False,
) -> Markup:
    """Draw bars against the fair share (the mean over live brokers), for a whole row of the page or
    a card.

    With `named`, up to 48 brokers are rows, so that each has its name and number; else up to 12.
    """
    width = WIDE if wide else CARD
    if len(bars) <= (_MAX_ROWS_NARROW if named else MAX_BAR_ROWS):
        ordered = list(bars) if len(bars) <= MAX_BAR_ROWS else _largest_first(bars)
        height = 34.0 + len(ordered) * (24.0 if len(ordered) <= MAX_BAR_ROWS else 13.0)
        return inline_svg(
            lambda f: _rows(f, ordered, unit, fair),
            name=name,
            label=label,
            width=width,
            height=height,
        )
    ordered = _largest_first(bars)
    return inline_svg(
        lambda f: _columns(f, ordered, unit, fair, width),
        name=name,
        label=label,
        width=width,
        height=210.0 if wide else 190.0,
    )


def _largest_first(bars: Sequence[Bar]) -> list[Bar]:
    return sorted(bars, key=lambda bar: (bar.is_fenced, -bar.value, bar.broker_id))


def _colour(bar: Bar) -> str:
    return MUTED if bar.is_fenced else rack_colour(bar.rack_index)


def _rows(figure: "Figure", bars: Sequence[Bar], unit: Unit, fair: float) -> None:
    axes = plain_axes(figure, grid="x")
    thickness = 0.62 if len(bars) <= MAX_BAR_ROWS else 0.72
    top = max([fair, *(bar.value for bar in bars)]) or 1
    for row, bar in enumerate(bars):
        _one_row(axes, row, bar, unit, fair, top, thickness)
    axes.axvline(fair, **_FAIR_LINE)
    axes.text(
        fair,
        1.0,
        f"fair share {unit(fair)}",
        transform=axes.get_xaxis_transform(),
        va="bottom",
        ha="center",
        color=FAIR,
    )
    axes.set_yticks(range(len(bars)), [str(bar.broker_id) for bar in bars], color=INK)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_xlim(0, top * 1.16)
    _value_axis(axes.xaxis, unit)


def _one_row(
    axes: "Axes", row: int, bar: Bar, unit: Unit, fair: float, top: float, thickness: float
) -> None:
    colour = _colour(bar)
    solid = bar.value - bar.hatched
    axes.barh(row, solid, height=thickness, color=colour, linewidth=0)
    if bar.hatched:
        axes.barh(row, bar.hatched, left=solid, height=thickness, **_hatching(colour))
    note, ink = unit(bar.value), INK
    if bar.is_idle:
        axes.barh(row, fair, height=thickness, **_missing())
        note, ink = "idle: holds nothing", ALERT
    elif bar.is_fenced:
        note, ink = f"{note} (dead)", MUTED
    size = 7.8 if thickness < 0.7 else 6.8
    axes.text(
        bar.value + top * 0.015,
        row,
        note,
        va="center",
        ha="left",
        color=ink,
        fontsize=size,
        bbox=_PLATE,
    )


def _columns(figure: "Figure", bars: Sequence[Bar], unit: Unit, fair: float, width: float) -> None:
    axes = plain_axes(figure, grid="y")
    room = (width - 40) / len(bars)
    thickness = 0.74 if room > 8 else 0.9
    colours = [
        _colour(bar) if room >= MIN_COLOURED_WIDTH or bar.is_fenced else NO_RACK for bar in bars
    ]
    top = max([fair, *(bar.value for bar in bars)]) or 1
    solid = [bar.value - bar.hatched for bar in bars]
    is_hatched = room >= _MIN_HATCHED_WIDTH
    _one_shape_each(axes, [(0, height) for height in solid], colours, thickness)
    if not is_hatched:
        tops = [(low, bar.value) for low, bar in zip(solid, bars, strict=True)]
        _one_shape_each(axes, tops, colours, thickness, alpha=0.4)
    for x, bar in enumerate(bars):
        if bar.hatched and is_hatched:
            look = _hatching(colours[x])
            axes.bar(x, bar.hatched, bottom=solid[x], width=thickness, **look)
        if bar.is_idle:
            axes.bar(x, fair, width=thickness, **_missing())
    _column_figures(axes, bars, unit, room)
    axes.axhline(fair, **_FAIR_LINE)
    axes.text(
        1.005,
        fair,
        f"fair\nshare\n{unit(fair)}",
        transform=axes.get_yaxis_transform(),
        va="center",
        ha="left",
        color=FAIR,
    )
    axes.set_xlim(-0.7, len(bars) - 0.3)
    axes.set_ylim(0, top * 1.1)
    _value_axis(axes.yaxis, unit)
    _column_labels(axes, bars, room)


def _one_shape_each(
    axes: "Axes",
    spans: Sequence[tuple[float, float]],
    colours: Sequence[str],
    thickness: float,
    alpha: float = 1.0,
) -> None:
    """Draw the columns of each colour, from where to where, as one shape: there may be hundreds."""
    from matplotlib.patches import PathPatch, Rectangle
    from matplotlib.path import Path

    half = thickness / 2
    for colour in sorted(set(colours)):
        columns = [
            Rectangle((x - half, low), thickness, high - low)
            for x, (low, high) in enumerate(spans)
            if colours[x] == colour and high > low
        ]
        shapes = [column.get_transform().transform_path(column.get_path()) for column in columns]
        if shapes:
            path = Path.make_compound_path(*shapes)
            axes.add_patch(PathPatch(path, color=colour, alpha=alpha, linewidth=0))


def _column_figures(axes: "Axes", bars: Sequence[Bar], unit: Unit, room: float) -> None:
    """Write each value on its column, where all of them have room."""
    texts = [unit(bar.value) for bar in bars]
    if room < _LETTER * max(map(len, texts)):
        return
    for x, (bar, text) in enumerate(zip(bars, texts, strict=True)):
        colour = ALERT if bar.is_idle else MUTED if bar.is_fenced else INK
        axes.annotate(
            text,
            (x, bar.value),
            xytext=(0, 1.5),
            textcoords="offset points",
            ha="center",
            va="bottom",
            color=colour,
            fontsize=7.0,
            bbox=_PLATE,
        )


def _column_labels(axes: "Axes", bars: Sequence[Bar], room: float) -> None:
    if room >= _LETTER * max(len(str(bar.broker_id)) for bar in bars):
        axes.set_xticks(range(len(bars)), [str(bar.broker_id) for bar in bars], fontsize=7.5)
        for label, bar in zip(axes.get_xticklabels(), bars, strict=True):
            label.set_color(ALERT if bar.is_idle else MUTED)
        return
    live = [bar for bar in bars if not bar.is_fenced]
    idle = [bar.broker_id for bar in live if bar.is_idle]
    last_ids = idle or [bar.broker_id for bar in live[-_ENDS_NAMED:]]
    first_ids = ", ".join(str(bar.broker_id) for bar in live[:_ENDS_NAMED])
    axes.set_xticks([])
    for x, side, text, colour in (
        (0, "left", f"max: {first_ids}", MUTED),
        (1, "right", f"{'idle' if idle else 'min'}: {_ids(last_ids)}", ALERT if idle else MUTED),
    ):
        axes.text(x, -0.03, text, transform=axes.transAxes, va="top", ha=side, color=colour)


def _ids(broker_ids: Sequence[int]) -> str:
    shown = ", ".join(map(str, broker_ids[:_ENDS_NAMED]))
    return f"{shown} …" if len(broker_ids) > _ENDS_NAMED else shown


def _hatching(colour: str) -> dict[str, Any]:
    return {"facecolor": "none", "edgecolor": colour, "hatch": "//////", "linewidth": 0.8}


def _missing() -> dict[str, Any]:
    return {"facecolor": "none", "edgecolor": ALERT, "linestyle": (0, (3, 2)), "linewidth": 1.1}


def _value_axis(axis: Any, unit: Unit) -> None:
    """Set few, round ticks; whole numbers only, since brokers, replicas and bytes are."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=4, integer=True, min_n_ticks=1))
    axis.set_major_formatter(FuncFormatter(lambda value, _: unit(value)))
