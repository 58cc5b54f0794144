"""What compaction does to the days of a cluster: decided here, done by the service of this name.

    for day in plan_days("demo", manifest_files, policy, now): ...      # oldest first
    unused(files, manifest_rows, changed, grace=policy.grace, now=now)  # what may go for good

A day is changed when it is over for a day, and either a table of it has more than one file or not
all of its snapshots survive. First come new files, then one manifest that names them, then the old
manifests go. Files that no manifest names go last, once the grace is over since they were written
and since the manifests of their day changed: whoever has read an old manifest has that long to read
its files.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

import pyarrow as pa

from counterpoise.history.manifests import each_once
from counterpoise.history.names import MANIFESTS, compacted_path, day_of, place_of, scheduled_at_of
from counterpoise.model.files import StoredFile
from counterpoise.model.grouping import grouped
from counterpoise.model.policy import HistoryPolicy
from counterpoise.model.tables import SNAPSHOTS


@dataclass(frozen=True, slots=True)
class Merge:
    """One file to be made of many: `files` has, by path, the snapshots to take from each."""

    table: str
    path: str
    files: Mapping[str, tuple[str, ...]]
    row_counts: Mapping[str, int]  # what it has to have, by snapshot

    @property
    def row_count(self) -> int:
        return sum(self.row_counts.values())


@dataclass(frozen=True, slots=True)
class DayPlan:
    """What compaction does to a cluster's day.

    Without survivors the manifest is empty: its age says when the others were deleted.
    """

    cluster: str
    day: date
    merges: tuple[Merge, ...]
    manifest_path: str
    manifest: pa.Table  # rows of SNAPSHOTS, by time
    replaced: tuple[str, ...]  # manifests that go
    dropped_ids: tuple[str, ...]
    survivors: tuple[Mapping[str, Any], ...]  # their rows as they are now

    @property
    def row_count(self) -> int:
        return sum(merge.row_count for merge in self.merges)

    @property
    def files(self) -> tuple[str, ...]:
        """Return the files that its merges read."""
        return tuple(path for merge in self.merges for path in merge.files)


def plan_days(
    cluster: str, manifest_files: Mapping[str, pa.Table], policy: HistoryPolicy, now: datetime
) -> tuple[DayPlan, ...]:
    """Return the days to change, oldest first.

    `manifest_files` has the cluster's manifest files by path.
    """
    rows = each_once(manifest_files).to_pylist()
    survivors = surviving(rows, policy, now)
    by_day = grouped((day_of(row["snapshot_id"]), row) for row in rows)
    places = ((place_of(path), path) for path in sorted(manifest_files))
    paths = grouped((place[1], path) for place, path in places if place)
    plans = (
        _plan_day(cluster, day, of_day, survivors, paths[day])
        for day, of_day in sorted(by_day.items())
        if is_settled(day, now)
    )
    return tuple(plan for plan in plans if plan is not None)


def _plan_day(
    cluster: str,
    day: date,
    rows: list[Mapping[str, Any]],
    survivors: frozenset[str],
    paths: list[str],
) -> DayPlan | None:
    stay = [row for row in rows if row["snapshot_id"] in survivors]
    dropped = tuple(row["snapshot_id"] for row in rows if row["snapshot_id"] not in survivors)
    digest = _digest(stay)
    merges = tuple(_merges(cluster, day, stay, rows, digest))
    if not merges and not dropped and len(paths) == 1:
        return None
    made = {(merge.table, path): merge.path for merge in merges for path in merge.files}
    after = [
        {
            **row,
            "files": [
                f | {"path": made.get((f["table"], f["path"]), f["path"])} for f in row["files"]
            ],
        }
        for row in stay
    ]
    manifest_path = compacted_path(MANIFESTS, cluster, day, digest)
    replaced = tuple(path for path in paths if path != manifest_path)
    return DayPlan(
        cluster=cluster,
        day=day,
        merges=merges,
        manifest_path=manifest_path,
        manifest=pa.Table.from_pylist(after, schema=SNAPSHOTS),
        replaced=replaced,
        dropped_ids=dropped,
        survivors=tuple(stay),
    )


def _merges(
    cluster: str,
    day: date,
    stay: list[Mapping[str, Any]],
    rows: list[Mapping[str, Any]],
    digest: str,
) -> Iterable[Merge]:
    """Yield a merge per table whose survivors are in several files, or beside deleted snapshots."""
    names = sorted({file["table"] for row in stay for file in row["files"]})
    for table in names:
        parts = [
            (file["path"], row["snapshot_id"], file["row_count"])
            for row in stay
            for file in row["files"]
            if file["table"] == table
        ]
        wanted = grouped((path, snapshot_id) for path, snapshot_id, _ in parts)
        counts = {snapshot_id: row_count for _, snapshot_id, row_count in parts}
        held = {
            row["snapshot_id"] for row in rows for file in row["files"] if file["path"] in wanted
        }
        if len(wanted) > 1 or len(held) > len(counts):
            files = {path: tuple(ids) for path, ids in sorted(wanted.items())}
            yield Merge(table, compacted_path(table, cluster, day, digest), files, counts)


def _digest(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return a name for what a compacted file holds: the same for the same snapshots."""
    snapshots = sorted((row["snapshot_id"], row["observed_at"].isoformat()) for row in rows)
    return hashlib.sha256(json.dumps(snapshots).encode()).hexdigest()[:16]


