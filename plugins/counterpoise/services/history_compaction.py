"""Retention and compaction of the history: fewer old snapshots, one file per day and table, fewer
rounds of results.

    report = compact(installation, print)
    report.clusters, report.problems

Audits, and the reports of a day, are kept no longer than snapshots are. Results become tables of a
day, merged rounds, and a file a month for each view, a day after they were finished.

New files are written first, then the manifest of the day that names them, then the old manifests
are deleted; files that no manifest names are deleted last, once they are older than the grace
period. So a reader finds all files that an old manifest names, and an interruption loses nothing:
the next compaction goes on. A merged round names those it is made of before they are deleted; their
files stay for the grace period, too. Snapshots and rounds of the last day stay as they are. Nothing
is locked: two compactions at once make the same files twice.

A Spark job is bounded by the rows that it reads, and gets the memory that they need. A file that
exists already, with the rows that it must have, is not made again.
"""

import json
import tempfile
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import pyarrow as pa

from counterpoise import analysis, history
from counterpoise.daily_copies import SNAPSHOT_COUNT, copy_days
from counterpoise.errors import CounterpoiseError, StoreError
from counterpoise.history import DailyPlan, DayPlan, Merge, RoundMerge, daily_folder
from counterpoise.installation import Installation
from counterpoise.model.grouping import grouped
from counterpoise.model.policy import HistoryPolicy
from counterpoise.model.safe_text import safe_logger
from counterpoise.model.tables import (
    CLUSTER_FOLDER,
    DAILY_TABLES,
    RESULT_TABLES,
    SNAPSHOT_TABLES,
    VIEWS,
)
from counterpoise.model.words import pluralize
from counterpoise.round_index import ROUNDS, document_path, read_documents, write_document
from counterpoise.services.analyses import stored_view
from counterpoise.spark_submit import START_FAST, run_job
from counterpoise.storage import Store, working_root

Log = Callable[[str], None]
_LOGGER = safe_logger(__name__)
WORK: Final = "work"  # the folder for what jobs make, until it is moved into place
_MADE_OF: Final = b"made_of"
# Of a job, unless one thing to make needs more: two days of a million partitions by the hour. What
# a job has made stays when the next one fails.
_MAX_ROWS_OF_JOB: Final = 50_000_000
_MAX_FILES_OF_JOB: Final = 10_000
_MAX_ROWS_OF_SMALL_JOB: Final = 1_000_000
_FEW_ROWS_CONF: Final = {**START_FAST, "spark.sql.shuffle.partitions": "2"}
_MANY_ROWS_CONF: Final = {"spark.driver.memory": "4g"}


@dataclass(slots=True)
class ClusterReport:
    """What was done with a cluster's history; `left_alone` are days, each with its reason."""

    cluster: str
    days_compacted: int = 0
    snapshots_dropped: int = 0
    files_deleted: int = 0
    left_alone: list[str] = field(default_factory=list)
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ResultsReport:
    """What was done, and why not all of it."""

    days_of_loads: int = 0  # tables made for the first time, or anew
    rounds_merged: int = 0
    files_deleted: int = 0
    left_alone: tuple[str, ...] = ()  # since a file is damaged
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class CompactionReport:
    """What was done with all clusters and with the results of the Spark jobs."""

    clusters: tuple[ClusterReport, ...]
    results: ResultsReport

    @property
    def in_words(self) -> tuple[str, ...]:
        """Return what was done, a line for each cluster and one for the results."""
        clusters = (
            f"{cluster.cluster}: {pluralize(cluster.days_compacted, 'day')} compacted, "
            f"{pluralize(cluster.snapshots_dropped, 'snapshot')} dropped, "
            f"{pluralize(cluster.files_deleted, 'file')} deleted"
            for cluster in self.clusters
        )
        results = (
            f"results: {pluralize(self.results.rounds_merged, 'round')} merged, "
            f"{pluralize(self.results.days_of_loads, 'table')} of a day made, "
            f"{pluralize(self.results.files_deleted, 'file')} deleted"
        )
        return (*clusters, results)

    @property
    def problems(self) -> tuple[str, ...]:
        """Return why something was not done, each in a sentence."""
        problems = [
            f"{cluster.cluster}: {reason}"
            for cluster in self.clusters
            for reason in (*cluster.left_alone, cluster.problem)
            if reason
        ]
        problems += [f"results: {reason}" for reason in self.results.left_alone]
        if self.results.problem:
            problems.append(f"results: {self.results.problem}")
        return tuple(problems)


