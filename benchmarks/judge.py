"""Judge a reassignment plan against a cluster document, knowing nothing of any planner.

    .venv/bin/python benchmarks/judge.py CLUSTER PLAN --goal add-brokers --brokers 7,8

    verdict = judge(document, {"partitions": [...]}, "add-brokers", (7, 8))
    verdict["over_lower_bound"]["bytes"]        # bytes copied, as a multiple of the lower bound

CLUSTER is a cluster document, .json or .json.gz: `{"brokers": [{"id", "rack"}], "partitions":
[[topic, partition, [replicas], leader, size_bytes, ...]]}`. PLAN is Kafka's own reassignment JSON:
`{"version": 1, "partitions": [{"topic", "partition", "replicas"}]}`. The first replica is the
preferred leader; leaders are counted as if a preferred leader election followed over every
partition. Partitions that the plan does not name stay as they are. The command prints the verdict
as JSON, and exits with 1 when it has errors.

Lower bounds hold for any plan that reaches the goal; a plan below them stopped before the target:

- leaders: n partitions on m live brokers cannot be led more evenly than floor(n/m) to ceil(n/m);
- replicas: a broker that must reach floor(share) needs that many arrivals. Where each rack must
  hold exactly one replica of every partition (racks == RF), shares are of the rack's replicas;
- bytes: a broker that must reach (1 - tolerance) x share needs that many bytes; one above
  (1 + tolerance) x share must give the surplus, as far as the destinations have room. Brokers that
  are to be removed give all of theirs.

A share is the mean; by the size of disks where the largest has more than 1.1 times the smallest.
Then no broker's share is more than one replica of everything, and what is more goes to the others.

A giant is a replica that is larger than the band of any broker without one. Its broker's share is
the giant and the smallest replicas that fill its share of them; the others share what is left. The
bound takes giants to stay: 400 GB on one of three brokers, and 100 GB in small replicas on another
one, bound a plan by 45 GB, and not by what the mean of 167 GB would ask for.

Limits: dead brokers count as live ones, and scopes and policies are not known.
"""

import argparse
import gzip
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import ceil, floor
from pathlib import Path
from typing import Any

_EPSILON = 1e-9
Key = tuple[str, int]
Assignment = Mapping[Key, tuple[int, ...]]
GOALS = ("add-brokers", "remove-brokers", "leaders", "rebalance")


@dataclass(frozen=True)
class Case:
    """A cluster before a plan, and what the plan is for."""

    racks: Mapping[int, str | None]
    disks: Mapping[int, int]  # bytes; 0 where not known
    before: Assignment
    leaders: Mapping[Key, int]
    sizes: Mapping[Key, int]  # bytes of one replica
    goal: str
    named: frozenset[int]
    tolerance: float

    @classmethod
    def of(
        cls, document: Mapping[str, Any], goal: str, named: Iterable[int], tolerance: float
    ) -> "Case":
        racks = {broker["id"]: broker.get("rack") for broker in document["brokers"]}
        disks = {b["id"]: b.get("disk_total_bytes") or 0 for b in document["brokers"]}
        before, leaders, sizes = {}, {}, {}
        for topic, number, replicas, leader, size, *_ in document["partitions"]:
            key = (topic, number)
            before[key], leaders[key], sizes[key] = tuple(replicas), leader, size
        return cls(racks, disks, before, leaders, sizes, goal, frozenset(named), tolerance)

    @cached_property
    def gone(self) -> frozenset[int]:
        return self.named if self.goal == "remove-brokers" else frozenset()

    @cached_property
    def live(self) -> list[int]:
        return sorted(set(self.racks) - self.gone)

    @cached_property
    def by_rack(self) -> dict[str | None, list[int]]:
        members = defaultdict(list)
        for broker in self.live:
            members[self.racks[broker]].append(broker)
        return dict(members)

    @cached_property
    def weights(self) -> dict[int, float]:
        """The share of each live broker beside that of the largest."""
        largest = max(self.disks[b] for b in self.live)
        smallest = min(self.disks[b] for b in self.live)
        if not smallest or largest * 10 <= smallest * 11:
            return dict.fromkeys(self.live, 1.0)
        return {b: self.disks[b] / largest for b in self.live}

    def shares(
        self, members: list[int], total: float, most: float, least: Mapping[int, float] = {}
    ) -> dict[int, float]:
        """The share of each member in a total of which none may have more than `most`, and some
        have at `least` so much.
        """
        shares: dict[int, float] = {}
        left = set(members)
        while left:
            unshared = max(0.0, total - sum(shares.values()))
            per_weight = unshared / sum(self.weights[b] for b in left)
            fair = {b: per_weight * self.weights[b] for b in left}
            limits = {b: least[b] for b in left if fair[b] < least.get(b, 0.0)}
            limits = limits or {b: most for b in left if fair[b] > most}
            if not limits:
                return shares | fair
            shares |= limits
            left -= limits.keys()
        return shares  # of a cluster in which each broker holds its limit

    def byte_shares(
        self, members: list[int], replicas: int, held: int, assignment: Assignment
    ) -> tuple[dict[int, float], set[int]]:
        """The share of each member in bytes that they hold, and who of them holds a giant."""
        everything = sum(self.sizes.values())
        counts = self.shares(members, replicas, len(assignment))
        smallest = [0, *accumulate(sorted(self.sizes.values()))]
        least: dict[int, float] = {}
        while True:
            shares = self.shares(members, held, everything, least)
            highest = max((shares[b] for b in members if b not in least), default=everything)
            giants = {
                (key, broker)
                for key, row in assignment.items()
                if self.sizes[key] > (1 + self.tolerance) * highest
                for broker in {*row} & {*members}
            }
            found = {
                broker: self.sizes[key] + smallest[max(0, floor(counts[broker]) - 1)]
                for key, broker in sorted(giants, key=lambda giant: self.sizes[giant[0]])
            }
            if found.keys() <= least.keys():
                return shares, set(least)
            least |= {broker: float(size) for broker, size in found.items()}

    @cached_property
    def has_one_replica_per_rack(self) -> bool:
        """Must each rack hold exactly one replica of every partition?"""
        factors = {len(replicas) for replicas in self.before.values()}
        return len(factors) == 1 and len(self.by_rack) == next(iter(factors)) > 1


