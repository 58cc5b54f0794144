"""The figures that monitoring reads, from the ledger and the newest reports; no cluster is asked.

    samples(installation)                        # of all clusters of the settings
    run_samples(installation, ["orders-eu"])     # what a step of its run changes

Evenness is that of `reports/fleet.json`, which each analysis writes; findings are those of the
newest audit. What is not known has no sample.
"""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

from counterpoise.installation import Installation
from counterpoise.ledger.ledger import LedgerState
from counterpoise.model import metric
from counterpoise.model.finding import AuditPoint
from counterpoise.model.fleet_document import FleetEntry
from counterpoise.model.metric import Sample
from counterpoise.model.run import UNDER_WAY_STATES, RunState
from counterpoise.model.severity import Severity
from counterpoise.services.approvals import asks_people


def samples(installation: Installation, clusters: Collection[str] | None = None) -> list[Sample]:
    """Return all figures of clusters, by default of all that the settings name."""
    names = sorted(installation.settings.clusters if clusters is None else clusters)
    return [
        *balance_samples(installation, names),
        *audit_samples(installation, names),
        *run_samples(installation, names),
    ]


# -- of the analysis


def balance_samples(installation: Installation, clusters: Collection[str]) -> list[Sample]:
    """Return what the last analysis says: evenness, what each broker holds, idle brokers, the first
    disk to fill.
    """
    fleet = installation.archive.fleet()
    by_cluster = {entry.cluster: entry for entry in fleet.clusters} if fleet else {}
    return [
        sample
        for cluster in clusters
        if cluster in by_cluster
        for sample in _of_balance(by_cluster[cluster])
    ]


def _of_balance(entry: FleetEntry) -> Iterator[Sample]:
    cluster = entry.cluster
    evenness = {
        "leaders": entry.leaders_max_over_mean,
        "replicas": entry.replicas_max_over_mean,
        "bytes": entry.bytes_max_over_mean,
        "bytes_in": entry.bytes_in_max_over_mean,
    }
    for measure, max_over_mean in evenness.items():
        if max_over_mean is not None:
            yield Sample(metric.EVENNESS, (cluster, measure), max_over_mean)
    held = {
        "leaders": entry.live_leaders,
        "replicas": entry.live_replicas,
        "bytes": entry.live_bytes,
    }
    for measure, by_broker in held.items():
        for broker_id, amount in zip(entry.live_broker_ids, by_broker, strict=False):
            yield Sample(metric.BROKER_HOLDS, (cluster, str(broker_id), measure), amount)
    if entry.idle_brokers is not None:
        yield Sample(metric.IDLE_BROKERS, (cluster,), entry.idle_brokers)
    if entry.first_full_days is not None:
        yield Sample(metric.FIRST_DISK_FULL, (cluster,), entry.first_full_days)


# -- of the audits


def audit_samples(installation: Installation, clusters: Sequence[str]) -> list[Sample]:
    """Return the findings of each cluster's newest audit, and its age."""
    # The rules of audits are a tenth of what a step of a run would import.
    from counterpoise.services.audits import newest_points

    now = installation.clock()
    return [
        sample
        for cluster, point in newest_points(installation, clusters).known.items()
        for sample in _of_audit(cluster, point, now)
    ]


def _of_audit(cluster: str, point: AuditPoint, now: datetime) -> Iterator[Sample]:
    for severity in Severity:
        count = point.open_counts.get(severity, 0)
        yield Sample(metric.FINDINGS, (cluster, str(severity)), count)
    yield Sample(metric.AUDIT_AGE, (cluster,), (now - point.audited_at).total_seconds())


# -- of the ledger


def run_samples(installation: Installation, clusters: Collection[str]) -> list[Sample]:
    """Return snapshots' ages, runs, throttles and questions, as the ledger has them now."""
    now = installation.clock()
    states = installation.ledger.cluster_states(clusters)
    return [
        sample
        for cluster in clusters
        for sample in _of_ledger(installation, cluster, states.get(cluster), now)
    ]


def samples_of_run(installation: Installation, run_id: str) -> list[Sample]:
    """Return what `run_samples` says of the cluster of a run. Raises InputError, LedgerError."""
    return run_samples(installation, [installation.ledger.run(run_id).cluster])


def _of_ledger(
    installation: Installation, cluster: str, state: LedgerState | None, now: datetime
) -> Iterator[Sample]:
    is_never = state is None or state.snapshot_at is None
    yield Sample(metric.NEVER_SNAPSHOTTED, (cluster,), int(is_never))
    if state is None:
        return
    if state.snapshot_at is not None:
        age = (now - state.snapshot_at).total_seconds()
        yield Sample(metric.SNAPSHOT_AGE, (cluster,), age)
    yield Sample(metric.THROTTLE_KEYS, (cluster,), state.throttle_keys)
    yield Sample(metric.PENDING_RESTORES, (cluster,), state.pending_restores)
    is_waiting = state.run is not None and asks_people(installation, state.run)
    yield Sample(metric.QUESTIONS_WAITING, (cluster,), int(is_waiting))
    if state.run is None:
        return
    for run_state in RunState:
        is_in_it = state.run.state == run_state
        yield Sample(metric.RUN_STATE, (cluster, str(run_state)), int(is_in_it))
    progress = state.run_progress
    if progress is None or state.run.state not in UNDER_WAY_STATES:
        return
    copied, total = progress.progress.copied_bytes, progress.progress.total_bytes
    yield Sample(metric.RUN_BYTES_TO_COPY, (cluster,), max(0, total - copied))
    yield Sample(metric.RUN_BYTES_COPIED, (cluster,), copied)
    yield Sample(metric.RUN_RATE, (cluster,), progress.rate_bytes_per_second)
    for link in progress.links:
        labels = (cluster, str(link.broker_id), "sends" if link.sends else "receives")
        yield Sample(metric.RUN_LINK, labels, link.bytes_per_second)
    observed_age = (now - progress.observed_at).total_seconds()
    yield Sample(metric.RUN_OBSERVED, (cluster,), observed_age)
