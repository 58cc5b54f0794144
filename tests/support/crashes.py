"""Processes that die at a write: before or after the n-th call that changes the cluster or the
ledger.

with pytest.raises(Crash):
    crashing_run(run, Countdown(7))
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final

from counterpoise.model.run import RunState
from tests.support.ledger_view import (
    STEP_WRITES,
    is_in_a_transaction,
    let_step_locks_run_out,
)
from tests.support.runs import Copy, SimulatedRun

MUTATING: Final = ("alter_configs", "alter_reassignments", "elect_preferred_leaders")


class Crash(BaseException):
    """Not an Exception: nothing on the way may catch it."""


class CrashingProxy:
    """Passes calls on, and crashes before or after the n-th of the named ones."""

    def __init__(self, target: Any, names: tuple[str, ...], countdown: "Countdown") -> None:
        self._target, self._names, self._countdown = target, names, countdown

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._target, name)
        if name not in self._names:
            return method

        def counted(*args: Any, **kwargs: Any) -> Any:
            self._countdown.tick()
            result = method(*args, **kwargs)
            self._countdown.tick()
            return result

        return counted


class Countdown:
    def __init__(self, ticks: int) -> None:
        self.left = ticks

    def tick(self) -> None:
        if self.left == 0:
            raise Crash
        self.left -= 1


class Pause(Countdown):
    """Lets something happen after so many ticks, once, and goes on."""

    def __init__(self, ticks: int, meanwhile: Callable[[], None]) -> None:
        super().__init__(ticks)
        self._meanwhile = meanwhile

    def tick(self) -> None:
        if self.left == 0:
            self._meanwhile()
        self.left -= 1


class CrashingStep(CrashingProxy):
    """Crashes before a transaction: what happens inside one is rolled back, and after it come only
    reads, up to the next transaction or call.
    """

    def __getattr__(self, name: str) -> Any:
        if name in self._names:
            self._tick_before_a_transaction()
        return getattr(self._target, name)

    def _tick_before_a_transaction(self) -> None:
        if not is_in_a_transaction(self._target):
            self._countdown.tick()

    @contextmanager
    def together(self, *, is_current: bool = False) -> Iterator[None]:
        self._tick_before_a_transaction()
        with self._target.together(is_current=is_current):
            yield

    def of_run(self, run_id: str) -> "CrashingStep":
        return CrashingStep(self._target.of_run(run_id), self._names, self._countdown)


class CrashingJournal(CrashingProxy):
    # Steps of processes that were killed: nothing may run in them any more, also no `finally`.
    abandoned: ClassVar[list[Any]] = []

    @contextmanager
    def step(self) -> Iterator[CrashingStep]:
        """Yield a step whose lock stays held when the process is killed."""
        held = self._target.step()
        step = held.__enter__()
        try:
            yield CrashingStep(step, STEP_WRITES, self._countdown)
        except Crash:
            self.abandoned.append(held)
            raise
        except BaseException as error:
            held.__exit__(type(error), error, error.__traceback__)
            raise
        held.__exit__(None, None, None)


class CrashingLedger(CrashingProxy):
    def journal(self, run_id: str) -> CrashingJournal:
        return CrashingJournal(self._target.journal(run_id), (), self._countdown)


def crashing_run(run: SimulatedRun, countdown: Countdown) -> None:
    """Drive a run in a process that dies when the countdown ends."""
    admin: Any = CrashingProxy(run.cluster, MUTATING, countdown)
    ledger: Any = CrashingLedger(run.ledger, (), countdown)
    run.go(run.driver(admin, ledger))


class CrashRecorder(Countdown):
    """Never crashes: keeps, at every nth tick, what a process that dies there leaves."""

    def __init__(self, run: SimulatedRun, every: int) -> None:
        super().__init__(0)
        self.found: list[Copy] = []
        self._run, self._every = run, every

    def tick(self) -> None:
        if self.left % self._every == 0:
            self.found.append(Copy.of(self._run))
        self.left += 1


def ended_after_crashes(run: SimulatedRun, *, every: int = 1) -> Iterator[SimulatedRun]:
    """Drive a run to its end, and yield it; then what its process would have left that dies before
    or after a write, as another one has brought it to its end.
    """
    recorder = CrashRecorder(run, every)
    crashing_run(run, recorder)
    assert run.run.state is RunState.DONE
    yield run
    for copy in recorder.found:
        with copy.opened() as left:
            let_step_locks_run_out(left.ledger)
            assert left.run.state is RunState.DONE or left.go() is RunState.DONE
            yield left
