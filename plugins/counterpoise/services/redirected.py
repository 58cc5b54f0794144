"""Moves of a run that somebody else redirected while they were in flight, and their end.

    found = redirected_moves(installation, run_id)     # (Redirected(move, target=(1, 2, 4)), ...)
    cancel_redirected(installation, run_id, found, by=alice, why="a mistake")

They are somebody else's by now, so only a person who was shown them cancels them. Kafka leaves what
the first move was adding as one replica too many, and the order of the cancel: so the replicas of
before the run are asked for afterwards, which copies nothing.
"""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from counterpoise.installation import Installation
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import PartitionDescription
from counterpoise.model.person import Person
from counterpoise.model.plan import Move
from counterpoise.model.policy import Action
from counterpoise.model.reassignment import reassignment_targets
from counterpoise.model.safe_text import required
from counterpoise.model.words import join_ids, join_names
from counterpoise.services.requests import check_may

if TYPE_CHECKING:
    from counterpoise.kafka_admin.cluster_admin import ClusterAdmin, ClusterReader

_SHOWN_WITHIN_SECONDS: Final = 10.0
_EVENT: Final = "redirected move cancelled"


@dataclass(frozen=True, slots=True)
class Redirected:
    move: Move
    target: tuple[int, ...]

    @property
    def in_words(self) -> str:
        move = self.move
        return (
            f"{move.topic_partition}: the run moves it to [{join_ids(move.replicas_after)}], "
            f"somebody else sent it to [{join_ids(self.target)}]; before the run it had "
            f"[{join_ids(move.replicas_before)}]"
        )


def redirected_moves(installation: Installation, run_id: str) -> tuple[Redirected, ...]:
    """Return what the run has submitted and what goes elsewhere now."""
    run = installation.ledger.run(run_id)
    with installation.reader(run.cluster) as reader:
        return _find(installation, reader, run_id)


def _find(
    installation: Installation, reader: "ClusterReader", run_id: str
) -> tuple[Redirected, ...]:
    plan = installation.run_and_plan(run_id)[1]
    submitted = {row.topic_partition for row in installation.ledger.journal(run_id).submitted()}
    reassignments = reader.list_reassignments()
    return tuple(
        Redirected(move, found.target)
        for move in plan.moves
        if move.topic_partition in submitted
        and (found := reassignments.get(move.topic_partition)) is not None
        and found.target not in reassignment_targets(move)
    )


def cancel_redirected(
    installation: Installation,
    run_id: str,
    shown: Collection[Redirected],
    *,
    by: Person,
    why: str,
) -> dict[TopicPartition, str]:
    """Cancel the redirected moves that a person was shown; return what is not as before the run.

    Raises RefusedError for who may not operate the cluster, StepLockHeldError while a process works
    on it.
    """
    run, why = installation.ledger.run(run_id), required(why, "why")
    check_may(installation, run.cluster, by, Action.OPERATE)
    with installation.operator(run.cluster) as admin, installation.ledger.step(run.cluster) as step:
        now = set(_find(installation, admin, run_id))
        moves = [found.move for found in shown if found in now]
        left = {found.move.topic_partition: "it changed" for found in shown if found not in now}
        step.check()
        left |= admin.alter_reassignments({m.topic_partition: None for m in moves}).errors
        cancelled = [move for move in moves if move.topic_partition not in left]
        present = _at_rest(admin, cancelled)
        before = {m.topic_partition: m.replicas_before for m in cancelled}
        kept = {
            partition: replicas
            for partition, replicas in before.items()
            if partition in present and set(replicas) <= set(present[partition].isr)
        }
        left |= {
            partition: f"not all of [{join_ids(before[partition])}] are in sync"
            for partition in before.keys() - kept.keys()
        }
        step.check()
        left |= admin.alter_reassignments(kept, may_change_replication_factor=True).errors
    names = join_names([move.topic_partition for move in cancelled])
    text = f"{names}, which somebody else had redirected, by {by.shown}: {why}"
    installation.ledger.journal(run_id).event(_EVENT, text)
    return left


def _at_rest(
    admin: "ClusterAdmin", moves: Collection[Move]
) -> Mapping[TopicPartition, PartitionDescription]:
    """Return the partitions once none of them moves any more, or some seconds later."""
    names = {move.topic_partition for move in moves}
    give_up_at = time.monotonic() + _SHOWN_WITHIN_SECONDS
    while not names.isdisjoint(admin.list_reassignments()) and time.monotonic() < give_up_at:
        time.sleep(0.5)
    return {
        TopicPartition(topic.topic, partition.partition): partition
        for topic in admin.describe_topics(sorted({move.topic for move in moves}))
        for partition in topic.partitions
    }
