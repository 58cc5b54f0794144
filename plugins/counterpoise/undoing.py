"""Whether what a run moved can be taken back, for the command line, the Dag and the page alike.

    check_undoable(run, plan, events, has_moved=True)
    way_back = find_way_back(plan, submitted, snapshot)
    way_back.moves, way_back.warnings()      # what is taken back, and what stays, and why

Undo is a plan of its own. It needs a run that has ended and has moved something. Partitions that
stand where the run has not brought them, or that cannot go back now, stay, and are named.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

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

_WHERE_IT_WAS: Final = "is where it was before it"


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
    """What an undo takes back, and why it leaves other partitions where they are."""

    moves: list[Move] = field(default_factory=list)
    left: dict[TopicPartition, str] = field(default_factory=dict)  # {...: "has been moved ..."}

    def nothing_left(self, run: Run) -> RefusedError:
        """Return what says why nothing of a run can be taken back."""
        text = f"nothing of run {run.run_id} is left to undo"
        if not self.left:
            return RefusedError(f"{text}: the topics of what it moved are gone")
        return RefusedError(
            f"{text}: {_in_words(self.left)}. Make a new plan for what you want instead"
        )

    def warnings(self) -> Iterator[str]:
        """Yield what stays where it is, and why; without what the run has not moved on."""
        stay = {name: why for name, why in self.left.items() if why != _WHERE_IT_WAS}
        if stay:
            them = verb(len(stay), "stays where it is", "stay where they are")
            yield f"{pluralize(len(stay), 'partition')} {them}: {_in_words(stay)}"


def _in_words(left: Mapping[TopicPartition, str]) -> str:
    return join_names([f"{name} {why}" for name, why in sorted(left.items())])


def find_way_back(
    plan: RebalancePlan, submitted: Iterable[Submitted], snapshot: ClusterSnapshot
) -> WayBack:
    """Return what is taken back of what a run has moved, and what is not; without topics that are
    gone.

    Taken back is what stands exactly where the run has brought it, whoever moved it meanwhile.
    """
    made = (row for row in submitted if row.may_have_been_made)
    targets = grouped((row.topic_partition, row.target) for row in made)
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
                way_back.left[name] = _WHERE_IT_WAS
        elif name not in targets or (present and present.replicas not in targets[name]):
            way_back.left[name] = "has been moved again since"
        elif why := _why_stuck(move, present, live):
            way_back.left[name] = f"cannot go back now ({why})"
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
