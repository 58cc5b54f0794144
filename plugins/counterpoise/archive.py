"""What lies where in the store: snapshots, plans, audits, reports, by their names. `results.py` has
what Spark makes.

    archive = Archive(store)
    archive.write_snapshot(snapshot)             # tables first, the manifest last
    archive.manifests(["orders-eu"])             # all that there is, oldest first

Part of the wiring, beside `installation.py`: `pipeline` writes through it, `queries` reads.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from counterpoise import history
from counterpoise.errors import InputError, StalePlanError, StoreError
from counterpoise.model.audit_document import from_json, to_json
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.finding import AuditReport
from counterpoise.model.plan import RebalancePlan
from counterpoise.storage import Store

_TRIES = 3
_PAGES: Final = (".html", ".css")
_REASON: Final = "reason.json"
_MOST_ASIDE: Final = 50  # of a cluster; older ones go
DATA_DOCS: Final = "data-docs"
_LOGGER = logging.getLogger(__name__)


class Archive:
    def __init__(self, store: Store) -> None:
        self.store = store

    def write_snapshot(self, snapshot: ClusterSnapshot) -> None:
        for path, table in history.history_files(snapshot).items():
            self.store.write_table(path, table)
        self.store.write_table(*history.manifest_of(snapshot))

    def read_snapshot(self, cluster: str, snapshot_id: str) -> ClusterSnapshot:
        """Raises StoreError when the history does not have it."""
        row = self.manifest_row(cluster, snapshot_id)
        tables = {
            name: self.store.read_table(path, snapshot_id=snapshot_id)
            for name, path in history.files_of(row).items()
        }
        return history.from_tables(row, tables)

    def manifests(self, clusters: Sequence[str]) -> pa.Table:
        """The manifest rows of all snapshots of these clusters, oldest first, each snapshot once."""
        return history.each_once(
            {path: table for name in clusters for path, table in self.manifest_files(name).items()}
        )

    def manifest_files(self, cluster: str) -> dict[str, pa.Table]:
        """The cluster's manifest files by path: of a snapshot each, and of a compacted day."""
        return self._manifests_in(history.manifests_folder(cluster))

    def clusters(self) -> tuple[str, ...]:
        """The clusters that the history has, whether or not they are looked after now."""
        places = (
            history.place_of(path)
            for path in self.store.list(f"{history.ROOT}/{history.MANIFESTS}")
        )
        return tuple(sorted({place[0] for place in places if place is not None}))

    def read_snapshot_table(self, manifest_row: Mapping[str, Any], table: str) -> pa.Table:
        """One table of a snapshot, by its row of SNAPSHOTS, as it was written.

        Raises StoreError, HistoryError.
        """
        path = history.files_of(manifest_row)[table]
        return self.store.read_table(path, snapshot_id=manifest_row["snapshot_id"])

    def manifest_row(self, cluster: str, snapshot_id: str) -> dict[str, Any]:
        """The row of SNAPSHOTS of one snapshot.

        Raises StoreError when the history does not have it.
        """
        single = history.manifest_path(cluster, snapshot_id)
        folder = history.manifests_folder(cluster, history.day_of(snapshot_id))
        files = {
            path: self.store.read_table(path)
            for path in self.store.list(folder, suffix=".parquet")
            if path == single or history.is_compacted(path)
        }
        for row in history.each_once(files).to_pylist():
            if row["snapshot_id"] == snapshot_id:
                return dict(row)
        raise StoreError(
            f"the store has no {self.store.uri(single)}, and no compacted day with this snapshot"
        )

    def _manifests_in(self, folder: str) -> dict[str, pa.Table]:
        """A manifest that goes between the list and the read was replaced by another: then both are
        done again.
        """
        for _ in range(_TRIES):
            paths = self.store.list(folder, suffix=".parquet")
            try:
                return {path: self.store.read_table(path) for path in paths}
            except StoreError:
                if self.store.list(folder, suffix=".parquet") == paths:
                    raise
        raise StoreError(
            f"the manifests in {self.store.uri(folder)} change faster than they can be read; try again"
        )

    def check_snapshot(self, manifest_row: Mapping[str, Any], *, whole: bool = False) -> None:
        """Raises HistoryError or StoreError, naming file and column, for a snapshot that Spark
        could not read.

        Looks at the footers of its files alone, or with `whole` at every byte.
        """
        history.check_version(manifest_row)
        for file in manifest_row["files"]:
            if whole:
                self.store.read_table(file["path"])
            row_count, columns = self.store.parquet_shape(file["path"])
            history.check_shape(file, row_count, columns)

    def set_aside(self, snapshot: ClusterSnapshot, reason: Mapping[str, Any]) -> str:
        """Keeps a bad snapshot where no reader of the history looks, its reason last.

        Where, relative to the store.
        """
        folder = f"{_aside_folder(snapshot.cluster)}/{snapshot.snapshot_id}"
        for name, table in snapshot.tables.items():
            self.store.write_table(f"{folder}/{name}.parquet", table)
        told = {
            "snapshot_id": snapshot.snapshot_id,
            "cluster_id": snapshot.cluster_id,
            "observed_at": snapshot.observed_at.astimezone(UTC).isoformat()
            if snapshot.observed_at
            else None,
            "row_counts": {name: table.num_rows for name, table in snapshot.tables.items()},
            **reason,
        }
        self.store.write_text(
            f"{folder}/{_REASON}", json.dumps(told, indent=2, ensure_ascii=False) + "\n"
        )
        for old in self.reasons_aside(snapshot.cluster)[:-_MOST_ASIDE]:
            self.store.delete_folder(f"{_aside_folder(snapshot.cluster)}/{old['snapshot_id']}")
        return folder

    def reasons_aside(self, cluster: str) -> tuple[dict[str, Any], ...]:
        """What `set_aside` wrote of a cluster's snapshots, oldest first; what cannot be read is
        passed over.
        """
        told = []
        for path in self.store.list(_aside_folder(cluster), suffix=f"/{_REASON}"):
            try:
                one = dict(json.loads(self.store.read_text(path)))
                told.append(((one["observed_at"] or "", one["snapshot_id"]), one))
            except (StoreError, ValueError, TypeError, KeyError) as error:
                _LOGGER.warning("not counted: %s: %s", self.store.uri(path), error)
        return tuple(one for _, one in sorted(told, key=itemgetter(0)))

    def write_docs(self, folder: str, source: Path) -> None:
        """A folder of pages of this machine, in place of what was in that folder of the store; the
        index last.

        Their pictures and fonts (4 MB, the same each time) stay behind.
        """
        old = set(self.store.list(folder))
        pages = (file for file in source.rglob("*") if file.suffix in _PAGES)
        files = {f"{folder}/{file.relative_to(source).as_posix()}": file for file in pages}
        for path in sorted(files, key=lambda path: (path == f"{folder}/index.html", path)):
            self.store.upload(files[path], path)
        for path in old - files.keys():
            self.store.delete(path)

    def has_data_docs(self, cluster: str) -> bool:
        return self.store.info(f"{data_docs_folder(cluster)}/index.html") is not None

    def write_plan(self, plan: RebalancePlan) -> str:
        """Where it lies, relative to the store.

        The name is the fingerprint: writing again changes nothing.
        """
        path = f"plans/{plan.fingerprint.removeprefix('sha256:')}.json"
        self.store.write_text(path, plan.to_json())
        return path

    def read_plan(self, path: str, fingerprint: str) -> RebalancePlan:
        """Raises StalePlanError when what lies there is not the plan of that fingerprint."""
        plan = RebalancePlan.from_json(self.store.read_text(path), where=path)
        if plan.fingerprint != fingerprint:
            raise StalePlanError(
                f"{path} holds plan {plan.fingerprint}, not {fingerprint}; nothing was changed"
            )
        return plan

    def write_audit(self, report: AuditReport) -> str:
        """Where it lies, relative to the store.

        Named by its snapshot: a retry of a scheduled run writes it again.
        """
        path = f"{_audits_folder(report.cluster)}/{report.snapshot_id}.json"
        self.store.write_text(path, to_json(report))
        return path

    def audit_before(self, cluster: str, at: datetime) -> AuditReport | None:
        """The newest audit of a cluster that was scheduled before `at`; those that cannot be read
        are passed over.
        """
        times = {
            path: history.scheduled_at_of(audit_id)
            for audit_id, path in self.audits(cluster).items()
        }
        earlier = {path: scheduled for path, scheduled in times.items() if scheduled < at}
        for path in sorted(earlier, key=lambda path: earlier[path], reverse=True):
            try:
                return from_json(self.store.read_text(path), where=self.store.uri(path))
            except (StoreError, InputError, UnicodeDecodeError) as error:
                _LOGGER.warning("not compared with: %s", error)
        return None

    def audits(self, cluster: str) -> dict[str, str]:
        """Where the audits of a cluster lie, by the ids of their snapshots."""
        paths = self.store.list(_audits_folder(cluster), suffix=".json")
        return {audit_id: path for path in paths if (audit_id := _audit_id(path)) is not None}

    def audit_pages(self, cluster: str) -> dict[date, str]:
        """Where the pages of audits lie, by their days; the newest page is there once more, without
        a day.
        """
        begins, ends = f"reports/{cluster}/audit-", ".html"
        found = {}
        for path in self.store.list(f"reports/{cluster}", suffix=ends):
            if path.startswith(begins) and (day := _day(path[len(begins) : -len(ends)])):
                found[day] = path
        return found

    def write_report(self, name: str, text: str) -> str:
        """Its URI."""
        self.store.write_text(f"reports/{name}", text)
        return self.store.uri(f"reports/{name}")

    def read_report(self, name: str) -> str:
        """Raises InputError for a report that is not there."""
        try:
            return self.store.read_text(f"reports/{name}")
        except StoreError:
            raise InputError(f"there is no report {name!r}") from None

    def report_names(self, *, suffix: str = ".html") -> tuple[str, ...]:
        """The pages that Data Docs are made of are left out, but for their index."""
        names = (
            path.removeprefix("reports/") for path in self.store.list("reports", suffix=suffix)
        )
        return tuple(
            name
            for name in names
            if f"{DATA_DOCS}/" not in name or name.endswith(f"{DATA_DOCS}/index.html")
        )


