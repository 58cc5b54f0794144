"""Reads the partitions of a plan, and what is reassigned, as of one moment.

    partitions = read_partitions(reader, plan)
    partitions.reassignments, partitions.unlisted, partitions.observed()

The lists of reassignments come from the controller, topics from a broker whose metadata may be
older; for a moment after the controller has changed, a list may be older as well. What contradicts
itself is read again.
"""

import time
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from counterpoise.execution.observed_cluster import ObservedPartition
from counterpoise.execution.readings import Copies
from counterpoise.kafka_admin.combined_reads import read_topics_and_named
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.grouping import grouped
from counterpoise.model.kafka import PartitionDescription, Reassignment, TopicDescription
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.reassignment import reassignment_shown_by

if TYPE_CHECKING:
    from counterpoise.kafka_admin.cluster_admin import ClusterReader


_MAX_STALE_READS: Final = 10
STALE_READ_SECONDS: Final = 0.2  # as long as the metadata of a broker that is up is behind


@dataclass(frozen=True, slots=True)
class Partitions:
    planned: Mapping[TopicPartition, ObservedPartition]  # without reassignments
    unhealthy: Mapping[TopicPartition, PartitionDescription]  # outside the plan: offline, or URP
    reassignments: Mapping[TopicPartition, Reassignment]
    topic_ids: Mapping[str, str]  # of the plan's topics
    # Those that topics show, and no list names, however often both were read.
    unlisted: Mapping[TopicPartition, Reassignment]

    def observed(self) -> dict[TopicPartition, ObservedPartition]:
        moving = {
            tp: self.planned[tp]._replace(reassignment=reassignment)
            for tp, reassignment in self.reassignments.items()
            if tp in self.planned
        }
        return {**self.planned, **moving}

    def foreign_reassignments(
        self, of_earlier_runs: Set[TopicPartition]
    ) -> tuple[TopicPartition, ...]:
        """Return the reassignments outside the plan that no earlier run of ours has submitted."""
        known = self.planned.keys() | of_earlier_runs
        return tuple(sorted(tp for tp in self.reassignments if tp not in known))


def read_partitions(reader: "ClusterReader", plan: RebalancePlan) -> Partitions:
    """Read topics, and reassignments before and after them; what either list names is moving.

    A partition that is on no list and yet has the replicas of two targets together is read again.
    """
    planned_topics = set(plan.moves_by_topic)
    for _ in range(_MAX_STALE_READS):
        reassignments_before = reader.list_reassignments()
        topics = read_topics_and_named(reader, planned_topics)
        planned, unhealthy = _planned_and_unhealthy(topics, plan)
        reassignments = {**reassignments_before, **reader.list_reassignments()}
        topic_ids = {t.topic: t.topic_id for t in topics if t.topic in planned_topics}
        in_between = _in_between(plan, planned)
        unlisted = _unlisted(in_between, planned, reassignments)
        if not unlisted:
            break
        time.sleep(STALE_READ_SECONDS)
    return Partitions(planned, unhealthy, reassignments, topic_ids, unlisted)


def _in_between(
    plan: RebalancePlan, planned: Mapping[TopicPartition, ObservedPartition]
) -> list[Move]:
    return [
        move
        for move in plan.moves
        if (observed := planned.get(move.topic_partition)) is not None
        and observed.description.replicas not in (move.replicas_before, move.replicas_after)
    ]


def _unlisted(
    in_between: Iterable[Move],
    planned: Mapping[TopicPartition, ObservedPartition],
    reassignments: Mapping[TopicPartition, Reassignment],
) -> dict[TopicPartition, Reassignment]:
    """Return the reassignments that replicas show, and no list names."""
    unlisted = {}
    for move in in_between:
        tp = move.topic_partition
        shown = reassignment_shown_by(move, planned[tp].description.replicas)
        if shown and tp not in reassignments:
            unlisted[tp] = shown
    return unlisted


def _planned_and_unhealthy(
    topics: Iterable[TopicDescription], plan: RebalancePlan
) -> tuple[
    dict[TopicPartition, ObservedPartition],
    dict[TopicPartition, PartitionDescription],
]:
    """Return what the plan moves, and what of the rest is offline or under-replicated.

    Nothing else is kept: there may be a million partitions.
    """
    planned, unhealthy = {}, {}
    for topic in topics:
        moves = plan.moves_by_topic.get(topic.topic, {})
        for description in topic.partitions:
            move = moves.get(description.partition)
            if move is not None:
                observed = ObservedPartition(topic.topic_id, description)
                planned[move.topic_partition] = observed
            elif description.leader is None or len(description.isr) < len(description.replicas):
                unhealthy[TopicPartition(topic.topic, description.partition)] = description
    return planned, unhealthy


def copying_brokers(partitions: Partitions) -> frozenset[int]:
    """Return the brokers between which a move of the plan copies."""
    copying: set[int] = set()
    for tp, reassignment in partitions.reassignments.items():
        if not reassignment.adding or tp not in partitions.planned:
            continue
        copying.update(reassignment.adding)
        leader = partitions.planned[tp].description.leader
        if leader is not None:
            copying.add(leader)
    return frozenset(copying)


def copies_of(partitions: Partitions, responsive_broker_ids: Set[int]) -> Copies:
    """Return the replicas of what is reassigned, by broker; none where nobody responds."""
    reassignments = partitions.reassignments.items()
    by_replica = grouped((b, tp) for tp, moving in reassignments for b in moving.replicas)
    by_added = grouped((b, tp) for tp, moving in reassignments for b in moving.adding)
    return Copies(copying_brokers(partitions) & responsive_broker_ids, by_added, by_replica)
