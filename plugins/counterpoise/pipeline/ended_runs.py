"""What ended runs of a cluster left: config keys to restore, and moves that came late.

restored, pending = restore_pending_of(installation, admin, "prod-eu")
late_moves_of(installation, admin, runs)      # {run id: moves that are under way}
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from counterpoise.execution import restore_pending
from counterpoise.execution.leftovers import late_moves_by_run
from counterpoise.execution.throttling.pending_restores import is_pending_restore
from counterpoise.execution.throttling.targets import throttles_of_plan
from counterpoise.installation import Installation
from counterpoise.model.plan import Move
from counterpoise.model.run import UNDER_WAY_STATES, Run, TouchedKey

if TYPE_CHECKING:
    from counterpoise.kafka_admin.cluster_admin import ClusterAdmin, ClusterReader


def restore_pending_of(
    installation: Installation, admin: "ClusterAdmin", cluster: str
) -> tuple[list[TouchedKey], list[TouchedKey]]:
    """Restore the config keys of ended runs; return those restored now, and those still pending.

    Nothing is restored while a move of an ended run is under way, which Kafka did not let cancel,
    and no key that the plan of a run under way may need: copies would lose their throttle. Newest
    first: what an older run wrote may be what a newer one found before it. Raises StepLockHeldError
    while another process works on the cluster.
    """
    restored: list[TouchedKey] = []
    pending: list[TouchedKey] = []
    ledger = installation.ledger
    if _has_nothing_to_restore(installation, cluster):
        return restored, pending
    with ledger.step(cluster) as step:
        runs = ledger.runs(cluster=cluster, were_started=True)
        under_way = [run for run in runs if run.state in UNDER_WAY_STATES]
        ended = [run for run in runs if run not in under_way]
        if in_flight := late_moves_of(installation, admin, ended):
            # A run that may move cancels them itself.
            still = [] if under_way else _pending_until_arrived(installation, in_flight)
            return restored, still
        plans = map(installation.plan_of, under_way)
        needed = frozenset(key for plan in plans for key in throttles_of_plan(plan).keys)
        for run in ended:
            journal, of_run = ledger.journal(run.run_id), step.of_run(run.run_id)
            now_restored, still_pending = restore_pending(admin, journal, of_run, needed)
            restored += now_restored
            pending += still_pending
    return restored, pending


def _has_nothing_to_restore(installation: Installation, cluster: str) -> bool:
    """Return whether a run is under way, and no ended one has left anything: whoever drives it is
    not held up for nothing.
    """
    ledger = installation.ledger
    runs = ledger.runs(cluster=cluster, were_started=True)
    ended = [run for run in runs if run.state not in UNDER_WAY_STATES]
    touched_keys = (t for run in ended for t in ledger.journal(run.run_id).touched())
    return len(ended) < len(runs) and not any(map(is_pending_restore, touched_keys))


def late_moves_of(
    installation: Installation, reader: "ClusterReader", runs: Sequence[Run]
) -> dict[str, tuple[Move, ...]]:
    """Return the moves of ended runs that are under way, by the run's id; `runs` are newest first.

    Raises StoreError where a plan cannot be read.
    """
    reassignments = reader.list_reassignments()
    if not reassignments:
        return {}
    plans = (
        (run, installation.plan_of(run), submissions)
        for run in runs
        if (submissions := installation.ledger.journal(run.run_id).unfinished_submissions())
    )
    return {run.run_id: moves for run, moves in late_moves_by_run(plans, reassignments)}


def _pending_until_arrived(
    installation: Installation, in_flight: Mapping[str, Sequence[Move]]
) -> list[TouchedKey]:
    """Return the pending keys of all runs of a cluster, with why they are still in force."""
    run_id, moves = next(iter(in_flight.items()))
    why = f"{moves[0].topic_partition} of run {run_id} is still in flight: restored after its end"
    pending = installation.ledger.journal(run_id).pending_restores()
    return [replace(t, outcome=why) for t in pending if t.restored_at is None]
