"""Audits as they lie in the store: the newest one, and how the findings went over the last ones.

report = newest_audit(installation, "demo")          # None: it was never audited
audit_points(installation, "demo")[-1].open_counts[Severity.CRITICAL]
newest_points(installation, ("demo", "orders-eu"))["demo"].open_counts
"""

from collections.abc import Sequence
from typing import Final

from counterpoise.archive import audit_report_name
from counterpoise.audit import auditing
from counterpoise.errors import CounterpoiseError, InputError
from counterpoise.history import scheduled_at_of
from counterpoise.installation import Installation
from counterpoise.model.audit_document import from_json, point_from_json
from counterpoise.model.audit_point import AuditPoint
from counterpoise.model.finding import AuditReport, RuleText
from counterpoise.model.policy import AuditPolicy
from counterpoise.model.safe_text import safe_logger
from counterpoise.queries.file_cache import FileCache

MAX_POINTS: Final = 60
_LOGGER = safe_logger(__name__)


def newest_audit(installation: Installation, cluster: str) -> AuditReport | None:
    """Return the newest audit of a cluster; None where it was never audited, or cannot be read."""
    path = f"reports/{audit_report_name(cluster, suffix='json')}"
    try:
        return _REPORTS.of(installation.archive.store, path)
    except CounterpoiseError as error:
        _LOGGER.warning("the newest audit of %s is left out: %s", cluster, error)
        return None


def newest_points(installation: Installation, clusters: Sequence[str]) -> dict[str, AuditPoint]:
    """Return the numbers of the newest audits, by cluster; without those that have none."""
    paths = [f"reports/{audit_report_name(cluster, suffix='json')}" for cluster in clusters]
    found = _POINTS.of_each(installation.archive.store, paths)
    pairs = zip(clusters, found, strict=True)
    return {cluster: point for cluster, point in pairs if point is not None}


def audit_points(installation: Installation, cluster: str) -> tuple[AuditPoint, ...]:
    """Return the newest audits of a cluster, at most MAX_POINTS, oldest first."""
    paths = installation.archive.audits(cluster)
    newest = sorted(paths, key=scheduled_at_of)[-MAX_POINTS:]
    points = _POINTS.of_each(installation.archive.store, [paths[name] for name in newest])
    return tuple(point for point in points if point is not None)


def rule_texts(policy: AuditPolicy) -> dict[str, RuleText]:
    """Return the texts of every rule by id, with the thresholds of a policy where it has them."""
    try:
        thresholds = auditing.resolve(policy)
    except InputError:  # an audit says so; the texts are the same
        thresholds = {}
    return auditing.rule_texts(thresholds)


def _report(text: str, where: str) -> AuditReport:
    return from_json(text, where=where)


def _point(text: str, where: str) -> AuditPoint | None:
    """Return the numbers of an audit, None for one that is damaged: it must not hide the others."""
    try:
        return point_from_json(text, where=where)
    except InputError as error:
        _LOGGER.warning("an audit is left out: %s", error)
        return None


_REPORTS: Final = FileCache(_report, max_entries=50)
_POINTS: Final = FileCache(_point, max_entries=5_000)