def _aside_folder(cluster: str) -> str:
    return f"aside/{cluster}"


def _audits_folder(cluster: str) -> str:
    return f"audits/{cluster}"


def _audit_id(path: str) -> str | None:
    name = path.rpartition("/")[2].removesuffix(".json")
    try:
        history.scheduled_at_of(name)
    except InputError:
        return None
    return name


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def audit_report_name(cluster: str, day: date | None = None, *, suffix: str = "html") -> str:
    """The newest audit of a cluster, or the last one of a day."""
    return f"{cluster}/audit{f'-{day.isoformat()}' if day else ''}.{suffix}"


def balance_report_name(cluster: str, day: date | None = None, *, suffix: str = "html") -> str:
    """The newest report of a cluster, or the one of a day."""
    return f"{cluster}/leader-balance{f'-{day.isoformat()}' if day else ''}.{suffix}"


def fleet_report_name(*, suffix: str = "html") -> str:
    """The report over all clusters; its links to theirs are relative to it."""
    return f"fleet.{suffix}"


def plan_report_name(cluster: str, run_id: str) -> str:
    return f"{cluster}/runs/{run_id}-plan.html"


def run_report_name(cluster: str, run_id: str) -> str:
    return f"{cluster}/runs/{run_id}-run.html"


def data_docs_folder(cluster: str) -> str:
    """The Data Docs of a cluster's newest snapshot, beside its reports."""
    return f"reports/{cluster}/{DATA_DOCS}"


def plan_docs_folder(cluster: str, run_id: str) -> str:
    """The Data Docs of a run's plan and of the photograph it was made from."""
    return f"reports/{cluster}/runs/{run_id}-{DATA_DOCS}"
