"""What actors do, each through the entrances that Dags and the command line use.

Executor(run_id, fingerprint)      # opens, executes and settles a run
Watcher(first_at=4.0)              # the throttle watch
Script((("asks", 2.0, ask_for_a_cancel),))    # a person, or somebody else
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from counterpoise.errors import (
    ClusterError,
    CounterpoiseError,
    HaltedError,
    RefusedError,
    StepLockHeldError,
)
from counterpoise.model.person import Person
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.run import ENDED_STATES
from counterpoise.services import execution, plans, watch
from tests.exploration.actors import OVER
from tests.exploration.points import change
from tests.support.decisions import grant

if TYPE_CHECKING:
    from counterpoise.installation import Installation
    from tests.exploration.stage import Stage

CLUSTER: Final = "demo"
_AGAIN_SECONDS: Final = 2.0
_LOCK_HELD_SECONDS: Final = 10.0
_MAX_ARRIVAL_SECONDS: Final = 20.0


def nothing(_: str) -> None:
    """Log nothing."""


@dataclass(frozen=True)
class Executor:
    """The tasks `open_run`, `execute` and `settle` of the Dag, each step in a process of its own.

    A successor begins as `counterpoise execute` does: the run is opened again, unless it has ended.
    """

    run_id: str
    fingerprint: str
    first: str = "open"
    is_process: bool = True
    is_free: bool = False

    def act(self, part: str, installation: "Installation", stage: "Stage") -> tuple[str, float]:
        try:
            return self._act(part, installation, stage)
        except HaltedError:
            return "settle", 0.0
        except ClusterError as error:
            return (part if error.retryable else "settle"), _AGAIN_SECONDS
        except StepLockHeldError:
            return part, _LOCK_HELD_SECONDS
        except RefusedError:
            return ("settle", 0.0) if part == "step" else (OVER, 0.0)

    def _act(self, part: str, installation: "Installation", stage: "Stage") -> tuple[str, float]:
        if part == "take over":
            seen = installation.ledger.run(self.run_id)
            if seen.state in ENDED_STATES:
                return OVER, 0.0
            with execution.opened_run(installation, self.run_id, self.fingerprint, seen=seen):
                return "step", 0.0
        if part == "open":
            execution.open_run(installation, self.run_id, self.fingerprint)
            return "step", 0.0
        if part == "step":
            wait = execution.execute_step(installation, self.run_id, self.fingerprint, nothing)
            stage.history.step_ended()
            return ("settle", 0.0) if wait is None else ("step", wait)
        wait = execution.settle_step(installation, self.run_id, nothing)
        stage.history.step_ended()
        return (OVER, 0.0) if wait is None else ("settle", wait)

    def successor(self) -> "Executor":
        return Executor(self.run_id, self.fingerprint, first="take over")


@dataclass(frozen=True)
class Watcher:
    """kafka_throttle_watch, once."""

    first: str = "watch"
    is_process: bool = True
    is_free: bool = True

    def act(self, part: str, installation: "Installation", stage: "Stage") -> tuple[str, float]:
        with suppress(CounterpoiseError):  # its task fails; the next watch comes anyway
            watch.watch_throttles(installation, CLUSTER, nothing)
        return OVER, 0.0

    def successor(self) -> None:
        return None


def approved(
    installation: "Installation", stage: "Stage", plan: RebalancePlan, rate: str = "1MB/s"
) -> Executor:
    """Propose and approve a plan; return who executes it."""
    run = plans.submit(installation, plan, plans.Origin(Person.airflow("alice")))
    stage.history.add_run(run["run_id"], plan)
    grant(installation, run, by="bob", rate=rate)
    return Executor(run["run_id"], run["fingerprint"])


@dataclass(frozen=True)
class Undoer:
    """Waits for the end of a run, plans the way back, and executes that."""

    run_id: str
    first: str = "undo"
    is_process: bool = True
    is_free: bool = False

    def act(self, part: str, installation: "Installation", stage: "Stage") -> tuple[str, float]:
        if part != "undo":
            verb, run_id, fingerprint = part.split()
            following, wait = Executor(run_id, fingerprint).act(verb, installation, stage)
            return (OVER if following == OVER else f"{following} {run_id} {fingerprint}"), wait
        if not _has_ended(installation, self.run_id):
            return "undo", _AGAIN_SECONDS
        try:
            plan = plans.undo_plan(installation, self.run_id)
            executor = approved(installation, stage, plan)
        except RefusedError:  # nothing was moved, or somebody else is at work
            return OVER, 0.0
        return f"open {executor.run_id} {executor.fingerprint}", 0.0

    def successor(self) -> None:
        return None


Act = Callable[["Installation", "Stage"], None]


@dataclass(frozen=True)
class Script:
    """Somebody who does one thing after another: each with its name, and the wait before it."""

    acts: Sequence[tuple[str, float, Act]]
    run_id: str = ""  # that a person makes requests of
    is_process: bool = False
    is_free: bool = True

    @property
    def first(self) -> str:
        return self.acts[0][0]

    def act(self, part: str, installation: "Installation", stage: "Stage") -> tuple[str, float]:
        names = [name for name, _, _ in self.acts]
        position = names.index(part)
        try:
            self.acts[position][2](installation, stage)
        except RefusedError:
            if self.run_id and not _has_ended(installation, self.run_id):
                return part, _AGAIN_SECONDS  # it was too early: the run was not opened yet
        if position + 1 == len(names):
            return OVER, 0.0
        name, wait, _ = self.acts[position + 1]
        return name, wait

    def successor(self) -> None:
        return None


@dataclass(frozen=True)
class Arrival:
    """A call that the network held back."""

    call: tuple[str, Any, Any]
    first: str = "arrives"
    is_process: bool = False
    is_free: bool = True
    wait_seconds: float = _MAX_ARRIVAL_SECONDS

    def act(self, part: str, installation: "Installation", stage: "Stage") -> tuple[str, float]:
        from tests.exploration.points import current_actor, point

        name, args, kwargs = self.call
        actor = current_actor()
        point("change", name, lambda: change(stage, actor, name, args, kwargs))
        return OVER, 0.0

    def successor(self) -> None:
        return None


def _has_ended(installation: "Installation", run_id: str) -> bool:
    return installation.ledger.run(run_id).state in ENDED_STATES
