"""Audits as they lie in the store: the newest one, and how the findings went over the last ones.

newest_audit(installation, "demo").report            # None: never audited, or not readable
audit_points(installation, "demo")[-1].open_counts[Severity.CRITICAL]
newest_points(installation, ("demo", "orders-eu")).known["demo"].open_counts
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from counterpoise.archive import audit_report_name
from counterpoise.audit import auditing
from counterpoise.errors import CounterpoiseError, InputError
from counterpoise.history import scheduled_at_of
from counterpoise.installation import Installation
from counterpoise.model.finding import AuditPoint, AuditReport, RuleText, from_json, point_from_json
from counterpoise.model.policy import AuditPolicy
from counterpoise.model.safe_text import safe_logger
from counterpoise.queries.file_cache import FileCache

MAX_POINTS: Final = 60
_LOGGER = safe_logger(__name__)


@dataclass(frozen=True, slots=True)
class NewestAudit:
    """The newest audit of a cluster; without a report it was never audited, or is `unreadable`."""

    report: AuditReport | None
    unreadable: str = ""  # the path of the file


@dataclass(frozen=True, slots=True)
class NewestPoints:
    """The numbers of the newest audits, by cluster; those that have none are in neither."""

    known: Mapping[str, AuditPoint]
    unreadable: Mapping[str, str]  # the path of the file, by cluster


def newest_audit(installation: Installation, cluster: str) -> NewestAudit:
    """Return the newest audit of a cluster."""
    path = _newest_path(cluster)
    try:
        return NewestAudit(_REPORTS.of(installation.archive.store, path))
    except CounterpoiseError as error:
        _log_unreadable(error)
        return NewestAudit(None, path)


def newest_points(installation: Installation, clusters: Sequence[str]) -> NewestPoints:
    """Return the numbers of the newest audits of clusters."""
    paths = list(map(_newest_path, clusters))
    known: dict[str, AuditPoint] = {}
    unreadable: dict[str, str] = {}
    found_points = _POINTS.of_each(installation.archive.store, paths)
    for cluster, path, found in zip(clusters, paths, found_points, strict=True):
        if isinstance(found, CounterpoiseError):
            _log_unreadable(found)
            unreadable[cluster] = path
        elif found is not None:
            known[cluster] = found
    return NewestPoints(known, unreadable)


def audit_points(installation: Installation, cluster: str) -> tuple[AuditPoint, ...]:
    """Return the newest audits of a cluster, at most MAX_POINTS, oldest first; without those that
    cannot be read.
    """
    paths = installation.archive.audits(cluster)
    newest = sorted(paths, key=scheduled_at_of)[-MAX_POINTS:]
    found_points = _POINTS.of_each(installation.archive.store, [paths[name] for name in newest])
    for found in found_points:
        if isinstance(found, CounterpoiseError):
            _log_unreadable(found)
    return tuple(found for found in found_points if isinstance(found, AuditPoint))


def rule_texts(policy: AuditPolicy) -> dict[str, RuleText]:
    """Return the texts of every rule by id, with the thresholds of a policy where it has them."""
    try:
        thresholds = auditing.resolve(policy)
    except InputError:  # an audit says so; the texts are the same
        thresholds = {}
    return auditing.rule_texts(thresholds)


def _report(text: str, where: str) -> AuditReport:
    return from_json(text, where=where)


def _point(text: str, where: str) -> AuditPoint:
    return point_from_json(text, where=where)


def _newest_path(cluster: str) -> str:
    return f"reports/{audit_report_name(cluster, suffix='json')}"


def _log_unreadable(error: CounterpoiseError) -> None:
    _LOGGER.warning("an audit is left out: %s", error)


_REPORTS: Final = FileCache(_report, max_entries=50)
_POINTS: Final = FileCache(_point, max_entries=5_000)
