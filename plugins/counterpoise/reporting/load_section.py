"""The part of a cluster's page about load: bytes in per broker, hot topics and partitions, growth,
and when disks are full.

    render("leader_balance.html", section=load_section(load), ...)

The template includes `load_section.html`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from counterpoise.model.balance import ClusterEvent
from counterpoise.model.load import (
    SOON_DAYS,
    BrokerTraffic,
    BusyPartition,
    BusyPartitions,
    ClusterLoad,
    DiskForecast,
    Rates,
    Trace,
)
from counterpoise.reporting.disk_words import (
    first_disk_full,
    other_disks,
    why_no_disk_fills,
)
from counterpoise.reporting.html import known_bytes, known_rate, percent, times
from counterpoise.reporting.parts import Tile, beside
from counterpoise.reporting.plots import BarChart, LineChart, bar_chart, line_chart
from counterpoise.reporting.timelines import LOOKS, MAX_RACKS, Line, Timeline, over_time
from counterpoise.units import format_count, format_rate

DISKS_SHOWN: Final = 20
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
    bars: tuple[BarChart, ...]
    shows_median: bool  # where the rates of the latest snapshot are not known
    bytes_in: Timeline | None
    racks_in_time: Timeline | None
    disks: tuple[tuple[DiskForecast, LineChart | None], ...]  # those that are shown

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
    def other_disks(self) -> str:
        return other_disks(self.load.disks[DISKS_SHOWN:])

    def share_now(self, share: float, is_at_least: bool) -> str:
        return share_of_bytes_in(self.load, share, is_at_least)

    def share_of_period(self, busy: BusyPartition) -> str:
        return share_of_period(self.load, busy)


def load_section(load: ClusterLoad, events: Sequence[ClusterEvent] = ()) -> LoadSection:
    """Return what a page that includes `load_body.html` needs as its value `section`.

    `events` are drawn into the charts over time.
    """
    bytes_in, racks_in_time = _bytes_in_over_time(load, events), _racks_over_time(load, events)
    disks = tuple((disk, _disk_chart(load, disk)) for disk in load.disks[:DISKS_SHOWN])
    return LoadSection(load, *_bars(load), bytes_in, racks_in_time, disks)


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


def _bars(load: ClusterLoad) -> tuple[tuple[BarChart, ...], bool]:
    """Return a chart of each role, and whether they show the median because the latest rates are
    not known.
    """
    has_now = any(broker.as_leader.now is not None for broker in load.brokers)
    has_median = any(broker.as_leader.p50 is not None for broker in load.brokers)
    if not has_now and not has_median:
        return (), False
    shown = "now" if has_now else "p50"
    charts = (
        _rate_bars(load, "Bytes in per broker, as leader", shown, lambda broker: broker.as_leader),
        _rate_bars(
            load, "Bytes in per broker, as follower", shown, lambda broker: broker.as_follower
        ),
    )
    return charts, not has_now


def _rate_bars(
    load: ClusterLoad, title: str, shown: str, rates_of: Callable[[BrokerTraffic], Rates]
) -> BarChart:
    """Return the rate of each broker; the fair share is over the live ones whose rate is known."""
    found = [(broker, rates_of(broker)) for broker in load.brokers]
    if any(is_bound(rates, shown) for _, rates in found):
        title = f"{title} (lower bounds)"
    rates = [getattr(of_broker, shown) for _, of_broker in found]
    is_live = [not broker.is_fenced for broker in load.brokers]
    live = [rate for rate, lives in zip(rates, is_live, strict=True) if lives and rate is not None]
    fair = sum(live) / len(live) if live else 0.0
    return bar_chart(
        title,
        format_rate,
        [broker.broker_id for broker in load.brokers],
        now=rates,
        best=[fair if lives else None for lives in is_live],
        best_word="fair share",
        marks={b.broker_id: ("down", "down") for b in load.brokers if b.is_fenced},
        racks={broker.broker_id: broker.rack for broker in load.brokers},
        lead=f"most {format_rate(max(live, default=0))}, fair {format_rate(fair)}",
    )


def _bytes_in_over_time(load: ClusterLoad, events: Sequence[ClusterEvent]) -> Timeline | None:
    """Return the rate over time; None where fewer than two points are known."""
    lines = [Line("bytes in", _known_values(load.bytes_in_trace), LOOKS[0])]
    return _rates_over_time(load, load.bytes_in_trace, lines, "Bytes in", events, is_filled=True)


def _racks_over_time(load: ClusterLoad, events: Sequence[ClusterEvent]) -> Timeline | None:
    """Return the rate of each rack, where there are a few of them; None where fewer than two points
    are known.
    """
    named = [rack for rack in load.racks if rack.rack is not None]
    if not 2 <= len(named) <= MAX_RACKS:
        return None
    lines = [
        Line(str(rack.rack), _known_values(rack.trace), look)
        for rack, look in zip(named, LOOKS, strict=False)
    ]
    return _rates_over_time(load, named[0].trace, lines, "Bytes in per rack", events)


def _known_values(trace: Trace) -> list[float]:
    return [math.nan if value is None else float(value) for value in trace.values]


def _rates_over_time(
    load: ClusterLoad,
    trace: Trace,
    lines: Sequence[Line],
    title: str,
    events: Sequence[ClusterEvent],
    *,
    is_filled: bool = False,
) -> Timeline | None:
    """Return lines at the times of a trace, broken where none is known. The chart begins with the
    cluster as it is now: what was before a rebuild has no place in it.
    """
    if max(sum(map(math.isfinite, line.values)) for line in lines) < 2:
        return None
    instants = [load.since + timedelta(seconds=at * trace.seconds) for at in trace.at]
    return over_time(title, format_rate, instants, lines, (), events, is_filled=is_filled)


def _disk_chart(load: ClusterLoad, disk: DiskForecast) -> LineChart | None:
    """Return how full a disk was in the last two weeks, and will be in the next 30 days; None where
    that is not known.
    """
    used, total, held_now = disk.used_share, disk.total_bytes, disk.held_bytes
    if used is None or not total or held_now is None:
        return None
    now = load.observed_at
    begin = now - timedelta(seconds=disk.held.seconds)
    past = [
        (
            begin + timedelta(seconds=at * disk.held.seconds),
            None if held is None else used + (held - held_now) / total,
        )
        for at, held in zip(disk.held.at, disk.held.values, strict=True)
    ]
    lines = [(LOOKS[0], [*past, (now, used)])]
    if disk.bytes_per_day is not None:
        days = min(SOON_DAYS, SOON_DAYS if disk.days_left is None else disk.days_left)
        then = max(0.0, used + days * disk.bytes_per_day / total)
        lines.append((f"{LOOKS[1]} dash", [(now, used), (now + timedelta(days=days), then)]))
    return line_chart(
        f"Disk of broker {disk.broker_id}: {disk.in_words}",
        percent,
        begin,
        now + timedelta(days=SOON_DAYS),
        lines,
        now=now,
        top=1.0,
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
