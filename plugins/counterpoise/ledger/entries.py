"""Reads entries for people: events, decisions and requests in one list, newest first.

    ledger.entries().newest(EntryFilter(clusters=("demo",)), limit=50, offset=0)
    ledger.entries().kinds(("demo",))                # granted, pause, ...
    ledger.entries().newest_snapshots()["demo"]      # when the last one was made

Limits: a person in the text of an event is found by the text; other tables have a column for it.
"""

from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from counterpoise.ledger.schema import (
    approvals,
    clusters,
    events,
    requests,
    runs,
)
from counterpoise.ledger.transactions import Transactions
from counterpoise.model.ledger_entry import EntryFilter, EntryTable, LedgerEntry

_TABLES: Final = (events, approvals, requests)
_NOBODY: Final = sa.literal("")
# By table: the column with the kind, the text, and who.
_KINDS: Final[dict[str, sa.ColumnElement[Any]]] = {
    events.name: events.c.kind,
    approvals.name: approvals.c.decision,
    requests.name: requests.c.control,
}
_TEXTS: Final[dict[str, sa.ColumnElement[Any]]] = {
    events.name: events.c.text,
    approvals.name: approvals.c.reason,
    requests.name: sa.func.coalesce(
        sa.literal("broker ") + sa.cast(requests.c.broker_id, sa.Text) + sa.literal(": "), ""
    )
    + requests.c.why,
}


class Entries:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def newest(self, wanted: EntryFilter, *, limit: int, offset: int = 0) -> list[LedgerEntry]:
        """Return entries, the newest first. Raises LedgerError."""
        # Each table gives its own newest rows: only those are sorted together.
        parts = [
            sa.select(
                _selected(table, wanted)
                .order_by(table.c.at.desc(), table.c.id.desc())
                .limit(limit + offset)
                .subquery()
            )
            for table in _TABLES
            if _may_have(table, wanted)
        ]
        if not parts or not wanted.clusters:
            return []
        found = sa.union_all(*parts).subquery()
        query = (
            sa.select(found)
            .order_by(found.c.at.desc(), found.c.table_name, found.c.id.desc())
            .limit(limit)
            .offset(offset)
        )
        with self._transactions.reading() as connection:
            return [_entry(row) for row in connection.execute(query)]

    def kinds(self, of_clusters: Collection[str]) -> tuple[str, ...]:
        """Return the kinds that entries of these clusters have, by name."""
        queries = [
            sa.select(_KINDS[table.name].label("kind"))
            .select_from(_with_cluster(table))
            .where(_cluster_column(table).in_(of_clusters))
            .distinct()
            for table in _TABLES
        ]
        with self._transactions.reading() as connection:
            return tuple(sorted(set(connection.scalars(sa.union(*queries)))))

    def clusters(self) -> frozenset[str]:
        """Return the clusters that runs, requests or snapshots are about."""
        columns = (runs.c.cluster, requests.c.cluster, clusters.c.name)
        with self._transactions.reading() as connection:
            return frozenset(connection.scalars(sa.union(*map(sa.select, columns))))

    def newest_snapshots(self) -> dict[str, datetime]:
        """Return when the newest snapshot of each cluster was made, where there is one."""
        query = sa.select(clusters.c.name, clusters.c.last_observed_at).where(
            clusters.c.last_observed_at.is_not(None)
        )
        with self._transactions.reading() as connection:
            return {row.name: row.last_observed_at for row in connection.execute(query)}


def _cluster_column(table: sa.Table) -> sa.Column[Any]:
    return requests.c.cluster if table is requests else runs.c.cluster


def _with_cluster(table: sa.Table) -> sa.FromClause:
    """Return the table, joined to what says which cluster a row is of."""
    return table if table is requests else table.outerjoin(runs, table.c.run_id == runs.c.run_id)


def _selected(table: sa.Table, wanted: EntryFilter) -> sa.Select[Any]:
    has_person = "by" in table.c
    return (
        sa.select(
            sa.literal(table.name).label("table_name"),
            table.c.id.label("id"),
            _cluster_column(table).label("cluster"),
            table.c.run_id.label("run_id"),
            table.c.at.label("at"),
            _KINDS[table.name].label("kind"),
            _TEXTS[table.name].label("text"),
            (table.c.by if has_person else _NOBODY).label("by"),
        )
        .select_from(_with_cluster(table))
        .where(*_conditions(table, wanted))
    )


def _conditions(table: sa.Table, wanted: EntryFilter) -> Iterator[sa.ColumnElement[bool]]:
    yield _cluster_column(table).in_(wanted.clusters)
    if wanted.run_id:
        yield table.c.run_id == wanted.run_id
    if wanted.kind and wanted.kind != table.name:
        yield _KINDS[table.name] == wanted.kind
    if wanted.person:
        where = table.c.by if "by" in table.c else _TEXTS[table.name]
        yield where.icontains(wanted.person, autoescape=True)
    if wanted.since is not None:
        yield table.c.at >= wanted.since
    if wanted.until is not None:
        yield table.c.at <= wanted.until


def _may_have(table: sa.Table, wanted: EntryFilter) -> bool:
    """Return whether a table is worth a query: the kind may name another one."""
    return wanted.kind not in set(EntryTable) - {table.name}


def _entry(row: sa.Row[Any]) -> LedgerEntry:
    return LedgerEntry(
        table=EntryTable(row.table_name),
        row_id=row.id,
        cluster=row.cluster,
        run_id=row.run_id,
        at=row.at,
        kind=row.kind,
        text=row.text,
        by=row.by,
    )
