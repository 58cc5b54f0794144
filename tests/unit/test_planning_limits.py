"""Where replicas may not go: beside dead brokers, onto cordoned log dirs, into full racks."""

import json

import pytest

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.constraints import BrokerSet, Constraints
from counterpoise.model.document import from_document_text
from counterpoise.model.plan import MoveReason, RebalancePlan
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.request import Goal, PlanRequest, Scope
from counterpoise.planning import make_plan
from tests.support.goal_judge import judge
from tests.support.pictures import cluster

# -- a replica on another dead broker


@pytest.mark.parametrize(
    "request_", [PlanRequest(Goal.REMOVE_BROKERS, (2,)), PlanRequest(Goal.REPAIR, (5,))]
)
def test_what_keeps_a_replica_on_another_dead_broker_is_left_and_named(
    request_: PlanRequest,
) -> None:
    picture = "a-0: 1 2 6\na-1: 1 2 3\na-2: 1 5 6\na-3: 1 5 3"
    snapshot = cluster(picture, racks="1 2 3 4 !5 !6")
    plan = make_plan(snapshot, request_)
    is_drain = request_.goal is Goal.REMOVE_BROKERS
    assert [move.partition for move in plan.moves if move.adding] == [1 if is_drain else 3]
    left = "(a-0) is left to goal repair" if is_drain else "(a-2) is left alone: with a replica on "
    assert any(left in warning for warning in plan.warnings)
    assert judge(snapshot, plan).errors == ()


def test_a_drain_that_can_only_leave_partitions_says_so() -> None:
    snapshot = cluster("a-0: 1 2 6", racks="1 2 3 4 !6")
    plan = make_plan(snapshot, PlanRequest(Goal.REMOVE_BROKERS, (2,)))
    assert plan.moves == ()
    assert plan.reason.startswith("cannot, because 1 partition (a-0) is left to goal repair")


# -- racks


def test_racks_are_cured_although_the_new_broker_has_its_share() -> None:
    rows = [f"a-{n}: 1 2" for n in range(8)]
    snapshot = cluster("\n".join(rows), racks="1=a 2=a 3=b")
    plan = make_plan(snapshot, PlanRequest(Goal.ADD_BROKERS, (3,)))
    assert judge(snapshot, plan).replicas == {1: 4, 2: 4, 3: 8}
    assert {move.why for move in plan.moves if move.adding} == {MoveReason.RACKS}


def test_a_drain_that_takes_a_partition_to_fewer_racks_says_so() -> None:
    snapshot = cluster(
        "a-0: 1 2 size=500\nb-0: 1 3 size=1",
        racks="1=a 2=b 3=b 4=a",
        disks="1=500/9000 2=500/9000 3=700/1000 4=0/9000",
    )
    plan = make_plan(snapshot, PlanRequest(Goal.REMOVE_BROKERS, (2,)))
    assert any("a-0" in text and "less even over racks than now" in text for text in plan.warnings)


# -- lower replication factors


def test_a_leader_keeps_its_replica_only_where_counts_allow_it() -> None:
    snapshot = cluster("\n".join(f"a-{n}: 1 2 3" for n in range(6)), racks="1 2 3")
    assert judge(snapshot, lowered(snapshot, 2)).replicas == {1: 4, 2: 4, 3: 4}
    assert judge(snapshot, lowered(snapshot, 1)).replicas == {1: 2, 2: 2, 3: 2}


def lowered(snapshot: ClusterSnapshot, factor: int) -> RebalancePlan:
    scope = Scope(topics=("*",))
    request = PlanRequest(Goal.REPLICATION_FACTOR, scope=scope, replication_factor=factor)
    return make_plan(snapshot, request)


# -- cordoned log dirs


def with_dirs(**cordoned: list[bool]) -> ClusterSnapshot:
    """Three brokers with twelve partitions on the first two; log dirs by broker, like b3=[True]."""
    brokers = []
    for broker_id in (1, 2, 3):
        dirs = [
            {"path": f"/d{n}", "is_cordoned": is_cordoned or None}
            for n, is_cordoned in enumerate(cordoned.get(f"b{broker_id}", [False]))
        ]
        brokers.append({"id": broker_id, "rack": None, "log_dirs": dirs})
    rows = [["a", n, [1 + n % 2], 1 + n % 2, 100, 0] for n in range(12)]
    return from_document_text(json.dumps({"brokers": brokers, "partitions": rows}))


@pytest.mark.parametrize(
    "request_", [PlanRequest(Goal.REBALANCE), PlanRequest(Goal.REMOVE_BROKERS, (1,))]
)
def test_nothing_goes_to_a_broker_whose_log_dirs_are_all_cordoned(request_: PlanRequest) -> None:
    plan = make_plan(with_dirs(b3=[True, True]), request_)
    assert not {broker for move in plan.moves for broker in move.adding} & {3}
    assert any("broker 3 can take no new replicas" in warning for warning in plan.warnings)


def test_where_some_log_dirs_are_cordoned_the_broker_chooses() -> None:
    plan = make_plan(with_dirs(b3=[True, False]), PlanRequest(Goal.ADD_BROKERS, (3,)))
    assert {broker for move in plan.moves for broker in move.adding} == {3}
    assert any("is chosen by the broker" in warning for warning in plan.warnings)


def test_broker_sets_of_a_cluster_without_partitions_leave_it_balanced() -> None:
    sets = (BrokerSet("pay", ("pay-*",), (1,)), BrokerSet("all", ("*",), (2,)))
    policy = BalancePolicy(constraints=Constraints(broker_sets=sets))
    snapshot = from_document_text('{"brokers": [{"id": 1}, {"id": 2}], "partitions": []}')
    plan = make_plan(snapshot, PlanRequest(Goal.REBALANCE, policy=policy))
    assert plan.moves == ()
    assert plan.reason == "already balanced: the cluster has no partitions"
