"""Commands of a run: execute, verify."""

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict

from rich.console import Console

from counterpoise import access
from counterpoise.cli import plans
from counterpoise.cli.common import (
    Commands,
    add_json_argument,
    add_plan_command,
    approve_line,
    command_line,
    console_for_people,
    installation_for,
    print_answer,
    print_json,
    read_plan,
    who,
)
from counterpoise.cli.following import Display
from counterpoise.cli.repeating import repeat, retried
from counterpoise.cli.unfinished import saying_what_is_left
from counterpoise.errors import (
    HaltedError,
    NotApprovedError,
    RefusedError,
    StepExpiredError,
    StepLockHeldError,
)
from counterpoise.installation import Installation
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import Action
from counterpoise.model.request import KINDS
from counterpoise.model.run import CLOSED_STATES, Run, RunState
from counterpoise.model.words import pluralize
from counterpoise.services import execution, requests, runs, verification
from counterpoise.units import format_moment
from counterpoise.views import as_document
from counterpoise.views.run import RunStatusView


def add_commands(commands: Commands) -> None:
    _add_execute(commands)
    _add_verify(commands)


def _add_execute(commands: Commands) -> None:
    parser = add_plan_command(
        commands,
        "execute",
        _execute,
        "Moves what the plan says under the approved rate, elects the leaders, and restores every "
        "throttle key. Killed or interrupted at any point, the same command goes on from what the "
        "cluster says.",
    )
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")
    parser.set_defaults(is_about_runs=True)


def _execute(arguments: argparse.Namespace, console: Console) -> int:
    plan = read_plan(arguments.plan)
    installation, name = installation_for(arguments, plan)
    with installation:
        run = runs.latest_of_plan(installation, plan.fingerprint)
        if run is None:
            access.check_provider(installation.cluster(name).policy, name)
            raise NotApprovedError(
                f"plan {plan.fingerprint} was not approved; approve it first "
                f"(`{approve_line(arguments, arguments.plan)}`)"
            )
        requests.check_may(installation, run.cluster, who(), Action.OPERATE)
        if run.state in CLOSED_STATES:
            raise RefusedError(_why_closed(installation, run, arguments))
        progress = console_for_people(arguments, console)
        settle = command_line(arguments, "settle", run.run_id)
        go_on = f"The same command goes on with it, `{settle}` ends it"
        with saying_what_is_left(installation, run.run_id, go_on):
            _run_to_the_end(installation, run, progress)
        report = verification.report_run(installation, run.run_id)
        status = runs.status_of(installation, run.run_id)
        if arguments.json:
            print_json(as_document(RunStatusView.of(status)) | {"report": report})
        else:
            plans.print_outcome(console, plan, status, report)
        is_done = status.run.state is RunState.DONE
        if is_done and KINDS[plan.goal].empties:
            _print_removal(installation, plan, progress)
    return 0 if is_done else 1


def _why_closed(installation: Installation, run: Run, arguments: argparse.Namespace) -> str:
    """Say why a run that has ended for good cannot be executed, and how to go on."""
    if run.state is RunState.DONE:
        return f"run {run.run_id} of this plan is done; a plan runs once. Make a new plan"
    when = "" if run.closed_at is None else f" on {format_moment(run.closed_at)}"
    again = f"propose this one again (`{command_line(arguments, 'propose', arguments.plan)}`)"
    if run.state is RunState.CANCELLED:
        return (
            f"run {run.run_id} of this plan was cancelled{when} ({run.reason}): make a new plan, "
            f"or, where all is as it was planned from, {again}"
        )
    if run.state is RunState.SUPERSEDED:
        return (
            f"run {run.run_id} of this plan was {run.reason}{when}: execute that newer plan "
            f"(`counterpoise status` lists the runs), or {again}"
        )
    decision = runs.status_of(installation, run.run_id).approval
    by = f" by {decision.person.shown}" if decision else ""
    return (
        f"run {run.run_id} of this plan was rejected{by}{when} ({run.reason}): make a new plan, "
        f"or {again}"
    )


def _run_to_the_end(installation: Installation, run: Run, console: Console) -> None:
    """Open the run, move, then settle, with a live picture on a terminal and lines elsewhere.

    A process that was killed at work holds the step lock for a while: that is waited for. A run
    that has ended meanwhile (somebody cancelled it, say) is not started again.
    """
    run_id, fingerprint, opened = run.run_id, run.fingerprint, execution.opened_run
    with Display(console) as display, ExitStack() as stack:
        driver = retried(
            lambda: stack.enter_context(
                opened(installation, run_id, fingerprint, display.log, seen=run)
            ),
            display.log,
            passing=(StepLockHeldError, StepExpiredError),
        )

        def displayed(step: Callable[[], float | None]) -> Callable[[], float | None]:
            def step_and_display() -> float | None:
                wait_seconds = step()
                display.show(runs.run_now(installation, run_id))
                return wait_seconds

            return step_and_display

        try:
            repeat(displayed(driver.step), display.log)
        except HaltedError as error:
            display.log(str(error))
        repeat(displayed(driver.settle_step), display.log)


def _add_verify(commands: Commands) -> None:
    parser = add_plan_command(
        commands,
        "verify",
        _verify,
        "Makes a snapshot of the cluster and compares it with the plan; exit code 1 names every "
        "difference.",
    )
    add_json_argument(parser)


def _verify(arguments: argparse.Namespace, console: Console) -> int:
    plan = read_plan(arguments.plan)
    installation, _ = installation_for(arguments, plan)
    removal = None
    with installation:
        compared = verification.compare(installation, plan)
        if KINDS[plan.goal].empties:
            removal = verification.removal_verdict(installation, plan)
    problems = (*compared.gone, *compared.problems)
    as_planned, planned = compared.as_planned, len(plan.moves)
    if problems:
        of_plan = pluralize(planned, "partition")
        verified = f"{plan.cluster}: {as_planned} of {of_plan} as planned, leaders included"
    else:
        count = pluralize(as_planned, "partition")
        verified = f"{plan.cluster} is as planned: {count}, leaders included"
    value = {
        "cluster": plan.cluster,
        "fingerprint": plan.fingerprint,
        "as_planned": as_planned,
        "problems": list(problems),
        "removal": asdict(removal) | {"is_safe": removal.is_safe} if removal else None,
    }
    lines = removal.lines() if removal else ()
    print_answer(arguments, console, value, *lines, *problems, verified)
    return 1 if problems or (removal and not removal.is_safe) else 0


def _print_removal(installation: Installation, plan: RebalancePlan, console: Console) -> None:
    """Print whether the emptied brokers may be stopped, with the evidence."""
    for line in verification.removal_verdict(installation, plan).lines():
        console.print(line, soft_wrap=True)
