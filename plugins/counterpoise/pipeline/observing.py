"""Photographs, their analysis, what it finds, and the rebalance it asks for.

snapshot(site, "orders-eu", scheduled_at)
analyse(site, "2026-01-31T12:00")
propose(site, "orders-eu")
"""

import logging
import re
import tempfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from counterpoise import analysis, history, reporting
from counterpoise.archive import balance_report_name
from counterpoise.errors import RefusedError
from counterpoise.installation import Site
from counterpoise.model.balance import LeaderBalance, WantedRebalance
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.control import standing_requests
from counterpoise.model.run import OPEN_STATES, Run, RunState
from counterpoise.snapshot import take_snapshot
from counterpoise.spark_submit import run_job

Log = Callable[[str], None]
_LOGGER = logging.getLogger(__name__)
# A small round is mostly Spark's start: with the quick compiler only, it takes about half of the CPU time.
_ROWS_OF_A_SMALL_ROUND = 1_000_000
_START_FAST = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
}
_UNSAFE_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


def due_clusters(site: Site) -> list[str]:
    """The clusters to photograph in this round."""
    return sorted(site.settings.clusters)


def snapshot(site: Site, cluster: str, scheduled_at: datetime) -> dict[str, str]:
    """Photographs a cluster into the history. The scheduled time names it, so that a retry writes the same files."""
    taken = photograph(site, cluster, scheduled_at)
    keep(site, taken)
    return {"cluster": cluster, "snapshot_id": taken.snapshot_id}


def keep(site: Site, taken: ClusterSnapshot) -> None:
    """Adds a photograph to the history."""
    site.archive.write_snapshot(taken)
    site.ledger.record_snapshot(taken.cluster, taken.snapshot_id, site.clock())


def photograph(site: Site, cluster: str, at: datetime) -> ClusterSnapshot:
    """A fresh look at a cluster; nothing is kept."""
    with site.reader(cluster) as reader:
        return take_snapshot(
            reader,
            cluster=cluster,
            snapshot_id=history.snapshot_id_for(cluster, at),
            observed_at=site.clock(),
            security_protocol=site.security_protocol(cluster),
        )


def analyse(site: Site, round_id: str, log: Log = _LOGGER.info) -> list[str]:
    """One Spark job over every snapshot that has no result yet; the clusters that it concerned."""
    clusters = sorted(site.settings.clusters)
    waiting = history.pending(site.archive.manifests(clusters), site.archive.analysed_ids())
    if waiting.num_rows == 0:
        return []
    name = _UNSAFE_IN_NAMES.sub("_", round_id).strip("._-")
    with tempfile.TemporaryDirectory() as folder:
        listing = Path(folder) / "snapshots.json"
        listing.write_text(history.manifests_json(waiting))
        run_job(
            site.locations.spark_jobs / "leader_balance.py",
            ["--store", site.archive.store.root_uri, "--round", name, "--snapshots", str(listing)],
            master=site.locations.spark_master,
            conf=_START_FAST if _row_count(waiting) < _ROWS_OF_A_SMALL_ROUND else {},
            log=log,
        )
    site.archive.finish_round(name, waiting)
    return sorted(set(waiting["cluster"].to_pylist()))


def _row_count(manifests: pa.Table) -> int:
    return sum(file["row_count"] for files in manifests["files"].to_pylist() for file in files)


def report_balance(site: Site, cluster: str) -> str:
    """Writes a cluster's leader-balance report, as HTML, Markdown and JSON; the URI of the page."""
    balance = _balance(site, cluster)
    wanted = analysis.wanted_goal(balance, site.cluster(cluster).policy.balance)
    day = balance.latest.observed_at.date()
    page = reporting.leader_balance_report(balance, wanted=wanted)
    site.archive.write_report(balance_report_name(cluster, day), page)
    site.archive.write_report(
        balance_report_name(cluster, suffix="md"), reporting.leader_balance_markdown(balance, wanted=wanted)
    )
    site.archive.write_report(
        balance_report_name(cluster, suffix="json"), reporting.leader_balance_json(balance, wanted=wanted)
    )
    return site.archive.write_report(balance_report_name(cluster), page)


def propose(site: Site, cluster: str) -> dict[str, Any] | None:
    """The rebalance that the analysis asks for.

    None where the cluster is even enough or frozen, where a run is under way, and where the same question already
    waits for an answer: a person is asked once, however many rounds find the same.
    """
    wanted = analysis.wanted_goal(_balance(site, cluster), site.cluster(cluster).policy.balance)
    if standing_requests(site.ledger.requests(cluster), site.clock()).frozen:
        return None
    if wanted is None or any(_is_at_hand(site, run, wanted) for run in site.ledger.runs(cluster=cluster)):
        return None
    return {
        "cluster": cluster,
        "goal": str(wanted.goal),
        "broker_ids": list(wanted.broker_ids),
        "reason": wanted.reason,
    }


def _is_at_hand(site: Site, run: Run, wanted: WantedRebalance) -> bool:
    if run.state not in OPEN_STATES:
        return False
    if run.state in (RunState.RUNNING, RunState.SETTLING):
        return True
    made = site.archive.read_plan(run.plan_uri, run.fingerprint)
    return (made.goal, made.broker_ids) == (wanted.goal, wanted.broker_ids)


def _balance(site: Site, cluster: str) -> LeaderBalance:
    brokers, topics = site.archive.balance_tables(cluster)
    balance = analysis.leader_balance(brokers, topics, cluster=cluster)
    if balance is None:
        raise RefusedError(f"cluster {cluster} has no analysed snapshot yet; let kafka_snapshot and the analysis run")
    return balance
