"""Rounds: the steps of a goal repeated for as long as they make the cluster strictly more even.

    in_rounds(placement, roles, tolerance_percent, one_round)

A round that does not improve the measure is taken back. Partitions that got a new replica stay touched, so that others
go first; only when nothing more can be done without them, all are free again. So what remains is a state that another
planning would leave as it is: planning again on the result moves nothing. Most plans are done after the first round.
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
        earlier, touched = placement.replicas.copy(), placement.touched.copy()
        one_round()
        unevenness = _unevenness(placement, roles, tolerance_percent)
        if unevenness < reached:
            reached = unevenness
            if _is_even(placement, roles, unevenness[2]):
                return
            continue
        placement.reset_to(earlier)
        if not touched.any():
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