@dataclass(frozen=True, slots=True)
class Load:
    replicas: Counter[int]
    held: Counter[int]  # bytes

    @classmethod
    def of(cls, assignment: Assignment, sizes: Mapping[Key, int]) -> "Load":
        replicas: Counter[int] = Counter()
        held: Counter[int] = Counter()
        for key, brokers in assignment.items():
            size = sizes[key]
            for broker in brokers:
                replicas[broker] += 1
                held[broker] += size
        return cls(replicas, held)


def judge(
    document: Mapping[str, Any],
    plan: Mapping[str, Any],
    goal: str,
    named: Sequence[int] = (),
    tolerance: float = 0.1,
) -> dict[str, Any]:
    """The verdict; its "errors" are empty for a good plan."""
    case = Case.of(document, goal, named, tolerance)
    errors = Counter(_errors_of_entries(case, plan["partitions"]))
    after = after_plan(case.before, plan)
    loads = Load.of(case.before, case.sizes), Load.of(after, case.sizes)
    figures = [_measured(case, *pair) for pair in zip((case.before, after), loads, strict=True)]
    added = {
        key: new for key, brokers in after.items() if (new := set(brokers) - set(case.before[key]))
    }
    errors += _errors_of_outcome(case, added, loads[1])
    errors["more rack violations than before"] += max(
        0, figures[1]["rack_violations"] - figures[0]["rack_violations"]
    )
    moved = sum(map(len, added.values()))
    moved_bytes = sum(len(new) * case.sizes[key] for key, new in added.items())
    low_replicas, low_bytes = lower_bounds(case, loads[0])
    count, brokers = len(case.before), len(case.live)
    return {
        "errors": dict(+errors),
        "before": figures[0],
        "after": figures[1],
        "leaders_now": _spread(Counter(case.leaders.values()), case.live),
        "best_leader_max_minus_min": -(-count // brokers) - count // brokers,
        "brokers_out_of_bytes_band": _out_of_band(case, after, loads[1]),
        "partitions_with_several_new_replicas": sum(len(new) > 1 for new in added.values()),
        "partitions_keeping_no_old_replica": sum(
            not set(after[key]) & set(case.before[key]) for key in added
        ),
        "moved": {
            "replicas": moved,
            "bytes": moved_bytes,
            "reordered_partitions": sum(
                after[k] != old for k, old in case.before.items() if k not in added
            ),
            "pct_of_all_bytes": round(100 * moved_bytes / max(1, loads[0].held.total()), 2),
        },
        "lower_bound": {"replicas": low_replicas, "bytes": low_bytes},
        "over_lower_bound": {
            "replicas": _ratio(moved, low_replicas),
            "bytes": _ratio(moved_bytes, low_bytes),
        },
    }


def after_plan(before: Assignment, plan: Mapping[str, Any]) -> dict[Key, tuple[int, ...]]:
    """Return the assignment once a reassignment JSON is executed; other partitions stay."""
    wanted = {
        (entry["topic"], entry["partition"]): tuple(entry["replicas"])
        for entry in plan["partitions"]
    }
    return {key: wanted.get(key, replicas) for key, replicas in before.items()}


def lower_bounds(case: Case, load: Load) -> tuple[int, int]:
    """Replicas and bytes that any plan which reaches the goal has to copy."""
    if case.goal == "leaders":
        return 0, 0
    if case.goal == "remove-brokers":
        return sum(load.replicas[b] for b in case.named), sum(load.held[b] for b in case.named)
    if case.has_one_replica_per_rack:
        one_of_each = len(case.before), sum(case.sizes.values())
        groups = [(members, *one_of_each) for members in case.by_rack.values()]
    else:
        groups = [(case.live, load.replicas.total(), load.held.total())]
    replicas, held = 0.0, 0.0
    for members, all_replicas, all_bytes in groups:
        destinations = [b for b in members if case.goal == "rebalance" or b in case.named]
        fair = case.shares(members, all_replicas, len(case.before))
        whole = {b: (floor(share + _EPSILON), ceil(share - _EPSILON)) for b, share in fair.items()}
        replicas += _arrivals(load.replicas, destinations, whole)
        fair, with_giant = case.byte_shares(members, all_replicas, all_bytes, case.before)
        bands = {
            b: ((1 - case.tolerance) * share, (1 + case.tolerance) * share)
            for b, share in fair.items()
            if b not in with_giant
        }
        held += _arrivals(load.held, [b for b in destinations if b in bands], bands)
    return int(replicas), int(held)


def _arrivals(
    load: Counter[int], destinations: list[int], bands: Mapping[int, tuple[float, float]]
) -> float:
    """Return what has to arrive until no destination is below its band, and no broker is above it
    that can pass its surplus on.
    """
    need = sum(max(0.0, bands[b][0] - load[b]) for b in destinations)
    room = sum(max(0.0, bands[b][1] - load[b]) for b in destinations)
    surplus = sum(max(0.0, load[b] - high) for b, (_, high) in bands.items())
    return max(need, min(surplus, room))


def topics_with_uneven_replicas(case: Case, assignment: Assignment) -> int:
    """Topics of which one broker holds at least two replicas more than another."""
    by_topic: dict[str, Counter[int]] = defaultdict(Counter)
    for (topic, _), brokers in assignment.items():
        by_topic[topic].update(brokers)
    return sum(_range(counts, case.live) > 1 for counts in by_topic.values())


def could_lead_more_evenly(case: Case, assignment: Assignment) -> bool:
    """Would another order of the same replicas lead more evenly? An exact answer, by augmenting
    paths.

    It would if, and only if, leaderships can be passed on from one broker to the next, each to a
    replica of the same partition, until one arrives at a broker that leads at least two fewer than
    the first (Harvey et al. 2003, "Semi-matchings for bipartite graphs and load balancing").
    """
    led = Counter(brokers[0] for brokers in assignment.values())
    if _range(led, case.live) <= 1:
        return False
    passes_on: dict[int, set[int]] = defaultdict(set)
    for brokers in assignment.values():
        passes_on[brokers[0]].update(brokers[1:])
    for level in sorted({led[b] for b in case.live}, reverse=True):
        seen = {b for b in case.live if led[b] >= level}
        queue = list(seen)
        while queue:
            found = {b for b in passes_on[queue.pop()] if b not in seen and b not in case.gone}
            if any(led[b] <= level - 2 for b in found):
                return True
            seen |= found
            queue += found
    return False


def _errors_of_entries(case: Case, entries: Iterable[Mapping[str, Any]]) -> list[str]:
    errors, seen = [], set()
    for entry in entries:
        key, new = (entry["topic"], entry["partition"]), tuple(entry["replicas"])
        old = case.before.get(key)
        errors += ["partition named twice"] * (key in seen)
        seen.add(key)
        if old is None:
            errors.append("unknown partition")
            continue
        errors += ["replication factor changed"] * (len(new) != len(old))
        errors += ["broker twice in one partition"] * (len(set(new)) != len(new))
        errors += ["unknown broker"] * any(b not in case.racks for b in new)
        errors += ["entry that changes nothing"] * (new == old and new[0] == case.leaders[key])
    return errors


def _errors_of_outcome(case: Case, added: Mapping[Key, set[int]], load: Load) -> Counter[str]:
    arrived = Counter(broker for new in added.values() for broker in new)
    errors: Counter[str] = Counter()
    if case.goal == "leaders":
        errors["data moved by a leaders-only plan"] = arrived.total()
    if case.goal == "add-brokers":
        errors["replica sent to an old broker"] = sum(
            n for b, n in arrived.items() if b not in case.named
        )
    errors["replica left on a removed broker"] = sum(load.replicas[b] for b in case.gone)
    return errors


def _measured(case: Case, assignment: Assignment, load: Load) -> dict[str, Any]:
    led: dict[str, Counter[int]] = defaultdict(Counter)
    stacked = 0
    for (topic, _), brokers in assignment.items():
        led[topic][brokers[0]] += 1
        stacked += _is_uneven_over_racks(case, brokers)
    # The least is 0 unless every live broker leads some of the topic.
    least = {
        topic: min(counts.values()) if len(counts) == len(case.live) else 0
        for topic, counts in led.items()
    }
    uneven = sum(max(counts.values()) - least[topic] > 1 for topic, counts in led.items())
    return {
        "leaders": _spread(sum(led.values(), Counter()), case.live),
        "replicas": _spread(load.replicas, case.live),
        "bytes": _spread(load.held, case.live),
        "rack_violations": stacked,
        "topics_with_uneven_leaders": uneven,
    }


def _is_uneven_over_racks(case: Case, brokers: tuple[int, ...]) -> bool:
    """Whether a rack has two replicas more than another one with a broker left for one of them."""
    stacks = Counter(case.racks.get(b) for b in brokers)
    lowest = min(
        (stacks[rack] for rack, members in case.by_rack.items() if stacks[rack] < len(members)),
        default=len(brokers),
    )
    return max(stacks.values(), default=0) > lowest + 1


def _out_of_band(case: Case, assignment: Assignment, load: Load) -> int:
    """Brokers whose bytes are further than the tolerance from their share, of their rack where
    racks == RF.
    """
    groups = case.by_rack.values() if case.has_one_replica_per_rack else [case.live]
    out = 0
    for members in groups:
        replicas = sum(load.replicas[b] for b in members)
        held = sum(load.held[b] for b in members)
        fair, _ = case.byte_shares(members, replicas, held, assignment)
        for broker, share in fair.items():
            out += abs(load.held[broker] - share) > case.tolerance * share * (1 + _EPSILON)
    return out


def _spread(counts: Counter[int], brokers: list[int]) -> dict[str, float | None]:
    values = [counts[b] for b in brokers]
    mean = sum(values) / len(values)
    return {
        "min": min(values),
        "max": max(values),
        "mean": round(mean, 3),
        "max_minus_min": max(values) - min(values),
        "max_over_mean": round(max(values) / mean, 4) if mean else None,
    }


def _range(counts: Counter[int], brokers: list[int]) -> int:
    values = [counts[b] for b in brokers]
    return max(values) - min(values)


def _ratio(value: int, bound: int) -> float | None:
    return round(value / bound, 4) if bound else None


def read_document(path: Path) -> Any:
    """Read JSON from a file, or from one that gzip compressed."""
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("cluster", type=Path)
    parser.add_argument("plan", type=Path)
    parser.add_argument("--goal", required=True, choices=GOALS)
    parser.add_argument("--brokers", default="", help="ids of the brokers that the goal is about")
    parser.add_argument("--tolerance", type=float, default=0.1)
    arguments = parser.parse_args()
    cluster, plan = read_document(arguments.cluster), read_document(arguments.plan)
    named = [int(broker_id) for broker_id in arguments.brokers.split(",") if broker_id]
    verdict = judge(cluster, plan, arguments.goal, named, arguments.tolerance)
    print(json.dumps(verdict, indent=2))
    return 1 if verdict["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
