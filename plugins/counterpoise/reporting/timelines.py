"""The parts of a cluster's page that show weeks: measures over time with what happened, brokers
over time, churn. Values for the macros of templates/charts.html.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Final, NamedTuple

from counterpoise.model.balance import (
    BalancePoint,
    ClusterEvent,
    HeatMap,
    LeaderBalance,
    RackPoint,
    SnapshotChanges,
)
from counterpoise.model.words import pluralize
from counterpoise.reporting.event_words import ALERTS, event_in_words
from counterpoise.reporting.plots import (
    HeatOverTime,
    LineChart,
    Unit,
    heat_over_time,
    line_chart,
)
from counterpoise.units import format_count, format_moment, format_seconds

# Of lines: colours first, then forms.
LOOKS: Final = tuple(
    f"l{colour} {form}".strip() for form in ("", "dash") for colour in (1, 2, 3, 4)
)
MAX_RACKS: Final = len(LOOKS)  # that have a line each
_NUMBERED: Final = 12  # more events than that are lines without a number
_EVENTS_DRAWN: Final = 40
_HEAT_TITLES: Final = {
    "leaders": "Leaders of each broker over time",
    "bytes_in": "Bytes in of each broker over time",
}


class Line(NamedTuple):
    """A measure at each snapshot; NaN where it is not known."""

    label: str
    values: Sequence[float]
    look: str  # classes of style.css


class Extremes(NamedTuple):
    """A line in words, for a table."""

    label: str
    first: str
    lowest: str
    highest: str
    last: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """Lines over time, or what is said instead."""

    title: str
    chart: LineChart | None
    keys: tuple[tuple[str, str], ...] = ()  # look and label of each line
    extremes: tuple[Extremes, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class HeatSection:
    title: str
    chart: HeatOverTime
    rows: tuple[Extremes, ...]
    note: str


def timelines(balance: LeaderBalance) -> tuple[Timeline, ...]:
    """Return the charts over time; none with a single snapshot."""
    series = balance.series
    if len(series) < 2:
        return ()
    drawn = [
        _timeline(balance, _spread_lines(series), "Max − min over the live brokers", whole),
        _timeline(balance, _busiest_lines(series), "The busiest broker's fair shares", multiples),
        _timeline(balance, _variation_lines(series), "Variation between brokers", hundredths),
        _timeline(balance, _not_preferred(series), "Not led by the preferred leader", hundredths),
    ]
    if racks := _rack_lines(series):
        title = "Leaders per broker of each rack, in % of the fair share"
        drawn.append(_timeline(balance, racks, title, hundredths))
    drawn.append(_uneven_topics(balance))
    if sum(point.changes is not None for point in series) >= 2:
        title = "Partitions whose leader changed since the snapshot before"
        drawn.append(_timeline(balance, _churn_lines(series), title, whole))
    return tuple(drawn)


def _uneven_topics(balance: LeaderBalance) -> Timeline:
    """Return the chart of how many topics are led unevenly, per snapshot."""
    title = "Topics led less evenly than whole partitions allow"
    counts = [
        math.nan
        if point.changes is None or point.changes.uneven_topics is None
        else float(point.changes.uneven_topics)
        for point in balance.series
    ]
    unknown_count = sum(map(math.isnan, counts))
    if unknown_count == len(counts):
        return Timeline(title, None, note="Not known for these snapshots.")
    of_all = f"{format_count(unknown_count)} of {pluralize(len(counts), 'snapshot')}"
    note = f"Not known for {of_all}." if unknown_count else ""
    lines = [Line("uneven topics", counts, LOOKS[0])]
    return _timeline(balance, lines, title, whole, note)


def _lines(*measures: tuple[str, Sequence[float]]) -> list[Line]:
    return [
        Line(label, values, look) for (label, values), look in zip(measures, LOOKS, strict=False)
    ]


def _spread_lines(series: Sequence[BalancePoint]) -> list[Line]:
    """Return max − min per snapshot: of leaders, preferred leaders and replicas."""
    return _lines(
        ("leaders", [point.leaders.max_minus_min for point in series]),
        ("preferred leaders", [point.preferred_leaders.max_minus_min for point in series]),
        ("replicas", [point.replicas.max_minus_min for point in series]),
    )


def _busiest_lines(series: Sequence[BalancePoint]) -> list[Line]:
    """Return max / mean over the live brokers per snapshot: of leaders, bytes and bytes in."""
    measures = [
        ("leaders", [point.leaders.max_over_mean for point in series]),
        ("bytes", [point.bytes.max_over_mean for point in series]),
    ]
    if any(point.bytes_in for point in series):
        known = [point.bytes_in.max_over_mean if point.bytes_in else math.nan for point in series]
        measures.append(("bytes in", known))
    return _lines(*measures)


def _variation_lines(series: Sequence[BalancePoint]) -> list[Line]:
    """Return the variation between brokers per snapshot, in percent."""
    measures = [
        ("leaders", [100 * point.leaders.coefficient_of_variation for point in series]),
        ("replicas", [100 * point.replicas.coefficient_of_variation for point in series]),
        ("bytes", [100 * point.bytes.coefficient_of_variation for point in series]),
    ]
    if any(point.bytes_in for point in series):
        measures.append(("bytes in", [_inflow_variation(point) for point in series]))
    return _lines(*measures)


def _not_preferred(series: Sequence[BalancePoint]) -> list[Line]:
    return _lines(("partitions", [100 * point.share_not_preferred for point in series]))


def _churn_lines(series: Sequence[BalancePoint]) -> list[Line]:
    changes = [point.changes for point in series]
    return _lines(
        ("changed leader", [_known(one, "leaders_changed") for one in changes]),
        ("by failover", [_known(one, "failovers") for one in changes]),
        ("by preferred election", [_known(one, "preferred_elections") for one in changes]),
    )


def _rack_lines(series: Sequence[BalancePoint]) -> list[Line]:
    """Return a line for each rack, where there are a few of them."""
    names = sorted({rack.rack for point in series for rack in point.racks if rack.rack is not None})
    if not 2 <= len(names) <= MAX_RACKS:
        return []
    by_name = [{rack.rack: rack for rack in point.racks} for point in series]
    return _lines(
        *(
            (
                name,
                [
                    _share_of(point, racks.get(name))
                    for point, racks in zip(series, by_name, strict=True)
                ],
            )
            for name in names
        )
    )


def _share_of(point: BalancePoint, rack: RackPoint | None) -> float:
    """Return hundredths of the fair share; NaN without one, or without the rack."""
    if rack is None or not point.leaders.total:
        return math.nan
    return (
        100
        * (rack.leaders.total / rack.leaders.broker_count)
        / (point.leaders.total / point.leaders.broker_count)
    )


def _inflow_variation(point: BalancePoint) -> float:
    return math.nan if point.bytes_in is None else 100 * point.bytes_in.coefficient_of_variation


def _known(changes: SnapshotChanges | None, name: str) -> float:
    return math.nan if changes is None or changes.is_rebuilt else float(getattr(changes, name))


def _timeline(
    balance: LeaderBalance, lines: Sequence[Line], title: str, unit: Unit, note: str = ""
) -> Timeline:
    times = [point.observed_at for point in balance.series]
    return over_time(title, unit, times, lines, balance.breaks, balance.events, note)


def over_time(
    title: str,
    unit: Unit,
    times: Sequence[datetime],
    lines: Sequence[Line],
    breaks: Sequence[int],
    events: Sequence[ClusterEvent],
    note: str = "",
    *,
    is_filled: bool = False,
) -> Timeline:
    """Return lines over time, broken before the points in `breaks`, with the newest events."""
    chart = line_chart(
        title,
        unit,
        times[0],
        times[-1],
        [(line.look, _points(times, line.values, set(breaks))) for line in lines],
        is_filled=is_filled,
        events=_marks([one for one in events if one.last_at >= times[0]]),
    )
    keys = tuple((line.look, line.label) for line in lines)
    return Timeline(title, chart, keys, tuple(_extremes(line, unit) for line in lines), note)


def _points(
    times: Sequence[datetime], values: Sequence[float], breaks: set[int]
) -> list[tuple[datetime, float | None]]:
    points: list[tuple[datetime, float | None]] = []
    for index, (at, value) in enumerate(zip(times, values, strict=True)):
        if index in breaks:
            points.append((at, None))
        points.append((at, value if math.isfinite(value) else None))
    return points


def _marks(events: Sequence[ClusterEvent]) -> list[tuple[datetime, str, str, str]]:
    """Return the newest events, oldest first, those of one snapshot as one; a few are numbered."""
    together = [list(at_once) for _, at_once in groupby(events[-_EVENTS_DRAWN:], _first_at)]
    has_numbers = len(together) <= _NUMBERED
    return [
        (
            at_once[0].first_at,
            str(number) if has_numbers else "",
            f"{format_moment(at_once[0].first_at)}: {'; '.join(map(event_in_words, at_once))}",
            "bad" if any(event.kind in ALERTS for event in at_once) else "",
        )
        for number, at_once in enumerate(together, 1)
    ]


def _first_at(event: ClusterEvent) -> datetime:
    return event.first_at


def _extremes(line: Line, unit: Unit) -> Extremes:
    known = [value for value in line.values if math.isfinite(value)]
    if not known:
        return Extremes(line.label, *["not known"] * 4)
    picked = (known[0], min(known), max(known), known[-1])
    return Extremes(line.label, *(unit(round(value, 2)) for value in picked))


def heat_sections(balance: LeaderBalance) -> tuple[HeatSection, ...]:
    return tuple(map(_heat_section, balance.heat_maps))


def _heat_section(heat: HeatMap) -> HeatSection:
    title = _HEAT_TITLES[heat.measure]
    names = [str(broker_id) for broker_id in heat.broker_ids]
    note = (
        f"One column is {_width(heat)}. Blank: no snapshot, the broker was not live, "
        "or its share is not known."
    )
    if heat.is_cut:
        note = (
            f"The {format_count(len(heat.broker_ids))} of {format_count(heat.broker_count)} "
            f"brokers that were farthest from their share on average, by id. {note}"
        )
    rows = [
        _extremes(Line(name, [math.nan if v is None else 100 * v for v in values], ""), hundredths)
        for name, values in zip(names, heat.values, strict=True)
    ]
    return HeatSection(
        title, heat_over_time(title, names, heat.columns, heat.values), tuple(rows), note
    )


def _width(heat: HeatMap) -> str:
    if heat.bucket_seconds is None:
        return "one snapshot"
    return f"the mean over {format_seconds(heat.bucket_seconds)}"


def whole(value: float) -> str:
    return format_count(round(value))


def multiples(value: float) -> str:
    return f"{value:g} ×"


def hundredths(value: float) -> str:
    return f"{value:g} %"
