"""Preferred leader elections (KIP-460)."""

from counterpoise.model.cluster import TopicPartition
from tests.support.conformance import Cluster

NOT_AVAILABLE = "PREFERRED_LEADER_NOT_AVAILABLE"


def reordered(cluster: Cluster) -> TopicPartition:
    """Return a partition that broker 1 leads, though broker 2 is preferred."""
    key = TopicPartition(cluster.make_topic((1, 2, 3)), 0)
    assert cluster.refusal(key, (2, 1, 3)) == ""
    cluster.wait_until(lambda: cluster.partition(key).replicas == (2, 1, 3), "the order")
    return key


def test_the_preferred_leader_takes_over_at_the_next_epoch(cluster: Cluster) -> None:
    key = reordered(cluster)
    before = cluster.partition(key)
    assert cluster.election(key) == ""
    cluster.wait_until(lambda: cluster.partition(key).leader == 2, "broker 2 to lead")
    assert (cluster.partition(key).leader_epoch or 0) - (before.leader_epoch or 0) == 1


def test_an_election_that_is_not_needed_is_accepted(cluster: Cluster) -> None:
    key = TopicPartition(cluster.make_topic((1, 2, 3)), 0)
    before = cluster.partition(key)
    assert cluster.election(key) == ""
    assert cluster.partition(key) == before


def test_an_election_of_nothing_is_refused(cluster: Cluster) -> None:
    name = cluster.make_topic((1, 2))
    assert cluster.election(TopicPartition("no-such-topic", 0)) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert cluster.election(TopicPartition(name, 7)) == "UNKNOWN_TOPIC_OR_PARTITION"
    results = cluster.admin.elect_preferred_leaders([])
    assert (results.accepted, dict(results.errors)) == ((), {})


def test_partitions_are_elected_one_by_one(cluster: Cluster) -> None:
    key, gone = reordered(cluster), TopicPartition("no-such-topic", 0)
    results = cluster.admin.elect_preferred_leaders([gone, key, key])
    assert (results.accepted, set(results.errors)) == ((key,), {gone})


def test_a_replica_outside_the_isr_is_not_elected(cluster: Cluster) -> None:
    key = cluster.held_move((1, 2), (4, 2))
    assert cluster.election(key) == NOT_AVAILABLE
    assert cluster.partition(key).leader == 1
