"""The history on Spark: one job over all that is new, and the views that pages read.

    clusters = analyse(installation, "2026-01-31T12:00")      # those that have new results
    stored_view(installation, "orders-eu", "series")   # made anew from all results where it is gone

The list of the round's snapshots is written last: until then none of them counts as analysed, and
the next round analyses them again. A snapshot that cannot be read is left out, with the reason; the
others are analysed.
"""

import hashlib
import json
import re
import tempfile
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet as pq

from counterpoise import analysis, history
from counterpoise.analysis.rounds import Round
from counterpoise.archive import Archive
from counterpoise.errors import CounterpoiseError, StoreError
from counterpoise.installation import Installation
from counterpoise.manifest_index import MAX_COPY_BYTES, Fleet
from counterpoise.model.balance import LeftOut
from counterpoise.model.files import StoredFile
from counterpoise.model.grouping import grouped
from counterpoise.model.safe_text import safe_logger
from counterpoise.model.tables import RESULT_TABLES, SERIES, conformed
from counterpoise.results import Results, StoredViews
from counterpoise.round_index import index_rounds, round_document, write_document
from counterpoise.spark_submit import START_FAST, SparkJobError, run_job
from counterpoise.storage import PACKED, Store, WorkingCopy, working_copy

Log = Callable[[str], None]
_LOGGER = safe_logger(__name__)
_UNSAFE_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]+")
# Of a round, over all tables: some 24 million rows of partitions, which one machine sorts in
# minutes. A longer backlog is several rounds, each with its own end.
_MAX_ROWS_OF_ROUND: Final = 100_000_000
# By the rows to read, at most: a small round is mostly Spark's start, and up to some millions of
# rows compiling well takes longer than running what was compiled quickly. Memory is the heap's; the
# process needs about one GiB more.
_SPARK_CONF: Final = (
    (1_000_000, START_FAST),
    (
        12_000_000,
        {
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC",
            "spark.driver.memory": "3g",
        },
    ),
)
_SPARK_CONF_OF_MANY: Final = {
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
    "spark.driver.memory": "3g",
}
# An analysis brings the index of a cluster's manifests up to date once in so many rounds; whoever
# else reads the history of a cluster reads the few manifests since then one by one.
_INDEXED_EVERY: Final = 8
_ALL_ROUNDS: Final = "all-rounds"  # names the files of a view that was made again
_SERIES_PARTS: Final = ("broker_balance", "broker_load", "snapshot_changes", "leader_changes")


@dataclass(frozen=True, slots=True)
class _ReadableRound:
    """The next round, and by cluster the snapshots that cannot be read."""

    round: Round
    is_last: bool  # nothing is left to analyse after it
    left_out: Mapping[str, tuple[LeftOut, ...]]
    fleet: Fleet


def analyse(installation: Installation, round_id: str, log: Log = _LOGGER.info) -> list[str]:
    """Analyse every snapshot of all clusters that has no result yet, a bounded number in each Spark
    session.

    Returns the clusters that have new results.
    """
    clusters: set[str] = set()
    is_last = False
    while not is_last:
        of_round, is_last = _analyse_round(installation, round_id, log)
        clusters |= set(of_round)
    return sorted(clusters)


def _analyse_round(
    installation: Installation, round_id: str, log: Log
) -> tuple[Collection[str], bool]:
    """Analyse the next snapshots; return their clusters, and whether nothing is left to do."""
    # Of its own, so that two analyses at once, or a retry, never write the same files.
    name = f"{_UNSAFE_IN_NAMES.sub('_', round_id).strip('._-')}-{uuid.uuid4().hex[:8]}"
    views = installation.results.stored_views()
    with working_copy(installation.archive.store, installation.locations.spark_master) as copy:
        readable = _next_readable_round(installation, copy, views, log)
        if not readable.round.to_analyse:
            return (), True
        try:
            _run_jobs(installation, copy, name, readable.round, log)
        except SparkJobError:
            # A file may be damaged before a footer that is sound.
            readable = _next_readable_round(installation, copy, views, log, whole=True)
            if not readable.left_out:
                raise
            if not readable.round.to_analyse:
                return (), True
            _run_jobs(installation, copy, name, readable.round, log)
        sent = copy.send_back()
        _keep_for_the_next(copy, readable)
        of_round = _finish_round(installation, copy, views, name, readable.round, sent)
        merge_newest_rounds(installation.archive.store, installation.clock())
        return of_round, readable.is_last


