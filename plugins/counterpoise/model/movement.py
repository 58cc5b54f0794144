"""What a plan costs while it runs: its busiest link, traffic between racks, the rates it needs.

    busiest_link_bytes(plan) / rate_bytes_per_second     # seconds that the copying takes at best
    busiest_inflow(plan, max_moves=50)                   # a rate has to be above this

Followers fetch from leaders, so the leader before the move sends and every new replica receives.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Set
from dataclasses import dataclass
from heapq import nlargest
from typing import Final

from counterpoise.model.kafka import EVERY_BROKER, RATE_KEYS, ConfigResource
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import MovementPolicy
from counterpoise.model.words import name_brokers
from counterpoise.units import MIN_RATE_BYTES_PER_SECOND, format_rate

RATE_HEADROOM: Final = 1.25  # a throttle that only equals the inflow never catches up
SHARE_OF_ROOM: Final = 0.8  # of what a link has left

# Moving one of their partitions moves the coordinator of groups or transactions, and their clients
# look it up anew.
COORDINATOR_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state"}
)
# Brokers decide themselves what is deleted from these. By the last one, which metadata does not
# mark as internal, they find segments in remote storage (KIP-405).
BROKERS_OWN_TOPICS: Final = COORDINATOR_TOPICS | {"__remote_log_metadata"}
# What other balancers keep in a cluster, as patterns.
BALANCER_TOPICS: Final[Mapping[str, tuple[str, ...]]] = {
    "Cruise Control": (
        "__CruiseControlMetrics",
        "__KafkaCruiseControl*",
        "strimzi.cruisecontrol.*",
    ),
    "Confluent's balancer": ("_confluent_balancer*",),
}


def busiest_link_bytes(plan: RebalancePlan) -> int:
    """Return the most bytes that one broker has to send or to receive.

    Divided by the rate, that is the least time that the copying takes. Example: broker 1 sends
    30 GB, brokers 4 and 5 receive 15 GB each; that is 30 GB, 1500 s at 20 MB/s.
    """
    sent: defaultdict[int, int] = defaultdict(int)
    received: defaultdict[int, int] = defaultdict(int)
    moves = plan.columns
    for leader_id, copied_bytes in zip(moves.leaders_before, moves.copied_bytes, strict=True):
        if leader_id >= 0:
            sent[leader_id] += copied_bytes
    for adding, size_bytes in zip(moves.adding, moves.sizes_bytes, strict=True):
        for broker_id in adding:
            received[broker_id] += size_bytes
    return max([0, *sent.values(), *received.values()])


def cross_rack_bytes(plan: RebalancePlan) -> int:
    """Return the bytes copied from one rack to another, for which clouds charge.

    Brokers without a rack count as one rack.
    """
    racks = {figure.broker_id: figure.rack for figure in plan.figures}
    moves = plan.columns
    return sum(
        size_bytes
        for leader_id, adding, size_bytes in zip(
            moves.leaders_before, moves.adding, moves.sizes_bytes, strict=True
        )
        for broker_id in adding
        if leader_id >= 0 and racks.get(leader_id) != racks.get(broker_id)
    )


def max_moves_at_once(policy: MovementPolicy) -> int:
    """Return how many partitions one broker may copy together."""
    return min(policy.max_moves_in_flight, policy.max_moves_in_flight_per_broker)


@dataclass(frozen=True, slots=True)
class Inflow:
    """What producers write to the partitions that one broker may copy at the same time."""

    broker_id: int
    sends: bool
    bytes_per_second: int


def busiest_inflow(plan: RebalancePlan, max_moves: int | None = None) -> Inflow | None:
    """Return the direction of a broker with the highest inflow; None where no rate is known.

    Copies under a throttle at or below it may never end: what is written meanwhile has to be copied
    as well, by the leader and by each replica that is added (KIP-73). `max_moves` is how many
    partitions a broker copies together (None: all). Which they are is not known before, so they are
    those with the highest rates: of 5, 3 and 1 MB/s with `max_moves=2`, the inflow is 8 MB/s.
    """
    flows: defaultdict[tuple[int, bool], list[int]] = defaultdict(list)
    moves = plan.columns
    rows = zip(moves.leaders_before, moves.adding, moves.bytes_in_per_second, strict=True)
    for leader_id, adding, bytes_in_per_second in rows:
        if not adding or not bytes_in_per_second:
            continue
        for broker_id in adding:
            flows[broker_id, False].append(bytes_in_per_second)
        if leader_id >= 0:
            flows[leader_id, True].append(bytes_in_per_second)
    together = [
        Inflow(broker_id, sends, sum(rates if max_moves is None else nlargest(max_moves, rates)))
        for (broker_id, sends), rates in flows.items()
    ]
    return max(
        together,
        key=lambda flow: (flow.bytes_per_second, not flow.sends, -flow.broker_id),
        default=None,
    )


def default_limit(plan: RebalancePlan) -> int | None:
    """Return the dynamic default of the throttle rates that the plan's snapshot found; the lower
    one of both sides, in bytes per second.
    """
    return min(_rates_before(plan, {EVERY_BROKER}), default=None)


def effective_rate(plan: RebalancePlan, rate_bytes_per_second: int | None) -> int | None:
    """Return a rate, or the cluster's default where that is lower; None for no rate."""
    default = default_limit(plan)
    if rate_bytes_per_second is None or default is None:
        return rate_bytes_per_second
    return min(rate_bytes_per_second, default)


