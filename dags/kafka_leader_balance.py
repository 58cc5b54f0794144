"""After each round of snapshots: one Spark session over all that is new, a report per cluster and
one of the fleet, and a rebalance where the policy asks for one.

A task of `report_balance` writes the reports of several clusters: what they share is read once. The
report of a cluster that fails, or takes too long, fails the task when the others are written.

`propose` withdraws a plan of its own that waits for an answer and is no longer needed. It has no
task, or is skipped, where the cluster is even enough or frozen, or was uneven in too few snapshots;
where a run is approved or under way, where somebody's plan or the same one waits for an answer, and
for a time after a person's cancel, undo or no.
"""

from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import dag, get_current_context, task

from counterpoise.orchestration.assets import FLEET_SNAPSHOT, REBALANCE_WANTED
from counterpoise.orchestration.chunks import at_most, in_chunks, name_of
from counterpoise.orchestration.handover import request_rebalance, withdraw_unneeded
from counterpoise.orchestration.installation import airflow_installation
from counterpoise.orchestration.links import (
    CLUSTER,
    REPORT,
    show_balances,
    show_fleet,
    with_links,
)
from counterpoise.orchestration.statsd import send_gauges

MINUTES_OF_A_REPORT = 10
NOTHING_TO_ASK = "nothing to ask"  # an XCom of `report_balance`


@dag(
    dag_display_name="Kafka leader balance",
    description="Reports how even clusters are; asks for a rebalance where one helps",
    schedule=[FLEET_SNAPSHOT],
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["counterpoise"],
    default_args={"owner": "counterpoise"},
)
def kafka_leader_balance() -> None:
    @task(retries=1, retry_delay=timedelta(seconds=20), execution_timeout=timedelta(hours=2))
    def analyse(run_id: Any = None) -> list[list[str]]:
        from counterpoise.services import analyses

        with airflow_installation() as installation:
            return in_chunks(analyses.analyse(installation, run_id))

    @task(map_index_template="{{ chunk }}")
    def report_balance(clusters: list[str], ti: Any = None) -> None:
        from counterpoise.services import reports

        get_current_context()["chunk"] = name_of(clusters)  # type: ignore[literal-required]
        show_balances(ti, clusters)
        with airflow_installation() as installation:
            reported = reports.report_balances(
                installation, clusters, lambda: at_most(minutes=MINUTES_OF_A_REPORT)
            )
            # Before the check: the others are asked about although a report failed.
            ti.xcom_push(key=NOTHING_TO_ASK, value=reported.nothing_to_ask)
            reported.check()

    @task(trigger_rule="all_done")
    def clusters_to_ask(chunks: Any, nothing_to_ask: Any) -> list[str]:
        quiet = {cluster for chunk in nothing_to_ask or () for cluster in chunk}
        return [cluster for chunk in chunks or () for cluster in chunk if cluster not in quiet]

    @task(outlets=[REBALANCE_WANTED], map_index_template="{{ cluster }}")
    def propose(cluster: str, outlet_events: Any = None) -> dict[str, Any]:
        from counterpoise.services import proposals

        get_current_context()["cluster"] = cluster  # type: ignore[literal-required]
        with airflow_installation() as installation:
            withdraw_unneeded(installation, cluster)
            wanted = proposals.propose(installation, cluster)
        return request_rebalance(
            outlet_events[REBALANCE_WANTED], wanted, f"{cluster} needs no rebalance now"
        )

    @task(trigger_rule="all_done")
    def report_fleet(ti: Any = None) -> str:
        from counterpoise.services import metrics, reports

        show_fleet(ti)
        with airflow_installation() as installation:
            fleet = reports.report_fleet(installation)
            send_gauges(
                lambda: metrics.balance_samples(installation, installation.settings.clusters)
            )
        fleet.check()
        return fleet.page

    chunks = analyse()
    reported = with_links(report_balance.expand(clusters=chunks), REPORT, CLUSTER)
    propose.expand(cluster=clusters_to_ask(chunks, reported[NOTHING_TO_ASK]))
    # Without the first of these leaves the run would succeed although a cluster's report could not
    # be made.
    fleet = with_links(report_fleet(), REPORT)
    reported >> [EmptyOperator(task_id="every_cluster_reported"), fleet]


kafka_leader_balance()
