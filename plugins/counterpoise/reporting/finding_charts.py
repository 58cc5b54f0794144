"""The findings of audits as pictures: how many of each severity, now and over the last audits."""

from collections.abc import Mapping, Sequence
from typing import Final

from markupsafe import Markup, escape

from counterpoise.model.finding import AuditPoint
from counterpoise.model.load import Trace
from counterpoise.model.severity import Severity
from counterpoise.reporting.html import when

SEVERITIES: Final = tuple(sorted(Severity, key=lambda severity: -severity.rank))
SEVERITY_WORDS: Final[Mapping[Severity, str]] = {
    Severity.CRITICAL: "critical",
    Severity.WARNING: "warning",
    Severity.INFO: "info",
    Severity.UNKNOWN: "not known",
}
SEVERITY_COLOURS: Final[Mapping[Severity, str]] = {
    Severity.CRITICAL: "alert",
    Severity.WARNING: "rack-1",
    Severity.INFO: "after",
    Severity.UNKNOWN: "no-rack",
}
_BAR_WIDTH: Final = 100.0
_MIN_SEGMENT_WIDTH: Final = 2.0


def severity_bar(area: str, counts: Mapping[Severity, int], largest: int) -> Markup:
    """Return segments as long as their numbers, none too thin to be seen."""
    segments, left = [], 0.0
    present = [severity for severity in SEVERITIES if counts.get(severity)]
    for severity in present:
        width = max(_MIN_SEGMENT_WIDTH, counts[severity] / largest * _BAR_WIDTH)
        style = f"fill: var(--{SEVERITY_COLOURS[severity]})"
        segments.append(f'<rect x="{left:.1f}" width="{width:.1f}" height="12" style="{style}"/>')
        left += width
    numbers = ", ".join(f"{counts[severity]} {SEVERITY_WORDS[severity]}" for severity in present)
    view_box = f'viewBox="0 0 {max(_BAR_WIDTH, left):.1f} 12" preserveAspectRatio="none"'
    label = escape(f"{area}: {numbers}")
    return Markup(
        f'<svg class="bar" {view_box} role="img" aria-label="{label}">{"".join(segments)}</svg>'
    )


def finding_traces(points: Sequence[AuditPoint]) -> list[tuple[str, str, Trace]]:
    """Return the numbers of each severity over the last audits, the worst first, and the label of
    their chart; none for fewer than two audits.
    """
    if len(points) < 2:
        return []
    begin = points[0].audited_at
    seconds = (points[-1].audited_at - begin).total_seconds() or 1.0
    at = tuple((point.audited_at - begin).total_seconds() / seconds for point in points)
    traces = []
    for severity in SEVERITIES:
        word, counts = (
            SEVERITY_WORDS[severity],
            [point.open_counts.get(severity, 0) for point in points],
        )
        label = f"Findings, {word}: {counts[0]} at {when(begin)}, {counts[-1]} now"
        traces.append((word, label, Trace(at, tuple(counts), seconds)))
    return traces
