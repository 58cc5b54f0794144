"""A trigger that waits for some seconds, and logs nothing while it does.

    self.defer(trigger=WaitTrigger(seconds=10), method_name="execute")

It is told for how long, not until when: the clocks of a worker and of the triggerer may differ. One
that goes to another triggerer waits anew.

That of Airflow's standard provider writes a line a second into the task's log. The triggerer has to
know this class: it is restarted before the workers when Counterpoise is updated.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent


class WaitTrigger(BaseTrigger):
    """Fires after so many seconds, with the time as text."""

    def __init__(self, seconds: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seconds = seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what makes this trigger again in the triggerer."""
        return f"{__name__}.{type(self).__name__}", {"seconds": self.seconds}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait, then yield the only event."""
        await asyncio.sleep(self.seconds)
        yield TriggerEvent(datetime.now(UTC).isoformat())  # type: ignore[no-untyped-call]
