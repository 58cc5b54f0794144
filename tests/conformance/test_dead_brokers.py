"""A broker that dies and comes back, once for all these tests; they run in their order."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from counterpoise.errors import BrokerUnresponsiveError
from counterpoise.kafka_admin.config_requests import NOT_SENT
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import (
    LEADER_RATE,
    LIST_KEYS,
    RATE_KEYS,
    ConfigChange,
    ConfigSource,
    ConfigValue,
    PartitionDescription,
)
from tests.support.conformance import DELETE, SET, STATIC_RATES, Cluster, broker, topic

DEAD = 5
LIVE = {1, 2, 3, 4}
NOT_AVAILABLE = "PREFERRED_LEADER_NOT_AVAILABLE"
OWN_RATE = ConfigValue("77", ConfigSource.DYNAMIC_BROKER)
STATIC_RATE = ConfigValue(STATIC_RATES[LEADER_RATE], ConfigSource.STATIC_BROKER)


@dataclass
class Death:
    """Partitions of a broker that is dead, as they were before, and its rate when it is back."""

    led: TopicPartition
    followed: TopicPartition
    lonely: TopicPartition
    moving: TopicPartition
    before: dict[TopicPartition, PartitionDescription]
    refused_cancel: str
    cancel_without_leader: str
    rate: ConfigValue | None = None


@pytest.fixture(scope="module")
def death(shared_cluster: Cluster) -> Iterator[Death]:
    cluster = shared_cluster
    replicas = ((5, 1, 2), (1, 5, 2), (5,), (1, 2))
    keys = [TopicPartition(cluster.make_topic(one), 0) for one in replicas]
    cluster.altered(broker(DEAD), LEADER_RATE, SET, "77")
    reverting = half_moved(cluster)
    leaderless = cluster.held_move((DEAD,), (4,))
    before = {key: cluster.partition(key) for key in keys}
    cluster.kill(DEAD)
    cluster.wait_until(lambda: cluster.partition(reverting).isr == (3,), "the smaller ISR")
    cluster.wait_until(lambda: cluster.partition(leaderless).leader is None, "no leader")
    yield Death(
        *keys,
        before=before,
        refused_cancel=cluster.refusal(reverting, None),
        cancel_without_leader=cluster.refusal(leaderless, None),
    )
    if DEAD not in cluster.admin.describe_cluster().live_broker_ids:
        cluster.start(DEAD)


def half_moved(cluster: Cluster) -> TopicPartition:
    """Return a partition on its way from broker 5 to 3, which is in sync, and 4, which is held."""
    key = cluster.held_partition((DEAD,))
    cluster.release_followers(3)
    cluster.admin.alter_reassignments({key: (3, 4)}, may_change_replication_factor=True)
    cluster.wait_until(lambda: set(cluster.partition(key).isr) == {3, DEAD}, "broker 3 in the ISR")
    return key


@pytest.fixture(scope="module")
def returned(shared_cluster: Cluster, death: Death) -> Death:
    """The broker is back."""
    shared_cluster.start(DEAD)
    death.rate = shared_cluster.config(broker(DEAD), LEADER_RATE)
    return death


def epochs_since(cluster: Cluster, death: Death, key: TopicPartition) -> int:
    return (cluster.partition(key).leader_epoch or 0) - (death.before[key].leader_epoch or 0)


# -- while it is dead


def test_a_dead_broker_is_fenced(cluster: Cluster, death: Death) -> None:
    """Brokers before 4.0 do not list it at all."""
    description = cluster.admin.describe_cluster()
    assert description.live_broker_ids == LIVE
    is_listed = DEAD in {b.broker_id for b in description.brokers}
    assert is_listed == description.reports_fenced == (cluster.version >= (4, 0))


def test_the_log_dirs_of_a_dead_broker_are_left_out(cluster: Cluster, death: Death) -> None:
    assert {d.broker_id for d in cluster.admin.describe_log_dirs()} == LIVE
    assert {d.broker_id for d in cluster.admin.describe_log_dirs([4, DEAD, 99])} == {4}


def test_the_versions_of_a_dead_broker_are_left_out(cluster: Cluster, death: Death) -> None:
    assert set(cluster.admin.describe_versions()) == LIVE
    assert set(cluster.admin.describe_versions([4, DEAD, 99])) == {4}


def test_the_configs_of_a_dead_broker_are_left_out(cluster: Cluster, death: Death) -> None:
    found = cluster.admin.describe_configs([broker(4), broker(DEAD)], RATE_KEYS)
    assert set(found) == {broker(4)}


def test_no_topic_config_is_read_from_a_dead_broker(cluster: Cluster, death: Death) -> None:
    with pytest.raises(BrokerUnresponsiveError):
        cluster.admin.describe_configs([topic(death.led.topic)], LIST_KEYS, via_broker=DEAD)


def test_a_rate_for_a_dead_broker_is_refused_and_does_not_come_later(
    cluster: Cluster, death: Death
) -> None:
    change = ConfigChange(broker(DEAD), LEADER_RATE, SET, "78")
    refusal = cluster.admin.alter_configs([change]).errors[broker(DEAD)]
    assert refusal.startswith(NOT_SENT)


def test_offsets_without_a_leader_are_left_out(cluster: Cluster, death: Death) -> None:
    cluster.wait_until(lambda: cluster.partition(death.led).leader == 1, "another leader")
    offsets = cluster.admin.list_offsets([death.lonely, death.led])
    assert offsets == {death.led: (0, 0)}


def test_a_dead_leader_leaves_the_isr_and_the_next_replica_leads(
    cluster: Cluster, death: Death
) -> None:
    cluster.wait_until(lambda: set(cluster.partition(death.led).isr) == {1, 2}, "the smaller ISR")
    partition = cluster.partition(death.led)
    assert (partition.replicas, partition.leader) == ((5, 1, 2), 1)
    assert epochs_since(cluster, death, death.led) == 1


def test_a_dead_follower_leaves_the_isr_at_the_same_epoch(cluster: Cluster, death: Death) -> None:
    cluster.wait_until(lambda: len(cluster.partition(death.followed).isr) == 2, "the smaller ISR")
    assert cluster.partition(death.followed).leader == 1
    assert epochs_since(cluster, death, death.followed) == 0


def test_the_last_replica_takes_the_leader_with_it(cluster: Cluster, death: Death) -> None:
    """With eligible leaders (KIP-966, on by default since 4.1) it leaves the ISR, too."""
    cluster.wait_until(lambda: cluster.partition(death.lonely).leader is None, "no leader")
    partition = cluster.partition(death.lonely)
    assert partition.replicas == (5,)
    assert epochs_since(cluster, death, death.lonely) == 1
    if cluster.version >= (4, 1):
        assert partition.isr == ()
        assert cluster.admin.list_eligible_leaders([death.lonely.topic]) == {death.lonely: (5,)}
    else:
        assert partition.isr == (5,)


def test_a_dead_preferred_leader_is_not_elected(cluster: Cluster, death: Death) -> None:
    assert cluster.election(death.led) == NOT_AVAILABLE
    assert cluster.election(death.lonely) == NOT_AVAILABLE


def test_a_move_to_a_dead_broker_is_accepted_and_waits(cluster: Cluster, death: Death) -> None:
    assert cluster.refusal(death.moving, (1, DEAD)) == ""
    cluster.let_pass(1.0)
    assert cluster.is_moving(death.moving)


def test_a_move_off_a_dead_broker_completes(cluster: Cluster, death: Death) -> None:
    key = TopicPartition(cluster.make_topic((1, DEAD, 2)), 0)
    assert cluster.refusal(key, (1, 3, 2)) == ""
    cluster.wait_until(lambda: cluster.partition(key).replicas == (1, 3, 2), "the target")
    assert not cluster.is_moving(key)


def test_a_kept_replica_on_a_dead_broker_holds_up_a_move_before_kafka_4_3(
    cluster: Cluster, death: Death
) -> None:
    """KAFKA-16218: from 4.3 on a move that adds as many as it removes waits for these alone."""
    key = TopicPartition(cluster.make_topic((1, DEAD, 2)), 0)
    assert cluster.refusal(key, (1, DEAD, 3)) == ""
    if cluster.version >= (4, 3):
        cluster.wait_until(lambda: cluster.partition(key).replicas == (1, 5, 3), "the target")
        assert set(cluster.partition(key).isr) == {1, 3}
    else:
        cluster.wait_until(lambda: 3 in cluster.partition(key).isr, "the new replica in the ISR")
        cluster.let_pass(1.0)
        assert cluster.is_moving(key)


def test_fewer_replicas_wait_for_every_kept_one(cluster: Cluster, death: Death) -> None:
    key = TopicPartition(cluster.make_topic((1, DEAD, 2)), 0)
    cluster.admin.alter_reassignments({key: (1, DEAD)}, may_change_replication_factor=True)
    cluster.let_pass(1.0)
    assert cluster.is_moving(key)
    assert set(cluster.partition(key).isr) == {1, 2}


def test_the_last_in_sync_replica_is_not_dropped(cluster: Cluster, death: Death) -> None:
    key = TopicPartition(cluster.make_topic((1, DEAD)), 0)
    cluster.admin.alter_reassignments({key: (DEAD,)}, may_change_replication_factor=True)
    cluster.let_pass(1.0)
    assert cluster.is_moving(key)
    assert (cluster.partition(key).isr, cluster.partition(key).leader) == ((1,), 1)


def test_a_new_order_beside_a_dead_replica_is_done_at_once(cluster: Cluster, death: Death) -> None:
    key = TopicPartition(cluster.make_topic((1, DEAD, 2)), 0)
    assert cluster.refusal(key, (2, DEAD, 1)) == ""
    cluster.wait_until(lambda: cluster.partition(key).replicas == (2, DEAD, 1), "the order")
    assert not cluster.is_moving(key)


def test_a_dead_broker_is_not_in_the_isr_of_a_new_topic(cluster: Cluster, death: Death) -> None:
    key = TopicPartition(cluster.make_topic((DEAD, 1, 2)), 0)
    assert (cluster.partition(key).leader, set(cluster.partition(key).isr)) == (1, {1, 2})


def test_a_cancel_that_would_keep_no_in_sync_replica_is_refused(
    cluster: Cluster, death: Death
) -> None:
    """It would need an unclean leader election."""
    assert death.refused_cancel == "INVALID_REPLICATION_ASSIGNMENT"


def test_a_cancel_without_a_leader_is_refused_since_kafka_4_1(
    cluster: Cluster, death: Death
) -> None:
    """The ISR is empty then (KIP-966), and an eligible leader does not count."""
    is_refused = cluster.version >= (4, 1)
    expected = "INVALID_REPLICATION_ASSIGNMENT" if is_refused else ""
    assert death.cancel_without_leader == expected


# -- when it is back


def test_a_broker_that_is_back_is_live_and_in_sync_again(cluster: Cluster, returned: Death) -> None:
    assert cluster.admin.describe_cluster().live_broker_ids == {*LIVE, DEAD}
    for key in (returned.led, returned.followed, returned.lonely):
        cluster.wait_until(lambda key=key: cluster.is_in_sync(key), f"{key} to be in sync")


def test_a_broker_that_is_back_leads_by_election_only(cluster: Cluster, returned: Death) -> None:
    cluster.wait_until(lambda: cluster.is_in_sync(returned.led), "broker 5 in the ISR")
    assert cluster.partition(returned.led).leader == 1
    assert epochs_since(cluster, returned, returned.led) == 1
    assert cluster.election(returned.led) == ""
    cluster.wait_until(lambda: cluster.partition(returned.led).leader == DEAD, "broker 5 to lead")


def test_the_last_replica_leads_again_by_itself(cluster: Cluster, returned: Death) -> None:
    cluster.wait_until(lambda: cluster.partition(returned.lonely).leader == DEAD, "its leader")
    assert cluster.partition(returned.lonely).isr == (DEAD,)
    assert epochs_since(cluster, returned, returned.lonely) == 2


def test_a_move_to_a_broker_that_is_back_completes(cluster: Cluster, returned: Death) -> None:
    key = returned.moving
    cluster.wait_until(lambda: cluster.partition(key).replicas == (1, DEAD), "the target")
    assert not cluster.is_moving(key)


def test_a_dynamic_rate_outlives_the_death_of_its_broker(cluster: Cluster, returned: Death) -> None:
    assert returned.rate == OWN_RATE


# -- unregistered


def test_an_unregistered_broker_is_no_target_and_keeps_its_replicas_and_rates(
    cluster: Cluster,
) -> None:
    key = TopicPartition(cluster.make_topic((1, DEAD)), 0)
    cluster.altered(broker(DEAD), LEADER_RATE, SET, "77")
    with cluster.killed(DEAD):
        cluster.unregister(DEAD)
        cluster.wait_until(
            lambda: {b.broker_id for b in cluster.admin.describe_cluster().brokers} == LIVE,
            "the broker to be gone",
        )
        assert cluster.refusal(key, (2, DEAD)) == "INVALID_REPLICATION_ASSIGNMENT"
        assert (cluster.partition(key).replicas, cluster.partition(key).isr) == ((1, DEAD), (1,))
        assert cluster.admin.describe_configs([broker(DEAD)], RATE_KEYS) == {}
        change = ConfigChange(broker(DEAD), LEADER_RATE, DELETE)
        refusal = cluster.admin.alter_configs([change]).errors[broker(DEAD)]
        assert refusal.startswith(NOT_SENT)
        assert cluster.refusal(key, (1, 2)) == ""
        cluster.wait_until(lambda: cluster.partition(key).replicas == (1, 2), "the move off it")
    assert cluster.config(broker(DEAD), LEADER_RATE) == OWN_RATE
    assert cluster.refusal(key, (1, DEAD)) == ""
    cluster.wait_until(lambda: not cluster.is_moving(key), "the move to it")
    assert cluster.altered(broker(DEAD), LEADER_RATE, DELETE) == STATIC_RATE
