"""Data tests of a snapshot with Great Expectations; what a plan must keep are `plan_rules`.

    check = check_snapshot_data(snapshot, docs=Path("docs"))
    check.failures[0]     # DataFailure("partitions", "leader is among the replicas", ...)

Importing Great Expectations takes 10 to 17 seconds, and pandas one, so it happens inside the
functions. It sends no usage statistics and prints no
progress. Tables are checked in memory, as pandas frames; 200,000 rows take well under a second.
With `docs`, a folder, Data Docs (HTML) are written there.
"""

import importlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

import pyarrow as pa

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.safe_text import one_line
from counterpoise.model.words import pluralize
from counterpoise.validation.data import CountsBefore, DataCheck, DataFailure
from counterpoise.validation.quick import MAX_EXAMPLES, example_of, snapshot_facts
from counterpoise.validation.suites import SNAPSHOT_EXPECTATIONS, Expectations

if TYPE_CHECKING:
    import pandas as pd

# -- Pandas frames of a snapshot
#
#     frames = snapshot_frames(snapshot)       # {"brokers": ..., "topics": ..., ...}
#
# Data Docs (Great Expectations 1.24) put values into their HTML unescaped: a topic with a hostile
# name would run as a script. So the characters that mean something in HTML, scripts or templates go
# in percent-encoded (`<` as %3C), and examples are decoded again.


_HARMLESS: Final = " /:,;=()[]@+!*|^?~"


