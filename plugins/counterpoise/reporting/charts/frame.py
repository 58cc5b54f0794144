"""What the pictures share: sizes, units, axes of values and of dates."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from counterpoise.reporting.svg import FAIR, SURFACE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDE: Final = 720.0
CARD: Final = 245.0
MAX_BAR_ROWS: Final = 12
MIN_COLOURED_WIDTH: Final = (
    2.0  # units; side by side, thinner columns of many colours only look grey
)

# What lies under a number, so that a line that crosses it does not strike it through.
PLATE: Final = {"facecolor": SURFACE, "edgecolor": "none", "pad": 0.8}
FAIR_LINE: Final[dict[str, Any]] = {"color": FAIR, "linewidth": 1.3, "linestyle": (0, (5, 2))}

Unit = Callable[[float], str]


def value_axis(axis: Any, unit: Unit) -> None:
    """Set few, round ticks; whole numbers only, since brokers, replicas and bytes are."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=4, integer=True, min_n_ticks=1))
    axis.set_major_formatter(FuncFormatter(lambda value, _: unit(value)))


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
