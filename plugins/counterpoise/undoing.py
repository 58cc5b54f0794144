"""Whether what a run moved can be taken back, for the command line, the Dag and the page alike.

    check_undoable(run, plan, moved, later, events, rebase=False)
    way_back = find_way_back(plan, submissions, later, snapshot, may_have_left)
    way_back.moves, way_back.warnings(run)      # what is taken back, and what stays, and why

Undo is a plan of its own. It needs a run that has ended and has moved something, and partitions
that neither a later run nor anybody else has moved since, and that can go back now.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.errors import RefusedError
from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.reassignment import reassignment_targets
from counterpoise.model.run import (
    LOOKED_AFTER_STATES,
    UNDER_WAY_STATES,
    Event,
    LaterMove,
    Run,
    Submission,
    has_all_events,
)
from counterpoise.model.words import join_names, list_brokers, pluralize, verb

# Whether a run, by its id, may have brought a partition to these replicas.
MayHaveLeft = Callable[[str, TopicPartition, tuple[int, ...]], bool]


def check_undoable(
    run: Run,
    plan: RebalancePlan,
    moved: Collection[TopicPartition],
    later: Mapping[TopicPartition, LaterMove],
    events: Sequence[Event],
    *,
    rebase: bool,
) -> None:
    """Raise RefusedError for a run that moved nothing, that is under way, that is itself an undo,
    that changed replication factors, or whose partitions later runs have moved elsewhere; with
    `rebase`, those partitions stay where they are.

    `events` are those of the run. `counterpoise ledger prune` deletes the rows of old runs: where
    the events are gone, neither `moved` nor `later` need be complete.
    """
    if run.state in UNDER_WAY_STATES:
        raise RefusedError(
            f"run {run.run_id} is {run.state}; cancel it first, and undo it when it has ended"
        )
    if not has_all_events(events) and run.state in LOOKED_AFTER_STATES:
        raise RefusedError(
            f"run {run.run_id} began long ago, and `counterpoise ledger prune` has deleted rows of "
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
    before = {move.topic_partition: move.replicas_before for move in plan.moves}
    if all(name in later and later[name].replicas == before.get(name) for name in moved):
        raise RefusedError(
            f"run {run.run_id} is undone already: later runs have taken back what it moved"
        )
    if not rebase:
        check_not_moved_again(moved, _moved_elsewhere(plan, later))
    if any(len(move.replicas_before) != len(move.replicas_after) for move in plan.moves):
        raise RefusedError(
            f"run {run.run_id} changed replication factors; undo it with a plan of the goal "
            "replication-factor and the previous number"
        )


def check_not_moved_again(
    moved: Collection[TopicPartition], later: Mapping[TopicPartition, str]
) -> None:
    """Raise RefusedError where later runs have moved partitions; `later` has their ids."""
    again = sorted(name for name in moved if name in later)
    if again:
        raise RefusedError(
            f"{len(again)} of the {len(moved)} partitions {verb(len(again), 'was', 'were')} moved "
            f"again since, first {again[0]} by run {later[again[0]]}: undo that one first, "
            "or leave these partitions where they are with `counterpoise undo --rebase`"
        )


def _moved_elsewhere(
    plan: RebalancePlan, later: Mapping[TopicPartition, LaterMove]
) -> dict[TopicPartition, str]:
    """Return what later runs have brought neither back to where the run had left it, nor to where
    it was before, each with the run; of all others the cluster tells.
    """
    before = {move.topic_partition: move.replicas_before for move in plan.moves}
    return {
        name: move.run_id
        for name, move in later.items()
        if move.replicas is not None and move.replicas != before.get(name)
    }


@dataclass(frozen=True, slots=True)
class WayBack:
    """What an undo takes back, and what it leaves where it is."""

    moves: list[Move] = field(default_factory=list)
    back: list[TopicPartition] = field(default_factory=list)  # where they were before the run
    foreign: list[TopicPartition] = field(default_factory=list)  # somebody has moved them since
    later: dict[TopicPartition, str] = field(default_factory=dict)  # the ids of later runs
    stuck: dict[TopicPartition, str] = field(default_factory=dict)  # why they cannot go back now

    def nothing_left(self, run: Run) -> RefusedError:
        """Return what says why nothing of a run can be taken back; what later runs moved was left
        on request.
        """
        reasons = []
        if self.back:
            are = verb(len(self.back), "is where it was", "are where they were")
            reasons.append(f"{join_names(sorted(self.back))} {are} before it")
        if self.foreign:
            reasons.append(f"somebody has moved {join_names(self.foreign)} again since")
        if self.later:
            by_runs = f"later runs {'' if self.foreign else 'have moved '}"
            reasons.append(f"{by_runs}{join_names(sorted(self.later))}")
        if self.stuck:
            reasons.append(f"{self._stuck_in_words} cannot go back now")
        text = f"nothing of run {run.run_id} is left to undo"
        if not reasons:
            return RefusedError(f"{text}: the topics of what it moved are gone")
        text += f": {', and '.join(reasons)}"
        if self.foreign or self.later or self.stuck:
            text += ". Make a new plan for what you want instead"
        return RefusedError(f"{text}{', or mend that first' if self.stuck else ''}")

    def warnings(self, run: Run) -> Iterator[str]:
        """Yield what stays where it is, and why."""
        stuck = len(self.stuck)
        if stuck:
            cannot = verb(stuck, "it cannot", "they cannot")
            yield f"{_stay(stuck)}, since {cannot} go back now: {self._stuck_in_words}"
        for who, partitions in (("somebody has", self.foreign), ("later runs have", self.later)):
            if partitions:
                them = verb(len(partitions), "it", "them")
                yield (
                    f"{_stay(len(partitions))}, since {who} moved {them} after run {run.run_id}: "
                    f"{join_names(sorted(partitions))}"
                )

    @property
    def _stuck_in_words(self) -> str:
        return join_names([f"{name} ({why})" for name, why in sorted(self.stuck.items())])


def _stay(partitions: int) -> str:
    stay = verb(partitions, "stays where it is", "stay where they are")
    return f"{pluralize(partitions, 'partition')} {stay}"


def find_way_back(
    plan: RebalancePlan,
    submissions: Mapping[TopicPartition, Submission],
    later: Mapping[TopicPartition, LaterMove],
    snapshot: ClusterSnapshot,
    may_have_left: MayHaveLeft,
) -> WayBack:
    """Return what a run has submitted of its plan, by whether it is taken back; without topics that
    are gone.

    What a later run has cancelled is taken back where the cluster shows it as this run had left it,
    and is somebody else's where none of them can have brought it there.
    """
    way_back = WayBack()
    at_rest, live = _partitions_at_rest(snapshot, submissions), set(snapshot.live_broker_ids)
    for move in plan.moves:
        name = move.topic_partition
        if name not in submissions or move.topic not in snapshot.topic_ids:
            continue
        if move.is_of_another_topic(snapshot.topic_ids[move.topic]):
            continue
        present = at_rest.get(name)
        is_own = present is None or is_as_left(move, submissions[name], present.replicas)
        if name in later and not _is_free(move, later[name], present, is_own=is_own):
            if present and _is_of_nobody(name, later[name], present, may_have_left):
                way_back.foreign.append(name)
            else:
                way_back.later[name] = later[name].run_id
        elif not is_own:
            way_back.foreign.append(name)
        elif present and present.replicas == move.replicas_before:
            way_back.back.append(name)
        elif why := _why_stuck(move, present, live):
            way_back.stuck[name] = why
        else:
            way_back.moves.append(move)
    return way_back


@dataclass(frozen=True, slots=True)
class _Present:
    replicas: tuple[int, ...]
    leader: int | None


def _is_free(move: Move, later: LaterMove, present: _Present | None, *, is_own: bool) -> bool:
    """Return whether a partition is where the run had left it after later runs that brought it
    nowhere, or where they have brought it back to: there is nothing to take back then.
    """
    if present is None:
        return False
    if later.replicas is None:
        return is_own
    return later.replicas == present.replicas == move.replicas_before


def _is_of_nobody(
    partition: TopicPartition, later: LaterMove, present: _Present, may_have_left: MayHaveLeft
) -> bool:
    """Return whether no later run can have brought a partition to where it is, which is not where
    the run had left it; where one brought it elsewhere, that one counts.
    """
    return later.replicas is None and not any(
        may_have_left(run_id, partition, present.replicas) for run_id in later.stopped_run_ids
    )


def _partitions_at_rest(
    snapshot: ClusterSnapshot, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, _Present]:
    """Return these partitions, as far as they exist and nobody moves them now."""
    topics = pa.array({tp.topic for tp in partitions}, pa.string())
    columns = ["topic", "partition", "replicas", "leader", "adding_replicas", "removing_replicas"]
    table = snapshot.partitions.select(columns)
    rows = table.filter(pc.is_in(table["topic"], topics)).to_pylist()
    return {
        TopicPartition(row["topic"], row["partition"]): _Present(
            tuple(row["replicas"]), row["leader"]
        )
        for row in rows
        if not row["adding_replicas"] and not row["removing_replicas"]
    }


def _why_stuck(move: Move, present: _Present | None, live_broker_ids: Collection[int]) -> str:
    """Return why a partition cannot go back now, or would never arrive; "" where it would."""
    if present is None:
        return "being reassigned now: wait for its end"
    if lost := sorted(set(move.replicas_before) - set(live_broker_ids)):
        return f"{list_brokers(lost)} {verb(len(lost), 'is', 'are')} not live"
    if present.leader is None or present.leader not in live_broker_ids:
        return "no leader to copy from"
    return ""


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
