"""The wiring on a simulated cluster: what leads from one stage to the next."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from counterpoise.errors import RefusedError, RunConflictError
from counterpoise.installation import Installation
from counterpoise.model.acl import REASSIGN
from counterpoise.model.approval import Decision
from counterpoise.model.control import Control
from counterpoise.model.person import Person
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.request import Goal, RebalanceRequest
from counterpoise.model.run import RunState
from counterpoise.services import execution, plans, proposals, reports, requests, validations
from counterpoise.services.kept_empty import plan_for
from counterpoise.settings import parse_settings
from counterpoise.units import format_moment
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support import decisions
from tests.support.decisions import ALICE, BOB, grant
from tests.support.hand_analysis import Held, analyse_by_hand
from tests.support.installations import DEMO, installation_over, set_clock
from tests.support.ledger_view import LedgerView, change_state
from tests.support.pictures import ON_TWO_BROKERS, simulated
from tests.support.planned_runs import planned_run


@pytest.fixture
def kafka() -> SimulatedCluster:
    """Broker 3 has just joined."""
    return simulated(ON_TWO_BROKERS, racks="1=a 2=b 3=c")


ANALYSIS = Person.of_analysis()
IDLE_BROKER: Held = {1: (6, 6, 0, 6, 180), 2: (0, 0, 0, 6, 180), 3: (0, 0, 0, 0, 0)}
UNEVEN: Held = {1: (6, 6, 0, 4, 120), 2: (0, 0, 0, 4, 120), 3: (0, 0, 0, 4, 120)}
EVEN: Held = {1: (2, 2, 0, 4, 120), 2: (2, 2, 0, 4, 120), 3: (2, 2, 0, 4, 120)}
GB = 10**9
FULL_BROKER: Held = {
    1: (2, 2, 0, 4, 240 * GB),
    2: (2, 2, 0, 4, 60 * GB),
    3: (2, 2, 0, 4, 60 * GB),
}
UNEVEN_IN_BOTH = ((1, 6, 240 * GB), (2, 0, 60 * GB), (3, 0, 60 * GB))
ADD_3, LEADERS = RebalanceRequest(Goal.ADD_BROKERS, (3,)), RebalanceRequest(Goal.LEADERS)


@pytest.fixture
def installation(tmp_path: Path, kafka: SimulatedCluster) -> Iterator[Installation]:
    with installation_over(tmp_path, lambda _: kafka) as installation:
        yield installation


def proposed(installation: Installation) -> tuple[str, list[int]] | None:
    wanted = proposals.propose(installation, "demo")
    return None if wanted is None else (wanted["goal"], wanted["broker_ids"])


def asked_for(
    installation: Installation, request: RebalanceRequest = ADD_3, by: Person = ANALYSIS
) -> plans.PlannedRun:
    run = planned_run(installation, "demo", request, plans.Origin(by))
    assert run is not None
    return run


def decide(
    installation: Installation,
    run: plans.PlannedRun,
    decision: Decision = Decision.REJECTED,
    by: Person = ALICE,
) -> None:
    rate = "20MB/s" if decision is Decision.GRANTED else ""
    decisions.decide(installation, run["run_id"], decision, by, reason="later", rate=rate)


def after(installation: Installation, time: timedelta) -> None:
    clock = installation.clock
    set_clock(installation, lambda: clock() + time)


def under(installation: Installation, text: str) -> None:
    """Before anything is read: what the policy says of proposals."""
    clusters = f"{DEMO}    policy: {{proposals: {text}}}"
    installation.known_clusters = parse_settings(clusters, where="clusters.yaml")


def test_an_idle_broker_is_asked_about_once_however_many_rounds_find_it(
    installation: Installation,
) -> None:
    analyse_by_hand(installation, IDLE_BROKER)
    assert proposed(installation) == ("add-brokers", [3])
    asked_for(installation)
    analyse_by_hand(installation, IDLE_BROKER)
    assert proposed(installation) is None, "the question waits already"
    assert proposals.unneeded_proposal(installation, "demo") is None


@pytest.mark.parametrize(("text", "hours"), [("{}", 24), ("{propose_again_after: 2d}", 48)])
def test_after_a_no_nothing_is_proposed_for_as_long_as_the_policy_says(
    installation: Installation, text: str, hours: int
) -> None:
    under(installation, text)
    analyse_by_hand(installation, IDLE_BROKER)
    decide(installation, asked_for(installation))
    assert proposed(installation) is None
    after(installation, timedelta(hours=hours - 1))
    assert proposed(installation) is None
    analyse_by_hand(installation, UNEVEN)
    assert proposed(installation) is None, "whatever is found"
    after(installation, timedelta(hours=2))
    assert proposed(installation) == ("leaders", [])
    analyse_by_hand(installation, IDLE_BROKER)
    assert proposed(installation) == ("add-brokers", [3])


def test_the_report_says_until_when_nothing_is_proposed_and_whose_no_it_was(
    installation: Installation,
) -> None:
    analyse_by_hand(installation, IDLE_BROKER)
    run = asked_for(installation)
    decide(installation, run)
    run_id = run["run_id"]
    until = installation.ledger.approvals_of(run_id)[-1].at + timedelta(days=1)
    words = (
        f"nothing is proposed before {format_moment(until)}: alice rejected run {run_id} (later)"
    )
    reports.report_balance(installation, "demo")
    page = installation.archive.read_report("demo/leader-balance.html")
    assert words[1:] in page and "A rebalance would help" in page
    document = json.loads(installation.archive.read_report("demo/leader-balance.json"))
    assert document["not_proposed"] == words
    after(installation, timedelta(hours=25))
    reports.report_balance(installation, "demo")
    document = json.loads(installation.archive.read_report("demo/leader-balance.json"))
    assert document["not_proposed"] is None


def test_whoever_withdraws_a_plan_of_their_own_is_not_asked_at_once_either(
    installation: Installation,
) -> None:
    analyse_by_hand(installation, IDLE_BROKER)
    decide(installation, asked_for(installation, by=BOB), by=BOB)
    assert proposed(installation) is None


@pytest.mark.parametrize("control", [Control.CANCEL, Control.UNDO])
def test_after_a_cancel_nothing_is_proposed_either(
    installation: Installation, control: Control
) -> None:
    """The time counts from when the run has ended."""
    analyse_by_hand(installation, IDLE_BROKER)
    run = asked_for(installation)
    decide(installation, run, Decision.GRANTED)
    change_state(installation.ledger, run["run_id"], RunState.RUNNING)
    make = {Control.CANCEL: requests.cancel, Control.UNDO: requests.undo}[control]
    make(installation, run["run_id"], by=BOB, why="wrong night")
    after(installation, timedelta(hours=30))
    for state in (RunState.SETTLING, RunState.CANCELLED):
        change_state(installation.ledger, run["run_id"], state)
    after(installation, timedelta(hours=23))
    assert proposed(installation) is None
    after(installation, timedelta(hours=2))
    assert proposed(installation) == ("add-brokers", [3])


def test_a_run_that_halted_by_itself_is_nobodys_cancel(installation: Installation) -> None:
    analyse_by_hand(installation, IDLE_BROKER)
    run = asked_for(installation)
    decide(installation, run, Decision.GRANTED)
    for state in (RunState.RUNNING, RunState.SETTLING, RunState.HALTED):
        change_state(installation.ledger, run["run_id"], state)
    assert proposed(installation) == ("add-brokers", [3])


@pytest.mark.parametrize(
    ("decision", "by"),
    [(Decision.TIMED_OUT, Person.unknown()), (Decision.REJECTED, ANALYSIS)],
)
def test_silence_and_a_withdrawal_are_nobodys_no(
    installation: Installation, decision: Decision, by: Person
) -> None:
    analyse_by_hand(installation, IDLE_BROKER)
    decide(installation, asked_for(installation), decision, by)
    assert proposed(installation) == ("add-brokers", [3])


def test_uneven_leaders_are_asked_about_after_as_many_snapshots_as_the_policy_says(
    installation: Installation,
) -> None:
    under(installation, "{uneven_snapshots: 3}")
    found = []
    for held in (UNEVEN, UNEVEN, EVEN, UNEVEN, UNEVEN, UNEVEN, UNEVEN, IDLE_BROKER):
        analyse_by_hand(installation, held)
        found.append(proposed(installation))
        after(installation, timedelta(hours=1))
    leaders = ("leaders", [])
    assert found == [None] * 5 + [leaders, leaders, ("add-brokers", [3])]


def test_bytes_far_from_a_fair_share_are_asked_about_where_the_policy_says_how_far(
    installation: Installation,
) -> None:
    """In as many snapshots as it says; and withdrawn, like any other, when they are even again."""
    under(installation, "{uneven_snapshots: 2, uneven_percent: 30}")
    found = []
    for held in (FULL_BROKER, EVEN, FULL_BROKER, FULL_BROKER):
        analyse_by_hand(installation, held)
        found.append(proposed(installation))
        after(installation, timedelta(hours=1))
    assert found == [None, None, None, ("rebalance", [])]
    wanted = proposals.propose(installation, "demo")
    assert wanted is not None and wanted["reason"] == (
        "bytes per live broker range from 60.0 GB to 240 GB, up to 100 % off the fair share; the "
        "policy allows 30 %"
    )
    run = asked_for(installation, RebalanceRequest(Goal.REBALANCE))
    assert proposed(installation) is None, "the question waits already"
    assert proposals.unneeded_proposal(installation, "demo") is None
    analyse_by_hand(installation, EVEN)
    unneeded = proposals.unneeded_proposal(installation, "demo")
    assert unneeded is not None and unneeded[0].run_id == run["run_id"]
    assert unneeded[1] == "no live broker is idle, and leaders, replicas and bytes are even enough"
    decide(installation, run, by=BOB)
    for _ in range(2):
        after(installation, timedelta(hours=1))
        analyse_by_hand(installation, FULL_BROKER)
    assert proposed(installation) is None, "bob said no"
    after(installation, timedelta(days=8))
    assert proposed(installation) == ("rebalance", [])


@pytest.mark.parametrize("text", ["{}", "{uneven_percent: 100}"])
def test_bytes_within_what_the_policy_allows_are_not_asked_about(
    installation: Installation, text: str
) -> None:
    under(installation, text)
    analyse_by_hand(installation, FULL_BROKER)
    assert proposed(installation) is None


def test_replicas_far_from_a_fair_share_are_asked_about_too(installation: Installation) -> None:
    under(installation, "{uneven_percent: 30}")
    analyse_by_hand(installation, {b: (2, 2, 0, n, 120) for b, n in ((1, 6), (2, 5), (3, 1))})
    wanted = proposals.propose(installation, "demo")
    assert wanted is not None and wanted["goal"] == "rebalance"
    assert wanted["reason"].startswith("replicas per live broker range from 1 to 6, up to 75 % off")


def test_what_no_plan_would_make_more_even_is_neither_asked_about_nor_reported(
    installation: Installation,
) -> None:
    """Racks, large partitions, replica sets or the policy keep the cluster as it is."""
    leaders_too = {b: (held, held, 0, 4, size) for b, held, size in UNEVEN_IN_BOTH}
    policy = '{balance: {excluded_topics: ["*"]}, proposals: {uneven_percent: 30}}'
    clusters = f"{DEMO}    policy: {policy}"
    installation.known_clusters = parse_settings(clusters, where="clusters.yaml")
    for held in (FULL_BROKER, leaders_too):
        after(installation, timedelta(hours=1))
        analyse_by_hand(installation, held)
        assert proposed(installation) is None
        assert reports.report_balances(installation, ["demo"]).nothing_to_ask == ("demo",)
        document = json.loads(installation.archive.read_report("demo/leader-balance.json"))
        assert document["wanted"] is None
        reports.report_fleet(installation)
        fleet = json.loads(installation.archive.read_report("fleet.json"))
        assert fleet["clusters"][0]["wanted_goal"] is None


def test_a_report_makes_the_plan_of_what_would_help_once(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def counted(*asked: Any) -> RebalancePlan:
        made.append(asked)
        return plan_for(*asked)

    monkeypatch.setattr(proposals, "plan_for", counted)
    analyse_by_hand(installation, UNEVEN)
    assert reports.report_balances(installation, ["demo"]).nothing_to_ask == ()
    assert len(made) == 1


def test_a_fair_share_of_bytes_follows_the_disks(
    installation: Installation, kafka: SimulatedCluster
) -> None:
    for broker_id, broker in kafka.brokers.items():
        broker.disk_total_bytes = 800 * GB if broker_id == 1 else 200 * GB
    under(installation, "{uneven_percent: 30}")
    shares = {1: (2, 2, 0, 8, 400 * GB), 2: (2, 2, 0, 2, 100 * GB), 3: (2, 2, 0, 2, 100 * GB)}
    analyse_by_hand(installation, shares)
    assert proposed(installation) is None
    analyse_by_hand(installation, dict.fromkeys(shares, (2, 2, 0, 4, 200 * GB)))
    wanted = proposals.propose(installation, "demo")
    assert wanted is not None and "up to 100 % off the fair share" in wanted["reason"]


@pytest.mark.parametrize(
    ("held", "why"),
    [
        (EVEN, "no live broker is idle, and leaders are even enough"),
        (UNEVEN, "now leaders would help: preferred leaders per live broker range from 0 to 6"),
    ],
)
def test_a_plan_of_the_analysis_that_waits_is_withdrawn_when_nothing_needs_it(
    installation: Installation, held: Held, why: str
) -> None:
    """Not while the cluster is frozen; an approved one, and what somebody asked for, stays."""
    analyse_by_hand(installation, held)
    assert proposals.unneeded_proposal(installation, "demo") is None
    run = asked_for(installation)
    requests.freeze(installation, "demo", until="8h", by=ALICE, why="month end")
    assert proposals.unneeded_proposal(installation, "demo") is None
    requests.unfreeze(installation, "demo", by=ALICE, why="over")
    unneeded = proposals.unneeded_proposal(installation, "demo")
    assert unneeded is not None and unneeded[0].run_id == run["run_id"]
    assert unneeded[1].startswith(why)
    decide(installation, run, Decision.GRANTED)
    assert proposals.unneeded_proposal(installation, "demo") is None
    assert proposed(installation) is None, "no plan of the analysis supersedes an approved one"
    with pytest.raises(
        RunConflictError, match="is approved, so kafka_leader_balance"
    ):  # found before the yes
        decide(installation, run, by=ANALYSIS)
    assert installation.ledger.run(run["run_id"]).state is RunState.APPROVED
    asked_for(installation, by=ALICE)
    assert proposals.unneeded_proposal(installation, "demo") is None


def test_a_plan_that_its_checks_refused_is_not_made_again_at_once(
    installation: Installation, kafka: SimulatedCluster
) -> None:
    analyse_by_hand(installation, IDLE_BROKER)
    run = asked_for(installation)
    kafka.denied[REASSIGN] = "CLUSTER_AUTHORIZATION_FAILED"
    with pytest.raises(RefusedError, match="must not run"):
        validations.validate(installation, run["run_id"], run["fingerprint"])
    decide(installation, run, Decision.TIMED_OUT, Person.dag("kafka_rebalance"))
    assert proposed(installation) is None
    after(installation, timedelta(days=8))
    analyse_by_hand(installation, IDLE_BROKER)
    assert proposed(installation) == ("add-brokers", [3])


def damaged(installation: Installation, run: plans.PlannedRun, damage: str | None) -> None:
    """The file of the run's plan is gone, or holds something else."""
    path = installation.ledger.run(run["run_id"]).plan_uri
    if damage is None:
        installation.archive.store.delete(path)
    else:
        installation.archive.store.write_text(path, damage)


