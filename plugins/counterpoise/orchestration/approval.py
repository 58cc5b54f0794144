"""The task `approve`: Airflow shows that a plan waits, the ledger alone holds the answer.

    approve = LedgerApproval(task_id="approve", retries=20, retry_delay=timedelta(seconds=10))

The task writes Airflow's Human-in-the-loop detail (Required Actions, its counter, filters and
notifiers), and is deferred on a trigger that reads the ledger. People answer on the plan's page,
by command or by the API. The only option of the question decides nothing: whoever chooses it lets
the task read the ledger, and ask again while that is undecided. A no skips all that follows. A
wait that is over by the ledger's clock is recorded there as timed out. A rule of the policy may
approve instead of people; then nobody is asked.

Limits: never inside a mapped task group, where Airflow does not stop what follows a skip. Airflow
keeps the text of a task's first question. Each click within 10 s of the question costs a try, since
Airflow fails a task that goes on before the scheduler has seen it wait: hence the many retries.
"""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from airflow.providers.standard.operators.hitl import HITLEntryOperator
from airflow.sdk.exceptions import AirflowSkipException, TaskAwaitingInput
from airflow.sdk.execution_time.hitl import (
    get_hitl_detail_content_detail,
    update_hitl_detail_response,
)
from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from counterpoise.errors import CounterpoiseError, RefusedError, RunConflictError
from counterpoise.model.approval import Decision
from counterpoise.model.person import Person
from counterpoise.model.run import RunState
from counterpoise.model.safe_text import safe_logger
from counterpoise.orchestration.delivery import tell_about_run
from counterpoise.orchestration.handover import planned_run
from counterpoise.orchestration.installation import airflow_installation
from counterpoise.orchestration.links import RUN, page_url

if TYPE_CHECKING:
    from counterpoise.installation import Installation
    from counterpoise.services.approvals import Question
    from counterpoise.services.plans import PlannedRun

OPTION: Final = "Answered on the plan's page"
NOBODY: Final = Person.unknown("nobody")  # who decided where nobody answered in time
POLL_SECONDS: Final = 10.0
# After the end of the time, for a triggerer that is restarted meanwhile.
_TRIGGER_GRACE: Final = timedelta(minutes=10)
_READ_AGAIN: Final = timedelta(seconds=60)  # where the triggerer cannot
_TRIGGER_FAILED: Final = "__fail__"  # Airflow's word for: the trigger failed, or took too long
_LOGGER = safe_logger(__name__)


class LedgerApproval(HITLEntryOperator):
    """Waits until the ledger has decided about the run's plan; see the module's docstring."""

    # Subject and body hold names from the cluster. They are set at run time and must never pass
    # through Jinja.
    template_fields = ()
    operator_extra_links = (RUN,)

    def __init__(self, **arguments: Any) -> None:
        super().__init__(subject="A plan waits", options=[OPTION], **arguments)

    def execute(self, context: Any) -> None:
        """End with the ledger's answer; where there is none yet, ask, and wait for it."""
        from counterpoise.services import approvals, runs

        with airflow_installation() as installation:
            run = planned_run(installation, context["ti"])
            _approve_by_rule(installation, run)
            question = approvals.open_question(installation, run["run_id"])
            if question is not None and not question.time_left:
                _time_out(installation, run, question.seen)
                question = approvals.open_question(installation, run["run_id"])
            tell_about_run(installation, run["run_id"])
            ended = runs.ended_by_people(installation, run["run_id"])
        if question is not None:
            self._ask(context, run, question)
        if ended:
            raise AirflowSkipException(f"run {run['run_id']} is {ended}")

    def _ask(self, context: Any, run: "PlannedRun", question: "Question") -> None:
        """Show the question, and wait outside the workers. Airflow's notifiers tell of it once."""
        page = page_url(f"runs/{run['run_id']}")
        self.subject = question.plan.sentence
        link = f"[Answer on the plan's page]({page})"
        self.body = "\n\n".join((*question.plan.lines, link))
        if not question.is_first:
            self.notifiers = []
        try:
            super().execute(context)
        except TaskAwaitingInput:  # the question is open now
            trigger = LedgerTrigger(
                context["ti"].id, run["run_id"], question.seen, question.until.isoformat()
            )
            timeout = question.time_left + _TRIGGER_GRACE
            self.defer(trigger=trigger, method_name="go_on", timeout=timeout)

    def go_on(self, context: Any, event: Any = None) -> None:
        """Read the ledger: it has news, or somebody chose the option (`event` is theirs)."""
        del event
        self.execute(context)

    def resume_execution(
        self, next_method: str, next_kwargs: dict[str, Any] | None, context: Any
    ) -> Any:
        """Go on; without a trigger (it failed, or its class is not known) read the ledger later."""
        if next_method != _TRIGGER_FAILED:
            return super().resume_execution(next_method, next_kwargs, context)
        _LOGGER.warning(
            "The triggerer does not read the ledger for this task (%s): the task does so itself, "
            "every %d s. Restart the triggerer after an update, and see its log",
            (next_kwargs or {}).get("error", "no reason given"),
            _READ_AGAIN.total_seconds(),
        )
        raise TaskAwaitingInput(method_name="go_on", timeout=_READ_AGAIN)


