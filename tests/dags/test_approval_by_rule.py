"""Where a rule of the policy approves, the task `approve` succeeds without asking anybody."""

from pathlib import Path
from typing import Any

import pytest

from counterpoise import controls, pipeline
from counterpoise.installation import Installation
from counterpoise.model.person import Person
from counterpoise.model.request import Goal, RebalanceRequest
from counterpoise.orchestration.approval import RecordedApproval
from tests.dags.test_recorded_approval import CLUSTERS, Task, ask, asked, planned

__all__ = ["asked"]  # a fixture

RULE = "by_rule: [{name: small, goals: [add-brokers], copies_at_most: 1GB}]"


@pytest.fixture(autouse=True)
def rule(installation: Installation, tmp_path: Path) -> None:
    text = CLUSTERS.replace("wait_for: 2h", f"wait_for: 2h, {RULE}")
    assert text != CLUSTERS
    (tmp_path / "clusters.yaml").write_text(text)


def test_the_task_names_the_rule_and_asks_nobody(
    installation: Installation, asked: list[Any]
) -> None:
    run = planned(installation, RebalanceRequest(Goal.ADD_BROKERS, (3,)))
    for task_id in ("approve", "approve_second"):
        task = Task(is_second=task_id == "approve_second")
        operator: Any = RecordedApproval(task_id=task_id, is_second=task.task_id != "approve")
        assert operator.execute({"task_instance": task, "ti": task}) is None
        if task_id == "approve":
            assert task.pushed["decision"]["by"] == "rule small"
            assert task.pushed["decision"]["rate"] == "20.0 MB/s"
    assert asked == []
    pipeline.open_run(installation_now(), run["run_id"], run["fingerprint"])


def installation_now() -> Installation:
    """What a worker opens, with the policy as the file has it now."""
    from counterpoise.installation import open_installation

    return open_installation()


def test_people_are_asked_where_the_cluster_was_frozen_meanwhile(
    installation: Installation, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    planned(installation, RebalanceRequest(Goal.ADD_BROKERS, (3,)))
    rule_that_approves = pipeline.rule_that_approves

    def find_and_freeze(*arguments: Any) -> Any:
        found = rule_that_approves(*arguments)
        alice = Person("alice")
        controls.freeze(installation, "demo", until="8h", by=alice, why="month end")
        return found

    monkeypatch.setattr(pipeline, "rule_that_approves", find_and_freeze)
    assert ask() is not None
    assert len(asked) == 1
