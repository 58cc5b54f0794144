"""Commands of a run, in order: preflight, propose, approve, reject, execute, verify."""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.console import Console
from rich.text import Text

from counterpoise import controls, pipeline, queries
from counterpoise.cli import plans, tables
from counterpoise.cli.common import (
    Commands,
    add_by_argument,
    add_person_arguments,
    installation_for,
    print_json,
    read_plan,
    stderr_console,
    who,
)
from counterpoise.cli.following import Display
from counterpoise.cli.repeating import repeat
from counterpoise.errors import ClusterError, HaltedError, NotApprovedError, RefusedError
from counterpoise.installation import Installation
from counterpoise.model.approval import Decision
from counterpoise.model.person import Person
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import Action
from counterpoise.model.request import Goal
from counterpoise.model.run import Run, RunState
from counterpoise.units import format_moment, format_rate

# A plan whose latest run is in one of these states needs a new run, or a new plan.
_CLOSED_STATES = (RunState.DONE, RunState.REJECTED, RunState.SUPERSEDED)


def add_commands(commands: Commands) -> None:
    _add_preflight(commands)
    _add_propose(commands)
    _add_approve(commands)
    _add_reject(commands)
    _add_execute(commands)
    _add_verify(commands)


def _plan_command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace, Console], int],
    summary: str,
    description: str,
) -> argparse.ArgumentParser:
    """Return the parser of a command whose first argument is a plan's file."""
    parser = commands.add_parser(name, help=summary, description=description)
    parser.add_argument("plan", type=Path, metavar="PLAN", help="the plan's file")
    parser.add_argument(
        "--bootstrap",
        metavar="A,B",
        help="addresses of the cluster, where config/clusters.yaml lacks it",
    )
    parser.set_defaults(run=run, cluster=None)
    return parser


def _add_preflight(commands: Commands) -> None:
    _plan_command(
        commands,
        "preflight",
        _preflight,
        "check that the operator connection has the permissions for a plan",
        "Asks the cluster whether the operator connection may set throttles, reassign and elect, "
        "for this plan. Changes nothing; exit code 1 names what is refused.",
    )


def _preflight(arguments: argparse.Namespace, console: Console) -> int:
    plan = read_plan(arguments.plan)
    if plan.is_empty:
        raise RefusedError(
            f"{arguments.plan}: nothing needs to move ({plan.reason}), so no permission is needed"
        )
    installation, _ = installation_for(arguments, plan)
    with installation:
        refused = pipeline.preflight(installation, plan)
    if not refused:
        console.print("all allowed")
        return 0
    _print_refused(console, refused)
    return 1


def _add_propose(commands: Commands) -> None:
    parser = _plan_command(
        commands,
        "propose",
        _propose,
        "propose a plan for another person to approve",
        "Opens a run for a plan that waits for a yes or a no, with you as its requester. Where the "
        "policy asks for another person than the requester, somebody else approves it then "
        "(`counterpoise approve`); elsewhere `approve` alone is enough.",
    )
    add_by_argument(parser)


def _propose(arguments: argparse.Namespace, console: Console) -> int:
    plan = _plan_with_moves(arguments.plan, "propose")
    installation, _ = installation_for(arguments, plan)
    with installation:
        by = who(installation, arguments.by)
        run_id = pipeline.submit_plan(installation, plan, requested_by=by)["run_id"]
        requester = queries.run_status(installation, run_id).run.requester
    _print_who_counts(console, by, requester)
    console.print(f"proposed by {requester.shown}: run {run_id}\n{plan.fingerprint}", markup=False)
    return 0


def _add_approve(commands: Commands) -> None:
    parser = _plan_command(
        commands,
        "approve",
        _approve,
        "approve a plan: who, why, rate",
        "Records a yes: who, why, at which rate, until when. Asks the cluster first whether the "
        "operator connection may do what the plan needs.",
    )
    parser.add_argument(
        "--rate",
        required=True,
        metavar="50MB/s",
        help="the limit for what a broker copies, with its unit",
    )
    parser.add_argument(
        "--no-preflight",
        action="store_true",
        help="do not ask the cluster what the operator may do",
    )
    add_person_arguments(parser, "--reason")


