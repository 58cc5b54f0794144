"""Restores what runs that have ended could not restore.

    with ledger.step(cluster) as step:
        restored, pending = restore_pending(admin, ledger, cluster, step)

A dead broker's config can be neither read nor written, so a run may end with keys to restore; and a
broker that was frozen applies what it was sent long ago when it wakes.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from counterpoise.execution.recorded_calls import RecordedCalls
from counterpoise.execution.throttling.restore import change_to_send
from counterpoise.execution.throttling.targets import (
    Configs,
    copied_partitions,
    dynamic_value,
    is_topic_gone,
    keys_in_use,
    topic_resource,
)
from counterpoise.kafka_admin.combined_reads import read_throttle_keys
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.grouping import grouped
from counterpoise.model.kafka import ClusterDescription
from counterpoise.model.run import LEFT, UNDER_WAY_STATES, OwnedKey
from counterpoise.model.words import pluralize

if TYPE_CHECKING:
    from counterpoise.kafka_admin.cluster_admin import ClusterAdmin, ClusterReader
    from counterpoise.ledger import Ledger, Step

_IN_USE: Final = "copies in flight use it: restored after their end"


def restore_pending(
    admin: "ClusterAdmin", ledger: "Ledger", cluster: str, step: "Step"
) -> tuple[list[OwnedKey], dict[OwnedKey, str]]:
    """Restore the config keys of ended runs; return those restored now, and those still pending,
    each with why.

    Compare-then-set, as at the end of a run: a key that somebody changed since is left as it is.
    None is restored that copies in flight use, whoever began them: these would lose their throttle.
    Keys with a call that nobody answered are read for a day: then it is void.
    """
    runs_under_way = {run.run_id for run in ledger.runs(cluster=cluster, states=UNDER_WAY_STATES)}
    keys = [key for key in ledger.open_keys(cluster) if key.run_id not in runs_under_way]
    if not keys:
        return [], {}
    described = admin.describe_cluster()
    copied = _copied(admin)
    used_topics = {topic_resource(tp.topic) for tp in copied}
    readable = {key.resource for key in keys if _is_readable(key, described)}
    configs = read_throttle_keys(admin, readable | used_topics)
    in_use = keys_in_use(configs, copied)
    unused = [key for key in keys if key.resource_key not in in_use]
    changes = [(key, change) for key in unused if (change := change_to_send(key, configs))]
    for run_id, of_run in grouped((key.run_id, (key, change)) for key, change in changes).items():
        calls = RecordedCalls(admin, ledger.journal(run_id), is_repeated=True)
        calls.restore(of_run, step.of_run(run_id))
    changed = {key for key, _ in changes}
    record_as_theirs(step, [key for key in unused if key not in changed], configs)
    open_keys = {key.resource_key for key in ledger.open_keys(cluster) if key.done_at is None}
    unrestored = [key for key in keys if key.done_at is None]
    pending = {
        key: _why_pending(key, described, configs, is_used=key.resource_key in in_use)
        for key in unrestored
        # A run under way uses the others, and they are restored after it.
        if key.resource_key in open_keys and not (runs_under_way and key.resource_key in in_use)
    }
    return [key for key in unrestored if key.resource_key not in open_keys], pending


def record_as_theirs(step: "Step", keys: Iterable[OwnedKey], configs: Configs) -> None:
    """Record that nothing of ours is in these keys, for which no change is left to send, and what
    somebody else has set there. A key that is not read stays open.
    """
    for key in keys:
        is_gone = is_topic_gone(key, configs)
        if key.done_at is not None or not (is_gone or key.resource in configs):
            continue
        with step.together():
            step.keys_done([key])
            value = dynamic_value(configs, *key.resource_key)
            if not is_gone and value != key.before:
                shown = "not set" if value is None else value
                step.of_run(key.run_id).event(LEFT, f"{key.name} = {shown}")


def _is_readable(key: OwnedKey, cluster: ClusterDescription) -> bool:
    resource = key.resource
    return resource.is_topic or int(resource.name) in cluster.live_broker_ids


def _copied(reader: "ClusterReader") -> frozenset[TopicPartition]:
    """Return the partitions of which a replica is copied now."""
    moving = reader.list_reassignments()
    topics = reader.describe_topics(sorted({tp.topic for tp in moving})) if moving else ()
    return copied_partitions(moving, topics)


def _why_pending(
    key: OwnedKey, cluster: ClusterDescription, configs: Configs, *, is_used: bool
) -> str:
    """Return why a key is not restored, and when it will be."""
    name, registered = key.resource.name, cluster.registered_broker_ids
    if is_used:
        return _IN_USE
    if key.resource.is_topic or key.resource in configs:
        return "not restored yet: the watch tries again"
    if registered is not None and int(name) not in registered:
        return (
            f"broker {name} is not registered any more: the cluster keeps its config, and this is "
            "restored if a broker with this id registers again"
        )
    if _is_readable(key, cluster):
        return f"broker {name} does not respond: restored when it does"
    return f"broker {name} is dead: restored when it returns"


def pending_in_words(
    keys: Sequence[OwnedKey],
    live_broker_ids: frozenset[int],
    cluster: str,
    *,
    waits_for_moves: bool = False,
) -> str:
    """Return how many keys an ended run has to restore, and who does it; "" for none."""
    if not keys:
        return ""
    of_dead = all(
        key.resource.is_broker and int(key.resource.name) not in live_broker_ids for key in keys
    )
    whose = " of dead brokers" if of_dead else ""
    until = "when they return" if of_dead else "as soon as the brokers respond"
    if waits_for_moves:
        until = "when nothing of the run is in flight any more"
    return (
        f"{pluralize(len(keys), 'config key')}{whose} to restore: restored by `counterpoise watch "
        f"--cluster {cluster}`, or by kafka_throttle_watch, {until}"
    )
