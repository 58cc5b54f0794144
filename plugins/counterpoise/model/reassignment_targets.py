"""The reassignments that one move consists of: one new replica at a time.

    reassignment_targets(move)            # (1, 2, 3) -> (4, 5, 3): ((1, 5, 3), (4, 5, 3))
    is_one_reassignment(move)             # False: there are two
    changes_replica_set(move)             # not order or leader alone
    reassignment_shown_by(move, replicas) # None: not as only while it is reassigned

Several new replicas at once would all read from the same leader (cruise-control#2359), and a
partition that drops a replica before it adds one has fewer copies than it should. Within one
reassignment Kafka itself adds before it drops (KIP-455).
"""

from itertools import pairwise

from counterpoise.model.kafka import Reassignment
from counterpoise.model.plan import Move


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


def changes_replica_set(move: Move) -> bool:
    """Return whether replicas are added or removed; otherwise only order or leader change."""
    return set(move.replicas_before) != set(move.replicas_after)


def reassignment_shown_by(move: Move, replicas: tuple[int, ...]) -> Reassignment | None:
    """Return the reassignment under which a partition has these replicas, None when under none.

    It has those of two successive targets of the move together only while it is reassigned
    (KIP-455): (1, 5, 3) and (4, 5, 3) give {1, 3, 4, 5}, where 4 is added and 1 removed.
    """
    if replicas in (move.replicas_before, move.replicas_after):
        return None
    targets = (move.replicas_before, *reassignment_targets(move))
    present = set(replicas)
    if present in map(set, targets):
        return None
    for earlier, later in pairwise(targets):
        adding = tuple(b for b in later if b not in earlier)
        removing = tuple(b for b in earlier if b not in later)
        if present == {*later, *removing}:
            return Reassignment((*later, *removing), adding, removing)
    return None
