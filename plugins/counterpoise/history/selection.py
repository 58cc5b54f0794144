"""Which earlier snapshots of a cluster are read to look back from a present one. Pure.

    usual_interval(manifests)                   # the median time between the last snapshots
    recent_rows(manifests, snapshot, count=3, min_age=timedelta(minutes=30))
    rows_by_age(manifests, snapshot)            # about one for each hour, day, week back

`manifests` has the columns of SNAPSHOTS, oldest first.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Any, Final

import pyarrow as pa

from counterpoise.model.cluster import ClusterSnapshot

_INTERVALS: Final = 20
_AGES: Final = tuple(timedelta(hours=hours) for hours in (0, 1, 3, 6, 12, 24, 48, 96, 168))

Row = Mapping[str, Any]


def usual_interval(manifests: pa.Table) -> timedelta | None:
    """Return the median time between the last twenty snapshots; None for fewer than three."""
    times = manifests["observed_at"].to_pylist()[-_INTERVALS - 1 :]
    if len(times) < 3:
        return None
    intervals = [(after - before).total_seconds() for before, after in pairwise(times)]
    return timedelta(seconds=median(intervals))


def recent_rows(
    manifests: pa.Table, snapshot: ClusterSnapshot, *, count: int, min_age: timedelta
) -> list[Row]:
    """Return the newest `count` snapshots before this one, oldest first.

    Where none of them is `min_age` old, the newest that is so old stands before them: of snapshots
    10, 20, 30, 60 and 90 minutes ago those of 60, 20 and 10, with a count of 2 and 45 minutes.
    """
    rows = _rows_before(manifests, snapshot)
    recent = rows[max(0, len(rows) - count) :]
    old_enough = [row for row in rows if _age(row, snapshot) >= min_age]
    if old_enough and old_enough[-1] not in recent:
        return [old_enough[-1], *recent]
    return recent


def rows_by_age(manifests: pa.Table, snapshot: ClusterSnapshot) -> list[Row]:
    """Return for each of nine ages up to a week the newest snapshot of that age, newest first."""
    rows = _rows_before(manifests, snapshot)
    chosen: dict[str, Row] = {}
    for min_age in _AGES:
        old_enough = [row for row in rows if _age(row, snapshot) >= min_age]
        if old_enough:
            chosen.setdefault(old_enough[-1]["snapshot_id"], old_enough[-1])
    return list(chosen.values())


def _rows_before(manifests: pa.Table, snapshot: ClusterSnapshot) -> list[Row]:
    """Return the rows of snapshots made before this one, oldest first."""
    return [
        row
        for row in manifests.to_pylist()
        if row["snapshot_id"] != snapshot.snapshot_id and _age(row, snapshot) >= timedelta()
    ]


def _age(row: Row, snapshot: ClusterSnapshot) -> timedelta:
    observed_at: datetime = row["observed_at"]
    if snapshot.observed_at is None:
        return timedelta()
    return snapshot.observed_at - observed_at
