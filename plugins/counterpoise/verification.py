"""After the fact: is the cluster what the plan said? Judged from a fresh snapshot and from the
run's record.

problems = find_problems(plan, snapshot, touched)      # an empty tuple means: verified
"""

from collections.abc import Sequence

from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.run import TouchedKey


def find_problems(
    plan: RebalancePlan, snapshot: ClusterSnapshot, touched: Sequence[TouchedKey] | None = None
) -> tuple[str, ...]:
    """One sentence per planned partition that is elsewhere, led by another broker or still moving.

    `touched` adds the config keys of a run that has ended: each has to be as it was before.
    Partitions whose topic is gone are no problem: there is nothing left to move.
    """
    moves = {move.topic_partition: move for move in plan.moves}
    problems = [problem for row in _rows(snapshot, moves) if (problem := _problem(*row))]
    for key in touched or ():
        if key.restored_at is None or key.after_value != key.before_value:
            name = f"{key.resource.type} {key.resource.name}: {key.key}"
            problems.append(
                f"{name} is {key.after_value!r}, before the run it was {key.before_value!r} ({key.outcome})"
            )
    return tuple(problems)


def _rows(
    snapshot: ClusterSnapshot, moves: dict[TopicPartition, Move]
) -> list[tuple[Move, tuple[int, ...], int | None, bool]]:
    columns = ["topic", "partition", "replicas", "leader", "adding_replicas", "removing_replicas"]
    rows = []
    for topic, partition, replicas, leader, adding, removing in zip(
        *(snapshot.partitions[column].to_pylist() for column in columns), strict=True
    ):
        move = moves.get(TopicPartition(topic, partition))
        if move is not None and (
            not move.topic_id or snapshot.topic_ids[topic] in (None, move.topic_id)
        ):
            rows.append((move, tuple(replicas), leader, bool(adding or removing)))
    return rows


def _problem(
    move: Move, replicas: tuple[int, ...], leader: int | None, is_moving: bool
) -> str | None:
    name = move.topic_partition
    if is_moving:
        return f"{name} is still moving"
    if replicas != move.replicas_after:
        return f"{name} is on {list(replicas)}, the plan wants {list(move.replicas_after)}"
    if leader != move.replicas_after[0]:
        return f"{name} is led by {leader}, the plan wants {move.replicas_after[0]}"
    return None
