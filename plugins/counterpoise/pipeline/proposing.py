"""What the analysis of a cluster says: its report, the fleet's, and the rebalance that would help.

report_balance(site, "orders-eu", period=timedelta(days=30))
report_fleet(site)
propose(site, "orders-eu")
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import pyarrow as pa

from counterpoise import analysis, history, reporting
from counterpoise.archive import balance_report_name, fleet_report_name
from counterpoise.errors import CounterpoiseError, RefusedError
from counterpoise.installation import Installation
from counterpoise.model.balance import LeaderBalance, PlanSize, WantedRebalance
from counterpoise.model.control import standing_requests
from counterpoise.model.fleet import ClusterState
from counterpoise.model.load import ClusterLoad
from counterpoise.model.movement import busiest_link_bytes
from counterpoise.model.rebalance_request import RebalanceRequest
from counterpoise.model.run import OPEN_STATES, UNDER_WAY_STATES, Run
from counterpoise.pipeline.analysing import series_of
from counterpoise.pipeline.planning import plan_from
from counterpoise.units import format_moment, format_seconds

PERIOD: Final = timedelta(days=30)
_PERIOD_OF_TOPICS: Final = timedelta(days=1)  # a row for each topic and snapshot: a day is enough
_PERIOD_OF_DISKS: Final = timedelta(days=14)
_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Findings:
    """All that is known of one cluster over a period."""

    balance: LeaderBalance
    load: ClusterLoad | None
    wanted: WantedRebalance | None
    series: pa.Table


def findings(
    installation: Installation,
    cluster: str,
    *,
    period: timedelta = PERIOD,
    until: datetime | None = None,
) -> Findings:
    """What the results say of the `period` before `until` (default: up to the newest snapshot).

    Raises RefusedError when there is no analysed snapshot in that time.
    """
    policy = installation.cluster(cluster).policy
    series = series_of(installation, cluster)
    if series.num_rows == 0:
        raise RefusedError(
            f"cluster {cluster} has no analysed snapshot yet; take one: counterpoise snapshot --cluster {cluster}"
        )
    newest: datetime = series["observed_at"][-1].as_py()
    last = until or newest
    since = last - period
    latest_id = _latest_before(series, until)
    balance = latest_id and analysis.leader_balance(
        series,
        installation.results.table("topic_balance", {latest_id}),
        cluster=cluster,
        since=since,
        until=until,
    )
    if not balance:
        raise RefusedError(
            f"cluster {cluster} has no analysed snapshot in the {format_seconds(period.total_seconds())} before "
            f"{format_moment(last)}; its newest is of {format_moment(newest)}: choose another period"
        )
    return Findings(
        balance,
        _load(installation, balance, series, since, until),
        analysis.wanted_goal(balance, policy.balance),
        series,
    )


def report_balance(
    installation: Installation,
    cluster: str,
    *,
    period: timedelta = PERIOD,
    until: datetime | None = None,
) -> str:
    """Writes a cluster's report, as HTML, Markdown, JSON and CSV; the URI of the page."""
    found = findings(installation, cluster, period=period, until=until)
    size, left_out = _plan_size(installation, found), installation.results.left_out(cluster)

    def told(by: Callable[..., str]) -> str:
        return by(
            found.balance, wanted=found.wanted, load=found.load, plan_size=size, left_out=left_out
        )

    page = told(reporting.leader_balance_report)
    day = found.balance.latest.observed_at.date()
    write = installation.archive.write_report
    write(balance_report_name(cluster, day), page)
    write(balance_report_name(cluster, suffix="md"), told(reporting.leader_balance_markdown))
    write(balance_report_name(cluster, suffix="json"), told(reporting.leader_balance_json))
    write(balance_report_name(cluster, suffix="csv"), reporting.leader_balance_csv(found.balance))
    return write(balance_report_name(cluster), page)


