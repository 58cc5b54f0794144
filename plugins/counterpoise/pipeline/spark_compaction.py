"""Files of the store that the Spark job `history_compaction` merges: checked, moved into place.

    for job in in_jobs(dailies):
        make_files(installation, (), job, log)

A job is bounded by the rows that it reads, and gets the memory that they need. A file that exists
already, with the rows that it must have, is not made again: an interrupted compaction goes on.
"""

import json
import tempfile
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import pyarrow as pa

from counterpoise.daily_copies import SNAPSHOT_COUNT
from counterpoise.errors import StoreError
from counterpoise.history import DailyPlan, Merge
from counterpoise.installation import Installation
from counterpoise.model.tables import DAILY_TABLES, RESULT_TABLES, SNAPSHOT_TABLES
from counterpoise.spark_submit import START_FAST, run_job
from counterpoise.storage import Store, working_root

Log = Callable[[str], None]

WORK: Final = "work"  # the folder for what jobs make, until it is moved into place
_MADE_OF: Final = b"made_of"
# Of a job, unless one thing to make needs more: two days of a million partitions by the hour. What
# a job has made stays when the next one fails.
_MAX_ROWS_OF_JOB: Final = 50_000_000
_MAX_FILES_OF_JOB: Final = 10_000
_MAX_ROWS_OF_SMALL_JOB: Final = 1_000_000
_FEW_ROWS_CONF: Final = {**START_FAST, "spark.sql.shuffle.partitions": "2"}
_MANY_ROWS_CONF: Final = {"spark.driver.memory": "4g"}


@dataclass(frozen=True, slots=True)
class Daily:
    """A day's table to be made: by file the snapshots that are read from it, and by snapshot how
    many seconds its rates lasted (those of a snapshot that is not there do not count), and how many
    brokers were live.
    """

    plan: DailyPlan
    files: Mapping[str, tuple[str, ...]]
    row_count: int  # of these snapshots in these files
    seconds: Mapping[str, float] = field(default_factory=dict)
    live_brokers: Mapping[str, int] = field(default_factory=dict)

    def listed(self, number: int) -> dict[str, Any]:
        """Return the entry of the job's plan."""
        files = [
            file
            | {
                "seconds": [self.seconds.get(one) for one in file["snapshot_ids"]],
                "live_brokers": [self.live_brokers.get(one) for one in file["snapshot_ids"]],
            }
            for file in _listed(self.files)
        ]
        day = self.plan.day.isoformat()
        return {"output": number, "table": self.plan.table, "date": day, "files": files}


class _Input(Protocol):
    """What is read for one thing to make."""

    @property
    def row_count(self) -> int: ...
    @property
    def files(self) -> Collection[str]: ...


_Made = TypeVar("_Made", bound=_Input)


def in_jobs(to_make: Iterable[_Made]) -> Iterator[list[_Made]]:
    """Yield what one Spark job makes, job by job: as many as keep its bounds, and one at least."""
    job: list[_Made] = []
    rows = files = 0
    for one in to_make:
        rows, files = rows + one.row_count, files + len(one.files)
        if job and (rows > _MAX_ROWS_OF_JOB or files > _MAX_FILES_OF_JOB):
            yield job
            job, rows, files = [], one.row_count, len(one.files)
        job.append(one)
    if job:
        yield job


def make_files(
    installation: Installation, merges: Sequence[Merge], dailies: Sequence[Daily], log: Log
) -> None:
    """Make the files that do not exist yet.

    Raises SparkJobError, or StoreError when a file does not have the rows that it should.
    """
    store = installation.archive.store
    missing_merges = []
    for merge in merges:
        if not merge.row_count:
            store.write_table(merge.path, _shared_schema(merge.table).empty_table())
        elif not _is_made(store, merge):
            missing_merges.append(merge)
    if not missing_merges and not dailies:
        return
    work = f"{WORK}/{uuid.uuid4().hex}"
    _run_job(installation, work, missing_merges, dailies, log)
    for number, merge in enumerate(missing_merges):
        output = _output_file(store, f"{work}/{merge.table}/output={number}")
        if output is None or snapshot_counts(store, output) != _expected_counts(merge):
            raise StoreError(
                f"{store.uri(merge.path)} would lack rows of its snapshots, so nothing was "
                f"replaced; the Spark job's files are in {store.uri(work)}"
            )
        store.move(output, merge.path)
    for number, daily in enumerate(dailies, start=len(missing_merges)):
        output = _output_file(store, f"{work}/{daily.plan.table}_daily/output={number}")
        _write_daily(store, daily.plan, output)
    store.delete_folder(work)


def is_daily_made(store: Store, plan: DailyPlan) -> bool:
    """Whether the day's table exists, made of exactly what it would be made of now."""
    if store.info(plan.path) is None:
        return False
    metadata = store.parquet_shape(plan.path)[1].metadata or {}
    return bool(metadata.get(_MADE_OF) == plan.digest.encode())


def snapshot_counts(store: Store, path: str) -> dict[str, int]:
    """Return the number of rows by snapshot id of a file that has the column."""
    return store.value_counts(path, "snapshot_id")


def _run_job(
    installation: Installation,
    work: str,
    merges: Sequence[Merge],
    dailies: Sequence[Daily],
    log: Log,
) -> None:
    plan = {
        "merges": [
            {"output": number, "table": merge.table, "files": _listed(merge.files)}
            for number, merge in enumerate(merges)
        ],
        "daily": [daily.listed(number) for number, daily in enumerate(dailies, start=len(merges))],
    }
    rows = sum(merge.row_count for merge in merges) + sum(daily.row_count for daily in dailies)
    conf = _FEW_ROWS_CONF if rows < _MAX_ROWS_OF_SMALL_JOB else _MANY_ROWS_CONF
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
            pass_on=installation.locations.spark_environment,
            log=log,
        )


def _listed(files: Any) -> list[dict[str, Any]]:
    return [{"path": path, "snapshot_ids": list(ids)} for path, ids in sorted(files.items())]


def _is_made(store: Store, merge: Merge) -> bool:
    if store.info(merge.path) is None:
        return False
    try:
        return snapshot_counts(store, merge.path) == _expected_counts(merge)
    except StoreError:  # the file is damaged
        return False


def _expected_counts(merge: Merge) -> dict[str, int]:
    return {snapshot_id: count for snapshot_id, count in merge.row_counts.items() if count}


def _output_file(store: Store, folder: str) -> str | None:
    """Return the file that the job wrote there; None where it wrote no row."""
    files = store.list(folder, suffix=".parquet")
    if len(files) > 1:
        raise StoreError(f"the Spark job wrote {len(files)} files to {store.uri(folder)}, not one")
    return files[0] if files else None


def _write_daily(store: Store, plan: DailyPlan, output: str | None) -> None:
    schema = DAILY_TABLES[plan.table]
    rows = schema.empty_table() if output is None else store.read_table(output)
    table = rows.select(schema.names).cast(schema)
    count = sum(map(len, plan.snapshot_ids_by_round.values()))
    footer = {_MADE_OF: plan.digest, SNAPSHOT_COUNT: str(count)}
    store.write_table(plan.path, table.replace_schema_metadata(footer))


def _shared_schema(table: str) -> pa.Schema:
    """Return the schema of a file that holds many snapshots."""
    schema = {**SNAPSHOT_TABLES, **RESULT_TABLES}[table]
    if "snapshot_id" in schema.names:
        return schema
    return schema.append(pa.field("snapshot_id", pa.string(), nullable=False))
