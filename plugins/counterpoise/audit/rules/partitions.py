"""Partitions: too many on a broker, too many or too few in a topic.

    topic clicks: 240 partitions take in 1.2 kB/s        # topics-over-provisioned

Wherever more partitions are the advice, the text says what that does to keys.

Limits: rates are those of the newest analysed snapshot: means over the time since the one before.
"""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.audit.commands import add_partitions
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.figures import per_broker
from counterpoise.audit.rule import CheckResult, Need, evidence, rule, unknown
from counterpoise.model import subjects
from counterpoise.model.grouping import grouped
from counterpoise.model.movement import BROKERS_OWN_TOPICS
from counterpoise.model.severity import Severity
from counterpoise.model.words import join_ids, join_names, list_brokers, pluralize, verb
from counterpoise.units import format_bytes, format_rate

_MODIFY_TOPIC: Final = "https://kafka.apache.org/documentation/#basic_ops_modify_topic"
_NO_RATES: Final = "the history has no rates of topics yet: they need two analysed snapshots"


@rule(
    "hot-topic-few-partitions",
    Severity.WARNING,
    title="A hot topic has fewer partitions than there are brokers",
    why="A topic is as fast as its leaders: with fewer partitions than brokers, some brokers take "
    "none of its traffic, and a consumer group can share it among no more members than it has "
    "partitions. Hot is a topic that takes in a good part of what the cluster does, and with each "
    "partition a good part of what a broker does.",
    how="Add partitions, a multiple of the brokers. That changes which partition a key maps to: "
    "whoever relies on order by key, on compaction or on joins needs a new topic, and producers "
    "that move to it, instead.",
    source=_MODIFY_TOPIC,
    needs={Need.HISTORY},
    thresholds={
        "least_percent_of_cluster": 5,
        "least_percent_of_broker": 20,
        "least_kilobytes_per_second": 1000,
    },
)
def hot_topic_few_partitions(
    facts: AuditFacts,
    *,
    least_percent_of_cluster: int,
    least_percent_of_broker: int,
    least_kilobytes_per_second: int,
) -> Iterator[CheckResult]:
    loads = _topic_loads(facts)
    if loads is None:
        yield unknown(_NO_RATES)
        return
    rates = loads["bytes_in_per_second"]
    cluster_rate = pc.sum(rates, min_count=0).as_py()
    hot_rate = max(least_kilobytes_per_second * 1000, cluster_rate * least_percent_of_cluster / 100)
    broker_count = len(facts.snapshot.live_broker_ids)
    has_few_partitions = pc.less(loads["partition_count"], broker_count)
    rate_of_hot_partition = cluster_rate / broker_count * least_percent_of_broker / 100
    has_hot_partitions = pc.greater_equal(
        pc.divide(rates, loads["partition_count"]), rate_of_hot_partition
    )
    is_hot = pc.and_(pc.greater_equal(rates, float(hot_rate)), has_hot_partitions)
    hot_topics = loads.filter(pc.and_(has_few_partitions, is_hot))
    for load in hot_topics.sort_by([("bytes_in_per_second", "descending")]).to_pylist():
        yield _hot_topic(facts, load, cluster_rate)


def _hot_topic(facts: AuditFacts, load: dict[str, Any], cluster_rate: int) -> CheckResult:
    topic, rate = load["topic"], load["bytes_in_per_second"]
    live_broker_ids = facts.snapshot.live_broker_ids
    all_partitions = facts.snapshot.partitions
    partitions = all_partitions.filter(pc.equal(all_partitions["topic"], topic)).to_pylist()
    leader_ids = {partition["leader"] for partition in partitions}
    not_leading = [broker_id for broker_id in live_broker_ids if broker_id not in leader_ids]
    lead_none = f"{list_brokers(not_leading)} {verb(len(not_leading), 'leads', 'lead')} none"
    percent = rate / cluster_rate * 100
    rows = [
        (partition["partition"], partition["leader"], join_ids(partition["replicas"]))
        for partition in partitions
    ]
    return CheckResult(
        subjects.topic(topic),
        f"topic {topic} takes in {format_rate(rate)} ({percent:.0f} % of the cluster) on "
        f"{pluralize(load['partition_count'], 'partition')}; {lead_none}",
        evidence(("partition", "leader", "replicas"), rows),
        fix=add_partitions(topic, len(live_broker_ids)),
    )


