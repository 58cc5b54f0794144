"""Traffic: what brokers take in as leaders and as followers, evened where rates are known."""

import random
from dataclasses import replace
from itertools import zip_longest

import pyarrow as pa
import pytest

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.plan import MoveReason, RebalancePlan
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.model.tables import TOPICS
from counterpoise.planning import make_plan
from counterpoise.validation import find_violations
from tests.support.goal_judge import executed, judge
from tests.support.pictures import cluster

REBALANCE = PlanRequest(Goal.REBALANCE)


def skewed(
    seed: int, brokers: int = 4, partitions: int = 120, *, has_rates: bool = True, racks: int = 0
) -> ClusterSnapshot:
    """Leaders, replicas and bytes are even; a few partitions take in most of the traffic."""
    chance = random.Random(seed)
    lines = []
    for number in range(partitions):
        first = number % brokers
        replicas = [1 + (first + step) % brokers for step in range(chance.choice((1, 2)))]
        rate = int(chance.paretovariate(0.9) * 50_000)
        known = f" rate={rate}" if has_rates else ""
        lines.append(
            f"t{number % 7}-{number // 7}: {' '.join(map(str, replicas))} "
            f"size={chance.randrange(900, 1100)}{known}"
        )
    names = [f"{n}=r{n % racks}" if racks else str(n) for n in range(1, brokers + 1)]
    return cluster("\n".join(lines), racks=" ".join(names))


def network_in(snapshot: ClusterSnapshot, plan: RebalancePlan) -> dict[int, int]:
    """What each broker takes in after the plan, counted from replicas and rates alone."""
    after = {move.topic_partition: move.replicas_after for move in plan.moves}
    loads = dict.fromkeys(snapshot.registered_broker_ids, 0)
    for row in snapshot.partitions.to_pylist():
        replicas = after.get((row["topic"], row["partition"]), row["replicas"])
        for broker_id in replicas:
            loads[broker_id] += row["bytes_in_per_second"] or 0
    return loads


def led_bytes_in(snapshot: ClusterSnapshot, plan: RebalancePlan) -> list[int]:
    """What the leaders of each broker take in once the plan has run."""
    loads = dict.fromkeys(snapshot.registered_broker_ids, 0)
    for row in executed(snapshot, plan).partitions.to_pylist():
        loads[row["replicas"][0]] += row["bytes_in_per_second"]
    return [*loads.values()]


def distance(loads: dict[int, int]) -> float:
    """The largest distance from the mean, as a share of it."""
    mean = sum(loads.values()) / len(loads)
    return max(abs(load - mean) for load in loads.values()) / mean


HOT = cluster(
    """
    a-0: 1 2 size=1000 rate=300
    b-0: 2 1 size=1000 rate=300
    c-0: 1 2 size=1000 rate=300
    d-0: 2 1 size=1000 rate=300
    e-0: 3 4 size=1000 rate=100
    f-0: 4 3 size=1000 rate=100
    g-0: 3 4 size=1000 rate=100
    h-0: 4 3 size=1000 rate=100
    """,
    racks="1 2 3 4",
)


def test_traffic_is_a_reason_to_move_replicas_that_are_even_otherwise() -> None:
    """Brokers 1 and 2 take in 1,200 each, brokers 3 and 4 400: four exchanges make 800 each."""
    plan = make_plan(HOT, REBALANCE)
    assert network_in(HOT, plan) == {1: 800, 2: 800, 3: 800, 4: 800}
    assert {move.why for move in plan.moves if move.adding} == {MoveReason.TRAFFIC}
    assert sum(move.traffic_gain or 0 for move in plan.moves) == 1360  # to 7.5 % of 800
    verdict = judge(HOT, plan)
    assert verdict.errors == ()
    assert set(verdict.replicas.values()) == {4}
    assert set(verdict.leaders.values()) == {2}
    assert find_violations(plan, HOT, BalancePolicy()) == ()
    figure = plan.figures[0]
    assert (figure.network_in_before, figure.network_in_after, figure.network_in_best) == (
        1200,
        800,
        800,
    )
    assert RebalancePlan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("racks", [0, 2])
def test_traffic_comes_within_the_tolerance_and_all_else_stays_as_even(
    seed: int, racks: int
) -> None:
    snapshot = skewed(seed, racks=racks)
    plan = make_plan(snapshot, REBALANCE)
    blind = make_plan(skewed(seed, has_rates=False, racks=racks), REBALANCE)
    seen, unseen = judge(snapshot, plan), judge(snapshot, blind)
    assert seen.errors == ()
    assert distance(network_in(snapshot, plan)) < 0.1 or plan.warnings
    assert seen.replicas_max_minus_min <= max(1, unseen.replicas_max_minus_min)
    assert seen.leaders_max_minus_min <= max(1, unseen.leaders_max_minus_min)
    assert make_plan(executed(snapshot, plan), REBALANCE).moves == ()


def test_small_differences_are_tolerated_and_the_policy_says_how_small() -> None:
    lines = [f"t-{n}: {1 + n % 2} size=1000 rate={105 if n % 2 else 100}" for n in range(40)]
    snapshot = cluster("\n".join(lines), racks="1 2")
    assert "traffic within 10 %" in make_plan(snapshot, REBALANCE).reason
    narrow = BalancePolicy(bytes_in_tolerance_percent=1)
    plan = make_plan(snapshot, PlanRequest(Goal.REBALANCE, policy=narrow))
    assert 0 < plan.copied_replicas <= 20
    assert distance(network_in(snapshot, plan)) <= 0.01


