"""Disk: full now or soon, uneven between the log dirs of a broker, and retention that needs more
than there is.

    broker 2: /data is full in 12 days at 4.1 GB a day        # disk-full-soon

Limits: forecasts know no weekday; the bytes at full retention are computed from the mean rates of a
day, and for compacted topics from what they hold now.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import PurePosixPath
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.audit.commands import add_config, kafka, to_fill_in
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.rule import (
    MAX_EVIDENCE_ROWS,
    CheckResult,
    Need,
    bytes_in_words,
    evidence,
    rule,
    unknown,
)
from counterpoise.audit.unavailable_data import LOG_DIRS, causes_of
from counterpoise.model import subjects
from counterpoise.model.columns import (
    Floats,
    Ints,
    flags_of,
    flat_lists,
    floats_of,
    names_of,
    numbers_of,
    positions_in,
)
from counterpoise.model.finding import LOOK, Evidence, WantedPlan
from counterpoise.model.grouping import grouped
from counterpoise.model.kafka import ConfigSource, by_disk
from counterpoise.model.load import DiskForecast, Outlook
from counterpoise.model.movement import BROKERS_OWN_TOPICS
from counterpoise.model.request import Goal
from counterpoise.model.severity import Severity
from counterpoise.model.tables import rows_of
from counterpoise.model.words import join_ids, join_names, list_brokers, pluralize, verb
from counterpoise.units import format_bytes

# -- What the live brokers will hold, on their own disks, once every topic is as long as its
# retention allows.
#
#     full = bytes_at_full_retention(facts)
#     full.of_broker(0).sum()        # bytes on the first live broker
#
# A partition with 1,000 B/s and retention.ms=3,600,000 will hold 3.6 MB; with
# retention.bytes=2000000
# as well it will hold 2 MB.
#
# Limits: rates are means over a day: a peak hour is not what a topic holds. Compacted topics, and
# topics without a limit or without a known rate, count with what they hold now.


_TEMPORARY: Final = ("/tmp", "/var/tmp")
_AS_THE_OTHER: Final = -2  # Kafka's local.retention.*: as retention.*


@dataclass(frozen=True, slots=True, eq=False)
class FullRetention:
    """Bytes of each partition at full retention, and which partitions are on each live broker.

    `partition_rows` lists the partitions broker by broker; those of the live broker with index i
    are partition_rows[starts[i]:starts[i + 1]].
    """

    partition_bytes: Floats  # of one replica of each partition
    topics: tuple[str, ...]
    topic_of: Ints  # of each partition, the index of its topic
    partition_rows: Ints
    starts: Ints

    def of_broker(self, index: int) -> Floats:
        """Return the bytes of each topic on one live broker."""
        rows = self.partition_rows[self.starts[index] : self.starts[index + 1]]
        weights = self.partition_bytes[rows]
        sums = np.bincount(self.topic_of[rows], weights=weights, minlength=len(self.topics))
        return np.asarray(sums, np.float64)


def bytes_at_full_retention(facts: AuditFacts) -> FullRetention:
    """Return what the live brokers hold at full retention.

    Partitions 0 and 1 with the replicas (1, 2) and (2, 1), live brokers 1 and 2: the flat list of
    replicas has the brokers [1, 2, 2, 1] and the partitions [0, 0, 1, 1]; sorted by broker these
    are the partitions [0, 1, 0, 1], with the starts [0, 2, 4].
    """
    partitions = facts.snapshot.partitions
    flat_partitions, flat_replicas = flat_lists(partitions["replicas"])
    live_broker_ids = pa.array(facts.snapshot.live_broker_ids, pa.int64())
    flat_brokers = positions_in(pa.array(flat_replicas), live_broker_ids)
    by_broker = np.argsort(flat_brokers, kind="stable")
    topics, topic_of = names_of(partitions["topic"])
    return FullRetention(
        partition_bytes=_partition_bytes(facts),
        topics=topics,
        topic_of=topic_of,
        partition_rows=flat_partitions[by_broker],
        starts=np.searchsorted(flat_brokers[by_broker], np.arange(len(live_broker_ids) + 1)),
    )


def _partition_bytes(facts: AuditFacts) -> Floats:
    """Return the bytes of one replica of each partition at full retention.

    bytes by time = rate * retention.ms / 1000; unlimited where one of them is not known; 0 where
                    nothing is written, whatever the retention
    bytes by size = retention.bytes; unlimited where it is not set; of topics with tiered storage
                    local.retention.ms and local.retention.bytes, where they are set
    result        = the smaller of both, but no less than now; what it holds now if both are
                    unlimited, or if the topic is compacted

    1,000 B/s and retention.ms=3,600,000 make 3.6 MB; with retention.bytes=2,000,000 that is 2 MB.
    """
    held_bytes = floats_of(pc.fill_null(facts.snapshot.partitions["size_bytes"], 0))
    rates = _partition_rates(facts)
    with np.errstate(invalid="ignore"):  # a rate of 0 times no limit is not a number
        bytes_by_time = np.where(rates == 0, 0.0, rates * _limits(facts, "retention_ms") / 1000)
    bytes_by_size = _limits(facts, "retention_bytes")
    is_limited_by_time = np.isfinite(bytes_by_time)
    smaller = np.minimum(bytes_by_size, bytes_by_time)
    limit = np.where(is_limited_by_time, smaller, bytes_by_size)
    expected = np.where(np.isfinite(limit), limit, held_bytes)
    return np.asarray(np.maximum(held_bytes, expected))


def _limits(facts: AuditFacts, config: str) -> Floats:
    """Return a retention limit of each partition's topic; infinity where there is none."""
    partitions, topics = facts.snapshot.partitions, facts.snapshot.topics
    topic_index = pc.index_in(partitions["topic"], value_set=topics["topic"].combine_chunks())
    topic_rows = numbers_of(topic_index, missing=0)
    values = floats_of(pc.fill_null(topics[config], -1))
    local_values = floats_of(pc.fill_null(topics[f"local_{config}"], _AS_THE_OTHER))
    is_tiered = flags_of(pc.equal(topics["remote_storage_enable"], "true"))
    values = np.where(is_tiered & (local_values != _AS_THE_OTHER), local_values, values)
    is_compacted = flags_of(pc.match_substring(topics["cleanup_policy"], "compact"))
    has_limit = (values >= 0) & ~is_compacted
    limits: Floats = np.where(has_limit, values, np.inf)[topic_rows]
    return limits


