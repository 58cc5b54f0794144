"""The HTML environment of all pages: escaping on, a missing value is an error, and filters that
print units.
"""

import base64
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from counterpoise.model.safe_text import one_line, without_control_characters
from counterpoise.model.words import capitalized, join_ids, pluralize
from counterpoise.units import (
    format_bytes,
    format_clock,
    format_count,
    format_moment,
    format_rate,
    format_seconds,
)

TEMPLATES: Final = Path(__file__).parent / "templates"
# In a page of the store, whose policy allows this very text by its hash and no other style.
_STYLE: Final = (TEMPLATES / "style.css").read_text(encoding="utf-8")
_STYLE_HASH: Final = base64.b64encode(sha256(_STYLE.encode()).digest()).decode()
_NUMBER_AND_UNIT: Final = re.compile(r"(?<=\d) (?=(?:[kMGT]?B(?:/s)?|d|h|min|s|%|×)(?!\w))")
_PAGES_BESIDE: Final = 2  # the page that is shown, and the first and the last


def render(template: str, **values: object) -> str:
    """Render one page from `templates/`. Everything in `values` is escaped, but for pictures."""
    return _own_environment().get_template(template).render(**values)


@cache
def _own_environment() -> Environment:
    return environment()


def environment(*folders: Path) -> Environment:
    """Return an environment that finds its templates in these folders, and then in ours."""
    made = Environment(
        loader=FileSystemLoader([*folders, TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_without_control_characters,
    )
    made.filters |= {
        "bytes": format_bytes,
        "rate": format_rate,
        "duration": format_seconds,
        "percent": percent,
        "known_rate": known_rate,
        "known_bytes": known_bytes,
        "count": format_count,
        "times": times,
        "when": when,
        "moment": format_moment,
        "ids": join_ids,
        "pluralize": pluralize,
        "one_line": one_line,
        "units": with_units,
        "clock": format_clock,
        "age": age,
        "capitalized": capitalized,
        "short_duration": short_duration,
    }
    made.globals |= {
        "address": address,
        "page_links": page_links,
        "style": Markup(_STYLE),
        "style_hash": f"sha256-{_STYLE_HASH}",
    }
    return made


def _without_control_characters(value: object) -> str:
    """Return what an expression in a template prints; labels of pictures have names in them too."""
    text = without_control_characters(str(value))
    return Markup(text) if isinstance(value, Markup) else text


def percent(share: float) -> str:
    """Return `4.2 %` of 0.042."""
    return f"{share * 100:.1f} %"


def known_rate(rate: float | None, is_at_least: bool = False, unknown: str = "not known") -> str:
    """Return `2 kB/s`, `≥ 2 kB/s` for a lower bound, or `not known`."""
    return unknown if rate is None else f"{'≥ ' if is_at_least else ''}{format_rate(rate)}"


def known_bytes(size: float | None) -> str:
    return "not known" if size is None else format_bytes(size)


def with_units(sentence: str) -> str:
    """Return a sentence in which a number and its unit stay on one line."""
    return _NUMBER_AND_UNIT.sub("\u00a0", sentence)


def age(at: datetime, now: datetime) -> str:
    """Return `12 min ago`."""
    seconds = max(0.0, (now - at).total_seconds())
    return "just now" if seconds < 1 else f"{short_duration(seconds)} ago"


def short_duration(seconds: float) -> str:
    """Return `12 min`: the larger unit alone."""
    number, unit = format_seconds(seconds).split(" ")[:2]
    return f"{number}\u00a0{unit}"


def address(path: str, values: Mapping[str, object] | None = None, **changed: object) -> str:
    """Return an address of a page with these values, as far as they are not empty; what follows a
    # in the path comes last.
    """
    page, mark, place = path.partition("#")
    query = {name: value for name, value in {**(values or {}), **changed}.items() if value}
    asked = f"?{urlencode(query)}" if query else ""
    return f"{page}{asked}{mark}{place}"


def page_links(path: str, here: int, pages: int, **values: object) -> list[tuple[int | None, str]]:
    """Return the pages of a table to go to: the first, the last, those around the one shown, and
    None for each gap.
    """
    around = range(here - _PAGES_BESIDE, here + _PAGES_BESIDE + 1)
    shown = sorted({1, pages, *around} & set(range(1, pages + 1)))
    links: list[tuple[int | None, str]] = []
    for number, before in zip(shown, [0, *shown], strict=False):
        if number > before + 1:
            links.append((None, ""))
        links.append((number, address(path, values, number=number)))
    return links


def times(ratio: float) -> str:
    """Return `1.25 ×` of 1.25."""
    return f"{ratio:.2f} ×"


def when(at: datetime) -> str:
    """Return `2026-11-21 15:00:09 UTC`."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
