"""What the analysis of a cluster says: its report, the fleet's, and the rebalance that would help.

report_balance(installation, "orders-eu", period=timedelta(days=30))
report_fleet(installation)
propose(installation, "orders-eu")
unneeded_proposal(installation, "orders-eu")
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise import access, analysis, history, reporting
from counterpoise.archive import balance_report_name, fleet_report_name
from counterpoise.errors import CounterpoiseError, RefusedError
from counterpoise.installation import Installation
from counterpoise.model.approval import Decision
from counterpoise.model.balance import LeaderBalance, PlanSize, WantedRebalance
from counterpoise.model.control import find_active_requests
from counterpoise.model.fleet import ClusterState
from counterpoise.model.load import ClusterLoad
from counterpoise.model.movement import busiest_link_bytes
from counterpoise.model.person import Person
from counterpoise.model.rebalance_request import RebalanceRequest
from counterpoise.model.request import Goal, Scope
from counterpoise.model.run import OPEN_STATES, Run, RunState
from counterpoise.model.safe_text import safe_logger
from counterpoise.pipeline.analysing import view_of
from counterpoise.planning import plan_from
from counterpoise.results import Results
from counterpoise.units import format_moment, format_seconds

PERIOD: Final = timedelta(days=30)
_PERIOD_OF_DISKS: Final = timedelta(days=14)
_LOGGER = safe_logger(__name__)


@dataclass(frozen=True, slots=True)
class ClusterAnalysis:
    """All that is known of one cluster over a period."""

    balance: LeaderBalance
    load: ClusterLoad | None
    wanted: WantedRebalance | None
    series: pa.Table


def cluster_analysis(
    installation: Installation,
    cluster: str,
    *,
    period: timedelta = PERIOD,
    until: datetime | None = None,
) -> ClusterAnalysis:
    """Return what the results say of the `period` before `until` (default: the newest snapshot).

    Raises RefusedError when there is no analysed snapshot in that time.
    """
    series = view_of(installation, cluster)
    if series.num_rows == 0:
        raise RefusedError(
            f"cluster {cluster} has no analysed snapshot yet; make one: "
            f"counterpoise snapshot --cluster {cluster}"
        )
    newest_at: datetime = series["observed_at"][-1].as_py()
    end = until or newest_at
    since = end - period
    balance = _balance(installation, cluster, series, since, until)
    if balance is None:
        length = format_seconds(period.total_seconds())
        raise RefusedError(
            f"cluster {cluster} has no analysed snapshot in the {length} before "
            f"{format_moment(end)}; its newest is of {format_moment(newest_at)}: choose another "
            "period"
        )
    return ClusterAnalysis(
        balance=balance,
        load=_load(installation, balance, series, since, until),
        wanted=analysis.wanted_goal(balance, installation.cluster(cluster).policy.balance),
        series=series,
    )


def _balance(
    installation: Installation,
    cluster: str,
    series: pa.Table,
    since: datetime,
    until: datetime | None,
) -> LeaderBalance | None:
    if analysis.latest_snapshot_id(series, until) is None:
        return None
    results = installation.results
    detailed_ids = _latest_with_results(results, cluster, series, until)
    topic_balance = results.table("topic_balance", detailed_ids)
    return analysis.leader_balance(series, topic_balance, cluster=cluster, since=since, until=until)


def _with_flapping(installation: Installation, balance: LeaderBalance) -> LeaderBalance:
    """Add the partitions whose leader changed often, as far as results are still kept."""
    ids = {point.snapshot_id for point in balance.series}
    known = ids & installation.results.of_cluster(balance.cluster)
    changes = installation.results.table("leader_changes", known)
    return replace(balance, flapping=analysis.flapping(changes, snapshot_count=len(known)))


def _latest_with_results(
    results: Results, cluster: str, series: pa.Table, until: datetime | None
) -> set[str]:
    """Return the latest snapshot of the period whose topics and partitions are still known: that of
    its end, unless it was thinned out. Empty where there is none.
    """
    known = pa.array(sorted(results.of_cluster(cluster)), pa.string())
    with_results = series.filter(pc.is_in(series["snapshot_id"], value_set=known))
    latest_id = analysis.latest_snapshot_id(with_results, until)
    return set() if latest_id is None else {latest_id}


def _load(
    installation: Installation,
    balance: LeaderBalance,
    series: pa.Table,
    since: datetime,
    until: datetime | None,
) -> ClusterLoad | None:
    latest = balance.latest
    cluster, results = balance.cluster, installation.results
    detailed_ids = _latest_with_results(results, cluster, series, until)
    first_day, last_day = since.date(), latest.observed_at.date()
    daily = results.daily("topic_load", cluster, first_day, last_day)
    days_known = set(daily["date"].unique().to_pylist())
    ids = series["snapshot_id"].unique().to_pylist()
    days = ((snapshot_id, history.day_of(snapshot_id)) for snapshot_id in ids)
    ids_of_topics = {
        snapshot_id
        for snapshot_id, day in days
        if first_day <= day <= last_day and day not in days_known
    }
    begin_of_disks = latest.observed_at - _PERIOD_OF_DISKS
    return analysis.cluster_load(
        series,
        results.table("topic_load", ids_of_topics | detailed_ids),
        results.table("partition_load", {latest.snapshot_id}),
        view_of(installation, cluster, "log_dirs", begin_of_disks, until),
        daily,
        cluster=cluster,
        since=since,
        until=until,
    )


def report_balance(
    installation: Installation,
    cluster: str,
    *,
    period: timedelta = PERIOD,
    until: datetime | None = None,
) -> str:
    """Write a cluster's report as HTML, Markdown, JSON and CSV; return the URI of the page."""
    name = write_balance_report(installation, cluster, period=period, until=until)
    return installation.archive.report_uri(f"{name}.html")


