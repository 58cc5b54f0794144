"""What a Dag run is to do, and which run of the ledger its tasks are about.

    call_stage("validate", ti)
    run = planned_run(installation, ti)
    run["run_id"], run["plan_uri"], run["fingerprint"]
    request_rebalance(outlet_events[REBALANCE_WANTED], wanted, "needs no rebalance")

The run is found by the Dag run's id in the ledger. What `plan` leaves as an XCom is for people to
read: whoever may trigger a Dag may change XComs, too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from counterpoise.model.person import DAG, People, Person, normalized_name
from counterpoise.model.rebalance_request import RebalanceRequest, read_rebalance_request
from counterpoise.orchestration.installation import airflow_installation, failing_for_good

if TYPE_CHECKING:
    from counterpoise.installation import Installation
    from counterpoise.pipeline import DagTask, PlannedRun

PLAN_TASK: Final = "plan"
# The tasks of ours that ask for rebalances, by an event whose source Airflow records.
ANALYSIS: Final = ("kafka_leader_balance", "propose")
REPETITION: Final = ("kafka_rebalance", "repeat")
STARTED_BY_A_PERSON: Final = "manual"
STARTED_BY_A_DAG: Final = "operator_triggered"
_SOME_DAG: Final = f"{DAG}:"  # Airflow does not say which
# `from_rest_api` is Airflow's mark of an event that somebody made over REST.
_ABOUT_THE_EVENT: Final = ("cluster", "reason", "requested_by", "from_rest_api")
# What the form gives for a field that was left empty.
_EMPTY_VALUES: Final[tuple[Any, ...]] = (None, "", [])


@dataclass(frozen=True, slots=True)
class Wanted:
    """The rebalance that somebody, or the analysis, asks for."""

    cluster: str
    rebalance_request: RebalanceRequest
    requested_by: Person


def nothing_to_do(cluster: str) -> NoReturn:
    """End the task `plan` when nothing needs to move: all tasks after it are skipped, and the Dag
    run succeeds.
    """
    raise AirflowSkipException(f"nothing needs to move on {cluster}; the log says why")


def planned_run(installation: "Installation", ti: Any) -> "PlannedRun":
    """Return the run that this Dag run's plan opened.

    Raises AirflowFailException where the ledger has none: somebody marked `plan` as success, say.
    """
    run = _run_or_none(installation, ti)
    if run is None:
        raise AirflowFailException(
            f"no run of the ledger belongs to this Dag run ({ti.run_id}): its task {PLAN_TASK!r} "
            "made no plan, or an earlier release did. Start a new Dag run"
        )
    return run


def run_to_tell(installation: "Installation", ti: Any) -> "PlannedRun":
    """Return what `planned_run` does, for tasks that tell of a run: skipped without one."""
    run = _run_or_none(installation, ti)
    if run is None:
        raise AirflowSkipException("this Dag run has opened no run, so there is nothing to tell")
    return run


def judged_run(installation: "Installation", ti: Any) -> "PlannedRun":
    """Return what `planned_run` does, for the task that decides how the Dag run ends.

    Without a run the Dag run succeeds only if nothing needed to move: raises AirflowFailException
    when the plan is missing for another reason (it failed, or the run was cancelled).
    """
    run = _run_or_none(installation, ti)
    if run is None and states_of(ti, [PLAN_TASK])[PLAN_TASK] == "skipped":
        raise AirflowSkipException("nothing needed to move")
    if run is None:
        raise AirflowFailException(f"no plan was made; the log of the task {PLAN_TASK!r} says why")
    return run


def _run_or_none(installation: "Installation", ti: Any) -> "PlannedRun | None":
    from counterpoise import pipeline

    return pipeline.run_of_dag_run(installation, ti.dag_id, ti.run_id)


def dag_task(ti: Any) -> "DagTask":
    """Return which task this is, as the ledger records it."""
    from counterpoise import pipeline

    return pipeline.DagTask(ti.dag_id, ti.run_id, ti.task_id)


def call_stage(stage: str, ti: Any) -> None:
    """Call a function of the pipeline that needs nothing but the planned run, like "validate"."""
    from counterpoise import pipeline

    with airflow_installation() as installation:
        run = planned_run(installation, ti)
        getattr(pipeline, stage)(installation, run["run_id"], run["fingerprint"])


def wanted_rebalance(
    people: People, dag_run: Any, params: Mapping[str, Any], events: Sequence[Any]
) -> Wanted:
    """Return what this Dag run is to do: by the newest event that triggered it, or else by the form
    that a person filled in.

    Raises AirflowFailException when no cluster is named, or when the request is malformed.
    """
    if not dag_run.partition_key:
        raise AirflowFailException(
            "this Dag run names no cluster; start it with the cluster's name as partition key"
        )
    with failing_for_good():
        if events:
            event = max(events, key=lambda event: event.timestamp)
            fields, requested_by = event.extra, _source_of(event)
        else:
            fields, requested_by = params, _who_triggered(people, dag_run)
        # By index: the items of Airflow's params are Param objects, not values.
        values = {name: fields[name] for name in fields if name not in _ABOUT_THE_EVENT}
        values = {name: value for name, value in values.items() if value not in _EMPTY_VALUES}
        rebalance_request = read_rebalance_request(values)
    return Wanted(dag_run.partition_key, rebalance_request, requested_by)


def _who_triggered(people: People, dag_run: Any) -> Person:
    """Return the user whom Airflow has recorded.

    A Dag that triggers this one hands its own user on: that name is only claimed.
    """
    user_name = getattr(dag_run, "triggering_user_name", None)
    run_type = getattr(dag_run, "run_type", None)
    account = _SOME_DAG if run_type == STARTED_BY_A_DAG else ""
    if not user_name:
        return Person("unknown", account, is_claimed=True)
    if run_type != STARTED_BY_A_PERSON:
        return Person(normalized_name(user_name, where="Airflow user"), account, is_claimed=True)
    return people.airflow_user(user_name)


def _source_of(event: Any) -> Person:
    """Return who sent an event, as Airflow recorded it.

    What an event says of itself is only claimed: any Dag, and whoever may write assets over REST,
    can send one.
    """
    source = (event.source_dag_id, event.source_task_id)
    own_dag = f"{DAG}:{event.source_dag_id}"
    if source == ANALYSIS:
        return Person("analysis", own_dag)
    if source == REPETITION:
        return Person(f"Dag run {event.source_run_id}", own_dag)
    claimed = str(event.extra.get("requested_by") or "unknown")
    name = normalized_name(claimed, where="requested_by of the asset event")
    return Person(name, own_dag if event.source_dag_id else "", is_claimed=True)


def request_rebalance(
    event: Any, wanted: Mapping[str, Any] | None, why_none: str
) -> Mapping[str, Any]:
    """Emit the asset event that starts `kafka_rebalance` for the cluster of `wanted`.

    Without a wanted rebalance, raises AirflowSkipException with `why_none`.
    """
    if wanted is None:
        raise AirflowSkipException(why_none)
    event.add_partitions(wanted["cluster"])
    event.extra = wanted
    return wanted


def states_of(ti: Any, task_ids: Sequence[str]) -> dict[str, str | None]:
    """Return the states of other tasks of the same Dag run."""
    states_by_run = ti.get_task_states(
        dag_id=ti.dag_id, task_ids=list(task_ids), run_ids=[ti.run_id]
    )
    states = states_by_run.get(ti.run_id, {})
    return {task_id: states.get(task_id) for task_id in task_ids}
