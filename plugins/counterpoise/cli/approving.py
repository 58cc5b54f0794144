"""Commands between a plan and its run, in order: preflight, propose, approve, reject."""

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from counterpoise import access
from counterpoise.cli import plans, tables
from counterpoise.cli.common import (
    Commands,
    add_json_argument,
    add_plan_command,
    add_why_argument,
    approve_line,
    console_for_people,
    installation_for,
    print_answer,
    print_json,
    read_plan,
    who,
)
from counterpoise.errors import RefusedError
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.plan import RebalancePlan
from counterpoise.services import approvals, runs
from counterpoise.services.validations import preflight, preflight_warnings, propose_plan
from counterpoise.units import format_rate


def add_commands(commands: Commands) -> None:
    _add_preflight(commands)
    _add_propose(commands)
    _add_approve(commands)
    _add_reject(commands)


def _add_preflight(commands: Commands) -> None:
    parser = add_plan_command(
        commands,
        "preflight",
        _preflight,
        "Asks the cluster whether the operator connection may set throttles, reassign and elect, "
        "for this plan. Changes nothing; exit code 1 names what is refused.",
    )
    add_json_argument(parser)


def _preflight(arguments: argparse.Namespace, console: Console) -> int:
    plan = read_plan(arguments.plan)
    if plan.is_empty:
        raise RefusedError(
            f"{arguments.plan}: nothing needs to move ({plan.reason}), so no permission is needed"
        )
    installation, _ = installation_for(arguments, plan)
    with installation:
        refused = preflight(installation, plan)
        warnings = preflight_warnings(installation, plan)
    if arguments.json:
        print_json({"refused": dict(refused), "warnings": list(warnings)})
        return 1 if refused else 0
    plans.print_warnings(console, warnings)
    if not refused:
        console.print("all allowed" if not warnings else "all that the plan needs is allowed")
        return 0
    rows = tables.table("refused", "why")
    for operation, reason in refused.items():
        rows.add_row(Text(operation), Text(reason))
    console.print(rows)
    return 1


def _add_propose(commands: Commands) -> None:
    parser = add_plan_command(
        commands,
        "propose",
        _propose,
        "Opens a run for a plan that waits for a yes or a no, with you as its requester. Where the "
        "policy asks for another person than the requester, somebody else approves it then "
        "(`counterpoise approve`); elsewhere `approve` alone is enough. Checks the plan, and asks "
        "the cluster whether the operator connection may do what it needs; no run is opened while "
        "that fails.",
    )
    _add_no_preflight_argument(parser)
    add_json_argument(parser)


def _propose(arguments: argparse.Namespace, console: Console) -> int:
    people = console_for_people(arguments, console)
    plan = _plan_with_moves(arguments.plan, "propose")
    installation, _ = installation_for(arguments, plan)
    with installation:
        proposal = propose_plan(
            installation, plan, who(), try_permissions=not arguments.no_preflight
        )
        requester = runs.status_of(installation, proposal.run_id).run.requester
    plans.print_warnings(people, proposal.warnings)
    run_id = proposal.run_id
    value = {"run_id": run_id, "fingerprint": plan.fingerprint, "requested_by": requester.shown}
    line = f"proposed by {requester.shown}: run {run_id}"
    print_answer(arguments, console, value, line, plan.fingerprint)
    return 0


def _add_approve(commands: Commands) -> None:
    parser = add_plan_command(
        commands,
        "approve",
        _approve,
        "Records a yes: who, why, at which rate, until when. A plan that nobody has proposed is "
        "proposed first, with all checks of `propose`; nothing is approved while they fail.",
    )
    parser.add_argument(
        "--rate",
        required=True,
        metavar="50MB/s",
        help="the limit for what a broker copies, with its unit",
    )
    _add_no_preflight_argument(parser)
    add_why_argument(parser, "--reason")
    add_json_argument(parser)


def _add_no_preflight_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-preflight",
        action="store_true",
        help="do not ask the cluster what the operator may do",
    )


def _approve(arguments: argparse.Namespace, console: Console) -> int:
    people = console_for_people(arguments, console)
    plan = _plan_with_moves(arguments.plan, "approve")
    installation, _ = installation_for(arguments, plan)
    with installation:
        approval, warnings = approvals.answer_plan(
            installation,
            plan,
            decision=Decision.GRANTED,
            by=who(),
            reason=arguments.reason,
            rate=arguments.rate,
            try_permissions=not arguments.no_preflight,
        )
        run = installation.ledger.run(approval.run_id)
        missing = approvals.whose_yes_to(installation, run, plan).missing
        because = access.why_two_people(plan, installation.cluster(plan.cluster).policy.approval)
    plans.print_warnings(people, warnings)
    rate = format_rate(approval.rate_bytes_per_second or 0)
    lines = [
        f"approved by {approval.person.shown} at {rate}, "
        f"until {approval.expires_at:%Y-%m-%d %H:%M} UTC: run {approval.run_id}",
        approval.fingerprint,
    ]
    if missing:
        # Whoever types it may be in another folder.
        again = approve_line(arguments, arguments.plan.resolve(), rate.replace(" ", ""))
        lines.append(f"the plan {because}: another system user has to approve it too (`{again}`)")
    value = _decision_summary(approval) | {"approvals_missing": missing}
    print_answer(arguments, console, value, *lines)
    return 0


def _decision_summary(approval: Approval) -> dict[str, Any]:
    return {
        "run_id": approval.run_id,
        "fingerprint": approval.fingerprint,
        "decision": str(approval.decision),
        "decided_by": approval.person.shown,
        "rate_bytes_per_second": approval.rate_bytes_per_second,
        "expires_at": approval.expires_at.isoformat() if approval.expires_at else None,
    }


def _plan_with_moves(path: Path, what: str) -> RebalancePlan:
    plan = read_plan(path)
    if plan.is_empty:
        raise RefusedError(
            f"{path}: nothing needs to move ({plan.reason}), so there is nothing to {what}"
        )
    return plan


def _add_reject(commands: Commands) -> None:
    parser = add_plan_command(
        commands,
        "reject",
        _reject,
        "Records a rejection; the plan cannot run then. Another plan of the cluster that waits, or "
        "is approved, stays as it is.",
    )
    add_why_argument(parser, "--reason")
    add_json_argument(parser)


def _reject(arguments: argparse.Namespace, console: Console) -> int:
    plan = read_plan(arguments.plan)
    installation, _ = installation_for(arguments, plan)
    with installation:
        decision, _ = approvals.answer_plan(
            installation, plan, decision=Decision.REJECTED, by=who(), reason=arguments.reason
        )
    line = f"rejected by {decision.person.shown}: run {decision.run_id}"
    print_answer(arguments, console, _decision_summary(decision), line)
    return 0
