"""The lists of throttled replicas (KIP-73), and the operations on them (KIP-339)."""

import pytest

from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import (
    FOLLOWER_REPLICAS,
    LEADER_REPLICAS,
    LIST_KEYS,
    ConfigOperation,
    ConfigSource,
    ConfigValue,
)
from tests.support.conformance import APPEND, DELETE, SET, SUBTRACT, Cluster, topic

UNSET = ConfigValue("", ConfigSource.DEFAULT)


def in_topic(value: str) -> ConfigValue:
    return ConfigValue(value, ConfigSource.DYNAMIC_TOPIC)


@pytest.mark.parametrize("key", LIST_KEYS)
def test_an_unset_list_is_an_empty_default(cluster: Cluster, key: str) -> None:
    resource = topic(cluster.make_topic((1, 2)))
    assert cluster.config(resource, key) == UNSET
    assert cluster.altered(resource, key, SET, "0:1") == in_topic("0:1")
    assert cluster.altered(resource, key, DELETE) == UNSET


@pytest.mark.parametrize(
    ("before", "operation", "value", "after"),
    [
        (None, APPEND, "0:1,0:2", "0:1,0:2"),
        (None, APPEND, "*", "*"),
        (None, SUBTRACT, "0:1", ""),
        ("0:1,0:2", APPEND, "0:2,0:3", "0:1,0:2,0:3"),
        ("0:1", APPEND, "1:1,1:1", "0:1,1:1"),
        ("0:1,0:2", SUBTRACT, "0:1", "0:2"),
        ("0:1,0:2", SUBTRACT, "0:2,0:1", ""),
        ("0:1,0:1", SUBTRACT, "0:1", "0:1"),
        ("*", SET, "0:1", "0:1"),
        ("*", SUBTRACT, "*", ""),
        ("", APPEND, "0:1", "0:1"),
    ],
)
def test_operations_merge_lists(
    cluster: Cluster, before: str | None, operation: ConfigOperation, value: str, after: str
) -> None:
    resource = topic(cluster.make_topic((1, 2)))
    if before:
        cluster.altered(resource, LEADER_REPLICAS, SET, before)
    elif before is not None:
        assert cluster.alter(resource, LEADER_REPLICAS, SET, before) == ""
    assert cluster.altered(resource, LEADER_REPLICAS, operation, value) == in_topic(after)


@pytest.mark.parametrize(
    ("before", "operation", "value"),
    [
        ("0:1", APPEND, "0:1"),
        ("0:1", SUBTRACT, "9:9"),
        ("*", SUBTRACT, "0:1"),
    ],
)
def test_operations_that_change_nothing_are_accepted(
    cluster: Cluster, before: str, operation: ConfigOperation, value: str
) -> None:
    resource = topic(cluster.make_topic((1, 2)))
    cluster.altered(resource, LEADER_REPLICAS, SET, before)
    assert cluster.alter(resource, LEADER_REPLICAS, operation, value) == ""
    cluster.let_pass(0.3)
    assert cluster.config(resource, LEADER_REPLICAS) == in_topic(before)


def test_a_deleted_list_may_be_deleted_again(cluster: Cluster) -> None:
    resource = topic(cluster.make_topic((1, 2)))
    for _ in range(2):
        assert cluster.alter(resource, LEADER_REPLICAS, DELETE) == ""
    assert cluster.config(resource, LEADER_REPLICAS) == UNSET


def test_a_list_may_be_set_though_empty(cluster: Cluster) -> None:
    resource = topic(cluster.make_topic((1, 2)))
    assert cluster.alter(resource, FOLLOWER_REPLICAS, SET, "") == ""
    cluster.wait_until(
        lambda: cluster.config(resource, FOLLOWER_REPLICAS) == in_topic(""), "the empty list"
    )


@pytest.mark.parametrize("value", ["none", "0:1,*", "*,0:1", "0", "0:x", "a:1", "-1:1", ";"])
def test_other_words_are_refused(cluster: Cluster, value: str) -> None:
    resource = topic(cluster.make_topic((1, 2)))
    assert cluster.alter(resource, LEADER_REPLICAS, SET, value) == "INVALID_CONFIG"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("0:1,,0:2", "0:1,,0:2"),
        (",0:1", ",0:1"),
        ("0:1,", "0:1,"),
        (" 0:1 ", "0:1"),
        ("0:1 , 0:2", "0:1,0:2"),
    ],
)
def test_gaps_are_accepted_and_spaces_are_not_shown(
    cluster: Cluster, value: str, shown: str
) -> None:
    resource = topic(cluster.make_topic((1, 2)))
    assert cluster.altered(resource, LEADER_REPLICAS, SET, value) == in_topic(shown)


@pytest.mark.parametrize(("before", "value"), [("*", "0:1"), ("0:1", "*")])
def test_a_wildcard_and_entries_do_not_mix(cluster: Cluster, before: str, value: str) -> None:
    resource = topic(cluster.make_topic((1, 2)))
    cluster.altered(resource, LEADER_REPLICAS, SET, before)
    assert cluster.alter(resource, LEADER_REPLICAS, APPEND, value) == "INVALID_CONFIG"
    assert cluster.config(resource, LEADER_REPLICAS) == in_topic(before)


def test_unknown_partitions_and_brokers_may_be_listed(cluster: Cluster) -> None:
    resource = topic(cluster.make_topic((1, 2)))
    assert cluster.altered(resource, FOLLOWER_REPLICAS, SET, "7:77,8:1") == in_topic("7:77,8:1")


@pytest.mark.parametrize(("entries", "is_held"), [("*", True), ("0:4", True), ("0:3,1:4", False)])
def test_a_list_names_the_replicas_that_are_held(
    cluster: Cluster, entries: str, is_held: bool
) -> None:
    key = cluster.held_partition((1, 2))
    cluster.altered(topic(key.topic), FOLLOWER_REPLICAS, SET, "7:77")
    cluster.altered(topic(key.topic), FOLLOWER_REPLICAS, SET, entries)
    assert cluster.refusal(key, (1, 4)) == ""
    if is_held:
        cluster.let_pass(1.5)
        assert cluster.is_moving(key)
    else:
        cluster.wait_until(lambda: not cluster.is_moving(key), "the move")


def test_a_new_list_takes_effect_in_the_middle_of_a_move(cluster: Cluster) -> None:
    key = cluster.held_move((1, 2), (1, 4))
    cluster.altered(topic(key.topic), FOLLOWER_REPLICAS, DELETE)
    cluster.wait_until(lambda: not cluster.is_moving(key), "the move")


def test_each_broker_shows_the_list_of_a_topic(cluster: Cluster) -> None:
    name = cluster.make_topic((1, 2))
    assert cluster.alter(topic(name), LEADER_REPLICAS, SET, "0:1") == ""
    for broker_id in (1, 2, 3, 4, 5):
        cluster.wait_until(
            lambda broker_id=broker_id: (
                cluster.config(topic(name), LEADER_REPLICAS, broker_id) == in_topic("0:1")
            ),
            f"the list at broker {broker_id}",
        )


def test_a_list_goes_with_its_topic(cluster: Cluster) -> None:
    name = cluster.make_topic((1, 2))
    cluster.altered(topic(name), LEADER_REPLICAS, SET, "0:1")
    cluster.delete_topic(name)
    cluster.make_topic((1, 2), name=name)
    assert cluster.config(topic(name), LEADER_REPLICAS) == UNSET
    assert not cluster.is_moving(TopicPartition(name, 0))
