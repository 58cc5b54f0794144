"""Pandas frames of a snapshot and a plan, with a true/false column for what column expectations cannot say.

    frames = snapshot_frames(snapshot)       # {"brokers": ..., "topics": ..., "partitions": ..., "replicas": ...}

A fact is true where the row is as it should be; what is not known (a null) counts as right.
"""

from collections.abc import Callable, Sequence

import pandas as pd

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.request import Goal


def snapshot_frames(snapshot: ClusterSnapshot) -> dict[str, pd.DataFrame]:
    registered = frozenset(snapshot.registered_broker_ids)
    live = frozenset(snapshot.live_broker_ids)
    return {
        "brokers": _brokers(snapshot),
        "topics": _topics(snapshot),
        "partitions": _partitions(snapshot, registered, live),
        "replicas": _replicas(snapshot, registered),
        "log_dirs": _log_dirs(snapshot, registered),
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
            "keeps_or_nears_replication_factor": [_keeps_or_nears(plan, move) for move in moves],
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
                "peaks_no_lower_than_it_ends": figure.bytes_peak >= max(figure.bytes_before, figure.bytes_after),
                "leads_no_more_than_it_holds": figure.leaders_after <= figure.replicas_after,
            }
            for figure in plan.figures
        ]
    )
    return {"moves": frame, "figures": figures}


def _keeps_or_nears(plan: RebalancePlan, move: Move) -> bool:
    """As many replicas as before; where another number is the goal, nearer to that one and never beyond."""
    before, after = len(move.replicas_before), len(move.replicas_after)
    wanted = plan.replication_factor if plan.goal is Goal.REPLICATION_FACTOR else before
    return wanted is not None and min(before, wanted) <= after <= max(before, wanted)


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


def _log_dirs(snapshot: ClusterSnapshot, registered: frozenset[int]) -> pd.DataFrame:
    table = snapshot.log_dirs
    frame: pd.DataFrame = table.select(["broker_id", "log_dir", "total_bytes", "usable_bytes"]).to_pandas()
    sizes = zip(table["total_bytes"].to_pylist(), table["usable_bytes"].to_pylist(), strict=True)
    frame["broker_is_registered"] = frame["broker_id"].isin(registered)
    frame["usable_is_within_total"] = [total is None or usable is None or usable <= total for total, usable in sizes]
    return frame


def _both(told: Sequence[object], replicas: Sequence[list[int]], holds: Callable[..., bool]) -> list[bool]:
    return [one is None or holds(one, ids) for one, ids in zip(told, replicas, strict=True)]


def _differ(ids: Sequence[int]) -> bool:
    return len(set(ids)) == len(ids)