def harmless(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Return the frame with percent-encoded text; different texts stay different."""
    import pandas as pd

    for column in frame.columns:
        if not pd.api.types.is_numeric_dtype(frame[column]):
            texts = {
                one: quote(one, safe=_HARMLESS)
                for one in frame[column].unique()
                if isinstance(one, str)
            }
            if texts:
                frame[column] = pd.Series(
                    [texts.get(one, one) for one in frame[column]], frame.index, dtype=object
                )
    return frame


def original(value: object) -> object:
    """Return what a value was before `harmless`."""
    return unquote(value) if isinstance(value, str) else value


def snapshot_frames(snapshot: ClusterSnapshot) -> dict[str, "pd.DataFrame"]:
    """Return the tables of `snapshot_facts`; integers stay integers beside nulls."""
    import pandas as pd

    integer_types = {pa.int32(): pd.Int32Dtype(), pa.int64(): pd.Int64Dtype()}
    return {
        name: table.to_pandas(types_mapper=integer_types.get)
        for name, table in snapshot_facts(snapshot).items()
    }


_DOCS_NAME: Final = "counterpoise"
_ROW_COUNT: Final = "expect_table_row_count_to_be_between"
# Some character that is no white space; in frames a tab is %09 (`harmless`).
NOT_BLANK: Final = r"\A(?!(?:\s|%09|%0A|%0B|%0C|%0D)*\Z)"

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


def check_snapshot_data(
    snapshot: ClusterSnapshot, before: CountsBefore | None = None, *, docs: Path | None = None
) -> DataCheck:
    """Check that keys are unique, leaders and ISR within replicas, sizes not negative, brokers and
    topics known, and that counts agree.

    With `before`, also that no table lost more rows than it may.
    """
    checks: dict[str, DataCheck] = {}
    with _context(docs) as context:
        source = context.data_sources.add_pandas("counterpoise")
        for table, frame in snapshot_frames(snapshot).items():
            must_have_rows = bool(before and before.min_rows(table))
            if not len(frame) and not must_have_rows:
                continue  # everything holds for an empty table
            expected = SNAPSHOT_EXPECTATIONS[table]
            checks[table] = _check_table(context, source, table, harmless(frame), expected, before)
    if docs is not None:
        _write_index(docs, checks)
    check = DataCheck(success=True, failures=())
    for table_check in checks.values():
        check = check.and_also(table_check)
    return check


@contextmanager
def _context(docs: Path | None) -> Iterator[Any]:
    """Yield a context that stores nothing and sends nothing; its Data Docs are built at the end."""
    os.environ["GX_ANALYTICS_ENABLED"] = "False"
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context: Any = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    yield context
    if docs is not None:
        store = {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(docs)}
        builder = {"class_name": "SiteBuilder", "store_backend": store}
        context.add_data_docs_site(_DOCS_NAME, builder)
        context.build_data_docs(site_names=[_DOCS_NAME])


def _check_table(
    context: Any,
    source: Any,
    table: str,
    frame: "pd.DataFrame",
    expected: Expectations,
    before: CountsBefore | None,
) -> DataCheck:
    import great_expectations as gx

    expectations = _suite(expected, len(frame), before.min_rows(table) if before else 0)
    order = [_text_of(one.meta) for one in expectations]  # results come in another
    suite = gx.ExpectationSuite(name=table, expectations=expectations)
    batch = source.add_dataframe_asset(table).add_batch_definition_whole_dataframe("all")
    definition = gx.ValidationDefinition(name=table, data=batch, suite=context.suites.add(suite))
    shown = {"result_format": "COMPLETE", "unexpected_index_column_names": list(expected.key)}
    result = context.validation_definitions.add(definition).run(
        batch_parameters={"dataframe": frame}, result_format=shown
    )
    failures = tuple(
        before.failure(table, len(frame))
        if before and outcome.expectation_config.type == _ROW_COUNT
        else _failure(table, expected, outcome)
        for outcome in sorted(
            result.results, key=lambda one: order.index(_text_of(one.expectation_config.meta))
        )
        if not outcome.success
    )
    return DataCheck(bool(result.success), failures, len(result.results) - len(failures))


def _suite(expected: Expectations, row_count: int, min_rows: int) -> list[Any]:
    """Return the expectations, each with the column and the words of a failure as its notes."""
    # Any: the package has types, but does not declare these names as its own.
    gxe: Any = importlib.import_module("great_expectations.expectations")
    counted = [gxe.ExpectTableRowCountToBeBetween(min_value=min_rows)] if min_rows else []
    return [*_of_columns(gxe, expected), *counted] if row_count else counted


def _of_columns(gxe: Any, expected: Expectations) -> Iterator[Any]:
    yield _unique(gxe, expected.key)
    for column in expected.not_null:
        yield gxe.ExpectColumnValuesToNotBeNull(column=column, meta=_notes(column, "is known"))
    for column, between in expected.ranges.items():
        yield gxe.ExpectColumnValuesToBeBetween(
            column=column,
            min_value=between.lowest,
            max_value=between.highest,
            meta=_notes(column, str(between)),
        )
    for column, members in expected.members.items():
        notes = _notes(column, f"is one of {', '.join(members)}")
        yield gxe.ExpectColumnValuesToBeInSet(column=column, value_set=list(members), meta=notes)
    for column in expected.not_blank:
        notes = _notes(column, "is not blank")
        yield gxe.ExpectColumnValuesToMatchRegex(column=column, regex=NOT_BLANK, meta=notes)
    for pair in expected.equal:
        yield gxe.ExpectColumnPairValuesToBeEqual(
            column_A=pair.column,
            column_B=pair.other,
            ignore_row_if="either_value_is_missing",
            meta=_notes(pair.column, pair.says),
        )
    for pair in expected.at_most:
        yield gxe.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A=pair.other,
            column_B=pair.column,
            or_equal=True,
            ignore_row_if="either_value_is_missing",
            meta=_notes(pair.column, pair.says),
        )


def _unique(gxe: Any, key: tuple[str, ...]) -> Any:
    if len(key) == 1:
        return gxe.ExpectColumnValuesToBeUnique(column=key[0], meta=_notes(key[0], "is unique"))
    notes = _notes(", ".join(key), "are unique together")
    return gxe.ExpectCompoundColumnsToBeUnique(column_list=list(key), meta=notes)


def _notes(column: str, says: str) -> dict[str, str]:
    return {"column": column, "says": says}


def _text_of(notes: Mapping[str, str] | None) -> str:
    """Return `leader is live`; "" for the expectation about the number of rows."""
    return f"{notes['column']} {notes['says']}" if notes else ""


def _failure(table: str, expected: Expectations, outcome: Any) -> DataFailure:
    notes = outcome.expectation_config.meta
    expectation = _text_of(notes)
    rows = outcome.result.get("unexpected_index_list") or []
    examples = tuple(_example(row, expected.key, notes["column"]) for row in rows[:MAX_EXAMPLES])
    # An expectation that could not be computed does not raise: it fails, and says why here.
    broken = () if rows else (str(outcome.exception_info),)
    return DataFailure(
        table=table,
        expectation=expectation,
        column=notes["column"],
        unexpected_count=int(outcome.result.get("unexpected_count") or 0),
        examples=examples or broken,
        is_momentary=bool(rows) and expected.is_momentary(expectation),
    )


def _example(row: Mapping[str, Any], key: Sequence[str], column: str) -> str:
    """Return `orders-3` or `orders-3: size_bytes=-1` of a row of numpy scalars."""
    values = {
        name: original(getattr(value, "item", lambda value=value: value)())
        for name, value in row.items()
    }
    shown = sorted((name for name in values if name not in key), key=lambda name: name != column)
    return example_of(values, key, shown)


# -- the first page of Data Docs


def _write_index(folder: Path, checks: Mapping[str, DataCheck]) -> None:
    """Write the first page of Data Docs: a line for each table, with what failed and its checks.

    That of Great Expectations is filled in by scripts from other servers. Reports are shown without
    any script, where it is empty.
    """
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
