"""Photographs every cluster that is due; each photograph is an event of its own, and so is the
whole round.

A cluster that cannot be reached fails its own task, and by that the run, but keeps nobody else from
being photographed and analysed. So does one whose photograph is bad: it is set aside
(docs/operating.md, "Bad snapshots"). COUNTERPOISE_SNAPSHOT_SCHEDULE is a cron expression, or
`manual`; every hour by default.
"""

import os
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import Asset, dag, get_current_context, task
from airflow.sdk.exceptions import AirflowSkipException

from counterpoise.orchestration.installation import airflow_installation

CLUSTER_SNAPSHOT = Asset("cluster_snapshot", uri="counterpoise://snapshot/cluster")
FLEET_SNAPSHOT = Asset("fleet_snapshot", uri="counterpoise://snapshot/fleet")

SCHEDULE = os.environ.get("COUNTERPOISE_SNAPSHOT_SCHEDULE") or "0 * * * *"


@dag(
    schedule=None if SCHEDULE == "manual" else SCHEDULE,
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["counterpoise"],
)
def kafka_snapshot() -> None:
    @task
    def due_clusters() -> list[str]:
        from counterpoise import pipeline

        with airflow_installation() as installation:
            return pipeline.due_clusters(installation)

    @task(
        outlets=[CLUSTER_SNAPSHOT],
        map_index_template="{{ cluster }}",
        retries=1,
        retry_delay=timedelta(seconds=20),
    )
    def snapshot(cluster: str, dag_run: Any = None, outlet_events: Any = None) -> dict[str, str]:
        from counterpoise import pipeline

        get_current_context()["cluster"] = cluster  # type: ignore[literal-required]
        # The scheduled time and not the clock: a retry writes the same names again.
        with airflow_installation() as installation:
            taken = pipeline.snapshot(
                installation, cluster, dag_run.logical_date or dag_run.run_after
            )
        outlet_events[CLUSTER_SNAPSHOT].add_partitions(cluster)
        outlet_events[CLUSTER_SNAPSHOT].extra = taken
        return taken

    @task(outlets=[FLEET_SNAPSHOT], trigger_rule="all_done")
    def fleet_snapshot(taken: Any, outlet_events: Any = None) -> None:
        snapshots = [snapshot for snapshot in taken or () if snapshot]
        if not snapshots:
            raise AirflowSkipException("no cluster was photographed in this round")
        outlet_events[FLEET_SNAPSHOT].extra = {
            "clusters": [snapshot["cluster"] for snapshot in snapshots]
        }

    @task(trigger_rule="all_done")
    def check_data(taken: Any) -> None:
        from counterpoise import pipeline

        clusters = [snapshot["cluster"] for snapshot in taken or () if snapshot]
        if not clusters:
            raise AirflowSkipException("no cluster was photographed in this round")
        # Great Expectations is imported here alone, once for all clusters; nothing waits for it.
        # What is bad was set aside by `snapshot`.
        with airflow_installation() as installation:
            pipeline.write_data_docs(installation, clusters)

    taken = snapshot.expand(cluster=due_clusters())
    fleet_snapshot(taken)
    check_data(taken)
    # Without this leaf the run would look well although a cluster could not be photographed.
    taken >> EmptyOperator(task_id="every_cluster_photographed")


kafka_snapshot()
