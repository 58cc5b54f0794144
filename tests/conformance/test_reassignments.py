"""Reassignments (KIP-455): order, steps, cancels, completion, refusals.

A rate of 0 holds every move until a test lets it go.
"""

import pytest

from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import Reassignment
from tests.support.conformance import BROKER_IDS, SET, Cluster, topic

GONE = TopicPartition("no-such-topic", 0)


def test_a_move_is_listed_with_the_union_of_replicas_target_first(cluster: Cluster) -> None:
    key = cluster.held_move((1, 2, 3), (4, 2, 3))
    assert cluster.admin.list_reassignments()[key] == Reassignment(
        (4, 2, 3, 1), adding=(4,), removing=(1,)
    )
    cluster.wait_until(lambda: cluster.partition(key).replicas == (4, 2, 3, 1), "the union")
    partition = cluster.partition(key)
    assert (partition.leader, set(partition.isr)) == (1, {1, 2, 3})


def test_the_removed_replicas_are_listed_in_order_of_their_ids(cluster: Cluster) -> None:
    key = cluster.held_move((3, 1, 2), (4, 5, 2))
    assert cluster.admin.list_reassignments()[key] == Reassignment(
        (4, 5, 2, 1, 3), adding=(4, 5), removing=(1, 3)
    )


def test_a_completed_move_has_the_target_in_its_order(cluster: Cluster) -> None:
    key = cluster.held_move((1, 2, 3), (4, 3, 2))
    cluster.release_followers(4)
    cluster.wait_until(lambda: not cluster.is_moving(key), "the move")
    cluster.wait_until(lambda: cluster.partition(key).replicas == (4, 3, 2), "the target")
    assert set(cluster.partition(key).isr) == {4, 3, 2}


def test_a_removed_leader_hands_over_to_the_first_of_the_target(cluster: Cluster) -> None:
    key = cluster.held_move((1, 2, 3), (4, 3, 2))
    before = cluster.partition(key)
    cluster.release_followers(4)
    cluster.wait_until(lambda: cluster.partition(key).replicas == (4, 3, 2), "the target")
    after = cluster.partition(key)
    assert (before.leader, after.leader) == (1, 4)
    assert (after.leader_epoch or 0) - (before.leader_epoch or 0) == 1


def test_a_kept_leader_stays_at_a_higher_epoch(cluster: Cluster) -> None:
    key = cluster.held_move((1, 2, 3), (4, 1, 2))
    before = cluster.partition(key)
    cluster.release_followers(4)
    cluster.wait_until(lambda: cluster.partition(key).replicas == (4, 1, 2), "the target")
    after = cluster.partition(key)
    assert (before.leader, after.leader) == (1, 1)
    assert (after.leader_epoch or 0) - (before.leader_epoch or 0) == 1


def test_a_cancel_changes_the_order(cluster: Cluster) -> None:
    key = cluster.held_move((1, 2, 3), (4, 2, 3))
    assert cluster.refusal(key, None) == ""
    cluster.wait_until(lambda: cluster.partition(key).replicas == (2, 3, 1), "the cancel")
    assert not cluster.is_moving(key)
    assert set(cluster.partition(key).isr) == {1, 2, 3}
    assert cluster.partition(key).leader == 1


def test_a_cancel_raises_the_leader_epoch(cluster: Cluster) -> None:
    key = cluster.held_move((1, 2, 3), (4, 2, 3))
    before = cluster.partition(key)
    assert cluster.refusal(key, None) == ""
    cluster.wait_until(lambda: not cluster.is_moving(key), "the cancel")
    cluster.wait_until(lambda: cluster.partition(key).replicas == (2, 3, 1), "the cancel")
    assert (cluster.partition(key).leader_epoch or 0) - (before.leader_epoch or 0) == 1


def test_a_cancel_deletes_what_was_copied(cluster: Cluster) -> None:
    key = cluster.held_move((1, 2, 3), (4, 2, 3))

    def is_there() -> bool:
        return any(key in d.sizes for d in cluster.admin.describe_log_dirs([4]))

    cluster.wait_until(is_there, "the replica")
    assert cluster.refusal(key, None) == ""
    cluster.wait_until(lambda: not is_there(), "the files to be gone")


