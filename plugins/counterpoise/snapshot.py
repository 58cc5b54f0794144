"""Takes a snapshot of a cluster as Arrow tables: for planning, audit and history. Never writes.

    snapshot = take_snapshot(reader, cluster="payments", snapshot_id="payments-20260131T120000Z",
                             observed_at=now)

A cluster changes while it is read. Reassignments are read before and after the topics, and a
partition that is in either counts as moving. What else does not fit together (a size without a
partition, say) is left out.

A broker that does not respond (dead, frozen) delays nothing: what it alone could report (log dirs,
offsets of partitions that it leads, its throttle rates) is left out. Where a provider may let
nobody read that, it is left out of all brokers alike, with a warning (`may_hide_brokers`).

Limits: read once, with some requests to each broker. Without log dirs, a topic that this principal
may not see is not noticed. Rates are not known from one snapshot, so `bytes_in_per_second` is null
(`analysis.with_inflow` computes it from two).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.errors import ClusterError, NotPermittedError, UnsupportedRequestError
from counterpoise.model.cluster import ClusterSnapshot, TopicPartition, tiered_topics
from counterpoise.model.connectivity import ClusterMetadata
from counterpoise.model.inspection import (
    LEAST_LAG,
    TOPIC_KEYS,
    USED_UP_PERCENT,
    ConsumerGroup,
    HangingTransactions,
    Inspection,
    InspectionItem,
    LogOffsets,
    Quorum,
)
from counterpoise.model.kafka import (
    CORDONED_LOG_DIRS,
    EVERY_BROKER,
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
    disk_over,
)
from counterpoise.model.safe_text import safe_logger
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
    rows_of,
    table_of,
)
from counterpoise.model.words import join_names, name_brokers

if TYPE_CHECKING:
    from counterpoise.kafka_admin.cluster_admin import ClusterAdmin, ClusterReader

_LOGGER = safe_logger(__name__)
_MAX_TRIED_TOPICS: Final = 100
_SET_AT_RESOURCE: Final = (ConfigSource.DYNAMIC_TOPIC, ConfigSource.DYNAMIC_BROKER)

# (topic, partition, broker) -> bytes of that replica, and its log dir.
StoredReplicas = Mapping[tuple[str, int, int], tuple[int, str]]
Configs = Mapping[ConfigResource, Mapping[str, ConfigValue]]
Partitions = Sequence[tuple[TopicPartition, PartitionDescription]]
Value = TypeVar("Value")


def take_snapshot(
    reader: "ClusterReader",
    *,
    cluster: str,
    snapshot_id: str,
    observed_at: datetime,
    security_protocol: str = "PLAINTEXT",
    may_hide_brokers: bool = False,
) -> ClusterSnapshot:
    """Return the cluster as `reader` shows it now.

    `observed_at` (UTC) and `snapshot_id` are chosen by the caller. `security_protocol` is that of
    the reader's connection: brokers advertise the endpoints of that listener. With
    `may_hide_brokers`, what may not be read of them is not known; topics have to be shown. Raises
    what the reader raises: ClusterUnreachableError, ClusterError, NotPermittedError.
    """
    guarded = _GuardedReads(may_hide_brokers)
    description = reader.describe_cluster()
    # First: without an active controller this fails within seconds, the others within a minute.
    quorum = guarded.read("metadata quorum", reader.describe_quorum)
    topics, reassignments = _read_topics(reader, guarded)
    log_dirs = guarded.read("log dirs and sizes", reader.describe_log_dirs) or ()
    stored = _stored_replicas(log_dirs)
    _check_nothing_hidden(reader, topics, stored)
    partitions = _partitions_of(topics)
    if _unreported_broker_ids(description, partitions):  # a broker may have joined meanwhile
        description = reader.describe_cluster()
    topic_configs = _read_topic_configs(reader, topics)
    read_rates = partial(_read_broker_rates, reader, description)
    broker_configs = guarded.read("throttle rates of brokers", read_rates) or {}
    offsets = reader.list_offsets([key for key, p in partitions if p.leader is not None])
    guarded.warn_of_hidden()
    topic_table = _topics(topics, topic_configs)
    tiered = tiered_topics(topic_table)
    return ClusterSnapshot(
        snapshot_id=snapshot_id,
        cluster=cluster,
        cluster_id=description.cluster_id,
        observed_at=observed_at,
        tables={
            "brokers": _brokers(description, log_dirs, partitions),
            "topics": topic_table,
            "partitions": _partitions(partitions, reassignments, stored, offsets, tiered),
            "replicas": _replicas(partitions, stored),
            "listeners": _listeners(description, security_protocol),
            "quorum": _quorum(quorum),
            "log_dirs": _log_dirs(description, log_dirs, broker_configs),
            "throttles": _throttles({**broker_configs, **topic_configs}),
        },
    )


def snapshot_of_metadata(
    metadata: ClusterMetadata,
    *,
    cluster: str,
    cluster_id: str,
    snapshot_id: str = "",
    observed_at: datetime | None = None,
    security_protocol: str = "PLAINTEXT",
) -> ClusterSnapshot:
    """Return what one broker's metadata has of a snapshot: brokers, topics, leaders and ISR.

    Sizes, configs, offsets and throttles are not known; the quorum is not.
    """
    description = ClusterDescription(cluster_id, metadata.brokers)
    partitions = _partitions_of(metadata.topics)
    return ClusterSnapshot(
        snapshot_id=snapshot_id,
        cluster=cluster,
        cluster_id=cluster_id,
        observed_at=observed_at,
        tables={
            "brokers": _brokers(description, (), partitions),
            "topics": _topics(metadata.topics, {}),
            "partitions": _partitions(partitions, {}, {}, {}, frozenset()),
            "replicas": _replicas(partitions, {}),
            "listeners": _listeners(description, security_protocol),
            "quorum": _quorum(None),
            "log_dirs": _log_dirs(description, (), {}),
            "throttles": _throttles({}),
        },
    )


class _GuardedReads:
    """Reads what a principal may not be permitted to; with `may_hide`, it is left out and noted."""

    def __init__(self, may_hide: bool) -> None:
        self._may_hide = may_hide
        self._hidden: dict[str, None] = {}

    def read(self, what: str, call: Callable[[], Value]) -> Value | None:
        """Return what was read, or None. Raises what the call raises."""
        try:
            return call()
        except NotPermittedError:
            if not self._may_hide:
                raise
            self._hidden[what] = None
            return None

    def warn_of_hidden(self) -> None:
        if names := join_names(tuple(self._hidden)):
            _LOGGER.warning("not known, since this connection may not read them: %s", names)


def _read_topics(
    reader: "ClusterReader", guarded: _GuardedReads
) -> tuple[Sequence[TopicDescription], Mapping[TopicPartition, Reassignment]]:
    """Return the topics, and every reassignment that was ongoing before or after that."""
    before = guarded.read("reassignments", reader.list_reassignments) or {}
    topics = reader.describe_topics()
    after = guarded.read("reassignments", reader.list_reassignments) or {}
    return topics, {**after, **before}


def _partitions_of(topics: Sequence[TopicDescription]) -> Partitions:
    return [
        (TopicPartition(topic.topic, partition.partition), partition)
        for topic in topics
        for partition in topic.partitions
    ]


def _check_nothing_hidden(
    reader: "ClusterReader", topics: Sequence[TopicDescription], stored: StoredReplicas
) -> None:
    """Raise ClusterError where brokers store a topic that this principal may not see.

    Kafka leaves such topics out without an error, and a plan made without them would be wrong. A
    topic that was created or deleted in between is no reason.
    """
    visible = {topic.topic for topic in topics}
    unseen = {topic for topic, _, _ in stored if topic not in visible}
    if unseen:
        reader.describe_topics(sorted(unseen)[:_MAX_TRIED_TOPICS])


def _read_topic_configs(reader: "ClusterReader", topics: Sequence[TopicDescription]) -> Configs:
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic.topic) for topic in topics]
    return reader.describe_configs(resources, [*TOPIC_CONFIGS.values(), *LIST_KEYS])


def _read_broker_rates(reader: "ClusterReader", description: ClusterDescription) -> Configs:
    live_ids = sorted(description.live_broker_ids)
    resources = [ConfigResource(ConfigResourceType.BROKER, str(b)) for b in live_ids]
    return reader.describe_configs([*resources, EVERY_BROKER], [*RATE_KEYS, CORDONED_LOG_DIRS])


def _throttles(configs: Configs) -> pa.Table:
    """Return the throttle keys that are set at a topic, at a broker itself, or as the dynamic
    default of all brokers, whose name is "".
    """

    def is_set_here(resource: ConfigResource, value: ConfigValue) -> bool:
        if resource == EVERY_BROKER:
            return value.source is ConfigSource.DYNAMIC_DEFAULT_BROKER
        return value.source in _SET_AT_RESOURCE

    rows = sorted(
        (str(resource.type), resource.name, key, value.value)
        for resource, values in configs.items()
        for key, value in values.items()
        if key in (*LIST_KEYS, *RATE_KEYS)
        and is_set_here(resource, value)
        and value.value is not None
    )
    columns = [[row[index] for row in rows] for index in range(len(THROTTLES))]
    return pa.table(columns, schema=THROTTLES)


def _stored_replicas(log_dirs: Sequence[LogDirDescription]) -> StoredReplicas:
    return {
        (key.topic, key.partition, log_dir.broker_id): (size_bytes, log_dir.path)
        for log_dir in log_dirs
        for key, size_bytes in log_dir.sizes.items()
    }


def _unreported_broker_ids(description: ClusterDescription, partitions: Partitions) -> list[int]:
    """Return the brokers that partitions name as replicas and that the cluster does not report."""
    replica_ids = {broker_id for _, partition in partitions for broker_id in partition.replicas}
    return sorted(replica_ids - {broker.broker_id for broker in description.brokers})


def _brokers(
    description: ClusterDescription,
    log_dirs: Sequence[LogDirDescription],
    partitions: Partitions,
) -> pa.Table:
    """Return a row per broker.

    Of one that only partitions name, the id is all that is known. It is dead: before 4.0 Kafka does
    not report fenced brokers (KIP-1073), and one that was unregistered may still have replicas.
    """
    unreported_ids = _unreported_broker_ids(description, partitions)
    disks = [_disk(log_dirs, broker.broker_id) for broker in description.brokers]
    columns = columns_of(BROKERS, BrokerDescription, description.brokers) | {
        "disk_total_bytes": [total for total, _ in disks],
        "disk_usable_bytes": [usable for _, usable in disks],
    }
    unreported: dict[str, list[Any]] = {
        "broker_id": unreported_ids,
        "is_fenced": [True] * len(unreported_ids),
    }
    both = pa.concat_tables([table_of(BROKERS, columns), table_of(BROKERS, unreported)])
    return both.sort_by("broker_id")


def _disk(log_dirs: Sequence[LogDirDescription], broker_id: int) -> tuple[int | None, int | None]:
    """Return total and usable bytes of a broker's disks."""
    return disk_over(
        (d.total_bytes, d.usable_bytes)
        for d in log_dirs
        if d.broker_id == broker_id
        and d.error is None
        and d.total_bytes is not None
        and d.usable_bytes is not None
    )


