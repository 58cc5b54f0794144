"""Runs on real brokers, with faults at exact points: what the tests `test_faults_*` and the soak
share.

    ground = Ground(kafka, folder, movement)
    ground.create_topic("orders", [(1, 2, 3)] * 6)
    run = ground.approved({"orders-0": (4, 2, 3)}, rate="20kB/s")
    ground.advance(run, lambda: ground.in_flight(run) > 0, "moves are under way")
    kafka.kill_broker(4)
    assert ground.finish(run).state is RunState.HALTED

Data is small and the throttle's window short: at a low rate a move is under way for most of a
minute, longer than a busy machine needs for any step of a test, and a request for a higher one ends
it. A second process is a fork of a server that has everything imported (`Victim`).
"""

import ctypes
import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from counterpoise.errors import CounterpoiseError, HaltedError
from counterpoise.execution import Driver
from counterpoise.installation import Installation
from counterpoise.kafka_admin.cluster_admin import ClusterAdmin
from counterpoise.kafka_admin.connection import ConnectionSettings
from counterpoise.ledger import Ledger
from counterpoise.model.approval import Decision
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.reassignment import from_reassignment_json
from counterpoise.model.run import ENDED_STATES, Run, RunState
from counterpoise.services import execution, plans, requests, snapshots, watch
from counterpoise.services.plans import PlannedRun
from counterpoise.settings import Locations, parse_settings
from dev.local_kafka import LocalKafka, TopicSpec, create_topics
from dev.local_processes import wait_until
from tests.support.decisions import ALICE, decide
from tests.support.fault_points import (
    CLUSTER_CALLS,
    Points,
    Tell,
    Trap,
    Watched,
    WatchedLedger,
)
from tests.support.kafka_facts import ON_A_SHARED_DISK, Placement, placement
from tests.support.ledger_view import LedgerView, let_step_locks_of_a_file_run_out
from tests.support.runs import does

# Throttles act within two seconds instead of ten; fetches are small, so that a low rate is kept to.
BROKER_PROPERTIES: Final = {
    "replication.quota.window.num": "3",
    "replica.fetch.max.bytes": "20000",
    "replica.fetch.response.max.bytes": "20000",
}
NOTICED_SOON: Final = {"broker.session.timeout.ms": "4000", "broker.heartbeat.interval.ms": "500"}
SLOW: Final = "20kB/s"  # what is under way stays so
FAST: Final = "5MB/s"  # and ends at once
KB: Final = 1_000
METADATA_LAG_SECONDS: Final = 60.0
LONGEST_PAUSE_SECONDS: Final = 0.5  # between two steps of a test

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(
    ["tests.support.faults", "counterpoise.ledger.database", "alembic.command"]
)


@dataclass(frozen=True)
class Addresses:
    """Connections to these brokers, whatever they are called."""

    bootstrap: str

    def settings_for(self, connection_id: str) -> dict[str, object]:
        return {"bootstrap.servers": self.bootstrap}


@dataclass(frozen=True)
class Place:
    """All that a second process needs to know."""

    folder: Path
    bootstrap: str
    movement: str  # YAML of `movement:` in the policy
    call_seconds: float = 15.0  # after which a client gives up

    def installation(self, tell: Tell | None = None) -> Installation:
        """`tell` hears of each call that changes the cluster or the ledger, before and after it."""
        variables = {
            "COUNTERPOISE_STORE": str(self.folder / "store"),
            "COUNTERPOISE_LEDGER": f"sqlite:///{self.folder / 'ledger.db'}",
        }
        policy = f"{{{ON_A_SHARED_DISK}, movement: {self.movement}}}"
        known = parse_settings(
            f"clusters: {{demo: {{connection: kafka, policy: {policy}}}}}", where="here"
        )
        installation = Installation(
            Locations.from_environment(variables), Addresses(self.bootstrap), known_clusters=known
        )
        if tell is not None:
            points = Points(tell)
            installation.connect_to = lambda settings: Watched(
                self._connected(settings), CLUSTER_CALLS, points
            )
            installation.__dict__["ledger"] = WatchedLedger(installation.ledger, (), points)
        else:
            installation.connect_to = self._connected
        return installation

    def _connected(self, settings: ConnectionSettings) -> ClusterAdmin:
        return ClusterAdmin(settings, self.call_seconds)


