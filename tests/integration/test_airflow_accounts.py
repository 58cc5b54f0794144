"""What an account of Airflow's role `user` may write, tried against questions, answers and runs.

On a real Airflow, over its REST API, and on real brokers: whatever is written, nobody's yes counts
for another plan than the one on their screen, and the cluster changes only as was approved.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from counterpoise.model.approval import Decision
from counterpoise.model.person import Person
from counterpoise.model.run import Run, RunState
from counterpoise.services import requests
from dev.local_airflow.api import WAITING_STATES, AirflowApiError
from dev.local_kafka import TopicSpec
from dev.local_kafka.load import MB
from tests.support.decisions import reject
from tests.support.shared_airflow import DAG, WAIT_SECONDS, Place

pytestmark = pytest.mark.timeout(2400)
PAIRS = [(1, 2), (2, 3), (3, 4), (4, 1)]
OPTION = "Answered on the plan's page"
DEMOTE = {"goal": "demote-brokers", "broker_ids": [1]}
DEMOTE_ANOTHER = {"goal": "demote-brokers", "broker_ids": [2]}
REMOVE = {"goal": "remove-brokers", "broker_ids": [4]}
REMOVE_FROM_OTHER = {"goal": "remove-brokers", "broker_ids": [2]}
TASKS = (
    *("plan", "validate", "approve", "open_run", "execute", "verify"),
    *("settle", "report", "repeat", "fresh_snapshot", "verdict"),
)


@pytest.fixture(scope="module")
def place(airflow_place: Place) -> Iterator[Place]:
    with airflow_place.with_topic(TopicSpec("payments", PAIRS * 2), 8 * MB, "demo", "other"):
        yield airflow_place


def test_an_event_over_rest_asks_nobody_where_an_approver_could_have_sent_it(place: Place) -> None:
    wanted = forged_event(place, "bob")
    assert place.mallory.send("POST", "assets/events", wanted) == 403
    known = {run.run_id for run in place.alice.api.dag_runs(DAG)}
    assert place.accounts["oscar"].send("POST", "assets/events", wanted) == 200
    started = place.alice.api.wait_for_new_run(DAG, known, WAIT_SECONDS, partition_key="other")
    assert place.end_of(started.run_id) == "failed"
    log = place.alice.api.task_log(DAG, started.run_id, "plan")
    assert "nobody knows who requests this plan" in log
    assert "Airflow says no more than somebody unknown" in log
    assert place.installation.ledger.runs(cluster="other") == ()


def forged_event(place: Place, requested_by: str) -> dict[str, Any]:
    (asset,) = place.alice.get("assets", name_pattern="counterpoise_rebalance_wanted")["assets"]
    extra = {**REMOVE_FROM_OTHER, "cluster": "other", "requested_by": requested_by}
    return {"asset_id": asset["id"], "extra": extra, "partition_key": "other"}


def test_a_yes_counts_for_the_plan_on_the_screen_whatever_is_written_beside_it(
    place: Place,
) -> None:
    asked = place.bob.api.trigger(DAG, conf=DEMOTE, partition_key="demo")
    asked_for_other = place.mallory.api.trigger(DAG, conf=REMOVE_FROM_OTHER, partition_key="other")
    question, wanted = place.question(asked), place.run_on_screen(place.question(asked_for_other))
    run = place.run_on_screen(question)
    for task_id in TASKS:
        place.mallory.rewrite_xcoms(asked, task_id, wanted)
        of_task = f"dags/{DAG}/dagRuns/{asked}/taskInstances/{task_id}"
        assert place.mallory.send("PATCH", of_task, {"note": "approved by alice"}) == 200
    of_run = f"dags/{DAG}/dagRuns/{asked}"
    assert place.mallory.send("PATCH", of_run, {"note": "approved by alice"}) == 200
    without_partition = {"run_id": asked, "dry_run": False}
    assert place.mallory.send("POST", f"dags/{DAG}/clearPartitions", without_partition) == 200
    place.let_it_park(asked)
    place.mallory.api.choose_option(question)
    with pytest.raises(AirflowApiError, match="may not approve"):
        place.mallory.api.decide(run.run_id, "approve", "x", rate="20MB/s")
    assert place.question(asked).body == question.body, "it is open again"
    assert place.decisions(run) == []

    place.answer(question, "approve")
    assert place.end_of(asked) == "success"
    assert place.note_of(asked) == "approved by alice\n\ndone", "what mallory wrote stays"
    assert place.decisions(run) == [(Decision.GRANTED, "alice", run.fingerprint)]
    assert place.state_of(run) is RunState.DONE
    check_untouched(place, wanted)


def check_untouched(place: Place, run: Run) -> None:
    """Check that nobody decided about a run, and that no replica has moved."""
    assert place.decisions(run) == []
    assert place.state_of(run) in (RunState.PROPOSED, RunState.SUPERSEDED)
    assert place.replicas() == place.replicas_before


def test_tasks_marked_as_success_grant_nothing(place: Place) -> None:
    own = place.mallory.api.trigger(DAG, conf=REMOVE_FROM_OTHER, partition_key="other")
    run = place.run_on_screen(place.question(own))
    place.mallory.api.mark_task(DAG, own, "approve", "success")
    assert place.end_of(own) == "failed"
    for task_id in ("open_run", "execute"):
        place.mallory.api.mark_task(DAG, own, task_id, "success")
    place.mallory.api.clear_task(DAG, own, "verify")
    assert place.end_of(own) == "failed"
    check_untouched(place, run)


def test_a_cleared_plan_is_not_made_anew_behind_an_open_question(place: Place) -> None:
    """Airflow would go on showing the first question of the task."""
    asked = place.bob.api.trigger(DAG, conf=DEMOTE_ANOTHER, partition_key="demo")
    page = place.question(asked)
    run = place.run_on_screen(page)
    place.let_it_park(asked)
    place.mallory.api.clear_task(DAG, asked, "plan")
    assert place.end_of(asked) == "failed"
    assert "start a new Dag run" in place.alice.api.task_log(DAG, asked, "plan", try_number=2)
    place.mallory.api.mark_task(DAG, asked, "plan", "success")
    # Airflow clears what failed behind a task that is marked as success, and goes on with it.
    assert place.question(asked).body == page.body
    assert place.installation.ledger.runs(cluster="demo")[0] == run
    check_untouched(place, run)


def test_an_old_page_does_not_answer_for_a_new_plan(place: Place) -> None:
    """The Dag run is deleted and started again under its id, with another goal.

    Its id has asked about a plan before, so it asks about no other one.
    """
    asked = place.bob.api.trigger(DAG, conf=DEMOTE_ANOTHER, partition_key="demo")
    old_page = place.question(asked)
    place.mallory.start_anew(asked, REMOVE)
    assert place.end_of(asked) == "failed"
    check_untouched(place, place.run_on_screen(old_page))


def test_a_newer_plan_closes_the_question_of_the_one_before(place: Place) -> None:
    asked = place.bob.api.trigger(DAG, conf=DEMOTE_ANOTHER, partition_key="demo")
    run = place.run_on_screen(place.question(asked))
    newer = place.bob.api.trigger(DAG, conf=REMOVE, partition_key="demo")
    question = place.question(newer)
    assert place.end_of(asked) == "success"
    assert place.state_of(run) is RunState.SUPERSEDED
    assert place.decisions(run) == [], "nobody let time run out"
    waiting = place.alice.api.pending_approvals(DAG)
    assert [one.run_id for one in waiting if one.task_state in WAITING_STATES] == [newer]
    of_question = f"dags/{DAG}/dagRuns/{asked}/taskInstances/approve"
    told = place.alice.get(f"{of_question}/-1/hitlDetails")
    assert (told["chosen_options"], told["responded_by_user"]) == ([OPTION], None)
    assert place.note_of(asked).startswith("superseded: ")
    states = place.alice.api.task_states(DAG, asked)
    assert (states["approve"], states["execute"]) == ("skipped", "skipped")

    # Of the command line, say.
    reject(place.installation, place.run_on_screen(question), by=Person.system("alice"))
    assert place.end_of(newer) == "success"
    assert place.note_of(newer) == "rejected: not this week"
    assert place.alice.api.pending_approvals(DAG, newer) == []
    assert place.replicas() == place.replicas_before


def test_a_cancelled_run_ends_well_and_does_not_go_on_because_somebody_clears_a_task(
    place: Place,
) -> None:
    asked = place.bob.api.trigger(DAG, conf=REMOVE, partition_key="demo")
    page = place.question(asked)
    run = place.run_on_screen(page)
    place.answer(page, "approve", rate="50kB/s")  # minutes, in which it can be cancelled
    place.until_state(run, RunState.RUNNING)
    oscar = Person.system("oscar")
    requests.cancel(place.installation, run.run_id, by=oscar, why="month end")
    assert place.end_of(asked) == "success"
    assert place.state_of(run) is RunState.CANCELLED
    assert place.note_of(asked).startswith("cancelled: cancel by oscar")
    states = place.alice.api.task_states(DAG, asked)
    assert (states["execute"], states["verify"], states["settle"]) == (
        "skipped",
        "skipped",
        "success",
    )
    for task_id in ("execute", "settle", "verdict"):
        assert "Traceback" not in place.alice.api.task_log(DAG, asked, task_id), task_id
    replicas = place.replicas()

    for task_id in ("execute", "approve"):
        place.mallory.api.clear_task(DAG, asked, task_id)
        assert place.end_of(asked) == "success"
        assert place.state_of(run) is RunState.CANCELLED
    assert place.replicas() == replicas
    assert "Traceback" not in place.alice.api.task_log(DAG, asked, "approve", try_number=2)
