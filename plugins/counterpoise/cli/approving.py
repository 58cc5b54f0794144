"""Commands between a plan and its run, in order: preflight, propose, approve, reject."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from counterpoise import controls, pipeline, queries
from counterpoise.cli import plans, tables
from counterpoise.cli.common import (
    CLOSED_STATES,
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
from counterpoise.errors import ClusterError, RefusedError
from counterpoise.installation import Installation
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.run import RunState
from counterpoise.services import runs
from counterpoise.services.plans import Origin, submit
from counterpoise.units import format_rate

_NOT_STARTED_STATES = (RunState.PROPOSED, RunState.APPROVED)


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
        "check that the operator connection has the permissions for a plan",
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
        refused = pipeline.preflight(installation, plan)
        warnings = pipeline.preflight_warnings(installation, plan)
    if arguments.json:
        print_json({"refused": dict(refused), "warnings": list(warnings)})
        return 1 if refused else 0
    plans.print_warnings(console, warnings)
    if not refused:
        console.print("all allowed" if not warnings else "all that the plan needs is allowed")
        return 0
    _print_refused(console, refused)
    return 1


def _add_propose(commands: Commands) -> None:
    parser = add_plan_command(
        commands,
        "propose",
        _propose,
        "propose a plan for another person to approve",
        "Opens a run for a plan that waits for a yes or a no, with you as its requester. Where the "
        "policy asks for another person than the requester, somebody else approves it then "
        "(`counterpoise approve`); elsewhere `approve` alone is enough.",
    )
    add_json_argument(parser)


def _propose(arguments: argparse.Namespace, console: Console) -> int:
    plan = _plan_with_moves(arguments.plan, "propose")
    installation, _ = installation_for(arguments, plan)
    with installation:
        by = who()
        run_id = submit(installation, plan, Origin(by))["run_id"]
        requester = runs.status_of(installation, run_id).run.requester
    value = {"run_id": run_id, "fingerprint": plan.fingerprint, "requested_by": requester.shown}
    line = f"proposed by {requester.shown}: run {run_id}\n{plan.fingerprint}"
    print_answer(arguments, console, value, line)
    return 0


def _add_approve(commands: Commands) -> None:
    parser = add_plan_command(
        commands,
        "approve",
        _approve,
        "approve a plan: who, why, rate",
        "Records a yes: who, why, at which rate, until when. Asks the cluster first whether the "
        "operator connection may do what the plan needs; nothing is approved while that fails.",
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
    add_why_argument(parser, "--reason")
    add_json_argument(parser)


def _approve(arguments: argparse.Namespace, console: Console) -> int:
    people = console_for_people(arguments, console)
    plan = _plan_with_moves(arguments.plan, "approve")
    installation, _ = installation_for(arguments, plan)
    with installation:
        by = who()
        run = runs.latest_of_plan(installation, plan.fingerprint)
        is_new = run is None or run.state in CLOSED_STATES
        # Before a run is opened for it. Whoever opens it here is the one who requests it.
        controls.check_reason(arguments.reason)
        requester = by if run is None or is_new else run.requester
        controls.check_grant(installation, plan, by=by, requester=requester, rate=arguments.rate)
        if run is None or is_new or run.state in _NOT_STARTED_STATES:
            _check_rules(installation, plan, people, may_be_unknown=arguments.no_preflight)
        if not arguments.no_preflight:
            _check_permissions(installation, plan, people)
        if run is None or is_new:
            run_id = submit(installation, plan, Origin(by))["run_id"]
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
        because = queries.why_two_people(installation, plan)
    _print_approval(arguments, console, run_id, approval, missing, because)
    return 0


def _print_approval(
    arguments: argparse.Namespace,
    console: Console,
    run_id: str,
    approval: Approval,
    missing: int,
    because: str,
) -> None:
    rate = format_rate(approval.rate_bytes_per_second or 0)
    value = _decision_summary(run_id, approval) | {"approvals_missing": missing}
    lines = [
        f"approved by {approval.person.shown} at {rate}, "
        f"until {approval.expires_at:%Y-%m-%d %H:%M} UTC: run {run_id}\n{approval.fingerprint}"
    ]
    if missing:
        # Whoever types it may be in another folder.
        again = approve_line(arguments, arguments.plan.resolve(), rate.replace(" ", ""))
        lines.append(f"the plan {because}: another system user has to approve it too (`{again}`)")
    print_answer(arguments, console, value, *lines)


def _decision_summary(run_id: str, approval: Approval) -> dict[str, Any]:
    return {
        "run_id": run_id,
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


def _check_rules(
    installation: Installation, plan: RebalancePlan, console: Console, *, may_be_unknown: bool
) -> None:
    """Raise RefusedError for a plan that breaks a rule.

    Raises ClusterError when that cannot be known now; warns instead if it `may_be_unknown`.
    """
    try:
        pipeline.check_plan_rules(installation, plan)
    except ClusterError as error:
        if not (may_be_unknown and error.retryable):
            raise _not_approved(plan, error) from None
        warning = (
            "the cluster does not respond, and the store has no snapshot of this plan, so its "
            f"rules are checked when the run starts: {error}"
        )
        plans.print_warnings(console, [warning])


def _check_permissions(installation: Installation, plan: RebalancePlan, console: Console) -> None:
    """Raise RefusedError when the cluster would refuse the plan; ClusterError when the operator
    connection fails: the run could not start, and `kafka_rebalance` asks nobody then either.
    """
    try:
        refused = pipeline.preflight(installation, plan)
        warnings = pipeline.preflight_warnings(installation, plan)
    except ClusterError as error:
        raise _not_approved(plan, error) from None
    plans.print_warnings(console, warnings)
    if refused:
        _print_refused(console, refused)
        raise RefusedError(
            f"the cluster refuses {len(refused)} of the operations that the plan needs; nothing "
            "was approved. Give the operator connection the permissions (docs/install.md), or "
            "approve with --no-preflight"
        )


def _not_approved(plan: RebalancePlan, error: ClusterError) -> ClusterError:
    return ClusterError(
        f"nothing was approved, since a connection to {plan.cluster} fails: {error}\n"
        "Put it right (`counterpoise preflight PLAN` tries the operator's), then approve again; or "
        "approve with --no-preflight if you know that it works when the run starts"
    )


def _print_refused(console: Console, refused: Mapping[str, str]) -> None:
    rows = tables.table("refused", "why")
    for operation, reason in refused.items():
        rows.add_row(Text(operation), Text(reason))
    console.print(rows)


def _add_reject(commands: Commands) -> None:
    parser = add_plan_command(
        commands,
        "reject",
        _reject,
        "reject a plan",
        "Records a rejection; the plan cannot run then. Another plan of the cluster that waits, or "
        "is approved, stays as it is.",
    )
    add_why_argument(parser, "--reason")
    add_json_argument(parser)


def _reject(arguments: argparse.Namespace, console: Console) -> int:
    plan = read_plan(arguments.plan)
    installation, _ = installation_for(arguments, plan)
    with installation:
        by = who()
        run = runs.latest_of_plan(installation, plan.fingerprint)
        controls.check_reason(arguments.reason)
        if run is None or run.state in CLOSED_STATES:
            origin = Origin(by)
            planned = submit(installation, plan, origin, may_supersede=False)
            run_id = planned["run_id"]
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
    line = f"rejected by {decision.person.shown}: run {run_id}"
    print_answer(arguments, console, _decision_summary(run_id, decision), line)
    return 0
