"""Heat maps of brokers over time: a row per broker, a column per period, the colour is its part of
the fair share.

    heat_picture(balance.heat_maps[0], name="heat", label="Leaders over time", wide=True)

Neighbouring cells of one colour are one rectangle, and all rectangles of one colour one path, so
that a chart of 60 brokers and 200 periods stays small.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from counterpoise.model.balance import HeatMap
from counterpoise.reporting.charts.bands import (
    BAND_HEIGHT,
    EventBand,
    axes_with_bands,
    draw_bands,
)
from counterpoise.reporting.charts.frame import (
    CARD,
    MAX_BAR_ROWS,
    WIDE,
    day_numbers,
    write_dates,
)
from counterpoise.reporting.svg import INK, heat_colour, inline_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.path import Path

_EDGES: Final = (0.1, 0.5, 0.8, 0.95, 1.05, 1.2, 1.5, 2.0)
# What each colour means, from least to most; style.css has --heat-0 to --heat-8.
HEAT_LEVELS: Final = (
    "under 10 %",
    "10 – 50 %",
    "50 – 80 %",
    "80 – 95 %",
    "95 – 105 % of the fair share",
    "105 – 120 %",
    "120 – 150 %",
    "150 – 200 %",
    "200 % and more",
)
_CELL_HEIGHT: Final = 0.88  # of a row, so that rows can be told apart

Rectangle = tuple[float, float, int]  # from, until, row


def heat_picture(
    heat: HeatMap, *, name: str, label: str, wide: bool, bands: Sequence[EventBand] = ()
) -> Markup:
    """Return the heat map, for a whole row of the page or a phone, with what happened below it."""
    rows = len(heat.broker_ids)
    each = 15.0 if rows <= MAX_BAR_ROWS else 10.0 if rows <= 3 * MAX_BAR_ROWS else 8.0
    width = WIDE if wide else CARD
    return inline_svg(
        lambda f: _draw(f, heat, each, bands),
        name=name,
        label=label,
        width=width,
        height=34.0 + rows * each + BAND_HEIGHT * len(bands),
    )


def _draw(figure: "Figure", heat: HeatMap, each: float, bands: Sequence[EventBand]) -> None:
    from matplotlib.patches import PathPatch

    axes, below = axes_with_bands(figure, bands, len(heat.broker_ids) * each, grid="x")
    axes.grid(visible=False)
    starts, ends = (day_numbers(span[end] for span in heat.columns) for end in (0, 1))
    edges = list(zip(starts, ends, strict=True))
    for level, rectangles in enumerate(_by_level(heat, edges)):
        if rectangles:
            patch = PathPatch(_path(rectangles), facecolor=heat_colour(level), linewidth=0)
            patch.set_gid(f"cells-{level}")
            axes.add_patch(patch)
    axes.set_xlim(edges[0][0], edges[-1][1])
    axes.set_ylim(len(heat.broker_ids) - 0.4, -0.6)
    labels = [str(broker_id) for broker_id in heat.broker_ids]
    axes.set_yticks(range(len(labels)), labels, color=INK, fontsize=min(8.0, each * 0.82))
    if below is None:
        write_dates(axes)
        return
    write_dates(below)
    draw_bands(axes, below, bands, (edges[-1][1] - edges[0][0]) / len(edges))


def _by_level(heat: HeatMap, edges: Sequence[tuple[float, float]]) -> list[list[Rectangle]]:
    """Return the rectangles of each colour; cells that touch and have one colour are one."""
    found: list[list[Rectangle]] = [[] for _ in HEAT_LEVELS]
    for row, values in enumerate(heat.values):
        last: tuple[int, float] | None = None  # the colour and the end of the rectangle before
        for value, (start, end) in zip(values, edges, strict=True):
            if value is None:
                last = None
                continue
            level = bisect_right(_EDGES, value)
            if last == (level, start):
                start = found[level].pop()[0]
            found[level].append((start, end, row))
            last = (level, end)
    return found


def _path(rectangles: Sequence[Rectangle]) -> "Path":
    from matplotlib.path import Path

    half = _CELL_HEIGHT / 2
    corners: list[tuple[float, float]] = []
    for start, end, row in rectangles:
        top, bottom = row - half, row + half
        corners += [(start, top), (end, top), (end, bottom), (start, bottom), (start, top)]
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * len(rectangles)
    return Path(corners, codes)