def write_balance_report(
    installation: Installation,
    cluster: str,
    *,
    period: timedelta = PERIOD,
    until: datetime | None = None,
) -> str:
    """Write a cluster's report as HTML, Markdown, JSON and CSV; return its name, without a suffix.

    The newest report stays what it is where the period ended before the newest snapshot: then the
    report is that of the day on which the period ended.
    """
    analysed = cluster_analysis(installation, cluster, period=period, until=until)
    balance = _with_flapping(installation, analysed.balance)
    plan_size = _plan_size(installation, analysed)
    left_out = installation.results.left_out(cluster)

    def render(renderer: Callable[..., str]) -> str:
        return renderer(
            balance,
            wanted=analysed.wanted,
            load=analysed.load,
            plan_size=plan_size,
            left_out=left_out,
        )

    latest = analysed.balance.latest
    day = latest.observed_at.date()
    is_newest = latest.snapshot_id == analysis.latest_snapshot_id(analysed.series)
    texts = {
        "md": render(reporting.leader_balance_markdown),
        "json": render(reporting.leader_balance_json),
        "csv": reporting.leader_balance_csv(analysed.balance),
        "html": render(reporting.leader_balance_report),
    }
    report_day = None if is_newest else day
    write = installation.archive.write_report
    if is_newest:
        write(balance_report_name(cluster, day), texts["html"])
    for suffix, text in texts.items():
        write(balance_report_name(cluster, report_day, suffix=suffix), text)
    return balance_report_name(cluster, report_day, suffix="").removesuffix(".")


def _plan_size(installation: Installation, analysed: ClusterAnalysis) -> PlanSize | None:
    """Return what the wanted rebalance costs; None where none is wanted, or no plan can be made."""
    if analysed.wanted is None:
        return None
    cluster = analysed.balance.cluster
    policy = installation.cluster(cluster).policy
    rebalance_request = RebalanceRequest(analysed.wanted.goal, analysed.wanted.broker_ids)
    snapshot_id = analysed.balance.latest.snapshot_id
    try:
        snapshot = installation.archive.read_snapshot(cluster, snapshot_id)
        plan = plan_from(snapshot, rebalance_request, policy.balance)
    except CounterpoiseError as error:
        _LOGGER.warning(
            "the report of %s does not say what the rebalance costs, since no plan could be made "
            "from snapshot %s: %s",
            cluster,
            snapshot_id,
            error,
        )
        return None
    rate = policy.movement.rate_bytes_per_second
    return PlanSize(
        replicas_copied=plan.copied_replicas,
        bytes_copied=plan.copied_bytes,
        leaders_changed=plan.leader_changes,
        expected_seconds=busiest_link_bytes(plan) / rate,
        rate_bytes_per_second=rate,
    )


def report_fleet(installation: Installation) -> str:
    """Write the report over all clusters, worst first; return the URI of the page."""
    states = [_state(installation, cluster) for cluster in sorted(installation.settings.clusters)]
    fleet = analysis.fleet(states, as_of=installation.clock())
    write = installation.archive.write_report
    write(fleet_report_name(suffix="md"), reporting.fleet_markdown(fleet))
    write(fleet_report_name(suffix="json"), reporting.fleet_json(fleet))
    write(fleet_report_name(suffix="csv"), reporting.fleet_csv(fleet))
    return write(fleet_report_name(), reporting.fleet_report(fleet))


