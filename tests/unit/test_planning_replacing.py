"""Brokers that are replaced: the same lists with new ids, or one message that says why not."""

from dataclasses import replace

import pyarrow as pa
import pytest

from counterpoise.errors import InputError
from counterpoise.model.constraints import BrokerSet, Constraints
from counterpoise.model.plan import MoveReason, RebalancePlan
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.request import Budget, Goal, PlanRequest, Scope, read_rebalance_request
from counterpoise.planning import make_plan
from counterpoise.validation import find_violations
from counterpoise.views.plan import PlanView
from tests.support.goal_judge import executed, judge
from tests.support.pictures import cluster

RACKS = "1=a 2=b 3=c 9=c"


def request(pairs: str, **fields: object) -> PlanRequest:
    given = {"goal": "replace-brokers", "broker_ids": pairs, **fields}
    return read_rebalance_request(given).request(BalancePolicy())


def planned(picture: str, pairs: str, racks: str = RACKS, **fields: object) -> RebalancePlan:
    snapshot, asked = cluster(picture, racks=racks), request(pairs, **fields)
    plan = make_plan(snapshot, asked)
    assert judge(snapshot, plan).errors == ()
    assert find_violations(plan, snapshot, asked.policy) == ()
    again = make_plan(executed(snapshot, plan), asked)
    assert again.moves == () and again.reason
    return plan


def refusal(picture: str, pairs: str, racks: str = RACKS, **fields: str) -> str:
    with pytest.raises(InputError) as refused:
        make_plan(cluster(picture, racks=racks, **fields), request(pairs))
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_each_list_stays_as_it_is_but_for_the_new_id() -> None:
    # a-1 is led by broker 1 now: broker 9 takes the place of the preferred leader all the same.
    plan = planned("a-0: 1 3 2 size=100\na-1: 3 1 2 @1 size=50\na-2: 2 1 @1 size=7", "3=9")
    assert [move.replicas_after for move in plan.moves] == [(1, 9, 2), (9, 1, 2)]
    assert {move.why for move in plan.moves} == {MoveReason.REPLACE}
    assert (plan.copied_replicas, plan.copied_bytes) == (2, 150)
    assert (plan.lower_bound.replicas, plan.lower_bound.bytes) == (2, 150)
    assert PlanView.of(plan).goal_in_words == "replace-brokers 3=9"
    assert RebalancePlan.from_json(plan.to_json()).new_broker_ids == (9,)


def test_only_the_replaced_brokers_six_partitions_move_whatever_others_hold() -> None:
    """kafka-kit 149: brokers 1, 2, 3 have 10, 4 and 6; 4 gets exactly the 6 of broker 3."""
    rows = ["1"] * 10 + ["2"] * 4 + ["3"] * 6
    picture = "\n".join(f"a-{n}: {broker} size=10" for n, broker in enumerate(rows))
    plan = planned(picture, "3=4", "1 2 3 4")
    assert [move.replicas_after for move in plan.moves] == [(4,)] * 6


def test_a_dead_broker_and_one_that_is_no_longer_registered_are_replaced() -> None:
    racks = "1=a 2=b !3=c 9=c 10=a"
    plan = planned("a-0: 1 3 2\na-1: 2 3", "3=9", racks)
    assert [move.replicas_after for move in plan.moves] == [(1, 9, 2), (2, 9)]
    known = cluster("a-0: 1 3 2", racks=racks)
    brokers = known.brokers.filter(pa.compute.not_equal(known.brokers["broker_id"], 3))
    unregistered = replace(known, tables={**known.tables, "brokers": brokers})
    with pytest.raises(InputError, match="would be less even over racks"):
        make_plan(unregistered, request("3=10"))
    plan = make_plan(unregistered, request("3=9"))
    assert [move.replicas_after for move in plan.moves] == [(1, 9, 2)]
    assert find_violations(plan, unregistered, BalancePolicy()) == ()
    done = executed(cluster("a-0: 1 2", racks=racks), make_plan(known, request("3=9")))
    assert make_plan(done, request("3=9")).reason == "already done: no replica is on broker 3"


def test_several_are_replaced_in_any_order() -> None:
    plan = planned("a-0: 1 3 2", "3=9,1=8", "1=a 8=a 2=b 3=c 9=c")
    assert [move.replicas_after for move in plan.moves] == [(8, 9, 2)]
    assert (plan.broker_ids, plan.new_broker_ids) == ((1, 3), (8, 9))


def test_what_cannot_be_copied_keeps_the_old_id_and_is_named() -> None:
    picture = "a-0: 1 3 2\na-1: 3\na-2: 3 1\na-3: 3 1 +2"
    plan = planned(picture, "3=9", "1=a !2=b !3=c 9=c")
    assert [move.topic_partition.partition for move in plan.moves] == [2]
    warnings = " ".join(plan.warnings)
    assert "(a-0) is left to goal repair" in warnings
    assert "(a-1) is without a leader to copy from" in warnings
    assert "(a-3) is under reassignment" in warnings


