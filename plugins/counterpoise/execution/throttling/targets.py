"""Replication throttles (KIP-73): which keys moves need, and what of them is missing. Pure.

    throttles = wanted_throttles(moves, rate_bytes_per_second)
    missing_changes(throttles, configs, owned_keys)      # (): the throttles are in force

Kafka's own split is followed: the leader list names the replicas before the move, the follower list
only those being added. Lists are merged, never replaced; `*` is left alone; somebody else's rate
below ours stays, and is never raised. So does the dynamic default of all brokers: it is in force
where a broker has no rate of its own (KAFKA-10190; older brokers show it and ignore it), so a run
sets its rate at each broker, and never one above the default.

Example: orders-0 moves from (1, 2, 3) to (4, 2, 3). Brokers 1, 2, 3 get the leader's rate and
orders the leader list `0:1,0:2,0:3`; broker 4 gets the follower's rate, the follower list is `0:4`.

Ours is the rate that was set last. One that was set before it is ours only until the broker shows
the last one: then it can come back by somebody's hand alone. Where nobody answered a call, all are.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from counterpoise.model.cluster import TopicPartition
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
    Reassignment,
    ResourceKey,
    TopicDescription,
)
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.reassignment import is_one_reassignment, reassignment_targets
from counterpoise.model.run import OwnedKey

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


def throttles_of_plan(plan: RebalancePlan) -> WantedThrottles:
    """Return all that a run of the plan may set, at any time, at any rate."""
    return wanted_throttles(plan.moves, 0)


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


def is_topic_gone(owned: OwnedKey, configs: Configs) -> bool:
    """Return whether a key's topic was deleted, and its config with it."""
    return owned.resource.is_topic and owned.resource not in configs


def missing_changes(
    throttles: WantedThrottles, configs: Configs, owned_keys: Iterable[OwnedKey] = ()
) -> tuple[ConfigChange, ...]:
    """Return the changes after which the throttles are in force.

    Resources that `configs` does not have are left out. `owned_keys` are those of all runs: a rate
    that is ours follows the wanted one up and down, somebody else's is only ever lowered.
    """
    open_keys = {owned.resource_key: owned for owned in owned_keys if owned.is_open}
    changes = []
    for resource, key in sorted(throttles.rates):
        if resource not in configs:
            continue
        owned = open_keys.get((resource, key))
        rate = _capped(throttles.rate_bytes_per_second, owned)
        if not _is_right_rate(dynamic_value(configs, resource, key), rate, owned):
            changes.append(ConfigChange(resource, key, ConfigOperation.SET, str(rate)))
    for (resource, key), wanted in throttles.lists.items():
        if resource not in configs:
            continue
        present = set(list_entries(dynamic_value(configs, resource, key)))
        absent = [entry for entry in wanted if entry not in present]
        if absent and EVERY_REPLICA not in present:
            changes.append(ConfigChange(resource, key, ConfigOperation.APPEND, ",".join(absent)))
    return tuple(changes)


def _capped(rate: int, owned: OwnedKey | None) -> int:
    """Return the rate, or the one that was set before the run where that is lower."""
    before = owned.before if owned else None
    return min(rate, int(before)) if before is not None and before.isdecimal() else rate


def _is_right_rate(value: str | None, rate: int, owned: OwnedKey | None) -> bool:
    if value is None or not value.isdecimal():
        return False
    is_ours = owned is not None and value in owned.written
    return int(value) == rate if is_ours else int(value) <= rate


def without_own_rates(
    changes: Iterable[ConfigChange], owned_keys: Iterable[OwnedKey], configs: Configs
) -> tuple[ConfigChange, ...]:
    """Return the missing changes but for rates that follow others of ours: copies are throttled by
    the former one until a broker shows the new one.
    """
    written = {owned.resource_key: owned.written for owned in owned_keys if owned.is_open}

    def has_own_rate(change: ConfigChange) -> bool:
        present = dynamic_value(configs, *change.resource_key)
        return change.key in RATE_KEYS and present in written.get(change.resource_key, ())

    return tuple(change for change in changes if not has_own_rate(change))


def removed_by_others(
    changes: Iterable[ConfigChange], owned_keys: Sequence[OwnedKey], configs: Configs
) -> tuple[ConfigChange, ...]:
    """Return those of the changes, missing for copies in flight, that were made before: these were
    read back before the copies began, so that somebody else has removed them.
    """
    written = {owned.resource_key: owned.written for owned in owned_keys if owned.done_at is None}

    def was_removed(change: ConfigChange) -> bool:
        ours = written.get(change.resource_key, ())
        is_list = change.key in LIST_KEYS
        return not set(ours).isdisjoint(list_entries(change.value)) if is_list else bool(ours)

    return tuple(filter(was_removed, without_own_rates(changes, owned_keys, configs)))


def is_last_rate_shown(owned: OwnedKey, configs: Configs) -> bool:
    """Return whether a broker shows the last of several rates that were set there, and each call
    was answered: earlier ones are ours no more.
    """
    if owned.key not in RATE_KEYS or len(owned.written) < 2 or owned.unanswered_at is not None:
        return False
    return dynamic_value(configs, *owned.resource_key) == owned.written[-1]


def copied_partitions(
    moving: Mapping[TopicPartition, Reassignment], topics: Iterable[TopicDescription]
) -> frozenset[TopicPartition]:
    """Return the partitions of these topics of which a replica is copied now."""
    names = {tp.topic for tp in moving}
    in_sync = {
        TopicPartition(topic.topic, partition.partition): partition.isr
        for topic in topics
        if topic.topic in names
        for partition in topic.partitions
    }
    return frozenset(
        tp for tp, isr in in_sync.items() if tp in moving and not {*moving[tp].adding}.issubset(isr)
    )


def keys_in_use(configs: Configs, copied: Collection[TopicPartition]) -> frozenset[ResourceKey]:
    """Return the keys that throttle copies of these partitions, whoever began them: a list by its
    entries, and a rate through such an entry.
    """
    used: set[ResourceKey] = set()
    for topic in {tp.topic for tp in copied}:
        for list_key, rate in ((LEADER_REPLICAS, LEADER_RATE), (FOLLOWER_REPLICAS, FOLLOWER_RATE)):
            resource_key = (topic_resource(topic), list_key)
            present = list_entries(dynamic_value(configs, *resource_key))
            for entry in entries_in_use(topic, present, copied):
                broker_id = int(entry.partition(":")[2])
                used |= {resource_key, (broker_resource(broker_id), rate)}
    return frozenset(used)


def entries_in_use(
    topic: str, entries: Iterable[str], copied: Collection[TopicPartition]
) -> set[str]:
    """Return those entries of a topic's list that throttle copies of these partitions."""
    numbers = {str(tp.partition) for tp in copied if tp.topic == topic}
    return {entry for entry in entries if entry.partition(":")[0] in numbers}


def list_entries(value: str | None) -> list[str]:
    return [entry.strip() for entry in (value or "").split(",") if entry.strip()]
