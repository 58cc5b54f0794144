"""Disk: full now or soon, uneven between the log dirs of a broker, and retention that asks for more
than there is.

    broker 2: /data is full in 12 days at 4.1 GB a day        # disk-full-soon

Limits: forecasts know no weekday; what retention will hold is reckoned from rates of the newest
analysed snapshot, and for compacted topics from what they hold now.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from counterpoise.audit.commands import add_config, describe_config
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.figures import positions, topic_codes
from counterpoise.audit.rule import (
    MAX_EVIDENCE_ROWS,
    Area,
    CheckResult,
    Need,
    Rule,
    evidence,
    unknown,
)
from counterpoise.audit.unavailable_data import LOG_DIRS, causes_of
from counterpoise.model.columns import Ints
from counterpoise.model.disks import by_disk
from counterpoise.model.finding import Evidence, WantedPlan
from counterpoise.model.load import DiskForecast, Outlook
from counterpoise.model.request import Goal
from counterpoise.model.severity import Severity
from counterpoise.model.words import join_ids, join_names, pluralize
from counterpoise.units import format_bytes

_CLUSTER: Final = "cluster"
_NO_LIMIT: Final = float("inf")
_TOPICS_SHOWN: Final = 3


def _full_soon(facts: AuditFacts) -> Iterator[CheckResult]:
    rule = "disk-full-soon"
    disks = facts.past.disk_forecasts if facts.past else ()
    untold = [disk for disk in disks if disk.outlook is Outlook.NOT_KNOWN]
    if not disks:
        yield unknown(
            _CLUSTER,
            "the history has no trend of disks yet: that needs a day of analysed snapshots",
        )
    elif untold:
        names = join_names([f"broker {disk.broker_id} {disk.log_dirs[0]}" for disk in untold])
        yield unknown(_CLUSTER, f"no trend of {pluralize(len(untold), 'disk')}: {names}")
    soon, very_soon = facts.threshold(rule, "days"), facts.threshold(rule, "critical_days")
    filling: dict[int, list[DiskForecast]] = {}
    for disk in disks:
        if disk.days_left is not None and disk.days_left <= soon:
            filling.setdefault(disk.broker_id, []).append(disk)
    for broker_id, found in filling.items():
        first = found[0]
        yield CheckResult(
            f"broker {broker_id}",
            f"broker {broker_id}: {join_ids(first.log_dirs)} is {first.in_words} at "
            f"{format_bytes(first.bytes_per_day or 0)} a day, as in the last two weeks",
            evidence(
                ("log dirs", "used", "usable", "growth a day", "full in days"),
                [_forecast_row(d) for d in found],
            ),
            fix=_largest_topics(facts, broker_id),
            plan=WantedPlan(Goal.REBALANCE)
            if len(filling) < len(facts.snapshot.live_broker_ids)
            else None,
            severity=Severity.CRITICAL if (first.days_left or 0.0) <= very_soon else None,
        )


def _forecast_row(disk: DiskForecast) -> tuple[object, ...]:
    used = "not told" if disk.used_share is None else f"{disk.used_share * 100:.0f} %"
    usable = "not told" if disk.usable_bytes is None else format_bytes(disk.usable_bytes)
    return (
        join_ids(disk.log_dirs),
        used,
        usable,
        format_bytes(disk.bytes_per_day or 0),
        f"{disk.days_left or 0:.1f}",
    )


def _nearly_full(facts: AuditFacts) -> Iterator[CheckResult]:
    warns = facts.policy.balance.disk_limit_percent
    most = facts.threshold("disk-nearly-full", "critical_percent")
    dirs = _online_dirs(facts)
    telling = set(dirs["broker_id"].to_pylist()) if dirs.num_rows else set()
    untold = [b for b in facts.snapshot.live_broker_ids if b not in telling]
    if untold:
        words = f"the size of the disks of broker {join_ids(untold)} was not told"
        yield unknown(_CLUSTER, words, causes_of(facts, LOG_DIRS, untold))
    for broker_id in sorted(telling):
        rows = _disks_of(dirs, broker_id)
        full = [row for row in rows if row[3] > warns]
        if full:
            worst = max(full, key=lambda row: row[3])
            yield CheckResult(
                f"broker {broker_id}",
                f"broker {broker_id}: {worst[0]} is {worst[3]:.0f} % full ({format_bytes(worst[2])} of "
                f"{format_bytes(worst[1])} left); the policy fills no disk further than {warns} %",
                _disk_table(rows),
                fix=_largest_topics(facts, broker_id),
                plan=WantedPlan(Goal.REBALANCE),
                severity=Severity.CRITICAL if worst[3] > most else None,
            )


def _dirs_uneven(facts: AuditFacts) -> Iterator[CheckResult]:
    most = facts.threshold("log-dirs-uneven", "most_percent_apart")
    dirs = _online_dirs(facts)
    for broker_id in sorted(set(dirs["broker_id"].to_pylist())):
        rows = _disks_of(dirs, broker_id)
        used = [row[3] for row in rows]
        if max(used) - min(used) > most:
            yield CheckResult(
                f"broker {broker_id}",
                f"broker {broker_id}: its disks are {min(used):.0f} % to {max(used):.0f} % full",
                _disk_table(rows),
                fix=(describe_config("brokers", broker_id),),
            )


def _cannot_fit(facts: AuditFacts) -> Iterator[CheckResult]:
    """What each broker will hold when every topic is as long as its retention lets it be."""
    if (
        facts.past is None
        or not pc.any(pc.is_valid(facts.past.partition_load["bytes_in_per_second"])).as_py()
    ):
        yield unknown(
            _CLUSTER,
            "the history has no rates of partitions yet: what retention will hold is not known",
        )
    totals = _disk_sizes(facts)
    planned = _planned(facts)
    most = facts.threshold("retention-cannot-fit", "most_percent")
    for at, broker_id in enumerate(facts.snapshot.live_broker_ids):
        total = totals.get(broker_id)
        its = planned.rows[planned.starts[at] : planned.starts[at + 1]]
        held = float(planned.bytes[its].sum())
        if total is not None and held > total * most / 100:
            yield _overfull(planned, its, broker_id, held, total)


@dataclass(frozen=True, slots=True, eq=False)
class _Planned:
    """What partitions will hold, and which of them lie on each live broker."""

    bytes: NDArray[np.float64]  # of one copy of each partition
    topics: tuple[str, ...]
    codes: Ints  # of each partition, the position of its topic
    rows: Ints  # partitions, by broker
    starts: Ints  # the first of each live broker in `rows`, and the number of them at the end


def _planned(facts: AuditFacts) -> _Planned:
    partitions, live = facts.snapshot.partitions, facts.snapshot.live_broker_ids
    lists = partitions["replicas"]
    each = np.asarray(pc.list_value_length(lists).to_numpy(), np.int64)
    brokers = positions(pc.list_flatten(lists), live)
    order = np.argsort(brokers, kind="stable")
    names, codes = topic_codes(partitions["topic"])
    return _Planned(
        bytes=_expected_bytes(facts),
        topics=names,
        codes=codes,
        rows=np.repeat(np.arange(partitions.num_rows), each)[order],
        starts=np.searchsorted(brokers[order], np.arange(len(live) + 1)),
    )


def _overfull(planned: _Planned, its: Ints, broker_id: int, held: float, total: int) -> CheckResult:
    by_topic = np.bincount(
        planned.codes[its], weights=planned.bytes[its], minlength=len(planned.topics)
    )
    largest = [
        at
        for at in np.argsort(-by_topic, kind="stable").tolist()[:MAX_EVIDENCE_ROWS]
        if by_topic[at] > 0
    ]
    names = [planned.topics[at] for at in largest]
    rows = tuple((planned.topics[at], format_bytes(by_topic[at])) for at in largest)
    return CheckResult(
        f"broker {broker_id}",
        f"broker {broker_id}: its topics will hold {format_bytes(held)} when retention is reached; its disks have "
        f"{format_bytes(total)}",
        Evidence(("topic", "on this broker, at its retention"), rows, int((by_topic > 0).sum())),
        fix=tuple(
            add_config("topics", name, {"retention.bytes": "BYTES_PER_PARTITION"})
            for name in names[:_TOPICS_SHOWN]
        ),
    )


def _without_end(facts: AuditFacts) -> Iterator[CheckResult]:
    topics = facts.snapshot.topics
    is_endless = pc.and_(
        pc.and_(pc.equal(topics["retention_ms"], -1), pc.equal(topics["retention_bytes"], -1)),
        pc.equal(topics["cleanup_policy"], "delete"),
    )
    names = sorted(topics.filter(pc.fill_null(is_endless, False))["topic"].to_pylist())
    if names:
        yield CheckResult(
            _CLUSTER,
            f"{pluralize(len(names), 'topic')} keep every record for ever: retention.ms and retention.bytes are both -1",
            evidence(("topic",), [(name,) for name in names]),
            fix=tuple(
                add_config("topics", name, {"retention.ms": "MILLISECONDS"})
                for name in names[:_TOPICS_SHOWN]
            ),
        )


def _expected_bytes(facts: AuditFacts) -> NDArray[np.float64]:
    """Of one copy of each partition, in the order of `partitions`: the least of what its limits
    allow, and no less than it holds now. Where nothing limits it, or its rate is not known, what it
    holds now."""
    partitions, topics = facts.snapshot.partitions, facts.snapshot.topics
    at_topic = pc.index_in(partitions["topic"], value_set=topics["topic"].combine_chunks())
    at = np.asarray(pc.fill_null(at_topic, 0).to_numpy(), np.int64)
    is_compacted = pc.fill_null(
        pc.match_substring(topics["cleanup_policy"], "compact"), False
    ).to_numpy()

    def limit(name: str) -> NDArray[np.float64]:
        values = np.asarray(pc.fill_null(topics[name], -1).to_numpy(), np.float64)
        limits: NDArray[np.float64] = np.where((values >= 0) & ~is_compacted, values, _NO_LIMIT)[at]
        return limits

    held = np.asarray(pc.fill_null(partitions["size_bytes"], 0).to_numpy(), np.float64)
    with np.errstate(invalid="ignore"):  # nothing a second for ever is not a number
        by_time = _rates(facts) * limit("retention_ms") / 1000
    by_size = limit("retention_bytes")
    bound = np.where(np.isfinite(by_time), np.minimum(by_size, by_time), by_size)
    return np.maximum(held, np.where(np.isfinite(bound), bound, held))


def _rates(facts: AuditFacts) -> NDArray[np.float64]:
    """Bytes in per second of each partition, in the order of `partitions`; NaN where not known."""
    partitions = facts.snapshot.partitions
    rates = np.full(partitions.num_rows, np.nan)
    if facts.past is None or not facts.past.partition_load.num_rows:
        return rates
    load = facts.past.partition_load
    newest = load.filter(pc.equal(load["observed_at"], pc.max(load["observed_at"])))
    keys = ["topic", "partition"]
    ours = partitions.select(keys).append_column("row", pa.array(np.arange(partitions.num_rows)))
    joined = ours.join(newest.select([*keys, "bytes_in_per_second"]), keys, join_type="inner")
    known = joined.filter(pc.is_valid(joined["bytes_in_per_second"]))
    rates[np.asarray(known["row"].to_numpy(), np.int64)] = known["bytes_in_per_second"].to_numpy()
    return rates


def _online_dirs(facts: AuditFacts) -> pa.Table:
    """Log dirs of live brokers that tell their sizes."""
    dirs = facts.snapshot.log_dirs
    live = pa.array(facts.snapshot.live_broker_ids, pa.int32())
    is_telling = pc.and_(
        pc.is_null(dirs["error"]),
        pc.and_(pc.is_valid(dirs["total_bytes"]), pc.is_valid(dirs["usable_bytes"])),
    )
    return dirs.filter(pc.and_(is_telling, pc.is_in(dirs["broker_id"], value_set=live)))


def _disks_of(dirs: pa.Table, broker_id: int) -> list[tuple[str, int, int, float]]:
    """Log dirs, size, usable bytes and percent used of each of a broker's file systems."""
    its: list[dict[str, Any]] = dirs.filter(pc.equal(dirs["broker_id"], broker_id)).to_pylist()
    groups = by_disk([(row["total_bytes"], row["usable_bytes"]) for row in its])
    rows = []
    for group in groups:
        first = its[group[0]]
        total, usable = first["total_bytes"], first["usable_bytes"]
        names = join_ids(sorted(its[at]["log_dir"] for at in group))
        rows.append((names, total, usable, 100.0 * (1 - usable / total) if total else 0.0))
    return rows


