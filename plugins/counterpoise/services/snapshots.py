"""Snapshots of clusters: made, checked, and kept in the history or quarantined.

    snapshot(installation, "orders-eu", scheduled_at)
    write_data_docs(installation, ["orders-eu"])

A bad snapshot is quarantined: its tables, then `reason.json`, then Data Docs, are written to
`aside/<cluster>/<snapshot id>/` of the store, where nothing analyses or plans. What is bad, and
when a loss is accepted after all, is for `validation` to say.
"""

import tempfile
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from counterpoise import analysis, history
from counterpoise.archive import data_docs_folder
from counterpoise.errors import (
    ClusterError,
    ClusterUnreachableError,
    CounterpoiseError,
    InputError,
    LedgerError,
    StoreError,
    WrongClusterError,
)
from counterpoise.history import HistoryError
from counterpoise.installation import Installation, settings_in
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.cluster_failure import FailureKind
from counterpoise.model.inspection import Inspection
from counterpoise.model.policy import ClusterPolicy
from counterpoise.model.provider import profile_of
from counterpoise.model.run_progress import BrokerLoad
from counterpoise.model.safe_text import safe_logger
from counterpoise.services import doctor
from counterpoise.snapshot import inspect, take_snapshot
from counterpoise.validation import (
    BadSnapshotError,
    CountsBefore,
    DataCheck,
    check_snapshot_data,
    quarantine_report,
    quick_check,
    repeated_loss,
)

if TYPE_CHECKING:
    from counterpoise.kafka_admin.cluster_admin import ClusterReader

_LOGGER = safe_logger(__name__)
_MAX_FAILURES_SHOWN: Final = 10
_ACCEPTED_AFTER: Final = 3  # snapshots in a row with the same loss


def due_clusters(installation: Installation, only: Collection[str] = ()) -> list[str]:
    """Return the clusters of which a snapshot is due in this round: all, or `only` those.

    Raises InputError for a name that the settings do not have.
    """
    return sorted(
        {installation.cluster(name).name for name in only or installation.settings.clusters}
    )


def make(installation: Installation, cluster: str, scheduled_at: datetime) -> dict[str, str]:
    """Make a snapshot of a cluster and add it to the history.

    The scheduled time names it, so that a retry writes the same files. Raises BadSnapshotError for
    a snapshot that was quarantined, and what `fresh_snapshot` raises.
    """
    try:
        fresh = fresh_snapshot(installation, cluster, scheduled_at)
        keep(installation, fresh)
    except CounterpoiseError as error:
        _note_failure(installation, cluster, error)
        raise
    return {"cluster": cluster, "snapshot_id": fresh.snapshot_id}


def _note_failure(installation: Installation, cluster: str, error: CounterpoiseError) -> None:
    """Record for the pages why there is no snapshot; the error itself goes on to the caller."""
    text = error.in_one_line if isinstance(error, ClusterUnreachableError) else str(error)
    try:
        installation.ledger.record_failure(cluster, FailureKind.SNAPSHOT, text)
    except LedgerError as lost:
        _LOGGER.warning("not recorded that the snapshot of %s failed: %s", cluster, lost)


def keep(installation: Installation, snapshot: ClusterSnapshot) -> None:
    """Add a snapshot to the history.

    Raises BadSnapshotError before anything of it is written there.
    """
    check_snapshot(installation, snapshot)
    installation.archive.write_snapshot(snapshot)
    installation.ledger.record_snapshot(
        snapshot.cluster, snapshot.snapshot_id, installation.clock()
    )
    installation.ledger.end_failure(snapshot.cluster, FailureKind.SNAPSHOT)


def fresh_snapshot(
    installation: Installation, cluster: str, scheduled_at: datetime | None = None
) -> ClusterSnapshot:
    """Return a snapshot made now and named by `scheduled_at` (default: now); nothing is kept.

    Raises ClusterUnreachableError, ClusterError.
    """
    scheduled_at = scheduled_at or installation.clock()
    try:
        with installation.reader(cluster) as reader:
            return read_snapshot(reader, installation, cluster, scheduled_at)
    except WrongClusterError:
        raise
    except ClusterError as error:
        raise doctor.with_cause(installation, cluster, error) from None