@dataclass
class Ground:
    """A cluster, a ledger and a store for one module of tests.

    `movement`: YAML, as under `movement:`.
    """

    kafka: LocalKafka
    folder: Path
    movement: str = "{}"
    call_seconds: float = 15.0
    log: list[str] = field(default_factory=list)

    @property
    def place(self) -> Place:
        return Place(self.folder, self.kafka.bootstrap_string, self.movement, self.call_seconds)

    @property
    def ledger(self) -> Ledger:
        return self._installation.ledger

    @property
    def view(self) -> LedgerView:
        return LedgerView.of(self.ledger)

    @cached_property
    def _installation(self) -> Installation:
        return self.place.installation()

    @contextmanager
    def installation(self, tell: Tell | None = None) -> Iterator[Installation]:
        """Reaches whichever brokers are live now."""
        with self.place.installation(tell) as installation:
            yield installation

    def close(self) -> None:
        self._installation.close()

    # -- data

    def create_topic(
        self, name: str, assignments: Sequence[Sequence[int]], size: int = 1_000 * KB
    ) -> None:
        """Create a topic; write `size` bytes to each partition, in batches smaller than a fetch."""
        create_topics(self.kafka.bootstrap_string, [TopicSpec(name, assignments)])
        settings: dict[str, Any] = {"bootstrap.servers": self.kafka.bootstrap_string, "acks": "all"}
        producer = Producer({**settings, "batch.num.messages": 1, "log_level": 0})
        for partition in range(len(assignments)):
            for _ in range(size // (10 * KB)):
                producer.produce(name, os.urandom(10 * KB), partition=partition)
        assert producer.flush(120) == 0

    # -- runs

    def planned(self, wanted: Mapping[str, Sequence[int]]) -> PlannedRun:
        """A run for the plan that gives these partitions (`orders-0`) these replicas."""
        rows = [
            {
                "topic": name.rpartition("-")[0],
                "partition": int(name.rpartition("-")[2]),
                "replicas": list(replicas),
            }
            for name, replicas in wanted.items()
        ]
        assignment = from_reassignment_json(json.dumps({"version": 1, "partitions": rows}))
        with self.installation() as installation:
            made = plans.plan_of_assignment(
                snapshots.fresh_snapshot(installation, "demo", installation.clock()),
                assignment,
                installation.cluster("demo").policy.balance,
            )
            return plans.submit(installation, made, plans.Origin(ALICE))

    def approved(self, wanted: Mapping[str, Sequence[int]], rate: str = SLOW) -> PlannedRun:
        run = self.planned(wanted)
        self.decide(run, Decision.GRANTED, rate=rate)
        return run

    def undone(self, run: PlannedRun, rate: str = SLOW) -> PlannedRun:
        """An approved run for the way back from another one."""
        with self.installation() as installation:
            back = plans.undo_plan(installation, run["run_id"])
            undo = plans.submit(installation, back, plans.Origin(ALICE))
        self.decide(undo, Decision.GRANTED, rate=rate)
        return undo

    def cancel(self, run: PlannedRun) -> None:
        with self.installation() as installation:
            requests.cancel(installation, run["run_id"], by=ALICE, why="test")

    def release_brokers(self) -> None:
        """Let plans use the brokers again that earlier runs have emptied."""
        with self.installation() as installation:
            kept_empty = installation.active_requests("demo").kept_empty
            if kept_empty:
                brokers = ",".join(map(str, kept_empty))
                requests.release(installation, "demo", brokers, by=ALICE, why="test")

    def decide(
        self,
        run: PlannedRun,
        decision: Decision,
        *,
        by: str = "alice",
        reason: str = "test",
        rate: str = "",
    ) -> None:
        with self.installation() as installation:
            decide(installation, run["run_id"], decision, by, reason=reason, rate=rate)

    def plan_of(self, run: PlannedRun) -> RebalancePlan:
        return self._installation.archive.read_plan(run["plan_uri"], run["fingerprint"])

    def state(self, run: PlannedRun) -> Run:
        return self.ledger.run(run["run_id"])

    def in_flight(self, run: PlannedRun) -> int:
        run_progress = self.view.progress(run["run_id"])
        return run_progress.progress.moves_in_flight if run_progress else 0

    def waits_for(self, run: PlannedRun) -> str:
        """What the run waits for."""
        return does(self.view.progress(run["run_id"]))

    def events(self, run: PlannedRun) -> list[str]:
        return [
            f"{event.at:%H:%M:%S} {event.kind}: {event.text}"
            for event in self.view.events(run["run_id"])
        ]

    def has_event(self, run: PlannedRun, kind: str) -> bool:
        return kind in self.view.event_kinds(run["run_id"])

    def change_rate(self, run: PlannedRun, rate: str = FAST) -> None:
        with self.installation() as installation:
            requests.change_rate(installation, run["run_id"], rate, by=ALICE, why="test")

    def advance(
        self,
        run: PlannedRun,
        until: Callable[[], bool],
        what: str,
        *,
        seconds: float = 240,
        tell: Tell | None = None,
    ) -> None:
        """Drives the run step by step until something is true, and stops there, as a killed process
        would.
        """
        give_up_at = time.monotonic() + seconds
        with self.installation(tell) as installation:
            for _ in steps(installation, run, self.log.append):
                if until():
                    return
                assert time.monotonic() < give_up_at, (
                    f"waited in vain for: {what}\n{self.diagnosis(run)}"
                )
        assert until(), f"the run ended before: {what}\n{self.diagnosis(run)}"

    def finish(self, run: PlannedRun, *, seconds: float = 300, tell: Tell | None = None) -> Run:
        """Drives the run to its end."""
        self.advance(
            run,
            lambda: self.state(run).state in ENDED_STATES,
            "the end",
            seconds=seconds,
            tell=tell,
        )
        return self.state(run)

    def diagnosis(self, run: PlannedRun) -> str:
        return "\n".join(
            [
                str(self.state(run)),
                f"waits for: {self.waits_for(run)}",
                *self.events(run),
                "log:",
                *self.log[-20:],
                str(placement(self.kafka)),
            ]
        )

    def victim(self, run: PlannedRun, trap: "Trap | None" = None) -> "Victim":
        """Carries the run out in a process of its own."""
        return Victim(self, run, trap)

    def forget_lock(self) -> None:
        """Lets the time pass that the step lock of a killed process lasts."""
        let_step_locks_of_a_file_run_out(self.folder / "ledger.db")

    def watch(self) -> watch.WatchReport:
        """What `kafka_throttle_watch` does on its schedule."""
        with self.installation() as installation:
            return watch.watch_throttles(installation, "demo", self.log.append)

    # -- facts

    def reassignments(self) -> set[str]:
        """Whatever is under way in the cluster, whoever began it."""
        with self.installation() as installation, installation.reader("demo") as reader:
            return {str(tp) for tp in reader.list_reassignments()}

    def is_as_planned(self, run: PlannedRun) -> bool:
        """Replicas and leaders, as Kafka's client tells them."""
        wanted = {
            str(m.topic_partition): (m.replicas_after, m.replicas_after[0])
            for m in self.plan_of(run).moves
        }
        return self._comes_true(lambda now: wanted.items() <= now.items())

    def is_as_before(self, run: PlannedRun) -> bool:
        """Replicas alone: who leads them is not given back by a cancel."""
        wanted = {str(m.topic_partition): m.replicas_before for m in self.plan_of(run).moves}
        return self._comes_true(
            lambda now: all(now[name][0] == replicas for name, replicas in wanted.items())
        )

    def _comes_true(self, fact: Callable[[Placement], bool]) -> bool:
        """A broker that is asked right after a change may not know of it yet."""
        give_up_at = time.monotonic() + METADATA_LAG_SECONDS
        while not (is_true := fact(placement(self.kafka))) and time.monotonic() < give_up_at:
            time.sleep(LONGEST_PAUSE_SECONDS)
        return is_true


def steps(installation: Installation, run: PlannedRun, log: Tell) -> Iterator[None]:
    """Opens and drives a run to its end, as a retrying task does: yields after each step, whatever
    came of it.
    """
    with ExitStack() as stack:
        driver: Driver | None = None
        while True:
            wait: float | None = LONGEST_PAUSE_SECONDS
            try:
                state = installation.ledger.run(run["run_id"]).state
                is_over = state in (RunState.DONE, RunState.CANCELLED)
                if is_over or (driver is not None and state in ENDED_STATES):
                    break
                if driver is None:
                    execution.open_run(installation, run["run_id"], run["fingerprint"])
                    driver = stack.enter_context(
                        execution.driver_of(installation, run["run_id"], run["fingerprint"], log)
                    )
                else:
                    wait = _one_step(driver, state)
            except HaltedError as halted:
                log(str(halted))
            except CounterpoiseError as error:
                log(f"{type(error).__name__}: {error}")
                if not error.retryable:
                    raise
            yield
            time.sleep(min(LONGEST_PAUSE_SECONDS, wait or 0))
    yield


def _one_step(driver: Driver, state: RunState) -> float | None:
    if state is RunState.RUNNING and (wait := driver.step()) is not None:
        return wait
    return driver.settle_step()


# -- a second process


class Victim:
    """A process that carries a run out, to be killed or frozen."""

    def __init__(self, ground: Ground, run: PlannedRun, trap: Trap | None = None) -> None:
        log = ground.folder / "victims.log"
        self._process = _forks.Process(
            target=_carry_out, args=(ground.place, run, trap, log), daemon=True
        )
        self._process.start()

    def __enter__(self) -> "Victim":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    @property
    def exit_code(self) -> int | None:
        return self._process.exitcode

    def signal(self, number: int) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    @property
    def is_frozen(self) -> bool:
        return (
            Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
        )

    def kill(self) -> None:
        self._process.kill()
        self._process.join()

    def wait(self, seconds: float = 240) -> int | None:
        """The exit code; negative: the signal that ended it."""
        wait_until(lambda: not self.is_alive, "a run in a process of its own to end", seconds)
        self._process.join()
        return self.exit_code


def _carry_out(place: Place, run: PlannedRun, trap: Trap | None, log_path: Path) -> None:
    ctypes.CDLL(None).prctl(
        1, signal.SIGKILL
    )  # dies with the server that forked it, which dies with the test
    with (
        log_path.open("a", buffering=1) as log,
        place.installation(trap.tell if trap else lambda _: None) as installation,
    ):
        for _ in steps(installation, run, lambda text: print(os.getpid(), text, file=log)):
            pass