def _partition_rates(facts: AuditFacts) -> Floats:
    """Return bytes in per second of each partition, by row of `partitions`; NaN: not known."""
    usual = facts.history.usual_bytes_in
    if usual is None:
        return np.full(facts.snapshot.partitions.num_rows, np.nan)
    return np.asarray(usual.to_numpy(zero_copy_only=False), np.float64)


# The first that is set holds; without any, records are kept for 7 days.
_RETENTION_OF_BROKERS: Final = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
_TOPICS_IN_FIX: Final = 3
_DOCUMENTED: Final = "https://kafka.apache.org/documentation/#"
_MARK_STEP: Final = 5  # percent: disks that fill at about the same speed share one plan
_KIP_113: Final = (
    "https://cwiki.apache.org/confluence/display/KAFKA/KIP-113%3A+Support+replicas+movement"
    "+between+log+directories"
)


@dataclass(frozen=True, slots=True)
class _Disk:
    """One file system of a broker."""

    log_dirs: str
    total_bytes: int
    usable_bytes: int

    @property
    def used_percent(self) -> float:
        if not self.total_bytes:
            return 0.0
        return 100.0 * (1 - self.usable_bytes / self.total_bytes)


# -- full


@rule(
    "disk-full-soon",
    Severity.WARNING,
    title="A disk will be full soon at this growth",
    why="A log dir without room goes offline with every replica in it; if it is the only one of "
    "a broker, the broker stops, and its data is copied to brokers that are nearly as full. Bytes "
    "and growth are of what is local: what is in remote storage (KIP-405) takes no disk.",
    how="Make a plan with the goal relief: below the mark given here the disk has room for `days` "
    "of this growth, as far as other brokers have room. Or shorten the retention of the largest "
    "topics, or add disk.",
    source=f"{_DOCUMENTED}diskandfs",
    needs={Need.HISTORY},
    severities={Severity.CRITICAL},
    thresholds={"days": 30, "critical_days": 7},
)
def disk_full_soon(facts: AuditFacts, *, days: int, critical_days: int) -> Iterator[CheckResult]:
    forecasts = facts.history.disk_forecasts
    limit_percent = facts.policy.balance.disk_limit_percent
    yield from _forecasts_unknown(forecasts)
    filling_by_broker = grouped(
        (forecast.broker_id, forecast)
        for forecast in forecasts
        if forecast.days_left is not None and forecast.days_left <= days
    )
    has_other_brokers = len(filling_by_broker) < len(facts.snapshot.live_broker_ids)
    columns = ("log dirs", "used", "usable", "growth a day", "full in days")
    for broker_id, filling in filling_by_broker.items():
        first = filling[0]
        are = verb(len(first.log_dirs), "is", "are")
        growth = format_bytes(first.bytes_per_day or 0)
        is_critical = (first.days_left or 0.0) <= critical_days
        plan = _room_for(filling, forecasts, days, limit_percent)
        yield CheckResult(
            subjects.broker(broker_id),
            f"broker {broker_id}: {join_ids(first.log_dirs)} {are} {first.in_words} at {growth} a "
            "day, as in the last two weeks",
            evidence(columns, [_forecast_row(forecast) for forecast in filling]),
            fix=_shorten_largest_topics(facts, broker_id),
            plan=plan if has_other_brokers else None,
            severity=Severity.CRITICAL if is_critical else None,
        )


