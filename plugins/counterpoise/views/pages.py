"""Pages as the store keeps them: one HTML text each, without scripts and forms.

run_copy(seen)                  # the page of a run that has ended
no_moves_page(plan, view)       # why a plan moves nothing; no run was opened for it
fleet_copy(document)            # all clusters, the worst first
"""

from counterpoise.model.fleet_document import FleetDocument
from counterpoise.model.plan import RebalancePlan
from counterpoise.reporting.html import render
from counterpoise.views.fleet import FleetView
from counterpoise.views.plan import LargestMoves, PlanView
from counterpoise.views.workspace import MOVES_IN_COPY, RunWorkspace, plan_charts


def run_copy(seen: RunWorkspace) -> str:
    """Return what happened, before and after, and whether the settings are as they were."""
    return render("run_copy.html", seen=seen, largest=LargestMoves.of(seen.plan, MOVES_IN_COPY))


def no_moves_page(plan: RebalancePlan, view: PlanView) -> str:
    """Return why nothing needs to move, and how the cluster is."""
    return render("no_moves.html", view=view, charts=plan_charts(plan.figures, {}))


def fleet_copy(document: FleetDocument) -> str:
    """Return all clusters as an analysis has them, each with a link to its stored report."""
    return render("fleet_copy.html", fleet=FleetView.of(document))
