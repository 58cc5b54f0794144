"""Percentiles and means of values over time, weighed by how long each value lasted, for many groups
at once.

    by_group(values, seconds, groups, group_count=3, shares=(0.5, 0.95))     # 3 rows of 2

A percentile is a value that occurred: the smallest one at or below which that share of the time was
spent. Example: 5 for 10 s, 1 for 20 s and 9 for 10 s. In order of value, 1 lasts until 20 s, 5
until 30 s, 9 until 40 s. Half of the 40 s are over at 20 s, so the median is 1; 95 % at 38 s, so
the 95th percentile is 9.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from counterpoise.model.columns import Flags, Floats, Ints

_SELDOM: Final = 0.05  # of the time: what lasts no longer changes no 95 % of it
_ROUNDING: Final = 1e-9  # of a group's time: sums of floats differ by less


def by_group(
    values: Floats, seconds: Floats, groups: Ints, *, group_count: int, shares: Sequence[float]
) -> Floats:
    """Return the percentiles of `values`, a row per group and a column per share; NaN where nothing
    is known.

    A value that is NaN, lasted no time or has a group < 0 is left out.
    """
    is_known = _is_known(values, seconds, groups)
    values, seconds, groups = values[is_known], seconds[is_known], groups[is_known]
    order = np.lexsort((values, groups))  # by group, then by value
    values = values[order]
    elapsed = np.cumsum(seconds[order])  # at the end of each value, over all groups
    row_ends = np.cumsum(np.bincount(groups, minlength=group_count))
    row_starts = np.append(0, row_ends[:-1])
    has_values = row_ends > row_starts
    elapsed_from_zero = np.concatenate(([0.0], elapsed))
    group_starts = elapsed_from_zero[row_starts]
    group_seconds = elapsed_from_zero[row_ends] - group_starts
    percentiles = np.full((group_count, len(shares)), np.nan)
    for column, share in enumerate(shares):
        wanted = group_starts + group_seconds * (share - _ROUNDING)
        rows = np.searchsorted(elapsed, wanted, side="left")
        rows = np.minimum(rows, row_ends - 1)
        percentiles[has_values, column] = values[rows[has_values]]
    return percentiles


def means(values: Floats, seconds: Floats, groups: Ints, *, group_count: int) -> Floats:
    """Return the mean of `values` per group, NaN where nothing is known.

    What `by_group` leaves out is left out here. 5 for 10 s and 2 for 20 s have the mean 3.
    """
    is_known = _is_known(values, seconds, groups)
    values, seconds, groups = values[is_known], seconds[is_known], groups[is_known]
    sums = np.bincount(groups, weights=values * seconds, minlength=group_count)
    total_seconds = np.bincount(groups, weights=seconds, minlength=group_count)
    found = np.full(group_count, np.nan)
    np.divide(sums, total_seconds, out=found, where=total_seconds > 0)
    return found


def is_often(flags: Floats, seconds: Floats, groups: Ints, *, group_count: int) -> Flags:
    """Return for each group whether `flags` (1 or 0, NaN where not known) were 1 for more than a
    twentieth of the time.
    """
    shares = means(flags, seconds, groups, group_count=group_count)
    return np.nan_to_num(shares) > _SELDOM


def _is_known(values: Floats, seconds: Floats, groups: Ints) -> Flags:
    return np.isfinite(values) & (np.nan_to_num(seconds) > 0) & (groups >= 0)
