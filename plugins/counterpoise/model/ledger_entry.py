"""Rows of the ledger as people read them: what happened, was decided or requested.

EntryFilter(clusters=("demo",), kind="granted", person="alice")
entry.kind, entry.who, entry.text
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from counterpoise.model.person import Person


class EntryTable(StrEnum):
    """The tables of the ledger whose rows never change."""

    EVENTS = "events"
    APPROVALS = "approvals"
    REQUESTS = "requests"


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    table: EntryTable
    row_id: int
    cluster: str
    run_id: str | None  # None: about the cluster
    at: datetime  # UTC
    kind: str  # of an event its kind, of a decision or request what it is
    text: str
    by: str = ""  # as `Person.recorded`; "" where the row names nobody

    @property
    def who(self) -> str:
        """Return for example `alice (system user)`; "" where the row names nobody."""
        return Person.from_ledger(self.by).shown if self.by else ""


@dataclass(frozen=True, slots=True)
class EntryFilter:
    """Which entries: of these clusters, and where a text or time is given, of that alone."""

    clusters: tuple[str, ...]
    run_id: str = ""
    kind: str = ""  # a table, or a kind
    person: str = ""  # part of a name, or of `airflow:alice`, in any case
    since: datetime | None = None
    until: datetime | None = None  # and not later
