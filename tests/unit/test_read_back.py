"""A move is submitted when every broker of it reports its throttle, each asked by itself."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from counterpoise.errors import BrokerUnresponsiveError
from counterpoise.execution.throttling.read_back import throttled_moves
from counterpoise.execution.throttling.targets import broker_resource, wanted_throttles
from counterpoise.model.kafka import ConfigResource, ConfigSource, ConfigValue
from tests.support.plans import move

RATE = 1_000_000
MOVE = move("orders-0", "1 2 3", "4 2 3", size=10)
WANTED = wanted_throttles([MOVE], RATE)
Values = dict[str, ConfigValue]


class _Brokers:
    """Each reports the throttle, but for the lists or the rate of one of them."""

    def __init__(self, *, without_lists: int = 0, without_rate: int = 0, frozen: int = 0) -> None:
        self._without_lists, self._without_rate = without_lists, without_rate
        self._frozen = frozen

    def describe_configs(
        self, resources: Sequence[ConfigResource], _keys: object, via_broker: int | None = None
    ) -> Mapping[ConfigResource, Values]:
        if via_broker is not None and via_broker == self._frozen:
            raise BrokerUnresponsiveError(f"broker {via_broker} does not respond")
        return {resource: self._values(resource, via_broker) for resource in resources}

    def _values(self, resource: ConfigResource, via_broker: int | None) -> Values:
        if resource.is_topic:
            if via_broker == self._without_lists:
                return {}
            return {
                key: ConfigValue(",".join(entries), ConfigSource.DYNAMIC_TOPIC)
                for (of, key), entries in WANTED.lists.items()
                if of == resource
            }
        if resource == broker_resource(self._without_rate):
            return {}
        rate = ConfigValue(str(RATE), ConfigSource.DYNAMIC_BROKER)
        return {key: rate for of, key in WANTED.rates if of == resource}


class _Observed:
    owned_keys = ()

    def __init__(self, *live_broker_ids: int) -> None:
        self.live_broker_ids = frozenset(live_broker_ids)

    def adding_replicas(self, _move: object) -> tuple[int, ...]:
        return (4,)


def may_be_submitted(brokers: _Brokers, *live_broker_ids: int) -> bool:
    reader: Any = brokers
    observation: Any = _Observed(*live_broker_ids)
    return bool(throttled_moves(reader, [MOVE], observation, RATE))


def test_a_move_is_submitted_when_all_brokers_report_its_throttle() -> None:
    assert may_be_submitted(_Brokers(), 1, 2, 3, 4)


@pytest.mark.parametrize("broker_id", [1, 2, 3, 4])
@pytest.mark.parametrize("lacks", ["without_lists", "without_rate", "frozen"])
def test_a_move_waits_for_each_of_them(broker_id: int, lacks: str) -> None:
    assert not may_be_submitted(_Brokers(**{lacks: broker_id}), 1, 2, 3, 4)


def test_a_dead_broker_reports_nothing_and_copies_nothing() -> None:
    assert may_be_submitted(_Brokers(frozen=1, without_rate=1), 2, 3, 4)
