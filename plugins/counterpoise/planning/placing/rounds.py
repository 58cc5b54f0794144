"""Rounds: the steps of a goal repeated for as long as they make the cluster strictly more even.

    in_rounds(placement, roles, policy, one_round)

A round that does not improve the measure is taken back. Partitions that got a new replica stay
touched, so that others go first; only when nothing more can be done without them, all are free
again, and at the very last a partition may even get a whole new replica set, where one was held
back for that. So what remains is a state that another planning would leave as it is: planning again
moves nothing. Most plans are done after the first round.
"""

from collections.abc import Callable

import numpy as np

from counterpoise.model.policy import BalancePolicy
from counterpoise.planning.placement import Placement
from counterpoise.planning.placing.racks import racks_missing
from counterpoise.planning.placing.targets import byte_band
from counterpoise.planning.placing.topic_exchange import topics_above
from counterpoise.planning.placing.topics import TopicShares
from counterpoise.planning.roles import Roles

_MOST_ROUNDS = 50


def in_rounds(
    placement: Placement, roles: Roles, policy: BalancePolicy, one_round: Callable[[], None]
) -> None:
    """Repeats `one_round`, which changes `placement`, until it improves nothing or nothing is left
    to improve.
    """
    reached = _unevenness(placement, roles, policy)
    for _ in range(_MOST_ROUNDS):
        earlier, touched = placement.replicas.copy(), placement.touched.copy()
        one_round()
        unevenness = _unevenness(placement, roles, policy)
        if unevenness < reached:
            reached = unevenness
            if _is_even(placement, roles, unevenness):
                return
            continue
        placement.reset_to(earlier)
        if not touched.any():
            if placement.may_replace_all or not placement.holds_back:
                return
            placement.may_replace_all = True


def _unevenness(
    placement: Placement, roles: Roles, policy: BalancePolicy
) -> tuple[int, int, int, int]:
    """Racks first, then counts, topics where the policy asks, bytes outside the band: the smaller
    the more even.
    """
    counts, held = placement.counts[roles.sharing].tolist(), placement.bytes_held
    band = byte_band(placement, roles, policy.bytes_tolerance_percent)
    outside = band.bytes_outside(held)
    racks = int(racks_missing(placement, roles.staying).sum())
    topics = 0
    if policy.topics_max_above_share is not None:
        shares = TopicShares.of(placement, roles, placement.counts)
        topics = topics_above(placement, roles, shares, policy.topics_max_above_share)
    return racks, sum(count * count for count in counts), topics, int(outside[roles.sharing].sum())


def _is_even(placement: Placement, roles: Roles, unevenness: tuple[int, int, int, int]) -> bool:
    """Where no broker both gives and takes, bytes do not count: one round trades all the arrivals
    that help them.
    """
    racks, _, topics, outside = unevenness
    may_help_bytes = bool((roles.sources & roles.destinations).any())
    is_left = racks or topics or (outside and may_help_bytes)
    return not is_left and int(np.ptp(placement.counts[roles.sharing])) <= 1
