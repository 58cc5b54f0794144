"""Each rule: a plan that keeps it, and one that breaks it."""

from dataclasses import asdict, replace
from typing import Any

import pytest

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.constraints import BrokerSet, Constraints
from counterpoise.model.plan import BrokerFigure, Deferred, LowerBound, Move, RebalancePlan
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.request import Budget, Goal, Scope
from counterpoise.validation import RULES, find_violations
from counterpoise.validation.plan_rules import expected_figures
from counterpoise.validation.violation import CheckedPlan
from tests.support.pictures import cluster
from tests.support.plans import move, plan_by_hand

POLICY = BalancePolicy(
    excluded_topics=("secret-*",), constraints=Constraints(no_new_replicas_on=(6,))
)
SNAPSHOT = cluster(
    """
    orders-0: 1 2 3 size=100 rate=7
    orders-1: 2 3 1 size=200 rate=5
    busy-0: 1 2 3 5 +5 -1 size=10
    secret-keys-0: 1 2 3 size=10
    lost-0: 5 @none size=30
    """,
    racks="1=a 2=b 3=c 4=a !5=b 6=a",
    disks="4=0/1000,600/1000,!",
    name="shop",
)
# Per broker: rack; leaders, replicas and bytes before any plan; bytes-in.
BEFORE = {
    1: ("a", 3, 4, 320, 7),
    2: ("b", 1, 4, 320, 5),
    3: ("c", 0, 4, 320, 0),
    4: ("a", 0, 0, 0, 0),
    5: ("b", 0, 2, 40, 0),
    6: ("a", 0, 0, 0, 0),
}
GOOD = Move(
    "orders",
    0,
    "id-of-orders",
    (1, 2, 3),
    (4, 2, 3),
    leader_before=1,
    size_bytes=100,
    bytes_in_per_second=7,
)
OTHER = Move(
    "orders",
    1,
    "id-of-orders",
    (2, 3, 1),
    (3, 2, 1),
    leader_before=2,
    size_bytes=200,
    bytes_in_per_second=5,
)
SECRET = Move("secret-keys", 0, "id-of-secret-keys", (1, 2, 3), (4, 2, 3), 1, 10)
LOST = Move("lost", 0, "id-of-lost", (5,), (4,), -1, 30)


def figures(changes: dict[int, tuple[int, int, int, int]]) -> tuple[BrokerFigure, ...]:
    """The figures of before with these changes of leaders, replicas, bytes and bytes-in."""
    rows = []
    for broker_id, (rack, leaders, replicas, held, bytes_in) in BEFORE.items():
        led, more, size, rate = changes.get(broker_id, (0, 0, 0, 0))
        rows.append(
            BrokerFigure(
                broker_id=broker_id,
                rack=rack,
                leaders_before=leaders,
                leaders_after=leaders + led,
                leaders_best=1,
                replicas_before=replicas,
                replicas_after=replicas + more,
                replicas_best=3,
                bytes_before=held,
                bytes_after=held + size,
                bytes_best=200,
                bytes_peak=held + max(0, size),
                bytes_in_before=bytes_in,
                bytes_in_after=bytes_in + rate,
                bytes_in_best=3,
            )
        )
    return tuple(rows)


def plan_of(
    *moves: Move, goal: Goal = Goal.ADD_BROKERS, brokers: tuple[int, ...] = (4,), **more: Any
) -> RebalancePlan:
    return RebalancePlan(
        cluster="shop",
        cluster_id="picture-id",
        snapshot_id=SNAPSHOT.snapshot_id,
        goal=goal,
        broker_ids=brokers,
        policy_digest=POLICY.digest,
        moves=moves,
        figures=figures({1: (-1, -1, -100, -7), 4: (1, 1, 100, 7)}),
        lower_bound=LowerBound(1, 90, 1),
        **more,
    )


def plan_for(snapshot: ClusterSnapshot, goal: Goal, *moves: Move, **more: Any) -> RebalancePlan:
    """A plan for another cluster, with the figures that its moves come to."""
    base = plan_by_hand(snapshot, goal, *moves, **more)
    counted = expected_figures(CheckedPlan.of(base, snapshot, BalancePolicy()))
    best = {"leaders_best": 0, "replicas_best": 0, "bytes_best": 0}
    return replace(
        base, figures=tuple(BrokerFigure(**asdict(figure), **best) for figure in counted)
    )


