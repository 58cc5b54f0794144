"""What the history tells an audit: manifests, series, loads, forecasts, since when brokers idle and
partitions move.

    past = past_facts(site, photograph)         # None: no snapshot of this cluster was ever kept
    usual_interval(past.manifests)              # how often it is photographed, by the last twenty

What of it cannot be read is left out with a warning, as is everything of another cluster of the
same name.

Limits: since when something moves is told by some snapshots of the last week, and not by all of
them.
"""

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise import analysis
from counterpoise.audit.facts import PastFacts, SetAside
from counterpoise.audit.figures import moving
from counterpoise.errors import CounterpoiseError
from counterpoise.installation import Installation
from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
from counterpoise.model.load import ClusterLoad
from counterpoise.model.result_tables import RESULT_TABLES, SERIES
from counterpoise.pipeline.analysing import series_of

_LOGGER = logging.getLogger(__name__)
_PERIOD: Final = timedelta(days=14)  # that disks are forecast from
_INTERVALS: Final = 20
_FEW: Final = 3  # snapshots that are read whole
_A_WHILE: Final = timedelta(
    minutes=45
)  # so old is at least one of those: what copies nothing for so long has stalled
_AGES: Final = tuple(timedelta(hours=hours) for hours in (0, 1, 3, 6, 12, 24, 48, 96, 168))

Move = tuple[tuple[int, ...], tuple[int, ...]]  # adding and removing replicas


def past_facts(installation: Installation, taken: ClusterSnapshot) -> PastFacts | None:
    """What is known of the cluster that `taken` shows, from before it was taken."""
    manifests = _its_manifests(installation, taken)
    if not manifests.num_rows:
        return None
    series = _its_series(installation, taken)
    newest, disk_ids = _analysed(installation, series)
    tables = {
        "topic_load": _table(installation, "topic_load", newest),
        "partition_load": _table(installation, "partition_load", newest),
        "log_dir_load": _table(installation, "log_dir_load", disk_ids),
    }
    load = _load(series, tables, taken.cluster)
    return PastFacts(
        manifests=manifests,
        series=series,
        recent=tuple(_recent(installation, manifests, taken)),
        idle_since=_idle_since(series, taken.idle_broker_ids),
        disks=load.disks if load else (),
        moving_since=_moving_since(installation, manifests, taken),
        **tables,
    )


def set_aside(
    installation: Installation, taken: ClusterSnapshot, past: PastFacts | None
) -> Iterator[SetAside]:
    """The photographs of this cluster that were set aside since the newest snapshot of its history,
    oldest first.
    """
    good = past.manifests["observed_at"][-1].as_py() if past else None
    for row in installation.archive.reasons_aside(taken.cluster):
        try:
            one = SetAside(
                str(row["snapshot_id"]),
                datetime.fromisoformat(row["observed_at"]),
                tuple(map(str, row["reasons"])),
                bool(row["counts_alone"]),
            )
            is_newer = good is None or one.observed_at > good
        except (KeyError, TypeError, ValueError) as error:
            _LOGGER.warning("what was set aside of %s is not counted: %s", taken.cluster, error)
            continue
        if is_newer and row.get("cluster_id") == taken.cluster_id:
            yield one


def usual_interval(manifests: pa.Table) -> timedelta | None:
    """The median time between two of the last snapshots; None where there are fewer than three."""
    times = manifests["observed_at"].to_pylist()[-_INTERVALS - 1 :]
    if len(times) < 3:
        return None
    return timedelta(
        seconds=median((after - before).total_seconds() for before, after in pairwise(times))
    )


def _its_manifests(installation: Installation, taken: ClusterSnapshot) -> pa.Table:
    manifests = installation.archive.manifests([taken.cluster])
    return manifests.filter(pc.equal(manifests["cluster_id"], taken.cluster_id))


def _its_series(installation: Installation, taken: ClusterSnapshot) -> pa.Table:
    try:
        series = series_of(installation, taken.cluster)
    except CounterpoiseError as error:
        _LOGGER.warning("the series of %s cannot be read: %s", taken.cluster, error)
        return SERIES.empty_table()
    is_its = pc.fill_null(pc.equal(series["cluster_id"], taken.cluster_id), True)
    return series.filter(is_its)


