"""What the task `propose` of the analysis does with its own plan that waits for an answer."""

import pytest
from airflow.sdk.exceptions import AirflowSkipException

from counterpoise.installation import Installation
from counterpoise.model.person import Person
from counterpoise.model.request import Goal, RebalanceRequest
from counterpoise.model.run import RunState
from counterpoise.orchestration.handover import withdraw_unneeded
from tests.dags.test_approval import airflow, approve, planned
from tests.simulation.test_pipeline import EVEN, IDLE_BROKER
from tests.support.hand_analysis import analyse_by_hand

__all__ = ["airflow"]  # a fixture


def test_the_dag_run_of_a_withdrawn_plan_ends_as_rejected_with_the_reason(
    installation: Installation,
) -> None:
    analyse_by_hand(installation, IDLE_BROKER)
    wanted = RebalanceRequest(Goal.ADD_BROKERS, (3,))
    run = planned(installation, wanted, by=Person.of_analysis())
    assert approve() is not None
    withdraw_unneeded(installation, "demo")
    assert installation.ledger.run(run["run_id"]).state is RunState.PROPOSED, "still needed"
    analyse_by_hand(installation, EVEN)
    for _ in range(2):
        withdraw_unneeded(installation, "demo")
    why = "rejected: no longer needed: no live broker is idle, and leaders are even enough"
    with pytest.raises(AirflowSkipException, match=why):
        approve()
    (approval,) = installation.ledger.approvals_of(run["run_id"])
    assert approval.person == Person.of_analysis()
    assert installation.ledger.run(run["run_id"]).state is RunState.REJECTED
