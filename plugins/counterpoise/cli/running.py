"""Commands around a run: approve, reject, execute, verify, status."""

import argparse
import getpass
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from counterpoise import controls, pipeline, queries
from counterpoise.cli import plans, tables
from counterpoise.cli.common import add_json_argument, print_json, read_plan, site_for
from counterpoise.errors import ClusterError, HaltedError, NotApprovedError, RefusedError, StepTakenError
from counterpoise.installation import Site, open_site
from counterpoise.model.approval import Decision
from counterpoise.model.overview import rate_warning
from counterpoise.model.run import STEP_SECONDS, RunState
from counterpoise.units import format_bytes, format_rate

PATIENCE_SECONDS = 2 * STEP_SECONDS


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = _plan_command(
        commands,
        "approve",
        _approve,
        "say yes to exactly this plan",
        "Records a yes: who, why, at which rate, until when.",
    )
    parser.add_argument(
        "--rate", required=True, metavar="50MB/s", help="the most that a broker may copy, with its unit"
    )
    _add_reason(parser)
    parser = _plan_command(commands, "reject", _reject, "say no to a plan", "Records a no; the plan cannot run then.")
    _add_reason(parser)
    parser = _plan_command(
        commands,
        "execute",
        _execute,
        "run an approved plan, throttled, to its end",
        "Moves what the plan says under the approved rate, elects the leaders, and puts every throttle key back. "
        "Killed or interrupted at any point, the same command goes on from what the cluster says.",
    )
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")
    _plan_command(
        commands,
        "verify",
        _verify,
        "compare the cluster with a plan",
        "Photographs the cluster and compares it with the plan; exit code 1 names every difference.",
    )
    parser = commands.add_parser(
        "status", help="what runs, ran, or waits", description="The runs in the ledger, newest first."
    )
    parser.add_argument("--cluster", metavar="NAME", help="only this cluster")
    add_json_argument(parser)
    parser.set_defaults(run=_status)


def _plan_command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    run: Callable[[argparse.Namespace, Console], int],
    summary: str,
    description: str,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=summary, description=description)
    parser.add_argument("plan", type=Path, metavar="PLAN", help="the plan's file")
    parser.add_argument(
        "--bootstrap", metavar="A,B", help="addresses of the cluster, where config/clusters.yaml lacks it"
    )
    parser.set_defaults(run=run, cluster=None)
    return parser


