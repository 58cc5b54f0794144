"""An analysis without Spark: what its jobs would write about the newest snapshot of `demo`.

analyse_by_hand(installation, {1: (6, 6, 0, 6, 180), 2: (0, 0, 0, 6, 180)})
analyse_by_hand(installation, held_by(kafka))
"""

from collections.abc import Mapping

import pyarrow as pa

from counterpoise.installation import Installation
from counterpoise.model.tables import BROKER_BALANCE, TOPIC_BALANCE
from counterpoise.services import snapshots
from tests.simulated_kafka.cluster import SimulatedCluster

# By broker: leaders, as they are and as preferred, leaders not preferred, replicas, bytes.
Held = Mapping[int, tuple[int, int, int, int, int]]


def held_by(kafka: SimulatedCluster) -> Held:
    """What the brokers hold now, each replica one byte large."""
    partitions = [partition for topic in kafka.describe_topics() for partition in topic.partitions]
    held = {}
    for broker_id in kafka.brokers:
        leaders = sum(partition.leader == broker_id for partition in partitions)
        preferred = sum(partition.replicas[0] == broker_id for partition in partitions)
        replicas = sum(broker_id in partition.replicas for partition in partitions)
        held[broker_id] = (leaders, preferred, 0, replicas, replicas)
    return held


def analyse_by_hand(installation: Installation, held: Held) -> None:
    """What the Spark job would write about the cluster's newest snapshot."""
    snapshots.make(installation, "demo", installation.clock())
    manifests = installation.archive.manifests(["demo"])
    newest = manifests.slice(manifests.num_rows - 1)
    (row,) = newest.to_pylist()
    about = {key: row[key] for key in ("cluster", "snapshot_id", "observed_at")}
    counts = ("leaders", "preferred_leaders", "leaders_not_preferred", "replicas", "bytes")
    brokers = [
        about
        | {"broker_id": b, "rack": None, "is_fenced": False}
        | dict(zip(counts, held[b], strict=True))
        for b in held
    ]
    folder = f"results/{{}}/round={row['snapshot_id']}/part.parquet"
    installation.archive.store.write_table(
        folder.format("broker_balance"), pa.Table.from_pylist(brokers, BROKER_BALANCE)
    )
    installation.archive.store.write_table(
        folder.format("topic_balance"), TOPIC_BALANCE.empty_table()
    )
    installation.results.finish_round(
        row["snapshot_id"], installation.clock(), [row | {"previous_snapshot_id": None}]
    )
    # Whoever reads the views next makes them anew, from this round, too.
    installation.archive.store.delete_folder("views/demo/")
