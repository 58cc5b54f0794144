"""The pictures: bars per broker against the fair share, before and after, measures over time,
brokers over time.

    broker_bars(bars, name="leaders", label="Leaders per broker", unit=str, wide=True)

Few brokers become rows with a name and a number each; many become columns from most to least, where
only the ends are named. Limits: from some 2,000 brokers on, columns are thinner than a pixel.
"""

from counterpoise.reporting.charts.bands import EventBand
from counterpoise.reporting.charts.bars import Bar, broker_bars
from counterpoise.reporting.charts.frame import CARD, WIDE, Unit
from counterpoise.reporting.charts.heat import HEAT_LEVELS, heat_picture
from counterpoise.reporting.charts.lines import Line, over_time
from counterpoise.reporting.charts.pairs import Pair, before_after

__all__ = [
    "CARD",
    "HEAT_LEVELS",
    "WIDE",
    "Bar",
    "EventBand",
    "Line",
    "Pair",
    "Unit",
    "before_after",
    "broker_bars",
    "heat_picture",
    "over_time",
]
