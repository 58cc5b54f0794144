"""Rows of text as an aligned table, or as Markdown.

    print(table([("cluster", "CPU s"), ("c-medium", "0.61")], is_markdown=False))

The first row has the headings. The first two columns are aligned left, all others right.
"""

from collections.abc import Sequence
from typing import Final

from benchmarks.figures import Row

_LEFT: Final = 2
HEADINGS: Final = (
    "cluster",
    "planner",
    "partitions",
    "brokers",
    "goal",
    "CPU s",
    "peak MiB",
    "replicas copied",
    "/ bound",
    "% of bytes copied",
    "bytes / bound",
    "leaders max-min",
    "best",
    "replicas min-max",
    "out of band",
    "several new",
    "none kept",
    "rack violations",
    "errors",
    "topics led unevenly",
    "topics spread unevenly",
)


def cells(row: Row) -> tuple[str, ...]:
    """A row's text, one cell for each of `HEADINGS`."""
    of = row.figures
    return (
        row.cluster,
        row.planner,
        f"{row.partitions:,}",
        f"{row.brokers:,}",
        row.goal,
        f"{of.cpu_seconds:.2f}",
        "-" if of.peak_bytes is None else f"{of.peak_bytes / 2**20:,.0f}",
        f"{of.copied_replicas:,}",
        _ratio(of.replicas_over_bound),
        f"{of.copied_percent:.1f}",
        _ratio(of.bytes_over_bound),
        f"{of.leaders_spread:,}",
        str(of.leaders_best),
        f"{of.replicas_min:,}-{of.replicas_max:,}",
        str(of.out_of_band),
        f"{of.several_new:,}",
        f"{of.none_kept:,}",
        f"{of.rack_violations:,}",
        f"{of.errors:,}",
        f"{of.led_unevenly_before:,} -> {of.led_unevenly:,}",
        f"{of.spread_unevenly_before:,} -> {of.spread_unevenly:,}",
    )


def table(rows: Sequence[Sequence[str]], *, is_markdown: bool) -> str:
    """The rows below one another; all have as many cells as the first."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = [
        [
            cell.ljust(width) if at < _LEFT else cell.rjust(width)
            for at, (cell, width) in enumerate(pairs)
        ]
        for pairs in (list(zip(row, widths, strict=True)) for row in rows)
    ]
    if not is_markdown:
        return "\n".join("  ".join(line).rstrip() for line in lines)
    rule = ["---" if at < _LEFT else "---:" for at in range(len(widths))]
    return "\n".join(
        "| " + " | ".join(cell.strip() for cell in line) + " |"
        for line in [lines[0], rule, *lines[1:]]
    )


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
