"""Which of its replicas a broker gives: so many, with so many bytes in all, exactly or nearly.

    chosen = choose(np.array([1, 2, 4, 8]), count=2, wanted_sum=9)     # positions of 1 and 8

The sizes come in ascending order. A window of `count` neighbours is slid to the wanted sum, then
single swaps with sizes outside the window close what is left. Two or three swaps are enough for a
remainder far below 0.1 %.
"""

import numpy as np

from counterpoise.model.columns import Ints

_MOST_SWAPS = 6


def sum_range(sorted_sizes: Ints, count: int) -> tuple[int, int]:
    """The least and the most that `count` of the sizes sum to."""
    if count <= 0:
        return 0, 0
    return int(sorted_sizes[:count].sum()), int(sorted_sizes[-count:].sum())


def choose(sorted_sizes: Ints, count: int, wanted_sum: int) -> Ints:
    """Positions of `count` sizes whose sum is near `wanted_sum`; all of them when there are no
    more.
    """
    if count >= len(sorted_sizes):
        return np.arange(len(sorted_sizes))
    if count <= 0:
        return np.arange(0)
    prefix = np.concatenate(([0], np.cumsum(sorted_sizes)))
    sums = prefix[count:] - prefix[:-count]
    start = min(int(np.searchsorted(sums, wanted_sum)), len(sums) - 1)
    inside = np.zeros(len(sorted_sizes), dtype=np.bool_)
    inside[start : start + count] = True
    excess = int(sums[start]) - wanted_sum
    for _ in range(_MOST_SWAPS):
        swap = _best_swap(sorted_sizes, inside, excess)
        if swap is None:
            break
        out, into = swap
        inside[out], inside[into] = False, True
        excess -= int(sorted_sizes[out] - sorted_sizes[into])
    return np.flatnonzero(inside)


def _best_swap(
    sizes: Ints, inside: "np.typing.NDArray[np.bool_]", excess: int
) -> tuple[int, int] | None:
    """The pair (leaves, enters) that brings the excess nearest to 0; None when no pair brings it
    nearer.
    """
    if excess == 0:
        return None
    members, others = np.flatnonzero(inside), np.flatnonzero(~inside)
    wanted = sizes[members] - excess
    after = np.searchsorted(sizes[others], wanted)
    best: tuple[int, int, int] | None = None
    for shift in (0, -1):
        candidates = np.clip(after + shift, 0, len(others) - 1)
        left = np.abs(sizes[others[candidates]] - wanted)
        at = int(np.argmin(left))
        found = (int(left[at]), int(members[at]), int(others[candidates[at]]))
        best = found if best is None else min(best, found)
    return None if best is None or best[0] >= abs(excess) else (best[1], best[2])
