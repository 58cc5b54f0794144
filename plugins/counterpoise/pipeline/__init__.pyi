from .analysing import analyse, rebuild_series
from .approving import (
    ApprovalQuestion,
    approval_question,
    preflight,
    second_approval_question,
    validate,
)
from .auditing import audit, audit_page, failure_of
from .compacting import CompactionReport, compact
from .diagnosing import Examination, examine, leader_watch
from .emergency_stop import stop_from_plan
from .executing import execute_step, execution, open_run, opened_run, settle_step
from .planning import PlannedRun, plan, plan_from, plan_of_assignment, submit_plan, undo_plan
from .reports import propose, report_balance, report_fleet
from .snapshots import checked_snapshot, due_clusters, fresh_snapshot, snapshot, write_data_docs
from .verifying import find_problems, next_removal, removal_verdict, report_run, verdict, verify
from .watching import WatchReport, watch_throttles

__all__ = [
    "ApprovalQuestion",
    "CompactionReport",
    "Examination",
    "PlannedRun",
    "WatchReport",
    "analyse",
    "approval_question",
    "audit",
    "audit_page",
    "checked_snapshot",
    "compact",
    "due_clusters",
    "examine",
    "execute_step",
    "execution",
    "failure_of",
    "find_problems",
    "fresh_snapshot",
    "leader_watch",
    "next_removal",
    "open_run",
    "opened_run",
    "plan",
    "plan_from",
    "plan_of_assignment",
    "preflight",
    "propose",
    "rebuild_series",
    "removal_verdict",
    "report_balance",
    "report_fleet",
    "report_run",
    "second_approval_question",
    "settle_step",
    "snapshot",
    "stop_from_plan",
    "submit_plan",
    "undo_plan",
    "validate",
    "verdict",
    "verify",
    "watch_throttles",
    "write_data_docs",
]
