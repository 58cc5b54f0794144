"""Availability now: partitions without leader or replicas, brokers and disks that are down.

    broker 3: 1,204 partitions lack it in their ISR           # partitions-under-replicated

One broker that is down shows in every topic it holds: so replicas out of sync are told by broker,
and what producers run into (offline, under min ISR) by topic.

Limits: a moment's look; `replica-long-out-of-sync` compares with the newest photographs of the
history.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.audit.columns import NOT_KNOWN, PARTITION_ROW, PartitionColumns, read_partitions
from counterpoise.audit.commands import kafka
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.rule import (
    MAX_EVIDENCE_ROWS,
    Area,
    CheckResult,
    Need,
    Rule,
    evidence,
    unknown,
)
from counterpoise.audit.unavailable_data import LOG_DIRS, unavailable
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.columns import NOBODY, Ints
from counterpoise.model.finding import Evidence, WantedPlan
from counterpoise.model.request import Goal
from counterpoise.model.severity import Severity
from counterpoise.model.words import join_ids, join_names, pluralize
from counterpoise.units import format_bytes, format_moment

_CLUSTER: Final = "cluster"
_MONITORING: Final = "https://kafka.apache.org/documentation/#monitoring"
_REPLICATION: Final = "https://kafka.apache.org/documentation/#replication"
_REPLICA: Final = ("topic", "partition", "broker_id")


def _rows(columns: PartitionColumns, rows: Ints, total: int | None = None) -> Evidence:
    return evidence(
        PARTITION_ROW,
        [columns.row(at) for at in rows[:MAX_EVIDENCE_ROWS].tolist()],
        total or len(rows),
    )


def _topic_rows(columns: PartitionColumns, rows: Ints) -> Evidence:
    shown = [
        (columns.topics[columns.topic_of[at]], *columns.row(at))
        for at in rows[:MAX_EVIDENCE_ROWS].tolist()
    ]
    return evidence(("topic", *PARTITION_ROW), shown, len(rows))


def _offline(facts: AuditFacts) -> Iterator[CheckResult]:
    columns = facts.partitions
    counts = columns.counts()
    is_offline = columns.leaders == NOBODY
    not_wanted = {NOBODY, *facts.snapshot.live_broker_ids}
    # Where there are eligible leaders, the ISR may be empty (KIP-966).
    eligible: dict[str, set[int]] = {}
    for key, brokers in (facts.inspection.eligible_leaders or {}).items():
        eligible.setdefault(key.topic, set()).update(brokers)
    for topic, rows in columns.by_topic(is_offline):
        dead = sorted({*columns.isr[rows].ravel().tolist(), *eligible.get(topic, ())} - not_wanted)
        wanted = f"; needed: broker {join_ids(dead)}" if dead else ""
        yield CheckResult(
            f"topic {topic}",
            f"{len(rows):,} of {pluralize(int(counts[columns.topic_of[rows[0]]]), 'partition')} have no leader{wanted}",
            _rows(columns, rows),
            fix=(
                f"# start broker {join_ids(dead)} again"
                if dead
                else "# start the brokers of the ISR again",
                kafka("kafka-topics", "--describe", "--topic", topic, "--unavailable-partitions"),
            ),
        )


def _under_replicated(facts: AuditFacts) -> Iterator[CheckResult]:
    yield from _isr_not_told(facts)
    columns = facts.partitions
    # As Kafka counts them: a reassignment's new replica that is in sync already makes up for
    # another one.
    is_under = columns.is_isr_known & (columns.in_sync < columns.wanted)
    lacking = columns.out_of_sync() & is_under[:, None]
    live = set(facts.snapshot.live_broker_ids)
    for broker_id in np.unique(columns.replicas[lacking]).tolist():
        rows = np.flatnonzero((lacking & (columns.replicas == broker_id)).any(axis=1))
        topics = len(np.unique(columns.topic_of[rows]))
        state = "" if broker_id in live else ", which is not live"
        yield CheckResult(
            f"broker {broker_id}",
            f"{pluralize(len(rows), 'partition')} of {pluralize(topics, 'topic')} lack broker {broker_id}{state}, in their ISR",
            _topic_rows(columns, rows),
            fix=(kafka("kafka-topics", "--describe", "--under-replicated-partitions"),),
            plan=None if broker_id in live else WantedPlan(Goal.REPAIR),
        )


def _isr_not_told(facts: AuditFacts) -> Iterator[CheckResult]:
    untold = int((~facts.partitions.is_isr_known).sum())
    if untold:
        yield unknown(_CLUSTER, f"the ISR of {pluralize(untold, 'partition')} was not told")


def _under_min_isr(facts: AuditFacts) -> Iterator[CheckResult]:
    yield from _isr_not_told(facts)
    columns = facts.partitions
    if untold := [columns.topics[at] for at in np.flatnonzero(columns.min_insync == NOT_KNOWN)]:
        yield unknown(
            _CLUSTER,
            f"min.insync.replicas of {pluralize(len(untold), 'topic')}: {join_names(untold)}",
        )
    is_under = (
        columns.is_isr_known & (columns.in_sync < columns.needed) & (columns.leaders != NOBODY)
    )
    for topic, rows in columns.by_topic(is_under):
        at = columns.topic_of[rows[0]]
        yield CheckResult(
            f"topic {topic}",
            f"{pluralize(len(rows), 'partition')} of topic {topic} have fewer than {columns.min_insync[at]} in-sync "
            "replicas: producers with acks=all are refused",
            _rows(columns, rows),
            fix=(
                kafka("kafka-topics", "--describe", "--topic", topic, "--under-min-isr-partitions"),
            ),
        )


def _at_min_isr(facts: AuditFacts) -> Iterator[CheckResult]:
    """Where a replica is missing: a topic whose factor equals its min ISR is always there, and a
    finding of its own.
    """
    columns = facts.partitions
    is_at = (
        columns.is_isr_known
        & (columns.in_sync == columns.needed)
        & (columns.in_sync < columns.wanted)
    )
    rows = np.flatnonzero(is_at)
    if len(rows):
        topics = len(np.unique(columns.topic_of[rows]))
        yield CheckResult(
            _CLUSTER,
            f"{pluralize(len(rows), 'partition')} of {pluralize(topics, 'topic')} have lost a replica and are at their "
            "min.insync.replicas: one more, and producers with acks=all are refused",
            _topic_rows(columns, rows),
            fix=(kafka("kafka-topics", "--describe", "--at-min-isr-partitions"),),
        )


def _log_dirs(facts: AuditFacts) -> Iterator[CheckResult]:
    told = facts.snapshot.log_dirs.to_pylist()
    by_broker: dict[int, list[tuple[str, str]]] = {}
    for row in told:
        if row["error"] is not None:
            by_broker.setdefault(row["broker_id"], []).append((row["log_dir"], row["error"]))
    for broker_id, dirs in sorted(by_broker.items()):
        yield CheckResult(
            f"broker {broker_id}",
            f"{pluralize(len(dirs), 'log dir')} of broker {broker_id} {'is' if len(dirs) == 1 else 'are'} offline",
            evidence(("log dir", "error"), dirs),
            fix=(f"# mend or replace the disk of broker {broker_id}, then restart the broker",),
        )
    yield from unavailable(facts, LOG_DIRS)


def _fenced(facts: AuditFacts) -> Iterator[CheckResult]:
    live = set(facts.snapshot.live_broker_ids)
    replicas = facts.partitions.replicas
    for broker_id in facts.snapshot.registered_broker_ids:
        if broker_id not in live:
            held = int((replicas == broker_id).sum())
            yield CheckResult(
                f"broker {broker_id}",
                f"broker {broker_id} is registered and not live; it holds {pluralize(held, 'replica')}",
                fix=(
                    f"# start broker {broker_id}; or, when it is not to come back and holds nothing any more:",
                    f'kafka-cluster.sh unregister --bootstrap-server "$BOOTSTRAP" --id {broker_id}',
                ),
                plan=WantedPlan(Goal.REPAIR) if held else None,
                severity=Severity.CRITICAL if held else Severity.WARNING,
            )


def _long_out_of_sync(facts: AuditFacts) -> Iterator[CheckResult]:
    """Of live brokers, in every one of the newest snapshots; those that are being added are only on
    their way.
    """
    count = facts.threshold("replica-long-out-of-sync", "snapshots")
    now = _out_of_sync(facts.partitions, facts.snapshot)
    if not len(now):
        return
    recent = (
        [*(facts.past.recent_snapshots if facts.past else ())][1 - count :] if count > 1 else []
    )
    if len(recent) < count - 1:
        yield unknown(
            _CLUSTER,
            f"{pluralize(len(now), 'replica')} out of sync now; the history has {len(recent)} snapshots",
        )
        return
    stayed = now
    for snapshot in recent:
        stayed = stayed.join(
            _out_of_sync(read_partitions(snapshot), snapshot), list(_REPLICA), join_type="left semi"
        )
    since = min(
        (one.observed_at for one in recent if one.observed_at is not None), default=facts.now
    )
    for broker_id in sorted(stayed["broker_id"].unique().to_pylist()):
        its = stayed.filter(pc.equal(stayed["broker_id"], broker_id))
        yield CheckResult(
            f"broker {broker_id}",
            f"{pluralize(len(its), 'replica')} on broker {broker_id} have been out of sync in each of {count} snapshots, "
            f"since {format_moment(since)} at the latest",
            evidence(
                ("topic", "partition", "copied", "leader's copy"),
                _with_sizes(facts.snapshot, its),
                len(its),
            ),
            fix=(kafka("kafka-topics", "--describe", "--under-replicated-partitions"),),
        )


def _out_of_sync(columns: PartitionColumns, snapshot: ClusterSnapshot) -> pa.Table:
    """Replicas on live brokers, by _REPLICA."""
    out = columns.out_of_sync() & np.isin(
        columns.replicas, np.array(snapshot.live_broker_ids, dtype=np.int64)
    )
    rows, _ = np.nonzero(out)
    names = pa.array(columns.topics, pa.string()).take(pa.array(columns.topic_of[rows]))
    return pa.table([names, columns.numbers[rows], columns.replicas[out]], names=list(_REPLICA))


def _with_sizes(snapshot: ClusterSnapshot, replicas: pa.Table) -> list[tuple[object, ...]]:
    """The first, with bytes of the replica and of the leader's copy: log dirs tell a lag of 0 for
    one that copies.
    """
    shown = (
        replicas.sort_by([("topic", "ascending"), ("partition", "ascending")])
        .slice(0, MAX_EVIDENCE_ROWS)
        .to_pylist()
    )
    of = snapshot.replicas
    told = of.filter(
        pc.is_in(
            of["topic"], value_set=pa.array(sorted({row["topic"] for row in shown}), pa.string())
        )
    )
    sizes = {
        (r["topic"], r["partition"], r["broker_id"]): r["size_bytes"] for r in told.to_pylist()
    }
    leaders = {
        (r["topic"], r["partition"]): r["size_bytes"] for r in told.to_pylist() if r["is_leader"]
    }
    return [
        (*key, _bytes(sizes.get((*key, row["broker_id"]))), _bytes(leaders.get(key)))
        for row in shown
        for key in ((row["topic"], row["partition"]),)
    ]


def _bytes(size: int | None) -> str:
    return "not told" if size is None else format_bytes(size)


RULES: Final = (
    Rule(
        "partitions-offline",
        Area.AVAILABILITY,
        Severity.CRITICAL,
        title="Partitions without a leader",
        why="Nobody can write to or read from them, and no copy that is known to be complete is live.",
        how="Bring back a broker of the ISR. An unclean election loses what only that broker has.",
        source=_MONITORING,
        check=_offline,
    ),
    Rule(
        "partitions-under-replicated",
        Area.AVAILABILITY,
        Severity.WARNING,
        title="Partitions with replicas out of sync",
        why="They have fewer copies than they should: the next failure may take the last one.",
        how="See why the broker does not keep up. Where it is not to come back, make a plan that repairs.",
        source=_MONITORING,
        check=_under_replicated,
    ),
    Rule(
        "partitions-under-min-isr",
        Area.AVAILABILITY,
        Severity.CRITICAL,
        title="Partitions below min.insync.replicas",
        why="Producers with acks=all get NOT_ENOUGH_REPLICAS: writing has stopped.",
        how="Bring back a replica. Lowering min.insync.replicas trades the records of the next failure for writes now.",
        source="https://kafka.apache.org/documentation/#topicconfigs_min.insync.replicas",
        check=_under_min_isr,
    ),
    Rule(
        "partitions-at-min-isr",
        Area.AVAILABILITY,
        Severity.WARNING,
        title="Partitions that have lost a replica and are at min.insync.replicas",
        why="One more replica out of sync, be it by a restart, and producers with acks=all are refused.",
        how="Restart nothing before the replicas are back.",
        source="https://kafka.apache.org/documentation/#topicconfigs_min.insync.replicas",
        check=_at_min_isr,
    ),
    Rule(
        "log-dir-offline",
        Area.AVAILABILITY,
        Severity.CRITICAL,
        title="Log dirs that are offline",
        why="Their replicas are gone until the disk is mended, while the broker looks live.",
        how="Mend or replace the disk and restart the broker; replicas are copied again.",
        source="https://cwiki.apache.org/confluence/display/KAFKA/KIP-112%3A+Handle+disk+failure+for+JBOD",
        check=_log_dirs,
    ),
    Rule(
        "broker-fenced",
        Area.AVAILABILITY,
        Severity.CRITICAL,
        title="Brokers that are registered and not live",
        why="Their replicas fall behind, and every partition of theirs has one failure less to stand.",
        how="Start the broker, or repair its partitions onto others and unregister it.",
        source="https://cwiki.apache.org/confluence/display/KAFKA/KIP-631%3A+The+Quorum-based+Kafka+Controller",
        check=_fenced,
    ),
    Rule(
        "replica-long-out-of-sync",
        Area.AVAILABILITY,
        Severity.WARNING,
        title="Replicas out of sync for long",
        why="A replica that lags through several snapshots does not catch up by itself: a disk, the network, or a "
        "throttle that is lower than what producers write.",
        how="Compare its size with the leader's from look to look; see the broker's log, and throttles.",
        source=_REPLICATION,
        check=_long_out_of_sync,
        needs=frozenset({Need.HISTORY}),
        thresholds={"snapshots": 3},
    ),
)