def _disk_table(rows: Sequence[tuple[str, int, int, float]]) -> Evidence:
    told = [
        (names, format_bytes(size), format_bytes(left), f"{used:.0f} %")
        for names, size, left, used in rows
    ]
    return evidence(("log dirs", "size", "usable", "used"), told)


def _disk_sizes(facts: AuditFacts) -> dict[int, int]:
    brokers = facts.snapshot.brokers
    told = zip(
        brokers["broker_id"].to_pylist(), brokers["disk_total_bytes"].to_pylist(), strict=True
    )
    return {broker_id: total for broker_id, total in told if total}


def _largest_topics(facts: AuditFacts, broker_id: int) -> tuple[str, ...]:
    """Lines that shorten what holds most on a broker."""
    replicas = facts.snapshot.replicas
    its = replicas.filter(pc.equal(replicas["broker_id"], broker_id))
    sums = (
        its.group_by("topic")
        .aggregate([("size_bytes", "sum")])
        .sort_by([("size_bytes_sum", "descending")])
    )
    names = [
        name
        for name in sums.slice(0, _TOPICS_SHOWN)["topic"].to_pylist()
        if not name.startswith("__")
    ]
    return tuple(add_config("topics", name, {"retention.ms": "MILLISECONDS"}) for name in names)