def _approve(arguments: argparse.Namespace, console: Console) -> int:
    plan = _plan_with_moves(arguments.plan, "approve")
    installation, _ = installation_for(arguments, plan)
    with installation:
        by = who(installation, arguments.by)
        run = queries.latest_run_of(installation, plan.fingerprint)
        is_new = run is None or run.state in _CLOSED_STATES
        # Before a run is opened for it. Whoever opens it here is the one who requests it.
        requester = by if run is None or is_new else run.requester
        controls.check_grant(installation, plan, by=by, requester=requester, rate=arguments.rate)
        if not arguments.no_preflight:
            _check_permissions(installation, plan, console)
        if run is None or is_new:
            run_id = pipeline.submit_plan(installation, plan, requested_by=by)["run_id"]
        else:
            run_id = run.run_id
        approval = controls.record_decision(
            installation,
            run_id,
            plan.fingerprint,
            decision=Decision.GRANTED,
            by=by,
            reason=arguments.reason,
            rate=arguments.rate,
        )
        missing = queries.approvals_missing(installation, run_id, plan)
    _print_who_counts(console, by, approval.person)
    console.print(
        f"approved by {approval.person.shown} at "
        f"{format_rate(approval.rate_bytes_per_second or 0)}, "
        f"until {approval.expires_at:%Y-%m-%d %H:%M} UTC: run {run_id}\n{plan.fingerprint}",
        markup=False,
    )
    if missing:
        console.print("the plan lowers a replication factor: another person has to approve it too")
    return 0


def _plan_with_moves(path: Path, what: str) -> RebalancePlan:
    plan = read_plan(path)
    if plan.is_empty:
        raise RefusedError(
            f"{path}: nothing needs to move ({plan.reason}), so there is nothing to {what}"
        )
    return plan


def _print_who_counts(console: Console, by: Person, counting: Person) -> None:
    if by.is_claimed and not counting.is_claimed:
        console.print(
            f"{by.name} is only claimed, and the policy names people: recorded as {counting.shown}",
            markup=False,
            soft_wrap=True,
        )


def _check_permissions(installation: Installation, plan: RebalancePlan, console: Console) -> None:
    """Raise RefusedError when the cluster would refuse the plan; warn when it does not respond."""
    try:
        refused = pipeline.preflight(installation, plan)
    except ClusterError as error:
        if not error.retryable:
            raise
        plans.print_warnings(
            console,
            [f"the cluster does not respond, so the operator's permissions are unknown: {error}"],
        )
        return
    if refused:
        _print_refused(console, refused)
        raise RefusedError(
            f"the cluster refuses {len(refused)} of the operations that the plan needs; nothing "
            "was approved. Give the operator connection the permissions (docs/deploying.md), or "
            "approve with --no-preflight"
        )


def _print_refused(console: Console, refused: Mapping[str, str]) -> None:
    rows = tables.table("refused", "why")
    for operation, reason in refused.items():
        rows.add_row(Text(operation), Text(reason))
    console.print(rows)


def _add_reject(commands: Commands) -> None:
    parser = _plan_command(
        commands,
        "reject",
        _reject,
        "reject a plan",
        "Records a rejection; the plan cannot run then.",
    )
    add_person_arguments(parser, "--reason")


def _reject(arguments: argparse.Namespace, console: Console) -> int:
    plan = read_plan(arguments.plan)
    installation, _ = installation_for(arguments, plan)
    with installation:
        by = who(installation, arguments.by)
        run = queries.latest_run_of(installation, plan.fingerprint)
        if run is None or run.state in _CLOSED_STATES:
            run_id = pipeline.submit_plan(installation, plan, requested_by=by)["run_id"]
        else:
            run_id = run.run_id
        decision = controls.record_decision(
            installation,
            run_id,
            plan.fingerprint,
            decision=Decision.REJECTED,
            by=by,
            reason=arguments.reason,
            rate=None,
        )
    _print_who_counts(console, by, decision.person)
    console.print(f"rejected by {decision.person.shown}: run {run_id}", markup=False)
    return 0


def _add_execute(commands: Commands) -> None:
    parser = _plan_command(
        commands,
        "execute",
        _execute,
        "run an approved plan, throttled, to its end",
        "Moves what the plan says under the approved rate, elects the leaders, and restores every "
        "throttle key. Killed or interrupted at any point, the same command goes on from what the "
        "cluster says.",
    )
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")


