"""The reports of the analysis: of a cluster, and of the fleet.

report_balance(installation, "orders-eu", period=timedelta(days=30))
report_fleet(installation)
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from counterpoise import analysis, history, reporting
from counterpoise.archive import balance_report_name, fleet_report_name
from counterpoise.errors import CounterpoiseError, RefusedError
from counterpoise.installation import Installation
from counterpoise.model.balance import PlanSize
from counterpoise.model.fleet import ClusterState
from counterpoise.model.movement import busiest_link_bytes
from counterpoise.model.rebalance_request import RebalanceRequest
from counterpoise.model.safe_text import safe_logger
from counterpoise.pipeline.cluster_analysis import (
    PERIOD,
    ClusterAnalysis,
    cluster_analysis,
    with_both_periods,
)
from counterpoise.planning import plan_from
from counterpoise.results import Results

_LOGGER = safe_logger(__name__)


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
    analysed = with_both_periods(analysed)
    plan_size = _plan_size(installation, analysed)
    left_out = installation.results.left_out(cluster)

    def render(renderer: Callable[..., str]) -> str:
        return renderer(
            analysed.balance,
            wanted=analysed.wanted,
            load=analysed.load,
            plan_size=plan_size,
            left_out=left_out,
        )

    latest = analysed.balance.latest
    day = latest.observed_at.date()
    is_newest = latest.snapshot_id == analysis.latest_snapshot_id(analysed.known.series)
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
    results = installation.results  # for all of them, since all rounds are read for it
    clusters = sorted(installation.settings.clusters)
    states = [_state(installation, cluster, results) for cluster in clusters]
    fleet = analysis.fleet(states, as_of=installation.clock())
    write = installation.archive.write_report
    write(fleet_report_name(suffix="md"), reporting.fleet_markdown(fleet))
    write(fleet_report_name(suffix="json"), reporting.fleet_json(fleet))
    write(fleet_report_name(suffix="csv"), reporting.fleet_csv(fleet))
    return write(fleet_report_name(), reporting.fleet_report(fleet))


def _state(installation: Installation, cluster: str, results: Results) -> ClusterState:
    """Return what the fleet's report needs of one cluster; little before the first analysis."""
    left_out = results.left_out(cluster)
    known_ids = {
        installation.ledger.last_snapshot_id(cluster),
        *results.of_cluster(cluster),
    }
    scheduled = [history.scheduled_at_of(known_id) for known_id in known_ids if known_id]
    age = installation.clock() - max(scheduled) if scheduled else None
    try:
        analysed = cluster_analysis(installation, cluster, results=results)
    except RefusedError:
        return ClusterState(cluster, age, left_out=left_out)
    return ClusterState(
        cluster, age, analysed.balance, analysed.load, analysed.wanted, left_out=left_out
    )
