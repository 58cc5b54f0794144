"""Answers as no page sends them: Airflow takes them over REST as they come."""

from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from counterpoise import pipeline
from counterpoise.installation import Installation
from counterpoise.model.person import Person
from counterpoise.model.request import Goal, RebalanceRequest, Scope
from counterpoise.model.run import RunState
from tests.dags.test_recorded_approval import CLUSTERS, answer, ask, asked, planned, refusals, run
from tests.support.decisions import grant

__all__ = ["asked", "run"]  # fixtures

LOWERING = RebalanceRequest(
    Goal.REPLICATION_FACTOR, scope=Scope(topics=("*",)), replication_factor=1
)

ODD = pytest.mark.parametrize(
    "text", ["a\0b", "\ud800", "x" * 2_001], ids=["NUL", "half a character", "too long"]
)
FIELDS = pytest.mark.parametrize("field", ["reason", "rate", "plan"])


@ODD
@FIELDS
@pytest.mark.parametrize("option", ["Approve", "Reject"])
def test_what_nobody_types_decides_nothing_and_the_question_stays_open(
    installation: Installation,
    run: pipeline.PlannedRun,
    asked: list[dict[str, Any]],
    option: str,
    field: str,
    text: str,
) -> None:
    ask()
    page, typed = asked[-1], {"rate": "5MB/s", "reason": "why", field: text}
    if (option, field) == ("Reject", "rate"):
        return  # a no has no rate
    with pytest.raises(TaskDeferred):
        answer(page, option, "alice", **typed)
    assert installation.ledger.approvals_of(run["run_id"]) == ()
    assert installation.ledger.run(run["run_id"]).state is RunState.PROPOSED
    (said,) = refusals(installation, run)
    assert len(said) < 400
    answer(page, option, "alice", rate="5MB/s", reason="why")
    assert len(installation.ledger.approvals_of(run["run_id"])) == 1


def test_names_in_the_second_question_make_no_markdown(
    installation: Installation, asked: list[dict[str, Any]]
) -> None:
    """As typed on the command line with `--by`, where the policy names nobody."""
    installation.locations.config.write_text(
        CLUSTERS.replace("access: {approve: [alice, bob]}", "")
    )
    run = planned(installation, LOWERING)
    claimed = Person("[all is well](https://evil.example) <b>", "system:mallory", is_claimed=True)
    grant(installation, run, by=claimed, reason="x", rate="5MB/s")
    ask(is_second=True)
    first, _, _ = asked[-1]["body"].partition("\n")
    assert first == (
        r"Approved by \[all is well\](https://evil.example) \<b\> "
        "(claimed by system user mallory) until now."
    )
