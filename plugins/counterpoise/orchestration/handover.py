"""What tasks of one Dag run hand over to each other: three short strings, never a plan.

run = planned_run(ti)
run["run_id"], run["plan_uri"], run["fingerprint"]
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
_NOT_GIVEN: Final[tuple[Any, ...]] = (
    None,
    "",
    [],
)  # what the form gives for a field that was left empty


@dataclass(frozen=True, slots=True)
class Wanted:
    """The rebalance that somebody, or the analysis, asks for."""

    cluster: str
    rebalance_request: RebalanceRequest
    requested_by: str


def nothing_to_do(ti: Any, reason: str) -> NoReturn:
    """How the task `plan` ends when nothing needs to move: everything after it is skipped, and that
    is well.
    """
    ti.xcom_push(key=NOTHING_TO_DO, value=reason)
    raise AirflowSkipException(reason)


def planned_run(ti: Any) -> "PlannedRun":
    """What the task `plan` handed over. Skips the asking task when there is no plan to act on."""
    run = ti.xcom_pull(task_ids=PLAN_TASK)
    if not run:
        raise AirflowSkipException("there is no plan in this run")
    return {"run_id": run["run_id"], "plan_uri": run["plan_uri"], "fingerprint": run["fingerprint"]}


def judged_run(ti: Any) -> "PlannedRun":
    """As `planned_run`, for the task that judges: without a plan all is well only if nothing needed
    to move.

    Raises AirflowFailException when the plan is missing for another reason (it failed, or the run
    was cancelled).
    """
    if not ti.xcom_pull(task_ids=PLAN_TASK) and not ti.xcom_pull(
        task_ids=PLAN_TASK, key=NOTHING_TO_DO
    ):
        raise AirflowFailException(f"no plan was made; the log of the task {PLAN_TASK!r} says why")
    return planned_run(ti)


def wanted_rebalance(dag_run: Any, params: Mapping[str, Any], events: Sequence[Any]) -> Wanted:
    """What this Dag run is to do: the newest event that triggered it says so, or else the form of a
    person's trigger.

    Raises AirflowFailException when no cluster is named, or when what is asked for is malformed.
    """
    if not dag_run.partition_key:
        raise AirflowFailException(
            "which cluster? Start this Dag with the cluster's name as partition key"
        )
    if events:
        asked = max(events, key=lambda event: event.timestamp).extra
        by = str(asked.get("requested_by", "analysis"))
    else:
        asked = params
        by = getattr(dag_run, "triggering_user_name", None) or "unknown"
    names = [
        name for name in asked if name not in _ABOUT_THE_EVENT and asked[name] not in _NOT_GIVEN
    ]
    with failing_for_good():
        rebalance_request = read_rebalance_request({name: asked[name] for name in names})
    return Wanted(
        cluster=dag_run.partition_key, rebalance_request=rebalance_request, requested_by=by
    )


def states_of(ti: Any, task_ids: Sequence[str]) -> dict[str, str | None]:
    """The states of other tasks of the same Dag run."""
    states = ti.get_task_states(dag_id=ti.dag_id, task_ids=list(task_ids), run_ids=[ti.run_id]).get(
        ti.run_id, {}
    )
    return {task_id: states.get(task_id) for task_id in task_ids}
