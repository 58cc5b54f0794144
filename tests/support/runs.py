"""A run on the simulated cluster, with a ledger of its own and the cluster's clock: what execution
tests share.
"""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from counterpoise.errors import HaltedError
from counterpoise.execution import Driver, ExecutionOptions
from counterpoise.execution.conditions import in_words
from counterpoise.kafka_admin.cluster_admin import ClusterAdmin
from counterpoise.ledger import Ledger
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.control import Control, ControlRequest
from counterpoise.model.kafka import ConfigResource, ConfigResourceType
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.policy import MovementPolicy
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.model.run import Event, Run, RunState
from counterpoise.model.run_progress import RunProgress
from counterpoise.planning import make_plan
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.ledger_view import (
    LedgerView,
    OwnedKey,
    blame_trouble,
    change_state,
    content_of,
    do_not_wait_for_the_disk,
    restore_pending_keys,
)
from tests.support.pictures import cluster, simulated
from tests.support.plans import plan_by_hand

START = datetime(2026, 1, 31, 12, tzinfo=UTC)


def clock_of(cluster: SimulatedCluster) -> Callable[[], datetime]:
    """Return a clock that goes on as the cluster's time does."""
    return lambda: START + timedelta(seconds=cluster.now)


FOUR_BROKERS = "1=a 2=b 3=c 4=d"
SKEWED = (
    "\n".join(f"orders-{p}: 1 2 3 size=3000000" for p in range(8))
    + "\npayments-0: 2 1 3 size=1000000"
)


@dataclass
class SimulatedRun:
    """A plan for the simulated cluster, its ledger, and as many drivers as a test wants."""

    cluster: SimulatedCluster
    ledger: Ledger
    plan: RebalancePlan
    rate: int = 1_000_000
    limits: MovementPolicy = field(default_factory=MovementPolicy)
    log: list[str] = field(default_factory=list)
    run_id: str = ""

    @classmethod
    def make(
        cls,
        folder: Path,
        picture: str = SKEWED,
        *,
        racks: str = FOUR_BROKERS,
        request: PlanRequest | None = None,
        plan: RebalancePlan | None = None,
        approve: bool = True,
        limits: MovementPolicy | None = None,
    ) -> "SimulatedRun":
        plan = plan or _made_plan(picture, racks, request or PlanRequest(Goal.ADD_BROKERS, (4,)))
        made = cls(simulated(picture, racks=racks), None, plan, limits=limits or MovementPolicy())  # type: ignore[arg-type]
        made.ledger = open_ledger(folder, made.clock)
        made.run_id = made.ledger.propose(plan, "plans/x.json", requested_by="airflow:alice").run_id
        if approve:
            made.ledger.record_decision(made.approval())
        return made

    @classmethod
    def of_moves(
        cls,
        folder: Path,
        picture: str,
        *moves: Move,
        goal: Goal = Goal.REBALANCE,
        racks: str = FOUR_BROKERS,
        limits: MovementPolicy | None = None,
    ) -> "SimulatedRun":
        """A run of a plan by hand for the cluster of the picture."""
        plan = plan_by_hand(cluster(picture, racks=racks), goal, *moves)
        return cls.make(folder, picture, racks=racks, plan=plan, limits=limits)

    def clock(self) -> datetime:
        return START + timedelta(seconds=self.cluster.now)

    def approval(self, decision: Decision = Decision.GRANTED) -> Approval:
        now = self.clock()
        return Approval(
            self.run_id,
            self.plan.fingerprint,
            decision,
            "airflow:alice",
            "test",
            now,
            self.rate,
            now + timedelta(hours=24),
        )

    def driver(self, admin: ClusterAdmin | None = None, ledger: Ledger | None = None) -> Driver:
        """Return a driver at the rate that the test has set: that of the last yes."""
        approved = [
            approval.rate_bytes_per_second for approval in self.ledger.approvals_of(self.run_id)
        ]
        if approved and approved[-1] != self.rate:
            self.ledger.record_decision(self.approval())
        options = ExecutionOptions(self.run_id, self.plan, self.rate, self.limits)
        ledger = ledger or self.ledger
        return Driver(admin or self.cluster, ledger, options, ledger.now, self.log.append)

    @property
    def run(self) -> Run:
        return self.ledger.run(self.run_id)

    @property
    def view(self) -> LedgerView:
        return LedgerView.of(self.ledger)

    def owned_keys(self) -> tuple[OwnedKey, ...]:
        """Return the config keys that the run has written."""
        return self.view.owned_keys(self.run_id)

    def events(self) -> tuple[Event, ...]:
        return self.view.events(self.run_id)

    def go(self, driver: Driver | None = None, *, max_steps: int = 500) -> RunState:
        """Open, move, settle; return the state it ends in. Raises whatever the driver raises."""
        driver = driver or self.driver()
        driver.open()
        self.repeat(driver.step, max_steps)
        self.repeat(driver.settle_step, max_steps)
        return self.run.state

    def until_moving(self, driver: Driver) -> None:
        """Open, and take steps until the cluster reassigns something."""
        driver.open()
        for _ in range(50):
            if self.cluster.list_reassignments():
                return
            self.cluster.advance(driver.step() or 0)
        raise AssertionError(f"nothing moves; it said: {self.log[-3:]}")

    def end(self, driver: Driver) -> RunState:
        """Settle, whatever stopped it; return the state it ends in."""
        self.repeat(driver.settle_step)
        return self.run.state

    def go_on_with(self, plan: RebalancePlan) -> None:
        """Approve another plan of the same cluster: what is done now is done in a run of that."""
        self.plan = plan
        self.run_id = self.ledger.propose(plan, "plans/y.json", requested_by="airflow:alice").run_id
        self.ledger.record_decision(self.approval())

    def ask(self, control: Control, *, why: str = "because", **more: Any) -> None:
        """Request something of the run; of its cluster when it is a freeze."""
        of_cluster = (Control.FREEZE, Control.UNFREEZE, Control.KEEP_EMPTY)
        concerned = None if control in of_cluster else self.run_id
        self.ledger.record_request(
            ControlRequest(
                self.plan.cluster, concerned, control, "airflow:bob", why, self.clock(), **more
            )
        )

    def run_progress(self) -> RunProgress:
        """Return the progress at the last observation."""
        run_progress = self.view.progress(self.run_id)
        assert run_progress is not None
        return run_progress

    def does(self) -> str:
        """Return what it does, or waits for, since then."""
        return does(self.run_progress())

    def halt(self, driver: Driver | None = None) -> None:
        """Have the run stop for trouble that cancels what is in flight; it settles then."""
        self.ask(Control.CANCEL)
        with pytest.raises(HaltedError):
            self.repeat((driver or self.driver()).step)
        blame_trouble(self.ledger, self.run_id)

    def change_state(self, to: RunState, reason: str = "") -> None:
        change_state(self.ledger, self.run_id, to, reason)

    def restore_pending(self) -> tuple[tuple[OwnedKey, ...], tuple[OwnedKey, ...]]:
        """Restore what the ended run left, as the watch does."""
        return restore_pending_keys(self.ledger, self.cluster, self.run)

    def event_kinds(self) -> list[str]:
        return self.view.event_kinds(self.run_id)

    def repeat(self, step: Callable[[], float | None], max_steps: int = 1_000) -> None:
        for _ in range(max_steps):
            wait = step()
            if wait is None:
                return
            self.cluster.advance(wait)
        raise AssertionError(f"not over after {max_steps} steps; it said: {self.log[-3:]}")

    def repeat_for(
        self, step: Callable[[], float | None], seconds: float, *, every: float = 0.0
    ) -> None:
        """Take steps until that time is over, with so many seconds at least from one to the next;
        at the end none is taken, so that no step sees what follows.
        """
        until = self.cluster.now + seconds
        while self.cluster.now < until and (wait := step()) is not None:
            self.cluster.advance(max(wait, every))

    def placement(self) -> dict[str, tuple[tuple[int, ...], int | None]]:
        return {
            f"{topic.topic}-{p.partition}": (p.replicas, p.leader)
            for topic in self.cluster.describe_topics()
            for p in topic.partitions
        }

    def planned_placement(self) -> dict[str, tuple[tuple[int, ...], int | None]]:
        planned = {
            str(m.topic_partition): (m.replicas_after, m.replicas_after[0]) for m in self.plan.moves
        }
        return self.placement() | planned


