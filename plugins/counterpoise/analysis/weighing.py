"""Figures over time, weighed by how long each value stood: percentiles and means, of many things at
once.

    by_group(values, seconds, groups, group_count=3, shares=(0.5, 0.95))     # 3 rows of 2, NaN where nothing is known

A percentile is a value that was really there: the least one at which, or below which, that share of
the time was spent.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

_ROUNDING = 1e-9  # of a group's time: sums of floats differ by less


def by_group(
    values: Floats, seconds: Floats, groups: Ints, *, group_count: int, shares: Sequence[float]
) -> Floats:
    """Percentiles of `values` per group, one row each.

    What is NaN, lasted no time or has group < 0 is left out.
    """
    is_known = np.isfinite(values) & (np.nan_to_num(seconds) > 0) & (groups >= 0)
    values, seconds, groups = values[is_known], seconds[is_known], groups[is_known]
    order = np.lexsort((values, groups))
    values, until = values[order], np.cumsum(seconds[order])
    ends = np.cumsum(np.bincount(groups, minlength=group_count))
    has_any = np.diff(ends, prepend=0) > 0
    total = np.concatenate(([0.0], until))
    before, whole = total[np.append(0, ends[:-1])], total[ends] - total[np.append(0, ends[:-1])]
    found = np.full((group_count, len(shares)), np.nan)
    for column, share in enumerate(shares):
        wanted = before + whole * (share - _ROUNDING)
        at = np.minimum(np.searchsorted(until, wanted, side="left"), ends - 1)
        found[has_any, column] = values[at[has_any]]
    return found


def means(values: Floats, seconds: Floats, groups: Ints, *, group_count: int) -> Floats:
    """The mean of `values` per group, NaN where nothing is known.

    What `by_group` leaves out is left out here.
    """
    is_known = np.isfinite(values) & (np.nan_to_num(seconds) > 0) & (groups >= 0)
    groups = groups[is_known]
    sums = np.bincount(groups, weights=values[is_known] * seconds[is_known], minlength=group_count)
    time = np.bincount(groups, weights=seconds[is_known], minlength=group_count)
    found = np.full(group_count, np.nan)
    np.divide(sums, time, out=found, where=time > 0)
    return found
