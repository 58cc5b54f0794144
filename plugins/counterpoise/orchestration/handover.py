"""What a Dag run is to do, and which run of the ledger its tasks are about.

    call_stage(verification.verify, ti)
    run = planned_run(installation, ti)
    run["run_id"], run["plan_uri"], run["fingerprint"]
    request_rebalance(outlet_events[REBALANCE_WANTED], wanted, "needs no rebalance")

The run is found by the Dag run's id in the ledger. What `plan` leaves as an XCom is for people to
read: whoever may trigger a Dag may change XComs, too.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from counterpoise.errors import CounterpoiseError, InputError, RunConflictError
from counterpoise.model.approval import Decision
from counterpoise.model.person import ANALYSIS_DAG, Person
from counterpoise.model.request import (
    CLUSTER_FIELD,
    CLUSTER_TITLE,
    MAX_WHY,
    REASON_FIELD,
    UNDO_FIELD,
    UNDO_TITLE,
    Goal,
    RebalanceRequest,
    check_brokers_given,
    form_title,
    in_form_words,
    read_rebalance_request,
)
from counterpoise.model.run import Run, RunState
from counterpoise.model.safe_text import one_line, safe_logger, without_control_characters
from counterpoise.orchestration.delivery import tell_about_run
from counterpoise.orchestration.end_note import tell_end
from counterpoise.orchestration.installation import airflow_installation, failing_for_good
from counterpoise.orchestration.links import REPORT, show_cluster, show_page, show_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from counterpoise.installation import Installation
    from counterpoise.services.plans import NothingToMove, PlannedRun

_LOGGER = safe_logger(__name__)
PLAN_TASK: Final = "plan"
_WHY_NOTHING: Final = "why nothing needs to move"  # an XCom of the task `plan`
# The tasks of ours that ask for rebalances, by an event whose source Airflow records.
ANALYSIS: Final = (ANALYSIS_DAG, "propose")
REPETITION: Final = ("kafka_rebalance", "repeat")
STARTED_BY_A_PERSON: Final = "manual"
STARTED_BY_A_DAG: Final = "operator_triggered"
# `from_rest_api` is Airflow's mark of an event that somebody made over REST.
# The cluster stands beside the request, in the form as in an event.
_NOT_OF_THE_REQUEST: Final = (CLUSTER_FIELD, REASON_FIELD, "requested_by", "from_rest_api")
_NO_CLUSTER: Final = (
    f'this Dag run names no cluster: choose one in the field "{CLUSTER_TITLE}" of the form, or '
    "give its name as partition key"
)
# What the form gives for a field that was left empty.
_EMPTY_VALUES: Final[tuple[Any, ...]] = (None, "", [])


@dataclass(frozen=True, slots=True)
class Wanted:
    """The rebalance that somebody, or the analysis, asks for."""

    cluster: str
    rebalance_request: RebalanceRequest
    requested_by: Person
    undo_of: str = ""  # the id of the run to take back, in place of the request
    why: str = ""


def plan_wanted(
    ti: Any, dag_run: Any, params: Mapping[str, Any], events: Mapping[Any, Sequence[Any]]
) -> dict[str, str]:
    """Make the plan that this Dag run was started for, and open its run; return what is to be seen
    on the task: the run, or why nothing needs to move.

    Raises AirflowFailException, in words of the form, for what cannot be asked for.
    """
    from counterpoise.services import plans

    all_events = [event for of_asset in events.values() for event in of_asset]
    with airflow_installation() as installation, failing_in_form_words():
        wanted = wanted_rebalance(dag_run, params, all_events)
        plans.check_plans_first(installation, ti.dag_id, ti.run_id)
        show_cluster(ti, wanted.cluster)
        planned = _planned(installation, wanted, ti)
    if isinstance(planned, plans.NothingToMove):
        ti.xcom_push(key=_WHY_NOTHING, value=planned.reason)
        report = show_page(ti, REPORT, f"reports/{planned.report_name}")
        return {"cluster": planned.cluster, "nothing to move": planned.reason, "report": report}
    show_run(ti, planned["run_id"])
    return {name: str(value) for name, value in planned.items()}


def _planned(installation: "Installation", wanted: Wanted, ti: Any) -> "PlannedRun | NothingToMove":
    from counterpoise.services import plans

    origin = plans.Origin(wanted.requested_by, ti.dag_id, ti.run_id, wanted.why)
    if wanted.undo_of:
        return plans.make_undo(installation, wanted.cluster, wanted.undo_of, origin)
    request = wanted.rebalance_request
    return plans.make(installation, wanted.cluster, request, origin)


def _check_something_moves(ti: Any) -> None:
    """Raise AirflowSkipException, with the reason, where the task `plan` found nothing to move: all
    tasks after it are skipped, and the Dag run succeeds.

    It is about a Dag run without a run of the ledger, which moves nothing whatever the XCom says.
    """
    reason = ti.xcom_pull(task_ids=PLAN_TASK, key=_WHY_NOTHING)
    if reason:
        raise AirflowSkipException(f"nothing needs to move: {one_line(str(reason))}")


def planned_run(installation: "Installation", ti: Any) -> "PlannedRun":
    """Return the run that this Dag run's plan opened.

    Raises AirflowSkipException where nothing needs to move, AirflowFailException where the ledger
    has no run for another reason: somebody marked `plan` as success, say.
    """
    run = _run_or_none(installation, ti)
    if run is None:
        _check_something_moves(ti)
        raise AirflowFailException(
            f"no run of the ledger belongs to this Dag run ({ti.run_id}): its task {PLAN_TASK!r} "
            "made no plan. Start a new Dag run"
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

    Without a run the Dag run succeeds only if nothing needs to move: raises AirflowFailException
    when the plan is missing for another reason (it failed, or the run was cancelled).
    """
    run = _run_or_none(installation, ti)
    if run is None:
        _check_something_moves(ti)
        raise AirflowFailException(f"no plan was made; the log of the task {PLAN_TASK!r} says why")
    return run


