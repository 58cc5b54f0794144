"""Retention and compaction of the history: fewer old snapshots, one file per day and table, fewer
rounds of results.

    report = compact(installation, print)
    report.clusters, report.problems

Audits, and the reports of a day, are kept no longer than snapshots are.

New files are written first, then the manifest of the day that names them, then the old manifests
are deleted; files that no manifest names are deleted last, once they are older than the grace
period. So a reader finds all files that an old manifest names, and an interruption loses nothing:
the next compaction goes on. Snapshots and rounds of the last day stay as they are. Nothing is
locked: two compactions at once make the same files twice.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

import pyarrow as pa

from counterpoise import history
from counterpoise.errors import CounterpoiseError
from counterpoise.history import DayPlan
from counterpoise.installation import Installation
from counterpoise.model.safe_text import safe_logger
from counterpoise.model.tables import SNAPSHOT_TABLES
from counterpoise.model.words import pluralize
from counterpoise.pipeline.compacting_results import ResultsReport, compact_results
from counterpoise.pipeline.spark_compaction import WORK, in_jobs, make_files

Log = Callable[[str], None]
_LOGGER = safe_logger(__name__)


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
            report.files_deleted = _delete_unused(installation, name, now)
            report.files_deleted += _delete_old_reports(installation, name, now)
        except CounterpoiseError as error:
            report.problem = report.problem or str(error)
    return CompactionReport(tuple(reports.values()), compact_results(installation, now, log))


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


def _delete_unused(installation: Installation, cluster: str, now: datetime) -> int:
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