def _state(installation: Installation, cluster: str) -> ClusterState:
    """Return what the fleet's report needs of one cluster; little before the first analysis."""
    left_out = installation.results.left_out(cluster)
    known_ids = {
        installation.ledger.last_snapshot_id(cluster),
        *installation.results.of_cluster(cluster),
    }
    scheduled = [history.scheduled_at_of(known_id) for known_id in known_ids if known_id]
    age = installation.clock() - max(scheduled) if scheduled else None
    try:
        analysed = cluster_analysis(installation, cluster)
    except RefusedError:
        return ClusterState(cluster, age, left_out=left_out)
    return ClusterState(
        cluster, age, analysed.balance, analysed.load, analysed.wanted, left_out=left_out
    )


def propose(installation: Installation, cluster: str) -> dict[str, Any] | None:
    """Return the rebalance that the analysis asks for, as an event carries it.

    None where the cluster is even enough or frozen, or was uneven in too few snapshots; where a run
    is under way or approved, where a plan that somebody asked for waits for an answer, and where
    the same question waits already, or was answered with a no lately: a person is asked once,
    however often it is found again.
    """
    analysed = cluster_analysis(installation, cluster)
    wanted = analysed.wanted
    if (
        wanted is None
        or _is_frozen(installation, cluster)
        or not _is_lasting(installation, analysed)
    ):
        return None
    open_runs = installation.ledger.runs(cluster=cluster, states=OPEN_STATES)
    if any(_is_in_the_way(installation, run, wanted) for run in open_runs):
        return None
    if _was_rejected_lately(installation, cluster, wanted):
        return None
    return {
        "cluster": cluster,
        "goal": str(wanted.goal),
        "broker_ids": list(wanted.broker_ids),
        "reason": wanted.reason,
    }


def unneeded_proposal(installation: Installation, cluster: str) -> tuple[Run, str] | None:
    """Return the run that the analysis asked for, waits for an answer and is no longer needed, and
    why. None without one, and while the cluster is frozen.
    """
    waiting = installation.ledger.runs(cluster=cluster, states={RunState.PROPOSED})
    own = [run for run in waiting if run.requester == Person.of_analysis()]
    if not own or _is_frozen(installation, cluster):
        return None
    run, wanted = own[0], cluster_analysis(installation, cluster).wanted
    if wanted is None:
        return run, "no live broker is idle, and leaders are even enough"
    if _is_about(installation, run, wanted):
        return None
    return run, f"now {wanted.goal} would help: {wanted.reason}"


def _is_frozen(installation: Installation, cluster: str) -> bool:
    requests = installation.ledger.requests(cluster)
    return find_active_requests(requests, installation.clock()).frozen is not None


def _is_lasting(installation: Installation, analysed: ClusterAnalysis) -> bool:
    """Return whether the need is there in as many snapshots as the policy says: for an idle broker
    one is enough.
    """
    if analysed.wanted is None or analysed.wanted.goal is not Goal.LEADERS:
        return True
    policy = installation.cluster(analysed.balance.cluster).policy
    found = analysis.uneven_snapshots(analysed.balance, policy.balance)
    return found >= policy.proposals.uneven_snapshots


def _is_in_the_way(installation: Installation, run: Run, wanted: WantedRebalance) -> bool:
    """Return whether an open run is approved or under way, or was asked for by somebody, or is
    about what is wanted now.
    """
    if run.state is not RunState.PROPOSED or not run.requester.is_dag:
        return True
    return _is_about(installation, run, wanted)


def _was_rejected_lately(installation: Installation, cluster: str, wanted: WantedRebalance) -> bool:
    """Return whether somebody said no to what is wanted, within the time that the policy gives.

    A no of the requester only withdraws a plan, and silence is nobody's no.
    """
    since = installation.clock() - installation.cluster(cluster).policy.proposals.again_after
    return any(
        run.closed_at is not None
        and run.closed_at > since
        and _has_no_of_another(installation, run)
        and _is_about(installation, run, wanted)
        for run in installation.ledger.runs(cluster=cluster, states={RunState.REJECTED})
    )


def _has_no_of_another(installation: Installation, run: Run) -> bool:
    return any(
        approval.decision is Decision.REJECTED
        and not access.is_requester(installation.people, approval.person, run.requester)
        for approval in installation.ledger.approvals_of(run.run_id)
    )


def _is_about(installation: Installation, run: Run, wanted: WantedRebalance) -> bool:
    plan = installation.plan_of(run)
    is_whole = plan.scope == Scope()
    return is_whole and (plan.goal, plan.broker_ids) == (wanted.goal, wanted.broker_ids)
