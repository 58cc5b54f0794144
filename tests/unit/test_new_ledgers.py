"""A new ledger of other tests has what migrations make."""

import sqlite3
from contextlib import closing
from pathlib import Path

from counterpoise.ledger.database import open_database
from tests.support import new_ledgers


def schema_of(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as ledger:
        assert ledger.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return sorted(ledger.iterdump())


def test_a_new_ledger_has_the_tables_that_migrations_make(tmp_path: Path) -> None:
    quick, migrated = tmp_path / "quick.db", tmp_path / "migrated.db"
    open_database(f"sqlite:///{quick}").dispose()  # as `new_ledgers` of conftest lets tests make it
    with new_ledgers.real_migrations():
        open_database(f"sqlite:///{migrated}").dispose()
    assert schema_of(quick) == schema_of(migrated)
    assert any("one_waiting_run_per_cluster" in statement for statement in schema_of(quick))