@dataclass(frozen=True, slots=True)
class Daily:
    """A day's table to be made: by file the snapshots that are read from it, and by snapshot how
    many seconds its rates lasted (those of a snapshot that is not there do not count), and how many
    brokers were live.
    """

    plan: DailyPlan
    files: Mapping[str, tuple[str, ...]]
    row_count: int  # of these snapshots in these files
    seconds: Mapping[str, float] = field(default_factory=dict)
    live_brokers: Mapping[str, int] = field(default_factory=dict)

    def listed(self, number: int) -> dict[str, Any]:
        """Return the entry of the job's plan."""
        files = [
            file
            | {
                "seconds": [self.seconds.get(one) for one in file["snapshot_ids"]],
                "live_brokers": [self.live_brokers.get(one) for one in file["snapshot_ids"]],
            }
            for file in _listed(self.files)
        ]
        day = self.plan.day.isoformat()
        return {"output": number, "table": self.plan.table, "date": day, "files": files}


def compact(installation: Installation, log: Log = _LOGGER.info) -> CompactionReport:
    """Compact the history of all clusters, then the results.

    A cluster whose history cannot be compacted stops no other.
    """
    now = installation.clock()
    reports = {name: ClusterReport(name) for name in sorted(installation.settings.clusters)}
    manifests: dict[str, pa.Table] = {}
    plans: list[DayPlan] = []
    for name, report in reports.items():
        try:
            files = installation.archive.manifest_files(name)
            manifests |= files
            policy = installation.cluster(name).policy.history
            day_plans = history.plan_days(name, files, policy, now)
            plans += [plan for plan in day_plans if _is_readable(installation, plan, report)]
        except CounterpoiseError as error:
            report.problem = str(error)
    for job in in_jobs(plans):
        _compact_days(installation, job, manifests, reports, log)
    for name, report in reports.items():
        try:
            report.files_deleted = _delete_unused_snapshots(installation, name, now)
            report.files_deleted += _delete_old_reports(installation, name, now)
        except CounterpoiseError as error:
            report.problem = report.problem or str(error)
    return CompactionReport(tuple(reports.values()), _compact_results(installation, now, log))


def _is_readable(installation: Installation, plan: DayPlan, report: ClusterReport) -> bool:
    """Whether all files of a day are readable; else the day stays as it is for now."""
    try:
        if plan.merges:
            for row in plan.survivors:
                installation.archive.check_snapshot(row)
    except CounterpoiseError as error:
        report.left_alone.append(f"{plan.day} stays as it is: {error}")
        return False
    return True


def _compact_days(
    installation: Installation,
    plans: Sequence[DayPlan],
    before: Mapping[str, pa.Table],
    reports: Mapping[str, ClusterReport],
    log: Log,
) -> None:
    try:
        make_files(installation, [merge for plan in plans for merge in plan.merges], (), log)
    except CounterpoiseError as error:
        for plan in plans:
            reports[plan.cluster].problem = str(error)
        return
    for plan in plans:
        report = reports[plan.cluster]
        try:
            _replace_manifests(installation, plan, before)
        except CounterpoiseError as error:
            report.problem = str(error)
            continue
        report.days_compacted += 1
        report.snapshots_dropped += len(plan.dropped_ids)


