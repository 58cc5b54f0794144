"""What counts as an answer: one with a reason, in time, for the plan of its run."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from counterpoise.errors import InputError, RefusedError, RunConflictError, StalePlanError
from counterpoise.installation import Installation
from counterpoise.model.approval import Decision
from counterpoise.model.person import Person
from counterpoise.model.run import RunState
from counterpoise.services import approvals, execution
from counterpoise.services.plans import PlannedRun
from tests.simulation import test_approval_by_rule as by_rule
from tests.simulation.test_approval_by_rule import ALICE, approve_by, planned
from tests.support.installations import set_clock

kafka, under, ruled, run = by_rule.kafka, by_rule.under, by_rule.ruled, by_rule.run
ANOTHER = f"sha256:{'0' * 64}"


@pytest.mark.parametrize("decision", [Decision.GRANTED, Decision.REJECTED])
def test_an_answer_to_another_plan_decides_nothing(
    ruled: Installation, run: PlannedRun, decision: Decision
) -> None:
    answer = {"by": ALICE, "reason": "broker 3", "rate": "20MB/s"}
    with pytest.raises(StalePlanError):
        approvals.answer(ruled, run["run_id"], ANOTHER, decision=decision, **answer)
    assert ruled.ledger.approvals_of(run["run_id"]) == ()
    assert ruled.ledger.run(run["run_id"]).state is RunState.PROPOSED


def test_a_yes_that_comes_too_late_grants_nothing_and_a_no_counts(
    ruled: Installation, run: PlannedRun
) -> None:
    asked = approvals.open_question(ruled, run["run_id"])
    clock = ruled.clock
    assert asked is not None and asked.is_first
    set_clock(ruled, lambda: clock() + timedelta(hours=25))
    with pytest.raises(RefusedError, match="the time to answer about run"):
        approve_by(ruled, run, ALICE)
    assert ruled.ledger.run(run["run_id"]).state is RunState.PROPOSED
    approve_by(ruled, run, ALICE, decision=Decision.REJECTED)
    assert ruled.ledger.run(run["run_id"]).state is RunState.REJECTED


def test_a_question_that_is_asked_again_waits_no_longer(
    ruled: Installation, run: PlannedRun
) -> None:
    first = approvals.open_question(ruled, run["run_id"])
    clock = ruled.clock
    set_clock(ruled, lambda: clock() + timedelta(hours=3))
    again = approvals.open_question(ruled, run["run_id"])
    assert first is not None and again is not None
    assert (again.until, again.is_first) == (first.until, False)
    assert first.time_left - again.time_left >= timedelta(hours=3)


def test_silence_is_recorded_only_where_nobody_has_answered_since(
    ruled: Installation, run: PlannedRun
) -> None:
    """The yes of the last moment counts."""
    question = approvals.open_question(ruled, run["run_id"])
    assert question is not None
    approve_by(ruled, run, ALICE)
    waits, nobody = ruled.ledger.run(run["run_id"]), Person.unknown("nobody")
    silence = {"decision": Decision.TIMED_OUT, "reason": "x", "seen": question.seen}
    with pytest.raises(RunConflictError):
        approvals.end_unanswered(ruled, waits, by=nobody, **silence)  # type: ignore[arg-type]
    assert ruled.ledger.run(run["run_id"]).state is RunState.APPROVED


def test_a_run_does_not_start_with_another_plan(ruled: Installation, run: PlannedRun) -> None:
    approve_by(ruled, run, ALICE)
    with pytest.raises(StalePlanError):
        execution.open_run(ruled, run["run_id"], ANOTHER)
    assert ruled.ledger.run(run["run_id"]).state is RunState.APPROVED


@pytest.mark.parametrize("decision", [Decision.GRANTED, Decision.REJECTED])
def test_an_answer_without_a_reason_decides_nothing(
    ruled: Installation, run: PlannedRun, decision: Decision
) -> None:
    with pytest.raises(InputError, match="reason"):
        approve_by(ruled, run, ALICE, decision=decision, reason=" ")
    assert ruled.ledger.approvals_of(run["run_id"]) == ()


def test_an_approval_lasts_for_as_long_as_the_policy_says(
    under: Callable[[str], Installation],
) -> None:
    installation = under("wait_for: 1h, expires_after: 3h")
    run = planned(installation)
    approve_by(installation, run, ALICE)
    (approval,) = installation.ledger.approvals_of(run["run_id"])
    assert approval.expires_at == approval.at + timedelta(hours=3)
