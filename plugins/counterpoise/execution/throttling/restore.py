"""Brings throttle keys back to what they were: which keys, when, and by which change. Pure.

    keys_touched_by(changes, configs, ...)      # what the ledger has to know of a change
    unneeded_entries(throttles, observation)    # of lists that are still needed
    idle_keys(throttles, observation)           # those that nothing in flight, or to come, needs
    restore_all_keys(inputs)                    # all of them, at the end of a run
    restoring_change(touched, configs)          # None: nothing of ours is in this key
    unseen_change(touched, configs)             # and for what a broker may not show yet
    keys_to_restore(plan, configs)              # what the plan may have set; without the ledger

A key goes back only while it has what we wrote: compare, then set. What others changed stays. And
none is taken for restored before a change that restores it was answered: a broker whose metadata
is behind shows it as it was before we wrote.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

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
    is_topic_gone,
    list_entries,
    throttles_of_plan,
)
from counterpoise.model.kafka import LIST_KEYS, ConfigChange, ConfigOperation, ResourceKey
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.run import TouchedKey
from counterpoise.model.run_progress import Condition


def keys_touched_by(
    changes: Iterable[ConfigChange],
    configs: Configs,
    topic_ids: Mapping[str, str],
    pending: Sequence[TouchedKey],
    own_keys: Iterable[TouchedKey],
    planned_lists: Mapping[ResourceKey, Collection[str]],
) -> tuple[TouchedKey, ...]:
    """Return what the ledger has to know before these changes are made.

    `pending` are the keys of the cluster's runs, newest first, that are not restored, or that a
    call may still change: what they wrote is no value of before. Where a list reads `0:4,7:9`, and
    an ended run added `0:4` by a call that came late, it was `7:9` before. Nor is what a broker
    shows whose metadata is behind: a rate that this run has set before (`own_keys`), or entries
    that it has taken back (`planned_lists` are all that it may ever set).
    """
    own_by_key = {t.resource_key: t for t in own_keys if t.restored_at is None}
    pending_by_key: dict[ResourceKey, list[TouchedKey]] = {}
    for touched in pending:
        if not is_topic_gone(touched, topic_ids):
            pending_by_key.setdefault(touched.resource_key, []).append(touched)
    touched_keys = []
    for change in changes:
        resource_key = change.resource_key
        is_topic = change.resource.is_topic
        present = dynamic_value(configs, *resource_key)
        own = own_by_key.get(resource_key)
        if own is not None and not is_topic_gone(own, topic_ids):
            present = _without_own_earlier(present, own, planned_lists.get(resource_key, ()))
        touched_keys.append(
            TouchedKey(
                resource=change.resource,
                key=change.key,
                topic_id=topic_ids.get(change.resource.name, "") if is_topic else "",
                before_value=restored_value(present, pending_by_key.get(resource_key, ())),
                written_value=change.value,
            )
        )
    return tuple(touched_keys)


def _without_own_earlier(
    present: str | None, own: TouchedKey, planned: Collection[str]
) -> str | None:
    """Return a key's value without what the run has set there before, and that only a broker whose
    metadata is behind still shows.
    """
    if own.key not in LIST_KEYS:
        return own.before_value if present in list_entries(own.earlier_rates) else present
    before, present_entries = list_entries(own.before_value), list_entries(present)
    ours = set(planned) - set(before)
    theirs = [entry for entry in present_entries if entry not in ours]
    if len(theirs) == len(present_entries):
        return present
    return own.before_value if set(theirs) == set(before) else ",".join(theirs)


def restored_value(present: str | None, keys: Iterable[TouchedKey]) -> str | None:
    """Return what a value would be once these keys were restored, one after the other."""
    for touched in keys:
        change = _restoring_change_of(touched, present)
        if change is None:
            continue
        match change.operation:
            case ConfigOperation.DELETE:
                present = None
            case ConfigOperation.SUBTRACT:
                removed = set(list_entries(change.value))
                present = ",".join(e for e in list_entries(present) if e not in removed)
            case _:
                present = change.value
    return present


def idle_keys(
    throttles: WantedThrottles, observation: Observation
) -> tuple[tuple[KeyChange, ...], tuple[TouchedKey, ...]]:
    """Return the keys that nothing in flight, or to come, needs any more.

    They go back at once, broker by broker and topic by topic: first come those that still hold
    something of ours, with the change that restores them, then the others. What is set at a topic
    that was made again under the same name is none of ours.
    """
    unrestored = [touched for touched in observation.touched_keys if touched.restored_at is None]
    gone = [t for t in unrestored if is_topic_gone(t, observation.topic_ids)]
    needed = throttles.keys | observation.keys_in_use
    idle = [
        touched
        for touched in unrestored
        if touched.resource_key not in needed and touched.resource in observation.configs
    ]
    changes = _with_restoring_change(idle, observation)
    still_ours = {touched.resource_key for touched, _ in changes}
    nothing_left = [t for t in idle if t not in gone and t.resource_key not in still_ours]
    return changes, (*gone, *nothing_left)


def unneeded_entries(throttles: WantedThrottles, observation: Observation) -> tuple[KeyChange, ...]:
    """Return what takes entries of ours back from lists that are still needed.

    Entries that the list does not show are taken back with the others, since the broker that was
    read from may not know them yet: what is ours is exact once that was answered.
    """
    changes = []
    needed = throttles.keys
    for touched in observation.touched_keys:
        is_needed_list = touched.key in LIST_KEYS and touched.resource_key in needed
        if not is_needed_list or touched.restored_at is not None:
            continue
        needed_entries = set(throttles.lists.get(touched.resource_key, ()))
        needed_entries |= entries_in_use(touched, observation.copied)
        value = dynamic_value(observation.configs, *touched.resource_key)
        present_entries = set(list_entries(value))
        may_be_there = value is not None and not touched.has_unanswered_call
        unneeded = [
            entry
            for entry in list_entries(touched.written_value)
            if entry not in needed_entries and (may_be_there or entry in present_entries)
        ]
        if unneeded:
            operation, entries = ConfigOperation.SUBTRACT, ",".join(unneeded)
            change = ConfigChange(touched.resource, touched.key, operation, entries)
            changes.append((touched, change))
    return tuple(changes)


def restore_all_keys(inputs: DecisionInputs) -> Command:
    """Return what restores each key of a run whose broker is live; Finish when none is left.

    Brokers that are live and do not respond are waited for, and so are copies that use a key of
    ours, which somebody else has redirected; but not for ever.
    """
    observation = inputs.observation
    unrestored = [touched for touched in observation.touched_keys if touched.restored_at is None]
    of_dead_brokers = tuple(t for t in unrestored if _is_of_dead_broker(t, observation))
    in_use = tuple(t for t in unrestored if t.resource_key in observation.keys_in_use)
    restorable = [t for t in unrestored if t not in of_dead_brokers and t not in in_use]
    if keys := _with_restoring_change(restorable, observation):
        return Restore(keys)
    unread = [
        touched
        for touched in restorable
        if touched.resource.is_broker and touched.resource not in observation.configs
    ]
    redirected = of(Condition.USED_BY_OTHERS, sorted(map(str, observation.copied)))
    if in_use and not inputs.is_over(redirected):
        return Wait(redirected)
    gave_up = when_over(redirected, inputs.limits) if in_use else ""
    left = tuple(dict.fromkeys((*of_dead_brokers, *in_use)))
    if not unread:
        return Finish(left, gave_up)
    reason = of(Condition.UNRESPONSIVE, sorted({int(touched.resource.name) for touched in unread}))
    if inputs.is_over(reason):
        return Finish((*left, *unread), gave_up)
    return Wait(reason, is_brief=True)


def _with_restoring_change(
    keys: Iterable[TouchedKey], observation: Observation
) -> tuple[KeyChange, ...]:
    """Return the keys that hold something of ours, or may do so, each with the change that restores
    it.
    """
    configs = observation.configs
    changes = (
        (touched, restoring_change(touched, configs) or unseen_change(touched, configs))
        for touched in keys
        if not is_topic_gone(touched, observation.topic_ids)
    )
    return tuple((touched, change) for touched, change in changes if change is not None)


def _is_of_dead_broker(touched: TouchedKey, observation: Observation) -> bool:
    """Return whether a key cannot be reached: nobody can read or write a dead broker's config."""
    resource = touched.resource
    return resource.is_broker and int(resource.name) not in observation.live_broker_ids


