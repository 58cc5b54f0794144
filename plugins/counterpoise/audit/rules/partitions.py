"""Partitions: too many on a broker, too many or too few in a topic, groups with more members than
partitions.

    topic clicks: 240 partitions take in 1.2 kB/s        # topics-over-provisioned

Wherever more partitions are the advice, what that does to keys is said with it.

Limits: rates are those of the newest analysed snapshot, means over the time since the one before
it.
"""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.audit.commands import add_partitions, kafka
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.figures import per_broker
from counterpoise.audit.rule import Area, Need, Rule, Sighting, evidence, unknown
from counterpoise.model.inspection import Asked
from counterpoise.model.severity import Severity
from counterpoise.model.words import join_ids, pluralize
from counterpoise.units import format_bytes, format_rate

_CLUSTER: Final = "cluster"
_STABLE: Final = "stable"


def _per_broker(facts: AuditFacts) -> Iterator[Sighting]:
    most = facts.threshold("partitions-per-broker", "most")
    live = facts.snapshot.live_broker_ids
    for broker_id, count in zip(
        live, per_broker(facts.snapshot.replicas["broker_id"], live), strict=True
    ):
        if count > most:
            yield Sighting(
                f"broker {broker_id}",
                f"broker {broker_id} holds {count:,} replicas, more than {most:,}",
            )


def _tiny(facts: AuditFacts) -> Iterator[Sighting]:
    rule = "topics-over-provisioned"
    loads = _topic_loads(facts)
    if loads is None:
        yield unknown(
            _CLUSTER, "the history has no rates of topics yet: they need two analysed snapshots"
        )
        return
    least = facts.threshold(rule, "least_partitions")
    most_rate = facts.threshold(rule, "most_bytes_per_second_per_partition")
    wide = loads.filter(pc.greater_equal(loads["partition_count"], least))
    each = pc.divide(wide["bytes_in_per_second"], wide["partition_count"])
    tiny = wide.filter(pc.less_equal(each, most_rate)).sort_by(
        [("partition_count", "descending"), ("topic", "ascending")]
    )
    rows = [
        (
            row["topic"],
            row["partition_count"],
            format_rate(row["bytes_in_per_second"]),
            format_bytes(row["size_bytes"]),
        )
        for row in tiny.to_pylist()
    ]
    if rows:
        partitions = sum(tiny["partition_count"].to_pylist())
        yield Sighting(
            _CLUSTER,
            f"{pluralize(len(rows), 'topic')} with {least} partitions or more take in {format_rate(most_rate)} or less per "
            f"partition: {partitions:,} of the cluster's {facts.snapshot.partitions.num_rows:,} partitions",
            evidence(("topic", "partitions", "bytes in", "size of one copy"), rows),
        )


def _hot(facts: AuditFacts) -> Iterator[Sighting]:
    rule = "hot-topic-few-partitions"
    loads = _topic_loads(facts)
    if loads is None:
        yield unknown(
            _CLUSTER, "the history has no rates of topics yet: they need two analysed snapshots"
        )
        return
    live = facts.snapshot.live_broker_ids
    total = pc.sum(loads["bytes_in_per_second"], min_count=0).as_py()
    least = max(
        facts.threshold(rule, "least_kilobytes_per_second") * 1000,
        total * facts.threshold(rule, "least_percent_of_cluster") / 100,
    )
    is_hot = pc.and_(
        pc.less(loads["partition_count"], len(live)),
        pc.greater_equal(loads["bytes_in_per_second"], float(least)),
    )
    for row in loads.filter(is_hot).sort_by([("bytes_in_per_second", "descending")]).to_pylist():
        yield _hot_topic(facts, row, total)


def _hot_topic(facts: AuditFacts, row: dict[str, Any], total: int) -> Sighting:
    topic, live = row["topic"], facts.snapshot.live_broker_ids
    its = facts.snapshot.partitions.filter(pc.equal(facts.snapshot.partitions["topic"], topic))
    leading = set(its["leader"].to_pylist())
    rate = row["bytes_in_per_second"]
    return Sighting(
        f"topic {topic}",
        f"topic {topic} takes in {format_rate(rate)} ({rate / total * 100:.0f} % of the cluster) on "
        f"{pluralize(row['partition_count'], 'partition')}; brokers {join_ids([b for b in live if b not in leading])} lead none",
        evidence(
            ("partition", "leader", "replicas"),
            [(p["partition"], p["leader"], join_ids(p["replicas"])) for p in its.to_pylist()],
        ),
        fix=add_partitions(topic, len(live)),
    )


