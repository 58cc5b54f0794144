"""Counts the figures of a plan anew, from the snapshot and the moves alone.

expected_figures(case)      # a CountedFigure per registered broker, by id
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterpoise.model.plan import BrokerFigure
from counterpoise.validation.violation import Case


@dataclass(frozen=True, slots=True)
class CountedFigure:
    """What of a plan's figure can be counted; the best possible is the planner's to say.

    Bytes-in is None where the snapshot knows no rate at all; single unknown rates count as 0.
    """

    broker_id: int
    rack: str | None
    leaders_before: int
    leaders_after: int
    replicas_before: int
    replicas_after: int
    bytes_before: int
    bytes_after: int
    bytes_peak: int
    bytes_in_before: int | None
    bytes_in_after: int | None

    @classmethod
    def of(cls, figure: BrokerFigure) -> "CountedFigure":
        return cls(*(getattr(figure, name) for name in cls.__slots__))


@dataclass(slots=True)
class _Loads:
    """What each broker holds and leads."""

    leaders: Counter[int]
    replicas: Counter[int]
    held: Counter[int]
    bytes_in: Counter[int]

    def copy(self) -> "_Loads":
        return _Loads(
            self.leaders.copy(), self.replicas.copy(), self.held.copy(), self.bytes_in.copy()
        )


def expected_figures(case: Case) -> tuple[CountedFigure, ...]:
    """What the plan's figures have to be: partitions that it does not name keep replicas and
    leader.
    """
    before = _before(case)
    after, arriving = before.copy(), Counter[int]()
    for move, row in case.known_moves:
        size, rate, leader = row.size_bytes or 0, row.bytes_in_per_second or 0, case.leader_of(row)
        if leader is not None:
            after.leaders[leader] -= 1
            after.bytes_in[leader] -= rate
        after.leaders[move.replicas_after[0]] += 1
        after.bytes_in[move.replicas_after[0]] += rate
        for broker_id in move.adding:
            after.replicas[broker_id] += 1
            after.held[broker_id] += size
            arriving[broker_id] += size
        for broker_id in move.removing:
            after.replicas[broker_id] -= 1
            after.held[broker_id] -= size
    rates = case.snapshot.partitions["bytes_in_per_second"]
    knows_rates = rates.null_count < len(rates)
    return tuple(
        CountedFigure(
            broker_id=b,
            rack=case.snapshot.racks[b],
            leaders_before=before.leaders[b],
            leaders_after=after.leaders[b],
            replicas_before=before.replicas[b],
            replicas_after=after.replicas[b],
            bytes_before=before.held[b],
            bytes_after=after.held[b],
            bytes_peak=before.held[b] + arriving[b],
            bytes_in_before=before.bytes_in[b] if knows_rates else None,
            bytes_in_after=after.bytes_in[b] if knows_rates else None,
        )
        for b in case.snapshot.registered_broker_ids
    )


def _before(case: Case) -> _Loads:
    partitions = case.snapshot.partitions
    lists = partitions["replicas"].combine_chunks()
    lengths = np.asarray(lists.value_lengths(), dtype=np.int64)
    ids = np.asarray(lists.flatten(), dtype=np.int64)
    sizes, rates = (
        np.asarray(partitions[column].combine_chunks().fill_null(0), dtype=np.int64)
        for column in ("size_bytes", "bytes_in_per_second")
    )
    firsts = ids[np.cumsum(lengths) - lengths]
    leaders = (
        np.asarray(partitions["leader"].fill_null(-1), dtype=np.int64)
        if case.tells_leaders
        else firsts
    )
    is_led = leaders >= 0
    return _Loads(
        leaders=_sums(leaders[is_led], np.ones(int(is_led.sum()), dtype=np.int64)),
        replicas=_sums(ids, np.ones(len(ids), dtype=np.int64)),
        held=_sums(ids, np.repeat(sizes, lengths)),
        bytes_in=_sums(leaders[is_led], rates[is_led]),
    )


def _sums(ids: NDArray[np.int64], weights: NDArray[np.int64]) -> Counter[int]:
    """The sum of the weights by broker, exactly."""
    values, places = np.unique(ids, return_inverse=True)
    totals = np.zeros(len(values), dtype=np.int64)
    np.add.at(totals, places, weights)
    return Counter(dict(zip(values.tolist(), totals.tolist(), strict=True)))
