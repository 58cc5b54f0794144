"""Make cluster documents to plan for: of many sizes, the same ones every time.

    .venv/bin/python benchmarks/make_cluster.py FOLDER [NAME ...]

    document = make_cluster("c-medium")     # brokers are marked "keep", "new" or "drain"

Writes NAME.json.gz for each cluster, and NAME.tsv: the same in a line format that is easy to read
from Java and Go, to hold other planners against ours:

    B <id> <rack> <state>
    P <topic> <partition> <leader> <size_bytes> <rate_bytes_per_second> <r1,r2,...>

Replicas are striped over the racks as a Kafka controller does it: each partition begins one rack
further than the one before it, and takes the next broker of each rack. Topics differ in size by
Zipf's law, partitions of a topic by a lognormal factor; no partition is larger than 1 % of what a
broker holds on average, but in a-tiny.

Limits: random numbers are drawn in one order only, so that documents never change. Figures in the
documentation were measured on them.
"""

import gzip
import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_GIB: Final = 1 << 30
_SMALLEST_PARTITION_BYTES: Final = 4096
_ZIPF_EXPONENT: Final = 1.05
_SIZE_SIGMA: Final = 0.5
_LARGEST_SHARE_OF_A_BROKER: Final = 0.01
_SECONDS_PER_DAY: Final = 86_400.0
_MAX_DRAWS: Final = 50

Racks = dict[str, list[int]]  # broker ids by rack


@dataclass(frozen=True)
class Shape:
    """What a cluster looks like before its random numbers are drawn."""

    seed: int
    old: Racks  # brokers that hold the replicas
    new: Racks  # brokers that hold nothing yet
    topics: int
    partitions: int
    total_bytes: int  # of all partitions, each counted once
    replication_factor: int = 3
    drained: frozenset[int] = frozenset()
    hot: frozenset[int] = frozenset()  # brokers that come first in replica lists ...
    hot_share: float = 0.0  # ... of this share of the partitions that they hold
    leads_on_hot: bool = False  # every leader is a hot broker, whatever the order says

    @property
    def old_broker_count(self) -> int:
        return sum(map(len, self.old.values()))


def racks_of(broker_count: int, rack_count: int, first_id: int = 1) -> Racks:
    """Return `broker_count` brokers dealt out over racks r1, r2, ... in turn."""
    racks: Racks = {f"r{number + 1}": [] for number in range(rack_count)}
    for number in range(broker_count):
        racks[f"r{number % rack_count + 1}"].append(first_id + number)
    return racks


_NO_RACKS: Final[Racks] = {}
SHAPES: Final = {
    "a-tiny": Shape(11, {"r1": [1], "r2": [2], "r3": [3]}, {"r4": [4]}, 1, 3, 9 * _GIB),
    "b-small": Shape(
        22,
        racks_of(6, 3),
        {"r1": [7], "r2": [8]},
        60,
        1_500,
        3_000 * _GIB,
        hot=frozenset({1, 2, 3}),
        hot_share=0.5,
    ),
    "c-medium": Shape(33, racks_of(30, 3), racks_of(6, 3, 31), 800, 20_000, 60_000 * _GIB),
    "d-large": Shape(44, racks_of(200, 5), racks_of(20, 5, 201), 5_000, 200_000, 600_000 * _GIB),
    "e-leaders": Shape(
        55,
        racks_of(15, 3),
        _NO_RACKS,
        100,
        3_000,
        9_000 * _GIB,
        hot=frozenset(range(1, 10)),
        hot_share=0.85,
        leads_on_hot=True,
    ),
    "f-drain": Shape(
        66, racks_of(12, 3), _NO_RACKS, 200, 6_000, 18_000 * _GIB, drained=frozenset({7})
    ),
    "g-huge": Shape(
        77, racks_of(900, 5), racks_of(100, 5, 901), 25_000, 1_000_000, 3_000_000 * _GIB
    ),
}


def make_cluster(name: str) -> dict[str, Any]:
    """Return the cluster document of that name."""
    shape = SHAPES[name]
    chance = random.Random(shape.seed)
    counts = _partition_counts(chance, shape)
    sizes = _partition_sizes(chance, shape, counts)
    partitions = [
        row
        for topic in range(len(counts))
        for row in _partitions_of(chance, shape, f"t{topic:05d}", sizes[topic])
    ]
    return {
        "name": name,
        "seed": shape.seed,
        "rf": shape.replication_factor,
        "brokers": _brokers(shape),
        "partitions": partitions,
    }


def _brokers(shape: Shape) -> list[dict[str, Any]]:
    old = [
        {"id": broker, "rack": rack, "state": "drain" if broker in shape.drained else "keep"}
        for rack, members in shape.old.items()
        for broker in members
    ]
    new = [
        {"id": broker, "rack": rack, "state": "new"}
        for rack, members in shape.new.items()
        for broker in members
    ]
    return sorted(old + new, key=lambda broker: broker["id"])


