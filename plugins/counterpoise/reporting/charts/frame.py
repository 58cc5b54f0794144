"""What the pictures share: sizes, units, axes of dates."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDE: Final = 720.0
CARD: Final = 245.0
MAX_BAR_ROWS: Final = 12
MIN_COLOURED_WIDTH: Final = (
    2.0  # units; side by side, thinner columns of many colours only look grey
)

Unit = Callable[[float], str]


def day_numbers(times: Iterable[datetime]) -> list[float]:
    """Return the days as an axis of dates counts them."""
    from matplotlib.dates import date2num

    numbers: list[float] = date2num([time.replace(tzinfo=None) for time in times]).tolist()  # type: ignore[no-untyped-call]
    return numbers


def write_dates(axes: "Axes") -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(tz=UTC, minticks=3, maxticks=7)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    # From years to seconds: what a tick says, what it says at a boundary, and what stands once at
    # the end of the axis.
    ticks = ["%Y", "%b", "%d", "%H:%M", "%H:%M", "%H:%M:%S"]
    boundaries = ["", "%Y", "%d %b", "%d %b", "%H:%M", "%H:%M:%S"]
    once = ["", "%Y", "%b %Y", "%d %b %Y", "%d %b %Y", "%d %b %Y"]
    formatter = ConciseDateFormatter(  # type: ignore[no-untyped-call]
        locator, tz=UTC, formats=ticks, zero_formats=boundaries, offset_formats=once
    )
    axes.xaxis.set_major_formatter(formatter)
