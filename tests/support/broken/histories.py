"""A store with one snapshot in it, broken in many ways; `breaks` does it to the folder of the
store.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import parquet as pq

from counterpoise.model.tables import SCHEMA_VERSION

SNAPSHOT_ID: Final = "demo-20261121T150000Z"


@dataclass(frozen=True)
class BrokenStore:
    id: str
    breaks: Callable[[Path], object]
    says: str


def file_of(store: Path, table: str) -> Path:
    return store / f"history/{table}/cluster=demo/date=2026-11-21/{SNAPSHOT_ID}.parquet"


def _manifest(**changes: Any) -> Callable[[Path], None]:
    def breaks(store: Path) -> None:
        path = file_of(store, "snapshots")
        table = pq.read_table(path)
        (row,) = table.to_pylist()
        schema = pa.schema([field.with_nullable(nullable=True) for field in table.schema])
        pq.write_table(pa.Table.from_pylist([{**row, **changes}], schema=schema), path)

    return breaks


def _cut(table: str, keep: float) -> Callable[[Path], None]:
    def breaks(store: Path) -> None:
        path = file_of(store, table)
        content = path.read_bytes()
        path.write_bytes(content[: int(len(content) * keep)])

    return breaks


def _content(table: str, content: bytes) -> Callable[[Path], None]:
    return lambda store: file_of(store, table).write_bytes(content) and None


def _table(table: str, change: Callable[[pa.Table], pa.Table]) -> Callable[[Path], None]:
    def breaks(store: Path) -> None:
        path = file_of(store, table)
        pq.write_table(change(pq.read_table(path)), path)

    return breaks


def _as_text(table: pa.Table, column: str) -> pa.Table:
    texts = pa.array([f"many {value}" for value in table[column].to_pylist()], pa.string())
    return table.set_column(table.column_names.index(column), column, texts)


def _flipped(store: Path) -> None:
    """One byte of the data, not of the footer: only whoever reads it all can know."""
    path = file_of(store, "partitions")
    content = bytearray(path.read_bytes())
    for at in range(4, 60):
        content[at] ^= 0xFF
    path.write_bytes(bytes(content))


def _gone(table: str) -> Callable[[Path], None]:
    return lambda store: file_of(store, table).unlink()


def _folder(table: str) -> Callable[[Path], None]:
    def breaks(store: Path) -> None:
        file_of(store, table).unlink()
        file_of(store, table).mkdir()

    return breaks


_NO_FILE: Final[Mapping[str, object]] = {
    "table": "brokers",
    "path": "history/brokers/none.parquet",
    "row_count": 4,
}

STORES: Final = (
    *(
        BrokenStore(f"{t} cut at {keep}", _cut(t, keep), f"{SNAPSHOT_ID}.parquet")
        for t in ("snapshots", "brokers", "partitions", "replicas")
        for keep in (0.01, 0.5, 0.99)
    ),
    *(
        BrokenStore(f"{t} empty", _content(t, b""), f"{SNAPSHOT_ID}.parquet")
        for t in ("snapshots", "topics")
    ),
    *(
        BrokenStore(f"{t} text", _content(t, b"hello\n" * 50), "not a complete Parquet")
        for t in ("snapshots", "topics")
    ),
    BrokenStore(
        "partitions with a head and a tail alone",
        _content("partitions", b"PAR1PAR1"),
        "not a complete Parquet",
    ),
    BrokenStore(
        "partitions with a huge footer",
        _content("partitions", b"PAR1" + b"\xff" * 4 + b"PAR1"),
        "not a complete Parquet",
    ),
    BrokenStore("partitions with bytes flipped", _flipped, "history/partitions/"),
    *(
        BrokenStore(f"{t} gone", _gone(t), f"history/{t}/")
        for t in ("snapshots", "brokers", "log_dirs")
    ),
    *(BrokenStore(f"{t} a folder", _folder(t), SNAPSHOT_ID) for t in ("snapshots", "brokers")),
    *(
        BrokenStore(
            f"{t} without {c}",
            _table(t, lambda table, c=c: table.drop_columns([c])),
            f"lacks columns: {c}",
        )
        for t, c in (("brokers", "broker_id"), ("partitions", "replicas"), ("topics", "topic"))
    ),
    *(
        BrokenStore(
            f"{t} with text for {c}",
            _table(t, lambda table, c=c: _as_text(table, c)),
            f"history/{t}/",
        )
        for t, c in (("brokers", "broker_id"), ("partitions", "replicas"), ("replicas", "position"))
    ),
    BrokenStore(
        "brokers with a row less",
        _table("brokers", lambda table: table.slice(1)),
        "its manifest says",
    ),
    BrokenStore(
        "brokers twice",
        _table("brokers", lambda table: pa.concat_tables([table, table])),
        "its manifest says",
    ),
    BrokenStore(
        "a newer schema",
        _manifest(schema_version=SCHEMA_VERSION + 1),
        f"version {SCHEMA_VERSION + 1};",
    ),
    BrokenStore("schema 0", _manifest(schema_version=0), "schema version 0"),
    BrokenStore("no files", _manifest(files=[]), "names no file for the table"),
    BrokenStore("an absent file", _manifest(files=[_NO_FILE]), "none.parquet"),
    BrokenStore(
        "a file outside",
        _manifest(files=[{**_NO_FILE, "path": "../../etc/passwd"}]),
        "not a path inside the store",
    ),
    BrokenStore(
        "a file by its root",
        _manifest(files=[{**_NO_FILE, "path": "/etc/passwd"}]),
        "not a path inside the store",
    ),
    BrokenStore(
        "another snapshot", _manifest(snapshot_id="demo-20261121T160000Z"), "the store has no"
    ),
    BrokenStore(
        "manifest without columns",
        _table("snapshots", lambda table: table.select(["cluster"])),
        "snapshots/",
    ),
    BrokenStore("manifest with nulls", _manifest(schema_version=None), "snapshots/"),
)

# What can lie where an audit should.
AUDITS: Final[Mapping[str, str]] = {
    "empty": "",
    "cut short": '{"format": "counterpoise-audit/1", "cluster": "de',
    "a list": "[]",
    "null": "null",
    "another format": '{"format": "counterpoise-audit/9"}',
    "without findings": '{"format": "counterpoise-audit/1", "cluster": "demo"}',
    "nested deeply": "[" * 200_000,
    "an int of 5000 digits": '{"format": ' + "9" * 5000 + "}",
    "html": "<html></html>",
}
