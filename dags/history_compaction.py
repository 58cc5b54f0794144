"""Keeps the history small: drops old snapshots as each cluster's policy says, and merges the files
of what stays.

Works on days that have been over for a day, beside snapshots and analyses. A cluster in trouble
fails the run when the others are done. COUNTERPOISE_COMPACTION_SCHEDULE is a cron expression, or
`manual`; half past three by default.
"""

import logging
import os
from datetime import timedelta

from airflow.sdk import dag, task
from airflow.sdk.exceptions import AirflowException

from counterpoise.orchestration.installation import airflow_installation

SCHEDULE = os.environ.get("COUNTERPOISE_COMPACTION_SCHEDULE") or "30 3 * * *"


@dag(
    schedule=None if SCHEDULE == "manual" else SCHEDULE,
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["counterpoise"],
)
def history_compaction() -> None:
    @task(retries=1, retry_delay=timedelta(minutes=5))
    def compact() -> list[str]:
        from counterpoise import pipeline

        with airflow_installation() as installation:
            report = pipeline.compact(installation)
        for words in report.in_words:
            logging.getLogger(__name__).info("%s", words)
        if report.problems:
            raise AirflowException("\n".join(report.problems))
        return list(report.in_words)

    compact()


history_compaction()