def unused(
    files: Iterable[StoredFile],
    named: Iterable[str],
    changed: Mapping[tuple[str, date], datetime],
    *,
    grace: timedelta,
    now: datetime,
) -> tuple[str, ...]:
    """Return the paths of the files that may be deleted.

    `named` are the paths in manifests, `changed` is when a compacted manifest of a cluster's day
    was written last. A file whose time of writing is not known stays.
    """
    wanted = frozenset(named)

    def may_go(file: StoredFile) -> bool:
        if file.path in wanted or file.modified_at is None or file.modified_at + grace > now:
            return False
        place = place_of(file.path)
        return place is None or place not in changed or changed[place] + grace <= now

    return tuple(sorted(file.path for file in files if may_go(file)))


# -- Which snapshots are kept: all of the last weeks, then one an hour, then one a day
#
#     surviving(manifests, HistoryPolicy(), now)       # ids
#
# A whole day (UTC, of the scheduled times) goes from one step to the next at once, when its last
# moment is old enough: so a policy's times are the least that is kept, and the files of a day are
# written anew once per step. The first of an hour or a day stays the first whatever else goes, so
# that each step keeps a part of what the one before it kept.


SETTLES_AFTER: Final = timedelta(days=1)  # late and repeated snapshots of a day are written by then


def surviving(
    manifest_rows: Iterable[Mapping[str, Any]], policy: HistoryPolicy, now: datetime
) -> frozenset[str]:
    """Return the ids of the snapshots of one cluster that are kept.

    The newest always is, however old it is.
    """
    ids = [row["snapshot_id"] for row in manifest_rows]
    ids.sort(key=lambda snapshot_id: (scheduled_at_of(snapshot_id), snapshot_id))
    kept: dict[tuple[object, ...], str] = {}
    for snapshot_id in ids:
        slot = _slot(snapshot_id, policy, now)
        if slot is not None:
            kept.setdefault(slot, snapshot_id)
    return frozenset(kept.values()) | frozenset(ids[-1:])


def age_of(day: date, now: datetime) -> timedelta:
    """Return the time since the day's last moment; negative for a day that is not over."""
    return now - datetime.combine(day + timedelta(days=1), time(), UTC)


def is_settled(day: date, now: datetime) -> bool:
    """Return whether a day is over for so long that its files may be merged."""
    return age_of(day, now) >= SETTLES_AFTER


def _slot(snapshot_id: str, policy: HistoryPolicy, now: datetime) -> tuple[object, ...] | None:
    """Return a key of which at most one snapshot is kept: itself, its hour, or its day.

    None: it is too old to be kept.
    """
    scheduled_at = scheduled_at_of(snapshot_id)
    age = age_of(day_of(snapshot_id), now)
    if age < policy.keep_all:
        return (snapshot_id,)
    if age < policy.keep_hourly:
        return (scheduled_at.date(), scheduled_at.hour)
    return (scheduled_at.date(),) if age < policy.keep_daily else None
