"""A trigger that waits for some seconds, and logs nothing while it does.

    self.defer(trigger=WaitTrigger(seconds=10), method_name="execute")

It is told for how long, not until when: the clocks of a worker and of the triggerer may differ. One
that goes to another triggerer waits anew.

That of Airflow's standard provider writes a line a second into the task's log. The triggerer has to
know this class: it is restarted before the workers when Counterpoise is updated.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from airflow.triggers.base import BaseTrigger, TriggerEvent

# The clock may be set meanwhile, so it is read again now and then.
MAX_SLEEP: Final = timedelta(seconds=60)


class WaitTrigger(BaseTrigger):
    """Fires after so many seconds, with the time as text; where a worker of an earlier release
    deferred the task, at `moment` (UTC).
    """

    def __init__(self, moment: str | None = None, seconds: float = 0.0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.moment = moment
        self.seconds = seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what makes this trigger again in the triggerer."""
        arguments = {"moment": self.moment} if self.moment else {"seconds": self.seconds}
        return f"{__name__}.{type(self).__name__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait, then yield the only event."""
        await asyncio.sleep(self.seconds)
        moment = datetime.fromisoformat(self.moment) if self.moment else datetime.now(UTC)
        while (left := moment - datetime.now(UTC)) > timedelta(0):
            await asyncio.sleep(min(left, MAX_SLEEP).total_seconds())
        yield TriggerEvent(moment.isoformat())  # type: ignore[no-untyped-call]
