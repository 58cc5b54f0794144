"""The rows of the tables about load, each figure beside the period before: for the page and for its
Markdown.

    busy_rows(load)[0][1].in_line == "2 MB/s (↑ from 1 MB/s)"
"""

from collections.abc import Callable
from typing import Final

from counterpoise.model.load import (
    BrokerTraffic,
    BusyPartition,
    BusyPartitions,
    ClusterLoad,
    DiskForecast,
    HotTopic,
    RackTraffic,
    Rates,
)
from counterpoise.reporting.html import percent
from counterpoise.reporting.parts import Figure, trend
from counterpoise.units import format_bytes, format_rate

DISKS_SHOWN: Final = 20
_RATE_NAMES: Final = ("now", "50 % of the time at most", "95 % of the time at most", "highest")
_P95: Final = 2  # its place among these


def known_rate(rate: int | None, *, is_at_least: bool = False) -> str:
    """Return `2 kB/s`, `≥ 2 kB/s` for a lower bound, or `not known`."""
    return "not known" if rate is None else _at_least(rate, is_at_least)


def known_bytes(size: int | None) -> str:
    return "not known" if size is None else format_bytes(size)


def busy_rows(load: ClusterLoad) -> list[tuple[BusyPartition, Figure, Figure, Figure]]:
    """Return the hottest partitions of the period: mean, highest, and share of all bytes in."""
    busy = load.busy_partitions
    if busy is None:
        return []
    was = load.before.busy_partitions if load.before else None
    before = {(one.topic, one.partition): one for one in was.partitions} if was else {}

    def rate(one: BusyPartition, old: BusyPartition | None, name: str) -> Figure:
        text = known_rate(getattr(one, name), is_at_least=one.is_at_least)
        if was is None:
            return Figure(text)
        if old is None:
            return Figure(text, trend(None, None, text, ""))
        old_text = known_rate(getattr(old, name), is_at_least=old.is_at_least)
        return Figure(text, trend(getattr(one, name), getattr(old, name), text, old_text))

    def share(one: BusyPartition, old: BusyPartition | None) -> Figure:
        text = _share_of_period(one, busy, load)
        if was is None or text == "–":
            return Figure(text)
        old_text = _share_of_period(old, was, load.before) if old and load.before else "–"
        known_text = "" if old_text == "–" else old_text
        return Figure(text, trend(one.share, old.share if old else None, text, known_text))

    return [
        (
            one,
            rate(one, old, "mean_bytes_in_per_second"),
            rate(one, old, "highest_bytes_in_per_second"),
            share(one, old),
        )
        for one in busy.partitions
        for old in [before.get((one.topic, one.partition))]
    ]


def _share_of_period(one: BusyPartition, busy: BusyPartitions, load: ClusterLoad) -> str:
    if one.is_at_least:
        return "–"
    return f"{'≤ ' if is_period_share_bound(busy, load) else ''}{percent(one.share)}"


def is_period_share_bound(busy: BusyPartitions, load: ClusterLoad) -> bool:
    """Return whether a share of all bytes in of the period is at most what it says."""
    return busy.is_at_least or load.bytes_in.is_period_at_least or load.has_unknown_rates


def growing_rows(load: ClusterLoad) -> tuple[tuple[str, Figure, Figure], ...]:
    """Return the topics that grow fastest: size of one copy, and growth per day."""
    before = {topic.topic: topic for topic in load.before.growing_topics} if load.before else {}
    is_compared = load.before is not None
    rows = []
    for topic in load.growing_topics:
        old = before.get(topic.topic)
        old_size, old_growth = (old.size_bytes, old.bytes_per_day) if old else (None, None)
        size = Figure.of(topic.size_bytes, old_size, _size, is_compared=is_compared)
        growth = Figure.of(topic.bytes_per_day, old_growth, _size, is_compared=is_compared)
        rows.append((topic.topic, size, growth))
    return tuple(rows)


def disk_rows(load: ClusterLoad) -> list[tuple[DiskForecast, tuple[Figure, ...]]]:
    """Return the disks that are shown: used, free, and growth per day."""
    was = load.before.disks if load.before else ()
    before = {(disk.broker_id, disk.log_dirs): disk for disk in was}
    rows = []
    for disk in load.disks[:DISKS_SHOWN]:
        old = before.get((disk.broker_id, disk.log_dirs))
        figures = tuple(
            Figure.of(
                getattr(disk, name),
                getattr(old, name) if old else None,
                write,
                is_compared=load.before is not None,
            )
            for name, write in _DISK_FIGURES
        )
        rows.append((disk, figures))
    return rows


