"""Audits as they lie in the store: the newest one, and how the findings went over the last ones.

report = newest_audit(installation, "demo")          # None: it was never audited
audit_points(installation, "demo")[-1].open_counts[Severity.CRITICAL]
audit_summaries(installation, ("demo", "orders-eu"))["demo"].open_counts
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from counterpoise.archive import audit_report_name
from counterpoise.audit import auditing
from counterpoise.errors import CounterpoiseError, InputError
from counterpoise.history import scheduled_at_of
from counterpoise.installation import Installation
from counterpoise.model.audit_document import from_json
from counterpoise.model.audit_point import AuditPoint
from counterpoise.model.finding import AuditReport, RuleText
from counterpoise.model.policy import AuditPolicy
from counterpoise.model.safe_text import safe_logger
from counterpoise.model.severity import Severity
from counterpoise.queries.file_cache import FileCache

MAX_POINTS: Final = 60
_LOGGER = safe_logger(__name__)


@dataclass(frozen=True, slots=True)
class AuditSummary:
    """What pages of many clusters tell of the newest audit of one."""

    audited_at: datetime  # UTC
    open_counts: Mapping[Severity, int]


def newest_audit(installation: Installation, cluster: str) -> AuditReport | None:
    """Return the newest audit of a cluster; None where it was never audited, or cannot be read."""
    path = f"reports/{audit_report_name(cluster, suffix='json')}"
    try:
        return _REPORTS.of(installation.archive.store, path)
    except CounterpoiseError as error:
        _LOGGER.warning("the newest audit of %s is left out: %s", cluster, error)
        return None


def audit_summaries(installation: Installation, clusters: Sequence[str]) -> dict[str, AuditSummary]:
    """Return what the newest audits say, by cluster; without those that have none."""
    paths = [f"reports/{audit_report_name(cluster, suffix='json')}" for cluster in clusters]
    found = _SUMMARIES.of_each(installation.archive.store, paths)
    pairs = zip(clusters, found, strict=True)
    return {cluster: summary for cluster, summary in pairs if summary is not None}


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


def _open_counts(report: AuditReport) -> Mapping[Severity, int]:
    return Counter(reported.finding.severity for reported in report.open)


def _report(text: str, where: str) -> AuditReport:
    return from_json(text, where=where)


def _summary(text: str, where: str) -> AuditSummary | None:
    report = _readable(text, where)
    return None if report is None else AuditSummary(report.audited_at, _open_counts(report))


def _point(text: str, where: str) -> AuditPoint | None:
    report = _readable(text, where)
    if report is None:
        return None
    new_count = sum(reported.is_new for reported in report.open) if report.previous_at else 0
    return AuditPoint(report.audited_at, _open_counts(report), new_count, len(report.resolved))


def _readable(text: str, where: str) -> AuditReport | None:
    """Return an audit, None for one that is damaged: it must not hide the others."""
    try:
        return from_json(text, where=where)
    except InputError as error:
        _LOGGER.warning("an audit is left out: %s", error)
        return None


_REPORTS: Final = FileCache(_report, max_entries=50)
_SUMMARIES: Final = FileCache(_summary, max_entries=2_000)
_POINTS: Final = FileCache(_point, max_entries=5_000)
