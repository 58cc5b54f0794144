"""The stage of an exploration: one small world that can be kept, hashed and brought back at will.

    with Stage.of(scenario) as stage:
        kept = stage.keep()         # the cluster pickled, the ledger serialized
        stage.bring_back(kept)
        stage.key()                 # equal for worlds that differ in nothing but the time of day

The cluster is simulated, the ledger a real one in memory, by the cluster's clock: the database's
clock is, too. What product code takes from Python (clock, uuid, sleep, thread pools) it takes from
the stage, for as long as the stage is open.
"""

import concurrent.futures
import hashlib
import itertools
import pickle
import re
import sqlite3
import sys
import tempfile
import time
import types
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from counterpoise.archive import Archive
from counterpoise.installation import Installation
from counterpoise.ledger import Ledger
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.plan import RebalancePlan
from counterpoise.storage import Store
from tests.exploration.independence import TIME, Footprint
from tests.exploration.points import ExploredAdmin, ExploredTransactions, Monotonic, point
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.installations import installation_over
from tests.support.ledger_view import TABLES_OF_DECISIONS, LedgerView, set_database_clock
from tests.support.runs import START

if TYPE_CHECKING:
    from tests.exploration.promises import History

_MOMENT: Final = re.compile(r"2026-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?(?:\+00:00)?|\b1769\d{6}\b")
_TOKEN: Final = "eeee"
_A_TOKEN: Final = re.compile(r"eeee[0-9a-f]{28}")
OLD_SECONDS: Final = 1_000.0


@dataclass(frozen=True)
class Kept:
    """A world to come back to."""

    cluster: bytes
    ledger: bytes


