"""Topics: what is described, and what deletion and creation under the same name do."""

from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import LEADER_REPLICAS
from tests.support.conformance import SET, Cluster, topic


def test_unknown_topics_are_left_out_and_none_is_created(cluster: Cluster) -> None:
    name = cluster.make_topic((1, 2))
    assert [t.topic for t in cluster.admin.describe_topics(["ghost", name, name])] == [name]
    assert cluster.admin.describe_topics([]) == ()
    assert cluster.admin.list_offsets([TopicPartition("ghost", 0), TopicPartition(name, 9)]) == {}
    assert "ghost" not in {t.topic for t in cluster.admin.describe_topics()}


def test_a_topic_made_again_under_its_name_has_another_id(cluster: Cluster) -> None:
    name = cluster.make_topic((1, 2))
    (before,) = cluster.admin.describe_topics([name])
    cluster.delete_topic(name)
    assert cluster.admin.describe_topics([name]) == ()
    cluster.make_topic((2, 3), name=name)
    (after,) = cluster.admin.describe_topics([name])
    assert after.topic_id != before.topic_id
    assert after.partitions[0].replicas == (2, 3)


def test_a_move_goes_with_its_topic(cluster: Cluster) -> None:
    key = cluster.held_move((1, 2), (1, 4))
    cluster.delete_topic(key.topic)
    cluster.wait_until(lambda: not cluster.is_moving(key), "the move to be gone")
    assert cluster.refusal(key, None) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert cluster.alter(topic(key.topic), LEADER_REPLICAS, SET, "") == "UNKNOWN_TOPIC_OR_PARTITION"
    cluster.make_topic((1, 2), name=key.topic)
    assert not cluster.is_moving(key)
    assert cluster.refusal(key, None) == "NO_REASSIGNMENT_IN_PROGRESS"
