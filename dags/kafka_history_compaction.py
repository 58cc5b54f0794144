"""Keeps the history small: deletes old snapshots as each policy says, merges files of the others.

Works on days that ended at least a day ago, beside snapshots and analyses. A cluster whose history
cannot be compacted fails the Dag run after all others are done. COUNTERPOISE_COMPACTION_SCHEDULE is
a cron expression, or `manual`; half past three in the night by default.
"""

import os
from datetime import timedelta

from airflow.sdk import dag, task
from airflow.sdk.exceptions import AirflowException

from counterpoise.model.safe_text import safe_logger, without_control_characters
from counterpoise.orchestration.installation import airflow_installation

LOGGER = safe_logger(__name__)
SCHEDULE = os.environ.get("COUNTERPOISE_COMPACTION_SCHEDULE") or "30 3 * * *"


@dag(
    dag_display_name="Kafka history compaction",
    description="Deletes old snapshots as each policy says, and merges files of the others",
    schedule=None if SCHEDULE == "manual" else SCHEDULE,
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["counterpoise"],
    default_args={"owner": "counterpoise"},
)
def kafka_history_compaction() -> None:
    @task(retries=1, retry_delay=timedelta(minutes=5))
    def compact() -> list[str]:
        from counterpoise.services import history_compaction

        with airflow_installation() as installation:
            report = history_compaction.compact(installation)
        for line in report.in_words:
            LOGGER.info("%s", line)
        if report.problems:
            raise AirflowException(without_control_characters("\n".join(report.problems)))
        return list(report.in_words)

    compact()


kafka_history_compaction()
