"""The simulated cluster behaves as Kafka 4.3.1 was seen to behave; the oddities are what these
tests are about.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.errors import (
    ClusterError,
    ClusterUnreachableError,
    UnknownOutcomeError,
)
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    ConfigValue,
)
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.pictures import simulated

RACKS = "1=a 2=b 3=c 4=d"
ORDERS = TopicPartition("orders", 0)
TOPIC = ConfigResource(ConfigResourceType.TOPIC, "orders")
LEADER_LIST, FOLLOWER_LIST = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
LEADER_RATE, FOLLOWER_RATE = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
)
SET, DELETE, APPEND, SUBTRACT = (
    ConfigOperation(word) for word in ("SET", "DELETE", "APPEND", "SUBTRACT")
)


def broker(broker_id: int) -> ConfigResource:
    return ConfigResource(ConfigResourceType.BROKER, str(broker_id))


def change(
    cluster: SimulatedCluster,
    resource: ConfigResource,
    key: str,
    op: ConfigOperation,
    value: str = "",
) -> str:
    """The refusal, "" for none."""
    return cluster.alter_configs([ConfigChange(resource, key, op, value)]).errors.get(resource, "")


def throttle(cluster: SimulatedCluster, broker_id: int, rate_key: str, rate: int) -> None:
    assert not change(cluster, broker(broker_id), rate_key, SET, str(rate))


def replicas_of(cluster: SimulatedCluster, key: TopicPartition = ORDERS) -> tuple[int, ...]:
    (topic,) = cluster.describe_topics([key.topic])
    return topic.partitions[key.partition].replicas


def test_the_slower_side_sets_the_pace_and_moves_share_a_rate() -> None:
    cluster = simulated(
        "orders-0: 1 2 size=60000000\norders-1: 1 2 size=60000000\norders-2: 2 3 size=60000000",
        racks=RACKS,
    )
    throttle(cluster, 1, LEADER_RATE, 4_000_000)  # leads 0 and 1: 2 MB/s each
    throttle(cluster, 2, LEADER_RATE, 10_000_000)
    throttle(cluster, 4, FOLLOWER_RATE, 9_000_000)  # receives all three: 3 MB/s each
    change(cluster, TOPIC, LEADER_LIST, SET, "0:1,1:1,2:2")
    change(cluster, TOPIC, FOLLOWER_LIST, SET, "*")
    keys = [TopicPartition("orders", n) for n in range(3)]
    cluster.alter_reassignments(dict(zip(keys, [(4, 2), (4, 2), (4, 3)], strict=True)))
    cluster.advance(10.0)
    sizes = cluster.describe_log_dirs([4])[0].sizes
    assert [sizes[key] for key in keys] == [20_000_000, 20_000_000, 30_000_000]
    cluster.advance(10.0)
    assert set(cluster.list_reassignments()) == set(keys[:2])
    cluster.advance(10.0)
    assert cluster.list_reassignments() == {}


def test_a_stale_read_shows_what_was_before_the_last_change() -> None:
    cluster = simulated("orders-0: 1 2 3", racks=RACKS)
    throttle(cluster, 1, LEADER_RATE, 5)
    cluster.stale_config_reads = 1
    assert cluster.describe_configs([broker(1)], [LEADER_RATE]) == {broker(1): {}}
    assert cluster.describe_configs([broker(1)], [LEADER_RATE])[broker(1)][LEADER_RATE].value == "5"


def test_faults_a_lost_answer_is_applied_and_a_failed_call_is_not() -> None:
    cluster = simulated("orders-0: 1 2 3 size=1000000000", racks=RACKS)
    cluster.fail_next("alter_reassignments", ClusterError("broken pipe"))
    with pytest.raises(ClusterError, match="broken pipe"):
        cluster.alter_reassignments({ORDERS: (4, 2, 3)})
    assert cluster.list_reassignments() == {}
    cluster.lose_response_of_next("alter_reassignments")
    with pytest.raises(UnknownOutcomeError) as lost:
        cluster.alter_reassignments({ORDERS: (4, 2, 3)})
    assert lost.value.broker_id == 1
    assert ORDERS in cluster.list_reassignments()
    assert cluster.alter_reassignments({ORDERS: (4, 2, 3)}).accepted == (ORDERS,)
    assert [call.name for call in cluster.calls].count("alter_reassignments") == 3
    for broker_id in (1, 2, 3, 4):
        cluster.kill_broker(broker_id)
    with pytest.raises(ClusterUnreachableError):
        cluster.describe_cluster()


def test_changes_that_a_frozen_broker_holds_come_when_it_is_thawed_in_their_order() -> None:
    cluster = simulated("orders-0: 1 2 3 size=1000000000", racks=RACKS)
    cluster.freeze_broker(2)
    results = cluster.alter_configs(
        [ConfigChange(broker(b), LEADER_RATE, SET, "5") for b in (1, 2)]
    )
    assert results.accepted == (broker(1),)
    assert results.errors[broker(2)].startswith("no answer: ")
    cluster.addressed_broker = 2
    with pytest.raises(UnknownOutcomeError) as lost:
        cluster.alter_reassignments({ORDERS: (4, 2, 3)})
    assert lost.value.broker_id == 2
    with pytest.raises(UnknownOutcomeError):
        cluster.alter_reassignments({ORDERS: None})
    with pytest.raises(UnknownOutcomeError):  # the broker's part is done by then
        cluster.alter_configs(
            [
                ConfigChange(TOPIC, LEADER_LIST, SET, "0:1"),
                ConfigChange(broker(1), LEADER_RATE, DELETE),
            ]
        )
    cluster.advance(20.0)  # its session has ended long ago
    assert "not live" in change(cluster, broker(2), LEADER_RATE, SET, "6")
    assert (cluster.list_reassignments(), replicas_of(cluster)) == ({}, (1, 2, 3))
    cluster.thaw_broker(2)
    assert (cluster.list_reassignments(), replicas_of(cluster)) == (
        {},
        (2, 3, 1),
    )  # moved, and cancelled
    told = cluster.describe_configs([broker(1), broker(2), TOPIC], [LEADER_RATE, LEADER_LIST])
    assert told[broker(1)] == {}
    assert told[broker(2)] == {LEADER_RATE: ConfigValue("5", ConfigSource.DYNAMIC_BROKER)}
    assert told[TOPIC] == {LEADER_LIST: ConfigValue("0:1", ConfigSource.DYNAMIC_TOPIC)}
    assert change(cluster, TOPIC, LEADER_LIST, DELETE) == ""


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("move"), st.permutations([1, 2, 3, 4, 5]).map(lambda ids: tuple(ids[:3]))
        ),
        st.tuples(st.sampled_from(["cancel", "elect"]), st.none()),
        st.tuples(st.just("advance"), st.floats(0.0, 20.0)),
        st.tuples(st.sampled_from(["kill", "restart", "freeze", "thaw"]), st.integers(1, 5)),
    ),
    max_size=12,
)


@given(STEPS)
def test_whatever_happens_a_partition_stays_one_that_kafka_could_have(
    steps: list[tuple[str, object]],
) -> None:
    cluster = simulated("orders-0: 1 2 3 size=1000000000", racks="1 2 3 4 5")
    for step, argument in steps:
        if step in ("kill", "restart", "freeze", "thaw"):
            assert isinstance(argument, int)
            getattr(cluster, f"{step}_broker")(argument)
        elif step == "advance":
            assert isinstance(argument, float)
            cluster.advance(argument)
        elif not any(map(cluster.is_responding, cluster.brokers)):
            continue
        elif step == "elect":
            cluster.elect_preferred_leaders([ORDERS])
        elif step == "cancel" or not cluster.partitions[ORDERS].is_moving:
            assert argument is None or isinstance(argument, tuple)
            cluster.alter_reassignments({ORDERS: argument})
        p = cluster.partitions[ORDERS]
        assert len(set(p.replicas)) == len(p.replicas)
        assert p.isr or p.eligible
        assert p.isr | p.eligible <= set(p.replicas)
        assert p.leader is None or p.leader in p.isr & cluster.live_broker_ids
        assert (p.leader is None) == (not (p.isr or p.eligible) & cluster.live_broker_ids)
        assert p.is_moving or len(p.replicas) == 3
        assert set(p.adding) | set(p.removing) <= set(p.replicas)
