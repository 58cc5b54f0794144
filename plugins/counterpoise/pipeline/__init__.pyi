from .analysing import analyse, rebuild_series
from .approving import (
    ApprovalQuestion,
    approval_question,
    preflight,
    second_approval_question,
    validate,
)
from .auditing import audit, audit_page, failure_of, open_at
from .checking import write_data_docs
from .compacting import CompactionReport, compact
from .doctoring import Examination, examine, leader_watch
from .observing import due_clusters, photograph, snapshot, sound_photograph
from .planning import PlannedRun, plan, plan_from, plan_of_assignment, submit_plan, undo_plan
from .proposing import propose, report_balance, report_fleet
from .proving import find_problems, removal_verdict, report_run, verdict, verify
from .running import execute_step, execution, open_run, opened_run, settle_step
from .stopping import stop_from_plan
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
    "compact",
    "due_clusters",
    "examine",
    "execute_step",
    "execution",
    "failure_of",
    "find_problems",
    "leader_watch",
    "open_at",
    "open_run",
    "opened_run",
    "photograph",
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
    "sound_photograph",
    "stop_from_plan",
    "submit_plan",
    "undo_plan",
    "validate",
    "verdict",
    "verify",
    "watch_throttles",
    "write_data_docs",
]
