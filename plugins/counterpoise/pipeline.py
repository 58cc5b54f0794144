"""The main job, one function per stage: snapshot, history, analysis, plan, validate, approve, execute, verify, report.

    run = plan(site, "orders-eu", Wish(Goal.ADD_BROKERS, (7,)), requested_by="alice")
    validate(site, run["run_id"], run["fingerprint"])

Dags and the command line call these; each may be repeated. What a stage hands on is a run's id, where its plan lies
and the plan's fingerprint; the plan itself is read from the store each time and has to match.
"""

import logging
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypedDict

import pyarrow as pa

from counterpoise import analysis, history, reporting, verification
from counterpoise.approval import granted_approval, others_to_ask, people_needed, who_said_yes
from counterpoise.archive import balance_report_name, plan_report_name, run_report_name
from counterpoise.errors import RefusedError, StalePlanError
from counterpoise.execution import Driver, Orders
from counterpoise.installation import Site
from counterpoise.model.approval import Decision
from counterpoise.model.balance import LeaderBalance, WantedRebalance
from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.report import BrokerLoad, RunReport, ThrottleKey
from counterpoise.model.run import OPEN_STATES, Run, RunState, TouchedKey
from counterpoise.model.wish import Wish
from counterpoise.planning import make_plan, plan_to_reach
from counterpoise.snapshot import take_snapshot
from counterpoise.spark_submit import run_job
from counterpoise.units import format_rate
from counterpoise.validation import find_violations, validate_data

Log = Callable[[str], None]
_LOGGER = logging.getLogger(__name__)
# A small round is mostly Spark's start: with the quick compiler only, it takes about half of the CPU time.
_ROWS_OF_A_SMALL_ROUND = 1_000_000
_START_FAST = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
}
_RULES_THAT_A_PERSON_MAY_BREAK = ("racks_not_worse", "min_isr_reachable")
_UNSAFE_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


class PlannedRun(TypedDict):
    """Which run this is, and exactly which plan."""

    run_id: str
    plan_uri: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class ApprovalQuestion:
    """What a person is asked."""

    subject: str
    body_markdown: str
    default_rate: str
    approvers: tuple[str, ...]
    wait_for: timedelta


def due_clusters(site: Site) -> list[str]:
    """The clusters to photograph in this round."""
    return sorted(site.settings.clusters)


def snapshot(site: Site, cluster: str, scheduled_at: datetime) -> dict[str, str]:
    """Photographs a cluster into the history. The scheduled time names it, so that a retry writes the same files."""
    taken = photograph(site, cluster, scheduled_at)
    site.archive.write_snapshot(taken)
    site.ledger.record_snapshot(cluster, taken.snapshot_id, site.clock())
    return {"cluster": cluster, "snapshot_id": taken.snapshot_id}


def photograph(site: Site, cluster: str, at: datetime) -> ClusterSnapshot:
    """A fresh look at a cluster; nothing is kept."""
    with site.reader(cluster) as reader:
        return take_snapshot(
            reader,
            cluster=cluster,
            snapshot_id=history.snapshot_id_for(cluster, at),
            observed_at=site.clock(),
            security_protocol=site.security_protocol(cluster),
        )


def analyse(site: Site, round_id: str, log: Log = _LOGGER.info) -> list[str]:
    """One Spark job over every snapshot that has no result yet; the clusters that it concerned."""
    clusters = sorted(site.settings.clusters)
    waiting = history.pending(site.archive.manifests(clusters), site.archive.analysed_ids())
    if waiting.num_rows == 0:
        return []
    name = _UNSAFE_IN_NAMES.sub("_", round_id).strip("._-")
    with tempfile.TemporaryDirectory() as folder:
        listing = Path(folder) / "snapshots.json"
        listing.write_text(history.manifests_json(waiting))
        run_job(
            site.locations.spark_jobs / "leader_balance.py",
            ["--store", site.archive.store.root_uri, "--round", name, "--snapshots", str(listing)],
            master=site.locations.spark_master,
            conf=_START_FAST if _row_count(waiting) < _ROWS_OF_A_SMALL_ROUND else {},
            log=log,
        )
    site.archive.finish_round(name, waiting)
    return sorted(set(waiting["cluster"].to_pylist()))


def _row_count(manifests: pa.Table) -> int:
    return sum(file["row_count"] for files in manifests["files"].to_pylist() for file in files)


