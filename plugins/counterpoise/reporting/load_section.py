"""The part of a cluster's page about load: bytes in per broker, hot topics and partitions, growth,
and when disks are full.

    render("leader_balance.html", section=load_section(load), ...)

The template includes `load_section.html`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import cycle
from typing import Final

from counterpoise.model.load import (
    BrokerTraffic,
    BusyPartition,
    BusyPartitions,
    ClusterLoad,
    DiskForecast,
    Rates,
    Trace,
)
from counterpoise.reporting.charts import Bar, EventBand, Line, over_time
from counterpoise.reporting.disk_words import (
    first_disk_full,
    other_disks,
    why_no_disk_fills,
)
from counterpoise.reporting.html import known_bytes, known_rate, percent, times
from counterpoise.reporting.parts import (
    Picture,
    Tile,
    bar_picture,
    beside,
    rack_indexes,
)
from counterpoise.reporting.svg import AFTER, RACK_COLOURS, rack_colour
from counterpoise.reporting.timelines import LINE_STYLES, Timeline, legend_of
from counterpoise.units import format_count, format_rate

DISKS_SHOWN: Final = 20
_BROKERS_IN_FULL: Final = 12  # more than that, and the table of all brokers starts folded
_BROKERS_WITH_RACK_CHART: Final = 60  # of more, the page would become too large with it
_MUCH_OVER_SHARE: Final = 1.5
AT_LEAST: Final = "a lower bound"
ABOUT_BOUNDS: Final = (
    "≥: a lower bound. Rates of some partitions are not known; or they are of topics that are "
    "compacted, or may be: compaction removes records unnoticed, so more may have come in, how "
    "much is not known. Of these it is an estimate where new records are smaller than those that "
    "are kept: then it may be too high. So a share of the sum is at most (≤) what is shown, and "
    "that of such a topic is not known (–)."
)
_WHY_UNKNOWN: Final = {
    "first": "nothing to compare with yet",
    "rebuilt": "the cluster was rebuilt",
    "recreated": "the topic was recreated",
    "reset": "the log became shorter",
    "gap": "too long since the snapshot before, or a clock that jumped",
    "unknown": "an offset or a size is not known",
}


@dataclass(frozen=True, slots=True)
class LoadSection:
    """What `load_section.html` draws."""

    load: ClusterLoad
    bars: tuple[tuple[str, Picture], ...]  # title and picture
    shows_median: bool  # where the rates of the latest snapshot are not known
    bytes_in: Picture | None  # over time
    racks_in_time: Timeline | None

    @property
    def tiles(self) -> tuple[Tile, ...]:
        """Return the main figures, and beside them those of the period before, or of its end."""
        before = self.load.before
        return beside(load_tiles(self.load), load_tiles(before) if before else ())

    @property
    def unknown_broker_ids(self) -> list[int]:
        """Return the live brokers whose rate is not known now."""
        brokers = self.load.brokers
        return [b.broker_id for b in brokers if not b.is_fenced and b.as_leader.now is None]

    @property
    def unknown(self) -> list[str]:
        """Return why rates of partitions are not known."""
        return [
            f"{format_count(number)}: {_WHY_UNKNOWN.get(why, why)}"
            for why, number in self.load.unknown
        ]

    @property
    def about_bounds(self) -> str:
        return about_bounds(self.load)

    @property
    def disks(self) -> tuple[DiskForecast, ...]:
        return self.load.disks[:DISKS_SHOWN]

    @property
    def other_disks(self) -> str:
        return other_disks(self.load.disks[DISKS_SHOWN:])

    @property
    def has_few_brokers(self) -> bool:
        return len(self.load.brokers) <= _BROKERS_IN_FULL

    def share_now(self, share: float, is_at_least: bool) -> str:
        return share_of_bytes_in(self.load, share, is_at_least)

    def share_of_period(self, busy: BusyPartition) -> str:
        return share_of_period(self.load, busy)


def load_section(load: ClusterLoad, bands: Sequence[EventBand] = ()) -> LoadSection:
    """Return what a page that includes `load_section.html` needs as its value `section`.

    `bands` are the events that are drawn below the chart over time.
    """
    bytes_in, racks_in_time = _bytes_in_over_time(load, bands), _racks_over_time(load, bands)
    return LoadSection(load, *_bars(load), bytes_in, racks_in_time)


def about_bounds(load: ClusterLoad) -> str:
    """Return what the signs ≥ and ≤ say; "" where there is none, also for tiles of before."""
    shows_shares = bool(load.hot_topics or load.hot_partitions)
    has_bounds = (
        _has_bounds(load)
        or (load.before is not None and _is_bound(load.before.bytes_in))
        or (shows_shares and is_share_bound(load))
    )
    return ABOUT_BOUNDS if has_bounds else ""


def _has_bounds(load: ClusterLoad) -> bool:
    """Return whether a rate or a share of one period is shown as a bound."""
    rates = (
        load.bytes_in,
        load.replicated_in,
        *(broker.as_leader for broker in load.brokers),
        *(broker.as_follower for broker in load.brokers),
        *(rack.as_leader for rack in load.racks),
        *(hot.bytes_in for hot in load.hot_topics),
    )
    busy = load.busy_partitions
    return (
        any(map(_is_bound, rates))
        or any(hot.is_at_least for hot in load.hot_partitions)
        or (busy is not None and bool(busy.partitions) and is_period_share_bound(busy, load))
    )


def _is_bound(rates: Rates) -> bool:
    return rates.is_at_least or rates.is_period_at_least


def load_tiles(load: ClusterLoad) -> tuple[Tile, ...]:
    """Return the main figures."""
    leaders, first = load.leaders, load.first_full
    is_at_least = load.bytes_in.is_at_least
    is_period_at_least = load.bytes_in.is_period_at_least
    known, all_ = load.rates_known, load.rates_known + load.rates_unknown
    coverage = (
        "from producers"
        if known == all_
        else f"{format_count(known)} of {format_count(all_)} partitions known"
    )
    return (
        Tile(
            "Bytes in",
            known_rate(load.bytes_in.now, is_at_least=is_at_least),
            f"{coverage}; {AT_LEAST}" if is_at_least else coverage,
            number=load.bytes_in.now,
        ),
        Tile(
            "Bytes in, 95 % of the time ≤",
            known_rate(load.bytes_in.p95, is_at_least=is_period_at_least),
            f"highest {known_rate(load.bytes_in.highest, is_at_least=is_period_at_least)}",
            number=load.bytes_in.p95,
        ),
        Tile(
            "Busiest broker takes in",
            times(leaders.max_over_mean) if leaders else "not known",
            f"of its fair share, {known_rate(leaders.maximum, is_at_least=is_at_least)}"
            if leaders
            else "the rate of a broker is not known",
            bool(leaders and leaders.max_over_mean > _MUCH_OVER_SHARE),
            number=leaders.max_over_mean if leaders else None,
        ),
        Tile(
            "Grows per day",
            known_bytes(load.bytes_per_day),
            f"holds {known_bytes(load.held_bytes)}",
            number=load.bytes_per_day,
        ),
        Tile(
            "First disk full",
            first_disk_full(load.disks),
            f"broker {first.broker_id}" if first else why_no_disk_fills(load.disks),
            first is not None and first.is_full_soon,
        ),
    )


def _bars(load: ClusterLoad) -> tuple[tuple[tuple[str, Picture], ...], bool]:
    """Return title and picture of each chart, and whether they show the median because the latest
    rates are not known.
    """
    has_now = any(broker.as_leader.now is not None for broker in load.brokers)
    has_median = any(broker.as_leader.p50 is not None for broker in load.brokers)
    if not has_now and not has_median:
        return (), False
    racks = rack_indexes(broker.rack for broker in load.brokers)
    wanted: tuple[tuple[str, str, Callable[[BrokerTraffic], Rates]], ...] = (
        ("bytes-in-leader", "Bytes in per broker, as leader", lambda broker: broker.as_leader),
        (
            "bytes-in-follower",
            "Bytes in per broker, as follower",
            lambda broker: broker.as_follower,
        ),
    )
    pictures = []
    for name, title, rates_of in wanted:
        found = [(broker, rates_of(broker)) for broker in load.brokers]
        shown = "now" if has_now else "p50"
        if any(is_bound(rates, shown) for _, rates in found):
            title = f"{title} (lower bounds)"
        known = [(broker, getattr(rates, shown)) for broker, rates in found]
        pictures.append((title, _rate_bars(known, racks, name, title)))
    return tuple(pictures), not has_now


def _rate_bars(
    brokers: Sequence[tuple[BrokerTraffic, int | None]],
    racks: Mapping[str | None, int | None],
    name: str,
    title: str,
) -> Picture:
    """Draw a bar for each broker whose rate is known; the fair share is over the live ones of
    these.
    """
    bars = [
        Bar(broker.broker_id, rate, racks[broker.rack], is_fenced=broker.is_fenced)
        for broker, rate in brokers
        if rate is not None
    ]
    live = [bar.value for bar in bars if not bar.is_fenced]
    fair = sum(live) / len(live) if live else 0.0
    return bar_picture(bars, name, title, format_rate, fair)


def _bytes_in_over_time(load: ClusterLoad, bands: Sequence[EventBand]) -> Picture | None:
    """Draw the rate over time; None where fewer than two points are known."""
    trace = load.bytes_in_trace
    values = _known_values(trace)
    if sum(map(math.isfinite, values)) < 2:
        return None
    title = f"Bytes in of {load.cluster} over time"
    return _rates_over_time(
        load, trace, [Line("bytes in", values, AFTER)], "bytes-in-time", title, bands
    )


def _racks_over_time(load: ClusterLoad, bands: Sequence[EventBand]) -> Timeline | None:
    """Draw the rate of each rack, where there are a few of them; None where fewer than two points
    are known.
    """
    named = [rack for rack in load.racks if rack.rack is not None]
    if not 2 <= len(named) <= RACK_COLOURS or len(load.brokers) > _BROKERS_WITH_RACK_CHART:
        return None
    lines = [
        Line(str(rack.rack), _known_values(rack.trace), rack_colour(index), style)
        for index, (rack, style) in enumerate(zip(named, cycle(LINE_STYLES), strict=False))
    ]
    if max(sum(map(math.isfinite, line.values)) for line in lines) < 2:
        return None
    title = "Bytes in per rack over time"
    picture = _rates_over_time(load, named[0].trace, lines, "racks-in-time", title, bands)
    return Timeline(title, picture, legend_of(lines))


def _known_values(trace: Trace) -> list[float]:
    return [math.nan if value is None else float(value) for value in trace.values]


def _rates_over_time(
    load: ClusterLoad,
    trace: Trace,
    lines: Sequence[Line],
    name: str,
    title: str,
    bands: Sequence[EventBand],
) -> Picture:
    """Draw lines at the times of a trace, broken where none is known."""
    instants = [load.since + timedelta(seconds=at * trace.seconds) for at in trace.at]
    values = zip(*(line.values for line in lines), strict=True)
    breaks = [at + 1 for at, known in enumerate(values) if all(map(math.isnan, known))]
    # The chart begins with the cluster as it is now: what was before a rebuild has no place in it.
    since_then = [band.from_(load.since) for band in bands]
    return Picture.of(
        name,
        lambda name, wide: over_time(
            instants,
            lines,
            name=name,
            label=title,
            unit=format_rate,
            wide=wide,
            breaks=breaks,
            bands=[band for band in since_then if band.spans],
        ),
    )


# -- Figures that are only bounds


def is_bound(rates: Rates, name: str) -> bool:
    """Return whether a rate of these is only a lower bound: "now", or one of the period."""
    return rates.is_at_least if name == "now" else rates.is_period_at_least


def share_of_bytes_in(load: ClusterLoad, share: float, is_at_least: bool) -> str:
    """Return the share of all bytes in: at most so much where the sum is only a lower bound, and
    `–`, not known, where the rate is one itself.
    """
    if is_at_least:
        return "–"
    return f"{'≤ ' if is_share_bound(load) else ''}{percent(share)}"


def share_of_period(load: ClusterLoad, busy: BusyPartition) -> str:
    """Return the same over the period."""
    found = load.busy_partitions
    if found is None or busy.is_at_least:
        return "–"
    return f"{'≤ ' if is_period_share_bound(found, load) else ''}{percent(busy.share)}"


def is_period_share_bound(busy: BusyPartitions, load: ClusterLoad) -> bool:
    """Return whether a share of all bytes in of the period is at most what it says."""
    return busy.is_at_least or load.bytes_in.is_period_at_least or load.has_unknown_rates


def is_share_bound(load: ClusterLoad) -> bool:
    """Return whether a share of all bytes in now is at most what it says: the sum leaves out what
    is not known, also where that is all that a broker leads.
    """
    return load.bytes_in.is_at_least or load.rates_unknown > 0
