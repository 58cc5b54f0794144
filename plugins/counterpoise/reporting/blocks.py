"""Pictures in plain text: one bar per broker, or, for many brokers, one column per few of them.

    print(plan_picture(plan, width=76))

    broker  leaders               replicas
    1       ███████│░░░░          ████████│░░░
    4       ▓▓▓▓▓▓▓│              ▓▓▓▓▓▓▓▓│

Columns stand from zero, so that a broker without anything is a gap. They show the shape; figures
belong in tables.
"""

from collections.abc import Sequence
from typing import Final

from counterpoise.model.overview import BROKERS_SHOWN, MEASURES, knows, values_of
from counterpoise.model.plan import BrokerFigure, RebalancePlan

STAYS, COMES, GOES, BEST = "█", "▓", "░", "│"
NAMES: Final = {
    "leaders": "leaders",
    "replicas": "replicas",
    "bytes": "bytes",
    "bytes_in": "bytes in",
}
_LEVELS: Final = " ▁▂▃▄▅▆▇█"
_GAP: Final = 2
_MIN_BAR, _MAX_BAR = 8, 24
_BARS_LEGEND: Final = f"{STAYS} stays  {COMES} comes  {GOES} goes  {BEST} best possible"


def plan_picture(plan: RebalancePlan, *, width: int) -> str:
    """Draw each broker before and after against the best possible, in lines of at most `width`
    characters (60 or more).

    Measures that the plan changes nowhere are left out, unless it changes none.
    """
    known = [name for name in MEASURES if knows(plan.figures, name)]
    if not known:
        return ""
    shown = [
        name for name in known if any(_changes(figure, name) for figure in plan.figures)
    ] or known
    if len(plan.figures) <= BROKERS_SHOWN:
        return _bars(plan.figures, shown, width)
    return _columns(plan.figures, shown, width)


def _changes(figure: BrokerFigure, name: str) -> bool:
    before, after, _ = values_of(figure, name)
    return before != after


def _bars(figures: Sequence[BrokerFigure], shown: Sequence[str], width: int) -> str:
    label = max(len("broker"), *(len(str(figure.broker_id)) for figure in figures)) + _GAP
    length = (width - label) // len(shown) - _GAP - 1
    length = max(_MIN_BAR, min(_MAX_BAR, length))
    columns = [[NAMES[name], *_bars_of(figures, name, length)] for name in shown]
    names = ["broker", *(str(figure.broker_id) for figure in figures)]
    lines = [
        name.ljust(label) + (" " * _GAP).join(column[at].ljust(length + 1) for column in columns)
        for at, name in enumerate(names)
    ]
    return "\n".join(line.rstrip() for line in [*lines, " " * label + _BARS_LEGEND])


def _bars_of(figures: Sequence[BrokerFigure], name: str, length: int) -> list[str]:
    rows = [values_of(figure, name) for figure in figures]
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


def _columns(figures: Sequence[BrokerFigure], shown: Sequence[str], width: int) -> str:
    label = max(len(NAMES[name]) for name in shown) + _GAP
    room = width - label - len("before") - _GAP
    each = -(-len(figures) // room)
    groups = [figures[at : at + each] for at in range(0, len(figures), each)]
    lines = []
    for name in shown:
        rows = [_means(group, name) for group in groups]
        top = max(1.0, *(value for row in rows for value in row))
        for at, when in enumerate(("before", "after", "best")):
            head = NAMES[name].ljust(label) if at == 0 else " " * label
            bars = "".join(_column(row[at], top) for row in rows)
            lines.append(f"{head}{when.ljust(6 + _GAP)}{bars}".rstrip())
    many = f"{each} brokers, their mean" if each > 1 else "one broker"
    ids = f"{figures[0].broker_id} to {figures[-1].broker_id}"
    return "\n".join([*lines, f"{' ' * (label + 6 + _GAP)}brokers {ids}; a column is {many}"])


def _means(group: Sequence[BrokerFigure], name: str) -> tuple[float, ...]:
    """Return the means before, after and at best."""
    rows = [values_of(figure, name) for figure in group]
    return tuple(sum(row[at] for row in rows) / len(group) for at in range(3))


def _column(value: float, top: float) -> str:
    return _LEVELS[max(1, round(value / top * (len(_LEVELS) - 1))) if value else 0]
