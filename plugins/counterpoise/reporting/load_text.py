"""The load of a cluster as text: Markdown for chats and tickets, values for JSON.

load_markdown(load), load_document(load)
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC
from typing import Any, Final

from counterpoise.model.load import BusyPartition, ClusterLoad
from counterpoise.model.safe_text import for_markdown
from counterpoise.reporting.disk_words import other_disks
from counterpoise.reporting.load_rows import (
    DISKS_SHOWN,
    broker_rows,
    busy_rows,
    disk_rows,
    growing_rows,
    hot_topic_rows,
    known_bytes,
    known_rate,
    period_rows,
    rack_rows,
)
from counterpoise.reporting.load_section import about_bounds, load_tiles_beside
from counterpoise.reporting.markdown import table
from counterpoise.reporting.parts import Figure

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
    "growing_topics",
    "disks",
    "busy_partitions",
    "bytes_per_day",
)


def load_markdown(load: ClusterLoad) -> str:
    """Return the same figures as tables, with names escaped."""
    tiles = ((tile.title, tile.value, tile.note, tile.before) for tile in load_tiles_beside(load))
    heads = ("Figure", "Value", "", "Period before")
    parts = ["## Load", table(heads, tiles), "### Over the period", _period_table(load)]
    parts += ["### Bytes in per broker", _brokers_table(load)]
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
        parts += ["### Disks", _disks_table(load)]
    return "\n\n".join(parts) + "\n"


def _brokers_table(load: ClusterLoad) -> str:
    heads = (
        "Broker",
        "Bytes in, as leader",
        "95 % of the time ≤",
        "As follower",
        "95 % of the time ≤",
    )
    # Now and 95 %, of each four.
    rows = (
        (str(broker.broker_id), *(figure.in_line for figure in figures[::2]))
        for broker, figures in broker_rows(load)
    )
    return table(heads, rows)


def _period_table(load: ClusterLoad) -> str:
    rows = ((name, ours.in_line, copies.in_line) for name, ours, copies in period_rows(load))
    return table(("Bytes in, all brokers", "From producers", "To followers"), rows)


def _racks_table(load: ClusterLoad) -> str:
    rows = (
        (rack.rack or "no rack", *(figure.in_line for figure in figures[::2]))
        for rack, figures in rack_rows(load)
    )
    return table(("Rack", "Bytes in", "95 % of the time ≤"), rows)


def _hot_topics_table(load: ClusterLoad) -> str:
    rows = (
        (hot.topic, now.in_line, p95.in_line, share)
        for hot, now, p95, share in hot_topic_rows(load)
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


def _busy_partitions_table(rows: Sequence[tuple[BusyPartition, Figure, Figure, Figure]]) -> str:
    heads = ("Partition", "Mean bytes in", "Highest", "Share")
    cells = (
        (f"{busy.topic}-{busy.partition}", *(figure.in_line for figure in figures))
        for busy, *figures in rows
    )
    return table(heads, cells)


def _growing_topics_table(load: ClusterLoad) -> str:
    rows = ((topic, size.in_line, growth.in_line) for topic, size, growth in growing_rows(load))
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
    for rack in document["racks"]:
        del rack["trace"]
    document["unknown"] = [{"how": why, "partitions": number} for why, number in load.unknown]
    return document


def _disks_table(load: ClusterLoad) -> str:
    disks = load.disks
    rows = [
        (
            str(disk.broker_id),
            ", ".join(disk.log_dirs),
            known_bytes(disk.held_bytes),
            free.in_line,
            growth.in_line,
            disk.in_words,
        )
        for disk, (_, free, growth) in disk_rows(load)
    ]
    shown = table(("Broker", "Log dirs", "Held", "Free", "Grows per day", "Forecast"), rows)
    others = other_disks(disks[DISKS_SHOWN:])
    return (
        f"{shown}\n\n{for_markdown(f'The other {len(disks) - DISKS_SHOWN}: {others}')}"
        if others
        else shown
    )