def _room_for(
    filling: Sequence[DiskForecast],
    forecasts: Sequence[DiskForecast],
    days: int,
    limit_percent: int,
) -> WantedPlan:
    """Return the plan after which these disks have room for the growth of so many days.

    A disk of 1000 GB that grows by 8 GB a day has it below 76 %, so below 75 %. Where all disks
    together are 70 % full, the mark is 80 %: below less the others could hardly be.
    """
    known = [one for one in forecasts if one.total_bytes and one.usable_bytes is not None]
    total_bytes = sum(one.total_bytes or 0 for one in known)
    usable_bytes = sum(one.usable_bytes or 0 for one in known)
    used_percent = 100 - 100 * usable_bytes // max(1, total_bytes)
    lowest = used_percent // _MARK_STEP * _MARK_STEP + 2 * _MARK_STEP
    marks = [
        100 - 100 * days * (one.bytes_per_day or 0) // one.total_bytes
        for one in filling
        if one.total_bytes
    ]
    mark = min(marks, default=limit_percent) // _MARK_STEP * _MARK_STEP
    return WantedPlan(Goal.RELIEF, below_percent=min(limit_percent, max(lowest, mark)))


def _forecasts_unknown(forecasts: Sequence[DiskForecast]) -> Iterator[CheckResult]:
    if not forecasts:
        yield unknown(
            "the history has no trend of disks yet: that needs a day of analysed snapshots",
        )
        return
    without_trend = [
        f"broker {forecast.broker_id} {forecast.log_dirs[0]}"
        for forecast in forecasts
        if forecast.outlook is Outlook.NOT_KNOWN
    ]
    if without_trend:
        count = pluralize(len(without_trend), "disk")
        yield unknown(f"no trend of {count}: {join_names(without_trend)}")


def _forecast_row(forecast: DiskForecast) -> tuple[object, ...]:
    share = forecast.used_share
    return (
        join_ids(forecast.log_dirs),
        "not known" if share is None else f"{share * 100:.0f} %",
        bytes_in_words(forecast.usable_bytes),
        format_bytes(forecast.bytes_per_day or 0),
        f"{forecast.days_left or 0:.1f}",
    )


