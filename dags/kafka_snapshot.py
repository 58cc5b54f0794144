"""Makes a snapshot of every cluster; each snapshot is an asset event, and so is the whole round.

A cluster that cannot be reached fails its own task, and with it the Dag run, but the others get
their snapshots and are analysed all the same. So does one whose snapshot is bad: it is quarantined
(docs/operate.md, "Bad snapshots"). A person may name some clusters only, and `kafka_rebalance`
does so when a run has ended. COUNTERPOISE_SNAPSHOT_SCHEDULE is a cron expression, or `manual`;
every hour by default.
"""

import os
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import dag, get_current_context, task
from airflow.sdk.exceptions import AirflowSkipException

from counterpoise.orchestration.assets import CLUSTER_SNAPSHOT, FLEET_SNAPSHOT
from counterpoise.orchestration.fresh_snapshot import clusters_of_form, snapshot_form
from counterpoise.orchestration.installation import airflow_installation, failing_at_deadline
from counterpoise.orchestration.pools import pool_for

SCHEDULE = os.environ.get("COUNTERPOISE_SNAPSHOT_SCHEDULE") or "0 * * * *"


@dag(
    dag_display_name="Kafka snapshot",
    description="Takes a snapshot of every cluster, or of the named ones",
    schedule=None if SCHEDULE == "manual" else SCHEDULE,
    catchup=False,
    max_active_runs=1,
    params=snapshot_form(),
    doc_md=__doc__,
    tags=["counterpoise"],
    default_args={"owner": "counterpoise"},
)
def kafka_snapshot() -> None:
    @task
    def due_clusters(params: Any = None) -> list[str]:
        from counterpoise.services import snapshots

        with airflow_installation() as installation:
            return snapshots.due_clusters(installation, only=clusters_of_form(params))

    @task(
        outlets=[CLUSTER_SNAPSHOT],
        map_index_template="{{ cluster }}",
        retries=1,
        retry_delay=timedelta(seconds=20),
        # A snapshot that hangs would keep the others from being analysed, and all later rounds.
        execution_timeout=timedelta(minutes=10),
        pool=pool_for("SNAPSHOT"),
    )
    def snapshot(cluster: str, dag_run: Any = None, outlet_events: Any = None) -> dict[str, str]:
        from counterpoise.services import snapshots

        get_current_context()["cluster"] = cluster  # type: ignore[literal-required]
        # The scheduled time and not the clock: a retry writes the same names again.
        with failing_at_deadline(), airflow_installation() as installation:
            written = snapshots.make(
                installation, cluster, dag_run.logical_date or dag_run.run_after
            )
        outlet_events[CLUSTER_SNAPSHOT].add_partitions(cluster)
        outlet_events[CLUSTER_SNAPSHOT].extra = written
        return written

    @task(outlets=[FLEET_SNAPSHOT], trigger_rule="all_done")
    def fleet_snapshot(made: Any, params: Any = None, outlet_events: Any = None) -> None:
        outlet_events[FLEET_SNAPSHOT].extra = {
            "clusters": clusters_with_snapshots(made),
            "only": clusters_of_form(params),
        }

    @task(trigger_rule="all_done")
    def check_data(made: Any) -> None:
        from counterpoise.services import snapshots

        clusters = clusters_with_snapshots(made)
        # Great Expectations is imported here alone, once for all clusters; nothing waits for it.
        # Bad snapshots were quarantined by `snapshot`.
        with airflow_installation() as installation:
            snapshots.write_data_docs(installation, clusters)

    made = snapshot.expand(cluster=due_clusters())
    fleet_snapshot(made)
    check_data(made)
    # Without this leaf the run would succeed although a cluster has no snapshot.
    made >> EmptyOperator(task_id="every_snapshot_made")


def clusters_with_snapshots(results: Any) -> list[str]:
    """Return the clusters whose task `snapshot` succeeded; skip the calling task without any."""
    clusters = [result["cluster"] for result in results or () if result]
    if not clusters:
        raise AirflowSkipException("no cluster has a snapshot of this round")
    return clusters


kafka_snapshot()