def _keep_for_the_next(copy: WorkingCopy, readable: _ReadableRound) -> None:
    """Write the fleet's file, with what the next snapshot of each cluster is compared with."""
    newest = {row["cluster"]: row for row in readable.round.to_analyse}  # each cluster's by time
    for cluster, row in newest.items():
        paths = (file["path"] for file in analysis.files_read({**row, "is_context": True}))
        readable.fleet.keep_copies(cluster, copy.small_files(paths, MAX_COPY_BYTES))
    readable.fleet.write()


def _finish_round(
    installation: Installation,
    copy: WorkingCopy,
    views: StoredViews,
    name: str,
    round_: Round,
    sent: Sequence[str],
) -> list[str]:
    """Add to the views of the round's clusters, then record the round, whose files were `sent` to
    the store; return the clusters.
    """
    of_round = Results.of_round(copy.files, name, round_.to_analyse)
    all_results = installation.results
    ids_by_cluster = grouped((row["cluster"], row["snapshot_id"]) for row in round_.to_analyse)
    for cluster, snapshot_ids in sorted(ids_by_cluster.items()):
        for view, rows_of_view in _VIEWS.items():
            files = all_results.view_files(cluster, view)
            rows = rows_of_view(of_round, snapshot_ids)
            if rows.num_rows and not views.has(cluster, view):  # new, or it was deleted
                try:
                    earlier = rows_of_view(all_results, all_results.of_cluster(cluster))
                except StoreError as error:  # whoever reads the view tries again, and fails
                    _LOGGER.warning("the view %s of %s is not made: %s", view, cluster, error)
                    continue
                files.add(earlier, _ALL_ROUNDS)
            files.add(rows, name)
    is_by_cluster = not copy.is_local_copy or len(ids_by_cluster) == 1
    results_sent = [path for path in sent if path.startswith("results/")]
    are_packed = not is_by_cluster and all(path.endswith(f"/{PACKED}") for path in results_sent)
    all_results.finish_round(
        name,
        installation.clock(),
        round_.to_analyse,
        is_by_cluster=is_by_cluster,
        packed_tables={path.split("/")[1] for path in results_sent} if are_packed else None,
    )
    return sorted(ids_by_cluster)


def stored_view(
    installation: Installation,
    cluster: str,
    view: str = "series",
    since: datetime | None = None,
    until: datetime | None = None,
) -> pa.Table:
    """Return a view of a cluster, of the months from `since` to `until` if given; it is made anew
    where it is missing.

    It is empty where nothing was analysed yet.
    """
    results = installation.results
    rows = results.view(cluster, view, since, until)
    if rows is not None:
        return rows
    files = results.view_files(cluster, view)
    files.add(_VIEWS[view](results, results.of_cluster(cluster)), _ALL_ROUNDS)
    return files.read()


def spark_conf(row_count: int) -> Mapping[str, str]:
    """Return Spark's settings for a round of so many rows; the installation's own override them."""
    for max_rows, conf in _SPARK_CONF:
        if row_count <= max_rows:
            return conf
    return _SPARK_CONF_OF_MANY


def _run_jobs(
    installation: Installation, copy: WorkingCopy, name: str, round_: Round, log: Log
) -> None:
    copy.fetch(round_.paths)
    with tempfile.TemporaryDirectory() as folder:
        listing = Path(folder) / "snapshots.json"
        listing.write_text(round_.to_json())
        run_job(
            installation.locations.spark_jobs / "analysis_round.py",
            ["--store", copy.root, "--round", name, "--snapshots", str(listing)],
            master=installation.locations.spark_master,
            conf={**spark_conf(round_.row_count), **installation.locations.spark_conf},
            pass_on=installation.locations.spark_environment,
            log=log,
        )


