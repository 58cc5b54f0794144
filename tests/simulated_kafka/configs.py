"""The configs of a simulated cluster: levels, and Kafka's incremental operations (KIP-339).

    configs = SimulatedConfigs()
    configs.alter(topic, changes)  # "" or the refusal: all changes of a resource are made, or none

As Kafka 4.3.1 does it: an unset rate is absent; an unset list is an empty default; APPEND leaves
out entries that the list has already; APPEND to `*` is refused; SUBTRACT of the last entry leaves
an empty value that is set, not an unset one; a request makes at most 10,000 records; a value
has at most 32,767 characters, as Kafka has it from 4.3 on.
docs/kafka-facts.md has the tests that hold this to real brokers.

Limits: knows the keys of replication throttles, `min.insync.replicas` and retention; other keys
accept any text, where Kafka refuses a topic key that it does not know.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from counterpoise.model.kafka import (
    CORDONED_LOG_DIRS,
    EVERY_BROKER,
    FOLLOWER_REPLICAS,
    LEADER_REPLICAS,
    LIST_KEYS,
    MAX_VALUE_CHARACTERS,
    RATE_KEYS,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    ConfigValue,
)

# Of a request that the controller answers as a whole (MAX_RECORDS_PER_USER_OP).
MAX_RECORDS_PER_REQUEST: Final = 10_000
TOO_MANY_RECORDS: Final = "POLICY_VIOLATION: Unable to perform excessively large batch operation."
TOO_LONG: Final = (
    "INVALID_CONFIG: The configuration value cannot be added because it exceeds the maximum value "
    f"size of {MAX_VALUE_CHARACTERS} bytes."
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
        "segment.bytes": "1073741824",
        "max.message.bytes": "1048588",
        "remote.storage.enable": "false",
        "local.retention.ms": "-2",
        "local.retention.bytes": "-2",
        UNCLEAN: "false",
    },
    # Kafka's defaults; a test that needs others fills `static`.
    ConfigResourceType.BROKER: {
        CORDONED_LOG_DIRS: "",
        MIN_ISR: "1",
        UNCLEAN: "false",
        "default.replication.factor": "1",
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.replication.factor": "3",
        "auto.create.topics.enable": "true",
        "auto.leader.rebalance.enable": "true",
    },
}
_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1
_LIST: Final = re.compile(r"\*|(\d+:\d+)?(,(\d+:\d+)?)*")


@dataclass(slots=True)
class SimulatedConfigs:
    """The values of each level; incremental changes write `dynamic`, tests fill the others."""

    dynamic: dict[ConfigResource, dict[str, str]] = field(default_factory=dict)
    # The dynamic default of all brokers.
    broker_defaults: dict[str, str] = field(default_factory=dict)
    # server.properties, by broker.
    static: dict[int, dict[str, str]] = field(default_factory=dict)
    knows_cordons: bool = True  # KIP-1066, from 4.3 on

    def describe(
        self, resource: ConfigResource, keys: Sequence[str] | None
    ) -> dict[str, ConfigValue]:
        """Return the named keys (None: all) with the value in force.

        An unset key without a default is absent.
        """
        levels = self._levels(resource)
        if keys is None:
            keys = list(dict.fromkeys(key for level, _ in levels for key in level))
        if not self.knows_cordons:
            keys = [key for key in keys if key != CORDONED_LOG_DIRS]
        values = {key: _value(levels, key) for key in keys}
        return {key: value for key, value in values.items() if value is not None}

    def _levels(self, resource: ConfigResource) -> list[tuple[Mapping[str, str], ConfigSource]]:
        """Return the levels of a resource; a value of an earlier one is in force."""
        of_every_broker = (self.broker_defaults, ConfigSource.DYNAMIC_DEFAULT_BROKER)
        if resource == EVERY_BROKER:
            return [of_every_broker]
        defaults = (_DEFAULTS[resource.type], ConfigSource.DEFAULT)
        dynamic = self.dynamic.get(resource, {})
        if resource.is_broker:
            static = (self.static.get(int(resource.name), {}), ConfigSource.STATIC_BROKER)
            return [(dynamic, ConfigSource.DYNAMIC_BROKER), of_every_broker, static, defaults]
        # Of the topic keys here, only these have a broker-level counterpart of the same name.
        static_of_first = self.static[min(self.static)] if self.static else {}
        shared: list[tuple[Mapping[str, str], ConfigSource]] = [
            ({key: level[key] for key in _ALSO_OF_BROKERS if key in level}, source)
            for level, source in (of_every_broker, (static_of_first, ConfigSource.STATIC_BROKER))
        ]
        return [(dynamic, ConfigSource.DYNAMIC_TOPIC), *shared, defaults]

    def alter(self, resource: ConfigResource, changes: Sequence[ConfigChange]) -> str:
        """Apply all changes of one resource, or none; return "" or the refusal."""
        return self.alter_all({resource: changes})[resource]

    def alter_all(
        self, changes_by_resource: Mapping[ConfigResource, Sequence[ConfigChange]]
    ) -> dict[ConfigResource, str]:
        """Apply one request; return "" or the refusal of each resource.

        All changes of a resource are made, or none; with too many records no resource is changed.
        """
        refusals: dict[ConfigResource, str] = {}
        values: dict[ConfigResource, dict[str, str]] = {}
        record_count = 0
        for resource, changes in changes_by_resource.items():
            before = self.dynamic.get(resource, {})
            wanted = dict(before)
            refusals[resource] = self._apply_all(wanted, resource, changes)
            if not refusals[resource]:
                values[resource] = wanted
                record_count += _count_records(resource, changes, before, wanted)
        if record_count > MAX_RECORDS_PER_REQUEST:
            return dict.fromkeys(changes_by_resource, TOO_MANY_RECORDS)
        self.dynamic.update(values)
        return refusals

    def _apply_all(
        self, wanted: dict[str, str], resource: ConfigResource, changes: Sequence[ConfigChange]
    ) -> str:
        if len({change.key for change in changes}) < len(changes):
            return "INVALID_REQUEST: Error due to duplicate config keys"
        for change in changes:
            if complaint := self._apply(wanted, resource, change):
                return complaint
        return ""

    def _apply(self, wanted: dict[str, str], resource: ConfigResource, change: ConfigChange) -> str:
        if change.operation is ConfigOperation.DELETE:
            wanted.pop(change.key, None)
            return ""
        if change.operation is ConfigOperation.SET:
            new = change.value
        elif change.key not in LIST_KEYS:
            return (
                f"INVALID_CONFIG: Can't {change.operation} to key {change.key} "
                "because its type is not LIST."
            )
        else:
            default = _DEFAULTS[resource.type].get(change.key, "")
            new = _merged(wanted.get(change.key, default), change)
        if len(new) > MAX_VALUE_CHARACTERS:
            return TOO_LONG
        if complaint := _invalid(change.key, new):
            return complaint
        wanted[change.key] = new
        return ""

    def rate(self, broker_id: int, key: str) -> int | None:
        """Return a rate in bytes per second; None where none is in force.

        The broker's own dynamic value comes first, then the dynamic default of all brokers
        (KAFKA-10190). A value in server.properties has no effect.
        """
        broker = ConfigResource(ConfigResourceType.BROKER, str(broker_id))
        value = self.dynamic.get(broker, {}).get(key, self.broker_defaults.get(key))
        return None if value is None else int(value)

    def min_isr(self, topic: str) -> int:
        """Return `min.insync.replicas` of a topic."""
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        return int(self.describe(resource, [MIN_ISR])[MIN_ISR].value or 1)

    def throttles(self, topic: str, partition: int, broker_id: int, key: str) -> bool:
        """Return whether the topic's list names this replica."""
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        listed = self.dynamic.get(resource, {}).get(key, "")
        return listed == "*" or f"{partition}:{broker_id}" in listed.split(",")


