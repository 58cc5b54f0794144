"""Asking the brokers that act on a setting whether they have seen it: another one's metadata may be
older.

    brokers_in_force(admin, target, touched, broker_ids)      # who has the throttle
    brokers_that_disagree(admin, keys, configs, broker_ids)   # who has not seen the restored keys yet

Tried on Kafka 4.3.1: one of thirty reads right after a change was stale, some 0.2 s long.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from counterpoise.errors import BrokerSilentError
from counterpoise.execution.throttles import Configs, ThrottleTarget, broker, missing, own_value
from counterpoise.kafka_admin.port import ClusterReader
from counterpoise.model.kafka import LIST_KEYS, RATE_KEYS
from counterpoise.model.plan import Move
from counterpoise.model.run import TouchedKey

_MOST_BROKERS_ASKED_AT_ONCE: Final = 20


def brokers_of(*moves: Move) -> frozenset[int]:
    """Whoever the throttle of these moves has to reach."""
    return frozenset(b for move in moves for b in (*move.replicas_before, *move.adding))


def brokers_in_force(
    reader: ClusterReader,
    target: ThrottleTarget,
    touched: Sequence[TouchedKey],
    broker_ids: Iterable[int],
) -> frozenset[int]:
    """Those of the brokers that say, each asked by itself, that the target is in force there."""
    topics = [r for r in target.resources if r.is_topic]

    def is_in_force(broker_id: int) -> bool:
        try:
            configs = dict(reader.describe_configs(topics, LIST_KEYS, via_broker=broker_id))
        except BrokerSilentError:
            return False
        configs |= reader.describe_configs([broker(broker_id)], RATE_KEYS)
        own_rates = frozenset(rate for rate in target.rates if rate[0] == broker(broker_id))
        if own_rates and broker(broker_id) not in configs:
            return False
        return not missing(
            ThrottleTarget(target.rate_bytes_per_second, own_rates, target.lists), configs, touched
        )

    return frozenset(b for b, answer in _side_by_side(is_in_force, broker_ids).items() if answer)


def brokers_that_disagree(
    reader: ClusterReader, keys: Sequence[TouchedKey], configs: Configs, broker_ids: Iterable[int]
) -> tuple[int, ...]:
    """Those that tell other values of these topic keys than `configs` does, or tell nothing."""
    of_topics = [t for t in keys if t.resource.is_topic]
    topics = sorted({t.resource for t in of_topics})

    def agrees(broker_id: int) -> bool:
        try:
            told = reader.describe_configs(topics, LIST_KEYS, via_broker=broker_id)
        except BrokerSilentError:
            return False
        return all(
            own_value(told, t.resource, t.key) == own_value(configs, t.resource, t.key)
            for t in of_topics
        )

    return (
        tuple(b for b, answer in _side_by_side(agrees, broker_ids).items() if not answer)
        if topics
        else ()
    )


def _side_by_side(ask: Callable[[int], bool], broker_ids: Iterable[int]) -> Mapping[int, bool]:
    asked = sorted(broker_ids)
    with ThreadPoolExecutor(_MOST_BROKERS_ASKED_AT_ONCE) as pool:
        return dict(zip(asked, pool.map(ask, asked), strict=True))
