"""An audit as JSON: what machines read, and what the next audit is compared with.

    text = to_json(report)
    from_json(text, where="audits/demo/demo-20261121T150000Z.json") == report

Canonical: keys sorted, times in UTC; the same audit gives the same text. Keys are added, never
renamed.

Limits: reads what `to_json` wrote, of this release or an earlier one. Anything else raises, and is
not compared with.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from counterpoise.errors import InputError
from counterpoise.model.finding import AuditReport
from counterpoise.model.json_values import iso_time, read_json, to_content
from counterpoise.model.severity import Severity

# -- One audit in the series of a cluster: the numbers of findings that nobody had waived then
#
# AuditPoint(audited_at, {Severity.CRITICAL: 2}, new_count=1, resolved_count=0)


@dataclass(frozen=True, slots=True)
class AuditPoint:
    audited_at: datetime  # UTC
    open_counts: Mapping[Severity, int]
    new_count: int  # since the audit before it
    resolved_count: int


FORMAT: Final = "counterpoise-audit/1"

# The fields whose key in the document is not their name.
_KEYS: Final[Mapping[str, str]] = {
    "audited_at": "at",
    "summary": "seen",
    "resolved": "gone",
    "unavailable_data": "not_asked",
}
_NAMES: Final = {key: name for name, key in _KEYS.items()}


def to_json(report: AuditReport) -> str:
    """Return one JSON object and a line break: the worst findings first; null is not known."""
    document = to_content(report, _KEYS)
    # A finding and its history are one object in the document.
    document["findings"] = [row.pop("finding") | row for row in document["findings"]]
    for row in (*document["findings"], *document["gone"]):
        del row["causes"]  # `not_asked` tells them
        if row["plan"]:
            row["plan"] = {key: value for key, value in row["plan"].items() if value}
    open_counts = report.open_counts
    document |= {
        "format": FORMAT,
        "worst": report.worst,
        "open": {severity: open_counts.get(severity, 0) for severity in Severity},
    }
    text = json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False, default=iso_time)
    return text + "\n"


def point_from_json(text: str, *, where: str) -> AuditPoint:
    """Return the numbers of an audit alone, ten times as fast as all of it. Raises InputError."""
    try:
        document: dict[str, Any] = json.loads(text)
        if document["format"] != FORMAT:
            raise ValueError(f"its format is {document['format']!r}, not {FORMAT!r}")
        open_rows = [row for row in document["findings"] if row["waived_by"] is None]
        is_first = document["previous_at"] is None
        return AuditPoint(
            audited_at=datetime.fromisoformat(document["at"]),
            open_counts=Counter(Severity(row["severity"]) for row in open_rows),
            new_count=0 if is_first else sum(bool(row["is_new"]) for row in open_rows),
            resolved_count=len(document["gone"]),
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"{where} is no audit that can be read ({type(error).__name__}: {error})"
        ) from None


def from_json(text: str, *, where: str) -> AuditReport:
    """Return the audit. Raises InputError, naming `where`, for a text that is none."""
    try:
        document: dict[str, Any] = json.loads(text, object_hook=_with_field_names)
        if document["format"] != FORMAT:
            raise ValueError(f"its format is {document['format']!r}, not {FORMAT!r}")
        document["findings"] = [{"finding": row, **row} for row in document["findings"]]
        return read_json(AuditReport, json.dumps(document))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"{where} is no audit that can be read ({type(error).__name__}: {error})"
        ) from None


def _with_field_names(row: dict[str, Any]) -> dict[str, Any]:
    return {_NAMES.get(key, key): value for key, value in row.items()}
