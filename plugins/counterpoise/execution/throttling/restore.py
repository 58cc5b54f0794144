"""Brings throttle keys back to what they were: which keys, when, and by which change. Pure.

    keys_to_own(changes, configs, owned_keys, run_id)    # as the ledger has to have them first
    unneeded_entries(throttles, observation)    # of lists that are still needed
    idle_keys(throttles, observation)           # those that nothing in flight, or to come, needs
    restore_all_keys(inputs)                    # all of them, at the end of a run
    restoring_change(owned, configs)            # None: nothing of ours is in this key
    change_to_send(owned, configs)              # and for what a broker may not show yet
    keys_to_restore(plan, configs)              # what the plan may have set; without the ledger

A key goes back only while it has what we wrote: compare, then set. What others changed stays. And
none is taken for restored before a change that restores it was answered: a broker whose metadata
is behind shows it as it was before we wrote.
"""

from collections.abc import Iterable
from dataclasses import replace

from counterpoise.execution.commands import Command, Finish, KeyChange, Restore, Wait
from counterpoise.execution.conditions import of, when_over
from counterpoise.execution.decision_inputs import DecisionInputs
from counterpoise.execution.observation import Observation
from counterpoise.execution.throttling.targets import (
    EVERY_REPLICA,
    Configs,
    WantedThrottles,
    dynamic_value,
    entries_in_use,
    list_entries,
    throttles_of_plan,
)
from counterpoise.model.kafka import LIST_KEYS, ConfigChange, ConfigOperation
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.run import OwnedKey
from counterpoise.model.run_progress import Condition


def keys_to_own(
    changes: Iterable[ConfigChange],
    configs: Configs,
    owned_keys: Iterable[OwnedKey],
    run_id: str,
) -> list[OwnedKey]:
    """Return the keys as they are owned once these changes are sent.

    What is ours in a key is no value of before, whichever run wrote it: where a list reads
    `0:4,7:9`, and an ended run added `0:4` by a call that came late, it was `7:9` before.
    """
    open_keys = {owned.resource_key: owned for owned in owned_keys if owned.is_open}
    keys = []
    for change in changes:
        present = dynamic_value(configs, *change.resource_key)
        added = list_entries(change.value)
        owned = open_keys.get(change.resource_key)
        if owned is None:
            key = OwnedKey(run_id, change.resource, change.key, present, tuple(added))
        else:
            earlier = tuple(value for value in owned.written if value not in added)
            before = without_ours(owned, present)
            key = replace(owned, before=before, written=(*earlier, *added))
        keys.append(key)
    return keys


def subtracted_from(
    keys: Iterable[KeyChange], owned_anyway: Iterable[OwnedKey] = ()
) -> list[OwnedKey]:
    """Return the lists from which entries are taken: a call that does so later, when the list is
    unset, leaves an empty one there.
    """
    known = {owned.resource_key for owned in owned_anyway}
    subtracts = (key for key, change in keys if change.operation is ConfigOperation.SUBTRACT)
    return [key for key in subtracts if key.resource_key not in known]


def without_ours(owned: OwnedKey, present: str | None) -> str | None:
    """Return what a key would be, had nobody of ours written to it."""
    if owned.key not in LIST_KEYS:
        return owned.before if present in owned.written else present
    entries = list_entries(present)
    others = [entry for entry in entries if entry not in owned.written]
    if set(others) == set(list_entries(owned.before)):
        return owned.before  # nobody else changed it: exactly as it was
    return present if len(others) == len(entries) else ",".join(others)


def idle_keys(throttles: WantedThrottles, observation: Observation) -> tuple[KeyChange, ...]:
    """Return the keys of the run that nothing in flight, or to come, needs any more, each with the
    change that restores it: they go back at once, broker by broker and topic by topic.
    """
    needed = throttles.keys | observation.keys_in_use
    idle = [owned for owned in observation.own_keys if owned.resource_key not in needed]
    return _with_change(idle, observation)


def unneeded_entries(throttles: WantedThrottles, observation: Observation) -> tuple[KeyChange, ...]:
    """Return what takes entries of ours back from lists that are still needed."""
    changes = []
    needed = throttles.keys
    for owned in observation.own_keys:
        if owned.key not in LIST_KEYS or owned.resource_key not in needed:
            continue
        needed_entries = set(throttles.lists.get(owned.resource_key, ()))
        present = set(list_entries(dynamic_value(observation.configs, *owned.resource_key)))
        idle = [e for e in owned.written if e in present and e not in needed_entries]
        needed_entries |= entries_in_use(owned.resource.name, idle, observation.copied)
        if unneeded := [entry for entry in idle if entry not in needed_entries]:
            operation, entries = ConfigOperation.SUBTRACT, ",".join(unneeded)
            changes.append((owned, ConfigChange(owned.resource, owned.key, operation, entries)))
    return tuple(changes)


