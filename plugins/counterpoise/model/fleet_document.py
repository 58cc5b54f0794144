"""The fleet as a document: a flat entry per cluster, the worst first.

    read_fleet(text, where="reports/fleet.json").clusters[0].worst
    read_entry(entry_text(entry))

The pages of all clusters are drawn from entries, whether these were just made or read again.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from counterpoise.errors import InputError
from counterpoise.model.balance import LeaderBalance, LeftOut, WantedRebalance
from counterpoise.model.json_values import json_keys, read_json, to_content
from counterpoise.model.load import ClusterLoad, DiskForecast
from counterpoise.model.safe_text import for_json

# -- What is known of each cluster of the fleet, and what can be the matter with it
#
# ClusterState("demo", age, balance=balance, load=load, wanted=wanted)


DEFAULT_PATIENCE: Final = timedelta(hours=24)  # with one snapshot there is no usual interval


class Concern(StrEnum):
    """What can be the matter with a cluster, the gravest first: clusters are ordered by their
    gravest concern.
    """

    SILENT = "silent"  # no new snapshot, though one is due: whatever else is known of it is old
    NOT_ANALYSED = "not analysed"
    OFFLINE = "offline"  # partitions that nobody leads
    CRITICAL = "critical findings"  # of the newest audit, that nobody waived
    DISK = "disk"  # a disk is full within 30 days
    DEAD = "dead broker"  # registered, but not live
    IDLE = "idle broker"  # live, and holds nothing
    UNEVEN = "uneven leaders"  # more than the policy allows
    OFF_SHARE = "uneven replicas or bytes"  # farther from a fair share than the policy allows
    NOT_PREFERRED = (
        "not preferred"  # more than 10 % of partitions are not led by their preferred leader
    )
    BUSY = "busy broker"  # takes in 1.5 times its share or more, as leader
    LEFT_OUT = "left out"  # snapshots that could not be analysed


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What is known of one cluster by now."""

    cluster: str
    age: timedelta | None  # of its newest snapshot; None: it has none
    balance: LeaderBalance | None = None  # None: not analysed
    load: ClusterLoad | None = None
    wanted: WantedRebalance | None = None  # what would help; None: the policy asks for nothing
    left_out: tuple[LeftOut, ...] = ()
    is_readable: bool = True  # its analysis; False: a file of it is damaged


FORMAT: Final = "counterpoise-fleet/1"


@dataclass(frozen=True, slots=True)
class EntryConcern:
    """One concern of a cluster, by its name in `Concern`, in a few words.

    Of two clusters with the same one, the larger `weight` is worse.
    """

    concern: str
    words: str
    weight: float = 0.0


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
    live_broker_ids: tuple[int, ...] = ()
    live_leaders: tuple[int, ...] = ()  # of each live broker, and so on
    live_replicas: tuple[int, ...] = ()
    live_bytes: tuple[int, ...] = ()
    # Which of these rates are only lower bounds: now, and 95 %.
    bytes_in_is_at_least: bool = False
    bytes_in_p95_is_at_least: bool = False
    first_disk: DiskForecast | None = None  # to fill, of those with a forecast
    left_out: tuple[LeftOut, ...] = ()
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


def document_of(entry: FleetEntry) -> dict[str, Any]:
    """Return an entry as the document has it: of a disk not what it held over time."""
    document = to_content(entry, {"concerns": "findings"})
    if entry.first_disk is not None:
        del document["first_disk"]["held"]
    return document


def fleet_json(fleet: FleetDocument) -> str:
    """Return one JSON object with sorted keys: bytes, bytes per second, seconds, shares 0 to 1;
    null is not known.
    """
    document = {
        "format": FORMAT,
        "as_of": fleet.as_of,
        "clusters": list(map(document_of, fleet.clusters)),
    }
    return for_json(document, indent=1) + "\n"


def read_fleet(text: str, *, where: str) -> FleetDocument:
    """Return the document. Raises InputError, naming `where`, for a text that is none."""
    try:
        return read_json(FleetDocument, text)
    except ValueError as error:
        raise InputError(f"{where} is no document of the fleet: {error}") from None


def entry_text(entry: FleetEntry) -> str:
    """Return everything of an entry as JSON, for `read_entry`."""
    return for_json(document_of(entry)) + "\n"


def read_entry(text: str) -> FleetEntry:
    """Return the entry. Raises ValueError for a text that is none."""
    return read_json(FleetEntry, text)
