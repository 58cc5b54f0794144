"""Reads throttle keys back from the brokers that act on them: another one's metadata may be older.

    throttled_moves(admin, moves, observation, rate)         # those that may be submitted
    brokers_that_disagree(admin, keys, configs, broker_ids)  # without the restored keys yet

Tried on Kafka 4.3.1: one of thirty reads right after a change was stale, some 0.2 s long.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from counterpoise.errors import BrokerUnresponsiveError
from counterpoise.execution.observation import Observation
from counterpoise.execution.throttling.targets import (
    Configs,
    WantedThrottles,
    broker_resource,
    dynamic_value,
    is_topic_gone,
    missing_changes,
    wanted_throttles,
)
from counterpoise.model.grouping import grouped
from counterpoise.model.kafka import LIST_KEYS, RATE_KEYS
from counterpoise.model.plan import Move
from counterpoise.model.run import OwnedKey

if TYPE_CHECKING:
    from counterpoise.kafka_admin.cluster_admin import ClusterReader


_MAX_BROKERS_AT_ONCE: Final = 20


def throttled_brokers(*moves: Move) -> frozenset[int]:
    """Return the brokers that the throttle of these moves has to reach."""
    return frozenset(
        broker_id for move in moves for broker_id in (*move.replicas_before, *move.adding)
    )


def throttled_moves(
    reader: "ClusterReader", moves: Sequence[Move], observation: Observation, rate: int
) -> tuple[Move, ...]:
    """Return the moves whose live brokers all report the throttle, and those that copy nothing.

    A dead broker that a move only leads away from neither responds nor copies.
    """
    live_broker_ids = observation.live_broker_ids
    copying_moves = [move for move in moves if observation.adding_replicas(move)]
    in_force = brokers_in_force(
        reader,
        wanted_throttles(copying_moves, rate),
        observation.owned_keys,
        throttled_brokers(*copying_moves) & live_broker_ids,
    )

    def is_throttled(move: Move) -> bool:
        live_brokers = throttled_brokers(move) & live_broker_ids
        return live_brokers <= in_force

    unthrottled = {move.topic_partition for move in copying_moves if not is_throttled(move)}
    return tuple(move for move in moves if move.topic_partition not in unthrottled)


def brokers_in_force(
    reader: "ClusterReader",
    throttles: WantedThrottles,
    owned_keys: Sequence[OwnedKey],
    broker_ids: Iterable[int],
) -> frozenset[int]:
    """Return those of the brokers that report the throttles, each asked by itself."""
    topics = [resource for resource in throttles.resources if resource.is_topic]
    rates_of = grouped((resource, (resource, key)) for resource, key in throttles.rates)
    owned_of = grouped((owned.resource, owned) for owned in owned_keys)

    def is_in_force(broker_id: int) -> bool:
        broker = broker_resource(broker_id)
        try:
            configs = dict(reader.describe_configs(topics, LIST_KEYS, via_broker=broker_id))
        except BrokerUnresponsiveError:
            return False
        configs |= reader.describe_configs([broker], RATE_KEYS)
        own_rates = frozenset(rates_of.get(broker, ()))
        if own_rates and broker not in configs:
            return False
        own_throttles = WantedThrottles(throttles.rate_bytes_per_second, own_rates, throttles.lists)
        return not missing_changes(own_throttles, configs, owned_of.get(broker, ()))

    in_force = _check_each(is_in_force, broker_ids)
    return frozenset(broker_id for broker_id, holds in in_force.items() if holds)


def brokers_that_disagree(
    reader: "ClusterReader",
    owned_keys: Iterable[OwnedKey],
    configs: Configs,
    broker_ids: Iterable[int],
) -> tuple[int, ...]:
    """Return the brokers that report other values of topic keys than `configs` has, or none.

    Keys of topics that are gone are left out.
    """
    topic_keys = [
        owned.resource_key
        for owned in owned_keys
        if owned.resource.is_topic and not is_topic_gone(owned, configs)
    ]
    if not topic_keys:
        return ()
    topics = sorted({topic for topic, _ in topic_keys})

    def agrees(broker_id: int) -> bool:
        try:
            reported = reader.describe_configs(topics, LIST_KEYS, via_broker=broker_id)
        except BrokerUnresponsiveError:
            return False
        return all(
            dynamic_value(reported, *resource_key) == dynamic_value(configs, *resource_key)
            for resource_key in topic_keys
        )

    agreeing = _check_each(agrees, broker_ids)
    return tuple(broker_id for broker_id, holds in agreeing.items() if not holds)


def _check_each(check: Callable[[int], bool], broker_ids: Iterable[int]) -> Mapping[int, bool]:
    """Return the result of `check` for each broker, in the order of ids."""
    checked_ids = sorted(broker_ids)
    with ThreadPoolExecutor(_MAX_BROKERS_AT_ONCE) as pool:
        return dict(zip(checked_ids, pool.map(check, checked_ids), strict=True))
