"""Checks the hash chains of a ledger, exports them, and lets old rows go.

    report = chain.verify(now, heads=("9f86...",))     # what was changed, removed, inserted
    for line in chain.export("demo", after=1200): ...
    chain.let_go("demo", before=moment, now=now)       # a checkpoint; verify begins there

`links.py` says how an entry is computed. A row is pending, not inserted by somebody else, while the
next writer will chain it: it is newer than all of its table that are chained, or came late, and its
time is of this day.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa

from counterpoise.errors import RefusedError
from counterpoise.ledger import links
from counterpoise.ledger.links import CHAINED_TABLES, CHECKPOINT, ChainedRow, Link, time_text
from counterpoise.ledger.retention import delete_old_rows, old_links
from counterpoise.ledger.schema import chain, requests, runs
from counterpoise.ledger.transactions import Transactions
from counterpoise.model.chain import ChainBreak, ChainReport, ChainState

_PENDING_FOR: Final = timedelta(days=1)
_BATCH_LINKS: Final = 500


class Chain:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def append_pending(self, now: datetime) -> None:
        """Chain the rows that an older worker, or a role that may only insert, has written."""
        with self._transactions.writing() as connection:
            links.chain_everything(connection, now)

    def clusters(self) -> frozenset[str]:
        """Return the clusters that have rows, or entries."""
        columns = (runs.c.cluster, requests.c.cluster, chain.c.cluster)
        with self._transactions.reading() as connection:
            return frozenset(connection.scalars(sa.union(*map(sa.select, columns))))

    def verify(
        self, now: datetime, *, cluster: str | None = None, heads: Sequence[str] = ()
    ) -> ChainReport:
        """Check every entry and every row, and that each of `heads` is still in a chain."""
        with self._transactions.reading() as connection:
            return _verify(connection, now, cluster, heads)

    def export(
        self, *, cluster: str | None = None, after: Mapping[str, int], since: datetime | None
    ) -> Iterator[dict[str, Any]]:
        """Yield each entry with its row, by cluster and sequence.

        `after` has the last sequence of each cluster that is not wanted any more; `since` is the
        time from which on an entry was chained.
        """
        conditions: list[sa.ColumnElement[bool]] = []
        if cluster is not None:
            conditions.append(chain.c.cluster == cluster)
        if since is not None:
            conditions.append(chain.c.chained_at >= since)
        for name, sequence in after.items():
            conditions.append((chain.c.cluster != name) | (chain.c.sequence > sequence))
        with self._transactions.reading() as connection:
            batch: list[Link] = []
            for link in list(links.read_links(connection, *conditions)):
                batch.append(link)
                if len(batch) == _BATCH_LINKS:
                    yield from _exported(connection, batch)
                    batch = []
            yield from _exported(connection, batch)

    def hash_at(self, cluster: str, sequence: int) -> str | None:
        """Return the hash of an entry, also of the last that a checkpoint has let go; else None."""
        query = (
            sa.select(chain.c.sequence, chain.c.hash, chain.c.previous_hash)
            .where(chain.c.cluster == cluster, chain.c.sequence >= sequence)
            .order_by(chain.c.sequence)
            .limit(1)
        )
        with self._transactions.reading() as connection:
            found = connection.execute(query).first()
        if found is None:
            return None
        known = {found.sequence: found.hash, found.sequence - 1: found.previous_hash}
        return known.get(sequence)

    def let_go(self, cluster: str, *, before: datetime, now: datetime) -> int:
        """Delete the oldest entries of a cluster with their rows, and return how many.

        Those go that are older than `before`, up to the first that still counts (`retention.py`).
        An entry at the end of the chain says where it begins now. Raises RefusedError for a chain
        that is broken.
        """
        with self._transactions.chaining(cluster) as connection:
            links.append_pending(connection, cluster, now)
            report = _verify(connection, now, cluster, ())
            if not report.is_intact:
                raise RefusedError(
                    f"the chain of {cluster} is broken ({report.breaks[0].in_words}); nothing was "
                    "deleted. `counterpoise ledger verify` lists all of it"
                )
            gone = list(old_links(connection, cluster, before, now))
            if gone:
                last = gone[-1]
                links.append(connection, cluster, [(CHECKPOINT, last.sequence, last.hash)], now)
                delete_old_rows(connection, cluster, gone)
            return len(gone)


def _verify(
    connection: sa.Connection, now: datetime, cluster: str | None, heads: Sequence[str]
) -> ChainReport:
    if cluster is None:
        rows = _known_rows(connection)
        all_links: Iterable[Link] = links.read_links(connection)
    else:
        all_links = list(links.read_links(connection, chain.c.cluster == cluster))
        rows = _known_rows_of(connection, cluster, all_links)
    checks: dict[str, _Check] = {}
    for link in all_links:
        checks.setdefault(link.cluster, _Check(link.cluster)).add(link, rows)
    for (table, row_id), row in sorted(rows.items()):
        if not row.is_chained:
            check = checks.setdefault(row.cluster, _Check(row.cluster))
            check.add_unchained(table, row_id, row, now)
    wanted = [check for name, check in sorted(checks.items()) if cluster in (None, name)]
    known_heads = {known for check in wanted for known in check.hashes}
    return ChainReport(
        states=tuple(check.state for check in wanted),
        breaks=tuple(found for check in wanted for found in check.all_breaks),
        missing_heads=tuple(head for head in heads if head not in known_heads),
    )


def _known_rows_of(
    connection: sa.Connection, cluster: str, all_links: Sequence[Link]
) -> "dict[tuple[str, int], _Known]":
    """Return the rows of one cluster, and those of others that its entries name."""
    rows = _known_rows(connection, cluster)
    elsewhere = [
        link
        for link in all_links
        if link.table in CHAINED_TABLES and (link.table, link.row_id) not in rows
    ]
    named = links.read_rows_of(connection, elsewhere)
    return rows | {key: _Known.of(row) for key, row in named.items()}


def _known_rows(
    connection: sa.Connection, cluster: str | None = None
) -> "dict[tuple[str, int], _Known]":
    """Return all rows, or those of one cluster."""
    rows: dict[tuple[str, int], _Known] = {}
    for table in CHAINED_TABLES.values():
        of_cluster = () if cluster is None else (links.cluster_column(table) == cluster,)
        for row in links.read_rows(connection, table, *of_cluster):
            rows[row.table, row.row_id] = _Known.of(row)
    return rows


@dataclass(slots=True)
class _Known:
    """What is stored of a row."""

    cluster: str
    at: str
    row_hash: str
    is_chained: bool = False

    @classmethod
    def of(cls, row: ChainedRow) -> "_Known":
        return cls(row.cluster or "unknown", row.at, row.row_hash)


@dataclass(slots=True)
class _Check:
    """The check of one cluster's chain, entry by entry."""

    cluster: str
    breaks: list[ChainBreak] = field(default_factory=list)
    hashes: set[str] = field(default_factory=set)
    first: Link | None = None
    last: Link | None = None
    checkpoints: set[tuple[int, str]] = field(default_factory=set)
    newest_ids: dict[str, int] = field(default_factory=dict)
    rows_waiting: int = 0

    @property
    def state(self) -> ChainState:
        return ChainState(
            cluster=self.cluster,
            first_sequence=self.first.sequence if self.first else 0,
            last_sequence=self.last.sequence if self.last else 0,
            head=self.last.hash if self.last else "",
            rows_waiting=self.rows_waiting,
        )

    @property
    def all_breaks(self) -> tuple[ChainBreak, ...]:
        return (*self._lost_beginning(), *self.breaks)

    def add(self, link: Link, rows: Mapping[tuple[str, int], _Known]) -> None:
        """Check the next entry: itself, its place behind the last one, and its row."""
        if link.computed_hash != link.hash:
            self._break(link, "has another entry in the chain than was written")
        if self.last is None:
            self.first = link
        else:
            self._check_place(link, self.last)
        if link.table == CHECKPOINT:
            self.checkpoints.add((link.row_id, link.row_hash))
        else:
            self._check_row(link, rows.get((link.table, link.row_id)))
        self.last = link
        self.hashes |= {link.hash, link.previous_hash}

    def add_unchained(self, table: str, row_id: int, row: _Known, now: datetime) -> None:
        if self._is_pending(table, row_id, row.at, now):
            self.rows_waiting += 1
            return
        what = "is not in the chain: it was inserted, or its entry was removed"
        self.breaks.append(ChainBreak(self.cluster, table, row_id, row.at, what))

    def _is_pending(self, table: str, row_id: int, at: str, now: datetime) -> bool:
        """Return whether the next writer chains a row, as `links.append_pending` chooses them."""
        newest_id = self.newest_ids.get(table, 0)
        if row_id > newest_id:
            return _is_around(at, now, _PENDING_FOR)
        return row_id > newest_id - links.LATE_IDS and _is_around(at, now, links.LATE_FOR)

    def _check_place(self, link: Link, last: Link) -> None:
        missing = link.sequence - last.sequence - 1
        if missing:
            self._break(link, f"comes after a gap: {missing} entries before it were removed")
        elif link.previous_hash not in (last.hash, last.computed_hash):
            self._break(link, "does not follow the entry before it: one of both was replaced")

    def _check_row(self, link: Link, row: _Known | None) -> None:
        self.newest_ids[link.table] = max(self.newest_ids.get(link.table, 0), link.row_id)
        if row is None:
            self._break(link, "was removed")
            return
        if row.cluster != link.cluster and row.row_hash == link.row_hash:
            self._break(link, f"is a row of another cluster, {row.cluster}", at=row.at)
            return
        row.is_chained = True
        if row.row_hash != link.row_hash:
            self._break(link, "was changed", at=row.at)

    def _lost_beginning(self) -> Iterator[ChainBreak]:
        """Yield what is wrong with the first entry: only a checkpoint explains a later number."""
        if self.first is None:
            return
        lost = self.first.sequence - 1
        is_whole = not lost and not self.first.previous_hash
        if not is_whole and (lost, self.first.previous_hash) not in self.checkpoints:
            yield _break_at(
                self.first, f"is the first entry: {lost} before it were removed without checkpoint"
            )

    def _break(self, link: Link, what: str, at: str = "") -> None:
        self.breaks.append(_break_at(link, what, at))


def _is_around(at: str, now: datetime, span: timedelta) -> bool:
    return time_text(now - span) <= at <= time_text(now + span)


def _break_at(link: Link, what: str, at: str = "") -> ChainBreak:
    return ChainBreak(link.cluster, link.table, link.row_id, at or link.chained_at, what)


def _exported(connection: sa.Connection, batch: Sequence[Link]) -> Iterator[dict[str, Any]]:
    rows = links.read_rows_of(connection, batch)
    for link in batch:
        row = rows.get((link.table, link.row_id))
        is_row_intact = link.table == CHECKPOINT or (
            row is not None and row.row_hash == link.row_hash
        )
        yield {
            "cluster": link.cluster,
            "sequence": link.sequence,
            "table": link.table,
            "id": link.row_id,
            "at": row.at if row else link.chained_at,
            "chained_at": link.chained_at,
            "row": row.document if row else None,
            "row_hash": link.row_hash,
            "previous_hash": link.previous_hash,
            "hash": link.hash,
            "is_intact": is_row_intact and link.computed_hash == link.hash,
        }
