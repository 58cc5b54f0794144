"""Photographs a cluster: all that a planner, an audit and the history need, as Arrow tables. Never
writes.

    snapshot = take_snapshot(reader, cluster="payments", snapshot_id="payments-20260131T1200", observed_at=when)

A cluster moves while it is looked at. Reassignments are read before and after the topics, and a
partition seen in either counts as moving; what else does not fit together (a size without a
partition, say) is left out.

A broker that gives no answer (dead, frozen) holds up nothing: what it alone could tell (log dirs,
offsets of what it leads, its throttle rates) is left out.

Limits: one look, some requests per broker; rates are not known from one look, so
`bytes_in_per_second` stays null (`analysis.with_inflow` has them from two).
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from counterpoise.kafka_admin.port import ClusterReader
from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
from counterpoise.model.disks import disk_over
from counterpoise.model.inspection import Quorum
from counterpoise.model.kafka import (
    LIST_KEYS,
    RATE_KEYS,
    BrokerDescription,
    ClusterDescription,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    ConfigValue,
    LogDirDescription,
    PartitionDescription,
    Reassignment,
    TopicDescription,
)
from counterpoise.model.tables import (
    BROKERS,
    LISTENERS,
    LOG_DIRS,
    PARTITIONS,
    QUORUM,
    REPLICAS,
    THROTTLES,
    TOPIC_CONFIGS,
    TOPICS,
    columns_of,
    table_of,
)

_SET_THERE: Final = (ConfigSource.DYNAMIC_TOPIC, ConfigSource.DYNAMIC_BROKER)

# What a broker holds of a partition: bytes, and the directory they are in.
Copies = Mapping[tuple[str, int, int], tuple[int, str]]
Configs = Mapping[ConfigResource, Mapping[str, ConfigValue]]


def take_snapshot(
    reader: ClusterReader,
    *,
    cluster: str,
    snapshot_id: str,
    observed_at: datetime,
    security_protocol: str = "PLAINTEXT",
) -> ClusterSnapshot:
    """The cluster as `reader` shows it now. `observed_at` (UTC) and `snapshot_id` are the caller's,
    never the clock's.

    `security_protocol` is how the reader came: the endpoints that brokers advertise are those for
    that way. Raises what the reader raises: ClusterUnreachableError, ClusterError.
    """
    description = reader.describe_cluster()
    before = reader.list_reassignments()
    topics = reader.describe_topics()
    moving = {**reader.list_reassignments(), **before}
    log_dirs = reader.describe_log_dirs()
    copies = _copies(log_dirs)
    partitions = [
        (TopicPartition(topic.topic, partition.partition), partition)
        for topic in topics
        for partition in topic.partitions
    ]
    topic_configs = reader.describe_configs(
        _resources(t.topic for t in topics), [*TOPIC_CONFIGS.values(), *LIST_KEYS]
    )
    live = sorted(description.live_broker_ids)
    broker_configs = reader.describe_configs(
        _resources(map(str, live), ConfigResourceType.BROKER), RATE_KEYS
    )
    offsets = reader.list_offsets(
        [key for key, partition in partitions if partition.leader is not None]
    )
    return ClusterSnapshot(
        snapshot_id=snapshot_id,
        cluster=cluster,
        cluster_id=description.cluster_id,
        observed_at=observed_at,
        tables={
            "brokers": _brokers(description, log_dirs),
            "topics": _topics(topics, topic_configs),
            "partitions": _partitions(partitions, moving, copies, offsets),
            "replicas": _replicas(partitions, copies),
            "listeners": _listeners(description, security_protocol),
            "quorum": _quorum(reader.describe_quorum()),
            "log_dirs": _log_dirs(description, log_dirs),
            "throttles": _throttles({**broker_configs, **topic_configs}),
        },
    )


def _resources(
    names: Iterable[str], type_: ConfigResourceType = ConfigResourceType.TOPIC
) -> list[ConfigResource]:
    return [ConfigResource(type_, name) for name in names]


def _throttles(configs: Configs) -> pa.Table:
    """Those set at the resource itself; a cluster-wide default of rates shows, but is without
    effect (KAFKA-10190).
    """
    rows = sorted(
        (str(resource.type), resource.name, key, value.value)
        for resource, values in configs.items()
        for key, value in values.items()
        if key in (*LIST_KEYS, *RATE_KEYS)
        and value.source in _SET_THERE
        and value.value is not None
    )
    return pa.table([[row[n] for row in rows] for n in range(len(THROTTLES))], schema=THROTTLES)


def _copies(log_dirs: Sequence[LogDirDescription]) -> Copies:
    return {
        (key.topic, key.partition, log_dir.broker_id): (size, log_dir.path)
        for log_dir in log_dirs
        for key, size in log_dir.sizes.items()
    }


def _brokers(description: ClusterDescription, log_dirs: Sequence[LogDirDescription]) -> pa.Table:
    disks = [_disk(log_dirs, broker.broker_id) for broker in description.brokers]
    columns = columns_of(BROKERS, BrokerDescription, description.brokers) | {
        "disk_total_bytes": [total for total, _ in disks],
        "disk_usable_bytes": [usable for _, usable in disks],
    }
    return table_of(BROKERS, columns)


def _disk(log_dirs: Sequence[LogDirDescription], broker_id: int) -> tuple[int | None, int | None]:
    """Total and usable bytes of a broker's disks."""
    return disk_over(
        (d.total_bytes, d.usable_bytes)
        for d in log_dirs
        if d.broker_id == broker_id
        and d.error is None
        and d.total_bytes is not None
        and d.usable_bytes is not None
    )


