"""The yes on a real Airflow: a plan is answered by everybody who may and may not, by every route,
while parts of Airflow are away; the ledger alone decides, and the Dag run says the same.
"""

from collections.abc import Iterator
from contextlib import suppress

import httpx
import pytest

from counterpoise.model.approval import Decision
from counterpoise.model.person import Person
from counterpoise.model.run import RunState
from dev.local_airflow.api import AirflowApiError
from dev.local_kafka import TopicSpec
from dev.local_kafka.load import MB
from dev.local_processes import wait_until
from tests.support.decisions import grant
from tests.support.shared_airflow import DAG, WAIT_SECONDS, Place

pytestmark = pytest.mark.timeout(2400)
DEMOTE = {"goal": "demote-brokers", "broker_ids": [1]}
DEMOTE_ANOTHER = {"goal": "demote-brokers", "broker_ids": [2]}


@pytest.fixture(scope="module")
def place(airflow_place: Place) -> Iterator[Place]:
    pairs = [(1, 2), (2, 3), (3, 4), (4, 1)]
    with airflow_place.with_topic(TopicSpec("payments", pairs * 2), 8 * MB, "demo"):
        yield airflow_place


def test_a_plan_is_answered_by_whoever_may_once(place: Place) -> None:
    asked = place.bob.api.trigger(DAG, conf=DEMOTE, partition_key="demo")
    question = place.question(asked)
    run = place.run_on_screen(question)
    place.let_it_park(asked)
    place.alice.api.choose_option(question)  # it decides nothing
    for user, fingerprint, status, words in (
        ("victor", "", 403, "Airflow does not let victor answer"),
        ("mallory", "", 403, "mallory may not approve here"),
        ("bob", "", 403, "bob may not approve here"),
        ("alice", "sha256:0", 409, "read that plan, and answer again"),
    ):
        with pytest.raises(AirflowApiError, match=words) as refused:
            place.accounts[user].api.decide(
                run.run_id, "approve", "x", rate="20MB/s", fingerprint=fingerprint
            )
        assert refused.value.status == status, user
    assert place.question(asked).body == question.body, "the question is open again"
    assert place.decisions(run) == []

    for _ in range(2):  # whoever requested a plan may withdraw it
        told = place.bob.api.decide(run.run_id, "reject", "mine, and too early")
        assert (told["decision"], told["state"]) == ("rejected", "rejected")
    with pytest.raises(AirflowApiError) as late:
        place.alice.api.decide(run.run_id, "reject", "x", fingerprint="sha256:0")
    assert late.value.status == 409
    assert place.end_of(asked) == "success"
    assert place.decisions(run) == [(Decision.REJECTED, "bob", run.fingerprint)]
    assert place.note_of(asked) == "rejected: mine, and too early"
    states = place.alice.api.task_states(DAG, asked)
    skipped = {task for task, state in states.items() if state == "skipped"}
    assert {"approve", "open_run", "execute", "settle", "verify"} <= skipped
    assert {states["report"], states["verdict"]} == {"success"}
    assert place.alice.api.pending_approvals(DAG, asked) == []


def test_an_answer_counts_while_triggerer_and_api_server_are_away(place: Place) -> None:
    asked = place.bob.api.trigger(DAG, conf=DEMOTE_ANOTHER, partition_key="demo")
    run = place.run_on_screen(place.question(asked))
    place.let_it_park(asked)
    place.airflow.kill("triggerer")
    place.airflow.kill("api-server")
    grant(place.installation, run, by=Person.airflow("alice"), rate="20MB/s")
    place.airflow.supervise()
    wait_until(lambda: is_back(place), "the api-server", WAIT_SECONDS)
    assert place.end_of(asked) == "success"
    assert place.state_of(run) is RunState.DONE
    assert place.note_of(asked) == "done"


def is_back(place: Place) -> bool:
    with suppress(httpx.TransportError):
        return place.alice.client.get("/api/v2/version").is_success
    return False