def _add_reason(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reason", required=True, metavar="TEXT", help="why; kept in the ledger")
    parser.add_argument("--by", default=getpass.getuser(), metavar="USER", help="who says it (default: you)")


def _approve(arguments: argparse.Namespace, console: Console) -> int:
    plan = read_plan(arguments.plan)
    if plan.is_empty:
        raise RefusedError(f"{arguments.plan}: nothing needs to move ({plan.reason}), so there is nothing to approve")
    site, _ = site_for(arguments, plan)
    with site:
        # Before a run is opened for it.
        rate = controls.check_grant(site, plan.cluster, by=arguments.by, rate=arguments.rate)
        run = queries.latest_run_of(site, plan.fingerprint)
        if run is None or run.state in (RunState.DONE, RunState.REJECTED, RunState.SUPERSEDED):
            run_id = pipeline.submit_plan(site, plan, requested_by=arguments.by)["run_id"]
        else:
            run_id = run.run_id
        approval = controls.record_decision(
            site,
            run_id,
            plan.fingerprint,
            decision=Decision.GRANTED,
            by=arguments.by,
            reason=arguments.reason,
            rate=arguments.rate,
        )
        missing = queries.approvals_missing(site, run_id, plan)
    console.print(
        f"approved by {approval.by} at {format_rate(approval.rate_bytes_per_second or 0)}, "
        f"until {approval.expires_at:%Y-%m-%d %H:%M} UTC: run {run_id}\n{plan.fingerprint}",
        markup=False,
    )
    if missing:
        console.print("the plan lowers a replication factor: another person has to approve it too")
    if warning := rate_warning(plan, rate):
        plans.print_warnings(console, [warning])
    return 0


def _reject(arguments: argparse.Namespace, console: Console) -> int:
    plan = read_plan(arguments.plan)
    site, _ = site_for(arguments, plan)
    with site:
        run_id = pipeline.submit_plan(site, plan, requested_by=arguments.by)["run_id"]
        controls.record_decision(
            site,
            run_id,
            plan.fingerprint,
            decision=Decision.REJECTED,
            by=arguments.by,
            reason=arguments.reason,
            rate=None,
        )
    console.print(f"rejected by {arguments.by}: run {run_id}", markup=False)
    return 0


def _execute(arguments: argparse.Namespace, console: Console) -> int:
    plan = read_plan(arguments.plan)
    site, _ = site_for(arguments, plan)
    with site:
        run = queries.latest_run_of(site, plan.fingerprint)
        if run is None:
            raise NotApprovedError(
                f"plan {plan.fingerprint} was not approved; approve it first (`counterpoise approve PLAN`)"
            )
        if run.state in (RunState.DONE, RunState.REJECTED, RunState.SUPERSEDED):
            raise RefusedError(f"run {run.run_id} of this plan is {run.state}; a plan runs once. Make a new plan")
        pipeline.open_run(site, run.run_id, plan.fingerprint)
        _run_to_the_end(site, run.run_id, plan.fingerprint, console if not arguments.json else Console(stderr=True))
        report = pipeline.report_run(site, run.run_id)
        status = queries.run_status(site, run.run_id)
        if arguments.json:
            print_json(tables.status_summary(status) | {"report": report})
        else:
            plans.print_outcome(console, plan, status, report)
    return 0 if status.run.state is RunState.DONE else 1


def _run_to_the_end(site: Site, run_id: str, fingerprint: str, console: Console) -> None:
    """Moves, then settles, with a bar on a terminal and lines elsewhere."""
    said: list[str] = []

    def log(text: str) -> None:
        if not said or said[-1] != text:
            said.append(text)
            console.print(text, markup=False)

    with pipeline.execution(site, run_id, fingerprint, log) as driver, _bar(console) as bar:
        task = bar.add_task("moving", total=1.0, detail="")

        def show() -> None:
            progress = driver.progress()
            detail = f"{format_bytes(progress.copied_bytes)} of {format_bytes(progress.total_bytes)}, "
            detail += f"{progress.moves_done} of {progress.moves_total} partitions"
            bar.update(task, completed=progress.share, detail=detail)
            if not console.is_terminal:
                log(detail)

        try:
            _repeat(driver.step, log, show)
        except HaltedError as error:
            log(str(error))
        bar.update(task, description="settling")
        _repeat(driver.settle_step, log)


def _repeat(
    step: Callable[[], float | None], log: Callable[[str], None], show: Callable[[], None] | None = None
) -> None:
    """Steps until there is nothing left.

    Trouble that may pass is waited for: the step lock of a process that was killed, a cluster that does not answer
    for a while, a call whose outcome is not known (the next look sees it). It raises when the trouble stays.
    """
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    wait_seconds: float | None = 0.0
    while wait_seconds is not None:
        time.sleep(wait_seconds)
        try:
            wait_seconds = step()
        except (StepTakenError, ClusterError) as error:
            if not error.retryable or time.monotonic() > give_up_at:
                raise
            log(f"{error}; trying again")
            wait_seconds = 1.0
            continue
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        if show:
            show()


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%  {task.fields[detail]}"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )


def _verify(arguments: argparse.Namespace, console: Console) -> int:
    plan = read_plan(arguments.plan)
    site, _ = site_for(arguments, plan)
    with site:
        problems = pipeline.find_problems(site, plan)
    for problem in problems:
        console.print(problem, markup=False)
    if not problems:
        console.print(f"{plan.cluster} is as planned: {len(plan.moves)} partitions, leaders included", markup=False)
    return 1 if problems else 0


def _status(arguments: argparse.Namespace, console: Console) -> int:
    with open_site() as site:
        if arguments.cluster:
            site.cluster(arguments.cluster)
        found = queries.runs(site, cluster=arguments.cluster)
    if arguments.json:
        print_json([tables.status_summary(status) for status in found])
    else:
        tables.print_runs(console, found)
    return 0
