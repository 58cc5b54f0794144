"""What a person's form or an asset event asks for arrives as the same request, checked again."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowFailException

from counterpoise.model.rebalance_request import FIELDS, RebalanceRequest
from counterpoise.model.request import PLANNED_GOALS, Budget, Goal, Scope
from counterpoise.orchestration.handover import Wanted, wanted_rebalance

ROOT = Path(__file__).parents[2]
RUN = SimpleNamespace(partition_key="demo", triggering_user_name="alice")
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def form() -> Any:
    """The Dag's own parameters, as they are when a person changes nothing."""
    return DagBag(dag_folder=ROOT / "dags").dags["kafka_rebalance"].params


def test_the_form_offers_all_that_can_be_asked_for(form: Any) -> None:
    assert tuple(form) == FIELDS
    assert form.get_param("goal").schema["enum"] == list(PLANNED_GOALS)
    assert set(form.get_param("goal").schema["values_display"]) == set(PLANNED_GOALS)


def test_a_form_that_nobody_touched_asks_for_a_rebalance_of_everything(form: Any) -> None:
    assert wanted_rebalance(RUN, form, []) == Wanted(
        "demo", RebalanceRequest(Goal.REBALANCE), "alice"
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
    assert wanted_rebalance(RUN, filled, []).rebalance_request == rebalance_request


def test_the_newest_event_counts_and_may_name_goal_and_brokers_only(form: Any) -> None:
    events = [
        SimpleNamespace(
            timestamp=NOON,
            extra={"cluster": "demo", "goal": "leaders", "broker_ids": [], "reason": "x"},
        ),
        SimpleNamespace(
            timestamp=NOON + timedelta(hours=1), extra={"goal": "add-brokers", "broker_ids": [4]}
        ),
    ]
    assert wanted_rebalance(RUN, form, events) == Wanted(
        "demo", RebalanceRequest(Goal.ADD_BROKERS, (4,)), "analysis"
    )
    assert wanted_rebalance(RUN, form, events[:1]).rebalance_request == RebalanceRequest(
        Goal.LEADERS
    )


@pytest.mark.parametrize(
    "changed", [{"max_bytes": "5"}, {"topics": ["a b"]}, {"max_byte": "5GB"}, {"goal": ""}]
)
def test_a_malformed_wish_fails_for_good(form: Any, changed: dict[str, Any]) -> None:
    with pytest.raises(AirflowFailException):
        wanted_rebalance(RUN, dict(form) | changed, [])


def test_without_a_cluster_nothing_is_planned(form: Any) -> None:
    with pytest.raises(AirflowFailException, match="names no cluster"):
        wanted_rebalance(SimpleNamespace(partition_key=None), form, [])