@rule(
    "disk-nearly-full",
    Severity.WARNING,
    title="A disk is nearly full now",
    why="Records that arrive while a broker recovers, and replicas that a plan copies, need room "
    "that is not there; and a full log dir goes offline.",
    how="Make a plan with the goal relief: it copies the fewest bytes that bring the disk below "
    "the limit, as far as other brokers have room. Or shorten the retention of the largest topics, "
    "or add disk.",
    source=f"{_DOCUMENTED}diskandfs",
    severities={Severity.CRITICAL},
    thresholds={"critical_percent": 95},
)
def disk_nearly_full(facts: AuditFacts, *, critical_percent: int) -> Iterator[CheckResult]:
    limit_percent = facts.policy.balance.disk_limit_percent
    disks_by_broker = _disks_by_broker(facts)
    live_broker_ids = facts.snapshot.live_broker_ids
    missing = [broker_id for broker_id in live_broker_ids if broker_id not in disks_by_broker]
    if missing:
        yield unknown(
            f"the size of the disks of {list_brokers(missing)}",
            causes=causes_of(facts, LOG_DIRS, missing),
        )
    for broker_id, disks in disks_by_broker.items():
        fullest = max(disks, key=lambda disk: disk.used_percent)
        if fullest.used_percent <= limit_percent:
            continue
        usable, total = format_bytes(fullest.usable_bytes), format_bytes(fullest.total_bytes)
        is_critical = fullest.used_percent > critical_percent
        yield CheckResult(
            subjects.broker(broker_id),
            f"broker {broker_id}: {fullest.log_dirs} is {fullest.used_percent:.0f} % full "
            f"({usable} of {total} usable); the policy fills no disk further than "
            f"{limit_percent} %",
            _disk_table(disks),
            fix=_shorten_largest_topics(facts, broker_id),
            plan=WantedPlan(Goal.RELIEF, below_percent=limit_percent),
            severity=Severity.CRITICAL if is_critical else None,
        )


# -- retention


@rule(
    "retention-cannot-fit",
    Severity.WARNING,
    title="Retention that cannot fit",
    why="The disk fills before the first record is old enough to be deleted: retention alone does "
    "not prevent that, and an outage decides how long records are kept.",
    how="Set retention.bytes or a shorter retention.ms on the topics named here, or add disk. "
    "retention.bytes is for one partition. Topics with tiered storage count, and are shortened, by "
    "local.retention.ms and local.retention.bytes.",
    source=f"{_DOCUMENTED}topicconfigs_retention.bytes",
    needs={Need.HISTORY},
    thresholds={"most_percent": 95},
)
def retention_cannot_fit(facts: AuditFacts, *, most_percent: int) -> Iterator[CheckResult]:
    usual = facts.history.usual_bytes_in
    if usual is None or usual.null_count == len(usual):
        yield unknown(
            "the history has no day of analysed rates yet: the bytes at full retention are not "
            "known",
        )
    disk_sizes = dict(rows_of(facts.snapshot.brokers, "broker_id", "disk_total_bytes"))
    full_retention = bytes_at_full_retention(facts)
    for index, broker_id in enumerate(facts.snapshot.live_broker_ids):
        disk_bytes = disk_sizes.get(broker_id)
        bytes_by_topic = full_retention.of_broker(index)
        needed_bytes = float(bytes_by_topic.sum())
        if disk_bytes and needed_bytes > disk_bytes * most_percent / 100:
            yield _retention_too_long(
                facts, broker_id, disk_bytes, needed_bytes, full_retention.topics, bytes_by_topic
            )


def _retention_too_long(
    facts: AuditFacts,
    broker_id: int,
    disk_bytes: int,
    needed_bytes: float,
    topics: tuple[str, ...],
    bytes_by_topic: Floats,
) -> CheckResult:
    by_size = np.argsort(-bytes_by_topic, kind="stable").tolist()
    largest = [row for row in by_size[:MAX_EVIDENCE_ROWS] if bytes_by_topic[row] > 0]
    rows = [(topics[row], format_bytes(bytes_by_topic[row])) for row in largest]
    topic_count = int((bytes_by_topic > 0).sum())
    shortened = _first_that_delete(facts, [topics[row] for row in by_size if bytes_by_topic[row]])
    return CheckResult(
        subjects.broker(broker_id),
        f"broker {broker_id}: its topics will hold {format_bytes(needed_bytes)} at full retention; "
        f"its disks have {format_bytes(disk_bytes)}",
        evidence(("topic", "on this broker, at full retention"), rows, topic_count),
        fix=to_fill_in(
            *(
                add_config(
                    "topics",
                    topic,
                    {f"{_local(facts, topic)}retention.bytes": "BYTES_PER_PARTITION"},
                )
                for topic in shortened
            )
        ),
    )


