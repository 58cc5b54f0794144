"""The assets that the Dags produce and wait for.

@dag(schedule=[FLEET_SNAPSHOT])
@dag(schedule=[Asset("fleet_snapshot", uri="counterpoise://snapshot/fleet")])    # the same
"""

from typing import Final

from airflow.sdk import Asset

from counterpoise.orchestration.asset_uris import (
    CLUSTER_SNAPSHOT_URI,
    FLEET_SNAPSHOT_URI,
    REBALANCE_WANTED_URI,
)

CLUSTER_SNAPSHOT: Final = Asset("cluster_snapshot", uri=CLUSTER_SNAPSHOT_URI)
FLEET_SNAPSHOT: Final = Asset("fleet_snapshot", uri=FLEET_SNAPSHOT_URI)
REBALANCE_WANTED: Final = Asset("rebalance_wanted", uri=REBALANCE_WANTED_URI)
