"""What the Spark jobs made of the history, and the views on it: which rounds there were, and where
their tables lie.

    results = Results(store)
    results.view_files("demo", "series").add(series, name)   # what charts over time are drawn from
    results.finish_round(name, finished_at, rows)     # last: without it the round does not count
    results.table("leader_changes", {"demo-20260131T120000Z"})

Part of the wiring, beside `archive.py`. Of a snapshot in several rounds the one finished last
counts.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet as pq

from counterpoise import analysis
from counterpoise.daily_copies import Day, read_days
from counterpoise.errors import StoreError
from counterpoise.history import scheduled_at_of
from counterpoise.model.balance import LeftOut
from counterpoise.model.fleet_document import FleetEntry, entry_text, read_entry
from counterpoise.model.grouping import grouped
from counterpoise.model.safe_text import safe_logger
from counterpoise.model.tables import CLUSTER_FOLDER, DAILY_TABLES, RESULT_TABLES, VIEWS, conformed
from counterpoise.round_index import analysed_in, read_rounds, round_document, write_document
from counterpoise.storage import PACKED, Store, WorkingCopy, working_copy

# -- The views of a cluster in the store: small tables of all its snapshots, for as long as the
# policy keeps any snapshot
#
#     files = ViewFiles(store, "demo", "series")
#     files.add(rows, "round-7")                   # a file for each month that it has rows of
#     files.read()                                 # all of it, each snapshot once
#     files.merge()                                # one file a month
#
# `series` has one row per snapshot and broker (SERIES), `log_dirs` one per snapshot and log dir.
#
# Files are only added and never changed, so two analyses at once lose nothing: each snapshot is in
# at least one file. Where it is in several (it was analysed again, since another snapshot came
# between it and the one it was compared with), the comparison with the nearest snapshot counts, and
# of those the file with the last name. A merge writes all rows of a month to a new file before it
# deletes those that it has read.
#
# Thinning out the history takes no rows away: a figure over a period is the same whatever became of
# the snapshots.


_LOGGER = safe_logger(__name__)
_MAX_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class ViewFiles:
    """The files of one view of a cluster; `name` is one of VIEWS."""

    store: Store
    cluster: str
    name: str

    def add(self, rows: pa.Table, name: str) -> None:
        """Write rows: a file `name` for each month (UTC) that they are of."""
        for month, of_month in _months(rows).items():
            self.store.write_table(f"{self._folder}/month={month}/{name}.parquet", of_month)

    def read(self, since: datetime | None = None, until: datetime | None = None) -> pa.Table:
        """Return the rows by time; of the months from `since` to `until`, if given.

        Raises StoreError.
        """
        return self._read_listed(self._listed(), since, until)

    def read_written(
        self, since: datetime | None = None, until: datetime | None = None
    ) -> pa.Table | None:
        """Return the same; None where there is no file."""
        listed = self._listed()
        return self._read_listed(listed, since, until) if self._by_month(listed) else None

    def _read_listed(
        self, listed: Sequence[str], since: datetime | None, until: datetime | None
    ) -> pa.Table:
        """Read files of a list.

        A file that is deleted between the list and the read was merged into another one: then both
        are done again.
        """
        for _ in range(_MAX_TRIES):
            try:
                paths = self._paths(listed, since, until)
                return self._each_once([self._read(path) for path in paths])
            except StoreError:
                before, listed = listed, self._listed()
                if listed == before:
                    raise
        raise StoreError(
            f"the files in {self.store.uri(self._folder)} changed {_MAX_TRIES} times while they "
            "were read; try again"
        )

    def begin_before(self, moment: datetime) -> bool:
        """Return whether there are months that ended before `moment`."""
        return any(month < f"{moment:%Y-%m}" for month in self._by_month(self._listed()))

    def merge(self) -> int:
        """Put each month into one file; return how many files were replaced. Raises StoreError."""
        files = self._by_month(self._listed())
        return sum(self._merge_month(month, paths) for month, paths in sorted(files.items()))

    def delete_before(self, moment: datetime) -> int:
        """Delete the months that ended before `moment`; return how many files."""
        old = [
            path
            for month, paths in self._by_month(self._listed()).items()
            if not _overlaps(month, moment, None)
            for path in paths
        ]
        for path in old:
            self.store.delete(path)
        return len(old)

    def _merge_month(self, month: str, paths: Sequence[str]) -> int:
        if len(paths) == 1:
            return 0
        merged = self._each_once([self._read(path) for path in paths])
        digest = hashlib.sha256("\n".join(_identities(merged)).encode()).hexdigest()[:16]
        target = f"{self._folder}/month={month}/merged-{digest}.parquet"
        self.store.write_table(target, merged)
        replaced = [path for path in paths if path != target]
        for path in replaced:
            self.store.delete(path)
        return len(replaced)

    @property
    def _folder(self) -> str:
        return f"views/{self.cluster}/{self.name}"

    def _each_once(self, tables: Sequence[pa.Table]) -> pa.Table:
        rows = analysis.each_once([*tables, VIEWS[self.name].empty_table()])
        return rows.cast(VIEWS[self.name])

    def _listed(self) -> Sequence[str]:
        return self.store.list(self._folder, suffix=".parquet")

    def _by_month(self, listed: Iterable[str]) -> dict[str, list[str]]:
        months: dict[str, list[str]] = {}
        for path in listed:
            month = path.split("/")[-2].removeprefix("month=")
            months.setdefault(month, []).append(path)
        return months

    def _paths(
        self, listed: Collection[str], since: datetime | None, until: datetime | None
    ) -> list[str]:
        months = self._by_month(listed).items()
        return [path for month, of in months if _overlaps(month, since, until) for path in of]

    def _read(self, path: str) -> pa.Table:
        data = self.store.read_bytes(path, is_document=False)
        try:
            return conformed(pq.read_table(pa.BufferReader(data)), VIEWS[self.name])
        except (OSError, ValueError, pa.ArrowException) as error:
            raise StoreError(
                f"{self.store.uri(path)} is damaged ({error}): delete the folder "
                f"{self.store.uri(self._folder)}; it is made again from the results of all "
                "snapshots that were not thinned out"
            ) from None


def _identities(rows: pa.Table) -> list[str]:
    """Return what names the contents: each snapshot with the one it was compared with."""
    return sorted(f"{one} {before}" for one, before in analysis.compared_snapshots(rows))


def _months(rows: pa.Table) -> Mapping[str, pa.Table]:
    """Return the rows of each month, by names like 2026-11."""
    names = pc.strftime(rows["observed_at"], "%Y-%m")
    months = sorted(names.unique().to_pylist())
    return {month: rows.filter(pc.equal(names, month)) for month in months}


def _overlaps(month: str, since: datetime | None, until: datetime | None) -> bool:
    return (since is None or month >= f"{since:%Y-%m}") and (
        until is None or month <= f"{until:%Y-%m}"
    )


_LEFT_OUT: Final = "left-out.json"
_FLEET_ENTRY: Final = "fleet-entry.json"
_MAX_COPIED_BYTES: Final = 64 << 20  # of a file that is fetched as a whole


@dataclass(frozen=True, slots=True)
class Analysed:
    """A snapshot that has results."""

    snapshot_id: str
    cluster: str
    previous_snapshot_id: str | None  # what it was compared with
    round_id: str
    is_by_cluster: bool  # its results lie in a folder of its cluster
    packed_tables: tuple[str, ...] | None  # with one file for all clusters; None: not known

    @classmethod
    def of(cls, rows: pa.Table) -> "list[Analysed]":
        """Return those of rows of ANALYSED."""
        return [
            cls(
                row["snapshot_id"],
                row["cluster"],
                row["previous_snapshot_id"],
                row["round"],
                row["by_cluster"],
                None if row["tables"] is None else tuple(row["tables"]),
            )
            for row in rows.to_pylist()
        ]

    def folder(self, table: str) -> str:
        """Return where its rows of a table lie, maybe among others."""
        round_folder = f"results/{table}/round={self.round_id}"
        return (
            f"{round_folder}/{CLUSTER_FOLDER}={self.cluster}"
            if self.is_by_cluster
            else round_folder
        )


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


@contextmanager
def results_of_many(store: Store) -> Iterator["Results"]:
    """Yield the results for whoever reads those of several clusters: a file with the rows of all of
    them is fetched from an object store once.
    """
    with working_copy(store, "local") as copy:
        yield Results(store, copy)


class Results:
    """The results in a store; it reads the list of rounds once, so make a new one after a round.

    With a `copy` a file for all clusters is fetched into it when it is first read; of a large one
    only the row groups that are wanted are read, each time.
    """

    def __init__(self, store: Store, copy: WorkingCopy | None = None) -> None:
        self._store = store
        self._copy = copy or WorkingCopy(store, None)

    @classmethod
    def of_round(cls, store: Store, round_id: str, rows: Iterable[Mapping[str, Any]]) -> "Results":
        """Return the results of one round alone, which Spark wrote to a store or a copy of it."""
        results = cls(store)
        results.__dict__["_rounds"] = analysed_in(round_document(round_id, None, rows))
        return results

    @cached_property
    def analysed(self) -> Mapping[str, Analysed]:
        """Return each analysed snapshot, by snapshot id."""
        return {one.snapshot_id: one for one in Analysed.of(self._rounds)}

    @cached_property
    def _rounds(self) -> pa.Table:
        """Return rows of ANALYSED: the last one of a snapshot counts."""
        return read_rounds(self._store)

    def of_cluster(self, cluster: str) -> frozenset[str]:
        """Return the ids of the cluster's analysed snapshots."""
        rows = self._rounds.filter(pc.equal(self._rounds["cluster"], cluster))
        return frozenset(rows["snapshot_id"].to_pylist())

    def finish_round(
        self,
        round_id: str,
        finished_at: datetime,
        rows: Iterable[Mapping[str, Any]],
        *,
        is_by_cluster: bool = False,
        packed_tables: Collection[str] | None = None,
    ) -> None:
        """Write the list of a round's snapshots.

        `is_by_cluster`: its results lie in a folder for each cluster, as the Spark jobs write them;
        otherwise all clusters may share a file, where one for each cluster would be too many
        requests: then `packed_tables` says which tables have one.
        """
        document = round_document(
            round_id, finished_at, rows, is_by_cluster=is_by_cluster, tables=packed_tables
        )
        write_document(self._store, document)

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
        wanted = pa.array(sorted(snapshot_ids), pa.string())
        rounds = self._rounds.filter(pc.is_in(self._rounds["snapshot_id"], value_set=wanted))
        found = {one.snapshot_id: one for one in Analysed.of(rounds)}
        by_folder = grouped((found[one].folder(name), found[one]) for one in sorted(found))
        for folder, of_folder in sorted(by_folder.items()):
            ids = pa.array([result.snapshot_id for result in of_folder], pa.string())
            for table in self._files(folder, name, of_folder):
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

        None where there is none: it can be made again from the rounds.
        """
        return self.view_files(cluster, name).read_written(since, until)

    def series(self, cluster: str) -> pa.Table | None:
        """Return the view `series` of all months."""
        return self.view(cluster, "series")

    def daily(self, table: str, cluster: str, since: date, until: date) -> pa.Table:
        """Return the rows of one of DAILY_TABLES from the day `since` to the day before `until`."""
        found = [DAILY_TABLES[table].empty_table()]
        found += [daily.rows for daily in self.daily_tables(table, cluster, since, until)]
        return pa.concat_tables(found)

    def daily_tables(self, table: str, cluster: str, since: date, until: date) -> Iterator[Day]:
        """Yield one of DAILY_TABLES of each day that has it; a table is read when its turn
        comes.
        """
        return read_days(self._store, table, cluster, since, until)

    def write_left_out(
        self, cluster: str, left_out: Iterable[LeftOut], stored: StoredViews
    ) -> None:
        """Write which snapshots cannot be analysed at present; an empty list clears them."""
        rows = [{"snapshot_id": entry.snapshot_id, "reason": entry.reason} for entry in left_out]
        path = f"views/{cluster}/{_LEFT_OUT}"
        if rows or path in stored.paths:
            self._store.write_text(path, json.dumps(rows, indent=1) + "\n")

    def left_out(self, cluster: str, stored: StoredViews | None = None) -> tuple[LeftOut, ...]:
        """Return what `write_left_out` wrote; `stored` saves asking whether it did."""
        path = f"views/{cluster}/{_LEFT_OUT}"
        if path not in stored.paths if stored else self._store.info(path) is None:
            return ()
        rows = json.loads(self._store.read_text(f"views/{cluster}/{_LEFT_OUT}"))
        return tuple(LeftOut(row["snapshot_id"], row["reason"]) for row in rows)

    def write_fleet_entry(self, entry: FleetEntry) -> None:
        """Write what the fleet's report tells of a cluster."""
        self._store.write_text(f"views/{entry.cluster}/{_FLEET_ENTRY}", entry_text(entry))

    def fleet_entry(self, cluster: str, stored: StoredViews) -> FleetEntry | None:
        """Return what was written for the cluster's newest analysed snapshot; None without it."""
        path = f"views/{cluster}/{_FLEET_ENTRY}"
        if path not in stored.paths:
            return None
        try:
            entry = read_entry(self._store.read_text(path))
        except (StoreError, ValueError) as error:
            _LOGGER.warning("%s is not used: %s", self._store.uri(path), error)
            return None
        newest = max(self.of_cluster(cluster), key=scheduled_at_of, default=None)
        return entry if (entry.cluster, entry.snapshot_id) == (cluster, newest) else None

    def _files(self, folder: str, name: str, results: Sequence[Analysed]) -> Iterable[pa.Table]:
        """Yield the rows of a table in the files of a folder, which has those of these snapshots;
        of files that many clusters share only these rows.
        """
        is_shared = not results[0].is_by_cluster
        ids = [result.snapshot_id for result in results] if is_shared else []
        for path in self._paths(folder, name, results[0].packed_tables):
            try:
                table = self._holder_of(path).read_table(path, snapshot_ids=ids)
            except StoreError:
                if results[0].packed_tables is None or self._store.info(path) is not None:
                    raise
                continue  # it was deleted, as a list would have told
            try:
                yield conformed(table, RESULT_TABLES[name])
            except ValueError as error:
                raise StoreError(f"{self._store.uri(path)} {error}") from None

    def _holder_of(self, path: str) -> Store:
        """Return where a file is read: its copy, where it has the rows of all clusters and is not
        so large that reading one cluster's row groups is cheaper.
        """
        is_copied = path.endswith(f"/{PACKED}") and self._copy.fetch_small(path, _MAX_COPIED_BYTES)
        return self._copy.files if is_copied else self._store

    def _paths(
        self, folder: str, name: str, packed_tables: Collection[str] | None
    ) -> Sequence[str]:
        """Return the files of a folder; no list is needed where the round says what there is."""
        if packed_tables is None:
            return self._store.list(folder, suffix=".parquet")
        return [f"{folder}/{PACKED}"] if name in packed_tables else []
