"""What is missing before a plan may run, for the command line."""

from counterpoise import approval
from counterpoise.installation import Installation
from counterpoise.model.plan import RebalancePlan


def approvals_missing(installation: Installation, run_id: str, plan: RebalancePlan) -> int:
    """Return how many more people have to say yes before the run may start."""
    policy, ledger = installation.cluster(plan.cluster).policy, installation.ledger
    run, approvals = ledger.run(run_id), ledger.approvals_of(run_id)
    needed = approval.people_needed(plan, policy.approval)
    standing = approval.standing_approvals(policy, run, approvals, ledger.now(), needed=needed)
    return max(0, needed - len(standing))


def why_two_people(installation: Installation, plan: RebalancePlan) -> str:
    """Return what of a plan needs two people, in words; "" where one is enough."""
    return approval.why_two_people(plan, installation.cluster(plan.cluster).policy.approval)