def inspected(installation: Installation, snapshot: ClusterSnapshot) -> Inspection:
    """Return what an audit reads of the cluster beside a snapshot that was just made.

    Raises ClusterUnreachableError.
    """
    with installation.reader(snapshot.cluster) as reader:
        return inspect(reader, snapshot)


def read_snapshot(
    reader: "ClusterReader", installation: Installation, cluster: str, scheduled_at: datetime
) -> ClusterSnapshot:
    """Return what `fresh_snapshot` does, over a connection that is open already.

    A snapshot is never made before its time: a clock that is behind does not count.
    """
    return take_snapshot(
        reader,
        cluster=cluster,
        snapshot_id=history.snapshot_id_for(cluster, scheduled_at),
        observed_at=max(installation.clock(), scheduled_at),
        security_protocol=installation.security_protocol(cluster),
        may_hide_brokers=profile_of(installation.cluster(cluster).policy.provider).may_hide_brokers,
    )


def checked_snapshot(installation: Installation, cluster: str) -> ClusterSnapshot:
    """Return a fresh snapshot that may be planned on; it does not join the history.

    Raises BadSnapshotError for one that was quarantined.
    """
    fresh = fresh_snapshot(installation, cluster)
    check_snapshot(installation, fresh)
    return fresh


def check_snapshot(installation: Installation, snapshot: ClusterSnapshot) -> None:
    """Raise BadSnapshotError for a snapshot that must not be kept or planned on; it is quarantined
    then.
    """
    before = counts_before(installation, snapshot)
    check = quick_check(snapshot, before)
    for failure in check.momentary:
        _LOGGER.warning(
            "snapshot %s: %s (this may be so for a moment, while the cluster changes)",
            snapshot.snapshot_id,
            failure,
        )
    if not check.grave:
        return
    if not _is_accepted_loss(installation, snapshot, check, before):
        raise BadSnapshotError(_quarantine(installation, snapshot, check, before))


def counts_before(installation: Installation, snapshot: ClusterSnapshot) -> CountsBefore | None:
    """Return the row counts of the newest snapshot of the history.

    None: there is none of this cluster id, it cannot be read, or the policy does not compare.
    """
    policy = installation.cluster(snapshot.cluster).policy.history
    min_share_percent = policy.least_share_of_previous_percent
    previous_id = installation.ledger.last_snapshot_id(snapshot.cluster)
    if previous_id is None or not min_share_percent:
        return None
    try:
        manifest = installation.archive.manifest_row(snapshot.cluster, previous_id)
    except CounterpoiseError as error:
        _LOGGER.warning(
            "snapshot %s is not compared with the one before: %s", snapshot.snapshot_id, error
        )
        return None
    if manifest["cluster_id"] != snapshot.cluster_id:
        return None  # another cluster under the same name: it lost nothing
    row_counts = {file["table"]: file["row_count"] for file in manifest["files"]}
    return CountsBefore(previous_id, row_counts, min_share_percent)


def write_data_docs(installation: Installation, clusters: Sequence[str]) -> dict[str, DataCheck]:
    """Check the newest snapshot of each cluster with Great Expectations, and write its Data Docs.

    Returns the checks by snapshot id. Raises BadSnapshotError, after all docs are written, if one
    of the snapshots should not be in the history.
    """
    checks: dict[str, DataCheck] = {}
    for cluster in clusters:
        newest_id = installation.ledger.last_snapshot_id(cluster)
        if newest_id is None:
            continue
        newest = installation.archive.read_snapshot(cluster, newest_id)
        with tempfile.TemporaryDirectory(prefix="counterpoise-docs-") as folder:
            checks[newest_id] = check_snapshot_data(newest, docs=Path(folder))
            installation.archive.write_docs(data_docs_folder(cluster), Path(folder))
    failures = [
        f"{snapshot_id}: {failure}"
        for snapshot_id, check in checks.items()
        for failure in check.grave
    ]
    if failures:
        raise BadSnapshotError(
            f"the history has bad snapshots, with {len(failures)} failed checks in all; reports "
            f"and plans made from them may be wrong:\n{_indented(failures)}"
        )
    return checks


