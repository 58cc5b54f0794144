"""The page of all clusters, the worst first, each with a link to its own page; and the
same as JSON.

    fleet_report(fleet([entry, ...], as_of=now))
"""

from collections.abc import Sequence
from datetime import UTC

from counterpoise.model.fleet_document import (
    FORMAT,
    Concern,
    FleetDocument,
    FleetEntry,
    document_of,
)
from counterpoise.model.safe_text import for_json
from counterpoise.reporting.html import render
from counterpoise.reporting.parts import Tile
from counterpoise.units import format_bytes, format_count, format_rate


def fleet_report(fleet: FleetDocument) -> str:
    """Return one self-contained HTML page."""
    return render(
        "fleet.html",
        fleet=fleet,
        tiles=fleet_tiles(fleet.clusters),
        without_concern=sum(not entry.concerns for entry in fleet.clusters),
    )


def fleet_tiles(entries: Sequence[FleetEntry]) -> tuple[Tile, ...]:
    """Return sums over the clusters of which the figure is known."""
    brokers = sum(entry.live_brokers or 0 for entry in entries)
    rates = [entry.bytes_in_per_second for entry in entries]
    known = [rate for rate in rates if rate is not None]
    held = sum(entry.bytes or 0 for entry in entries)
    overdue = sum(entry.has(Concern.SILENT) for entry in entries)
    soon = sum(entry.has(Concern.DISK) for entry in entries)
    urgent = sum(any(found.is_urgent for found in e.concerns) for e in entries)
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
