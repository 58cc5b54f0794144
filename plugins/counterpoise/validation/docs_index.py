"""The first page of Data Docs: a line for each table, with what failed and a link to its checks.

    write_index(folder, {"partitions": check})

That of Great Expectations is filled in by scripts from other servers. Reports are shown without any
script, where it is empty.
"""

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Final
from urllib.parse import quote

from counterpoise.model.safe_text import one_line
from counterpoise.model.words import pluralize
from counterpoise.validation.data import DataCheck

_MAX_FAILURES: Final = 20
_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Checks of the data</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>:root {{ color-scheme: light dark }}
body {{ font-family: sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }}
th, td {{ padding: .3rem 1rem .3rem 0; text-align: left; vertical-align: top }}
ul {{ margin: 0; padding-left: 1.2em }}</style></head>
<body><h1>Checks of the data</h1>
<p>{verdict} Tables without rows are not listed: everything holds for them.</p>
<table><thead><tr><th>Table</th><th>Checks</th></tr></thead>
<tbody>
{rows}
</tbody></table></body></html>
"""


def write_index(folder: Path, checks: Mapping[str, DataCheck]) -> None:
    """Write `index.html` into a folder of Data Docs."""
    failed_count = sum(not check.success for check in checks.values())
    verdict = (
        f"{pluralize(failed_count, 'table')} with failed checks."
        if failed_count
        else ("All checks hold.")
    )
    rows = "\n".join(_row(folder, table, check) for table, check in checks.items())
    (folder / "index.html").write_text(_PAGE.format(verdict=verdict, rows=rows))


def _row(folder: Path, table: str, check: DataCheck) -> str:
    name = escape(one_line(table))
    pages = sorted(folder.glob(f"validations/{table}/**/*.html"))
    if pages:
        name = f'<a href="{quote(pages[-1].relative_to(folder).as_posix())}">{name}</a>'
    words = f"{pluralize(check.passed, 'check')} passed"
    failures = [f"<li>{escape(one_line(one.expectation))}</li>" for one in check.failures]
    more_count = len(failures) - _MAX_FAILURES
    if more_count > 0:
        failures = [*failures[:_MAX_FAILURES], f"<li>and {more_count} more</li>"]
    listed = f"<strong>failed:</strong><ul>{''.join(failures)}</ul>" if failures else ""
    return f"<tr><td>{name}</td><td>{words}{listed}</td></tr>"