def _replace_manifests(
    installation: Installation, plan: DayPlan, before: Mapping[str, pa.Table]
) -> None:
    store = installation.archive.store
    store.write_table(plan.manifest_path, plan.manifest)
    for path in plan.replaced:
        # A repeated snapshot of that day writes its manifest anew; that one is for the next
        # compaction.
        if store.info(path) is not None and store.read_table(path).equals(before[path]):
            store.delete(path)


def _delete_unused_snapshots(installation: Installation, cluster: str, now: datetime) -> int:
    """Delete files of the cluster that no manifest names, and those of interrupted Spark jobs.

    Returns how many.
    """
    store = installation.archive.store
    grace = installation.cluster(cluster).policy.history.grace
    files = [
        file
        for table in SNAPSHOT_TABLES
        for file in store.files(history.table_folder(table, cluster))
    ]
    manifest_files = store.files(history.manifests_folder(cluster))
    manifests = installation.archive.manifest_files(cluster)
    named_paths = {
        file["path"]
        for path, table in manifests.items()
        for row in history.manifest_rows(path, table)
        for file in row["files"]
    }
    compacted_at: dict[tuple[str, date], datetime] = {}
    for file in manifest_files:
        place = history.place_of(file.path)
        if place and history.is_compacted(file.path) and file.modified_at:
            latest = compacted_at.get(place, file.modified_at)
            compacted_at[place] = max(file.modified_at, latest)
    unused = history.unused(
        [*files, *store.files(WORK)], named_paths, compacted_at, grace=grace, now=now
    )
    # The manifest of a day without snapshots says when they were dropped; it is deleted with the
    # last of their files.
    places_in_use = {history.place_of(file.path) for file in files if file.path not in unused}
    needed_manifests = {
        path
        for path, table in manifests.items()
        if table.num_rows or history.place_of(path) in places_in_use
    }
    unused += history.unused(manifest_files, needed_manifests, compacted_at, grace=grace, now=now)
    for path in unused:
        store.delete(path)
    return len(unused)


def _delete_old_reports(installation: Installation, cluster: str, now: datetime) -> int:
    """Delete audits as snapshots of their times are dropped, and the reports of old days; return
    how many.

    The newest of each kind stay, however old they are.
    """
    policy = installation.cluster(cluster).policy.history
    audits = installation.archive.audits(cluster)
    kept_ids = history.surviving(({"snapshot_id": audit_id} for audit_id in audits), policy, now)
    old_paths = [path for audit_id, path in audits.items() if audit_id not in kept_ids]
    for pages in installation.archive.dated_pages(cluster).values():
        days_but_newest = sorted(pages)[:-1]
        for day in days_but_newest:
            if history.age_of(day, now) >= policy.keep_daily:
                old_paths += pages[day]
    for path in old_paths:
        installation.archive.store.delete(path)
    return len(old_paths)


# -- the results of the Spark jobs


@dataclass(frozen=True, slots=True)
class _LeftAlone:
    """What is not compacted since a file is damaged: why, and the rounds of which it is."""

    reasons: list[str] = field(default_factory=list)
    rounds: set[str] = field(default_factory=set)

    def add(self, what: str, error: StoreError, rounds: Iterable[str] = ()) -> None:
        self.reasons.append(f"{what} stays as it is: {error}")
        self.rounds.update(rounds)


def _compact_results(installation: Installation, now: datetime, log: Log) -> ResultsReport:
    """Compact the results of all clusters; an error of ours ends it and is in the report."""
    report, left_alone = ResultsReport(), _LeftAlone()
    try:
        policy = _longest_policy(installation)
        rounds = _finish_merges(installation.archive.store)
        existing = _snapshot_ids(installation)
        report = replace(
            report, days_of_loads=_make_daily(installation, rounds, now, log, left_alone)
        )
        # Of a day without its table its results are all there is.
        complete = [one for one in rounds if one["round"] not in left_alone.rounds]
        report = replace(report, files_deleted=_drop_old_loads(installation, complete, policy, now))
        plans = history.plan_rounds(rounds, existing, policy, now)
        report = replace(report, rounds_merged=_merge_rounds(installation, plans, log, left_alone))
        deleted = _delete_unused_results(installation.archive.store, policy, now)
        deleted += _merge_views(installation, now, left_alone)
        report = replace(report, files_deleted=report.files_deleted + deleted)
    except CounterpoiseError as error:
        report = replace(report, problem=str(error))
    return replace(report, left_alone=tuple(left_alone.reasons))


