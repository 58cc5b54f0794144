"""What a person's form or an asset event asks for arrives as the same request, checked again."""

from copy import deepcopy
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import AirflowFailException, ParamValidationError

from counterpoise.model.person import Person
from counterpoise.model.request import (
    COMMAND_LINE_OPTIONS,
    GOALS_WITH_BROKERS,
    PLANNED_GOALS,
    Budget,
    Goal,
    RebalanceRequest,
    Scope,
    read_rebalance_request,
)
from counterpoise.orchestration.form import rebalance_form
from counterpoise.orchestration.handover import ANALYSIS, REPETITION, Wanted, wanted_rebalance

ROOT = Path(__file__).parents[2]
RUN = SimpleNamespace(
    partition_key="demo", triggering_user_name="alice", run_type="manual", conf={}
)
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def form() -> Any:
    """The Dag's own parameters, as they are when a person changes nothing."""
    return DagBag(dag_folder=ROOT / "dags").dags["kafka_rebalance"].params


def test_the_form_has_the_few_fields_that_people_use(form: Any) -> None:
    of_request = ["goal", "broker_ids", "topics", "replication_factor", "below_percent"]
    assert list(form) == ["cluster", *of_request, "max_bytes", "reason", "undo_of"]
    assert form.get_param("goal").schema["enum"] == list(PLANNED_GOALS)
    assert set(form.get_param("goal").schema["values_display"]) == set(PLANNED_GOALS)


def test_a_form_that_nobody_touched_asks_for_a_rebalance_of_everything(form: Any) -> None:
    assert wanted_rebalance(RUN, form, []) == Wanted(
        "demo", RebalanceRequest(Goal.REBALANCE), Person.airflow("alice")
    )


def test_a_run_to_undo_arrives_and_goes_with_nothing_else(form: Any) -> None:
    wanted = wanted_rebalance(RUN, dict(form) | {"undo_of": " demo-7 "}, [])
    assert (wanted.cluster, wanted.undo_of) == ("demo", "demo-7")
    for other in ({"goal": "leaders"}, {"max_bytes": "5GB"}, {"topics": ["a"]}):
        with pytest.raises(AirflowFailException, match="goes with no other field"):
            wanted_rebalance(RUN, dict(form) | {"undo_of": "demo-7"} | other, [])


def test_why_arrives_from_a_form_and_from_an_event(form: Any) -> None:
    typed = wanted_rebalance(RUN, dict(form) | {"reason": " broker 7\nis new "}, [])
    assert typed.why == "broker 7\nis new"
    sent = event(NOON, ANALYSIS, goal="leaders", reason="uneven\0" + "x" * 5_000)
    why = wanted_rebalance(RUN, form, [sent]).why
    assert why.startswith("uneven\N{REPLACEMENT CHARACTER}x") and len(why) == 1_000
    with pytest.raises(ParamValidationError):
        form.get_param("reason").resolve("x" * 1_001)


def test_what_a_person_fills_in_arrives(form: Any) -> None:
    filled = dict(form) | {
        "goal": "leaders",
        "topics": ["orders-*"],
        "max_bytes": "5GB",
    }
    rebalance_request = RebalanceRequest(
        Goal.LEADERS, scope=Scope(topics=("orders-*",)), budget=Budget(5 * 10**9)
    )
    assert wanted_rebalance(RUN, filled, []).rebalance_request == rebalance_request


# What a Dag run's configuration may have beside the form's fields, and what is refused of it.
MORE = {
    "excluded_topics": ["audit-*"],
    "only_broker_ids": "1,2,3",
    "excluded_broker_ids": [3],
    "bytes_tolerance_percent": 20,
    "broker_sets": "pay-*=1,2,3;*=4,5,6",
    "max_replicas_per_broker": 4000,
    "no_new_replicas_on": [4],
    "is_quick": True,
}
WRONG = {
    "bytes_tolerance_percent": 101,
    "broker_sets": "pay-*",
    "only_broker_ids": "7;8",
    "is_quick": "yes",
}


def configured(form: Any, configuration: dict[str, Any]) -> Any:
    """What Airflow makes of a configuration: its values replace and extend the form's."""
    params = deepcopy(form)
    params.update(configuration)
    params.validate()
    return wanted_rebalance(RUN, params, []).rebalance_request


