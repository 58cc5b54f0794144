"""A rule of the policy approves instead of a person: only what it says, only while it says so."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from counterpoise.errors import NotApprovedError, RefusedError
from counterpoise.installation import Installation
from counterpoise.model.approval import Decision
from counterpoise.model.person import Person
from counterpoise.model.request import Goal, RebalanceRequest
from counterpoise.model.run import RunState
from counterpoise.services import (
    approvals,
    execution,
    plans,
    requests,
    snapshots,
    validations,
    verification,
)
from counterpoise.services.plans import PlannedRun
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.command_line import CommandLine
from tests.support.installations import installation_over, set_clock
from tests.support.ledger_view import add_event, change_state
from tests.support.pictures import simulated
from tests.support.planned_runs import planned_run
from tests.support.web import browser

POLICY = """
clusters:
  demo:
    connection: reader
    policy: {{movement: {{rate: 20MB/s}}, access: {{approve: [alice, bob]}}, approval: {{{0}}}}}
"""
RULE = "{goal: add-brokers, max_bytes_per_day: 1GB}"
DAG_RUN = ("kafka_rebalance", "manual__1")
ADD_3 = RebalanceRequest(Goal.ADD_BROKERS, (3,))
ALICE, BOB, CAROL = map(Person.airflow, ("alice", "bob", "carol"))
SMALL = Person.of_rule("add-brokers")


@pytest.fixture
def kafka() -> SimulatedCluster:
    """Broker 3 has just joined: its share is 120 MB."""
    return simulated(
        "\n".join(f"orders-{number}: 1 2 size=30000000" for number in range(6)), racks="1=a 2=b 3=c"
    )


@pytest.fixture
def under(tmp_path: Path, kafka: SimulatedCluster) -> Callable[[str], Installation]:
    """Returns the installation as a worker opens it while the policy says this of approval."""

    def with_policy(approval: str) -> Installation:
        clusters = POLICY.format(approval)
        return installation_over(tmp_path, lambda _: kafka, clusters=clusters)

    return with_policy


@pytest.fixture
def ruled(under: Callable[[str], Installation]) -> Installation:
    return under(f"automatic: [{{goal: leaders}}, {RULE}]")


@pytest.fixture
def run(ruled: Installation) -> PlannedRun:
    return planned(ruled)


def planned(installation: Installation) -> PlannedRun:
    """What `plan` and `validate` leave behind."""
    snapshots.make(installation, "demo", installation.clock())
    run = planned_run(
        installation,
        "demo",
        ADD_3,
        plans.Origin(CAROL, *DAG_RUN),
    )
    assert run is not None
    add_event(installation.ledger, run["run_id"], "validated", run["fingerprint"])
    return run


def approve_by(installation: Installation, run: PlannedRun, by: Person, **changes: Any) -> None:
    answer = {"decision": Decision.GRANTED, "by": by, "reason": "x", "rate": "20MB/s"} | changes
    approvals.answer(installation, run["run_id"], run["fingerprint"], **answer)


def approve_by_rule(installation: Installation, run: PlannedRun) -> None:
    """What the task `approve` does where a rule applies."""
    assert approvals.is_for_a_rule(installation, run["run_id"])
    approvals.approve_by_rule(installation, run["run_id"], run["fingerprint"])
    assert approvals.open_question(installation, run["run_id"]) is None, "nobody is asked"


def check_people_decide(installation: Installation, run: PlannedRun, why: str) -> None:
    """Check that a rule's yes is refused at the record."""
    with pytest.raises(RefusedError, match=why):
        approvals.approve_by_rule(installation, run["run_id"], run["fingerprint"])
    assert approvals.open_question(installation, run["run_id"]) is not None


def start(installation: Installation, run: PlannedRun) -> None:
    execution.open_run(installation, run["run_id"], run["fingerprint"])


def mutating_calls(kafka: SimulatedCluster) -> set[str]:
    changing = {"alter_configs", "alter_reassignments", "elect_preferred_leaders"}
    return changing & {call.name for call in kafka.calls}


def test_the_ledger_says_which_rule_approved_why_and_at_which_rate(
    ruled: Installation, run: PlannedRun
) -> None:
    approve_by_rule(ruled, run)
    (approval,) = ruled.ledger.approvals_of(run["run_id"])
    assert (approval.decision, approval.by) == (Decision.GRANTED, "policy-rule:add-brokers")
    assert approval.person.shown == "rule add-brokers (policy)"
    assert approval.rate_bytes_per_second == 20_000_000
    assert approval.reason.startswith("approval: automatic (goal add-brokers, copies 120")
    assert approval.expires_at == approval.at + timedelta(hours=24)
    start(ruled, run)
    assert ruled.ledger.run(run["run_id"]).state is RunState.RUNNING


