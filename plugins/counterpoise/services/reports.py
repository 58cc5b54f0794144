"""The reports of the analysis: of a cluster, and of the fleet.

report_balance(installation, "orders-eu", period=timedelta(days=30))
report_balances(installation, ["orders-eu", "orders-us"])      # reads less of the store for each
report_fleet(installation)
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final

from counterpoise import analysis, history, reporting
from counterpoise.archive import balance_report_name, fleet_report_name, run_report_name
from counterpoise.errors import (
    CounterpoiseError,
    InputError,
    RefusedError,
    StoreError,
    list_complaints,
)
from counterpoise.installation import Installation
from counterpoise.model.balance import LeftOut, PlanSize
from counterpoise.model.files import StoredFile
from counterpoise.model.fleet_document import ClusterState, FleetDocument, FleetEntry, fleet_json
from counterpoise.model.movement import busiest_link_bytes
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.run import ENDED_STATES, Run
from counterpoise.model.safe_text import safe_logger
from counterpoise.model.words import pluralize
from counterpoise.results import Results, StoredViews, results_of_many
from counterpoise.services.figures import (
    PERIOD,
    ClusterAnalysis,
    cluster_analysis,
    with_both_periods,
)
from counterpoise.services.proposals import nothing_to_ask, plan_of, why_nothing_is_proposed
from counterpoise.services.viewers import Viewing
from counterpoise.views.balance import leader_balance_json
from counterpoise.views.pages import fleet_copy

_LOGGER = safe_logger(__name__)


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """A report of a cluster that lies in the store, and the values that it shows."""

    name: str  # without a suffix
    analysed: ClusterAnalysis


@dataclass(frozen=True, slots=True)
class FleetReport:
    """The page of all clusters in the store."""

    page: str  # its URI
    document: FleetDocument
    failures: Mapping[str, StoreError]  # by cluster, of those whose analysis cannot be read

    def check(self) -> None:
        """Raise StoreError with each cluster that the page has no figures of, and why."""
        if self.failures:
            complaints = [f"{cluster}: {error}" for cluster, error in self.failures.items()]
            count = pluralize(len(complaints), "cluster")
            raise StoreError(list_complaints(f"{count} without figures in {self.page}", complaints))


@dataclass(frozen=True, slots=True)
class ReportedClusters:
    """What became of the reports of several clusters."""

    failures: Mapping[str, Exception]  # by cluster
    nothing_to_ask: tuple[str, ...]  # clusters of which `propose` would do nothing

    def check(self) -> None:
        """Raise CounterpoiseError with each cluster whose report is not complete, and why."""
        if not self.failures:
            return
        count = pluralize(len(self.failures), "report")
        complaints = [f"{cluster}: {error}" for cluster, error in self.failures.items()]
        failure = CounterpoiseError(list_complaints(f"{count} not complete", complaints))
        errors = self.failures.values()
        failure.retryable = any(getattr(error, "retryable", True) for error in errors)
        raise failure


def report_balance(
    installation: Installation,
    cluster: str,
    *,
    period: timedelta = PERIOD,
    until: datetime | None = None,
) -> WrittenReport:
    """Write a cluster's report as HTML and JSON; return what it tells.

    The newest report stays what it is where the period ended before the newest snapshot: then the
    report is that of the day on which the period ended.
    """
    analysed = cluster_analysis(installation, cluster, period=period, until=until)
    analysed, plan = _helping(installation, with_both_periods(analysed))
    return WrittenReport(_write_report(installation, analysed, plan), analysed)


def report_balances(
    installation: Installation,
    clusters: Iterable[str],
    limit: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> ReportedClusters:
    """Write the reports of clusters, and of each what the fleet's report tells of it. What they
    share is read once.

    Whatever a report fails with, the others are written; `limit` ends one that takes too long.
    """
    failures: dict[str, Exception] = {}
    quiet = []
    with results_of_many(installation.archive.store) as results:
        for cluster in clusters:
            try:
                with limit():
                    analysed = cluster_analysis(installation, cluster, results=results)
                    analysed, plan = _helping(installation, with_both_periods(analysed))
                    _write_report(installation, analysed, plan)
                    state = _state(analysed, timedelta(0), ())
                    results.write_fleet_entry(analysis.fleet_entry(state))
                    if nothing_to_ask(installation, analysed):
                        quiet.append(cluster)
            except Exception as error:
                is_ours = isinstance(error, CounterpoiseError)
                _LOGGER.warning(
                    "the report of %s is not complete: %s", cluster, error, exc_info=not is_ours
                )
                failures[cluster] = _without_frames(error)
    return ReportedClusters(failures, tuple(quiet))


def _without_frames(error: Exception) -> Exception:
    """Return an error that no longer holds what its functions worked on: tables of a cluster."""
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)


def _helping(
    installation: Installation, analysed: ClusterAnalysis
) -> tuple[ClusterAnalysis, RebalancePlan | None]:
    """Leave out what would help first as long as its plan moves nothing or is refused; return the
    plan of what is then the first, None where the snapshot cannot be read.
    """
    while analysed.wanted is not None:
        try:
            plan = plan_of(installation, analysed, analysed.wanted)
            if not plan.is_empty:
                return analysed, plan
        except (InputError, RefusedError) as error:
            _LOGGER.warning("%s: no plan is made: %s", analysed.balance.cluster, error)
        except CounterpoiseError as error:
            _LOGGER.warning(
                "the report of %s does not say what the rebalance costs: %s",
                analysed.balance.cluster,
                error,
            )
            return analysed, None
        analysed = replace(analysed, would_help=analysed.would_help[1:])
    return analysed, None


def _write_report(
    installation: Installation, analysed: ClusterAnalysis, plan: RebalancePlan | None
) -> str:
    """Write the report; return its name, without a suffix."""
    cluster = analysed.balance.cluster
    plan_size = _plan_size(installation, cluster, plan) if plan else None
    left_out = analysed.known.results.left_out(cluster)
    not_proposed = why_nothing_is_proposed(installation, cluster) if analysed.wanted else ""

    def render(renderer: Callable[..., str]) -> str:
        return renderer(
            analysed.balance,
            wanted=analysed.wanted,
            not_proposed=not_proposed,
            load=analysed.load,
            plan_size=plan_size,
            left_out=left_out,
        )

    latest = analysed.balance.latest
    day = latest.observed_at.date()
    is_newest = latest.snapshot_id == analysed.known.series.latest_id()
    texts = {
        "json": render(leader_balance_json),
        "html": render(reporting.leader_balance_report),
    }
    report_day = None if is_newest else day
    write = installation.archive.write_report
    if is_newest:
        write(balance_report_name(cluster, day), texts["html"])
    for suffix, text in texts.items():
        write(balance_report_name(cluster, report_day, suffix=suffix), text)
    return balance_report_name(cluster, report_day, suffix="").removesuffix(".")


def _plan_size(installation: Installation, cluster: str, plan: RebalancePlan) -> PlanSize:
    rate = installation.cluster(cluster).policy.movement.rate_bytes_per_second
    return PlanSize(
        replicas_copied=plan.copied_replicas,
        bytes_copied=plan.copied_bytes,
        leaders_changed=plan.leader_changes,
        expected_seconds=busiest_link_bytes(plan) / rate,
        rate_bytes_per_second=rate,
    )


def report_fleet(installation: Installation) -> FleetReport:
    """Write the report over all clusters, worst first. One whose analysis cannot be read is in it
    without figures.
    """
    clusters = sorted(installation.settings.clusters)
    with results_of_many(installation.archive.store) as results:
        stored = results.stored_views()
        failures: dict[str, StoreError] = {}
        entries = [
            _fleet_entry(installation, cluster, results, stored, failures) for cluster in clusters
        ]
    fleet = analysis.fleet(entries, as_of=installation.clock())
    write = installation.archive.write_report
    write(fleet_report_name(suffix="json"), fleet_json(fleet))
    return FleetReport(write(fleet_report_name(), fleet_copy(fleet)), fleet, failures)


def _fleet_entry(
    installation: Installation,
    cluster: str,
    results: Results,
    stored: StoredViews,
    failures: dict[str, StoreError],
) -> FleetEntry:
    """Return what the fleet's report tells of one cluster; little before the first analysis, or
    where this cannot be read, which is added to the `failures`.

    The report of the cluster has left it, where that is of the newest snapshot.
    """
    left_out = results.left_out(cluster, stored)
    known_ids = {
        installation.ledger.last_snapshot_id(cluster),
        *results.of_cluster(cluster),
    }
    scheduled = [history.scheduled_at_of(known_id) for known_id in known_ids if known_id]
    age = installation.clock() - max(scheduled) if scheduled else None
    entry = results.fleet_entry(cluster, stored)
    if entry is not None:
        return analysis.with_age(entry, age, left_out)
    try:
        analysed = with_both_periods(cluster_analysis(installation, cluster, results=results))
    except RefusedError:
        return analysis.fleet_entry(ClusterState(cluster, age, left_out=left_out))
    except StoreError as error:
        failures[cluster] = error
        state = ClusterState(cluster, age, left_out=left_out, is_readable=False)
        return analysis.fleet_entry(state)
    return analysis.fleet_entry(_state(analysed, age, left_out))


def _state(
    analysed: ClusterAnalysis, age: timedelta | None, left_out: tuple[LeftOut, ...]
) -> ClusterState:
    balance = analysed.balance
    return ClusterState(balance.cluster, age, balance, analysed.load, analysed.wanted, left_out)


# -- the reports in the store


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
    wanted = text.strip().lower()
    clusters = viewing.of_these(folders)
    return FleetReports(
        tuple(name for name in _newest(installation, clusters) if wanted in name.lower()),
        tuple(name for name in files if viewing.sees_all and wanted in name.lower()),
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
    viewing.check_sees(cluster)
    wanted = text.strip().lower()
    found = [
        file for file in installation.archive.report_files(cluster) if wanted in file.path.lower()
    ]
    found.sort(key=lambda file: (file.modified_at or _LONG_AGO, file.path), reverse=True)
    pages = max(1, -(-len(found) // PAGE_SIZE))
    page = min(max(1, page), pages)
    first = (page - 1) * PAGE_SIZE
    return FoundReports(tuple(found[first : first + PAGE_SIZE]), len(found), page, pages)


def read_report(installation: Installation, viewing: Viewing, name: str) -> bytes:
    """Return a report as it was written. What is about several clusters, or about none that the
    settings name, is for those who may view all.

    Raises InputError for one that is not there, MayNotViewError.
    """
    folder, *rest = name.split("/")
    viewing.check_sees("" if ".." in rest else folder)
    return installation.archive.read_report_data(name)
