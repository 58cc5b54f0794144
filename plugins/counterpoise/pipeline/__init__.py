"""The main job, one function per stage: snapshot, history, analysis, plan, validate, approve, execute, verify, report.

    run = plan(site, "orders-eu", Wish(Goal.ADD_BROKERS, (7,)), requested_by="alice")
    validate(site, run["run_id"], run["fingerprint"])

Dags and the command line call these; each may be repeated. What a stage hands on is a run's id, where its plan lies
and the plan's fingerprint; the plan itself is read from the store each time and has to match.
"""

from counterpoise.pipeline.analysing import analyse, rebuild_series
from counterpoise.pipeline.approving import (
    ApprovalQuestion,
    approval_question,
    preflight,
    second_approval_question,
    validate,
)
from counterpoise.pipeline.auditing import audit, audit_page, failure_of, open_at
from counterpoise.pipeline.checking import write_data_docs
from counterpoise.pipeline.compacting import CompactionReport, compact
from counterpoise.pipeline.observing import due_clusters, photograph, snapshot, sound_photograph
from counterpoise.pipeline.planning import PlannedRun, plan, plan_from, plan_of_assignment, submit_plan, undo_plan
from counterpoise.pipeline.proposing import propose, report_balance, report_fleet
from counterpoise.pipeline.running import (
    execute_step,
    execution,
    find_problems,
    open_run,
    opened_run,
    removal_verdict,
    report_run,
    settle_step,
    verdict,
    verify,
)
from counterpoise.pipeline.stopping import stop_from_plan
from counterpoise.pipeline.watching import WatchReport, watch_throttles

__all__ = [
    "ApprovalQuestion",
    "CompactionReport",
    "PlannedRun",
    "WatchReport",
    "analyse",
    "approval_question",
    "audit",
    "audit_page",
    "compact",
    "due_clusters",
    "execute_step",
    "execution",
    "failure_of",
    "find_problems",
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
