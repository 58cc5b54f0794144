"""Demotion, replication factors, repair, scopes and drains, on clusters small enough to see."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
import pytest

from counterpoise.errors import InputError, RefusedError
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.constraints import BrokerSet, Constraints
from counterpoise.model.plan import LowerBound, RebalancePlan
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.request import Budget, Goal, PlanRequest, Scope
from counterpoise.planning import make_plan
from counterpoise.validation import find_violations
from tests.support.goal_judge import assignment_after, assignment_of, executed, judge
from tests.support.pictures import cluster

ALL = Scope(topics=("*",))


def planned(snapshot: ClusterSnapshot, request: PlanRequest) -> RebalancePlan:
    """A plan that the judge and the rules find no fault with, and after which there is nothing left
    to do.
    """
    plan = make_plan(snapshot, request)
    assert judge(snapshot, plan).errors == ()
    assert find_violations(plan, snapshot, request.policy) == ()
    again = make_plan(executed(snapshot, plan), request)
    assert again.moves == () and again.reason
    return plan


def resized(snapshot: ClusterSnapshot, factor: int, scope: Scope = ALL) -> RebalancePlan:
    return planned(
        snapshot, PlanRequest(Goal.REPLICATION_FACTOR, scope=scope, replication_factor=factor)
    )


def after(snapshot: ClusterSnapshot, plan: RebalancePlan) -> dict[str, tuple[int, ...]]:
    return {str(key): replicas for key, replicas in assignment_after(snapshot, plan).items()}


def sets_after(snapshot: ClusterSnapshot, plan: RebalancePlan) -> dict[str, set[int]]:
    return {name: set(replicas) for name, replicas in after(snapshot, plan).items()}


def with_isr(snapshot: ClusterSnapshot, isr: Mapping[str, list[int]]) -> ClusterSnapshot:
    """The snapshot with these in-sync replicas by partition; all of them elsewhere."""
    partitions = snapshot.partitions
    described = [
        isr.get(f"{row['topic']}-{row['partition']}", row["replicas"])
        for row in partitions.to_pylist()
    ]
    at = partitions.schema.get_field_index("isr")
    changed = partitions.set_column(
        at, partitions.schema.field(at), pa.array(described, partitions.schema.field(at).type)
    )
    return replace(snapshot, tables={**snapshot.tables, "partitions": changed})


def rotated(topic: str, count: int, brokers: str, factor: int, size: int = 1000) -> str:
    ids = brokers.split()
    rows = [" ".join((ids * 2)[n % len(ids) :][:factor]) for n in range(count)]
    return "\n".join(f"{topic}-{n}: {row} size={size + n}" for n, row in enumerate(rows))


# -- demote


def test_a_demoted_broker_leads_nothing_keeps_its_replicas_and_comes_last() -> None:
    snapshot = cluster("a-0: 1 2 3\na-1: 2 1 3 @1\na-2: 2 3 1\na-3: 3 1 2", racks="1 2 3")
    plan = planned(snapshot, PlanRequest(Goal.DEMOTE_BROKERS, (1,)))
    # a-1 is led by broker 1 though 2 is preferred; a-2 and a-3 are none of its business.
    assert {move.partition for move in plan.moves} == {0, 1}
    assert {str(m.topic_partition): m.replicas_after[-1] for m in plan.moves} == {
        "a-0": 1,
        "a-1": 1,
    }
    assert judge(snapshot, plan).leaders == {1: 0, 2: 2, 3: 2}
    assert plan.lower_bound == LowerBound(0, 0, 0)


def test_what_only_a_demoted_broker_can_lead_stays_with_it_and_is_named() -> None:
    snapshot = cluster("a-0: 1\na-1: 1 2\na-2: 1 3", racks="1 2 !3")
    plan = planned(snapshot, PlanRequest(Goal.DEMOTE_BROKERS, (1,)))
    assert [move.partition for move in plan.moves] == [1]
    assert any("a-0, a-2" in warning for warning in plan.warnings)
    left = make_plan(executed(snapshot, plan), PlanRequest(Goal.DEMOTE_BROKERS, (1,)))
    assert left.reason.startswith("cannot, because no other live replica may lead the 2 partitions")


def test_why_a_demoted_broker_still_leads_is_told_by_partition() -> None:
    snapshot = cluster("a-0: 1 2\na-1: 1\nb-0: 1 2", racks="1 2")
    request = PlanRequest(Goal.DEMOTE_BROKERS, (1,), scope=Scope(topics=("a",)))
    (warning,) = (text for text in make_plan(snapshot, request).warnings if "demoted" in text)
    assert warning == (
        "1 partition is still led by a demoted broker: no other live replica may lead it: a-1; "
        "1 partition is still led by a demoted broker: the topics of the plan, or a reassignment, "
        "leave it alone: b-0"
    )


def test_demoting_twice_is_already_done() -> None:
    plan = make_plan(cluster("a-0: 2 1", racks="1 2"), PlanRequest(Goal.DEMOTE_BROKERS, (1,)))
    assert (
        plan.reason == "already done: broker 1 leads no partition and is preferred leader of none"
    )


# -- more replicas


def test_new_replicas_go_where_the_partition_has_fewest_and_no_other_replica_moves() -> None:
    snapshot = cluster(rotated("a", 8, "1 2 3 4", 2), racks="1=a 2=b 3=a 4=b 5=c 6=c")
    plan = resized(snapshot, 3)
    assert all(
        len(move.adding) == 1 and not move.removing and set(move.adding) <= {5, 6}
        for move in plan.moves
    )
    assert judge(snapshot, plan).replicas == {1: 4, 2: 4, 3: 4, 4: 4, 5: 4, 6: 4}
    assert plan.copied_bytes == plan.lower_bound.bytes == sum(range(1000, 1008))
    back = executed(executed(snapshot, plan), plan, undo=True)
    assert assignment_of(back) == assignment_of(snapshot)


@pytest.mark.parametrize(
    ("racks", "factor", "per_rack"),
    [
        ("1=a 2=a 3=a 4=b 5=b", 4, {"a": 2, "b": 2}),  # more replicas than racks
        ("1=a 2=a 3=a 4=a 5=b", 4, {"a": 3, "b": 1}),  # more than the racks can share evenly
        ("1=a 2=b 3=c 4=c 5=c", 3, {"a": 1, "b": 1, "c": 1}),  # racks with one broker
    ],
)
def test_racks_that_are_few_or_uneven_share_replicas_as_evenly_as_they_can(
    racks: str, factor: int, per_rack: Mapping[str, int]
) -> None:
    snapshot = cluster(rotated("a", 10, "1 2 3 4 5", 1), racks=racks)
    for replicas in after(snapshot, resized(snapshot, factor)).values():
        assert {
            rack: [snapshot.racks[b] for b in replicas].count(rack) for rack in per_rack
        } == per_rack


def test_counts_topics_and_bytes_come_out_even() -> None:
    picture = "\n".join(
        rotated(topic, 12, "1 2 3 4 5 6", 1, size) for topic, size in (("a", 100), ("b", 90_000))
    )
    snapshot = cluster(picture, racks="1=a 2=b 3=c 4=a 5=b 6=c")
    plan = resized(snapshot, 2)
    verdict, replicas = judge(snapshot, plan), after(snapshot, plan)
    assert set(verdict.replicas.values()) == {8}
    for topic in "ab":
        assert [
            sum(b in r for key, r in replicas.items() if key[0] == topic) for b in range(1, 7)
        ] == [4] * 6
    mean = sum(verdict.bytes_held.values()) / 6
    assert all(abs(held - mean) <= 0.05 * mean for held in verdict.bytes_held.values())


def test_nothing_is_added_where_nobody_leads_or_no_disk_has_room() -> None:
    snapshot = cluster("a-0: 1\na-1: 1 @none", racks="1 2")
    plan = resized(snapshot, 2)
    assert [move.partition for move in plan.moves] == [0]
    assert any(
        "a-1" in warning and "without a leader to copy from" in warning for warning in plan.warnings
    )
    full = cluster(
        "a-0: 1 size=50\na-1: 1 size=500", racks="1 2 3", disks="1=0/9999 2=800/1000 3=801/1000"
    )
    plan = resized(full, 2)
    assert sets_after(full, plan) == {"a-0": {1, 2}, "a-1": {1}}
    assert any("a-1" in warning and "has room" in warning for warning in plan.warnings)
    none = make_plan(
        executed(full, plan), PlanRequest(Goal.REPLICATION_FACTOR, scope=ALL, replication_factor=2)
    )
    assert none.reason.startswith(
        "cannot, because 1 partition (a-1) is without a broker to go to: no other live one in"
    )


# -- fewer replicas


def test_fewer_replicas_keep_the_racks_and_the_leader() -> None:
    snapshot = cluster("a-0: 1 2 3\na-1: 2 1 3\na-2: 3 2 1", racks="1=a 2=a 3=b")
    for replicas in after(snapshot, resized(snapshot, 2)).values():
        assert 3 in replicas and len(replicas) == 2
    one = resized(snapshot, 1)
    assert after(snapshot, one) == {"a-0": (1,), "a-1": (2,), "a-2": (3,)}
    assert one.copied_replicas == 0 and one.lowers_replication_factor


def test_in_sync_replicas_stay_before_racks_and_dead_brokers_go_first() -> None:
    snapshot = with_isr(cluster("a-0: 1 2 3\na-1: 1 2 3", racks="1=a 2=a 3=b"), {"a-0": [1, 2]})
    assert sets_after(snapshot, resized(snapshot, 2)) == {"a-0": {1, 2}, "a-1": {1, 3}}
    snapshot = cluster("a-0: 3 1 2 @1\na-1: 1 2 3", racks="1=a 2=a !3=b")
    assert sets_after(snapshot, resized(snapshot, 2)) == {"a-0": {1, 2}, "a-1": {1, 2}}


def test_an_in_sync_replica_is_not_taken_for_one_that_the_scope_protects() -> None:
    snapshot = cluster("a-0: 1 2 3", racks="1 2 !3")
    request = PlanRequest(
        Goal.REPLICATION_FACTOR,
        scope=Scope(topics=("a",), excluded_broker_ids=(3,)),
        replication_factor=2,
    )
    plan = make_plan(snapshot, request)
    assert plan.moves == () and "with too few replicas on brokers in scope" in plan.reason


def test_the_fullest_brokers_give_up_what_is_taken_away() -> None:
    picture = "\n".join(f"a-{n}: 1 2 3 4" for n in range(6))
    plan = resized(snapshot := cluster(picture, racks="1 2 3 4"), 2)
    # Broker 1 leads all six, and keeps no more than the others for that.
    assert judge(snapshot, plan).replicas == {1: 3, 2: 3, 3: 3, 4: 3}
    assert judge(snapshot, plan).leaders_max_minus_min == 1


def test_partitions_with_too_few_and_too_many_replicas_meet() -> None:
    snapshot = cluster("a-0: 1 2 3\na-1: 1\nb-0: 1 2", racks="1 2 3 4")
    plan = resized(snapshot, 2, Scope(topics=("a",)))
    assert {name: len(replicas) for name, replicas in after(snapshot, plan).items()} == {
        "a-0": 2,
        "a-1": 2,
        "b-0": 2,
    }
    assert {move.topic for move in plan.moves} == {"a"}
    assert plan.lower_bound.replicas == plan.copied_replicas == 1


# -- repair


def test_replicas_on_dead_brokers_are_copied_anew_and_nothing_else_is() -> None:
    snapshot = cluster("a-0: 1 2 4\na-1: 5 2 1\na-2: 1 2 3", racks="1=a 2=b 3=c !4=c !5=c")
    plan = planned(snapshot, PlanRequest(Goal.REPAIR))
    assert all(set(replicas) == {1, 2, 3} for replicas in after(snapshot, plan).values())
    assert plan.copied_replicas == plan.lower_bound.replicas == 2


def test_repair_can_be_limited_to_some_of_the_dead() -> None:
    snapshot = cluster("a-0: 1 4\na-1: 2 5", racks="1 2 3 !4 !5")
    plan = planned(snapshot, PlanRequest(Goal.REPAIR, (4,)))
    assert {name: 5 in replicas for name, replicas in after(snapshot, plan).items()} == {
        "a-0": False,
        "a-1": True,
    }
    assert plan.lower_bound.replicas == 1
    with pytest.raises(
        InputError, match="broker 1 is live, and goal repair is for brokers that are not"
    ):
        make_plan(snapshot, PlanRequest(Goal.REPAIR, (1, 4)))


def test_brokers_that_only_lists_of_replicas_still_name_are_dead_too() -> None:
    known = cluster("a-0: 1 9\na-1: 2 1", racks="1 2 3 9")
    brokers = known.brokers.filter(pa.compute.not_equal(known.brokers["broker_id"], 9))
    snapshot = replace(known, tables={**known.tables, "brokers": brokers})
    for request in (PlanRequest(Goal.REPAIR), PlanRequest(Goal.REPAIR, (9,))):
        assert sets_after(snapshot, make_plan(snapshot, request))["a-0"] in ({1, 2}, {1, 3})
    with pytest.raises(
        InputError, match="broker 9 is still in replica lists: goal repair replaces these replicas"
    ):
        make_plan(snapshot, PlanRequest(Goal.REMOVE_BROKERS, (9,)))


@pytest.mark.parametrize(
    ("picture", "racks", "reason"),
    [
        ("a-0: 1 2", "1 2 3", "already done: no broker is dead, all 3 are live"),
        (
            "a-0: 1 2 @none\na-1: 2 3",
            "!1 2 3",
            "cannot, because 1 partition (a-0) is without a leader to copy from",
        ),
        (
            "a-0: 2 1 3",
            "!1 2 3",
            "cannot, because 1 partition (a-0) is without a broker to go to: no other live one",
        ),
    ],
)
def test_nothing_to_repair_is_an_answer(picture: str, racks: str, reason: str) -> None:
    plan = make_plan(cluster(picture, racks=racks), PlanRequest(Goal.REPAIR))
    assert plan.copied_replicas == 0 and reason in plan.reason


# -- replicas beside a dead one


@pytest.mark.parametrize(
    "request_",
    [
        PlanRequest(Goal.REBALANCE),
        PlanRequest(Goal.ADD_BROKERS, (3,)),
        PlanRequest(Goal.REPLICATION_FACTOR, scope=ALL, replication_factor=3),
    ],
)
def test_replicas_beside_a_dead_one_are_left_to_repair_since_no_copy_of_theirs_could_end(
    request_: PlanRequest,
) -> None:
    rows = [
        *(f"a-{n}: {'1 2' if n % 2 else '2 1'}" for n in range(6)),
        "b-0: 1 4",
        "b-1: 1 4",
        "b-2: 2 4 @2",
    ]
    snapshot = cluster("\n".join(rows), racks="1 2 3 !4")
    plan = planned(snapshot, request_)
    assert plan.copied_replicas
    assert {move.topic for move in plan.moves if move.adding} == {"a"}
    assert [warning for warning in plan.warnings if "b-0" in warning and "repair" in warning] == [
        "3 partitions (b-0, b-1, b-2) are left to goal repair: "
        "with a replica on a dead broker no copy could end"
    ]


def test_leaders_of_partitions_with_a_dead_replica_are_still_made_even() -> None:
    snapshot = cluster("a-0: 1 2 4\na-1: 1 2 4\na-2: 4 3 2 @3", racks="1 2 3 !4")
    plan = planned(snapshot, PlanRequest(Goal.REBALANCE))
    assert plan.copied_replicas == 0
    assert {replicas[0] for replicas in after(snapshot, plan).values()} == {1, 2, 3}


def test_a_raise_that_has_to_wait_for_repair_says_so() -> None:
    assert resized(cluster("a-0: 1 4", racks="1 2 3 !4"), 3).reason == (
        "cannot, because 1 partition (a-0) is left to goal repair: "
        "with a replica on a dead broker no copy could end"
    )


# -- drains


def test_a_drained_topic_is_spread_before_bytes_are() -> None:
    picture = "\n".join(f"{topic}-{n}: 4 size=1000" for topic in "abc" for n in range(3))
    plan = planned(
        snapshot := cluster(picture, racks="1 2 3 4"), PlanRequest(Goal.REMOVE_BROKERS, (4,))
    )
    held = after(snapshot, plan)
    assert all({held[f"{topic}-{n}"][0] for n in range(3)} == {1, 2, 3} for topic in "abc")


def test_a_broker_whose_replicas_fit_nowhere_cannot_be_emptied() -> None:
    snapshot = cluster(
        "orders-3: 3 size=400\na-0: 3 size=10",
        racks="1 2 3",
        disks="1=500/1000 2=500/1000 3=410/1000",
    )
    message = r"broker 3 cannot be emptied: orders-3 \(400 B\) fits on no broker below 85 % full"
    with pytest.raises(RefusedError, match=message):
        make_plan(snapshot, PlanRequest(Goal.REMOVE_BROKERS, (3,)))


def test_room_is_made_by_sending_replicas_to_another_broker() -> None:
    # Broker 2 gets a-0 first, but has to have a-2, which 1 has already: so a-0 goes on to 1.
    snapshot = cluster(
        "a-0: 3 size=300\na-1: 3 size=250\na-2: 3 1 size=290",
        racks="1 2 3",
        disks="1=0/353 2=0/642 3=840/2000",
    )
    plan = planned(snapshot, PlanRequest(Goal.REMOVE_BROKERS, (3,)))
    assert sets_after(snapshot, plan) == {"a-0": {1}, "a-1": {2}, "a-2": {2, 1}}


def test_what_nobody_leads_cannot_be_drained_but_its_topic_can_be_left_out() -> None:
    snapshot = cluster("a-0: 1 2 @none\nb-0: 2 1", racks="1 2 3 4")
    with pytest.raises(
        RefusedError, match=r"1 partition has a replica \(a-0\) there and no leader to copy from"
    ):
        make_plan(snapshot, PlanRequest(Goal.REMOVE_BROKERS, (2,)))
    plan = planned(
        snapshot, PlanRequest(Goal.REMOVE_BROKERS, (2,), scope=Scope(excluded_topics=("a",)))
    )
    assert {move.topic for move in plan.moves} == {"b"}
    assert plan.lower_bound.replicas == plan.copied_replicas == 1


# -- scopes


def test_topics_and_brokers_out_of_scope_are_left_alone() -> None:
    picture = "\n".join(f"{topic}-{n}: {1 + n % 2}" for topic in ("a", "b") for n in range(6))
    snapshot = cluster(picture, racks="1 2 3 4")
    plan = planned(
        snapshot, PlanRequest(Goal.REBALANCE, scope=Scope(topics=("a",), excluded_broker_ids=(4,)))
    )
    assert {move.topic for move in plan.moves} == {"a"}
    # Topic a is spread evenly, whatever the brokers hold of topic b.
    assert judge(snapshot, plan).replicas == {1: 5, 2: 5, 3: 2, 4: 0}
    assert plan.lower_bound.replicas == plan.copied_replicas == 2


def test_the_bound_knows_what_may_not_move() -> None:
    # Four replicas could even the cluster out, but only the topic in scope is to be even.
    picture = "\n".join([*(f"a-{n}: 1" for n in range(2)), *(f"b-{n}: 1" for n in range(6))])
    plan = planned(
        cluster(picture, racks="1 2"), PlanRequest(Goal.REBALANCE, scope=Scope(topics=("a",)))
    )
    assert plan.copied_replicas == plan.lower_bound.replicas == 1
    assert plan.lower_bound.leaders_max_minus_min == 0


def test_new_brokers_get_their_share_of_the_topics_in_scope_and_not_of_the_cluster() -> None:
    picture = "\n".join([rotated("a", 50, "1 2 3 4", 1), rotated("b", 400, "1 2 3 4", 2)])
    snapshot = cluster(picture, racks="1 2 3 4 5 6")
    request = PlanRequest(Goal.ADD_BROKERS, (5, 6), scope=Scope(topics=("a",)))
    held = Counter(
        b
        for key, r in after(snapshot, planned(snapshot, request)).items()
        if key[0] == "a"
        for b in r
    )
    assert sorted(held.values()) == [8, 8, 8, 8, 9, 9]


def test_the_bound_goes_rack_by_rack_where_racks_hold_a_fixed_part() -> None:
    # Three replicas on two racks: two in the large one, one in the small one, so broker 6 is to get
    # a fifth of 20.
    picture = rotated("a", 10, "1 2 3 4", 2).replace(" size", " 5 size")
    snapshot = cluster(picture, racks="1=a 2=a 3=a 4=a 6=a 5=b")
    plan = planned(snapshot, PlanRequest(Goal.ADD_BROKERS, (6,)))
    assert plan.copied_replicas == plan.lower_bound.replicas == 4


# -- requests that do not fit

DEMO = cluster("orders-0: 1 2\norders-1: 2 3\ngoods-0: 3 1", racks="1=a 2=b 3=c !4=c", name="demo")


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (PlanRequest(Goal.IMPORTED), "goal imported cannot be planned; choose one of add-brokers"),
        (PlanRequest(Goal.DEMOTE_BROKERS), "needs the brokers that are to lead nothing"),
        (
            PlanRequest(Goal.REBALANCE, (1,)),
            "or limit the plan to some brokers with --only-brokers",
        ),
        (PlanRequest(Goal.DEMOTE_BROKERS, (4,)), "broker 4 is fenced (not live) and leads nothing"),
        (
            PlanRequest(Goal.DEMOTE_BROKERS, (1, 2, 3)),
            "names every live broker, so none is left to lead",
        ),
        (
            PlanRequest(Goal.REPAIR, (7,)),
            "broker 7 is not registered in cluster demo; registered: 1, 2, 3, 4",
        ),
        (
            PlanRequest(Goal.LEADERS, scope=Scope(topics=("ordes",))),
            "--topics 'ordes': no topic of cluster demo matches; near: orders",
        ),
        (
            PlanRequest(Goal.LEADERS, scope=Scope(excluded_topics=("goodz*",))),
            "--exclude-topics 'goodz*': no topic of cluster demo matches; near: goods",
        ),
        (
            PlanRequest(Goal.LEADERS, scope=Scope(topics=("goods",), excluded_topics=("goods",))),
            "topic 'goods' is both included and excluded",
        ),
        (
            PlanRequest(Goal.LEADERS, scope=Scope(topics=("goods",), excluded_topics=("g*",))),
            "--exclude-topics leaves none of the topics",
        ),
        (
            PlanRequest(Goal.LEADERS, scope=Scope(broker_ids=(8,))),
            "--only-brokers: broker 8 is not registered",
        ),
        (
            PlanRequest(Goal.LEADERS, scope=Scope(broker_ids=(1, 2), excluded_broker_ids=(2,))),
            "broker 2 is both included and excluded",
        ),
        (
            PlanRequest(Goal.ADD_BROKERS, (3,), scope=Scope(excluded_broker_ids=(3,))),
            "broker 3 is both named in --brokers and excluded",
        ),
        (
            PlanRequest(Goal.REMOVE_BROKERS, (3,), scope=Scope(broker_ids=(1, 2))),
            "broker 3 is named in --brokers, but not in --only-brokers",
        ),
        (
            PlanRequest(Goal.ADD_BROKERS, (3,), scope=Scope(broker_ids=(3,))),
            "leave no live broker that may give replicas",
        ),
        (
            PlanRequest(Goal.REMOVE_BROKERS, (3,), scope=Scope(excluded_broker_ids=(1, 2))),
            "leave no live broker that may take the replicas",
        ),
        (
            PlanRequest(Goal.LEADERS, scope=Scope(broker_ids=(1,))),
            "leave fewer than two live brokers",
        ),
        (
            PlanRequest(Goal.LEADERS, budget=Budget(max_bytes=0)),
            "--max-bytes 0: a plan that may copy nothing is no plan",
        ),
        (
            PlanRequest(Goal.LEADERS, replication_factor=3),
            "is for goal replication-factor, not for leaders",
        ),
        (PlanRequest(Goal.REPLICATION_FACTOR, scope=ALL), "needs the number of replicas"),
        (
            PlanRequest(Goal.REPLICATION_FACTOR, scope=ALL, replication_factor=0),
            "needs 1 replica or more",
        ),
        (PlanRequest(Goal.REPLICATION_FACTOR, replication_factor=2), "needs the topics"),
        (
            PlanRequest(Goal.REPLICATION_FACTOR, scope=ALL, replication_factor=4),
            "cluster demo has 3 live brokers",
        ),
    ],
)
def test_a_request_that_does_not_fit_is_an_input_error(request_: PlanRequest, message: str) -> None:
    with pytest.raises(InputError) as caught:
        make_plan(DEMO, request_)
    assert message in str(caught.value)


def test_a_factor_below_min_insync_replicas_is_refused_with_the_topic() -> None:
    topics = DEMO.topics
    at = topics.schema.get_field_index("min_insync_replicas")
    least = pa.array(
        [2 if name == "orders" else None for name in topics["topic"].to_pylist()], pa.int32()
    )
    described = replace(
        DEMO,
        tables={**DEMO.tables, "topics": topics.set_column(at, topics.schema.field(at), least)},
    )
    request = PlanRequest(Goal.REPLICATION_FACTOR, scope=ALL, replication_factor=1)
    with pytest.raises(InputError, match=r"below min\.insync\.replicas of orders \(2\)"):
        make_plan(described, request)
    assert make_plan(described, replace(request, scope=Scope(topics=("goods",)))).moves


# -- reasons


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (
            PlanRequest(Goal.REMOVE_BROKERS, (4,)),
            "already done: no replica is left on these brokers",
        ),
        (
            PlanRequest(Goal.REMOVE_BROKERS, (3,), scope=Scope(topics=("b",))),
            "already done: no replica is left on these brokers in the scope of this plan",
        ),
        (
            PlanRequest(Goal.REPLICATION_FACTOR, scope=ALL, replication_factor=2),
            "already done: each of the 4 partitions that may change has 2 replicas",
        ),
    ],
)
def test_an_empty_plan_says_why(request_: PlanRequest, reason: str) -> None:
    snapshot = cluster("a-0: 1 2\na-1: 2 3\na-2: 3 1\nb-0: 1 2", racks="1 2 3 4")
    plan = make_plan(snapshot, request_)
    assert plan.moves == () and plan.reason.startswith(reason)


def test_what_stands_in_the_way_of_evenness_is_a_reason() -> None:
    snapshot = cluster("\n".join([*(f"a-{n}: 1 2" for n in range(6)), "b-0: 4 1 2"]), racks="1 2 4")
    plan = make_plan(
        snapshot, PlanRequest(Goal.ADD_BROKERS, (4,), BalancePolicy(excluded_topics=("a",)))
    )
    assert plan.reason.startswith(
        "cannot, because no move that this goal allows makes the cluster more even: leaders"
    )
    assert plan.lower_bound.replicas == 0


def test_a_broker_set_that_would_be_too_small_is_named() -> None:
    """Compare cruise-control #1870: the cluster had brokers enough, the set had not."""
    rows = "\n".join([*(f"a-{n}: 1 2 3" for n in range(3)), *(f"b-{n}: 4 5 6" for n in range(3))])
    sets = (BrokerSet("east", ("a*",), (1, 2, 3)), BrokerSet("west", ("b*",), (4, 5, 6)))
    policy = BalancePolicy(constraints=Constraints(broker_sets=sets))
    request = PlanRequest(Goal.REMOVE_BROKERS, (5,), policy=policy)
    with pytest.raises(InputError, match="broker set west would have 2 live brokers without"):
        make_plan(cluster(rows, racks="1 2 3 4 5 6"), request)
