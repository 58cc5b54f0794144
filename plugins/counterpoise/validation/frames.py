"""Pandas frames of a snapshot and a plan, with a true/false column for what column expectations cannot say.

    frames = snapshot_frames(snapshot)       # {"brokers": ..., "topics": ..., "partitions": ..., "replicas": ...}

A fact is true where the row is as it should be; what is not known (a null) counts as right.
"""

from collections.abc import Callable, Sequence

import pandas as pd

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.plan import RebalancePlan


def snapshot_frames(snapshot: ClusterSnapshot) -> dict[str, pd.DataFrame]:
    registered = frozenset(snapshot.registered_broker_ids)
    live = frozenset(snapshot.live_broker_ids)
    return {
        "brokers": _brokers(snapshot),
        "topics": _topics(snapshot),
        "partitions": _partitions(snapshot, registered, live),
        "replicas": _replicas(snapshot, registered),
    }


def plan_frames(plan: RebalancePlan) -> dict[str, pd.DataFrame]:
    moves = plan.moves
    frame = pd.DataFrame(
        {
            "topic": pd.Series([move.topic for move in moves], dtype=object),
            "partition": pd.Series([move.partition for move in moves], dtype="int64"),
            "size_bytes": pd.Series([move.size_bytes for move in moves], dtype="int64"),
            "has_replicas": [bool(move.replicas_after) for move in moves],
            "names_each_broker_once": [_differ(move.replicas_after) for move in moves],
            "keeps_replication_factor": [len(move.replicas_after) == len(move.replicas_before) for move in moves],
            "keeps_an_old_replica_or_leader_can_copy": [
                bool(set(move.replicas_after) & set(move.replicas_before)) or move.leader_before >= 0 for move in moves
            ],
        }
    )
    figures = pd.DataFrame(
        [
            {
                "broker_id": figure.broker_id,
                "leaders_after": figure.leaders_after,
                "replicas_after": figure.replicas_after,
                "bytes_after": figure.bytes_after,
                "leads_no_more_than_it_holds": figure.leaders_after <= figure.replicas_after,
            }
            for figure in plan.figures
        ]
    )
    return {"moves": frame, "figures": figures}


def _brokers(snapshot: ClusterSnapshot) -> pd.DataFrame:
    frame: pd.DataFrame = snapshot.brokers.select(["broker_id", "rack", "is_fenced"]).to_pandas()
    frame["rack_is_named_or_absent"] = [rack is None or bool(str(rack).strip()) for rack in frame["rack"]]
    return frame


def _topics(snapshot: ClusterSnapshot) -> pd.DataFrame:
    frame: pd.DataFrame = snapshot.topics.select(["topic", "partition_count", "min_insync_replicas"]).to_pandas()
    found = snapshot.partitions["topic"].value_counts().to_pylist()
    by_topic = {row["values"]: row["counts"] for row in found}
    frame["partition_count_agrees"] = [
        by_topic.get(topic, 0) == count for topic, count in zip(frame["topic"], frame["partition_count"], strict=True)
    ]
    return frame


def _partitions(snapshot: ClusterSnapshot, registered: frozenset[int], live: frozenset[int]) -> pd.DataFrame:
    table = snapshot.partitions
    frame: pd.DataFrame = table.select(["topic", "partition", "size_bytes"]).to_pandas()
    replicas, isr, leaders = (table[column].to_pylist() for column in ("replicas", "isr", "leader"))
    known_topics = frozenset(snapshot.topics["topic"].to_pylist())
    frame["leader"] = pd.Series(leaders, dtype="Int64")
    frame["topic_is_known"] = [topic in known_topics for topic in frame["topic"]]
    frame["has_replicas"] = [bool(ids) for ids in replicas]
    frame["names_each_broker_once"] = [_differ(ids) for ids in replicas]
    frame["brokers_are_registered"] = [registered.issuperset(ids) for ids in replicas]
    frame["leader_is_a_replica"] = _both(leaders, replicas, lambda leader, ids: leader in ids)
    frame["leader_is_live"] = [leader is None or leader in live for leader in leaders]
    frame["isr_is_within_replicas"] = _both(isr, replicas, lambda in_sync, ids: set(in_sync) <= set(ids))
    return frame


def _replicas(snapshot: ClusterSnapshot, registered: frozenset[int]) -> pd.DataFrame:
    columns = ["topic", "partition", "broker_id", "position", "is_leader", "size_bytes"]
    frame: pd.DataFrame = snapshot.replicas.select(columns).to_pandas()
    frame["broker_is_registered"] = frame["broker_id"].isin(registered)
    return frame


def _both(told: Sequence[object], replicas: Sequence[list[int]], holds: Callable[..., bool]) -> list[bool]:
    return [one is None or holds(one, ids) for one, ids in zip(told, replicas, strict=True)]


def _differ(ids: Sequence[int]) -> bool:
    return len(set(ids)) == len(ids)
