"""The newest rounds on an object store, put together so that a report opens few files.

    merge_newest_rounds(store, now)      # after each round

There a round has one file of each table for all clusters. Eight rounds of a day (UTC) become one,
and all of a day when it is over: a day later compaction makes of them a file for each cluster.

The merged round names those that it is made of: these no longer count. Nothing is deleted here:
their documents and files stay until compaction deletes them, for readers that know of them already.
So whatever breaks off in between loses nothing, and two analyses at once at most make a round
twice.
"""

import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet as pq

from counterpoise.errors import CounterpoiseError
from counterpoise.model.grouping import grouped
from counterpoise.model.safe_text import safe_logger
from counterpoise.model.tables import RESULT_TABLES, conformed
from counterpoise.round_index import index_rounds, round_document, write_document
from counterpoise.storage import PACKED, Store

Document = Mapping[str, Any]  # of a round, as the index of rounds has it

_LOGGER = safe_logger(__name__)
_MERGED: Final = "merged-"
_FAILURES: Final = (CounterpoiseError, OSError, ValueError, pa.ArrowException)
_ROUNDS_AT_ONCE: Final = 8
_CLOCKS_DIFFER: Final = timedelta(minutes=15)  # at most, with what recording a round takes
_MAX_ROWS_OF_GROUP: Final = 200_000  # of a file: no more are in memory


def merge_newest_rounds(store: Store, now: datetime) -> None:
    """Bring the index of rounds up to date, and merge the newest rounds where there are many.

    What cannot be merged stays as it is, with a warning in the log: the analysis is recorded, and
    does not fail for it.
    """
    try:
        merges = rounds_to_merge(index_rounds(store), now)
    except _FAILURES as error:
        _LOGGER.warning("the index of rounds stays as it is for now: %s", error)
        return
    for sources in merges:
        try:
            _merge(store, sources)
        except _FAILURES as error:
            names = ", ".join(source["round"] for source in sources)
            _LOGGER.warning("the rounds %s stay as they are for now: %s", names, error)


def rounds_to_merge(documents: Sequence[Document], now: datetime) -> list[list[Document]]:
    """Return the rounds that become one, for each such round."""
    merges = []
    by_day = grouped(
        (_finished_day(document), document)
        for document in documents
        if _may_be_merged(document, now)
    )
    for day, of_day in sorted(by_day.items()):
        if day < f"{now.astimezone(UTC):%Y-%m-%d}":
            if len(of_day) > 1:
                merges.append(of_day)
            continue
        single = [d for d in of_day if not d["round"].startswith(_MERGED)]
        if len(single) >= _ROUNDS_AT_ONCE:
            merges.append(single)
    return merges


def _may_be_merged(document: Document, now: datetime) -> bool:
    """Return whether no other round is about to be recorded that finished before it: of a snapshot
    in both the merged round would count.
    """
    return _finished_at(document) <= now - _CLOCKS_DIFFER


def _finished_at(document: Document) -> datetime:
    return datetime.fromisoformat(document["finished_at"]).astimezone(UTC)


def _finished_day(document: Document) -> str:
    return f"{_finished_at(document):%Y-%m-%d}"


def _merge(store: Store, sources: Sequence[Document]) -> None:
    rows = [row for d in sources for row in d["snapshots"] if row["counts_in"] == d["round"]]
    names = sorted(document["round"] for document in sources)
    ids = sorted(row["snapshot_id"] for row in rows)
    digest = hashlib.sha256(json.dumps([names, ids]).encode()).hexdigest()[:16]
    finished_at = max(document["finished_at"] for document in sources)
    name = f"{_MERGED}{finished_at:.13}-{digest}"
    tables = {table for document in sources for table in document["tables"]}
    for table in sorted(tables):
        _merge_table(store, table, sources, f"results/{table}/round={name}/{PACKED}")
    document = round_document(
        name, datetime.fromisoformat(finished_at), rows, is_by_cluster=False, tables=tables
    )
    # Those that its sources were made of, too: compaction keeps the files of all for the grace.
    earlier = {one for source in sources for one in source["merged"] or ()}
    document["merged"] = sorted({*names, *earlier})
    write_document(store, document)


def _merge_table(store: Store, table: str, sources: Sequence[Document], target: str) -> None:
    """Write the rows of one table, those of a cluster beside one another: then a reader of one
    cluster asks for one piece of the file.
    """
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        of_cluster: dict[str, list[tuple[pq.ParquetFile, int, pa.Array]]] = {}
        for number, source in enumerate(sources):
            if table not in source["tables"]:
                continue
            path = folder / f"{number}.parquet"
            store.download(f"results/{table}/round={source['round']}/{PACKED}", path)
            file = stack.enter_context(pq.ParquetFile(path))
            ids = [
                r["snapshot_id"] for r in source["snapshots"] if r["counts_in"] == source["round"]
            ]
            for group in range(file.num_row_groups):
                clusters = file.read_row_group(group, columns=["cluster"])["cluster"].unique()
                for cluster in clusters.to_pylist():
                    of_cluster.setdefault(cluster, []).append(
                        (file, group, pa.array(ids, pa.string()))
                    )
        merged = folder / "merged.parquet"
        schema = RESULT_TABLES[table]
        with pq.ParquetWriter(merged, schema, compression="zstd", coerce_timestamps="us") as writer:
            for cluster, groups in sorted(of_cluster.items()):
                for rows in _in_groups(_rows(table, cluster, groups)):
                    writer.write_table(rows)
        store.upload(merged, target)


def _rows(
    table: str, cluster: str, groups: Sequence[tuple[pq.ParquetFile, int, pa.Array]]
) -> Iterator[pa.Table]:
    for file, group, ids in groups:
        rows = conformed(file.read_row_group(group), RESULT_TABLES[table])
        is_wanted = pc.and_(pc.equal(rows["cluster"], cluster), pc.is_in(rows["snapshot_id"], ids))
        yield rows.filter(is_wanted)


def _in_groups(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Put small tables together; a large one stays by itself."""
    held: list[pa.Table] = []
    for table in tables:
        if held and sum(one.num_rows for one in held) + table.num_rows > _MAX_ROWS_OF_GROUP:
            yield pa.concat_tables(held)
            held = []
        held.append(table)
    if held:
        yield pa.concat_tables(held)