def report_fleet(installation: Installation) -> str:
    """Writes the report over all clusters, worst first; the URI of the page."""
    states = [_state(installation, cluster) for cluster in sorted(installation.settings.clusters)]
    fleet = analysis.fleet(states, as_of=installation.clock())
    write = installation.archive.write_report
    write(fleet_report_name(suffix="md"), reporting.fleet_markdown(fleet))
    write(fleet_report_name(suffix="json"), reporting.fleet_json(fleet))
    write(fleet_report_name(suffix="csv"), reporting.fleet_csv(fleet))
    return write(fleet_report_name(), reporting.fleet_report(fleet))


def propose(installation: Installation, cluster: str) -> dict[str, Any] | None:
    """The rebalance that the analysis asks for.

    None where the cluster is even enough or frozen, where a run is under way, and where the same
    question already waits for an answer: a person is asked once, however many rounds find the same.
    """
    wanted = findings(installation, cluster).wanted
    if standing_requests(installation.ledger.requests(cluster), installation.clock()).frozen:
        return None
    if wanted is None or any(
        _is_at_hand(installation, run, wanted) for run in installation.ledger.runs(cluster=cluster)
    ):
        return None
    return {
        "cluster": cluster,
        "goal": str(wanted.goal),
        "broker_ids": list(wanted.broker_ids),
        "reason": wanted.reason,
    }


def _is_at_hand(installation: Installation, run: Run, wanted: WantedRebalance) -> bool:
    if run.state not in OPEN_STATES:
        return False
    if run.state in UNDER_WAY_STATES:
        return True
    made = installation.archive.read_plan(run.plan_uri, run.fingerprint)
    return (made.goal, made.broker_ids) == (wanted.goal, wanted.broker_ids)


def _latest_before(series: pa.Table, until: datetime | None) -> str | None:
    for snapshot_id, at in zip(
        reversed(series["snapshot_id"]), reversed(series["observed_at"]), strict=True
    ):
        if until is None or at.as_py() < until:
            return str(snapshot_id.as_py())
    return None


def _load(
    installation: Installation,
    balance: LeaderBalance,
    series: pa.Table,
    since: datetime,
    until: datetime | None,
) -> ClusterLoad | None:
    latest = balance.latest

    def ids(period: timedelta) -> set[str]:
        begin = latest.observed_at - period
        return {point.snapshot_id for point in balance.series if point.observed_at >= begin}

    results = installation.results
    return analysis.cluster_load(
        series,
        results.table("topic_load", ids(_PERIOD_OF_TOPICS)),
        results.table("partition_load", {latest.snapshot_id}),
        results.table("log_dir_load", ids(_PERIOD_OF_DISKS)),
        cluster=balance.cluster,
        since=since,
        until=until,
    )


def _plan_size(installation: Installation, found: Findings) -> PlanSize | None:
    """None where nothing is wanted, and where no plan can be made."""
    if found.wanted is None:
        return None
    policy = installation.cluster(found.balance.cluster).policy
    rebalance_request = RebalanceRequest(found.wanted.goal, found.wanted.broker_ids)
    try:
        snapshot = installation.archive.read_snapshot(
            found.balance.cluster, found.balance.latest.snapshot_id
        )
        made = plan_from(snapshot, rebalance_request, policy.balance)
    except CounterpoiseError as error:
        _LOGGER.warning("no plan could be made of the latest snapshot: %s", error)
        return None
    rate = policy.movement.rate_bytes_per_second
    return PlanSize(
        replicas_copied=made.copied_replicas,
        bytes_copied=made.copied_bytes,
        leaders_changed=made.leader_changes,
        expected_seconds=busiest_link_bytes(made) / rate,
        rate_bytes_per_second=rate,
    )


def _state(installation: Installation, cluster: str) -> ClusterState:
    """What the fleet's report needs of one cluster; little where nothing was analysed yet."""
    left_out = installation.results.left_out(cluster)
    known = {
        installation.ledger.last_snapshot_id(cluster),
        *installation.results.of_cluster(cluster),
    } - {None}
    newest = max(
        (history.scheduled_at_of(snapshot_id) for snapshot_id in known if snapshot_id), default=None
    )
    age = installation.clock() - newest if newest else None
    try:
        found = findings(installation, cluster)
    except RefusedError:
        return ClusterState(cluster, age, left_out=left_out)
    return ClusterState(cluster, age, found.balance, found.load, found.wanted, left_out)
