"""The parts of a cluster's page that show weeks: measures over time with what happened, brokers
over time, churn.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from counterpoise.model.balance import (
    BalancePoint,
    ClusterEvent,
    EventKind,
    HeatMap,
    LeaderBalance,
    RackPoint,
    SnapshotChanges,
)
from counterpoise.model.words import pluralize
from counterpoise.reporting.charts import (
    HEAT_LEVELS,
    EventBand,
    Line,
    Unit,
    heat_picture,
    over_time,
)
from counterpoise.reporting.event_words import ALERTS, KIND_MEANINGS, KIND_NAMES
from counterpoise.reporting.parts import Picture
from counterpoise.reporting.svg import RACK_COLOURS, rack_colour
from counterpoise.units import format_count, format_seconds

_HEAT_TITLES: Final = {
    "leaders": "Leaders of each broker over time",
    "bytes_in": "Bytes in of each broker over time",
}
LINE_STYLES: Final = ("-", "--", ":", "-.")
_BLUE, _ORANGE, _GREEN, _MAGENTA, _VIOLET = (rack_colour(index) for index in range(5))


@dataclass(frozen=True, slots=True)
class Timeline:
    """A picture of lines; None where nothing of them is known, as `note` says then.

    `legend`: label, colour class, line style; `happened`: each row of events and its meaning.
    """

    title: str
    picture: Picture | None
    legend: tuple[tuple[str, str, str], ...] = ()
    happened: tuple[tuple[str, str], ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class HeatSection:
    title: str
    picture: Picture
    levels: tuple[str, ...]
    note: str


def timelines(balance: LeaderBalance) -> tuple[Timeline, ...]:
    """Return the charts over time; none with a single snapshot. The first one says what the events
    mean that all of them show.
    """
    series = balance.series
    if len(series) < 2:
        return ()
    spread_title = "Max − min over the live brokers"
    share_title = "Variation between brokers, and partitions not led by their preferred leader"
    rack_title = "Leaders per broker of each rack, in % of the fair share"
    busiest_title = "The busiest broker, in multiples of the fair share"
    spreads, shares = _spread_lines(series), _share_lines(series)
    first = _timeline(balance, spreads, "spread", spread_title, format_count)
    drawn = [
        replace(first, happened=_meanings(balance.events)),
        _timeline(balance, _busiest_lines(series), "busiest", busiest_title, multiples),
        _timeline(balance, shares, "variation", share_title, hundredths),
    ]
    if racks := _rack_lines(series):
        drawn.append(_timeline(balance, racks, "racks", rack_title, hundredths))
    drawn.append(_uneven_topics(balance))
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
    drawn = _timeline(
        balance, [Line("uneven topics", counts, _BLUE)], "uneven", title, format_count
    )
    if not unknown_count:
        return drawn
    of_all = f"{format_count(unknown_count)} of {pluralize(len(counts), 'snapshot')}"
    return replace(drawn, note=f"Not known for {of_all}.")


def _spread_lines(series: Sequence[BalancePoint]) -> list[Line]:
    """Return max − min per snapshot: of leaders, preferred leaders and replicas."""
    leaders = [point.leaders.max_minus_min for point in series]
    preferred_leaders = [point.preferred_leaders.max_minus_min for point in series]
    replicas = [point.replicas.max_minus_min for point in series]
    return [
        Line("leaders", leaders, _BLUE),
        Line("preferred leaders", preferred_leaders, _ORANGE, "--"),
        Line("replicas", replicas, _GREEN, ":"),
    ]


def _busiest_lines(series: Sequence[BalancePoint]) -> list[Line]:
    """Return max / mean over the live brokers per snapshot: of leaders, bytes and bytes in."""
    lines = [
        Line("leaders", [point.leaders.max_over_mean for point in series], _BLUE),
        Line("bytes", [point.bytes.max_over_mean for point in series], _MAGENTA, "-."),
    ]
    if any(point.bytes_in for point in series):
        known = [point.bytes_in.max_over_mean if point.bytes_in else math.nan for point in series]
        lines.append(Line("bytes in", known, _VIOLET))
    return lines


def _share_lines(series: Sequence[BalancePoint]) -> list[Line]:
    """Return the variation between brokers per snapshot, in percent, and what is not preferred."""
    leaders = [100 * point.leaders.coefficient_of_variation for point in series]
    replicas = [100 * point.replicas.coefficient_of_variation for point in series]
    size_bytes = [100 * point.bytes.coefficient_of_variation for point in series]
    not_preferred = [100 * point.share_not_preferred for point in series]
    lines = [
        Line("leaders", leaders, _BLUE),
        Line("replicas", replicas, _GREEN, ":"),
        Line("bytes", size_bytes, _MAGENTA, "-."),
        Line("not led by preferred leader", not_preferred, _ORANGE, "--"),
    ]
    if any(point.bytes_in for point in series):
        lines.append(Line("bytes in", [_inflow_variation(point) for point in series], _VIOLET))
    return lines


def churn_timeline(balance: LeaderBalance) -> Timeline | None:
    """Return the chart of leaders that changed, per snapshot; None where fewer than two snapshots
    tell it.
    """
    if sum(point.changes is not None for point in balance.series) < 2:
        return None
    changes = [point.changes for point in balance.series]
    lines = [
        Line("changed leader", [_known(one, "leaders_changed") for one in changes], rack_colour(0)),
        Line("by failover", [_known(one, "failovers") for one in changes], rack_colour(1), "--"),
        Line(
            "by preferred election",
            [_known(one, "preferred_elections") for one in changes],
            rack_colour(2),
            ":",
        ),
    ]
    return _timeline(
        balance,
        lines,
        "churn",
        "Partitions whose leader changed since the snapshot before",
        format_count,
    )


def heat_sections(balance: LeaderBalance) -> tuple[HeatSection, ...]:
    bands = event_bands(balance.events)
    return tuple(_heat_section(heat, bands) for heat in balance.heat_maps)


def _heat_section(heat: HeatMap, bands: Sequence[EventBand]) -> HeatSection:
    title = _HEAT_TITLES[heat.measure]
    picture = Picture.of(
        f"heat-{heat.measure.replace('_', '-')}",
        lambda name, wide: heat_picture(heat, name=name, label=title, wide=wide, bands=bands),
    )
    note = (
        f"One column is {_width(heat)}. Blank: no snapshot, the broker was not live, "
        "or its share is not known."
    )
    if heat.is_cut:
        note = (
            f"The {format_count(len(heat.broker_ids))} of {format_count(heat.broker_count)} "
            f"brokers that were farthest from their share on average, by id. {note}"
        )
    return HeatSection(title, picture, HEAT_LEVELS, note)


def _width(heat: HeatMap) -> str:
    if heat.bucket_seconds is None:
        return "one snapshot"
    return f"the mean over {format_seconds(heat.bucket_seconds)}"


def _timeline(
    balance: LeaderBalance,
    lines: Sequence[Line],
    name: str,
    title: str,
    unit: Unit,
) -> Timeline:
    bands = event_bands(balance.events)
    times = [point.observed_at for point in balance.series]
    breaks = balance.breaks
    picture = Picture.of(
        name,
        lambda name, wide: over_time(
            times, lines, name=name, label=title, unit=unit, wide=wide, breaks=breaks, bands=bands
        ),
    )
    return Timeline(title, picture, legend_of(lines))


def legend_of(lines: Sequence[Line]) -> tuple[tuple[str, str, str], ...]:
    """Return label, colour class and style of lines in colours of racks."""
    return tuple((line.label, f"rack-{line.colour[-1]}", line.style) for line in lines)


def event_bands(events: Sequence[ClusterEvent]) -> list[EventBand]:
    """Return a row of events for each kind that there is."""
    return [
        EventBand(
            KIND_NAMES[kind],
            [(e.first_at, e.last_at) for e in events if e.kind is kind],
            kind in ALERTS,
        )
        for kind in _kinds(events)
    ]


def _meanings(events: Sequence[ClusterEvent]) -> tuple[tuple[str, str], ...]:
    return tuple((KIND_NAMES[kind], KIND_MEANINGS[kind]) for kind in _kinds(events))


def _kinds(events: Iterable[ClusterEvent]) -> list[EventKind]:
    found = {event.kind for event in events}
    return [kind for kind in EventKind if kind in found]


def _rack_lines(series: Sequence[BalancePoint]) -> list[Line]:
    """Return a line for each rack, where there are a few of them."""
    names = sorted({rack.rack for point in series for rack in point.racks if rack.rack is not None})
    if not 2 <= len(names) <= RACK_COLOURS:
        return []
    by_name = [{rack.rack: rack for rack in point.racks} for point in series]
    return [
        Line(
            name,
            [
                _share_of(point, racks.get(name))
                for point, racks in zip(series, by_name, strict=True)
            ],
            rack_colour(index),
            LINE_STYLES[index % len(LINE_STYLES)],
        )
        for index, name in enumerate(names)
    ]


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


def multiples(value: float) -> str:
    return f"{value:g} ×"


def hundredths(value: float) -> str:
    return f"{value:g} %"
