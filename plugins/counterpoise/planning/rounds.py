"""Rounds: the steps of a goal repeated for as long as they make the cluster strictly more even.

    in_rounds(placement, roles, tolerance_percent, one_round)

A round that does not improve the measure is taken back. So what remains is a state that another planning would leave
as it is: planning again on the result moves nothing. Within a round a partition gives at most one replica where
possible; most plans are done after the first.
"""

from collections.abc import Callable

import numpy as np

from counterpoise.planning.placement import Placement
from counterpoise.planning.racks import badly_racked, stacked_pairs
from counterpoise.planning.roles import Roles
from counterpoise.planning.targets import byte_band

_MOST_ROUNDS = 50


def in_rounds(placement: Placement, roles: Roles, tolerance_percent: int, one_round: Callable[[], None]) -> None:
    """Repeats `one_round`, which changes `placement`, until it improves nothing or nothing is left to improve."""
    reached = _unevenness(placement, roles, tolerance_percent)
    for _ in range(_MOST_ROUNDS):
        earlier = placement.replicas.copy()
        one_round()
        unevenness = _unevenness(placement, roles, tolerance_percent)
        if unevenness >= reached:
            placement.reset_to(earlier)
            return
        reached = unevenness
        placement.touched[:] = False
        if _is_even(placement, roles, unevenness[2]):
            return


def _unevenness(placement: Placement, roles: Roles, tolerance_percent: int) -> tuple[int, int, int]:
    """Racks first, then counts, then bytes outside the band: the smaller the more even."""
    counts, held = placement.counts[roles.sharing].tolist(), placement.bytes_held
    band = byte_band(placement, roles, tolerance_percent)
    outside = np.maximum(0, np.maximum(band.lowest - held, held - band.highest))
    pairs = int(stacked_pairs(placement).sum())
    return pairs, sum(count * count for count in counts), int(outside[roles.sharing].sum())


def _is_even(placement: Placement, roles: Roles, bytes_outside: int) -> bool:
    counts = placement.counts[roles.sharing]
    return bytes_outside == 0 and int(np.ptp(counts)) <= 1 and not len(badly_racked(placement, roles.staying))
