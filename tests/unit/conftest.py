"""What unit tests share: one Postgres for all of them, started when the first test asks for it."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from counterpoise.ledger import Ledger
from tests.support.clocks import Clock
from tests.support.postgres import Postgres, running_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: object) -> str:
    """The URL of an empty ledger, in a file and in Postgres."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/ledger.db"
    server: Postgres = request.getfixturevalue("postgres")
    return server.empty_ledger()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(ledger_url: str, clock: Clock) -> Iterator[Ledger]:
    """A ledger that goes by `clock`."""
    with closing(Ledger.open(ledger_url, clock)) as opened:
        yield opened


@pytest.fixture(params=["sqlite", "postgres"])
def empty_database_url(request: pytest.FixtureRequest, tmp_path: object) -> Iterator[str]:
    """The URL of a database without tables."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/ledger.db"
        return
    server: Postgres = request.getfixturevalue("postgres")
    with server.new_database() as name:
        yield server.url(name)


@pytest.fixture
def postgres_with_password(postgres: Postgres) -> Iterator[str]:
    """The URL of a login that Postgres asks for a password: somebody-secret, right-password."""
    with postgres.asking_for_password("somebody-secret", "right-password") as url:
        yield url