def test_the_configuration_of_a_dag_run_may_ask_for_all_that_a_request_has(form: Any) -> None:
    assert {*MORE, *form} == {*COMMAND_LINE_OPTIONS, "cluster", "reason", "undo_of"}
    wanted = {"goal": "leaders", **MORE}
    assert configured(form, wanted) == read_rebalance_request(wanted)


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_in_a_configuration_is_said_by_its_name(form: Any, name: str) -> None:
    with pytest.raises(AirflowFailException, match=name):
        configured(form, {name: WRONG[name]})


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
    assert wanted_rebalance(RUN, form, events) == Wanted(
        "demo",
        RebalanceRequest(Goal.ADD_BROKERS, (4,)),
        Person.of_analysis(),
    )
    assert wanted_rebalance(RUN, form, events[:1]).rebalance_request == RebalanceRequest(
        Goal.LEADERS
    )


@pytest.mark.parametrize(
    ("source", "requested_by"),
    [
        (ANALYSIS, Person.of_analysis()),
        (REPETITION, Person.dag("kafka_rebalance")),
        (("a_dag", "propose"), Person.dag("a_dag")),
        (("kafka_rebalance", "plan"), Person.unknown()),
        (None, Person.unknown()),  # over REST
    ],
)
def test_who_asks_is_where_the_event_comes_from_and_never_what_it_says(
    form: Any, source: tuple[str, str] | None, requested_by: Person
) -> None:
    forged = event(NOON, source, goal="leaders", requested_by="alice", from_rest_api=True)
    assert wanted_rebalance(RUN, form, [forged]).requested_by == requested_by


def test_a_dag_that_triggers_this_one_is_no_user(form: Any) -> None:
    run = SimpleNamespace(
        partition_key="demo", triggering_user_name="alice", run_type="operator_triggered", conf={}
    )
    requester = wanted_rebalance(run, form, []).requested_by
    assert (requester.shown, requester.is_own_dag) == ("a Dag", False)


@pytest.mark.parametrize(
    "changed", [{"max_bytes": "5"}, {"topics": ["a b"]}, {"max_byte": "5GB"}, {"goal": ""}]
)
def test_a_malformed_wish_fails_for_good(form: Any, changed: dict[str, Any]) -> None:
    with pytest.raises(AirflowFailException):
        wanted_rebalance(RUN, dict(form) | changed, [])


def started(partition_key: str | None = None, **conf: object) -> Any:
    """A Dag run that alice started, with what she filled in."""
    return SimpleNamespace(
        partition_key=partition_key, triggering_user_name="alice", run_type="manual", conf=conf
    )


def test_without_a_cluster_nothing_is_planned(form: Any) -> None:
    with pytest.raises(AirflowFailException, match='choose one in the field "Cluster"'):
        wanted_rebalance(started(), form, [])


def test_the_cluster_is_that_of_the_form_or_of_the_partition_key(form: Any) -> None:
    chosen = dict(form) | {"cluster": "demo"}
    for run in (started("demo"), started(cluster="demo"), started("demo", cluster="demo")):
        assert wanted_rebalance(run, chosen, []).cluster == "demo"
    # The form's own default is nobody's choice.
    assert wanted_rebalance(started("other"), chosen, []).cluster == "other"


def test_a_form_and_a_partition_key_that_differ_are_refused_in_one_sentence(form: Any) -> None:
    chosen = dict(form) | {"cluster": "demo"}
    with pytest.raises(AirflowFailException) as refused:
        wanted_rebalance(started("other", cluster="demo"), chosen, [])
    assert str(refused.value) == (
        "the form names the cluster demo and the partition key other: leave the partition key "
        'empty, or choose other in the field "Cluster"'
    )


@pytest.mark.parametrize("goal", sorted(GOALS_WITH_BROKERS))
def test_a_goal_without_its_brokers_is_refused_in_words_of_the_form(form: Any, goal: Goal) -> None:
    with pytest.raises(AirflowFailException, match=f'goal {goal} needs.*in the field "Brokers"'):
        wanted_rebalance(RUN, dict(form) | {"goal": goal}, [])


def test_brokers_may_be_typed_and_empty_lines_between_topics_do_not_matter(form: Any) -> None:
    filled = {"goal": "add-brokers", "broker_ids": "7, 8", "topics": ["orders-*", "", " pay "]}
    wanted = wanted_rebalance(RUN, dict(form) | filled, []).rebalance_request
    assert wanted.broker_ids == (7, 8)
    assert wanted.scope.topics == ("orders-*", "pay")


