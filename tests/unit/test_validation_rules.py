"""Each rule: a plan that keeps it, and one that breaks it."""

from dataclasses import replace

import pytest

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.plan import BrokerFigure, LowerBound, Move, RebalancePlan
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.request import Goal
from counterpoise.validation import RULES, find_violations
from tests.pictures import cluster

POLICY = BalancePolicy(excluded_topics=("secret",))
SNAPSHOT = cluster(
    """
    orders-0: 1 2 3 size=100
    orders-1: 2 3 1 size=200
    busy-0: 1 2 3 5 +5 -1 size=10
    secret-0: 1 2 3 size=10
    """,
    racks="1=a 2=b 3=c 4=a !5=b",
    name="shop",
)
# Per broker: leaders, replicas, bytes before any plan.
BEFORE = {1: (3, 4, 320), 2: (1, 4, 320), 3: (0, 4, 320), 4: (0, 0, 0), 5: (0, 1, 10)}
GOOD = Move("orders", 0, "id-of-orders", (1, 2, 3), (4, 2, 3), leader_before=1, size_bytes=100)


def figures(changes: dict[int, tuple[int, int, int]]) -> tuple[BrokerFigure, ...]:
    rows = []
    for broker_id, (leaders, replicas, held) in BEFORE.items():
        more = changes.get(broker_id, (0, 0, 0))
        rows.append(
            BrokerFigure(broker_id, leaders, leaders + more[0], replicas, replicas + more[1], held, held + more[2])
        )
    return tuple(rows)


def plan_of(*moves: Move, goal: Goal = Goal.ADD_BROKERS, brokers: tuple[int, ...] = (4,)) -> RebalancePlan:
    return RebalancePlan(
        cluster="shop",
        cluster_id="picture-id",
        snapshot_id=SNAPSHOT.snapshot_id,
        goal=goal,
        broker_ids=brokers,
        policy_digest=POLICY.digest,
        moves=moves,
        figures=figures({1: (-1, -1, -100), 4: (1, 1, 100)}),
        lower_bound=LowerBound(1, 90, 1),
    )


def broken(plan: RebalancePlan, snapshot: ClusterSnapshot = SNAPSHOT) -> set[str]:
    return {violation.rule for violation in find_violations(plan, snapshot, POLICY)}


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
    "racks_not_worse": plan_of(replace(GOOD, replicas_after=(1, 4, 3))),
    "old_brokers_receive_nothing": plan_of(GOOD, brokers=(3,)),
    "removed_brokers_end_empty": plan_of(GOOD, goal=Goal.REMOVE_BROKERS, brokers=(1,)),
    "only_drained_replicas_move": plan_of(GOOD, goal=Goal.REMOVE_BROKERS, brokers=(3,)),
    "leaders_move_no_bytes": plan_of(GOOD, goal=Goal.LEADERS, brokers=()),
    "nothing_under_reassignment": plan_of(Move("busy", 0, "id-of-busy", (1, 2, 3, 5), (2, 1, 3, 5), 1, 10)),
    "excluded_topics_untouched": plan_of(Move("secret", 0, "id-of-secret", (1, 2, 3), (4, 2, 3), 1, 10)),
    "figures_agree": replace(plan_of(GOOD), figures=figures({4: (1, 1, 100)})),
    "reason_when_empty": plan_of(),
}


@pytest.mark.parametrize("rule", BREAKERS)
def test_a_plan_that_breaks_the_rule_is_found(rule: str) -> None:
    violations = [v for v in find_violations(BREAKERS[rule], SNAPSHOT, POLICY) if v.rule == rule]
    assert violations
    assert all(violation.message for violation in violations)


def test_fewer_replicas_than_min_isr_is_found() -> None:
    column = SNAPSHOT.topics.schema.get_field_index("min_insync_replicas")
    topics = SNAPSHOT.topics.to_pylist()
    for row in topics:
        row["min_insync_replicas"] = 4 if row["topic"] == "orders" else 2
    table = SNAPSHOT.topics.from_pylist(topics, schema=SNAPSHOT.topics.schema)
    assert column >= 0
    strict = replace(SNAPSHOT, tables={**SNAPSHOT.tables, "topics": table})
    assert broken(plan_of(GOOD), strict) == {"min_isr_reachable"}


def test_every_rule_has_its_case() -> None:
    assert {rule.__name__ for rule in RULES} == {*BREAKERS, "min_isr_reachable"}


def test_a_removed_broker_may_take_the_last_broker_of_its_rack_with_it() -> None:
    snapshot = cluster("orders-0: 1 2 size=5", racks="1=a 2=b 3=a")
    plan = RebalancePlan(
        cluster="picture",
        cluster_id="picture-id",
        snapshot_id=snapshot.snapshot_id,
        goal=Goal.REMOVE_BROKERS,
        broker_ids=(2,),
        policy_digest=POLICY.digest,
        moves=(Move("orders", 0, "id-of-orders", (1, 2), (1, 3), 1, 5),),
        figures=(
            BrokerFigure(1, 1, 1, 1, 1, 5, 5),
            BrokerFigure(2, 0, 0, 1, 0, 5, 0),
            BrokerFigure(3, 0, 0, 0, 1, 0, 5),
        ),
        lower_bound=LowerBound(1, 5, 1),
    )
    assert find_violations(plan, snapshot, POLICY) == ()
