"""A plan as text: a picture for terminal and log.

    print(plan_picture(view, width=76))

    broker  leaders               replicas
    1       ███████│░░░░          ████████│░░░
    4       ▓▓▓▓▓▓▓│              ▓▓▓▓▓▓▓▓│

The picture has one bar per broker, or, for many brokers, one column per few of them. Columns stand
from zero, so that a broker without anything is a gap. They show the shape; tables have the figures.
"""

from collections.abc import Sequence
from typing import Final

from counterpoise.model.plan import BrokerFigure
from counterpoise.views.plan import BROKERS_SHOWN, Measure, PlanView

STAYS, COMES, GOES, BEST = "█", "▓", "░", "│"
_LEVELS: Final = " ▁▂▃▄▅▆▇█"
_GAP: Final = 2
_MIN_BAR, _MAX_BAR = 8, 24
_BARS_LEGEND: Final = f"{STAYS} stays  {COMES} comes  {GOES} goes  {BEST} best possible"


def plan_picture(view: PlanView, *, width: int) -> str:
    """Draw each broker before and after against the best possible, in lines of at most `width`
    characters (60 or more).

    Measures that the plan changes nowhere are left out, unless it changes none.
    """
    figures, known = view.brokers_before_and_after, view.measures
    if not known:
        return ""
    shown = [m for m in known if any(_changes(figure, m) for figure in figures)] or known
    draw = _bars if len(figures) <= BROKERS_SHOWN else _columns
    return draw(figures, shown, width)


def _changes(figure: BrokerFigure, measure: Measure) -> bool:
    before, after, _ = measure.values(figure)
    return before != after


def _bars(figures: Sequence[BrokerFigure], shown: Sequence[Measure], width: int) -> str:
    names = ["broker", *(str(figure.broker_id) for figure in figures)]
    label = max(map(len, names)) + _GAP
    length = (width - label) // len(shown) - _GAP - 1
    length = max(_MIN_BAR, min(_MAX_BAR, length))
    columns = [[m.title.lower(), *_bars_of(figures, m, length)] for m in shown]
    lines = [
        name.ljust(label) + (" " * _GAP).join(cell.ljust(length + 1) for cell in cells)
        for name, *cells in zip(names, *columns, strict=True)
    ]
    return "\n".join(line.rstrip() for line in [*lines, " " * label + _BARS_LEGEND])


def _bars_of(figures: Sequence[BrokerFigure], measure: Measure, length: int) -> list[str]:
    rows = [measure.values(figure) for figure in figures]
    top = max(1, *(value for row in rows for value in row))
    return [_bar(before, after, best, top, length) for before, after, best in rows]


def _bar(before: int, after: int, best: int, top: int, length: int) -> str:
    was, will, mark = (_cells(value, top, length) for value in (before, after, best))
    cells = STAYS * min(was, will) + (COMES * (will - was) if will > was else GOES * (was - will))
    cells = cells.ljust(mark + 1)
    return cells[:mark] + BEST + cells[mark + 1 :] if best else cells


def _cells(value: int, top: int, length: int) -> int:
    """Return the cells of a bar: at least one for any value but 0."""
    return max(1, (2 * value * length + top) // (2 * top)) if value else 0


def _columns(figures: Sequence[BrokerFigure], shown: Sequence[Measure], width: int) -> str:
    label = max(len(measure.title) for measure in shown) + _GAP
    when_width = len("before") + _GAP
    brokers_per_column = -(-len(figures) // (width - label - when_width))
    groups = [
        figures[start : start + brokers_per_column]
        for start in range(0, len(figures), brokers_per_column)
    ]
    lines = []
    for measure in shown:
        means_by_time = list(zip(*(_means(group, measure) for group in groups), strict=True))
        top = max(1.0, *map(max, means_by_time))
        head = measure.title.lower()
        for when, means in zip(("before", "after", "best"), means_by_time, strict=True):
            bars = "".join(_column(mean, top) for mean in means)
            lines.append(f"{head.ljust(label)}{when.ljust(when_width)}{bars}".rstrip())
            head = ""
    column = f"{brokers_per_column} brokers, their mean" if brokers_per_column > 1 else "one broker"
    ids = f"{figures[0].broker_id} to {figures[-1].broker_id}"
    indent = " " * (label + when_width)
    return "\n".join([*lines, f"{indent}brokers {ids}; a column is {column}"])


def _means(group: Sequence[BrokerFigure], measure: Measure) -> list[float]:
    """Return the means before, after and at best."""
    return [sum(values) / len(group) for values in zip(*map(measure.values, group), strict=True)]


def _column(value: float, top: float) -> str:
    return _LEVELS[max(1, round(value / top * (len(_LEVELS) - 1))) if value else 0]
