"""The rebalance that the analysis of a cluster asks for, and whether somebody is to be asked.

propose(installation, "orders-eu")
unneeded_proposal(installation, "orders-eu")
nothing_to_ask(installation, analysed)          # both at once, of what is known already
why_nothing_is_proposed(installation, "orders-eu")      # who cancelled or rejected something lately
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from counterpoise import analysis
from counterpoise.errors import CounterpoiseError
from counterpoise.installation import Installation
from counterpoise.model.approval import Decision
from counterpoise.model.balance import WantedRebalance
from counterpoise.model.control import Control
from counterpoise.model.person import Person
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.request import Goal, RebalanceRequest
from counterpoise.model.run import OPEN_STATES, Run, RunState, is_refused_by_validation
from counterpoise.model.safe_text import safe_logger
from counterpoise.services.figures import ClusterAnalysis, cluster_analysis
from counterpoise.services.kept_empty import is_of_whole_cluster, plan_for
from counterpoise.units import format_moment

_LOGGER: Final = safe_logger(__name__)


def propose(installation: Installation, cluster: str) -> dict[str, Any] | None:
    """Return the rebalance that the analysis asks for, as an event carries it.

    None where the cluster is even enough or frozen, or was uneven in too few snapshots; where a run
    is under way or approved, where a plan that somebody asked for waits for an answer, and where
    the same question waits already: a person is asked once, however often it is found again; and
    for a time after a person's cancel, undo or no.
    """
    return _proposal(installation, cluster_analysis(installation, cluster, with_load=False))


def _proposal(installation: Installation, analysed: ClusterAnalysis) -> dict[str, Any] | None:
    cluster = analysed.balance.cluster
    if not analysed.would_help or _is_frozen(installation, cluster):
        return None
    if why_not := why_nothing_is_proposed(installation, cluster):
        _LOGGER.info("%s: %s", cluster, why_not)
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
    plan = _readable_plan(installation, run)
    if plan is None:
        return run, "its plan cannot be read, so nobody can approve it"
    for wanted in analysed.would_help:
        if _is_about(installation, plan, wanted):
            return None
        # A rebalance takes the place of another plan only where it is asked for now.
        is_due = wanted.goal is not Goal.REBALANCE or _is_lasting(installation, analysed, wanted)
        if is_due and _can_be_asked_for(installation, analysed, wanted):
            return run, f"now {wanted.goal} would help: {wanted.reason}"
    policy = installation.cluster(run.cluster).policy.proposals
    what = "leaders" if policy.uneven_percent is None else "leaders, replicas and bytes"
    return run, f"no live broker is idle, and {what} are even enough"


def _is_frozen(installation: Installation, cluster: str) -> bool:
    return installation.active_requests(cluster).frozen is not None


def why_nothing_is_proposed(installation: Installation, cluster: str) -> str:
    """Return until when the analysis proposes nothing for a cluster, since a person cancelled,
    undid or rejected something there; "" where nobody did lately.
    """
    lasts = installation.cluster(cluster).policy.proposals.propose_again_after
    since = installation.ledger.now() - lasts
    acts = [
        act
        for run in _runs_closed_after(installation, cluster, since)
        for act in _acts_against(installation, run)
    ]
    at, act = max(acts, default=(since, ""))
    return f"nothing is proposed before {format_moment(at + lasts)}: {act}" if at > since else ""


def _acts_against(installation: Installation, run: Run) -> Iterator[tuple[datetime, str]]:
    """Yield when people rejected or cancelled a run, or took back another one with it, and who."""
    for last in installation.ledger.approvals_of(run.run_id)[-1:]:
        if last.decision is Decision.REJECTED and last.person.is_human:
            yield last.at, f"{last.person.shown} rejected run {run.run_id} ({last.reason})"
    for request in installation.ledger.requests(run.cluster, run.run_id):
        if request.control in (Control.CANCEL, Control.UNDO):
            words = f"{request.person.shown} cancelled run {run.run_id} ({request.why})"
            yield request.done_at or request.at, words
    plan = _readable_plan(installation, run) if run.closed_at else None
    if run.closed_at and plan is not None and plan.undoes:
        words = f"{run.requester.shown} took back an earlier run with run {run.run_id}"
        yield run.closed_at, words


def _runs_closed_after(installation: Installation, cluster: str, since: datetime) -> Iterator[Run]:
    for run in installation.ledger.runs(cluster=cluster):
        if run.closed_at is not None and run.closed_at > since:
            yield run


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
    """Return whether no such plan was refused by its checks lately, and a plan would move
    something.
    """
    if _was_refused_lately(installation, analysed.balance.cluster, wanted):
        return False
    try:
        return not plan_of(installation, analysed, wanted).is_empty
    except CounterpoiseError as error:
        _LOGGER.warning("%s: no plan is made: %s", analysed.balance.cluster, error)
        return False


def plan_of(
    installation: Installation, analysed: ClusterAnalysis, wanted: WantedRebalance
) -> RebalancePlan:
    """Return the plan of the newest snapshot, made once. It is empty, or refused, where racks,
    large partitions, replica sets or constraints keep the cluster from being any more even.
    """
    plans, cluster = analysed.known.plans, analysed.balance.cluster
    if wanted not in plans:
        snapshot_id = analysed.balance.latest.snapshot_id
        snapshot = installation.archive.read_snapshot(cluster, snapshot_id)
        request = RebalanceRequest(wanted.goal, wanted.broker_ids)
        plans[wanted] = plan_for(installation, snapshot, request)
    return plans[wanted]


def _is_in_the_way(installation: Installation, run: Run, wanted: WantedRebalance) -> bool:
    """Return whether an open run is approved or under way, or was asked for by somebody, or is
    about what is wanted now.
    """
    if run.state is not RunState.PROPOSED or not run.requester.is_own_dag:
        return True
    plan = _readable_plan(installation, run)
    return plan is not None and _is_about(installation, plan, wanted)


def _was_refused_lately(installation: Installation, cluster: str, wanted: WantedRebalance) -> bool:
    """Return whether the checks refused a plan of what is wanted."""
    lasts = installation.cluster(cluster).policy.proposals.propose_again_after
    plans = (
        _readable_plan(installation, run)
        for run in _runs_closed_after(installation, cluster, installation.ledger.now() - lasts)
        if must_not_run(installation, run)
    )
    return any(plan is not None and _is_about(installation, plan, wanted) for plan in plans)


def must_not_run(installation: Installation, run: Run) -> bool:
    """Return whether the last check of rules and data refused the plan of a run."""
    return is_refused_by_validation(run, installation.ledger.journal(run.run_id).events())


def _readable_plan(installation: Installation, run: Run) -> RebalancePlan | None:
    """Return the plan of a run; None, with a warning in the log, where the store does not have it:
    one lost file must not end all proposals for the cluster.
    """
    try:
        return installation.plan_of(run)
    except CounterpoiseError as error:
        _LOGGER.warning(
            "%s: it is not known what run %s was for, so it keeps nothing from being proposed: %s",
            run.cluster,
            run.run_id,
            error,
        )
        return None


def _is_about(installation: Installation, plan: RebalancePlan, wanted: WantedRebalance) -> bool:
    kept_empty = installation.active_requests(plan.cluster).kept_empty
    is_whole = is_of_whole_cluster(plan.scope, kept_empty)
    return is_whole and (plan.goal, plan.broker_ids) == (wanted.goal, wanted.broker_ids)