def test_brokers_that_are_replaced_and_a_mark_for_disks_arrive(form: Any) -> None:
    filled = {"goal": "replace-brokers", "broker_ids": "4 = 10, 3=9"}
    wanted = wanted_rebalance(RUN, dict(form) | filled, []).rebalance_request
    assert (wanted.broker_ids, wanted.new_broker_ids) == ((3, 4), (9, 10))
    filled = {"goal": "relief", "below_percent": 80}
    wanted = wanted_rebalance(RUN, dict(form) | filled, []).rebalance_request
    assert (wanted.goal, wanted.below_percent) == (Goal.RELIEF, 80)


def complaints_of_the_page(params: Any) -> list[str]:
    """The fields that Airflow's page would not send as they are: required, and without a value.

    The rule of its `FlexibleForm`: a schema with a type and without null makes a field required.
    """
    schemas = {name: params.get_param(name).schema for name in params}
    required = [
        name
        for name, schema in schemas.items()
        if schema.get("type")
        and not (isinstance(schema["type"], list) and "null" in schema["type"])
    ]
    return [name for name in required if params.get_param(name).value in (None, "")]


def form_with(monkeypatch: pytest.MonkeyPatch, folder: Path, *names: str) -> Any:
    """The form of an installation with these clusters."""
    text = "".join(f"  {name}:\n    connection: kafka_{name}\n" for name in names)
    (folder / "clusters.yaml").write_text(f"clusters:\n{text}")
    monkeypatch.setenv("COUNTERPOISE_CONFIG", str(folder / "clusters.yaml"))
    monkeypatch.setenv("COUNTERPOISE_STORE", str(folder / "store"))
    monkeypatch.setenv("COUNTERPOISE_LEDGER", f"sqlite:///{folder / 'ledger.db'}")
    return ParamsDict(rebalance_form())


def test_an_untouched_form_can_be_sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert complaints_of_the_page(form_with(monkeypatch, tmp_path, "demo")) == []
    for dag in DagBag(dag_folder=ROOT / "dags").dags.values():
        assert complaints_of_the_page(dag.params) == []
        dag.params.validate()


def test_of_several_clusters_one_has_to_be_chosen_and_no_other_can_be_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    form = form_with(monkeypatch, tmp_path, "b", "a")
    assert form.get_param("cluster").schema["enum"] == ["", "a", "b"]
    assert complaints_of_the_page(form) == ["cluster"]
    form.validate()  # an asset event and a partition key need no field
    with pytest.raises(ParamValidationError, match="'c' is not one of"):
        form["cluster"] = "c"
    assert not (tmp_path / "store").exists()
    assert not (tmp_path / "ledger.db").exists()


def test_where_no_settings_can_be_read_the_cluster_is_typed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    form = form_with(monkeypatch, tmp_path)
    (tmp_path / "clusters.yaml").write_text("clusters: [")
    form = ParamsDict(rebalance_form())
    form["cluster"] = "demo"
    assert "enum" not in form.get_param("cluster").schema


GOOD = {
    "broker_ids": ([7, 8], "7, 8", "3=9, 4 = 10", None, ""),
    "topics": (["orders-*", ""], None),
    "replication_factor": (3,),
    "below_percent": (80, None),
    "max_bytes": ("500GB", "1.5 TiB"),
}
BAD = {
    "broker_ids": ([-1], ["7"], "7;8", "3=", [2**31]),
    "topics": (["a b"], "orders"),
    "replication_factor": (0, 32_768, "3"),
    "below_percent": (0, 101, "80%"),
    "max_bytes": ("5", "5MB/s", "many"),
    "goal": ("", "imported", None),
}


@pytest.mark.parametrize("name", GOOD)
def test_airflow_takes_what_can_be_asked_for(form: Any, name: str) -> None:
    for value in GOOD[name]:
        ParamsDict(rebalance_form())[name] = value


@pytest.mark.parametrize("name", BAD)
def test_airflow_refuses_what_is_out_of_range_before_there_is_a_run(form: Any, name: str) -> None:
    for value in BAD[name]:
        with pytest.raises(ParamValidationError):
            ParamsDict(rebalance_form())[name] = value
