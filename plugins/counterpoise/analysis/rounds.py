"""Which snapshots a round of Spark analyses, and with which snapshot each of them is compared.

    round = next_round(manifests, analysed={"demo-20260131T120000Z": None})
    round.to_json()                   # the file for the jobs

A snapshot is compared with the one before it, by the time of observation. Example: snapshots of 12
and 14 o'clock are analysed, the second compared with the first; then the one of 13 o'clock arrives.
The next round analyses 13 o'clock (compared with 12) and 14 o'clock again (compared with 13), so
the results do not depend on the order of arrival.
"""

import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Any, Final

import pyarrow as pa

from counterpoise.model.grouping import grouped
from counterpoise.model.intervals import MIN_INTERVALS, is_as_scheduled, max_seconds, usual_lately

_INTERVALS: Final = 20  # that say how often snapshots are made
_READ_TO_COMPARE: Final = ("topics", "partitions")
_READ_TO_ANALYSE: Final = ("brokers", "replicas", "log_dirs")


@dataclass(frozen=True, slots=True)
class Round:
    """Manifest rows, each with `previous_snapshot_id`, `is_context` and `max_seconds`.

    A row that is context is not analysed: another one is compared with it. Rates are means over
    `max_seconds` at most; that follows how often the cluster's snapshots are made. It is 0, so that
    no rate is told, where the clocks of both contradict the times that they were scheduled for.
    """

    rows: tuple[Mapping[str, Any], ...]

    @property
    def to_analyse(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(row for row in self.rows if not row["is_context"])

    @property
    def row_count(self) -> int:
        """Return the number of rows to read, over all tables."""
        return sum(file["row_count"] for row in self.rows for file in row["files"])

    @property
    def paths(self) -> frozenset[str]:
        """Return the files that the jobs read."""
        return frozenset(file["path"] for row in self.rows for file in files_read(row))

    def begin(self, max_rows: int) -> "Round":
        """Return the first snapshots of the round: as many as have `max_rows` rows, and one at
        least. What each is compared with stands before it.
        """
        rows: list[Mapping[str, Any]] = []
        count = 0
        for row in self.rows:
            count += sum(file["row_count"] for file in row["files"])
            if count > max_rows and any(not one["is_context"] for one in rows):
                break
            rows.append(row)
        return Round(tuple(rows))

    def to_json(self) -> str:
        """Return the `--snapshots` file of the jobs: times in ISO 8601."""
        rows = [{**row, "observed_at": row["observed_at"].isoformat()} for row in self.rows]
        return json.dumps(rows, indent=1, sort_keys=True) + "\n"


def files_read(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the files of a row of a round that the jobs read."""
    tables = _READ_TO_COMPARE if row["is_context"] else (*_READ_TO_COMPARE, *_READ_TO_ANALYSE)
    return [file for file in row["files"] if file["table"] in tables]


def next_round(
    manifests: pa.Table,
    analysed: Mapping[str, str | None],
    left_out: Iterable[str] = (),
    *,
    scheduled_at: Callable[[str], datetime],
) -> Round:
    """Return the snapshots that have no result yet, or were compared with another snapshot than
    the one that is before them now.

    `manifests` has rows of SNAPSHOTS; `analysed` is what each analysed snapshot was compared with;
    `left_out` are ids that cannot be read. A result stays when the snapshot that it was compared
    with is deleted. `scheduled_at` tells the time in an id.
    """
    left_out_ids = set(left_out)
    newest: dict[str, Mapping[str, Any]] = {}  # by cluster, so far
    rows: dict[str, dict[str, Any]] = {}
    ordered = _by_time(manifests)
    usual = _usual_seconds(ordered)
    for manifest in ordered:
        snapshot_id = manifest["snapshot_id"]
        if snapshot_id in left_out_ids:
            continue
        previous = newest.get(manifest["cluster"])
        newest[manifest["cluster"]] = manifest
        previous_id = previous["snapshot_id"] if previous else None
        if snapshot_id in analysed and not _came_between(previous_id, analysed[snapshot_id]):
            continue
        if previous is not None and previous["snapshot_id"] not in rows:
            context = {"previous_snapshot_id": None, "is_context": True}
            rows[previous["snapshot_id"]] = {**previous, **context}
        rows[snapshot_id] = {
            **manifest,
            "previous_snapshot_id": previous_id,
            "is_context": False,
            "max_seconds": max_seconds(usual.get(snapshot_id))
            if previous is None or _is_as_scheduled(previous, manifest, scheduled_at)
            else 0.0,
        }
    return Round(tuple(rows.values()))


def _is_as_scheduled(
    before: Mapping[str, Any], after: Mapping[str, Any], scheduled_at: Callable[[str], datetime]
) -> bool:
    passed: timedelta = after["observed_at"] - before["observed_at"]
    wanted = scheduled_at(after["snapshot_id"]) - scheduled_at(before["snapshot_id"])
    return is_as_scheduled(passed.total_seconds(), wanted.total_seconds())


def _usual_seconds(manifests: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return for each snapshot the usual interval of its cluster, its own among them; none where
    there are fewer than three.

    It is the median of the last 20, or `usual_lately` where that is larger.
    """
    usual = {}
    by_cluster = grouped((row["cluster"], row) for row in manifests)
    for rows in by_cluster.values():
        intervals: deque[float] = deque(maxlen=_INTERVALS)
        for before, after in pairwise(rows):
            intervals.append((after["observed_at"] - before["observed_at"]).total_seconds())
            if len(intervals) >= MIN_INTERVALS:
                lately = usual_lately(list(intervals))
                usual[after["snapshot_id"]] = max(median(intervals), lately)
    return usual


def _by_time(manifests: pa.Table) -> list[dict[str, Any]]:
    ordered: list[dict[str, Any]] = manifests.sort_by(
        [("observed_at", "ascending"), ("snapshot_id", "ascending")]
    ).to_pylist()
    return ordered


def _came_between(previous_id: str | None, compared_with: str | None) -> bool:
    """Return whether a snapshot arrived between one and the snapshot that it was compared with.

    Ids of one cluster sort by their scheduled time, which they end with.
    """
    return previous_id is not None and (compared_with is None or previous_id > compared_with)