class Stage:
    """See the module's docstring."""

    def __init__(self, cluster: SimulatedCluster, clusters: str, folder: Path) -> None:
        self.cluster = cluster
        self.history: History  # what the promises remember; a scenario sets it
        self.folder = folder
        self._engine, self.database = _empty_ledger(folder, lambda: self.seconds)
        sa.event.listen(self._engine, "after_cursor_execute", self._note_statement)
        self.ledger_view = LedgerView.of_database(self.database)
        self.connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        self._made = installation_over(
            folder,
            lambda _: ExploredAdmin(self),  # type: ignore[arg-type, return-value]
            clusters=clusters,
            clock=self.clock,
        )
        self._made.archive = KeptArchive(Store(str(folder / "store")))
        self.is_changed = True  # since the promises were checked
        self.touched = Footprint()  # since it was asked for
        self._parts_before: dict[str, bytes] = {}
        self._kept: Kept | None = None
        self._parts: dict[str, bytes] | None = None  # a hash of each part of the cluster
        self._text: str | None = None  # of the ledger

    # -- time

    @property
    def now(self) -> datetime:
        return START + timedelta(seconds=self.cluster.now)

    @property
    def seconds(self) -> float:
        """The database's clock."""
        return START.timestamp() + self.cluster.now

    def clock(self) -> datetime:
        moment: datetime = point("clock", "clock", self._read_clock)
        return moment

    def _read_clock(self) -> datetime:
        self.touched.reads.add(TIME)
        return self.now

    def read_monotonic(self) -> Monotonic:
        self.touched.reads.add(TIME)
        return Monotonic(self.cluster.now)

    def sleep(self, seconds: float) -> None:
        """Waits for the explorer to let the time pass."""
        point("sleep", "sleep", lambda: self.advance(seconds), seconds=seconds)

    def advance(self, seconds: float) -> None:
        if seconds > 0:
            self.touched.writes.add(TIME)
            self.cluster.advance(seconds)
            self.cluster_changed()

    # -- the product, at work on this world

    def installation(self) -> Installation:
        """A new process: its own installation, ledger and connection."""
        made = replace(self._made)
        ledger = Ledger(self._engine, self.clock)
        ledger._transactions = ExploredTransactions(self, self._engine, self.clock)
        made.ledger, made.archive = ledger, self._made.archive
        return made

    # -- kept, brought back, compared

    def cluster_changed(self) -> None:
        self.is_changed = True
        self._parts = self._text = self._kept = None

    def ledger_changed(self) -> None:
        self.is_changed = True
        self._text = self._kept = None

    def keep(self) -> Kept:
        if self._kept is None:
            self.cluster.calls.clear()
            cluster = pickle.dumps((self.cluster, self.history), -1)
            self._kept = Kept(cluster, self.database.serialize())
        return self._kept

    def bring_back(self, kept: Kept) -> None:
        self.cluster, self.history = pickle.loads(kept.cluster)
        self.database.deserialize(kept.ledger)
        self._parts, self._text, self._kept = None, None, kept
        self.take_touched()

    def key(self, own_tokens: Mapping[str, str]) -> bytes:
        """The world without the time of day: each moment counts from now.

        `own_tokens` are those that an actor may still use; of all others it only counts which of
        them are the same.
        """
        if self._text is None:
            rows = [sorted(self._rows_of(table), key=repr) for table in TABLES_OF_DECISIONS]
            self._text = self.without_time_of_day(repr(rows))
        text = self._text
        if _TOKEN in text:
            names = dict(own_tokens)
            text = _A_TOKEN.sub(
                lambda found: names.setdefault(found.group(), f"token {len(names)}"), text
            )
        history = repr(self.history.key())
        return digest(text.encode(), history.encode(), self.cluster_key())

    def cluster_key(self) -> bytes:
        return b"".join(self._cluster_parts().values())

    def _cluster_parts(self) -> dict[str, bytes]:
        if self._parts is None:
            facts = _cluster_facts(self.cluster)
            self._parts = {name: digest(repr(fact).encode()) for name, fact in facts.items()}
        return self._parts

    def take_touched(self) -> Footprint:
        """What was read and written since the last time."""
        touched, self.touched = self.touched, Footprint()
        parts, before = self._cluster_parts(), self._parts_before
        if parts is not before:
            touched.writes.update(name for name in parts if parts[name] != before.get(name))
            self._parts_before = parts
        return touched

    def _note_statement(self, _connection: Any, cursor: Any, statement: str, *_: object) -> None:
        self.touched.note_statement(statement, cursor.rowcount)

    def _rows_of(self, table: str) -> list[tuple[Any, ...]]:
        return self.database.execute(f"SELECT * FROM {table}").fetchall()

    def without_time_of_day(self, text: str, until: float | None = None) -> str:
        """Write each moment as the seconds from it until now."""
        now = self.seconds if until is None else until

        def written(found: re.Match[str]) -> str:
            age = now - _seconds(found.group())
            return "old" if age > OLD_SECONDS else f"{age:.3f}"

        return _MOMENT.sub(written, text)

    @classmethod
    @contextmanager
    def open(cls, cluster: SimulatedCluster, clusters: str) -> Iterator["Stage"]:
        with tempfile.TemporaryDirectory() as folder:
            stage = cls(cluster, clusters, Path(folder))
            with _everything_from(stage):
                yield stage
            stage.connection.close()
            stage._engine.dispose()


