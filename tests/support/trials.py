"""Clusters drawn at random with a request, and what the planner and the judge make of the two.

    @given(trial=trials(goals=(Goal.REBALANCE,), dead=True))
    def test_something(trial: Trial) -> None:
        assert trial.verdict["errors"] == {}

The judge (`benchmarks/judge.py`) reads documents and reassignment JSON and knows nothing of the
planner. It takes dead brokers for live ones.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hypothesis import strategies as st

from benchmarks.judge import judge
from counterpoise.model.constraints import matching
from counterpoise.model.document import from_document_text
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.reassignment import to_reassignment_json
from counterpoise.model.request import Goal, PlanRequest, Scope
from counterpoise.planning import make_plan

GOALS = (Goal.ADD_BROKERS, Goal.REMOVE_BROKERS, Goal.LEADERS, Goal.REBALANCE)
Key = tuple[str, int]


@dataclass(frozen=True)
class Trial:
    """A cluster, a request, and what the planner and the judge make of the two."""

    document: dict[str, Any]
    request: PlanRequest

    @cached_property
    def plan(self) -> RebalancePlan:
        return make_plan(from_document_text(json.dumps(self.document)), self.request)

    @cached_property
    def verdict(self) -> dict[str, Any]:
        return self._judged(json.loads(to_reassignment_json(self.plan)))

    @cached_property
    def verdict_before(self) -> dict[str, Any]:
        return self._judged({"partitions": []})

    @cached_property
    def before(self) -> dict[Key, tuple[int, ...]]:
        return {(row[0], row[1]): tuple(row[2]) for row in self.document["partitions"]}

    @cached_property
    def after(self) -> dict[Key, tuple[int, ...]]:
        return self.before | {
            (move.topic, move.partition): move.replicas_after for move in self.plan.moves
        }

    @cached_property
    def racks(self) -> dict[int, str | None]:
        return {broker["id"]: broker["rack"] for broker in self.document["brokers"]}

    @cached_property
    def staying(self) -> list[int]:
        """Live brokers that the request does not empty."""
        gone = self.request.broker_ids if self.request.goal is Goal.REMOVE_BROKERS else ()
        return [
            b["id"] for b in self.document["brokers"] if not b["fenced"] and b["id"] not in gone
        ]

    @cached_property
    def leading(self) -> list[int]:
        return [b for b in self.staying if self.request.scope.may_touch_broker(b)]

    @cached_property
    def free(self) -> set[Key]:
        """Partitions that the plan may change: the request does not exclude them, and somebody
        leads them.
        """
        rows = (row for row in self.document["partitions"] if row[0] not in self.excluded_topics)
        return {(row[0], row[1]) for row in rows if row[3] >= 0}

    @cached_property
    def excluded_topics(self) -> frozenset[str]:
        return matching(
            self.request.scope.excluded_topics, {row[0] for row in self.document["partitions"]}
        )

    def executed(self) -> "Trial":
        """The same request on the cluster after the plan."""
        reassignment = json.loads(to_reassignment_json(self.plan))
        wanted = {(e["topic"], e["partition"]): e["replicas"] for e in reassignment["partitions"]}
        rows = [list(row) for row in self.document["partitions"]]
        for row in rows:
            if (row[0], row[1]) in wanted:
                row[2] = wanted[row[0], row[1]]
                row[3] = row[2][0]
        return Trial({**self.document, "partitions": rows}, self.request)

    def _judged(self, reassignment: dict[str, Any]) -> dict[str, Any]:
        return judge(self.document, reassignment, str(self.request.goal), self.request.broker_ids)


# -- clusters and requests


@st.composite
def trials(
    draw: st.DrawFn,
    *,
    goals: tuple[Goal, ...] = GOALS,
    dead: bool = False,
    scopes: bool = False,
    many: bool = False,
) -> Trial:
    """Up to 10 brokers and some partitions; racks may be missing or uneven, replication factors
    mixed, sizes skewed.

    With `many` there are two racks, and partitions with more replicas than that; otherwise there
    are none of these.
    """
    chance = random.Random(draw(st.integers(0, 2**64)))
    return draw_trial(chance, goals=goals, dead=dead, scopes=scopes, many=many)


def draw_trial(
    chance: random.Random, *, goals: tuple[Goal, ...], dead: bool, scopes: bool, many: bool
) -> Trial:
    brokers = _brokers(chance, [2] if many else [0, 2, 3, 4, 5], dead)
    holders = [b["id"] for b in brokers][
        : len(brokers) - chance.randint(0, (len(brokers) - 1) // 2)
    ]
    rack_count = len({b["rack"] for b in brokers[: len(holders)]})
    most = min(4, len(holders), 4 if many or rack_count == 1 else rack_count)
    factors = [most if many else chance.randint(1, most) for _ in range(chance.randint(1, 2))]
    place, skew = chance.choice([_striped, _scattered]), chance.choice([0, 1, 2])
    fenced = {b["id"] for b in brokers if b["fenced"]}
    partitions = []
    for topic in range(chance.randint(1, 5)):
        for number, replicas in enumerate(
            place(chance, holders, chance.choice(factors), chance.randint(1, 25))
        ):
            able = [b for b in replicas if b not in fenced] or [-1]
            leader = able[0] if chance.random() < 0.7 else chance.choice(able)
            partitions.append(
                [f"t{topic}", number, replicas, leader, int(chance.lognormvariate(15, skew)), 0]
            )
    document = {"cluster": "chance", "brokers": brokers, "partitions": partitions}
    return Trial(document, _request(chance, document, chance.choice(goals), scopes))


def _brokers(chance: random.Random, rack_counts: list[int], dead: bool) -> list[dict[str, Any]]:
    count, rack_count, is_even = (
        chance.randint(2, 10),
        chance.choice(rack_counts),
        chance.random() < 0.5,
    )
    racks: list[str | None] = [None] * count
    if rack_count:
        racks = [
            f"r{n % rack_count if is_even else chance.randrange(rack_count)}" for n in range(count)
        ]
    if rack_count > 2 and chance.random() < 0.1:
        racks[chance.randrange(count)] = None
    fenced = chance.randrange(count) if dead and count > 2 and chance.random() < 0.5 else None
    return [{"id": n + 1, "rack": rack, "fenced": n == fenced} for n, rack in enumerate(racks)]


def _scattered(
    chance: random.Random, holders: list[int], factor: int, count: int
) -> Iterator[list[int]]:
    return (chance.sample(holders, factor) for _ in range(count))


def _striped(
    chance: random.Random, holders: list[int], factor: int, count: int
) -> Iterator[list[int]]:
    """Neighbours in a ring, so that few pairs of brokers share partitions: the least freedom."""
    first, size = chance.randrange(len(holders)), len(holders)
    return (
        [holders[(first + number + step) % size] for step in range(factor)]
        for number in range(count)
    )


def _request(
    chance: random.Random, document: dict[str, Any], goal: Goal, scopes: bool
) -> PlanRequest:
    live = [broker["id"] for broker in document["brokers"] if not broker["fenced"]]
    idle = sorted(set(live) - {b for row in document["partitions"] for b in row[2]})
    named: tuple[int, ...] = ()
    if goal is Goal.ADD_BROKERS:
        named = tuple(idle or live[-1:])
    if goal is Goal.REMOVE_BROKERS:
        spare = len(live) - max(len(row[2]) for row in document["partitions"])
        named = (
            tuple(sorted(chance.sample(live, min(chance.randint(1, 2), spare))))
            if spare > 0
            else ()
        )
        goal = goal if named else Goal.LEADERS
    if not scopes:
        return PlanRequest(goal, named)
    topics = sorted({row[0] for row in document["partitions"]})
    excluded = tuple(
        topic.replace("t", "*")
        for topic in chance.sample(topics, chance.randint(0, len(topics) - 1))
    )
    others = [b for b in live if b not in named]
    brokers = tuple(chance.sample(others, 1)) if len(others) > 2 and chance.random() < 0.5 else ()
    return PlanRequest(goal, named, scope=Scope((), excluded, (), brokers))


def large_trial(chance: random.Random, goal: Goal, *, racks: int, new: int, old: int = 30) -> Trial:
    """About 2,000 partitions with RF 3 in even racks, or in none: replicas even on the old brokers,
    leaders not.
    """
    brokers = [
        {"id": n, "rack": f"r{n % racks}" if racks else None, "fenced": False}
        for n in range(old + new)
    ]
    rows = _rounds(chance, racks or 1, old)
    partitions = []
    for topic in range(60):
        for number in range(chance.choice([5, 20, 75])):
            replicas = next(rows)
            leader = replicas[0] if chance.random() < 0.8 else chance.choice(replicas)
            partitions.append(
                [f"t{topic}", number, replicas, leader, int(chance.lognormvariate(20, 0.5)), 0]
            )
    named = {Goal.ADD_BROKERS: range(old, old + new), Goal.REMOVE_BROKERS: range(1)}.get(
        goal, range(0)
    )
    return Trial(
        {"cluster": "large", "brokers": brokers, "partitions": partitions},
        PlanRequest(goal, tuple(named)),
    )


def _rounds(chance: random.Random, racks: int, old: int) -> Iterator[list[int]]:
    """Replica sets over different racks: round after round around all brokers, each in an order of
    its own.
    """
    while True:
        groups = [chance.sample(range(rack, old, racks), old // racks) for rack in range(racks)]
        order = [broker for one_of_each in zip(*groups, strict=True) for broker in one_of_each]
        yield from ([order[(number + step) % old] for step in range(3)] for number in range(old))