DAMAGES = pytest.mark.parametrize("damage", [None, "{}", ""])


@DAMAGES
@pytest.mark.parametrize("is_refused", [False, True])
def test_a_lost_plan_of_an_ended_run_keeps_nothing_from_being_proposed(
    installation: Installation,
    kafka: SimulatedCluster,
    caplog: pytest.LogCaptureFixture,
    damage: str | None,
    is_refused: bool,
) -> None:
    analyse_by_hand(installation, IDLE_BROKER)
    run = asked_for(installation)
    if is_refused:
        kafka.denied[REASSIGN] = "CLUSTER_AUTHORIZATION_FAILED"
        with pytest.raises(RefusedError, match="must not run"):
            validations.validate(installation, run["run_id"], run["fingerprint"])
    decide(installation, run, by=ANALYSIS)
    damaged(installation, run, damage)
    assert proposed(installation) == ("add-brokers", [3])
    assert f"it is not known what run {run['run_id']} was for" in caplog.text
    assert reports.report_balances(installation, ["demo"]).failures == {}


@DAMAGES
def test_a_question_whose_plan_is_lost_is_withdrawn_and_asked_again(
    installation: Installation, damage: str | None
) -> None:
    """Nobody could approve it."""
    analyse_by_hand(installation, IDLE_BROKER)
    run = asked_for(installation)
    damaged(installation, run, damage)
    assert reports.report_balances(installation, ["demo"]).nothing_to_ask == ()
    unneeded = proposals.unneeded_proposal(installation, "demo")
    assert unneeded is not None and unneeded[0].run_id == run["run_id"]
    assert unneeded[1] == "its plan cannot be read, so nobody can approve it"
    assert proposed(installation) == ("add-brokers", [3])
    again = asked_for(installation)
    assert proposed(installation) is None, "the question waits"
    assert installation.run_and_plan(again["run_id"])[1].broker_ids == (3,)