def _next_readable_round(
    installation: Installation,
    copy: WorkingCopy,
    views: StoredViews,
    log: Log,
    *,
    whole: bool = False,
) -> _ReadableRound:
    """Return the next round without snapshots that cannot be read; record those for the reports.

    One cluster is looked at after the other, until the round is full. With `whole` every byte is
    read, not the footers alone.
    """
    results = installation.results
    analysed = {
        result.snapshot_id: result.previous_snapshot_id for result in results.analysed.values()
    }
    rows: list[Mapping[str, Any]] = []
    left_out: dict[str, tuple[LeftOut, ...]] = {}
    free_rows, is_last = _MAX_ROWS_OF_ROUND, True
    fleet = Fleet.read(installation.archive.store)
    listed = installation.archive.manifest_lists()
    for number, cluster in enumerate(sorted(installation.settings.clusters)):
        if free_rows <= 0:
            is_last = False
            break
        backlog = _Backlog(cluster, listed.get(cluster, []), number, fleet, analysed)
        part, is_whole = backlog.readable(copy, free_rows, whole, log)
        rows += part.rows
        free_rows -= part.row_count
        is_last = is_last and is_whole
        if backlog.left_out:
            left_out[cluster] = tuple(backlog.left_out.values())
        results.write_left_out(cluster, tuple(backlog.left_out.values()), views)
    return _ReadableRound(Round(tuple(rows)), is_last, left_out, fleet)


@dataclass(slots=True)
class _Backlog:
    """What is left to analyse of one cluster; by id the snapshots that cannot be read."""

    cluster: str
    listed: Sequence[StoredFile]  # its manifests
    number: int  # of the cluster, among all
    fleet: Fleet
    analysed: Mapping[str, str | None]
    left_out: dict[str, LeftOut] = field(default_factory=dict)

    def readable(
        self, copy: WorkingCopy, max_rows: int, whole: bool, log: Log
    ) -> tuple[Round, bool]:
        """Return the next snapshots, all readable, and whether these are all that is left.

        A snapshot that is left out changes what the next one is compared with, so they are chosen
        again until all of them are readable.
        """
        # Each new snapshot is a manifest more: every few rounds it is the cluster's turn.
        is_turn = (len(self.listed) + self.number) % _INDEXED_EVERY == 0
        manifests = self.fleet.manifests(self.cluster, self.listed, is_whole=is_turn)
        readable_ids: set[str] = set()
        while True:
            backlog = self._next_round(manifests)
            if not all(row["files"] for row in backlog.rows):
                manifests = self.fleet.manifests(self.cluster, self.listed, is_whole=True)
                backlog = self._next_round(manifests)
            round_ = backlog.begin(max_rows)
            for row in round_.rows:
                snapshot_id = row["snapshot_id"]
                if snapshot_id in readable_ids:
                    continue
                try:
                    read = {**row, "files": analysis.files_read(row)}
                    paths = [file["path"] for file in read["files"]]
                    copy.fetch(paths, {} if whole else self.fleet.copies(self.cluster))
                    Archive(copy.files).check_snapshot(read, whole=whole)
                except CounterpoiseError as error:
                    self.left_out[snapshot_id] = LeftOut(snapshot_id, str(error))
                    log(f"snapshot {snapshot_id} is left out, since it cannot be read: {error}")
                else:
                    readable_ids.add(snapshot_id)
            if all(row["snapshot_id"] in readable_ids for row in round_.rows):
                return round_, len(round_.rows) == len(backlog.rows)

    def _next_round(self, manifests: pa.Table) -> Round:
        return analysis.next_round(
            manifests, self.analysed, self.left_out, scheduled_at=history.scheduled_at_of
        )


def _series_of(results: Results, snapshot_ids: Collection[str]) -> pa.Table:
    parts = [results.table(name, snapshot_ids) for name in _SERIES_PARTS]
    return analysis.series_rows(*parts) if parts[0].num_rows else SERIES.empty_table()


def _log_dirs_of(results: Results, snapshot_ids: Collection[str]) -> pa.Table:
    return results.table("log_dir_load", snapshot_ids)


# How the rows of each of VIEWS are made of the results of snapshots.
_VIEWS: Final[Mapping[str, Callable[[Results, Collection[str]], pa.Table]]] = {
    "series": _series_of,
    "log_dirs": _log_dirs_of,
}


# -- the newest rounds on an object store, put together so that a report opens few files
#
# There a round has one file of each table for all clusters. Eight rounds of a day (UTC) become one,
# and all of a day when it is over: a day later compaction makes of them a file for each cluster.
#
# The merged round names those that it is made of: these no longer count. Nothing is deleted here:
# their documents and files stay until compaction deletes them, for readers that know of them
# already. So whatever breaks off in between loses nothing, and two analyses at once at most make a
# round twice.


Document = Mapping[str, Any]  # of a round, as the index of rounds has it
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
