"""Markdown's tables, in which every name stays a name."""

import re
from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", f"| {' | '.join('---' for _ in heads)} |"]
    lines += [f"| {' | '.join(escaped(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines)


def escaped(text: str) -> str:
    """Escape the characters that mean something in Markdown or HTML; a line break is a blank."""
    return re.sub(r"([\\`*_\[\]<>|#&~!])", r"\\\1", " ".join(text.split()))
