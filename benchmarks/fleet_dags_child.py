"""One figure of `fleet_dags.py` in a process of its own, so that its memory is its own.

    python -m benchmarks.fleet_dags_child all kafka_snapshot RESULT.json

RESULT.json gets the figures; the log of Airflow goes where it will.
"""

import json
import os
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, Final

CASE_VARIABLE: Final = "COUNTERPOISE_BENCHMARK_CASE"
_ROOT: Final = Path(__file__).resolve().parents[1]


def prepare(_dag_id: str) -> dict[str, Any]:
    """Make the database of Airflow, and the ledger."""
    from airflow.utils.db import initdb

    from counterpoise.installation import open_installation

    initdb()
    with open_installation() as installation:
        return {"runs": len(installation.ledger.runs())}


def parse(dag_id: str) -> dict[str, Any]:
    """Read a Dag's file as the dag-processor does; imports are in it."""
    began = time.process_time()
    dag = _dag(dag_id)
    seconds = time.process_time() - began
    from airflow.serialization.serialized_objects import DagSerialization

    text = json.dumps(DagSerialization.to_dict(dag))
    return {"cpu_seconds": seconds, "serialized_bytes": len(text), **_peak()}


def decide(dag_id: str) -> dict[str, Any]:
    """Let the scheduler decide about the largest run of a Dag, all of whose mapped tasks wait."""
    _decision(dag_id)  # the scheduler has imported everything long ago
    began = time.process_time()
    tasks = _decision(dag_id)
    seconds = time.process_time() - began
    # Anew, since counting memory takes its time.
    tracemalloc.start()
    _decision(dag_id)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {"seconds": seconds, "held_bytes": most, "tasks": tasks}


def _decision(dag_id: str) -> int:
    """Return how many tasks there are, once it is decided which of them may start."""
    from airflow.models.dagrun import DagRun
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import func, select, update

    with create_session(scoped=False) as session:
        run_id = session.scalar(
            select(TaskInstance.run_id)
            .where(TaskInstance.dag_id == dag_id)
            .group_by(TaskInstance.run_id)
            .order_by(func.count().desc())
        )
        waiting = TaskInstance.run_id == run_id, TaskInstance.map_index >= 0
        session.execute(update(TaskInstance).where(*waiting).values(state=None))
        run = session.scalar(select(DagRun).where(DagRun.run_id == run_id))
        run.dag = SerializedDagModel.get_dag(dag_id, session=session)
        decision = run.task_instance_scheduling_decisions(session=session)
        session.rollback()
        return len(decision.tis)


def run_all(dag_id: str) -> dict[str, Any]:
    """Run a Dag over every cluster; return the CPU seconds of each task, and the peak of memory."""
    from counterpoise import installation

    installation.connect_by_discovery = _connect  # type: ignore[assignment]
    dag = _dag(dag_id)
    began = time.process_time()
    with _rejecting(), _timing() as seconds:
        ended = dag.test(run_conf=_conf(dag_id))
    whole = time.process_time() - began
    for task in ended.get_task_instances():
        if task.state == "failed":
            raise RuntimeError(f"{dag_id}: {task.task_id} [{task.map_index}] failed")
    return {
        "seconds": whole,
        "mapped": [task.task_id for task in dag.tasks if task.is_mapped],
        "tasks": {
            task_id: {"count": len(each), "median": median(each), "longest": max(each)}
            for task_id, each in seconds.items()
        },
        **_peak(),
    }


@contextmanager
def _timing() -> Iterator[dict[str, list[float]]]:
    """Yield the CPU seconds of each task that Airflow runs meanwhile, by task."""
    from airflow.sdk.definitions import dag as module

    run_task = module._run_task
    seconds: dict[str, list[float]] = {}

    def timed(*, ti: Any, **options: Any) -> Any:
        began = time.process_time()
        try:
            return run_task(ti=ti, **options)
        finally:
            seconds.setdefault(ti.task_id, []).append(time.process_time() - began)

    module._run_task = timed
    try:
        yield seconds
    finally:
        module._run_task = run_task


def run_one(dag_id: str, cluster: str = "cluster-000") -> dict[str, Any]:
    """Run a Dag whose mapped tasks find one cluster among all that there are."""
    from counterpoise.services import analyses, snapshots

    before: list[int] = []

    def one_cluster(*_arguments: Any, **_options: Any) -> list[str]:
        before.append(_peak()["peak_bytes"])
        return [cluster]

    analyses.analyse = snapshots.due_clusters = one_cluster  # the mapped tasks go over its result
    return {**run_all(dag_id), "before_bytes": before[0]}


@contextmanager
def _rejecting() -> Iterator[None]:
    """Answer each question with a no."""
    from counterpoise.installation import open_installation
    from counterpoise.model.run import RunState
    from tests.support.decisions import reject
    from tests.support.questions import answered_by

    def reject_all() -> None:
        with open_installation() as installation:
            for run in installation.ledger.runs(states={RunState.PROPOSED}):
                reject(installation, run)

    with answered_by(reject_all):
        yield


def _conf(dag_id: str) -> dict[str, Any]:
    if dag_id != "kafka_rebalance":
        return {}
    return {"cluster": "cluster-000", "goal": "leaders", "broker_ids": []}


def _dag(dag_id: str) -> Any:
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(dag_folder=_ROOT / "dags" / f"{dag_id}.py").dags[dag_id]


def _connect(settings: Any) -> Any:
    """Return the simulated cluster at an address, with the id of the cluster of that name."""
    from tests.simulated_kafka.cluster import SimulatedCluster

    (address,) = settings.bootstrap_servers
    return SimulatedCluster.like(replace(_snapshot(), cluster_id=f"id-of-{address}"))


@cache
def _snapshot() -> Any:
    from benchmarks.make_cluster import make_cluster
    from counterpoise.model.document import from_document_text

    return from_document_text(json.dumps(make_cluster(os.environ[CASE_VARIABLE])), where="case")


def _peak() -> dict[str, int]:
    from benchmarks.machine import peak_bytes

    return {"peak_bytes": peak_bytes()}


TASKS: Final[dict[str, Callable[[str], dict[str, Any]]]] = {
    "prepare": prepare,
    "parse": parse,
    "all": run_all,
    "one": run_one,
    "scheduler": decide,
}


if __name__ == "__main__":
    what, of_dag, result = sys.argv[1:]
    Path(result).write_text(json.dumps(TASKS[what](of_dag)))
