"""Retention and compaction of the history: fewer old snapshots, one file per day and table, fewer
rounds of results.

Audits, and their pages, are kept no longer than snapshots are.

    report = compact(site, print)
    report.clusters, report.problems

New files come first, then the manifest of the day that names them, then the old manifests go; files
that nothing names go last, when they are older than the grace period. So whoever reads meanwhile
finds all that an old manifest names, and whatever ends this in the middle loses nothing: the next
run goes on. What `kafka_snapshot` writes is left alone for a day, and the round of an analysis too;
nothing is locked. Two compactions at once make the same files twice.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import chain
from typing import Final

import pyarrow as pa

from counterpoise import history
from counterpoise.errors import CounterpoiseError
from counterpoise.history import DayPlan
from counterpoise.installation import Installation
from counterpoise.model.tables import SNAPSHOT_TABLES
from counterpoise.pipeline.compacting_results import ResultsReport, compact_results
from counterpoise.pipeline.spark_compaction import WORK, make_files

Log = Callable[[str], None]
_LOGGER = logging.getLogger(__name__)
_DAYS_AT_ONCE: Final = 31  # of a Spark job; what it has made stays made when the next one fails


@dataclass(slots=True)
class ClusterReport:
    """What became of a cluster's history."""

    cluster: str
    days_compacted: int = 0
    snapshots_dropped: int = 0
    files_deleted: int = 0
    left_alone: list[str] = field(default_factory=list)  # days, each with its reason
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class CompactionReport:
    clusters: tuple[ClusterReport, ...]
    results: ResultsReport

    @property
    def in_words(self) -> tuple[str, ...]:
        """What was done, a line for each cluster and one for the results."""
        clusters = (
            f"{one.cluster}: {one.days_compacted} day(s) compacted, {one.snapshots_dropped} snapshot(s) dropped, "
            f"{one.files_deleted} file(s) deleted"
            for one in self.clusters
        )
        made = self.results
        return (
            *clusters,
            f"results: {made.rounds_merged} round(s) merged, {made.days_of_loads} day(s) of loads made, "
            f"{made.files_deleted} file(s) deleted",
        )

    @property
    def problems(self) -> tuple[str, ...]:
        """Why something was not done; each in a sentence."""
        found = [
            f"{one.cluster}: {words}"
            for one in self.clusters
            for words in (*one.left_alone, one.problem)
            if words
        ]
        return (*found, *([f"results: {self.results.problem}"] if self.results.problem else []))


def compact(
    installation: Installation, log: Log = _LOGGER.info, *, cluster: str | None = None
) -> CompactionReport:
    """Compacts one cluster's history, or that of all; then the results.

    One cluster in trouble keeps no other back.
    """
    names = (
        [installation.cluster(cluster).name] if cluster else sorted(installation.settings.clusters)
    )
    now = installation.clock()
    reports = {name: ClusterReport(name) for name in names}
    manifests: dict[str, pa.Table] = {}
    plans: list[DayPlan] = []
    for name, report in reports.items():
        try:
            files = installation.archive.manifest_files(name)
            manifests |= files
            found = history.plan_days(name, files, installation.cluster(name).policy.history, now)
            plans += [plan for plan in found if _is_readable(installation, plan, report)]
        except CounterpoiseError as error:
            report.problem = str(error)
    for start in range(0, len(plans), _DAYS_AT_ONCE):
        _compact_days(installation, plans[start : start + _DAYS_AT_ONCE], manifests, reports, log)
    for name, report in reports.items():
        try:
            report.files_deleted = _delete_unused(installation, name, now)
            report.files_deleted += _delete_old_audits(installation, name, now)
        except CounterpoiseError as error:
            report.problem = report.problem or str(error)
    return CompactionReport(tuple(reports.values()), compact_results(installation, now, log))


def _is_readable(installation: Installation, plan: DayPlan, report: ClusterReport) -> bool:
    """A day with a file that is missing or broken stays as it is: somebody may still bring it back."""
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
        # Somebody who repeats a photograph of that day writes its manifest anew; that one is for
        # the next compaction.
        if store.info(path) is not None and store.read_table(path).equals(before[path]):
            store.delete(path)


def _delete_unused(installation: Installation, cluster: str, now: datetime) -> int:
    """Deletes files of the cluster that no manifest names, and what interrupted jobs have left.

    Answers how many.
    """
    store, grace = installation.archive.store, installation.cluster(cluster).policy.history.grace
    files = list(
        chain.from_iterable(
            store.files(history.table_folder(table, cluster)) for table in SNAPSHOT_TABLES
        )
    )
    listed = store.files(history.manifests_folder(cluster))
    manifests = installation.archive.manifest_files(cluster)
    rows = chain.from_iterable(
        history.manifest_rows(path, table) for path, table in manifests.items()
    )
    named = {file["path"] for row in rows for file in row["files"]}
    changed: dict[tuple[str, date], datetime] = {}
    for file in listed:
        place = history.place_of(file.path)
        if place and history.is_compacted(file.path) and file.modified_at:
            changed[place] = max(file.modified_at, changed.get(place, file.modified_at))
    unused = history.unused([*files, *store.files(WORK)], named, changed, grace=grace, now=now)
    held = {history.place_of(file.path) for file in files if file.path not in unused}
    # The manifest of a day without snapshots tells when they went; it goes with the last of their
    # files.
    wanted = {
        path
        for path, table in manifests.items()
        if table.num_rows or history.place_of(path) in held
    }
    unused += history.unused(listed, wanted, changed, grace=grace, now=now)
    for path in unused:
        store.delete(path)
    return len(unused)


def _delete_old_audits(installation: Installation, cluster: str, now: datetime) -> int:
    """Deletes audits as snapshots of their times are dropped, and the pages of days too long ago.
    Answers how many.

    The newest of both stay, however old they are.
    """
    policy = installation.cluster(cluster).policy.history
    audits, pages = installation.archive.audits(cluster), installation.archive.audit_pages(cluster)
    stay = history.surviving(({"snapshot_id": audit_id} for audit_id in audits), policy, now)
    old = [path for audit_id, path in audits.items() if audit_id not in stay]
    old += [
        pages[day] for day in sorted(pages)[:-1] if history.age_of(day, now) >= policy.keep_daily
    ]
    for path in old:
        installation.archive.store.delete(path)
    return len(old)
