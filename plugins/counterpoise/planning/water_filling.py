"""Water levels: the most even way to share whole units out, when each broker and each rack has its
bounds.

    fill(10, lower=[0, 0, 0], upper=[2, 9, 9], current=[2, 7, 1]) == [2, 4, 4]

Pour the total into vessels that stand side by side: all get the same level, except where a vessel's
bottom is higher or its rim lower. The units that do not divide go to those who hold most now, which
is what moves least.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from counterpoise.model.columns import Ints
from counterpoise.planning.arrays import UNBOUNDED

Weights: TypeAlias = NDArray[np.float64]

_LEAST_WEIGHT = 1e-6


def fill(
    total: int, lower: Ints, upper: Ints, current: Ints, weights: Weights | None = None
) -> Ints:
    """Shares that sum to `total` (or to the nearest sum the bounds allow), as even as the bounds
    allow.

    With `weights` (the largest is 1.0) the level of a vessel is that part of the common one: shares
    are even in proportion to them.
    """
    upper = np.maximum(lower, upper)
    level = _highest(
        lambda at: _sum(_poured(at, lower, upper, weights)), total, lower, upper, weights
    )
    shares = _poured(level, lower, upper, weights)
    rest = total - int(shares.sum())
    can_rise = np.flatnonzero(_poured(level + 1, lower, upper, weights) > shares)
    shares[_holding_most(can_rise, current)[: max(0, rest)]] += 1
    return shares


def fill_racks(
    total: int,
    lower: Ints,
    upper: Ints,
    current: Ints,
    racks: Ints,
    room: tuple[Ints, Ints],
    weights: Weights | None = None,
    *,
    rounds_down: bool = False,
) -> Ints:
    """As `fill`, with bounds for the sum over each rack as well: `room` has the least and the most
    per rack.

    With `rounds_down` no rack gets one of the units that do not divide among racks, and the shares
    sum to less.
    """
    upper = np.maximum(lower, upper)
    members = [racks == rack for rack in range(len(room[0]))]
    floors = np.array(
        [max(int(room[0][r]), int(lower[m].sum())) for r, m in enumerate(members)], dtype=np.int64
    )
    floors = np.minimum(floors, [min(UNBOUNDED, _sum(upper[m])) for m in members])
    rims = np.maximum(floors, room[1])

    def sums(level: int) -> Ints:
        shares = _poured(level, lower, upper, weights)
        natural = np.array([min(UNBOUNDED, _sum(shares[m])) for m in members], dtype=np.int64)
        return np.asarray(np.clip(natural, floors, rims), dtype=np.int64)

    level = _highest(lambda at: _sum(sums(at)), total, lower, upper, weights)
    rack_totals = sums(level)
    rise = sums(level + 1) - rack_totals
    rest = 0 if rounds_down else total - int(rack_totals.sum())
    can_rise = _poured(level + 1, lower, upper, weights) > _poured(level, lower, upper, weights)
    for broker in _holding_most(np.flatnonzero(can_rise), current):
        if rest > 0 and rise[racks[broker]] > 0:
            rack_totals[racks[broker]] += 1
            rise[racks[broker]] -= 1
            rest -= 1
    shares = np.zeros_like(lower)
    for rack, inside in enumerate(members):
        own = None if weights is None else weights[inside]
        shares[inside] = fill(
            int(rack_totals[rack]), lower[inside], upper[inside], current[inside], own
        )
    return shares


def relative(fair: Ints) -> Weights | None:
    """Fair shares as weights for `fill`; None where nothing is to be shared."""
    highest = int(fair.max(initial=0))
    return np.maximum(fair / highest, _LEAST_WEIGHT) if highest else None


def _poured(level: int, lower: Ints, upper: Ints, weights: Weights | None) -> Ints:
    surface = level if weights is None else np.floor(level * weights)
    return np.asarray(np.clip(surface, lower, upper), dtype=np.int64)


def _sum(values: Ints) -> int:
    """Exact: levels tried on the way can be so high that a sum of them leaves 64 bits."""
    return sum(values.tolist())


def _highest(
    total_at: Callable[[int], int],
    total: int,
    lower: Ints,
    upper: Ints,
    weights: Weights | None = None,
) -> int:
    """The highest level whose total is no more than `total`: totals rise with the level."""
    least = 1.0 if weights is None else float(weights.min(initial=1.0))
    low, high = int(lower.min(initial=0)), int(max(total, int(lower.max(initial=0))) / least) + 1
    while low < high:
        middle = (low + high + 1) // 2
        if total_at(middle) <= total:
            low = middle
        else:
            high = middle - 1
    return low


def _holding_most(brokers: Ints, current: Ints) -> Ints:
    return brokers[np.lexsort((brokers, -current[brokers]))]
