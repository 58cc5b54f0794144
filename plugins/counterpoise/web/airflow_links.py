"""Links from our pages to Airflow's own page of a Dag run.

dag_run_link("/airflow", run)            # /airflow/dags/kafka_rebalance/runs/manual__2026...
"""

from urllib.parse import quote

from counterpoise.model.run import Run


def dag_run_link(airflow: str, run: Run) -> str:
    """Return where Airflow shows the Dag run of a run; "" for a run of the command line."""
    if not run.dag_id or not run.dag_run_id:
        return ""
    return airflow + dag_run_path(run.dag_id, run.dag_run_id)


def dag_run_path(dag_id: str, dag_run_id: str) -> str:
    """Return where Airflow shows a Dag run, below its own path."""
    return f"/dags/{quote(dag_id, safe='')}/runs/{quote(dag_run_id, safe='')}"
