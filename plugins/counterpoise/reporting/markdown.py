"""Tables as Markdown and as CSV, in which every name stays a name."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", f"| {' | '.join('---' for _ in heads)} |"]
    lines += [f"| {' | '.join(escaped(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines)


def escaped(text: str) -> str:
    """Escape the characters that mean something in Markdown or HTML; a line break is a blank."""
    return re.sub(r"([\\`*_\[\]<>|#&~!])", r"\\\1", " ".join(text.split()))


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
    is_formula = isinstance(value, str) and value.startswith(_FORMULA_STARTS)
    return f"'{value}" if is_formula else value
