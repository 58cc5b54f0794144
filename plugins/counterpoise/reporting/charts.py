"""The pictures: bars per broker against the fair share, before and after, evenness over time.

    broker_bars(bars, name="leaders", label="Leaders per broker", unit=str, wide=True)

Few brokers become rows with a name and a number each; many become columns from most to least, where only the ends
are named. Limits: from some 2,000 brokers on, columns are thinner than a pixel.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup

from counterpoise.reporting.svg import (
    AFTER,
    ALERT,
    BEFORE,
    FAIR,
    GRID,
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

WIDE: Final = 720.0
CARD: Final = 245.0
_MOST_ROWS: Final = 12
_MOST_ROWS_NARROW: Final = 48
_ENDS_NAMED: Final = 3
_LEAST_HATCHED: Final = 6.0  # units; a thinner column is drawn pale instead of hatched
_MOST_WORDS: Final = 8  # of marks over time; more of them would lie on one another
_LEAST_COLOURED: Final = 2.0  # units; side by side, thinner columns of many colours only look grey
_LEAST_APART: Final = 5.0  # units for one broker before and after; with less, bars grow together to a silhouette
_LETTER: Final = 5.4  # units that one character of a label takes, about

# What lies under a number, so that a line that crosses it does not strike it through.
_PLATE: Final = {"facecolor": SURFACE, "edgecolor": "none", "pad": 0.8}

Unit = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Bar:
    """One broker's value. `hatched` is the part of it that is not as it should be."""

    broker_id: int
    value: int
    rack_index: int | None
    hatched: int = 0
    is_idle: bool = False
    is_fenced: bool = False


@dataclass(frozen=True, slots=True)
class Pair:
    broker_id: int
    before: int
    after: int
    best: int | None = None  # where no plan could do better


@dataclass(frozen=True, slots=True)
class Line:
    """One measure over time; `style` is a matplotlib line style, so that colours are not the only difference."""

    label: str
    values: Sequence[float]
    colour: str
    style: str = "-"


def broker_bars(
    bars: Sequence[Bar], *, name: str, label: str, unit: Unit, fair: float, wide: bool = False, named: bool = False
) -> Markup:
    """Bars against the fair share (the mean over live brokers), for a whole row of the page or a card.

    With `named`, up to 48 brokers are rows, so that each has its name and number; else up to 12.
    """
    width = WIDE if wide else CARD
    if len(bars) <= (_MOST_ROWS_NARROW if named else _MOST_ROWS):
        ordered = list(bars) if len(bars) <= _MOST_ROWS else _most_first(bars)
        height = 34.0 + len(ordered) * (24.0 if len(ordered) <= _MOST_ROWS else 13.0)
        return inline_svg(lambda f: _rows(f, ordered, unit, fair), name=name, label=label, width=width, height=height)
    ordered = _most_first(bars)
    return inline_svg(
        lambda f: _columns(f, ordered, unit, fair, width),
        name=name,
        label=label,
        width=width,
        height=210.0 if wide else 190.0,
    )


def before_after(pairs: Sequence[Pair], *, name: str, label: str, unit: Unit, wide: bool = False) -> Markup:
    """Each broker before and after: two bars for few brokers, a bar with a mark where it was for many.

    A dark line is the best possible, where the pairs tell it.
    """
    width = WIDE if wide else CARD
    if len(pairs) <= _MOST_ROWS:
        height = 30.0 + 30.0 * len(pairs)
        return inline_svg(lambda f: _pair_rows(f, pairs, unit), name=name, label=label, width=width, height=height)
    draw = _pair_columns if width / len(pairs) > _LEAST_APART else _pair_steps
    return inline_svg(lambda f: draw(f, pairs, unit), name=name, label=label, width=width, height=170.0)


def over_time(
    times: Sequence[datetime],
    lines: Sequence[Line],
    marks: Sequence[tuple[datetime, str]],
    *,
    name: str,
    label: str,
    unit: Unit,
    wide: bool,
) -> Markup:
    """Lines over time, from zero up; each mark is a dashed upright line with a word."""
    size = (WIDE, 190.0) if wide else (CARD, 190.0)
    return inline_svg(
        lambda f: _lines(f, times, lines, marks, unit), name=name, label=label, width=size[0], height=size[1]
    )


def _most_first(bars: Sequence[Bar]) -> list[Bar]:
    return sorted(bars, key=lambda bar: (bar.is_fenced, -bar.value, bar.broker_id))


def _colour(bar: Bar) -> str:
    return MUTED if bar.is_fenced else rack_colour(bar.rack_index)


def _rows(figure: "Figure", bars: Sequence[Bar], unit: Unit, fair: float) -> None:
    axes = plain_axes(figure, grid="x")
    thickness = 0.62 if len(bars) <= _MOST_ROWS else 0.72
    top = max([fair, *(bar.value for bar in bars)]) or 1
    for at, bar in enumerate(bars):
        _one_row(axes, at, bar, unit, fair, top, thickness)
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