def broken(
    plan: RebalancePlan, snapshot: ClusterSnapshot = SNAPSHOT, policy: BalancePolicy = POLICY
) -> set[str]:
    return {violation.rule for violation in find_violations(plan, snapshot, policy)}


def broken_of(snapshot: ClusterSnapshot, goal: Goal, *moves: Move, **more: Any) -> set[str]:
    return broken(plan_for(snapshot, goal, *moves, **more), snapshot, BalancePolicy())


def test_a_good_plan_breaks_no_rule() -> None:
    assert find_violations(plan_of(GOOD), SNAPSHOT, POLICY) == ()


BREAKERS = {
    "of_this_snapshot": replace(plan_of(GOOD), snapshot_id="another"),
    "partition_named_once": plan_of(GOOD, GOOD),
    "known_partition": plan_of(GOOD, replace(GOOD, partition=9)),
    "same_topic": plan_of(replace(GOOD, topic_id="another")),
    "before_values_hold": plan_of(replace(GOOD, replicas_before=(3, 2, 1))),
    "changes_something": plan_of(GOOD, replace(GOOD, replicas_after=(1, 2, 3))),
    "no_broker_twice": plan_of(replace(GOOD, replicas_after=(4, 4, 3))),
    "replication_factor_kept": plan_of(replace(GOOD, replicas_after=(4, 2, 3, 1))),
    "targets_are_live": plan_of(replace(GOOD, replicas_after=(1, 5, 3)), brokers=(5,)),
    "leaders_are_live": plan_of(replace(GOOD, replicas_after=(5, 2, 3))),
    "racks_not_worse": plan_of(replace(GOOD, replicas_after=(1, 4, 3))),
    "nothing_under_reassignment": plan_of(
        Move("busy", 0, "id-of-busy", (1, 2, 3, 5), (2, 1, 3, 5), 1, 10)
    ),
    "led_by_somebody": plan_of(LOST),
    "in_sync_replicas_kept": plan_of(
        replace(GOOD, replicas_after=(1, 3)), goal=Goal.REPLICATION_FACTOR
    ),
    "old_brokers_receive_nothing": plan_of(GOOD, brokers=(3,)),
    "removed_brokers_end_empty": plan_of(GOOD, goal=Goal.REMOVE_BROKERS, brokers=(1,)),
    "only_drained_replicas_move": plan_of(GOOD, goal=Goal.REMOVE_BROKERS, brokers=(3,)),
    "replaced_in_place": plan_of(
        GOOD, goal=Goal.REPLACE_BROKERS, brokers=(1,), new_broker_ids=(5,)
    ),
    "relieved_below": plan_of(GOOD, goal=Goal.RELIEF, brokers=(), below_percent=80),
    "only_dead_replicas_move": plan_of(GOOD, goal=Goal.REPAIR, brokers=()),
    "leaders_move_no_bytes": plan_of(GOOD, goal=Goal.DEMOTE_BROKERS, brokers=(1,)),
    "demoted_brokers_lead_nothing": plan_of(OTHER, goal=Goal.DEMOTE_BROKERS, brokers=(3,)),
    "excluded_topics_untouched": plan_of(SECRET),
    "constraints_kept": plan_of(replace(GOOD, replicas_after=(6, 2, 3))),
    "scope_respected": plan_of(GOOD, scope=Scope(topics=("inventory-*",))),
    "budget_respected": plan_of(GOOD, budget=Budget(max_bytes=99)),
    "disks_not_overfilled": plan_of(replace(GOOD, size_bytes=100)),
    "figures_agree": replace(plan_of(GOOD), figures=figures({4: (1, 1, 100, 7)})),
    "reason_when_empty": plan_of(),
}
# What the snapshot has to be like for some of them.
IN_SYNC_1_2 = {"in_sync_replicas_kept": ("partitions", "orders", {"isr": [1, 2]})}
FULL_DISK = {"disks_not_overfilled": ("log_dirs", "/disk-1", {"usable_bytes": 249})}