def test_an_older_question_of_the_analysis_does_not_silence_the_idle_broker(
    installation: Installation, kafka: SimulatedCluster
) -> None:
    analyse_by_hand(installation, IDLE_BROKER)
    other = planned_run(
        installation, "demo", RebalanceRequest(Goal.LEADERS), plans.Origin(ANALYSIS)
    )
    assert other is not None
    assert proposals.propose(installation, "demo") is not None
    newer = planned_run(
        installation, "demo", RebalanceRequest(Goal.ADD_BROKERS, (3,)), plans.Origin(ANALYSIS)
    )
    assert newer is not None
    assert installation.ledger.run(other["run_id"]).state is RunState.SUPERSEDED


def test_the_analysis_waits_for_a_plan_that_somebody_asked_for(
    installation: Installation, kafka: SimulatedCluster
) -> None:
    analyse_by_hand(installation, IDLE_BROKER)
    leaders = RebalanceRequest(Goal.LEADERS)
    of_alice = planned_run(installation, "demo", leaders, plans.Origin(Person.airflow("alice")))
    assert of_alice is not None
    assert proposals.propose(installation, "demo") is None
    idle = RebalanceRequest(Goal.ADD_BROKERS, (3,))
    with pytest.raises(RefusedError, match="which alice asked for, is proposed"):  # asked before
        planned_run(installation, "demo", idle, plans.Origin(ANALYSIS))
    assert installation.ledger.run(of_alice["run_id"]).state is RunState.PROPOSED
    of_bob = planned_run(installation, "demo", idle, plans.Origin(BOB))
    assert of_bob is not None
    assert installation.ledger.run(of_alice["run_id"]).state is RunState.SUPERSEDED


