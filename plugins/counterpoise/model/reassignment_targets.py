"""The reassignments that one move consists of: one new replica at a time.

    reassignment_targets(move)            # (1, 2, 3) -> (4, 5, 3): ((1, 5, 3), (4, 5, 3))
    changes_replica_set(move)             # not order or leader alone
    is_between_targets(move, replicas)    # as only while it is reassigned

Several new replicas at once would all read from the same leader (cruise-control#2359), and a
partition that drops a replica before it adds one has fewer copies than it should. Within one
reassignment Kafka itself adds before it drops (KIP-455).
"""

from itertools import pairwise

from counterpoise.model.plan import Move


def reassignment_targets(move: Move) -> tuple[tuple[int, ...], ...]:
    """Return the target replicas of each reassignment of a move, in their order.

    The last is `move.replicas_after`. The others keep the order of `move.replicas_before`, so that
    the preferred leader stays, and drop the replica that leads last. Example: brokers 1, 2, 3 to
    brokers 4, 5, 3 under leader 1. First 5 takes the place of 2, (1, 5, 3); then 4 that of 1.
    """
    adding = move.adding
    if len(adding) <= 1:
        return (move.replicas_after,)

    def drop_order(broker_id: int) -> tuple[bool, int]:
        is_leader = broker_id == move.leader_before
        return is_leader, -move.replicas_before.index(broker_id)

    removing = sorted(move.removing, key=drop_order)
    replicas = list(move.replicas_before)
    targets = []
    # The first of the plan's order is often the next leader: it is added last.
    for new_broker_id in adding[:0:-1]:
        if removing:
            replicas[replicas.index(removing.pop(0))] = new_broker_id
        else:
            replicas.append(new_broker_id)
        targets.append(tuple(replicas))
    return (*targets, move.replicas_after)


def changes_replica_set(move: Move) -> bool:
    """Return whether replicas are added or removed; otherwise only order or leader change."""
    return set(move.replicas_before) != set(move.replicas_after)


def is_between_targets(move: Move, replicas: tuple[int, ...]) -> bool:
    """Return whether these are the replicas of two successive targets of the move together.

    A partition has them only while it is reassigned (KIP-455): (1, 5, 3) and (4, 5, 3) give
    {1, 3, 4, 5}.
    """
    if replicas in (move.replicas_before, move.replicas_after):
        return False
    known_sets = [set(target) for target in (move.replicas_before, *reassignment_targets(move))]
    present = set(replicas)
    if present in known_sets:
        return False
    return any(present == earlier | later for earlier, later in pairwise(known_sets))
