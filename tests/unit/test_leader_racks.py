"""Leaders where the clients are: after evenness, before the fewest changes, and no data moves.

The oracle tries every choice of leaders of small clusters; it shares no code.
"""

import random
from collections import Counter
from itertools import product

import pytest

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.constraints import matching
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.planning import make_plan
from counterpoise.validation import find_violations
from tests.support.goal_judge import assignment_after, executed, judge
from tests.support.pictures import cluster


def planned(snapshot: ClusterSnapshot, preferences: dict[str, tuple[str, ...]]) -> RebalancePlan:
    request = PlanRequest(Goal.LEADERS, policy=BalancePolicy(leader_racks=preferences))
    plan = make_plan(snapshot, request)
    assert judge(snapshot, plan).errors == ()
    assert find_violations(plan, snapshot, request.policy) == ()
    assert plan.copied_bytes == 0
    assert make_plan(executed(snapshot, plan), request).moves == ()
    return plan


def led_by(snapshot: ClusterSnapshot, plan: RebalancePlan) -> dict[str, int]:
    return {str(key): row[0] for key, row in assignment_after(snapshot, plan).items()}


def test_two_leaders_change_places_so_that_both_are_where_their_clients_are() -> None:
    snapshot = cluster("pay-0: 1 2\nlog-0: 2 1", racks="1=a 2=b")
    assert make_plan(snapshot, PlanRequest(Goal.LEADERS)).is_empty
    plan = planned(snapshot, {"pay-*": ("a",), "pay": ("b",)})
    assert led_by(snapshot, plan) == {"pay-0": 2, "log-0": 1}


def test_evenness_comes_first_and_the_plan_says_who_stands_outside_and_why() -> None:
    picture = "pay-0: 1 2\npay-1: 2 1\npay-2: 1 2\npay-3: 2 1\nfar-0: 2 3\nfar-1: 3 2"
    snapshot = cluster(picture, racks="1=a 2=b 3=c")
    plan = planned(snapshot, {"pay": ("a",), "far": ("a",), "old-*": ("x",)})
    assert sorted(Counter(led_by(snapshot, plan).values()).values()) == [2, 2, 2]
    (words,) = [w for w in plan.warnings if "leader_racks" in w]
    assert words == (
        "no broker is in a rack of leader_racks: x; 2 leaders stand outside of leader_racks, "
        "without a replica there; 2 leaders stand outside of leader_racks: this goal leaves them, "
        "leaders per broker would be less even, or no replica there may lead"
    )


def test_the_first_pattern_that_matches_counts_and_unknown_racks_prefer_nothing() -> None:
    snapshot = cluster("pay-0: 1 2\nlog-0: 2 1", racks="1=a 2=b")
    assert planned(snapshot, {"pay": ("a",), "*": ("b", "a")}).is_empty
    assert planned(snapshot, {"*": ("x",)}).is_empty
    assert not planned(snapshot, {"pay": ("b",), "*": ("b", "a")}).is_empty


def test_topics_are_evened_only_as_far_as_leaders_stay_in_their_racks() -> None:
    rows = [f"pay-{n}: {1 + n % 2} {3 + n % 2}" for n in range(8)]
    rows += [f"log-{n}: {3 + n % 2} {1 + n % 2}" for n in range(8)]
    snapshot = cluster("\n".join(rows), racks="1=a 2=a 3=b 4=b")
    leaders = led_by(snapshot, planned(snapshot, {"pay": ("a",)}))
    assert {leaders[f"pay-{n}"] for n in range(8)} == {1, 2}
    assert Counter(leaders.values()) == {1: 4, 2: 4, 3: 4, 4: 4}


@pytest.mark.parametrize("seed", range(150))
def test_no_choice_as_even_has_fewer_leaders_outside(seed: int) -> None:
    chance = random.Random(seed)
    brokers = range(1, chance.randint(4, 6))
    racks = {one: chance.choice("abc") for one in brokers}
    rows = {
        f"{chance.choice('pqr')}-{n}": chance.sample(list(brokers), chance.randint(1, 3))
        for n in range(chance.randint(3, 7))
    }
    picture = "\n".join(f"{name}: {' '.join(map(str, row))}" for name, row in rows.items())
    snapshot = cluster(picture, racks=" ".join(f"{one}={rack}" for one, rack in racks.items()))
    preferences = {"p": ("a",), "q": ("a", "b")} if seed % 3 else {"*": ("c",)}

    def outside(name: str, leader: int) -> bool:
        for pattern, wanted in preferences.items():
            if matching((pattern,), [name.rpartition("-")[0]]):
                return bool(set(wanted) & set(racks.values())) and racks[leader] not in wanted
        return False

    def worth(leaders: tuple[int, ...]) -> tuple[int, int]:
        counts = Counter(leaders)
        far = sum(outside(name, leader) for name, leader in zip(rows, leaders, strict=True))
        return sum(count * count for count in counts.values()), far

    best = min(map(worth, product(*rows.values())))
    leaders = led_by(snapshot, planned(snapshot, preferences))
    assert worth(tuple(leaders[name] for name in rows)) == best
