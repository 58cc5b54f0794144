"""What one observation keeps for the next: log dirs and versions, so that few brokers are asked.

    log_dirs = read_log_dirs(reader, copies, previous, now, limit_percent)
    versions = read_versions(reader, live_broker_ids, previous, now)

A broker answers over a connection of its own: to ask 200 brokers are 200 connections, and logins.
Both are asked in rotation, 20 brokers at an observation, so that up to 20 brokers are asked each
time. Those without a reading are asked at once: all when a run is opened, and one that was not
live, or did not respond, at the observation before. No reading of log dirs gets older than a
minute where observations are 15 s apart.

Example: of 50 brokers that copy, read at 12:00:00, an observation at 12:00:10 asks brokers 1 to 20,
one at 12:00:20 brokers 21 to 40, and one at 12:00:30 brokers 41 to 50 and, again, 1 to 10.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from counterpoise.execution.observation import Observation
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.grouping import grouped
from counterpoise.model.kafka import BrokerVersion, LogDirDescription
from counterpoise.model.run_progress import (
    LogDirReading,
    Readings,
    RunProgress,
    VersionReading,
)

if TYPE_CHECKING:
    from counterpoise.kafka_admin.cluster_admin import ClusterReader


_BROKERS_AT_ONCE: Final = 20
_MAX_AGE: Final = timedelta(seconds=45)  # at the next observation it is a minute


@dataclass(frozen=True, slots=True)
class Copies:
    """The replicas of moves in flight, by broker: those that are added, and all of them."""

    broker_ids: Set[int]  # which send or receive
    adding: Mapping[int, Sequence[TopicPartition]]
    replicas: Mapping[int, Sequence[TopicPartition]]


def read_log_dirs(
    reader: "ClusterReader",
    copies: Copies,
    previous: RunProgress | None,
    now: datetime,
    limit_percent: int,
) -> dict[int, LogDirReading]:
    """Return a reading of each broker that copies, but for those that were asked in vain.

    Raises what the reader raises.
    """
    before = (
        {int(name): reading for name, reading in previous.readings.log_dirs.items()}
        if previous
        else {}
    )
    read_at = {broker_id: reading.read_at for broker_id, reading in before.items()}
    asked_ids = _to_ask(copies.broker_ids, read_at, now, _MAX_AGE)
    described = reader.describe_log_dirs(asked_ids) if asked_ids else ()
    readings = {b: before[b] for b in copies.broker_ids - set(asked_ids)}
    for broker_id, log_dirs in grouped((d.broker_id, d) for d in described).items():
        sizes = _sizes(log_dirs, copies.replicas.get(broker_id, ()))
        adding = [str(tp) for tp in copies.adding.get(broker_id, ()) if str(tp) in sizes]
        earlier = before.get(broker_id) or _before_the_copies(adding, previous)
        speeds = _speeds({partition: sizes[partition] for partition in adding}, earlier, now)
        full = [log_dir for log_dir in log_dirs if _is_full(log_dir, limit_percent)]
        offline = [f"broker {broker_id} {one.path}" for one in log_dirs if one.error is not None]
        readings[broker_id] = LogDirReading(
            now,
            sizes,
            speeds,
            ", ".join(map(_full_in_words, full)),
            _beside(full, sizes),
            ", ".join(offline),
        )
    return readings


def _to_ask(
    broker_ids: Iterable[int],
    read_at: Mapping[int, datetime],
    now: datetime,
    max_age: timedelta = timedelta.max,
) -> list[int]:
    """Return whom to ask: those without a reading, those with an old one, and the next in turn.

    One from a time to come is old, too: the clock that told it was ahead, or has been set back.
    """

    def age(broker_id: int) -> timedelta:
        return abs(now - read_at[broker_id]) if broker_id in read_at else timedelta.max

    in_turn = sorted(sorted(broker_ids), key=age, reverse=True)
    due = sum(age(broker_id) >= max_age for broker_id in in_turn)
    return sorted(in_turn[: max(due, _BROKERS_AT_ONCE)])


def _sizes(
    log_dirs: Iterable[LogDirDescription], partitions: Iterable[TopicPartition]
) -> dict[str, int]:
    """Return the bytes of the replicas of these partitions, in whichever dir they are."""
    partitions = list(partitions)
    return {
        str(tp): log_dir.sizes[tp]
        for log_dir in log_dirs
        for tp in partitions
        if tp in log_dir.sizes
    }


def _before_the_copies(adding: Iterable[str], previous: RunProgress | None) -> LogDirReading | None:
    """Return the reading of a broker before its first copies: nothing, at the observation before.

    None where a copy was in flight then already.
    """
    if previous is None or not previous.arrived_bytes.keys().isdisjoint(adding):
        return None
    return LogDirReading(previous.observed_at, {})


def _speeds(
    sizes: Mapping[str, int], before: LogDirReading | None, now: datetime
) -> dict[str, int]:
    """Return the bytes per second since the reading before, by partition.

    10 MB at 12:00:00 and 30 MB at 12:00:20 are 1 MB/s.
    """
    if before is None or now <= before.read_at:
        return {}
    seconds = (now - before.read_at).total_seconds()
    return {
        partition: round(max(0, size - before.sizes.get(partition, 0)) / seconds)
        for partition, size in sizes.items()
    }


def _used_percent(log_dir: LogDirDescription) -> float:
    """Return how much of its file system is used; 0 where that is not known."""
    if not log_dir.total_bytes or log_dir.usable_bytes is None:
        return 0.0
    return 100 - 100 * log_dir.usable_bytes / log_dir.total_bytes


def _is_full(log_dir: LogDirDescription, limit_percent: int) -> bool:
    return _used_percent(log_dir) > limit_percent


def _full_in_words(log_dir: LogDirDescription) -> str:
    return f"broker {log_dir.broker_id} {log_dir.path} ({_used_percent(log_dir):.0f} % used)"


def _beside(full: Sequence[LogDirDescription], sizes: Mapping[str, int]) -> tuple[str, ...]:
    """Return, where some log dirs are full, those of these partitions that lie in others."""
    in_full = {str(tp) for log_dir in full for tp in (*log_dir.sizes, *log_dir.arriving)}
    return tuple(sorted(sizes.keys() - in_full)) if full else ()


def read_versions(
    reader: "ClusterReader",
    live_broker_ids: Set[int],
    previous: RunProgress | None,
    now: datetime,
) -> dict[int, VersionReading]:
    """Return the version of each live broker, but for those that were asked in vain."""
    before = previous.readings.versions.items() if previous else ()
    kept = {int(name): reading for name, reading in before if int(name) in live_broker_ids}
    asked_at = {broker_id: reading.asked_at for broker_id, reading in kept.items()}
    to_ask = _to_ask(live_broker_ids, asked_at, now)
    asked = reader.describe_versions(to_ask) if to_ask else {}
    unasked = {b: reading for b, reading in kept.items() if b not in to_ask}
    return unasked | {broker_id: _version_reading(v, now) for broker_id, v in asked.items()}


def _version_reading(version: BrokerVersion, now: datetime) -> VersionReading:
    return VersionReading(now, version.api_ranges, version.metadata_version)


def kept_readings(observation: Observation) -> Readings:
    """Return what the next observation need not ask again."""
    versions = observation.conditions.versions
    responsive = versions.keys() - observation.unresponsive_broker_ids
    return Readings(
        log_dirs={str(b): reading for b, reading in observation.log_dirs.items()},
        versions={str(b): versions[b] for b in responsive},
    )
