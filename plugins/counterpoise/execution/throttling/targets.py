"""Replication throttles (KIP-73): which keys moves need, and what of them is missing. Pure.

    throttles = wanted_throttles(moves, rate_bytes_per_second)
    missing_changes(throttles, configs, touched_keys)    # (): the throttles are in force

Kafka's own split is followed: the leader list names the replicas before the move, the follower list
only those being added. Lists are merged, never replaced; `*` is left alone; somebody else's rate
below ours stays, and is never raised. So does the dynamic default of all brokers: it is in force
where a broker has no rate of its own (KAFKA-10190; older brokers show it and ignore it), so a run
sets its rate at each broker, and never one above the default.

Example: orders-0 moves from (1, 2, 3) to (4, 2, 3). Brokers 1, 2, 3 get the leader's rate and
orders the leader list `0:1,0:2,0:3`; broker 4 gets the follower's rate, the follower list is `0:4`.

Ours is the rate that was set last. One that was set before it is ours only until the broker shows
the last one: then it can come back by somebody's hand alone, or be shown by a broker whose metadata
is behind, so that it is never taken for a value of before. Where nobody answered a call, all are.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from counterpoise.model.cluster import TopicPartition, is_another_topic
from counterpoise.model.kafka import (
    EVERY_BROKER,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LIST_KEYS,
    RATE_KEYS,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    ConfigValue,
    ResourceKey,
)
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.reassignment import is_one_reassignment, reassignment_targets
from counterpoise.model.run import TouchedKey

EVERY_REPLICA: Final = "*"
_DYNAMIC_SOURCE: Final = {
    ConfigResourceType.BROKER: ConfigSource.DYNAMIC_BROKER,
    ConfigResourceType.TOPIC: ConfigSource.DYNAMIC_TOPIC,
}

Configs = Mapping[ConfigResource, Mapping[str, ConfigValue]]


@dataclass(frozen=True, slots=True)
class WantedThrottles:
    """What has to be in force: one rate on each (broker, key), entries on each (topic, key)."""

    rate_bytes_per_second: int
    rates: frozenset[ResourceKey]
    lists: Mapping[ResourceKey, tuple[str, ...]]
    later_lists: frozenset[ResourceKey] = frozenset()  # of moves that are still to come

    @property
    def keys(self) -> frozenset[ResourceKey]:
        """Return every key that is needed now, or later."""
        return self.rates | self.lists.keys() | self.later_lists

    @property
    def resources(self) -> tuple[ConfigResource, ...]:
        keys = (*self.rates, *self.lists)
        return tuple(sorted({resource for resource, _ in keys}))


def broker_resource(broker_id: int) -> ConfigResource:
    return ConfigResource(ConfigResourceType.BROKER, str(broker_id))


def topic_resource(name: str) -> ConfigResource:
    return ConfigResource(ConfigResourceType.TOPIC, name)


def wanted_throttles(
    moves: Iterable[Move],
    rate_bytes_per_second: int,
    remaining: Iterable[Move] = (),
) -> WantedThrottles:
    """Return the throttles under which these moves may be submitted; copying nothing needs none.

    Brokers have their rates also for the `remaining` moves, which no list names yet.
    """
    # Names and ids first, resources once each: a plan may have a hundred thousand moves.
    rate_brokers: dict[str, set[int]] = {key: set() for key in RATE_KEYS}
    entries_by_list: dict[tuple[str, str], list[str]] = {}
    later_topics: set[str] = set()
    for move in moves:
        for list_key, rate_key, broker_ids in throttled_replicas(move):
            entries = entries_by_list.setdefault((move.topic, list_key), [])
            entries.extend(f"{move.partition}:{broker_id}" for broker_id in broker_ids)
            rate_brokers[rate_key].update(broker_ids)
    for move in remaining:
        for _, rate_key, broker_ids in throttled_replicas(move):
            later_topics.add(move.topic)
            rate_brokers[rate_key].update(broker_ids)
    rates = ((broker_resource(b), key) for key, ids in rate_brokers.items() for b in ids)
    lists = sorted(entries_by_list.items())
    return WantedThrottles(
        rate_bytes_per_second,
        frozenset(rates),
        {(topic_resource(topic), key): tuple(entries) for (topic, key), entries in lists},
        frozenset((topic_resource(topic), key) for topic in later_topics for key in LIST_KEYS),
    )


def throttles_of_plan(plan: RebalancePlan, rate_bytes_per_second: int = 0) -> WantedThrottles:
    """Return all that a run of the plan may set, at any time."""
    return wanted_throttles(plan.moves, rate_bytes_per_second)


def throttled_replicas(move: Move) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
    """Return list, rate and brokers of both sides of a move; () where it copies nothing."""
    if not move.adding:
        return ()
    return (
        (LEADER_REPLICAS, LEADER_RATE, _possible_leaders(move)),
        (FOLLOWER_REPLICAS, FOLLOWER_RATE, move.adding),
    )


def _possible_leaders(move: Move) -> tuple[int, ...]:
    """Return the replicas that may lead while something is copied, in order.

    They are those of before, and of the move's reassignments but the last one.
    """
    if is_one_reassignment(move):
        return move.replicas_before
    on_the_way = [b for target in reassignment_targets(move)[:-1] for b in target]
    return tuple(dict.fromkeys((*move.replicas_before, *on_the_way)))


def dynamic_value(configs: Configs, resource: ConfigResource, key: str) -> str | None:
    """Return the value set at the resource itself; None when it is set elsewhere, or nowhere."""
    value = configs.get(resource, {}).get(key)
    if value is None or value.source is not _DYNAMIC_SOURCE[resource.type]:
        return None
    return value.value


def default_rate(configs: Configs) -> int | None:
    """Return the bytes per second of the dynamic default of all brokers; None where none is set.

    It is the lower one of both sides: a copy goes through the leader's limit and the follower's.
    """
    values = [configs.get(EVERY_BROKER, {}).get(key) for key in RATE_KEYS]
    rates = [value.value for value in values if value is not None]
    return min((int(rate) for rate in rates if rate and rate.isdecimal()), default=None)


def is_topic_gone(touched: TouchedKey, topic_ids: Mapping[str, str]) -> bool:
    """Return whether a key's topic was deleted; one of the same name made since is another topic.

    `topic_ids` has the present ids of the topics that exist.
    """
    if not touched.resource.is_topic:
        return False
    present_id = topic_ids.get(touched.resource.name)
    return present_id is None or is_another_topic(touched.topic_id, present_id)


def missing_changes(
    throttles: WantedThrottles, configs: Configs, touched_keys: Iterable[TouchedKey] = ()
) -> tuple[ConfigChange, ...]:
    """Return the changes after which the throttles are in force.

    Resources that `configs` does not have are left out. `touched_keys` are those of this run: a
    rate that is ours follows the wanted one up and down, somebody else's is only ever lowered.
    """
    own_keys = {
        touched.resource_key: touched for touched in touched_keys if touched.restored_at is None
    }
    changes = []
    for resource, key in sorted(throttles.rates):
        if resource not in configs:
            continue
        touched = own_keys.get((resource, key))
        rate = _capped(throttles.rate_bytes_per_second, touched)
        if not _is_right_rate(dynamic_value(configs, resource, key), rate, touched):
            changes.append(ConfigChange(resource, key, ConfigOperation.SET, str(rate)))
    for (resource, key), wanted in throttles.lists.items():
        if resource not in configs:
            continue
        present = set(list_entries(dynamic_value(configs, resource, key)))
        absent = [entry for entry in wanted if entry not in present]
        if absent and EVERY_REPLICA not in present:
            changes.append(ConfigChange(resource, key, ConfigOperation.APPEND, ",".join(absent)))
    return tuple(changes)


def _capped(rate: int, touched: TouchedKey | None) -> int:
    """Return the rate, or the one that was set before the run where that is lower."""
    before = touched.before_value if touched else None
    return min(rate, int(before)) if before is not None and before.isdecimal() else rate


def _is_right_rate(value: str | None, rate: int, touched: TouchedKey | None) -> bool:
    if value is None or not value.isdecimal():
        return False
    is_ours = touched is not None and value in list_entries(touched.written_value)
    return int(value) == rate if is_ours else int(value) <= rate


def without_own_rates(
    changes: Iterable[ConfigChange], touched_keys: Sequence[TouchedKey], configs: Configs
) -> tuple[ConfigChange, ...]:
    """Return the missing changes but for rates that follow others of this run: copies are throttled
    by the former one until a broker shows the new one.
    """
    own_keys = (touched for touched in touched_keys if touched.restored_at is None)
    written = {touched.resource_key: list_entries(touched.written_value) for touched in own_keys}

    def has_own_rate(change: ConfigChange) -> bool:
        present = dynamic_value(configs, *change.resource_key)
        return change.key in RATE_KEYS and present in written.get(change.resource_key, ())

    return tuple(change for change in changes if not has_own_rate(change))


def removed_by_others(
    changes: Iterable[ConfigChange], touched_keys: Sequence[TouchedKey], configs: Configs
) -> tuple[ConfigChange, ...]:
    """Return those of the missing changes of throttles that were in force before: somebody else
    removed them.
    """
    were_in_force = {
        touched.resource_key: touched
        for touched in touched_keys
        if touched.restored_at is None and touched.during_value is not None
    }

    def was_removed(change: ConfigChange) -> bool:
        touched = were_in_force.get(change.resource_key)
        if touched is None:
            return False
        absent = set(list_entries(change.value))
        return change.key not in LIST_KEYS or not absent.isdisjoint(
            list_entries(touched.written_value)
        )

    return tuple(filter(was_removed, without_own_rates(changes, touched_keys, configs)))


def is_in_force(touched: TouchedKey, configs: Configs) -> bool:
    """Return whether the key holds what was written last: that rate, or entries of ours."""
    present = list_entries(dynamic_value(configs, *touched.resource_key))
    written = list_entries(touched.written_value)
    if touched.key in RATE_KEYS:
        return present == written[-1:]
    return not set(written).isdisjoint(present)


def keys_in_use(
    keys: Iterable[TouchedKey], copied: Collection[TopicPartition]
) -> frozenset[ResourceKey]:
    """Return those of the keys that throttle copies of these partitions, whoever began them: a list
    by its entries, and a rate through such an entry.
    """
    used: set[ResourceKey] = set()
    for touched in keys:
        if touched.restored_at is not None or touched.key not in LIST_KEYS:
            continue
        rate = LEADER_RATE if touched.key == LEADER_REPLICAS else FOLLOWER_RATE
        for entry in entries_in_use(touched, copied):
            broker_id = int(entry.partition(":")[2])
            used |= {touched.resource_key, (broker_resource(broker_id), rate)}
    return frozenset(used)


def entries_in_use(touched: TouchedKey, copied: Collection[TopicPartition]) -> set[str]:
    """Return the entries of ours in a list that throttle copies of these partitions."""
    numbers = {str(tp.partition) for tp in copied if tp.topic == touched.resource.name}
    entries = list_entries(touched.written_value) if numbers else ()
    return {entry for entry in entries if entry.partition(":")[0] in numbers}


def list_entries(value: str | None) -> list[str]:
    return [entry.strip() for entry in (value or "").split(",") if entry.strip()]