RULES: Final = (
    Rule(
        "disk-full-soon",
        Area.DISK,
        Severity.WARNING,
        title="A disk is full soon, if it goes on like this",
        why="A log dir without room goes offline and takes every replica in it along; with the only one of a broker "
        "the broker stops, and what it held is copied to brokers that are nearly as full.",
        how="Shorten the retention of what is largest, add disk, or make a plan where other brokers have room.",
        source="https://kafka.apache.org/documentation/#diskandfs",
        check=_full_soon,
        needs=frozenset({Need.HISTORY}),
        thresholds={"days": 30, "critical_days": 7},
    ),
    Rule(
        "disk-nearly-full",
        Area.DISK,
        Severity.WARNING,
        title="A disk is nearly full now",
        why="What arrives while a broker recovers, or a plan copies, needs room that is not there; and a full log dir "
        "goes offline.",
        how="Shorten the retention of what is largest, add disk, or make a plan where other brokers have room.",
        source="https://kafka.apache.org/documentation/#diskandfs",
        check=_nearly_full,
        thresholds={"critical_percent": 95},
    ),
    Rule(
        "retention-cannot-fit",
        Area.DISK,
        Severity.WARNING,
        title="Retention that cannot fit",
        why="The disk fills before the first record is old enough to be deleted: retention alone will not save it, "
        "and how long records are really kept is decided by an outage.",
        how="Set retention.bytes or a shorter retention.ms on the topics named here, or add disk. retention.bytes is "
        "of one partition.",
        source="https://kafka.apache.org/documentation/#topicconfigs_retention.bytes",
        check=_cannot_fit,
        needs=frozenset({Need.HISTORY}),
        thresholds={"most_percent": 95},
    ),
    Rule(
        "retention-without-end",
        Area.DISK,
        Severity.INFO,
        title="Topics that keep every record for ever",
        why="Nothing is ever deleted from such a topic, so its disks fill some day: that should be somebody's "
        "decision, and not a default.",
        how="Set a retention, or waive this with the reason.",
        source="https://kafka.apache.org/documentation/#topicconfigs_retention.ms",
        check=_without_end,
    ),
    Rule(
        "log-dirs-uneven",
        Area.DISK,
        Severity.INFO,
        title="The disks of one broker are unevenly full",
        why="A broker puts a new partition into the log dir with the fewest partitions, not with most room: one disk "
        "fills, goes offline and takes its replicas along, while the next one is half empty.",
        how="Move replicas between its log dirs with kafka-reassign-partitions: a reassignment whose log_dirs names "
        "the emptier path (KIP-113).",
        source="https://cwiki.apache.org/confluence/display/KAFKA/KIP-113%3A+Support+replicas+movement+between+log+directories",
        check=_dirs_uneven,
        thresholds={"most_percent_apart": 25},
    ),
)
