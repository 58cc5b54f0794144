"""The reports in the store, for the page that lists them: of one cluster at a time.

reports_of_fleet(installation, viewing, text="eu")       # clusters, and what is about several
reports_of_cluster(installation, viewing, "orders-eu", text="audit", page=2)

A cluster has two pages a day for two years, and some for each run: only those of the cluster that
somebody opens are listed.
"""

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from counterpoise.archive import run_report_name
from counterpoise.errors import CounterpoiseError
from counterpoise.installation import Installation
from counterpoise.model.files import StoredFile
from counterpoise.model.run import ENDED_STATES, Run
from counterpoise.queries.viewing import MAY_NOT_VIEW, MayNotViewError, Viewing

PAGE_SIZE: Final = 100
_NEWEST: Final = 10
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class FoundReports:
    """One page of the reports that somebody looks for, the newest first; `path` is the name."""

    files: tuple[StoredFile, ...]
    count: int  # of all that were found
    page: int  # from 1, the last one where fewer were asked for
    pages: int


@dataclass(frozen=True, slots=True)
class FleetReports:
    newest: tuple[str, ...]  # of runs
    names: tuple[str, ...]  # about several clusters
    clusters: tuple[str, ...]  # that have reports


def reports_of_fleet(installation: Installation, viewing: Viewing, text: str = "") -> FleetReports:
    """Return what has a text in its name, of what the viewer may view: what is about several
    clusters is for those who may view all.
    """
    folders, files = installation.archive.report_folders()
    may_view_all = set(viewing.clusters) == set(viewing.settings.clusters)
    wanted = text.strip().lower()
    clusters = viewing.with_removed(folders)
    return FleetReports(
        tuple(name for name in _newest(installation, clusters) if wanted in name.lower()),
        tuple(name for name in files if may_view_all and wanted in name.lower()),
        tuple(name for name in clusters if wanted in name.lower()),
    )


def _newest(installation: Installation, clusters: Collection[str]) -> Iterator[str]:
    """Yield the reports of the runs that were opened last; none without a ledger."""
    runs: tuple[Run, ...] = ()
    with suppress(CounterpoiseError):
        runs = installation.ledger.runs(states=ENDED_STATES)
    of_clusters = (run for run in runs if run.cluster in clusters)
    for run in islice(of_clusters, _NEWEST):
        name = run_report_name(run.cluster, run.run_id)
        if installation.archive.has_report(name):
            yield name


def reports_of_cluster(
    installation: Installation, viewing: Viewing, cluster: str, *, text: str = "", page: int = 1
) -> FoundReports:
    """Return one page of the reports of a cluster that have a text in their names.

    Raises MayNotViewError.
    """
    if not viewing.with_removed([cluster]):
        raise MayNotViewError(MAY_NOT_VIEW)
    wanted = text.strip().lower()
    found = [
        file for file in installation.archive.report_files(cluster) if wanted in file.path.lower()
    ]
    found.sort(key=lambda file: (file.modified_at or _LONG_AGO, file.path), reverse=True)
    pages = max(1, -(-len(found) // PAGE_SIZE))
    page = min(max(1, page), pages)
    first = (page - 1) * PAGE_SIZE
    return FoundReports(tuple(found[first : first + PAGE_SIZE]), len(found), page, pages)