def test_traffic_that_is_mostly_unknown_is_left_alone_and_the_plan_says_so() -> None:
    lines = [f"t-{n}: {1 + n % 2} size=1000{' rate=9000' if n == 0 else ''}" for n in range(9)]
    plan = make_plan(cluster("\n".join(lines), racks="1 2"), REBALANCE)
    assert plan.moves == ()
    assert any("8 of 9 partitions are not known" in warning for warning in plan.warnings)


@pytest.mark.parametrize(
    "request_",
    [
        PlanRequest(Goal.ADD_BROKERS, (5,)),
        PlanRequest(Goal.REMOVE_BROKERS, (4,)),
    ],
)
def test_new_and_removed_brokers_choose_among_equals_by_traffic(request_: PlanRequest) -> None:
    """No more is copied than without rates, and traffic is nearer to even."""
    for seed in range(6):
        snapshot, unrated = skewed(seed, brokers=4), skewed(seed, brokers=4, has_rates=False)
        if request_.goal is Goal.ADD_BROKERS:
            snapshot, unrated = with_broker_5(snapshot), with_broker_5(unrated)
        plan, blind = make_plan(snapshot, request_), make_plan(unrated, request_)
        assert plan.copied_replicas == blind.copied_replicas
        assert plan.copied_bytes <= blind.copied_bytes
        assert judge(snapshot, plan).errors == ()
        assert spread(snapshot, plan) <= spread(snapshot, blind)
        assert make_plan(executed(snapshot, plan), request_).moves == ()


def spread(snapshot: ClusterSnapshot, plan: RebalancePlan) -> int:
    loads = network_in(snapshot, plan)
    kept = [load for broker_id, load in loads.items() if not is_removed(plan, broker_id)]
    return max(kept) - min(kept)


def is_removed(plan: RebalancePlan, broker_id: int) -> bool:
    return plan.goal is Goal.REMOVE_BROKERS and broker_id in plan.broker_ids


def with_broker_5(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    row = {**snapshot.brokers.to_pylist()[0], "broker_id": 5}
    brokers = pa.concat_tables(
        [snapshot.brokers, pa.Table.from_pylist([row], snapshot.brokers.schema)]
    )
    return replace(snapshot, tables={**snapshot.tables, "brokers": brokers})


@pytest.mark.parametrize("goal", [Goal.REBALANCE, Goal.LEADERS])
def test_leaders_are_exchanged_for_traffic_and_their_numbers_stay(goal: Goal) -> None:
    """Brokers 1 and 2 hold the same; 1 leads 1,000, 2 leads 200. No byte has to move."""
    snapshot = cluster(
        """
        a-0: 1 2 size=1000 rate=500
        b-0: 1 2 size=1000 rate=500
        c-0: 2 1 size=1000 rate=100
        d-0: 2 1 size=1000 rate=100
        """,
        racks="1 2",
    )
    plan = make_plan(snapshot, PlanRequest(goal))
    assert [figure.bytes_in_after for figure in plan.figures] == [600, 600]
    assert [figure.leaders_after for figure in plan.figures] == [2, 2]
    assert plan.copied_replicas == 0
    assert {move.why for move in plan.moves} == {MoveReason.LEADERS}
    assert make_plan(executed(snapshot, plan), PlanRequest(goal)).moves == ()


@pytest.mark.parametrize("seed", [0, 1, 2, 4, 5])  # of 3, one partition has half of the traffic
def test_leaders_chosen_for_traffic_stay_when_planned_again(seed: int) -> None:
    snapshot, leaders = skewed(seed), PlanRequest(Goal.LEADERS)
    plan = make_plan(snapshot, leaders)
    blind = make_plan(skewed(seed, has_rates=False), leaders)
    assert plan.copied_replicas == 0
    assert max(led_bytes_in(snapshot, plan)) < max(led_bytes_in(snapshot, blind))
    seen, unseen = judge(snapshot, plan), judge(snapshot, blind)
    assert seen.leaders_max_minus_min == unseen.leaders_max_minus_min
    assert make_plan(executed(snapshot, plan), leaders).moves == ()


@pytest.mark.parametrize(
    ("policies", "says"),
    [
        (("delete", "delete"), ""),
        (("compact,delete", "delete"), "the rate of 1 partition is a lower bound: its topic is"),
        (("compact", "compact"), "the rates of 2 partitions are lower bounds: their topics are"),
        ((None, "compact"), "the rates of 2 partitions are lower bounds: their topics are"),
    ],
)
def test_a_plan_by_rates_of_compacted_topics_says_that_these_are_lower_bounds(
    policies: tuple[str | None, str | None], says: str
) -> None:
    rows = [
        row | {"cleanup_policy": policy}
        for row, policy in zip_longest(HOT.topics.to_pylist(), policies, fillvalue="delete")
    ]
    tables = {**HOT.tables, "topics": pa.Table.from_pylist(rows, schema=TOPICS)}
    plan = make_plan(replace(HOT, tables=tables), REBALANCE)
    found = [note for note in plan.notes if "lower bound" in note]
    assert [note.startswith(says) for note in found] == ([True] if says else [])
