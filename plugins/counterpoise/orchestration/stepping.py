"""An operator that looks, does a little, and waits outside the workers until the next look.

    StepUntilDone(task_id="execute", step=execute_step, retries=3)

A look takes seconds; between looks the task is deferred, so a move of many hours holds no worker.
All state is in the cluster and the ledger: a look may be repeated, by another process or machine,
at any time. A look that fails for a reason that may pass (the ledger, the brokers, another copy at
work) is made again and costs no try of the task, since a move of many hours meets more of them than
a task has tries.

Limits: looks are at least `least_wait_seconds` apart. Below 10 s Airflow may take a task that comes
back too quickly for one that failed.
"""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk import BaseOperator

from counterpoise.errors import CounterpoiseError
from counterpoise.orchestration.handover import planned_run
from counterpoise.orchestration.installation import airflow_installation

if TYPE_CHECKING:
    from counterpoise.pipeline import PlannedRun

LEAST_WAIT_SECONDS: Final = 10.0
MOMENT_SECONDS: Final = (
    1.0  # a shorter wait (for a read-back, say) is no reason to leave the worker
)
MOST_MOMENTS: Final = 60
MOST_FAILED_LOOKS: Final = (
    60  # in a row, some ten minutes; then the try fails, and Airflow tells whom it may concern
)

Step = Callable[[Any, "PlannedRun", Callable[[str], None]], float | None]


class StepUntilDone(BaseOperator):
    """Calls `step(site, run, log)` until it returns None; otherwise it says how many seconds to
    wait.
    """

    def __init__(
        self, *, step: Step, least_wait_seconds: float = LEAST_WAIT_SECONDS, **arguments: Any
    ) -> None:
        super().__init__(**arguments)
        self.step = step
        self.least_wait_seconds = least_wait_seconds

    def execute(self, context: Any, event: Any = None, failed_looks: int = 0) -> None:
        """One look, and more as long as each asks for a moment only.

        `event` is the time at which the trigger fired; `failed_looks` counts those in a row before
        this one.
        """
        run = planned_run(context["ti"])
        wait_seconds: float | None
        try:
            wait_seconds = self._look(run)
            failed_looks = 0
        except CounterpoiseError as error:
            failed_looks += 1
            if not error.retryable or failed_looks > MOST_FAILED_LOOKS:
                raise
            self.log.warning("This look failed, the %d. in a row: %s", failed_looks, error)
            wait_seconds = self.least_wait_seconds
        if wait_seconds is None:
            return
        pause = timedelta(seconds=max(wait_seconds, self.least_wait_seconds))
        self.log.info("The next look is in %.0f s", pause.total_seconds())
        self.defer(
            trigger=TimeDeltaTrigger(pause),
            method_name="execute",
            kwargs={"failed_looks": failed_looks},
        )

    def _look(self, run: "PlannedRun") -> float | None:
        with airflow_installation() as installation:
            wait_seconds = self.step(installation, run, self.log.info)
            for _ in range(MOST_MOMENTS):
                if wait_seconds is None or wait_seconds > MOMENT_SECONDS:
                    break
                time.sleep(wait_seconds)
                wait_seconds = self.step(installation, run, self.log.info)
        return wait_seconds


def execute_step(installation: Any, run: "PlannedRun", log: Callable[[str], None]) -> float | None:
    """One look of the task `execute`."""
    from counterpoise import pipeline

    return pipeline.execute_step(installation, run["run_id"], run["fingerprint"], log)


def settle_step(installation: Any, run: "PlannedRun", log: Callable[[str], None]) -> float | None:
    """One look of the task `settle`."""
    from counterpoise import pipeline

    return pipeline.settle_step(installation, run["run_id"], log)
