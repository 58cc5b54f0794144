"""Tables as Markdown and as CSV, in which every name stays a name."""

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from counterpoise.model.safe_text import for_csv, for_markdown


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", f"| {' | '.join('---' for _ in heads)} |"]
    lines += [f"| {' | '.join(for_markdown(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines)


def csv_table(heads: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return CSV under a row of names; None is an empty cell, a time has no offset (UTC)."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(map(_cell, row) for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
    return for_csv(value) if isinstance(value, str) else value
