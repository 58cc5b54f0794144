"""Links from our pages into Airflow's own: a Dag's run, and a Dag to trigger for one cluster.

    dag_run_link("/airflow", run)            # /airflow/dags/kafka_rebalance/runs/manual__2026...
    Trigger.of("/airflow", "Make a plan", "kafka_rebalance", {"cluster": "orders-eu"})

Limits: Airflow 3.3 opens the Dag from a link and does not fill in its form, so what to paste into
the form ("Advanced Options") stands beside the link.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from counterpoise.model.run import Run


@dataclass(frozen=True, slots=True)
class Trigger:
    """Something to start in Airflow."""

    words: str
    dag_id: str
    href: str
    configuration: str  # to paste into the form, as JSON

    @classmethod
    def of(
        cls, airflow: str, words: str, dag_id: str, configuration: Mapping[str, object]
    ) -> "Trigger":
        return cls(words, dag_id, f"{airflow}/dags/{dag_id}", json.dumps(configuration))


def dag_run_link(airflow: str, run: Run) -> str:
    """Return where Airflow shows the Dag run of a run; "" for a run of the command line."""
    if not run.dag_id or not run.dag_run_id:
        return ""
    return airflow + dag_run_path(run.dag_id, run.dag_run_id)


def dag_run_path(dag_id: str, dag_run_id: str) -> str:
    """Return where Airflow shows a Dag run, below its own path."""
    return f"/dags/{quote(dag_id, safe='')}/runs/{quote(dag_run_id, safe='')}"


def triggers_of(airflow: str, cluster: str) -> tuple[Trigger, ...]:
    """Return what somebody who may propose can start for a cluster."""
    alone = {"clusters": [cluster]}
    return (
        Trigger.of(airflow, "Make a plan", "kafka_rebalance", {"cluster": cluster}),
        Trigger.of(airflow, "Snapshot now", "kafka_snapshot", alone),
        Trigger.of(airflow, "Audit now", "kafka_audit", alone),
    )
