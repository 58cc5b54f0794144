"""How far apart two snapshots may be, and still be compared as neighbours.

    max_seconds(usual=86_405.0) == 216_012.5      # a snapshot a day
    max_seconds(usual=3_600.0) == 93_600.0        # one an hour: 26 hours

A mean over days would hide what happened in them, unless that is how often snapshots are made.
"""

from collections.abc import Sequence
from statistics import median
from typing import Final

GAP: Final = 2.5  # times the usual interval
# That a rate is a mean over, at most, where snapshots are made at least daily: a day, and a start
# that was late.
MAX_SECONDS: Final = 26 * 3600.0


MIN_INTERVALS: Final = 3  # that say how often snapshots are made


def usual_lately(seconds: Sequence[float]) -> float:
    """Return the median of the last three intervals, in seconds; 0 where there are fewer.

    So a schedule that became slower is known by its second interval: 1 h, 48 h and 48 h give 48 h.
    """
    return median(seconds[-MIN_INTERVALS:]) if len(seconds) >= MIN_INTERVALS else 0.0


def max_seconds(usual: float | None) -> float:
    """Return the longest time between two snapshots over which rates are told; `usual` is the
    interval at which snapshots are made, in seconds, None where it is not known.
    """
    return max(MAX_SECONDS, GAP * (usual or 0.0))