def _one_row(axes: "Axes", at: int, bar: Bar, unit: Unit, fair: float, top: float, thickness: float) -> None:
    colour = _colour(bar)
    solid = bar.value - bar.hatched
    axes.barh(at, solid, height=thickness, color=colour, linewidth=0)
    if bar.hatched:
        axes.barh(at, bar.hatched, left=solid, height=thickness, **_hatching(colour))
    note, ink = unit(bar.value), INK
    if bar.is_idle:
        axes.barh(at, fair, height=thickness, **_missing())
        note, ink = "idle: holds nothing", ALERT
    elif bar.is_fenced:
        note, ink = f"{note} (dead)", MUTED
    size = 7.8 if thickness < 0.7 else 6.8
    axes.text(bar.value + top * 0.015, at, note, va="center", ha="left", color=ink, fontsize=size, bbox=_PLATE)


def _columns(figure: "Figure", bars: Sequence[Bar], unit: Unit, fair: float, width: float) -> None:
    axes = plain_axes(figure, grid="y")
    room = (width - 40) / len(bars)
    thickness = 0.74 if room > 8 else 0.9
    colours = [_colour(bar) if room >= _LEAST_COLOURED or bar.is_fenced else NO_RACK for bar in bars]
    at = range(len(bars))
    top = max([fair, *(bar.value for bar in bars)]) or 1
    solid = [bar.value - bar.hatched for bar in bars]
    axes.bar(at, solid, width=thickness, color=colours, linewidth=0)
    for x, bar in enumerate(bars):
        if bar.hatched:
            look = _hatching(colours[x]) if room >= _LEAST_HATCHED else {"color": colours[x], "alpha": 0.4}
            axes.bar(x, bar.hatched, bottom=solid[x], width=thickness, **look)
        if bar.is_idle:
            axes.bar(x, fair, width=thickness, **_missing())
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


def _column_labels(axes: "Axes", bars: Sequence[Bar], room: float) -> None:
    if room >= _LETTER * max(len(str(bar.broker_id)) for bar in bars):
        axes.set_xticks(range(len(bars)), [str(bar.broker_id) for bar in bars], fontsize=7.5)
        for label, bar in zip(axes.get_xticklabels(), bars, strict=True):
            label.set_color(ALERT if bar.is_idle else MUTED)
        return
    live = [bar for bar in bars if not bar.is_fenced]
    idle = [bar.broker_id for bar in live if bar.is_idle]
    least = idle or [bar.broker_id for bar in live[-_ENDS_NAMED:]]
    most = ", ".join(str(bar.broker_id) for bar in live[:_ENDS_NAMED])
    axes.set_xticks([])
    for x, side, text, colour in (
        (0, "left", f"most: {most}", MUTED),
        (1, "right", f"{'idle' if idle else 'least'}: {_some(least)}", ALERT if idle else MUTED),
    ):
        axes.text(x, -0.03, text, transform=axes.transAxes, va="top", ha=side, color=colour)


def _some(broker_ids: Sequence[int]) -> str:
    shown = ", ".join(map(str, broker_ids[:_ENDS_NAMED]))
    return f"{shown} …" if len(broker_ids) > _ENDS_NAMED else shown


def _hatching(colour: str) -> dict[str, Any]:
    return {"facecolor": "none", "edgecolor": colour, "hatch": "//////", "linewidth": 0.8}


def _missing() -> dict[str, Any]:
    return {"facecolor": "none", "edgecolor": ALERT, "linestyle": (0, (3, 2)), "linewidth": 1.1}


_FAIR_LINE: Final[dict[str, Any]] = {"color": FAIR, "linewidth": 1.3, "linestyle": (0, (5, 2))}


