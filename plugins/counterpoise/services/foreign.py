"""What no run of ours has set or moves, in words, with the commands that end it.

    foreign_throttles(reader, configs_of_runs, ours)
    endless_reassignments(reader)      # "orders-0: adding 4, removing 4: ..."

Nothing of it is touched. Limits: of topics that no run of ours has throttled, one broker is asked.
"""

from collections.abc import Collection, Sequence, Set
from contextlib import suppress
from typing import TYPE_CHECKING

from counterpoise.audit.commands import add_config, cancel_reassignments, delete_config
from counterpoise.errors import BrokerUnresponsiveError
from counterpoise.execution.throttling.targets import broker_resource, dynamic_value, topic_resource
from counterpoise.kafka_admin.combined_reads import read_throttle_keys
from counterpoise.model.kafka import LIST_KEYS, ConfigResource, ResourceKey
from counterpoise.model.words import join_ids

if TYPE_CHECKING:
    from counterpoise.kafka_admin.cluster_admin import ClusterReader


def foreign_throttles(
    reader: "ClusterReader", of_runs: Collection[ConfigResource], ours: Set[ResourceKey]
) -> tuple[str, ...]:
    """Return the throttle keys that are set and not `ours`, with their values.

    Topics `of_runs` are read from every broker. After a restart a broker has the lists of
    a deleted topic again, for a new one of that name, and no other broker shows them.
    """
    topics = {topic_resource(description.topic) for description in reader.describe_topics()}
    live_broker_ids = sorted(reader.describe_cluster().live_broker_ids)
    configs = read_throttle_keys(reader, [*topics, *map(broker_resource, live_broker_ids)])
    shown_by: dict[tuple[ConfigResource, str, str], list[int]] = {}
    for resource, keys in configs.items():
        for key in keys:
            if (value := dynamic_value(configs, resource, key)) is not None:
                shown_by[resource, key, value] = []
    again = sorted(topics.intersection(of_runs))
    for broker_id in live_broker_ids if again else ():
        with suppress(BrokerUnresponsiveError):
            seen = reader.describe_configs(again, LIST_KEYS, via_broker=broker_id)
            for resource, keys in seen.items():
                for key in keys:
                    if (value := dynamic_value(seen, resource, key)) is not None:
                        shown_by.setdefault((resource, key, value), []).append(broker_id)
    return tuple(
        f"{resource.type} {resource.name}: {key} = {value!r}{_where(brokers, live_broker_ids)} "
        f"(no run of ours has set it: delete it if nobody needs it: `{_deletion(resource, key)}`)"
        for (resource, key, value), brokers in sorted(shown_by.items())
        if (resource, key) not in ours
    )


def _where(shown_by: Sequence[int], live_broker_ids: Sequence[int]) -> str:
    if not shown_by or len(shown_by) == len(live_broker_ids):
        return ""
    return (
        f", shown by {join_ids(shown_by)} alone: it was the list of a deleted topic of that name, "
        "which came back when the broker was restarted"
    )


def _deletion(resource: ConfigResource, key: str) -> str:
    """Return what deletes a key. A list that came back has to be set first: deleting alone changes
    nothing.
    """
    kind = f"{resource.type}s"
    deletion = delete_config(kind, resource.name, (key,))
    if resource.is_broker:
        return deletion
    return f"{add_config(kind, resource.name, {key: ''})} && {deletion}"


def endless_reassignments(reader: "ClusterReader") -> tuple[str, ...]:
    """Return the reassignments that Kafka never ends, since somebody redirected a move back to what
    it was adding: all replicas are in sync then, and nothing copies.
    """
    return tuple(
        f"{partition}: adding {join_ids(found.adding)}, removing {join_ids(found.removing)}: the "
        "same replica is added and removed, which Kafka never ends: cancel it: "
        f"`{' && '.join(cancel_reassignments([partition]))}`"
        for partition, found in sorted(reader.list_reassignments().items())
        if found.never_ends
    )