def _log_dirs(
    description: ClusterDescription, log_dirs: Sequence[LogDirDescription], configs: Configs
) -> pa.Table:
    registered = {broker.broker_id for broker in description.brokers}
    known = sorted(
        (d for d in log_dirs if d.broker_id in registered), key=lambda d: (d.broker_id, d.path)
    )
    columns = columns_of(LOG_DIRS, LogDirDescription, known) | {
        "log_dir": [d.path for d in known],
        "held_bytes": [sum(d.sizes.values()) if d.error is None else None for d in known],
        "is_cordoned": [_is_cordoned(log_dir, configs) or None for log_dir in known],
    }
    return table_of(LOG_DIRS, columns)


def _is_cordoned(log_dir: LogDirDescription, configs: Configs) -> bool:
    resource = ConfigResource(ConfigResourceType.BROKER, str(log_dir.broker_id))
    value = configs.get(resource, {}).get(CORDONED_LOG_DIRS)
    paths = [path.strip() for path in (value.value or "").split(",")] if value else []
    return "*" in paths or log_dir.path in paths


def _topics(topics: Sequence[TopicDescription], configs: Configs) -> pa.Table:
    """Return the topics with the config values in force, from whatever level."""
    values_by_topic = {resource.name: values for resource, values in configs.items()}

    def config(column: str) -> list[str | int | None]:
        key = TOPIC_CONFIGS[column]
        is_text = pa.types.is_string(TOPICS.field(column).type)
        values: list[str | int | None] = []
        for topic in topics:
            found = values_by_topic.get(topic.topic, {}).get(key)
            text = found.value or None if found else None
            values.append(text if text is None or is_text else int(text))
        return values

    columns = columns_of(TOPICS, TopicDescription, topics) | {
        "partition_count": [len(topic.partitions) for topic in topics],
        **{column: config(column) for column in TOPIC_CONFIGS},
    }
    return table_of(TOPICS, columns)