def _longest_policy(installation: Installation) -> HistoryPolicy:
    """Return for each period the longest of all clusters: a round has snapshots of all of them."""
    clusters = installation.settings.clusters.values()
    policies = [cluster.policy.history for cluster in clusters] or [HistoryPolicy()]
    return HistoryPolicy(
        keep_all=max(policy.keep_all for policy in policies),
        keep_hourly=max(policy.keep_hourly for policy in policies),
        keep_daily=max(policy.keep_daily for policy in policies),
        grace=max(policy.grace for policy in policies),
    )


def _finish_merges(store: Store) -> list[dict[str, Any]]:
    """Return the lists of rounds, without those that were merged into another one.

    These are deleted now, in case an interrupted compaction left them.
    """
    documents = read_documents(store)
    merged = {name for document in documents.values() for name in document.get("merged", ())}
    for name in sorted(merged & documents.keys()):
        store.delete(document_path(name))
    return [document for name, document in sorted(documents.items()) if name not in merged]


def _snapshot_ids(installation: Installation) -> frozenset[str]:
    """Return the snapshots that the history has."""
    manifests = installation.archive.manifests(installation.archive.clusters())
    return frozenset(manifests["snapshot_id"].to_pylist())


def _make_daily(
    installation: Installation,
    rounds: list[dict[str, Any]],
    now: datetime,
    log: Log,
    left_alone: _LeftAlone,
) -> int:
    clusters = installation.settings.clusters
    dailies = _daily_tables(installation, rounds, now, clusters, left_alone)
    made = 0
    for job in in_jobs(dailies):
        to_make = _with_series(installation, job, left_alone)
        make_files(installation, (), to_make, log)
        made += len(to_make)
    for table in DAILY_TABLES:
        for cluster in installation.settings.clusters:
            copy_days(installation.archive.store, table, cluster)
    return made


def _daily_tables(
    installation: Installation,
    rounds: list[dict[str, Any]],
    now: datetime,
    clusters: Collection[str],
    left_alone: _LeftAlone,
) -> list[Daily]:
    policies = {name: installation.cluster(name).policy.history for name in clusters}
    store = installation.archive.store
    files_of, counts_of = cache(partial(_files, store)), cache(partial(snapshot_counts, store))
    dailies = []
    for table in DAILY_TABLES:
        existing = {path for name in policies for path in store.list(daily_folder(table, name))}
        for plan in history.plan_daily(table, rounds, policies, now):
            try:
                if plan.path in existing and (plan.is_thinned or is_daily_made(store, plan)):
                    continue
                files = {
                    path: ids
                    for name, ids in plan.snapshot_ids_by_round.items()
                    for path in files_of(table, name, plan.cluster)
                }
                row_count = sum(
                    counts_of(path).get(one, 0) for path, ids in files.items() for one in ids
                )
            except StoreError as error:
                what = f"{table} of {plan.cluster} of {plan.day}"
                left_alone.add(what, error, plan.snapshot_ids_by_round)
                continue
            if files:
                dailies.append(Daily(plan, files, row_count))
    return dailies