def _value_axis(axis: Any, unit: Unit) -> None:
    """Few, round ticks; whole numbers only, since brokers, replicas and bytes are."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=4, integer=True, min_n_ticks=1))
    axis.set_major_formatter(FuncFormatter(lambda value, _: unit(value)))


def _pair_rows(figure: "Figure", pairs: Sequence[Pair], unit: Unit) -> None:
    axes = plain_axes(figure, grid="x")
    top = max(max(pair.before, pair.after, pair.best or 0) for pair in pairs) or 1
    look: dict[str, Any] = {"va": "center", "ha": "left", "fontsize": 7.4, "bbox": _PLATE, "zorder": 5}
    for at, pair in enumerate(pairs):
        for offset, value, colour in ((-0.2, pair.before, BEFORE), (0.2, pair.after, AFTER)):
            axes.barh(at + offset, value, height=0.36, color=colour, linewidth=0)
            ink = MUTED if colour == BEFORE else INK
            axes.text(value + top * 0.02, at + offset, unit(value), color=ink, **look)
        if pair.best is not None:
            axes.plot([pair.best] * 2, [at - 0.43, at + 0.43], color=FAIR, linewidth=1.6, solid_capstyle="butt")
    axes.set_yticks(range(len(pairs)), [str(pair.broker_id) for pair in pairs], color=INK)
    axes.set_ylim(len(pairs) - 0.45, -0.55)
    axes.set_xlim(0, top * 1.2)
    _value_axis(axes.xaxis, unit)


def _pair_columns(figure: "Figure", pairs: Sequence[Pair], unit: Unit) -> None:
    axes = plain_axes(figure, grid="y")
    at = range(len(pairs))
    axes.bar(at, [pair.before for pair in pairs], width=0.8, color=BEFORE, linewidth=0)
    axes.bar(at, [pair.after for pair in pairs], width=0.8, color=AFTER, linewidth=0)
    for x, pair in enumerate(pairs):
        axes.plot([x - 0.46, x + 0.46], [pair.before] * 2, color=INK, linewidth=1.5, solid_capstyle="butt", zorder=3)
    _best_steps(axes, pairs)
    _broker_axis(axes, pairs, unit)


def _pair_steps(figure: "Figure", pairs: Sequence[Pair], unit: Unit) -> None:
    """Two outlines instead of bars: one path each, also for a thousand brokers."""
    axes = plain_axes(figure, grid="y")
    edges = [at - 0.5 for at in range(len(pairs) + 1)]
    before, after = [pair.before for pair in pairs], [pair.after for pair in pairs]
    room = figure.get_figwidth() * 72 / len(pairs)
    axes.stairs(before, edges, fill=True, color=BEFORE, linewidth=0)
    axes.stairs(after, edges, fill=True, color=AFTER, linewidth=0)
    if room >= _LEAST_COLOURED:  # with less, a line is a tangle
        axes.stairs(before, edges, baseline=None, color=INK, linewidth=0.9, zorder=3)
    _best_steps(axes, pairs)
    _broker_axis(axes, pairs, unit)


def _best_steps(axes: "Axes", pairs: Sequence[Pair]) -> None:
    known = [pair.best for pair in pairs if pair.best is not None]
    if len(known) == len(pairs):
        edges = [at - 0.5 for at in range(len(pairs) + 1)]
        axes.stairs(known, edges, baseline=None, color=FAIR, linewidth=1.2, linestyle=(0, (5, 2)), zorder=4)


def _broker_axis(axes: "Axes", pairs: Sequence[Pair], unit: Unit) -> None:
    axes.set_xlim(-0.7, len(pairs) - 0.3)
    step = -(-len(pairs) // 8)
    shown = range(0, len(pairs), step)
    axes.set_xticks(shown, [str(pairs[index].broker_id) for index in shown])
    axes.set_ylim(bottom=0)
    _value_axis(axes.yaxis, unit)


def _lines(
    figure: "Figure",
    times: Sequence[datetime],
    lines: Sequence[Line],
    marks: Sequence[tuple[datetime, str]],
    unit: Unit,
) -> None:
    from matplotlib.dates import date2num
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes = plain_axes(figure, grid="y")
    days = date2num(list(times))  # type: ignore[no-untyped-call]
    marker = "o" if len(times) <= 40 else ""
    for line in lines:
        axes.plot(
            days,
            line.values,
            color=line.colour,
            linestyle=line.style,
            linewidth=1.6,
            marker=marker,
            markersize=2.6,
            clip_on=False,
            label=line.label,
        )
    marked = date2num([at for at, _ in marks])  # type: ignore[no-untyped-call]
    words = [word if len(marks) <= _MOST_WORDS else "" for _, word in marks]
    for at, word in zip(marked, words, strict=True):
        axes.axvline(at, color=ALERT, linewidth=0.9, linestyle=(0, (2, 2)))
        axes.annotate(
            word,
            (at, 1.0),
            xycoords=axes.get_xaxis_transform(),
            va="bottom",
            ha="center",
            color=ALERT,
            fontsize=7.6,
        )
    axes.set_ylim(0, max([1e-9, *(value for line in lines for value in line.values)]) * 1.12)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: unit(value)))
    _write_dates(axes)
    axes.spines["bottom"].set_visible(True)
    axes.spines["bottom"].set_color(GRID)


def _write_dates(axes: "Axes") -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(tz=UTC, minticks=3, maxticks=6)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    # From years to seconds: what a tick says, what it says at a boundary, and what stands once at the end of the axis.
    ticks = ["%Y", "%b", "%d", "%H:%M", "%H:%M", "%H:%M:%S"]
    boundaries = ["", "%Y", "%d %b", "%d %b", "%H:%M", "%H:%M:%S"]
    once = ["", "%Y", "%b %Y", "%d %b %Y", "%d %b %Y", "%d %b %Y"]
    formatter = ConciseDateFormatter(  # type: ignore[no-untyped-call]
        locator, tz=UTC, formats=ticks, zero_formats=boundaries, offset_formats=once
    )
    axes.xaxis.set_major_formatter(formatter)