@rule(
    "partitions-per-broker",
    Severity.WARNING,
    title="Very many partitions on a broker",
    why="Each replica costs open files, memory maps and an entry in every fetch; starting, "
    "recovering and failing over takes longer with each of them.",
    how="Add brokers and make a plan for them, or delete topics that nobody uses.",
    source="https://kafka.apache.org/documentation/#hwandos",
    thresholds={"most": 4000},
)
def partitions_per_broker(facts: AuditFacts, *, most: int) -> Iterator[CheckResult]:
    live_broker_ids = facts.snapshot.live_broker_ids
    replica_counts = per_broker(facts.snapshot.replicas["broker_id"], live_broker_ids)
    for broker_id, count in zip(live_broker_ids, replica_counts, strict=True):
        if count > most:
            yield CheckResult(
                subjects.broker(broker_id),
                f"broker {broker_id} holds {count:,} replicas, more than {most:,}",
            )


@rule(
    "topic-names-collide",
    Severity.INFO,
    title="Topics whose metrics have one name",
    why="In the names of metrics a dot becomes an underscore: what is measured of one topic is "
    "shown for the other, or added to it. Brokers of today refuse the second name; earlier ones "
    "with KRaft did not.",
    how="Use a new name for one of them: create that topic, move producers, then consumers.",
    source="https://kafka.apache.org/documentation/#basic_ops_add_topic",
)
def topic_names_collide(facts: AuditFacts) -> Iterator[CheckResult]:
    topics_by_name = grouped((topic.replace(".", "_"), topic) for topic in facts.partitions.topics)
    for name, topics in topics_by_name.items():
        if len(topics) > 1:
            yield CheckResult(
                subjects.topic(topics[0]),
                f"topics {join_names(topics)} have one name in metrics, {name}",
            )


@rule(
    "topics-over-provisioned",
    Severity.INFO,
    title="Topics with many partitions and next to no traffic",
    why="Partitions that take in nearly nothing cost as many files, fetches and elections as busy "
    "ones, and make batches small: producers send more requests for the same bytes.",
    how="Kafka cannot remove partitions. Create a topic with fewer, move producers, then "
    "consumers, then delete the old one; and lower num.partitions where topics are created "
    "automatically.",
    source=_MODIFY_TOPIC,
    needs={Need.HISTORY},
    thresholds={"least_partitions": 24, "most_bytes_per_second_per_partition": 100},
)
def topics_over_provisioned(
    facts: AuditFacts, *, least_partitions: int, most_bytes_per_second_per_partition: int
) -> Iterator[CheckResult]:
    loads = _topic_loads(facts)
    if loads is None:
        yield unknown(_NO_RATES)
        return
    max_rate = most_bytes_per_second_per_partition
    wide = loads.filter(pc.greater_equal(loads["partition_count"], least_partitions))
    rate_per_partition = pc.divide(wide["bytes_in_per_second"], wide["partition_count"])
    quiet = wide.filter(pc.less_equal(rate_per_partition, max_rate))
    quiet = quiet.sort_by([("partition_count", "descending"), ("topic", "ascending")])
    rows = [
        (
            load["topic"],
            load["partition_count"],
            format_rate(load["bytes_in_per_second"]),
            format_bytes(load["size_bytes"]),
        )
        for load in quiet.to_pylist()
    ]
    if rows:
        partitions = sum(quiet["partition_count"].to_pylist())
        yield CheckResult(
            subjects.CLUSTER,
            f"{pluralize(len(rows), 'topic')} with {least_partitions} partitions or more take in "
            f"{format_rate(max_rate)} or less per partition: {partitions:,} of the cluster's "
            f"{facts.snapshot.partitions.num_rows:,} partitions",
            evidence(("topic", "partitions", "bytes in", "size of one replica of each"), rows),
        )


def _topic_loads(facts: AuditFacts) -> pa.Table | None:
    """Return rows of TOPIC_LOAD with a rate, of existing topics that are not Kafka's own.

    None where no rate is known.
    """
    topic_load = facts.history.topic_load
    loads = topic_load.filter(pc.is_valid(topic_load["bytes_in_per_second"]))
    if not loads.num_rows:
        return None
    topics = facts.snapshot.topics
    names = {*topics.filter(pc.invert(topics["is_internal"]))["topic"].to_pylist()}
    others = pa.array(sorted(names - BROKERS_OWN_TOPICS), pa.string())
    return loads.filter(pc.is_in(loads["topic"], value_set=others))
