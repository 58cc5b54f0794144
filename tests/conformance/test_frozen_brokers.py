"""A broker that is frozen (SIGSTOP) and wakes, once for most of these tests; they run in order.

Three changes are sent to it while it is frozen: a move and a list that it has to forward, and a
rate of its own.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from counterpoise.errors import UnknownOutcomeError
from counterpoise.kafka_admin.cluster_admin import ClusterAdmin
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import (
    FOLLOWER_RATE,
    LEADER_REPLICAS,
    RATE_KEYS,
    CallResults,
    ConfigChange,
    ConfigResource,
    ConfigSource,
    ConfigValue,
)
from tests.support.conformance import SET, Cluster, broker, topic

FROZEN = 5
UNSET_LIST = ConfigValue("", ConfigSource.DEFAULT)


@dataclass(frozen=True)
class Freeze:
    """What a frozen broker leads, and what it was asked for."""

    led: TopicPartition
    lonely: TopicPartition
    moved: TopicPartition
    listed: ConfigResource
    rates: CallResults[ConfigResource]
    lost_broker_ids: list[int | None]


@pytest.fixture(scope="module")
def freeze(shared_cluster: Cluster) -> Iterator[Freeze]:
    cluster = shared_cluster
    led, lonely = (TopicPartition(cluster.make_topic(one), 0) for one in ((5, 1, 2), (5,)))
    moved = cluster.held_partition((1, 2))
    listed = topic(cluster.make_topic((1, 2)))
    with cluster.sending_to(FROZEN) as first, cluster.sending_to(FROZEN) as second:
        cluster.freeze(FROZEN)
        try:
            # First what needs it to be live still: its session ends while the answer is waited for.
            changes = [ConfigChange(broker(b), FOLLOWER_RATE, SET, "7000000") for b in (4, FROZEN)]
            rates = cluster.admin.alter_configs(changes)
            lost_broker_ids = [
                lost_broker_id(lambda: send_move(first, moved, (1, 3))),
                lost_broker_id(
                    lambda: second.alter_configs(
                        [ConfigChange(listed, LEADER_REPLICAS, SET, "0:1")]
                    )
                ),
            ]
            yield Freeze(led, lonely, moved, listed, rates, lost_broker_ids)
        finally:
            if FROZEN not in cluster.admin.describe_versions():
                cluster.thaw(FROZEN)


def send_move(sender: ClusterAdmin, key: TopicPartition, target: tuple[int, ...]) -> object:
    """Send a move; with the flag, nothing is read before it on Kafka before 4.1."""
    return sender.alter_reassignments({key: target}, may_change_replication_factor=True)


def lost_broker_id(call: Callable[[], object]) -> int | None:
    """Return the broker that the error of a lost call names."""
    with pytest.raises(UnknownOutcomeError) as lost:
        call()
    return lost.value.broker_id


@pytest.fixture(scope="module")
def fenced(shared_cluster: Cluster, freeze: Freeze) -> Freeze:
    """The session of the frozen broker has ended."""
    shared_cluster.wait_until_fenced(FROZEN)
    return freeze


@pytest.fixture(scope="module")
def thawed(shared_cluster: Cluster, fenced: Freeze) -> Freeze:
    shared_cluster.thaw(FROZEN)
    return fenced


def test_a_frozen_broker_is_left_out_of_what_is_read_from_it(
    shared_cluster: Cluster, freeze: Freeze
) -> None:
    admin = shared_cluster.admin
    assert set(admin.describe_configs([broker(4), broker(FROZEN)], RATE_KEYS)) == {broker(4)}
    assert {d.broker_id for d in admin.describe_log_dirs([4, FROZEN])} == {4}
    assert set(admin.describe_versions([4, FROZEN])) == {4}


def test_a_change_of_a_frozen_broker_has_no_answer(shared_cluster: Cluster, freeze: Freeze) -> None:
    assert freeze.rates.accepted == (broker(4),)
    assert freeze.rates.errors[broker(FROZEN)].startswith("no answer: ")


def test_a_change_sent_through_a_frozen_broker_has_an_unknown_outcome(
    shared_cluster: Cluster, freeze: Freeze
) -> None:
    assert freeze.lost_broker_ids == [FROZEN, FROZEN]
    assert not shared_cluster.is_moving(freeze.moved)
    assert shared_cluster.config(freeze.listed, LEADER_REPLICAS) == UNSET_LIST


def test_a_frozen_broker_is_fenced_when_its_session_has_ended(
    shared_cluster: Cluster, fenced: Freeze
) -> None:
    cluster = shared_cluster
    assert FROZEN not in cluster.admin.describe_cluster().live_broker_ids
    cluster.wait_until(lambda: cluster.partition(fenced.led).leader == 1, "another leader")
    cluster.wait_until(lambda: cluster.partition(fenced.lonely).leader is None, "no leader")
    assert not cluster.is_moving(fenced.moved)


def test_changes_come_late_when_it_wakes_even_after_its_session(
    shared_cluster: Cluster, thawed: Freeze
) -> None:
    cluster = shared_cluster
    late = ConfigValue("0:1", ConfigSource.DYNAMIC_TOPIC)
    rate = ConfigValue("7000000", ConfigSource.DYNAMIC_BROKER)
    cluster.wait_until(lambda: cluster.is_moving(thawed.moved), "the late move")
    cluster.wait_until(
        lambda: cluster.config(thawed.listed, LEADER_REPLICAS) == late, "the late list"
    )
    cluster.wait_until(
        lambda: cluster.config(broker(FROZEN), FOLLOWER_RATE) == rate, "the late rate"
    )


def test_a_broker_that_wakes_is_live_and_in_sync_again(cluster: Cluster, thawed: Freeze) -> None:
    assert FROZEN in cluster.admin.describe_cluster().live_broker_ids
    for key in (thawed.led, thawed.lonely):
        cluster.wait_until(lambda key=key: cluster.is_in_sync(key), f"{key} to be in sync")
    assert cluster.partition(thawed.lonely).leader == FROZEN


def test_what_a_frozen_broker_holds_dies_with_it(cluster: Cluster) -> None:
    key = cluster.held_partition((1, 2))
    with cluster.sending_to(FROZEN) as sender:
        cluster.freeze(FROZEN)
        assert lost_broker_id(lambda: send_move(sender, key, (1, 4))) == FROZEN
    with cluster.killed(FROZEN):
        cluster.let_pass(1.0)
        assert not cluster.is_moving(key)
    cluster.let_pass(1.0)
    assert not cluster.is_moving(key)
