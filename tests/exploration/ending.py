"""The end of every path: all faults are over, and somebody brings what is left to its end.

complaints = end_everything(stage)
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from counterpoise.errors import CounterpoiseError, HaltedError
from counterpoise.model.run import UNDER_WAY_STATES, Run, RunState
from counterpoise.services import execution, watch
from tests.exploration.roles import CLUSTER, nothing

if TYPE_CHECKING:
    from tests.exploration.stage import Stage

MAX_OBSERVATIONS: Final = 80
_WATCHES: Final = 3


def end_everything(stage: "Stage") -> Sequence[str]:
    """Let runs end and the watch look after the rest; return the promises that are broken."""
    history = stage.history
    for _ in range(_WATCHES):
        stage.advance(31.0)
        for run in _under_way(stage):
            if not _end(stage, run):
                return [f"promise 5: run {run.state} does not end in {MAX_OBSERVATIONS} steps"]
        try:
            watch.watch_throttles(stage.installation(), CLUSTER, nothing)
        except CounterpoiseError as error:
            return [f"promise 4: the watch fails: {error}"]
        history.check(stage, None, set())
        if history.complaints:
            return history.complaints
    history.check_end(stage)
    return history.complaints


def _under_way(stage: "Stage") -> list[Run]:
    runs = stage.installation().ledger.runs(cluster=CLUSTER)
    return [run for run in runs if run.state in UNDER_WAY_STATES]


def _end(stage: "Stage", run: Run) -> bool:
    def execute() -> float | None:
        installation = stage.installation()
        return execution.execute_step(installation, run.run_id, run.fingerprint, nothing)

    def settle() -> float | None:
        return execution.settle_step(stage.installation(), run.run_id, nothing)

    is_running = run.state is RunState.RUNNING
    return (not is_running or _repeat(stage, execute)) and _repeat(stage, settle)


def _repeat(stage: "Stage", step: Callable[[], float | None]) -> bool:
    """Step until it is over; return whether it was within so many observations."""
    for _ in range(MAX_OBSERVATIONS):
        try:
            wait = step()
        except HaltedError:
            return True
        except CounterpoiseError as error:
            if not error.retryable:
                return True
            wait = 2.0
        if wait is None:
            return True
        stage.advance(wait)
        stage.history.step_ended()
        stage.history.check(stage, None, set())
        if stage.history.complaints:
            return True
    return False
