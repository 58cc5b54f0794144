"""A snapshot with brokers that are not there yet, to compare plans for them.

    snapshot, new_ids = with_new_brokers(snapshot, 2, rack="c")
    compare(snapshot, requests, policy)      # of `planning`

Nothing of it is stored: a plan with brokers that are not there cannot be approved.
"""

from collections import Counter
from dataclasses import replace
from typing import Final

import pyarrow as pa

from counterpoise.errors import InputError
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.planning import ComparedPlan, compare, plan_from

__all__ = ["MAX_NEW_BROKERS", "ComparedPlan", "compare", "plan_from", "with_new_brokers"]

MAX_NEW_BROKERS: Final = 1000


def with_new_brokers(
    snapshot: ClusterSnapshot, count: int, rack: str | None = None
) -> tuple[ClusterSnapshot, tuple[int, ...]]:
    """Return the snapshot with so many more brokers, and their ids, which follow the highest.

    Each gets the smallest disk of the live brokers, empty, and the given rack, or else the rack
    with the fewest live brokers. Raises InputError for a rack of the rackless, or no live broker.
    """
    live_rows = [row for row in snapshot.brokers.to_pylist() if not row["is_fenced"]]
    if not live_rows:
        raise InputError("--what-if-brokers: the cluster has no live broker to take as an example")
    first_id = max(snapshot.registered_broker_ids) + 1
    disks = [row["disk_total_bytes"] for row in live_rows]
    disk_bytes = None if None in disks else min(disks)
    sizes = Counter(row["rack"] for row in live_rows if row["rack"] is not None)
    rows = []
    for broker_id in range(first_id, first_id + count):
        smallest = min(sizes, key=lambda name: (sizes[name], name), default=None)
        own_rack = smallest if rack is None else rack
        if own_rack is not None:
            sizes[own_rack] += 1
        row = dict.fromkeys(snapshot.brokers.column_names)
        row |= {"broker_id": broker_id, "rack": own_rack, "is_fenced": False}
        rows.append(row | {"disk_total_bytes": disk_bytes, "disk_usable_bytes": disk_bytes})
    added = pa.Table.from_pylist(rows, snapshot.brokers.schema)
    tables = {**snapshot.tables, "brokers": pa.concat_tables([snapshot.brokers, added])}
    new_ids = tuple(range(first_id, first_id + count))
    return replace(snapshot, tables=tables), new_ids
