"""What counts as an answer: one with a reason, for the plan of its question and of its run."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from counterpoise import controls, pipeline
from counterpoise.errors import InputError, StalePlanError
from counterpoise.installation import Installation
from counterpoise.model.approval import Decision
from counterpoise.model.run import RunState
from counterpoise.pipeline import PlannedRun
from tests.simulation import test_approval_by_rule as by_rule
from tests.simulation.test_approval_by_rule import ALICE, TASK, approve_by, planned

kafka, under, ruled, run = by_rule.kafka, by_rule.under, by_rule.ruled, by_rule.run
ANOTHER = f"sha256:{'0' * 64}"


@pytest.mark.parametrize("decision", [Decision.GRANTED, Decision.REJECTED])
def test_an_answer_to_another_plan_decides_nothing(
    ruled: Installation, run: PlannedRun, decision: Decision
) -> None:
    answer = {"by": ALICE, "reason": "broker 3", "rate": "20MB/s"}
    with pytest.raises(StalePlanError):
        controls.record_decision(ruled, run["run_id"], ANOTHER, decision=decision, **answer)
    assert ruled.ledger.approvals_of(run["run_id"]) == ()
    assert ruled.ledger.run(run["run_id"]).state is RunState.PROPOSED


def test_the_answer_has_to_name_the_plan_of_the_question(
    ruled: Installation, run: PlannedRun
) -> None:
    pipeline.put_question(ruled, TASK)
    assert pipeline.check_answer(ruled, TASK, run["fingerprint"]) == run
    for shown in (ANOTHER, ""):
        with pytest.raises(StalePlanError):
            pipeline.check_answer(ruled, TASK, shown)


def test_a_run_does_not_start_with_another_plan(ruled: Installation, run: PlannedRun) -> None:
    approve_by(ruled, run, ALICE)
    with pytest.raises(StalePlanError):
        pipeline.open_run(ruled, run["run_id"], ANOTHER)
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
