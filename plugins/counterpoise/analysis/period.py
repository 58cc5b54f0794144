"""The snapshots that rates of a period are taken from, and for how long each rate lasted.

period = Period(read_series(series, cluster="demo", since=None, until=None))
seconds_of_rates(series, "demo")     # by snapshot id, without those after a gap
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.analysis.columns import SeriesColumns, read_series
from counterpoise.model.columns import Floats, Ints, positions_in


class Period:
    """The snapshots of one cluster since it was last rebuilt: those of `columns` from the index
    `first` on, and how long the rates of each lasted.
    """

    def __init__(self, columns: SeriesColumns) -> None:
        self.columns = columns
        self.seconds = _seconds(columns)
        self._ids = pa.array(columns.snapshot_ids, pa.string())

    @property
    def latest_id(self) -> str:
        return self.columns.snapshot_ids[-1]

    def snapshot_indexes(self, table: pa.Table) -> Ints:
        """Return the snapshot of each row; -1 for a row that is not of the period."""
        indexes = positions_in(table["snapshot_id"], self._ids)
        return np.where(indexes >= self.columns.first, indexes, -1)

    def rows_now(self, table: pa.Table) -> pa.Table:
        """Return the rows of the latest snapshot."""
        return table.filter(pc.equal(table["snapshot_id"], self.latest_id))


def _seconds(columns: SeriesColumns) -> Floats:
    """Return how long the rates of each snapshot lasted; NaN where that is not known, and over a
    gap.
    """
    seconds = np.full(columns.snapshot_count, np.nan)
    for index in range(columns.first, columns.snapshot_count):
        changes = columns.changes[index]
        if changes is not None and changes.seconds:
            seconds[index] = changes.seconds
    seconds[list(columns.breaks.after_gap)] = np.nan
    return seconds


def seconds_of_rates(series: pa.Table, cluster: str) -> dict[str, float]:
    """Return how many seconds the rates of each snapshot of a series lasted; those that do not
    count, after a gap or of a cluster that was just rebuilt, are not in it.
    """
    columns = read_series(series, cluster=cluster, since=None, until=None)
    after_gap = set(columns.breaks.after_gap)
    return {
        snapshot_id: changes.seconds
        for index, snapshot_id in enumerate(columns.snapshot_ids)
        if (changes := columns.changes[index]) is not None
        and changes.seconds
        and not changes.is_rebuilt
        and index not in after_gap
    }
