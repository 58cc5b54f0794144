"""The HTML environment of all pages: escaping on, a missing value is an error, and filters that
print units.
"""

from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from counterpoise.model.safe_text import one_line, without_control_characters
from counterpoise.model.words import join_ids, pluralize
from counterpoise.reporting import small
from counterpoise.reporting.parts import drawn
from counterpoise.units import (
    format_bytes,
    format_count,
    format_moment,
    format_rate,
    format_seconds,
)


def render(template: str, **values: object) -> str:
    """Render one page from `templates/`. Everything in `values` is escaped, but for pictures."""
    return _own_environment().get_template(template).render(**values)


@cache
def _own_environment() -> Environment:
    return environment()


def environment(*folders: Path) -> Environment:
    """Return an environment that finds its templates in these folders, and then in ours."""
    made = Environment(
        loader=FileSystemLoader([*folders, Path(__file__).parent / "templates"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_without_control_characters,
    )
    made.globals["small"] = small
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
        "drawn": drawn,
    }
    return made


def body_of(page: str) -> Markup:
    """Return what a page of ours shows below its heading, for another page of ours.

    Empty of a text that is no page. Limits: it is as safe as the page is where that lies.
    """
    below = page.partition("</header>")[2]
    body, end, _ = below.rpartition("</main>")
    return Markup(body if end else "")


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


def times(ratio: float) -> str:
    """Return `1.25 ×` of 1.25."""
    return f"{ratio:.2f} ×"


def when(at: datetime) -> str:
    """Return `2026-11-21 15:00:09 UTC`."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
