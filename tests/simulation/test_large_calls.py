"""Changes of more topics than Kafka lets into one request: it refuses more than 10,000 records."""

from collections.abc import Mapping, Sequence

import pytest

from counterpoise.errors import UnknownOutcomeError
from counterpoise.kafka_admin.config_requests import MAX_CHANGES_PER_REQUEST, in_requests
from counterpoise.model.kafka import (
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LIST_KEYS,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
)
from counterpoise.model.request import Goal
from counterpoise.services.emergency_stop import stop_from_plan
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.conformance import broker
from tests.support.pictures import cluster, simulated
from tests.support.plans import move, plan_by_hand
from tests.support.runs import of_topic, own_configs

TOPICS = 6_000
FOUR = "1=a 2=b 3=c 4=d"
PICTURE = "\n".join(f"t{n}-0: 1 2 3" for n in range(TOPICS))
APPEND, SET, SUBTRACT = ConfigOperation.APPEND, ConfigOperation.SET, ConfigOperation.SUBTRACT


def lists_of_all(operation: ConfigOperation = SET) -> list[ConfigChange]:
    return [
        ConfigChange(of_topic(f"t{n}"), key, operation, "0:1")
        for n in range(TOPICS)
        for key in LIST_KEYS
    ]


def test_a_call_about_6000_topics_is_made_in_several_requests() -> None:
    simulated_cluster = simulated(PICTURE, racks=FOUR)
    results = simulated_cluster.alter_configs(lists_of_all())
    assert dict(results.errors) == {}
    assert len(results.accepted) == TOPICS
    assert len(own_configs(simulated_cluster)) == TOPICS


def test_an_emergency_stop_takes_back_the_lists_of_6000_topics() -> None:
    """Lists of all topics of a plan are not set at once."""
    running = simulated(PICTURE, racks=FOUR)
    moves = (move(f"t{n}-0", "1 2 3", "4 2 3", size=1) for n in range(TOPICS))
    plan = plan_by_hand(cluster(PICTURE, racks=FOUR), Goal.REBALANCE, *moves)
    for n in range(TOPICS):
        lists = {LEADER_REPLICAS: "0:1,0:2,0:3", FOLLOWER_REPLICAS: "0:4"}
        running.configs.dynamic[of_topic(f"t{n}")] = lists
    stop_from_plan(running, plan, lambda line: None)
    assert own_configs(running) == {}


def test_a_lost_answer_names_the_topics_of_its_request_alone() -> None:
    class FrozenAfterOneRequest(SimulatedCluster):
        def _alter_topics(
            self, grouped: Mapping[ConfigResource, Sequence[ConfigChange]]
        ) -> dict[ConfigResource, str]:
            self.freeze_broker(1)
            return super()._alter_topics(grouped)

    running = FrozenAfterOneRequest.like(cluster(PICTURE, racks=FOUR))
    running.addressed_broker = 1
    changes = [ConfigChange(broker(2), LEADER_RATE, SET, "5"), *lists_of_all()]
    with pytest.raises(UnknownOutcomeError) as lost:
        running.alter_configs(changes)
    first, second, _ = in_requests(changes)
    assert lost.value.subjects == {change.resource for change in second}
    assert own_configs(running).keys() == {change.resource for change in first}


def test_requests_keep_the_changes_of_a_topic_together_and_in_order() -> None:
    both_ways = [*lists_of_all(APPEND), *lists_of_all(SUBTRACT)]
    requests = in_requests([*both_ways, ConfigChange(broker(1), LEADER_RATE, SET, "5")])
    assert [len(request) for request in requests] == [4_001, 4_000, 4_000, 4_000, 4_000, 4_000]
    assert requests[0][0].resource == broker(1)
    for request in requests:
        topics = [change.resource for change in request if change.resource.is_topic]
        assert len(topics) == 2 * len(set(topics)) <= MAX_CHANGES_PER_REQUEST
        assert len({change.operation for change in request if change.resource.is_topic}) == 1
    assert in_requests([]) == []


def test_long_lists_are_fewer_in_a_request() -> None:
    entries = ",".join(f"{partition}:1" for partition in range(10_000))
    changes = [ConfigChange(of_topic(f"t{n}"), LEADER_REPLICAS, SET, entries) for n in range(50)]
    requests = in_requests(changes)
    assert [change for request in requests for change in request] == changes
    assert max(len(request) for request in requests) == 1_000_000 // len(entries)
