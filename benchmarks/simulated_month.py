"""A month of a fleet that never was, through snapshots, analyses, audits, proposals and runs.

    month = Month(folder, Fleet(clusters=200, large=10, days=30))
    for day in month.days():
        day.rss_bytes, day.files, day.database_bytes
    month.events        # `month_checks.py` computes from them what is left in store and ledger

The clusters are simulated, and so is the clock; the stages are those that the Dags call, one after
the other in this process, with Spark as a child, on a store of real files and a ledger in SQLite.
Files count as changed at the simulated time. Each day some clusters lose a broker for a moment: a
run elects their leaders back.
"""

import gc
import os
import resource
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.ledger_size import database_bytes, ledger_rows
from benchmarks.month_events import Event, Kind
from counterpoise.archive import Archive
from counterpoise.errors import ClusterUnreachableError
from counterpoise.installation import Installation
from counterpoise.kafka_admin.connection import ConnectionSettings
from counterpoise.model.approval import Decision
from counterpoise.model.connectivity import ConnectivityCheck
from counterpoise.model.files import StoredFile
from counterpoise.model.person import Person
from counterpoise.model.request import Goal, RebalanceRequest
from counterpoise.model.run import VALIDATED, RunState
from counterpoise.services import (
    analyses,
    approvals,
    audits,
    execution,
    history_compaction,
    plans,
    proposals,
    reports,
    snapshots,
    verification,
)
from counterpoise.settings import Locations, parse_settings
from counterpoise.storage import Store
from counterpoise.storage.opening import files_below
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.simulated_kafka.world import SimulatedBroker

BEGIN: Final = datetime(2026, 10, 1, tzinfo=UTC)
KEEP_ALL, KEEP_HOURLY, KEEP_DAILY = timedelta(days=3), timedelta(days=7), timedelta(days=14)
KEEP_LEDGER: Final = timedelta(days=10)
PRUNE_EVERY_DAYS: Final = 5
GRACE: Final = timedelta(hours=1)
BROKERS: Final = 3  # of each cluster, with one log dir and one listener
# Of the results; the first alone goes before its snapshots do.
TABLES_OF_DAYS: Final = ("partition_load", "topic_load", "topic_balance", "leader_changes")
# proposed, approved, granted, running, electing, settling, done
EVENTS_OF_A_RUN: Final = 7
_COMPACTED_AT: Final = timedelta(hours=3, minutes=30)
_RUNS_AT: Final = timedelta(hours=12, minutes=40)
_PARTITIONS_PER_TOPIC: Final = 100
_HOUR_OF_RECORDS: Final = 1_000_000  # bytes of each partition
_POLICY: Final = "{keep_all: 3d, keep_hourly: 7d, keep_daily: 14d, grace: 1h}"
_ALICE, _BOB = Person.airflow("alice"), Person.airflow("bob")
_STATUS: Final = Path("/proc/self/status")