def test_report_pages_and_status_name_the_rule_that_approved(
    tmp_path: Path,
    ruled: Installation,
    run: PlannedRun,
    capsys: pytest.CaptureFixture[str],
) -> None:
    approve_by_rule(ruled, run)
    start(ruled, run)
    for state in (RunState.SETTLING, RunState.DONE):
        change_state(ruled.ledger, run["run_id"], state)
    report = verification.report_run(ruled, run["run_id"])
    shell = CommandLine.in_folder(tmp_path, capsys)
    (tmp_path / "clusters.yaml").write_text(POLICY.format(f"automatic: [{RULE}]"))
    with browser(shell.environment, "alice") as pages:
        told = {
            "report": Path(report.removeprefix("file:")).read_text(),
            "page of the run": pages.get(f"/runs/{run['run_id']}?tab=timeline").text,
            "status": shell.type("status", run["run_id"]).out,
            "status --json": shell.type("status", run["run_id"], "--json").out,
        }
    for where, text in told.items():
        assert "rule add-brokers" in text, where
        if "status" not in where:
            assert "approval: automatic (goal add-brokers" in text, where


@pytest.mark.parametrize(
    ("approval", "why"),
    [
        ("wait_for: 2h", "no rule of the policy approves plans for add-brokers"),
        ("automatic: [{goal: leaders}]", "no rule of the policy approves plans for add-brokers"),
        (f"automatic: [{RULE.replace('1GB', '119MB')}]", "approves up to 119"),
        (
            f"automatic: [{RULE[:-1]}, windows: [{{starts: '0 0 29 2 *', lasts: 1m}}]}}]",
            "approves again from 2028-02-29",
        ),
        ("critical: yes", "no rule of the policy approves plans for add-brokers"),
    ],
)
def test_a_policy_edited_before_or_after_the_approval_decides(
    under: Callable[[str], Installation],
    ruled: Installation,
    run: PlannedRun,
    kafka: SimulatedCluster,
    approval: str,
    why: str,
) -> None:
    edited = under(approval)
    check_people_decide(edited, run, why)
    approve_by_rule(ruled, run)
    refused = "2 people have to approve" if "critical" in approval else why
    with pytest.raises(NotApprovedError, match=refused):
        start(edited, run)
    assert mutating_calls(kafka) == set()
    assert approvals.open_question(edited, run["run_id"]) is not None, (
        "a person is asked after clearing"
    )


@pytest.mark.parametrize("approval", ["critical: yes", "two_people_above: 100MB"])
def test_a_rule_counts_for_none_of_two_people(
    under: Callable[[str], Installation],
    ruled: Installation,
    run: PlannedRun,
    kafka: SimulatedCluster,
    approval: str,
) -> None:
    check_people_decide(under(f"automatic: [{RULE}], two_people_above: 100MB"), run, "two people")
    approve_by_rule(ruled, run)
    edited = under(approval)
    question = approvals.open_question(edited, run["run_id"])
    assert question is not None
    assert question.plan.lines[-1].endswith("2 people have to approve it; 2 missing.")
    approve_by(edited, run, BOB)
    with pytest.raises(NotApprovedError, match="2 different people have to approve"):
        start(edited, run)
    assert mutating_calls(kafka) == set()
    assert approvals.open_question(edited, run["run_id"]) is not None
    approve_by(edited, run, ALICE)
    assert approvals.open_question(edited, run["run_id"]) is None
    start(edited, run)


def test_what_was_not_validated_or_is_frozen_or_was_rejected_is_for_people(
    ruled: Installation,
) -> None:
    run = planned(ruled)
    requests.freeze(ruled, "demo", until="8h", by=ALICE, why="month end")
    check_people_decide(ruled, run, "while demo is frozen")
    requests.unfreeze(ruled, "demo", by=ALICE, why="over")
    approve_by(ruled, run, BOB, decision=Decision.REJECTED)
    with pytest.raises(RefusedError, match="waits for its first answer"):
        approvals.approve_by_rule(ruled, run["run_id"], run["fingerprint"])
    plan = ruled.plan_of(ruled.ledger.run(run["run_id"]))
    again = plans.submit(ruled, plan, plans.Origin(CAROL, *DAG_RUN))
    assert again["run_id"] != run["run_id"]
    with pytest.raises(RefusedError, match="have not been checked yet"):
        approvals.is_for_a_rule(ruled, again["run_id"])
    with pytest.raises(RefusedError, match="have not been checked yet"):
        approvals.approve_by_rule(ruled, again["run_id"], run["fingerprint"])
    add_event(ruled.ledger, again["run_id"], "validated", run["fingerprint"])
    check_people_decide(ruled, again, "bob has rejected this plan")


