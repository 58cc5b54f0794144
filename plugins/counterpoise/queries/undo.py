"""Whether an ended run can be undone on its page, before anything is started.

why_not_undo(installation, run_details(installation, run, viewer))      # "": it can
"""

from collections.abc import Collection

from counterpoise import access
from counterpoise.errors import RefusedError
from counterpoise.installation import Installation
from counterpoise.model.cluster import TopicPartition
from counterpoise.queries.running import RunDetails
from counterpoise.services.viewers import settings_of_pages
from counterpoise.settings import Settings
from counterpoise.undoing import check_undoable


def why_not_undo(installation: Installation, details: RunDetails) -> str:
    """Return why no plan can take back what a run moved, or why nobody could approve one that the
    viewer asks for; "" where one can.
    """
    run, ledger = details.run, installation.ledger
    if details.plan is None:
        return f"the store does not have the plan of run {run.run_id} any more"
    moved, later = ledger.journal(run.run_id).submissions(), ledger.moved_after(run)
    try:
        check_undoable(run, details.plan, moved, later, details.events, rebase=False)
        _check_undo_can_be_approved(settings_of_pages(installation), details, moved)
    except RefusedError as error:
        return str(error)
    return ""


def _check_undo_can_be_approved(
    settings: Settings, details: RunDetails, moved: Collection[TopicPartition]
) -> None:
    """Raise RefusedError where nobody could approve an undo plan that the viewer asks for. It may
    need more people than is known before it is made; the task that makes it checks that.
    """
    cluster = settings.clusters.get(details.run.cluster)
    if cluster is None or details.plan is None:
        return
    gives_up_replicas = any(
        len(move.replicas_before) < len(move.replicas_after)
        for move in details.plan.moves
        if move.topic_partition in moved
    )
    policy = cluster.policy
    needed = 2 if gives_up_replicas or policy.approval.critical else 1
    access.check_somebody_may_approve(policy, details.person, needed=needed)
