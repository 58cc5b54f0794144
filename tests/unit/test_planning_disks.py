"""Disks: what a plan knows of them, shares by their size, and no log dir filled past the limit on
the way.
"""

import json
import random
import re
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest

from counterpoise.errors import RefusedError
from counterpoise.model.broker_weight import BY_DISK, BrokerWeight, Weighing
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.document import from_document_text
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.request import Goal, PlanRequest, Scope
from counterpoise.model.tables import REPLICAS
from counterpoise.planning import make_plan, plan_to_reach
from counterpoise.planning.arrays import UNBOUNDED, read_cluster
from counterpoise.validation import find_violations
from tests.support.goal_judge import executed, judge
from tests.support.pictures import cluster

GB, TB = 10**9, 10**12


def headroom(disks: str, limit_percent: int = 85) -> dict[int, int]:
    """What may still arrive on each broker of a cluster with these disks."""
    snapshot = cluster(racks="1 2 3", disks=disks)
    arrays = read_cluster(snapshot, BalancePolicy(disk_limit_percent=limit_percent))
    return dict(zip(arrays.broker_ids.tolist(), arrays.headroom_bytes.tolist(), strict=True))


def disk_bytes(disks: str) -> list[int]:
    return [
        int(total)
        for total in read_cluster(cluster(racks="1 2 3", disks=disks), BalancePolicy()).disk_bytes
    ]


def topic(name: str, rows: list[tuple[str, int]]) -> str:
    return "\n".join(
        f"{name}-{number}: {replicas} size={size}" for number, (replicas, size) in enumerate(rows)
    )


def arriving(plan: RebalancePlan) -> Counter[int]:
    """Bytes that each broker receives."""
    received: Counter[int] = Counter()
    for move in plan.moves:
        received.update(dict.fromkeys(move.adding, move.size_bytes))
    return received


def overfilled(
    snapshot: ClusterSnapshot, plan: RebalancePlan, limit_percent: int = 85
) -> list[str]:
    """Log dirs past the limit if all that a broker receives comes into that one, and nothing has
    left it yet.
    """
    received = arriving(plan)
    return [
        f"{row['log_dir']} of broker {row['broker_id']}: "
        f"{used} + {received[row['broker_id']]} of {row['total_bytes']}"
        for row in snapshot.log_dirs.to_pylist()
        if row["error"] is None and received[row["broker_id"]]
        for used in [row["total_bytes"] - row["usable_bytes"]]
        if (used + received[row["broker_id"]]) * 100 > row["total_bytes"] * limit_percent
    ]


def speaks_of_disks(plan: RebalancePlan, broker_id: int) -> bool:
    return any(
        names_disks(text) and re.search(rf"\b{broker_id}\b", text)
        for text in (*plan.warnings, plan.reason)
    )


def names_disks(text: str) -> bool:
    return "disk" in text or "log dir" in text


def nearly(value: int, share: float, percent: int = 10) -> bool:
    return abs(value - share) <= share * percent / 100 + 1


# -- what is known


def test_the_worst_log_dir_counts_since_the_broker_chooses_where_a_replica_goes() -> None:
    assert headroom("1=100/1000 2=0/1000,700/1000,100/2000 3=900/1000") == {1: 750, 2: 150, 3: 0}
    assert headroom("1=100/1000", limit_percent=50) == {1: 400, 2: UNBOUNDED, 3: UNBOUNDED}


def test_dirs_on_one_file_system_count_once_and_an_offline_dir_not_at_all() -> None:
    assert disk_bytes("1=100/1000,100/1000 2=100/1000,300/1000 3=100/1000,!") == [1000, 2000, 1000]
    assert headroom("1=100/1000,100/1000 2=! 3=100/1000,!") == {1: 750, 2: UNBOUNDED, 3: 750}


def test_without_log_dirs_the_brokers_own_figures_count() -> None:
    broker = {"id": 1, "disk_total_bytes": 1000, "disk_usable_bytes": 400}
    snapshot = from_document_text(json.dumps({"brokers": [broker, {"id": 2}], "partitions": []}))
    arrays = read_cluster(snapshot, BalancePolicy())
    assert arrays.disk_bytes.tolist() == [1000, 0]
    assert arrays.headroom_bytes.tolist() == [250, UNBOUNDED]


