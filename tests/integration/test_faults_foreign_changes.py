"""Other people and tools at work in the same cluster while a run is under way: none of theirs is
touched, and what they undo of ours is set again once, then the run stops."""

from collections.abc import Iterator, Sequence

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from counterpoise.execution.throttling.targets import broker_resource, topic_resource
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
)
from counterpoise.model.run import RunState
from dev.local_kafka import LocalKafka
from dev.local_processes import wait_until
from tests.support.faults import KB, Ground
from tests.support.kafka_facts import configs, placement, throttles

ONE_AT_A_TIME = "{max_moves_in_flight: 1}"
THREE_AT_A_TIME = "{max_moves_in_flight: 3}"


@pytest.fixture
def ground(tmp_path_factory: pytest.TempPathFactory, kafka: LocalKafka) -> Iterator[Ground]:
    ground = Ground(kafka, tmp_path_factory.mktemp("installation"))
    yield ground
    ground.close()


def somebody_reassigns(
    ground: Ground, partition: TopicPartition, replicas: tuple[int, ...] | None
) -> None:
    with ground.installation() as installation, installation.operator("demo") as admin:
        assert admin.alter_reassignments({partition: replicas}).accepted == (partition,)


def somebody_sets(ground: Ground, values: Sequence[tuple[ConfigResource, str, str | None]]) -> None:
    """None: deletes the key."""
    changes = [
        ConfigChange(
            resource,
            key,
            ConfigOperation.DELETE if value is None else ConfigOperation.SET,
            value or "",
        )
        for resource, key, value in values
    ]
    with ground.installation() as installation, installation.operator("demo") as admin:
        assert not admin.alter_configs(changes).errors


def test_somebody_else_reassigns_and_had_throttles_before(
    kafka: LocalKafka, ground: Ground
) -> None:
    """What is in flight finishes; the other one's move goes on, under the other one's throttle."""
    ground.movement = ONE_AT_A_TIME
    ground.create_topic("theirs", [(1, 2, 3)], size=6_000 * KB)  # outlasts the run
    ground.create_topic("ours", [(1, 2, 3)] * 2, size=100 * KB)
    theirs = [
        (broker_resource(4), FOLLOWER_RATE, "15000"),  # lower than ours
        (broker_resource(1), LEADER_RATE, "1000000"),  # higher
        (topic_resource("theirs"), LEADER_REPLICAS, "*"),
        (topic_resource("theirs"), FOLLOWER_REPLICAS, "*"),
        (topic_resource("ours"), LEADER_REPLICAS, "0:1,1:1,7:7"),
        (topic_resource("ours"), FOLLOWER_REPLICAS, ""),
    ]
    somebody_sets(ground, theirs)
    before = configs(kafka)
    run = ground.approved({"ours-0": (4, 2, 3), "ours-1": (4, 2, 3)})
    ground.advance(run, lambda: ground.in_flight(run) == 1, "a move is under way")
    somebody_reassigns(ground, TopicPartition("theirs", 0), (4, 2, 3))
    ended = ground.finish(run)
    assert ended.state is RunState.HALTED
    assert "somebody else is reassigning 1 partition: theirs-0; " in ended.reason
    assert ended.reason.endswith("; 1 of 2 partitions not as planned")
    assert sorted(placement(kafka)[f"ours-{n}"][0] for n in (0, 1)) == [(1, 2, 3), (4, 2, 3)]
    assert configs(kafka) == before
    assert ground.reassignments() == {"theirs-0"}
    somebody_reassigns(ground, TopicPartition("theirs", 0), None)
    somebody_sets(ground, [(resource, key, None) for resource, key, _ in theirs])


def test_somebody_else_reassigns_a_partition_of_the_plan(kafka: LocalKafka, ground: Ground) -> None:
    ground.movement = ONE_AT_A_TIME
    ground.create_topic("shared", [(1, 2, 3)] * 2)
    # Ours name only what moves: theirs keep the other one's move slow enough to be seen.
    theirs = [
        (topic_resource("shared"), LEADER_REPLICAS, "0:1,0:2,0:3,1:1,1:2,1:3"),
        (topic_resource("shared"), FOLLOWER_REPLICAS, "0:4,1:4"),
    ]
    somebody_sets(ground, theirs)
    before = configs(kafka)
    run = ground.approved({"shared-0": (4, 2, 3), "shared-1": (4, 2, 3)})
    ground.advance(run, lambda: len(ground.reassignments()) == 1, "a move is under way")
    (waiting,) = {"shared-0", "shared-1"} - ground.reassignments()
    somebody_reassigns(ground, TopicPartition("shared", int(waiting[-1])), (1, 2, 4))
    is_running = RunState.RUNNING
    ground.advance(run, lambda: ground.state(run).state is not is_running, "the run to stop")
    ground.change_rate(run)
    ended = ground.finish(run)
    assert ended.state is RunState.HALTED
    assert f"somebody else is reassigning 1 partition: {waiting}" in ended.reason
    wait_until(
        lambda: placement(kafka)[waiting][0] == (1, 2, 4), "the other one's move to end", 120
    )
    assert configs(kafka) == before
    assert not ground.reassignments()
    somebody_sets(ground, [(resource, key, None) for resource, key, _ in theirs])


