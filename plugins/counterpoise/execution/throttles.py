"""Replication throttles (KIP-73): which keys a plan needs, what is missing, and how each gets back
to what it was.

    target = wanted_throttles(moves, rate)
    changes = missing(target, configs, touched)  # empty: the throttle is in force
    change = restoring(key, configs)             # None: this key is as it was before

Kafka's own split is followed: the leader list names the replicas before the move, the follower list
only those being added. Lists are merged, never replaced; `*` is left alone; a foreign rate below
ours stays, and is never raised. Only the dynamic value of the broker itself throttles: cluster
defaults have no effect on these keys (KAFKA-10190).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from counterpoise.model.kafka import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    RATE_KEYS,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    ConfigValue,
)
from counterpoise.model.plan import Move
from counterpoise.model.run import TouchedKey
from counterpoise.model.steps import steps_of

EVERY_REPLICA: Final = "*"
_OWN_LEVEL: Final = {
    ConfigResourceType.BROKER: ConfigSource.DYNAMIC_BROKER,
    ConfigResourceType.TOPIC: ConfigSource.DYNAMIC_TOPIC,
}

Configs = Mapping[ConfigResource, Mapping[str, ConfigValue]]


@dataclass(frozen=True, slots=True)
class ThrottleTarget:
    """What has to be in force: one rate on each (broker, key), and list entries on each (topic,
    key).
    """

    rate_bytes_per_second: int
    rates: frozenset[tuple[ConfigResource, str]]
    lists: Mapping[tuple[ConfigResource, str], tuple[str, ...]]

    @property
    def resources(self) -> tuple[ConfigResource, ...]:
        return tuple(sorted({resource for resource, _ in (*self.rates, *self.lists)}))


def broker(broker_id: int) -> ConfigResource:
    return ConfigResource(ConfigResourceType.BROKER, str(broker_id))


def topic(name: str) -> ConfigResource:
    return ConfigResource(ConfigResourceType.TOPIC, name)


def wanted_throttles(moves: Iterable[Move], rate_bytes_per_second: int) -> ThrottleTarget:
    """The throttle under which these moves may be submitted; moves that copy nothing need none."""
    rates: set[tuple[ConfigResource, str]] = set()
    lists: dict[tuple[ConfigResource, str], list[str]] = {}
    for move in moves:
        if not move.adding:
            continue
        for key, rate_key, broker_ids in (
            (LEADER_REPLICAS, LEADER_RATE, _sources(move)),
            (FOLLOWER_REPLICAS, FOLLOWER_RATE, move.adding),
        ):
            lists.setdefault((topic(move.topic), key), []).extend(
                f"{move.partition}:{b}" for b in broker_ids
            )
            rates.update((broker(b), rate_key) for b in broker_ids)
    return ThrottleTarget(
        rate_bytes_per_second, frozenset(rates), {k: tuple(v) for k, v in sorted(lists.items())}
    )


def _sources(move: Move) -> tuple[int, ...]:
    """The replicas that may lead while something is copied: those of before, and of the steps on
    the way.
    """
    return tuple(
        dict.fromkeys((*move.replicas_before, *(b for step in steps_of(move)[:-1] for b in step)))
    )


def own_value(configs: Configs, resource: ConfigResource, key: str) -> str | None:
    """The value set at the resource itself; None when it comes from elsewhere or from nowhere."""
    value = configs.get(resource, {}).get(key)
    return value.value if value is not None and value.source is _OWN_LEVEL[resource.type] else None


def missing(
    target: ThrottleTarget, configs: Configs, touched: Iterable[TouchedKey] = ()
) -> tuple[ConfigChange, ...]:
    """The changes after which the target is in force. Resources that `configs` does not tell are
    left out.

    `touched` are the keys of this run: a rate that is ours follows the target up and down, a
    foreign one is only ever lowered.
    """
    ours = {(t.resource, t.key): t for t in touched if t.restored_at is None}
    changes = []
    for resource, key in sorted(target.rates):
        if resource in configs:
            now, known = own_value(configs, resource, key), ours.get((resource, key))
            rate = _capped(target.rate_bytes_per_second, known)
            if not _is_right_rate(now, rate, known):
                changes.append(ConfigChange(resource, key, ConfigOperation.SET, str(rate)))
    for (resource, key), entries in target.lists.items():
        if resource not in configs:
            continue
        present = _entries(own_value(configs, resource, key))
        if EVERY_REPLICA not in present and (absent := [e for e in entries if e not in present]):
            changes.append(ConfigChange(resource, key, ConfigOperation.APPEND, ",".join(absent)))
    return tuple(changes)


def _capped(rate: int, known: TouchedKey | None) -> int:
    before = known.before_value if known else None
    return min(rate, int(before)) if before is not None and before.isdecimal() else rate


def _is_right_rate(now: str | None, rate: int, known: TouchedKey | None) -> bool:
    if now is None or not now.isdecimal():
        return False
    if known is not None and now in _entries(known.ours):
        return int(now) == rate
    return int(now) <= rate


def gaps(
    changes: Iterable[ConfigChange], touched: Iterable[TouchedKey], configs: Configs
) -> tuple[ConfigChange, ...]:
    """Of the changes that are missing, those that were in force before: somebody else took them
    away.
    """
    seen = {
        (t.resource, t.key): t
        for t in touched
        if t.restored_at is None and t.during_value is not None
    }
    found = []
    for change in changes:
        known = seen.get((change.resource, change.key))
        if known is None:
            continue
        ours = set(_entries(known.ours))
        if change.key in RATE_KEYS:
            if own_value(configs, change.resource, change.key) not in ours:
                found.append(change)
        elif ours & set(_entries(change.value)):
            found.append(change)
    return tuple(found)


def is_in_force(touched: TouchedKey, configs: Configs) -> bool:
    """Whether the key holds something of ours."""
    return bool(
        set(_entries(touched.ours))
        & set(_entries(own_value(configs, touched.resource, touched.key)))
    )


def touches(
    changes: Iterable[ConfigChange], configs: Configs, topic_ids: Mapping[str, str]
) -> tuple[TouchedKey, ...]:
    """What the ledger has to know before these changes are made."""
    return tuple(
        TouchedKey(
            resource=change.resource,
            key=change.key,
            topic_id=topic_ids.get(change.resource.name, "") if change.resource.is_topic else "",
            before_value=own_value(configs, change.resource, change.key),
            ours=change.value,
        )
        for change in changes
    )


def restoring(touched: TouchedKey, configs: Configs) -> ConfigChange | None:
    """The change that brings a key back to what it was, or None when nothing of ours is in it any
    more.

    A rate that is no longer ours was changed by somebody else and stays as it is.
    """
    now = own_value(configs, touched.resource, touched.key)
    if touched.key in RATE_KEYS:
        return _restoring_rate(touched, now)
    return _restoring_list(touched, now)


def _restoring_rate(touched: TouchedKey, now: str | None) -> ConfigChange | None:
    if now not in _entries(touched.ours) or now == touched.before_value:
        return None
    return _set_or_delete(touched, touched.before_value)


def _restoring_list(touched: TouchedKey, now: str | None) -> ConfigChange | None:
    if now is None or now == touched.before_value:
        return None
    entries, ours = _entries(now), set(_entries(touched.ours))
    left = [entry for entry in entries if entry not in ours]
    if set(left) == set(_entries(touched.before_value)) and left != entries:
        return _set_or_delete(
            touched, touched.before_value
        )  # nobody else changed it: exactly as it was
    if not left and touched.before_value is None:
        return _set_or_delete(touched, None)  # set but empty: what a SUBTRACT leaves
    if left != entries:
        present = ",".join(entry for entry in entries if entry in ours)
        return ConfigChange(touched.resource, touched.key, ConfigOperation.SUBTRACT, present)
    return None


def _set_or_delete(touched: TouchedKey, value: str | None) -> ConfigChange:
    if value is None:
        return ConfigChange(touched.resource, touched.key, ConfigOperation.DELETE)
    return ConfigChange(touched.resource, touched.key, ConfigOperation.SET, value)


def _entries(value: str | None) -> list[str]:
    return [entry.strip() for entry in (value or "").split(",") if entry.strip()]
