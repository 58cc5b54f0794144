"""Whether what a run moved can be taken back, for the command line, the Dag and the page alike.

    check_undoable(run, plan, moved, later, events, rebase=False)
    is_as_left(move, submission, replicas)      # False: somebody has moved the partition since

Undo is a plan of its own. It needs a run that has ended and has moved something, and partitions
that neither a later run nor anybody else has moved since.
"""

from collections.abc import Collection, Mapping, Sequence

from counterpoise.errors import RefusedError
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.reassignment_targets import reassignment_targets
from counterpoise.model.run import (
    LOOKED_AFTER_STATES,
    UNDER_WAY_STATES,
    Event,
    Run,
    Submission,
    has_all_events,
)
from counterpoise.model.words import join_names, pluralize, verb


def check_undoable(
    run: Run,
    plan: RebalancePlan,
    moved: Collection[TopicPartition],
    later: Mapping[TopicPartition, str],
    events: Sequence[Event],
    *,
    rebase: bool,
) -> None:
    """Raise RefusedError for a run that moved nothing, that is under way, that is itself an undo,
    that changed replication factors, or whose partitions later runs have moved; with `rebase`,
    those partitions stay where they are.

    `events` are those of the run. A checkpoint deletes the oldest rows of a cluster first: where
    the first event is gone, neither `moved` nor `later` need be complete.
    """
    if run.state in UNDER_WAY_STATES:
        raise RefusedError(
            f"run {run.run_id} is {run.state}; cancel it first, and undo it when it has halted"
        )
    if not has_all_events(events) and run.state in LOOKED_AFTER_STATES:
        raise RefusedError(
            f"run {run.run_id} began long ago, and a checkpoint of the ledger has deleted rows of "
            "that time: which partitions it moved, and later runs moved again, is not known any "
            "more. Make a new plan instead"
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


def is_as_left(move: Move, submission: Submission, replicas: tuple[int, ...]) -> bool:
    """Return whether a partition that a run has submitted has replicas in which the run may have
    left it, or those of before; otherwise somebody has moved it since.

    They are those of the plan, or, where the move never arrived, of one of its steps, in the order
    of the plan. They may be in another order where the run was stopped before it could restore that
    after a cancel.
    """
    if replicas == move.replicas_before or submission.may_have_asked_for(replicas):
        return True
    has_arrived = submission.done_at is not None
    steps = reassignment_targets(move)
    if replicas in (steps[-1:] if has_arrived else steps):
        return True
    is_cancelled = submission.done_at is None or submission.submitted_at >= submission.done_at
    after_a_cancel = steps[-1:] if has_arrived else (move.replicas_before, *steps[:-1])
    is_out_of_order = set(replicas) in [set(known) for known in after_a_cancel]
    return is_out_of_order and is_cancelled and submission.in_order_at is None


def check_anything_left(
    run: Run,
    left: Collection[Move],
    foreign: Sequence[Move],
    later: Collection[TopicPartition],
) -> None:
    """Raise RefusedError where nothing can be taken back, since somebody, or somebody and later
    runs, have moved all of it.
    """
    if foreign and not left:
        names = join_names([move.topic_partition for move in foreign])
        by_runs = f", and later runs {join_names(sorted(later))}" if later else ""
        raise RefusedError(
            f"nothing of run {run.run_id} is left to undo: somebody has moved {names} again "
            f"since{by_runs}. Make a new plan for what you want instead"
        )


def warnings_of_undo(
    run: Run, foreign: Sequence[Move], later: Collection[TopicPartition]
) -> tuple[str, ...]:
    """Return what an undo plan leaves alone: what somebody, or later runs, have moved since."""
    warnings = []
    for who, partitions in (
        ("somebody has", [move.topic_partition for move in foreign]),
        ("later runs have", sorted(later)),
    ):
        if partitions:
            stay = verb(len(partitions), "stays where it is", "stay where they are")
            warnings.append(
                f"{pluralize(len(partitions), 'partition')} {stay}, since {who} moved "
                f"{verb(len(partitions), 'it', 'them')} after run {run.run_id}: "
                f"{join_names(partitions)}"
            )
    return tuple(warnings)
