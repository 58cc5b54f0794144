"""Files of the store put together by the Spark job `history_compaction`, checked, and given their
place.

    make_files(site, merges, dailies, log)

A file that is there already, with the rows that it has to have, is not made again: an interrupted
compaction goes on.
"""

import json
import tempfile
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from counterpoise.errors import StoreError
from counterpoise.history import DailyPlan, Merge
from counterpoise.installation import Installation
from counterpoise.model.result_tables import PARTITION_LOAD_DAILY, RESULT_TABLES
from counterpoise.model.tables import SNAPSHOT_TABLES
from counterpoise.spark_submit import START_FAST, run_job
from counterpoise.storage import Store, working_root

Log = Callable[[str], None]

WORK: Final = "work"  # what jobs make, before it has its place
_DAILY: Final = "partition_load_daily"
_MADE_OF: Final = b"made_of"
_ROWS_OF_A_SMALL_JOB: Final = 1_000_000
_SMALL: Final = {**START_FAST, "spark.sql.shuffle.partitions": "2"}
_ROOM_FOR_MILLIONS: Final = {"spark.driver.memory": "4g"}


@dataclass(frozen=True, slots=True)
class Daily:
    """A day's PARTITION_LOAD_DAILY, and the files of PARTITION_LOAD with the snapshots to take from
    each.
    """

    plan: DailyPlan
    files: dict[str, tuple[str, ...]]


def make_files(
    installation: Installation, merges: Sequence[Merge], dailies: Sequence[Daily], log: Log
) -> None:
    """Makes what is not there yet.

    Raises SparkJobError, or StoreError when a file has not the rows that it should.
    """
    store = installation.archive.store
    waiting = []
    for merge in merges:
        if not sum(merge.row_counts.values()):
            store.write_table(merge.path, _shared_schema(merge.table).empty_table())
        elif not _is_made(store, merge):
            waiting.append(merge)
    if not waiting and not dailies:
        return
    work = f"{WORK}/{uuid.uuid4().hex}"
    _run(installation, work, waiting, dailies, log)
    for number, merge in enumerate(waiting):
        made = _made(store, f"{work}/{merge.table}/output={number}")
        if made is None or _counts(store, made) != _expected(merge):
            raise StoreError(
                f"{store.uri(merge.path)} would lack rows of its snapshots; nothing was replaced"
            )
        store.move(made, merge.path)
    for number, daily in enumerate(dailies, start=len(waiting)):
        _keep_daily(store, daily.plan, _made(store, f"{work}/{_DAILY}/output={number}"))
    store.delete_folder(work)


def is_daily_made(store: Store, plan: DailyPlan) -> bool:
    """Whether the day's table is there, made of just what it would be made of now."""
    if store.info(plan.path) is None:
        return False
    metadata = store.parquet_shape(plan.path)[1].metadata or {}
    return bool(metadata.get(_MADE_OF) == plan.digest.encode())


def snapshot_counts(store: Store, path: str) -> dict[str, int]:
    """Rows by snapshot of a file that names them."""
    counts = store.read_column(path, "snapshot_id").combine_chunks().value_counts()
    return {row["values"]: row["counts"] for row in counts.to_pylist()}


def _run(
    installation: Installation,
    work: str,
    merges: Sequence[Merge],
    dailies: Sequence[Daily],
    log: Log,
) -> None:
    plan: dict[str, list[dict[str, Any]]] = {
        "merges": [
            {"output": number, "table": merge.table, "files": _listed(merge.files)}
            for number, merge in enumerate(merges)
        ],
        "daily": [
            {"output": number, "date": daily.plan.day.isoformat(), "files": _listed(daily.files)}
            for number, daily in enumerate(dailies, start=len(merges))
        ],
    }
    rows = sum(sum(merge.row_counts.values()) for merge in merges)
    conf = _SMALL if rows < _ROWS_OF_A_SMALL_JOB else _ROOM_FOR_MILLIONS
    inputs = {
        file["path"] for entries in plan.values() for entry in entries for file in entry["files"]
    }
    master = installation.locations.spark_master
    with (
        tempfile.TemporaryDirectory() as folder,
        working_root(installation.archive.store, master, inputs) as root,
    ):
        listing = Path(folder) / "plan.json"
        listing.write_text(json.dumps(plan))
        run_job(
            installation.locations.spark_jobs / "history_compaction.py",
            ["--store", root, "--work", work, "--plan", str(listing)],
            master=master,
            conf={**conf, **installation.locations.spark_conf},
            log=log,
        )


def _listed(files: Any) -> list[dict[str, Any]]:
    return [{"path": path, "snapshot_ids": list(ids)} for path, ids in sorted(files.items())]


def _is_made(store: Store, merge: Merge) -> bool:
    if store.info(merge.path) is None:
        return False
    try:
        return _counts(store, merge.path) == _expected(merge)
    except StoreError:  # no whole file
        return False


def _expected(merge: Merge) -> dict[str, int]:
    return {snapshot_id: count for snapshot_id, count in merge.row_counts.items() if count}


def _counts(store: Store, path: str) -> dict[str, int]:
    return snapshot_counts(store, path)


def _made(store: Store, folder: str) -> str | None:
    """The file that the job made there; None where no row came out."""
    files = store.list(folder, suffix=".parquet")
    if len(files) > 1:
        raise StoreError(f"the Spark job made {len(files)} files in {store.uri(folder)}, not one")
    return files[0] if files else None


def _keep_daily(store: Store, plan: DailyPlan, made: str | None) -> None:
    rows = PARTITION_LOAD_DAILY.empty_table() if made is None else store.read_table(made)
    table = rows.select(PARTITION_LOAD_DAILY.names).cast(PARTITION_LOAD_DAILY)
    store.write_table(plan.path, table.replace_schema_metadata({_MADE_OF: plan.digest}))


def _shared_schema(table: str) -> pa.Schema:
    """Of a file that holds many snapshots."""
    schema = {**SNAPSHOT_TABLES, **RESULT_TABLES}[table]
    if "snapshot_id" in schema.names:
        return schema
    return schema.append(pa.field("snapshot_id", pa.string(), nullable=False))
