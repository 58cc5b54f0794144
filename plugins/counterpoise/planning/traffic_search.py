"""What both searches for even traffic share: that of replicas, and that of leaders.

for heavy, light in pairs_with(broker, able, above_fair, MAX_PARTNERS): ...
rows = sample_by_rate(partitions, rates)     # at most 200 of them
"""

from typing import Final

import numpy as np

from counterpoise.model.columns import Ints
from counterpoise.model.evenness import ByteBand

AIM_PERCENT: Final = 75  # of the tolerance, so that slightly other rates start nothing new
MAX_PARTNERS: Final = 12
_MAX_SAMPLE: Final = 200
_MIN_GAINS_IN_MEAN: Final = 2000


def min_gain_of(band: ByteBand) -> int:
    """Return the bytes per second below which a gain is not worth a change."""
    return max(1, int(band.fair.max(initial=0)) // _MIN_GAINS_IN_MEAN)


def pairs_with(
    broker: int, able: Ints, above_fair: Ints, max_partners: int
) -> list[tuple[int, int]]:
    """Return pairs (heavy, light) of a broker and others that are able, the other end first.

    `above_fair` has, for every broker, what it takes in above its fair share.
    """
    is_heavy = bool(above_fair[broker] > 0)
    others = able[able != broker]
    order = np.lexsort((others, above_fair[others] if is_heavy else -above_fair[others]))
    partners = others[order][:max_partners].tolist()
    return [(broker, other) if is_heavy else (other, broker) for other in partners]


def sample_by_rate(partitions: Ints, rates: Ints) -> Ints:
    """Return rows of `partitions` from the lowest rate to the highest, in even steps.

    `rates` has one for each partition of the cluster.
    """
    order = np.lexsort((partitions, rates[partitions]))
    if len(order) <= _MAX_SAMPLE:
        return order
    return np.asarray(order[np.linspace(0, len(order) - 1, _MAX_SAMPLE).astype(np.int64)])
