"""Selection: which of its replicas a broker gives, so many with so many bytes in all.

    chosen = choose(np.array([1, 2, 4, 8]), count=2, wanted_sum=9)     # positions 0 and 3

    1. slide a window over the sizes, smallest first, until its sum reaches the wanted one
    2. exchange one size inside for one outside, the pair that leaves least, up to 6 times

Worked example: two of [1, 2, 4, 8] that sum to 9. The windows have 3, 6 and 12, so it starts with
4 + 8 = 12, which is 3 too many. To exchange 4 for 1 leaves nothing over: 1 + 8 = 9.

Two or three exchanges are enough for a remainder far below 0.1 %.
"""

import numpy as np

from counterpoise.model.columns import Flags, Ints

_MAX_EXCHANGES = 6


def sum_range(sorted_sizes: Ints, count: int) -> tuple[int, int]:
    """Return the least and the most that `count` of the sizes sum to."""
    if count <= 0:
        return 0, 0
    return int(sorted_sizes[:count].sum()), int(sorted_sizes[-count:].sum())


def choose(sorted_sizes: Ints, count: int, wanted_sum: int) -> Ints:
    """Return positions of `count` sizes (or of all) whose sum is near `wanted_sum`."""
    if count >= len(sorted_sizes):
        return np.arange(len(sorted_sizes))
    if count <= 0:
        return np.arange(0)
    sums_before = np.concatenate(([0], np.cumsum(sorted_sizes)))
    window_sums = sums_before[count:] - sums_before[:-count]
    start = min(int(np.searchsorted(window_sums, wanted_sum)), len(window_sums) - 1)
    is_chosen = np.zeros(len(sorted_sizes), dtype=np.bool_)
    is_chosen[start : start + count] = True
    excess = int(window_sums[start]) - wanted_sum
    for _ in range(_MAX_EXCHANGES):
        exchange = _best_exchange(sorted_sizes, is_chosen, excess)
        if exchange is None:
            break
        leaving, entering = exchange
        is_chosen[leaving], is_chosen[entering] = False, True
        excess -= int(sorted_sizes[leaving] - sorted_sizes[entering])
    return np.flatnonzero(is_chosen)


def _best_exchange(sizes: Ints, is_chosen: Flags, excess: int) -> tuple[int, int] | None:
    """Return positions (leaving, entering) that bring the excess nearest to 0, or None."""
    if excess == 0:
        return None
    chosen, others = np.flatnonzero(is_chosen), np.flatnonzero(~is_chosen)
    wanted_sizes = sizes[chosen] - excess
    next_larger = np.searchsorted(sizes[others], wanted_sizes)
    best: tuple[int, int, int] | None = None
    for neighbours in (next_larger, next_larger - 1):
        candidates = np.clip(neighbours, 0, len(others) - 1)
        remainders = np.abs(sizes[others[candidates]] - wanted_sizes)
        nearest = int(np.argmin(remainders))
        entering = int(others[candidates[nearest]])
        found = (int(remainders[nearest]), int(chosen[nearest]), entering)
        best = found if best is None else min(best, found)
    if best is None or best[0] >= abs(excess):
        return None
    return best[1], best[2]
