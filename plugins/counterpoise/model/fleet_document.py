"""The fleet as a document: a flat entry per cluster, the worst first, with what small charts need.

    entries = [entry_of(row) for row in fleet.rows]
    read_fleet(text, where="reports/fleet.json").clusters[0].cluster

The pages of all clusters are drawn from entries, whether these were just made or read again.

Limits: a document of an earlier release has no charts, and does not say when a snapshot is overdue.
"""

from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Final

from counterpoise.errors import InputError
from counterpoise.model.fleet import ClusterConcern, Concern, FleetRow
from counterpoise.model.json_values import json_keys, read_json
from counterpoise.model.load import DiskForecast, Outlook, Trace

FORMAT: Final = "counterpoise-fleet/1"
# Not figures, but what charts and words are made of: left out of tables.
_PARTS: Final = (
    "concerns",
    "live_leaders",
    "bytes_in_is_at_least",
    "bytes_in_trace",
    "disks",
    "disks_not_known",
    "first_disk",
    "overdue_after_seconds",
)


@dataclass(frozen=True, slots=True)
class EntryConcern:
    """One concern of a cluster, by its name in `Concern`, in a few words."""

    concern: str
    words: str


@dataclass(frozen=True, slots=True)
class FleetEntry:
    """What the fleet's pages tell of one cluster. None is not known."""

    __pydantic_config__ = json_keys({"concerns": "findings"})

    cluster: str
    worst_concern: str = ""
    age_seconds: float | None = None  # of its newest snapshot; None: it has none
    snapshot_id: str | None = None
    observed_at: datetime | None = None
    brokers: int | None = None
    live_brokers: int | None = None
    idle_brokers: int | None = None
    leaders: int | None = None
    leaders_max_minus_min: int | None = None
    leaders_best_max_minus_min: int | None = None
    leaders_max_over_mean: float | None = None
    share_not_preferred: float | None = None
    replicas: int | None = None
    replicas_max_over_mean: float | None = None
    bytes: int | None = None
    bytes_max_over_mean: float | None = None
    bytes_in_per_second: int | None = None
    bytes_in_p95_per_second: int | None = None
    bytes_in_max_over_mean: float | None = None
    growth_bytes_per_day: int | None = None
    first_full_broker: int | None = None
    first_full_days: float | None = None
    wanted_goal: str | None = None
    snapshots_left_out: int = 0
    concerns: tuple[EntryConcern, ...] = ()  # the gravest first
    live_leaders: tuple[int, ...] = ()  # of each live broker
    bytes_in_is_at_least: bool = False
    bytes_in_trace: Trace | None = None
    disks: int = 0
    disks_not_known: int = 0  # without a forecast
    first_disk: DiskForecast | None = None  # to fill, of those with a forecast
    overdue_after_seconds: float | None = None

    @property
    def age(self) -> timedelta | None:
        return None if self.age_seconds is None else timedelta(seconds=self.age_seconds)

    @property
    def worst(self) -> EntryConcern | None:
        return self.concerns[0] if self.concerns else None

    def has(self, concern: Concern) -> bool:
        return any(found.concern == concern for found in self.concerns)


@dataclass(frozen=True, slots=True)
class FleetDocument:
    as_of: datetime  # UTC
    clusters: tuple[FleetEntry, ...]  # worst first


def entry_of(row: FleetRow) -> FleetEntry:
    """Return the entry of a cluster."""
    state = row.state
    balance, load = state.balance, state.load
    latest = balance.latest if balance else None
    first_full = load.first_full if load else None
    bytes_in_evenness = load.leaders if load else None
    disks = load.disks if load else ()
    known_disks = [disk for disk in disks if disk.outlook is not Outlook.NOT_KNOWN]
    return FleetEntry(
        cluster=state.cluster,
        worst_concern=str(row.worst.concern) if row.worst else "",
        age_seconds=None if state.age is None else state.age.total_seconds(),
        snapshot_id=latest.snapshot_id if latest else None,
        observed_at=latest.observed_at if latest else None,
        brokers=len(balance.brokers) if balance else None,
        live_brokers=len(balance.live_brokers) if balance else None,
        idle_brokers=len(balance.idle_broker_ids) if balance else None,
        leaders=latest.leaders.total if latest else None,
        leaders_max_minus_min=latest.leaders.max_minus_min if latest else None,
        leaders_best_max_minus_min=latest.leaders.best_max_minus_min if latest else None,
        leaders_max_over_mean=latest.leaders.max_over_mean if latest else None,
        share_not_preferred=latest.share_not_preferred if latest else None,
        replicas=latest.replicas.total if latest else None,
        replicas_max_over_mean=latest.replicas.max_over_mean if latest else None,
        bytes=latest.bytes.total if latest else None,
        bytes_max_over_mean=latest.bytes.max_over_mean if latest else None,
        bytes_in_per_second=load.bytes_in.now if load else None,
        bytes_in_p95_per_second=load.bytes_in.p95 if load else None,
        bytes_in_max_over_mean=bytes_in_evenness.max_over_mean if bytes_in_evenness else None,
        growth_bytes_per_day=load.bytes_per_day if load else None,
        first_full_broker=first_full.broker_id if first_full else None,
        first_full_days=first_full.days_left if first_full else None,
        wanted_goal=str(state.wanted.goal) if state.wanted else None,
        snapshots_left_out=len(state.left_out),
        concerns=tuple(map(_entry_concern, row.concerns)),
        live_leaders=tuple(broker.leaders for broker in balance.live_brokers) if balance else (),
        bytes_in_is_at_least=load.bytes_in.is_at_least if load else False,
        bytes_in_trace=load.bytes_in_trace if load else None,
        disks=len(disks),
        disks_not_known=len(disks) - len(known_disks),
        first_disk=known_disks[0] if known_disks else None,
        overdue_after_seconds=row.overdue_after.total_seconds(),
    )


def figures_of(entry: FleetEntry) -> dict[str, Any]:
    """Return the flat figures of a cluster by name, as JSON and CSV have them."""
    names = (field.name for field in fields(entry) if field.name not in _PARTS)
    figures = {name: getattr(entry, name) for name in names}
    if entry.observed_at is not None:
        figures["observed_at"] = entry.observed_at.isoformat()
    return figures


def document_of(entry: FleetEntry) -> dict[str, Any]:
    """Return everything of an entry, as the document has it."""
    disk, trace = entry.first_disk, entry.bytes_in_trace
    parts = {name: getattr(entry, name) for name in _PARTS if name != "concerns"} | {
        "bytes_in_trace": None if trace is None else _trace(trace),
        "first_disk": None if disk is None else asdict(disk) | {"held": _trace(disk.held)},
    }
    return figures_of(entry) | parts | {"findings": list(map(asdict, entry.concerns))}


def _trace(trace: Trace) -> dict[str, Any]:
    return {"at": trace.at, "values": trace.values, "seconds": trace.seconds}


def read_fleet(text: str, *, where: str) -> FleetDocument:
    """Return the document. Raises InputError, naming `where`, for a text that is none."""
    try:
        return read_json(FleetDocument, text)
    except ValueError as error:
        raise InputError(f"{where} is no document of the fleet: {error}") from None


def _entry_concern(found: ClusterConcern) -> EntryConcern:
    return EntryConcern(str(found.concern), found.words)