def _with_series(
    installation: Installation, dailies: list[Daily], left_alone: _LeftAlone
) -> list[Daily]:
    """Add how long the rates of each snapshot lasted, and how many brokers were live, from the
    cluster's series. The days of a cluster whose series cannot be read are left alone.
    """
    found = []
    for cluster, of_cluster in grouped((daily.plan.cluster, daily) for daily in dailies).items():
        days = [daily.plan.day for daily in of_cluster]
        since = datetime.combine(min(days), time(), UTC) - analysis.AROUND
        until = datetime.combine(max(days), time(), UTC) + analysis.AROUND
        try:
            series = stored_view(installation, cluster, "series", since, until)
        except StoreError as error:
            rounds = {name for daily in of_cluster for name in daily.plan.snapshot_ids_by_round}
            left_alone.add(f"every day of {cluster} without a table", error, rounds)
            continue
        seconds = analysis.seconds_of_rates(series, cluster)
        live_brokers = analysis.live_broker_counts(series, cluster)
        found += [
            replace(daily, seconds=seconds, live_brokers=live_brokers) for daily in of_cluster
        ]
    return found


def _drop_old_loads(
    installation: Installation, rounds: list[dict[str, Any]], policy: HistoryPolicy, now: datetime
) -> int:
    store = installation.archive.store
    outlived = history.outlived_rounds(rounds, policy, now)
    paths = [path for name in outlived for path in _files(store, history.LOADS, name)]
    for cluster, settings in installation.settings.clusters.items():
        for table in DAILY_TABLES:
            daily = store.list(daily_folder(table, cluster))
            days = {path: place[1] for path in daily if (place := history.place_of(path))}
            old = set(history.old_days(days.values(), settings.policy.history, now))
            paths += [path for path, day in days.items() if day in old]
    for path in paths:
        store.delete(path)
    return len(paths)


def _merge_views(installation: Installation, now: datetime, left_alone: _LeftAlone) -> int:
    """Delete months of views older than the policy of a cluster keeps anything, and put each other
    month into one file; return how many files were deleted or replaced.

    A view that cannot be read keeps no other from this.
    """
    count = 0
    for cluster, settings in installation.settings.clusters.items():
        for view in VIEWS:
            files = installation.results.view_files(cluster, view)
            count += files.delete_before(now - settings.policy.history.keep_daily)
            try:
                count += files.merge()
            except StoreError as error:
                left_alone.add(f"the view {view} of {cluster}", error)
    return count


def _merge_rounds(
    installation: Installation, plans: Iterable[RoundMerge], log: Log, left_alone: _LeftAlone
) -> int:
    store = installation.archive.store
    merges_of: dict[str, list[Merge]] = {}
    whole = []
    for plan in plans:
        if not left_alone.rounds.isdisjoint(plan.snapshot_ids_by_round):
            continue  # of a day without its table they are all there is
        try:
            merges_of[plan.name] = _merges(store, plan)
            whole.append(plan)
        except StoreError as error:
            left_alone.add(f"round {plan.name}", error, plan.snapshot_ids_by_round)
    for job in in_jobs(merge for merges in merges_of.values() for merge in merges):
        make_files(installation, job, (), log)
    for plan in whole:
        write_document(store, plan.document)
        for name in plan.snapshot_ids_by_round:
            store.delete(document_path(name))
    return sum(len(plan.snapshot_ids_by_round) for plan in whole)


def _merges(store: Store, plan: RoundMerge) -> list[Merge]:
    """Return a merge for each table and cluster of the merged round that has any rows."""
    merges = []
    cluster_of = {row["snapshot_id"]: row["cluster"] for row in plan.document["snapshots"]}
    for table in RESULT_TABLES:
        files: dict[str, dict[str, tuple[str, ...]]] = {}  # by cluster
        counts: dict[str, dict[str, int]] = {}
        for name, ids in plan.snapshot_ids_by_round.items():
            for path in _files(store, table, name) if ids else ():
                of_file = snapshot_counts(store, path)
                kept = grouped((cluster_of[one], one) for one in ids if one in of_file)
                for cluster, ids_of_cluster in kept.items():
                    files.setdefault(cluster, {})[path] = tuple(ids_of_cluster)
                    of_cluster = counts.setdefault(cluster, {})
                    for one in ids_of_cluster:
                        of_cluster[one] = of_cluster.get(one, 0) + of_file[one]
        for cluster, of_cluster_files in sorted(files.items()):
            folder = f"results/{table}/round={plan.name}/{CLUSTER_FOLDER}={cluster}"
            path = f"{folder}/{plan.name}.parquet"
            merges.append(Merge(table, path, of_cluster_files, counts[cluster]))
    return merges


