"""Which partitions have their replicas in an order of the plan: whoever changes it is not us. Pure.

    partitions_in_order(moves, observation)         # at the end of a run
    partitions_back_in_order(moves, observation)    # under way, after a cancel

Example: the cancel of (1, 2, 3) to (4, 2, 3) leaves (2, 3, 1), and (1, 2, 3) is restored. Once that
was seen, a (3, 2, 1) is somebody else's order.
"""

from collections.abc import Iterable, Iterator

from counterpoise.execution.observation import MoveState, Observation
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.plan import Move
from counterpoise.model.reassignment import reassignment_targets


def partitions_in_order(
    moves: Iterable[Move], observation: Observation
) -> Iterator[TopicPartition]:
    """Yield the submitted partitions of which nothing is under way, in an order of the plan, and
    those that somebody else moves.
    """
    for move in moves:
        partition = observation.partitions.get(move.topic_partition)
        if partition is None or move.topic_partition not in observation.submissions:
            continue
        if partition.reassignment is not None:
            is_in_order = observation.state_of(move) is MoveState.FOREIGN
        else:
            orders = (move.replicas_before, *reassignment_targets(move))
            is_in_order = partition.description.replicas in orders
        if is_in_order and not observation.may_not_show_yet(move):
            yield move.topic_partition


def partitions_back_in_order(
    moves: Iterable[Move], observation: Observation
) -> Iterator[TopicPartition]:
    """Yield the partitions that are seen for the first time in an order of the plan after a cancel,
    or after the order was restored that it left.
    """
    for move in moves:
        submission = observation.submissions.get(move.topic_partition)
        if submission is None or submission.in_order_at or submission.may_come_late:
            continue
        if submission.was_just_answered(observation.observed_at):
            continue
        if observation.state_of(move) is MoveState.PENDING:
            replicas = observation.partitions[move.topic_partition].description.replicas
            if submission.is_at_rest or submission.target == replicas:
                yield move.topic_partition