def _partitions(
    partitions: Partitions,
    reassignments: Mapping[TopicPartition, Reassignment],
    stored: StoredReplicas,
    offsets: Mapping[TopicPartition, tuple[int, int]],
    tiered: Set[str],
) -> pa.Table:
    """Return the partitions.

    The earliest offset of one with tiered storage is that of the whole log, and its size is of what
    is local: no record's size can be told from the two, so it counts as not known.
    """
    not_moving = Reassignment((), (), ())
    ongoing = [reassignments.get(key, not_moving) for key, _ in partitions]
    log_ends = [offsets.get(key, (None, None)) for key, _ in partitions]
    described = columns_of(PARTITIONS, PartitionDescription, [p for _, p in partitions])
    columns = described | {
        "topic": [key.topic for key, _ in partitions],
        "adding_replicas": [reassignment.adding for reassignment in ongoing],
        "removing_replicas": [reassignment.removing for reassignment in ongoing],
        "size_bytes": [_size_bytes(key, p, stored) for key, p in partitions],
        "earliest_offset": [
            None if key.topic in tiered else earliest
            for (key, _), (earliest, _) in zip(partitions, log_ends, strict=True)
        ],
        "latest_offset": [latest for _, latest in log_ends],
    }
    return table_of(PARTITIONS, columns)


