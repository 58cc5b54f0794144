from .analysing import analyse, rebuild_views, round_by_hand
from .approving import (
    ApprovalQuestion,
    approval_question,
    check_plan_rules,
    preflight,
    preflight_warnings,
    second_approval_question,
    validate,
)
from .auditing import audit, audit_page, failure_of
from .compacting import CompactionReport, compact
from .comparing import MAX_NEW_BROKERS, ComparedPlan, compare, plan_from, with_new_brokers
from .dag_runs import (
    DagTask,
    adopt_run,
    check_answer,
    check_plans_first,
    put_question,
    rule_that_approves,
    run_of_dag_run,
)
from .diagnosing import Examination, examine, leader_watch, try_connection
from .emergency_stop import stop_from_plan
from .executing import execute_step, execution, open_run, opened_run, settle_step
from .notifying import DeliveryError, notify, notify_of
from .places import Place, places
from .planning import (
    NothingToMove,
    PlannedRun,
    plan,
    plan_of_assignment,
    plan_or_reason,
    snapshot_to_plan_on,
    submit_plan,
    undo_or_reason,
    undo_plan,
)
from .proposing import propose, unneeded_proposal
from .reports import (
    ReportedClusters,
    report_balance,
    report_balances,
    report_fleet,
    write_balance_report,
)
from .self_check import self_check
from .snapshots import checked_snapshot, due_clusters, fresh_snapshot, snapshot, write_data_docs
from .verifying import (
    find_problems,
    moved_cluster,
    next_removal,
    removal_verdict,
    report_run,
    verdict,
    verify,
)
from .watching import WatchReport, watch_throttles

__all__ = [
    "MAX_NEW_BROKERS",
    "ApprovalQuestion",
    "CompactionReport",
    "ComparedPlan",
    "DagTask",
    "DeliveryError",
    "Examination",
    "NothingToMove",
    "Place",
    "PlannedRun",
    "ReportedClusters",
    "WatchReport",
    "adopt_run",
    "analyse",
    "approval_question",
    "audit",
    "audit_page",
    "check_answer",
    "check_plan_rules",
    "check_plans_first",
    "checked_snapshot",
    "compact",
    "compare",
    "due_clusters",
    "examine",
    "execute_step",
    "execution",
    "failure_of",
    "find_problems",
    "fresh_snapshot",
    "leader_watch",
    "moved_cluster",
    "next_removal",
    "notify",
    "notify_of",
    "open_run",
    "opened_run",
    "places",
    "plan",
    "plan_from",
    "plan_of_assignment",
    "plan_or_reason",
    "preflight",
    "preflight_warnings",
    "propose",
    "put_question",
    "rebuild_views",
    "removal_verdict",
    "report_balance",
    "report_balances",
    "report_fleet",
    "report_run",
    "round_by_hand",
    "rule_that_approves",
    "run_of_dag_run",
    "second_approval_question",
    "self_check",
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
    "write_balance_report",
    "write_data_docs",
]
