"""An operator that does one step of a run, and waits outside the workers until the next one.

    StepUntilDone(task_id="execute", step=execute_step, retries=3)

A step takes seconds; between steps the task is deferred, so a move of many hours holds no worker.
All state is in the cluster and the ledger: a step may be repeated by another process or machine at
any time. A step that fails for a reason that may pass (the ledger, the brokers, another copy of the
task) is repeated without spending a try of the task: a move of many hours meets more of these than
a task has tries.

Limits: steps are at least `min_wait_seconds` apart. Airflow may count a task that comes back in
less than 10 s as failed.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator

from counterpoise.errors import CounterpoiseError
from counterpoise.model.safe_text import safe_logger
from counterpoise.orchestration.delivery import tell_about_run
from counterpoise.orchestration.handover import planned_run
from counterpoise.orchestration.installation import airflow_installation
from counterpoise.orchestration.links import RUN
from counterpoise.orchestration.statsd import send_gauges
from counterpoise.orchestration.waiting import WaitTrigger

if TYPE_CHECKING:
    from counterpoise.services.plans import PlannedRun

_LOGGER = safe_logger(__name__)
MIN_WAIT_SECONDS: Final = 10.0
# A shorter wait (for a read-back, say) is no reason to leave the worker.
SHORT_WAIT_SECONDS: Final = 1.0
MAX_SHORT_WAITS: Final = 60
# In a row, some ten minutes; then the try fails, and Airflow notifies.
MAX_FAILED_STEPS: Final = 60

# What may warn of the same at each step: the connection, which is made anew, the gauges, and a step
# that fails.
_REPEATING: Final = tuple(
    map(
        logging.getLogger,
        ("counterpoise.installation", "counterpoise.orchestration.statsd", __name__),
    )
)
_MAX_WARNINGS_KEPT: Final = 20

Step = Callable[[Any, "PlannedRun", Callable[[str], None]], float | None]


class StepUntilDone(BaseOperator):
    """Calls `step(installation, run, log)` until it returns None; a number is how many seconds to
    wait before the next call.
    """

    operator_extra_links = (RUN,)

    def __init__(
        self,
        *,
        step: Step,
        min_wait_seconds: float = MIN_WAIT_SECONDS,
        **arguments: Any,
    ) -> None:
        super().__init__(**arguments)
        self.step = step
        self.min_wait_seconds = min_wait_seconds

    def execute(
        self,
        context: Any,
        event: Any = None,
        failed_looks: int = 0,
        warned_of: Collection[str] = (),
    ) -> None:
        """Do a step, and further ones as long as each asks for a short wait only.

        `event` is the time at which the trigger fired; `failed_looks` counts the failed steps in a
        row before this one. `warned_of` are the warnings of the steps before.
        """
        wait_seconds: float | None
        failed_steps = failed_looks
        with only_new_warnings(warned_of) as now_warned_of:
            try:
                wait_seconds = self._do_steps(context["ti"], was_deferred=event is not None)
                failed_steps = 0
            except CounterpoiseError as error:
                failed_steps += 1
                if not error.retryable or failed_steps > MAX_FAILED_STEPS:
                    raise
                _LOGGER.warning(
                    "this step failed and is repeated; after %d in a row the task fails: %s",
                    MAX_FAILED_STEPS + 1,
                    error,
                )
                wait_seconds = self.min_wait_seconds
                # A step that failed says nothing of the others.
                now_warned_of += [text for text in warned_of if text not in now_warned_of]
        if wait_seconds is None:
            return
        kwargs: dict[str, Any] = {"failed_looks": failed_steps}
        if now_warned_of:
            kwargs["warned_of"] = now_warned_of
        pause_seconds = max(wait_seconds, self.min_wait_seconds)
        self.defer(trigger=WaitTrigger(seconds=pause_seconds), method_name="execute", kwargs=kwargs)

    def _do_steps(self, ti: Any, *, was_deferred: bool) -> float | None:
        from counterpoise.services import metrics

        with airflow_installation() as installation:
            run = planned_run(installation, ti)
            wait_seconds = self.step(installation, run, _LOGGER.info)
            for _ in range(MAX_SHORT_WAITS):
                if wait_seconds is None or wait_seconds > SHORT_WAIT_SECONDS:
                    break
                time.sleep(wait_seconds)
                wait_seconds = self.step(installation, run, _LOGGER.info)
            if not was_deferred or wait_seconds is None:
                tell_about_run(installation, run["run_id"])
            send_gauges(lambda: metrics.samples_of_run(installation, run["run_id"]))
        return wait_seconds


@contextmanager
def only_new_warnings(known: Collection[str]) -> Iterator[list[str]]:
    """Log a warning when it begins, and a line when it has ended; `known` are those of the steps
    before. Yields the list of those that hold now.
    """
    now: list[str] = []

    def is_new(record: logging.LogRecord) -> bool:
        text = record.getMessage()
        is_repeated = text in known or text in now
        if record.levelno >= logging.WARNING and text not in now and len(now) < _MAX_WARNINGS_KEPT:
            now.append(text)
        return not is_repeated

    for logger in _REPEATING:
        logger.addFilter(is_new)
    try:
        yield now
    finally:
        for logger in _REPEATING:
            logger.removeFilter(is_new)
    for text in known:
        if text not in now:
            _LOGGER.info("no longer so: %s", text)


def execute_step(installation: Any, run: "PlannedRun", log: Callable[[str], None]) -> float | None:
    """Do one step of the task `execute`."""
    from counterpoise.services import execution

    return execution.execute_step(installation, run["run_id"], run["fingerprint"], log)


def settle_step(installation: Any, run: "PlannedRun", log: Callable[[str], None]) -> float | None:
    """Do one step of the task `settle`."""
    from counterpoise.services import execution

    return execution.settle_step(installation, run["run_id"], log)
