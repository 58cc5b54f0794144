"""What somebody removes, or changes, while a run holds the key, is what the run leaves there."""

from collections.abc import Mapping
from pathlib import Path

from counterpoise.model.kafka import (
    FOLLOWER_RATE,
    LEADER_RATE,
    LEADER_REPLICAS,
    LIST_KEYS,
    RATE_KEYS,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
)
from counterpoise.model.run import RunState
from tests.support.runs import SimulatedRun, at_broker, of_topic, own_configs

ORDERS = of_topic("orders")


def set_by_somebody(run: SimulatedRun, resource: ConfigResource, key: str, value: str) -> None:
    run.cluster.alter_configs([ConfigChange(resource, key, ConfigOperation.SET, value)])


def verify_by_kafkas_tool(run: SimulatedRun) -> None:
    """`kafka-reassign-partitions --verify` removes the throttles of all brokers, and of topics."""
    at_brokers = [
        (at_broker(broker_id), key) for broker_id in run.cluster.brokers for key in RATE_KEYS
    ]
    at_topics = [(ORDERS, key) for key in LIST_KEYS]
    deleted = [ConfigChange(*where, ConfigOperation.DELETE) for where in (*at_brokers, *at_topics)]
    run.cluster.alter_configs(deleted)


def left_at_the_end(run: SimulatedRun) -> Mapping[ConfigResource, Mapping[str, str]]:
    driver = run.driver()
    run.repeat(driver.step)
    assert run.end(driver) is RunState.DONE, run.run.reason
    return own_configs(run.cluster)


def test_a_rate_of_before_that_somebody_deleted_does_not_come_back(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path)
    set_by_somebody(run, at_broker(1), LEADER_RATE, "50000000")  # an earlier tool left it there
    run.until_moving(run.driver())
    verify_by_kafkas_tool(run)
    assert left_at_the_end(run) == {}


def test_a_list_of_before_that_somebody_deleted_is_not_left_set_and_empty(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path)
    set_by_somebody(run, ORDERS, LEADER_REPLICAS, "77:1,77:2")
    run.until_moving(run.driver())
    verify_by_kafkas_tool(run)
    assert left_at_the_end(run) == {}


def test_a_rate_above_ours_that_somebody_sets_is_there_afterwards(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path)
    run.until_moving(run.driver())
    set_by_somebody(run, at_broker(4), FOLLOWER_RATE, "5000000")
    assert left_at_the_end(run) == {at_broker(4): {FOLLOWER_RATE: "5000000"}}


def test_a_rate_below_ours_that_somebody_sets_is_there_afterwards(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path)
    run.until_moving(run.driver())
    set_by_somebody(run, at_broker(4), FOLLOWER_RATE, "500000")
    assert left_at_the_end(run) == {at_broker(4): {FOLLOWER_RATE: "500000"}}
