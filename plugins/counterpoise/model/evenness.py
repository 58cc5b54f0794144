"""What "even" means: the measures of balance that analysis, audit and planning share.

    evenness([3, 3, 0]).max_minus_min == 3            # one count per broker, zeros included
    best_max_minus_min(total=7, broker_count=3) == 1  # whole units: 3, 2 and 2
    highest_share(total=7, broker_count=3) == 3
    ByteBand.around(fair_bytes, tolerance_percent=10).bytes_outside(bytes_per_broker)

Limits: the functions know nothing of racks, disks or goals. The callers make the vectors and decide
which brokers count; `planning/fair_shares.py` computes fair shares that respect racks.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, overload

import numpy as np

from counterpoise.model.columns import Ints

_INNER_MARGIN_SHIFT: Final = 8  # the inner band is narrower by width / 2**8 on each side


@dataclass(frozen=True, slots=True)
class Evenness:
    """How evenly `total` is spread over `broker_count` brokers.

    Where there is nothing to spread, the ratios are 1 and 0: that is even.
    """

    broker_count: int
    total: int
    minimum: int
    maximum: int
    max_over_mean: float
    coefficient_of_variation: float

    @property
    def max_minus_min(self) -> int:
        return self.maximum - self.minimum

    @property
    def best_max_minus_min(self) -> int:
        return best_max_minus_min(self.total, self.broker_count)


def evenness(counts: Sequence[int]) -> Evenness:
    """Return the evenness of `counts`, one whole number per broker.

    [4, 2, 0] has the mean 2, so max / mean is 2.0, and the coefficient of variation is
    sqrt((4 + 0 + 4) / 3) / 2 = 0.816.
    """
    if not counts:
        return Evenness(0, 0, 0, 0, 1.0, 0.0)
    broker_count = len(counts)
    total = sum(counts)
    mean = total / broker_count
    minimum, maximum = min(counts), max(counts)
    if total == 0:
        return Evenness(broker_count, 0, minimum, maximum, 1.0, 0.0)
    variance = sum((count - mean) ** 2 for count in counts) / broker_count
    variation = math.sqrt(variance) / mean
    return Evenness(broker_count, total, minimum, maximum, maximum / mean, variation)


def farthest_from_share(held: Ints, weights: Ints, *, ignored: int = 0) -> float:
    """Return how far the broker is from its fair share that is farthest from it, as a part of it.

    Shares follow the weights (`broker_weight`). To be off by less than `ignored` is to be off by
    nothing. [30, 10] is 0.5 off; with weights of [3, 1] it is 0.0.
    """
    total = int(held.sum())
    if not total:
        return 0.0
    fair = total * (weights / weights.sum())  # bytes times bytes do not fit into 64 bits
    distances = np.abs(held - fair)
    return float(np.max(np.where(distances < ignored, 0.0, distances / fair)))


def scaled_to_equal_shares(held: Sequence[int], weights: Ints) -> tuple[int, ...]:
    """Return what each broker would hold of its part of the total if all shares were equal.

    [30, 10] with weights of [3, 1] is [20, 20]: each holds its share.
    """
    mean_weight = Fraction(int(weights.sum()), max(1, len(weights)))
    return tuple(
        round(one * mean_weight / weight)
        for one, weight in zip(held, weights.tolist(), strict=True)
    )


def best_max_minus_min(total: int, broker_count: int) -> int:
    """Return the smallest max - min of whole units: 0 where `total` divides evenly, else 1."""
    return 1 if broker_count and total % broker_count else 0


@overload
def highest_share(total: int, broker_count: int) -> int: ...
@overload
def highest_share(total: Ints, broker_count: int) -> Ints: ...
def highest_share(total: int | Ints, broker_count: int) -> int | Ints:
    """Return the largest fair share in whole units: the mean, rounded up; one value or an array."""
    return -(-total // max(1, broker_count))


def is_worse(counts: Ints, best: Ints, *, by_disk: bool = False) -> bool:
    """Return whether counts per broker are clearly less even than the best possible.

    A hundredth of the mean more does not matter: with a mean of 500 a range of 5 more is fine. With
    `by_disk` the best counts differ by design: then each broker is held against its own.
    """
    tolerated = int(counts.mean()) // 100
    if by_disk:
        return int(np.abs(counts - best).max(initial=0)) > 1 + tolerated
    return int(np.ptp(counts)) > max(1, int(np.ptp(best))) + tolerated


def units_misplaced(counts: Sequence[int], weights: Sequence[int] | None = None) -> int:
    """Return the sum of squared distances from each share, rounded down.

    It is about 1 for each unit on a wrong broker and grows where a broker is far off:
    [3, 2, 1] gives 2, [4, 2, 0] gives 8. Shares follow the weights; [6, 2] with [3, 1] gives 0. On
    a broker with twice the mean weight a unit counts half.
    """
    if not counts:
        return 0
    parts = [1] * len(counts) if weights is None else weights
    mean_weight = Fraction(sum(parts), len(parts))
    squares = sum(
        count * count * mean_weight / part for count, part in zip(counts, parts, strict=True)
    )
    return int(squares - Fraction(sum(counts) ** 2, len(counts)))


def share_not_preferred(not_preferred: int, partition_count: int) -> float:
    """Return the share of partitions not led by their preferred leader, 0.0 to 1.0.

    Kafka calls it the leader imbalance ratio (`leader.imbalance.per.broker.percentage`).
    """
    return not_preferred / partition_count if partition_count else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class ByteBand:
    """Per broker: the fair share of bytes, and the lowest and highest bytes that count as even.

    ByteBand.around(np.array([1000]), tolerance_percent=10) reaches from 900 to 1100.
    """

    fair: Ints
    lowest: Ints
    highest: Ints

    @classmethod
    def around(cls, fair: Ints, tolerance_percent: int) -> "ByteBand":
        slack = fair * tolerance_percent // 100
        return cls(fair, fair - slack, fair + slack)

    @property
    def inner(self) -> "ByteBand":
        """Return a slightly narrower band to aim at: whole replicas do not add up exactly to a
        target, and a near miss of this band still ends inside the full one.
        """
        margin = (self.highest - self.lowest) >> _INNER_MARGIN_SHIFT
        return ByteBand(self.fair, self.lowest + margin, self.highest - margin)

    def is_about(self, other: "ByteBand") -> bool:
        """Return whether no fair share differs by more than a ten-thousandth."""
        return bool((np.abs(self.fair - other.fair) * 10_000 <= self.fair).all())

    def narrowed(self, percent: int) -> "ByteBand":
        """Return the band that is as wide as so much of this one, around the fair share."""
        slack = (self.highest - self.fair) * percent // 100
        return ByteBand(self.fair, self.fair - slack, self.fair + slack)

    def outside_of_two(self, held: Ints, source: int, destination: int, shifts: Ints) -> Ints:
        """Return how far two brokers are outside together after each of the shifts.

        A shift is what the destination gets from the source.
        """
        source_load, destination_load = held[source] - shifts, held[destination] + shifts
        too_few = np.maximum(0, self.lowest[source] - source_load)
        too_few += np.maximum(0, self.lowest[destination] - destination_load)
        too_many = np.maximum(0, source_load - self.highest[source])
        too_many += np.maximum(0, destination_load - self.highest[destination])
        return np.asarray(too_few + too_many)

    def gains_of_two(self, held: Ints, source: int, destination: int, shifts: Ints) -> Ints:
        """Return by how much less two brokers are outside together after each of the shifts."""
        outside_now = self.outside_of_two(held, source, destination, np.zeros(1, dtype=np.int64))
        return np.asarray(outside_now - self.outside_of_two(held, source, destination, shifts))

    def bytes_outside(self, held_bytes: Ints) -> Ints:
        """Return per broker how many bytes it holds too few or too many; 0 inside the band."""
        too_few = self.lowest - held_bytes
        too_many = held_bytes - self.highest
        return np.asarray(np.maximum(0, np.maximum(too_few, too_many)))
