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


_LATE_SECONDS: Final = 1800.0  # that a snapshot may be made after its time, whatever the interval

MIN_INTERVALS: Final = 3  # that say how often snapshots are made


def usual_lately(seconds: Sequence[float]) -> float:
    """Return the median of the last three intervals, in seconds; 0 where there are fewer.

    So a schedule that became slower is known by its second interval: 1 h, 48 h and 48 h give 48 h.
    """
    return median(seconds[-MIN_INTERVALS:]) if len(seconds) >= MIN_INTERVALS else 0.0


def is_as_scheduled(seconds: float, scheduled_seconds: float) -> bool:
    """Return whether about as much time passed between two snapshots as between the times that they
    were scheduled for: half an hour more or less, or half of it.

    If not, a clock jumped, or one of them was made long after its time. Snapshots of 10:00 and
    11:00 of which both clocks said 11:00 would make an hour's bytes those of a second.
    """
    slack = max(_LATE_SECONDS, abs(scheduled_seconds) / 2)
    return abs(seconds - scheduled_seconds) <= slack


def max_seconds(usual: float | None) -> float:
    """Return the longest time between two snapshots over which rates are told; `usual` is the
    interval at which snapshots are made, in seconds, None where it is not known.
    """
    return max(MAX_SECONDS, GAP * (usual or 0.0))