def restore_all_keys(inputs: DecisionInputs) -> Command:
    """Return what restores each key of a run whose broker is live; Finish when none is left.

    Brokers that are live and do not respond are waited for, and so are copies that use a key of
    ours, which somebody else has redirected; but not for ever.
    """
    observation = inputs.observation
    unrestored = [owned for owned in observation.own_keys if owned.done_at is None]
    of_dead_brokers = tuple(key for key in unrestored if _is_of_dead_broker(key, observation))
    in_use = tuple(key for key in unrestored if key.resource_key in observation.keys_in_use)
    left = tuple(dict.fromkeys((*of_dead_brokers, *in_use)))
    if keys := _with_change([key for key in observation.own_keys if key not in left], observation):
        return Restore(keys)
    unread = [
        key
        for key in unrestored
        if key not in left and key.resource.is_broker and key.resource not in observation.configs
    ]
    redirected = of(Condition.USED_BY_OTHERS, sorted(map(str, observation.copied)))
    if in_use and not inputs.is_over(redirected):
        return Wait(redirected)
    gave_up = when_over(redirected, inputs.limits) if in_use else ""
    if not unread:
        return Finish(left, gave_up)
    reason = of(Condition.UNRESPONSIVE, sorted({int(key.resource.name) for key in unread}))
    if inputs.is_over(reason):
        return Finish((*left, *unread), gave_up)
    return Wait(reason, is_brief=True)


def _with_change(keys: Iterable[OwnedKey], observation: Observation) -> tuple[KeyChange, ...]:
    """Return the keys that hold something of ours, or may do so, each with the change that restores
    it.
    """
    changes = ((owned, change_to_send(owned, observation.configs)) for owned in keys)
    return tuple((owned, change) for owned, change in changes if change is not None)


def _is_of_dead_broker(owned: OwnedKey, observation: Observation) -> bool:
    """Return whether a key cannot be reached: nobody can read or write a dead broker's config."""
    resource = owned.resource
    return resource.is_broker and int(resource.name) not in observation.live_broker_ids


def restoring_change(owned: OwnedKey, configs: Configs) -> ConfigChange | None:
    """Return the change that brings a key back to what it was; None when nothing of ours is in it.

    A rate that is no longer ours was changed by somebody else and stays as it is. Of a list
    `0:4,7:9` of which `0:4` is ours, only that entry is removed.
    """
    present = dynamic_value(configs, *owned.resource_key)
    value = without_ours(owned, present)
    if owned.key not in LIST_KEYS:
        return None if present == value else _set_or_delete(owned, value)
    if present is None or present == owned.before:
        return None
    entries = list_entries(present)
    removed = [entry for entry in entries if entry in owned.written]
    is_empty = len(removed) == len(entries) and owned.before is None
    if is_empty or (removed and value == owned.before):
        return _set_or_delete(owned, owned.before)
    if not removed:
        return None
    return ConfigChange(owned.resource, owned.key, ConfigOperation.SUBTRACT, ",".join(removed))


def change_to_send(owned: OwnedKey, configs: Configs) -> ConfigChange | None:
    """Return the change that brings a key back, also where it reads as before, but no such change
    was answered: the broker that was read from may not know what we wrote. It changes nothing where
    nothing of ours is in the key.
    """
    change = restoring_change(owned, configs)
    if change is not None or owned.done_at is not None or owned.resource not in configs:
        return change
    present = dynamic_value(configs, *owned.resource_key)
    if owned.key in LIST_KEYS and present and present != EVERY_REPLICA:
        operation, ours = ConfigOperation.SUBTRACT, ",".join(owned.written)
        return ConfigChange(owned.resource, owned.key, operation, ours) if ours else None
    return _set_or_delete(owned, present) if present == owned.before else None


def _set_or_delete(owned: OwnedKey, value: str | None) -> ConfigChange:
    if value is None:
        return ConfigChange(owned.resource, owned.key, ConfigOperation.DELETE)
    return ConfigChange(owned.resource, owned.key, ConfigOperation.SET, value)


def keys_to_restore(plan: RebalancePlan, configs: Configs, run_id: str) -> list[OwnedKey]:
    """Return the keys that the plan may have set, for an emergency stop without the ledger.

    Without it nobody knows which rate was ours. Every rate on a broker that the plan copies from or
    to goes back to what the plan's snapshot found there; of the lists, only the plan's own entries
    are removed. Of a broker that is not read it is not known what it has: a rate that another one
    has, or none.
    """
    before_values = {
        (setting.resource, setting.key): setting.value for setting in plan.settings_before
    }
    throttles = throttles_of_plan(plan)
    present_rates = {name: dynamic_value(configs, *name) for name in sorted(throttles.rates)}
    ours = {
        name: rate
        for name, rate in present_rates.items()
        if rate is not None and rate != before_values.get(name)
    }
    all_of_ours = tuple(sorted(set(ours.values())))
    keys = []
    for name in present_rates:
        if name in ours or name[0] not in configs:
            written = (ours[name],) if name in ours else all_of_ours
            keys.append(OwnedKey(run_id, *name, before_values.get(name), written))
    for (resource, key), wanted in throttles.lists.items():
        before = before_values.get((resource, key))
        if dynamic_value(configs, resource, key) in (None, before):
            continue
        added = tuple(entry for entry in wanted if entry not in list_entries(before))
        keys.append(OwnedKey(run_id, resource, key, before, written=added))
    return keys
