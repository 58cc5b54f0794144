"""The history on Spark: one job over all that is new, and the views that pages read.

    clusters = analyse(installation, "2026-01-31T12:00")      # those that have new results
    rebuild_views(installation, "orders-eu")                  # the views anew, from all results

The list of the round's snapshots is written last: until then none of them counts as analysed, and
the next round analyses them again. A snapshot that cannot be read is left out, with the reason; the
others are analysed.
"""

import re
import tempfile
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import pyarrow as pa

from counterpoise import analysis
from counterpoise.analysis.rounds import Round
from counterpoise.errors import CounterpoiseError
from counterpoise.installation import Installation
from counterpoise.model.balance import LeftOut
from counterpoise.model.grouping import grouped
from counterpoise.model.result_tables import SERIES
from counterpoise.model.safe_text import safe_logger
from counterpoise.results import Results
from counterpoise.spark_submit import START_FAST, SparkJobError, run_job
from counterpoise.storage.staging import working_root

Log = Callable[[str], None]
_LOGGER = safe_logger(__name__)
_UNSAFE_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]+")
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
# Code that reads and writes rows is called millions of times, code that plans only thousands of
# times: that is not worth compiling well.
_COMPILE_LATE: Final = (
    "-XX:Tier4InvocationThreshold=200000 -XX:Tier4MinInvocationThreshold=60000 "
    "-XX:Tier4CompileThreshold=500000 -XX:Tier4BackEdgeThreshold=200000"
)
# Kryo writes persisted rows, gigabytes of arrays, in larger pieces than Java's serialization.
_SPARK_CONF_OF_MANY: Final = {
    "spark.driver.extraJavaOptions": f"-XX:+UseParallelGC {_COMPILE_LATE}",
    "spark.driver.memory": "3g",
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
}
_SERIES_PARTS: Final = ("broker_balance", "broker_load", "snapshot_changes", "leader_changes")


@dataclass(frozen=True, slots=True)
class _ReadableRound:
    """The next round, and by cluster the snapshots that cannot be read."""

    round: Round
    left_out: Mapping[str, tuple[LeftOut, ...]]


def analyse(installation: Installation, round_id: str, log: Log = _LOGGER.info) -> list[str]:
    """Analyse every snapshot of all clusters that has no result yet, in one Spark session.

    Returns the clusters that have new results.
    """
    readable = _next_readable_round(installation, log)
    if not readable.round.to_analyse:
        return []
    # Of its own, so that two analyses at once, or a retry, never write the same files.
    name = f"{_UNSAFE_IN_NAMES.sub('_', round_id).strip('._-')}-{uuid.uuid4().hex[:8]}"
    try:
        _run_jobs(installation, name, readable.round, log)
    except SparkJobError:
        # A file may be damaged before a footer that is sound.
        readable = _next_readable_round(installation, log, whole=True)
        if not readable.left_out:
            raise
        if not readable.round.to_analyse:
            return []
        _run_jobs(installation, name, readable.round, log)
    return _finish_round(installation, name, readable.round)


def _finish_round(installation: Installation, name: str, round_: Round) -> list[str]:
    """Add to the views of the round's clusters, then record the round; return the clusters."""
    results = installation.results.with_round(name, round_.to_analyse)
    ids_by_cluster = grouped((row["cluster"], row["snapshot_id"]) for row in round_.to_analyse)
    for cluster, snapshot_ids in sorted(ids_by_cluster.items()):
        for view, rows_of_view in _VIEWS.items():
            files = results.view_files(cluster, view)
            if not files.exist:  # there may be results of an earlier release
                _rebuild_view(results, cluster, view)
            else:
                files.add(rows_of_view(results, snapshot_ids), name)
    results.finish_round(name, installation.clock(), round_.to_analyse)
    return sorted(ids_by_cluster)


def rebuild_views(installation: Installation, cluster: str) -> Mapping[str, pa.Table]:
    """Make the views of a cluster anew from all results, and return them by name.

    Of snapshots whose results are gone, the rows of the old views stay. Files of them that are
    damaged are renamed, with a warning.
    """
    results = installation.results
    return {view: _rebuild_view(results, cluster, view) for view in _VIEWS}


def view_of(
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
    return _rebuild_view(results, cluster, view) if rows is None else rows


def _rebuild_view(results: Results, cluster: str, view: str) -> pa.Table:
    files = results.view_files(cluster, view)
    files.quarantine_damaged()
    files.merge(_VIEWS[view](results, results.of_cluster(cluster)))
    return files.read()


def spark_conf(row_count: int) -> Mapping[str, str]:
    """Return Spark's settings for a round of so many rows; the installation's own override them."""
    for max_rows, conf in _SPARK_CONF:
        if row_count <= max_rows:
            return conf
    return _SPARK_CONF_OF_MANY


def _run_jobs(installation: Installation, name: str, round_: Round, log: Log) -> None:
    master = installation.locations.spark_master
    inputs = {file["path"] for row in round_.rows for file in row["files"]}
    with (
        tempfile.TemporaryDirectory() as folder,
        working_root(installation.archive.store, master, inputs) as root,
    ):
        listing = Path(folder) / "snapshots.json"
        listing.write_text(round_.to_json())
        run_job(
            installation.locations.spark_jobs / "analysis_round.py",
            ["--store", root, "--round", name, "--snapshots", str(listing)],
            master=master,
            conf={**spark_conf(round_.row_count), **installation.locations.spark_conf},
            pass_on=installation.locations.spark_environment,
            log=log,
        )


def _next_readable_round(
    installation: Installation, log: Log, *, whole: bool = False
) -> _ReadableRound:
    """Return the next round without snapshots that cannot be read; record those for the reports.

    A snapshot that is left out changes what the next one is compared with, so the round is chosen
    again until all of it is readable. With `whole` every byte is read, not the footers alone.
    """
    manifests = installation.archive.manifests(sorted(installation.settings.clusters))
    analysed = {
        result.snapshot_id: result.previous_snapshot_id
        for result in installation.results.analysed.values()
    }
    unreadable: dict[str, tuple[str, LeftOut]] = {}  # cluster and reason, by snapshot id
    readable_ids: set[str] = set()
    while True:
        round_ = analysis.next_round(manifests, analysed, unreadable)
        for row in round_.rows:
            snapshot_id = row["snapshot_id"]
            if snapshot_id in readable_ids:
                continue
            try:
                installation.archive.check_snapshot(row, whole=whole)
            except CounterpoiseError as error:
                unreadable[snapshot_id] = (row["cluster"], LeftOut(snapshot_id, str(error)))
                log(f"snapshot {snapshot_id} is left out, since it cannot be read: {error}")
            else:
                readable_ids.add(snapshot_id)
        if all(row["snapshot_id"] in readable_ids for row in round_.rows):
            break
    left_out: dict[str, tuple[LeftOut, ...]] = {}
    for cluster, reason in unreadable.values():
        left_out[cluster] = (*left_out.get(cluster, ()), reason)
    for cluster in installation.settings.clusters:
        installation.results.write_left_out(cluster, left_out.get(cluster, ()))
    return _ReadableRound(round_, left_out)


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
