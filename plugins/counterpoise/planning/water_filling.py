"""Shares of whole units by water filling: as even as bounds per broker and per rack allow.

    fill(10, lower=[0, 0, 0], upper=[2, 9, 9], loads=[2, 7, 1])    # [2, 4, 4]

The name is from information theory (Cover and Thomas, Elements of Information Theory, chapter 9):
pour the total into vessels that stand side by side; all get the same level, except where the
bottom of a vessel is higher (`lower`) or its rim is lower (`upper`).

    level    = the highest one with: sum of clip(level, lower, upper) <= total
    shares   = clip(level, lower, upper)
    leftover = total - sum of shares
    one unit each of the leftover to the brokers that the next level raises, largest `loads` first

Worked example, total 11, lower [0, 0, 0], upper [2, 9, 9], loads [2, 7, 1]: level 4 takes
2 + 4 + 4 = 10 units, level 5 would take 12, so the level is 4 and one unit is left over. The next
level raises the second and the third broker. The second holds more now (7), so it gets the unit:
[2, 5, 4]. That moves least: it has to give 2 replicas, not 3.

Limits: bounds that contradict the total win over it, so the shares then sum to the nearest total
that the bounds allow.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from counterpoise.model.columns import Ints
from counterpoise.planning.arrays import UNBOUNDED

Weights: TypeAlias = NDArray[np.float64]

_MIN_WEIGHT = 1e-6


def fill(total: int, lower: Ints, upper: Ints, loads: Ints, weights: Weights | None = None) -> Ints:
    """Return one share per broker: they sum to `total` and are as even as the bounds allow.

    With `weights` (the largest is 1.0) shares are even in proportion to them: a broker with weight
    0.5 is filled up to half of the common level.
    """
    upper = np.maximum(lower, upper)

    def shares_at(level: int) -> Ints:
        return _clip_level(level, lower, upper, weights)

    def total_at(level: int) -> int:
        return _exact_sum(shares_at(level))

    level = _max_level(total_at, total, lower, weights)
    shares = shares_at(level)
    leftover = max(0, total - int(shares.sum()))
    rising = np.flatnonzero(shares_at(level + 1) > shares)
    receiving = _largest_first(rising, loads)[:leftover]
    shares[receiving] += 1
    return shares


def fill_racks(
    total: int,
    lower: Ints,
    upper: Ints,
    loads: Ints,
    racks: Ints,
    rack_bounds: tuple[Ints, Ints],
    weights: Weights | None = None,
    *,
    rounds_down: bool = False,
) -> Ints:
    """Return shares as `fill` does, where the sum over each rack is bounded as well.

    `racks` has the rack of each broker, `rack_bounds` the smallest and the largest sum per rack.
    First the racks are filled to a common level, then each rack shares its total out among its
    brokers. With `rounds_down` no rack gets a unit of the leftover, so the shares sum to less.

    Worked example: total 9, brokers 0 and 1 in rack 0, broker 2 in rack 1, nothing else bounded but
    rack 1, which may have 2 units at most. Level 3 takes (3 + 3) + 2 = 8 units, level 4 would take
    10, so one unit is left over; it goes to rack 0, which then shares 7 units out: [4, 3, 2].
    """
    upper = np.maximum(lower, upper)
    brokers_of_rack = [np.flatnonzero(racks == rack) for rack in range(len(rack_bounds[0]))]
    min_totals, max_totals = _reachable_bounds(brokers_of_rack, lower, upper, rack_bounds)

    def shares_at(level: int) -> Ints:
        return _clip_level(level, lower, upper, weights)

    def rack_totals_at(level: int) -> Ints:
        rack_totals = _sum_per_rack(brokers_of_rack, shares_at(level))
        return np.asarray(np.clip(rack_totals, min_totals, max_totals), dtype=np.int64)

    level = _max_level(lambda level: _exact_sum(rack_totals_at(level)), total, lower, weights)
    rack_totals = rack_totals_at(level)
    if not rounds_down:
        rack_rise = rack_totals_at(level + 1) - rack_totals
        rising = np.flatnonzero(shares_at(level + 1) > shares_at(level))
        receiving_racks = racks[_largest_first(rising, loads)]
        leftover = total - int(rack_totals.sum())
        rack_totals += _leftover_per_rack(receiving_racks, rack_rise, leftover)
    shares = np.zeros_like(lower)
    for rack, brokers in enumerate(brokers_of_rack):
        shares[brokers] = fill(
            int(rack_totals[rack]),
            lower[brokers],
            upper[brokers],
            loads[brokers],
            None if weights is None else weights[brokers],
        )
    return shares


def relative(fair_shares: Ints) -> Weights | None:
    """Return fair shares as weights for `fill`; None where nothing is to be shared."""
    largest = int(fair_shares.max(initial=0))
    if not largest:
        return None
    return np.maximum(fair_shares / largest, _MIN_WEIGHT)


def highest_level(total_at: Callable[[int], int], total: int, low: int, high: int) -> int:
    """Return the highest level from `low` to `high` whose total is at most `total`, by bisection.

    `total_at` must not fall as the level rises, and is taken to be at most `total` at `low`.
    """
    while low < high:
        middle = (low + high + 1) // 2
        if total_at(middle) <= total:
            low = middle
        else:
            high = middle - 1
    return low


def _leftover_per_rack(receiving_racks: Ints, rack_rise: Ints, leftover: int) -> Ints:
    """Return the units of the leftover that each rack gets, no more than it may rise."""
    units = np.zeros_like(rack_rise)
    for rack in receiving_racks.tolist():
        if leftover > 0 and units[rack] < rack_rise[rack]:
            units[rack] += 1
            leftover -= 1
    return units


def _reachable_bounds(
    brokers_of_rack: list[Ints], lower: Ints, upper: Ints, rack_bounds: tuple[Ints, Ints]
) -> tuple[Ints, Ints]:
    """Return the bounds per rack, widened where the bounds of its brokers contradict them."""
    lower_sums = np.array([lower[brokers].sum() for brokers in brokers_of_rack], dtype=np.int64)
    upper_sums = _sum_per_rack(brokers_of_rack, upper)
    min_totals = np.minimum(np.maximum(rack_bounds[0], lower_sums), upper_sums)
    max_totals = np.maximum(rack_bounds[1], min_totals)
    return min_totals, max_totals


def _sum_per_rack(brokers_of_rack: list[Ints], values: Ints) -> Ints:
    sums = [min(UNBOUNDED, _exact_sum(values[brokers])) for brokers in brokers_of_rack]
    return np.array(sums, dtype=np.int64)


def _clip_level(level: int, lower: Ints, upper: Ints, weights: Weights | None) -> Ints:
    """Return what each broker has when all are filled up to a level, as far as its bounds allow."""
    weighted_level = level if weights is None else np.floor(level * weights)
    return np.asarray(np.clip(weighted_level, lower, upper), dtype=np.int64)


def _exact_sum(values: Ints) -> int:
    """Return the sum as a Python number: with the highest levels tried, 64 bits overflow."""
    return sum(values.tolist())


def _max_level(
    total_at: Callable[[int], int], total: int, lower: Ints, weights: Weights | None
) -> int:
    """Return the highest level whose total is at most `total`, for shares within bounds."""
    smallest_weight = 1.0 if weights is None else float(weights.min(initial=1.0))
    largest_need = max(total, int(lower.max(initial=0)))
    low = int(lower.min(initial=0))
    high = int(largest_need / smallest_weight) + 1
    return highest_level(total_at, total, low, high)


def _largest_first(brokers: Ints, loads: Ints) -> Ints:
    return brokers[np.lexsort((brokers, -loads[brokers]))]
