"""Chains rows that never change: each entry holds the hash of its row and of the entry before it.

    with engine.begin() as connection:
        lock(connection, "demo")          # first: nobody else adds to this chain meanwhile
        connection.execute(events.insert()...)
        append_pending(connection, "demo", now)

    row_hash = SHA-256 of {"table": "events", "cluster": "demo", "id": 7, "kind": "approved", ...}
    hash     = SHA-256 of {"sequence": 12, "row_hash": ..., "previous_hash": <hash of 11>, ...}

Both are JSON with sorted keys and without blanks, ASCII only; what is null is left out, so that a
new column changes no old hash. Any writer chains what is pending, its own rows as those of others:
workers of an earlier release and roles that may only insert requests write rows alone.

Limits: who may write all tables can compute a chain anew. Only a head that was noted elsewhere
shows that (`counterpoise ledger verify --head HASH`).
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

import sqlalchemy as sa

from counterpoise.ledger.schema import (
    UtcDateTime,
    approvals,
    chain,
    events,
    questions,
    requests,
    runs,
)

CHAINED_TABLES: Final = {table.name: table for table in (approvals, events, questions, requests)}
CHECKPOINT: Final = "checkpoint"  # an entry that is no row: it says where the chain begins now
_CHANGING_COLUMNS: Final = frozenset({requests.c.obeyed_at})
_TIME_COLUMNS: Final = {questions.name: questions.c.asked_at.name}
# A transaction of an older worker in Postgres may commit after one with a higher id.
LATE_IDS: Final = 100
LATE_FOR: Final = timedelta(minutes=10)
_BATCH_ROWS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Link:
    """One entry of a chain."""

    cluster: str
    sequence: int
    table: str
    row_id: int
    row_hash: str
    chained_at: str
    previous_hash: str
    hash: str

    @property
    def computed_hash(self) -> str:
        return sha256_of(
            {
                "cluster": self.cluster,
                "sequence": self.sequence,
                "table": self.table,
                "id": self.row_id,
                "row_hash": self.row_hash,
                "chained_at": self.chained_at,
                "previous_hash": self.previous_hash,
            }
        )


@dataclass(frozen=True, slots=True)
class ChainedRow:
    """A row as it is hashed: `document` has its table, its cluster and every column not null."""

    table: str
    row_id: int
    cluster: str | None
    at: str
    document: Mapping[str, object]

    @property
    def row_hash(self) -> str:
        return sha256_of(self.document)


def sha256_of(document: Mapping[str, object]) -> str:
    """Return the SHA-256 of a document in canonical JSON, as 64 hexadecimal digits."""
    text = json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str
    )
    return hashlib.sha256(text.encode()).hexdigest()


def time_text(value: object) -> str:
    """Return a time as it is hashed, 2026-01-31T12:00:00.000000Z; SQLite's text as well.

    Text that is no time stays as it is: somebody wrote it there, and its hash shows it.
    """
    if isinstance(value, str):
        try:
            return time_text(datetime.fromisoformat(value))
        except ValueError:
            return value
    if not isinstance(value, datetime):
        return str(value)
    at = value.astimezone(UTC) if value.tzinfo else value
    return f"{at:%Y-%m-%dT%H:%M:%S.%f}Z"


def time_column(table: sa.Table) -> sa.Column[Any]:
    return table.c[_TIME_COLUMNS.get(table.name, "at")]


def cluster_column(table: sa.Table) -> sa.Column[Any]:
    return requests.c.cluster if table is requests else runs.c.cluster


def with_cluster(table: sa.Table) -> sa.FromClause:
    """Return the table, joined to what says which cluster a row is of."""
    return table if table is requests else table.outerjoin(runs, table.c.run_id == runs.c.run_id)


def read_rows(
    connection: sa.Connection, table: sa.Table, *conditions: sa.ColumnElement[bool]
) -> Iterator[ChainedRow]:
    """Yield rows as they are stored, whatever was written there."""
    is_time = {
        column.name: isinstance(column.type, UtcDateTime)
        for column in table.c
        if column not in _CHANGING_COLUMNS
    }
    for row in connection.execute(_rows_of(table).where(*conditions)).mappings():
        values = {
            name: time_text(row[name]) if is_time[name] else row[name]
            for name in is_time
            if row[name] is not None
        }
        cluster = row["cluster_of_row"]
        yield ChainedRow(
            table=table.name,
            row_id=row["id"],
            cluster=cluster,
            at=str(values.get(time_column(table).name, "")),
            document={"table": table.name, "cluster": cluster} | values,
        )


@cache
def _rows_of(table: sa.Table) -> sa.Select[Any]:
    hashed = [column for column in table.c if column not in _CHANGING_COLUMNS]
    return (
        sa.select(
            cluster_column(table).label("cluster_of_row"),
            *(sa.type_coerce(column, sa.types.NULLTYPE).label(column.name) for column in hashed),
        )
        .select_from(with_cluster(table))
        .order_by(table.c.id)
    )


def read_links(connection: sa.Connection, *conditions: sa.ColumnElement[bool]) -> Iterator[Link]:
    """Yield the entries of all chains, by cluster and sequence."""
    columns = [sa.type_coerce(column, sa.types.NULLTYPE).label(column.name) for column in chain.c]
    query = sa.select(*columns).where(*conditions).order_by(chain.c.cluster, chain.c.sequence)
    for row in connection.execute(query):
        yield Link(
            row.cluster,
            row.sequence,
            row.table_name,
            row.row_id,
            row.row_hash,
            time_text(row.chained_at),
            row.previous_hash,
            row.hash,
        )


def lock(connection: sa.Connection, cluster: str) -> None:
    """Let nobody else add to the chain of a cluster until this transaction ends.

    It has to be the first that a writing transaction does: two that take their locks in different
    orders would wait for each other. SQLite has one writer at a time anyway.
    """
    if connection.dialect.name == "postgresql":
        digest = hashlib.sha256(f"counterpoise chain {cluster}".encode()).digest()
        key = int.from_bytes(digest[:8], signed=True)
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.literal(key, sa.BigInteger))))


def append_pending(connection: sa.Connection, cluster: str, now: datetime) -> None:
    """Chain every row of a cluster that is not in its chain yet; `lock` was called before."""
    parameters = {"of_cluster": cluster, "recently": now - LATE_FOR, "soon": now + LATE_FOR}
    pending = list(connection.execute(_PENDING_ROWS, parameters))
    if not pending:
        return
    ids_by_table: dict[str, list[int]] = {}
    for found in pending:
        ids_by_table.setdefault(found.table_name, []).append(found.id)
    row_hashes = {
        (row.table, row.row_id): row.row_hash
        for name, ids in ids_by_table.items()
        for row in read_rows_by_id(connection, CHAINED_TABLES[name], ids)
    }
    in_order = sorted(pending, key=lambda found: (time_text(found.at), found.table_name, found.id))
    append(
        connection,
        cluster,
        [
            (found.table_name, found.id, row_hashes[found.table_name, found.id])
            for found in in_order
        ],
        now,
    )


def read_rows_by_id(
    connection: sa.Connection, table: sa.Table, ids: Sequence[int]
) -> Iterator[ChainedRow]:
    for batch in in_batches(ids):
        yield from read_rows(connection, table, table.c.id.in_(batch))


def in_batches(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield the ids, as many at a time as one statement names."""
    for begin in range(0, len(ids), _BATCH_ROWS):
        yield ids[begin : begin + _BATCH_ROWS]


