"""People, and what they decide about a plan, in the ledger.

grant(installation, run, rate="1MB/s")
reject(installation, run, by="bob", reason="not this week")
"""

from counterpoise.installation import Installation
from counterpoise.model.approval import Decision
from counterpoise.model.person import Person
from counterpoise.model.run import VALIDATED, Run, validated_at
from counterpoise.services import approvals
from counterpoise.services.plans import PlannedRun
from tests.support.ledger_view import LedgerView, add_event

ALICE, BOB, CAROL = map(Person.airflow, ("alice", "bob", "carol"))


def grant(
    installation: Installation,
    run: Run | PlannedRun,
    *,
    by: str | Person = "alice",
    reason: str = "test",
    rate: str = "1MB/s",
) -> None:
    decide(installation, _id(run), Decision.GRANTED, by, reason=reason, rate=rate)


def reject(
    installation: Installation,
    run: Run | PlannedRun,
    *,
    by: str | Person = "alice",
    reason: str = "not this week",
) -> None:
    decide(installation, _id(run), Decision.REJECTED, by, reason=reason)


def _id(run: Run | PlannedRun) -> str:
    return run.run_id if isinstance(run, Run) else run["run_id"]


def decide(
    installation: Installation,
    run_id: str,
    decision: Decision,
    by: str | Person,
    *,
    reason: str = "test",
    rate: str = "",
) -> None:
    """Answer as somebody does by command about a plan; nothing spoke against it. Who is no human
    ends its wait, as a Dag does.
    """
    run = installation.ledger.run(run_id)
    by = by if isinstance(by, Person) else Person.airflow(by)
    if not by.is_human:
        approvals.end_unanswered(installation, run, decision=decision, by=by, reason=reason)
        return
    if validated_at(run, LedgerView.of(installation.ledger).events(run_id)) is None:
        add_event(installation.ledger, run_id, VALIDATED, run.fingerprint)
    approvals.answer(
        installation,
        run_id,
        run.fingerprint,
        decision=decision,
        by=by,
        reason=reason,
        rate=rate,
    )
