"""A plan as it would be made of the newest snapshot, for a person who has asked nobody yet.

    preview(installation, settings, rebalance_request).view

Nothing of it is stored, and no cluster is asked: a plan that shall run is made anew, from a
snapshot of its own. Planning takes the processor that Airflow's api-server answers with, so only
clusters up to a limit are planned here, and one request at a time.
"""

from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from typing import Final

from counterpoise.errors import RefusedError
from counterpoise.installation import Installation
from counterpoise.kept_empty import plan_for
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.movement import default_rate, max_moves_at_once
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.plan_view import PlanView
from counterpoise.model.policy import MovementPolicy
from counterpoise.model.request import RebalanceRequest
from counterpoise.settings import ClusterSettings
from counterpoise.units import format_count

MAX_REPLICAS: Final = 60_000  # about two seconds of the processor a plan
_PLANNING: Final = Lock()


@dataclass(frozen=True, slots=True)
class Preview:
    """A plan as it would be made now."""

    observed_at: datetime | None  # of the snapshot
    view: PlanView


def preview(
    installation: Installation, settings: ClusterSettings, rebalance_request: RebalanceRequest
) -> Preview:
    """Return the plan for a request, from the cluster's newest snapshot.

    Raises RefusedError without a snapshot, for a cluster above the limit, and while somebody else
    looks at a plan; StoreError for a snapshot that cannot be read; what `plan_for` raises.
    """
    if not _PLANNING.acquire(blocking=False):
        raise RefusedError(
            "a plan is being made for another page, and the api-server makes one at a time; send "
            "this again in some seconds"
        )
    try:
        snapshot = _newest_snapshot(installation, settings.name)
        plan = plan_for(installation, snapshot, rebalance_request)
    finally:
        _PLANNING.release()
    return Preview(snapshot.observed_at, _view(plan, settings.policy.movement))


def _view(plan: RebalancePlan, movement: MovementPolicy) -> PlanView:
    """Return a plan with the rate that approvers will be offered."""
    rate = default_rate(plan, movement)
    return PlanView(plan, rate, max_moves=max_moves_at_once(movement))


def _newest_snapshot(installation: Installation, cluster: str) -> ClusterSnapshot:
    snapshot_id = installation.ledger.last_snapshot_id(cluster)
    if snapshot_id is None:
        raise RefusedError(
            f"cluster {cluster} has no snapshot yet; make one with `Snapshot now`, or start the "
            "plan, which makes its own"
        )
    snapshot = installation.archive.read_snapshot(cluster, snapshot_id)
    if snapshot.replicas.num_rows > MAX_REPLICAS:
        raise RefusedError(
            f"cluster {cluster} has {format_count(snapshot.replicas.num_rows)} replicas, and pages "
            f"show plans of up to {format_count(MAX_REPLICAS)} before anybody is asked, since "
            "planning would keep the api-server from answering others. Start the plan: a task "
            "makes it, and its page shows it; or use `counterpoise plan`"
        )
    return snapshot
