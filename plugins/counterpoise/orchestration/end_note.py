"""A listener of Airflow: the note of a Dag run of `kafka_rebalance` says how its run ended.

    tell_end(ti, "cancelled: cancel by bob: month end")     # in the task `verdict`
    AirflowPlugin.listeners = [end_note]

A task cannot write the note of its own Dag run. So `verdict` leaves the words as an XCom, and the
scheduler, when it ends the Dag run, adds them to the note in the same transaction.

Limits: the words are for people to read; whoever may write XComs may change them.
"""

from typing import Any, Final

from airflow.listeners import hookimpl

_DAG: Final = "kafka_rebalance"
_VERDICT: Final = "verdict"
_ENDED: Final = "how the run ended"  # an XCom of the task `verdict`
_MAX_NOTE: Final = 1_000  # characters that Airflow keeps


def tell_end(ti: Any, words: str) -> None:
    """Leave how a run ended for the note of the Dag run."""
    ti.xcom_push(key=_ENDED, value=words)


@hookimpl
def on_dag_run_success(dag_run: Any, msg: str) -> None:
    del msg
    _note_end(dag_run)


@hookimpl
def on_dag_run_failed(dag_run: Any, msg: str) -> None:
    del msg
    _note_end(dag_run)


def _note_end(dag_run: Any) -> None:
    if dag_run.dag_id != _DAG:
        return
    # Imported here: every task of Airflow imports all plugins.
    from airflow.models.xcom import XComModel
    from sqlalchemy import select
    from sqlalchemy.orm import object_session

    session = object_session(dag_run)
    if session is None:
        return
    query = select(XComModel.value).where(
        XComModel.dag_id == _DAG,
        XComModel.run_id == dag_run.run_id,
        XComModel.task_id == _VERDICT,
        XComModel.key == _ENDED,
    )
    words = session.scalar(query)
    before = dag_run.note or ""
    if isinstance(words, str) and words not in before:
        dag_run.note = f"{before}\n\n{words}".strip()[-_MAX_NOTE:]