def _groups(facts: AuditFacts) -> Iterator[Sighting]:
    groups = facts.inspection.groups
    if groups is None:
        yield unknown(
            _CLUSTER,
            facts.inspection.unanswered.get(Asked.GROUPS, "consumer groups were not asked"),
        )
        return
    for group in groups:
        if group.idle_member_count and group.state.lower() == _STABLE:
            yield Sighting(
                f"group {group.group}",
                f"{group.idle_member_count} of {group.member_count} members of group {group.group} have no partition",
                evidence(("topics that it reads",), [(topic,) for topic in group.topics]),
                fix=(
                    kafka(
                        "kafka-consumer-groups",
                        "--describe",
                        "--group",
                        group.group,
                        "--members",
                        "--verbose",
                    ),
                ),
            )


def _topic_loads(facts: AuditFacts) -> pa.Table | None:
    """Rows of TOPIC_LOAD with a rate, of topics that are there and not Kafka's own; None where no
    rate is known.
    """
    if facts.past is None:
        return None
    loads = facts.past.topic_load.filter(pc.is_valid(facts.past.topic_load["bytes_in_per_second"]))
    if not loads.num_rows:
        return None
    topics = facts.snapshot.topics
    ours = topics.filter(pc.invert(topics["is_internal"]))["topic"].combine_chunks()
    return loads.filter(pc.is_in(loads["topic"], value_set=ours))


RULES: Final = (
    Rule(
        "hot-topic-few-partitions",
        Area.PARTITIONS,
        Severity.WARNING,
        title="A hot topic has fewer partitions than there are brokers",
        why="A topic's throughput ends where its leaders end: with fewer partitions than brokers some brokers take "
        "none of its traffic, and no more consumers of a group can share it than it has partitions.",
        how="Add partitions, a multiple of the brokers. That changes which partition a key maps to: whoever relies "
        "on order by key, on compaction or on joins needs a new topic and a move of producers instead.",
        source="https://kafka.apache.org/documentation/#basic_ops_modify_topic",
        look=_hot,
        needs=frozenset({Need.HISTORY}),
        thresholds={"least_percent_of_cluster": 5, "least_kilobytes_per_second": 1000},
    ),
    Rule(
        "partitions-per-broker",
        Area.PARTITIONS,
        Severity.WARNING,
        title="Very many partitions on a broker",
        why="Each replica is open files, memory maps and an entry in every fetch; starting, recovering and failing "
        "over takes longer with each of them.",
        how="Add brokers and make a plan for them, or give up topics that nobody uses.",
        source="https://kafka.apache.org/documentation/#hwandos",
        look=_per_broker,
        thresholds={"most": 4000},
    ),
    Rule(
        "topics-over-provisioned",
        Area.PARTITIONS,
        Severity.INFO,
        title="Topics with many partitions and next to no traffic",
        why="Partitions that take in nearly nothing cost as many files, fetches and elections as busy ones, and make "
        "batches small: producers send more requests for the same bytes.",
        how="Kafka cannot take partitions away. Make a topic with fewer, move producers, then consumers, then delete "
        "the old one; and lower num.partitions where topics are created by themselves.",
        source="https://kafka.apache.org/documentation/#basic_ops_modify_topic",
        look=_tiny,
        needs=frozenset({Need.HISTORY}),
        thresholds={"least_partitions": 24, "most_bytes_per_second_per_partition": 100},
    ),
    Rule(
        "group-idle-members",
        Area.PARTITIONS,
        Severity.INFO,
        title="Consumer groups with members that have no partition",
        why="A partition is read by one member of a group: members beyond the number of partitions wait, and scaling "
        "out further makes nothing faster.",
        how="Run fewer members, or keep them as spares and waive this. More partitions would let them work, but change "
        "which partition a key maps to.",
        source="https://kafka.apache.org/documentation/#intro_consumers",
        look=_groups,
        needs=frozenset({Need.INSPECTION}),
    ),
)
