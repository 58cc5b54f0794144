"""Clients: groups that lose records before they read them, quotas that stop everybody, and
transactions that nobody will end.

    group shop has not read 12,000 records of topic orders that are soon deleted

A group is judged where it has committed an offset: one that still has members counts where they
have partitions, since it keeps the offsets of a topic that it has left for a while.

Limits: from one observation. So a group is near the end of retention by how much of it the next
record has used up, whatever its pace; and how long a group has had no members is not known.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from counterpoise.audit.commands import add_config, kafka
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.rule import CheckResult, evidence, rule, unknown
from counterpoise.model import subjects
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.finding import LOOK, Evidence
from counterpoise.model.grouping import grouped
from counterpoise.model.inspection import (
    LEAST_LAG,
    USED_UP_PERCENT,
    ConsumerGroup,
    HangingTransactions,
    InspectionItem,
    LogOffsets,
)
from counterpoise.model.severity import Severity
from counterpoise.model.tables import rows_of
from counterpoise.model.words import join_names, pluralize
from counterpoise.units import format_rate, format_seconds

_DOCUMENTED: Final = "https://kafka.apache.org/documentation/#"
_RETENTION_MS: Final = "retention.ms"
_RETENTION_BYTES: Final = "retention.bytes"
_STABLE: Final = "Stable"
_GROUPS: Final = "kafka-consumer-groups"


@dataclass(frozen=True, slots=True)
class _Position:
    """Where a group is in a partition that it reads."""

    partition: TopicPartition
    offset: int  # of the record that it reads next
    log: LogOffsets

    @property
    def lost(self) -> int:
        """Return how many records were deleted before the group read them."""
        return max(0, self.log.start - self.offset)

    @property
    def lag(self) -> int:
        return max(0, self.log.end - max(self.offset, self.log.start))


def _positions(facts: AuditFacts, group: ConsumerGroup) -> Iterator[_Position]:
    """Yield where a group is, by partition; without what no leader tells."""
    logs = facts.inspection.logs
    for partition, offset in sorted(group.committed()):
        if partition in logs and _reads(group, partition.topic):
            yield _Position(partition, offset, logs[partition])


def _reads(group: ConsumerGroup, topic: str) -> bool:
    """Return whether the group has not left the topic, as far as its members tell."""
    return group.state != _STABLE or topic in group.topics


def _not_known(facts: AuditFacts) -> Iterator[CheckResult]:
    """Yield an unknown result where no leader tells of partitions that groups read."""
    topics = set(facts.snapshot.topic_ids)
    missing = {
        partition
        for group in facts.groups
        for partition, _ in group.committed()
        if partition.topic in topics and partition not in facts.inspection.logs
    }
    if missing:
        count = pluralize(len(missing), "partition")
        yield unknown(f"the offsets of {count} of groups: no leader responds")


@rule(
    "group-near-retention",
    Severity.WARNING,
    title="Groups that are about to lose what they have not read",
    why="Retention deletes by age and size, whether a group has read a record or not. This one is "
    f"so far behind that {USED_UP_PERCENT} % of the retention is used up: unless it catches up, it "
    "loses records without an error.",
    how="Start the group's consumers, or more of them. Where the disks have room, keep the records "
    "for longer until it has caught up.",
    source=f"{_DOCUMENTED}topicconfigs_{_RETENTION_MS}",
    needs={InspectionItem.GROUPS, InspectionItem.RECORD_AGES},
)
def group_near_retention(facts: AuditFacts) -> Iterator[CheckResult]:
    yield from _not_known(facts)
    limits = _Limits(facts)
    for group in facts.groups:
        near = [
            (position, limit)
            for position in _positions(facts, group)
            if (limit := limits.used_up_by(position))
        ]
        if near:
            positions = [position for position, _ in near]
            rows = [
                (*one.partition, one.offset, one.log.end, one.lag, f"{key}={value}")
                for one, (key, value) in near
            ]
            raised = {(one.partition.topic, *limit) for one, limit in near}
            yield CheckResult(
                subjects.group(group.group),
                f"group {group.group} has not read {_count(positions, 'lag')}, and retention is "
                f"about to delete the first of them{_without_members(group)}",
                evidence(
                    ("topic", "partition", "committed", "log end", "not read", "retention"), rows
                ),
                fix=(
                    "# keeps the records for longer; set it back when the group has caught up:",
                    *(
                        add_config("topics", topic, {key: 2 * value})
                        for topic, key, value in sorted(raised)
                    ),
                ),
            )


class _Limits:
    """The retention of each topic, and how much of it a group has used up."""

    def __init__(self, facts: AuditFacts) -> None:
        self._facts = facts
        names = ("topic", "cleanup_policy", "retention_ms", "retention_bytes")
        self._by_topic = {topic: rest for topic, *rest in rows_of(facts.snapshot.topics, *names)}
        sizes = rows_of(facts.snapshot.partitions, "topic", "partition", "size_bytes")
        self._sizes = {(topic, partition): size for topic, partition, size in sizes}

    def used_up_by(self, position: _Position) -> tuple[str, int] | None:
        """Return the config that is about to delete what is not read, and its value."""
        policy, retention_ms, retention_bytes = self._by_topic[position.partition.topic]
        if position.lost or position.lag < LEAST_LAG or "delete" not in (policy or ""):
            return None
        fresh_from = position.log.fresh_from
        if fresh_from is not None and fresh_from - position.offset >= LEAST_LAG:
            return _RETENTION_MS, retention_ms
        if (retention_bytes or 0) > 0 and policy == "delete":
            unread_bytes = self._unread_bytes(position)
            if unread_bytes * 100 >= retention_bytes * USED_UP_PERCENT:
                return _RETENTION_BYTES, retention_bytes
        return None

    def _unread_bytes(self, position: _Position) -> float:
        """Return the part of the partition's size that its records have by number.

        0 where the size is not known, and with tiered storage, where it is that of a part.
        """
        log, partition = position.log, position.partition
        size_bytes = self._sizes.get((partition.topic, partition.partition))
        if size_bytes is None or partition.topic in self._facts.snapshot.tiered_topics:
            return 0.0
        return float(size_bytes) * position.lag / (log.end - log.start)


@rule(
    "group-lost-records",
    Severity.WARNING,
    title="Groups that have lost records before they read them",
    why="Their next record is deleted. Consumers go on at auto.offset.reset: they leave out what "
    "is gone, or with `latest` everything until now, and nobody sees an error.",
    how="Find out why the members do not keep up or commit, and whether what they missed can be "
    "made again.",
    source=f"{_DOCUMENTED}consumerconfigs_auto.offset.reset",
    needs={InspectionItem.GROUPS},
)
def group_lost_records(facts: AuditFacts) -> Iterator[CheckResult]:
    yield from _not_known(facts)
    for group, lost in _with_losses(facts, has_members=True):
        yield CheckResult(
            subjects.group(group.group),
            f"group {group.group} has lost {_count(lost, 'lost')}: they were deleted before it "
            "read them",
            _lost_rows(lost),
            fix=(LOOK, kafka(_GROUPS, "--describe", "--group", group.group)),
        )


@rule(
    "group-abandoned",
    Severity.INFO,
    title="Groups without members, whose records are gone",
    why="Nobody reads for the group, and what it would read next is deleted: its lag alarms for "
    "nothing, or a consumer that should run has been down for longer than the retention.",
    how="Start its consumers, which go on at auto.offset.reset, or delete the group.",
    source=f"{_DOCUMENTED}basic_ops_consumer_group",
    needs={InspectionItem.GROUPS},
)
def group_abandoned(facts: AuditFacts) -> Iterator[CheckResult]:
    yield from _not_known(facts)
    for group, lost in _with_losses(facts, has_members=False):
        yield CheckResult(
            subjects.group(group.group),
            f"group {group.group} has no members, and {_count(lost, 'lost')} were deleted before "
            "it read them",
            _lost_rows(lost),
            fix=(
                "# if nobody needs it any more:",
                kafka(_GROUPS, "--delete", "--group", group.group),
            ),
        )


def _with_losses(
    facts: AuditFacts, *, has_members: bool
) -> Iterator[tuple[ConsumerGroup, list[_Position]]]:
    for group in facts.groups:
        if bool(group.member_count) is has_members:
            lost = [one for one in _positions(facts, group) if one.lost >= LEAST_LAG]
            if lost:
                yield group, lost


def _lost_rows(positions: Iterable[_Position]) -> Evidence:
    rows = [(*one.partition, one.offset, one.log.start, one.lost) for one in positions]
    return evidence(("topic", "partition", "committed", "log start", "lost"), rows)


def _count(positions: list[_Position], what: str) -> str:
    """Return `12,000 records of topics orders, payments`."""
    total = sum(getattr(position, what) for position in positions)
    topics = list(dict.fromkeys(position.partition.topic for position in positions))
    word = "topic" if len(topics) == 1 else "topics"
    return f"{pluralize(total, 'record')} of {word} {join_names(topics)}"


def _without_members(group: ConsumerGroup) -> str:
    return "" if group.member_count else "; it has no members"


# -- quotas

_BYTE_RATES: Final = {"producer_byte_rate": "write", "consumer_byte_rate": "read"}
_REQUEST_PERCENTAGE: Final = "request_percentage"
_EVERYBODY: Final = {
    "users": "every user",
    "clients": "every client id",
    "users clients": "every client id of every user",
}


@rule(
    "client-quota-tiny",
    Severity.WARNING,
    title="Quotas for everybody with a value that is probably a typo",
    why="The quota holds for all who have none of their own. It is in bytes per second and broker, "
    "or in percent: less than one batch of a producer a second, as by default, or a fraction of a "
    "percent, is usually a value in kilobytes, or one copied from an example. Clients are "
    "throttled without an error.",
    how="Set what was meant, or delete it.",
    source=f"{_DOCUMENTED}design_quotas",
    needs={InspectionItem.QUOTAS},
    thresholds={"least_bytes": 16_384},
)
def client_quota_tiny(facts: AuditFacts, *, least_bytes: int) -> Iterator[CheckResult]:
    for entity, values in sorted((facts.inspection.default_quotas or {}).items()):
        tiny = {
            key: f"{verb} {format_rate(values[key])}"
            for key, verb in _BYTE_RATES.items()
            if key in values and values[key] < least_bytes
        }
        if values.get(_REQUEST_PERCENTAGE, 100) < 1:
            tiny[_REQUEST_PERCENTAGE] = f"use {values[_REQUEST_PERCENTAGE]:g} % of a thread"
        if tiny:
            who = _EVERYBODY[entity]
            types = [word for kind in entity.split() for word in _default_of(kind)]
            yield CheckResult(
                subjects.quota(who),
                f"{who} without another quota may {' and '.join(tiny.values())} on a broker",
                evidence(("quota", "value"), [(key, f"{values[key]:g}") for key in tiny]),
                fix=(kafka("kafka-configs", "--alter", *types, "--delete-config", ",".join(tiny)),),
            )


def _default_of(kind: str) -> tuple[str, ...]:
    return "--entity-type", kind, "--entity-default"


# -- transactions


@rule(
    "transactions-hanging",
    Severity.WARNING,
    title="Open transactions that no coordinator will end",
    why="Consumers with read_committed stop before such a transaction without an error, and so "
    "does compaction, until retention deletes it. It has written nothing for "
    "transaction.max.timeout.ms, and was open before and after all coordinators were asked. They "
    "leave out in silence what may not be described: a transactional id that an ACL denies looks "
    "the same.",
    how="Make sure that its producer is not at work, then abort it. Only `--rule "
    "transactions-hanging` runs this rule, no pattern, since it needs Read on topics, and, where a "
    "transaction is as old, Describe on all transactional ids.",
    source="https://cwiki.apache.org/confluence/spaces/KAFKA/pages/158873417",
    needs={InspectionItem.BROKER_CONFIGS, InspectionItem.TRANSACTIONS},
    by_name_alone=True,
)
def transactions_hanging(facts: AuditFacts) -> Iterator[CheckResult]:
    read = facts.inspection.transactions or HangingTransactions()
    unread = grouped((reason, topic) for topic, reason in sorted(read.unread_topics.items()))
    if unread:
        reasons = (f"{join_names(topics)}: {reason}" for reason, topics in unread.items())
        yield unknown(f"the producers of topics {'; '.join(reasons)}")
    now_ms = facts.now.timestamp() * 1000
    for topic, found in grouped((one.partition.topic, one) for one in read.found).items():
        abort = ("kafka-transactions", "abort", "--topic", topic)
        rows = [
            (one.partition.partition, one.start_offset, one.producer_id, format_seconds(seconds))
            for one in found
            for seconds in [(now_ms - one.last_record_ms) / 1000]
        ]
        yield CheckResult(
            subjects.topic(topic),
            f"topic {topic} has {pluralize(len(found), 'hanging transaction')}, where consumers "
            "with read_committed stop",
            evidence(("partition", "start offset", "producer id", "silent for"), rows),
            fix=(
                "# takes Alter on the cluster (ClusterAction before Kafka 3.8), Read on the topic:",
                *(kafka(*abort, "--partition", n, "--start-offset", at) for n, at, *_ in rows),
            ),
        )
