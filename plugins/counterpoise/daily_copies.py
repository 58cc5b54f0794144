"""A copy of the newest tables of a day of a cluster in one file, so that a report of a month opens
one instead of sixty.

    for day, rows, count in read_days(store, "topic_load", "demo", since, until): ...
    copy_days(store, "topic_load", "demo")      # brings the copy up to date

The copy says of which files it was made, with their sizes and times of change, as a list of the
folder tells them. A table that is not in it, or was made again, is read from its own file. So a
copy that is missing, damaged or old costs time and nothing else. It has a row group for each day:
whoever reads it holds the bytes of the file and the rows of one day.
"""

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Final, NamedTuple

import pyarrow as pa
from pyarrow import parquet as pq

from counterpoise.errors import StoreError
from counterpoise.history import daily_folder, place_of
from counterpoise.model.files import StoredFile
from counterpoise.model.safe_text import safe_logger
from counterpoise.model.tables import DAILY_TABLES, conformed
from counterpoise.storage import Store

SNAPSHOT_COUNT: Final = b"snapshot_count"  # in the footer of a table of a day
_FILES: Final = b"files"  # in the footer of the copy
_DAYS: Final = 62  # a report has a month and the one before
_MAX_BYTES: Final = 32 << 20
_FEW: Final = 8  # tables that are read without looking into the copy
_DAMAGES: Final = (StoreError, OSError, ValueError, TypeError, KeyError, pa.ArrowException)
_LOGGER = safe_logger(__name__)


class Day(NamedTuple):
    """One of DAILY_TABLES of one day."""

    day: date
    rows: pa.Table
    snapshot_count: int | None  # that it is made of; None where it does not tell


@dataclass(frozen=True)
class _Copy:
    """The copied tables: by file its row group, and of how many snapshots it is made."""

    parquet: pq.ParquetFile | None = None
    places: Mapping[StoredFile, tuple[int, int | None]] = field(default_factory=dict)


def copy_path(table: str, cluster: str) -> str:
    return f"views/{cluster}/{table}_daily.parquet"


def read_days(store: Store, table: str, cluster: str, since: date, until: date) -> Iterator[Day]:
    """Yield one of DAILY_TABLES of each day from `since` to the day before `until`; a table is read
    when its turn comes. Raises StoreError.
    """
    wanted = [(day, file) for day, file in _listed(store, table, cluster) if since <= day < until]
    copy = _read_copy(store, table, cluster) if len(wanted) > _FEW else _Copy()
    for day, file in wanted:
        yield _read_day(store, table, day, file, copy)


def copy_days(store: Store, table: str, cluster: str) -> None:
    """Bring the copy of the newest days up to date, where there are many.

    A table that cannot be read is left out, and a copy that cannot be written stays as it is, with
    a warning in the log.
    """
    try:
        _copy_days(store, table, cluster)
    except _DAMAGES as error:
        _LOGGER.warning("%s stays as it is: %s", store.uri(copy_path(table, cluster)), error)


def _copy_days(store: Store, table: str, cluster: str) -> None:
    newest: list[tuple[date, StoredFile]] = []
    free_bytes = _MAX_BYTES
    for day, file in reversed(_listed(store, table, cluster)[-_DAYS:]):
        free_bytes -= file.size_bytes
        if free_bytes < 0:
            break
        if file.modified_at is not None:  # or nobody can tell when it changes
            newest.insert(0, (day, file))
    copy = _read_copy(store, table, cluster)
    if len(newest) <= _FEW or [file for _, file in newest] == [*copy.places]:
        return
    stream, files = io.BytesIO(), []
    options = {"compression": "zstd", "write_page_checksum": True}
    with pq.ParquetWriter(stream, DAILY_TABLES[table], **options) as writer:
        for day, file in newest:
            try:
                read = _read_day(store, table, day, file, copy)
            except _DAMAGES as error:
                _LOGGER.warning("%s is not copied: %s", store.uri(file.path), error)
                continue
            # Without an empty row group a day without rows would be none.
            writer.write_table(read.rows, row_group_size=max(1, read.rows.num_rows))
            assert file.modified_at is not None
            modified_at = file.modified_at.astimezone(UTC).isoformat()
            files.append([file.path, file.size_bytes, modified_at, read.snapshot_count])
        writer.add_key_value_metadata({_FILES: json.dumps(files)})
    store.write_bytes(copy_path(table, cluster), stream.getvalue())


def _listed(store: Store, table: str, cluster: str) -> list[tuple[date, StoredFile]]:
    files = [f for f in store.files(daily_folder(table, cluster)) if f.path.endswith(".parquet")]
    return [(place[1], file) for file in files if (place := place_of(file.path)) is not None]


def _read_copy(store: Store, table: str, cluster: str) -> _Copy:
    path = copy_path(table, cluster)
    try:
        data = pa.BufferReader(store.read_bytes(path, is_document=False))
        parquet = pq.ParquetFile(data, page_checksum_verification=True)
        files = json.loads(parquet.metadata.metadata[_FILES])
        places = {
            StoredFile(name, size, datetime.fromisoformat(at)): (number, count)
            for number, (name, size, at, count) in enumerate(files)
        }
        if parquet.num_row_groups != len(places):
            raise ValueError("it lacks row groups")
        return _Copy(parquet, places)
    except _DAMAGES as error:
        if store.info(path) is not None:
            _LOGGER.warning("%s is not used: %s", store.uri(path), error)
        return _Copy()


def _read_day(store: Store, table: str, day: date, file: StoredFile, copy: _Copy) -> Day:
    if copy.parquet is not None and file in copy.places:
        number, count = copy.places[file]
        try:
            copied = copy.parquet.read_row_group(number)
            return Day(day, conformed(copied, DAILY_TABLES[table]), count)
        except (ValueError, OSError, pa.ArrowException) as error:
            _LOGGER.warning("the copy of %s is damaged: %s", store.uri(file.path), error)
    rows = store.read_table(file.path)
    told = (rows.schema.metadata or {}).get(SNAPSHOT_COUNT)
    return Day(day, conformed(rows, DAILY_TABLES[table]), int(told) if told else None)
