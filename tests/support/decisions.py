"""People, and what they decide about a plan, in the ledger.

grant(installation, run, rate="1MB/s")
reject(installation, run, by="bob", reason="not this week")
"""

from counterpoise import controls
from counterpoise.installation import Installation
from counterpoise.model.approval import Decision
from counterpoise.model.person import Person
from counterpoise.model.run import Run
from counterpoise.services.plans import PlannedRun

ALICE, BOB, CAROL = map(Person.airflow, ("alice", "bob", "carol"))


def grant(
    installation: Installation,
    run: Run | PlannedRun,
    *,
    by: str | Person = "alice",
    reason: str = "test",
    rate: str = "1MB/s",
) -> None:
    _decide(installation, run, Decision.GRANTED, by, reason, rate)


def reject(
    installation: Installation,
    run: Run | PlannedRun,
    *,
    by: str | Person = "alice",
    reason: str = "not this week",
) -> None:
    _decide(installation, run, Decision.REJECTED, by, reason, None)


def _decide(
    installation: Installation,
    run: Run | PlannedRun,
    decision: Decision,
    by: str | Person,
    reason: str,
    rate: str | None,
) -> None:
    is_row = isinstance(run, Run)
    controls.record_decision(
        installation,
        run.run_id if is_row else run["run_id"],
        run.fingerprint if is_row else run["fingerprint"],
        decision=decision,
        by=by if isinstance(by, Person) else Person.airflow(by),
        reason=reason,
        rate=rate,
    )
