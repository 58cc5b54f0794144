"""What the Spark jobs made of the history, and the views on it: which rounds there were, and where
their tables lie.

    results = Results(store)
    results.view_files("demo", "series").add(series, name)   # what charts over time are drawn from
    results.finish_round(name, finished_at, rows)     # last: without it the round does not count
    results.table("leader_changes", {"demo-20260131T120000Z"})

Part of the wiring, beside `archive.py`. Of a snapshot in several rounds the one finished last
counts.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.errors import StoreError
from counterpoise.history import daily_folder, place_of, scheduled_at_of
from counterpoise.model.balance import LeftOut
from counterpoise.model.grouping import grouped
from counterpoise.model.result_tables import CLUSTER_FOLDER, DAILY_TABLES, RESULT_TABLES
from counterpoise.model.tables import conformed
from counterpoise.storage import Store
from counterpoise.view_files import ViewFiles

ROUNDS: Final = "results/rounds"
SNAPSHOT_COUNT: Final = b"snapshot_count"  # in the footer of a table of a day
_LEFT_OUT: Final = "left-out.json"


@dataclass(frozen=True, slots=True)
class Analysed:
    """A snapshot that has results."""

    snapshot_id: str
    cluster: str
    previous_snapshot_id: str | None  # what it was compared with
    round_id: str
    is_by_cluster: bool  # its results lie in a folder of its cluster

    def folder(self, table: str) -> str:
        """Return where its rows of a table lie, maybe among others."""
        round_folder = f"results/{table}/round={self.round_id}"
        return (
            f"{round_folder}/{CLUSTER_FOLDER}={self.cluster}"
            if self.is_by_cluster
            else round_folder
        )


@dataclass(frozen=True, slots=True)
class DailyTable:
    """One of DAILY_TABLES of one day."""

    day: date
    rows: pa.Table
    snapshot_count: int | None  # that it is made of; None in tables of earlier releases


@dataclass(frozen=True)
class StoredViews:
    """The files of the views of all clusters, as they were when they were listed."""

    paths: frozenset[str]

    @cached_property
    def _folders(self) -> frozenset[str]:
        return frozenset("/".join(path.split("/")[:3]) for path in self.paths)

    def has(self, cluster: str, view: str) -> bool:
        """Return whether this release has written any file of a view; a view that was there stays
        there.
        """
        return f"views/{cluster}/{view}" in self._folders


class Results:
    """The results in a store; it reads the list of rounds once, so make a new one after a round."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @classmethod
    def of_round(cls, store: Store, round_id: str, rows: Iterable[Mapping[str, Any]]) -> "Results":
        """Return the results of one round alone, which Spark wrote to a store or a copy of it."""
        results = cls(store)
        results.__dict__["analysed"] = _analysed([_document(round_id, None, rows)])
        return results

    @cached_property
    def analysed(self) -> Mapping[str, Analysed]:
        """Return the previous snapshot id of each analysed snapshot, by snapshot id."""
        return _analysed(
            sorted(
                self._rounds(),
                key=lambda document: (document.get("finished_at") or "", document["round"]),
            )
        )

    def of_cluster(self, cluster: str) -> frozenset[str]:
        """Return the ids of the cluster's analysed snapshots."""
        return frozenset(a.snapshot_id for a in self.analysed.values() if a.cluster == cluster)

    def finish_round(
        self,
        round_id: str,
        finished_at: datetime,
        rows: Iterable[Mapping[str, Any]],
        *,
        is_by_cluster: bool = False,
    ) -> None:
        """Write the list of a round's snapshots.

        `is_by_cluster`: its results lie in a folder for each cluster, as the Spark jobs write them;
        otherwise all clusters may share a file, as in those of earlier releases, and where a file
        for each cluster would be too many requests.
        """
        document = _document(round_id, finished_at, rows, is_by_cluster=is_by_cluster)
        self._store.write_text(
            f"{ROUNDS}/{round_id}.json", json.dumps(document, indent=1, sort_keys=True) + "\n"
        )

    def newest(self, cluster: str, since: datetime, max_count: int) -> tuple[str, ...]:
        """Return ids of analysed snapshots scheduled at `since` or later, newest first."""
        ids = sorted(self.of_cluster(cluster), key=scheduled_at_of, reverse=True)
        return tuple(name for name in ids[:max_count] if scheduled_at_of(name) >= since)

    def table(self, name: str, snapshot_ids: Collection[str]) -> pa.Table:
        """Return the rows of one table of RESULT_TABLES for those of the snapshots with results."""
        return pa.concat_tables(
            [RESULT_TABLES[name].empty_table(), *self.tables(name, snapshot_ids)]
        )

    def tables(self, name: str, snapshot_ids: Collection[str]) -> Iterator[pa.Table]:
        """Yield the same rows, file by file; a file is read when its turn comes."""
        found = [self.analysed[one] for one in sorted(snapshot_ids) if one in self.analysed]
        by_folder = grouped((result.folder(name), result) for result in found)
        for folder, of_folder in sorted(by_folder.items()):
            ids = pa.array([result.snapshot_id for result in of_folder], pa.string())
            is_shared = not of_folder[0].is_by_cluster
            for table in self._files(
                folder, RESULT_TABLES[name], ids.to_pylist() if is_shared else ()
            ):
                yield table.filter(pc.is_in(table["snapshot_id"], value_set=ids))

    def view_files(self, cluster: str, name: str) -> ViewFiles:
        """Return the files of one of VIEWS; see `ViewFiles`."""
        return ViewFiles(self._store, cluster, name)

    def stored_views(self) -> StoredViews:
        """Return which files of views there are, of all clusters: one list for all of them."""
        return StoredViews(frozenset(self._store.list("views")))

    def view(
        self,
        cluster: str,
        name: str,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> pa.Table | None:
        """Return a view, of the months from `since` to `until` if given.

        None where there is none, or only that of an earlier release: it can be made again from the
        rounds.
        """
        files = self.view_files(cluster, name)
        return files.read(since, until) if files.exist else None

    def series(self, cluster: str) -> pa.Table | None:
        """Return the view `series` of all months."""
        return self.view(cluster, "series")

    def daily(self, table: str, cluster: str, since: date, until: date) -> pa.Table:
        """Return the rows of one of DAILY_TABLES from the day `since` to the day before `until`."""
        found = [DAILY_TABLES[table].empty_table()]
        found += [daily.rows for daily in self.daily_tables(table, cluster, since, until)]
        return pa.concat_tables(found)

    def daily_tables(
        self, table: str, cluster: str, since: date, until: date
    ) -> Iterator[DailyTable]:
        """Yield one of DAILY_TABLES of each day that has it; a table is read when its turn
        comes.
        """
        for path in self._store.list(daily_folder(table, cluster), suffix=".parquet"):
            place = place_of(path)
            if place is not None and since <= place[1] < until:
                rows = self._store.read_table(path)
                count = (rows.schema.metadata or {}).get(SNAPSHOT_COUNT)
                yield DailyTable(
                    day=place[1],
                    rows=conformed(rows, DAILY_TABLES[table]),
                    snapshot_count=int(count) if count else None,
                )

    def write_left_out(
        self, cluster: str, left_out: Iterable[LeftOut], stored: StoredViews
    ) -> None:
        """Write which snapshots cannot be analysed at present; an empty list clears them."""
        rows = [{"snapshot_id": entry.snapshot_id, "reason": entry.reason} for entry in left_out]
        path = f"views/{cluster}/{_LEFT_OUT}"
        if rows or path in stored.paths:
            self._store.write_text(path, json.dumps(rows, indent=1) + "\n")

    def left_out(self, cluster: str) -> tuple[LeftOut, ...]:
        if not self._store.list(f"views/{cluster}", suffix=_LEFT_OUT):
            return ()
        rows = json.loads(self._store.read_text(f"views/{cluster}/{_LEFT_OUT}"))
        return tuple(LeftOut(row["snapshot_id"], row["reason"]) for row in rows)

    def _rounds(self) -> Iterable[dict[str, Any]]:
        for path in self._store.list(ROUNDS, suffix=".json"):
            try:
                document = json.loads(self._store.read_text(path))
                is_round = {"round", "snapshots"} <= document.keys()
            except (ValueError, AttributeError):
                is_round = False
            if not is_round:
                raise StoreError(
                    f"{self._store.uri(path)} is not a list of analysed snapshots; delete it, "
                    "and its snapshots are analysed again"
                )
            yield document

    def _files(
        self, folder: str, schema: pa.Schema, snapshot_ids: Collection[str]
    ) -> Iterable[pa.Table]:
        """Yield the files of a folder, of those that many clusters share only the rows of these
        snapshots; columns that were added later are null in older files.
        """
        for path in self._store.list(folder, suffix=".parquet"):
            table = self._store.read_table(path, snapshot_ids=snapshot_ids)
            try:
                yield conformed(table, schema)
            except ValueError as error:
                raise StoreError(f"{self._store.uri(path)} {error}") from None


def _analysed(rounds: Iterable[Mapping[str, Any]]) -> dict[str, Analysed]:
    return {
        row["snapshot_id"]: Analysed(
            row["snapshot_id"],
            row["cluster"],
            row.get("previous_snapshot_id"),
            document["round"],
            bool(document.get("by_cluster")),
        )
        for document in rounds
        for row in document["snapshots"]
    }


def _document(
    round_id: str,
    finished_at: datetime | None,
    rows: Iterable[Mapping[str, Any]],
    *,
    is_by_cluster: bool = True,
) -> dict[str, Any]:
    names = ("snapshot_id", "cluster", "previous_snapshot_id")
    return {
        "round": round_id,
        "finished_at": finished_at.isoformat() if finished_at else None,
        "by_cluster": is_by_cluster,
        "snapshots": [{name: row[name] for name in names} for row in rows],
    }