class KeptArchive(Archive):
    """Reads each plan and snapshot once: their names say what they hold."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._plan = lru_cache(maxsize=None)(super().read_plan)
        self._snapshot = lru_cache(maxsize=None)(super().read_snapshot)

    def read_plan(self, path: str, fingerprint: str) -> RebalancePlan:
        return self._plan(path, fingerprint)

    def read_snapshot(self, cluster: str, snapshot_id: str) -> ClusterSnapshot:
        return self._snapshot(cluster, snapshot_id)


def _empty_ledger(
    folder: Path, seconds: Callable[[], float]
) -> tuple[sa.Engine, sqlite3.Connection]:
    """A ledger with the newest schema in memory."""
    Ledger.open(f"sqlite:///{folder / 'made.db'}", lambda: START).close()
    with sqlite3.connect(folder / "made.db") as made:
        made.execute("PRAGMA journal_mode=DELETE")
        made.execute("PRAGMA page_size=512")  # it is kept thousands of times
        made.execute("VACUUM")
        content = made.serialize()
    engine = sa.create_engine(
        "sqlite://",
        poolclass=sa.pool.StaticPool,
        connect_args={"check_same_thread": False},
        execution_options={"counterpoise_hidden": ()},
    )
    set_database_clock(engine, seconds)
    with engine.connect() as connection:
        database: sqlite3.Connection = connection.connection.driver_connection  # type: ignore[assignment]
    database.deserialize(content)
    return engine, database


class _InThisThread:
    """A pool that does each task at once: no thread may act without the explorer."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def __enter__(self) -> "_InThisThread":
        return self

    def __exit__(self, *_: object) -> None: ...

    def submit(
        self, task: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> "concurrent.futures.Future[Any]":
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        try:
            future.set_result(task(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - a future keeps whatever it is
            future.set_exception(error)
        return future

    def map(self, task: Callable[..., Any], *values: Sequence[Any]) -> list[Any]:
        return [task(*each) for each in zip(*values, strict=False)]


@contextmanager
def _everything_from(stage: Stage) -> Iterator[None]:
    """Give product and simulated cluster the clock, sleep, uuid and pools of the stage."""

    def token() -> uuid.UUID:
        return uuid.UUID(point("token", "token", outside_token))

    outside = itertools.count()  # of what prepares a scenario, or ends it

    def outside_token() -> str:
        number = next(outside)
        return f"eeee{128 + number % 128:02x}{number:026x}"

    simulated_time = types.SimpleNamespace(
        sleep=stage.sleep,
        monotonic=lambda: point("monotonic", "", stage.read_monotonic),
        time=lambda: stage.seconds,
    )
    given = [
        (concurrent.futures.ThreadPoolExecutor, _InThisThread),
        (time.sleep, stage.sleep),
        (time.monotonic, simulated_time.monotonic),
        (time, simulated_time),
        (uuid, types.SimpleNamespace(uuid4=token)),
    ]
    simulated = "tests.simulated_kafka"
    modules = [m for name, m in sys.modules.items() if name.startswith(("counterpoise", simulated))]
    # Compared by identity: what other tests left there (weak proxies) may have no hash.
    changed = [
        (module, attribute, value, replacement)
        for module in modules
        for attribute, value in vars(module).items()
        for python_has, replacement in given
        if value is python_has
    ]
    try:
        for module, attribute, _, replacement in changed:
            setattr(module, attribute, replacement)
        yield
    finally:
        for module, attribute, value, _ in changed:
            setattr(module, attribute, value)


@lru_cache(maxsize=100_000)
def _seconds(moment: str) -> float:
    if moment.isdigit():
        return float(moment)
    return datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()


def _cluster_facts(cluster: SimulatedCluster) -> dict[str, object]:
    partitions = [
        (
            *(key.topic, key.partition, p.replicas, sorted(p.isr), p.leader, p.leader_epoch),
            *(round(p.size_bytes), p.adding, p.removing, sorted(p.eligible)),
            sorted((b, round(size)) for b, size in p.copied.items()),
        )
        for key, p in sorted(cluster.partitions.items())
    ]
    brokers = [
        (
            *(b, broker.is_up, broker.is_fenced, broker.is_frozen),
            _left(broker.fenced_at, cluster.now),
            [change.args for change in broker.pending_changes],
        )
        for b, broker in sorted(cluster.brokers.items())
    ]
    configs = [
        (str(r.type), r.name, sorted(values.items()))
        for r, values in sorted(cluster.configs.dynamic.items())
        if values
    ]
    return {
        "partitions": partitions,
        "brokers": brokers,
        "configs": configs,
        "topic ids": sorted(cluster.topic_ids.items()),
    }


def _left(moment: float | None, now: float) -> float | None:
    return None if moment is None else round(moment - now, 3)


def digest(*parts: bytes) -> bytes:
    made = hashlib.blake2b(digest_size=16)
    for part in parts:
        made.update(part)
    return made.digest()
