"""The figures that monitoring reads, from the ledger and the newest reports; no cluster is asked.

    samples(installation)                        # of all clusters of the settings
    run_samples(installation, ["orders-eu"])     # what a step of its run changes

Part of the wiring, beside `queries.py`. Evenness is that of `reports/fleet.json`, which each
analysis writes; findings are those of the newest audit. What is not known has no sample.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from counterpoise import access
from counterpoise.archive import audit_report_name
from counterpoise.errors import CounterpoiseError
from counterpoise.installation import Installation
from counterpoise.ledger.overview import LedgerState
from counterpoise.model import metric
from counterpoise.model.files import StoredFile
from counterpoise.model.metric import Sample
from counterpoise.model.policy import Action
from counterpoise.model.run import UNDER_WAY_STATES, RunState
from counterpoise.model.safe_text import safe_logger
from counterpoise.model.severity import Severity
from counterpoise.storage import Store

_LOGGER = safe_logger(__name__)
_READERS: Final = 16  # of a store behind a network at once
_EVENNESS: Final[Mapping[str, str]] = {
    "leaders": "leaders_max_over_mean",
    "replicas": "replicas_max_over_mean",
    "bytes": "bytes_max_over_mean",
    "bytes_in": "bytes_in_max_over_mean",
}


def clusters_to_view(
    installation: Installation, user_id: str, user_name: str, roles: tuple[str, ...]
) -> list[str]:
    """Return the clusters that the policy lets a user of Airflow view."""
    settings = installation.settings
    person = settings.people.airflow_user(user_id, user_name)
    return [
        name
        for name, cluster in sorted(settings.clusters.items())
        if access.may(cluster.policy, settings.people, person, Action.VIEW, roles=roles)
    ]


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
    """Return what the last analysis says: evenness, idle brokers, the first disk to fill."""
    by_cluster = installation.archive.fleet_figures()
    return [
        sample
        for cluster in clusters
        for sample in _of_balance(cluster, by_cluster.get(cluster, {}))
    ]


def _of_balance(cluster: str, row: Mapping[str, Any]) -> Iterator[Sample]:
    for measure, key in _EVENNESS.items():
        if row.get(key) is not None:
            yield Sample(metric.EVENNESS, (cluster, measure), row[key])
    if row.get("idle_brokers") is not None:
        yield Sample(metric.IDLE_BROKERS, (cluster,), row["idle_brokers"])
    if row.get("first_full_days") is not None:
        yield Sample(metric.FIRST_DISK_FULL, (cluster,), row["first_full_days"])


# -- of the audits


def audit_samples(installation: Installation, clusters: Collection[str]) -> list[Sample]:
    """Return the findings of each cluster's newest audit, and its age."""
    store, now = installation.archive.store, installation.clock()
    paths = [f"reports/{audit_report_name(cluster, suffix='json')}" for cluster in clusters]
    if store.is_local:
        audits = [_audit(store, path) for path in paths]
    else:
        with ThreadPoolExecutor(_READERS) as pool:
            audits = list(pool.map(lambda path: _audit(store, path), paths))
    return [
        sample
        for cluster, audit in zip(clusters, audits, strict=True)
        if audit is not None
        for sample in _of_audit(cluster, audit, now)
    ]


def _of_audit(cluster: str, audit: "_Audit", now: datetime) -> Iterator[Sample]:
    for severity, count in audit.open_count.items():
        yield Sample(metric.FINDINGS, (cluster, severity), count)
    yield Sample(metric.AUDIT_AGE, (cluster,), (now - audit.audited_at).total_seconds())


@dataclass(frozen=True, slots=True)
class _Audit:
    open_count: Mapping[str, int]  # by severity
    audited_at: datetime


# A file is the same while its size and time of change are.
_KNOWN_AUDITS: Final[dict[tuple[str, StoredFile], _Audit]] = {}
_MAX_KNOWN_AUDITS: Final = 2_000


def _audit(store: Store, path: str) -> _Audit | None:
    """Return what is told of an audit; None where there is none, or none that can be read."""
    try:
        file = store.info(path)
        if file is None:
            return None
        key = (store.uri(path), file)
        audit = _KNOWN_AUDITS.get(key) or _read_audit(store.read_text(path))
    except (CounterpoiseError, ValueError, KeyError, TypeError) as error:
        _LOGGER.warning("an audit is left out: %s cannot be read: %s", store.uri(path), error)
        return None
    if file.modified_at is not None:
        if len(_KNOWN_AUDITS) >= _MAX_KNOWN_AUDITS:
            _KNOWN_AUDITS.clear()
        _KNOWN_AUDITS[key] = audit
    return audit


def _read_audit(text: str) -> _Audit:
    document = json.loads(text)
    open_count = {str(severity): int(document["open"][severity]) for severity in Severity}
    return _Audit(open_count, datetime.fromisoformat(document["at"]))


# -- of the ledger


def run_samples(installation: Installation, clusters: Collection[str]) -> list[Sample]:
    """Return snapshots' ages, runs, throttles and questions, as the ledger has them now."""
    now = installation.clock()
    states = installation.ledger.cluster_states(clusters)
    return [
        sample
        for cluster in clusters
        if cluster in states
        for sample in _of_ledger(cluster, states[cluster], now)
    ]


def samples_of_run(installation: Installation, run_id: str) -> list[Sample]:
    """Return what `run_samples` says of the cluster of a run. Raises InputError, LedgerError."""
    return run_samples(installation, [installation.ledger.run(run_id).cluster])


def _of_ledger(cluster: str, state: LedgerState, now: datetime) -> Iterator[Sample]:
    if state.snapshot_at is not None:
        age = (now - state.snapshot_at).total_seconds()
        yield Sample(metric.SNAPSHOT_AGE, (cluster,), age)
    yield Sample(metric.THROTTLE_KEYS, (cluster,), state.throttle_keys)
    yield Sample(metric.PENDING_RESTORES, (cluster,), state.pending_restores)
    yield Sample(metric.QUESTIONS_WAITING, (cluster,), state.questions_waiting)
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
    observed_age = (now - progress.observed_at).total_seconds()
    yield Sample(metric.RUN_OBSERVED, (cluster,), observed_age)
