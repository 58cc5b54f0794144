"""The rebalance that the analysis of a cluster asks for, and whether somebody is to be asked.

propose(installation, "orders-eu")
unneeded_proposal(installation, "orders-eu")
nothing_to_ask(installation, analysed)          # both at once, of what is known already
"""

from datetime import datetime
from typing import Any, Final

from counterpoise import analysis
from counterpoise.errors import CounterpoiseError
from counterpoise.installation import Installation
from counterpoise.model.approval import Decision
from counterpoise.model.balance import WantedRebalance
from counterpoise.model.control import find_active_requests
from counterpoise.model.person import Person
from counterpoise.model.request import Goal, RebalanceRequest, Scope
from counterpoise.model.run import LOOKED_AFTER_STATES, OPEN_STATES, Run, RunState
from counterpoise.model.safe_text import safe_logger
from counterpoise.pipeline.cluster_analysis import ClusterAnalysis, cluster_analysis
from counterpoise.planning import plan_from
from counterpoise.rule_approvals import is_refused_by_validation

_LOGGER: Final = safe_logger(__name__)


def propose(installation: Installation, cluster: str) -> dict[str, Any] | None:
    """Return the rebalance that the analysis asks for, as an event carries it.

    None where the cluster is even enough or frozen, or was uneven in too few snapshots; where a run
    is under way or approved, where a plan that somebody asked for waits for an answer, and where
    the same question waits already, or was answered with a no lately: a person is asked once,
    however often it is found again.
    """
    return _proposal(installation, cluster_analysis(installation, cluster, with_load=False))


def _proposal(installation: Installation, analysed: ClusterAnalysis) -> dict[str, Any] | None:
    cluster = analysed.balance.cluster
    if not analysed.would_help or _is_frozen(installation, cluster):
        return None
    open_runs = installation.ledger.runs(cluster=cluster, states=OPEN_STATES)
    for wanted in analysed.would_help:
        if not _is_lasting(installation, analysed, wanted):
            continue
        if any(_is_in_the_way(installation, run, wanted) for run in open_runs):
            return None
        if _can_be_asked_for(installation, analysed, wanted):
            return {
                "cluster": cluster,
                "goal": str(wanted.goal),
                "broker_ids": list(wanted.broker_ids),
                "reason": wanted.reason,
            }
    return None


def unneeded_proposal(installation: Installation, cluster: str) -> tuple[Run, str] | None:
    """Return the run that the analysis asked for, waits for an answer and is no longer needed, and
    why. None without one, and while the cluster is frozen.
    """
    run = _own_proposal(installation, cluster)
    if run is None:
        return None
    return _unneeded(installation, run, cluster_analysis(installation, cluster, with_load=False))


def nothing_to_ask(installation: Installation, analysed: ClusterAnalysis) -> bool:
    """Return whether there is nothing to propose for a cluster, and nothing to withdraw."""
    run = _own_proposal(installation, analysed.balance.cluster)
    is_unneeded = run is not None and _unneeded(installation, run, analysed) is not None
    return not is_unneeded and _proposal(installation, analysed) is None


def _own_proposal(installation: Installation, cluster: str) -> Run | None:
    waiting = installation.ledger.runs(cluster=cluster, states={RunState.PROPOSED})
    own = [run for run in waiting if run.requester == Person.of_analysis()]
    return own[0] if own and not _is_frozen(installation, cluster) else None


def _unneeded(
    installation: Installation, run: Run, analysed: ClusterAnalysis
) -> tuple[Run, str] | None:
    for wanted in analysed.would_help:
        if _is_about(installation, run, wanted):
            return None
        # A rebalance takes the place of another plan only where it is asked for now.
        if wanted.goal is not Goal.REBALANCE or (
            _is_lasting(installation, analysed, wanted)
            and _can_be_asked_for(installation, analysed, wanted)
        ):
            return run, f"now {wanted.goal} would help: {wanted.reason}"
    policy = installation.cluster(run.cluster).policy.proposals
    what = "leaders" if policy.uneven_percent is None else "leaders, replicas and bytes"
    return run, f"no live broker is idle, and {what} are even enough"


