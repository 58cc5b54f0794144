"""What a plan costs while it runs: the busiest link, money between racks, coordinators, and rates
that can never do.

    busiest_link_bytes(plan) / rate_bytes_per_second     # seconds that the copying takes at best
    busiest_inflow(plan, at_once=50)                     # what a rate has to be above

Followers fetch from leaders, so the leader before the move sends and every new replica receives.
"""

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from heapq import nlargest
from typing import Final

from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import MovementPolicy
from counterpoise.units import MIN_RATE_BYTES_PER_SECOND

RATE_HEADROOM: Final = 1.25  # a throttle that only equals the inflow never catches up
SHARE_OF_ROOM: Final = 0.8  # of what a link has left

# Moving one of their partitions moves the coordinator of groups or transactions, and their clients
# look it up anew.
COORDINATOR_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state"}
)


def busiest_link_bytes(plan: RebalancePlan) -> int:
    """The most bytes that one broker has to send or to receive: with the rate, this gives the
    expected time.
    """
    sent: Counter[int] = Counter()
    received: Counter[int] = Counter()
    for move in plan.moves:
        if move.adding and move.leader_before >= 0:
            sent[move.leader_before] += move.copied_bytes
        for broker_id in move.adding:
            received[broker_id] += move.size_bytes
    return max([0, *sent.values(), *received.values()])


def cross_rack_bytes(plan: RebalancePlan) -> int:
    """Bytes copied from one rack to another, which clouds charge for.

    Brokers without a rack count as one rack.
    """
    racks = {figure.broker_id: figure.rack for figure in plan.figures}
    return sum(
        move.size_bytes
        for move in plan.moves
        for broker_id in move.adding
        if move.leader_before >= 0 and racks.get(move.leader_before) != racks.get(broker_id)
    )


def max_moves_at_once(policy: MovementPolicy) -> int:
    """How many partitions one broker may copy together."""
    return min(policy.max_moves_in_flight, policy.max_moves_in_flight_per_broker)


@dataclass(frozen=True, slots=True)
class Inflow:
    """What producers write to the partitions that one broker may send, or receive, at the same
    time.
    """

    broker_id: int
    sends: bool
    bytes_per_second: int


def busiest_inflow(plan: RebalancePlan, at_once: int | None = None) -> Inflow | None:
    """The end of a copy that has most to keep up with, when each broker copies at most `at_once`
    partitions together.

    A throttle at or below it may never finish: what is written meanwhile has to be copied as well,
    by whoever leads the partition and by each replica that is added, one of a partition at a time
    (KIP-73). Which partitions meet is not known before, so the worst is taken. None where no rate
    is known or nothing is copied.
    """
    flows: defaultdict[tuple[int, bool], list[int]] = defaultdict(list)
    for move in plan.moves:
        if not move.adding or not move.bytes_in_per_second:
            continue
        for broker_id in move.adding:
            flows[broker_id, False].append(move.bytes_in_per_second)
        if move.leader_before >= 0:
            flows[move.leader_before, True].append(move.bytes_in_per_second)
    together = [
        Inflow(broker_id, sends, sum(rates if at_once is None else nlargest(at_once, rates)))
        for (broker_id, sends), rates in flows.items()
    ]
    return max(
        together,
        key=lambda flow: (flow.bytes_per_second, not flow.sends, -flow.broker_id),
        default=None,
    )


def min_rate_bytes_per_second(inflow_bytes_per_second: int) -> int:
    """A rate that is clearly above an inflow, in two digits."""
    wanted = inflow_bytes_per_second * RATE_HEADROOM
    step = _step_of_two_digits(wanted)
    return math.ceil(wanted / step) * step


def rate_with_room(
    plan: RebalancePlan, link_capacity_bytes_per_second: int, at_once: int | None = None
) -> int | None:
    """80 % of what the busiest broker's link has left, and never too little for what producers
    write to what moves.

    A broker takes in what producers write to the partitions it leads, and, for each replica that it
    follows with, the mean of all partitions; as a leader it sends that on to the other replicas.
    What consumers read is not known: the fifth that is kept is for them. None where the plan knows
    no rates.
    """
    known = [figure for figure in plan.figures if figure.bytes_in_before is not None]
    partitions = sum(figure.leaders_before for figure in known)
    if not partitions:
        return None
    written = sum(figure.bytes_in_before or 0 for figure in known)
    copies = sum(figure.replicas_before for figure in known) / partitions
    busiest = 0.0
    for figure in known:
        led = figure.bytes_in_before or 0
        followed = max(0, figure.replicas_before - figure.leaders_before) * written / partitions
        busiest = max(busiest, led + followed, led * (copies - 1))
    room = max(0.0, link_capacity_bytes_per_second - busiest) * SHARE_OF_ROOM
    step = _step_of_two_digits(room)
    inflow = busiest_inflow(plan, at_once)
    least = min_rate_bytes_per_second(inflow.bytes_per_second) if inflow else 0
    return max(math.floor(room / step) * step, least, MIN_RATE_BYTES_PER_SECOND)


def _step_of_two_digits(rate: float) -> int:
    return int(10 ** max(0, math.floor(math.log10(max(1.0, rate))) - 1))
