"""Bands below a chart over time: a row for each kind of event, with a dot for each event and a bar
where it lasted.

    axes, below = axes_with_bands(figure, bands, height=150.0, grid="y")
    draw_bands(axes, below, bands, interval=0.1)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from counterpoise.reporting.charts.frame import day_numbers
from counterpoise.reporting.svg import ALERT, INK, MUTED, calm

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BAND_HEIGHT: Final = 10.5  # units
_MAX_VERTICAL_LINES: Final = 12  # events that are also drawn through the chart


@dataclass(frozen=True, slots=True)
class EventBand:
    """One kind of event: from when until when each was."""

    label: str
    spans: Sequence[tuple[datetime, datetime]]
    is_alert: bool = False

    def from_(self, begin: datetime) -> "EventBand":
        """Return what of it there was since then."""
        spans = [(max(start, begin), end) for start, end in self.spans if end >= begin]
        return EventBand(self.label, spans, self.is_alert)


def axes_with_bands(
    figure: "Figure", bands: Sequence[EventBand], height: float, *, grid: str
) -> "tuple[Axes, Axes | None]":
    """Return axes for a chart that is about `height` units high, and for the bands when there are
    any.
    """
    if not bands:
        axes = figure.add_subplot()
        calm(axes, grid=grid)
        return axes, None
    rows = figure.add_gridspec(2, 1, height_ratios=[height, BAND_HEIGHT * len(bands)], hspace=0.02)
    axes = figure.add_subplot(rows[0])
    below = figure.add_subplot(rows[1], sharex=axes)
    calm(axes, grid=grid)
    calm(below, grid="x")
    axes.tick_params(labelbottom=False)
    return axes, below


def draw_bands(axes: "Axes", below: "Axes", bands: Sequence[EventBand], interval: float) -> None:
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
            markersize=3.6,
            markeredgewidth=0,  # an edge would be said of each dot
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
