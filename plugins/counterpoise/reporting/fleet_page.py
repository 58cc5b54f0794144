"""The page of all clusters, the worst first, each with a link to its own page; and the
same as JSON.

    fleet_report(fleet([entry, ...], as_of=now))
    fleet_rows(entries, link=lambda cluster: f"clusters/{cluster}")   # for a page with more on it

Links of the report are relative: `<cluster>/leader-balance.html`. A cluster that was never analysed
has no page, and no link.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import Final
from urllib.parse import quote

from markupsafe import Markup

from counterpoise.model.fleet_document import (
    FORMAT,
    Concern,
    EntryConcern,
    FleetDocument,
    FleetEntry,
    document_of,
)
from counterpoise.model.safe_text import for_json
from counterpoise.reporting import small
from counterpoise.reporting.disk_words import disk_alerts
from counterpoise.reporting.html import percent, render
from counterpoise.reporting.load_rows import known_rate
from counterpoise.reporting.parts import Tile
from counterpoise.units import format_bytes, format_count, format_rate, format_seconds

_NOT_URGENT: Final = (Concern.NOT_PREFERRED, Concern.BUSY, Concern.LEFT_OUT)  # not urgent


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """One cluster as the template draws it; a dash is "not known"."""

    cluster: str
    link: str  # empty: it has no page
    worst: EntryConcern | None
    is_alert: bool
    others: tuple[EntryConcern, ...]
    brokers: str
    leaders: Markup
    spread: str
    not_preferred: str
    traffic: Markup
    bytes_in: str
    bytes_in_p95: str  # "": not known
    disk: Markup
    forecast: str
    is_full_soon: bool
    unknown_disks: str
    last_snapshot: str


def fleet_report(fleet: FleetDocument) -> str:
    """Return one self-contained HTML page."""
    return render(
        "fleet.html",
        fleet=fleet,
        tiles=fleet_tiles(fleet.clusters),
        rows=fleet_rows(fleet.clusters, link=_page_of),
        without_concern=sum(not entry.concerns for entry in fleet.clusters),
    )


def fleet_rows(
    entries: Iterable[FleetEntry], *, link: Callable[[FleetEntry], str]
) -> list[ClusterRow]:
    """Return the rows of the macro `fleet_table`; `link` says where the page of a cluster is."""
    return [_row(entry, link(entry)) for entry in entries]


def _page_of(entry: FleetEntry) -> str:
    is_analysed = entry.brokers is not None
    return f"{quote(entry.cluster, safe='')}/leader-balance.html" if is_analysed else ""


def fleet_tiles(entries: Sequence[FleetEntry]) -> tuple[Tile, ...]:
    """Return sums over the clusters of which the figure is known."""
    brokers = sum(entry.live_brokers or 0 for entry in entries)
    rates = [entry.bytes_in_per_second for entry in entries]
    known = [rate for rate in rates if rate is not None]
    held = sum(entry.bytes or 0 for entry in entries)
    overdue = sum(entry.has(Concern.SILENT) for entry in entries)
    soon = sum(entry.has(Concern.DISK) for entry in entries)
    urgent = sum(any(found.concern not in _NOT_URGENT for found in e.concerns) for e in entries)
    return (
        Tile("Clusters", format_count(len(entries)), f"{format_count(brokers)} live brokers"),
        Tile(
            "Need attention",
            format_count(urgent),
            "clusters with an urgent concern" if urgent else "no concern is urgent",
            urgent > 0,
        ),
        Tile("Snapshots overdue", format_count(overdue), "clusters", overdue > 0),
        Tile("Disks full soon", format_count(soon), "clusters with one within 30 days", soon > 0),
        Tile(
            "Bytes in",
            format_rate(sum(known)) if known else "not known",
            "from producers"
            if len(known) == len(entries)
            else f"of {format_count(len(known))} clusters",
        ),
        Tile("Held", format_bytes(held), "all replicas"),
    )


def fleet_json(fleet: FleetDocument) -> str:
    """Return one JSON object with sorted keys: bytes, bytes per second, seconds, shares 0 to 1;
    null is not known.
    """
    document = {
        "format": FORMAT,
        "as_of": fleet.as_of.astimezone(UTC).isoformat(),
        "clusters": list(map(document_of, fleet.clusters)),
    }
    return for_json(document, indent=1) + "\n"


def _row(entry: FleetEntry, link: str) -> ClusterRow:
    name, worst, first = entry.cluster, entry.worst, entry.first_disk
    brokers, spread, not_preferred, bytes_in, p95, forecast, last_snapshot = _figures(entry)
    is_analysed, unknown = entry.brokers is not None, entry.disks_not_known
    trace = entry.bytes_in_trace
    return ClusterRow(
        cluster=name,
        link=link,
        worst=worst,
        is_alert=worst is not None and worst.concern not in _NOT_URGENT,
        others=entry.concerns[1:],
        brokers=f"{brokers} {'broker' if brokers == '1' else 'brokers'}" if is_analysed else "",
        leaders=small.brokers(
            entry.live_leaders, label=f"Leaders per live broker of {name}: {spread}"
        ),
        spread=f"max − min {spread}" if is_analysed else spread,
        not_preferred=not_preferred,
        traffic=small.spark(trace, label=f"Bytes in of {name} over the period")
        if trace
        else Markup(""),
        bytes_in=bytes_in,
        bytes_in_p95=p95 if entry.bytes_in_p95_per_second is not None else "",
        disk=small.disk(first, label=f"Disk of broker {first.broker_id} of {name}")
        if first
        else Markup(""),
        forecast=forecast,
        is_full_soon=first is not None and disk_alerts(first),
        unknown_disks=f"{format_count(unknown)} not known" if first and unknown else "",
        last_snapshot=last_snapshot,
    )


def _figures(entry: FleetEntry) -> tuple[str, str, str, str, str, str, str]:
    """Return brokers, spread of leaders, share not preferred, bytes in now and 95 % of the time,
    the first disk, age: as the page prints them.
    """
    brokers = spread = not_preferred = bytes_in = p95 = forecast = "–"
    if entry.brokers is not None and entry.live_brokers is not None:
        brokers = format_count(entry.brokers)
        if entry.live_brokers != entry.brokers:
            brokers = f"{format_count(entry.live_brokers)} of {brokers}"
        best = entry.leaders_best_max_minus_min or 0
        spread = f"{format_count(entry.leaders_max_minus_min or 0)} (best {best})"
    if entry.share_not_preferred is not None:
        not_preferred = percent(entry.share_not_preferred)
    if entry.bytes_in_trace is not None:
        bytes_in = known_rate(entry.bytes_in_per_second, is_at_least=entry.bytes_in_is_at_least)
        p95 = known_rate(entry.bytes_in_p95_per_second, is_at_least=entry.bytes_in_p95_is_at_least)
        forecast = _forecast(entry)
    return brokers, spread, not_preferred, bytes_in, p95, forecast, _ago(entry.age)


def _forecast(entry: FleetEntry) -> str:
    first = entry.first_disk
    if first is None:
        return "not known" if entry.disks else "no log dir known"
    return (
        f"broker {first.broker_id} {first.in_words}"
        if first.days_left is not None
        else first.in_words
    )


def _ago(age: timedelta | None) -> str:
    return "never" if age is None else f"{format_seconds(max(0.0, age.total_seconds()))} ago"
