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

from counterpoise.reporting.charts.bands import (
    BAND_HEIGHT,
    EventBand,
    axes_with_bands,
    draw_bands,
)
from counterpoise.reporting.charts.frame import CARD, WIDE, Unit, day_numbers, write_dates
from counterpoise.reporting.svg import GRID, inline_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAX_MARKERS: Final = 40  # points that each get a dot
# Units along the axis; of the points within them only the highest and the lowest are drawn.
_POINT_WIDTH: Final = 3.2
_PLOT: Final = 190.0


@dataclass(frozen=True, slots=True)
class Line:
    """One measure over time, NaN where it is not known; `style` is a matplotlib line style, so that
    colours are not the only difference."""

    label: str
    values: Sequence[float]
    colour: str
    style: str = "-"


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
        height=_PLOT + BAND_HEIGHT * len(bands),
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

    axes, below = axes_with_bands(figure, bands, _PLOT - 40, grid="y")
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
        draw_bands(axes, below, bands, (days[-1] - days[0]) / room)


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
