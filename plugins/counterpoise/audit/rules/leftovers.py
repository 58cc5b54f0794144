"""Leftovers: throttles without a reassignment, reassignments that never end, log dirs that were
cordoned.

    topic orders: leader.replication.throttled.replicas = 0:1, and nothing moves        # leftover-throttle

Drift of configs and versions between brokers is in `drift.py`, which has this area, too.

Limits: how long a reassignment runs, and whether it still copies, is told by snapshots; between two
of them it may have ended and begun anew.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.audit.commands import counterpoise, delete_config, kafka
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.figures import moving
from counterpoise.audit.rule import Area, Need, Rule, Sighting, evidence, unknown
from counterpoise.audit.unavailable_data import not_told
from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
from counterpoise.model.inspection import Asked
from counterpoise.model.kafka import RATE_KEYS, ConfigSource
from counterpoise.model.severity import Severity
from counterpoise.model.words import join_ids, pluralize
from counterpoise.units import format_bytes, format_moment, format_seconds

_CLUSTER: Final = "cluster"
_CORDONED: Final = "cordoned.log.dirs"


def _leftover(facts: AuditFacts) -> Iterator[Sighting]:
    """By topic and by broker: keys that are set although nothing moves that they could slow."""
    if facts.run_under_way:
        return
    under_way = moving(facts.snapshot.partitions)
    topics = set(under_way["topic"].to_pylist())
    brokers = {str(broker_id) for broker_id in pc.list_flatten(under_way["replicas"]).to_pylist()}
    by_resource: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for row in facts.snapshot.throttles.to_pylist():
        name, is_topic = row["resource_name"], row["resource_type"] == "topic"
        if name not in (topics if is_topic else brokers):
            by_resource.setdefault((row["resource_type"], name), []).append(
                (row["key"], row["value"])
            )
    for (kind, name), keys in sorted(by_resource.items()):
        is_harmless = not any(value for _, value in keys)
        yield Sighting(
            f"{kind} {name}",
            f"{kind} {name}: {' and '.join(key for key, _ in keys)} {'is' if len(keys) == 1 else 'are'} set"
            f"{', to nothing,' if is_harmless else ''} and no reassignment concerns it",
            evidence(("key", "value"), keys),
            fix=(delete_config(f"{kind}s", name, [key for key, _ in keys]),),
            severity=Severity.INFO if is_harmless else None,
        )


def _rates_elsewhere(facts: AuditFacts) -> Iterator[Sighting]:
    """Rates that stand where they have no effect."""
    inspection = facts.inspection
    defaults = {
        key: inspection.cluster_defaults[key]
        for key in RATE_KEYS
        if key in inspection.cluster_defaults
    }
    if defaults:
        yield Sighting(
            "cluster default",
            f"the default of all brokers sets {' and '.join(defaults)}, which throttles nobody",
            evidence(("key", "value"), [(key, value.value) for key, value in defaults.items()]),
            fix=(delete_config("brokers", None, defaults),),
        )
    rows = [
        (broker_id, key, configs[key].value)
        for broker_id, configs in sorted(inspection.broker_configs.items())
        for key in RATE_KEYS
        if key in configs and configs[key].source is ConfigSource.STATIC_BROKER
    ]
    if rows:
        yield Sighting(
            "server.properties",
            f"{pluralize(len({row[0] for row in rows}), 'broker')} set throttle rates in their own file, where they are "
            "without effect",
            evidence(("broker", "key", "value"), rows),
        )
    yield from not_told(facts, Asked.BROKER_CONFIGS)


def _old(facts: AuditFacts) -> Iterator[Sighting]:
    under_way = moving(facts.snapshot.partitions)
    if not under_way.num_rows:
        return
    since = facts.past.moving_since if facts.past else {}
    if not since:
        yield unknown(
            _CLUSTER,
            f"{pluralize(under_way.num_rows, 'partition')} move, and no snapshot tells for how long they have",
        )
        return
    hours = facts.threshold("reassignment-old", "hours")
    by_topic: dict[str, list[tuple[dict[str, Any], datetime]]] = {}
    for row in under_way.to_pylist():
        at = since.get(TopicPartition(row["topic"], row["partition"]))
        if at is not None and facts.now - at >= timedelta(hours=hours):
            by_topic.setdefault(row["topic"], []).append((row, at))
    for topic, rows in sorted(by_topic.items()):
        first = min(at for _, at in rows)
        yield Sighting(
            f"topic {topic}",
            f"topic {topic}: {pluralize(len(rows), 'partition')} moving for "
            f"{format_seconds((facts.now - first).total_seconds())} at least",
            evidence(
                ("partition", "adding", "removing", "moving since"),
                [
                    (
                        row["partition"],
                        join_ids(row["adding_replicas"]),
                        join_ids(row["removing_replicas"]),
                        format_moment(at),
                    )
                    for row, at in rows
                ],
            ),
            fix=_reassignment_fix(facts),
        )


def _stalled(facts: AuditFacts) -> Iterator[Sighting]:
    """New replicas that hold no byte more than in a snapshot of some time ago, and are not in sync."""
    under_way = moving(facts.snapshot.partitions)
    minutes = facts.threshold("reassignment-stalled", "minutes")
    if not under_way.num_rows:
        return
    earlier = _snapshot_before(facts, timedelta(minutes=minutes))
    if earlier is None:
        yield unknown(
            _CLUSTER, f"no snapshot of {minutes} minutes ago tells whether what moves still copies"
        )
        return
    before, was_moving = _copies(earlier, under_way), _targets(earlier)
    now = _copies(facts.snapshot, under_way)
    by_topic: dict[str, list[tuple[object, ...]]] = {}
    for row in under_way.to_pylist():
        key = (row["topic"], row["partition"])
        if was_moving.get(key) != tuple(row["adding_replicas"]):
            continue
        for broker_id in set(row["adding_replicas"]) - set(row["isr"] or ()):
            held, had = now.get((*key, broker_id)), before.get((*key, broker_id))
            if held is not None and had is not None and held <= had:
                by_topic.setdefault(row["topic"], []).append(
                    (row["partition"], broker_id, row["leader"], format_bytes(held))
                )
    for topic, rows in sorted(by_topic.items()):
        yield Sighting(
            f"topic {topic}",
            f"topic {topic}: {pluralize(len(rows), 'new replica')} got no byte in the last {minutes} minutes or more",
            evidence(("partition", "to broker", "from leader", "copied so far"), rows),
            fix=_reassignment_fix(facts),
        )


def _snapshot_before(facts: AuditFacts, age: timedelta) -> ClusterSnapshot | None:
    """The newest of those that are at least so old."""
    recent = facts.past.recent if facts.past else ()
    old = [
        one for one in recent if one.observed_at is not None and facts.now - one.observed_at >= age
    ]
    return old[-1] if old else None


def _targets(snapshot: ClusterSnapshot) -> Mapping[tuple[str, int], tuple[int, ...]]:
    return {
        (row["topic"], row["partition"]): tuple(row["adding_replicas"])
        for row in moving(snapshot.partitions).to_pylist()
    }


def _copies(snapshot: ClusterSnapshot, under_way: pa.Table) -> Mapping[tuple[str, int, int], int]:
    """Bytes of the replicas of the topics that move."""
    replicas = snapshot.replicas
    its = replicas.filter(pc.is_in(replicas["topic"], value_set=under_way["topic"].unique()))
    columns = (its[name].to_pylist() for name in ("topic", "partition", "broker_id", "size_bytes"))
    return {
        (topic, number, broker): size
        for topic, number, broker, size in zip(*columns, strict=True)
        if size is not None
    }


def _reassignment_fix(facts: AuditFacts) -> tuple[str, ...]:
    return (
        counterpoise("status", "--cluster", facts.snapshot.cluster),
        kafka("kafka-reassign-partitions", "--list"),
        "# no run of ours, and it shall not go on: write its partitions to moves.json, then",
        kafka("kafka-reassign-partitions", "--cancel", "--reassignment-json-file", "moves.json"),
    )


def _cordoned(facts: AuditFacts) -> Iterator[Sighting]:
    for broker_id, configs in sorted(facts.inspection.broker_configs.items()):
        found = configs.get(_CORDONED)
        if found is not None and found.value:
            yield Sighting(
                f"broker {broker_id}",
                f"broker {broker_id} gives new partitions to no log dir of: {found.value}",
                evidence(
                    ("broker", "log dirs", "set where"), [(broker_id, found.value, found.source)]
                ),
                fix=(delete_config("brokers", broker_id, (_CORDONED,)),),
            )
    yield from not_told(facts, Asked.BROKER_CONFIGS)


RULES: Final = (
    Rule(
        "leftover-throttle",
        Area.LEFTOVERS,
        Severity.WARNING,
        title="A replication throttle without a reassignment",
        why="Throttles stay until somebody takes them away: the next time this broker falls behind, it catches up at "
        "the rate of a move that is long over, and may never get back into sync.",
        how="Delete the keys. If a tool is about to move something, let it finish first.",
        source="https://kafka.apache.org/documentation/#rep-throttle",
        look=_leftover,
    ),
    Rule(
        "throttle-rate-without-effect",
        Area.LEFTOVERS,
        Severity.INFO,
        title="A throttle rate where it has no effect",
        why="Rates act only as a dynamic config of the broker itself: whoever set them as the cluster's default, or in "
        "a file, believes that moves are throttled, and they are not.",
        how="Delete them; Counterpoise sets rates on each broker that it needs, and takes them away again.",
        source="https://issues.apache.org/jira/browse/KAFKA-10190",
        look=_rates_elsewhere,
        needs=frozenset({Need.INSPECTION}),
    ),
    Rule(
        "reassignment-old",
        Area.LEFTOVERS,
        Severity.WARNING,
        title="A reassignment that runs for very long",
        why="While a partition moves it has more replicas to feed, and nobody else may move it; one that runs for "
        "days was mostly forgotten, or is throttled below what producers write.",
        how="See who started it. Raise its throttle above what arrives, or cancel it.",
        source="https://cwiki.apache.org/confluence/display/KAFKA/KIP-455%3A+Create+an+Administrative+API+for+Replica+Reassignment",
        look=_old,
        needs=frozenset({Need.HISTORY}),
        thresholds={"hours": 24},
    ),
    Rule(
        "reassignment-stalled",
        Area.LEFTOVERS,
        Severity.WARNING,
        title="A reassignment that copies nothing",
        why="A move that does not get on never ends by itself: its target is dead, out of disk, or throttled to "
        "next to nothing.",
        how="Look at the target broker's log and disk and at the throttle; then raise it, or cancel the move.",
        source="https://kafka.apache.org/documentation/#basic_ops_cluster_expansion",
        look=_stalled,
        needs=frozenset({Need.HISTORY}),
        thresholds={"minutes": 30},
    ),
    Rule(
        "cordoned-log-dirs",
        Area.LEFTOVERS,
        Severity.WARNING,
        title="Log dirs are cordoned",
        why="A cordoned log dir takes no new partition. Set for a drain and forgotten, it leaves its disk empty while "
        "the others fill.",
        how="Delete the config once the drain is over; waive this while one runs.",
        source="https://cwiki.apache.org/confluence/display/KAFKA/KIP-1066%3A+Mechanism+to+cordon+brokers+and+log+directories",
        look=_cordoned,
        needs=frozenset({Need.INSPECTION}),
    ),
)
