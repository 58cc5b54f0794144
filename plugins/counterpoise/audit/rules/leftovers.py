"""Leftovers: throttles without a reassignment, reassignments that never end, cordoned log dirs.

    topic orders: a throttle is set, and nothing moves        # leftover-throttle

Drift of configs and versions between brokers is in `drift.py`, which has this area, too.

Limits: snapshots show since when a reassignment is running, and whether it still copies; between
two of them it may have ended and begun again.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.audit.commands import (
    add_config,
    cancel_reassignments,
    counterpoise,
    delete_config,
    delete_config_where_set,
    kafka,
)
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.figures import moving
from counterpoise.audit.rule import CheckResult, Need, bytes_in_words, evidence, rule, unknown
from counterpoise.model import subjects
from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
from counterpoise.model.finding import LOOK
from counterpoise.model.grouping import grouped
from counterpoise.model.inspection import InspectionItem
from counterpoise.model.kafka import CORDONED_LOG_DIRS, RATE_KEYS, ConfigSource
from counterpoise.model.severity import Severity
from counterpoise.model.tables import THROTTLES, rows_of
from counterpoise.model.words import join_ids, list_brokers, pluralize, verb
from counterpoise.units import format_moment, format_seconds

_CORDONED: Final = CORDONED_LOG_DIRS
_KIP_455: Final = (
    "https://cwiki.apache.org/confluence/display/KAFKA/KIP-455%3A+Create+an+Administrative+API"
    "+for+Replica+Reassignment"
)
_KIP_1066: Final = (
    "https://cwiki.apache.org/confluence/display/KAFKA/KIP-1066%3A+Mechanism+to+cordon+brokers"
    "+and+log+directories"
)
_Replica = tuple[str, int, int]  # topic, partition, broker id
_Row = tuple[object, ...]  # of the evidence; the partition's number first


@rule(
    "leftover-throttle",
    Severity.WARNING,
    title="A replication throttle without a reassignment",
    why="Throttles stay until somebody removes them: the next time this broker falls behind, it "
    "catches up at the rate of a move that ended long ago, and may never get back into sync.",
    how="Delete the keys. If a tool is about to move something, let it finish first.",
    source="https://kafka.apache.org/documentation/#rep-throttle",
    severities={Severity.INFO},
)
def leftover_throttle(facts: AuditFacts) -> Iterator[CheckResult]:
    """Yield topics and brokers with throttle keys that no reassignment needs."""
    if facts.active_run_id:
        run = facts.active_run_id
        yield unknown(f"run {run} sets and removes throttles of its own; audit again afterwards")
        return
    reassignments = moving(facts.snapshot.partitions)
    moving_topics = set(reassignments["topic"].to_pylist())
    moving_broker_ids = pc.list_flatten(reassignments["replicas"]).to_pylist()
    moving_brokers = {str(broker_id) for broker_id in moving_broker_ids}
    keys_by_resource = grouped(
        ((kind, name), (key, value))
        for kind, name, key, value in rows_of(facts.snapshot.throttles, *THROTTLES.names)
        if name and name not in (moving_topics if kind == "topic" else moving_brokers)
    )
    for (kind, name), entries in sorted(keys_by_resource.items()):
        keys = [key for key, _ in entries]
        is_empty = not any(value for _, value in entries)
        are = verb(len(keys), "is", "are")
        value_text = " to an empty value" if is_empty else ""
        yield CheckResult(
            subjects.resource(kind, name),
            f"{kind} {name}: {' and '.join(keys)} {are} set{value_text}, "
            "and no reassignment concerns it",
            evidence(("key", "value"), entries),
            fix=_deletion(f"{kind}s", name, keys),
            severity=Severity.INFO if is_empty else None,
        )


def _deletion(kind: str, name: str, keys: Sequence[str]) -> tuple[str, ...]:
    """Return lines that delete keys, also lists of a deleted topic that came back when a broker was
    restarted: those have to be set first.
    """
    deletion = delete_config(kind, name, keys)
    if kind == "brokers":
        return (deletion,)
    return (add_config(kind, name, dict.fromkeys(keys, "")), deletion)


@rule(
    "throttle-rate-of-all-brokers",
    Severity.INFO,
    title="A throttle rate as the default of all brokers, or in server.properties",
    why="The default is in force on each broker without a rate of its own: whatever is throttled, "
    "by whatever tool, is held to it, and catches up no faster. Brokers before KAFKA-10190 was "
    "mended show it, and throttle nothing. A rate in server.properties never has an effect, "
    "whatever the person believed who wrote it.",
    how="Delete it where nobody wants it. Counterpoise sets rates on each broker where it needs "
    "them, never one above this default, and removes them again.",
    source="https://issues.apache.org/jira/browse/KAFKA-10190",
    needs={InspectionItem.CLUSTER_DEFAULTS, InspectionItem.BROKER_CONFIGS},
)
def throttle_rate_of_all_brokers(facts: AuditFacts) -> Iterator[CheckResult]:
    cluster_defaults = facts.inspection.cluster_defaults
    rates = {key: cluster_defaults[key].value for key in RATE_KEYS if key in cluster_defaults}
    if rates:
        yield CheckResult(
            subjects.CLUSTER_DEFAULT,
            f"the default of all brokers sets {' and '.join(rates)}, which limits each broker "
            "without a rate of its own",
            evidence(("key", "value"), rates.items()),
            fix=(delete_config("brokers", None, rates),),
        )
    rows = [
        (broker_id, key, config.value)
        for key in RATE_KEYS
        for broker_id, config in facts.values_of(key).items()
        if config.source is ConfigSource.STATIC_BROKER
    ]
    if rows:
        brokers = list_brokers(sorted({broker_id for broker_id, _, _ in rows}))
        keys = dict.fromkeys(key for _, key, _ in rows)
        yield CheckResult(
            subjects.SERVER_PROPERTIES,
            f"server.properties of {brokers} sets {' and '.join(keys)}, which has no effect there",
            evidence(("broker", "key", "value"), rows),
            fix=(f"# server.properties of {brokers}:", *(f"# remove {key}" for key in keys)),
        )


@rule(
    "reassignment-old",
    Severity.WARNING,
    title="A reassignment that runs for very long",
    why="While a partition moves, more replicas fetch from its leader, and nobody else may move "
    "it; one that runs for days was mostly forgotten, or is throttled below the rate at which "
    "producers write.",
    how="Find out who started it. Raise its throttle above the rate of producers, or cancel it.",
    source=_KIP_455,
    needs={Need.HISTORY},
    thresholds={"hours": 24},
)
def reassignment_old(facts: AuditFacts, *, hours: int) -> Iterator[CheckResult]:
    reassignments = moving(facts.snapshot.partitions)
    if not reassignments.num_rows:
        return
    moving_since = facts.history.moving_since
    if not moving_since:
        count = pluralize(reassignments.num_rows, "partition moves", "partitions move")
        yield unknown(f"{count}, and no snapshot shows since when")
        return
    started_by = facts.now - timedelta(hours=hours)
    old_by_topic = grouped(
        (row["topic"], (row, since))
        for row in reassignments.to_pylist()
        if (since := moving_since.get(TopicPartition(row["topic"], row["partition"])))
        and since <= started_by
    )
    for topic, old in sorted(old_by_topic.items()):
        oldest = min(since for _, since in old)
        age = format_seconds((facts.now - oldest).total_seconds())
        rows = [
            (
                row["partition"],
                join_ids(row["adding_replicas"]),
                join_ids(row["removing_replicas"]),
                format_moment(since),
            )
            for row, since in old
        ]
        yield CheckResult(
            subjects.topic(topic),
            f"topic {topic}: {pluralize(len(rows), 'partition')} moving for at least {age}",
            evidence(("partition", "adding", "removing", "moving since"), rows),
            fix=_inspect_or_cancel(facts, topic, rows),
        )


@rule(
    "reassignment-endless",
    Severity.WARNING,
    title="A reassignment that never ends",
    why="Somebody sent a partition back in the middle of a move: the same replica is added and "
    "removed then, which Kafka 4.3 waits for without end, all replicas in sync. Nobody else may "
    "move the partition meanwhile.",
    how="Cancel it: the partition keeps the replicas that were asked for last.",
    source=_KIP_455,
)
def reassignment_endless(facts: AuditFacts) -> Iterator[CheckResult]:
    reassignments = rows_of(
        moving(facts.snapshot.partitions),
        *("topic", "partition", "adding_replicas", "removing_replicas"),
    )
    endless = grouped(
        (topic, (partition, join_ids(adding), join_ids(removing)))
        for topic, partition, adding, removing in reassignments
        if not set(adding).isdisjoint(removing)
    )
    for topic, rows in sorted(endless.items()):
        never_end = pluralize(len(rows), "reassignment never ends", "reassignments never end")
        yield CheckResult(
            subjects.topic(topic),
            f"topic {topic}: {never_end}: the same replica is added and removed",
            evidence(("partition", "adding", "removing"), rows),
            fix=cancel_reassignments(TopicPartition(topic, row[0]) for row in rows),
        )


@rule(
    "reassignment-stalled",
    Severity.WARNING,
    title="A reassignment that copies nothing",
    why="A move without progress never ends: its destination is down, out of disk, or throttled "
    "to next to nothing.",
    how="Check the destination broker's log and disk, and the throttle; then raise it, or cancel "
    "the move.",
    source="https://kafka.apache.org/documentation/#basic_ops_cluster_expansion",
    needs={Need.HISTORY},
    thresholds={"minutes": 30},
)
def reassignment_stalled(facts: AuditFacts, *, minutes: int) -> Iterator[CheckResult]:
    """Yield topics with new replicas that are not in sync and have not grown for `minutes`.

    A replica on a broker that is not live receives nothing, whatever size was reported last.
    """
    reassignments = moving(facts.snapshot.partitions)
    if not reassignments.num_rows:
        return
    earlier = _newest_snapshot_before(facts, timedelta(minutes=minutes))
    if earlier is None:
        yield unknown(
            f"no snapshot from {minutes} minutes ago shows whether what moves still copies",
        )
        return
    stalled = list(_stalled_replicas(facts.snapshot, earlier, reassignments))
    unknown_count = sum(row is None for _, row in stalled)
    if unknown_count:
        yield unknown(f"how much {pluralize(unknown_count, 'new replica')} received")
    rows_by_topic = grouped((topic, row) for topic, row in stalled if row is not None)
    for topic, rows in sorted(rows_by_topic.items()):
        yield CheckResult(
            subjects.topic(topic),
            f"topic {topic}: {pluralize(len(rows), 'new replica')} received no data in the last "
            f"{minutes} minutes or more",
            evidence(("partition", "to broker", "from leader", "copied so far"), rows),
            fix=_inspect_or_cancel(facts, topic, rows),
        )


def _stalled_replicas(
    now: ClusterSnapshot, earlier: ClusterSnapshot, reassignments: pa.Table
) -> Iterator[tuple[str, tuple[object, ...] | None]]:
    """Yield the topic, and partition, new replica's broker, leader and bytes copied so far.

    None in place of the latter where a live broker did not report the size, now or earlier.
    """
    live_broker_ids = set(now.live_broker_ids)
    sizes_now = _replica_sizes(now, reassignments)
    sizes_earlier = _replica_sizes(earlier, reassignments)
    targets_earlier = _adding_replicas(earlier)
    for row in reassignments.to_pylist():
        topic, partition = row["topic"], row["partition"]
        if targets_earlier.get((topic, partition)) != tuple(row["adding_replicas"]):
            continue  # this reassignment is younger
        for broker_id in set(row["adding_replicas"]) - set(row["isr"] or ()):
            size_now = sizes_now.get((topic, partition, broker_id))
            size_earlier = sizes_earlier.get((topic, partition, broker_id))
            copied = bytes_in_words(size_now)
            if broker_id not in live_broker_ids:
                yield topic, (partition, f"{broker_id} (not live)", row["leader"], copied)
            elif size_now is None or size_earlier is None:
                yield topic, None
            elif size_now <= size_earlier:
                yield topic, (partition, broker_id, row["leader"], copied)


def _newest_snapshot_before(facts: AuditFacts, age: timedelta) -> ClusterSnapshot | None:
    """Return the newest of the recent snapshots that are at least so old."""
    for snapshot in reversed(facts.history.recent_snapshots):
        if snapshot.observed_at is not None and facts.now - snapshot.observed_at >= age:
            return snapshot
    return None


def _adding_replicas(snapshot: ClusterSnapshot) -> Mapping[tuple[str, int], tuple[int, ...]]:
    return {
        (row["topic"], row["partition"]): tuple(row["adding_replicas"])
        for row in moving(snapshot.partitions).to_pylist()
    }


def _replica_sizes(snapshot: ClusterSnapshot, reassignments: pa.Table) -> Mapping[_Replica, int]:
    """Return known sizes of the replicas of topics that move, in bytes."""
    is_moving = pc.is_in(snapshot.replicas["topic"], value_set=reassignments["topic"].unique())
    replicas = snapshot.replicas.filter(is_moving)
    rows = rows_of(replicas, "topic", "partition", "broker_id", "size_bytes")
    return {
        (topic, partition, broker_id): size_bytes
        for topic, partition, broker_id, size_bytes in rows
        if size_bytes is not None
    }


def _inspect_or_cancel(facts: AuditFacts, topic: str, rows: Sequence[_Row]) -> tuple[str, ...]:
    """Return commands that show who moves what, and cancel the moves of these rows."""
    partitions = [TopicPartition(topic, int(str(row[0]))) for row in rows]
    return (
        LOOK,
        counterpoise("status"),
        kafka("kafka-reassign-partitions", "--list"),
        "# if no run of ours started it, and it must end:",
        *cancel_reassignments(partitions),
    )


@rule(
    "cordoned-log-dirs",
    Severity.WARNING,
    title="Log dirs are cordoned",
    why="A cordoned log dir receives no new partitions. Set for a drain and forgotten, it leaves "
    "its disk empty while the others fill.",
    how="Delete the config when the drain has ended; waive this while one runs.",
    source=_KIP_1066,
    needs={InspectionItem.BROKER_CONFIGS},
)
def cordoned_log_dirs(facts: AuditFacts) -> Iterator[CheckResult]:
    for broker_id, config in facts.values_of(_CORDONED).items():
        if config.value:
            row = (broker_id, config.value, config.source)
            yield CheckResult(
                subjects.broker(broker_id),
                f"broker {broker_id} puts no new partitions into the cordoned log dirs "
                f"{config.value}",
                evidence(("broker", "log dirs", "set where"), [row]),
                fix=delete_config_where_set(broker_id, _CORDONED, config.source),
            )
