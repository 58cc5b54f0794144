"""Who leads: counts per broker first, topics next; or bytes-in; and what may not lead."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.policy import BalancePolicy, LeaderWeight
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.model.tables import PARTITIONS
from counterpoise.planning import make_plan
from counterpoise.planning.arrays import read_cluster
from counterpoise.planning.leader_candidates import Candidates
from counterpoise.planning.leader_choice import choose_leaders
from counterpoise.planning.placement import Placement
from tests.support.goal_judge import executed, judge
from tests.support.pictures import cluster

WEIGHED = BalancePolicy(leader_weight=LeaderWeight.BYTES_IN)


def chosen(
    snapshot: ClusterSnapshot, policy: BalancePolicy | None = None, *, demoted: tuple[int, ...] = ()
) -> dict[str, int]:
    """The leader of each partition, by the same call as the planner's; all brokers but the demoted
    ones may lead.
    """
    policy = policy or BalancePolicy()
    arrays = read_cluster(snapshot, policy)
    placement, eligible = Placement.of(arrays), arrays.is_live & ~arrays.flags(demoted)
    candidates = Candidates.of(placement, eligible, arrays.may_change, elects=True)
    first = choose_leaders(candidates, policy)
    return {arrays.name(at): int(arrays.broker_ids[broker]) for at, broker in enumerate(first)}


def per_topic(leaders: dict[str, int], brokers: int) -> dict[str, list[int]]:
    """How many each of the brokers 1, 2, ... leads of each topic, the fewest first."""
    counts = Counter((name.rpartition("-")[0], broker) for name, broker in leaders.items())
    topics = sorted({topic for topic, _ in counts})
    return {
        topic: sorted(counts[topic, broker] for broker in range(1, brokers + 1)) for topic in topics
    }


def lagging(snapshot: ClusterSnapshot, *isr: tuple[int, ...]) -> ClusterSnapshot:
    """The same cluster with these in-sync replicas, by row."""
    column = pa.array([list(members) for members in isr], PARTITIONS.field("isr").type)
    at = PARTITIONS.get_field_index("isr")
    table = snapshot.partitions.set_column(at, PARTITIONS.field("isr"), column)
    return replace(snapshot, tables={**snapshot.tables, "partitions": table})


def test_each_topic_is_led_as_evenly_as_all_of_them() -> None:
    # Five topics that start on their first brokers, as if by chance: 8 partitions, any two of five
    # brokers.
    pairs = [(one, 1 + (one + step) % 5) for step in (0, 1) for one in range(1, 6)]
    lines = [f"t{t}-{n}: {pairs[n][0]} {pairs[n][1]}" for t in range(5) for n in range(8)]
    leaders = chosen(cluster("\n".join(lines), racks="1 2 3 4 5"))
    assert sorted(Counter(leaders.values()).values()) == [8, 8, 8, 8, 8]
    assert per_topic(leaders, 5) == {f"t{t}": [1, 1, 2, 2, 2] for t in range(5)}


def test_a_partition_that_two_brokers_need_is_given_to_one_of_them_only() -> None:
    # By number 3 could lead one and 4 two, but a-0 is one of both: it goes to 3, and one is left
    # for 4.
    picture = "a-0: 2 3 4\na-1: 2\na-2: 2\na-3: 2 4\na-4: 2"
    leaders = chosen(cluster(picture, racks="1 2 3 4"))
    assert Counter(leaders.values()) == {2: 3, 3: 1, 4: 1}


def test_a_circle_of_three_brokers_where_no_two_can_exchange() -> None:
    picture = """
    a-0: 1 2
    a-1: 1 2
    b-0: 2 3
    c-0: 3 1
    d-0: 2
    e-0: 3
    """
    leaders = chosen(cluster(picture, racks="1 2 3"))
    assert Counter(leaders.values()) == {1: 2, 2: 2, 3: 2}
    assert per_topic(leaders, 3)["a"] == [0, 1, 1]
    assert leaders["b-0"] == 3
    assert leaders["c-0"] == 1


def test_leadership_of_a_topic_is_passed_on_by_way_of_brokers_in_between() -> None:
    # 1 leads two of a and 3 none, and they share no partition of a: 1 -> 2 -> 3, and back by b.
    picture = """
    a-0: 1 2
    a-1: 1 2
    a-2: 2 3
    b-0: 3 1
    c-0: 2
    d-0: 3
    """
    leaders = chosen(cluster(picture, racks="1 2 3"))
    assert Counter(leaders.values()) == {1: 2, 2: 2, 3: 2}
    assert per_topic(leaders, 3)["a"] == [1, 1, 1]


def test_no_topic_is_made_even_at_the_cost_of_another_one() -> None:
    # a has too many leaders on 1, and only b-0 could go back to 1: then b would be as uneven.
    picture = """
    a-0: 1 2
    a-1: 1 2
    b-0: 2 1
    b-1: 1
    c-0: 2
    d-0: 2
    """
    leaders = chosen(cluster(picture, racks="1 2"))
    assert leaders == {"a-0": 1, "a-1": 1, "b-0": 2, "b-1": 1, "c-0": 2, "d-0": 2}


def test_what_may_not_change_counts_for_its_leader() -> None:
    # Broker 1 leads the two excluded partitions, so the others are for 2.
    picture = "\n".join(["x-0: 1 2", "x-1: 1 2", *(f"a-{n}: 1 2" for n in range(2))])
    leaders = chosen(cluster(picture, racks="1 2"), BalancePolicy(excluded_topics=("x",)))
    assert leaders == {"x-0": 1, "x-1": 1, "a-0": 2, "a-1": 2}


def test_a_replica_that_lags_behind_is_not_chosen() -> None:
    picture = "\n".join(f"a-{n}: 1 2 3" for n in range(6))
    snapshot = cluster(picture, racks="1 2 3")
    in_sync = lagging(snapshot, (1, 2), (1, 2), (1, 2), (1, 2), (1, 2), (1, 2, 3))
    leaders = chosen(in_sync)
    assert leaders["a-5"] == 3  # the only one that 3 may lead
    assert Counter(leaders.values()) == {1: 3, 2: 2, 3: 1}
    assert Counter(chosen(snapshot).values()) == {1: 2, 2: 2, 3: 2}


def test_the_present_leader_may_lead_whatever_the_in_sync_replicas_say() -> None:
    snapshot = lagging(cluster("a-0: 2 1 @1", racks="1 2"), ())
    assert chosen(snapshot) == {"a-0": 1}


def test_a_leader_stays_where_no_other_replica_may_lead() -> None:
    snapshot = lagging(cluster("a-0: 1 2\na-1: 1 2", racks="1 2"), (1,), (1, 2))
    assert chosen(snapshot, demoted=(1,)) == {"a-0": 1, "a-1": 2}


def test_a_new_replica_may_lead_since_it_is_in_sync_when_the_move_is_done() -> None:
    picture = "\n".join(f"a-{n}: 1 2 size=10" for n in range(6))
    snapshot = lagging(cluster(picture, racks="1 2 3"), *[(1, 2)] * 6)
    plan = make_plan(snapshot, PlanRequest(Goal.ADD_BROKERS, (3,)))
    assert judge(snapshot, plan).leaders == {1: 2, 2: 2, 3: 2}


def test_a_drain_leaves_partitions_alone_that_only_an_election_would_change() -> None:
    # Half of the others are not led by their preferred leader now; that is no business of this
    # goal.
    lines = [f"a-{n}: {1 + n % 3} {1 + (n + 1) % 3} @{1 + (n + n // 3 % 2) % 3}" for n in range(30)]
    lines += [f"b-{n}: 4 {1 + n % 3}" for n in range(3)]
    snapshot = cluster("\n".join(lines), racks="1 2 3 4")
    plan = make_plan(snapshot, PlanRequest(Goal.REMOVE_BROKERS, (4,)))
    assert {move.topic for move in plan.moves} == {"b"}
    assert judge(snapshot, plan).leaders == {1: 11, 2: 11, 3: 11}
    assert make_plan(executed(snapshot, plan), PlanRequest(Goal.REMOVE_BROKERS, (4,))).is_empty


def led_bytes(snapshot: ClusterSnapshot, leaders: dict[str, int]) -> Counter[int]:
    led: Counter[int] = Counter()
    for row in snapshot.partitions.to_pylist():
        led[leaders[f"{row['topic']}-{row['partition']}"]] += row["bytes_in_per_second"] or 0
    return led


def test_bytes_in_come_first_and_counts_second() -> None:
    # 300 is as much as all the others together; of those without traffic broker 2 gets fewer.
    picture = "\n".join(
        [
            "a-0: 1 2 rate=300",
            *(f"b-{n}: 1 2 rate=100" for n in range(3)),
            *(f"c-{n}: 1 2 rate=0" for n in range(6)),
        ]
    )
    snapshot = cluster(picture, racks="1 2")
    leaders = chosen(snapshot, WEIGHED)
    assert led_bytes(snapshot, leaders) == {1: 300, 2: 300}
    assert Counter(leaders.values()) == {1: 5, 2: 5}


def test_without_rates_counts_decide_even_where_bytes_were_asked_for() -> None:
    picture = "\n".join(f"a-{n}: 1 2 3" for n in range(9))
    snapshot = cluster(picture, racks="1 2 3")
    assert chosen(snapshot, WEIGHED) == chosen(snapshot)


def test_a_partition_larger_than_a_fair_share_leaves_the_rest_to_the_others() -> None:
    picture = "\n".join(
        [
            "a-0: 1 2 3 rate=9000",
            *(f"b-{n}: {1 + n % 3} {1 + (n + 1) % 3} rate=10" for n in range(60)),
        ]
    )
    snapshot = cluster(picture, racks="1 2 3")
    led = led_bytes(snapshot, chosen(snapshot, WEIGHED))
    assert sorted(led.values()) == [300, 300, 9000]


@pytest.mark.parametrize("seed", (0, 2, 3))
def test_bytes_in_reach_the_water_level_and_counts_their_optimum_where_partitions_are_many(
    seed: int,
) -> None:
    chance = np.random.default_rng(seed)
    rates = chance.lognormal(8, 1.5, 900).astype(int)
    lines = []
    for number, rate in enumerate(rates):
        replicas = " ".join(str(1 + broker) for broker in chance.permutation(9)[:3])
        lines.append(f"t{number % 20}-{number}: {replicas} rate={rate}")
    snapshot = cluster("\n".join(lines), racks=" ".join(str(broker) for broker in range(1, 10)))
    leaders = chosen(snapshot, WEIGHED)
    led, mean = led_bytes(snapshot, leaders), rates.sum() / 9
    assert max(led.values()) <= mean * 1.0011  # no choice is below the mean
    assert min(led.values()) >= mean * 0.9989
    assert sorted(Counter(leaders.values()).values()) == [100] * 9


def test_leaders_that_are_even_but_for_a_trifle_stay() -> None:
    lines = [f"a-{n}: {1 + n % 2} {2 - n % 2} rate={1000 + (n == 0)}" for n in range(20)]
    snapshot = cluster("\n".join(lines), racks="1 2")
    leaders = chosen(snapshot, WEIGHED)
    assert leaders == {f"a-{n}": 1 + n % 2 for n in range(20)}


def test_choosing_again_keeps_leaders_that_bytes_made_uneven_in_number() -> None:
    # The choice by count, which the search starts from, evens the numbers out each time, and might
    # end elsewhere.
    def drawn(*leaders: int) -> ClusterSnapshot:
        rows = [(leader, *sorted({1, 2, 3} - {leader})) for leader in leaders]
        lines = [
            f"a-{n}: {' '.join(map(str, row))} rate={rate}"
            for n, (row, rate) in enumerate(zip(rows, (100, 10, 185, 10, 10), strict=True))
        ]
        return cluster("\n".join(lines), racks="1 2 3")

    once = chosen(drawn(1, 3, 2, 3, 1), WEIGHED)
    assert sorted(Counter(once.values()).values()) == [1, 1, 3]
    assert chosen(drawn(*once.values()), WEIGHED) == once
