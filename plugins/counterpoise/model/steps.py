"""The steps of one move: one new replica at a time, each added before an old one is dropped.

    steps_of(move)    # ((1, 2, 5), (4, 2, 5)) for (1, 2, 3) -> (4, 2, 5): the last one is the plan's

Several new replicas at once would all read from the same leader (cruise-control#2359), and a
partition that drops before it adds has fewer copies than it should. Kafka itself adds before it
drops within one reassignment (KIP-455).
"""

from counterpoise.model.plan import Move


def steps_of(move: Move) -> tuple[tuple[int, ...], ...]:
    """The replica lists that the partition is reassigned to, one after another; the last is
    `move.replicas_after`.

    Every step keeps the order of before, so that the leader stays; the replica that leads is
    dropped last.
    """
    adding = move.adding
    if len(adding) <= 1:
        return (move.replicas_after,)
    leaving = sorted(
        move.removing, key=lambda b: (b == move.leader_before, -move.replicas_before.index(b))
    )
    present = list(move.replicas_before)
    steps = []
    for new in adding[:0:-1]:  # the first of the plan's order, often the next leader, arrives last
        if leaving:
            present[present.index(leaving.pop(0))] = new
        else:
            present.append(new)
        steps.append(tuple(present))
    return (*steps, move.replicas_after)
