"""Clusters to plan for where the judge's generator is absent: as many partitions and brokers, and
of the same kind.

    own_cluster("c-medium")     # a cluster document, the same one every time

Replicas are striped over the racks as a Kafka controller does it, topics differ in size by Zipf's
law, partitions of a topic by a lognormal factor; no partition is larger than 1 % of what a broker
holds on average. Brokers are marked "keep", "new" or "drain".
"""

import random
from dataclasses import dataclass
from typing import Any, Final

REPLICATION_FACTOR: Final = 3
_ZIPF_EXPONENT = 1.05
_LARGEST_PART_OF_A_BROKER = 0.01


@dataclass(frozen=True, slots=True)
class Shape:
    """What a cluster looks like; broker n is in rack n modulo `racks`."""

    old: int  # brokers that hold the replicas
    new: int  # brokers that hold nothing yet
    racks: int
    topics: int
    partitions: int
    bytes_once: int  # of all partitions, each counted once
    drained: tuple[int, ...] = ()
    hot: range = range(0)  # brokers that come first in most replica lists in which they are
    hot_share: float = 0.0


_GIB = 1 << 30
SHAPES: Final = {
    "a-tiny": Shape(3, 1, 4, 1, 3, 9 * _GIB),
    "b-small": Shape(6, 2, 3, 60, 1_500, 3_000 * _GIB, hot=range(1, 4), hot_share=0.5),
    "c-medium": Shape(30, 6, 3, 800, 20_000, 60_000 * _GIB),
    "d-large": Shape(200, 20, 5, 5_000, 200_000, 600_000 * _GIB),
    "e-leaders": Shape(15, 0, 3, 100, 3_000, 9_000 * _GIB, hot=range(1, 10), hot_share=0.85),
    "f-drain": Shape(12, 0, 3, 200, 6_000, 18_000 * _GIB, drained=(7,)),
    "g-huge": Shape(900, 100, 5, 25_000, 1_000_000, 3_000_000 * _GIB),
}


def own_cluster(name: str) -> dict[str, Any]:
    """The cluster document of that name."""
    shape = SHAPES[name]
    chance = random.Random(name)
    counts = _partition_counts(chance, shape)
    sizes = _sizes(chance, shape, counts)
    partitions = [
        [f"t{topic:05d}", number, replicas, _leader(shape, replicas), size, size // 86_400]
        for topic, sizes_of_topic in enumerate(sizes)
        for number, (replicas, size) in enumerate(
            zip(_striped(chance, shape, len(sizes_of_topic)), sizes_of_topic, strict=True)
        )
    ]
    return {"name": name, "brokers": _brokers(shape), "partitions": partitions}


def _brokers(shape: Shape) -> list[dict[str, Any]]:
    def state(broker: int) -> str:
        if broker in shape.drained:
            return "drain"
        return "keep" if broker <= shape.old else "new"

    every = range(1, shape.old + shape.new + 1)
    return [{"id": b, "rack": f"r{(b - 1) % shape.racks}", "state": state(b)} for b in every]


def _partition_counts(chance: random.Random, shape: Shape) -> list[int]:
    """Partitions per topic: at least one, a long tail, `shape.partitions` together."""
    weights = [chance.lognormvariate(0, 1) for _ in range(shape.topics)]
    spare = shape.partitions - shape.topics
    counts = [1 + int(spare * weight / sum(weights)) for weight in weights]
    for topic in range(shape.partitions - sum(counts)):
        counts[topic % shape.topics] += 1
    return counts


def _sizes(chance: random.Random, shape: Shape, counts: list[int]) -> list[list[int]]:
    ranks = list(range(1, shape.topics + 1))
    chance.shuffle(ranks)
    raw = [
        [chance.lognormvariate(0, 0.5) / (rank**_ZIPF_EXPONENT * count) for _ in range(count)]
        for rank, count in zip(ranks, counts, strict=True)
    ]
    unit = shape.bytes_once / sum(map(sum, raw))
    of_a_broker = shape.bytes_once * REPLICATION_FACTOR / shape.old
    largest = of_a_broker * _LARGEST_PART_OF_A_BROKER if shape.topics > 1 else of_a_broker
    return [[int(min(largest, weight * unit)) for weight in weights] for weights in raw]


def _striped(chance: random.Random, shape: Shape, count: int) -> list[list[int]]:
    """The replicas of a topic: from rack to rack, in each from broker to broker."""
    by_rack = [
        [b for b in range(1, shape.old + 1) if (b - 1) % shape.racks == rack]
        for rack in range(shape.racks)
    ]
    by_rack = [members for members in by_rack if members]
    chance.shuffle(by_rack)
    next_in = [chance.randrange(len(members)) for members in by_rack]
    rows = []
    for number in range(count):
        row = []
        for step in range(REPLICATION_FACTOR):
            rack = (number + step) % len(by_rack)
            row.append(by_rack[rack][next_in[rack] % len(by_rack[rack])])
            next_in[rack] += 1
        hot = [b for b in row if b in shape.hot]
        if hot and chance.random() < shape.hot_share:
            first = chance.choice(hot)
            row = [first, *(b for b in row if b != first)]
        rows.append(row)
    return rows


def _leader(shape: Shape, replicas: list[int]) -> int:
    """The preferred one, or where nothing is added or drained, any hot one: as after a rolling
    restart.
    """
    if shape.new or shape.drained:
        return replicas[0]
    return next((b for b in replicas if b in shape.hot), replicas[0])
