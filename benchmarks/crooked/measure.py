"""What a plan for a crooked cluster reaches, by figures that know nothing of the planner.

    figures = measure(document, goal, {"partitions": [...]})
    figures.rank        # the smaller the better: racks, counts, bytes outside, bytes copied

The judge (`benchmarks/judge.py`) counts racks, copies and errors. Beside it: squares of the
replicas per broker that stays (each weighed by the largest disks / its own), and bytes outside the
band, which reaches 10 % around each broker's share. Shares by water filling: all brokers at one
level, by disk where disks differ; a rack has no more than one replica of each partition, and no
less where there are only as many racks.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from benchmarks.judge import Case as Judged
from benchmarks.judge import after_plan, judge

TOLERANCE: Final = 0.1


@dataclass(frozen=True, slots=True)
class Figures:
    errors: dict[str, int]
    rack_violations: int
    squared_counts: int
    bytes_outside: int
    copied_bytes: int
    copied_replicas: int
    several_new: int  # partitions with more than one new replica
    none_kept: int  # partitions that keep no old replica

    @property
    def rank(self) -> tuple[int, int, int, int]:
        return self.rack_violations, self.squared_counts, self.bytes_outside, self.copied_bytes


@dataclass(frozen=True)
class Shares:
    """The fair share of bytes of each broker that stays, and its band."""

    document: Mapping[str, Any]
    staying: tuple[int, ...]

    @cached_property
    def weights(self) -> dict[int, float]:
        disks = {b["id"]: b.get("disk_total_bytes", 0) for b in self.document["brokers"]}
        disks = {broker: disks[broker] for broker in self.staying}
        largest, smallest = max(disks.values()), min(disks.values())
        if not smallest or largest * 10 <= smallest * 11:
            return dict.fromkeys(self.staying, 1.0)
        return {broker: disk / largest for broker, disk in disks.items()}

    @cached_property
    def costs(self) -> dict[int, int]:
        """What a replica weighs on each broker, in hundredths of its weight on the largest one."""
        return {broker: round(100 / weight) for broker, weight in self.weights.items()}

    @cached_property
    def members(self) -> dict[str, list[int]]:
        racks = {b["id"]: b["rack"] for b in self.document["brokers"]}
        members = defaultdict(list)
        for broker in self.staying:
            members[racks[broker]].append(broker)
        return dict(members)

    def of(self, per_partition: list[int], weights: Mapping[int, float]) -> dict[int, float]:
        """Return the share of each broker in a sum over all replicas, filled by weights."""
        factors = [len(row[2]) for row in self.document["partitions"]]
        pairs = list(zip(factors, per_partition, strict=True))
        total = float(sum(factor * part for factor, part in pairs))
        highest = float(sum(per_partition))
        lowest = float(sum(part for factor, part in pairs if factor >= len(self.members)))
        of_rack = {rack: sum(weights[b] for b in brokers) for rack, brokers in self.members.items()}

        def in_rack(rack: str, level: float) -> float:
            return min(highest, max(lowest, level * of_rack[rack]))

        low, high = 0.0, total / min(of_rack.values()) + 1.0
        for _ in range(200):
            level = (low + high) / 2
            is_below = sum(in_rack(rack, level) for rack in of_rack) < total
            low, high = (level, high) if is_below else (low, level)
        return {
            broker: in_rack(rack, high) * weights[broker] / of_rack[rack]
            for rack, brokers in self.members.items()
            for broker in brokers
        }

    @cached_property
    def bands(self) -> dict[int, tuple[float, float]]:
        fair = self.of([row[4] for row in self.document["partitions"]], self.weights)
        return {b: (share * (1 - TOLERANCE), share * (1 + TOLERANCE)) for b, share in fair.items()}


def staying_brokers(document: Mapping[str, Any], goal: str) -> tuple[int, ...]:
    gone = set(document["named"]) if goal == "remove-brokers" else set()
    return tuple(sorted(broker["id"] for broker in document["brokers"] if broker["id"] not in gone))


def measure(document: Mapping[str, Any], goal: str, plan: Mapping[str, Any]) -> Figures:
    verdict = judge(document, plan, goal, document["named"], TOLERANCE)
    case = Judged.of(document, goal, document["named"], TOLERANCE)
    counts: Counter[int] = Counter()
    held: Counter[int] = Counter()
    for key, brokers in after_plan(case.before, plan).items():
        counts.update(brokers)
        for broker in brokers:
            held[broker] += case.sizes[key]
    shares = Shares(document, staying_brokers(document, goal))
    bands = shares.bands
    outside = {b: max(low - held[b], held[b] - high) for b, (low, high) in bands.items()}
    return Figures(
        errors=verdict["errors"],
        rack_violations=verdict["after"]["rack_violations"],
        squared_counts=sum(counts[b] ** 2 * cost for b, cost in shares.costs.items()) // 100,
        bytes_outside=sum(int(away) for away in outside.values() if away > 1),
        copied_bytes=verdict["moved"]["bytes"],
        copied_replicas=verdict["moved"]["replicas"],
        several_new=verdict["partitions_with_several_new_replicas"],
        none_kept=verdict["partitions_keeping_no_old_replica"],
    )
