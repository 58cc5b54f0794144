"""What tasks hand to each other: three short strings, never a plan; and what a Dag run is to do.

run = planned_run(ti)
run["run_id"], run["plan_uri"], run["fingerprint"]
request_rebalance(outlet_events[REBALANCE_WANTED], wanted, "needs no rebalance")
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from counterpoise.model.rebalance_request import RebalanceRequest, read_rebalance_request
from counterpoise.orchestration.installation import failing_for_good

if TYPE_CHECKING:
    from counterpoise.pipeline import PlannedRun

PLAN_TASK: Final = "plan"
NOTHING_TO_DO: Final = "nothing_to_do"
_ABOUT_THE_EVENT: Final = ("cluster", "reason", "requested_by")
# What the form gives for a field that was left empty.
_EMPTY_VALUES: Final[tuple[Any, ...]] = (None, "", [])


@dataclass(frozen=True, slots=True)
class Wanted:
    """The rebalance that somebody, or the analysis, asks for."""

    cluster: str
    rebalance_request: RebalanceRequest
    requested_by: str


def nothing_to_do(ti: Any, reason: str) -> NoReturn:
    """End the task `plan` when nothing needs to move: all tasks after it are skipped, and the Dag
    run succeeds.
    """
    ti.xcom_push(key=NOTHING_TO_DO, value=reason)
    raise AirflowSkipException(reason)


def planned_run(ti: Any) -> "PlannedRun":
    """Return what the task `plan` handed over; skip the calling task when there is no plan."""
    run = ti.xcom_pull(task_ids=PLAN_TASK)
    if not run:
        raise AirflowSkipException(
            f"the task {PLAN_TASK!r} made no plan in this Dag run: nothing to do"
        )
    return {"run_id": run["run_id"], "plan_uri": run["plan_uri"], "fingerprint": run["fingerprint"]}


def judged_run(ti: Any) -> "PlannedRun":
    """Return what `planned_run` does, for the task that decides how the Dag run ends.

    Without a plan the Dag run succeeds only if nothing needed to move: raises AirflowFailException
    when the plan is missing for another reason (it failed, or the run was cancelled).
    """
    has_plan = ti.xcom_pull(task_ids=PLAN_TASK)
    if not has_plan and not ti.xcom_pull(task_ids=PLAN_TASK, key=NOTHING_TO_DO):
        raise AirflowFailException(
            f"no plan was made; the log of the task {PLAN_TASK!r} says why. Clear that task to try "
            "again"
        )
    return planned_run(ti)


def wanted_rebalance(dag_run: Any, params: Mapping[str, Any], events: Sequence[Any]) -> Wanted:
    """Return what this Dag run is to do: by the newest event that triggered it, or else by the form
    that a person filled in.

    Raises AirflowFailException when no cluster is named, or when the request is malformed.
    """
    if not dag_run.partition_key:
        raise AirflowFailException(
            "this Dag run names no cluster; start it with the cluster's name as partition key"
        )
    if events:
        fields = max(events, key=lambda event: event.timestamp).extra
        requested_by = str(fields.get("requested_by", "analysis"))
    else:
        fields = params
        requested_by = getattr(dag_run, "triggering_user_name", None) or "unknown"
    # By index: the items of Airflow's params are Param objects, not values.
    values = {name: fields[name] for name in fields if name not in _ABOUT_THE_EVENT}
    values = {name: value for name, value in values.items() if value not in _EMPTY_VALUES}
    with failing_for_good():
        rebalance_request = read_rebalance_request(values)
    return Wanted(dag_run.partition_key, rebalance_request, requested_by)


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