@dataclass(frozen=True, slots=True)
class Fleet:
    """How many clusters, and how often what is done with them."""

    clusters: int = 200
    large: int = 10
    days: int = 30
    partitions: int = 12
    partitions_of_large: int = 2_000
    snapshot_every_hours: int = 24
    analysed_every_days: int = 15
    audited_every_days: int = 10
    runs_a_day: int = 2
    prune_every_days: int = PRUNE_EVERY_DAYS

    @property
    def names(self) -> tuple[str, ...]:
        kinds = ("large" if number < self.large else "small" for number in range(self.clusters))
        return tuple(f"{kind}-{number:03d}" for number, kind in enumerate(kinds))

    def partitions_of(self, name: str) -> int:
        return self.partitions_of_large if name.startswith("large") else self.partitions

    def topics_of(self, name: str) -> int:
        return -(-self.partitions_of(name) // _PARTITIONS_PER_TOPIC)


@dataclass(frozen=True, slots=True)
class Day:
    """What is there at the end of a simulated day."""

    number: int
    rss_bytes: int  # of this process
    files: int
    store_bytes: int
    ledger_rows: int
    database_bytes: int


@dataclass
class Clock:
    """Simulated time, and at which real time each moment of it began."""

    now: datetime = BEGIN
    _real: list[float] = field(default_factory=list)
    _simulated: list[datetime] = field(default_factory=list)

    def __call__(self) -> datetime:
        return self.now

    def set(self, now: datetime) -> None:
        self.now = max(self.now, now)
        self._real.append(time.time())
        self._simulated.append(self.now)

    def at(self, real: datetime) -> datetime:
        """Return the simulated time of a real one."""
        return self._simulated[max(0, bisect_right(self._real, real.timestamp()) - 1)]


class SimulatedStore(Store):
    """Files on disk that count as changed at the simulated time."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        super().__init__(str(folder))
        self._clock = clock

    def _stored_locally(self, entry: os.DirEntry[str]) -> StoredFile:
        return self._then(super()._stored_locally(entry))

    def _stored(self, info: object) -> StoredFile:
        return self._then(super()._stored(info))

    def _then(self, file: StoredFile) -> StoredFile:
        assert file.modified_at is not None
        return replace(file, modified_at=self._clock.at(file.modified_at))


class _Connections:
    def settings_for(self, connection_id: str) -> dict[str, object]:
        return {"bootstrap.servers": f"{connection_id}:9092"}


def _unreachable(_: ConnectionSettings) -> ConnectivityCheck:
    raise ClusterUnreachableError((("simulated", "there is no network here"),))


def make_cluster(name: str, partitions: int) -> SimulatedCluster:
    """Three brokers in three racks, of which each leads as much as the others."""
    cluster = SimulatedCluster(cluster_id=f"{name}-id")
    for broker_id in (1, 2, 3):
        cluster.brokers[broker_id] = SimulatedBroker("abc"[broker_id - 1], disk_total_bytes=10**13)
    orders = ((1, 2, 3), (2, 3, 1), (3, 1, 2))
    for number, start in enumerate(range(0, partitions, _PARTITIONS_PER_TOPIC)):
        count = min(_PARTITIONS_PER_TOPIC, partitions - start)
        cluster.create_topic(f"topic-{number:03d}", (orders[n % 3] for n in range(count)))
    return cluster


class Month:
    """See the module's docstring."""

    def __init__(self, folder: Path, fleet: Fleet) -> None:
        self.fleet = fleet
        self.clock = Clock()
        self.clock.set(BEGIN)
        self.clusters = {
            name: make_cluster(name, fleet.partitions_of(name)) for name in fleet.names
        }
        self.database = folder / "ledger.db"
        self.store_folder = folder / "store"
        self.seconds: Counter[str] = Counter()  # of the processor, Spark's included, by stage
        self.events: list[Event] = []
        self.runs: Counter[RunState] = Counter()
        self.pruned_rows = 0
        self._leaders: dict[str, list[tuple[int | None, int]]] = {}  # at the newest snapshot
        self.installation = self._installation()

    def _installation(self) -> Installation:
        clusters = "".join(
            f"  {name}: {{connection: {name}, policy: {{history: {_POLICY}}}}}\n"
            for name in self.fleet.names
        )
        locations = Locations.from_environment(
            {
                "COUNTERPOISE_STORE": str(self.store_folder),
                "COUNTERPOISE_LEDGER": f"sqlite:///{self.database}",
            }
        )
        installation = Installation(
            locations,
            _Connections(),
            clock=self.clock,
            connect_to=self._connect,
            known_clusters=parse_settings(f"clusters:\n{clusters}", where="the benchmark"),
            connectivity_checker=_unreachable,
        )
        installation.__dict__["archive"] = Archive(SimulatedStore(self.store_folder, self.clock))
        return installation

    def _connect(self, settings: ConnectionSettings) -> SimulatedCluster:
        return self.clusters[settings.bootstrap_servers[0].rpartition(":")[0]]

    def days(self) -> Iterator[Day]:
        """Let the month pass; yield what is there after each day."""
        for number in range(self.fleet.days):
            self._pass(number, BEGIN + timedelta(days=number))
            yield self._measure(number + 1)
        self._end()

    # -- a day

    def _pass(self, number: int, midnight: datetime) -> None:
        if number and number % self.fleet.analysed_every_days == 0:
            self._compact(midnight + _COMPACTED_AT)
        if number and number % self.fleet.prune_every_days == 0:
            self.clock.set(midnight + _COMPACTED_AT)
            self._prune()
        hours = range(0, 24, self.fleet.snapshot_every_hours)
        for hour in hours:
            self._snapshots(midnight + timedelta(hours=hour))
        self._runs(number, midnight + _RUNS_AT)
        if (number + 1) % self.fleet.audited_every_days == 0:
            self.clock.set(midnight + timedelta(hours=21))
            with self._timed("audit"):
                for name in self.fleet.names:
                    audits.audit(self.installation, name, self.clock())
            self.events.append(Event(Kind.AUDIT, self.clock()))
        if (number + 1) % self.fleet.analysed_every_days == 0:
            self.clock.set(midnight + timedelta(hours=22))
            self._analyse(f"day-{number}")
        for cluster in self.clusters.values():
            cluster.calls.clear()  # a record for tests

    def _snapshots(self, at: datetime) -> None:
        grown = _HOUR_OF_RECORDS * self.fleet.snapshot_every_hours
        self.clock.set(at)
        for name, cluster in self.clusters.items():
            for partition in cluster.partitions.values():
                partition.size_bytes += grown
            with self._timed("snapshot"):
                snapshots.make(self.installation, name, at)
            self._note_snapshot(name, at)

    def _note_snapshot(self, name: str, at: datetime) -> None:
        """Note a snapshot, and of how many partitions the leader changed since the one before."""
        partitions = self.clusters[name].partitions.values()
        leaders = [(partition.leader, partition.leader_epoch) for partition in partitions]
        before = self._leaders.get(name, leaders)
        changed = sum(one != earlier for one, earlier in zip(leaders, before, strict=True))
        self._leaders[name] = leaders
        self.events.append(Event(Kind.SNAPSHOT, at, name, changed))

    def _analyse(self, round_id: str) -> None:
        with self._timed("analyse"):
            found = analyses.analyse(self.installation, round_id, _ignore)
        assert found == sorted(self.fleet.names)
        self.events.append(Event(Kind.ANALYSIS, self.clock()))
        with self._timed("report"):
            for name in self.fleet.names[: self.fleet.large]:
                reports.report_balance(self.installation, name)
            reports.report_fleet(self.installation)
        with self._timed("propose"):
            for name in found:
                proposals.propose(self.installation, name)

    def _runs(self, number: int, at: datetime) -> None:
        count = self.fleet.runs_a_day
        names = [self.fleet.names[(number * count + n) % self.fleet.clusters] for n in range(count)]
        for name in dict.fromkeys(names):
            self.clock.set(at)
            self.clusters[name].kill_broker(1)
            self.clusters[name].restart_broker(1)
            self.clusters[name].advance(60)
            with self._timed("run"):
                self._run(name)

    def _run(self, name: str) -> None:
        planned = plans.make(
            self.installation, name, RebalanceRequest(Goal.LEADERS), plans.Origin(_ALICE)
        )
        self._note_snapshot(name, self.clock())
        partitions = self.clusters[name].partitions.values()
        uneven = sum(partition.leader != partition.replicas[0] for partition in partitions)
        self.events.append(Event(Kind.RUN, self.clock(), name, uneven))
        assert not isinstance(planned, plans.NothingToMove), f"nothing to do on {name}"
        run_id, fingerprint = planned["run_id"], planned["fingerprint"]
        self.installation.ledger.journal(run_id).event(VALIDATED, fingerprint)
        approvals.answer(
            self.installation,
            run_id,
            fingerprint,
            decision=Decision.GRANTED,
            by=_BOB,
            reason="as planned",
            rate="50MB/s",
        )
        execution.open_run(self.installation, run_id, fingerprint)
        execute = partial(execution.execute_step, self.installation, run_id, fingerprint, _ignore)
        settle = partial(execution.settle_step, self.installation, run_id, _ignore)
        for step in (execute, settle):
            while (wait := step()) is not None:
                self.clusters[name].advance(wait)
                self.clock.set(self.clock() + timedelta(seconds=wait))
        verification.verify(self.installation, run_id, fingerprint)
        verification.report_run(self.installation, run_id)
        self.runs[self.installation.ledger.run(run_id).state] += 1

    def _prune(self) -> None:
        """As `counterpoise ledger prune` from cron."""
        with self._timed("prune"):
            before = self.clock() - KEEP_LEDGER
            for name in self.fleet.names:
                self.pruned_rows += self.installation.ledger.prune(name, before=before)
        self.events.append(Event(Kind.PRUNE, self.clock()))

    def _end(self) -> None:
        """Compact, and once more when the files that were replaced may be deleted."""
        for after in (_COMPACTED_AT, _COMPACTED_AT + 2 * GRACE, _COMPACTED_AT + 4 * GRACE):
            self._compact(BEGIN + timedelta(days=self.fleet.days) + after)

    def _compact(self, at: datetime) -> None:
        self.clock.set(at)
        with self._timed("compact"):
            report = history_compaction.compact(self.installation, _ignore)
        assert not report.problems, report.problems
        self.events.append(Event(Kind.COMPACTION, at))

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        began = _cpu_seconds()
        try:
            yield
        finally:
            self.seconds[stage] += _cpu_seconds() - began

    def _measure(self, number: int) -> Day:
        gc.collect()
        # Not by pathlib, which would remember the names.
        sizes = [entry.stat().st_size for entry in files_below(str(self.store_folder))]
        return Day(
            number,
            rss_bytes(),
            len(sizes),
            sum(sizes),
            sum(ledger_rows(self.database).values()),
            database_bytes(self.database),
        )


def _cpu_seconds() -> float:
    """Return the seconds of the processor that this process and its ended children have used."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def rss_bytes() -> int:
    """Return the memory that this process has now."""
    lines = _STATUS.read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) * 1024


def _ignore(_: str) -> None:
    """Take a line of a log."""
