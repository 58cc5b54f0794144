"""The views of a cluster in the store: small tables of all its snapshots, for as long as the policy
keeps any snapshot.

    files = ViewFiles(store, "demo", "series")
    files.add(rows, "round-7")                   # a file for each month that it has rows of
    files.read()                                 # all of it, each snapshot once
    files.merge(rows_again)                      # one file a month

`series` has one row per snapshot and broker (SERIES), `log_dirs` one per snapshot and log dir.

Files are only added and never changed, so two analyses at once lose nothing: each snapshot is in at
least one file. Where it is in several (it was analysed again, since another snapshot came between
it and the one it was compared with), the comparison with the nearest snapshot counts, and of those
the file with the last name. A merge writes all rows of a month to a new file before it deletes
those that it has read.

Thinning out the history takes no rows away: a figure over a period is the same whatever became of
the snapshots. `views/<cluster>/series.parquet` is that of an earlier release, which may still write
it: it is read too, until a merge.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet as pq

from counterpoise import analysis
from counterpoise.errors import StoreError
from counterpoise.model.result_tables import VIEWS
from counterpoise.model.safe_text import safe_logger
from counterpoise.model.tables import conformed
from counterpoise.storage import Store

_LOGGER = safe_logger(__name__)
_MAX_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class ViewFiles:
    """The files of one view of a cluster; `name` is one of VIEWS."""

    store: Store
    cluster: str
    name: str

    @property
    def exist(self) -> bool:
        """Return whether this release has written any."""
        return bool(self._by_month(self._listed()))

    def add(self, rows: pa.Table, name: str) -> None:
        """Write rows: a file `name` for each month (UTC) that they are of."""
        for month, of_month in _months(rows).items():
            self.store.write_table(f"{self._folder}/month={month}/{name}.parquet", of_month)

    def read(self, since: datetime | None = None, until: datetime | None = None) -> pa.Table:
        """Return the rows by time; of the months from `since` to `until`, if given.

        Raises StoreError.
        """
        return self._read_listed(self._listed(), since, until)

    def read_written(
        self, since: datetime | None = None, until: datetime | None = None
    ) -> pa.Table | None:
        """Return the same; None where this release has written no file."""
        listed = self._listed()
        return self._read_listed(listed, since, until) if self._by_month(listed) else None

    def _read_listed(
        self, listed: Sequence[str], since: datetime | None, until: datetime | None
    ) -> pa.Table:
        """Read files of a list.

        A file that is deleted between the list and the read was merged into another one: then both
        are done again.
        """
        for _ in range(_MAX_TRIES):
            try:
                paths = self._paths(listed, since, until)
                return self._each_once([self._read(path) for path in paths])
            except StoreError:
                before, listed = listed, self._listed()
                if listed == before:
                    raise
        raise StoreError(
            f"the files in {self.store.uri(self._folder)} changed {_MAX_TRIES} times while they "
            "were read; try again"
        )

    def merge(self, rows_again: pa.Table | None = None) -> int:
        """Put each month into one file; return how many files were replaced.

        `rows_again` are rows that count before any other row of the same snapshots. A damaged
        file is left out, with a warning in the log, and stays. Raises StoreError.
        """
        listed = self._listed()
        files = self._by_month(listed)
        earlier = self._undamaged(self._of_earlier_release(listed))
        months_earlier = {path: _months(table) for path, table in earlier.items()}
        months_again = {} if rows_again is None else _months(rows_again)
        names = {name for months in months_earlier.values() for name in months}
        replaced = 0
        for month in sorted({*files, *months_again, *names}):
            tables = [months[month] for months in months_earlier.values() if month in months]
            again = [months_again[month]] if month in months_again else []
            replaced += self._merge_month(month, files.get(month, ()), tables, again)
        for path in earlier:
            self.store.delete(path)
        return replaced + len(earlier)

    def delete_before(self, moment: datetime) -> int:
        """Delete the months that ended before `moment`; return how many files."""
        old = [
            path
            for month, paths in self._by_month(self._listed()).items()
            if not _overlaps(month, moment, None)
            for path in paths
        ]
        for path in old:
            self.store.delete(path)
        return len(old)

    def _merge_month(
        self,
        month: str,
        paths: Iterable[str],
        others: list[pa.Table],
        again: list[pa.Table],
    ) -> int:
        read = self._undamaged(paths)
        if len(read) == 1 and not others and not again:
            return 0
        merged = self._each_once([*others, *read.values()], again)
        digest = hashlib.sha256("\n".join(_identities(merged)).encode()).hexdigest()[:16]
        target = f"{self._folder}/month={month}/merged-{digest}.parquet"
        self.store.write_table(target, merged)
        replaced = [path for path in read if path != target]
        for path in replaced:
            self.store.delete(path)
        return len(replaced)

    @property
    def _folder(self) -> str:
        return f"views/{self.cluster}/{self.name}"

    def _each_once(self, tables: Sequence[pa.Table], first: Sequence[pa.Table] = ()) -> pa.Table:
        rows = analysis.each_once([*tables, VIEWS[self.name].empty_table()], first)
        return rows.cast(VIEWS[self.name])

    def _listed(self) -> Sequence[str]:
        """Return all files beside the view, too: one list has what this and earlier releases have
        written.
        """
        return self.store.list(f"views/{self.cluster}", suffix=".parquet")

    def _by_month(self, listed: Iterable[str]) -> dict[str, list[str]]:
        months: dict[str, list[str]] = {}
        for path in listed:
            if path.startswith(f"{self._folder}/"):
                month = path.split("/")[-2].removeprefix("month=")
                months.setdefault(month, []).append(path)
        return months

    def _of_earlier_release(self, listed: Collection[str]) -> list[str]:
        path = f"{self._folder}.parquet"
        return [path] if path in listed else []

    def _paths(
        self, listed: Collection[str], since: datetime | None, until: datetime | None
    ) -> list[str]:
        months = self._by_month(listed).items()
        wanted = [path for month, of in months if _overlaps(month, since, until) for path in of]
        return [*self._of_earlier_release(listed), *wanted]

    def quarantine_damaged(self) -> tuple[str, ...]:
        """Rename damaged files, so that nobody reads them any more; return their names before.

        Raises StoreError when a file cannot be read for another reason.
        """
        paths = self._paths(self._listed(), None, None)
        damaged = tuple(sorted(set(paths) - self._undamaged(paths).keys()))
        for path in damaged:
            self.store.move(path, f"{path}.damaged")
        return damaged

    def _undamaged(self, paths: Iterable[str]) -> dict[str, pa.Table]:
        """Read files; leave out those that the store gives but that are damaged."""
        tables = {}
        for path in paths:
            data = self.store.read_bytes(path, is_document=False)
            try:
                tables[path] = conformed(pq.read_table(pa.BufferReader(data)), VIEWS[self.name])
            except (OSError, ValueError, pa.ArrowException) as error:
                uri = self.store.uri(path)
                _LOGGER.warning("%s is damaged, and was left out: %s", uri, error)
        return tables

    def _read(self, path: str) -> pa.Table:
        try:
            return conformed(self.store.read_table(path), VIEWS[self.name])
        except ValueError as error:
            raise StoreError(f"{self.store.uri(path)} {error}") from None


def _identities(rows: pa.Table) -> list[str]:
    """Return what names the contents: each snapshot with the one it was compared with."""
    return sorted(f"{one} {before}" for one, before in analysis.compared_snapshots(rows))


def _months(rows: pa.Table) -> Mapping[str, pa.Table]:
    """Return the rows of each month, by names like 2026-11."""
    names = pc.strftime(rows["observed_at"], "%Y-%m")
    months = sorted(names.unique().to_pylist())
    return {month: rows.filter(pc.equal(names, month)) for month in months}


def _overlaps(month: str, since: datetime | None, until: datetime | None) -> bool:
    return (since is None or month >= f"{since:%Y-%m}") and (
        until is None or month <= f"{until:%Y-%m}"
    )
