"""Which throttle keys a move needs, what of them is missing, and how each goes back.

Runs that set them on a cluster: tests/simulation.
"""

import pytest

from counterpoise.execution.throttling.restore import restoring_change
from counterpoise.execution.throttling.targets import (
    broker_resource,
    missing_changes,
    throttled_replicas,
    topic_resource,
    wanted_throttles,
)
from counterpoise.model.kafka import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    ConfigValue,
)
from counterpoise.model.run import OwnedKey
from tests.support.plans import move

RATE = 5_000_000
MOVE = move("orders-0", "1 2 3", "4 2 3", size=10)
BROKER, TOPIC = broker_resource(1), topic_resource("orders")


def showing(
    resource: ConfigResource, key: str, value: str | None
) -> dict[ConfigResource, dict[str, ConfigValue]]:
    source = ConfigSource.DYNAMIC_TOPIC if resource.is_topic else ConfigSource.DYNAMIC_BROKER
    return {resource: {} if value is None else {key: ConfigValue(value, source)}}


def ours(resource: ConfigResource, key: str, written: str, before: str | None = None) -> OwnedKey:
    return OwnedKey("run", resource, key, before, tuple(filter(None, written.split(","))))


def test_whoever_may_lead_is_throttled_and_of_the_others_only_who_is_added() -> None:
    assert throttled_replicas(MOVE) == (
        (LEADER_REPLICAS, LEADER_RATE, (1, 2, 3)),
        (FOLLOWER_REPLICAS, FOLLOWER_RATE, (4,)),
    )
    assert throttled_replicas(move("orders-0", "1 2 3", "3 2 1", size=10)) == ()


def test_brokers_of_moves_to_come_keep_their_rates_and_topics_their_lists() -> None:
    throttles = wanted_throttles([], RATE, [MOVE])
    rates = {(broker_resource(broker_id), LEADER_RATE) for broker_id in (1, 2, 3)}
    assert throttles.rates == rates | {(broker_resource(4), FOLLOWER_RATE)}
    assert throttles.lists == {}
    assert {(TOPIC, LEADER_REPLICAS), (TOPIC, FOLLOWER_REPLICAS)} <= throttles.keys


@pytest.mark.parametrize(
    ("present", "is_ours", "is_set"),
    [
        (None, False, True),
        ("1000", False, False),  # somebody's, and lower
        ("9000000", False, True),
        ("5000000", True, False),
        ("1000", True, True),  # ours follows up, too
    ],
)
def test_a_rate_of_somebody_is_only_ever_lowered(
    present: str | None, is_ours: bool, is_set: bool
) -> None:
    touched = [ours(BROKER, LEADER_RATE, present or "")] if is_ours else []
    configs = showing(BROKER, LEADER_RATE, present)
    changes = missing_changes(wanted_throttles([MOVE], RATE), configs, touched)
    wanted = ConfigChange(BROKER, LEADER_RATE, ConfigOperation.SET, str(RATE))
    assert changes == ((wanted,) if is_set else ())


@pytest.mark.parametrize(
    ("present", "appended"),
    [
        (None, "0:1,0:2,0:3"),
        ("0:1,0:2,0:3", None),
        ("7:9,0:1,0:3", "0:2"),  # somebody took an entry of ours
        ("*", None),
    ],
)
def test_what_is_missing_of_a_list_is_appended(present: str | None, appended: str | None) -> None:
    configs = showing(TOPIC, LEADER_REPLICAS, present) | {
        TOPIC: showing(TOPIC, LEADER_REPLICAS, present)[TOPIC]
        | showing(TOPIC, FOLLOWER_REPLICAS, "0:4")[TOPIC]
    }
    changes = missing_changes(wanted_throttles([MOVE], RATE), configs)
    assert [change.value for change in changes] == ([] if appended is None else [appended])
    assert all(change.operation is ConfigOperation.APPEND for change in changes)


@pytest.mark.parametrize(
    ("before", "present", "goes_back"),
    [
        (None, "5000000", ConfigChange(BROKER, LEADER_RATE, ConfigOperation.DELETE)),
        ("700", "5000000", ConfigChange(BROKER, LEADER_RATE, ConfigOperation.SET, "700")),
        ("700", "9000000", None),  # somebody has changed it since
        (None, None, None),
    ],
)
def test_a_rate_goes_back_while_it_is_ours(
    before: str | None, present: str | None, goes_back: ConfigChange | None
) -> None:
    touched = ours(BROKER, LEADER_RATE, "5000000", before)
    assert restoring_change(touched, showing(BROKER, LEADER_RATE, present)) == goes_back


@pytest.mark.parametrize(
    ("before", "present", "goes_back"),
    [
        (None, "0:4", ConfigChange(TOPIC, FOLLOWER_REPLICAS, ConfigOperation.DELETE)),
        (
            None,
            "0:4,7:9",
            ConfigChange(TOPIC, FOLLOWER_REPLICAS, ConfigOperation.SUBTRACT, "0:4"),
        ),
        ("7:9", "0:4,7:9", ConfigChange(TOPIC, FOLLOWER_REPLICAS, ConfigOperation.SET, "7:9")),
        (None, "", ConfigChange(TOPIC, FOLLOWER_REPLICAS, ConfigOperation.DELETE)),  # set, empty
        (None, "7:9", None),
    ],
)
def test_of_a_list_ours_goes_and_what_others_added_stays(
    before: str | None, present: str, goes_back: ConfigChange | None
) -> None:
    touched = ours(TOPIC, FOLLOWER_REPLICAS, "0:4", before)
    assert restoring_change(touched, showing(TOPIC, FOLLOWER_REPLICAS, present)) == goes_back