def _approve_by_rule(installation: "Installation", run: "PlannedRun") -> None:
    """Record the yes of a rule of the policy, where one approves the plan."""
    from counterpoise.services import approvals

    if not approvals.is_for_a_rule(installation, run["run_id"]):
        return
    try:
        approval = approvals.approve_by_rule(installation, run["run_id"], run["fingerprint"])
    except RefusedError as error:
        _LOGGER.info("people decide: %s", error)
        return
    _LOGGER.info("approved by %s: %s", approval.person.shown, approval.reason)


def _time_out(installation: "Installation", run: "PlannedRun", seen: str) -> None:
    """Record that nobody answered in time; somebody may have been faster."""
    from counterpoise.services import approvals

    try:
        approvals.end_unanswered(
            installation,
            installation.ledger.run(run["run_id"]),
            decision=Decision.TIMED_OUT,
            by=NOBODY,
            reason="nobody answered in time",
            seen=seen,
        )
    except RunConflictError as error:
        _LOGGER.info("not timed out: %s", error)


class _SharedLedger:
    """The ledger as all triggers of a process ask it: opened once, and asked in a thread of its
    own, so that one that does not answer holds up no other trigger.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="counterpoise-ledger")
        self._installation: Installation | None = None

    async def read(self, run_id: str) -> tuple[str, datetime]:
        """Return what was answered about a run, and the ledger's time. Raises CounterpoiseError."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._read, run_id)

    def _read(self, run_id: str) -> tuple[str, datetime]:
        from counterpoise.installation import open_worker_installation

        try:
            if self._installation is None:
                self._installation = open_worker_installation(may_migrate_ledger=False)
            ledger = self._installation.ledger
            return ledger.answer_seen(run_id), ledger.now()
        except Exception:
            self._forget()
            raise

    def _forget(self) -> None:
        """Close the ledger; it is opened anew, since its address or password may be another one."""
        installation, self._installation = self._installation, None
        if installation is not None:
            installation.close()


LEDGER = _SharedLedger()


class LedgerTrigger(BaseTrigger):
    """Fires once the ledger has news of a run, time is up by its clock, or somebody has answered in
    Airflow. It closes the question in Airflow where there is nothing to answer any more.
    """

    def __init__(self, ti_id: str | UUID, ledger_run_id: str, seen: str, until: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ti_id = UUID(str(ti_id))
        self.ledger_run_id = ledger_run_id
        self.seen = seen
        self.until = datetime.fromisoformat(until)
        self._reported: set[str] = set()

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what makes this trigger again in the triggerer."""
        return f"{__name__}.{type(self).__name__}", {
            "ti_id": str(self.ti_id),
            "ledger_run_id": self.ledger_run_id,
            "seen": self.seen,
            "until": self.until.isoformat(),
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait, then yield the only event; errors are logged, since they would fail the task."""
        while True:
            # First of all: Airflow may fail a task that goes on before it was seen to defer.
            await asyncio.sleep(POLL_SECONDS)
            try:
                if await self._has_news():
                    yield TriggerEvent("the ledger has news")  # type: ignore[no-untyped-call]
                    return
            except Exception as error:  # noqa: BLE001
                is_ours = isinstance(error, CounterpoiseError)  # others may show an address
                self._warn_once(str(error) if is_ours else type(error).__name__)

    async def _has_news(self) -> bool:
        """Return whether the task has to go on; an answer in Airflow that came before the task had
        deferred has let nothing go on.
        """
        detail = await sync_to_async(get_hitl_detail_content_detail)(ti_id=self.ti_id)
        if detail.response_received:
            return True
        seen, now = await LEDGER.read(self.ledger_run_id)
        is_over = now >= self.until
        has_news = is_over or seen != self.seen
        if has_news and (is_over or not seen.startswith(RunState.PROPOSED)):
            await sync_to_async(update_hitl_detail_response)(
                ti_id=self.ti_id, chosen_options=[OPTION], params_input={}
            )
        return has_news

    def _warn_once(self, reason: str) -> None:
        if reason not in self._reported:
            self._reported.add(reason)
            _LOGGER.warning(
                "whether run %s is answered cannot be asked now, and is asked again every %d s: %s",
                self.ledger_run_id,
                POLL_SECONDS,
                reason,
            )