def restoring_change(touched: TouchedKey, configs: Configs) -> ConfigChange | None:
    """Return the change that brings a key back to what it was; None when nothing of ours is in it.

    A rate that is no longer ours was changed by somebody else and stays as it is. Of a list
    `0:4,7:9` of which `0:4` is ours, only that entry is removed.
    """
    return _restoring_change_of(touched, dynamic_value(configs, *touched.resource_key))


def unseen_change(touched: TouchedKey, configs: Configs) -> ConfigChange | None:
    """Return the change that takes back what a key does not show, as the broker that was read from
    may not know it yet; None once that was answered, or where somebody else changed the key.

    It changes nothing where nothing of ours is in the key.
    """
    is_known = touched.resource in configs
    if touched.is_taken_back or not touched.written_value or not is_known:
        return None
    present = dynamic_value(configs, *touched.resource_key)
    if touched.key in LIST_KEYS and present and present != EVERY_REPLICA:
        operation, ours = ConfigOperation.SUBTRACT, touched.written_value
        return ConfigChange(touched.resource, touched.key, operation, ours)
    return _set_or_delete(touched, present) if present == touched.value_to_restore else None


def _restoring_change_of(touched: TouchedKey, present: str | None) -> ConfigChange | None:
    if touched.key not in LIST_KEYS:
        return _restoring_rate(touched, present)
    return _restoring_list(touched, present)


