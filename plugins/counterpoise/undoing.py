"""Whether what a run moved can be taken back, for the command line, the Dag and the page alike.

    check_undoable(run, plan, events, has_moved=True)
    way_back = find_way_back(plan, submitted, snapshot)
    way_back.moves, way_back.warnings(run)      # what is taken back, and what stays, and why

Undo is a plan of its own. It needs a run that has ended and has moved something. Partitions that
stand where the run has not brought them, or that cannot go back now, stay, and are named.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.errors import RefusedError
from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
from counterpoise.model.grouping import grouped
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.run import (
    LOOKED_AFTER_STATES,
    UNDER_WAY_STATES,
    Event,
    Run,
    Submitted,
    has_all_events,
)
from counterpoise.model.words import join_names, list_brokers, pluralize, verb


def check_undoable(
    run: Run,
    plan: RebalancePlan,
    events: Sequence[Event],
    *,
    has_moved: bool,
) -> None:
    """Raise RefusedError for a run that moved nothing, that is under way, that is itself an undo,
    or that changed replication factors.

    `events` are those of the run. `counterpoise ledger prune` deletes the rows of old runs with
    their events: what was moved is not known then.
    """
    if run.state in UNDER_WAY_STATES:
        raise RefusedError(
            f"run {run.run_id} is {run.state}; cancel it first, and undo it when it has ended"
        )
    if not has_all_events(events) and run.state in LOOKED_AFTER_STATES:
        raise RefusedError(
            f"run {run.run_id} began long ago, and `counterpoise ledger prune` has deleted rows of "
            "that time: which partitions it moved is not known any more. Make a new plan instead"
        )
    if not has_moved:
        raise RefusedError(
            f"run {run.run_id} is {run.state} and moved nothing, so there is nothing to undo"
        )
    if plan.undoes:
        raise RefusedError(
            f"run {run.run_id} is itself an undo, of plan {plan.undoes}; to go forward again, make "
            "a new plan of that goal"
        )
    if any(len(move.replicas_before) != len(move.replicas_after) for move in plan.moves):
        raise RefusedError(
            f"run {run.run_id} changed replication factors; undo it with a plan of the goal "
            "replication-factor and the previous number"
        )


@dataclass(frozen=True, slots=True)
class WayBack:
    """What an undo takes back, and what it leaves where it is."""

    moves: list[Move] = field(default_factory=list)
    back: list[TopicPartition] = field(default_factory=list)  # where they were before the run
    foreign: list[TopicPartition] = field(default_factory=list)  # where the run moved none of them
    stuck: dict[TopicPartition, str] = field(default_factory=dict)  # why they cannot go back now

    def nothing_left(self, run: Run) -> RefusedError:
        """Return what says why nothing of a run can be taken back."""
        reasons = []
        if self.back:
            are = verb(len(self.back), "is where it was", "are where they were")
            reasons.append(f"{join_names(sorted(self.back))} {are} before it")
        if self.foreign:
            have = verb(len(self.foreign), "has", "have")
            reasons.append(f"{join_names(sorted(self.foreign))} {have} been moved again since")
        if self.stuck:
            reasons.append(f"{self._stuck_in_words} cannot go back now")
        text = f"nothing of run {run.run_id} is left to undo"
        if not reasons:
            return RefusedError(f"{text}: the topics of what it moved are gone")
        text += f": {', and '.join(reasons)}"
        if self.foreign or self.stuck:
            text += ". Make a new plan for what you want instead"
        return RefusedError(f"{text}{', or mend that first' if self.stuck else ''}")

    def warnings(self, run: Run) -> Iterator[str]:
        """Yield what stays where it is, and why."""
        stuck = len(self.stuck)
        if stuck:
            cannot = verb(stuck, "it cannot", "they cannot")
            yield f"{_stay(stuck)}, since {cannot} go back now: {self._stuck_in_words}"
        if self.foreign:
            them = verb(len(self.foreign), "it has", "they have")
            yield (
                f"{_stay(len(self.foreign))}, since {them} been moved again after run "
                f"{run.run_id}: {join_names(sorted(self.foreign))}"
            )

    @property
    def _stuck_in_words(self) -> str:
        return join_names([f"{name} ({why})" for name, why in sorted(self.stuck.items())])


def _stay(partitions: int) -> str:
    stay = verb(partitions, "stays where it is", "stay where they are")
    return f"{pluralize(partitions, 'partition')} {stay}"


def find_way_back(
    plan: RebalancePlan, submitted: Iterable[Submitted], snapshot: ClusterSnapshot
) -> WayBack:
    """Return what a run has moved of its plan, by whether it is taken back, and what others have
    moved of it; without topics that are gone.

    Taken back is what stands exactly where the run has brought it, whoever moved it meanwhile.
    """
    targets = grouped((row.topic_partition, row.target) for row in submitted)
    way_back = WayBack()
    planned = [move.topic_partition for move in plan.moves]
    at_rest, live = _partitions_at_rest(snapshot, planned), set(snapshot.live_broker_ids)
    for move in plan.moves:
        name = move.topic_partition
        if move.topic not in snapshot.topic_ids:
            continue
        if move.is_of_another_topic(snapshot.topic_ids[move.topic]):
            continue
        present = at_rest.get(name)
        if present and present.replicas == move.replicas_before:
            if name in targets:
                way_back.back.append(name)
        elif name not in targets or (present and present.replicas not in targets[name]):
            way_back.foreign.append(name)
        elif why := _why_stuck(move, present, live):
            way_back.stuck[name] = why
        else:
            way_back.moves.append(move)
    return way_back


@dataclass(frozen=True, slots=True)
class _Present:
    replicas: tuple[int, ...]
    leader: int | None


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
