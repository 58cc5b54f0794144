"""Pandas frames of a snapshot and a plan, with a true/false column for what column expectations
cannot say.

    frames = snapshot_frames(snapshot)       # {"brokers": ..., "topics": ..., ...}

The facts of a snapshot are those of `facts`; those of a plan are here, since only Great
Expectations asks for them.

Data Docs (Great Expectations 1.24) put values into their HTML unescaped: a topic with a hostile
name would run as a script. So the characters that mean something in HTML, scripts or templates go
in percent-encoded (`<` as %3C), and examples are decoded again.
"""

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote, unquote

import pandas as pd
import pyarrow as pa

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.request import Goal
from counterpoise.validation.facts import snapshot_facts

_INTEGER_TYPES: Final = {pa.int32(): pd.Int32Dtype(), pa.int64(): pd.Int64Dtype()}

_HARMLESS: Final = " /:,;=()[]@+!*|^?~"


def harmless(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with percent-encoded text; different texts stay different."""
    for column in frame.columns:
        if not pd.api.types.is_numeric_dtype(frame[column]):
            texts = {
                one: quote(one, safe=_HARMLESS)
                for one in frame[column].unique()
                if isinstance(one, str)
            }
            if texts:
                frame[column] = pd.Series(
                    [texts.get(one, one) for one in frame[column]], frame.index, dtype=object
                )
    return frame


def original(value: object) -> object:
    """Return what a value was before `harmless`."""
    return unquote(value) if isinstance(value, str) else value


def snapshot_frames(snapshot: ClusterSnapshot) -> dict[str, pd.DataFrame]:
    """Return the tables of `snapshot_facts`; integers stay integers beside nulls."""
    return {
        name: table.to_pandas(types_mapper=_INTEGER_TYPES.get)
        for name, table in snapshot_facts(snapshot).items()
    }


def plan_frames(plan: RebalancePlan) -> dict[str, pd.DataFrame]:
    """Return the plan's moves and figures, with facts about each row."""
    moves = plan.moves
    frame = pd.DataFrame(
        {
            "topic": pd.Series([move.topic for move in moves], dtype=object),
            "partition": pd.Series([move.partition for move in moves], dtype="int64"),
            "size_bytes": pd.Series([move.size_bytes for move in moves], dtype="int64"),
            "has_replicas": [bool(move.replicas_after) for move in moves],
            "names_each_broker_once": [_are_distinct(move.replicas_after) for move in moves],
            "keeps_or_nears_replication_factor": [_keeps_or_nears(plan, move) for move in moves],
            "keeps_an_old_replica_or_leader_can_copy": [
                bool(set(move.replicas_after) & set(move.replicas_before))
                or move.leader_before >= 0
                for move in moves
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
                "peaks_no_lower_than_it_ends": figure.bytes_peak
                >= max(figure.bytes_before, figure.bytes_after),
                "leads_no_more_than_it_holds": figure.leaders_after <= figure.replicas_after,
            }
            for figure in plan.figures
        ]
    )
    return {"moves": frame, "figures": figures}


def _keeps_or_nears(plan: RebalancePlan, move: Move) -> bool:
    """Whether the number of replicas stays, or, where it is the goal, nears the wanted one without
    passing it.
    """
    before, after = len(move.replicas_before), len(move.replicas_after)
    wanted = plan.replication_factor if plan.goal is Goal.REPLICATION_FACTOR else before
    return wanted is not None and min(before, wanted) <= after <= max(before, wanted)


def _are_distinct(ids: Sequence[int]) -> bool:
    return len(set(ids)) == len(ids)
