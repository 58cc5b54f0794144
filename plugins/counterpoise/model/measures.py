"""What "even" means: each balance measure as a function of one vector, the count per registered
broker, zeros included.

    evenness([3, 3, 0]).max_minus_min == 3

This is the only definition; numpy and Spark only make the vectors.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Evenness:
    """How evenly `total` lies on `broker_count` brokers.

    Nothing to spread is even (ratios 1 and 0).
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
        """The least any placement of whole units can reach: 0 when the brokers divide the total,
        else 1.
        """
        return 0 if self.broker_count == 0 or self.total % self.broker_count == 0 else 1


def evenness(counts: Sequence[int]) -> Evenness:
    """The evenness of `counts`, one whole number per registered broker."""
    if not counts:
        return Evenness(0, 0, 0, 0, 1.0, 0.0)
    total = sum(counts)
    mean = total / len(counts)
    if total == 0:
        return Evenness(len(counts), 0, min(counts), max(counts), 1.0, 0.0)
    variance = sum((count - mean) ** 2 for count in counts) / len(counts)
    return Evenness(
        len(counts), total, min(counts), max(counts), max(counts) / mean, math.sqrt(variance) / mean
    )


def share_not_preferred(not_preferred: int, partition_count: int) -> float:
    """The share of partitions whose leader is not the first replica, 0.0 to 1.0 (Kafka's imbalance
    ratio).
    """
    return not_preferred / partition_count if partition_count else 0.0
