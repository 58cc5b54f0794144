"""Two people, or a rule of the policy and a person, answer at one instant, in two processes on one
ledger.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from counterpoise.errors import NotApprovedError, RefusedError
from counterpoise.installation import Installation
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.person import Person
from counterpoise.model.run import RunState
from counterpoise.services import approvals, requests
from counterpoise.services.plans import PlannedRun
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.simulation import test_approval_by_rule as by_rule
from tests.simulation.test_approval_by_rule import ALICE, approve_by
from tests.support.decisions import BOB
from tests.support.installations import installation_over
from tests.support.ledger_view import change_state

kafka, under, ruled, run = by_rule.kafka, by_rule.under, by_rule.ruled, by_rule.run


@pytest.fixture
def other(tmp_path: Path, kafka: SimulatedCluster, run: PlannedRun) -> Installation:
    """The same installation in another process: connections of its own."""
    clusters = by_rule.POLICY.format(f"automatic: [{by_rule.RULE}]")
    return installation_over(tmp_path, lambda _: kafka, clusters=clusters)


def run_and_halt(installation: Installation, run: PlannedRun) -> None:
    approve_by(installation, run, ALICE)
    by_rule.start(installation, run)
    for state in (RunState.SETTLING, RunState.HALTED):
        change_state(installation.ledger, run["run_id"], state)


def freeze(installation: Installation, _run: PlannedRun) -> None:
    requests.freeze(installation, "demo", until="8h", by=ALICE, why="month end")


def approve_slowly(installation: Installation, run: PlannedRun) -> None:
    approve_by(installation, run, ALICE, rate="5MB/s")


def reject(installation: Installation, run: PlannedRun) -> None:
    approve_by(installation, run, ALICE, decision=Decision.REJECTED)


@pytest.mark.parametrize(
    ("meanwhile", "state"),
    [
        (approve_slowly, RunState.APPROVED),
        (reject, RunState.REJECTED),
        (run_and_halt, RunState.HALTED),
        (freeze, RunState.PROPOSED),
    ],
)
def test_a_rule_approves_nothing_that_a_person_has_decided_since_it_was_checked(
    monkeypatch: pytest.MonkeyPatch,
    ruled: Installation,
    run: PlannedRun,
    other: Installation,
    meanwhile: Callable[[Installation, PlannedRun], None],
    state: RunState,
) -> None:
    record = ruled.ledger.record_decision

    def record_late(approval: Approval, **named: Any) -> None:
        meanwhile(other, run)
        record(approval, **named)

    monkeypatch.setattr(ruled.ledger, "record_decision", record_late)
    with pytest.raises(RefusedError):
        approvals.approve_by_rule(ruled, run["run_id"], run["fingerprint"])
    recorded = ruled.ledger.approvals_of(run["run_id"])
    assert not any(approval.person.is_rule for approval in recorded)
    assert ruled.ledger.run(run["run_id"]).state is state
    if not recorded or recorded[-1].decision is Decision.REJECTED:
        with pytest.raises((NotApprovedError, RefusedError)):
            by_rule.start(ruled, run)


def test_of_two_yeses_at_one_instant_the_first_one_counts(
    monkeypatch: pytest.MonkeyPatch, ruled: Installation, run: PlannedRun, other: Installation
) -> None:
    """As one after the other: the same one again is no error, another person's decides nothing."""
    record = ruled.ledger.record_decision

    def record_late(approval: Approval, **named: Any) -> None:
        if not other.ledger.approvals_of(run["run_id"]):
            approve_slowly(other, run)
        record(approval, **named)

    monkeypatch.setattr(ruled.ledger, "record_decision", record_late)

    def say_yes(by: Person, rate: str) -> Approval:
        return approvals.answer(
            ruled,
            run["run_id"],
            run["fingerprint"],
            decision=Decision.GRANTED,
            by=by,
            reason="at once",
            rate=rate,
        )

    with pytest.raises(RefusedError, match="waits for no answer any more"):
        say_yes(BOB, "20MB/s")
    (first,) = ruled.ledger.approvals_of(run["run_id"])
    assert say_yes(ALICE, "5MB/s") == first
    assert ruled.ledger.approvals_of(run["run_id"]) == (first,)
