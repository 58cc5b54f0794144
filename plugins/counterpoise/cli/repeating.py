"""One step after another until none is left, through trouble that may pass.

repeat(driver.step, console.print)
driver = retried(open_run, console.print, passing=(StepLockHeldError,))
"""

from collections.abc import Callable
from time import monotonic, sleep
from typing import Final, TypeVar

from counterpoise.errors import ClusterError, CounterpoiseError, LedgerError, StepLockHeldError
from counterpoise.model.run import STEP_LOCK_SECONDS

PATIENCE_SECONDS: Final = 2 * STEP_LOCK_SECONDS
_AGAIN_SECONDS: Final = 1.0
_PASSING: Final = (StepLockHeldError, ClusterError, LedgerError)

T = TypeVar("T")


def repeat(step: Callable[[], float | None], log: Callable[[str], None]) -> None:
    """Call `step` until it returns None; a number is how many seconds to wait before the next call.

    An error that may pass is waited out, as `retried` does.
    """
    wait_seconds: float | None = 0.0
    while wait_seconds is not None:
        sleep(wait_seconds)
        wait_seconds = retried(step, log)


def retried(
    call: Callable[[], T],
    log: Callable[[str], None],
    *,
    passing: tuple[type[CounterpoiseError], ...] = _PASSING,
) -> T:
    """Return what `call` returns, and wait out errors that may pass.

    These are the step lock of a process that was killed, a cluster or a ledger that does not
    respond for a while, a call whose outcome is not known (the next step observes it). An error is
    raised when it lasts longer than twice the step lock.
    """
    give_up_at = monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return call()
        except passing as error:
            if not error.retryable or monotonic() > give_up_at:
                raise
            log(f"{error}; trying again")
            sleep(_AGAIN_SECONDS)
