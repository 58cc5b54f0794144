"""Brokers before and after: two bars each for few brokers, a bar with a mark for many.

before_after([Pair(4, 0, 12)], name="leaders", label="Leaders", unit=count, wide=False)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup

from counterpoise.reporting.charts.frame import (
    CARD,
    MAX_BAR_ROWS,
    MIN_COLOURED_WIDTH,
    PLATE,
    WIDE,
    Unit,
    value_axis,
)
from counterpoise.reporting.svg import AFTER, BEFORE, FAIR, INK, MUTED, inline_svg, plain_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MIN_PAIR_WIDTH: Final = (
    5.0  # units for one broker before and after; with less, bars grow together to a silhouette
)


@dataclass(frozen=True, slots=True)
class Pair:
    broker_id: int
    before: int
    after: int
    best: int | None = None  # where no plan could do better


def before_after(
    pairs: Sequence[Pair], *, name: str, label: str, unit: Unit, wide: bool = False
) -> Markup:
    """Draw each broker before and after: two bars for few brokers, a bar with a mark where it was
    for many.

    A dark line is the best possible, where the pairs tell it.
    """
    width = WIDE if wide else CARD
    if len(pairs) <= MAX_BAR_ROWS:
        height = 30.0 + 30.0 * len(pairs)
        return inline_svg(
            lambda f: _pair_rows(f, pairs, unit), name=name, label=label, width=width, height=height
        )
    draw = _pair_columns if width / len(pairs) > _MIN_PAIR_WIDTH else _pair_steps
    return inline_svg(
        lambda f: draw(f, pairs, unit), name=name, label=label, width=width, height=170.0
    )


def _pair_rows(figure: "Figure", pairs: Sequence[Pair], unit: Unit) -> None:
    axes = plain_axes(figure, grid="x")
    top = max(max(pair.before, pair.after, pair.best or 0) for pair in pairs) or 1
    look: dict[str, Any] = {
        "va": "center",
        "ha": "left",
        "fontsize": 7.4,
        "bbox": PLATE,
        "zorder": 5,
    }
    for row, pair in enumerate(pairs):
        for offset, value, colour in ((-0.2, pair.before, BEFORE), (0.2, pair.after, AFTER)):
            axes.barh(row + offset, value, height=0.36, color=colour, linewidth=0)
            ink = MUTED if colour == BEFORE else INK
            axes.text(value + top * 0.02, row + offset, unit(value), color=ink, **look)
        if pair.best is not None:
            axes.plot(
                [pair.best] * 2,
                [row - 0.43, row + 0.43],
                color=FAIR,
                linewidth=1.6,
                solid_capstyle="butt",
            )
    axes.set_yticks(range(len(pairs)), [str(pair.broker_id) for pair in pairs], color=INK)
    axes.set_ylim(len(pairs) - 0.45, -0.55)
    axes.set_xlim(0, top * 1.2)
    value_axis(axes.xaxis, unit)


def _pair_columns(figure: "Figure", pairs: Sequence[Pair], unit: Unit) -> None:
    axes = plain_axes(figure, grid="y")
    positions = range(len(pairs))
    axes.bar(positions, [pair.before for pair in pairs], width=0.8, color=BEFORE, linewidth=0)
    axes.bar(positions, [pair.after for pair in pairs], width=0.8, color=AFTER, linewidth=0)
    for x, pair in enumerate(pairs):
        axes.plot(
            [x - 0.46, x + 0.46],
            [pair.before] * 2,
            color=INK,
            linewidth=1.5,
            solid_capstyle="butt",
            zorder=3,
        )
    _best_steps(axes, pairs)
    _broker_axis(axes, pairs, unit)


def _pair_steps(figure: "Figure", pairs: Sequence[Pair], unit: Unit) -> None:
    """Draw two outlines instead of bars: one path each, also for a thousand brokers."""
    axes = plain_axes(figure, grid="y")
    edges = [row - 0.5 for row in range(len(pairs) + 1)]
    before, after = [pair.before for pair in pairs], [pair.after for pair in pairs]
    room = figure.get_figwidth() * 72 / len(pairs)
    axes.stairs(before, edges, fill=True, color=BEFORE, linewidth=0)
    axes.stairs(after, edges, fill=True, color=AFTER, linewidth=0)
    if room >= MIN_COLOURED_WIDTH:  # with less, a line is a tangle
        axes.stairs(before, edges, baseline=None, color=INK, linewidth=0.9, zorder=3)
    _best_steps(axes, pairs)
    _broker_axis(axes, pairs, unit)


def _best_steps(axes: "Axes", pairs: Sequence[Pair]) -> None:
    known = [pair.best for pair in pairs if pair.best is not None]
    if len(known) == len(pairs):
        edges = [row - 0.5 for row in range(len(pairs) + 1)]
        axes.stairs(
            known, edges, baseline=None, color=FAIR, linewidth=1.2, linestyle=(0, (5, 2)), zorder=4
        )


def _broker_axis(axes: "Axes", pairs: Sequence[Pair], unit: Unit) -> None:
    axes.set_xlim(-0.7, len(pairs) - 0.3)
    step = -(-len(pairs) // 8)
    shown = range(0, len(pairs), step)
    axes.set_xticks(shown, [str(pairs[index].broker_id) for index in shown])
    axes.set_ylim(bottom=0)
    value_axis(axes.yaxis, unit)