def _execute(arguments: argparse.Namespace, console: Console) -> int:
    plan = read_plan(arguments.plan)
    installation, _ = installation_for(arguments, plan)
    with installation:
        run = queries.latest_run_of(installation, plan.fingerprint)
        if run is None:
            raise NotApprovedError(
                f"plan {plan.fingerprint} was not approved; approve it first "
                f"(`counterpoise approve {arguments.plan} --rate RATE --reason TEXT`)"
            )
        controls.check_may(installation, run.cluster, who(installation), Action.OPERATE)
        if run.state in _CLOSED_STATES:
            raise RefusedError(_why_closed(installation, run, arguments.plan))
        progress = stderr_console() if arguments.json else console
        try:
            _run_to_the_end(installation, run.run_id, plan.fingerprint, progress)
        except KeyboardInterrupt:
            progress.print(
                f"run {run.run_id} is still under way: the same command goes on with it, "
                "`counterpoise settle` ends it",
                markup=False,
                soft_wrap=True,
            )
            raise
        report = pipeline.report_run(installation, run.run_id)
        status = queries.run_status(installation, run.run_id)
        if arguments.json:
            print_json(tables.status_summary(status) | {"report": report})
        else:
            plans.print_outcome(console, plan, status, report)
        is_done = status.run.state is RunState.DONE
        if is_done and plan.goal is Goal.REMOVE_BROKERS:
            _print_removal(installation, plan, progress)
    return 0 if is_done else 1


def _why_closed(installation: Installation, run: Run, path: Path) -> str:
    """Say why a run that is done, rejected or superseded cannot be executed, and how to go on."""
    if run.state is RunState.DONE:
        return f"run {run.run_id} of this plan is done; a plan runs once. Make a new plan"
    when = "" if run.closed_at is None else f" on {format_moment(run.closed_at)}"
    again = f"approve this one again (`counterpoise approve {path} --rate RATE --reason TEXT`)"
    if run.state is RunState.SUPERSEDED:
        return (
            f"run {run.run_id} of this plan was {run.reason}{when}: execute that newer plan "
            f"(`counterpoise status` lists the runs), or {again}"
        )
    decision = queries.run_status(installation, run.run_id).approval
    by = f" by {decision.person.shown}" if decision else ""
    return (
        f"run {run.run_id} of this plan was rejected{by}{when} ({run.reason}): make a new plan, "
        f"or {again}"
    )


def _run_to_the_end(
    installation: Installation, run_id: str, fingerprint: str, console: Console
) -> None:
    """Open the run, move, then settle, with a live picture on a terminal and lines elsewhere."""
    with (
        Display(console) as display,
        pipeline.opened_run(installation, run_id, fingerprint, display.log) as driver,
    ):

        def displayed(step: Callable[[], float | None]) -> Callable[[], float | None]:
            def step_and_display() -> float | None:
                wait_seconds = step()
                display.show(*queries.run_progress_of(installation, run_id))
                return wait_seconds

            return step_and_display

        try:
            repeat(displayed(driver.step), display.log)
        except HaltedError as error:
            display.log(str(error))
        repeat(displayed(driver.settle_step), display.log)


def _add_verify(commands: Commands) -> None:
    _plan_command(
        commands,
        "verify",
        _verify,
        "compare the cluster with a plan",
        "Makes a snapshot of the cluster and compares it with the plan; exit code 1 names every "
        "difference.",
    )


def _verify(arguments: argparse.Namespace, console: Console) -> int:
    plan = read_plan(arguments.plan)
    installation, _ = installation_for(arguments, plan)
    is_safe = True
    with installation:
        problems = pipeline.find_problems(installation, plan)
        if plan.goal is Goal.REMOVE_BROKERS:
            is_safe = _print_removal(installation, plan, console)
    for problem in problems:
        console.print(problem, markup=False)
    if not problems:
        console.print(
            f"{plan.cluster} is as planned: {len(plan.moves)} partitions, leaders included",
            markup=False,
        )
    return 1 if problems or not is_safe else 0


def _print_removal(installation: Installation, plan: RebalancePlan, console: Console) -> bool:
    """Print whether the emptied brokers may be stopped, with the evidence; return it."""
    verdict = pipeline.removal_verdict(installation, plan)
    for line in verdict.lines():
        console.print(line, markup=False, soft_wrap=True)
    return verdict.is_safe