def _size(value: float | None) -> str:
    return known_bytes(None if value is None else int(value))


def _share_used(value: float | None) -> str:
    return "not known" if value is None else percent(value)


_DISK_FIGURES: Final[tuple[tuple[str, Callable[[float | None], str]], ...]] = (
    ("used_share", _share_used),
    ("usable_bytes", _size),
    ("bytes_per_day", _size),
)


def hot_topic_rows(load: ClusterLoad) -> list[tuple[HotTopic, Figure, Figure, str]]:
    """Return the hottest topics: bytes in now, 95 % of the time at most, and the share now."""
    before = {hot.topic: hot.bytes_in for hot in load.before.hot_topics} if load.before else {}
    rows = []
    for hot in load.hot_topics:
        share = share_of_bytes_in(load, hot.share, hot.bytes_in.is_at_least)
        figures = _figures(hot.bytes_in, before.get(hot.topic), is_compared=bool(load.before))
        rows.append((hot, figures[0], figures[_P95], share))
    return rows


def period_rows(load: ClusterLoad) -> tuple[tuple[str, Figure, Figure], ...]:
    """Return what came in over all brokers: from producers, and to followers."""
    ours, copies = (
        (load.before.bytes_in, load.before.replicated_in) if load.before else (None, None)
    )
    is_compared = load.before is not None
    figures = (
        _figures(load.bytes_in, ours, is_compared=is_compared),
        _figures(load.replicated_in, copies, is_compared=is_compared),
    )
    return tuple(zip(_RATE_NAMES, *figures, strict=True))


def rack_rows(load: ClusterLoad) -> tuple[tuple[RackTraffic, tuple[Figure, ...]], ...]:
    """Return what each rack took in from producers."""
    before = {rack.rack: rack.as_leader for rack in load.before.racks} if load.before else {}
    return tuple(
        (
            rack,
            _figures(rack.as_leader, before.get(rack.rack), "–", is_compared=bool(load.before)),
        )
        for rack in load.racks
    )


def broker_rows(
    load: ClusterLoad, *, max_compared: int | None = None
) -> tuple[tuple[BrokerTraffic, tuple[Figure, ...]], ...]:
    """Return what each broker took in, as leader and as follower; of more brokers than
    `max_compared` only 95 % stands beside the period before.
    """
    is_compared = load.before is not None
    is_whole = max_compared is None or len(load.brokers) <= max_compared
    before = {broker.broker_id: broker for broker in load.before.brokers} if load.before else {}
    rows = []
    for broker in load.brokers:
        was = before.get(broker.broker_id)
        led = _figures(
            broker.as_leader, was.as_leader if was else None, "–", is_compared=is_compared
        )
        followed = _figures(
            broker.as_follower, was.as_follower if was else None, "–", is_compared=is_compared
        )
        figures = led + followed
        if not is_whole:
            figures = tuple(
                figure if number % len(_RATE_NAMES) == _P95 else Figure(figure.text)
                for number, figure in enumerate(figures)
            )
        rows.append((broker, figures))
    return tuple(rows)


def _figures(
    rates: Rates, before: Rates | None, unknown: str = "not known", *, is_compared: bool = True
) -> tuple[Figure, ...]:
    """Return the rates of `_RATE_NAMES`, each beside that of the period before."""
    was = before or Rates(None, None, None, None)
    figures = []
    for name in ("now", "p50", "p95", "highest"):
        rate, old_rate = getattr(rates, name), getattr(was, name)
        text = unknown if rate is None else known_rate(rate, is_at_least=is_bound(rates, name))
        old = "" if old_rate is None else known_rate(old_rate, is_at_least=is_bound(was, name))
        figures.append(Figure(text, trend(rate, old_rate, text, old) if is_compared else ""))
    return tuple(figures)


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


def is_share_bound(load: ClusterLoad) -> bool:
    """Return whether a share of all bytes in now is at most what it says: the sum leaves out what
    is not known, also where that is all that a broker leads.
    """
    return load.bytes_in.is_at_least or load.rates_unknown > 0


def _at_least(rate: int, is_at_least: bool) -> str:
    return f"{'≥ ' if is_at_least else ''}{format_rate(rate)}"
