"""What the simulated cluster leaves out, as its docstrings say: on real brokers alone."""

import time

import pytest

from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import LEADER_REPLICAS, ConfigSource, ConfigValue
from tests.support.conformance import DELETE, SET, RealBrokers, topic

FETCH_BYTES = 1 << 20
REFUSED_SECONDS = 10  # after a fetch
QUIET_SECONDS = 2.0

pytestmark = pytest.mark.on_brokers


def test_a_rate_of_zero_lets_the_first_fetch_pass(real_brokers: RealBrokers) -> None:
    """A fetch is refused only while the last ten seconds are above the rate."""
    began = time.monotonic()
    key = real_brokers.held_move((1, 2), (1, 4))

    def copied() -> int:
        return sum(d.sizes.get(key, 0) for d in real_brokers.admin.describe_log_dirs([4]))

    real_brokers.wait_until(lambda: copied() > 0, "the first fetch")
    real_brokers.let_pass(QUIET_SECONDS)
    copied_bytes = copied()
    fetches = 1 + (time.monotonic() - began) // REFUSED_SECONDS
    assert 0 < copied_bytes <= fetches * FETCH_BYTES
    assert real_brokers.refusal(key, None) == ""
    real_brokers.clean_up()


def test_a_small_move_completes_under_a_rate_of_zero(real_brokers: RealBrokers) -> None:
    key = TopicPartition(real_brokers.make_topic((1, 2)), 0)
    real_brokers.produce(key, 100_000)
    real_brokers.hold_followers(key.topic, 4)
    assert real_brokers.refusal(key, (1, 4)) == ""
    real_brokers.wait_until(lambda: not real_brokers.is_moving(key), "the move")
    real_brokers.clean_up()


def test_an_unknown_key_of_a_topic_is_refused_when_set(real_brokers: RealBrokers) -> None:
    resource = topic(real_brokers.make_topic((1, 2)))
    assert real_brokers.alter(resource, "no.such.key", SET, "1") == "INVALID_CONFIG"
    assert real_brokers.alter(resource, "no.such.key", DELETE) == ""
    assert real_brokers.admin.describe_configs([resource], ["no.such.key"]) == {resource: {}}


def test_the_lists_of_a_deleted_topic_come_back_when_a_broker_restarts(
    real_brokers: RealBrokers,
) -> None:
    """Each broker that restarts shows them of a new topic of that name. For the controller they are
    not there to delete: they go with the first value that is set.
    """
    resource = topic(name := real_brokers.make_topic((1, 2)))
    real_brokers.altered(resource, LEADER_REPLICAS, SET, "0:1")
    real_brokers.delete_topic(name)
    real_brokers.make_topic((1, 2), name=name)
    with real_brokers.killed(4):
        pass

    def shown(broker_id: int) -> ConfigValue | None:
        return real_brokers.config(resource, LEADER_REPLICAS, broker_id)

    unset = ConfigValue("", ConfigSource.DEFAULT)
    back = ConfigValue("0:1", ConfigSource.DYNAMIC_TOPIC)
    assert (shown(5), shown(4)) == (unset, back)
    assert real_brokers.alter(resource, LEADER_REPLICAS, DELETE) == ""
    real_brokers.let_pass(QUIET_SECONDS)
    assert (shown(5), shown(4)) == (unset, back)
    empty = ConfigValue("", ConfigSource.DYNAMIC_TOPIC)
    assert real_brokers.altered(resource, LEADER_REPLICAS, SET, "") == empty
    assert real_brokers.altered(resource, LEADER_REPLICAS, DELETE) == unset
