"""Processes that die at a write: before or after the n-th call that changes the cluster or the
ledger.

with pytest.raises(Crash):
    crashing_run(run, Countdown(7))
"""

from typing import Any, Final

from tests.support.runs import SimulatedRun

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


JOURNAL_WRITES = (
    "touching",
    "sending",
    "answer_received",
    "read_back",
    "restored",
    "restore_later",
    "submitting",
    "answered",
    "done",
    "electing",
    "event",
)


def crashing_run(run: SimulatedRun, countdown: Countdown) -> None:
    """One process that dies when the countdown ends."""
    ledger = CrashingProxy(run.ledger, ("change_state",), countdown)
    ledger.journal = lambda run_id: CrashingProxy(
        run.ledger.journal(run_id), JOURNAL_WRITES, countdown
    )  # type: ignore[attr-defined]
    admin = CrashingProxy(run.cluster, MUTATING, countdown)
    run.go(run.driver(admin, ledger))  # type: ignore[arg-type]
