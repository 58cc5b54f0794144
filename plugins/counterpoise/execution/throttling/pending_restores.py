"""Restores what runs that have ended could not restore.

    with ledger.step(cluster) as step:
        restored, pending = restore_pending(admin, journal, step.of_run(journal.run_id))

A dead broker's config can be neither read nor written, so a run may end with keys to restore; and a
broker that was frozen applies what it was sent long ago when it wakes.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from counterpoise.execution.throttling.restore import restoring_change
from counterpoise.execution.throttling.targets import Configs, dynamic_value, is_topic_gone
from counterpoise.kafka_admin.port import ClusterAdmin, read_throttle_keys
from counterpoise.model.run import TouchedKey

if TYPE_CHECKING:
    from counterpoise.ledger import Journal, Step


def restore_pending(
    admin: ClusterAdmin, journal: "Journal", step: "Step"
) -> tuple[tuple[TouchedKey, ...], tuple[TouchedKey, ...]]:
    """Restore what an ended run left; return the keys restored now, and those still pending.

    Compare-then-set, as at the end of a run: a key that somebody changed since is left as it is.
    Keys with a change that nobody answered are read again until every broker has answered: by then
    the change has been applied, or never will be.
    """
    keys = [touched for touched in journal.touched() if is_pending_restore(touched)]
    if not keys:
        return (), ()
    configs = _read_keys(admin, keys)
    topic_ids = _read_topic_ids(admin, keys)
    changes = [
        change
        for touched in keys
        if not is_topic_gone(touched, topic_ids) and (change := restoring_change(touched, configs))
    ]
    if changes:
        step.check()
        admin.alter_configs(changes, deadline=step.deadline)
        configs = _read_keys(admin, keys)
    changed = {change.resource_key for change in changes}
    restored, pending = [], []
    for touched in keys:
        is_unread = touched.resource not in configs
        is_gone = is_topic_gone(touched, topic_ids)
        if is_gone or (not is_unread and restoring_change(touched, configs) is None):
            mark_restored(step, [touched], configs, topic_ids)
        else:
            if touched.restored_at is None:
                pending.append(touched)
            continue
        if touched.restored_at is None or touched.resource_key in changed:
            restored.append(touched)
    registered = {broker.broker_id for broker in admin.describe_cluster().brokers}
    if registered == admin.describe_versions().keys():
        step.clear_unanswered_calls(touched for touched in keys if touched not in pending)
    return tuple(restored), tuple(pending)


def mark_restored(
    step: "Step",
    keys: Iterable[TouchedKey],
    configs: Configs,
    topic_ids: Mapping[str, str],
) -> None:
    """Record the values that these keys have now; nothing of ours is in them any more."""
    for touched in keys:
        if is_topic_gone(touched, topic_ids):
            step.restored(touched, None, "its topic is gone")
            continue
        value = dynamic_value(configs, *touched.resource_key)
        is_as_before = value == touched.before_value
        outcome = "as before" if is_as_before else "changed by somebody else; left as it is"
        step.restored(touched, value, outcome)


def is_pending_restore(touched: TouchedKey) -> bool:
    """Return whether a key of an ended run is not restored, or a call may still change it."""
    return touched.restored_at is None or touched.has_unanswered_call


def _read_keys(admin: ClusterAdmin, keys: Sequence[TouchedKey]) -> Configs:
    live_broker_ids = admin.describe_cluster().live_broker_ids
    resources = [touched.resource for touched in keys]
    return read_throttle_keys(
        admin, (r for r in resources if r.is_topic or int(r.name) in live_broker_ids)
    )


def _read_topic_ids(admin: ClusterAdmin, keys: Sequence[TouchedKey]) -> dict[str, str]:
    names = sorted({touched.resource.name for touched in keys if touched.resource.is_topic})
    topics = admin.describe_topics(names) if names else ()
    return {topic.topic: topic.topic_id for topic in topics}