def test_an_excluded_topic_leaves_the_old_broker_non_empty_and_the_plan_says_so() -> None:
    plan = planned("a-0: 1 3\nb-0: 3 2", "3=9", excluded_topics="b")
    assert [move.topic for move in plan.moves] == ["a"]
    assert any(
        "excluded, so broker 3 stays non-empty and must not be stopped: b-0" in w
        for w in plan.warnings
    )


def test_a_budget_leaves_the_rest_for_a_later_plan() -> None:
    asked = request("3=9", max_bytes="100B")
    snapshot = cluster("a-0: 1 3 size=100\na-1: 3 1 size=50", racks=RACKS)
    plan = make_plan(snapshot, asked)
    assert find_violations(plan, snapshot, asked.policy) == ()
    assert plan.budget == Budget(100) and plan.copied_bytes <= 100 and plan.deferred.partitions == 1


def test_a_partition_that_would_be_led_by_a_broker_out_of_scope_is_left() -> None:
    scope = Scope(excluded_broker_ids=(2,))
    asked = PlanRequest(Goal.REPLACE_BROKERS, (3,), scope=scope, new_broker_ids=(9,))
    plan = make_plan(cluster("a-0: 2 3 @3\na-1: 2 3", racks=RACKS), asked)
    assert [move.topic_partition.partition for move in plan.moves] == [1]
    assert any("(a-0) is led by a broker out of scope" in warning for warning in plan.warnings)


@pytest.mark.parametrize(
    ("picture", "pairs", "racks", "disks", "why"),
    [
        ("a-0: 1 3", "3=8", RACKS, "", "broker 8 is not live; start it, or name others"),
        ("a-0: 1 3", "3=9", "1=a 3=c !9=c", "", "broker 9 is not live; start it, or name others"),
        ("a-0: 3 9", "3=9", RACKS, "", "1 partition has a replica on the new broker already: a-0"),
        (
            "a-0: 1 3 2",
            "3=9",
            "1=a 2=b 3=c 9=b",
            "",
            "1 partition would be less even over racks; take a broker of the old one's rack: a-0",
        ),
        ("a-0: 1 3", "1=9,3=9", RACKS, "", "broker 9 replaces several; give each one of its own"),
        ("a-0: 1 3", "1=3,3=9", RACKS, "", "broker 3 is old and new; plan one step at a time"),
        (
            "a-0: 1 3 size=1000",
            "3=9",
            RACKS,
            "9=900/2000",
            "1.0 kB would arrive on broker 9, 200 B more than fit below 85 % of a log dir",
        ),
    ],
)
def test_pairs_that_cannot_be_are_refused_in_one_message(
    picture: str, pairs: str, racks: str, disks: str, why: str
) -> None:
    assert refusal(picture, pairs, racks, disks=disks) == f"--brokers {pairs}: {why}"


def test_a_new_broker_of_another_set_or_that_takes_nothing_is_refused() -> None:
    sets = BrokerSet("pay", ("a",), (1, 3), ())
    constraints = Constraints(broker_sets=(sets,), no_new_replicas_on=(2,))
    asked = PlanRequest(
        Goal.REPLACE_BROKERS,
        (3,),
        policy=BalancePolicy(constraints=constraints),
        new_broker_ids=(9,),
    )
    with pytest.raises(InputError, match="would leave the broker set of its topic"):
        make_plan(cluster("a-0: 1 3", racks=RACKS), asked)
    closed = PlanRequest(
        Goal.REPLACE_BROKERS,
        (3,),
        policy=BalancePolicy(constraints=Constraints(no_new_replicas_on=(2,))),
        new_broker_ids=(2,),
    )
    with pytest.raises(InputError, match="broker 2 may take no new replica"):
        make_plan(cluster("a-0: 1 3", racks=RACKS), closed)


@pytest.mark.parametrize(
    ("goal", "brokers", "why"),
    [
        ("replace-brokers", "3", "each broker with its new one, like --brokers 3=9,4=10"),
        ("remove-brokers", "3=9", "--brokers 3=9,4=10 is for goal replace-brokers"),
        ("replace-brokers", "3=9,4", "write each broker with its new one, like 3=9,4=10"),
        ("replace-brokers", "3=x", "write broker ids like 7,8"),
    ],
)
def test_pairs_are_for_this_goal_and_whole(goal: str, brokers: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        asked = read_rebalance_request({"goal": goal, "broker_ids": brokers}, word=lambda _: "-b")
        make_plan(cluster("a-0: 1 3", racks=RACKS), asked.request(BalancePolicy()))
