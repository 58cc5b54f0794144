"""What a plan costs while it runs: the busiest link, money between racks, coordinators, and rates that can never do.

    busiest_link_bytes(plan) / rate_bytes_per_second     # seconds that the copying takes at best

Followers fetch from leaders, so the leader before the move sends and every new replica receives.
"""

from collections import Counter
from typing import Final

from counterpoise.model.plan import Move, RebalancePlan

# Moving one of their partitions moves the coordinator of groups or transactions, and their clients look it up anew.
COORDINATOR_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


def busiest_link_bytes(plan: RebalancePlan) -> int:
    """The most bytes that one broker has to send or to receive: with the rate, this gives the expected time."""
    sent: Counter[int] = Counter()
    received: Counter[int] = Counter()
    for move in plan.moves:
        if move.adding and move.leader_before >= 0:
            sent[move.leader_before] += move.copied_bytes
        for broker_id in move.adding:
            received[broker_id] += move.size_bytes
    return max([0, *sent.values(), *received.values()])


def cross_rack_bytes(plan: RebalancePlan) -> int:
    """Bytes copied from one rack to another, which clouds charge for. Brokers without a rack count as one rack."""
    racks = {figure.broker_id: figure.rack for figure in plan.figures}
    return sum(
        move.size_bytes
        for move in plan.moves
        for broker_id in move.adding
        if move.leader_before >= 0 and racks.get(move.leader_before) != racks.get(broker_id)
    )


def coordinator_moves(plan: RebalancePlan) -> tuple[Move, ...]:
    """The moves that give a group or transaction coordinator to another broker, and those that copy its log."""
    return tuple(move for move in plan.moves if move.topic in COORDINATOR_TOPICS)


def busiest_inflow(plan: RebalancePlan) -> tuple[int, int] | None:
    """The broker with most inflow from producers in the partitions it is to receive, and that inflow in bytes/s.

    A throttle below it may never finish when they are all copied at once: what is written meanwhile has to be copied
    as well (KIP-73). None where no rate is known or nothing is copied.
    """
    inflow: Counter[int] = Counter()
    for move in plan.moves:
        for broker_id in move.adding:
            inflow[broker_id] += move.bytes_in_per_second or 0
    busiest = max(inflow.items(), key=lambda item: (item[1], -item[0]), default=None)
    return busiest if busiest and busiest[1] else None
