"""The load of a cluster as text: Markdown for chats and tickets, values for JSON.

load_markdown(load), load_document(load)
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC
from typing import Any, Final

from counterpoise.model.load import BusyPartition, ClusterLoad, DiskForecast, Rates
from counterpoise.model.safe_text import for_markdown
from counterpoise.reporting.disk_words import other_disks
from counterpoise.reporting.load_section import (
    DISKS_SHOWN,
    about_bounds,
    busy_rows,
    known_bytes,
    known_rate,
    load_tiles_beside,
    share_of_bytes_in,
)
from counterpoise.reporting.markdown import table
from counterpoise.reporting.parts import Figure
from counterpoise.units import format_bytes

# What the JSON has of the period before.
_OF_PERIOD: Final = (
    "since",
    "observed_at",
    "snapshot_count",
    "bytes_in",
    "replicated_in",
    "brokers",
    "racks",
    "hot_topics",
    "busy_partitions",
    "bytes_per_day",
)


def load_markdown(load: ClusterLoad) -> str:
    """Return the same figures as tables, with names escaped."""
    tiles = ((tile.title, tile.value, tile.note, tile.before) for tile in load_tiles_beside(load))
    heads = ("Figure", "Value", "", "Period before")
    parts = ["## Load", table(heads, tiles), _brokers_table(load)]
    if about := about_bounds(load):
        parts.append(for_markdown(about))
    parts += ["### Bytes in per rack", _racks_table(load)]
    if load.hot_topics:
        parts += ["### Hottest topics", _hot_topics_table(load)]
    if load.hot_partitions:
        parts += ["### Hottest partitions", _hot_partitions_table(load)]
    if rows := busy_rows(load):
        parts += ["### Hottest partitions of the period", _busy_partitions_table(rows)]
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
            share_of_bytes_in(load, hot.share, hot.bytes_in.is_at_least),
        )
        for hot in load.hot_topics
    )
    return table(("Topic", "Bytes in", "95 % of the time ≤", "Share"), rows)


def _hot_partitions_table(load: ClusterLoad) -> str:
    rows = (
        (
            f"{hot.topic}-{hot.partition}",
            "none" if hot.leader is None else str(hot.leader),
            known_rate(hot.bytes_in_per_second, is_at_least=hot.is_at_least),
        )
        for hot in load.hot_partitions
    )
    return table(("Partition", "Leader", "Bytes in"), rows)


def _busy_partitions_table(rows: Sequence[tuple[BusyPartition, Figure, str, str]]) -> str:
    heads = ("Partition", "Mean bytes in", "Period before", "Highest", "Share")
    cells = (
        (f"{busy.topic}-{busy.partition}", mean.text, mean.before, highest, share)
        for busy, mean, highest, share in rows
    )
    return table(heads, cells)


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
    document = asdict(replace(load, before=None))
    if load.before:
        before = load_document(load.before)
        document["before"] = {name: before[name] for name in _OF_PERIOD}
    for name in ("observed_at", "since"):
        document[name] = document[name].astimezone(UTC).isoformat()
    for disk, forecast in zip(document["disks"], load.disks, strict=True):
        disk["outlook"] = str(forecast.outlook)
        del disk["held"]
    document["unknown"] = [{"how": why, "partitions": number} for why, number in load.unknown]
    return document


def _rate_cells(rates: Rates) -> tuple[str, str]:
    return (
        known_rate(rates.now, is_at_least=rates.is_at_least),
        known_rate(rates.p95, is_at_least=rates.is_period_at_least),
    )


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
    others = other_disks(disks[DISKS_SHOWN:])
    return (
        f"{shown}\n\n{for_markdown(f'The other {len(disks) - DISKS_SHOWN}: {others}')}"
        if others
        else shown
    )
