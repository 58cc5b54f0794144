"""A ledger of each earlier schema, with rows in most tables that it had, is brought up to date in
SQLite and in Postgres: nothing is lost, the chain is whole, and it is written on.

The rows are those of the frozen ledger of `tests/upgrades`, as far as a schema has their columns.
"""

import shutil
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from counterpoise import ledger as ledger_package
from counterpoise.ledger import Ledger
from tests.unit.test_ledger_chain import upgrade_to

NOW = datetime(2026, 12, 31, 12, tzinfo=UTC)
FROZEN = Path(__file__).parents[1] / "upgrades" / "data" / "2026-11-23" / "ledger.db"
VERSIONS = Path(ledger_package.__file__).parent / "migrations" / "versions"
REVISIONS = sorted(path.name.partition("_")[0] for path in VERSIONS.glob("[0-9]*.py"))
Rows = Mapping[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def frozen_rows(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """All rows of the frozen ledger, in the newest schema."""
    url = f"sqlite:///{shutil.copy(FROZEN, tmp_path_factory.mktemp('frozen') / 'ledger.db')}"
    Ledger.open(url, lambda: NOW).close()
    return rows_of(url)


def rows_of(url: str) -> Rows:
    engine = sa.create_engine(url)
    tables = reflected(engine)
    with engine.begin() as connection:
        found = {
            table.name: [dict(row._mapping) for row in connection.execute(sa.select(table))]
            for table in tables
        }
    engine.dispose()
    return found


def reflected(engine: sa.Engine) -> list[sa.Table]:
    """Return the tables of a database, those first that others refer to."""
    metadata = sa.MetaData()
    metadata.reflect(engine)
    return [table for table in metadata.sorted_tables if table.name != "alembic_version"]


def write(url: str, revision: str, rows: Rows) -> dict[str, int]:
    """Make a ledger of an earlier schema, with rows; return how many each of its tables has."""
    engine = sa.create_engine(url)
    upgrade_to(revision, engine)
    counts: dict[str, int] = {}
    tables = reflected(engine)
    with engine.begin() as connection:
        for table in tables:
            names = table.columns.keys()
            known = [{name: row[name] for name in names} for row in rows[table.name]]
            if known:
                connection.execute(table.insert(), known)
            counts[table.name] = len(known)
            if "id" in names and connection.dialect.name == "postgresql":
                last = sa.func.pg_get_serial_sequence(table.name, "id")
                highest = sa.select(sa.func.coalesce(sa.func.max(table.c.id), 1)).scalar_subquery()
                connection.execute(sa.select(sa.func.setval(last, highest)))
    engine.dispose()
    return counts


@pytest.mark.parametrize("revision", REVISIONS[:-1])
def test_a_ledger_of_an_earlier_schema_keeps_its_rows(
    empty_database_url: str, revision: str, frozen_rows: Rows
) -> None:
    counts = write(empty_database_url, revision, frozen_rows)
    assert sum(map(bool, counts.values())) >= 6, "rows in most tables"
    with closing(Ledger.open(empty_database_url, lambda: NOW)) as ledger:
        report = ledger.chain().verify(NOW)
        assert report.is_intact, report.breaks
        assert not any(state.rows_waiting for state in report.states)
        runs = ledger.runs()
        before = ledger.journal(runs[0].run_id).events()
        ledger.journal(runs[0].run_id).event("note", "after the upgrade")
        assert ledger.journal(runs[0].run_id).events()[:-1] == before
        assert ledger.chain().verify(NOW).is_intact
    found = rows_of(empty_database_url)
    for name, count in counts.items():
        assert len(found[name]) >= count, name
    for old in frozen_rows["runs"]:
        (new,) = [row for row in found["runs"] if row["run_id"] == old["run_id"]]
        same = ("cluster", "fingerprint", "state", "reason", "opened_at", "closed_at")
        assert {key: new[key] for key in same} == {key: old[key] for key in same}
