"""Marked secrets for the main job, and where to look for them afterwards.

    with running_postgres() as postgres, marked_ledger(postgres) as url, ProcessWatch() as watch:
        place = MarkedPlace.new(folder, url)
        ...                                   # the demo, with MarkedKafka for its cluster
        assert not watch.found and not files_with_secrets(place.directory)

Every secret holds MARK: the password of the Kafka connection, that of the ledger, keys of an object
store, a Spark setting.
"""

import json
import sqlite3
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Final, Self

import psycopg

from demo.place import Place
from dev.local_kafka import BrokerSpec, Listener, LocalKafka, security
from dev.local_processes import free_ports
from tests.support.postgres import Postgres

MARK: Final = "MARKED-SECRET"
_USER: Final = "counterpoise"
_KAFKA_PASSWORD: Final = f"{MARK}-of-kafka"
_LEDGER_PASSWORD: Final = f"{MARK}-of-the-ledger"
_LISTENER: Final = "PASSWORDS"
_SPARK: Final = (b"SparkSubmit", b"spark-submit", b"pyspark", b"analysis_round.py")
_SAMPLE_SECONDS: Final = 0.1


class MarkedKafka(LocalKafka):
    """A cluster whose brokers have a listener that asks for a marked password, as well."""

    def __init__(
        self, directory: Path, brokers: Sequence[BrokerSpec], settings: Mapping[str, str]
    ) -> None:
        asking = [replace(spec, listeners=(_listener(),)) for spec in brokers]
        properties = security.sasl(asking[0].listeners[0], {_USER: _KAFKA_PASSWORD})
        super().__init__(directory, asking, {**settings, **properties})
        MarkedPlace.addresses = tuple(spec.listeners[0].address for spec in asking)

    def add_broker(self, broker_id: int, rack: str, *_: Any, **__: Any) -> None:
        super().add_broker(broker_id, rack, listeners=(_listener(),))


def _listener() -> Listener:
    return Listener(_LISTENER, free_ports(1)[0], "SASL_PLAINTEXT")


class MarkedPlace(Place):
    """A demo's place, where Counterpoise gets a marked secret for everything that can have one."""

    addresses: ClassVar[tuple[str, ...]] = ()  # of the listeners that ask for a password
    ledger_url: ClassVar[str] = ""

    def configure(self, bootstrap: str) -> Mapping[str, str]:
        dead_address = bootstrap.partition(",")[0]
        settings = {
            "bootstrap.servers": ",".join([dead_address, *self.addresses]),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": _USER,
            "sasl.password": _KAFKA_PASSWORD,
        }
        return {
            **super().configure(bootstrap),
            "AIRFLOW_CONN_KAFKA_DEMO": json.dumps({"conn_type": "kafka", "extra": settings}),
            "COUNTERPOISE_LEDGER": self.ledger_url,
            "COUNTERPOISE_SPARK_CONF": f"spark.hadoop.fs.s3a.secret.key={MARK}-of-spark",
            "AWS_SECRET_ACCESS_KEY": f"{MARK}-of-the-store",
            "AWS_SESSION_TOKEN": f"{MARK}-token",
        }


@contextmanager
def marked_ledger(postgres: Postgres) -> Iterator[str]:
    """Yield the URL of an empty ledger whose role has a marked password."""
    postgres.empty_ledger()
    with postgres.asking_for_password(_USER, _LEDGER_PASSWORD) as url:
        postgres.execute(f'GRANT postgres TO "{_USER}"')
        yield url


class ProcessWatch:
    """Looks at every process of this machine, again and again, from a thread of its own.

    Command lines are for everybody to read, and a Spark job needs none of the secrets in its
    environment; Airflow's own processes have what their operator gave them.
    """

    def __init__(self) -> None:
        self.found: set[str] = set()
        self.spark_processes: set[str] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_SAMPLE_SECONDS):
            for process in Path("/proc").glob("[0-9]*"):
                self._look_at(process)

    def _look_at(self, process: Path) -> None:
        try:
            command = (process / "cmdline").read_bytes()
            is_spark = any(word in command for word in _SPARK)
            environment = (process / "environ").read_bytes() if is_spark else b""
        except OSError:  # ended meanwhile, or not ours
            return
        if is_spark and environment:
            self.spark_processes.add(process.name)
        if MARK.encode() in command or MARK.encode() in environment:
            self.found.add(command.replace(b"\0", b" ").decode(errors="replace"))


def files_with_secrets(folder: Path) -> list[str]:
    """Return what holds a secret below a demo's folder, but for the brokers' own settings, and in
    what Spark may have left in the folder for temporary files.
    """
    temporary = Path(tempfile.gettempdir()).glob("counterpoise-*/**/*")
    kept = (path for path in folder.rglob("*") if folder / "kafka" not in path.parents)
    return [str(path) for path in (*kept, *temporary) if path.is_file() and _holds_secret(path)]


def _holds_secret(path: Path) -> bool:
    try:
        if MARK.encode() in path.read_bytes():
            return True
        if path.suffix != ".db":
            return False
        # A long value lies in several pages of SQLite: its own dump puts it together.
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            return any(MARK in line for line in database.iterdump())
    except (OSError, sqlite3.Error):  # removed meanwhile
        return False


def rows_with_secrets(ledger_url: str) -> list[str]:
    """Return the rows of every table of a ledger that hold a secret."""
    with psycopg.connect(ledger_url.replace("+psycopg", "")) as connection:
        tables = connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
        ).fetchall()
        return [
            f"{table}: {row}"
            for (table,) in tables
            for row in connection.execute(f'SELECT * FROM "{table}"'.encode())
            if MARK in str(row)
        ]
