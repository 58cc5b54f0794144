"""The history on Spark: one job over all that is new, and the views that pages read.

    clusters = analyse(site, "2026-01-31T12:00")      # those that have new results
    rebuild_series(site, "orders-eu")                 # the same view again, from all results

A snapshot that cannot be read is left out, with the reason; the others are analysed.
"""

import logging
import re
import tempfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from counterpoise import analysis
from counterpoise.analysis.rounds import Round
from counterpoise.errors import CounterpoiseError
from counterpoise.installation import Installation
from counterpoise.model.balance import LeftOut
from counterpoise.model.result_tables import SERIES
from counterpoise.spark_submit import START_FAST, SparkJobError, run_job
from counterpoise.storage.staging import working_root

Log = Callable[[str], None]
_LOGGER = logging.getLogger(__name__)
_UNSAFE_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]+")
# A small round is mostly Spark's start, and up to some millions of rows compiling well takes longer
# than running what was compiled quickly. Memory is the heap's; the process takes about one GiB
# more.
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
# What reads and writes rows is called millions of times, what plans only thousands: that is not
# worth compiling well.
_COMPILE_LATE: Final = (
    "-XX:Tier4InvocationThreshold=200000 -XX:Tier4MinInvocationThreshold=60000 "
    "-XX:Tier4CompileThreshold=500000 -XX:Tier4BackEdgeThreshold=200000"
)
# Kryo writes what is kept, gigabytes of arrays, in larger pieces than Java's serialization.
_SPARK_CONF_OF_MANY: Final = {
    "spark.driver.extraJavaOptions": f"-XX:+UseParallelGC {_COMPILE_LATE}",
    "spark.driver.memory": "3g",
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
}
_SERIES_PARTS: Final = ("broker_balance", "broker_load", "snapshot_changes")


@dataclass(frozen=True, slots=True)
class _Work:
    round: Round
    left_out: Mapping[str, tuple[LeftOut, ...]]  # by cluster


def analyse(installation: Installation, round_id: str, log: Log = _LOGGER.info) -> list[str]:
    """One Spark session over every snapshot of all clusters that has no result yet; the clusters
    that it concerned.
    """
    work = _work_to_do(installation, log)
    _tell_left_out(installation, work)
    if not work.round.to_analyse:
        return []
    name = _UNSAFE_IN_NAMES.sub("_", round_id).strip("._-")
    try:
        _run_jobs(installation, name, work.round, log)
    except SparkJobError:
        work = _work_to_do(
            installation, log, whole=True
        )  # a footer may be sound and what lies before it not
        if not work.left_out:
            raise
        _tell_left_out(installation, work)
        if not work.round.to_analyse:
            return []
        _run_jobs(installation, name, work.round, log)
    installation.results.finish_round(name, installation.clock(), work.round.to_analyse)
    clusters = sorted({row["cluster"] for row in work.round.to_analyse})
    for cluster in clusters:
        ids = [row["snapshot_id"] for row in work.round.to_analyse if row["cluster"] == cluster]
        _add_to_series(installation, cluster, ids)
    return clusters


def rebuild_series(installation: Installation, cluster: str) -> pa.Table:
    """Makes the view anew from all results, and returns it."""
    results = installation.results
    series = _series_of(installation, results.of_cluster(cluster))
    results.write_series(cluster, series)
    return series


def series_of(installation: Installation, cluster: str) -> pa.Table:
    """The view of a cluster; made anew where it is missing.

    Empty where nothing was analysed yet.
    """
    series = installation.results.series(cluster)
    return rebuild_series(installation, cluster) if series is None else series


def spark_conf(row_count: int) -> Mapping[str, str]:
    """How the driver is set up for a round that reads so many rows; the installation's own settings
    go over these.
    """
    return next((conf for most, conf in _SPARK_CONF if row_count <= most), _SPARK_CONF_OF_MANY)


def _run_jobs(installation: Installation, name: str, work: Round, log: Log) -> None:
    master = installation.locations.spark_master
    inputs = {file["path"] for row in work.rows for file in row["files"]}
    with (
        tempfile.TemporaryDirectory() as folder,
        working_root(installation.archive.store, master, inputs) as root,
    ):
        listing = Path(folder) / "snapshots.json"
        listing.write_text(work.to_json())
        run_job(
            installation.locations.spark_jobs / "analysis_round.py",
            ["--store", root, "--round", name, "--snapshots", str(listing)],
            master=master,
            conf={**spark_conf(work.row_count), **installation.locations.spark_conf},
            log=log,
        )


def _work_to_do(installation: Installation, log: Log, *, whole: bool = False) -> _Work:
    """The next round, without snapshots that cannot be read; each of those changes what others are
    compared with.

    With `whole` every byte is read, not the footers alone.
    """
    manifests = installation.archive.manifests(sorted(installation.settings.clusters))
    analysed = {
        a.snapshot_id: a.previous_snapshot_id for a in installation.results.analysed.values()
    }
    left_out: dict[str, dict[str, LeftOut]] = {}
    useless: set[str] = set()
    sound: set[str] = set()
    while True:
        found = analysis.next_round(manifests, analysed, useless)
        unchecked = [row for row in found.rows if row["snapshot_id"] not in sound]
        for row in unchecked:
            try:
                installation.archive.check_snapshot(row, whole=whole)
            except CounterpoiseError as error:
                useless.add(row["snapshot_id"])
                left_out.setdefault(row["cluster"], {})[row["snapshot_id"]] = LeftOut(
                    row["snapshot_id"], str(error)
                )
                log(f"snapshot {row['snapshot_id']} is left out: {error}")
            else:
                sound.add(row["snapshot_id"])
        if all(row["snapshot_id"] in sound for row in unchecked):
            return _Work(
                found, {cluster: tuple(found.values()) for cluster, found in left_out.items()}
            )


def _tell_left_out(installation: Installation, work: _Work) -> None:
    for cluster in installation.settings.clusters:
        installation.results.write_left_out(cluster, work.left_out.get(cluster, ()))


def _add_to_series(installation: Installation, cluster: str, snapshot_ids: Collection[str]) -> None:
    results = installation.results
    series = results.series(cluster)
    if series is None:
        rebuild_series(installation, cluster)
    else:
        newer = _series_of(installation, snapshot_ids)
        results.write_series(cluster, analysis.merged(series, newer, results.of_cluster(cluster)))


def _series_of(installation: Installation, snapshot_ids: Collection[str]) -> pa.Table:
    parts = [installation.results.table(name, snapshot_ids) for name in _SERIES_PARTS]
    return analysis.series_rows(*parts) if parts[0].num_rows else SERIES.empty_table()
