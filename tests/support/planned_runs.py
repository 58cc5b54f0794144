"""Runs of plans that were just made."""

from counterpoise.installation import Installation
from counterpoise.model.request import RebalanceRequest
from counterpoise.services.plans import NothingToMove, Origin, PlannedRun, make


def planned_run(
    installation: Installation, cluster: str, request: RebalanceRequest, origin: Origin
) -> PlannedRun | None:
    """Return the run that a new plan opens; None when nothing needs to move."""
    made = make(installation, cluster, request, origin)
    return None if isinstance(made, NothingToMove) else made
