"""The main job, one function per stage: snapshot, history, analysis, plan, validate, approve,
execute, verify, report.

    request = RebalanceRequest(Goal.ADD_BROKERS, (7,))
    run = plan(installation, "orders-eu", request, Origin(alice))
    validate(installation, run["run_id"], run["fingerprint"])

Dags and the command line call these functions; each may be repeated. What one stage hands to the
next is a run's id, the plan's URI and its fingerprint; the plan itself is read from the store each
time and has to match. This is wiring only: what is right, good enough or allowed is for the rooms.

What is slow to import (databases, Kafka clients, pandas, Spark) is imported by the functions that
need it, so no task and no command waits for what another stage needs.
"""

from counterpoise.kept_empty import plan_without
from counterpoise.pipeline.approving import (
    check_plan_rules,
    preflight,
    preflight_warnings,
    validate,
)
from counterpoise.pipeline.dag_runs import (
    Question,
    check_plans_first,
    ended_by_people,
    is_for_a_rule,
    open_question,
    run_of_dag_run,
)

__all__ = [
    "MAX_NEW_BROKERS",
    "CompactionReport",
    "DeliveryError",
    "Examination",
    "NothingToMove",
    "Origin",
    "PlannedRun",
    "Question",
    "ReportedClusters",
    "WatchReport",
    "analyse",
    "audit",
    "audit_page",
    "begin_settling",
    "check_plan_rules",
    "check_plans_first",
    "check_says_cluster",
    "checked_snapshot",
    "compact",
    "due_clusters",
    "ended_by_people",
    "examine",
    "execute_step",
    "execution",
    "failure_of",
    "find_problems",
    "fresh_snapshot",
    "in_execution_of_dag_run",
    "in_present_execution",
    "is_for_a_rule",
    "moved_cluster",
    "must_not_run",
    "next_removal",
    "notify",
    "notify_targets",
    "open_question",
    "open_run",
    "opened_run",
    "plan",
    "plan_of_assignment",
    "plan_or_reason",
    "plan_without",
    "preflight",
    "preflight_warnings",
    "propose",
    "removal_verdict",
    "report_balance",
    "report_balances",
    "report_fleet",
    "report_run",
    "run_of_dag_run",
    "self_check",
    "send_test",
    "settle_step",
    "snapshot",
    "snapshot_to_plan_on",
    "stop_from_plan",
    "submit_plan",
    "try_connection",
    "undo_or_reason",
    "undo_plan",
    "unneeded_proposal",
    "validate",
    "verdict",
    "verify",
    "watch_throttles",
    "with_new_brokers",
    "write_data_docs",
]