def test_throttle_keys_are_set_again_once_and_a_changed_one_is_left_alone(
    kafka: LocalKafka, ground: Ground
) -> None:
    ground.create_topic("kept", [(1, 2, 3)] * 2, size=150 * KB)
    before = configs(kafka)
    # An earlier tool left it there; what deletes it meanwhile means it to be gone.
    somebody_sets(ground, [(broker_resource(4), FOLLOWER_RATE, "1000000")])
    run = ground.approved({"kept-0": (4, 2, 3), "kept-1": (1, 4, 3)})
    ground.advance(run, lambda: ground.in_flight(run) == 2, "two moves are under way")
    somebody_sets(
        ground,
        [
            (broker_resource(4), FOLLOWER_RATE, None),
            (topic_resource("kept"), FOLLOWER_REPLICAS, None),
        ],
    )
    # Lower than ours: it keeps both moves slow until the gap is seen, and to their end.
    somebody_sets(ground, [(broker_resource(1), LEADER_RATE, "19000")])
    ground.advance(run, lambda: ground.has_event(run, "throttle gap"), "the gap is seen")
    ground.change_rate(run)
    assert ground.finish(run).state is RunState.DONE, ground.diagnosis(run)
    (gap,) = [event for event in ground.events(run) if "throttle gap" in event]
    assert f"broker 4: {FOLLOWER_RATE}" in gap and f"topic kept: {FOLLOWER_REPLICAS}" in gap
    assert ground.is_as_planned(run)
    assert throttles(configs(kafka)) == [f"broker 1: {LEADER_RATE}=19000"]
    assert ground.view.left_as_others_set_them(run["run_id"]) == {f"broker 1: {LEADER_RATE}"}
    somebody_sets(ground, [(broker_resource(1), LEADER_RATE, None)])
    assert configs(kafka) == before


def test_throttle_keys_that_go_again_and_again_stop_the_run(
    kafka: LocalKafka, ground: Ground
) -> None:
    """The leaders' side is left, or the copies would be done before anybody looks."""
    ground.create_topic("fought", [(1, 2, 3)] * 2, size=2_000 * KB)
    before = configs(kafka)
    run = ground.approved({"fought-0": (4, 2, 3), "fought-1": (1, 4, 3)})
    ground.advance(run, lambda: ground.in_flight(run) == 2, "two moves are under way")
    somebody_sets(ground, [(topic_resource("fought"), FOLLOWER_REPLICAS, None)])
    ground.advance(run, lambda: ground.has_event(run, "throttle gap"), "the gap is seen")
    ground.advance(run, lambda: "copies" in ground.waits_for(run), "the keys are set again")
    somebody_sets(ground, [(topic_resource("fought"), FOLLOWER_REPLICAS, None)])
    ended = ground.finish(run)
    assert ended.state is RunState.HALTED, ground.diagnosis(run)
    assert "somebody else changed our throttle keys again" in ended.reason
    assert f"(topic fought: {FOLLOWER_REPLICAS})" in ended.reason
    assert ground.is_as_before(run), "cancelled: nothing may copy without a throttle"
    assert configs(kafka) == before
    assert not ground.reassignments()


def test_topics_are_deleted_made_anew_given_partitions_and_created(
    kafka: LocalKafka, ground: Ground
) -> None:
    """Three moves are in flight and three wait when it happens."""
    ground.movement = THREE_AT_A_TIME
    for name in ("dropped", "remade", "grown"):
        ground.create_topic(name, [(1, 2, 3)] * 2)
    run = ground.approved(
        {
            f"{name}-{n}": (4, 2, 3) if n else (1, 4, 3)
            for name in ("dropped", "remade", "grown")
            for n in (0, 1)
        }
    )
    ground.advance(run, lambda: ground.in_flight(run) == 3, "three moves are under way")
    client = AdminClient({"bootstrap.servers": kafka.bootstrap_string})
    for future in client.delete_topics(["dropped", "remade"]).values():
        future.result()
    for future in client.create_partitions([NewPartitions("grown", 3)]).values():
        future.result()
    wait_until(lambda: "remade-0" not in placement(kafka), "a topic to be gone", 120)
    ground.create_topic("remade", [(1, 3, 2)] * 2)
    ground.create_topic("born", [(1, 2, 3)])
    wait_until(
        lambda: placement(kafka).get("grown-2", ((), -1))[1] >= 0,
        "the new partition to have a leader",
        120,
    )
    added = placement(kafka)["grown-2"]
    ground.change_rate(run)
    ended = ground.finish(run)
    assert ended.state is RunState.DONE, ground.diagnosis(run)
    assert ended.reason == "4 partitions skipped: their topic is gone"
    now = placement(kafka)
    assert [now[f"grown-{n}"][0] for n in (0, 1)] == [(1, 4, 3), (4, 2, 3)]
    assert now["grown-2"] == added
    assert {now[name][0] for name in ("remade-0", "remade-1")} == {(1, 3, 2)}
    assert now["born-0"][0] == (1, 2, 3)
    assert throttles(configs(kafka)) == []
    assert not ground.reassignments()


def test_a_topic_is_deleted_between_the_observation_and_the_call(
    kafka: LocalKafka, ground: Ground
) -> None:
    """The cluster refuses the move; the next observation shows why, and the run skips it."""
    ground.create_topic("brief", [(1, 2, 3)])
    run = ground.approved({"brief-0": (4, 2, 3)})
    client = AdminClient({"bootstrap.servers": kafka.bootstrap_string})

    def delete(point: str) -> None:
        if point == "before alter_reassignments while moving" and "brief-0" in placement(kafka):
            client.delete_topics(["brief"])["brief"].result()
            wait_until(lambda: "brief-0" not in placement(kafka), "the topic to be gone", 120)

    ended = ground.finish(run, tell=delete)
    assert (ended.state, ended.reason) == (
        RunState.DONE,
        "1 partition skipped: its topic is gone",
    ), ground.diagnosis(run)
    assert throttles(configs(kafka)) == []