def _log_dirs(description: ClusterDescription, log_dirs: Sequence[LogDirDescription]) -> pa.Table:
    registered = {broker.broker_id for broker in description.brokers}
    known = sorted(
        (d for d in log_dirs if d.broker_id in registered), key=lambda d: (d.broker_id, d.path)
    )
    columns = columns_of(LOG_DIRS, LogDirDescription, known) | {
        "log_dir": [d.path for d in known],
        "held_bytes": [sum(d.sizes.values()) if d.error is None else None for d in known],
    }
    return table_of(LOG_DIRS, columns)


def _topics(topics: Sequence[TopicDescription], configs: Configs) -> pa.Table:
    """Config values as they are in force for the topic, whatever level they come from."""
    told = {resource.name: values for resource, values in configs.items()}

    def config(column: str) -> list[str | int | None]:
        found = (told.get(topic.topic, {}).get(TOPIC_CONFIGS[column]) for topic in topics)
        values = (value.value or None if value else None for value in found)
        is_text = pa.types.is_string(TOPICS.field(column).type)
        return [value if value is None or is_text else int(value) for value in values]

    columns = columns_of(TOPICS, TopicDescription, topics) | {
        "partition_count": [len(topic.partitions) for topic in topics],
        **{column: config(column) for column in TOPIC_CONFIGS},
    }
    return table_of(TOPICS, columns)


def _partitions(
    partitions: Sequence[tuple[TopicPartition, PartitionDescription]],
    moving: Mapping[TopicPartition, Reassignment],
    copies: Copies,
    offsets: Mapping[TopicPartition, tuple[int, int]],
) -> pa.Table:
    still = Reassignment((), (), ())
    reassignments = [moving.get(key, still) for key, _ in partitions]
    ends = [offsets.get(key, (None, None)) for key, _ in partitions]
    described = columns_of(PARTITIONS, PartitionDescription, [p for _, p in partitions])
    columns = described | {
        "topic": [key.topic for key, _ in partitions],
        "adding_replicas": [reassignment.adding for reassignment in reassignments],
        "removing_replicas": [reassignment.removing for reassignment in reassignments],
        "size_bytes": [_size(key, p, copies) for key, p in partitions],
        "earliest_offset": [earliest for earliest, _ in ends],
        "latest_offset": [latest for _, latest in ends],
    }
    return table_of(PARTITIONS, columns)


def _size(key: TopicPartition, partition: PartitionDescription, copies: Copies) -> int | None:
    """Of the leader's copy; without one, of the largest: the others may still be catching up."""
    if partition.leader is not None and (
        copy := copies.get((key.topic, key.partition, partition.leader))
    ):
        return copy[0]
    found = (copies.get((key.topic, key.partition, broker_id)) for broker_id in partition.replicas)
    return max((copy[0] for copy in found if copy is not None), default=None)


def _replicas(
    partitions: Sequence[tuple[TopicPartition, PartitionDescription]], copies: Copies
) -> pa.Table:
    counts = [len(p.replicas) for _, p in partitions]

    def repeated(values: Sequence[Any]) -> list[Any]:
        return list(
            chain.from_iterable(
                [value] * count for value, count in zip(values, counts, strict=True)
            )
        )

    topics = repeated([key.topic for key, _ in partitions])
    numbers = repeated([key.partition for key, _ in partitions])
    broker_ids = list(chain.from_iterable(p.replicas for _, p in partitions))
    held = [copies.get(place) for place in zip(topics, numbers, broker_ids, strict=True)]
    columns = {
        "topic": topics,
        "partition": numbers,
        "broker_id": broker_ids,
        "position": list(chain.from_iterable(range(count) for count in counts)),
        "is_leader": [broker_id == p.leader for _, p in partitions for broker_id in p.replicas],
        "in_sync": [broker_id in p.isr for _, p in partitions for broker_id in p.replicas],
        "size_bytes": [None if copy is None else copy[0] for copy in held],
        "log_dir": [None if copy is None else copy[1] for copy in held],
    }
    return pa.table(columns, schema=REPLICAS)


def _listeners(description: ClusterDescription, security_protocol: str) -> pa.Table:
    columns = {
        "broker_id": [b.broker_id for b in description.brokers],
        "security_protocol": [security_protocol] * len(description.brokers),
        "host": [b.host for b in description.brokers],
        "port": [b.port for b in description.brokers],
    }
    return pa.table(columns, schema=LISTENERS)


def _quorum(quorum: Quorum | None) -> pa.Table:
    rows = quorum.by_role if quorum else ()
    times = [node.last_caught_up_ms for _, node in rows]
    columns = {
        "node_id": [node.node_id for _, node in rows],
        "role": [role for role, _ in rows],
        "log_end_offset": [node.log_end_offset for _, node in rows],
        "last_caught_up_at": [
            None if ms is None else datetime.fromtimestamp(ms / 1000, UTC) for ms in times
        ],
    }
    return pa.table(columns, schema=QUORUM)
