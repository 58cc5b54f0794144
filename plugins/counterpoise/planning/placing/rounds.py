"""Rounds: the steps of a goal, repeated for as long as they make the cluster strictly more even.

    in_rounds(placement, roles, policy, one_round)

    repeat: one round
        more even than before: keep it
        else: take it back
            if partitions were touched: all are free again, try once more
            if some partition may not replace its last old replica: allow it, try once more
            else: done

Partitions that got a new replica stay touched, so that others go first. What remains in the end is
a state that another planning would leave as it is: to plan again moves nothing. Most plans are done
after the first round.
"""

from collections.abc import Callable

import numpy as np

from counterpoise.model.policy import BalancePolicy
from counterpoise.planning.placement import Placement, Roles
from counterpoise.planning.placing.swaps import topics_above
from counterpoise.planning.placing.targets import byte_band, racks_missing
from counterpoise.planning.placing.topics import TopicShares

_MAX_ROUNDS = 50

_Unevenness = tuple[int, int, int, int]  # racks, counts, topics, bytes: the smaller the more even


def in_rounds(
    placement: Placement, roles: Roles, policy: BalancePolicy, one_round: Callable[[], None]
) -> None:
    """Repeat `one_round`, which changes `placement`, until it improves nothing or all is even."""
    reached = _unevenness(placement, roles, policy)
    for _ in range(_MAX_ROUNDS):
        earlier, was_touched = placement.replicas.copy(), placement.touched.any()
        one_round()
        unevenness = _unevenness(placement, roles, policy)
        if unevenness < reached:
            reached = unevenness
            if _is_even(placement, roles, unevenness):
                return
            continue
        placement.reset_to(earlier)
        if not was_touched:
            if placement.may_replace_all or not placement.holds_back:
                return
            placement.may_replace_all = True


def _unevenness(placement: Placement, roles: Roles, policy: BalancePolicy) -> _Unevenness:
    """Return racks first, then counts, then topics where the policy asks, then bytes."""
    counts = placement.counts[roles.sharing].tolist()
    squared_counts = sum(count * count for count in counts)
    band = byte_band(placement, roles, policy.bytes_tolerance_percent)
    bytes_outside = band.bytes_outside(placement.bytes_held)[roles.sharing]
    racks = int(racks_missing(placement, roles.staying).sum())
    topics = 0
    if policy.topics_max_above_share is not None:
        shares = TopicShares.of(placement, roles, placement.counts)
        topics = topics_above(placement, roles, shares, policy.topics_max_above_share)
    return racks, squared_counts, topics, int(bytes_outside.sum())


def _is_even(placement: Placement, roles: Roles, unevenness: _Unevenness) -> bool:
    """Return whether no further round can help.

    Where no broker both gives and receives, bytes do not count: one round trades all arrivals that
    help them.
    """
    racks, _, topics, bytes_outside = unevenness
    may_help_bytes = bool((roles.sources & roles.destinations).any())
    if racks or topics or (bytes_outside and may_help_bytes):
        return False
    return int(np.ptp(placement.counts[roles.sharing])) <= 1
