"""Between plan and yes: rules and data are checked, the operator's rights are tried, and a person
is asked.

validate(site, run["run_id"], run["fingerprint"])
approval_question(site, run["run_id"])
"""

import logging
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from counterpoise import reporting
from counterpoise.approval import others_to_ask, people_needed, who_said_yes
from counterpoise.archive import plan_docs_folder, plan_report_name
from counterpoise.errors import RefusedError
from counterpoise.installation import Installation
from counterpoise.kafka_admin.port import ELECT, REASSIGN, REFUSABLE_OPERATIONS
from counterpoise.model.movement import most_at_once, rate_with_room
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import MovementPolicy
from counterpoise.pipeline.looking_up import run_and_plan
from counterpoise.units import format_rate
from counterpoise.validation import find_violations, validate_data

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ApprovalQuestion:
    """What a person is asked."""

    subject: str
    body_markdown: str
    default_rate: str
    approvers: tuple[str, ...]
    wait_for: timedelta


def validate(installation: Installation, run_id: str, fingerprint: str) -> None:
    """Checks snapshot and plan as data, the plan against its rules, and the operator's rights.

    Raises RefusedError with all that is wrong. What a moving cluster may look like for a moment is
    a warning.

    Writes the plan's report, which says the same, and Data Docs, whatever the outcome.
    """
    run, made = run_and_plan(installation, run_id, fingerprint)
    policy = installation.cluster(made.cluster).policy
    photographed = installation.archive.read_snapshot(made.cluster, made.snapshot_id)
    violations = find_violations(made, photographed, policy.balance)
    with tempfile.TemporaryDirectory(prefix="counterpoise-docs-") as folder:
        data = validate_data(photographed, made, docs=Path(folder))
        installation.archive.write_docs(plan_docs_folder(made.cluster, run.run_id), Path(folder))
    page = reporting.plan_report(
        made,
        violations=tuple(f"{v.rule}: {v.subject}: {v.message}" for v in violations),
        data_check_failures=tuple(str(failure) for failure in data.grave),
        data_checks_passed=data.passed,
        data_checks=f"{plan_docs_folder(made.cluster, run.run_id).rpartition('/')[2]}/index.html",
        rate_bytes_per_second=default_rate(made, policy.movement),
        at_once=most_at_once(policy.movement),
    )
    installation.archive.write_report(plan_report_name(made.cluster, run.run_id), page)
    wrong = [f"{v.subject}: {v.message}" for v in violations] + [
        str(failure) for failure in data.grave
    ]
    for failure in data.momentary:
        _LOGGER.warning("as it may be for a moment: %s", failure)
    wrong += [
        f"the operator connection may not {what}: {why}"
        for what, why in preflight(installation, made).items()
    ]
    if wrong:
        shown = "\n".join(f"  {complaint}" for complaint in wrong[:20])
        docs = installation.archive.store.uri(
            f"{plan_docs_folder(made.cluster, run.run_id)}/index.html"
        )
        raise RefusedError(
            f"plan {fingerprint} must not run, {len(wrong)} problem(s):\n{shown}\nThe checks of the data: {docs}"
        )


def approval_question(installation: Installation, run_id: str) -> ApprovalQuestion:
    run, made = run_and_plan(installation, run_id)
    policy = installation.cluster(run.cluster).policy
    rate = default_rate(made, policy.movement)
    return ApprovalQuestion(
        subject=f"Rebalance {run.cluster}: {made.goal}",
        body_markdown=reporting.plan_markdown(
            made, rate_bytes_per_second=rate, at_once=most_at_once(policy.movement)
        ),
        default_rate=format_rate(rate).replace(" ", ""),
        approvers=policy.approval.approvers,
        wait_for=policy.approval.wait_for,
    )


def default_rate(plan: RebalancePlan, policy: MovementPolicy) -> int:
    """Bytes per second that an approver is offered: the policy's rate, lowered where the links have
    less room.
    """
    capacity = policy.link_capacity_bytes_per_second
    room = rate_with_room(plan, capacity, most_at_once(policy)) if capacity else None
    return min(policy.rate_bytes_per_second, room or policy.rate_bytes_per_second)


def second_approval_question(installation: Installation, run_id: str) -> ApprovalQuestion | None:
    """What a second person is asked about a plan that needs two; None where no yes is missing.

    Raises RefusedError.
    """
    run, made = run_and_plan(installation, run_id)
    approvals = installation.ledger.approvals_of(run_id)
    said = who_said_yes(approvals)
    if not made.lowers_replication_factor or len(said) >= people_needed(made):
        return None
    question = approval_question(installation, run_id)
    rate = approvals[-1].rate_bytes_per_second if said else None
    return replace(
        question,
        subject=f"{question.subject}, second yes",
        body_markdown=f"Approved by {' and '.join(said) or 'nobody'} until now.\n\n{question.body_markdown}",
        default_rate=format_rate(rate).replace(" ", "") if rate else question.default_rate,
        approvers=others_to_ask(installation.cluster(run.cluster).policy.approval, said),
    )


def preflight(installation: Installation, plan: RebalancePlan) -> Mapping[str, str]:
    """What the operator connection may not do that the plan needs: operation -> the cluster's
    reason; {} for all well.

    Hosted Kafka often refuses some; that is learnt now and not at night. Changes nothing.
    """
    copying = [move for move in plan.moves if move.adding]
    some_move = (copying or plan.moves)[0]
    with installation.operator(plan.cluster) as admin:
        live = admin.describe_cluster().live_broker_ids
        broker_id = next((b for b in some_move.replicas_after if b in live), min(live))
        refused = admin.refused_operations(broker_id, some_move.topic)
    needed = REFUSABLE_OPERATIONS if copying else (REASSIGN, ELECT)
    return {operation: reason for operation, reason in refused.items() if operation in needed}
