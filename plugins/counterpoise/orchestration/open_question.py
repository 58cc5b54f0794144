"""A trigger that waits beside an open question, and closes it where there is nothing to answer.

    self.defer(trigger=QuestionTrigger(ti.id, run_id, until, "Reject"), method_name=...)

An answer needs no trigger: Airflow's api-server lets the task go on with it. The trigger notices
what else ends a question: time is up, or the ledger has the run as superseded or rejected. It then
answers with the default, by nobody, so that the question leaves Airflow's required actions, and the
task ends with what the ledger says.

    run superseded at 10:00:03 -> noticed by 10:00:18 -> the task ends as superseded

Limits: while the ledger cannot be asked (it is away, or this triggerer has no settings), only an
answer and the end of the time close a question; the task's log says so, once. The triggerer has to
know this class: it is restarted before the workers when Counterpoise is updated.
"""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from airflow.sdk.execution_time.hitl import (
    get_hitl_detail_content_detail,
    update_hitl_detail_response,
)
from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from counterpoise.errors import CounterpoiseError
from counterpoise.model.run import RunState
from counterpoise.model.safe_text import safe_logger

if TYPE_CHECKING:
    from counterpoise.installation import Installation

POLL_SECONDS: Final = 15.0
# Nobody can say yes or no to such a run any more.
CLOSED_STATES: Final = (RunState.REJECTED, RunState.SUPERSEDED)
_LOGGER = safe_logger(__name__)


class _SharedLedger:
    """The ledger as all triggers of a process ask it: opened once, and asked in a thread of its
    own, so that one that does not answer holds up no other trigger.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="counterpoise-ledger")
        self._installation: Installation | None = None

    async def is_over(self, run_id: str, until: datetime) -> bool:
        """Return whether nobody can answer about a run any more, or time is up by the ledger's
        clock: the triggerer's and that of the worker that asked may differ. Raises
        CounterpoiseError.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._is_over, run_id, until)

    def _is_over(self, run_id: str, until: datetime) -> bool:
        from counterpoise.installation import open_worker_installation

        try:
            if self._installation is None:
                self._installation = open_worker_installation(may_migrate_ledger=False)
            ledger = self._installation.ledger
            return ledger.now() >= until or ledger.run(run_id).state in CLOSED_STATES
        except Exception:
            self._forget()
            raise

    def _forget(self) -> None:
        """Close the ledger; it is opened anew, since its address or password may be another one."""
        installation, self._installation = self._installation, None
        if installation is not None:
            installation.close()


LEDGER = _SharedLedger()


class QuestionTrigger(BaseTrigger):
    """Fires once, with the event that lets the asking task go on, for the run of the ledger that it
    asks about; `until` (UTC) is when time is up, by the ledger's clock.
    """

    def __init__(
        self, ti_id: str | UUID, ledger_run_id: str, until: str | datetime, default: str
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ti_id = UUID(str(ti_id))
        self.ledger_run_id = ledger_run_id
        self.until = datetime.fromisoformat(until) if isinstance(until, str) else until
        self.default = default
        self._is_early_answer_read = False
        self._reported: set[str] = set()

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what makes this trigger again in the triggerer."""
        return f"{__name__}.{type(self).__name__}", {
            "ti_id": str(self.ti_id),
            "ledger_run_id": self.ledger_run_id,
            "until": self.until.isoformat(),
            "default": self.default,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait, then yield the only event."""
        while True:
            # First of all: Airflow may take a task for failed that goes on before it was seen to
            # park.
            await asyncio.sleep(POLL_SECONDS)
            try:
                payload = await self._payload()
            except Exception as error:  # noqa: BLE001 - a trigger that fails takes its task along
                self._warn_once("Airflow does not say what was answered, and is asked again", error)
                continue
            if payload is not None:
                yield TriggerEvent(payload)  # type: ignore[no-untyped-call]
                return

    async def _payload(self) -> dict[str, Any] | None:
        """Return the event's payload; None while the question stays open."""
        if not self._is_early_answer_read:
            # One that came before the task had parked let nothing go on.
            if (answered := await self._answer()) is not None:
                return answered
            self._is_early_answer_read = True
        if not await self._is_over():
            return None
        return await self._answer() or await self._close()

    async def _is_over(self) -> bool:
        try:
            return await LEDGER.is_over(self.ledger_run_id, self.until)
        except Exception as error:  # noqa: BLE001 - answers count all the same
            self._warn_once("whether the run is closed cannot be asked; answers still count", error)
            return datetime.now(UTC) >= self.until

    async def _answer(self) -> dict[str, Any] | None:
        return _payload_of(await sync_to_async(get_hitl_detail_content_detail)(ti_id=self.ti_id))

    async def _close(self) -> dict[str, Any] | None:
        """Answer with the default, by nobody. Raises where somebody was faster."""
        _LOGGER.info("the question about run %s is closed: nobody answered", self.ledger_run_id)
        return _payload_of(
            await sync_to_async(update_hitl_detail_response)(
                ti_id=self.ti_id, chosen_options=[self.default], params_input={}
            )
        )

    def _warn_once(self, what: str, error: Exception) -> None:
        if what not in self._reported:
            self._reported.add(what)
            is_ours = isinstance(error, CounterpoiseError)  # others may show an address
            _LOGGER.warning("%s: %s", what, error if is_ours else type(error).__name__)


def _payload_of(detail: Any) -> dict[str, Any] | None:
    """Return what the api-server would hand to the task; None for a question without an answer."""
    if not detail.response_received or not detail.chosen_options:
        return None
    user = detail.responded_by_user
    return {
        "chosen_options": list(detail.chosen_options),
        "params_input": detail.params_input or {},
        "responded_at": detail.responded_at,
        "responded_by_user": {"id": user.id, "name": user.name} if user else None,
        "timedout": user is None,
    }