# -- shares by disk size


def of_two_sizes(*, last_tells: bool = True) -> ClusterSnapshot:
    """Six brokers with 600 GB each, the first three on disks of 1 TB, the others on 2 TB."""
    chance = random.Random(4)
    rows = []
    for number in range(240):
        first = number % 6
        size = chance.randrange(1 * GB, 14 * GB)
        rows.append((f"{first + 1} {(first + 1 + number // 6 % 5) % 6 + 1}", size))
    held: Counter[int] = Counter()
    for replicas, size in rows:
        held.update({int(word): size for word in replicas.split()})
    totals = {
        broker_id: TB if broker_id <= 3 else 2 * TB
        for broker_id in range(1, 7 if last_tells else 6)
    }
    disks = " ".join(
        f"{broker_id}={held[broker_id]}/{total}" for broker_id, total in totals.items()
    )
    return cluster(topic("t", rows), racks="1 2 3 4 5 6", disks=disks)


def test_brokers_with_disks_of_two_sizes_hold_bytes_and_replicas_in_that_ratio() -> None:
    snapshot = of_two_sizes()
    plan = make_plan(snapshot, PlanRequest(Goal.REBALANCE))
    verdict = judge(snapshot, plan)
    assert verdict.errors == ()
    total = sum(verdict.bytes_held.values())
    shares = {broker_id: total / 9 * (1 if broker_id <= 3 else 2) for broker_id in range(1, 7)}
    assert {b: held for b, held in verdict.bytes_held.items() if not nearly(held, shares[b])} == {}
    assert all(verdict.replicas[broker] in (53, 54) for broker in (1, 2, 3))
    assert all(verdict.replicas[broker] in (106, 107) for broker in (4, 5, 6))
    assert all(
        nearly(figure.bytes_best, shares[figure.broker_id], percent=1) for figure in plan.figures
    )
    assert overfilled(snapshot, plan) == []


def test_a_disk_that_is_not_told_makes_all_shares_equal() -> None:
    verdict = judge(
        snapshot := of_two_sizes(last_tells=False), make_plan(snapshot, PlanRequest(Goal.REBALANCE))
    )
    mean = sum(verdict.bytes_held.values()) / 6
    assert all(nearly(held, mean) for held in verdict.bytes_held.values())


def test_a_new_broker_with_twice_the_disk_gets_twice_the_bytes_and_replicas() -> None:
    chance = random.Random(5)
    rows = [
        (" ".join(map(str, chance.sample(range(1, 5), 2))), chance.randrange(1, 20) ** 2)
        for _ in range(300)
    ]
    disks = "1=20000/100000 2=20000/100000 3=20000/100000 4=20000/100000 5=0/200000"
    snapshot = cluster(topic("t", rows), racks="1 2 3 4 5", disks=disks)
    plan = make_plan(snapshot, PlanRequest(Goal.ADD_BROKERS, (5,)))
    verdict = judge(snapshot, plan)
    assert verdict.errors == ()
    assert nearly(verdict.bytes_held[5], sum(verdict.bytes_held.values()) / 6 * 2)
    assert verdict.replicas == {1: 100, 2: 100, 3: 100, 4: 100, 5: 200}


def of_equal_sizes(disks: str = "") -> ClusterSnapshot:
    """Four brokers with 20 replicas of 100 bytes each."""
    rows = [(f"{number % 4 + 1} {(number + 1) % 4 + 1}", 100) for number in range(40)]
    return cluster(topic("t", rows), racks="1 2 3 4", disks=disks)


def replicas_after(snapshot: ClusterSnapshot, weight: BrokerWeight = BY_DISK) -> list[int]:
    """Replicas of brokers 1 to 4 once a rebalance is done, that the validator accepts."""
    policy = BalancePolicy(broker_weight=weight)
    plan = make_plan(snapshot, PlanRequest(Goal.REBALANCE, policy=policy))
    assert judge(snapshot, plan).errors == ()
    assert find_violations(plan, snapshot, policy) == ()
    return [figure.replicas_after for figure in plan.figures]