def _is_frozen(installation: Installation, cluster: str) -> bool:
    requests = installation.ledger.requests(cluster)
    return find_active_requests(requests, installation.ledger.now()).frozen is not None


def _is_lasting(
    installation: Installation, analysed: ClusterAnalysis, wanted: WantedRebalance
) -> bool:
    """Return whether the need is there in as many snapshots as the policy says: for an idle broker
    one is enough.
    """
    if wanted.goal is Goal.ADD_BROKERS:
        return True
    policy = installation.cluster(analysed.balance.cluster).policy
    found = analysis.uneven_snapshots(
        analysed.balance, wanted.goal, policy.balance, policy.proposals
    )
    return found >= policy.proposals.uneven_snapshots


def _can_be_asked_for(
    installation: Installation, analysed: ClusterAnalysis, wanted: WantedRebalance
) -> bool:
    """Return whether nobody said no to it lately, and a plan would move something. Whether one for
    idle brokers or for leaders does is found out by the task that makes it.
    """
    if _was_rejected_lately(installation, analysed.balance.cluster, wanted):
        return False
    return wanted.goal is not Goal.REBALANCE or _moves_something(installation, analysed, wanted)


def _moves_something(
    installation: Installation, analysed: ClusterAnalysis, wanted: WantedRebalance
) -> bool:
    """Return whether a plan of the newest snapshot does: racks, large partitions and constraints
    may keep a cluster from being any more even.
    """
    cluster, snapshot_id = analysed.balance.cluster, analysed.balance.latest.snapshot_id
    policy = installation.cluster(cluster).policy
    try:
        snapshot = installation.archive.read_snapshot(cluster, snapshot_id)
        plan = plan_from(snapshot, RebalanceRequest(wanted.goal, wanted.broker_ids), policy.balance)
    except CounterpoiseError as error:
        _LOGGER.warning("%s: no plan is made of snapshot %s: %s", cluster, snapshot_id, error)
        return False
    return not plan.is_empty


def _is_in_the_way(installation: Installation, run: Run, wanted: WantedRebalance) -> bool:
    """Return whether an open run is approved or under way, or was asked for by somebody, or is
    about what is wanted now.
    """
    if run.state is not RunState.PROPOSED or not run.requester.is_dag:
        return True
    return _is_about(installation, run, wanted)


def _was_rejected_lately(installation: Installation, cluster: str, wanted: WantedRebalance) -> bool:
    """Return whether somebody said no to what is wanted, or its plan must not run, within the time
    that the policy gives.

    A no of the requester only withdraws a plan, and silence is nobody's no.
    """
    since = installation.ledger.now() - installation.cluster(cluster).policy.proposals.again_after
    return any(
        run.closed_at is not None
        and run.closed_at > since
        and (_has_no_of_another(installation, run, since) or must_not_run(installation, run))
        and _is_about(installation, run, wanted)
        for run in installation.ledger.runs(cluster=cluster, states=LOOKED_AFTER_STATES)
    )


def _has_no_of_another(installation: Installation, run: Run, since: datetime) -> bool:
    """Return whether the last word on a run was a no of somebody else than its requester.

    A run that had halted before is halted again where something of it had to be settled since. What
    `ledger prune` has deleted is no word any more.
    """
    approvals = installation.ledger.approvals_of(run.run_id)
    if not approvals:
        return False
    last = approvals[-1]
    is_own = installation.people.may_be_one(last.person, run.requester)
    return last.decision is Decision.REJECTED and last.at > since and not is_own


def must_not_run(installation: Installation, run: Run) -> bool:
    """Return whether the last check of rules and data refused the plan of a run."""
    return is_refused_by_validation(run, installation.ledger.journal(run.run_id).events())


def _is_about(installation: Installation, run: Run, wanted: WantedRebalance) -> bool:
    plan = installation.plan_of(run)
    is_whole = plan.scope == Scope()
    return is_whole and (plan.goal, plan.broker_ids) == (wanted.goal, wanted.broker_ids)
