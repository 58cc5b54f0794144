"""Kafka's own reassignment JSON, as `kafka-reassign-partitions` reads and writes it.

    from_reassignment_json('{"version": 1, "partitions": [{"topic": "orders", "partition": 0, ...')
    # {TopicPartition("orders", 0): (4, 2, 3)}

The whole output of its `--generate` is read, too: what it proposes.

Limits: only version 1 is known, and no moves between the log dirs of a broker.
"""

import json
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from counterpoise.errors import InputError, list_complaints
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.json_values import Id, JsonValueError, read_json
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.words import join_names

_PROPOSED: Final = "Proposed partition reassignment configuration"  # of `--generate`
_ANY_LOG_DIR: Final = "any"


@dataclass(frozen=True, slots=True)
class _Target:
    topic: str
    partition: Id
    replicas: tuple[Id, ...]
    log_dirs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Reassignment:
    version: int
    partitions: tuple[_Target, ...]


def to_reassignment_json(plan: RebalancePlan, *, undo: bool = False) -> str:
    """Return the plan's target, or with `undo` the assignment to go back to.

    An empty plan gives an empty list.
    """
    partitions = [
        {
            "topic": move.topic,
            "partition": move.partition,
            "replicas": list(move.replicas_before if undo else move.replicas_after),
        }
        for move in plan.moves
    ]
    rows = ",\n".join(f"  {json.dumps(row)}" for row in partitions)
    return '{"version": 1, "partitions": [' + (f"\n{rows}\n" if rows else "") + "]}\n"


def from_reassignment_json(
    text: str, *, where: str = "reassignment"
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the target replicas by partition.

    Raises InputError for anything Kafka's tool would not read, and for log dirs, all at once.
    """
    _, is_generated, proposed = text.partition(_PROPOSED)
    try:
        reassignment = read_json(_Reassignment, proposed if is_generated else text)
    except JsonValueError as error:
        what = f"{where}: not what kafka-reassign-partitions reads"
        raise InputError(list_complaints(what, error.complaints)) from None
    if reassignment.version != 1:
        raise InputError(f"{where}: version is {reassignment.version}; only version 1 is known")
    targets: dict[TopicPartition, tuple[int, ...]] = {}
    complaints: list[str] = []
    for index, target in enumerate(reassignment.partitions):
        partition = TopicPartition(target.topic, target.partition)
        place = f"partitions[{index}]: {partition}"
        if partition in targets:
            complaints.append(f"{place} is listed twice")
        if not target.replicas:
            complaints.append(f"{place} has no replicas")
        if len(set(target.replicas)) != len(target.replicas):
            complaints.append(f"{place}: a broker is listed twice in {list(target.replicas)}")
        if named := sorted({*target.log_dirs} - {_ANY_LOG_DIR}):
            complaints.append(
                f"{place}: log_dirs names {join_names(named)}; moves between log dirs are not "
                'done here: take log_dirs out, or write "any"'
            )
        targets[partition] = target.replicas
    if complaints:
        raise InputError(list_complaints(where, complaints))
    return targets


# -- The reassignments that one move consists of: one new replica at a time
#
#     reassignment_targets(move)            # (1, 2, 3) -> (4, 5, 3): ((1, 5, 3), (4, 5, 3))
#     is_one_reassignment(move)             # False: there are two
#     changes_replica_set(move)             # not order or leader alone
#     reassignment_shown_by(move, replicas) # None: not as only while it is reassigned
#
# Several new replicas at once would all read from the same leader (cruise-control#2359), and a
# partition that drops a replica before it adds one has fewer copies than it should. Within one
# reassignment Kafka itself adds before it drops (KIP-455).


def reassignment_targets(move: Move) -> tuple[tuple[int, ...], ...]:
    """Return the target replicas of each reassignment of a move, in their order.

    The last is `move.replicas_after`. The others keep the order of `move.replicas_before`, so that
    the preferred leader stays, and drop the replica that leads last. Example: brokers 1, 2, 3 to
    brokers 4, 5, 3 under leader 1. First 5 takes the place of 2, (1, 5, 3); then 4 that of 1.
    """
    if is_one_reassignment(move):
        return (move.replicas_after,)

    def drop_order(broker_id: int) -> tuple[bool, int]:
        is_leader = broker_id == move.leader_before
        return is_leader, -move.replicas_before.index(broker_id)

    removing = sorted(move.removing, key=drop_order)
    replicas = list(move.replicas_before)
    targets = []
    # The first of the plan's order is often the next leader: it is added last.
    for new_broker_id in move.adding[:0:-1]:
        if removing:
            replicas[replicas.index(removing.pop(0))] = new_broker_id
        else:
            replicas.append(new_broker_id)
        targets.append(tuple(replicas))
    return (*targets, move.replicas_after)


def is_one_reassignment(move: Move) -> bool:
    """Return whether the only target of a move is `move.replicas_after`."""
    return len(move.adding) <= 1


def order_after_cancel(before: tuple[int, ...], target: tuple[int, ...]) -> tuple[int, ...]:
    """Return the replicas as the cancel of a reassignment leaves them: those that the target keeps,
    in its order, then those that were to go, by id.

    (1, 2, 3) to (4, 2, 3) leaves (2, 3, 1).
    """
    kept = (broker_id for broker_id in target if broker_id in before)
    return (*kept, *sorted(set(before) - set(target)))


def changes_replica_set(move: Move) -> bool:
    """Return whether replicas are added or removed; otherwise only order or leader change."""
    return set(move.replicas_before) != set(move.replicas_after)


def is_as_if_moving(move: Move, replicas: tuple[int, ...]) -> bool:
    """Return whether a partition has these replicas only while a move of it is under way.

    It has those of two successive targets of the move together only while it is reassigned
    (KIP-455): (1, 5, 3) and (4, 5, 3) give {1, 3, 4, 5}, where 4 is added and 1 removed.
    """
    if replicas in (move.replicas_before, move.replicas_after):
        return False
    targets = (move.replicas_before, *reassignment_targets(move))
    present = set(replicas)
    if present in map(set, targets):
        return False
    return any(present == {*earlier, *later} for earlier, later in pairwise(targets))