def _files(
    store: Store, table: str, round_name: str, cluster: str | None = None
) -> tuple[str, ...]:
    """Return the files of a round; of those in a folder for a cluster only that one's, if given."""
    paths = store.list(f"results/{table}/round={round_name}", suffix=".parquet")
    if cluster is None:
        return paths
    own_folder = f"/{CLUSTER_FOLDER}={cluster}/"
    return tuple(p for p in paths if own_folder in p or f"/{CLUSTER_FOLDER}=" not in p)


def _delete_unused_results(store: Store, policy: HistoryPolicy, now: datetime) -> int:
    """Delete files of rounds that no longer exist, and lists of merged rounds without snapshots.

    Returns how many.
    """
    documents = read_documents(store)
    modified_at = {file.path: file.modified_at for file in store.files(ROUNDS)}
    merged_at = {
        name: modified_at.get(document_path(document["round"]))
        for document in documents.values()
        for name in document.get("merged", ())
    }

    def is_over(moment: datetime | None) -> bool:
        return moment is not None and moment + policy.grace <= now

    deleted = 0
    for table in RESULT_TABLES:
        for file in store.files(f"results/{table}"):
            name = _round_of(file.path)
            if name in documents or not is_over(file.modified_at):
                continue
            if name not in merged_at or is_over(merged_at[name]):
                store.delete(file.path)
                deleted += 1
    for name, document in documents.items():
        if not document["snapshots"] and is_over(modified_at.get(document_path(name))):
            store.delete(document_path(name))
            deleted += 1
    return deleted


def _round_of(path: str) -> str | None:
    parts = [part for part in path.split("/") if part.startswith("round=")]
    return parts[0].removeprefix("round=") if parts else None


# -- the Spark job `history_compaction`, whose files are checked and moved into place


class _Input(Protocol):
    """What is read for one thing to make."""

    @property
    def row_count(self) -> int: ...
    @property
    def files(self) -> Collection[str]: ...


_Made = TypeVar("_Made", bound=_Input)


def in_jobs(to_make: Iterable[_Made]) -> Iterator[list[_Made]]:
    """Yield what one Spark job makes, job by job: as many as keep its bounds, and one at least."""
    job: list[_Made] = []
    rows = files = 0
    for one in to_make:
        rows, files = rows + one.row_count, files + len(one.files)
        if job and (rows > _MAX_ROWS_OF_JOB or files > _MAX_FILES_OF_JOB):
            yield job
            job, rows, files = [], one.row_count, len(one.files)
        job.append(one)
    if job:
        yield job


def make_files(
    installation: Installation, merges: Sequence[Merge], dailies: Sequence[Daily], log: Log
) -> None:
    """Make the files that do not exist yet.

    Raises SparkJobError, or StoreError when a file does not have the rows that it should.
    """
    store = installation.archive.store
    missing_merges = []
    for merge in merges:
        if not merge.row_count:
            store.write_table(merge.path, _shared_schema(merge.table).empty_table())
        elif not _is_made(store, merge):
            missing_merges.append(merge)
    if not missing_merges and not dailies:
        return
    work = f"{WORK}/{uuid.uuid4().hex}"
    _run_job(installation, work, missing_merges, dailies, log)
    for number, merge in enumerate(missing_merges):
        output = _output_file(store, f"{work}/{merge.table}/output={number}")
        if output is None or snapshot_counts(store, output) != _expected_counts(merge):
            raise StoreError(
                f"{store.uri(merge.path)} would lack rows of its snapshots, so nothing was "
                f"replaced; the Spark job's files are in {store.uri(work)}"
            )
        store.move(output, merge.path)
    for number, daily in enumerate(dailies, start=len(missing_merges)):
        output = _output_file(store, f"{work}/{daily.plan.table}_daily/output={number}")
        _write_daily(store, daily.plan, output)
    store.delete_folder(work)


