"""Whether what a run moved can be taken back, for the command line, the Dag and the page alike.

    check_undoable(run, plan, moved, later, is_forgotten=False, rebase=False)

Undo is a plan of its own. It needs a run that has ended and has moved something, and partitions
that no later run has moved.
"""

from collections.abc import Collection, Mapping

from counterpoise.errors import RefusedError
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.run import LOOKED_AFTER_STATES, UNDER_WAY_STATES, Run
from counterpoise.model.words import verb


def check_undoable(
    run: Run,
    plan: RebalancePlan,
    moved: Collection[TopicPartition],
    later: Mapping[TopicPartition, str],
    *,
    is_forgotten: bool,
    rebase: bool,
) -> None:
    """Raise RefusedError for a run that moved nothing, that is under way, that is itself an undo,
    that changed replication factors, or whose partitions later runs have moved; with `rebase`,
    those partitions stay where they are.

    `is_forgotten`: the ledger has no event of the run any more, so `moved` need not be complete.
    """
    if run.state in UNDER_WAY_STATES:
        raise RefusedError(
            f"run {run.run_id} is {run.state}; cancel it first, and undo it when it has halted"
        )
    if is_forgotten and run.state in LOOKED_AFTER_STATES:
        raise RefusedError(
            f"run {run.run_id} ended long ago, and a checkpoint of the ledger has deleted which "
            "partitions it moved: make a new plan instead"
        )
    if not moved:
        raise RefusedError(
            f"run {run.run_id} is {run.state} and moved nothing, so there is nothing to undo"
        )
    if plan.undoes:
        raise RefusedError(
            f"run {run.run_id} is itself an undo, of plan {plan.undoes}; to go forward again, make "
            "a new plan of that goal"
        )
    if not rebase:
        _check_not_moved_again(moved, later)
    if any(len(move.replicas_before) != len(move.replicas_after) for move in plan.moves):
        raise RefusedError(
            f"run {run.run_id} changed replication factors; undo it with a plan of the goal "
            "replication-factor and the previous number"
        )


def _check_not_moved_again(
    moved: Collection[TopicPartition], later: Mapping[TopicPartition, str]
) -> None:
    again = sorted(name for name in moved if name in later)
    if again:
        raise RefusedError(
            f"{len(again)} of the {len(moved)} partitions {verb(len(again), 'was', 'were')} moved "
            f"again since, first {again[0]} by run {later[again[0]]}: undo that one first, "
            "or leave these partitions where they are with `counterpoise undo --rebase`"
        )
