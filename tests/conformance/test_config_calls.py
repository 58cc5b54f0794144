"""Calls that read and change configs: what is refused, what one call may hold, who shows what."""

import pytest

from counterpoise.errors import BrokerUnresponsiveError
from counterpoise.kafka_admin.config_requests import NO_RESPONSE, NOT_SENT
from counterpoise.model.kafka import (
    CORDONED_LOG_DIRS,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LIST_KEYS,
    MAX_VALUE_CHARACTERS,
    RATE_KEYS,
    ConfigChange,
    ConfigResource,
    ConfigSource,
    ConfigValue,
)
from tests.support.conformance import (
    APPEND,
    DELETE,
    SET,
    Cluster,
    broker,
    error_name,
    topic,
)

RECORDS_OF_ONE_CALL = 10_000
UNKNOWN = topic("no-such-topic")
NOT_LIVE = f"{NOT_SENT}: it is not live (fenced, stopped or unknown)"


def test_an_unknown_topic_is_refused_and_left_out(cluster: Cluster) -> None:
    assert cluster.alter(UNKNOWN, LEADER_REPLICAS, SET, "*") == "UNKNOWN_TOPIC_OR_PARTITION"
    assert cluster.alter(UNKNOWN, LEADER_REPLICAS, DELETE) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert cluster.admin.describe_configs([UNKNOWN], LIST_KEYS) == {}
    assert cluster.admin.describe_topics([UNKNOWN.name]) == ()


def test_an_unknown_broker_is_refused_and_left_out(cluster: Cluster) -> None:
    change = ConfigChange(broker(99), LEADER_RATE, SET, "1")
    assert cluster.admin.alter_configs([change]).errors == {broker(99): NOT_LIVE}
    assert cluster.admin.describe_configs([broker(99), broker(1)], RATE_KEYS) == {broker(1): {}}


def test_configs_are_not_read_from_an_unknown_broker(cluster: Cluster) -> None:
    name = cluster.make_topic((1, 2))
    with pytest.raises(BrokerUnresponsiveError):
        cluster.admin.describe_configs([topic(name)], LIST_KEYS, via_broker=99)


def test_nothing_is_read_and_changed_where_nothing_is_named(cluster: Cluster) -> None:
    assert cluster.admin.describe_configs([], LIST_KEYS) == {}
    results = cluster.admin.alter_configs([])
    assert (results.accepted, dict(results.errors)) == ((), {})


def test_changes_of_one_key_are_made_one_after_the_other(cluster: Cluster) -> None:
    name = topic(cluster.make_topic((1, 2)))
    for resource, key, value in ((name, LEADER_REPLICAS, "0:1"), (broker(4), LEADER_RATE, "1")):
        changes = [ConfigChange(resource, key, DELETE), ConfigChange(resource, key, SET, value)]
        assert cluster.admin.alter_configs(changes).errors == {}
        cluster.wait_until(lambda r=resource, k=key, v=value: shows(cluster, r, k, v), "the value")


def shows(cluster: Cluster, resource: ConfigResource, key: str, value: str) -> bool:
    shown = cluster.config(resource, key)
    return shown is not None and shown.value == value


def test_changes_of_one_resource_are_made_together_or_not_at_all(cluster: Cluster) -> None:
    name = topic(cluster.make_topic((1, 2)))
    changes = [
        ConfigChange(broker(4), LEADER_RATE, SET, "5"),
        ConfigChange(broker(4), FOLLOWER_RATE, SET, "-5"),
        ConfigChange(name, LEADER_REPLICAS, SET, "0:1"),
        ConfigChange(name, FOLLOWER_REPLICAS, SET, "none"),
    ]
    results = cluster.admin.alter_configs(changes)
    assert {resource: error_name(text) for resource, text in results.errors.items()} == {
        broker(4): "INVALID_REQUEST",
        name: "INVALID_CONFIG",
    }
    cluster.let_pass(0.3)
    assert cluster.config(broker(4), LEADER_RATE) is None
    assert cluster.config(name, LEADER_REPLICAS) == ConfigValue("", ConfigSource.DEFAULT)


