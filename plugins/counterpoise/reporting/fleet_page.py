"""The page of all clusters, the worst first, each with a link to its own page; and the same as
text.

    fleet_report(fleet([state, ...], as_of=now))

Links are relative: `<cluster>/leader-balance.html`. A cluster that was never analysed has no page,
and no link.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, timedelta
from typing import Any, Final
from urllib.parse import quote

from markupsafe import Markup

from counterpoise.model.evenness import Evenness
from counterpoise.model.fleet import ClusterConcern, ClusterState, Concern, Fleet, FleetRow
from counterpoise.model.load import DiskForecast, Outlook
from counterpoise.model.safe_text import for_json, for_markdown
from counterpoise.reporting import small
from counterpoise.reporting.html import percent, render, when
from counterpoise.reporting.load_section import disk_alerts, known_rate
from counterpoise.reporting.markdown import csv_table, table
from counterpoise.reporting.parts import Tile
from counterpoise.units import format_bytes, format_count, format_rate, format_seconds

FORMAT: Final = "counterpoise-fleet/1"
_NOT_URGENT: Final = (Concern.NOT_PREFERRED, Concern.BUSY, Concern.LEFT_OUT)  # not urgent


@dataclass(frozen=True, slots=True)
class _Row:
    """One cluster as the template draws it; a dash is "not known"."""

    cluster: str
    link: str  # empty: it has no page
    worst: ClusterConcern | None
    is_alert: bool
    others: tuple[ClusterConcern, ...]
    brokers: str
    leaders: Markup
    spread: str
    not_preferred: str
    traffic: Markup
    bytes_in: str
    disk: Markup
    forecast: str
    is_full_soon: bool
    unknown_disks: str
    last_snapshot: str


def fleet_report(fleet: Fleet) -> str:
    """Return one self-contained HTML page."""
    return render(
        "fleet.html",
        fleet=fleet,
        tiles=fleet_tiles(fleet),
        rows=[_row(row) for row in fleet.rows],
        without_concern=sum(not row.concerns for row in fleet.rows),
    )


def fleet_tiles(fleet: Fleet) -> tuple[Tile, ...]:
    """Return sums over the clusters of which the figure is known."""
    states = [row.state for row in fleet.rows]
    brokers = [broker for state in states if state.balance for broker in state.balance.live_brokers]
    rates = [state.load.bytes_in.now for state in states if state.load]
    known = [rate for rate in rates if rate is not None]
    held = sum(state.balance.latest.bytes.total for state in states if state.balance)
    overdue, soon = _with(fleet, Concern.SILENT), _with(fleet, Concern.DISK)
    urgent = sum(
        any(found.concern not in _NOT_URGENT for found in row.concerns) for row in fleet.rows
    )
    return (
        Tile("Clusters", format_count(len(states)), f"{format_count(len(brokers))} live brokers"),
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
            if len(known) == len(states)
            else f"of {format_count(len(known))} clusters",
        ),
        Tile("Held", format_bytes(held), "all replicas"),
    )


def fleet_markdown(fleet: Fleet) -> str:
    """Return one table, the worst cluster first, with names escaped."""
    rows = ((row.state.cluster, _all_words(row), *_figures(row.state)) for row in fleet.rows)
    heads = (
        "Cluster",
        "Why",
        "Brokers",
        "Leaders, max − min",
        "Not preferred",
        "Bytes in",
        "First disk",
        "Last snapshot",
    )
    parts = [
        "# All clusters",
        for_markdown(f"As of {when(fleet.as_of)}. Worst first."),
        table(heads, rows) if fleet.rows else "No cluster is configured yet.",
    ]
    return "\n\n".join(parts) + "\n"


def fleet_json(fleet: Fleet) -> str:
    """Return one JSON object with sorted keys: bytes, bytes per second, seconds, shares 0 to 1;
    null is not known.
    """
    document = {
        "format": FORMAT,
        "as_of": fleet.as_of.astimezone(UTC).isoformat(),
        "clusters": [
            _document(row)
            | {
                "findings": [
                    {"concern": str(found.concern), "words": found.words} for found in row.concerns
                ],
                "left_out": [asdict(left_out) for left_out in row.state.left_out],
            }
            for row in fleet.rows
        ],
    }
    return for_json(document, indent=1) + "\n"


def fleet_csv(fleet: Fleet) -> str:
    """Return one row per cluster, the worst first, under a row of names; an empty cell is not
    known.

    A text that a spreadsheet would take for a formula gets a quote before it.
    """
    rows = [_document(row) | {"why": _all_words(row)} for row in fleet.rows]
    figures = _document(FleetRow(ClusterState("", None), ()))  # an empty row has all the names
    names = ["cluster", "why", *(name for name in figures if name != "cluster")]
    return csv_table(names, ([row[name] for name in names] for row in rows))


def _with(fleet: Fleet, concern: Concern) -> int:
    return sum(any(found.concern is concern for found in row.concerns) for row in fleet.rows)


def _row(row: FleetRow) -> _Row:
    state, worst = row.state, row.worst
    balance, load = state.balance, state.load
    name = state.cluster
    brokers, spread, not_preferred, bytes_in, forecast, last_snapshot = _figures(state)
    first = _first(load.disks) if load else None
    unknown = _unknown(load.disks) if load else 0
    leaders = [broker.leaders for broker in balance.live_brokers] if balance else []
    return _Row(
        cluster=name,
        link=f"{quote(name, safe='')}/leader-balance.html" if balance else "",
        worst=worst,
        is_alert=worst is not None and worst.concern not in _NOT_URGENT,
        others=row.concerns[1:],
        brokers=f"{brokers} {'broker' if brokers == '1' else 'brokers'}" if balance else "",
        leaders=small.brokers(leaders, label=f"Leaders per live broker of {name}: {spread}"),
        spread=f"max − min {spread}" if balance else spread,
        not_preferred=not_preferred,
        traffic=small.spark(load.bytes_in_trace, label=f"Bytes in of {name} over the period")
        if load
        else Markup(""),
        bytes_in=bytes_in,
        disk=small.disk(first, label=f"Disk of broker {first.broker_id} of {name}")
        if first
        else Markup(""),
        forecast=forecast,
        is_full_soon=first is not None and disk_alerts(first),
        unknown_disks=f"{format_count(unknown)} not known" if first and unknown else "",
        last_snapshot=last_snapshot,
    )


def _figures(state: ClusterState) -> tuple[str, str, str, str, str, str]:
    """Return brokers, spread of leaders, share not preferred, bytes in, the first disk, age: as the
    page prints them.
    """
    balance, load = state.balance, state.load
    brokers = spread = not_preferred = bytes_in = forecast = "–"
    if balance:
        live, all_ = len(balance.live_brokers), len(balance.brokers)
        brokers = format_count(all_)
        if live != all_:
            brokers = f"{format_count(live)} of {brokers}"
        spread = _spread(balance.latest.leaders)
        not_preferred = percent(balance.latest.share_not_preferred)
    if load:
        bytes_in, forecast = (
            known_rate(load.bytes_in.now, is_at_least=load.bytes_in.is_at_least),
            _forecast(load.disks),
        )
    return brokers, spread, not_preferred, bytes_in, forecast, _ago(state.age)


def _spread(leaders: Evenness) -> str:
    return f"{format_count(leaders.max_minus_min)} (best {leaders.best_max_minus_min})"


def _first(disks: Sequence[DiskForecast]) -> DiskForecast | None:
    """Return the first disk to fill, of those with a forecast."""
    return next((disk for disk in disks if disk.outlook is not Outlook.NOT_KNOWN), None)


def _unknown(disks: Sequence[DiskForecast]) -> int:
    return sum(disk.outlook is Outlook.NOT_KNOWN for disk in disks)


def _forecast(disks: Sequence[DiskForecast]) -> str:
    first = _first(disks)
    if first is None:
        return "not known" if disks else "no log dir known"
    return (
        f"broker {first.broker_id} {first.in_words}"
        if first.days_left is not None
        else first.in_words
    )


def _ago(age: timedelta | None) -> str:
    return "never" if age is None else f"{format_seconds(max(0.0, age.total_seconds()))} ago"


def _all_words(row: FleetRow) -> str:
    return "; ".join(found.words for found in row.concerns) or "all is well"


def _document(row: FleetRow) -> dict[str, Any]:
    """Return the figures of a cluster for JSON and CSV; None is not known."""
    state = row.state
    balance, load = state.balance, state.load
    latest = balance.latest if balance else None
    first_full = load.first_full if load else None
    bytes_in_evenness = load.leaders if load else None
    return {
        "cluster": state.cluster,
        "worst_concern": str(row.worst.concern) if row.worst else "",
        "age_seconds": None if state.age is None else state.age.total_seconds(),
        "snapshot_id": latest.snapshot_id if latest else None,
        "observed_at": latest.observed_at.astimezone(UTC).isoformat() if latest else None,
        "brokers": len(balance.brokers) if balance else None,
        "live_brokers": len(balance.live_brokers) if balance else None,
        "idle_brokers": len(balance.idle_broker_ids) if balance else None,
        "leaders": latest.leaders.total if latest else None,
        "leaders_max_minus_min": latest.leaders.max_minus_min if latest else None,
        "leaders_best_max_minus_min": latest.leaders.best_max_minus_min if latest else None,
        "leaders_max_over_mean": latest.leaders.max_over_mean if latest else None,
        "share_not_preferred": latest.share_not_preferred if latest else None,
        "replicas": latest.replicas.total if latest else None,
        "bytes": latest.bytes.total if latest else None,
        "bytes_in_per_second": load.bytes_in.now if load else None,
        "bytes_in_p95_per_second": load.bytes_in.p95 if load else None,
        "bytes_in_max_over_mean": bytes_in_evenness.max_over_mean if bytes_in_evenness else None,
        "growth_bytes_per_day": load.bytes_per_day if load else None,
        "first_full_broker": first_full.broker_id if first_full else None,
        "first_full_days": first_full.days_left if first_full else None,
        "wanted_goal": str(state.wanted.goal) if state.wanted else None,
        "snapshots_left_out": len(state.left_out),
    }