def test_a_change_of_order_alone_is_done_at_once(cluster: Cluster) -> None:
    key = cluster.held_partition((1, 2, 3))
    assert cluster.refusal(key, (3, 1, 2)) == ""
    assert not cluster.is_moving(key)
    cluster.wait_until(lambda: cluster.partition(key).replicas == (3, 1, 2), "the order")
    assert cluster.partition(key).leader == 1


def test_the_present_replicas_are_accepted_as_a_target_and_nothing_moves(cluster: Cluster) -> None:
    key = cluster.held_partition((1, 2, 3))
    assert cluster.refusal(key, (1, 2, 3)) == ""
    assert not cluster.is_moving(key)
    assert cluster.partition(key).replicas == (1, 2, 3)


def test_the_same_request_again_changes_nothing(cluster: Cluster) -> None:
    key = cluster.held_move((1, 2, 3), (4, 2, 3))
    before = cluster.admin.list_reassignments()[key]
    assert cluster.refusal(key, (4, 2, 3)) == ""
    assert cluster.admin.list_reassignments()[key] == before


def test_another_order_in_flight_is_taken_over(cluster: Cluster) -> None:
    key = cluster.held_move((1, 2, 3), (4, 2, 3))
    assert cluster.refusal(key, (2, 4, 3)) == ""
    assert cluster.admin.list_reassignments()[key] == Reassignment(
        (2, 4, 3, 1), adding=(4,), removing=(1,)
    )


def test_another_target_in_flight_removes_what_was_being_added(cluster: Cluster) -> None:
    key = cluster.held_move((1, 2, 3), (4, 2, 3))
    assert cluster.refusal(key, (5, 2, 3)) == ""
    assert cluster.admin.list_reassignments()[key] == Reassignment(
        (5, 2, 3, 1, 4), adding=(5,), removing=(1, 4)
    )
    cluster.release_followers(5)
    cluster.wait_until(lambda: not cluster.is_moving(key), "the move")
    cluster.wait_until(lambda: cluster.partition(key).replicas == (5, 2, 3), "the target")


def test_going_back_in_flight_never_completes_from_kafka_4_3_on(cluster: Cluster) -> None:
    key = cluster.held_move((1, 2, 3), (4, 2, 3))
    assert cluster.refusal(key, (1, 2, 3)) == ""
    if cluster.version < (4, 3):
        cluster.wait_until(lambda: not cluster.is_moving(key), "the end of the move")
        cluster.wait_until(lambda: cluster.partition(key).replicas == (1, 2, 3), "the way back")
        return
    assert cluster.admin.list_reassignments()[key] == Reassignment(
        (1, 2, 3, 4), adding=(4,), removing=(4,)
    )
    cluster.release_followers(4)
    cluster.let_pass(2.0)
    assert cluster.is_moving(key)
    assert cluster.refusal(key, None) == ""
    cluster.wait_until(lambda: cluster.partition(key).replicas == (1, 2, 3), "the cancel")


def test_a_cancel_after_another_target_keeps_one_replica_too_many(cluster: Cluster) -> None:
    key = cluster.held_move((1, 2), (1, 3))
    assert cluster.refusal(key, (1, 4)) == ""
    assert cluster.refusal(key, None) == ""
    cluster.wait_until(lambda: cluster.partition(key).replicas == (1, 2, 3), "the cancel")
    assert not cluster.is_moving(key)


def test_a_move_waits_for_every_replica_that_it_adds(cluster: Cluster) -> None:
    key = cluster.held_move((1, 2, 3), (4, 5, 3))
    cluster.release_followers(4)
    cluster.wait_until(lambda: 4 in cluster.partition(key).isr, "broker 4 in the ISR")
    cluster.let_pass(1.0)
    assert cluster.admin.list_reassignments()[key] == Reassignment(
        (4, 5, 3, 1, 2), adding=(4, 5), removing=(1, 2)
    )
    cluster.release_followers(5)
    cluster.wait_until(lambda: not cluster.is_moving(key), "the move")


def test_a_new_replica_joins_the_isr_before_the_move_is_complete(cluster: Cluster) -> None:
    key = cluster.held_move((1, 2), (4, 5))
    cluster.release_followers(4)
    cluster.wait_until(lambda: set(cluster.partition(key).isr) == {1, 2, 4}, "the larger ISR")
    assert cluster.refusal(key, None) == ""


# -- refusals