@rule(
    "retention-without-end",
    Severity.INFO,
    title="Topics that keep every record for ever",
    why="Nothing is ever deleted from such a topic, so its disks will be full some day: that "
    "should be somebody's decision, and not a default.",
    how="Set a retention, or waive this with the reason.",
    source=f"{_DOCUMENTED}topicconfigs_retention.ms",
)
def retention_without_end(facts: AuditFacts) -> Iterator[CheckResult]:
    topics = facts.snapshot.topics
    is_deleting = pc.equal(topics["cleanup_policy"], "delete")
    has_no_time = pc.equal(topics["retention_ms"], -1)
    has_no_size = pc.equal(topics["retention_bytes"], -1)
    is_endless = pc.fill_null(pc.and_(pc.and_(has_no_time, has_no_size), is_deleting), False)
    is_endless = pc.and_not(is_endless, _has_local_limit(topics))
    names = sorted({*topics.filter(is_endless)["topic"].to_pylist()} - BROKERS_OWN_TOPICS)
    if names:
        defaults = [key for key in _RETENTION_OF_BROKERS if _is_endless(facts, key)]
        by_default = f"; the brokers set {' and '.join(defaults)} to -1" if defaults else ""
        yield CheckResult(
            subjects.CLUSTER,
            f"{pluralize(len(names), 'topic')} {verb(len(names), 'keeps', 'keep')} every record "
            f"for ever: retention.ms and retention.bytes are both -1{by_default}",
            evidence(("topic",), [(name,) for name in names]),
            fix=(*_retention_of_files(defaults), *_shorten(facts, names[:_TOPICS_IN_FIX])),
        )


def _is_endless(facts: AuditFacts, key: str) -> bool:
    """Return whether the file of some broker sets the key so that nothing is deleted."""
    configs = facts.values_of(key).values()
    return ("-1", ConfigSource.STATIC_BROKER) in ((one.value, one.source) for one in configs)


def _retention_of_files(keys: Sequence[str]) -> tuple[str, ...]:
    if not keys:
        return ()
    where = "# server.properties of all brokers, then restart them one by one:"
    return (where, *(f"# remove {key}, or set what was meant" for key in keys))


@rule(
    "log-dirs-temporary",
    Severity.WARNING,
    title="Log dirs among temporary files",
    why="Systems empty this folder when they start, or delete files there that nobody opened for "
    "some days, such as old segments; in a container it ends with the container. Kafka's own "
    "examples have /tmp/kafka-logs and /tmp/kraft-combined-logs.",
    how="Stop one broker after the other, move its folder, and start it with the new log.dirs.",
    source="https://kafka.apache.org/documentation/#brokerconfigs_log.dirs",
)
def log_dirs_temporary(facts: AuditFacts) -> Iterator[CheckResult]:
    """Yield what is right in such a folder: what is deeper was mostly made on purpose, by tests."""
    rows = [
        (broker_id, log_dir)
        for broker_id, log_dir in sorted(rows_of(facts.snapshot.log_dirs, "broker_id", "log_dir"))
        if str(PurePosixPath(log_dir).parent) in _TEMPORARY
    ]
    if rows:
        brokers = list_brokers(sorted({broker_id for broker_id, _ in rows}))
        log_dirs = join_names(sorted({log_dir for _, log_dir in rows}))
        yield CheckResult(
            subjects.config("log.dirs"),
            f"{brokers} {verb(len({row[0] for row in rows}), 'keeps', 'keep')} records among "
            f"temporary files: {log_dirs}",
            evidence(("broker", "log dir"), rows),
            fix=(
                f"# server.properties of {brokers}: log.dirs, while the broker is stopped and when "
                "its folder is moved, one broker after the other",
            ),
        )


# -- uneven


@rule(
    "log-dirs-uneven",
    Severity.INFO,
    title="The disks of one broker are unevenly full",
    why="A broker puts a new partition into the log dir with the fewest partitions, not into the "
    "one with the most room: one disk fills, goes offline with its replicas, while the next one is "
    "half empty.",
    how="Move replicas between its log dirs with kafka-reassign-partitions: a reassignment whose "
    "log_dirs names the emptier path (KIP-113).",
    source=_KIP_113,
    thresholds={"most_percent_apart": 25},
)
def log_dirs_uneven(facts: AuditFacts, *, most_percent_apart: int) -> Iterator[CheckResult]:
    for broker_id, disks in _disks_by_broker(facts).items():
        percents = [disk.used_percent for disk in disks]
        lowest, highest = min(percents), max(percents)
        if highest - lowest > most_percent_apart:
            yield CheckResult(
                subjects.broker(broker_id),
                f"broker {broker_id}: its disks are {lowest:.0f} % to {highest:.0f} % full",
                _disk_table(disks),
                fix=(
                    LOOK,
                    kafka("kafka-log-dirs", "--describe", "--broker-list", broker_id),
                ),
            )


