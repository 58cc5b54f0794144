"""What a simulated month should leave behind, computed from the schedule and the retention alone.

    problems = list(differences(month))     # of snapshots, files and rows
    for check in month_checks(days, problems): print(check)

It shares no code with `counterpoise.history`, which decides what is kept.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from benchmarks.simulated_month import (
    CHECKPOINT_EVERY_DAYS,
    KEEP_ALL,
    KEEP_DAILY,
    KEEP_HOURLY,
    KEEP_LEDGER,
    Day,
    Month,
)
from benchmarks.targets import Check
from counterpoise import history
from counterpoise.model.tables import SNAPSHOT_TABLES

MAX_GROWTH: Final = 1.1
MAX_DATABASE_GROWTH: Final = 1.2
_DAY: Final = timedelta(days=1)


def differences(month: Month) -> Iterator[str]:
    """Yield what of each cluster's history is not as schedule and retention say."""
    for name, times in month.snapshots.items():
        kept = kept_times(times, month.ended_at)
        ids = {history.snapshot_id_for(name, at) for at in kept}
        manifests = month.installation.archive.manifests([name])
        if set(manifests["snapshot_id"].to_pylist()) != ids:
            yield f"{name}: {manifests.num_rows} snapshots, {len(ids)} expected"
        wanted_files = expected_files(kept, month.ended_at)
        for table in SNAPSHOT_TABLES:
            files = month.installation.archive.store.files(history.table_folder(table, name))
            if len(files) != wanted_files:
                yield f"{name}: {len(files)} files of {table}, {wanted_files} expected"
        rows = sum(
            file["row_count"]
            for manifest in manifests.to_pylist()
            for file in manifest["files"]
            if file["table"] == "partitions"
        )
        wanted_rows = month.fleet.partitions_of(name) * len(ids)
        if rows != wanted_rows:
            yield f"{name}: {rows} rows of partitions, {wanted_rows} expected"


def kept_times(times: Sequence[datetime], now: datetime) -> list[datetime]:
    """Return which snapshots retention keeps, by the age of the end of their day."""
    kept: dict[tuple[date, object], datetime] = {}
    for at in sorted(times):
        age = now - _midnight(at.date() + _DAY)
        if age < KEEP_ALL:
            kept.setdefault((at.date(), at), at)
        elif age < KEEP_HOURLY:
            kept.setdefault((at.date(), at.hour), at)
        elif age < KEEP_DAILY:
            kept.setdefault((at.date(), None), at)
    return sorted(kept.values())


def expected_files(kept: Sequence[datetime], now: datetime) -> int:
    """Return the files of one table: one for each day that is over for a day, else one each."""
    by_day = Counter(at.date() for at in kept)
    settled = now - 2 * _DAY
    return sum(1 if _midnight(day) <= settled else count for day, count in by_day.items())


def month_checks(days: Sequence[Day], problems: Sequence[str]) -> list[Check]:
    """Hold a month against its targets: memory and ledger flat, history as computed.

    Flat: the last third of the days beside the second, since caches and retention fill first. The
    ledger of a month so short that no checkpoint deletes a row in the second third has to grow.
    """
    third = max(1, len(days) // 3)
    second, last = days[third : 2 * third], days[2 * third :]
    memory = _growth([day.rss_bytes for day in second], [day.rss_bytes for day in last])
    is_full = second[-1].number >= (KEEP_LEDGER // _DAY) + CHECKPOINT_EVERY_DAYS
    return [
        Check(
            memory <= MAX_GROWTH,
            f"memory of the last third of the days {memory:.3f} of that of the second "
            f"(at most {MAX_GROWTH})",
        ),
        *([_database_check(second, last)] if is_full else []),
        Check(
            not problems,
            f"{len(problems)} differences from files and rows as computed (0)"
            + "".join(f"\n  {problem}" for problem in problems[:10]),
        ),
    ]


def _database_check(second: Sequence[Day], last: Sequence[Day]) -> Check:
    growth = _growth([day.database_bytes for day in second], [day.database_bytes for day in last])
    return Check(
        growth <= MAX_DATABASE_GROWTH,
        f"the ledger's files {growth:.3f} (at most {MAX_DATABASE_GROWTH})",
    )


def _growth(before: Sequence[int], after: Sequence[int]) -> float:
    return max(after) / max(before)


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