def test_one_refused_resource_does_not_hold_up_the_others(cluster: Cluster) -> None:
    name = topic(cluster.make_topic((1, 2)))
    changes = [
        ConfigChange(UNKNOWN, LEADER_REPLICAS, SET, "*"),
        ConfigChange(name, LEADER_REPLICAS, SET, "0:1"),
        ConfigChange(broker(99), LEADER_RATE, SET, "1"),
        ConfigChange(broker(4), FOLLOWER_RATE, SET, "5"),
        ConfigChange(broker(3), FOLLOWER_RATE, SET, "-5"),
    ]
    results = cluster.admin.alter_configs(changes)
    assert set(results.accepted) == {name, broker(4)}
    assert set(results.errors) == {UNKNOWN, broker(99), broker(3)}
    cluster.wait_until(lambda: shows(cluster, broker(4), FOLLOWER_RATE, "5"), "the rate")


def test_one_call_makes_at_most_10000_records(cluster: Cluster) -> None:
    """Each change of a broker is a record; the deletion of an unset key, too."""

    refusals: list[str] = []

    def is_answered(count: int) -> bool:
        changes = [ConfigChange(broker(4), f"plugin.key{n}", DELETE) for n in range(count)]
        refusals.append(cluster.admin.alter_configs(changes).errors.get(broker(4), ""))
        return not refusals[-1].startswith(NO_RESPONSE)

    cluster.wait_until(lambda: is_answered(RECORDS_OF_ONE_CALL), "the answer")
    assert refusals[-1] == ""
    cluster.wait_until(lambda: is_answered(RECORDS_OF_ONE_CALL + 1), "the answer")
    assert refusals[-1].startswith(
        "POLICY_VIOLATION: Unable to perform excessively large batch operation."
    )


def test_a_value_has_at_most_32767_characters(cluster: Cluster) -> None:
    """Before 4.3 a longer one costs the controller its leadership (KAFKA-18020)."""
    name = topic(cluster.make_topic((1, 2)))
    longest = ",".join(f"{n}:1" for n in range(10_000, 14_096))
    assert len(longest) == MAX_VALUE_CHARACTERS
    assert cluster.alter(name, LEADER_REPLICAS, SET, longest) == ""
    cluster.wait_until(lambda: shows(cluster, name, LEADER_REPLICAS, longest), "the list")
    if cluster.version < (4, 3):
        return
    assert cluster.alter(name, LEADER_REPLICAS, APPEND, "1:1") == "INVALID_CONFIG"
    cluster.let_pass(0.3)
    assert shows(cluster, name, LEADER_REPLICAS, longest)


def test_min_insync_replicas_of_a_topic_has_a_source(cluster: Cluster) -> None:
    resource = topic(cluster.make_topic((1, 2)))
    before = cluster.config(resource, "min.insync.replicas")
    assert before is not None
    assert before.value == "1"
    assert cluster.altered(resource, "min.insync.replicas", SET, "2") == ConfigValue(
        "2", ConfigSource.DYNAMIC_TOPIC
    )
    assert cluster.alter(resource, "min.insync.replicas", SET, "0") == "INVALID_CONFIG"
    assert cluster.alter(resource, "min.insync.replicas", SET, "many") == "INVALID_CONFIG"
    assert cluster.altered(resource, "min.insync.replicas", DELETE) == before


def test_log_dirs_are_cordoned_and_free_again(cluster: Cluster) -> None:
    """KIP-1066: brokers that know it show an empty default; those before 4.3 show no such key."""
    at_rest = cluster.admin.describe_configs([broker(4)], [CORDONED_LOG_DIRS])[broker(4)]
    if cluster.version < (4, 3):
        assert at_rest == {}
        return
    default = ConfigValue("", ConfigSource.DEFAULT)
    assert at_rest == {CORDONED_LOG_DIRS: default}
    assert cluster.alter(broker(4), CORDONED_LOG_DIRS, SET, "*") == ""
    cluster.wait_until(lambda: shows(cluster, broker(4), CORDONED_LOG_DIRS, "*"), "the cordon")
    assert cluster.alter(broker(4), CORDONED_LOG_DIRS, DELETE) == ""
    cluster.wait_until(lambda: cluster.config(broker(4), CORDONED_LOG_DIRS) == default, "no cordon")