def report_balance(site: Site, cluster: str) -> str:
    """Writes a cluster's leader-balance report, as HTML, Markdown and JSON; the URI of the page."""
    balance = _balance(site, cluster)
    wanted = analysis.wanted_goal(balance, site.cluster(cluster).policy.balance)
    day = balance.latest.observed_at.date()
    page = reporting.leader_balance_report(balance, wanted=wanted)
    site.archive.write_report(balance_report_name(cluster, day), page)
    site.archive.write_report(
        balance_report_name(cluster, suffix="md"), reporting.leader_balance_markdown(balance, wanted=wanted)
    )
    site.archive.write_report(
        balance_report_name(cluster, suffix="json"), reporting.leader_balance_json(balance, wanted=wanted)
    )
    return site.archive.write_report(balance_report_name(cluster), page)


def propose(site: Site, cluster: str) -> dict[str, Any] | None:
    """The rebalance that the analysis asks for.

    None where the cluster is even enough, where a run is under way, and where the same question already waits for an
    answer: a person is asked once, however many rounds find the same.
    """
    wanted = analysis.wanted_goal(_balance(site, cluster), site.cluster(cluster).policy.balance)
    if wanted is None or any(_is_at_hand(site, run, wanted) for run in site.ledger.runs(cluster=cluster)):
        return None
    return {
        "cluster": cluster,
        "goal": str(wanted.goal),
        "broker_ids": list(wanted.broker_ids),
        "reason": wanted.reason,
    }


def _is_at_hand(site: Site, run: Run, wanted: WantedRebalance) -> bool:
    if run.state not in OPEN_STATES:
        return False
    if run.state in (RunState.RUNNING, RunState.SETTLING):
        return True
    made = site.archive.read_plan(run.plan_uri, run.fingerprint)
    return (made.goal, made.broker_ids) == (wanted.goal, wanted.broker_ids)


def plan(site: Site, cluster: str, wish: Wish, *, requested_by: str) -> PlannedRun | None:
    """Plans from a photograph taken now and opens a run for it; None when nothing needs to move."""
    taken = snapshot(site, cluster, site.clock())
    photographed = site.archive.read_snapshot(cluster, taken["snapshot_id"])
    made = plan_from(photographed, wish, site.cluster(cluster).policy.balance)
    for warning in made.warnings:
        _LOGGER.warning("%s", warning)
    if made.is_empty:
        _LOGGER.info("nothing needs to move on %s: %s", cluster, made.reason)
        return None
    return submit_plan(site, made, requested_by=requested_by)


def submit_plan(site: Site, made: RebalancePlan, *, requested_by: str) -> PlannedRun:
    """Keeps a plan in the store and opens a run that waits for a decision.

    Raises RunConflictError, and RefusedError for a plan from a document that does not tell Kafka's cluster id: nobody
    could say later whether it meets the cluster that it was made for.
    """
    site.cluster(made.cluster)
    if not made.cluster_id:
        raise RefusedError(
            "the plan does not tell which cluster it is for: the cluster document it was made from has no cluster_id. "
            "Make it from a document that `counterpoise snapshot --out` wrote, or with --cluster"
        )
    run = site.ledger.propose(made, site.archive.write_plan(made), requested_by=requested_by)
    return PlannedRun(run_id=run.run_id, plan_uri=run.plan_uri, fingerprint=run.fingerprint)


def validate(site: Site, run_id: str, fingerprint: str) -> None:
    """Checks snapshot and plan as data, and the plan against its rules; raises RefusedError with all that is wrong.

    Writes the plan's report, which says the same, whatever the outcome.
    """
    run, made = _run_and_plan(site, run_id, fingerprint)
    policy = site.cluster(made.cluster).policy
    photographed = site.archive.read_snapshot(made.cluster, made.snapshot_id)
    violations = find_violations(made, photographed, policy.balance)
    data = validate_data(photographed, made)
    page = reporting.plan_report(
        made,
        violations=tuple(f"{v.rule}: {v.subject}: {v.message}" for v in violations),
        data_check_failures=tuple(str(failure) for failure in data.failures),
        data_checks_passed=data.passed,
        rate_bytes_per_second=policy.movement.rate_bytes_per_second,
    )
    site.archive.write_report(plan_report_name(made.cluster, run.run_id), page)
    wrong = [f"{v.subject}: {v.message}" for v in violations] + [str(failure) for failure in data.failures]
    if wrong:
        shown = "\n".join(f"  {complaint}" for complaint in wrong[:20])
        raise RefusedError(f"plan {fingerprint} must not run, {len(wrong)} problem(s):\n{shown}")


