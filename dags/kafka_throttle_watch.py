"""Looks after what no run drives any more: orphaned runs, late moves, config keys of dead brokers,
and throttles that no run has set.

What the ledger knows is settled and restored; anything else is a warning in the log and is never
touched. A cluster that cannot be watched fails its own task, and with it the Dag run, but the other
clusters are watched all the same. COUNTERPOISE_WATCH_SCHEDULE is a cron expression, or `manual`;
every five minutes by default.
"""

import logging
import os
from datetime import timedelta
from typing import Any

from airflow.sdk import dag, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException

from counterpoise.model.safe_text import safe_logger
from counterpoise.orchestration.delivery import tell
from counterpoise.orchestration.installation import (
    airflow_installation,
    failing_at_deadline,
    log_entries,
)
from counterpoise.orchestration.pools import pool_for

LOGGER = safe_logger(__name__)
SCHEDULE = os.environ.get("COUNTERPOISE_WATCH_SCHEDULE") or "*/5 * * * *"


@dag(
    dag_display_name="Kafka throttle watch",
    description="Settles runs that nobody drives, and restores config keys that they left",
    schedule=None if SCHEDULE == "manual" else SCHEDULE,
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["counterpoise"],
    default_args={"owner": "counterpoise"},
)
def kafka_throttle_watch() -> None:
    @task(retries=1, retry_delay=timedelta(seconds=20))
    def due_clusters() -> list[str]:
        from counterpoise.services import snapshots

        with airflow_installation() as installation:
            return snapshots.due_clusters(installation)

    @task(
        map_index_template="{{ cluster }}",
        retries=0,  # the next watch is soon
        # A watch that hangs keeps the next one from starting, whatever its cluster: it ends before.
        execution_timeout=timedelta(minutes=4),
        pool=pool_for("WATCH"),
    )
    def watch(cluster: str) -> dict[str, str]:
        from counterpoise.services import watch

        get_current_context()["cluster"] = cluster  # type: ignore[literal-required]
        with failing_at_deadline(), airflow_installation() as installation:
            tell(installation, cluster)  # first: also of a cluster that cannot be reached
            report = watch.watch_throttles(installation, cluster, LOGGER.info)
        log_entries(LOGGER, logging.INFO, report.done | report.under_way)
        # A warning and no failure: it would be the same at every watch until somebody has time.
        log_entries(LOGGER, logging.WARNING, report.needs_attention)
        return {"cluster": cluster, "found": report.summary}

    @task(trigger_rule="all_done")
    def report(clusters: Any, watched: Any) -> None:
        summaries = {result["cluster"]: result["found"] for result in watched or () if result}
        for cluster, summary in summaries.items():
            LOGGER.info("%s: %s", cluster, summary)
        missed = [cluster for cluster in clusters or () if cluster not in summaries]
        if missed or clusters is None:
            names = ", ".join(missed) or "all clusters"
            raise AirflowFailException(
                f"not watched: {names}; the logs of the tasks before this one say why"
            )

    clusters = due_clusters()
    report(clusters, watch.expand(cluster=clusters))


kafka_throttle_watch()
