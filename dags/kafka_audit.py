"""Audits every cluster: what can fail in production, with evidence and the fix, what is new and
what is resolved; a report for each.

A cluster that cannot be reached fails its own task, and so does one with findings as bad as
`fails_at` of its policy; the other clusters are audited all the same. Reads only. Runs after each
round of snapshots; COUNTERPOISE_AUDIT_SCHEDULE is a cron expression, or `manual` for runs started
by hand only.
"""

import os
from datetime import timedelta
from typing import Any

from airflow.sdk import dag, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException

from counterpoise.model.safe_text import one_line
from counterpoise.orchestration.assets import FLEET_SNAPSHOT
from counterpoise.orchestration.delivery import tell
from counterpoise.orchestration.fresh_snapshot import clusters_of_round, snapshot_form
from counterpoise.orchestration.installation import airflow_installation, failing_at_deadline
from counterpoise.orchestration.links import CLUSTER, REPORT, show_audit, with_links
from counterpoise.orchestration.pools import pool_for
from counterpoise.orchestration.statsd import send_gauges

CRON = os.environ.get("COUNTERPOISE_AUDIT_SCHEDULE")


@dag(
    dag_display_name="Kafka audit",
    description="Audits every cluster for what can fail in production",
    schedule=[FLEET_SNAPSHOT] if not CRON else None if CRON == "manual" else CRON,
    catchup=False,
    max_active_runs=1,
    params=snapshot_form(),
    doc_md=__doc__,
    tags=["counterpoise"],
    default_args={"owner": "counterpoise"},
)
def kafka_audit() -> None:
    @task(retries=1, retry_delay=timedelta(seconds=20))
    def due_clusters(params: Any = None, triggering_asset_events: Any = None) -> list[str]:
        from counterpoise.services import snapshots

        only = clusters_of_round(params, triggering_asset_events)
        with airflow_installation() as installation:
            return snapshots.due_clusters(installation, only=only)

    @task(
        map_index_template="{{ cluster }}",
        retries=1,
        retry_delay=timedelta(seconds=30),
        # An audit that hangs would keep all later ones from starting.
        execution_timeout=timedelta(minutes=30),
        pool=pool_for("AUDIT"),
    )
    def audit(cluster: str, ti: Any = None, dag_run: Any = None) -> dict[str, str]:
        from counterpoise.services import audits, metrics

        get_current_context()["cluster"] = cluster  # type: ignore[literal-required]
        # The scheduled time and not the clock: a retry replaces what it wrote.
        with failing_at_deadline(), airflow_installation() as installation:
            report = audits.audit(installation, cluster, dag_run.logical_date or dag_run.run_after)
            page = show_audit(ti, cluster)
            failure = audits.failure_of(installation, report)
            tell(installation, cluster)
            send_gauges(lambda: metrics.audit_samples(installation, [cluster]))
        if failure:
            raise AirflowFailException(one_line(f"{failure}; report: {page}"))
        return {"cluster": cluster, "worst": str(report.worst or "nothing"), "report": page}

    with_links(audit.expand(cluster=due_clusters()), REPORT, CLUSTER)


kafka_audit()
