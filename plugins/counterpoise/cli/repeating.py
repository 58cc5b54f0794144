"""One step after another until none is left, through trouble that may pass.

repeat(driver.step, console.print)
"""

from collections.abc import Callable
from time import monotonic, sleep
from typing import Final

from counterpoise.errors import ClusterError, LedgerError, StepLockHeldError
from counterpoise.model.run import STEP_LOCK_SECONDS

PATIENCE_SECONDS: Final = 2 * STEP_LOCK_SECONDS
_AGAIN_SECONDS: Final = 1.0


def repeat(step: Callable[[], float | None], log: Callable[[str], None]) -> None:
    """Call `step` until it returns None; a number is how many seconds to wait before the next call.

    An error that may pass is waited out: the step lock of a process that was killed, a cluster or a
    ledger that does not respond for a while, a call whose outcome is not known (the next step
    observes it). It is raised when it lasts longer than twice the step lock.
    """
    give_up_at = monotonic() + PATIENCE_SECONDS
    wait_seconds: float | None = 0.0
    while wait_seconds is not None:
        sleep(wait_seconds)
        try:
            wait_seconds = step()
        except (StepLockHeldError, ClusterError, LedgerError) as error:
            if not error.retryable or monotonic() > give_up_at:
                raise
            log(f"{error}; trying again")
            wait_seconds = _AGAIN_SECONDS
        else:
            give_up_at = monotonic() + PATIENCE_SECONDS
