"""A trigger that waits until a time, and logs nothing while it does.

    self.defer(trigger=WaitTrigger(moment), method_name="execute")

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
    """Fires at `moment` (UTC), with that moment as text."""

    def __init__(self, moment: str | datetime) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.moment = datetime.fromisoformat(moment) if isinstance(moment, str) else moment

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what makes this trigger again in the triggerer."""
        return f"{__name__}.{type(self).__name__}", {"moment": self.moment.isoformat()}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait, then yield the only event."""
        while (left := self.moment - datetime.now(UTC)) > timedelta(0):
            await asyncio.sleep(min(left, MAX_SLEEP).total_seconds())
        yield TriggerEvent(self.moment.isoformat())  # type: ignore[no-untyped-call]
