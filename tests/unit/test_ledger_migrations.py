"""A ledger of an earlier schema is brought up to date with every value, in SQLite and in Postgres.
One of a schema that this release does not know is refused.

There is one migration before the first release. A second one, made here, stands for those to come.
"""

import shutil
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from counterpoise.errors import LedgerError, LedgerNotMigratedError
from counterpoise.ledger import Ledger, database
from tests.support.ledger_rows import ROWS, RUN, insert, read

NOW = datetime(2026, 12, 31, 12, tzinfo=UTC)
SECOND = """
import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("runs", sa.Column("ticket", sa.Text()))
"""


@pytest.fixture
def of_the_first_schema(empty_database_url: str) -> str:
    """A ledger with rows in every table."""
    database.open_database(empty_database_url).dispose()
    engine = sa.create_engine(empty_database_url)
    insert(engine, ROWS)
    engine.dispose()
    return empty_database_url


@pytest.fixture
def second_release(
    of_the_first_schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """The same ledger, in front of a release with one more migration."""
    migrations = tmp_path / "migrations"
    shutil.copytree(database._MIGRATIONS, migrations)
    (migrations / "versions" / "0002_tickets_of_runs.py").write_text(SECOND)
    monkeypatch.setattr(database, "_MIGRATIONS", migrations)
    return of_the_first_schema


def test_every_table_and_column_has_a_value_in_these_tests(of_the_first_schema: str) -> None:
    """A new one gets its value in `tests/support/ledger_rows.py`, or its migration is not tried."""
    engine = sa.create_engine(of_the_first_schema)
    stored = read(engine)
    engine.dispose()
    assert stored.keys() == ROWS.keys()
    for table, rows in ROWS.items():
        columns = {name for row in stored[table] for name in row}
        with_value = {name for row in rows for name, value in row.items() if value is not None}
        assert columns == with_value, f"columns of {table}"


def test_a_ledger_of_an_earlier_schema_keeps_every_value(second_release: str) -> None:
    url = second_release
    engine = sa.create_engine(url)
    before = read(engine)
    needs = "has schema 0001, and this release needs 0002"
    with pytest.raises(LedgerNotMigratedError, match=needs):
        Ledger.open(url, lambda: NOW, migrate=False)
    assert read(engine) == before
    with closing(Ledger.open(url, lambda: NOW)) as ledger:
        after = read(engine)
        assert all("ticket" in row for row in after["runs"])
        ledger.journal(RUN).event("note", "after the upgrade")
        assert ledger.journal(RUN).events()[-1].text == "after the upgrade"
    engine.dispose()
    for row in after["runs"]:
        del row["ticket"]
    assert after == before


@pytest.mark.parametrize("migrate", [True, False])
def test_a_ledger_of_a_schema_that_is_not_known_is_refused_and_left_as_it_is(
    of_the_first_schema: str, *, migrate: bool
) -> None:
    engine = sa.create_engine(of_the_first_schema)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '0009'"))
    before = read(engine)
    with pytest.raises(LedgerError, match="has schema 0009, which this release does not know"):
        Ledger.open(of_the_first_schema, lambda: NOW, migrate=migrate)
    assert read(engine) == before
    engine.dispose()