def _disks_by_broker(facts: AuditFacts) -> dict[int, list[_Disk]]:
    """Return the file systems of each live broker that reports their sizes, by broker id."""
    live_broker_ids = set(facts.snapshot.live_broker_ids)
    columns = ("broker_id", "error", "log_dir", "total_bytes", "usable_bytes")
    dirs_by_broker = grouped(
        (broker_id, _Disk(log_dir, total_bytes, usable_bytes))
        for broker_id, error, log_dir, total_bytes, usable_bytes in rows_of(
            facts.snapshot.log_dirs, *columns
        )
        if broker_id in live_broker_ids and None not in (total_bytes, usable_bytes)
        if error is None
    )
    return {broker_id: _disks_of(dirs) for broker_id, dirs in sorted(dirs_by_broker.items())}


def _disks_of(log_dirs: Sequence[_Disk]) -> list[_Disk]:
    """Return the file systems under these log dirs."""
    disks = []
    for group in by_disk([(log_dir.total_bytes, log_dir.usable_bytes) for log_dir in log_dirs]):
        names = join_ids(sorted(log_dirs[index].log_dirs for index in group))
        disks.append(replace(log_dirs[group[0]], log_dirs=names))
    return disks


def _disk_table(disks: Sequence[_Disk]) -> Evidence:
    rows = [
        (
            disk.log_dirs,
            format_bytes(disk.total_bytes),
            format_bytes(disk.usable_bytes),
            f"{disk.used_percent:.0f} %",
        )
        for disk in disks
    ]
    return evidence(("log dirs", "size", "usable", "used"), rows)


def _has_local_limit(topics: pa.Table) -> pa.ChunkedArray:
    """Return which topics delete from the brokers' disks what is in remote storage already."""
    is_tiered = pc.equal(topics["remote_storage_enable"], "true")
    has_time = pc.greater_equal(topics["local_retention_ms"], 0)
    has_size = pc.greater_equal(topics["local_retention_bytes"], 0)
    is_limited = pc.or_(pc.fill_null(has_time, False), pc.fill_null(has_size, False))
    return pc.and_(pc.fill_null(is_tiered, False), is_limited)


def _shorten_largest_topics(facts: AuditFacts, broker_id: int) -> tuple[str, ...]:
    """Return commands that shorten the retention of the largest topics on a broker."""
    replicas = facts.snapshot.replicas
    on_broker = replicas.filter(pc.equal(replicas["broker_id"], broker_id))
    sizes = on_broker.group_by("topic").aggregate([("size_bytes", "sum")])
    largest_first = sizes.sort_by([("size_bytes_sum", "descending"), ("topic", "ascending")])
    return _shorten(facts, _first_that_delete(facts, largest_first["topic"].to_pylist()))


def _first_that_delete(facts: AuditFacts, topics: Sequence[str]) -> list[str]:
    """Return the first of the topics that a retention shortens: not those that only compact, nor
    those of Kafka and of platforms.
    """
    policies = dict(rows_of(facts.snapshot.topics, "topic", "cleanup_policy"))
    deleting = (
        topic
        for topic in topics
        if not topic.startswith("__") and "delete" in (policies.get(topic) or "delete")
    )
    return list(islice(deleting, _TOPICS_IN_FIX))


def _shorten(facts: AuditFacts, topics: Sequence[str]) -> tuple[str, ...]:
    return to_fill_in(
        *(
            add_config("topics", topic, {f"{_local(facts, topic)}retention.ms": "MILLISECONDS"})
            for topic in topics
        )
    )


def _local(facts: AuditFacts, topic: str) -> str:
    """Return what a config is called that frees the disks of brokers, where storage is tiered."""
    return "local." if topic in facts.snapshot.tiered_topics else ""
