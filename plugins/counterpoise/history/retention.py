"""Which snapshots are kept: all of the last weeks, then one an hour, then one a day.

    surviving(manifests, HistoryPolicy(), now)       # ids

A whole day (UTC, of the scheduled times) goes from one step to the next at once, when its last
moment is old enough: so a policy's times are the least that is kept, and the files of a day are
written anew once per step. The first of an hour or a day stays the first whatever else goes, so
that each step keeps a part of what the one before it kept.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

from counterpoise.history.names import day_of, scheduled_at_of
from counterpoise.model.policy import HistoryPolicy

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