def _run_or_none(installation: "Installation", ti: Any) -> "PlannedRun | None":
    from counterpoise.services import plans

    run = plans.run_of_dag_run(installation, ti.dag_id, ti.run_id)
    if run is not None:
        show_run(ti, run["run_id"])
    return run


def call_stage(stage: "Callable[[Installation, str, str], None]", ti: Any) -> None:
    """Call a service with the planned run, by id and fingerprint."""
    with airflow_installation() as installation:
        run = planned_run(installation, ti)
        stage(installation, run["run_id"], run["fingerprint"])


def open_run(ti: Any) -> None:
    """Start the run, as `execution.open_run` does; one that people have ended is skipped.

    Each clearing of a task gives it its first try anew; the tries after that are retries.
    """
    from counterpoise.services import execution, runs

    first_try = ti.max_tries - ti.task.retries + 1
    was_cleared = 1 < ti.try_number == first_try
    with airflow_installation() as installation:
        run = planned_run(installation, ti)
        run_id, fingerprint = run["run_id"], run["fingerprint"]
        if ended := runs.ended_by_people(installation, run_id):
            raise AirflowSkipException(f"run {run_id} is {ended}")
        execution.open_run(installation, run_id, fingerprint, was_cleared=was_cleared)


def wanted_rebalance(dag_run: Any, params: Mapping[str, Any], events: Sequence[Any]) -> Wanted:
    """Return what this Dag run is to do: by the newest event that triggered it, or else by the form
    that a person filled in.

    Raises AirflowFailException when no cluster is named, or two, or when the request is malformed.
    """
    with failing_for_good():
        if events:
            event = max(events, key=lambda event: event.timestamp)
            fields, requested_by = event.extra, _source_of(event)
            cluster = dag_run.partition_key
        else:
            fields, requested_by = params, _who_triggered(dag_run)
            cluster = _cluster_of_form(dag_run, params)
        if not cluster:
            raise InputError(_NO_CLUSTER)
        # By index: the items of Airflow's params are Param objects, not values.
        values = {name: fields[name] for name in fields if name not in _NOT_OF_THE_REQUEST}
        values = {name: _without_empty_lines(value) for name, value in values.items()}
        values = {name: value for name, value in values.items() if value not in _EMPTY_VALUES}
        undo_of = "" if events else str(values.pop(UNDO_FIELD, "")).strip()
        rebalance_request = read_rebalance_request(values, word=form_title)
        if undo_of:
            _check_nothing_else(rebalance_request)
        check_brokers_given(rebalance_request.goal, rebalance_request.broker_ids)
        why = _why(fields[REASON_FIELD] if REASON_FIELD in fields else "")  # noqa: SIM401 - as above
    return Wanted(cluster, rebalance_request, requested_by, undo_of, why)


def _why(given: Any) -> str:
    """Return a reason as the ledger keeps it: a database takes no NUL, and an event is of any
    length.
    """
    text = without_control_characters(str(given or "")).strip()
    return text if len(text) <= MAX_WHY else f"{text[: MAX_WHY - 1]}…"


