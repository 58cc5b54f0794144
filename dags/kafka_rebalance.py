"""One rebalance of one cluster: plan, check, ask a person, move, verify, and restore every config.

The analysis starts these runs, with the cluster as partition key; a person can, too, and chooses
cluster and goal in the form. `approve` waits for the answer in the ledger. A "no", or no answer in
time, skips all that would touch the cluster. Teardowns settle and report whatever happens in
between; only the last one, `verdict`, decides how the run ends. Where topics came to brokers while
they were emptied, `repeat` asks for the next removal; where something moved, `fresh_snapshot`
starts `kafka_snapshot` for the cluster.
"""

from datetime import timedelta
from typing import Any

from airflow.sdk import PartitionedAssetTimetable, chain, dag, setup, task, teardown

from counterpoise.orchestration import handover
from counterpoise.orchestration.approval import LedgerApproval
from counterpoise.orchestration.assets import REBALANCE_WANTED
from counterpoise.orchestration.form import rebalance_form
from counterpoise.orchestration.fresh_snapshot import FreshSnapshot
from counterpoise.orchestration.installation import airflow_installation
from counterpoise.orchestration.links import CLUSTER, REPORT, RUN, with_links
from counterpoise.orchestration.pools import pool_for
from counterpoise.orchestration.stepping import (
    StepUntilDone,
    execute_step,
    settle_step,
)

WORK = ("plan", "validate", "approve", "open_run", "execute", "verify")
ENDS = ("settle", "report")

# For errors that may pass; others fail at once. A crash may leave the ledger's step lock held for
# half a minute.
RETRIES = {"retries": 3, "retry_delay": timedelta(seconds=60)}
# A click on the question in Airflow within seconds may cost a try.
QUESTION_RETRIES = {"retries": 20, "retry_delay": timedelta(seconds=10)}
# Lost workers and restarts of Airflow count as tries, and a move may last for days.
STEP_RETRIES = {"retries": 10, "retry_delay": timedelta(seconds=30), "pool": pool_for("RUN")}


@dag(
    dag_display_name="Kafka rebalance",
    description="One rebalance of one cluster: plan, approval, throttled moves, verification",
    schedule=PartitionedAssetTimetable(assets=REBALANCE_WANTED),
    catchup=False,
    # One per cluster that waits for a person: an open question must not hold up the others.
    max_active_runs=200,
    params=rebalance_form(),
    doc_md=__doc__,
    tags=["counterpoise"],
    default_args={"owner": "counterpoise"},
)
def kafka_rebalance() -> None:
    @task(**RETRIES)
    def plan(
        ti: Any = None, dag_run: Any = None, params: Any = None, triggering_asset_events: Any = None
    ) -> dict[str, str]:
        # For people: tasks find their run in the ledger.
        return handover.plan_wanted(ti, dag_run, params, triggering_asset_events)

    @task(**RETRIES)
    def validate(ti: Any = None) -> None:
        from counterpoise.services.validations import validate

        handover.call_stage(validate, ti)

    @setup
    @task(**RETRIES)
    def open_run(ti: Any = None) -> None:
        handover.open_run(ti)

    @task(**RETRIES)
    def verify(ti: Any = None) -> None:
        from counterpoise.services import verification

        handover.call_stage(verification.verify, ti)

    @teardown
    @task(**RETRIES)
    def report(ti: Any = None) -> str:
        from counterpoise.services import verification

        with airflow_installation() as installation:
            run = handover.run_to_tell(installation, ti)
            return verification.report_run(installation, run["run_id"])

    # After the run's end, since a cluster has one run at a time, and all the more when `verify`
    # failed.
    @task(outlets=[REBALANCE_WANTED], trigger_rule="all_done", **RETRIES)
    def repeat(ti: Any = None, outlet_events: Any = None) -> None:
        from counterpoise.services import verification

        with airflow_installation() as installation:
            run = handover.run_to_tell(installation, ti)
            wanted = verification.next_removal(installation, run["run_id"])
        event = outlet_events[REBALANCE_WANTED]
        handover.request_rebalance(event, wanted, "no removal has to be repeated")

    @teardown(on_failure_fail_dagrun=True)
    @task
    def verdict(ti: Any = None) -> None:
        handover.judge(ti, (*WORK, *ENDS))

    opened = open_run()
    execute = StepUntilDone(task_id="execute", step=execute_step, **STEP_RETRIES)
    settle = StepUntilDone(task_id="settle", step=settle_step, **STEP_RETRIES)
    settle.as_teardown(setups=opened)
    approve = LedgerApproval(task_id="approve", **QUESTION_RETRIES)
    verified, reported, judged = verify(), with_links(report(), RUN), verdict()
    planned = with_links(plan(), RUN, REPORT, CLUSTER)
    chain(planned, validate(), approve, opened, execute, verified)
    chain(verified, settle, reported, judged)
    # Both are skipped in a run that was marked failed, while the teardowns go on; neither decides.
    fresh = FreshSnapshot(task_id="fresh_snapshot", trigger_rule="all_done", retries=0)
    reported >> [repeat(), fresh] >> judged


kafka_rebalance()
