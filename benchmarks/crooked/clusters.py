"""Crooked clusters of 220 to 20,000 replicas, each with a goal: the same 30 every time.

    document = make(CASES["add-600-disks"])     # a cluster document
    digest(document)                            # as `best_known.json` has it

Crooked as real clusters are: sizes by Zipf's law, racks of unequal size, brokers that hold little
or nothing, leaders elsewhere than on the preferred replica, some partitions with two replicas in
one rack, disks that differ (one in three is twice as large). The replica of rank k has
((1 + offset) / (k + offset)) ** exponent of the largest. Rates are not known, so plans move
replicas for counts and bytes only, unless a case `has_rates`. `skewed_plans.py` makes larger ones.

Limits: random numbers are drawn in one order only, so that documents never change.
"""

import hashlib
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from counterpoise.model.request import Goal

_LARGEST_BYTES: Final = 500_000_000_000
_FACTORS_MIXED: Final = ((1, 0.1), (2, 0.3), (3, 0.6))
_FACTORS_OF_THREE: Final = ((3, 1.0),)


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    goal: Goal
    seed: int
    racks: tuple[int, ...]  # brokers per rack
    partitions: int
    named: int = 0  # brokers that are added (they are idle) or removed
    idle: int = 0  # others that hold nothing
    exponent: float = 1.0
    offset: float = 12.0
    has_disks: bool = False
    factors: tuple[tuple[int, float], ...] = _FACTORS_OF_THREE
    has_rates: bool = False
    has_large_topics: bool = False  # of some 20 partitions, lognormal; else of 1 to 12


_ALL: Final = (
    Case("rebalance-220", Goal.REBALANCE, 11, (3, 2, 2, 1), 76),
    Case("rebalance-300", Goal.REBALANCE, 12, (4, 3, 2), 100, exponent=0.8),
    Case("rebalance-400-disks", Goal.REBALANCE, 13, (4, 3, 3, 2), 134, has_disks=True),
    Case("rebalance-540", Goal.REBALANCE, 14, (5, 4, 3, 2), 180, idle=1),
    Case("rebalance-700-giants", Goal.REBALANCE, 15, (5, 4, 4, 3), 234, exponent=1.2, offset=1.0),
    Case("rebalance-900-mixed", Goal.REBALANCE, 16, (6, 5, 4, 3), 360, factors=_FACTORS_MIXED),
    Case("rebalance-1200", Goal.REBALANCE, 17, (7, 6, 4, 3), 400, idle=2, offset=20.0),
    Case("rebalance-1600-disks", Goal.REBALANCE, 18, (7, 6, 5, 4), 534, has_disks=True),
    Case("rebalance-2200", Goal.REBALANCE, 19, (8, 7, 5, 4), 734, exponent=1.1, offset=30.0),
    Case("rebalance-3000-mixed", Goal.REBALANCE, 20, (9, 7, 6, 3), 1_200, factors=_FACTORS_MIXED),
    Case("rebalance-4000-disks", Goal.REBALANCE, 21, (9, 8, 6, 5), 1_334, has_disks=True),
    Case("rebalance-5000", Goal.REBALANCE, 22, (10, 9, 7, 4, 2), 1_667, idle=2, offset=30.0),
    Case("rebalance-8000", Goal.REBALANCE, 51, (12, 10, 8, 5, 3), 2_667, idle=2, offset=30.0),
    Case("rebalance-10000-giants", Goal.REBALANCE, 56, (13, 11, 9, 5), 3_334, 0, 0, 1.2, 1.0),
    Case(
        "rebalance-12000-mixed", Goal.REBALANCE, 52, (14, 12, 9, 5), 4_800, factors=_FACTORS_MIXED
    ),
    Case("rebalance-16000-disks", Goal.REBALANCE, 53, (15, 13, 10, 7), 5_334, has_disks=True),
    Case("rebalance-20000", Goal.REBALANCE, 54, (16, 14, 11, 8, 4), 6_667, 0, 3, 1.1, 30.0),
    Case("rebalance-20000-few", Goal.REBALANCE, 55, (10, 9, 7, 4), 6_667),
    Case("add-240", Goal.ADD_BROKERS, 31, (3, 3, 2), 80, named=1),
    Case("add-420", Goal.ADD_BROKERS, 32, (4, 4, 2, 2), 140, named=2, exponent=0.8),
    Case("add-600-disks", Goal.ADD_BROKERS, 33, (5, 4, 4), 200, named=2, has_disks=True),
    Case("add-1000-mixed", Goal.ADD_BROKERS, 34, (6, 5, 4), 400, 3, factors=_FACTORS_MIXED),
    Case("add-1800", Goal.ADD_BROKERS, 35, (8, 6, 4, 4), 600, named=4, offset=20.0),
    Case("add-3000-disks", Goal.ADD_BROKERS, 36, (9, 8, 6), 1_000, named=3, has_disks=True),
    Case("add-4800", Goal.ADD_BROKERS, 37, (11, 9, 7, 5), 1_600, named=5, offset=30.0),
    Case("remove-260", Goal.REMOVE_BROKERS, 41, (4, 3, 3), 87, named=1),
    Case("remove-480-disks", Goal.REMOVE_BROKERS, 42, (4, 4, 3, 2), 160, 2, has_disks=True),
    Case("remove-1100", Goal.REMOVE_BROKERS, 43, (6, 5, 4, 2), 367, named=3, exponent=1.1),
    Case("remove-2400-mixed", Goal.REMOVE_BROKERS, 44, (8, 7, 5), 960, 3, factors=_FACTORS_MIXED),
    Case("remove-4500", Goal.REMOVE_BROKERS, 45, (10, 8, 7, 5), 1_500, named=4, offset=30.0),
)
CASES: Final = {case.name: case for case in _ALL}


