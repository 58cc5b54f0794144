"""Small crooked clusters drawn at random, each with a request for a goal.

    case = draw_case(random.Random(7), Goal.REBALANCE, partitions=(12, 60))

Uneven racks or none, brokers without a rack, mixed replication factors, leaders and replicas on few
brokers, a dead broker, disks of different sizes, scopes, one huge partition, a new broker in a new
rack.
"""

import random
from dataclasses import replace
from typing import Any

from counterpoise.model.constraints import BrokerSet, Constraints
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.request import Goal, PlanRequest, Scope
from tests.support.placement_oracle import OracleCase

ORACLE_GOALS = (
    Goal.REBALANCE,
    Goal.ADD_BROKERS,
    Goal.REMOVE_BROKERS,
    Goal.REPAIR,
    Goal.REPLICATION_FACTOR,
)


def draw_case(
    chance: random.Random, goal: Goal, partitions: tuple[int, int] = (12, 60)
) -> OracleCase:
    brokers = _brokers(chance, goal)
    new = [b["id"] for b in brokers if b["new"]]
    holders = [b["id"] for b in brokers if not b["new"]]
    dead = {b["id"] for b in brokers if b["fenced"]}
    rows = _partitions(chance, holders, dead, chance.randint(*partitions))
    if chance.random() < 0.3:
        for broker in brokers:
            held = sum(row[4] for row in rows if broker["id"] in row[2])
            total = chance.choice([2, 4]) * sum(row[4] for row in rows)
            broker |= {"disk_total_bytes": total, "disk_usable_bytes": total - held}
    document = {"cluster": "small", "brokers": brokers, "partitions": rows}
    return OracleCase(document, _request(chance, goal, brokers, rows, new))


def with_constraints(chance: random.Random, case: OracleCase) -> OracleCase:
    """The same case with up to three constraints; some are more than the cluster can keep."""
    ids = sorted(broker["id"] for broker in case.document["brokers"])
    topics = sorted({row[0] for row in case.document["partitions"]})
    replicas = sum(len(row[2]) for row in case.document["partitions"])
    kinds: dict[str, Any] = {"broker_sets": _broker_sets(chance, ids, topics)}
    chance.choice(topics)  # so that the seeds that tests name draw what they always drew
    kinds["max_replicas_per_broker"] = replicas // len(ids) + chance.randint(1, 4)
    kinds["no_new_replicas_on"] = tuple(chance.sample(ids, 1))
    names = ["broker_sets", "max_replicas_per_broker", "none", "no_new_replicas_on"]
    chosen = chance.sample(names, chance.randint(1, 3))
    constraints = Constraints(**{name: kinds[name] for name in chosen if name in kinds})
    policy = replace(case.request.policy, constraints=constraints)
    return OracleCase(case.document, replace(case.request, policy=policy))


def _broker_sets(chance: random.Random, ids: list[int], topics: list[str]) -> tuple[BrokerSet, ...]:
    in_set = tuple(chance.sample(ids, max(3, len(ids) // 2)))
    return (BrokerSet("some", tuple(topics[::2]), in_set),)


def executed(case: OracleCase, plan: RebalancePlan) -> OracleCase:
    """The same request on the cluster after the plan."""
    wanted = {(move.topic, move.partition): list(move.replicas_after) for move in plan.moves}
    rows = []
    for row in case.document["partitions"]:
        replicas = wanted.get((row[0], row[1]))
        leader = row[3] if replicas is None else replicas[0]
        rows.append([*row[:2], replicas or row[2], leader, *row[4:]])
    return OracleCase({**case.document, "partitions": rows}, case.request)


def _brokers(chance: random.Random, goal: Goal) -> list[dict[str, Any]]:
    count, rack_count = chance.randint(4, 9), chance.choice([0, 2, 3, 3, 4])
    racks = [f"r{chance.randrange(rack_count)}" if rack_count else None for _ in range(count)]
    if rack_count and chance.random() < 0.1:
        racks[chance.randrange(count)] = None
    new_count = chance.randint(1, 2) if goal is Goal.ADD_BROKERS else 0
    if new_count and chance.random() < 0.4:
        racks[-new_count:] = ["new"] * new_count
    has_dead = goal is Goal.REPAIR or (goal is Goal.REBALANCE and chance.random() < 0.2)
    return [
        {
            "id": n + 1,
            "rack": rack,
            "fenced": has_dead and n == 0,
            "new": n >= count - new_count,
        }
        for n, rack in enumerate(racks)
    ]


def _partitions(
    chance: random.Random, holders: list[int], dead: set[int], count: int
) -> list[list[Any]]:
    weights = {broker: 0.05 + chance.random() ** 2 for broker in holders}
    rows: list[list[Any]] = []
    while len(rows) < count:
        factor = min(chance.choice([1, 2, 3, 3]), len(holders) - 1)
        mu, of_topic = chance.uniform(12, 16), chance.choice([1, 3, 6, 12, 20])
        topic = f"t{len({row[0] for row in rows})}"
        for number in range(min(of_topic, count - len(rows))):
            replicas = _sample(chance, weights, factor)
            able = [b for b in replicas if b not in dead] or [-1]
            leader = able[0] if chance.random() < 0.7 else chance.choice(able)
            rows.append([topic, number, replicas, leader, int(chance.lognormvariate(mu, 1)), 0])
    if chance.random() < 0.15:
        chance.choice(rows)[4] = sum(row[4] for row in rows)
    return rows


def _sample(chance: random.Random, weights: dict[int, float], count: int) -> list[int]:
    left, chosen = dict(weights), []
    for _ in range(count):
        chosen += chance.choices(list(left), list(left.values()))
        del left[chosen[-1]]
    return chosen


def _request(
    chance: random.Random,
    goal: Goal,
    brokers: list[dict[str, Any]],
    rows: list[list[Any]],
    new: list[int],
) -> PlanRequest:
    topics = sorted({row[0] for row in rows})
    scope = Scope()
    if goal is Goal.REPLICATION_FACTOR:
        factor = chance.randint(2, 3)
        longest = max(len(row[2]) for row in rows)
        return PlanRequest(goal, scope=Scope(("*",)), replication_factor=max(factor, longest))
    if goal in (Goal.REBALANCE, Goal.ADD_BROKERS) and chance.random() < 0.2:
        scope = Scope(topics=tuple(chance.sample(topics, -(-len(topics) // 2))))
    if goal is Goal.REBALANCE and chance.random() < 0.15 and len(brokers) > 4:
        scope = Scope(scope.topics, excluded_broker_ids=(brokers[-1]["id"],))
    named = {Goal.ADD_BROKERS: tuple(new), Goal.REMOVE_BROKERS: (brokers[0]["id"],)}
    return PlanRequest(goal, named.get(goal, ()), scope=scope)
