"""Values of the charts that templates/charts.html writes as SVG: no picture is drawn here.

    chart = bar_chart("Bytes on disk", format_bytes, [1, 2], was=[3e9, 1e9], promise=[2e9, 2e9])
    {% from "charts.html" import bars %}{{ bars(chart) }}        {# in a template #}

A chart keeps its values as they were measured (bytes, bytes per second, counts). The numbers at its
axis are divided, so that they have one unit. None is a value that nobody knows.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from counterpoise.units import format_count

Unit = Callable[[float], str]  # as units.format_bytes
Values = Sequence[float | None]
Point = tuple[float, float | None]  # from 0 to 1 over the time of the chart, and a value
Tick = tuple[float, str]

HEAT_LEVELS: Final = 7  # style.css has .cell0 (far below its share) to .cell6 (far above)
# Value / fair share up to which a cell has a level.
_HEAT_LIMITS: Final = (0.6, 0.78, 0.9, 1.1, 1.22, 1.4)
# What the levels mean for a broker over time, from least to most.
HEAT_WORDS: Final = (
    "up to 60 %",
    "up to 78 %",
    "up to 90 %",
    "90 to 110 % of the fair share",
    "up to 122 %",
    "up to 140 %",
    "more",
)
MAX_TIPS: Final = 60  # brokers of a chart with tooltips; the table has the figures of more
_DRAWN_POINTS: Final = 600  # of a line: what a chart has room for, twice
_NICE_STEPS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
_ROOM_ABOVE: Final = 1.06  # the highest value stays below the top of the chart
_MAX_TIMES: Final = 6  # below a chart, so that they stay apart at 334 px
_SECOND, _MINUTE, _HOUR, _DAY = 1, 60, 3_600, 86_400
_TIME_STEPS: Final = (
    *(count * _SECOND for count in (1, 5, 10, 15, 30)),
    *(count * _MINUTE for count in (1, 2, 5, 10, 15, 30)),
    *(count * _HOUR for count in (1, 2, 3, 6, 12)),
    *(count * _DAY for count in (1, 2, 7, 14, 30, 90, 365)),
)
_SIZES: Final = {"kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}


@dataclass(frozen=True, slots=True)
class BarChart:
    """A value of each broker in up to four forms: was, now, promised, best possible."""

    title: str
    unit: str  # of the numbers at the axis
    lead: str  # at the right of the title
    alt: str
    ids: tuple[int, ...]
    tips: tuple[str, ...]  # of each broker
    was: tuple[float, ...] | None  # None: this form is not drawn
    now: tuple[float, ...] | None
    promise: tuple[float, ...] | None
    best: tuple[float, ...] | None
    top: float
    ticks: tuple[Tick, ...]
    marks: Mapping[int, tuple[str, str]]  # by broker: "new" or "down", and the word below it


@dataclass(frozen=True, slots=True)
class ChartEvent:
    x: float
    number: str  # "" where the chart below the first one repeats it
    text: str
    kind: str = ""  # "bad"


@dataclass(frozen=True, slots=True)
class LineChart:
    title: str
    unit: str
    lead: str
    alt: str
    lines: tuple[tuple[str, tuple[Point, ...]], ...]  # by the classes of style.css: l1, dash, fair
    area: tuple[Point, ...] | None  # filled down to zero
    top: float
    ticks: tuple[Tick, ...]
    times: tuple[Tick, ...]
    events: tuple[ChartEvent, ...]
    now: float | None
    begin: float  # seconds since the epoch
    end: float


@dataclass(frozen=True, slots=True)
class HeatOverTime:
    """A row for each broker, over time; the colour is its part of the fair share."""

    alt: str
    names: tuple[str, ...]
    levels: tuple[tuple[tuple[float, float, int], ...], ...]  # of each: begin, end (0 to 1), row
    times: tuple[Tick, ...]


def bar_chart(
    title: str,
    unit: Unit,
    ids: Sequence[int],
    *,
    was: Values | None = None,
    now: Values | None = None,
    promise: Values | None = None,
    best: Values | None = None,
    words: tuple[str, str, str] = ("before", "now", "after"),
    marks: Mapping[int, tuple[str, str]] | None = None,
    racks: Mapping[int, str | None] | None = None,
    lead: str | None = None,
    best_word: str = "best possible",
) -> BarChart:
    """Return the chart of a measure; `words` name was, now and promised in the tips."""
    named = (*words, best_word)
    forms = (was, now, promise, best)
    highest = max((value for form in forms for value in form or () if value is not None), default=0)
    axis = Axis.of(highest, unit)
    if lead is None:
        lead = _lead(axis, was, now, promise, best)
    return BarChart(
        title=title,
        unit=axis.unit,
        lead=lead,
        alt=f"{title} per broker: {lead.replace('→', 'to') or 'see the table'}",
        ids=tuple(ids),
        tips=tuple(
            _tip(broker_id, index, (racks or {}).get(broker_id), unit, named, forms)
            for index, broker_id in enumerate(ids)
        ),
        was=_known(was),
        now=_known(now),
        promise=_known(promise),
        best=_known(best),
        top=axis.top,
        ticks=axis.ticks,
        marks=marks or {},
    )


def line_chart(
    title: str,
    unit: Unit,
    begin: datetime,
    end: datetime,
    lines: Iterable[tuple[str, Iterable[tuple[datetime, float | None]]]],
    *,
    is_filled: bool = False,
    events: Iterable[tuple[datetime, str, str, str]] = (),
    now: datetime | None = None,
    lead: str = "",
    top: float | None = None,
) -> LineChart:
    """Return measures over time; the first line is filled where `is_filled`.

    An event is its time, its number ("": drawn without), its text and its kind.
    """
    span = max((end - begin).total_seconds(), 1.0)

    def place(at: datetime) -> float:
        return (at - begin).total_seconds() / span

    placed = tuple(
        (kind, _thinned([(place(at), value) for at, value in points])) for kind, points in lines
    )
    highest = max((y for _, points in placed for _, y in points if y is not None), default=0)
    axis = Axis.of(highest if top is None else top, unit)
    first = [point for point in placed[0][1] if point[1] is not None] if placed else []
    return LineChart(
        title=title,
        unit=axis.unit,
        lead=lead,
        alt=f"{title} over time{': ' if lead else ''}{lead}",
        lines=placed,
        area=tuple(first) if is_filled and first else None,
        top=axis.top,
        ticks=axis.ticks,
        times=_times(begin, end),
        events=tuple(
            ChartEvent(place(at), number, text, kind) for at, number, text, kind in events
        ),
        now=None if now is None else place(now),
        begin=begin.timestamp(),
        end=begin.timestamp() + span,
    )


def heat_over_time(
    title: str,
    names: Sequence[str],
    columns: Sequence[tuple[datetime, datetime]],
    rows: Sequence[Values],
) -> HeatOverTime:
    """Return brokers over time; a value is a part of the fair share, None is blank. Neighbours of
    one level are drawn as one.
    """
    begin, end = columns[0][0], columns[-1][1]
    span = max((end - begin).total_seconds(), 1.0)
    edges = [tuple((at - begin).total_seconds() / span for at in column) for column in columns]
    levels: list[list[tuple[float, float, int]]] = [[] for _ in range(HEAT_LEVELS)]
    for row, values in enumerate(rows):
        last: tuple[int, float] | None = None  # the level and the end of what is drawn
        for value, (left, right) in zip(values, edges, strict=True):
            if value is None:
                last = None
                continue
            level = sum(value > limit for limit in _HEAT_LIMITS)
            if last == (level, left):
                left = levels[level].pop()[0]
            levels[level].append((left, right, row))
            last = (level, right)
    return HeatOverTime(title, tuple(names), tuple(map(tuple, levels)), _times(begin, end))


def _thinned(points: Sequence[Point]) -> tuple[Point, ...]:
    """Return of each part of the time the lowest and the highest value, where there are many; gaps
    stay.
    """
    if len(points) <= _DRAWN_POINTS:
        return tuple(points)
    parts: dict[int, list[Point]] = {}
    for point in points:
        parts.setdefault(int(point[0] * _DRAWN_POINTS / 2), []).append(point)
    kept: list[Point] = []
    for part in parts.values():
        known = [point for point in part if point[1] is not None]
        ends = {min(known, key=_value), max(known, key=_value)} if known else set()
        gaps = [point for point in part if point[1] is None][:1]
        kept += sorted([*ends, *gaps], key=lambda point: point[0])
    return tuple(kept)


def _value(point: Point) -> float:
    return point[1] or 0.0


@dataclass(frozen=True, slots=True)
class Axis:
    """The numbers beside a chart, all in one unit."""

    unit: str
    divisor: float
    top: float
    ticks: tuple[Tick, ...]

    @classmethod
    def of(cls, highest: float, unit: Unit) -> "Axis":
        word = unit(highest).partition(" ")[2]
        divisor = _SIZES.get(word.removesuffix("/s"), 1.0)
        step = _nice(highest / divisor / 2)
        if not word:
            step = max(1.0, math.floor(step))  # there is no half a replica
        numbers = [index * step for index in range(math.floor(highest / divisor / step + 1e-9) + 1)]
        ticks = tuple((number * divisor, f"{number:,g}") for number in numbers)
        return cls(word, divisor, (highest or divisor) * _ROOM_ABOVE, ticks)

    def number(self, value: float) -> str:
        """Return a value as a number of the axis's unit."""
        scaled = value / self.divisor
        return format_count(
            round(scaled) if scaled >= 10 or self.divisor == 1 else round(scaled, 1)
        )


