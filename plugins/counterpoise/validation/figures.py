"""Counts the figures of a plan anew, from the snapshot and the moves alone.

expected_figures(case)      # a CountedFigure per registered broker, by id
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from counterpoise.model.plan import BrokerFigure
from counterpoise.validation.violation import Case


@dataclass(frozen=True, slots=True)
class CountedFigure:
    """What of a plan's figure can be counted; the best possible is the planner's to say."""

    broker_id: int
    leaders_before: int
    leaders_after: int
    replicas_before: int
    replicas_after: int
    bytes_before: int
    bytes_after: int

    @classmethod
    def of(cls, figure: BrokerFigure) -> "CountedFigure":
        return cls(*(getattr(figure, name) for name in cls.__slots__))


def expected_figures(case: Case) -> tuple[CountedFigure, ...]:
    """What the plan's figures have to be: partitions that it does not name keep replicas and leader."""
    leaders, replicas, held = _before(case)
    leaders_after, replicas_after, held_after = leaders.copy(), replicas.copy(), held.copy()
    tells_leaders = _tells_leaders(case)
    for move, row in case.known_moves:
        leader = row.leader if tells_leaders else row.replicas[0]
        if leader is not None:
            leaders_after[leader] -= 1
        leaders_after[move.replicas_after[0]] += 1
        for broker_id in move.adding:
            replicas_after[broker_id] += 1
            held_after[broker_id] += row.size_bytes or 0
        for broker_id in move.removing:
            replicas_after[broker_id] -= 1
            held_after[broker_id] -= row.size_bytes or 0
    return tuple(
        CountedFigure(b, leaders[b], leaders_after[b], replicas[b], replicas_after[b], held[b], held_after[b])
        for b in case.snapshot.registered_broker_ids
    )


def _tells_leaders(case: Case) -> bool:
    column = case.snapshot.partitions["leader"]
    return bool(column.null_count < len(column))


def _before(case: Case) -> tuple[Counter[int], Counter[int], Counter[int]]:
    partitions = case.snapshot.partitions
    lists = partitions["replicas"].combine_chunks()
    lengths = np.asarray(lists.value_lengths(), dtype=np.int64)
    ids = np.asarray(lists.flatten(), dtype=np.int64)
    sizes = np.repeat(np.asarray(partitions["size_bytes"].combine_chunks().fill_null(0), dtype=np.int64), lengths)
    firsts = ids[np.cumsum(lengths) - lengths]
    leaders = np.asarray(partitions["leader"].drop_null(), dtype=np.int64) if _tells_leaders(case) else firsts
    held: Counter[int] = Counter()
    for broker_id in np.unique(ids).tolist():
        held[broker_id] = int(sizes[ids == broker_id].sum())
    return _counted(leaders), _counted(ids), held


def _counted(ids: "np.typing.NDArray[np.int64]") -> Counter[int]:
    values, counts = np.unique(ids, return_counts=True)
    return Counter(dict(zip(values.tolist(), counts.tolist(), strict=True)))
