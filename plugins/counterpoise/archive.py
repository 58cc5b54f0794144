"""The store by name: snapshots, plans, audits and reports. `results.py` has what Spark makes.

    archive = Archive(store)
    archive.write_snapshot(snapshot)             # tables first, the manifest last
    archive.manifests(["orders-eu"])             # of every snapshot, oldest first

Part of the wiring, beside `installation.py`: services write and read through it.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import Any, Final

import pyarrow as pa

from counterpoise import history
from counterpoise.errors import (
    CounterpoiseError,
    InputError,
    StalePlanError,
    StoreError,
    UnknownNameError,
)
from counterpoise.manifest_index import manifest_list, read_index, read_manifests
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.files import StoredFile
from counterpoise.model.finding import AuditReport, from_json, to_json
from counterpoise.model.fleet_document import FleetDocument, read_fleet
from counterpoise.model.grouping import grouped
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.safe_text import safe_logger
from counterpoise.storage import Store
from counterpoise.storage.file_cache import FileCache

_PAGES: Final = (".html", ".css")
# As `audit_report_name` and `balance_report_name` make them, below a cluster's reports.
_DATED_PAGE: Final = re.compile(r"(?P<kind>[a-z-]+)-(?P<day>\d{4}-\d{2}-\d{2})\.[a-z]+")
_REASON: Final = "reason.json"
_MAX_QUARANTINED: Final = 50  # snapshots of a cluster; older ones are deleted
DATA_DOCS: Final = "data-docs"
_NO_MOVES: Final = "-nothing-to-move.html"
_LOGGER = safe_logger(__name__)
_FLEETS: Final = FileCache(read_fleet, max_entries=5)


class Archive:
    def __init__(self, store: Store) -> None:
        self.store = store

    def write_snapshot(self, snapshot: ClusterSnapshot) -> None:
        for path, table in history.history_files(snapshot).items():
            self.store.write_table(path, table)
        self.store.write_table(*history.manifest_of(snapshot))

    def read_snapshot(self, cluster: str, snapshot_id: str) -> ClusterSnapshot:
        """Read one snapshot. Raises StoreError when the history does not have it."""
        row = self.manifest_row(cluster, snapshot_id)
        tables = {
            name: self.store.read_table(path, snapshot_id=snapshot_id)
            for name, path in history.files_of(row).items()
        }
        return history.from_tables(row, tables)

    def manifests(self, clusters: Sequence[str]) -> pa.Table:
        """Return the manifest rows of all snapshots of these clusters, oldest first, each once."""
        files: dict[str, pa.Table] = {}
        for cluster in clusters:
            files |= self.manifest_files(cluster)
        return history.each_once(files)

    def manifest_files(self, cluster: str) -> dict[str, pa.Table]:
        """Return the cluster's manifest files by path: of a snapshot each, and of a compacted
        day.
        """
        index = read_index(self.store, cluster)
        manifests = read_manifests(self.store, cluster, index, self.store.read_table)
        return {file.path: table for file, table in manifests.items()}

    def clusters(self) -> tuple[str, ...]:
        """Return the clusters that the history has, configured or not."""
        paths = self.store.list(f"{history.ROOT}/{history.MANIFESTS}")
        places = [history.place_of(path) for path in paths]
        return tuple(sorted({place[0] for place in places if place is not None}))

    def read_snapshot_table(self, manifest_row: Mapping[str, Any], table: str) -> pa.Table:
        """Read one table of a snapshot, by its row of SNAPSHOTS, as it was written.

        Raises StoreError, HistoryError.
        """
        path = history.files_of(manifest_row)[table]
        return self.store.read_table(path, snapshot_id=manifest_row["snapshot_id"])

    def manifest_row(self, cluster: str, snapshot_id: str) -> dict[str, Any]:
        """Return the row of SNAPSHOTS of one snapshot.

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

    def manifest_lists(self) -> dict[str, tuple[StoredFile, ...]]:
        """Return the manifest files of each cluster: one list for all of them."""
        root = f"{history.ROOT}/{history.MANIFESTS}"
        found = ((history.place_of(file.path), file) for file in manifest_list(self.store, root))
        by_cluster = grouped((place[0], file) for place, file in found if place is not None)
        return {cluster: tuple(files) for cluster, files in by_cluster.items()}

    def check_snapshot(self, manifest_row: Mapping[str, Any], *, whole: bool = False) -> None:
        """Check that Spark can read a snapshot: by the footers of the files that its row names,
        with `whole` by every byte.

        Raises HistoryError or StoreError, naming file and column.
        """
        history.check_version(manifest_row)
        for file in manifest_row["files"]:
            if whole:
                self.store.read_table(file["path"])
            row_count, columns = self.store.parquet_shape(file["path"])
            history.check_shape(file, row_count, columns)

    def quarantine(self, snapshot: ClusterSnapshot, reason: Mapping[str, Any]) -> str:
        """Write a bad snapshot where no reader of the history finds it, its reason last.

        Returns the folder, relative to the store.
        """
        folder = f"{_quarantine_folder(snapshot.cluster)}/{snapshot.snapshot_id}"
        for name, table in snapshot.tables.items():
            self.store.write_table(f"{folder}/{name}.parquet", table)
        observed_at = snapshot.observed_at
        report = {
            "snapshot_id": snapshot.snapshot_id,
            "cluster_id": snapshot.cluster_id,
            "observed_at": observed_at.astimezone(UTC).isoformat() if observed_at else None,
            "row_counts": {name: table.num_rows for name, table in snapshot.tables.items()},
            **reason,
        }
        self.store.write_text(
            f"{folder}/{_REASON}", json.dumps(report, indent=2, ensure_ascii=False) + "\n"
        )
        for old in self.quarantine_reports(snapshot.cluster)[:-_MAX_QUARANTINED]:
            self.store.delete_folder(f"{_quarantine_folder(snapshot.cluster)}/{old['snapshot_id']}")
        return folder

    def quarantine_reports(self, cluster: str) -> tuple[dict[str, Any], ...]:
        """Read the reports that `quarantine` wrote for a cluster, oldest first.

        One that cannot be read is left out, with a warning in the log.
        """
        reports: list[tuple[tuple[str, str], dict[str, Any]]] = []
        for path in self.store.list(_quarantine_folder(cluster), suffix=f"/{_REASON}"):
            try:
                report = dict(json.loads(self.store.read_text(path)))
                reports.append(((report["observed_at"] or "", report["snapshot_id"]), report))
            except (StoreError, ValueError, TypeError, KeyError) as error:
                _LOGGER.warning("left out: %s cannot be read: %s", self.store.uri(path), error)
        return tuple(report for _, report in sorted(reports, key=itemgetter(0)))

    def write_docs(self, folder: str, source: Path) -> None:
        """Replace a folder of the store by the pages in `source`, a local folder; the index last.

        Images and fonts (4 MB, the same each time) are not uploaded.
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
        """Write a plan; returns its path, relative to the store.

        The name is the fingerprint: writing again changes nothing.
        """
        path = f"plans/{plan.fingerprint.removeprefix('sha256:')}.json"
        self.store.write_text(path, plan.to_json())
        return path

    def read_plan(self, path: str, fingerprint: str) -> RebalancePlan:
        """Read a plan. Raises StalePlanError when the file holds another one than that of this
        fingerprint.
        """
        plan = RebalancePlan.from_json(self.store.read_text(path), where=path)
        if plan.fingerprint != fingerprint:
            raise StalePlanError(
                f"{path} holds plan {plan.fingerprint}, not {fingerprint}; nothing was changed"
            )
        return plan

    def write_audit(self, report: AuditReport) -> str:
        """Write an audit; returns its path, relative to the store.

        Its name is that of its snapshot: a retry of a scheduled run writes it again.
        """
        path = f"{_audits_folder(report.cluster)}/{report.snapshot_id}.json"
        self.store.write_text(path, to_json(report))
        return path

    def audit_before(self, cluster: str, at: datetime) -> AuditReport | None:
        """Return the newest audit of a cluster that was scheduled before `at`, None without one.

        One that cannot be read is left out, with a warning in the log.
        """
        scheduled = [
            (history.scheduled_at_of(audit_id), path)
            for audit_id, path in self.audits(cluster).items()
        ]
        earlier = [(time, path) for time, path in scheduled if time < at]
        for _, path in sorted(earlier, reverse=True):
            try:
                return from_json(self.store.read_text(path), where=self.store.uri(path))
            except (StoreError, InputError, UnicodeDecodeError) as error:
                _LOGGER.warning("an earlier audit is left out: %s", error)
        return None

    def audits(self, cluster: str) -> dict[str, str]:
        """Return the paths of a cluster's audits, by the ids of their snapshots."""
        paths = self.store.list(_audits_folder(cluster), suffix=".json")
        return {audit_id: path for path in paths if (audit_id := _audit_id(path)) is not None}

    def dated_pages(self, cluster: str) -> dict[str, dict[date, list[str]]]:
        """Return the paths of a cluster's reports of a day, by day, for each kind of report; the
        copies without a day are left out.
        """
        found: dict[str, dict[date, list[str]]] = {}
        for path in self.store.list(f"reports/{cluster}"):
            match = _DATED_PAGE.fullmatch(path.removeprefix(f"reports/{cluster}/"))
            if match and (day := _day(match["day"])):
                found.setdefault(match["kind"], {}).setdefault(day, []).append(path)
        return found

    def write_report(self, name: str, text: str) -> str:
        """Write a report; returns its URI."""
        self.store.write_text(f"reports/{name}", text)
        return self.report_uri(name)

    def report_uri(self, name: str) -> str:
        return self.store.uri(f"reports/{name}")

    def read_report(self, name: str) -> str:
        """Read a report. Raises UnknownNameError when there is none of that name."""
        self._check_report(name)
        return self.store.read_text(f"reports/{name}")

    def read_report_data(self, name: str) -> bytes:
        """Read a report as it was written, whatever its encoding. Raises UnknownNameError."""
        self._check_report(name)
        return self.store.read_bytes(f"reports/{name}")

    def fleet(self) -> FleetDocument | None:
        """Return the figures of all clusters as the last analysis wrote them; None before the
        first. A document that cannot be read is left out, with a warning in the log.
        """
        path = f"reports/{fleet_report_name(suffix='json')}"
        try:
            return _FLEETS.of(self.store, path)
        except CounterpoiseError as error:
            _LOGGER.warning(
                "figures are left out: %s cannot be read: %s", self.store.uri(path), error
            )
            return None

    def has_report(self, name: str) -> bool:
        return self.store.info(f"reports/{name}") is not None

    def _check_report(self, name: str) -> None:
        if not self.has_report(name):
            raise UnknownNameError(f"there is no report {name!r}")

    def report_files(self, cluster: str = "") -> tuple[StoredFile, ...]:
        """Return the reports, or those of a cluster, by name; of Data Docs only the index."""
        index = f"{DATA_DOCS}/index.html"
        return tuple(
            replace(file, path=file.path.removeprefix("reports/"))
            for file in self.store.files(f"reports/{cluster}".rstrip("/"))
            if file.path.endswith(".html")
            and (f"{DATA_DOCS}/" not in file.path or file.path.endswith(index))
        )

    def report_folders(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names of the clusters that have reports, and of the reports of none."""
        folders, files = self.store.children("reports")
        return folders, tuple(name for name in files if name.endswith(".html"))

    def newest_no_moves_report(self, cluster: str) -> str | None:
        """Return the name of the newest report of a plan without moves; None without one."""
        paths = self.store.list(f"reports/{cluster}/runs", suffix=_NO_MOVES)
        return paths[-1].removeprefix("reports/") if paths else None


def _quarantine_folder(cluster: str) -> str:
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
    """Return the name of the newest audit of a cluster, or of the last one of a day."""
    return f"{cluster}/audit{f'-{day.isoformat()}' if day else ''}.{suffix}"


def balance_report_name(cluster: str, day: date | None = None, *, suffix: str = "html") -> str:
    """Return the name of the newest report of a cluster, or of the one of a day."""
    return f"{cluster}/leader-balance{f'-{day.isoformat()}' if day else ''}.{suffix}"


def fleet_report_name(*, suffix: str = "html") -> str:
    """Return the name of the report over all clusters; its links to theirs are relative to it."""
    return f"fleet.{suffix}"


def no_moves_report_name(cluster: str, snapshot_id: str) -> str:
    """Return the name of the report of a plan without moves, which no run was opened for."""
    return f"{cluster}/runs/{snapshot_id}{_NO_MOVES}"


def run_report_name(cluster: str, run_id: str) -> str:
    """Return the name of the stored copy of the page of a run that has ended."""
    return f"{cluster}/runs/{run_id}-run.html"


def report_title(name: str) -> str:
    """Return what a report is, as `Balance of 2026-11-20` or `Run 3b9aa1`; of an unknown one its
    own name.
    """
    path = PurePosixPath(name)
    json_word = ", JSON" if path.suffix == ".json" else ""
    if DATA_DOCS in name:
        of_run = " of a run" if "runs" in path.parts else ""
        return f"Checks of the data{of_run}"
    if path.parent.name == "runs":
        if path.stem.endswith("-run"):
            return f"Run {path.stem.removesuffix('-run')[-6:]}{json_word}"
        return "Plan without moves" if name.endswith(_NO_MOVES) else path.name
    if path.stem == "fleet":
        return f"Fleet{json_word}"
    for stem, what in (("leader-balance", "Balance"), ("audit", "Audit")):
        if path.stem == stem:
            return f"{what}, the newest{json_word}"
        if path.stem.startswith(f"{stem}-") and _day(path.stem.removeprefix(f"{stem}-")):
            return f"{what} of {path.stem.removeprefix(f'{stem}-')}{json_word}"
    return path.name


def run_outcome_name(cluster: str, run_id: str) -> str:
    """Return the name of what a snapshot showed after a run, beside that."""
    return f"{cluster}/runs/{run_id}-run.json"


def data_docs_folder(cluster: str) -> str:
    """Return the folder of the Data Docs of a cluster's newest snapshot, beside its reports."""
    return f"reports/{cluster}/{DATA_DOCS}"


def plan_docs_folder(cluster: str, run_id: str) -> str:
    """Return the folder of the Data Docs of a run's plan and of the snapshot it was made from."""
    return f"reports/{cluster}/runs/{run_id}-{DATA_DOCS}"