def changed(
    snapshot: ClusterSnapshot, table: str, name: str, values: dict[str, object]
) -> ClusterSnapshot:
    """The snapshot with the rows of a topic, or of a log dir, written over."""
    column = "log_dir" if table == "log_dirs" else "topic"
    rows = [
        row | values if row[column] == name else row for row in snapshot.tables[table].to_pylist()
    ]
    new = snapshot.tables[table].from_pylist(rows, schema=snapshot.tables[table].schema)
    return replace(snapshot, tables={**snapshot.tables, table: new})


@pytest.mark.parametrize("rule", BREAKERS)
def test_a_plan_that_breaks_the_rule_is_found(rule: str) -> None:
    needed = (IN_SYNC_1_2 | FULL_DISK).get(rule)
    snapshot = changed(SNAPSHOT, *needed) if needed else SNAPSHOT
    violations = [v for v in find_violations(BREAKERS[rule], snapshot, POLICY) if v.rule == rule]
    assert violations
    assert all(violation.message for violation in violations)


BUSY = Move("busy", 0, "id-of-busy", (1, 2, 3, 5), (4, 2, 3, 5), 1, 10)
ALSO_BREAKING = {
    "another cluster": ("of_this_snapshot", replace(plan_of(GOOD), cluster_id="another")),
    "another policy": ("of_this_snapshot", replace(plan_of(GOOD), policy_digest="another")),
    "an order twice": ("partition_named_once", plan_of(OTHER, OTHER)),
    "another leader": ("before_values_hold", plan_of(replace(GOOD, leader_before=2))),
    "another size": ("before_values_hold", plan_of(replace(GOOD, size_bytes=99))),
    "a kept broker twice": ("no_broker_twice", plan_of(replace(GOOD, replicas_after=(1, 1, 3)))),
    "a dead replica comes first": (
        "leaders_are_live",
        plan_of(replace(BUSY, replicas_after=(5, 2, 3, 1))),
    ),
    "a copy of what moves already": ("nothing_under_reassignment", plan_of(BUSY)),
    "other bytes": (
        "figures_agree",
        replace(plan_of(GOOD), figures=figures({1: (-1, -1, -100, -7), 4: (1, 1, 99, 7)})),
    ),
}


@pytest.mark.parametrize("case", ALSO_BREAKING)
def test_another_plan_that_breaks_the_rule_is_found(case: str) -> None:
    rule, plan = ALSO_BREAKING[case]
    assert rule in broken(plan)


def test_a_follower_that_stays_on_a_removed_broker_is_found() -> None:
    plan = plan_of(GOOD, goal=Goal.REMOVE_BROKERS, brokers=(2,))
    found = find_violations(plan, SNAPSHOT, POLICY)
    assert ("removed_brokers_end_empty", "orders-0") in {(v.rule, v.subject) for v in found}


def test_a_replica_outside_of_the_broker_set_of_its_topic_is_found() -> None:
    brokers = BrokerSet("orders", topics=("orders",), broker_ids=(1, 2, 3))
    policy = BalancePolicy(constraints=Constraints(broker_sets=(brokers,)))
    assert "constraints_kept" in broken(plan_of(GOOD), policy=policy)


def test_every_rule_has_its_case() -> None:
    assert {rule.__name__ for rule in RULES} == {*BREAKERS, "min_isr_reachable"}


def test_a_removed_broker_may_take_the_last_broker_of_its_rack_with_it() -> None:
    snapshot = cluster("orders-0: 1 2 size=5", racks="1=a 2=b 3=a")
    assert (
        broken_of(
            snapshot, Goal.REMOVE_BROKERS, move("orders-0", "1 2", "1 3", size=5), brokers=(2,)
        )
        == set()
    )


