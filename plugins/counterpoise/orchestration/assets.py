"""The assets that the Dags produce and wait for.

@dag(schedule=[FLEET_SNAPSHOT])

Their names have ours in front: all Dags of an Airflow share one list of assets.
"""

from typing import Final

from airflow.sdk import Asset

from counterpoise.orchestration.asset_uris import (
    CLUSTER_SNAPSHOT_URI,
    FLEET_SNAPSHOT_URI,
    REBALANCE_WANTED_URI,
)

CLUSTER_SNAPSHOT: Final = Asset("counterpoise_cluster_snapshot", uri=CLUSTER_SNAPSHOT_URI)
FLEET_SNAPSHOT: Final = Asset("counterpoise_fleet_snapshot", uri=FLEET_SNAPSHOT_URI)
REBALANCE_WANTED: Final = Asset("counterpoise_rebalance_wanted", uri=REBALANCE_WANTED_URI)