def read_rows_of(
    connection: sa.Connection, links: Sequence[Link]
) -> dict[tuple[str, int], ChainedRow]:
    """Return the rows of entries, by table and id."""
    return {
        (row.table, row.row_id): row
        for name, table in CHAINED_TABLES.items()
        if (ids := [link.row_id for link in links if link.table == name])
        for row in read_rows_by_id(connection, table, ids)
    }


def append(
    connection: sa.Connection,
    cluster: str,
    entries: Sequence[tuple[str, int, str]],
    now: datetime,
) -> None:
    """Add entries (table, row id, row hash) to the end of a chain."""
    head = connection.execute(
        sa.select(chain.c.sequence, chain.c.hash)
        .where(chain.c.cluster == cluster)
        .order_by(chain.c.sequence.desc())
        .limit(1)
    ).first()
    sequence, previous_hash = (head.sequence, head.hash) if head else (0, "")
    links = []
    for table_name, row_id, row_hash in entries:
        sequence += 1
        link = {
            "cluster": cluster,
            "sequence": sequence,
            "table_name": table_name,
            "row_id": row_id,
            "row_hash": row_hash,
            "chained_at": now,
            "previous_hash": previous_hash,
        }
        previous_hash = Link(
            cluster, sequence, table_name, row_id, row_hash, time_text(now), previous_hash, ""
        ).computed_hash
        links.append(link | {"hash": previous_hash})
    connection.execute(chain.insert(), links)


def chain_everything(connection: sa.Connection, now: datetime) -> None:
    """Chain what is pending in every cluster."""
    clusters = sa.union(sa.select(runs.c.cluster), sa.select(requests.c.cluster)).subquery()
    for cluster in list(connection.scalars(sa.select(clusters.c.cluster).order_by("cluster"))):
        lock(connection, cluster)
        append_pending(connection, cluster, now)


def _pending_rows() -> sa.CompoundSelect[Any]:
    """Select table, id and time of what the chain of a cluster lacks: rows above the newest that is
    chained of their table, and rows of this moment that were committed late.

    Parameters: `of_cluster`, `recently`, `soon`.
    """
    of_cluster = sa.bindparam("of_cluster", type_=sa.Text)
    recently = sa.bindparam("recently", type_=UtcDateTime)
    soon = sa.bindparam("soon", type_=UtcDateTime)
    selects = []
    for name, table in CHAINED_TABLES.items():
        of_table = (chain.c.cluster == of_cluster, chain.c.table_name == name)
        newest_id = sa.select(sa.func.coalesce(sa.func.max(chain.c.row_id), 0)).where(*of_table)
        is_chained = sa.exists().where(*of_table, chain.c.row_id == table.c.id)
        at = time_column(table)
        came_late = sa.and_(at.between(recently, soon), sa.not_(is_chained))
        selects.append(
            sa.select(
                sa.literal(name).label("table_name"),
                table.c.id.label("id"),
                sa.type_coerce(at, sa.types.NULLTYPE).label("at"),
            )
            .select_from(with_cluster(table))
            .where(
                cluster_column(table) == of_cluster,
                table.c.id > newest_id.scalar_subquery() - LATE_IDS,
                sa.or_(table.c.id > newest_id.scalar_subquery(), came_late),
            )
        )
    return sa.union_all(*selects)


# Made once: a run writes an event at nearly every step.
_PENDING_ROWS: Final = _pending_rows()
