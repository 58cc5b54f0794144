"""The configs of a simulated cluster: levels, and Kafka's incremental operations (KIP-339) with
their oddities.

    configs = SimulatedConfigs()
    configs.alter(topic, changes)  # "" or the refusal; either all changes of a resource take hold or none

Tried on Kafka 4.3.1: rates are absent while unset; lists are there as an empty default; APPEND
leaves out what is there already; APPEND to `*` is refused; SUBTRACT down to nothing leaves a *set*
empty value, not an unset one.

Limits: knows the keys of replication throttles, `min.insync.replicas` and how long records are
kept; other keys hold any text.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from counterpoise.model.kafka import (
    EVERY_BROKER,
    FOLLOWER_REPLICAS,
    LEADER_REPLICAS,
    LIST_KEYS,
    RATE_KEYS,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    ConfigValue,
)

MIN_ISR: Final = "min.insync.replicas"
UNCLEAN: Final = "unclean.leader.election.enable"

_ALSO_OF_BROKERS: Final = (MIN_ISR, UNCLEAN)
_RATES: Final = (*RATE_KEYS, "replica.alter.log.dirs.io.max.bytes.per.second")
_DEFAULTS: Final = {
    ConfigResourceType.TOPIC: {
        LEADER_REPLICAS: "",
        FOLLOWER_REPLICAS: "",
        MIN_ISR: "1",
        "cleanup.policy": "delete",
        "retention.ms": "604800000",
        "retention.bytes": "-1",
        UNCLEAN: "false",
    },
    # As Kafka ships them; a test that wants others fills `static`.
    ConfigResourceType.BROKER: {
        MIN_ISR: "1",
        UNCLEAN: "false",
        "default.replication.factor": "1",
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.replication.factor": "3",
        "auto.create.topics.enable": "true",
        "auto.leader.rebalance.enable": "true",
    },
}
_LIST: Final = re.compile(r"|\*|\d+:\d+(,\d+:\d+)*")


@dataclass(slots=True)
class SimulatedConfigs:
    """`dynamic` is what incremental changes write; the other levels are for tests to fill."""

    dynamic: dict[ConfigResource, dict[str, str]] = field(default_factory=dict)
    broker_defaults: dict[str, str] = field(
        default_factory=dict
    )  # the cluster-wide dynamic default of brokers
    static: dict[int, dict[str, str]] = field(default_factory=dict)  # the broker's own file

    def describe(
        self, resource: ConfigResource, keys: Sequence[str] | None
    ) -> dict[str, ConfigValue]:
        """The named keys (None: all), each with the level that wins; unset ones without a default
        are absent.
        """
        levels = self._levels(resource)
        wanted = (
            dict.fromkeys(key for level, _ in levels for key in level) if keys is None else keys
        )
        values = {key: _value(levels, key) for key in wanted}
        return {key: value for key, value in values.items() if value is not None}

    def _levels(self, resource: ConfigResource) -> list[tuple[Mapping[str, str], ConfigSource]]:
        """The winning one first."""
        of_all = (self.broker_defaults, ConfigSource.DYNAMIC_DEFAULT_BROKER)
        if resource == EVERY_BROKER:
            return [of_all]
        defaults = (_DEFAULTS[resource.type], ConfigSource.DEFAULT)
        dynamic = self.dynamic.get(resource, {})
        if resource.is_broker:
            static = (self.static.get(int(resource.name), {}), ConfigSource.STATIC_BROKER)
            return [(dynamic, ConfigSource.DYNAMIC_BROKER), of_all, static, defaults]
        # Of the topic keys here, only these have a broker-level counterpart of the same name.
        static_of_one = self.static[min(self.static)] if self.static else {}
        shared: list[tuple[Mapping[str, str], ConfigSource]] = [
            ({key: level[key] for key in _ALSO_OF_BROKERS if key in level}, source)
            for level, source in (of_all, (static_of_one, ConfigSource.STATIC_BROKER))
        ]
        return [(dynamic, ConfigSource.DYNAMIC_TOPIC), *shared, defaults]

    def alter(self, resource: ConfigResource, changes: Sequence[ConfigChange]) -> str:
        """Apply all changes of one resource, or none; "" or the refusal."""
        wanted = dict(self.dynamic.get(resource, {}))
        if len({change.key for change in changes}) < len(changes):
            return "INVALID_REQUEST: Error due to duplicate config keys"
        for change in changes:
            if complaint := self._apply(wanted, resource, change):
                return complaint
        self.dynamic[resource] = wanted
        return ""

    def _apply(self, wanted: dict[str, str], resource: ConfigResource, change: ConfigChange) -> str:
        if change.operation is ConfigOperation.DELETE:
            wanted.pop(change.key, None)
            return ""
        if change.operation is ConfigOperation.SET:
            new = change.value
        elif change.key not in LIST_KEYS:
            return f"INVALID_CONFIG: Can't {change.operation} to key {change.key} because its type is not LIST."
        else:
            before = (
                wanted[change.key]
                if change.key in wanted
                else _DEFAULTS[resource.type].get(change.key, "")
            )
            new = _merged(before, change)
        if complaint := _invalid(change.key, new):
            return complaint
        wanted[change.key] = new
        return ""

    def rate(self, broker_id: int, key: str) -> int | None:
        """Bytes per second, where it takes effect: from the broker's own dynamic level alone
        (KAFKA-10190).
        """
        value = self.dynamic.get(ConfigResource(ConfigResourceType.BROKER, str(broker_id)), {}).get(
            key
        )
        return None if value is None else int(value)

    def throttles(self, topic: str, partition: int, broker_id: int, key: str) -> bool:
        """Whether the list of the topic names this replica."""
        listed = self.dynamic.get(ConfigResource(ConfigResourceType.TOPIC, topic), {}).get(key, "")
        return listed == "*" or f"{partition}:{broker_id}" in listed.split(",")


def _value(
    levels: Sequence[tuple[Mapping[str, str], ConfigSource]], key: str
) -> ConfigValue | None:
    return next((ConfigValue(level[key], source) for level, source in levels if key in level), None)


def _merged(before: str, change: ConfigChange) -> str:
    old, given = _items(before), _items(change.value)
    if change.operation is ConfigOperation.APPEND:
        return ",".join(dict.fromkeys((*old, *given)))
    return ",".join(item for item in old if item not in given)


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _invalid(key: str, value: str) -> str:
    if key in _RATES and (not value.lstrip("-").isdigit() or int(value) < 0):
        return f"INVALID_REQUEST: Invalid value {value} for configuration {key}: Value must be at least 0"
    if key in LIST_KEYS and not _LIST.fullmatch(value):
        return f"INVALID_CONFIG: Invalid value {value} for configuration {key}: it must be * or partition:broker pairs"
    return ""
