"""Measures over time: lines that break at gaps, and below them a band for each kind of event.

    bands = [EventBand("failover", [(time, time)])]
    over_time(times, [Line("leaders", values, colour)], name="spread", label="...", unit=count,
              wide=True, breaks=(7,), bands=bands)

Where there are more points than the chart has room for, the highest and the lowest of each interval
are drawn.
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
# Units along the axis; of the points within them only the highest and the lowest are drawn.
_POINT_WIDTH: Final = 3.2
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
    """Draw lines over time, from zero up, broken before the points in `breaks`.

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
    """Draw one path, interrupted at breaks, and dots for points without neighbours."""
    xs: list[float] = []
    ys: list[float] = []
    single_points: list[tuple[float, float]] = []
    interval = (days[-1] - days[0]) / room
    for points in _joined(line.values, breaks):
        if len(points) == 1:
            single_points.append((days[points[0]], line.values[points[0]]))
        drawn = _thinned(points, days, line.values, interval)
        xs += [*(days[point] for point in drawn), math.nan]
        ys += [*(line.values[point] for point in drawn), math.nan]
    style: dict[str, Any] = {"color": line.colour, "clip_on": False, "markersize": 2.6}
    marker = "o" if len(days) <= _MAX_MARKERS else ""
    axes.plot(xs, ys, linestyle=line.style, linewidth=1.6, marker=marker, label=line.label, **style)
    if single_points and not marker:
        axes.plot(*zip(*single_points, strict=True), linestyle="", marker="o", **style)


def _joined(values: Sequence[float], breaks: set[int]) -> Iterator[list[int]]:
    """Yield the indexes of the points that one unbroken line joins.

    Values [1, 2, NaN, 3, 4] with a break before 4 are joined as [0, 1], [3] and [4].
    """
    joined: list[int] = []
    for index, value in enumerate(values):
        if joined and (index in breaks or not math.isfinite(value)):
            yield joined
            joined = []
        if math.isfinite(value):
            joined.append(index)
    if joined:
        yield joined


def _thinned(
    points: Sequence[int], days: Sequence[float], values: Sequence[float], interval: float
) -> list[int]:
    """Return both ends, and the highest and the lowest point of every `interval` (in days)."""
    if interval <= 0:
        return list(points)
    by_interval: dict[int, list[int]] = {}
    for point in points:
        number = int((days[point] - days[0]) / interval)
        by_interval.setdefault(number, []).append(point)
    kept = {points[0], points[-1]}
    for neighbours in by_interval.values():
        kept.add(min(neighbours, key=lambda point: values[point]))
        kept.add(max(neighbours, key=lambda point: values[point]))
    return sorted(kept)


def _draw_bands(axes: "Axes", below: "Axes", bands: Sequence[EventBand], interval: float) -> None:
    """Draw a dot for each event, a bar where it lasted; few events also cross the lines above."""
    starts = sorted({start for band in bands for start, _ in band.spans})
    if len(starts) <= _MAX_VERTICAL_LINES:
        for start in day_numbers(starts):
            axes.axvline(start, color=MUTED, linewidth=0.7, linestyle=(0, (2, 2)), zorder=0.5)
    for row, band in enumerate(bands):
        colour = ALERT if band.is_alert else INK
        starts_of_band = day_numbers(start for start, _ in band.spans)
        ends_of_band = day_numbers(end for _, end in band.spans)
        spans = _merged(list(zip(starts_of_band, ends_of_band, strict=True)), interval)
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


def _merged(spans: Sequence[tuple[float, float]], interval: float) -> list[tuple[float, float]]:
    """Return the spans, those that would overlap in the chart merged."""
    merged: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if merged and start - merged[-1][0] < interval:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged
