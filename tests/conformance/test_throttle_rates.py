"""Which rate is in force (KIP-73): a move under a rate of 0 comes no further than its first MiB."""

import pytest

from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import (
    EVERY_BROKER,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    RATE_KEYS,
    ConfigChange,
    ConfigSource,
    ConfigValue,
)
from tests.support.conformance import (
    APPEND,
    DELETE,
    HELD_BYTES,
    SET,
    SUBTRACT,
    Cluster,
    broker,
    error_name,
    topic,
)

QUIET_SECONDS = 2.0
FAST = "1000000000"


def full_partition(cluster: Cluster, *replicas: int) -> TopicPartition:
    key = TopicPartition(cluster.make_topic(replicas), 0)
    cluster.produce(key, HELD_BYTES)
    return key


def is_held(cluster: Cluster, key: TopicPartition) -> bool:
    """Return whether a move is still under way after some time that it does not need."""
    cluster.let_pass(QUIET_SECONDS)
    return cluster.is_moving(key)


def test_an_unset_rate_is_absent_and_throttles_nothing(cluster: Cluster) -> None:
    assert cluster.admin.describe_configs([broker(1), broker(4)], RATE_KEYS) == {
        broker(1): {},
        broker(4): {},
    }
    key = full_partition(cluster, 1, 2)
    cluster.altered(topic(key.topic), FOLLOWER_REPLICAS, SET, "*")
    assert cluster.refusal(key, (1, 4)) == ""
    cluster.wait_until(lambda: not cluster.is_moving(key), "the move")


def test_a_rate_of_the_broker_is_in_force_and_an_unlisted_replica_is_free(cluster: Cluster) -> None:
    listed, unlisted = full_partition(cluster, 1, 2), full_partition(cluster, 1, 2)
    assert cluster.altered(broker(4), FOLLOWER_RATE, SET, "0") == ConfigValue(
        "0", ConfigSource.DYNAMIC_BROKER
    )
    cluster.altered(topic(listed.topic), FOLLOWER_REPLICAS, SET, "0:4")
    cluster.admin.alter_reassignments({listed: (1, 4), unlisted: (1, 4)})
    cluster.wait_until(lambda: not cluster.is_moving(unlisted), "the unlisted move")
    assert is_held(cluster, listed)
    assert cluster.altered(broker(4), FOLLOWER_RATE, SET, FAST) is not None
    cluster.wait_until(lambda: not cluster.is_moving(listed), "the move at the new rate")


def test_a_rate_of_the_leader_is_in_force_for_the_listed_leader(cluster: Cluster) -> None:
    listed, unlisted = full_partition(cluster, 1, 2), full_partition(cluster, 1, 2)
    cluster.altered(broker(1), LEADER_RATE, SET, "0")
    cluster.altered(topic(listed.topic), LEADER_REPLICAS, SET, "0:1")
    cluster.altered(topic(unlisted.topic), LEADER_REPLICAS, SET, "0:2,0:4")
    cluster.admin.alter_reassignments({listed: (1, 4), unlisted: (1, 4)})
    cluster.wait_until(lambda: not cluster.is_moving(unlisted), "the move of an unlisted leader")
    assert is_held(cluster, listed)
    assert cluster.altered(broker(1), LEADER_RATE, DELETE) is None
    cluster.wait_until(lambda: not cluster.is_moving(listed), "the move without a rate")


def test_a_dynamic_default_is_in_force_where_a_broker_has_no_rate_of_its_own(
    cluster: Cluster,
) -> None:
    """KAFKA-10190, also in 3.9; the rate of the broker itself comes first, even a higher one."""
    key = full_partition(cluster, 1, 2)
    cluster.altered(topic(key.topic), FOLLOWER_REPLICAS, SET, "*")
    cluster.set_default(FOLLOWER_RATE, "0")
    of_every_broker = ConfigValue("0", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    try:
        cluster.wait_until(
            lambda: cluster.config(broker(4), FOLLOWER_RATE) == of_every_broker, "the default"
        )
        cluster.wait_until(
            lambda: cluster.config(EVERY_BROKER, FOLLOWER_RATE) == of_every_broker,
            "the default as such",
        )
        assert cluster.refusal(key, (1, 4)) == ""
        assert is_held(cluster, key)
        assert cluster.altered(broker(4), FOLLOWER_RATE, SET, FAST) == ConfigValue(
            FAST, ConfigSource.DYNAMIC_BROKER
        )
        cluster.wait_until(lambda: not cluster.is_moving(key), "the move at the broker's own rate")
        assert cluster.altered(broker(4), FOLLOWER_RATE, DELETE) == of_every_broker
        cluster.produce(key, HELD_BYTES)
        assert cluster.refusal(key, (1, 3)) == ""
        assert is_held(cluster, key)
    finally:
        cluster.set_default(FOLLOWER_RATE, None)
    cluster.wait_until(lambda: not cluster.is_moving(key), "the move without a default")
    cluster.wait_until(
        lambda: cluster.admin.describe_configs([EVERY_BROKER], RATE_KEYS) == {EVERY_BROKER: {}},
        "the default to be gone",
    )


def test_a_dynamic_default_is_in_force_for_leaders_too(cluster: Cluster) -> None:
    key = full_partition(cluster, 1, 2)
    cluster.altered(topic(key.topic), LEADER_REPLICAS, SET, "*")
    cluster.set_default(LEADER_RATE, "0")
    try:
        cluster.wait_until(
            lambda: cluster.config(broker(1), LEADER_RATE) is not None, "the default"
        )
        assert cluster.refusal(key, (1, 4)) == ""
        assert is_held(cluster, key)
    finally:
        cluster.set_default(LEADER_RATE, None)
    cluster.wait_until(lambda: not cluster.is_moving(key), "the move without a default")


def test_a_static_rate_is_not_in_force(cluster: Cluster) -> None:
    """Broker 5 has rates of 0 in its server.properties."""
    key = full_partition(cluster, 1, 2)
    cluster.altered(topic(key.topic), FOLLOWER_REPLICAS, SET, "*")
    assert cluster.refusal(key, (1, 5)) == ""
    cluster.wait_until(lambda: not cluster.is_moving(key), "the move")
    cluster.altered(topic(key.topic), LEADER_REPLICAS, SET, "*")
    assert cluster.refusal(key, (5, 1)) == ""
    cluster.wait_until(lambda: cluster.partition(key).replicas == (5, 1), "the order")
    assert cluster.election(key) == ""
    cluster.wait_until(lambda: cluster.partition(key).leader == 5, "the leader")
    assert cluster.refusal(key, (5, 2)) == ""
    cluster.wait_until(lambda: not cluster.is_moving(key), "the move from broker 5")


def test_a_static_rate_is_shown_as_static(cluster: Cluster) -> None:
    static = ConfigValue("0", ConfigSource.STATIC_BROKER)
    assert cluster.admin.describe_configs([broker(5)], RATE_KEYS) == {
        broker(5): dict.fromkeys(RATE_KEYS, static)
    }


def test_the_dynamic_default_is_in_force_over_a_static_rate(cluster: Cluster) -> None:
    """The default of all brokers is in force also where server.properties has a rate."""
    key = full_partition(cluster, 1, 2)
    cluster.altered(topic(key.topic), FOLLOWER_REPLICAS, SET, "*")
    cluster.set_default(FOLLOWER_RATE, "100000000")
    try:
        of_every_broker = ConfigValue("100000000", ConfigSource.DYNAMIC_DEFAULT_BROKER)
        cluster.wait_until(
            lambda: all(
                cluster.config(broker(broker_id), FOLLOWER_RATE) == of_every_broker
                for broker_id in (4, 5)
            ),
            "the default",
        )
        assert cluster.refusal(key, (1, 5)) == ""
        cluster.wait_until(lambda: not cluster.is_moving(key), "the move")
    finally:
        cluster.set_default(FOLLOWER_RATE, None)
    static = ConfigValue("0", ConfigSource.STATIC_BROKER)
    cluster.wait_until(
        lambda: cluster.config(broker(5), FOLLOWER_RATE) == static, "the default to be gone"
    )


def test_in_sync_replicas_are_not_throttled(cluster: Cluster) -> None:
    key = full_partition(cluster, 1, 2)
    for list_key in (LEADER_REPLICAS, FOLLOWER_REPLICAS):
        cluster.altered(topic(key.topic), list_key, SET, "*")
    cluster.altered(broker(2), FOLLOWER_RATE, SET, "0")
    cluster.altered(broker(1), LEADER_RATE, SET, "0")
    cluster.produce(key, HELD_BYTES)  # waits for all in-sync replicas
    assert cluster.is_in_sync(key)
    cluster.altered(broker(1), LEADER_RATE, DELETE)


@pytest.mark.parametrize("key", RATE_KEYS)
@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("-1", "INVALID_REQUEST"),
        ("abc", "INVALID_REQUEST"),
        ("", "INVALID_REQUEST"),
        ("1.5", "INVALID_REQUEST"),
        ("9223372036854775808", "INVALID_REQUEST"),
        ("9223372036854775807", ""),
        ("0", ""),
    ],
)
def test_a_rate_is_a_whole_number_from_0_up(
    cluster: Cluster, key: str, value: str, error: str
) -> None:
    if error:
        assert cluster.alter(broker(4), key, SET, value) == error
        assert cluster.alter(broker(4), key, DELETE) == "", "nothing to delete is no error"
    else:
        assert cluster.altered(broker(4), key, SET, value) == ConfigValue(
            value, ConfigSource.DYNAMIC_BROKER
        )
        assert cluster.altered(broker(4), key, DELETE) is None


def test_a_rate_is_no_list(cluster: Cluster) -> None:
    for operation in (APPEND, SUBTRACT):
        results = cluster.admin.alter_configs(
            [ConfigChange(broker(4), FOLLOWER_RATE, operation, "5")]
        )
        assert error_name(results.errors[broker(4)]) in ("INVALID_CONFIG", "no answer")
        assert cluster.config(broker(4), FOLLOWER_RATE) is None


def test_each_broker_shows_its_own_rate_and_no_other_ones(cluster: Cluster) -> None:
    cluster.altered(broker(4), FOLLOWER_RATE, SET, "7")
    brokers = [broker(b) for b in (1, 2, 3, 4, 5)]
    found = cluster.admin.describe_configs(brokers, [FOLLOWER_RATE])
    assert [bool(found[resource]) for resource in brokers] == [False, False, False, True, True]
    assert cluster.altered(broker(4), FOLLOWER_RATE, DELETE) is None