def test_a_rule_does_nothing_but_approve_and_nobody_else_is_one(
    ruled: Installation, run: PlannedRun
) -> None:
    with pytest.raises(RefusedError, match="that is for people"):
        approve_by(ruled, run, SMALL, decision=Decision.REJECTED)
    with pytest.raises(RefusedError, match="that is for people"):
        requests.freeze(ruled, "demo", until="8h", by=SMALL, why="x")
    plan = ruled.plan_of(ruled.ledger.run(run["run_id"]))
    with pytest.raises(RefusedError, match="that is for people"):
        plans.submit(ruled, plan, plans.Origin(SMALL))
    for name in ("rule add-brokers (policy)", "policy-rule:add-brokers"):
        for impostor in (Person.system(name), Person.airflow(name)):
            assert not Person.from_ledger(impostor.recorded).is_rule
            with pytest.raises(RefusedError, match="may not approve"):
                approve_by(ruled, run, impostor)
    assert ruled.ledger.run(run["run_id"]).state is RunState.PROPOSED


def test_an_approval_by_a_rule_expires(ruled: Installation, run: PlannedRun) -> None:
    approve_by_rule(ruled, run)
    clock = ruled.clock
    set_clock(ruled, lambda: clock() + timedelta(hours=25))
    with pytest.raises(NotApprovedError, match="expired"):
        start(ruled, run)


def test_a_superseded_plan_is_neither_approved_nor_started(
    ruled: Installation, run: PlannedRun, kafka: SimulatedCluster
) -> None:
    approve_by_rule(ruled, run)
    planned_run(ruled, "demo", RebalanceRequest(Goal.LEADERS), plans.Origin(ALICE))
    assert ruled.ledger.run(run["run_id"]).state is RunState.SUPERSEDED
    with pytest.raises(RefusedError):
        approvals.approve_by_rule(ruled, run["run_id"], run["fingerprint"])
    with pytest.raises(RefusedError, match="superseded"):
        start(ruled, run)
    assert mutating_calls(kafka) == set()


def test_a_rule_starts_a_run_once(ruled: Installation, run: PlannedRun) -> None:
    approve_by_rule(ruled, run)
    start(ruled, run)
    for state in (RunState.SETTLING, RunState.HALTED):
        change_state(ruled.ledger, run["run_id"], state, "a broker died")
    with pytest.raises(NotApprovedError, match="a rule starts a run once"):
        start(ruled, run)
    assert not approvals.is_for_a_rule(ruled, run["run_id"])
    assert approvals.open_question(ruled, run["run_id"]) is not None
    approve_by(ruled, run, ALICE)
    start(ruled, run)


@pytest.mark.parametrize("is_pruned", [False, True])
def test_plans_cut_into_slices_count_together_also_when_old_rows_are_deleted(
    under: Callable[[str], Installation], *, is_pruned: bool
) -> None:
    ruled = under(f"expires_after: 1h, automatic: [{RULE.replace('1GB', '200MB')}]")
    run = planned(ruled)
    approve_by_rule(ruled, run)
    start(ruled, run)
    for state in (RunState.SETTLING, RunState.DONE):
        change_state(ruled.ledger, run["run_id"], state)
    let_pass(ruled, timedelta(hours=23), is_pruned=is_pruned)
    again = planned(ruled)
    assert again["run_id"] != run["run_id"]
    check_people_decide(ruled, again, "approves up to 200")
    let_pass(ruled, timedelta(hours=2), is_pruned=is_pruned)
    approve_by_rule(ruled, again)  # a day later it may again


def let_pass(installation: Installation, time: timedelta, *, is_pruned: bool) -> None:
    clock = installation.clock
    set_clock(installation, lambda: clock() + time)
    if is_pruned:
        now = installation.clock()
        installation.ledger.prune("demo", before=now - timedelta(minutes=1))


def test_a_plan_whose_sizes_nobody_knows_is_for_people(
    ruled: Installation, kafka: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "describe_log_dirs", lambda *_, **__: ())
    check_people_decide(ruled, planned(ruled), "did not tell the sizes")


def test_a_plan_that_no_longer_validates_is_approved_by_nobody(
    ruled: Installation, run: PlannedRun, kafka: SimulatedCluster
) -> None:
    kafka.denied = {"set rates": "CLUSTER_AUTHORIZATION_FAILED"}
    with pytest.raises(RefusedError, match="may not set rates"):
        validations.validate(ruled, run["run_id"], run["fingerprint"])
    with pytest.raises(RefusedError, match="was not validated"):
        approvals.is_for_a_rule(ruled, run["run_id"])
    with pytest.raises(RefusedError, match="was not validated"):
        approvals.approve_by_rule(ruled, run["run_id"], run["fingerprint"])
    kafka.denied = {}
    validations.validate(ruled, run["run_id"], run["fingerprint"])
    approve_by_rule(ruled, run)