def test_brokers_that_hold_as_their_disks_are_have_nothing_to_copy() -> None:
    rows = [(f"{number % 2 + 1} {number // 2 % 2 + 3}", 100) for number in range(80)]
    rows += [("3 4", 100)] * 60
    disks = "1=0/40000 2=0/40000 3=0/100000 4=0/100000"
    snapshot = cluster(topic("t", rows), racks="1 2 3 4", disks=disks)
    assert make_plan(snapshot, PlanRequest(Goal.REBALANCE)).copied_replicas == 0


@pytest.mark.parametrize(
    ("disks", "weight", "expected"),
    [
        ("1=0/50000 2=0/50000 3=0/55000 4=0/55000", BY_DISK, [20, 20, 20, 20]),
        ("1=0/40000 2=0/40000 3=0/120000 4=0/120000", BY_DISK, [10, 10, 30, 30]),
        ("1=0/40000 2=0/40000 3=0/120000", BY_DISK, [20, 20, 20, 20]),
        (
            "1=0/40000 2=0/40000 3=0/120000 4=0/120000",
            BrokerWeight(Weighing.EQUAL),
            [20, 20, 20, 20],
        ),
        ("", BrokerWeight(named=((2, 2),)), [16, 32, 16, 16]),
        # No broker holds a partition twice: broker 2 has all 40, and the others share the rest.
        ("", BrokerWeight(named=((2, 9),)), [14, 40, 13, 13]),
    ],
)
def test_whose_share_of_replicas_is_larger(
    disks: str, weight: BrokerWeight, expected: list[int]
) -> None:
    assert replicas_after(of_equal_sizes(disks), weight) == expected


def test_a_plan_by_disk_names_the_share_of_each_broker() -> None:
    snapshot = of_equal_sizes("1=0/40000 2=0/40000 3=0/120000 4=0/120000")
    plan = make_plan(snapshot, PlanRequest(Goal.REBALANCE))
    assert (
        "shares of replicas and bytes are by disk, since disks differ (40.0 kB to 120 kB): "
        "brokers 1, 2 12.5 % each; brokers 3, 4 37.5 % each"
    ) in plan.notes


# -- never past the limit


def test_a_new_broker_takes_no_more_than_its_disk_allows_and_the_plan_says_so() -> None:
    rows = [(f"{number % 3 + 1} {(number + 1) % 3 + 1}", 100) for number in range(60)]
    snapshot = cluster(
        topic("t", rows), racks="1 2 3 4", disks="1=4000/9000 2=4000/9000 3=4000/9000 4=7000/9000"
    )
    plan = make_plan(snapshot, PlanRequest(Goal.ADD_BROKERS, (4,)))
    assert judge(snapshot, plan).errors == ()
    assert 500 <= arriving(plan)[4] <= 650  # its share would be 3,000
    assert speaks_of_disks(plan, 4)
    assert any("plan again once they are gone" in warning for warning in plan.warnings)


def test_replicas_of_a_removed_broker_go_where_there_is_room() -> None:
    rows = [("1", 100)] * 8 + [(str(2 + number % 3), 100) for number in range(24)]
    snapshot = cluster(
        topic("t", rows), racks="1 2 3 4", disks="1=800/9000 2=7600/9000 3=800/9000 4=800/9000"
    )
    plan = make_plan(snapshot, PlanRequest(Goal.REMOVE_BROKERS, (1,)))
    assert judge(snapshot, plan).errors == ()
    assert arriving(plan)[2] == 0
    assert arriving(plan)[3] + arriving(plan)[4] == 800


def test_a_broker_that_cannot_be_emptied_for_lack_of_room_is_an_answer_that_names_the_disks() -> (
    None
):
    rows = [("1", 100)] * 8 + [("2", 100), ("3", 100)]
    snapshot = cluster(topic("t", rows), racks="1 2 3", disks="1=800/9000 2=7400/9000 3=7400/9000")
    try:
        plan = make_plan(snapshot, PlanRequest(Goal.REMOVE_BROKERS, (1,)))
    except RefusedError as refused:
        assert names_disks(str(refused))
    else:
        assert overfilled(snapshot, plan) == []
        assert any(names_disks(text) for text in plan.warnings)


