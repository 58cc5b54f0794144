"""Measures over time: lines that break where nothing joins two points, and below them what
happened, a row per kind.

    over_time(times, [Line("leaders", values, colour)], name="spread", label="...", unit=count, wide=True,
              breaks=(7,), bands=[EventBand("failover", [(time, time)])])

More points than the picture has room for are thinned; the highest and the lowest of each stretch
stay.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup

from counterpoise.reporting.charts.frame import CARD, WIDE, Unit, day_numbers, write_dates
from counterpoise.reporting.svg import ALERT, GRID, INK, MUTED, calm, inline_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAX_VERTICAL_LINES: Final = 12  # events that are also drawn through the lines
_MAX_MARKERS: Final = 40  # points that each get a dot
_POINT_WIDTH: Final = (
    2.4  # units along the axis from which two points, the highest and the lowest, are drawn
)
_BAND_HEIGHT: Final = 10.5  # units
_PLOT: Final = 190.0


@dataclass(frozen=True, slots=True)
class Line:
    """One measure over time, NaN where it is not known; `style` is a matplotlib line style, so that
    colours are not the only difference."""

    label: str
    values: Sequence[float]
    colour: str
    style: str = "-"


@dataclass(frozen=True, slots=True)
class EventBand:
    """One kind of event: from when until when each was."""

    label: str
    spans: Sequence[tuple[datetime, datetime]]
    is_alert: bool = False


def over_time(
    times: Sequence[datetime],
    lines: Sequence[Line],
    *,
    name: str,
    label: str,
    unit: Unit,
    wide: bool,
    breaks: Sequence[int] = (),
    bands: Sequence[EventBand] = (),
) -> Markup:
    """Lines over time, from zero up. Nothing joins the points before which `breaks` are.

    Each band is a row below, with its name: a dot for each event, a bar where it lasted.
    """
    width = WIDE if wide else CARD
    return inline_svg(
        lambda f: _draw(f, times, lines, unit, set(breaks), bands),
        name=name,
        label=label,
        width=width,
        height=_PLOT + _BAND_HEIGHT * len(bands),
    )


def _draw(
    figure: "Figure",
    times: Sequence[datetime],
    lines: Sequence[Line],
    unit: Unit,
    breaks: set[int],
    bands: Sequence[EventBand],
) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes, below = _two_axes(figure, len(bands))
    days = day_numbers(times)
    room = figure.get_figwidth() * 72 / _POINT_WIDTH
    for line in lines:
        _one_line(axes, days, line, breaks, room)
    highest = max(
        (value for line in lines for value in line.values if math.isfinite(value)), default=0
    )
    axes.set_ylim(0, highest * 1.12 or 1)
    margin = max(1e-3, (days[-1] - days[0]) * 0.01)
    axes.set_xlim(days[0] - margin, days[-1] + margin)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: unit(value)))
    axes.spines["bottom"].set_visible(True)
    axes.spines["bottom"].set_color(GRID)
    if below is None:
        write_dates(axes)
    else:
        write_dates(below)
        _draw_bands(axes, below, bands, (days[-1] - days[0]) / room)


def _two_axes(figure: "Figure", band_count: int) -> "tuple[Axes, Axes | None]":
    """Return axes for the lines, and for the bands when there are any."""
    if not band_count:
        axes = figure.add_subplot()
        calm(axes, grid="y")
        return axes, None
    grid = figure.add_gridspec(
        2, 1, height_ratios=[_PLOT - 40, _BAND_HEIGHT * band_count], hspace=0.02
    )
    axes = figure.add_subplot(grid[0])
    below = figure.add_subplot(grid[1], sharex=axes)
    calm(axes, grid="y")
    calm(below, grid="x")
    axes.tick_params(labelbottom=False)
    return axes, below


def _one_line(
    axes: "Axes", days: Sequence[float], line: Line, breaks: set[int], room: float
) -> None:
    """One path that is lifted at breaks, and dots for points that stand alone."""
    xs: list[float] = []
    ys: list[float] = []
    alone: list[tuple[float, float]] = []
    for stretch in _joined(line.values, breaks):
        if len(stretch) == 1:
            alone.append((days[stretch[0]], line.values[stretch[0]]))
        thin = _thinned(stretch, days, line.values, (days[-1] - days[0]) / room)
        xs += [*(days[at] for at in thin), math.nan]
        ys += [*(line.values[at] for at in thin), math.nan]
    look: dict[str, Any] = {"color": line.colour, "clip_on": False, "markersize": 2.6}
    marker = "o" if len(days) <= _MAX_MARKERS else ""
    axes.plot(xs, ys, linestyle=line.style, linewidth=1.6, marker=marker, label=line.label, **look)
    if alone and not marker:
        axes.plot(*zip(*alone, strict=True), linestyle="", marker="o", **look)


def _joined(values: Sequence[float], breaks: set[int]) -> Iterator[list[int]]:
    """The positions of points that a line joins."""
    stretch: list[int] = []
    for at, value in enumerate(values):
        if stretch and (at in breaks or not math.isfinite(value)):
            yield stretch
            stretch = []
        if math.isfinite(value):
            stretch.append(at)
    if stretch:
        yield stretch


def _thinned(
    stretch: Sequence[int], days: Sequence[float], values: Sequence[float], step: float
) -> list[int]:
    """Both ends of the stretch, and the highest and the lowest point of every `step` days."""
    if step <= 0:
        return list(stretch)
    kept = {stretch[0], stretch[-1]}
    cells: dict[int, list[int]] = {}
    for at in stretch:
        cells.setdefault(int((days[at] - days[0]) / step), []).append(at)
    for cell in cells.values():
        kept |= {min(cell, key=lambda at: values[at]), max(cell, key=lambda at: values[at])}
    return sorted(kept)


def _draw_bands(axes: "Axes", below: "Axes", bands: Sequence[EventBand], step: float) -> None:
    """A dot for each event, a bar where it lasted; few events are drawn through the lines, too."""
    starts = sorted({start for band in bands for start, _ in band.spans})
    if len(starts) <= _MAX_VERTICAL_LINES:
        for start in day_numbers(starts):
            axes.axvline(start, color=MUTED, linewidth=0.7, linestyle=(0, (2, 2)), zorder=0.5)
    for row, band in enumerate(bands):
        colour = ALERT if band.is_alert else INK
        firsts, lasts = (day_numbers(span[end] for span in band.spans) for end in (0, 1))
        spans = _apart(list(zip(firsts, lasts, strict=True)), step)
        below.plot(
            [first for first, _ in spans],
            [row] * len(spans),
            "D",
            color=colour,
            markersize=2.8,
            clip_on=False,
        )
        for first, last in spans:
            if last > first:
                below.plot(
                    [first, last],
                    [row, row],
                    color=colour,
                    linewidth=2.6,
                    solid_capstyle="butt",
                    alpha=0.55,
                )
    below.set_yticks(range(len(bands)), [band.label for band in bands], fontsize=7.2, color=MUTED)
    below.set_ylim(len(bands) - 0.4, -0.8)


def _apart(spans: Sequence[tuple[float, float]], step: float) -> list[tuple[float, float]]:
    """Those that would lie on one another become one."""
    apart: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if apart and start - apart[-1][0] < step:
            apart[-1] = (apart[-1][0], max(apart[-1][1], end))
        else:
            apart.append((start, end))
    return apart