def _nice(number: float) -> float:
    """Return the largest of 1, 2, 2.5, 5 times a power of ten that is no more than a number."""
    if number <= 0:
        return 1.0
    power: float = 10 ** math.floor(math.log10(number))
    return max(step for step in _NICE_STEPS if step * power <= number * (1 + 1e-9)) * power


def _lead(
    axis: Axis, was: Values | None, now: Values | None, promise: Values | None, best: Values | None
) -> str:
    """Return `most 119 → 94, promised 77`, or `most 119 → 77, best 76` before anything moves."""
    highest = [None if form is None else _highest(form) for form in (was, now, promise, best)]
    before, present, promised, possible = (
        None if value is None else axis.number(value) for value in highest
    )
    after = present if present is not None else promised
    parts = [] if after is None else [f"most {before} → {after}" if before else f"most {after}"]
    if present is not None and promised is not None:
        parts.append(f"promised {promised}")
    elif possible is not None:
        parts.append(f"best {possible}")
    return ", ".join(parts)


def _highest(values: Values) -> float:
    return max((value for value in values if value is not None), default=0)


def _known(values: Values | None) -> tuple[float, ...] | None:
    return None if values is None else tuple(value or 0 for value in values)


def _tip(
    broker_id: int,
    index: int,
    rack: str | None,
    unit: Unit,
    words: Sequence[str],
    forms: Sequence[Values | None],
) -> str:
    lines = [f"Broker {broker_id}, rack {rack}" if rack else f"Broker {broker_id}"]
    for word, form in zip(words, forms, strict=True):
        if form is not None:
            value = form[index]
            lines.append(f"{word}: {'not known' if value is None else unit(value)}")
    return "\n".join(lines)


def _times(begin: datetime, end: datetime) -> tuple[Tick, ...]:
    """Return round times (UTC) within the chart; its beginning where it has none."""
    seconds = max((end - begin).total_seconds(), 1.0)
    step = next((step for step in _TIME_STEPS if seconds / step <= _MAX_TIMES), _TIME_STEPS[-1])
    form = _time_form(step, seconds)
    first = math.ceil(begin.timestamp() / step) * step
    count = max(0, math.floor((end.timestamp() - first) / step) + 1)
    found = [datetime.fromtimestamp(first + index * step, UTC) for index in range(count)]
    if not found:
        return ((0.0, f"{begin.astimezone(UTC):{form}}"),)
    return tuple(((at - begin) / timedelta(seconds=seconds), f"{at:{form}}") for at in found)


def _time_form(step: int, seconds: float) -> str:
    if step < _MINUTE:
        return "%H:%M:%S"
    if step < _DAY:
        return "%H:%M" if seconds <= 2 * _DAY else "%a %H:%M"
    return "%a" if seconds <= 8 * _DAY else "%-d %b"
