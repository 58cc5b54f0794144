"""Links from our pages into Airflow's own: a Dag's run, and a Dag to trigger for one cluster.

dag_run_link("/airflow", run)            # /airflow/dags/kafka_rebalance/runs/manual__2026...
trigger_link("/airflow", "kafka_rebalance", "orders-eu")
"""

import json
from collections.abc import Mapping
from urllib.parse import quote, urlencode

from counterpoise.model.run import Run


def dag_run_link(airflow: str, run: Run) -> str:
    """Return where Airflow shows the Dag run of a run; "" for a run of the command line."""
    if not run.dag_id or not run.dag_run_id:
        return ""
    dag_run = f"{quote(run.dag_id, safe='')}/runs/{quote(run.dag_run_id, safe='')}"
    return f"{airflow}/dags/{dag_run}"


def trigger_link(
    airflow: str, dag_id: str, cluster: str, conf: Mapping[str, object] | None = None
) -> str:
    """Return where Airflow shows a Dag, with the values of its trigger form for a cluster."""
    values = {"partition_key": cluster} | ({"conf": json.dumps(conf)} if conf else {})
    return f"{airflow}/dags/{dag_id}?{urlencode(values)}"