@cache
def _made_plan(picture: str, racks: str, request: PlanRequest) -> RebalancePlan:
    """Make a plan once: a test that crashes at each write has as many runs of it."""
    return make_plan(cluster(picture, racks=racks), request)


@dataclass(frozen=True)
class Copy:
    """A run as it was at an instant: its cluster, and all that its ledger has committed."""

    run: SimulatedRun
    cluster: SimulatedCluster
    ledger: bytes

    @classmethod
    def of(cls, run: SimulatedRun) -> "Copy":
        return cls(run, deepcopy(run.cluster), content_of(run.ledger))

    @contextmanager
    def opened(self) -> Iterator[SimulatedRun]:
        with tempfile.TemporaryDirectory() as folder:
            run = replace(self.run, cluster=self.cluster)
            run.ledger = open_ledger(Path(folder), run.clock, self.ledger)
            yield run
            run.ledger.close()


def open_ledger(
    folder: Path, clock: Callable[[], datetime], content: bytes | None = None
) -> Ledger:
    """Open a new ledger, or one with this content, that does not wait for the disk."""
    path = folder / "ledger.db"
    path.write_bytes(_empty_ledger().read_bytes() if content is None else content)
    ledger = Ledger.open(f"sqlite:///{path}", clock)
    do_not_wait_for_the_disk(ledger)
    return ledger


_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []


def _empty_ledger() -> Path:
    """Return a file that is made once: migrating takes longer than many a step."""
    if not _FOLDERS:
        _FOLDERS.append(tempfile.TemporaryDirectory())
        Ledger.open(f"sqlite:///{_FOLDERS[0].name}/ledger.db", lambda: START).close()
    return Path(_FOLDERS[0].name) / "ledger.db"


def does(run_progress: RunProgress | None) -> str:
    """Return what a run does, or waits for, in words; "" where it is not known."""
    activity = run_progress.activity if run_progress else None
    return in_words(activity) if activity else ""


def own_configs(cluster: SimulatedCluster) -> dict[ConfigResource, dict[str, str]]:
    return {
        resource: dict(values) for resource, values in cluster.configs.dynamic.items() if values
    }


def times_submitted(cluster: SimulatedCluster) -> Counter[tuple[TopicPartition, tuple[int, ...]]]:
    """Return how often each partition was reassigned to each target."""
    submitted: Counter[tuple[TopicPartition, tuple[int, ...]]] = Counter()
    for call in cluster.calls:
        if call.name == "alter_reassignments":
            submitted.update(item for item in call.argument.items() if item[1] is not None)  # type: ignore[attr-defined]
    return submitted


def at_broker(broker_id: int) -> ConfigResource:
    return ConfigResource(ConfigResourceType.BROKER, str(broker_id))


def of_topic(name: str) -> ConfigResource:
    return ConfigResource(ConfigResourceType.TOPIC, name)
