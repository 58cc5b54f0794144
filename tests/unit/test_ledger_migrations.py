"""A ledger of each earlier schema, with rows in every table that it had, is brought up to date in
SQLite and in Postgres: every value is what it was, the chain is whole, and it is written on.

The rows are those of the frozen ledger of `tests/upgrades`, and those of
`tests/support/ledger_rows.py`, as far as a schema has their columns. They are written and read by
columns that the database names, not by the product's model of them.
"""

import shutil
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from counterpoise import ledger as ledger_package
from counterpoise.ledger import Ledger
from tests.support.ledger_rows import (
    CLUSTER,
    MADE_BY_THE_LEDGER,
    ROWS,
    RUN,
    Rows,
    insert,
    read,
    reflected,
)
from tests.unit.test_ledger_chain import upgrade_to

NOW = datetime(2026, 12, 31, 12, tzinfo=UTC)
FROZEN = Path(__file__).parents[1] / "upgrades" / "data" / "2026-11-23" / "ledger.db"
VERSIONS = Path(ledger_package.__file__).parent / "migrations" / "versions"
REVISIONS = sorted(path.name.partition("_")[0] for path in VERSIONS.glob("[0-9]*.py"))


@pytest.fixture(scope="module")
def all_rows(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """All rows of the frozen ledger and ours, in the newest schema, in one chain per cluster."""
    url = f"sqlite:///{shutil.copy(FROZEN, tmp_path_factory.mktemp('frozen') / 'ledger.db')}"
    Ledger.open(url, lambda: NOW).close()
    engine = sa.create_engine(url)
    insert(engine, {table.name: ROWS.get(table.name, []) for table in reflected(engine)})
    with closing(Ledger.open(url, lambda: NOW)) as ledger:
        ledger.journal(RUN).event("note", "of the newest schema")
    rows = read(engine)
    engine.dispose()
    return rows


def test_every_table_and_column_has_a_value_in_these_tests(all_rows: Rows) -> None:
    """A new one gets its value in `tests/support/ledger_rows.py`, or its migration is not tried."""
    assert all_rows.keys() - ROWS.keys() == MADE_BY_THE_LEDGER
    assert any(row["cluster"] == CLUSTER for row in all_rows["chain"])
    for table, rows in ROWS.items():
        columns = {name for row in all_rows[table] for name in row}
        with_value = {name for row in rows for name, value in row.items() if value is not None}
        assert columns == with_value, f"columns of {table}"


@pytest.mark.parametrize("revision", REVISIONS[:-1])
def test_a_ledger_of_an_earlier_schema_keeps_every_value(
    empty_database_url: str, revision: str, all_rows: Rows
) -> None:
    engine = sa.create_engine(empty_database_url)
    upgrade_to(revision, engine)
    insert(engine, all_rows)
    before = read(engine)
    assert all(before.values()), "rows in every table"
    with closing(Ledger.open(empty_database_url, lambda: NOW)) as ledger:
        report = ledger.chain().verify(NOW)
        assert report.is_intact, report.breaks
        assert not any(state.rows_waiting for state in report.states)
    after = read(engine)
    engine.dispose()
    for name, rows in before.items():
        columns = list(rows[0])
        lost = counted(rows, columns) - counted(after[name], columns)
        assert not lost, f"rows of {name} that are not there, or with other values: {lost}"
        assert len(after[name]) == len(rows) or name in MADE_BY_THE_LEDGER
    check_it_is_written_on(empty_database_url)


def counted(rows: list[dict[str, Any]], columns: list[str]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row[column] for column in columns) for row in rows)


def check_it_is_written_on(url: str) -> None:
    with closing(Ledger.open(url, lambda: NOW)) as ledger:
        for run_id in (RUN, ledger.runs()[-1].run_id):
            before = ledger.journal(run_id).events()
            ledger.journal(run_id).event("note", "after the upgrade")
            assert ledger.journal(run_id).events()[:-1] == before
        assert ledger.chain().verify(NOW).is_intact