def is_daily_made(store: Store, plan: DailyPlan) -> bool:
    """Whether the day's table exists, made of exactly what it would be made of now."""
    if store.info(plan.path) is None:
        return False
    metadata = store.parquet_shape(plan.path)[1].metadata or {}
    return bool(metadata.get(_MADE_OF) == plan.digest.encode())


def snapshot_counts(store: Store, path: str) -> dict[str, int]:
    """Return the number of rows by snapshot id of a file that has the column."""
    return store.value_counts(path, "snapshot_id")


def _run_job(
    installation: Installation,
    work: str,
    merges: Sequence[Merge],
    dailies: Sequence[Daily],
    log: Log,
) -> None:
    plan = {
        "merges": [
            {"output": number, "table": merge.table, "files": _listed(merge.files)}
            for number, merge in enumerate(merges)
        ],
        "daily": [daily.listed(number) for number, daily in enumerate(dailies, start=len(merges))],
    }
    rows = sum(merge.row_count for merge in merges) + sum(daily.row_count for daily in dailies)
    conf = _FEW_ROWS_CONF if rows < _MAX_ROWS_OF_SMALL_JOB else _MANY_ROWS_CONF
    inputs = {
        file["path"] for entries in plan.values() for entry in entries for file in entry["files"]
    }
    master = installation.locations.spark_master
    with (
        tempfile.TemporaryDirectory() as folder,
        working_root(installation.archive.store, master, inputs) as root,
    ):
        listing = Path(folder) / "plan.json"
        listing.write_text(json.dumps(plan))
        run_job(
            installation.locations.spark_jobs / "history_compaction.py",
            ["--store", root, "--work", work, "--plan", str(listing)],
            master=master,
            conf={**conf, **installation.locations.spark_conf},
            pass_on=installation.locations.spark_environment,
            log=log,
        )


def _listed(files: Any) -> list[dict[str, Any]]:
    return [{"path": path, "snapshot_ids": list(ids)} for path, ids in sorted(files.items())]


def _is_made(store: Store, merge: Merge) -> bool:
    if store.info(merge.path) is None:
        return False
    try:
        return snapshot_counts(store, merge.path) == _expected_counts(merge)
    except StoreError:  # the file is damaged
        return False


def _expected_counts(merge: Merge) -> dict[str, int]:
    return {snapshot_id: count for snapshot_id, count in merge.row_counts.items() if count}


def _output_file(store: Store, folder: str) -> str | None:
    """Return the file that the job wrote there; None where it wrote no row."""
    files = store.list(folder, suffix=".parquet")
    if len(files) > 1:
        raise StoreError(f"the Spark job wrote {len(files)} files to {store.uri(folder)}, not one")
    return files[0] if files else None


def _write_daily(store: Store, plan: DailyPlan, output: str | None) -> None:
    schema = DAILY_TABLES[plan.table]
    rows = schema.empty_table() if output is None else store.read_table(output)
    table = rows.select(schema.names).cast(schema)
    count = sum(map(len, plan.snapshot_ids_by_round.values()))
    footer = {_MADE_OF: plan.digest, SNAPSHOT_COUNT: str(count)}
    store.write_table(plan.path, table.replace_schema_metadata(footer))


def _shared_schema(table: str) -> pa.Schema:
    """Return the schema of a file that holds many snapshots."""
    schema = {**SNAPSHOT_TABLES, **RESULT_TABLES}[table]
    if "snapshot_id" in schema.names:
        return schema
    return schema.append(pa.field("snapshot_id", pa.string(), nullable=False))