def _cluster_of_form(dag_run: Any, params: Mapping[str, Any]) -> str:
    """Return the cluster that a person named, in the form or by partition key; "" for none.

    What nobody chose (the form's default) never stands against a partition key. Raises InputError
    where both were given and differ.
    """
    by_key = dag_run.partition_key or ""
    chosen = str((getattr(dag_run, "conf", None) or {}).get(CLUSTER_FIELD) or "")
    if by_key and chosen and by_key != chosen:
        raise InputError(
            f"the form names the cluster {chosen} and the partition key {by_key}: leave the "
            f'partition key empty, or choose {by_key} in the field "{CLUSTER_TITLE}"'
        )
    return chosen or by_key or str(params.get(CLUSTER_FIELD) or "")


def _without_empty_lines(value: Any) -> Any:
    """Return a list without empty texts: a field of several lines gives one for each empty line."""
    if not isinstance(value, list):
        return value
    return [part for part in value if not isinstance(part, str) or part.strip()]


def _check_nothing_else(rebalance_request: RebalanceRequest) -> None:
    """Raise InputError where a form that undoes a run asks for something besides."""
    if rebalance_request != RebalanceRequest(Goal.REBALANCE):
        raise InputError(
            f'the field "{UNDO_TITLE}" takes back what a run moved, so it goes with no other field '
            f'but "{CLUSTER_TITLE}": leave the goal as it was, and the others empty'
        )


@contextmanager
def failing_in_form_words() -> Iterator[None]:
    """Say what is wrong in words of the form: the planner names options of the command line."""
    try:
        yield
    except CounterpoiseError as error:
        error.args = (in_form_words(str(error)),)
        raise


def _who_triggered(dag_run: Any) -> Person:
    """Return the user whom Airflow has recorded. A Dag that triggers this one hands its own user
    on, and Airflow does not say which Dag it is.
    """
    run_type = getattr(dag_run, "run_type", None)
    user_name = getattr(dag_run, "triggering_user_name", None)
    if run_type == STARTED_BY_A_DAG:
        return Person.dag("")
    if run_type != STARTED_BY_A_PERSON or not user_name:
        return Person.unknown()
    return Person.airflow(user_name)


def _source_of(event: Any) -> Person:
    """Return who sent an event, as Airflow recorded it. What an event says of itself counts for
    nothing: any Dag, and whoever may write assets over REST, can send one.
    """
    source = (event.source_dag_id, event.source_task_id)
    is_of_own_dag = Person.dag(event.source_dag_id or "").is_own_dag
    if not event.source_dag_id or (is_of_own_dag and source not in (ANALYSIS, REPETITION)):
        return Person.unknown()
    return Person.dag(event.source_dag_id)


def withdraw_unneeded(installation: "Installation", cluster: str) -> None:
    """Reject the plan that the analysis asked for, that waits for an answer and that is no longer
    needed.
    """
    from counterpoise.services import proposals

    unneeded = proposals.unneeded_proposal(installation, cluster)
    if unneeded is None:
        return
    run, why = unneeded
    reason, by = f"no longer needed: {why}", Person.of_analysis()
    if _end_waiting_plan(installation, run, Decision.REJECTED, by, reason):
        _LOGGER.info("the plan of run %s is withdrawn: %s", run.run_id, reason)


def _end_waiting_plan(
    installation: "Installation", run: Run, decision: Decision, by: Person, reason: str
) -> bool:
    """End a plan that waits for an answer, and tell people. Return whether it ended here: not where
    somebody was faster, and it is answered, or superseded.
    """
    from counterpoise.services import approvals

    try:
        approvals.end_unanswered(installation, run, decision=decision, by=by, reason=reason)
    except RunConflictError as error:
        _LOGGER.info("not ended: %s", error)
        return False
    tell_about_run(installation, run.run_id)
    return True


def judge(ti: Any, task_ids: Sequence[str]) -> None:
    """Decide how the Dag run ends, by its run of the ledger and the states of these tasks, and
    leave the word for its note. Raises what `judged_run` and `verification.verdict` raise.
    """
    from counterpoise.services import verification

    with airflow_installation() as installation:
        run_id = judged_run(installation, ti)["run_id"]
        end_refused(installation, ti, run_id)
        tell_end(ti, installation.ledger.run(run_id).in_words)
        verification.verdict(installation, run_id, states_of(ti, task_ids))


def end_refused(installation: "Installation", ti: Any, run_id: str) -> None:
    """End a plan that waits for an answer and that `validate` has refused: nobody can approve it.
    Any other plan is for people to go on with, by clearing what failed, or to reject.
    """
    from counterpoise.services import proposals

    run = installation.ledger.run(run_id)
    if run.state is not RunState.PROPOSED or not proposals.must_not_run(installation, run):
        return
    reason = "nobody could answer: its plan must not run"
    _end_waiting_plan(installation, run, Decision.TIMED_OUT, Person.dag(ti.dag_id), reason)


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
