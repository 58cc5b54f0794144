"""History: which files a snapshot becomes, how it is read back, and what is kept of it. Pure:
others do I/O.

    snapshot_id = snapshot_id_for("demo", scheduled_at)      # demo-20261121T150000Z
    for path, table in history_files(snapshot).items(): ...  # write these first
    path, row = manifest_of(snapshot)                        # and this last

The manifest names its files with their row counts; readers open nothing else, so a snapshot that is
being written is not there yet, and files that are being replaced are not gone yet.
"""

from counterpoise.history.compaction import DayPlan, Merge, age_of, plan_days, surviving, unused
from counterpoise.history.manifests import (
    HistoryError,
    check_version,
    each_once,
    files_of,
    history_files,
    manifest_of,
    manifest_rows,
    recent_rows,
    rows_by_age,
    rows_once,
)
from counterpoise.history.names import (
    MANIFESTS,
    ROOT,
    compacted_path,
    day_of,
    is_compacted,
    manifest_path,
    manifests_folder,
    place_of,
    scheduled_at_of,
    snapshot_id_for,
    table_folder,
    table_path,
)
from counterpoise.history.reading import check_shape, from_tables
from counterpoise.history.results import (
    LOADS,
    DailyPlan,
    RoundMerge,
    daily_folder,
    old_days,
    outlived_rounds,
    plan_daily,
    plan_rounds,
)

__all__ = [
    "LOADS",
    "MANIFESTS",
    "ROOT",
    "DailyPlan",
    "DayPlan",
    "HistoryError",
    "Merge",
    "RoundMerge",
    "age_of",
    "check_shape",
    "check_version",
    "compacted_path",
    "daily_folder",
    "day_of",
    "each_once",
    "files_of",
    "from_tables",
    "history_files",
    "is_compacted",
    "manifest_of",
    "manifest_path",
    "manifest_rows",
    "manifests_folder",
    "old_days",
    "outlived_rounds",
    "place_of",
    "plan_daily",
    "plan_days",
    "plan_rounds",
    "recent_rows",
    "rows_by_age",
    "rows_once",
    "scheduled_at_of",
    "snapshot_id_for",
    "surviving",
    "table_folder",
    "table_path",
    "unused",
]
