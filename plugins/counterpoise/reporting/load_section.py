"""The part of a cluster's page about load: bytes in per broker, hot topics and partitions, growth,
and when disks are full.

    render("leader_balance.html", load=load_section(load), ...)

The template includes `load_section.html`. The same figures as text: `load_markdown` and
`load_document` (for the JSON).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, timedelta
from typing import Any, Final

from markupsafe import Markup

from counterpoise.model.load import (
    BrokerTraffic,
    ClusterLoad,
    DiskForecast,
    HotPartition,
    HotTopic,
    Outlook,
    Rates,
)
from counterpoise.model.safe_text import for_markdown
from counterpoise.reporting import small
from counterpoise.reporting.charts import Bar, EventBand, Line, over_time
from counterpoise.reporting.html import percent, times
from counterpoise.reporting.markdown import table
from counterpoise.reporting.parts import Picture, Tile, bar_picture, rack_indexes
from counterpoise.reporting.svg import AFTER
from counterpoise.units import format_bytes, format_count, format_rate, format_seconds

DISKS_SHOWN: Final = 20
_BROKERS_IN_FULL: Final = 12  # more than that, and the table of all brokers starts folded
_FULL_SOON_DAYS: Final = 30
_MUCH_OVER_SHARE: Final = 1.5
AT_LEAST: Final = "a lower bound, with compacted topics"
_WHY_UNKNOWN: Final = {
    "first": "nothing to compare with yet",
    "rebuilt": "the cluster was rebuilt",
    "recreated": "the topic was recreated",
    "reset": "the log became shorter",
    "gap": "too long since the snapshot before",
    "unknown": "an offset or a size is not known",
}


@dataclass(frozen=True, slots=True)
class LoadSection:
    """What `load_section.html` draws."""

    cluster_load: ClusterLoad
    tiles: tuple[Tile, ...]
    bars: tuple[tuple[str, Picture], ...]  # title and picture
    shows_median: bool  # where the rates of the latest snapshot are not known
    unknown_broker_ids: tuple[int, ...]  # live brokers whose rate is not known now
    unknown: tuple[str, ...]  # why rates of partitions are not known
    bytes_in: Picture | None  # over time
    # Each with its share of all bytes in, in words and as a picture.
    hot_partitions: tuple[tuple[HotPartition, str, Markup], ...]
    hot_topics: tuple[tuple[HotTopic, str, Markup], ...]
    disks: tuple[tuple[DiskForecast, Markup, bool], ...]  # those shown; whether one is full soon
    other_disks: str
    broker_table_open: bool


def load_section(load: ClusterLoad, bands: Sequence[EventBand] = ()) -> LoadSection:
    """Return what a page that includes `load_section.html` needs as its value `load`.

    `bands` are the events that are drawn below the chart over time.
    """
    bars, shows_median = _bars(load)
    shown = load.disks[:DISKS_SHOWN]
    return LoadSection(
        cluster_load=load,
        tiles=load_tiles(load),
        bars=bars,
        shows_median=shows_median,
        unknown_broker_ids=tuple(
            b.broker_id for b in load.brokers if not b.is_fenced and b.as_leader.now is None
        ),
        unknown=tuple(
            f"{format_count(number)}: {_WHY_UNKNOWN.get(why, why)}" for why, number in load.unknown
        ),
        bytes_in=_bytes_in_over_time(load, bands),
        hot_partitions=tuple(
            (hot, share, _share_picture(hot.share, share))
            for hot in load.hot_partitions
            for share in [_share(load, hot.share, hot.is_at_least)]
        ),
        hot_topics=tuple(
            (hot, share, _share_picture(hot.share, share))
            for hot in load.hot_topics
            for share in [_share(load, hot.share, hot.bytes_in.is_at_least)]
        ),
        disks=tuple((disk, _disk_picture(disk), disk_alerts(disk)) for disk in shown),
        other_disks=_others(load.disks[DISKS_SHOWN:]),
        broker_table_open=len(load.brokers) <= _BROKERS_IN_FULL,
    )


def load_tiles(load: ClusterLoad) -> tuple[Tile, ...]:
    """Return the main figures, to be compared with those of last week."""
    leaders, first = load.leaders, load.first_full
    is_at_least = load.bytes_in.is_at_least
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
        ),
        Tile(
            "Bytes in, 95 % of the time ≤",
            known_rate(load.bytes_in.p95, is_at_least=is_at_least),
            f"highest {known_rate(load.bytes_in.highest, is_at_least=is_at_least)}",
        ),
        Tile(
            "Busiest broker takes in",
            times(leaders.max_over_mean) if leaders else "not known",
            f"of its fair share, {known_rate(leaders.maximum, is_at_least=is_at_least)}"
            if leaders
            else "the rate of a broker is not known",
            bool(leaders and leaders.max_over_mean > _MUCH_OVER_SHARE),
        ),
        Tile(
            "Grows per day",
            known_bytes(load.bytes_per_day),
            f"holds {known_bytes(load.held_bytes)}",
        ),
        Tile(
            "First disk full",
            _first_full(load.disks),
            f"broker {first.broker_id}" if first else _no_forecast(load.disks),
            first is not None and disk_alerts(first),
        ),
    )


def known_rate(rate: int | None, *, is_at_least: bool = False) -> str:
    """Return `2 kB/s`, `≥ 2 kB/s` for a lower bound, or `not known`."""
    return "not known" if rate is None else _at_least(rate, is_at_least)


def known_bytes(size: int | None) -> str:
    return "not known" if size is None else format_bytes(size)


def disk_alerts(disk: DiskForecast) -> bool:
    return disk.days_left is not None and disk.days_left <= _FULL_SOON_DAYS


def load_markdown(load: ClusterLoad) -> str:
    """Return the same figures as tables, with names escaped."""
    tiles = ((tile.title, tile.value, tile.note) for tile in load_tiles(load))
    parts = ["## Load", table(("Figure", "Value", ""), tiles), _brokers_table(load)]
    parts += ["### Bytes in per rack", _racks_table(load)]
    if load.hot_topics:
        parts += ["### Hottest topics", _hot_topics_table(load)]
    if load.hot_partitions:
        parts += ["### Hottest partitions", _hot_partitions_table(load)]
    if load.growing_topics:
        parts += ["### Fastest growing topics", _growing_topics_table(load)]
    if load.disks:
        parts += ["### Disks", _disks_table(load.disks)]
    return "\n\n".join(parts) + "\n"


def _brokers_table(load: ClusterLoad) -> str:
    heads = (
        "Broker",
        "Bytes in, as leader",
        "95 % of the time ≤",
        "As follower",
        "95 % of the time ≤",
    )
    rows = (
        (str(b.broker_id), *_rate_cells(b.as_leader), *_rate_cells(b.as_follower))
        for b in load.brokers
    )
    return table(heads, rows)


def _racks_table(load: ClusterLoad) -> str:
    rows = ((rack.rack or "no rack", *_rate_cells(rack.as_leader)) for rack in load.racks)
    return table(("Rack", "Bytes in", "95 % of the time ≤"), rows)


def _hot_topics_table(load: ClusterLoad) -> str:
    rows = (
        (
            hot.topic,
            *_rate_cells(hot.bytes_in),
            _share(load, hot.share, hot.bytes_in.is_at_least),
        )
        for hot in load.hot_topics
    )
    return table(("Topic", "Bytes in", "95 % of the time ≤", "Share"), rows)


def _hot_partitions_table(load: ClusterLoad) -> str:
    rows = (
        (
            f"{hot.topic}-{hot.partition}",
            _leader(hot.leader),
            _at_least(hot.bytes_in_per_second, hot.is_at_least),
        )
        for hot in load.hot_partitions
    )
    return table(("Partition", "Leader", "Bytes in"), rows)


def _growing_topics_table(load: ClusterLoad) -> str:
    rows = (
        (topic.topic, format_bytes(topic.size_bytes), format_bytes(topic.bytes_per_day))
        for topic in load.growing_topics
    )
    return table(("Topic", "One copy", "Per day"), rows)


def load_document(load: ClusterLoad) -> dict[str, Any]:
    """Return values for JSON: bytes, bytes per second, shares 0 to 1, times in ISO 8601 UTC; null
    is not known.
    """
    document = asdict(load)
    for name in ("observed_at", "since"):
        document[name] = document[name].astimezone(UTC).isoformat()
    for disk, forecast in zip(document["disks"], load.disks, strict=True):
        disk["outlook"] = str(forecast.outlook)
        del disk["held"]
    document["unknown"] = [{"how": why, "partitions": number} for why, number in load.unknown]
    return document


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
        if any(rates.is_at_least for _, rates in found):
            title = f"{title} (lower bounds)"
        known = [(broker, rates.now if has_now else rates.p50) for broker, rates in found]
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
    values = [math.nan if value is None else float(value) for value in trace.values]
    if sum(map(math.isfinite, values)) < 2:
        return None
    instants = [load.since + timedelta(seconds=at * trace.seconds) for at in trace.at]
    line = Line("bytes in", values, AFTER)
    breaks = [at + 1 for at, value in enumerate(trace.values) if value is None]
    title = f"Bytes in of {load.cluster} over time"
    drawn = over_time(
        instants,
        [line],
        name="bytes-in-time",
        label=title,
        unit=format_rate,
        wide=False,
        breaks=breaks,
        bands=bands,
    )
    return Picture(drawn)


def _share(load: ClusterLoad, share: float, is_at_least: bool) -> str:
    """Return the share of all bytes in: at most so much where the sum is only a lower bound, and
    `–`, not known, where the rate is one itself.
    """
    if is_at_least:
        return "–"
    return f"{'≤ ' if load.bytes_in.is_at_least else ''}{percent(share)}"


def _share_picture(share: float, words: str) -> Markup:
    return Markup() if words == "–" else small.level(share, label=f"{words} of all bytes in")


def _disk_picture(disk: DiskForecast) -> Markup:
    return small.disk(disk, label=f"Disk of broker {disk.broker_id}: {disk.in_words}")


def _others(disks: Sequence[DiskForecast]) -> str:
    """Return the number of disks by outlook: `12 not within a year, 3 shrinking`."""
    fills = sum(disk.outlook is Outlook.FILLS for disk in disks)
    words = [f"{format_count(fills)} full later within a year"] if fills else []
    for outlook in (Outlook.NOT_KNOWN, Outlook.NOT_WITHIN_A_YEAR, Outlook.SHRINKING):
        found = [disk for disk in disks if disk.outlook is outlook]
        words += [f"{format_count(len(found))} {found[0].in_words}"] if found else []
    return ", ".join(words)


def _first_full(disks: Sequence[DiskForecast]) -> str:
    if not disks:
        return "not known"
    known = [disk for disk in disks if disk.outlook is not Outlook.NOT_KNOWN]
    if known and known[0].outlook is Outlook.FILLS:
        return known[0].in_words.removeprefix("full ")
    return "not within a year" if known else "not known"


def _no_forecast(disks: Sequence[DiskForecast]) -> str:
    unknown = [disk for disk in disks if disk.outlook is Outlook.NOT_KNOWN]
    if not disks:
        return "no log dir is known"
    if not unknown:
        return f"all {format_count(len(disks))} disks"
    if any(disk.usable_bytes is None for disk in unknown):
        return f"the free space of {format_count(len(unknown))} disks is not known"
    watched = max(disk.watched_seconds for disk in unknown)
    return (
        f"observed for {format_seconds(watched)}; a forecast needs a day"
        if watched
        else "not observed yet"
    )


def _rate_cells(rates: Rates) -> tuple[str, str]:
    is_at_least = rates.is_at_least
    return (
        known_rate(rates.now, is_at_least=is_at_least),
        known_rate(rates.p95, is_at_least=is_at_least),
    )


def _leader(broker_id: int | None) -> str:
    return "none" if broker_id is None else str(broker_id)


def _at_least(rate: int, is_at_least: bool) -> str:
    return f"{'≥ ' if is_at_least else ''}{format_rate(rate)}"


def _disks_table(disks: Sequence[DiskForecast]) -> str:
    rows = [
        (
            str(disk.broker_id),
            ", ".join(disk.log_dirs),
            known_bytes(disk.held_bytes),
            known_bytes(disk.usable_bytes),
            known_bytes(disk.bytes_per_day),
            disk.in_words,
        )
        for disk in disks[:DISKS_SHOWN]
    ]
    shown = table(("Broker", "Log dirs", "Held", "Free", "Grows per day", "Forecast"), rows)
    others = _others(disks[DISKS_SHOWN:])
    return (
        f"{shown}\n\n{for_markdown(f'The other {len(disks) - DISKS_SHOWN}: {others}')}"
        if others
        else shown
    )