def test_a_removed_broker_keeps_only_what_the_request_leaves_out_or_for_later() -> None:
    snapshot = cluster("orders-0: 1 2\norders-1: 2 1\ninventory-0: 2 1", racks="1 2 3")
    first = move("orders-0", "1 2", "1 3")
    assert broken_of(snapshot, Goal.REMOVE_BROKERS, first, brokers=(2,)) == {
        "removed_brokers_end_empty"
    }
    later = (
        first,
        move("orders-1", "2 1", "1 2", leader=2),
    )  # gives up what it leads, and the rest another time
    assert (
        broken_of(
            snapshot, Goal.REMOVE_BROKERS, *later, brokers=(2,), deferred=Deferred(partitions=2)
        )
        == set()
    )
    both = (first, move("orders-1", "2 1", "3 1"))
    assert (
        broken_of(
            snapshot, Goal.REMOVE_BROKERS, *both, brokers=(2,), scope=Scope(topics=("orders",))
        )
        == set()
    )


def test_replaced_brokers_give_their_place_and_keep_nothing() -> None:
    snapshot = cluster("orders-0: 1 2 3\norders-1: 2 3 1\nsecret-0: 3 2", racks="1 2 3 4")
    pair = {"brokers": (3,), "new_broker_ids": (4,)}
    first, second = move("orders-0", "1 2 3", "1 2 4"), move("orders-1", "2 3 1", "2 4 1")
    third = move("secret-0", "3 2", "4 2")
    assert broken_of(snapshot, Goal.REPLACE_BROKERS, first, second, third, **pair) == set()
    elsewhere = move("orders-1", "2 3 1", "4 2 1")
    assert broken_of(snapshot, Goal.REPLACE_BROKERS, first, elsewhere, third, **pair) == {
        "replaced_in_place"
    }
    assert broken_of(snapshot, Goal.REPLACE_BROKERS, first, second, **pair) == {"replaced_in_place"}
    some = Scope(topics=("orders",))
    assert broken_of(snapshot, Goal.REPLACE_BROKERS, first, second, scope=some, **pair) == set()


def test_relief_takes_from_disks_above_the_mark_and_leaves_all_below() -> None:
    snapshot = cluster(
        "orders-0: 1 2 size=30\norders-1: 1 2 size=10\norders-2: 2 1 size=30",
        racks="1 2 3",
        disks="1=820/1000 2=400/1000 3=780/1000",
    )

    def broken_by(*moves: Move, **more: Any) -> set[str]:
        return broken_of(snapshot, Goal.RELIEF, *moves, brokers=(), below_percent=80, **more)

    small = move("orders-1", "1 2", "3 2", size=10)
    assert broken_by(small) == {"relieved_below"}  # 810 bytes are left, and 790 come
    assert broken_by(small, deferred=Deferred(partitions=1)) == set()
    assert broken_by(move("orders-0", "1 2", "3 2", size=30)) == {"relieved_below"}
    elsewhere = cluster(
        "orders-0: 1 2 size=30", racks="1 2 3", disks="1=820/1000 2=400/1000 3=700/1000"
    )
    good = move("orders-0", "1 2", "3 2", size=30)
    assert broken_of(elsewhere, Goal.RELIEF, good, brokers=(), below_percent=80) == set()
    other = move("orders-0", "1 2", "1 3", size=30)
    assert broken_of(elsewhere, Goal.RELIEF, other, brokers=(), below_percent=80) == {
        "relieved_below"
    }


def test_repair_replaces_dead_replicas_alone() -> None:
    snapshot = cluster("orders-0: 4 1 2\norders-1: 1 2 4", racks="1=a 2=b 3=c !4=c")
    good = (move("orders-0", "4 1 2", "1 2 3", leader=1), move("orders-1", "1 2 4", "1 2 3"))
    assert broken_of(snapshot, Goal.REPAIR, *good) == set()
    assert broken_of(snapshot, Goal.REPAIR, move("orders-1", "1 2 4", "1 3 4")) == {
        "only_dead_replicas_move",
        "racks_not_worse",
    }