def approval_question(site: Site, run_id: str) -> ApprovalQuestion:
    run, made = _run_and_plan(site, run_id)
    policy = site.cluster(run.cluster).policy
    rate = policy.movement.rate_bytes_per_second
    return ApprovalQuestion(
        subject=f"Rebalance {run.cluster}: {made.goal}",
        body_markdown=reporting.plan_markdown(made, rate_bytes_per_second=rate),
        default_rate=format_rate(rate).replace(" ", ""),
        approvers=policy.approval.approvers,
        wait_for=policy.approval.wait_for,
    )


def second_approval_question(site: Site, run_id: str) -> ApprovalQuestion | None:
    """What a second person is asked about a plan that needs two; None where no yes is missing. Raises RefusedError."""
    run, made = _run_and_plan(site, run_id)
    approvals = site.ledger.approvals_of(run_id)
    said = who_said_yes(approvals)
    if not made.lowers_replication_factor or len(said) >= people_needed(made):
        return None
    question = approval_question(site, run_id)
    rate = approvals[-1].rate_bytes_per_second if said else None
    return replace(
        question,
        subject=f"{question.subject}, second yes",
        body_markdown=f"Approved by {' and '.join(said) or 'nobody'} until now.\n\n{question.body_markdown}",
        default_rate=format_rate(rate).replace(" ", "") if rate else question.default_rate,
        approvers=others_to_ask(site.cluster(run.cluster).policy.approval, said),
    )


def open_run(site: Site, run_id: str, fingerprint: str) -> None:
    """Starts an approved run. Raises NotApprovedError, StalePlanError, RunConflictError; nothing has changed then."""
    run, made = _run_and_plan(site, run_id, fingerprint)
    if run.state in (RunState.APPROVED, RunState.HALTED):
        approvals = site.ledger.approvals_of(run_id)
        granted_approval(approvals, made.fingerprint, site.clock(), people=people_needed(made))
    with execution(site, run_id, fingerprint) as driver:
        driver.open()


def execute_step(site: Site, run_id: str, fingerprint: str, log: Log) -> float | None:
    """One look at a run that moves; the seconds to wait, or None when all is moved and elected."""
    with execution(site, run_id, fingerprint, log) as driver:
        wait = driver.step()
        progress = driver.progress()
    log(reporting.progress_line(progress))
    return wait


def verify(site: Site, run_id: str, fingerprint: str) -> None:
    """Compares a fresh photograph with the plan; raises RefusedError with every difference."""
    _, made = _run_and_plan(site, run_id, fingerprint)
    problems = find_problems(site, made)
    if problems:
        shown = "\n".join(f"  {problem}" for problem in problems[:20])
        raise RefusedError(f"{made.cluster} is not as planned, {len(problems)} problem(s):\n{shown}")


def settle_step(site: Site, run_id: str, log: Log) -> float | None:
    """One look towards the end of a run: nothing in flight, then every config as it was. None when it is over."""
    run = site.ledger.run(run_id)
    if run.state not in (RunState.RUNNING, RunState.SETTLING):
        return None
    with execution(site, run_id, run.fingerprint, log) as driver:
        return driver.settle_step()


def report_run(site: Site, run_id: str) -> str:
    """Writes the run's report: before and after, what moved, every config key, every event. Its URI."""
    run, made = _run_and_plan(site, run_id)
    journal = site.ledger.journal(run_id)
    approvals = site.ledger.approvals_of(run_id)
    done = {tp for tp, submission in journal.submissions().items() if submission.done_at}
    fresh = photograph(site, run.cluster, site.clock())
    report = RunReport(
        run=run,
        plan=made,
        approval=approvals[-1] if approvals else None,
        before=tuple(
            BrokerLoad(f.broker_id, f.leaders_before, f.replicas_before, f.bytes_before) for f in made.figures
        ),
        after=analysis.broker_loads(fresh),
        copied_bytes=sum(move.copied_bytes for move in made.moves if move.topic_partition in done),
        moves_done=len(done),
        throttle_keys=tuple(_throttle_key(touched) for touched in journal.touched()),
        events=journal.events(),
        problems=verification.find_problems(made, fresh, journal.touched()) if run.state is RunState.DONE else (),
    )
    return site.archive.write_report(run_report_name(run.cluster, run_id), reporting.run_report(report))