def make(case: Case) -> dict[str, Any]:
    """Return the cluster document; `named` has the brokers that the goal is about."""
    chance = random.Random(case.seed)
    brokers, named = _brokers(case, chance)
    adds = case.goal is Goal.ADD_BROKERS
    idle = set(chance.sample([b for b in brokers if b not in named], case.idle))
    idle |= named if adds else set()
    racks: dict[str, dict[int, float]] = {}
    for broker, rack in brokers.items():
        if broker not in idle:
            racks.setdefault(rack, {})[broker] = 0.3 + chance.random() ** 2 * 1.5
    partitions = _partitions(case, chance, racks)
    listed: list[dict[str, Any]] = [{"id": b, "rack": rack} for b, rack in brokers.items()]
    if case.has_disks:
        _add_disks(chance, listed, partitions)
    return {
        "cluster": case.name,
        "brokers": listed,
        "partitions": partitions,
        "named": sorted(named),
    }


def digest(document: dict[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _brokers(case: Case, chance: random.Random) -> tuple[dict[int, str], set[int]]:
    """Return the rack of each broker, and the brokers that are named; each rack keeps others."""
    racks = [f"r{rack}" for rack, count in enumerate(case.racks) for _ in range(count)]
    chance.shuffle(racks)
    brokers = dict(enumerate(racks, start=1))
    named: set[int] = set()
    for broker in chance.sample(sorted(brokers), len(brokers)):
        left = [b for b in brokers if brokers[b] == brokers[broker] and b not in named]
        if len(named) < case.named and len(left) > 1:
            named.add(broker)
    return brokers, named


def _partitions(
    case: Case, chance: random.Random, racks: dict[str, dict[int, float]]
) -> list[list[Any]]:
    weights = _Weights.of(racks)
    ranks = list(range(1, case.partitions + 1))
    chance.shuffle(ranks)
    first = (1 + case.offset) ** case.exponent
    rows: list[list[Any]] = []
    topic = 0
    while len(rows) < case.partitions:
        of_topic = chance.choice([1, 1, 2, 3, 4, 6, 12])
        if case.has_large_topics:
            of_topic = max(1, int(chance.lognormvariate(3, 1)))
        factors, shares = zip(*case.factors, strict=True)
        factor = chance.choices(factors, shares)[0]
        for number in range(min(of_topic, case.partitions - len(rows))):
            replicas = _replicas(chance, weights, factor)
            leader = replicas[0] if chance.random() < 0.85 else chance.choice(replicas)
            part = first / (ranks[len(rows)] + case.offset) ** case.exponent
            size_bytes = int(_LARGEST_BYTES * part) + chance.randrange(1_000, 100_000)
            rate = int(chance.lognormvariate(11, 1.5)) if case.has_rates else None
            rows.append([f"t{topic:04d}", number, replicas, leader, size_bytes, rate])
        topic += 1
    return rows


@dataclass(frozen=True, slots=True)
class _Weights:
    """Names with the sums of their weights up to them, as `random.choices` takes them."""

    racks: tuple[list[str], list[float]]
    brokers: Mapping[str, tuple[list[int], list[float]]]  # by rack

    @classmethod
    def of(cls, racks: Mapping[str, Mapping[int, float]]) -> "_Weights":
        totals = accumulate(sum(weights.values()) for weights in racks.values())
        brokers = {
            rack: (list(weights), list(accumulate(weights.values())))
            for rack, weights in racks.items()
        }
        return cls((list(racks), list(totals)), brokers)


def _replicas(chance: random.Random, weights: _Weights, factor: int) -> list[int]:
    """Return brokers by weight, one rack after the other; 3 % do not care about racks."""
    cares = chance.random() < 0.97
    names, sums = weights.racks
    replicas: list[int] = []
    used: set[str] = set()
    while len(replicas) < factor:
        rack = chance.choices(names, cum_weights=sums)[0]
        if cares and rack in used:
            continue
        brokers, sums_of_rack = weights.brokers[rack]
        broker = chance.choices(brokers, cum_weights=sums_of_rack)[0]
        if broker not in replicas:
            replicas.append(broker)
            used.add(rack)
    return replicas


def _add_disks(
    chance: random.Random, brokers: list[dict[str, Any]], partitions: list[list[Any]]
) -> None:
    held = dict.fromkeys((broker["id"] for broker in brokers), 0)
    for _, _, replicas, _, size_bytes, _ in partitions:
        for broker_id in replicas:
            held[broker_id] += size_bytes
    for broker in brokers:
        total = int(max(held.values()) * chance.choice([1.6, 1.6, 3.2]))
        broker["disk_total_bytes"] = total
        broker["disk_usable_bytes"] = total - held[broker["id"]]
