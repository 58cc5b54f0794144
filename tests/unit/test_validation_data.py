"""The data tests with Great Expectations itself; its import (10 to 17 s) is paid once, in this module."""

from dataclasses import replace

import pytest

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.plan import BrokerFigure, LowerBound, Move, RebalancePlan
from counterpoise.model.request import Goal
from counterpoise.validation import check_plan_data, check_snapshot_data, validate_data
from tests.pictures import cluster

SNAPSHOT = cluster("orders-0: 1 2 3 size=100\norders-1: 2 3 1", racks="1=a 2=b 3=c 4=d")
MOVE = Move("orders", 0, "id-of-orders", (1, 2, 3), (4, 2, 3), 1, 100)
FIGURE = BrokerFigure(
    broker_id=4,
    rack="d",
    leaders_before=0,
    leaders_after=1,
    leaders_best=1,
    replicas_before=0,
    replicas_after=1,
    replicas_best=1,
    bytes_before=0,
    bytes_after=100,
    bytes_best=25,
    bytes_peak=100,
)
PLAN = RebalancePlan(
    cluster="picture",
    cluster_id="picture-id",
    snapshot_id=SNAPSHOT.snapshot_id,
    goal=Goal.ADD_BROKERS,
    broker_ids=(4,),
    policy_digest="",
    moves=(MOVE,),
    figures=(FIGURE,),
    lower_bound=LowerBound(1, 90, 1),
)


def changed(table: str, row: int, **values: object) -> ClusterSnapshot:
    """The snapshot with one row of a table written over."""
    rows = SNAPSHOT.tables[table].to_pylist()
    rows[row] |= values
    new = SNAPSHOT.tables[table].from_pylist(rows, schema=SNAPSHOT.tables[table].schema)
    return replace(SNAPSHOT, tables={**SNAPSHOT.tables, table: new})


def test_sound_data_passes_and_so_does_an_empty_plan() -> None:
    assert validate_data(SNAPSHOT, PLAN).failures == ()
    assert validate_data(cluster(racks="1"), replace(PLAN, moves=())).success


@pytest.mark.parametrize(
    ("snapshot", "expectation", "example"),
    [
        (changed("brokers", 1, broker_id=1), "broker_id is unique", "1"),
        (changed("topics", 0, partition_count=7), "partition_count_agrees is true", "orders"),
        (changed("partitions", 1, partition=0), "topic, partition are unique together", "orders-0"),
        (changed("partitions", 1, leader=4), "leader_is_a_replica is true", "orders-1"),
        (changed("partitions", 0, isr=[1, 4]), "isr_is_within_replicas is true", "orders-0"),
        (changed("partitions", 0, replicas=[1, 1, 2]), "names_each_broker_once is true", "orders-0"),
        (changed("partitions", 0, replicas=[1, 9]), "brokers_are_registered is true", "orders-0"),
        (changed("partitions", 0, size_bytes=-1), "size_bytes is not negative", "orders-0"),
        (changed("replicas", 2, broker_id=9), "broker_is_registered is true", "orders-0-9"),
    ],
)
def test_unsound_snapshot_data_is_named_with_an_example(
    snapshot: ClusterSnapshot, expectation: str, example: str
) -> None:
    check = check_snapshot_data(snapshot)
    assert not check.success
    failure = next(failure for failure in check.failures if failure.expectation == expectation)
    assert failure.unexpected_count >= 1
    assert failure.examples[0].split(":")[0] == example


@pytest.mark.parametrize(
    ("move", "expectation"),
    [
        (replace(MOVE, replicas_after=(4, 4, 3)), "names_each_broker_once is true"),
        (replace(MOVE, replicas_after=(4, 2)), "keeps_or_nears_replication_factor is true"),
        (replace(MOVE, size_bytes=-1), "size_bytes is not negative"),
    ],
)
def test_an_unsound_plan_is_named_with_an_example(move: Move, expectation: str) -> None:
    check = check_plan_data(replace(PLAN, moves=(move,)))
    assert [failure.expectation for failure in check.failures] == [expectation]
    assert check.failures[0].examples[0].startswith("orders-0")


def test_a_replication_factor_that_is_the_goal_is_the_wanted_one() -> None:
    raised = replace(PLAN, goal=Goal.REPLICATION_FACTOR, moves=(replace(MOVE, replicas_after=(1, 2, 3, 4)),))
    assert check_plan_data(replace(raised, replication_factor=4)).success
    assert not check_plan_data(replace(raised, replication_factor=3)).success


def test_a_broker_that_ends_fuller_than_it_ever_is_was_counted_wrongly() -> None:
    (failure,) = check_plan_data(replace(PLAN, figures=(replace(FIGURE, bytes_peak=99),))).failures
    assert failure.expectation == "peaks_no_lower_than_it_ends is true"
