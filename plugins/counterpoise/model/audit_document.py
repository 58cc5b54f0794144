"""An audit as JSON: what machines read, and what the next audit is compared with.

    text = to_json(report)
    from_json(text, where="audits/demo/demo-20261121T150000Z.json") == report

Canonical: keys sorted, times in UTC; the same audit gives the same text. Keys are added, never
renamed.

Limits: reads what it wrote, not what somebody else made up: a document that is not whole raises,
and is left out.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from counterpoise.errors import InputError
from counterpoise.model.finding import AuditReport, Evidence, Finding, ReportedFinding, WantedPlan
from counterpoise.model.request import Goal
from counterpoise.model.severity import Severity, Waiver

FORMAT: Final = "counterpoise-audit/1"


def to_json(report: AuditReport) -> str:
    """One object with a line break at its end: findings worst first, times as ISO 8601, null is not
    known.
    """
    document = {
        "format": FORMAT,
        "cluster": report.cluster,
        "cluster_id": report.cluster_id,
        "at": _time(report.audited_at),
        "snapshot_id": report.snapshot_id,
        "previous_at": _time(report.previous_at),
        "worst": report.worst,
        "open": {
            str(severity): sum(o.finding.severity is severity for o in report.open)
            for severity in Severity
        },
        "findings": [_seen(one) for one in report.findings],
        "gone": [_finding(finding) for finding in report.resolved],
        "passed": list(report.passed),
        "not_asked": list(report.unavailable_data),
    }
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def from_json(text: str, *, where: str) -> AuditReport:
    """Raises InputError, naming `where`, for a text that is no audit."""
    try:
        document = json.loads(text)
        if document["format"] != FORMAT:
            raise ValueError(f"its format is {document['format']!r}, not {FORMAT!r}")
        return AuditReport(
            cluster=document["cluster"],
            cluster_id=document["cluster_id"],
            audited_at=_read_time(document["at"]),
            snapshot_id=document["snapshot_id"],
            findings=tuple(_read_seen(row) for row in document["findings"]),
            resolved=tuple(_read_finding(row) for row in document["gone"]),
            passed=tuple(document["passed"]),
            previous_at=None
            if document["previous_at"] is None
            else _read_time(document["previous_at"]),
            unavailable_data=tuple(document["not_asked"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{where} is no audit that can be read ({type(error).__name__}: {error})"
        ) from None


def _seen(one: ReportedFinding) -> dict[str, Any]:
    waiver = one.waived_by
    return _finding(one.finding) | {
        "first_seen": _time(one.first_seen),
        "is_new": one.is_new,
        "waived_by": None
        if waiver is None
        else {
            "rule": waiver.rule,
            "reason": waiver.reason,
            "subjects": list(waiver.subjects),
            "until": _time(waiver.until),
        },
    }


def _finding(finding: Finding) -> dict[str, Any]:
    evidence, plan = finding.evidence, finding.plan
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "subject": finding.subject,
        "seen": finding.summary,
        "evidence": None
        if evidence is None
        else {
            "columns": list(evidence.columns),
            "rows": [list(row) for row in evidence.rows],
            "total": evidence.total,
        },
        "fix": list(finding.fix),
        "plan": None if plan is None else dict(plan.rebalance_request),
    }


def _read_seen(row: Mapping[str, Any]) -> ReportedFinding:
    waiver = row["waived_by"]
    return ReportedFinding(
        finding=_read_finding(row),
        first_seen=_read_time(row["first_seen"]),
        is_new=bool(row["is_new"]),
        waived_by=None
        if waiver is None
        else Waiver(
            rule=waiver["rule"],
            reason=waiver["reason"],
            subjects=tuple(waiver["subjects"]),
            until=None if waiver["until"] is None else _read_time(waiver["until"]),
        ),
    )


def _read_finding(row: Mapping[str, Any]) -> Finding:
    evidence, plan = row["evidence"], row["plan"]
    return Finding(
        rule=row["rule"],
        severity=Severity(row["severity"]),
        subject=row["subject"],
        summary=row["seen"],
        evidence=None
        if evidence is None
        else Evidence(
            tuple(evidence["columns"]),
            tuple(tuple(map(str, cells)) for cells in evidence["rows"]),
            evidence["total"],
        ),
        fix=tuple(row["fix"]),
        plan=None if plan is None else _read_plan(plan),
    )


def _read_plan(plan: Mapping[str, Any]) -> WantedPlan:
    return WantedPlan(
        goal=Goal(plan["goal"]),
        broker_ids=tuple(plan.get("broker_ids", ())),
        topics=tuple(plan.get("topics", ())),
        replication_factor=plan.get("replication_factor"),
    )


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).isoformat()


def _read_time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