@pytest.mark.parametrize(
    ("target", "error"),
    [
        ((1, 2, 9), "INVALID_REPLICATION_ASSIGNMENT"),
        ((1, 2, 2), "INVALID_REPLICATION_ASSIGNMENT"),
        ((1, 2, -1), "INVALID_REPLICATION_ASSIGNMENT"),
        ((1, 2), "INVALID_REPLICATION_FACTOR"),
        ((1, 2, 3, 4), "INVALID_REPLICATION_FACTOR"),
        ((), "the list of replicas is empty"),
    ],
)
def test_a_wrong_target_is_refused_and_changes_nothing(
    cluster: Cluster, target: tuple[int, ...], error: str
) -> None:
    key = cluster.held_partition((1, 2, 3))
    assert cluster.refusal(key, target) == error
    assert cluster.partition(key).replicas == (1, 2, 3)
    assert not cluster.is_moving(key)


@pytest.mark.parametrize("target", [(1, 2), None, ()])
def test_an_unknown_topic_is_refused(cluster: Cluster, target: tuple[int, ...] | None) -> None:
    error = "the list of replicas is empty" if target == () else "UNKNOWN_TOPIC_OR_PARTITION"
    assert cluster.refusal(GONE, target) == error
    assert cluster.admin.describe_topics([GONE.topic]) == ()


@pytest.mark.parametrize("number", [1, -1, 1000])
def test_an_unknown_partition_is_refused(cluster: Cluster, number: int) -> None:
    key = TopicPartition(cluster.make_topic((1, 2)), number)
    assert cluster.refusal(key, (1, 3)) == "UNKNOWN_TOPIC_OR_PARTITION"


def test_a_cancel_of_nothing_is_refused(cluster: Cluster) -> None:
    key = TopicPartition(cluster.make_topic((1, 2)), 0)
    assert cluster.refusal(key, None) == "NO_REASSIGNMENT_IN_PROGRESS"


def test_one_refusal_does_not_hold_up_the_others(cluster: Cluster) -> None:
    good, bad = cluster.held_partition((1, 2)), cluster.held_partition((1, 2))
    results = cluster.admin.alter_reassignments({bad: (1, 9), GONE: (1, 2), good: (1, 4)})
    assert results.accepted == (good,)
    assert set(results.errors) == {bad, GONE}
    assert cluster.is_moving(good)


def test_no_partitions_are_no_request(cluster: Cluster) -> None:
    results = cluster.admin.alter_reassignments({})
    assert (results.accepted, dict(results.errors)) == ((), {})


def test_another_number_of_replicas_is_accepted_where_the_caller_allows_it(
    cluster: Cluster,
) -> None:
    key = cluster.held_partition((1, 2, 3))
    results = cluster.admin.alter_reassignments({key: (1, 2)}, may_change_replication_factor=True)
    assert results.accepted == (key,)
    cluster.wait_until(lambda: cluster.partition(key).replicas == (1, 2), "two replicas")
    assert not cluster.is_moving(key)


def test_in_flight_the_replication_factor_is_that_of_the_target(cluster: Cluster) -> None:
    key = cluster.held_move((1, 2), (1, 4))  # three replicas now
    assert cluster.refusal(key, (1, 2, 4)) == "INVALID_REPLICATION_FACTOR"
    assert cluster.refusal(key, (1, 5)) == ""


def test_fewer_replicas_are_dropped_at_once(cluster: Cluster) -> None:
    key = TopicPartition(cluster.make_topic((1, 2, 3)), 0)
    for target in ((1, 2), (1,)):
        cluster.admin.alter_reassignments({key: target}, may_change_replication_factor=True)
        cluster.wait_until(
            lambda target=target: cluster.partition(key).replicas == target, "fewer replicas"
        )
    assert set(cluster.partition(key).isr) == {1}


def test_a_smaller_set_may_be_below_min_insync_replicas(cluster: Cluster) -> None:
    key = TopicPartition(cluster.make_topic((1, 2, 3)), 0)
    cluster.altered(topic(key.topic), "min.insync.replicas", SET, "2")
    cluster.admin.alter_reassignments({key: (1,)}, may_change_replication_factor=True)
    cluster.wait_until(lambda: cluster.partition(key).replicas == (1,), "one replica")


def test_all_brokers_may_be_a_target(cluster: Cluster) -> None:
    key = TopicPartition(cluster.make_topic((1, 2, 3)), 0)
    cluster.admin.alter_reassignments({key: BROKER_IDS}, may_change_replication_factor=True)
    cluster.wait_until(lambda: cluster.partition(key).replicas == BROKER_IDS, "five replicas")
