"""The simulated cluster behaves as Kafka 4.3.1 was seen to behave; the oddities are what these
tests are about.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.errors import (
    BrokerUnresponsiveError,
    ClusterError,
    ClusterUnreachableError,
    UnknownOutcomeError,
)
from counterpoise.kafka_admin.config_requests import NOT_SENT
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    ConfigValue,
    Reassignment,
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


def leader_of(cluster: SimulatedCluster, key: TopicPartition = ORDERS) -> int | None:
    (topic,) = cluster.describe_topics([key.topic])
    return topic.partitions[key.partition].leader


def test_a_move_shows_the_union_target_first_and_ends_at_the_target() -> None:
    cluster = simulated("orders-0: 1 2 3 size=1000000000", racks=RACKS)
    assert cluster.alter_reassignments({ORDERS: (4, 2, 3)}).accepted == (ORDERS,)
    assert cluster.list_reassignments() == {
        ORDERS: Reassignment((4, 2, 3, 1), adding=(4,), removing=(1,))
    }
    assert cluster.list_reassignments()[ORDERS].target == (4, 2, 3)
    cluster.advance(5.0)  # of 10 s at 100 MB/s
    (log_dir,) = cluster.describe_log_dirs([4])
    assert log_dir.sizes[ORDERS] == 500_000_000
    cluster.advance(5.0)
    assert cluster.list_reassignments() == {}
    assert (replicas_of(cluster), leader_of(cluster)) == (
        (4, 2, 3),
        4,
    )  # 1 is gone, so the first in line leads


def test_a_kept_leader_stays_until_it_is_asked_to_go() -> None:
    cluster = simulated("orders-0: 1 2 3 @2 size=1000", racks=RACKS)
    cluster.alter_reassignments({ORDERS: (4, 2, 3)})
    cluster.advance(1.0)
    assert leader_of(cluster) == 2
    assert cluster.elect_preferred_leaders([ORDERS]).accepted == (ORDERS,)
    assert leader_of(cluster) == 4
    assert cluster.elect_preferred_leaders([ORDERS]).errors == {}  # not needed counts as done


def test_cancel_leaves_another_order_which_a_second_reassignment_restores() -> None:
    cluster = simulated("orders-0: 1 2 3 size=1000000000", racks=RACKS)
    cluster.alter_reassignments({ORDERS: (4, 2, 3)})
    cluster.advance(1.0)
    assert cluster.alter_reassignments({ORDERS: None}).errors == {}
    assert (replicas_of(cluster), cluster.list_reassignments()) == ((2, 3, 1), {})
    cluster.alter_reassignments({ORDERS: (1, 2, 3)})
    assert (replicas_of(cluster), cluster.list_reassignments()) == ((1, 2, 3), {})
    assert leader_of(cluster) == 1
    assert "NO_REASSIGNMENT" in cluster.alter_reassignments({ORDERS: None}).errors[ORDERS]


def test_going_back_in_flight_hangs_until_it_is_cancelled() -> None:
    cluster = simulated("orders-0: 1 2 3 size=1000", racks=RACKS)
    throttle(cluster, 4, FOLLOWER_RATE, 0)
    change(cluster, TOPIC, FOLLOWER_LIST, SET, "0:4")
    cluster.alter_reassignments({ORDERS: (4, 2, 3)})
    cluster.alter_reassignments({ORDERS: (1, 2, 3)})
    change(cluster, broker(4), FOLLOWER_RATE, DELETE)
    cluster.advance(3600.0)
    assert cluster.list_reassignments() == {
        ORDERS: Reassignment((1, 2, 3, 4), adding=(4,), removing=(4,))
    }
    cluster.alter_reassignments({ORDERS: None})
    assert (replicas_of(cluster), cluster.list_reassignments()) == ((1, 2, 3), {})


def test_another_target_and_then_a_cancel_leave_one_replica_too_many() -> None:
    """Seen on 4.3.1; and the guard of the replication factor then refuses the way back."""
    cluster = simulated("orders-0: 1 2 size=1000000000", racks=RACKS)
    cluster.alter_reassignments({ORDERS: (1, 3)})
    cluster.alter_reassignments({ORDERS: (1, 4)})
    cluster.alter_reassignments({ORDERS: None})
    assert (replicas_of(cluster), cluster.list_reassignments()) == ((1, 2, 3), {})
    assert "from 3 to 2" in cluster.alter_reassignments({ORDERS: (1, 2)}).errors[ORDERS]


@pytest.mark.parametrize(
    ("target", "word"),
    [
        ((1, 2), "INVALID_REPLICATION_FACTOR: The replication factor is changed from 3 to 2"),
        ((1, 2, 9), "INVALID_REPLICATION_ASSIGNMENT"),
        ((1, 2, 2), "INVALID_REPLICATION_ASSIGNMENT"),
    ],
)
def test_refusals_name_the_reason_and_change_nothing(target: tuple[int, ...], word: str) -> None:
    cluster = simulated("orders-0: 1 2 3\norders-1: 1 2 3 size=1000000000", racks=RACKS)
    other = TopicPartition("orders", 1)
    results = cluster.alter_reassignments(
        {ORDERS: target, other: (4, 2, 3), TopicPartition("gone", 0): (1, 2, 3)}
    )
    assert word in results.errors[ORDERS]
    assert "UNKNOWN_TOPIC_OR_PARTITION" in results.errors[TopicPartition("gone", 0)]
    assert results.accepted == (other,)
    assert replicas_of(cluster) == (1, 2, 3)


def test_the_replication_factor_is_that_of_the_target_while_a_move_is_under_way() -> None:
    cluster = simulated("orders-0: 1 2 3 size=1000000000", racks="1 2 3 4 5")
    cluster.alter_reassignments({ORDERS: (4, 2, 3)})  # four replicas now
    assert cluster.alter_reassignments({ORDERS: (5, 2, 3)}).errors == {}  # retargeted
    assert cluster.list_reassignments()[ORDERS] == Reassignment(
        (5, 2, 3, 1, 4), adding=(5,), removing=(1, 4)
    )
    assert "from 3 to 4" in cluster.alter_reassignments({ORDERS: (5, 2, 3, 1)}).errors[ORDERS]


def test_a_rate_without_the_list_and_a_list_without_the_rate_slow_nothing() -> None:
    seconds = {}
    for name, rate, listed in (
        ("both", True, True),
        ("rate only", True, False),
        ("list only", False, True),
    ):
        cluster = simulated("orders-0: 1 2 3 size=100000000", racks=RACKS)
        if rate:
            throttle(cluster, 4, FOLLOWER_RATE, 10_000_000)
        if listed:
            change(cluster, TOPIC, FOLLOWER_LIST, SET, "0:4")
        cluster.alter_reassignments({ORDERS: (4, 2, 3)})
        while cluster.list_reassignments():
            cluster.advance(1.0)
        seconds[name] = cluster.now
    assert seconds == {"both": 10.0, "rate only": 1.0, "list only": 1.0}


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


def test_a_rate_of_zero_stops_and_a_rate_below_the_inflow_never_ends() -> None:
    cluster = simulated("orders-0: 1 2 3 size=1000000 rate=2000000", racks=RACKS)
    change(cluster, TOPIC, FOLLOWER_LIST, SET, "*")
    throttle(cluster, 4, FOLLOWER_RATE, 0)
    cluster.alter_reassignments({ORDERS: (4, 2, 3)})
    cluster.advance(60.0)
    assert cluster.describe_log_dirs([4])[0].sizes[ORDERS] == 0
    throttle(cluster, 4, FOLLOWER_RATE, 1_000_000)
    cluster.advance(600.0)
    assert ORDERS in cluster.list_reassignments()
    throttle(cluster, 4, FOLLOWER_RATE, 50_000_000)
    cluster.advance(60.0)
    assert cluster.list_reassignments() == {}


def test_a_dead_broker_is_fenced_after_its_session_and_answers_nobody_before() -> None:
    cluster = simulated("orders-0: 1 2 3 size=1000", racks=RACKS)
    cluster.kill_broker(1, noticed=False)
    assert 1 in cluster.describe_cluster().live_broker_ids
    assert cluster.describe_configs([broker(1), broker(2)], [LEADER_RATE]) == {broker(2): {}}
    with pytest.raises(BrokerUnresponsiveError, match="broker 1"):
        cluster.describe_configs([TOPIC], [LEADER_LIST], via_broker=1)
    assert change(cluster, broker(1), LEADER_RATE, SET, "1").startswith(NOT_SENT)
    cluster.advance(9.0)
    assert cluster.describe_cluster().live_broker_ids == {2, 3, 4}
    (topic,) = cluster.describe_topics(["orders"])
    assert (topic.partitions[0].leader, topic.partitions[0].isr) == (2, (2, 3))
    assert {d.broker_id for d in cluster.describe_log_dirs()} == {2, 3, 4}
    assert (
        "PREFERRED_LEADER_NOT_AVAILABLE" in cluster.elect_preferred_leaders([ORDERS]).errors[ORDERS]
    )
    cluster.restart_broker(1)
    cluster.advance(1.0)
    (topic,) = cluster.describe_topics(["orders"])
    assert (topic.partitions[0].leader, topic.partitions[0].isr) == (2, (1, 2, 3))


def test_the_last_in_sync_replica_takes_the_leader_with_it_and_brings_it_back() -> None:
    cluster = simulated("orders-0: 1 size=5000", racks=RACKS)
    assert cluster.list_offsets([ORDERS]) == {ORDERS: (0, 5)}
    cluster.kill_broker(1)
    (topic,) = cluster.describe_topics()
    assert (topic.partitions[0].leader, topic.partitions[0].isr) == (None, ())
    assert cluster.list_eligible_leaders(["orders"]) == {ORDERS: (1,)}
    assert cluster.list_offsets([ORDERS]) == {}
    cluster.restart_broker(1)
    assert leader_of(cluster) == 1


def test_a_move_waits_for_a_dead_destination_and_fenced_ones_are_accepted_as_by_kafka() -> None:
    cluster = simulated("orders-0: 1 2 3 size=1000000000", racks="1 2 3 !4")
    assert cluster.alter_reassignments({ORDERS: (4, 2, 3)}).errors == {}
    cluster.advance(100.0)
    assert ORDERS in cluster.list_reassignments()
    cluster.restart_broker(4)
    cluster.advance(10.0)
    assert replicas_of(cluster) == (4, 2, 3)


def test_config_levels_and_operations() -> None:
    cluster = simulated("orders-0: 1 2 3", racks=RACKS)

    def told(resource: ConfigResource, key: str) -> ConfigValue | None:
        return cluster.describe_configs([resource], [key])[resource].get(key)

    assert told(broker(1), LEADER_RATE) is None
    assert told(TOPIC, LEADER_LIST) == ConfigValue("", ConfigSource.DEFAULT)
    cluster.configs.broker_defaults[LEADER_RATE] = "5"
    assert told(broker(1), LEADER_RATE) == ConfigValue("5", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    assert cluster.configs.rate(1, LEADER_RATE) == 5  # in force, since broker 1 has none itself
    change(cluster, TOPIC, LEADER_LIST, APPEND, "0:1,0:2")
    change(cluster, TOPIC, LEADER_LIST, APPEND, "0:2,0:3")
    assert told(TOPIC, LEADER_LIST) == ConfigValue("0:1,0:2,0:3", ConfigSource.DYNAMIC_TOPIC)
    change(cluster, TOPIC, LEADER_LIST, SUBTRACT, "0:1,0:2,0:3")
    assert told(TOPIC, LEADER_LIST) == ConfigValue(
        "", ConfigSource.DYNAMIC_TOPIC
    )  # set, though empty
    change(cluster, TOPIC, LEADER_LIST, DELETE)
    assert told(TOPIC, LEADER_LIST) == ConfigValue("", ConfigSource.DEFAULT)
    change(cluster, TOPIC, LEADER_LIST, SET, "*")
    assert "INVALID_CONFIG" in change(cluster, TOPIC, LEADER_LIST, APPEND, "0:1")
    assert "INVALID_CONFIG" in change(cluster, TOPIC, LEADER_LIST, SET, "none")
    assert "at least 0" in change(cluster, broker(1), LEADER_RATE, SET, "-5")
    unknown = ConfigResource(ConfigResourceType.TOPIC, "gone")
    assert "UNKNOWN_TOPIC" in change(cluster, unknown, LEADER_LIST, SET, "*")
    assert cluster.describe_configs([unknown], [LEADER_LIST]) == {}


def test_a_stale_read_shows_what_was_before_the_last_change() -> None:
    cluster = simulated("orders-0: 1 2 3", racks=RACKS)
    throttle(cluster, 1, LEADER_RATE, 5)
    cluster.stale_config_reads = 1
    assert cluster.describe_configs([broker(1)], [LEADER_RATE]) == {broker(1): {}}
    assert cluster.describe_configs([broker(1)], [LEADER_RATE])[broker(1)][LEADER_RATE].value == "5"


def test_changes_of_one_resource_take_hold_together_or_not_at_all() -> None:
    cluster = simulated("orders-0: 1 2 3", racks=RACKS)
    good, bad = (
        ConfigChange(broker(1), LEADER_RATE, SET, "5"),
        ConfigChange(broker(1), FOLLOWER_RATE, SET, "-5"),
    )
    other = ConfigChange(broker(2), LEADER_RATE, SET, "5")
    results = cluster.alter_configs([good, bad, other])
    assert (results.accepted, set(results.errors)) == ((broker(2),), {broker(1)})
    assert cluster.describe_configs([broker(1)], [LEADER_RATE]) == {broker(1): {}}


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


def test_a_frozen_broker_copies_nothing_and_loses_its_partitions_with_its_session() -> None:
    cluster = simulated("orders-0: 1 2 3 size=1000000000\nlonely-0: 1 size=5000", racks=RACKS)
    lonely = TopicPartition("lonely", 0)
    cluster.alter_reassignments({ORDERS: (4, 2, 3)})
    cluster.freeze_broker(1)
    assert 1 in cluster.describe_cluster().live_broker_ids
    assert set(cluster.describe_configs([broker(1), broker(2), TOPIC], [LEADER_RATE])) == {
        broker(2),
        TOPIC,
    }
    assert (
        {d.broker_id for d in cluster.describe_log_dirs()}
        == set(cluster.describe_versions())
        == {2, 3, 4}
    )
    assert cluster.list_offsets([ORDERS, lonely]) == {}
    assert change(cluster, TOPIC, LEADER_LIST, SET, "0:1") == ""  # by a broker that answers
    cluster.advance(8.0)
    assert (leader_of(cluster), cluster.describe_log_dirs([4])[0].sizes[ORDERS]) == (1, 0)
    cluster.advance(1.0)
    assert 1 not in cluster.describe_cluster().live_broker_ids
    assert (leader_of(cluster), leader_of(cluster, lonely)) == (2, None)
    cluster.advance(10.0)
    assert (replicas_of(cluster), cluster.list_reassignments()) == ((4, 2, 3), {})
    cluster.thaw_broker(1)
    assert 1 in cluster.describe_cluster().live_broker_ids
    assert leader_of(cluster, lonely) == 1


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


def test_a_frozen_broker_that_is_killed_takes_what_it_held_with_it() -> None:
    cluster = simulated("orders-0: 1 2 3 size=1000000000", racks=RACKS)
    cluster.addressed_broker = 2
    cluster.freeze_broker(2)
    with pytest.raises(UnknownOutcomeError):
        cluster.elect_preferred_leaders([ORDERS])
    with pytest.raises(UnknownOutcomeError):
        cluster.alter_reassignments({ORDERS: (4, 2, 3)})
    cluster.kill_broker(2)
    with pytest.raises(BrokerUnresponsiveError, match="nothing was sent to broker 2"):
        cluster.alter_reassignments({ORDERS: (4, 2, 3)})
    cluster.restart_broker(2)
    assert cluster.list_reassignments() == {}


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
