"""The roles that docker-compose.yaml makes in Postgres, on a real one."""

import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from dev import local_processes
from tests.support.postgres import Postgres

SCRIPT = Path(__file__).parents[2] / "docker" / "postgres" / "create-roles.sh"


@pytest.fixture
def with_roles(postgres: Postgres) -> Iterator[Postgres]:
    variables = {
        "PATH": f"{postgres.programs}{os.pathsep}{os.environ['PATH']}",
        "PGHOST": str(postgres.folder),
        "POSTGRES_USER": "postgres",
        "AIRFLOW_DATABASE_PASSWORD": "it's one",
        "COUNTERPOISE_LEDGER_PASSWORD": "another",
    }
    made = local_processes.run([SCRIPT], name="create-roles", timeout_seconds=240, env=variables)
    assert made.returncode == 0, made.stdout + made.stderr
    yield postgres
    for name in ("airflow", "counterpoise"):
        postgres.execute(f"DROP DATABASE {name} WITH (FORCE); DROP ROLE {name}")


def test_each_role_owns_its_database_and_cannot_reach_the_other(with_roles: Postgres) -> None:
    for own, other in (("airflow", "counterpoise"), ("counterpoise", "airflow")):
        with_roles.execute("CREATE TABLE mine (a int); DROP TABLE mine", own, own)
        with pytest.raises(psycopg.OperationalError, match="permission denied"):
            with_roles.execute("SELECT 1", other, own)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            with_roles.execute("CREATE ROLE somebody", own, own)