def test_rebalance_sends_nothing_to_a_broker_that_others_files_have_filled() -> None:
    rows = [("1", 100)] * 30 + [("2", 100)] * 30 + [("3", 100)] * 3
    snapshot = cluster(
        topic("t", rows), racks="1 2 3 4", disks="1=3000/9000 2=3000/9000 3=8000/9000 4=0/9000"
    )
    plan = make_plan(snapshot, PlanRequest(Goal.REBALANCE))
    assert judge(snapshot, plan).errors == ()
    assert arriving(plan)[3] == 0
    assert arriving(plan)[4] >= 1500
    assert speaks_of_disks(plan, 3)


def test_the_dead_are_replaced_where_there_is_room() -> None:
    rows = [("1 2", 100)] * 8 + [("3 4", 100)] * 8
    snapshot = cluster(
        topic("t", rows), racks="1 !2 3 4", disks="1=800/9000 3=7500/9000 4=800/9000"
    )
    plan = make_plan(snapshot, PlanRequest(Goal.REPAIR))
    assert judge(snapshot, plan).errors == ()
    assert not any(2 in move.replicas_after for move in plan.moves)
    assert plan.copied_replicas == 8
    assert overfilled(snapshot, plan) == []


def test_the_worst_log_dir_holds_a_new_broker_back_though_another_has_room() -> None:
    rows = [(f"{number % 3 + 1} {(number + 1) % 3 + 1}", 100) for number in range(60)]
    disks = "1=4000/9000 2=4000/9000 3=4000/9000 4=0/4500,3325/4500"
    snapshot = cluster(topic("t", rows), racks="1 2 3 4", disks=disks)
    plan = make_plan(snapshot, PlanRequest(Goal.ADD_BROKERS, (4,)))
    assert judge(snapshot, plan).errors == ()
    assert 400 <= arriving(plan)[4] <= 500
    assert speaks_of_disks(plan, 4)


def test_a_broker_that_gets_replicas_and_has_lost_a_log_dir_is_named() -> None:
    rows = [(f"{number % 3 + 1}", 100) for number in range(12)]
    disks = "1=400/9000,! 2=400/9000 3=400/9000 4=0/9000,!"
    snapshot = cluster(topic("t", rows), racks="1 2 3 4", disks=disks)
    plan = make_plan(snapshot, PlanRequest(Goal.ADD_BROKERS, (4,)))
    (warning,) = [text for text in plan.warnings if "lost a log dir" in text]
    assert "brokers that have lost a log dir: broker 4 (/disk-1): their other" in warning
    wanted = {plan.moves[0].topic_partition: plan.moves[0].replicas_after}
    imported = plan_to_reach(snapshot, wanted, BalancePolicy())
    assert warning in imported.warnings


def test_the_limit_is_the_policys() -> None:
    rows = [(f"{number % 3 + 1} {(number + 1) % 3 + 1}", 100) for number in range(60)]
    snapshot = cluster(
        topic("t", rows), racks="1 2 3 4", disks="1=4000/9000 2=4000/9000 3=4000/9000 4=0/9000"
    )
    for limit in (20, 85):
        plan = make_plan(
            snapshot,
            PlanRequest(Goal.ADD_BROKERS, (4,), policy=BalancePolicy(disk_limit_percent=limit)),
        )
        assert nearly(arriving(plan)[4], min(3000, 90 * limit))
        assert overfilled(snapshot, plan, limit) == []
        assert speaks_of_disks(plan, 4) == (limit == 20)