def _throttle_key(touched: TouchedKey) -> ThrottleKey:
    return ThrottleKey(
        resource=f"{touched.resource.type} {touched.resource.name}",
        key=touched.key,
        before=touched.before_value,
        during=touched.during_value,
        after=touched.after_value,
        owed=touched.restored_at is None,
    )


def verdict(site: Site, run_id: str, task_states: Mapping[str, str | None]) -> None:
    """Fails the Dag run unless all is well: done, or nothing was touched because of a no."""
    run = site.ledger.run(run_id)
    if run.state in (RunState.REJECTED, RunState.SUPERSEDED):
        return
    unwell = {task: state for task, state in task_states.items() if state != "success"}
    if run.state is not RunState.DONE or unwell:
        tasks = "; ".join(f"{task} is {state}" for task, state in unwell.items()) or "every task succeeded"
        raise RefusedError(f"run {run_id} is {run.state} ({run.reason or 'no reason given'}): {tasks}")


def plan_from(photographed: ClusterSnapshot, wish: Wish, policy: BalancePolicy) -> RebalancePlan:
    """A plan from a photograph, or from a cluster document; no cluster is needed. Raises InputError, RefusedError.

    The plan names the cluster's policy; where the wish goes against it, the plan warns.
    """
    made = make_plan(photographed, wish.request(policy))
    return replace(made, policy_digest=policy.digest, warnings=(*wish.deviations(policy), *made.warnings))


def plan_of_assignment(
    photographed: ClusterSnapshot, wanted: Mapping[TopicPartition, tuple[int, ...]], policy: BalancePolicy
) -> RebalancePlan:
    """A plan that does what a reassignment JSON asks for, checked against the plan rules.

    Racks or minimum in-sync replicas that get worse are warnings, since somebody chose so; anything else that breaks
    a rule raises RefusedError. Raises InputError for what cannot be done at all.
    """
    made = plan_to_reach(photographed, wanted, policy)
    violations = find_violations(made, photographed, policy)
    chosen = [v for v in violations if v.rule in _RULES_THAT_A_PERSON_MAY_BREAK]
    if len(chosen) < len(violations):
        wrong = "\n".join(f"  {v.subject}: {v.message}" for v in violations if v not in chosen)
        raise RefusedError(f"the reassignment breaks rules that every plan keeps:\n{wrong}")
    return replace(made, warnings=tuple(violation.message for violation in chosen))


def find_problems(site: Site, made: RebalancePlan) -> tuple[str, ...]:
    """What in a fresh photograph is not as planned, and which config keys of an ended run are not as before."""
    ended = [run for run in site.ledger.runs(fingerprint=made.fingerprint) if run.closed_at]
    touched = site.ledger.journal(ended[0].run_id).touched() if ended else ()
    return verification.find_problems(made, photograph(site, made.cluster, site.clock()), touched)


@contextmanager
def execution(site: Site, run_id: str, fingerprint: str, log: Log = lambda _: None) -> Iterator[Driver]:
    """The hands of a run, on one connection. Raises NotApprovedError unless the ledger holds a yes for this plan."""
    run, made = _run_and_plan(site, run_id, fingerprint)
    yes = [a for a in site.ledger.approvals_of(run_id) if a.decision is Decision.GRANTED]
    at = yes[-1].at if yes else site.clock()
    # Whether it still holds is asked when the run starts.
    approval = granted_approval(yes, made.fingerprint, at, people=people_needed(made))
    orders = Orders(
        run_id=run.run_id,
        plan=made,
        rate_bytes_per_second=approval.rate_bytes_per_second or 0,
        limits=site.cluster(run.cluster).policy.movement,
    )
    with site.operator(run.cluster) as admin:
        yield Driver(admin, site.ledger, orders, site.clock, log)


def _balance(site: Site, cluster: str) -> LeaderBalance:
    brokers, topics = site.archive.balance_tables(cluster)
    balance = analysis.leader_balance(brokers, topics, cluster=cluster)
    if balance is None:
        raise RefusedError(f"cluster {cluster} has no analysed snapshot yet; let kafka_snapshot and the analysis run")
    return balance


def _run_and_plan(site: Site, run_id: str, fingerprint: str | None = None) -> tuple[Run, RebalancePlan]:
    run = site.ledger.run(run_id)
    if fingerprint is not None and run.fingerprint != fingerprint:
        raise StalePlanError(f"run {run_id} is for plan {run.fingerprint}, not for {fingerprint}; nothing was changed")
    return run, site.archive.read_plan(run.plan_uri, run.fingerprint)
