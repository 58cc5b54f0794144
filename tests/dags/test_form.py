"""What a person's form or an asset event asks for arrives as the same request, checked again."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowFailException

from counterpoise.errors import InputError
from counterpoise.model.person import People, Person
from counterpoise.model.rebalance_request import RebalanceRequest, read_rebalance_request
from counterpoise.model.request import PLANNED_GOALS, Budget, Goal, Scope
from counterpoise.orchestration.handover import ANALYSIS, REPETITION, Wanted, wanted_rebalance

ROOT = Path(__file__).parents[2]
PEOPLE = People()
RUN = SimpleNamespace(partition_key="demo", triggering_user_name="alice", run_type="manual")
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def form() -> Any:
    """The Dag's own parameters, as they are when a person changes nothing."""
    return DagBag(dag_folder=ROOT / "dags").dags["kafka_rebalance"].params


def test_the_form_offers_all_that_can_be_asked_for(form: Any) -> None:
    with pytest.raises(InputError, match=f"there are: {', '.join(form)}"):
        read_rebalance_request({"nothing": 1})
    assert form.get_param("goal").schema["enum"] == list(PLANNED_GOALS)
    assert set(form.get_param("goal").schema["values_display"]) == set(PLANNED_GOALS)


def test_a_form_that_nobody_touched_asks_for_a_rebalance_of_everything(form: Any) -> None:
    assert wanted_rebalance(PEOPLE, RUN, form, []) == Wanted(
        "demo", RebalanceRequest(Goal.REBALANCE), Person("alice", "airflow:alice")
    )


def test_what_a_person_fills_in_arrives(form: Any) -> None:
    filled = dict(form) | {
        "goal": "leaders",
        "topics": ["orders-*"],
        "max_bytes": "5GB",
        "excluded_broker_ids": [3],
    }
    rebalance_request = RebalanceRequest(
        Goal.LEADERS,
        scope=Scope(topics=("orders-*",), excluded_broker_ids=(3,)),
        budget=Budget(5 * 10**9),
    )
    assert wanted_rebalance(PEOPLE, RUN, filled, []).rebalance_request == rebalance_request


def event(at: datetime, source: tuple[str, str] | None, **extra: object) -> Any:
    dag_id, task_id = source or (None, None)
    return SimpleNamespace(
        timestamp=at,
        extra=extra,
        source_dag_id=dag_id,
        source_task_id=task_id,
        source_run_id="scheduled__1" if source else None,
    )


def test_the_newest_event_counts_and_may_name_goal_and_brokers_only(form: Any) -> None:
    events = [
        event(NOON, ANALYSIS, cluster="demo", goal="leaders", broker_ids=[], reason="x"),
        event(NOON + timedelta(hours=1), ANALYSIS, goal="add-brokers", broker_ids=[4]),
    ]
    assert wanted_rebalance(PEOPLE, RUN, form, events) == Wanted(
        "demo",
        RebalanceRequest(Goal.ADD_BROKERS, (4,)),
        Person("analysis", "airflow-dag:kafka_leader_balance"),
    )
    assert wanted_rebalance(PEOPLE, RUN, form, events[:1]).rebalance_request == RebalanceRequest(
        Goal.LEADERS
    )


@pytest.mark.parametrize(
    ("source", "requested_by"),
    [
        (ANALYSIS, Person("analysis", "airflow-dag:kafka_leader_balance")),
        (REPETITION, Person("Dag run scheduled__1", "airflow-dag:kafka_rebalance")),
        (("a_dag", "propose"), Person("alice", "airflow-dag:a_dag", is_claimed=True)),
        (
            ("kafka_rebalance", "plan"),
            Person("alice", "airflow-dag:kafka_rebalance", is_claimed=True),
        ),
        (None, Person("alice", is_claimed=True)),  # over REST
    ],
)
def test_who_asks_is_where_the_event_comes_from_and_never_what_it_says(
    form: Any, source: tuple[str, str] | None, requested_by: Person
) -> None:
    forged = event(NOON, source, goal="leaders", requested_by="alice", from_rest_api=True)
    assert wanted_rebalance(PEOPLE, RUN, form, [forged]).requested_by == requested_by


def test_a_dag_that_triggers_this_one_only_claims_its_user(form: Any) -> None:
    run = SimpleNamespace(
        partition_key="demo", triggering_user_name="alice", run_type="operator_triggered"
    )
    requester = wanted_rebalance(PEOPLE, run, form, []).requested_by
    assert requester == Person("alice", "airflow-dag:", is_claimed=True)
    assert requester.shown == "alice (claimed by a Dag)"


@pytest.mark.parametrize(
    "changed", [{"max_bytes": "5"}, {"topics": ["a b"]}, {"max_byte": "5GB"}, {"goal": ""}]
)
def test_a_malformed_wish_fails_for_good(form: Any, changed: dict[str, Any]) -> None:
    with pytest.raises(AirflowFailException):
        wanted_rebalance(PEOPLE, RUN, dict(form) | changed, [])


def test_without_a_cluster_nothing_is_planned(form: Any) -> None:
    with pytest.raises(AirflowFailException, match="names no cluster"):
        wanted_rebalance(PEOPLE, SimpleNamespace(partition_key=None), form, [])