def by_chance(seed: int) -> ClusterSnapshot:
    """Racks or none, one to three log dirs per broker, some of them nearly full or offline, sizes
    of all kinds.
    """
    chance = random.Random(seed)
    count = chance.randrange(5, 9)
    idle = chance.randrange(0, 2)
    racks = chance.choice([1, 2, 3])
    partitions = []
    held: Counter[int] = Counter()
    for _ in range(chance.randrange(10, 120)):
        replicas = chance.sample(range(1, count + 1 - idle), chance.randrange(1, 4))
        size = chance.choice([0, 100, int(chance.lognormvariate(5, 1))])
        held.update(dict.fromkeys(replicas, size))
        partitions.append((" ".join(map(str, replicas)), size))
    dead = chance.randrange(1, count + 1) if chance.random() < 0.5 else None
    words = []
    for broker_id in range(1, count + 1):
        parts = chance.randrange(1, 4)
        dirs = [
            f"{used}/{int(used * chance.uniform(1.05, 4)) + 500}"
            for used in [held[broker_id] // parts] * parts
        ]
        if parts > 1 and chance.random() < 0.3:
            dirs[0] = "!"
        if chance.random() < 0.8 and broker_id != dead:
            words.append(f"{broker_id}={','.join(dirs)}")
    marks = [f"{'!' if n == dead else ''}{n}={'abc'[n % racks]}" for n in range(1, count + 1)]
    return cluster(topic("t", partitions), racks=" ".join(marks), disks=" ".join(words))


@pytest.mark.parametrize(
    "goal", [Goal.ADD_BROKERS, Goal.REMOVE_BROKERS, Goal.REBALANCE, Goal.REPAIR]
)
@pytest.mark.parametrize("seed", range(12))
def test_no_log_dir_is_filled_past_the_limit_whatever_the_goal(goal: Goal, seed: int) -> None:
    snapshot = by_chance(seed)
    named = snapshot.live_broker_ids[-1:] if goal in (Goal.ADD_BROKERS, Goal.REMOVE_BROKERS) else ()
    try:
        plan = make_plan(snapshot, PlanRequest(goal, named))
    except RefusedError as refused:
        assert names_disks(str(refused))
        return
    assert overfilled(snapshot, plan) == []


def test_replicas_that_are_added_stay_within_the_limit() -> None:
    rows = [(str(number % 3 + 1), 100) for number in range(30)]
    snapshot = cluster(topic("t", rows), racks="1 2 3", disks="1=1000/9000 2=1000/9000 3=7500/9000")
    plan = make_plan(
        snapshot,
        PlanRequest(Goal.REPLICATION_FACTOR, scope=Scope(topics=("*",)), replication_factor=2),
    )
    assert arriving(plan)[3] <= 100
    assert overfilled(snapshot, plan) == []


def test_the_log_dir_that_kafka_will_fill_most_is_named_before_the_run() -> None:
    """cruise-control 1590: new replicas came where fewest were, and one disk ran full.

    Broker 3 has a dir of three replicas, with room, and one without any that is 60 % full.
    """
    picture = "\n".join(f"a-{n}: {1 + n % 2} size=50" for n in range(9))
    picture += "\nb-0: 3 size=10\nb-1: 3 size=10\nb-2: 3 size=10"
    told = cluster(picture, racks="1 2 3", disks="1=250/1000 2=200/1000 3=30/1000,600/1000")
    plan = make_plan(told, PlanRequest(Goal.ADD_BROKERS, (3,)))
    words = (
        "broker 3 has several log dirs: Kafka puts a new replica into the one with the fewest, "
        "whatever its room (KIP-113); "
    )
    assert f"{words}which will be the fullest is not known" in plan.notes
    roomy, full = sorted(
        {row["log_dir"] for row in told.log_dirs.to_pylist() if row["broker_id"] == 3}
    )
    replicas = [
        row | {"log_dir": roomy if row["broker_id"] == 3 else "/data"}
        for row in told.replicas.to_pylist()
    ]
    table = pa.Table.from_pylist(replicas, schema=REPLICAS)
    read = replace(told, tables={**told.tables, "replicas": table})
    plan = make_plan(read, PlanRequest(Goal.ADD_BROKERS, (3,)))
    assert arriving(plan)[3] == 150
    assert f"{words}the fullest of them will be {full} of broker 3, with 75 %" in plan.notes


def test_a_new_broker_gets_as_many_as_another_of_its_size_may_have() -> None:
    """Of two brokers of one size one may have 8, the other 7, and which is which may change."""
    there = ["3", "2", "3 1", "3", "3 2", "3 1", "3", "3", "3 1", "1", "2", "2", "3 2", "2 3", "2"]
    picture = topic("a", [(replicas, 5) for replicas in there])
    disks = "1=25/5000 2=35/1000 3=60/5000 4=0/5000"
    snapshot = cluster(picture, racks="!1 2 3 4", disks=disks)
    request = PlanRequest(Goal.ADD_BROKERS, (4,))
    plan = make_plan(snapshot, request)
    assert [figure.replicas_after for figure in plan.figures] == [4, 1, 8, 8]
    assert make_plan(executed(snapshot, plan), request).moves == ()
