"""Looks after what nobody drives: throttles without a run, moves that come late, debts of dead
brokers, orphaned runs.

What the ledger owns is settled and restored; what it does not own is a warning in the log and is
never touched. A cluster that cannot be looked after fails its own task, and by that the run, but
keeps no other from its turn. COUNTERPOISE_WATCH_SCHEDULE is a cron expression, or `manual`; every
ten minutes by default.
"""

import logging
import os
from datetime import timedelta
from typing import Any

from airflow.sdk import dag, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException

from counterpoise.orchestration.installation import airflow_installation

SCHEDULE = os.environ.get("COUNTERPOISE_WATCH_SCHEDULE") or "*/10 * * * *"


@dag(
    schedule=None if SCHEDULE == "manual" else SCHEDULE,
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["counterpoise"],
)
def kafka_throttle_watch() -> None:
    @task(retries=1, retry_delay=timedelta(seconds=20))
    def due_clusters() -> list[str]:
        from counterpoise import pipeline

        with airflow_installation() as installation:
            return pipeline.due_clusters(installation)

    @task(
        map_index_template="{{ cluster }}",
        retries=2,
        retry_delay=timedelta(seconds=30),
        execution_timeout=timedelta(
            minutes=30
        ),  # a watch that hangs would keep all later ones from starting
    )
    def watch(cluster: str) -> dict[str, str]:
        from counterpoise.orchestration.watching import watch_cluster

        get_current_context()["cluster"] = cluster  # type: ignore[literal-required]
        with airflow_installation() as installation:
            return watch_cluster(installation, cluster)

    @task(trigger_rule="all_done")
    def report(clusters: Any, watched: Any) -> None:
        found = {one["cluster"]: one["found"] for one in watched or () if one}
        for cluster, words in found.items():
            logging.getLogger(__name__).info("%s: %s", cluster, words)
        missed = [cluster for cluster in clusters or () if cluster not in found]
        if missed or clusters is None:
            names = ", ".join(missed) or "all clusters"
            raise AirflowFailException(
                f"not looked after: {names}; the logs of the tasks before this one say why"
            )

    clusters = due_clusters()
    report(clusters, watch.expand(cluster=clusters))


kafka_throttle_watch()