def _size_bytes(
    key: TopicPartition, partition: PartitionDescription, stored: StoredReplicas
) -> int | None:
    """Return the size of the leader's replica; else that of the largest.

    Other replicas may still be catching up. None where no size is known.
    """
    leader = partition.leader
    if leader is not None and (replica := stored.get((key.topic, key.partition, leader))):
        return replica[0]
    replicas = (stored.get((key.topic, key.partition, b)) for b in partition.replicas)
    return max((replica[0] for replica in replicas if replica is not None), default=None)


def _replicas(partitions: Partitions, stored: StoredReplicas) -> pa.Table:
    """Return one row for each replica, in order of partition and position.

    Of orders-0 with replicas (1, 2) the rows are (orders, 0, 1, ...) and (orders, 0, 2, ...).
    """
    replica_counts = [len(p.replicas) for _, p in partitions]

    def repeat_per_replica(values: Sequence[Any]) -> list[Any]:
        pairs = zip(values, replica_counts, strict=True)
        return list(chain.from_iterable([value] * count for value, count in pairs))

    topics = repeat_per_replica([key.topic for key, _ in partitions])
    numbers = repeat_per_replica([key.partition for key, _ in partitions])
    broker_ids = list(chain.from_iterable(p.replicas for _, p in partitions))
    replicas = [stored.get(place) for place in zip(topics, numbers, broker_ids, strict=True)]
    columns = {
        "topic": topics,
        "partition": numbers,
        "broker_id": broker_ids,
        "position": list(chain.from_iterable(range(count) for count in replica_counts)),
        "is_leader": [broker_id == p.leader for _, p in partitions for broker_id in p.replicas],
        "in_sync": [broker_id in p.isr for _, p in partitions for broker_id in p.replicas],
        "size_bytes": [None if replica is None else replica[0] for replica in replicas],
        "log_dir": [None if replica is None else replica[1] for replica in replicas],
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
    columns = {
        "node_id": [node.node_id for _, node in rows],
        "role": [role for role, _ in rows],
        "log_end_offset": [node.log_end_offset for _, node in rows],
        "last_caught_up_at": [_utc_time(node.last_caught_up_ms) for _, node in rows],
    }
    return pa.table(columns, schema=QUORUM)


def _utc_time(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)


# -- Reads what an audit needs beside the snapshot: configs, versions, quorum, groups, permissions
#
#     inspection = inspect(reader, snapshot, operator=admin)
#     inspection.unavailable        # what could not be read, and why
#
# Never writes. An item that cannot be read is noted under its name, and the others are read all the
# same. A broker that does not respond is missing in what is read from each broker.
#
# Limits: read once, with some requests to each broker, one for 2,000 topics and one for the offsets
# of 50 groups. Eligible leaders are read only for topics with a partition below its
# `min.insync.replicas`, since others have none (KIP-966).


def inspect(
    reader: "ClusterReader",
    snapshot: ClusterSnapshot,
    *,
    operator: "ClusterAdmin | None" = None,
    operator_failure: str = "",
    with_transactions: bool = False,
) -> Inspection:
    """Return what the cluster of `snapshot` reports now.

    Permissions are those of `operator`. `operator_failure` is why its connection fails; without
    either nobody changes this cluster. Raises no ClusterError: see `Inspection.unavailable`.
    """
    unavailable: dict[str, str] = {}

    def read(item: InspectionItem, call: Callable[[], Value], otherwise: Value) -> Value:
        try:
            return call()
        except UnsupportedRequestError:
            return otherwise
        except ClusterError as error:
            unavailable[item] = str(error)
            return otherwise

    def read_configs(
        item: InspectionItem, resources: list[ConfigResource], keys: tuple[str, ...] | None
    ) -> Configs:
        nothing: Configs = {}
        return read(item, lambda: reader.describe_configs(resources, keys), nothing)

    def read_transactions() -> HangingTransactions:
        limits = (values.get("transaction.max.timeout.ms") for values in of_brokers.values())
        longest_ms = max((int(one.value) for one in limits if one and one.value), default=900_000)
        return reader.list_hanging_transactions(longest_ms)

    live_ids = snapshot.live_broker_ids
    brokers = [ConfigResource(ConfigResourceType.BROKER, str(broker_id)) for broker_id in live_ids]
    names = snapshot.topics["topic"].to_pylist()
    topics = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    of_brokers = read_configs(InspectionItem.BROKER_CONFIGS, brokers, None)
    of_every_broker = read_configs(InspectionItem.CLUSTER_DEFAULTS, [EVERY_BROKER], None)
    of_topics = read_configs(InspectionItem.TOPIC_CONFIGS, topics, TOPIC_KEYS)
    no_groups: Mapping[int, tuple[ConsumerGroup, ...]] = {}
    by_broker = read(InspectionItem.GROUPS, reader.describe_groups, no_groups)
    groups = list(chain.from_iterable(by_broker.values()))
    logs = _logs_of(snapshot, groups)
    times = _times_used_up(snapshot, groups, logs)
    no_offsets: Mapping[TopicPartition, int] = {}
    fresh_from = read(InspectionItem.RECORD_AGES, lambda: reader.list_offsets_at(times), no_offsets)
    inspection = Inspection(
        broker_configs={int(resource.name): values for resource, values in of_brokers.items()},
        cluster_defaults=of_every_broker.get(EVERY_BROKER, {}),
        topic_configs={resource.name: values for resource, values in of_topics.items()},
        versions=read(InspectionItem.VERSIONS, lambda: reader.describe_versions(live_ids), {}),
        features=read(InspectionItem.FEATURES, lambda: reader.describe_features(live_ids), {}),
        quorum=read(InspectionItem.QUORUM, reader.describe_quorum, None),
        reassignments=read(InspectionItem.REASSIGNMENTS, reader.list_reassignments, None),
        eligible_leaders=read(
            InspectionItem.ELIGIBLE_LEADERS,
            lambda: reader.list_eligible_leaders(_topics_below_min_isr(snapshot)),
            None,
        ),
        groups=by_broker,
        logs={
            key: replace(log, fresh_from=log.end if fresh_from[key] < 0 else fresh_from[key])
            if key in fresh_from
            else log
            for key, log in logs.items()
        },
        default_quotas=read(InspectionItem.QUOTAS, reader.describe_default_quotas, None),
        acls_for_everybody=read(InspectionItem.ACLS, reader.describe_acls_for_everybody, None),
        transactions=read(InspectionItem.TRANSACTIONS, read_transactions, None)
        if with_transactions
        else None,
        refused=read(
            InspectionItem.PERMISSIONS,
            lambda: _refused_operations(operator, operator_failure, snapshot),
            None,
        ),
        unavailable=unavailable,
    )
    return _with_unresponsive_brokers(inspection, live_ids)


def _logs_of(
    snapshot: ClusterSnapshot, groups: Sequence[ConsumerGroup]
) -> dict[TopicPartition, LogOffsets]:
    """Return the logs of which groups have committed an offset, as far as they are known."""
    topics = {topic for group in groups for topic in group.commits}
    names = ("topic", "partition", "earliest_offset", "latest_offset")
    return {
        TopicPartition(topic, partition): LogOffsets(start, end)
        for topic, partition, start, end in rows_of(snapshot.partitions, *names)
        if topic in topics and start is not None and end is not None
    }


def _times_used_up(
    snapshot: ClusterSnapshot,
    groups: Sequence[ConsumerGroup],
    logs: Mapping[TopicPartition, LogOffsets],
) -> dict[TopicPartition, int]:
    """Return when a record was written that has used up most of its retention.ms now, in
    milliseconds, for the partitions on which a group is behind.
    """
    if snapshot.observed_at is None:  # a document that somebody wrote
        return {}
    now_ms = int(snapshot.observed_at.timestamp() * 1000)
    written_at = {
        topic: now_ms - retention_ms * USED_UP_PERCENT // 100
        for topic, policy, retention_ms in rows_of(
            snapshot.topics, "topic", "cleanup_policy", "retention_ms"
        )
        if "delete" in (policy or "") and (retention_ms or 0) > 0
    }
    behind = (
        key
        for group in groups
        for key, offset in group.committed()
        if key in logs and logs[key].end - offset >= LEAST_LAG
    )
    return {key: written_at[key.topic] for key in behind if key.topic in written_at}


def _refused_operations(
    operator: "ClusterAdmin | None", operator_failure: str, snapshot: ClusterSnapshot
) -> Mapping[str, str] | None:
    """Return what is refused on the first live broker and the first topic; others are not tried.

    None without an operator, and without a topic to try it with.
    """
    if operator_failure:
        raise ClusterError(operator_failure)
    is_own_topic = pc.invert(snapshot.topics["is_internal"])
    topics = sorted(snapshot.topics.filter(is_own_topic)["topic"].to_pylist())
    if operator is None or not topics:
        return None
    if not snapshot.live_broker_ids:
        raise ClusterError("the cluster has no live broker to try them with")
    return operator.refused_operations(snapshot.live_broker_ids[0], topics[:1], topics[:1])


def _topics_below_min_isr(snapshot: ClusterSnapshot) -> tuple[str, ...]:
    """Return topics with a partition below min ISR, or where ISR or min ISR is not known."""
    min_isr = snapshot.topics.select(["topic", "min_insync_replicas"])
    isr_counts = pa.table(
        {
            "topic": snapshot.partitions["topic"],
            "isr_count": pc.list_value_length(snapshot.partitions["isr"]),
        }
    )
    partitions = isr_counts.join(min_isr, "topic")
    is_below = pc.less(partitions["isr_count"], partitions["min_insync_replicas"])
    below = partitions.filter(pc.fill_null(is_below, True))
    return tuple(sorted(below["topic"].unique().to_pylist()))


def _with_unresponsive_brokers(inspection: Inspection, live_ids: Iterable[int]) -> Inspection:
    """Note the brokers that did not respond, unless the whole item is unavailable."""
    read_by_broker = {
        InspectionItem.BROKER_CONFIGS: inspection.broker_configs,
        InspectionItem.VERSIONS: inspection.versions,
        InspectionItem.FEATURES: inspection.features,
        InspectionItem.GROUPS: inspection.groups,
    }
    unavailable = dict(inspection.unavailable)
    for item, by_broker in read_by_broker.items():
        missing_ids = [broker_id for broker_id in live_ids if broker_id not in by_broker]
        if missing_ids and item not in unavailable:
            unavailable[item] = f"no answer from {name_brokers(missing_ids)}"
    return replace(inspection, unavailable=unavailable)