def _partition_counts(chance: random.Random, shape: Shape) -> list[int]:
    """Return the partitions per topic: lognormal, at least 1, `shape.partitions` together."""
    if shape.topics == 1:
        return [shape.partitions]
    weights = [chance.lognormvariate(0, 1.0) for _ in range(shape.topics)]
    total = sum(weights)
    counts = [max(1, int(weight / total * shape.partitions)) for weight in weights]
    missing = shape.partitions - sum(counts)
    largest_first = sorted(range(shape.topics), key=lambda topic: -counts[topic])
    position = 0
    while missing:
        topic = largest_first[position % shape.topics]
        if missing > 0:
            counts[topic] += 1
            missing -= 1
        elif counts[topic] > 1:
            counts[topic] -= 1
            missing += 1
        position += 1
    return counts


def _partition_sizes(chance: random.Random, shape: Shape, counts: Sequence[int]) -> list[list[int]]:
    """Return bytes of each partition, by topic."""
    ranks = list(range(1, len(counts) + 1))
    chance.shuffle(ranks)
    raw = []
    for rank, count in zip(ranks, counts, strict=True):
        topic_weight = 1.0 / (rank**_ZIPF_EXPONENT)
        factors = [chance.lognormvariate(0, _SIZE_SIGMA) for _ in range(count)]
        total = sum(factors)
        raw.append([topic_weight * factor / total for factor in factors])
    total = sum(map(sum, raw))
    largest = float(shape.total_bytes)
    if len(counts) > 1:
        copies = shape.total_bytes * shape.replication_factor
        largest = _LARGEST_SHARE_OF_A_BROKER * copies / shape.old_broker_count

    def size_bytes(weight: float) -> int:
        wanted = weight / total * shape.total_bytes
        return int(min(largest, max(_SMALLEST_PARTITION_BYTES, wanted)))

    return [[size_bytes(weight) for weight in weights] for weights in raw]


def _striped(chance: random.Random, shape: Shape, count: int) -> list[list[int]]:
    """Return the replicas of `count` partitions of one topic."""
    racks = list(shape.old)
    chance.shuffle(racks)
    next_broker = {rack: chance.randrange(len(shape.old[rack])) for rack in racks}
    first_rack = chance.randrange(len(racks))
    rows = []
    for partition in range(count):
        replicas = []
        for position in range(shape.replication_factor):
            rack = racks[(first_rack + partition + position) % len(racks)]
            members = shape.old[rack]
            replicas.append(members[next_broker[rack] % len(members)])
            next_broker[rack] += 1
        rows.append(replicas)
    return rows


def _partitions_of(
    chance: random.Random, shape: Shape, topic: str, sizes: Sequence[int]
) -> Iterator[list[Any]]:
    """Yield the document's rows of one topic."""
    striped = _striped(chance, shape, len(sizes))
    for partition, size_bytes in enumerate(sizes):
        replicas, leader = _with_hot_brokers(chance, shape, striped[partition])
        rate = int(size_bytes / _SECONDS_PER_DAY * chance.lognormvariate(0, _SIZE_SIGMA)) + 1
        yield [topic, partition, replicas, leader, size_bytes, rate]


def _with_hot_brokers(
    chance: random.Random, shape: Shape, replicas: list[int]
) -> tuple[list[int], int]:
    """Return the replicas, with a hot broker first for a share of them, and the leader."""
    if not shape.hot:
        return replicas, replicas[0]
    draws = 0
    while shape.leads_on_hot and shape.hot.isdisjoint(replicas) and draws < _MAX_DRAWS:
        replicas = _striped(chance, shape, 1)[0]
        draws += 1
    hot = [broker for broker in replicas if broker in shape.hot]
    if chance.random() < shape.hot_share and hot:
        first = chance.choice(hot)
        replicas = [first, *(broker for broker in replicas if broker != first)]
    is_led_elsewhere = shape.leads_on_hot and replicas[0] not in shape.hot
    return replicas, chance.choice(hot) if is_led_elsewhere else replicas[0]


def _lines(document: dict[str, Any]) -> Iterator[str]:
    for broker in document["brokers"]:
        yield f"B\t{broker['id']}\t{broker['rack']}\t{broker['state']}\n"
    for topic, partition, replicas, leader, size_bytes, rate in document["partitions"]:
        joined = ",".join(map(str, replicas))
        yield f"P\t{topic}\t{partition}\t{leader}\t{size_bytes}\t{rate}\t{joined}\n"


def main(arguments: Sequence[str]) -> int:
    if not arguments or not set(arguments[1:]) <= set(SHAPES):
        print(f"usage: make_cluster.py FOLDER [NAME ...], of {', '.join(SHAPES)}", file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for name in arguments[1:] or SHAPES:
        document = make_cluster(name)
        text = json.dumps(document, separators=(",", ":"))
        with gzip.GzipFile(folder / f"{name}.json.gz", "wb", 6, mtime=0) as file:
            file.write(text.encode())
        (folder / f"{name}.tsv").write_text("".join(_lines(document)))
        print(
            f"{name}: {len(document['brokers'])} brokers, {len(document['partitions'])} partitions"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