def _restoring_rate(touched: TouchedKey, present: str | None) -> ConfigChange | None:
    value = touched.value_to_restore
    if present not in list_entries(touched.written_value) or present == value:
        return None
    return _set_or_delete(touched, value)


def _restoring_list(touched: TouchedKey, present: str | None) -> ConfigChange | None:
    value = touched.value_to_restore
    if present is None or present == value:
        return None
    present_entries, written_entries = (
        list_entries(present),
        set(list_entries(touched.written_value)),
    )
    other_entries = [entry for entry in present_entries if entry not in written_entries]
    has_ours = other_entries != present_entries
    if has_ours and set(other_entries) == set(list_entries(value)):
        # Nobody else changed it: exactly as it was.
        return _set_or_delete(touched, value)
    if not other_entries and value is None:
        # Set but empty: what a SUBTRACT leaves.
        return _set_or_delete(touched, None)
    if has_ours:
        removed = ",".join(entry for entry in present_entries if entry in written_entries)
        return ConfigChange(touched.resource, touched.key, ConfigOperation.SUBTRACT, removed)
    return None


def _set_or_delete(touched: TouchedKey, value: str | None) -> ConfigChange:
    if value is None:
        return ConfigChange(touched.resource, touched.key, ConfigOperation.DELETE)
    return ConfigChange(touched.resource, touched.key, ConfigOperation.SET, value)


def keys_to_restore(plan: RebalancePlan, configs: Configs) -> tuple[TouchedKey, ...]:
    """Return the keys that the plan may have set, for an emergency stop without the ledger.

    Without it nobody knows which rate was ours. Every rate on a broker that the plan copies from or
    to goes back to what the plan's snapshot found there; of the lists, only the plan's own entries
    are removed.
    """
    before_values = {
        (setting.resource, setting.key): setting.value for setting in plan.settings_before
    }
    throttles = throttles_of_plan(plan)
    topic_ids = {move.topic: move.topic_id for move in plan.moves}
    keys = []
    for resource, key in sorted(throttles.rates):
        before = before_values.get((resource, key))
        present = dynamic_value(configs, resource, key)
        if present is not None and present != before:
            keys.append(TouchedKey(resource, key, "", before, written_value=present))
    for (resource, key), wanted in throttles.lists.items():
        before = before_values.get((resource, key))
        if dynamic_value(configs, resource, key) in (None, before):
            continue
        added = ",".join(entry for entry in wanted if entry not in (before or "").split(","))
        keys.append(
            TouchedKey(resource, key, topic_ids[resource.name], before, written_value=added)
        )
    return tuple(keys)
