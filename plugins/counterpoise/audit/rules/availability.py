"""Availability now: partitions without leader or replicas, brokers and disks that are down.

    broker 3: 1,204 partitions lack it in their ISR           # partitions-under-replicated

One broker that is down shows in every topic that it holds: so replicas out of sync are reported by
broker, and what producers notice (offline, under min ISR) by topic.

Limits: the state of one moment; `replica-long-out-of-sync` compares with the newest snapshots of
the history.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.audit.commands import (
    cancel_reassignments,
    delete_config,
    describe_topic,
    kafka,
    unregister,
)
from counterpoise.audit.facts import PARTITION_ROW, AuditFacts, PartitionColumns, read_partitions
from counterpoise.audit.figures import moving
from counterpoise.audit.outage import causes_among, causes_of
from counterpoise.audit.rule import (
    MAX_EVIDENCE_ROWS,
    CheckResult,
    Need,
    bytes_in_words,
    evidence,
    rule,
    unknown,
)
from counterpoise.audit.rules.replication import min_isr_unknown
from counterpoise.audit.unavailable_data import LOG_DIRS, unavailable
from counterpoise.model import subjects
from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
from counterpoise.model.columns import NOBODY, Ints
from counterpoise.model.finding import LOOK, Evidence, WantedPlan
from counterpoise.model.grouping import grouped
from counterpoise.model.kafka import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS
from counterpoise.model.listeners import ADVERTISED, between_brokers, listeners_of, value_of
from counterpoise.model.request import Goal
from counterpoise.model.severity import Severity
from counterpoise.model.tables import THROTTLES, rows_of
from counterpoise.model.words import join_names, list_brokers, pluralize, verb
from counterpoise.units import format_moment

_DOCUMENTED: Final = "https://kafka.apache.org/documentation/#"
_MONITORING: Final = f"{_DOCUMENTED}monitoring"
_MIN_ISR: Final = f"{_DOCUMENTED}topicconfigs_min.insync.replicas"
_WIKI: Final = "https://cwiki.apache.org/confluence/display/KAFKA/"
_REPLICA_KEY: Final = ("topic", "partition", "broker_id")
_DESCRIBE: Final = ("kafka-topics", "--describe")


# -- partitions


@rule(
    "partitions-offline",
    Severity.CRITICAL,
    title="Partitions without a leader",
    why="Nobody can write to or read from them, and no replica that is known to be complete is "
    "live.",
    how="Bring back a broker of the ISR. An unclean election loses what only that broker has.",
    source=_MONITORING,
)
def partitions_offline(facts: AuditFacts) -> Iterator[CheckResult]:
    partitions = facts.partitions
    eligible_leaders = _eligible_leaders_by_topic(facts)
    live_broker_ids = set(facts.snapshot.live_broker_ids)
    for topic, rows in partitions.by_topic(partitions.leaders == NOBODY):
        isr = set(partitions.isr[rows].ravel().tolist()) - {NOBODY}
        candidates = isr | eligible_leaders.get(topic, set())
        needed = sorted(candidates - live_broker_ids)
        brokers = list_brokers(needed) if needed else "the brokers of the ISR"
        needed_text = f"; needed: {brokers}" if needed else ""
        have = verb(len(rows), "has", "have")
        yield CheckResult(
            subjects.topic(topic),
            f"{partitions.share_in_words(rows)} {have} no leader{needed_text}",
            evidence(PARTITION_ROW, map(partitions.row, rows), len(rows)),
            fix=(
                f"# start {brokers} again",
                LOOK,
                describe_topic(topic, "--unavailable-partitions"),
            ),
            causes=causes_of(facts, rows),
        )


def _eligible_leaders_by_topic(facts: AuditFacts) -> dict[str, set[int]]:
    """Return eligible leader replicas: where there are some, the ISR may be empty (KIP-966)."""
    brokers_by_topic: dict[str, set[int]] = {}
    for key, broker_ids in (facts.inspection.eligible_leaders or {}).items():
        brokers_by_topic.setdefault(key.topic, set()).update(broker_ids)
    return brokers_by_topic


@rule(
    "partitions-under-replicated",
    Severity.WARNING,
    title="Partitions with replicas out of sync",
    why="They have fewer in-sync replicas than they should: the next failure may take the last "
    "one.",
    how="Find out why the broker does not keep up. If it will not come back, make a plan with "
    "the goal repair.",
    source=_MONITORING,
)
def partitions_under_replicated(facts: AuditFacts) -> Iterator[CheckResult]:
    yield from _isr_unknown(facts)
    partitions = facts.partitions
    # As Kafka counts them: a new replica that is in sync already makes up for a missing one.
    is_under = partitions.is_isr_known & (partitions.in_sync < partitions.wanted)
    is_missing = partitions.out_of_sync() & is_under[:, None]
    live_broker_ids = set(facts.snapshot.live_broker_ids)
    for broker_id in np.unique(partitions.replicas[is_missing]).tolist():
        is_on_broker = partitions.replicas == broker_id
        rows = np.flatnonzero((is_missing & is_on_broker).any(axis=1))
        is_live = broker_id in live_broker_ids
        state = "" if is_live else ", which is not live,"
        obstacle = _obstacle(facts, rows)
        lack = verb(len(rows), "lacks", "lack")
        yield CheckResult(
            subjects.broker(broker_id),
            f"{_partitions_in_topics(partitions, rows)} {lack} broker {broker_id}{state} "
            f"in their ISR{obstacle.text}",
            _topic_partition_table(partitions, rows),
            fix=(*obstacle.fix, LOOK, kafka(*_DESCRIBE, "--under-replicated-partitions")),
            plan=None if is_live else WantedPlan(Goal.REPAIR),
            causes=causes_among(facts, [broker_id]),
        )


@rule(
    "partitions-under-min-isr",
    Severity.CRITICAL,
    title="Partitions below min.insync.replicas",
    why="Producers with acks=all get NOT_ENOUGH_REPLICAS: writing has stopped.",
    how="Bring back a replica. With a lower min.insync.replicas producers can write now, but the "
    "next failure may lose those records.",
    source=_MIN_ISR,
)
def partitions_under_min_isr(facts: AuditFacts) -> Iterator[CheckResult]:
    yield from _isr_unknown(facts)
    yield from min_isr_unknown(facts)
    partitions = facts.partitions
    is_below = partitions.is_isr_known & (partitions.in_sync < partitions.needed)
    has_leader = partitions.leaders != NOBODY
    for topic, rows in partitions.by_topic(is_below & has_leader):
        min_insync = partitions.min_insync[partitions.topic_of[rows[0]]]
        have = verb(len(rows), "has", "have")
        obstacle = _obstacle(facts, rows)
        yield CheckResult(
            subjects.topic(topic),
            f"{pluralize(len(rows), 'partition')} of topic {topic} {have} fewer than {min_insync} "
            f"in-sync replicas: producers with acks=all are refused{obstacle.text}",
            evidence(PARTITION_ROW, map(partitions.row, rows), len(rows)),
            fix=(*obstacle.fix, LOOK, describe_topic(topic, "--under-min-isr-partitions")),
            causes=causes_of(facts, rows),
        )


@rule(
    "partitions-at-min-isr",
    Severity.WARNING,
    title="Partitions that have lost a replica and are at min.insync.replicas",
    why="One more replica out of sync, even by a restart, and producers with acks=all are refused.",
    how="Restart nothing before the replicas are back.",
    source=_MIN_ISR,
)
def partitions_at_min_isr(facts: AuditFacts) -> Iterator[CheckResult]:
    """Yield partitions that lack a replica.

    A topic whose factor equals its min ISR is always at min ISR: see `min-insync-blocks`.
    """
    partitions = facts.partitions
    is_at_min = partitions.is_isr_known & (partitions.in_sync == partitions.needed)
    lacks_replica = partitions.in_sync < partitions.wanted
    rows = np.flatnonzero(is_at_min & lacks_replica)
    if len(rows):
        lost = verb(len(rows), "has lost a replica and is", "have lost a replica and are")
        obstacle = _obstacle(facts, rows)
        yield CheckResult(
            subjects.CLUSTER,
            f"{_partitions_in_topics(partitions, rows)} {lost} at min.insync.replicas: when one "
            f"more is out of sync, producers with acks=all are refused{obstacle.text}",
            _topic_partition_table(partitions, rows),
            fix=(*obstacle.fix, LOOK, kafka(*_DESCRIBE, "--at-min-isr-partitions")),
            causes=causes_of(facts, rows),
        )


# -- what keeps replicas on live brokers out of sync


@dataclass(frozen=True, slots=True)
class _Obstacle:
    """What keeps replicas out of sync: the end of a sentence, and lines to paste; may be empty."""

    text: str = ""
    fix: tuple[str, ...] = ()


def _obstacle(facts: AuditFacts, rows: Ints) -> _Obstacle:
    """Return the obstacle that explains all of the rows, where the brokers they lack are live."""
    partitions = facts.partitions
    lacked = np.unique(partitions.replicas[rows][partitions.out_of_sync()[rows]]).tolist()
    if not lacked or not set(facts.snapshot.live_broker_ids).issuperset(lacked):
        return _Obstacle()
    leaders = np.unique(partitions.leaders[rows]).tolist()
    topics = [partitions.topics[number] for number in np.unique(partitions.topic_of[rows])]
    throttle = _throttle_left_behind(facts, topics, lacked, leaders)
    if throttle.text or not _leaders_that_nobody_follows(facts).issuperset(leaders):
        return throttle
    where = [address for leader in leaders for address in _advertised_to_brokers(facts, leader)]
    at = f" at {join_names(where)}" if where else ""
    return _Obstacle(
        f"; no replica keeps up with {list_brokers(leaders)}",
        (f"# check that other brokers reach {list_brokers(leaders)}{at}: their logs say why not",),
    )


def _throttle_left_behind(
    facts: AuditFacts, topics: Sequence[str], followers: Sequence[int], leaders: Sequence[int]
) -> _Obstacle:
    """Return the throttle of these topics at all of the followers, or at all of the leaders."""
    throttles = rows_of(facts.snapshot.throttles, *THROTTLES.names)
    is_set = {(kind, name, key) for kind, name, key, value in throttles if value}
    if facts.active_run_id or moving(facts.snapshot.partitions).num_rows:
        return _Obstacle()
    for rate, replicas, brokers in (
        (FOLLOWER_RATE, FOLLOWER_REPLICAS, followers),
        (LEADER_RATE, LEADER_REPLICAS, leaders),
    ):
        needed = {("broker", str(broker_id), rate) for broker_id in brokers}
        needed |= {("topic", topic, replicas) for topic in topics}
        if needed <= is_set:
            return _Obstacle(
                f"; a throttle that was left behind on {list_brokers(brokers)} holds them back",
                tuple(delete_config("brokers", broker_id, (rate,)) for broker_id in brokers),
            )
    return _Obstacle()


def _leaders_that_nobody_follows(facts: AuditFacts) -> set[int]:
    """Return leaders without any follower in sync, where followers of others are in sync."""
    partitions = facts.partitions
    has_followers = (partitions.wanted > 1) & partitions.is_isr_known
    has_leader = has_followers & (partitions.leaders != NOBODY)
    followed = set(partitions.leaders[has_leader & (partitions.in_sync > 1)].tolist())
    return set(partitions.leaders[has_leader].tolist()) - followed if followed else set()


def _advertised_to_brokers(facts: AuditFacts, broker_id: int) -> list[str]:
    """Return `INTERNAL://kafka-2:9094`, where other brokers replicate from; [] if not known."""
    configs = facts.inspection.broker_configs.get(broker_id, {})
    name = between_brokers(configs).upper()
    return [
        f"{name}://{listener.endpoint_in_config}"
        for listener in listeners_of(value_of(configs, ADVERTISED))
        if listener.name == name
    ]


def _isr_unknown(facts: AuditFacts) -> Iterator[CheckResult]:
    count = int((~facts.partitions.is_isr_known).sum())
    if count:
        yield unknown(f"the ISR of {pluralize(count, 'partition')}")


def _partitions_in_topics(partitions: PartitionColumns, rows: Ints) -> str:
    """Return `1,204 partitions of 31 topics`."""
    topic_count = len(np.unique(partitions.topic_of[rows]))
    return f"{pluralize(len(rows), 'partition')} of {pluralize(topic_count, 'topic')}"


def _topic_partition_table(partitions: PartitionColumns, rows: Ints) -> Evidence:
    shown = ((partitions.topics[partitions.topic_of[row]], *partitions.row(row)) for row in rows)
    return evidence(("topic", *PARTITION_ROW), shown, len(rows))


# -- brokers and disks


@rule(
    "log-dir-offline",
    Severity.CRITICAL,
    title="Log dirs that are offline",
    why="Their replicas are unavailable until the disk is repaired, while the broker seems live.",
    how="Repair or replace the disk and restart the broker; replicas are copied again.",
    source=f"{_WIKI}KIP-112%3A+Handle+disk+failure+for+JBOD",
)
def log_dir_offline(facts: AuditFacts) -> Iterator[CheckResult]:
    errors_by_broker = grouped(
        (log_dir["broker_id"], (log_dir["log_dir"], log_dir["error"]))
        for log_dir in facts.snapshot.log_dirs.to_pylist()
        if log_dir["error"] is not None
    )
    for broker_id, rows in sorted(errors_by_broker.items()):
        are = verb(len(rows), "is", "are")
        yield CheckResult(
            subjects.broker(broker_id),
            f"{pluralize(len(rows), 'log dir')} of broker {broker_id} {are} offline",
            evidence(("log dir", "error"), rows),
            fix=(f"# repair or replace the disk of broker {broker_id}, then restart the broker",),
        )
    yield from unavailable(facts, LOG_DIRS)


@rule(
    "broker-fenced",
    Severity.CRITICAL,
    title="Brokers that are not live",
    why="Their replicas fall behind, and each of their partitions survives one failure less.",
    how="Start the broker, or repair its partitions onto others and unregister it.",
    source=f"{_WIKI}KIP-631%3A+The+Quorum-based+Kafka+Controller",
    severities={Severity.WARNING},
)
def broker_fenced(facts: AuditFacts) -> Iterator[CheckResult]:
    live_broker_ids = set(facts.snapshot.live_broker_ids)
    replicas = facts.partitions.replicas
    for broker_id in facts.snapshot.registered_broker_ids:
        if broker_id in live_broker_ids:
            continue
        replica_count = int((replicas == broker_id).sum())
        held = pluralize(replica_count, "replica")
        moves = _moves_to(facts, broker_id)
        wait = pluralize(len(moves), "reassignment waits", "reassignments wait")
        yield CheckResult(
            subjects.broker(broker_id),
            f"broker {broker_id} is not live; it holds {held}"
            f"{f', and {wait} for it' if moves else ''}",
            fix=(*_start_or_replace(broker_id, is_empty=not replica_count), *_cancelled(moves)),
            plan=WantedPlan(Goal.REPAIR) if replica_count else None,
            severity=Severity.CRITICAL if replica_count else Severity.WARNING,
        )


def _moves_to(facts: AuditFacts, broker_id: int) -> list[TopicPartition]:
    """Return the partitions that somebody moves to a broker; not those of a run of ours."""
    if facts.active_run_id:
        return []
    partitions = facts.partitions
    rows = np.flatnonzero((partitions.adding == broker_id).any(axis=1))
    return [
        TopicPartition(partitions.topics[partitions.topic_of[row]], int(partitions.numbers[row]))
        for row in rows
    ]


def _cancelled(moves: Sequence[TopicPartition]) -> tuple[str, ...]:
    if not moves:
        return ()
    return ("# or end the reassignments that wait for it:", *cancel_reassignments(moves))


def _start_or_replace(broker_id: int, *, is_empty: bool) -> tuple[str, ...]:
    """Return what takes the broker off the list; Kafka may not know one that holds replicas."""
    if is_empty:
        return (
            f"# start broker {broker_id}; or, if it will not come back:",
            unregister(broker_id),
        )
    return (
        f"# start broker {broker_id}; or, if it will not come back, make the plan, and unregister "
        "it when it holds nothing",
    )


# -- replicas that stay out of sync


@rule(
    "replica-long-out-of-sync",
    Severity.WARNING,
    title="Replicas out of sync for a long time",
    why="A replica that lags in several snapshots does not catch up without help: the cause is a "
    "disk, the network, or a throttle below the rate at which producers write.",
    how="Compare its size with the leader's in one audit and the next; check the broker's log, and "
    "throttles.",
    source=f"{_DOCUMENTED}replication",
    needs={Need.HISTORY},
    thresholds={"snapshots": 3},
)
def replica_long_out_of_sync(facts: AuditFacts, *, snapshots: int) -> Iterator[CheckResult]:
    """Yield live brokers with replicas that are out of sync in each of the newest snapshots.

    The present snapshot counts as one of them. Replicas that are being added are not counted.
    """
    out_of_sync = _out_of_sync(facts.partitions, facts.snapshot)
    if not len(out_of_sync):
        return
    earlier_count = snapshots - 1
    earlier = facts.history.recent_snapshots[-earlier_count:] if earlier_count > 0 else ()
    if len(earlier) < earlier_count:
        yield unknown(
            f"{pluralize(len(out_of_sync), 'replica')} out of sync now; "
            f"the history has {pluralize(len(earlier), 'snapshot')}",
        )
        return
    for snapshot in earlier:
        then_out_of_sync = _out_of_sync(read_partitions(snapshot), snapshot)
        out_of_sync = out_of_sync.join(then_out_of_sync, list(_REPLICA_KEY), join_type="left semi")
    since = format_moment(_oldest_moment(earlier, facts.now))
    for broker_id in sorted(out_of_sync["broker_id"].unique().to_pylist()):
        replicas = out_of_sync.filter(pc.equal(out_of_sync["broker_id"], broker_id))
        have = verb(len(replicas), "has", "have")
        yield CheckResult(
            subjects.broker(broker_id),
            f"{pluralize(len(replicas), 'replica')} on broker {broker_id} {have} been out of sync "
            f"in each of {snapshots} snapshots, since {since} at the latest",
            evidence(
                ("topic", "partition", "copied", "leader's size"),
                _size_rows(facts.snapshot, replicas),
                len(replicas),
            ),
            fix=(LOOK, kafka(*_DESCRIBE, "--under-replicated-partitions")),
        )


def _oldest_moment(snapshots: Sequence[ClusterSnapshot], default: datetime) -> datetime:
    moments = [snapshot.observed_at for snapshot in snapshots if snapshot.observed_at is not None]
    return min(moments, default=default)


def _out_of_sync(partitions: PartitionColumns, snapshot: ClusterSnapshot) -> pa.Table:
    """Return the replicas on live brokers that are out of sync, with the columns _REPLICA_KEY."""
    live_broker_ids = np.array(snapshot.live_broker_ids, dtype=np.int64)
    is_on_live_broker = np.isin(partitions.replicas, live_broker_ids)
    is_out_of_sync = partitions.out_of_sync() & is_on_live_broker
    rows, _ = np.nonzero(is_out_of_sync)
    topic_numbers = pa.array(partitions.topic_of[rows])
    topics = pa.array(partitions.topics, pa.string()).take(topic_numbers)
    columns = [topics, partitions.numbers[rows], partitions.replicas[is_out_of_sync]]
    return pa.table(columns, names=list(_REPLICA_KEY))


def _size_rows(snapshot: ClusterSnapshot, replicas: pa.Table) -> list[tuple[Any, ...]]:
    """Return topic, partition, size of the replica and size of the leader's, for the first rows.

    Sizes are compared, since log dirs report a lag of 0 for a replica that is being copied.
    """
    order = [("topic", "ascending"), ("partition", "ascending")]
    shown = replicas.sort_by(order).slice(0, MAX_EVIDENCE_ROWS).to_pylist()
    topics = pa.array(sorted({row["topic"] for row in shown}), pa.string())
    is_shown = pc.is_in(snapshot.replicas["topic"], value_set=topics)
    sizes: dict[tuple[Any, ...], int | None] = {}  # also by partition alone: the leader's
    for replica in snapshot.replicas.filter(is_shown).to_pylist():
        partition = (replica["topic"], replica["partition"])
        sizes[*partition, replica["broker_id"]] = replica["size_bytes"]
        if replica["is_leader"]:
            sizes[partition] = replica["size_bytes"]
    rows = []
    for row in shown:
        partition = (row["topic"], row["partition"])
        size = sizes.get((*partition, row["broker_id"]))
        rows.append((*partition, bytes_in_words(size), bytes_in_words(sizes.get(partition))))
    return rows