def _value(
    levels: Sequence[tuple[Mapping[str, str], ConfigSource]], key: str
) -> ConfigValue | None:
    for level, source in levels:
        if key in level:
            value = level[key]
            shown = _without_spaces(value) if key in LIST_KEYS else value
            return ConfigValue(shown, source)
    return None


def _count_records(
    resource: ConfigResource,
    changes: Sequence[ConfigChange],
    before: Mapping[str, str],
    after: Mapping[str, str],
) -> int:
    """Return how many records the controller writes: for topics only those that change a value."""
    if resource.is_broker:
        return len(changes)
    return sum(before.get(change.key) != after.get(change.key) for change in changes)


def _merged(before: str, change: ConfigChange) -> str:
    """Return a list after APPEND or SUBTRACT: "0:1,0:2" without "0:2" is "0:1".

    As in `ConfigurationControlManager`: spaces belong to an entry, SUBTRACT removes an entry once.
    """
    entries = [entry for entry in _split(before) if entry]
    for entry in _split(change.value):
        if change.operation is ConfigOperation.SUBTRACT:
            if entry in entries:
                entries.remove(entry)
        elif entry not in entries:
            entries.append(entry)
    return ",".join(entries)


def _split(text: str) -> list[str]:
    """Split at commas as Java does: a gap at the end is dropped, but an empty text is one entry."""
    entries = text.split(",")
    while len(entries) > 1 and not entries[-1]:
        entries.pop()
    return entries if text.strip(",") or not text else []


def _without_spaces(text: str) -> str:
    """Return a list as a broker shows it."""
    return ",".join(entry.strip() for entry in text.split(","))


def _whole_number(text: str) -> int:
    """Return the number; -1 where it is none."""
    return int(text) if text.isdecimal() else -1


def _invalid(key: str, value: str) -> str:
    problem = f"Invalid value {value} for configuration {key}"
    if key in _RATES and not 0 <= _whole_number(value) <= _LONG_MAX:
        return f"INVALID_REQUEST: {problem}: Value must be at least 0"
    if key == MIN_ISR and not 1 <= _whole_number(value) <= _INT_MAX:
        return f"INVALID_CONFIG: {problem}: Value must be at least 1"
    if key in LIST_KEYS and not _LIST.fullmatch(_without_spaces(value)):
        return f"INVALID_CONFIG: {problem}: it must be * or partition:broker pairs"
    return ""