def test_a_history_without_results_is_said_to_be_empty(installation: Installation) -> None:
    with pytest.raises(RefusedError, match="no analysed snapshot yet"):
        reports.report_balance(installation, "demo")


def test_the_end_of_a_run_is_waited_for_by_the_second_and_only_the_end(
    installation: Installation, kafka: SimulatedCluster
) -> None:
    waits: dict[int | None, list[float]] = {}
    started = installation.clock()
    set_clock(installation, lambda: started + timedelta(seconds=kafka.now))
    run = planned_run(
        installation,
        "demo",
        RebalanceRequest(Goal.ADD_BROKERS, (3,)),
        plans.Origin(Person.airflow("alice")),
    )
    assert run is not None
    grant(installation, run, rate="2MB/s")
    execution.open_run(installation, run["run_id"], run["fingerprint"])
    while (
        wait := execution.execute_step(
            installation, run["run_id"], run["fingerprint"], lambda _: None
        )
    ) is not None:
        run_progress = LedgerView.of(installation.ledger).progress(run["run_id"])
        if run_progress is not None and run_progress.bytes_per_second > 0:
            waits.setdefault(run_progress.seconds_left, []).append(wait)
        kafka.advance(wait)
    far = [w for left, found in waits.items() for w in found if left is not None and left > 15]
    near = [w for left, found in waits.items() for w in found if left is not None and left <= 15]
    assert set(far) == {2.0}
    assert near
    assert max(near) <= 1.0