def _analysed(installation: Installation, series: pa.Table) -> tuple[set[str], set[str]]:
    """The newest analysed snapshot, and those that disks are forecast from."""
    if not series.num_rows:
        return set(), set()
    newest = series["observed_at"][-1].as_py()
    since = pa.scalar(newest - _PERIOD, SERIES.field("observed_at").type)
    lately = series.filter(pc.greater_equal(series["observed_at"], since))
    return {series["snapshot_id"][-1].as_py()}, set(lately["snapshot_id"].unique().to_pylist())


def _table(installation: Installation, name: str, snapshot_ids: set[str]) -> pa.Table:
    try:
        return installation.results.table(name, snapshot_ids)
    except CounterpoiseError as error:
        _LOGGER.warning("no %s: %s", name, error)
        return RESULT_TABLES[name].empty_table()


def _load(series: pa.Table, tables: dict[str, pa.Table], cluster: str) -> ClusterLoad | None:
    if not series.num_rows:
        return None
    since = series["observed_at"][-1].as_py() - _PERIOD
    return analysis.cluster_load(
        series,
        tables["topic_load"],
        tables["partition_load"],
        tables["log_dir_load"],
        cluster=cluster,
        since=since,
    )


def _recent(
    installation: Installation, manifests: pa.Table, taken: ClusterSnapshot
) -> Iterator[ClusterSnapshot]:
    """The newest few before `taken`, oldest first, one of them at least a while old."""
    rows = _before(manifests, taken)
    old = [row for row in rows if _age(row, taken) >= _A_WHILE]
    chosen = rows[-_FEW:]
    if old and old[-1] not in chosen:
        chosen = [old[-1], *chosen[1:]]
    for row in chosen:
        try:
            yield installation.archive.read_snapshot(taken.cluster, row["snapshot_id"])
        except CounterpoiseError as error:
            _LOGGER.warning("snapshot %s cannot be read: %s", row["snapshot_id"], error)


def _before(manifests: pa.Table, taken: ClusterSnapshot) -> list[dict[str, Any]]:
    """Rows of snapshots taken before this one, oldest first."""
    rows: list[dict[str, Any]] = manifests.to_pylist()
    return [
        row
        for row in rows
        if row["snapshot_id"] != taken.snapshot_id and _age(row, taken) >= timedelta()
    ]


def _age(row: dict[str, Any], taken: ClusterSnapshot) -> timedelta:
    at: datetime = row["observed_at"]
    return timedelta() if taken.observed_at is None else taken.observed_at - at


def _idle_since(series: pa.Table, idle: Sequence[int]) -> dict[int, datetime]:
    """The first of the snapshots without a gap up to the newest in which each of these brokers held
    nothing.
    """
    found: dict[int, datetime] = {}
    for broker_id in idle:
        its = series.filter(pc.equal(series["broker_id"], broker_id)).sort_by("observed_at")
        rows = zip(its["observed_at"].to_pylist(), its["replicas"].to_pylist(), strict=True)
        for at, replicas in reversed(list(rows)):
            if replicas:
                break
            found[broker_id] = at
    return found


def _moving_since(
    installation: Installation, manifests: pa.Table, taken: ClusterSnapshot
) -> dict[TopicPartition, datetime]:
    """The oldest of the snapshots looked at from which on each partition that moves now has moved
    to the same end.
    """
    now = _moves(taken.partitions)
    since: dict[TopicPartition, datetime] = {}
    still = set(now)
    for row in _spread(manifests, taken):
        if not still:
            break
        try:
            then = _moves(installation.archive.read_snapshot_table(row, "partitions"))
        except CounterpoiseError as error:
            _LOGGER.warning("snapshot %s cannot be read: %s", row["snapshot_id"], error)
            continue
        still = {key for key in still if then.get(key) == now[key]}
        since |= dict.fromkeys(still, row["observed_at"])
    return since


def _spread(manifests: pa.Table, taken: ClusterSnapshot) -> list[dict[str, Any]]:
    """For each of some ages the newest snapshot that is so old, the newest first."""
    rows = _before(manifests, taken)
    chosen: dict[str, dict[str, Any]] = {}
    for age in _AGES:
        if old := [row for row in rows if _age(row, taken) >= age]:
            chosen.setdefault(old[-1]["snapshot_id"], old[-1])
    return list(chosen.values())


def _moves(partitions: pa.Table) -> dict[TopicPartition, Move]:
    return {
        TopicPartition(row["topic"], row["partition"]): (
            tuple(row["adding_replicas"]),
            tuple(row["removing_replicas"]),
        )
        for row in moving(partitions)
        .select(["topic", "partition", "adding_replicas", "removing_replicas"])
        .to_pylist()
    }
