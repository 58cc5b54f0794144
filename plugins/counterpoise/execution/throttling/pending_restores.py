"""Restores what runs that have ended could not restore.

    with ledger.step(cluster) as step:
        restored, pending = restore_pending(admin, journal, step.of_run(journal.run_id))

A dead broker's config can be neither read nor written, so a run may end with keys to restore; and a
broker that was frozen applies what it was sent long ago when it wakes.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from counterpoise.execution.commands import KeyChange
from counterpoise.execution.observation import Observation
from counterpoise.execution.recorded_calls import RecordedCalls
from counterpoise.execution.throttling.restore import (
    restored_value,
    restoring_change,
    unseen_change,
)
from counterpoise.execution.throttling.targets import (
    Configs,
    dynamic_value,
    is_topic_gone,
    list_entries,
)
from counterpoise.kafka_admin.combined_reads import read_throttle_keys
from counterpoise.model.cluster import is_another_topic
from counterpoise.model.kafka import ConfigChange, ResourceKey
from counterpoise.model.run import CHANGED_BY_SOMEBODY_ELSE, LOST_AFTER, TouchedKey
from counterpoise.model.words import pluralize

if TYPE_CHECKING:
    from counterpoise.kafka_admin.cluster_admin import ClusterAdmin
    from counterpoise.ledger import Journal, Step

_NOT_YET: Final = "not restored yet: the watch tries again"
IN_USE: Final = "copies in flight use it: restored after their end"


def restore_pending(
    admin: "ClusterAdmin", journal: "Journal", step: "Step", needed: Collection[ResourceKey] = ()
) -> tuple[tuple[TouchedKey, ...], tuple[TouchedKey, ...]]:
    """Restore what an ended run left; return the keys restored now, and those still pending.

    Compare-then-set, as at the end of a run: a key that somebody changed since is left as it is.
    Keys with a change that nobody answered are read again for a day after their restore: then it is
    taken for lost. A broker that is not registered any more applies nothing: its
    keys stay pending, since the cluster keeps its config for when it registers again. What a run
    under way may need (`needed`) is left alone.
    """
    keys = _pending_keys(journal, needed)
    if not keys:
        return (), ()
    cluster = admin.describe_cluster()
    configs = _read_keys(admin, keys)
    topic_ids = _read_topic_ids(admin, keys)
    changes = tuple(
        (touched, change)
        for touched in keys
        if not is_topic_gone(touched, topic_ids) and (change := _change_of(touched, configs))
    )
    if changes:
        _restore(changes, RecordedCalls(admin, journal, is_repeated=True), step)
        configs = _read_keys(admin, keys)
        keys = _pending_keys(journal, needed)
    as_it_should_be = [
        touched
        for touched in keys
        if is_topic_gone(touched, topic_ids)
        or (touched.resource in configs and _change_of(touched, configs) is None)
    ]
    mark_restored(step, as_it_should_be, configs, topic_ids, journal.pending_restores())
    restored = [touched for touched in as_it_should_be if touched.restored_at is None]
    pending = [
        _explained(touched, cluster.registered_broker_ids, step)
        for touched in keys
        if touched.restored_at is None and touched not in restored
    ]
    still_pending = {touched.resource_key for touched in pending}
    settled = [touched for touched in keys if touched.resource_key not in still_pending]
    over = [t for t in settled if _was_restored(t, before=step.now() - LOST_AFTER)]
    unregistered = [t for t in keys if _is_unregistered(t, cluster.registered_broker_ids)]
    step.clear_unanswered_calls([*over, *unregistered])
    return tuple(restored), tuple(pending)


def _pending_keys(journal: "Journal", needed: Collection[ResourceKey]) -> list[TouchedKey]:
    pending = filter(is_pending_restore, journal.touched())
    return [touched for touched in pending if touched.resource_key not in needed]


def _restore(changes: Sequence[KeyChange], calls: RecordedCalls, step: "Step") -> None:
    accepted = frozenset(calls.restore(changes, step).accepted)
    step.restoring_answered(touched for touched, _ in changes if touched.resource in accepted)


def _change_of(touched: TouchedKey, configs: Configs) -> ConfigChange | None:
    """Return the change that restores a key; None where nothing of ours is in it, nor may be unseen
    in one that was never restored.
    """
    change = restoring_change(touched, configs)
    if change is None and touched.restored_at is None:
        return unseen_change(touched, configs)
    return change


def _explained(touched: TouchedKey, registered: frozenset[int] | None, step: "Step") -> TouchedKey:
    """Return a pending key with why it is; recorded where its broker is not registered any more."""
    if not _is_unregistered(touched, registered):
        return touched
    outcome = _why_pending(touched, registered)
    if touched.outcome != outcome:
        step.restore_later(touched, outcome)
    return replace(touched, outcome=outcome)


def _was_restored(touched: TouchedKey, before: datetime) -> bool:
    """Return whether a call on its way when the key was restored has been applied, or is lost."""
    return touched.restored_at is not None and touched.restored_at <= before


def end_keys(
    step: "Step",
    observation: Observation,
    pending_restores: Sequence[TouchedKey],
    pending: Sequence[TouchedKey],
) -> None:
    """Record at the end of a run what became of its keys: some of them are restored later.

    `pending` as for `mark_restored`.
    """
    ended = [
        touched
        for touched in observation.touched_keys
        if touched.restored_at is None and touched not in pending_restores
    ]
    mark_restored(step, ended, observation.configs, observation.topic_ids, pending)
    for touched in pending_restores:
        step.restore_later(touched, _why_pending_at_end(touched, observation))


def mark_restored(
    step: "Step",
    keys: Iterable[TouchedKey],
    configs: Configs,
    topic_ids: Mapping[str, str],
    pending: Sequence[TouchedKey] = (),
) -> None:
    """Record the values that these keys have now; nothing of this run is in them any more.

    `pending` are the keys that runs of the cluster have to restore still, newest run first. A topic
    made again under the same name is looked after where it has our list, or may get it late.
    """
    with step.together():
        for touched in keys:
            if is_topic_gone(touched, topic_ids):
                if ours := _ours_at_topic_made_again(touched, configs, topic_ids):
                    step.touching([ours])
                else:
                    step.restored(touched, None, "its topic is gone")
                continue
            value = dynamic_value(configs, *touched.resource_key)
            step.restored(touched, value, _outcome(touched, value, pending))


def _ours_at_topic_made_again(
    touched: TouchedKey, configs: Configs, topic_ids: Mapping[str, str]
) -> TouchedKey | None:
    """Return the key of the topic that has the name now, with what of ours it has or may get.

    None where what the topic has is not ours. Deleting a topic deletes its config: a list that is
    the very one set last came with that call, to the topic that was made again before it.
    """
    topic_id = topic_ids.get(touched.resource.name)
    if topic_id is None:
        return None
    present = dynamic_value(configs, *touched.resource_key)
    ours, present_entries = list_entries(touched.written_value), set(list_entries(present))
    absent = [entry for entry in ours if entry not in present_entries]
    was_read_back = touched.during_value is not None  # at the topic that is gone: not that call
    if ours and not was_read_back and present_entries == set(ours):
        return replace(touched, topic_id=topic_id, before_value=None)
    if not touched.has_unanswered_call or not absent:
        return None
    return replace(touched, topic_id=topic_id, before_value=present, written_value=",".join(absent))


def _outcome(touched: TouchedKey, value: str | None, pending: Iterable[TouchedKey]) -> str:
    if value == touched.before_value:
        return "as before"
    of_same_key = (
        other
        for other in pending
        if other.resource_key == touched.resource_key
        and not is_another_topic(other.topic_id, touched.topic_id)
    )
    restored = restored_value(value, of_same_key)
    if restored == touched.before_value:
        return "as before, but for what an earlier run left: the watch restores it"
    if restored != value:
        return "changed by somebody else, and by an earlier run, which the watch restores"
    return CHANGED_BY_SOMEBODY_ELSE


def is_pending_restore(touched: TouchedKey) -> bool:
    """Return whether a key of an ended run is not restored, or a call may still change it."""
    return touched.restored_at is None or touched.has_unanswered_call


def _read_keys(admin: "ClusterAdmin", keys: Sequence[TouchedKey]) -> Configs:
    live_broker_ids = admin.describe_cluster().live_broker_ids
    resources = [touched.resource for touched in keys]
    return read_throttle_keys(
        admin, (r for r in resources if r.is_topic or int(r.name) in live_broker_ids)
    )


def _read_topic_ids(admin: "ClusterAdmin", keys: Sequence[TouchedKey]) -> dict[str, str]:
    names = sorted({touched.resource.name for touched in keys if touched.resource.is_topic})
    topics = admin.describe_topics(names) if names else ()
    return {topic.topic: topic.topic_id for topic in topics}


def _is_unregistered(touched: TouchedKey, registered: frozenset[int] | None) -> bool:
    """Return whether a key is of a broker of which it is known that it is not registered."""
    resource = touched.resource
    return resource.is_broker and registered is not None and int(resource.name) not in registered


def _why_pending_at_end(touched: TouchedKey, observation: Observation) -> str:
    """Return why a key cannot be restored now, and when it will be."""
    resource = touched.resource
    if touched.resource_key in observation.keys_in_use:
        return IN_USE
    if resource.is_topic:
        return _NOT_YET
    if int(resource.name) in observation.unresponsive_broker_ids:
        return f"broker {resource.name} does not respond: restored when it does"
    if int(resource.name) in observation.live_broker_ids:
        return _NOT_YET
    return _why_pending(touched, observation.registered_broker_ids)


def _why_pending(touched: TouchedKey, registered: frozenset[int] | None) -> str:
    name = touched.resource.name
    if _is_unregistered(touched, registered):
        return (
            f"broker {name} is not registered any more: the cluster keeps its config, and this is "
            "restored if a broker with this id registers again"
        )
    return f"broker {name} is dead: restored when it returns"


def pending_in_words(
    keys: Sequence[TouchedKey],
    live_broker_ids: frozenset[int],
    cluster: str,
    *,
    waits_for_moves: bool = False,
) -> str:
    """Return how many keys an ended run has to restore, and who does it; "" for none."""
    if not keys:
        return ""
    of_dead = all(
        t.resource.is_broker and int(t.resource.name) not in live_broker_ids for t in keys
    )
    whose = " of dead brokers" if of_dead else ""
    until = "when they return" if of_dead else "as soon as the brokers respond"
    if waits_for_moves:
        until = "when nothing of the run is in flight any more"
    return (
        f"{pluralize(len(keys), 'config key')}{whose} to restore: restored by `counterpoise watch "
        f"--cluster {cluster}`, or by kafka_throttle_watch, {until}"
    )