def _is_accepted_loss(
    installation: Installation,
    snapshot: ClusterSnapshot,
    check: DataCheck,
    before: CountsBefore | None,
) -> bool:
    reports = installation.archive.quarantine_reports(snapshot.cluster)
    loss = repeated_loss(snapshot, check, before, reports)
    if loss is None or before is None or not loss.is_accepted(_ACCEPTED_AFTER):
        return False
    _LOGGER.warning(
        "snapshot %s lacks much of what %s has; it joins the history all the same, since %d "
        "snapshots in a row show the same loss",
        snapshot.snapshot_id,
        before.snapshot_id,
        loss.observations,
    )
    return True


def _quarantine(
    installation: Installation,
    snapshot: ClusterSnapshot,
    check: DataCheck,
    before: CountsBefore | None,
) -> str:
    """Store a bad snapshot outside of the history; return the message about it."""
    report = quarantine_report(check, before)
    folder = installation.archive.quarantine(snapshot, report)
    docs = _write_docs(installation, snapshot, before, f"{folder}/data-docs")
    rows_in_docs = f", and the rows in {docs}" if docs else ""
    sentences = [
        f"snapshot {snapshot.snapshot_id} of {snapshot.cluster} is bad and was quarantined: it is "
        "neither analysed nor planned on, and the cluster was not changed:",
        _indented(report["reasons"]),
        f"It is in {installation.archive.store.uri(folder)}, with the reason in "
        f"reason.json{rows_in_docs}.",
    ]
    if report["counts_alone"]:
        sentences.append(
            "If the cluster really is like this now: the loss is accepted once "
            f"{_ACCEPTED_AFTER} snapshots in a row show it, over ten minutes or more. To "
            "accept it at once, set least_share_of_previous_percent to 0 under policy, history, "
            "until the next snapshot is kept."
        )
    return "\n".join(sentences)


def _write_docs(
    installation: Installation, snapshot: ClusterSnapshot, before: CountsBefore | None, folder: str
) -> str | None:
    """Write the Data Docs of a bad snapshot; return their URI, or None where that failed."""
    try:
        with tempfile.TemporaryDirectory(prefix="counterpoise-docs-") as local_folder:
            check_snapshot_data(snapshot, before, docs=Path(local_folder))
            installation.archive.write_docs(folder, Path(local_folder))
    # Whatever Great Expectations raises: the caller has a message that must not be lost.
    except Exception as error:  # noqa: BLE001
        _LOGGER.warning("no Data Docs of snapshot %s: %s", snapshot.snapshot_id, error)
        return None
    return installation.archive.store.uri(f"{folder}/index.html")


def _indented(failures: Sequence[str]) -> str:
    lines = [f"  {failure}" for failure in failures[:_MAX_FAILURES_SHOWN]]
    if len(failures) > _MAX_FAILURES_SHOWN:
        lines.append(f"  and {len(failures) - _MAX_FAILURES_SHOWN} more")
    return "\n".join(lines)


# -- the rate at which producers usually write


# A week of hourly snapshots of 30,000 partitions, a day of 200,000.
MAX_ROWS_OF_RATES: Final = 5_000_000
_GOLDEN_RATIO: Final = 0.6180339887498949


