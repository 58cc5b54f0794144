"""The rows of the tables about load.

busy_rows(load)[0][1] == "2 MB/s"
"""

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
from counterpoise.units import format_bytes, format_rate

DISKS_SHOWN: Final = 20
_RATE_NAMES: Final = ("now", "50 % of the time at most", "95 % of the time at most", "highest")


def known_rate(rate: int | None, *, is_at_least: bool = False) -> str:
    """Return `2 kB/s`, `≥ 2 kB/s` for a lower bound, or `not known`."""
    return "not known" if rate is None else _at_least(rate, is_at_least)


def known_bytes(size: int | None) -> str:
    return "not known" if size is None else format_bytes(size)


def busy_rows(load: ClusterLoad) -> list[tuple[BusyPartition, str, str, str]]:
    """Return the hottest partitions of the period: mean, highest, and share of all bytes in."""
    busy = load.busy_partitions
    if busy is None:
        return []
    return [
        (
            one,
            known_rate(one.mean_bytes_in_per_second, is_at_least=one.is_at_least),
            known_rate(one.highest_bytes_in_per_second, is_at_least=one.is_at_least),
            _share_of_period(one, busy, load),
        )
        for one in busy.partitions
    ]


def _share_of_period(one: BusyPartition, busy: BusyPartitions, load: ClusterLoad) -> str:
    if one.is_at_least:
        return "–"
    return f"{'≤ ' if is_period_share_bound(busy, load) else ''}{percent(one.share)}"


def is_period_share_bound(busy: BusyPartitions, load: ClusterLoad) -> bool:
    """Return whether a share of all bytes in of the period is at most what it says."""
    return busy.is_at_least or load.bytes_in.is_period_at_least or load.has_unknown_rates


def growing_rows(load: ClusterLoad) -> tuple[tuple[str, str, str], ...]:
    """Return the topics that grow fastest: size of one copy, and growth per day."""
    return tuple(
        (topic.topic, known_bytes(topic.size_bytes), known_bytes(topic.bytes_per_day))
        for topic in load.growing_topics
    )


def disk_rows(load: ClusterLoad) -> list[tuple[DiskForecast, tuple[str, str, str]]]:
    """Return the disks that are shown: used, free, and growth per day."""
    return [
        (
            disk,
            (
                "not known" if disk.used_share is None else percent(disk.used_share),
                known_bytes(disk.usable_bytes),
                known_bytes(disk.bytes_per_day),
            ),
        )
        for disk in load.disks[:DISKS_SHOWN]
    ]


def hot_topic_rows(load: ClusterLoad) -> list[tuple[HotTopic, str, str, str]]:
    """Return the hottest topics: bytes in now, 95 % of the time at most, and the share now."""
    rows = []
    for hot in load.hot_topics:
        now, _, p95, _ = _rates_in_words(hot.bytes_in)
        share = share_of_bytes_in(load, hot.share, hot.bytes_in.is_at_least)
        rows.append((hot, now, p95, share))
    return rows


def period_rows(load: ClusterLoad) -> tuple[tuple[str, str, str], ...]:
    """Return what came in over all brokers: from producers, and to followers."""
    from_producers, to_followers = map(_rates_in_words, (load.bytes_in, load.replicated_in))
    return tuple(zip(_RATE_NAMES, from_producers, to_followers, strict=True))


def rack_rows(load: ClusterLoad) -> tuple[tuple[RackTraffic, tuple[str, ...]], ...]:
    """Return what the leaders of each rack took in."""
    return tuple((rack, _rates_in_words(rack.as_leader, "–")) for rack in load.racks)


def broker_rows(load: ClusterLoad) -> tuple[tuple[BrokerTraffic, tuple[str, ...]], ...]:
    """Return what each broker took in, as leader and as follower."""
    return tuple(
        (
            broker,
            _rates_in_words(broker.as_leader, "–") + _rates_in_words(broker.as_follower, "–"),
        )
        for broker in load.brokers
    )


def _rates_in_words(rates: Rates, unknown: str = "not known") -> tuple[str, ...]:
    """Return the rates of `_RATE_NAMES`."""
    words = []
    for name in ("now", "p50", "p95", "highest"):
        rate = getattr(rates, name)
        is_at_least = is_bound(rates, name)
        words.append(unknown if rate is None else known_rate(rate, is_at_least=is_at_least))
    return tuple(words)


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
