"""What the task `propose` of the analysis does with its own plan that waits for an answer."""

from typing import Any

import pytest

from counterpoise.installation import Installation
from counterpoise.model.person import Person
from counterpoise.model.request import Goal, RebalanceRequest
from counterpoise.model.run import RunState
from counterpoise.orchestration.handover import withdraw_unneeded
from tests.dags.test_recorded_approval import answer, ask, asked, planned
from tests.simulation.test_pipeline import EVEN, analyse_by_hand

__all__ = ["asked"]  # a fixture


@pytest.mark.parametrize("user", ["alice", None], ids=["yes", "time up"])
def test_the_dag_run_of_a_withdrawn_plan_ends_as_rejected_with_the_reason(
    installation: Installation,
    asked: list[dict[str, Any]],
    user: str | None,
) -> None:
    analyse_by_hand(installation)
    wanted = RebalanceRequest(Goal.ADD_BROKERS, (3,))
    run = planned(installation, wanted, by=Person.of_analysis())
    ask()
    withdraw_unneeded(installation, "demo")
    assert installation.ledger.run(run["run_id"]).state is RunState.PROPOSED, "still needed"
    analyse_by_hand(installation, EVEN)
    for _ in range(2):
        withdraw_unneeded(installation, "demo")
    task = answer(asked[-1], "Approve", user, rate="5MB/s", reason="x")
    assert task.pushed["decision"] == {
        "decision": "rejected",
        "reason": "no longer needed: no live broker is idle, and leaders are even enough",
    }
    (approval,) = installation.ledger.approvals_of(run["run_id"])
    assert approval.person == Person.of_analysis()
    assert installation.ledger.run(run["run_id"]).state is RunState.REJECTED
