"""Who leads: counts per broker first, topics next; and what may not lead."""

import random
from collections import Counter
from dataclasses import replace

import pyarrow as pa

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.model.tables import PARTITIONS
from counterpoise.planning import make_plan
from counterpoise.planning.arrays import read_cluster
from counterpoise.planning.leader_candidates import Candidates
from counterpoise.planning.leader_choice import choose_leaders
from counterpoise.planning.placement import Placement
from tests.support.goal_judge import executed, judge
from tests.support.pictures import cluster


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


def test_topics_of_a_large_cluster_are_evened_in_batches_and_stay_so() -> None:
    # More partitions than a batch has, all led by one of the first four brokers.
    chance, racks = random.Random(7), " ".join(map(str, range(1, 13)))
    replicas = {
        f"t{topic}-{number}": [chance.randint(1, 4), *chance.sample(range(5, 13), 2)]
        for topic in range(60)
        for number in range(200)
    }
    leaders = chosen(cluster(_lines(replicas), racks=racks))
    assert set(Counter(leaders.values()).values()) == {1_000}
    assert all(topic[-1] - topic[0] <= 1 for topic in per_topic(leaders, 12).values())
    led = {
        name: sorted(row, key=lambda broker: broker != leaders[name])
        for name, row in replicas.items()
    }
    assert chosen(cluster(_lines(led), racks=racks)) == leaders


def _lines(replicas: dict[str, list[int]]) -> str:
    return "\n".join(f"{name}: {' '.join(map(str, row))}" for name, row in replicas.items())


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