def limit_warning(plan: RebalancePlan, rate_bytes_per_second: int | None) -> str:
    """Return which limits of others are lower than a rate, and stay; "" where none is.

    Without a rate each of them is named, since it holds whatever rate is approved.
    """

    def is_lower(limit: int) -> bool:
        return rate_bytes_per_second is None or limit < rate_bytes_per_second

    texts = []
    default = default_limit(plan)
    if default is not None and is_lower(default):
        texts.append(
            f"the cluster's default of the throttle rates is {format_rate(default)}: no broker "
            "copies faster, whatever rate is approved, and a run does not change it; raise or "
            "delete it first where that is too slow (kafka-configs --entity-type brokers "
            "--entity-default)"
        )
    brokers = {setting.resource for setting in plan.settings_before} - {EVERY_BROKER}
    own = {b.name: min(_rates_before(plan, {b}), default=None) for b in brokers if b.is_broker}
    lower = {name: limit for name, limit in own.items() if limit is not None and is_lower(limit)}
    if lower:
        names = name_brokers(sorted(map(int, lower)))
        have = "has a throttle rate" if len(lower) == 1 else "have throttle rates"
        texts.append(
            f"{names} {have} already, {format_rate(min(lower.values()))} at the least: a run keeps "
            "what is lower than its own"
        )
    return "; ".join(texts)


def _rates_before(plan: RebalancePlan, resources: Set[ConfigResource]) -> list[int]:
    return [
        int(setting.value)
        for setting in plan.settings_before
        if setting.resource in resources and setting.key in RATE_KEYS and setting.value.isdecimal()
    ]


def rate_warning(
    plan: RebalancePlan, rate_bytes_per_second: int, max_moves: int | None = None
) -> str:
    """Return why a rate is too low, and which would do; "" where it is high enough.

    `max_moves` is how many partitions a broker copies together. What producers write meanwhile has
    to be copied as well (KIP-73).
    """
    busiest = busiest_inflow(plan, max_moves)
    if busiest is None or rate_bytes_per_second > busiest.bytes_per_second:
        return ""
    sends = "sends" if busiest.sends else "receives"
    inflow = format_rate(busiest.bytes_per_second)
    enough = format_rate(min_rate_bytes_per_second(busiest.bytes_per_second))
    return (
        f"at {format_rate(rate_bytes_per_second)} the copies may never end: producers write "
        f"{inflow} to the partitions that broker {busiest.broker_id} {sends} at once; "
        f"take at least {enough}"
    )


def min_rate_bytes_per_second(inflow_bytes_per_second: int) -> int:
    """Return a rate clearly above an inflow, in two digits: 9.7 MB/s for 7.7 MB/s."""
    wanted = inflow_bytes_per_second * RATE_HEADROOM
    step = _step_of_two_digits(wanted)
    return math.ceil(wanted / step) * step


def rate_with_room(
    plan: RebalancePlan, link_capacity_bytes_per_second: int, max_moves: int | None = None
) -> int | None:
    """Return 80 % of what the busiest broker's link has left; None where no rate is known.

    A broker receives what producers write to the partitions it leads and, for each of its other
    replicas, the mean of all partitions; as a leader it sends what it receives to the other
    replicas. What consumers read is not known: the fifth that is kept is for them. The result is
    never too low for what producers write to the moving partitions.
    """
    known = [figure for figure in plan.figures if figure.bytes_in_before is not None]
    partitions = sum(figure.leaders_before for figure in known)
    if not partitions:
        return None
    total_inflow = sum(figure.bytes_in_before or 0 for figure in known)
    replication_factor = sum(figure.replicas_before for figure in known) / partitions
    busiest = 0.0
    for figure in known:
        as_leader = figure.bytes_in_before or 0
        followers = max(0, figure.replicas_before - figure.leaders_before)
        received = as_leader + followers * total_inflow / partitions
        sent = as_leader * (replication_factor - 1)
        busiest = max(busiest, received, sent)
    room = max(0.0, link_capacity_bytes_per_second - busiest) * SHARE_OF_ROOM
    step = _step_of_two_digits(room)
    inflow = busiest_inflow(plan, max_moves)
    needed = min_rate_bytes_per_second(inflow.bytes_per_second) if inflow else 0
    return max(math.floor(room / step) * step, needed, MIN_RATE_BYTES_PER_SECOND)


def suggested_rate(plan: RebalancePlan, policy: MovementPolicy) -> int | None:
    """Return the bytes per second that leave room for clients on every link.

    None without a link capacity in the policy, or where the plan knows no rates of clients.
    """
    capacity = policy.link_capacity_bytes_per_second
    return None if capacity is None else rate_with_room(plan, capacity, max_moves_at_once(policy))


def default_rate(plan: RebalancePlan, policy: MovementPolicy) -> int:
    """Return the bytes per second that an approver is offered: the policy's rate, or less where the
    links have less room.
    """
    suggested = suggested_rate(plan, policy)
    capacity = policy.link_capacity_bytes_per_second
    rates = (policy.rate_bytes_per_second, suggested, capacity)
    return min(rate for rate in rates if rate)


def _step_of_two_digits(rate: float) -> int:
    return int(10 ** max(0, math.floor(math.log10(max(1.0, rate))) - 1))