def test_demoted_brokers_neither_lead_nor_stand_first_where_another_can() -> None:
    snapshot = cluster(
        "orders-0: 1 2 3\norders-1: 1 2 3 @2\nalone-0: 1\nlagging-0: 1 2", racks="1 2 3"
    )
    snapshot = changed(snapshot, "partitions", "lagging", {"isr": [1]})
    good = (move("orders-0", "1 2 3", "3 2 1"), move("orders-1", "1 2 3", "2 3 1", leader=2))
    assert broken_of(snapshot, Goal.DEMOTE_BROKERS, *good, brokers=(1,)) == set()
    for left_alone in good:
        rest = [one for one in good if one is not left_alone]
        assert broken_of(snapshot, Goal.DEMOTE_BROKERS, *rest, brokers=(1,)) == {
            "demoted_brokers_lead_nothing"
        }
        assert (
            broken_of(
                snapshot, Goal.DEMOTE_BROKERS, *rest, brokers=(1,), deferred=Deferred(partitions=1)
            )
            == set()
        )
    narrow = Scope(topics=("orders",), excluded_broker_ids=(3,))
    outside = broken_of(snapshot, Goal.DEMOTE_BROKERS, *good, brokers=(1,), scope=narrow)
    assert outside == {"scope_respected"}, "broker 3 would lead anew"
    assert (
        broken_of(snapshot, Goal.DEMOTE_BROKERS, brokers=(1,), scope=Scope(topics=("alone",)))
        == set()
    )


def resized(snapshot: ClusterSnapshot, factor: int, *moves: Move) -> set[str]:
    return broken_of(snapshot, Goal.REPLICATION_FACTOR, *moves, replication_factor=factor)


def test_a_replication_factor_ends_as_wanted_and_no_replica_moves_for_it() -> None:
    snapshot = cluster("orders-0: 1 2 3\ninventory-0: 1", racks="1=a 2=b 3=c 4=c")
    down, up = move("orders-0", "1 2 3", "1 2"), move("inventory-0", "1", "1 2")
    assert resized(snapshot, 2, down, up) == set()
    assert resized(snapshot, 3, down, up) == {"replication_factor_kept"}
    assert resized(snapshot, 2, move("orders-0", "1 2 3", "1 4")) == {
        "replication_factor_kept",
        "in_sync_replicas_kept",
    }
    assert broken_of(snapshot, Goal.REBALANCE, down) == {"replication_factor_kept"}


def test_a_replication_factor_may_fall_short_only_where_no_broker_can_take_or_give_more() -> None:
    snapshot = cluster(
        "orders-0: 1 2 3\ninventory-0: 1 size=100", racks="1 2 3 4", disks="4=800/1000"
    )
    up, down = move("inventory-0", "1", "1 2 3", size=100), move("orders-0", "1 2 3", "1 2")
    assert resized(snapshot, 4, up) == set(), "broker 4 is too full"
    assert resized(snapshot, 4, replace(up, replicas_after=(1, 2))) == {"replication_factor_kept"}
    assert resized(snapshot, 2, up) == {"replication_factor_kept"}, "more than wanted"
    for left, found in ((1, set[str]()), (0, {"replication_factor_kept"})):
        elected = replace(down, replicas_after=(2, 1, 3))
        plan = plan_for(
            snapshot,
            Goal.REPLICATION_FACTOR,
            elected,
            replication_factor=2,
            deferred=Deferred(partitions=left),
        )
        assert broken(plan, snapshot, BalancePolicy()) == found
    assert resized(snapshot, 1, down) == {"replication_factor_kept"}
    scope = Scope(broker_ids=(3, 4))
    only_3_may_give = plan_for(
        snapshot, Goal.REPLICATION_FACTOR, down, replication_factor=1, scope=scope
    )
    assert broken(only_3_may_give, snapshot, BalancePolicy()) == set()
    only_1_may_give = replace(only_3_may_give, scope=Scope(broker_ids=(1, 4)))
    assert broken(only_1_may_give, snapshot, BalancePolicy()) == {"scope_respected"}, (
        "2 would lead, and 3 gives"
    )
    elected = move("orders-0", "1 2 3", "1 3 2")
    last_in_sync = changed(snapshot, "partitions", "orders", {"isr": [1]})
    for broker_id, found in (
        (1, set[str]()),
        (3, {"replication_factor_kept"}),
    ):  # 1 must not go, 3 should
        stays = plan_for(
            last_in_sync,
            Goal.REPLICATION_FACTOR,
            elected,
            replication_factor=1,
            scope=Scope(broker_ids=(broker_id,)),
        )
        assert broken(stays, last_in_sync, BalancePolicy()) == found


