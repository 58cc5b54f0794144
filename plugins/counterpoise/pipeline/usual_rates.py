"""The rate at which producers usually write to each partition, for plans and for the audit.

usual_bytes_in(installation, snapshot, ["demo-20260131T110000Z", "demo-20260131T120000Z"])
"""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from counterpoise import analysis
from counterpoise.installation import Installation
from counterpoise.model.cluster import ClusterSnapshot

# A week of hourly snapshots of 30,000 partitions, a day of 200,000.
MAX_ROWS_OF_RATES: Final = 5_000_000
_GOLDEN_RATIO: Final = 0.6180339887498949


def usual_bytes_in(
    installation: Installation, snapshot: ClusterSnapshot, snapshot_ids: Sequence[str]
) -> pa.Array:
    """Return the mean rate over these snapshots of each partition of `snapshot`, in its order.

    Of a large cluster some of them are read. Null is not known.
    """
    max_count = max(1, MAX_ROWS_OF_RATES // max(1, snapshot.partitions.num_rows))
    read_ids = spread_out(snapshot_ids, max_count)
    partition_load = installation.results.table("partition_load", read_ids)
    return analysis.typical_bytes_in(partition_load, snapshot.partitions)


def spread_out(snapshot_ids: Sequence[str], max_count: int) -> tuple[str, ...]:
    """Return at most so many of the snapshots, from all over the period.

    Multiples of the golden ratio lie evenly, and at no fixed distance: every 24th of hourly
    snapshots would always be of the same hour.
    """
    by_place = sorted(range(len(snapshot_ids)), key=lambda index: index * _GOLDEN_RATIO % 1)
    return tuple(snapshot_ids[index] for index in sorted(by_place[:max_count]))