def usual_bytes_in(
    installation: Installation, snapshot: ClusterSnapshot, snapshot_ids: Sequence[str]
) -> pa.Array:
    """Return the mean rate over these snapshots of each partition of `snapshot`, in its order.

    Of a large cluster some of them are read. Null is not known.
    """
    max_count = max(1, MAX_ROWS_OF_RATES // max(1, snapshot.partitions.num_rows))
    read_ids = spread_out(snapshot_ids, max_count)
    partition_load = installation.results.table("partition_load", read_ids)
    return analysis.typical_bytes_in(partition_load, snapshot.partitions)


def spread_out(snapshot_ids: Sequence[str], max_count: int) -> tuple[str, ...]:
    """Return at most so many of the snapshots, from all over the period.

    Multiples of the golden ratio lie evenly, and at no fixed distance: every 24th of hourly
    snapshots would always be of the same hour.
    """
    by_place = sorted(range(len(snapshot_ids)), key=lambda index: index * _GOLDEN_RATIO % 1)
    return tuple(snapshot_ids[index] for index in sorted(by_place[:max_count]))


def named(
    installation: Installation, snapshot: ClusterSnapshot
) -> tuple[ClusterSnapshot, ClusterPolicy]:
    """Return the snapshot of a cluster document under the name that the settings have for its
    cluster, and the policy to plan by: the default one where they do not name it.

    Needs no ledger. Raises InputError where the settings pin another cluster id for that name.
    """
    settings = settings_in(installation.locations)
    by_name, by_id = (
        settings.clusters.get(snapshot.cluster),
        settings.named(snapshot.cluster_id),
    )
    if by_name and by_id and by_name.name != by_id.name:
        raise InputError(
            f"the document is named {snapshot.cluster}, but is of cluster id "
            f"{snapshot.cluster_id}, which is {by_id.name} in {settings.where}; make the plan from "
            f"a document of {snapshot.cluster}, or name this one {by_id.name}"
        )
    named = by_id or by_name
    if named is None:
        return snapshot, ClusterPolicy()
    pinned = named.pinned_cluster_id
    if pinned and snapshot.cluster_id and pinned != snapshot.cluster_id:
        raise InputError(
            f"the document is of cluster id {snapshot.cluster_id}, but {settings.where} pins "
            f"{pinned} for {named.name}; make the plan from a document of that cluster"
        )
    return replace(snapshot, cluster=named.name), named.policy


def broker_loads(snapshot: ClusterSnapshot) -> tuple[BrokerLoad, ...]:
    """Return leaders, replicas and bytes per live broker of a snapshot."""
    from counterpoise import analysis

    return analysis.broker_loads(snapshot)


_MAX_AGE_OF_RATES: Final = timedelta(days=7)  # every hour of the day and every day of the week


def to_plan_on(installation: Installation, cluster: str) -> ClusterSnapshot:
    """Return a fresh snapshot with usual rates; it joins the history, since `validate` reads it."""
    previous_id = installation.ledger.last_snapshot_id(cluster)
    fresh = fresh_snapshot(installation, cluster)
    snapshot = _with_rates(installation, fresh, previous_id)
    keep(installation, snapshot)
    return snapshot


def _with_rates(
    installation: Installation, snapshot: ClusterSnapshot, previous_id: str | None
) -> ClusterSnapshot:
    """Return the snapshot with the rates at which producers write.

    They are the means of the last week, where the history has been analysed, so that the hour in
    which somebody plans does not matter; or else those since the previous snapshot.
    """
    now = snapshot.observed_at
    if now is None:
        return snapshot
    oldest = now - _MAX_AGE_OF_RATES
    recent_ids = installation.results.newest(snapshot.cluster, oldest, MAX_ROWS_OF_RATES)
    snapshot = analysis.with_inflow(snapshot, usual_bytes_in(installation, snapshot, recent_ids))
    if previous_id is None or previous_id == snapshot.snapshot_id:
        return snapshot
    try:
        previous = installation.archive.read_snapshot(snapshot.cluster, previous_id)
    except (HistoryError, StoreError) as error:
        _LOGGER.warning(
            "the plan may lack rates of some partitions, since the previous snapshot %s cannot be "
            "read: %s",
            previous_id,
            error,
        )
        return snapshot
    if not previous.observed_at or previous.observed_at < oldest:
        return snapshot
    return analysis.with_inflow(snapshot, analysis.observed_inflow(previous, snapshot))