def test_lowering_keeps_racks_and_in_sync_replicas_the_latter_first() -> None:
    snapshot = cluster("orders-0: 1 2 3 4", racks="1=a 2=a 3=b 4=c")
    assert resized(snapshot, 2, move("orders-0", "1 2 3 4", "1 2")) == {"racks_not_worse"}
    assert resized(snapshot, 3, move("orders-0", "1 2 3 4", "1 2 4")) == {"racks_not_worse"}
    lagging = changed(snapshot, "partitions", "orders", {"isr": [1, 2]})
    assert resized(lagging, 2, move("orders-0", "1 2 3 4", "1 2")) == set()
    assert resized(lagging, 2, move("orders-0", "1 2 3 4", "1 3")) == {"in_sync_replicas_kept"}
    assert resized(lagging, 3, move("orders-0", "1 2 3 4", "1 2 4")) == set()
    only_2_may_give = replace(
        plan_for(
            lagging,
            Goal.REPLICATION_FACTOR,
            move("orders-0", "1 2 3 4", "1 3 4"),
            replication_factor=3,
        ),
        scope=Scope(broker_ids=(2,)),
    )
    assert broken(only_2_may_give, lagging, BalancePolicy()) == {"in_sync_replicas_kept"}, (
        "whatever the scope"
    )


def test_fewer_replicas_than_min_isr_is_found_unless_there_were_too_few_already() -> None:
    strict = changed(
        cluster("orders-0: 1 2 3", racks="1 2 3 4"), "topics", "orders", {"min_insync_replicas": 3}
    )
    assert resized(strict, 2, move("orders-0", "1 2 3", "1 2")) == {"min_isr_reachable"}
    assert resized(strict, 4, move("orders-0", "1 2 3", "1 2 3 4")) == set()
    stricter = changed(strict, "topics", "orders", {"min_insync_replicas": 4})
    assert broken_of(stricter, Goal.REBALANCE, move("orders-0", "1 2 3", "4 2 3")) == set()


@pytest.mark.parametrize(
    ("scope", "fits"),
    [
        (Scope(topics=("ord*",), broker_ids=(1, 4)), True),
        (Scope(excluded_topics=("inventory",), excluded_broker_ids=(2, 3)), True),
        (Scope(excluded_topics=("o?ders",)), False),
        (Scope(broker_ids=(1, 2, 3)), False),
        (Scope(excluded_broker_ids=(1,)), False),
    ],
    ids=["inside", "not excluded", "topic", "gains", "loses"],
)
def test_a_scope_leaves_topics_and_brokers_outside_alone(scope: Scope, fits: bool) -> None:
    snapshot = cluster("orders-0: 1 2 3", racks="1=a 2=b 3=c 4=a")
    found = broken_of(snapshot, Goal.REBALANCE, move("orders-0", "1 2 3", "4 2 3"), scope=scope)
    assert found == (set() if fits else {"scope_respected"})


def test_a_budget_counts_what_is_copied() -> None:
    assert broken(plan_of(GOOD, budget=Budget(max_bytes=100))) == set()
    assert broken(plan_of(GOOD, budget=Budget(max_bytes=99))) == {"budget_respected"}
    both = plan_of(GOOD, replace(OTHER, replicas_after=(4, 3, 1)), budget=Budget(max_bytes=299))
    assert "budget_respected" in broken(both)


@pytest.mark.parametrize(
    ("disks", "fits"),
    [
        ("", True),
        ("4=749/1000", True),
        ("4=750/1000", True),
        ("4=751/1000", False),
        ("4=0/1000,751/1000", False),
    ],
    ids=["not known", "room", "to the brim", "too full", "the fullest dir counts"],
)
def test_what_a_broker_receives_fits_below_the_limit_of_its_fullest_disk(
    disks: str, fits: bool
) -> None:
    snapshot = cluster("orders-0: 1 2 3 size=100", racks="1 2 3 4", disks=disks)
    found = broken_of(snapshot, Goal.REBALANCE, move("orders-0", "1 2 3", "4 2 3", size=100))
    assert found == (set() if fits else {"disks_not_overfilled"})
