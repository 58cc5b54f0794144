"""Two writers at one instant, each with connections of its own, in SQLite and in Postgres."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from counterpoise.errors import RefusedError, StepLockHeldError
from counterpoise.ledger import Ledger
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.control import Control, ControlRequest
from counterpoise.model.person import Person
from counterpoise.model.plan import LowerBound, RebalancePlan
from counterpoise.model.request import Goal
from counterpoise.model.run import Run, RunState

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
PLAN = RebalancePlan("demo", "id", "s1", Goal.LEADERS, (), "digest", (), (), LowerBound(0, 0, 0))
ALICE, RULE, ANALYSIS = Person.airflow("alice"), Person.of_rule("leaders"), Person.of_analysis()
ROUNDS = range(8)


@pytest.fixture
def ledgers(ledger_url: str) -> Iterator[tuple[Ledger, Ledger]]:
    with (
        closing(Ledger.open(ledger_url, lambda: NOW)) as one,
        closing(Ledger.open(ledger_url, lambda: NOW)) as other,
    ):
        yield one, other


def proposed(ledger: Ledger, number: int, by: Person = ALICE) -> Run:
    plan = replace(PLAN, snapshot_id=f"s{number}")
    return ledger.propose(plan, "plans/x", requested_by=by.recorded)


def decision(run: Run, by: Person, decision: Decision = Decision.GRANTED) -> Approval:
    return Approval(
        run.run_id,
        run.fingerprint,
        decision,
        by.recorded,
        "because",
        NOW,
        1_000_000,
        NOW + timedelta(hours=1),
    )


def at_once(*actions: Callable[[], object]) -> list[bool]:
    """Do all at one instant, each in a thread; return which of them were not refused."""
    together = threading.Barrier(len(actions), timeout=240)
    done: dict[int, bool] = {}

    def act(number: int) -> None:
        together.wait()
        try:
            actions[number]()
        except RefusedError:
            done[number] = False
        else:
            done[number] = True

    threads = [threading.Thread(target=act, args=(number,)) for number in range(len(actions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [done[number] for number in range(len(actions))]  # KeyError: another error


def test_a_rule_answers_first_or_not_at_all(ledgers: tuple[Ledger, Ledger]) -> None:
    one, other = ledgers
    for number in ROUNDS:
        run = proposed(one, number)
        rule, person = decision(run, RULE), decision(run, ALICE)
        outcome = at_once(
            lambda rule=rule: one.record_decision(rule),  # type: ignore[misc]
            lambda person=person: other.record_decision(person),  # type: ignore[misc]
        )
        approvers = [approval.person for approval in one.approvals_of(run.run_id)]
        assert approvers == ([RULE, ALICE] if outcome[0] else [ALICE])


def test_a_rule_approves_before_a_freeze_or_not_at_all(ledgers: tuple[Ledger, Ledger]) -> None:
    one, other = ledgers
    for number in ROUNDS:
        run, hour = proposed(one, number), timedelta(hours=number)
        freeze = ControlRequest("demo", None, Control.FREEZE, "alice", "x", NOW + hour)
        rule = decision(run, RULE)
        outcome = at_once(
            lambda rule=rule: one.record_decision(rule),  # type: ignore[misc]
            lambda freeze=freeze: other.record_request(freeze),  # type: ignore[misc]
        )
        state = one.run(run.run_id).state
        assert state is (RunState.APPROVED if outcome[0] else RunState.PROPOSED)
        with pytest.raises(RefusedError):
            one.record_decision(decision(run, RULE))
        other.record_request(replace(freeze, control=Control.UNFREEZE))


def test_what_is_recorded_has_the_time_after_its_wait_for_others(ledger_url: str) -> None:
    with (
        closing(Ledger.open(ledger_url)) as one,
        closing(Ledger.open(ledger_url)) as other,
        ThreadPoolExecutor(2) as pool,
    ):
        run = proposed(one, 0)
        pause = ControlRequest("demo", run.run_id, Control.PAUSE, "alice", "x", NOW)
        with one._transactions.for_cluster("demo") as connection:
            waiting: tuple[Future[ControlRequest] | Future[None], ...] = (
                pool.submit(one.record_request, pause),
                pool.submit(other.record_decision, decision(run, ALICE)),
            )
            wait(waiting, timeout=0.3, return_when=FIRST_COMPLETED)
            assert not any(future.done() for future in waiting)
            ended_at = one._transactions.now(connection)
        for future in waiting:
            future.result()
        _, *later = one.journal(run.run_id).events()
        assert {event.kind for event in later} == {"granted", "approved", "pause asked"}
        (request,) = one.requests("demo", run.run_id)
        assert min(request.at, *(event.at for event in later)) >= ended_at


def test_a_freeze_is_over_by_the_ledgers_time_and_not_by_that_of_a_process(ledger_url: str) -> None:
    after = NOW + timedelta(hours=2)
    with (
        closing(Ledger.open(ledger_url, lambda: NOW)) as ledger,
        closing(Ledger.open(ledger_url, lambda: after)) as later,
    ):
        run = proposed(ledger, 0)
        until = NOW + timedelta(hours=1)
        ledger.record_request(
            ControlRequest("demo", None, Control.FREEZE, "alice", "x", NOW, until=until)
        )
        with pytest.raises(RefusedError, match="while its cluster is frozen"):
            ledger.record_decision(replace(decision(run, RULE), at=after))
        later.record_decision(replace(decision(run, RULE), at=NOW))
        assert later.run(run.run_id).state is RunState.APPROVED


def test_a_dag_never_supersedes_what_somebody_asks_for_at_the_same_time(
    ledgers: tuple[Ledger, Ledger],
) -> None:
    one, other = ledgers
    for number in ROUNDS:
        at_once(
            lambda number=number: proposed(one, 2 * number, ANALYSIS),  # type: ignore[misc]
            lambda number=number: proposed(other, 2 * number + 1, ALICE),  # type: ignore[misc]
        )
        (waiting,) = one.runs(states={RunState.PROPOSED})
        assert waiting.requester == ALICE
        one.record_decision(decision(waiting, ALICE, Decision.REJECTED))


def test_a_plan_that_was_rejected_at_the_same_time_is_not_approved(
    ledgers: tuple[Ledger, Ledger],
) -> None:
    one, other = ledgers
    for number in ROUNDS:
        run = proposed(one, number)
        yes, no = decision(run, RULE), decision(run, ALICE, Decision.REJECTED)
        at_once(
            lambda yes=yes: one.record_decision(yes),  # type: ignore[misc]
            lambda no=no: other.record_decision(no),  # type: ignore[misc]
        )
        assert one.run(run.run_id).state is RunState.REJECTED
        assert one.approvals_of(run.run_id)[-1].decision is Decision.REJECTED


def test_of_two_executors_one_has_the_step_and_the_other_is_told(
    ledgers: tuple[Ledger, Ledger],
) -> None:
    """In turn: whoever has it keeps it until the other one has been refused."""
    for number in ROUNDS:
        run_id = proposed(ledgers[0], number).run_id
        is_refused = threading.Event()

        def execute(
            ledger: Ledger, run_id: str = run_id, told: threading.Event = is_refused
        ) -> None:
            try:
                with ledger.journal(run_id).step() as step:
                    assert told.wait(30)
                    step.event("note", "it was mine")
            except StepLockHeldError:
                told.set()
                raise

        outcome = at_once(lambda: execute(ledgers[0]), lambda: execute(ledgers[1]))
        assert sorted(outcome) == [False, True]
        kinds = [event.kind for event in ledgers[0].journal(run_id).events()]
        assert kinds.count("note") == 1


def test_two_that_meet_a_cluster_first_pin_it_once(ledgers: tuple[Ledger, Ledger]) -> None:
    one, other = ledgers
    for number in ROUNDS:
        name = f"cluster-{number}"
        pinned = at_once(
            lambda name=name: one.pin_cluster(name, "id"),  # type: ignore[misc]
            lambda name=name: other.pin_cluster(name, "id"),  # type: ignore[misc]
        )
        assert pinned == [True, True]
        assert one.pinned_clusters()[name] == "id"
