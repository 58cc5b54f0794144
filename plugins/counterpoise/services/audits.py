"""An audit of one cluster: snapshot, connectivity, inspection, history; then rules and report.

    report = audit(installation, "orders-eu", scheduled_at)
    report.worst                                       # of what nobody waived
    audit_page(installation, "orders-eu")              # the URI of its page

What cannot be read is logged and stops nothing: rules that need it say "unknown". Only a cluster
that does not respond at all, or a policy with names that no rule has, fails an audit. Nothing is
changed on the cluster.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise import analysis, history
from counterpoise.archive import DATA_DOCS, audit_report_name
from counterpoise.audit import RULES, auditing, planned
from counterpoise.audit.facts import AuditFacts, PastFacts
from counterpoise.audit.figures import idle_since, moving_since
from counterpoise.audit.rule import Rule
from counterpoise.errors import (
    BrokerUnresponsiveError,
    ClusterError,
    CounterpoiseError,
    InputError,
    RefusedError,
    WrongClusterError,
)
from counterpoise.history import scheduled_at_of, snapshot_id_for
from counterpoise.installation import Installation
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.finding import (
    AuditPoint,
    AuditReport,
    Finding,
    PlanOutlook,
    RuleText,
    WantedPlan,
    from_json,
    point_from_json,
)
from counterpoise.model.inspection import Inspection, InspectionItem
from counterpoise.model.load import DiskForecast
from counterpoise.model.policy import AuditPolicy, ClusterPolicy
from counterpoise.model.provider import profile_of
from counterpoise.model.request import RebalanceRequest, Scope
from counterpoise.model.run import UNDER_WAY_STATES
from counterpoise.model.safe_text import safe_logger
from counterpoise.model.severity import Waiver
from counterpoise.model.tables import LOG_DIR_LOAD, RESULT_TABLES, SERIES
from counterpoise.reporting.policy_lines import policy_lines
from counterpoise.services import doctor
from counterpoise.services.analyses import stored_view
from counterpoise.services.kept_empty import plan_without
from counterpoise.services.snapshots import read_snapshot, usual_bytes_in
from counterpoise.settings import read_waivers
from counterpoise.snapshot import inspect
from counterpoise.storage.file_cache import FileCache
from counterpoise.units import parse_moment
from counterpoise.views.audit import AuditView, audit_html, audit_json

if TYPE_CHECKING:
    from counterpoise.kafka_admin.cluster_admin import ClusterAdmin, ClusterReader

_LOGGER = safe_logger(__name__)
MAX_POINTS: Final = 60  # of the audits of a cluster over time
_DISK_FORECAST_PERIOD: Final = timedelta(days=14)
_DAY: Final = timedelta(days=1)
_QUORUM_LOST: Final = "no broker reaches an active controller"
_OBSERVED_AT: Final = SERIES.field("observed_at").type

Thresholds = Mapping[str, Mapping[str, int]]
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class AuditChoice:
    """How somebody wants one audit; unless it is the usual one, it is not stored.

    `rules` and `skipped` are patterns of rule ids. The waivers of `waivers_file` come beside those
    of the policy. `baseline` takes the place of the last stored audit.
    """

    rules: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    waivers_file: Path | None = None
    baseline: AuditReport | None = None

    @property
    def chosen_rules(self) -> tuple[Rule, ...]:
        """Return the rules to run. Raises InputError for a pattern that matches none."""
        return auditing.chosen_rules(self.rules, self.skipped)


USUAL: Final = AuditChoice()
# What a document of another tool does not have.
_NEVER_SAVED: Final = {InspectionItem.PERMISSIONS, InspectionItem.TRANSACTIONS}
_SAVED_ITEMS: Final = tuple(set(InspectionItem) - _NEVER_SAVED)
_NOT_SAVED: Final = "the file does not have it; `counterpoise snapshot --out` writes it"


def audit(
    installation: Installation, cluster: str, scheduled_at: datetime, choice: AuditChoice = USUAL
) -> AuditReport:
    """Audit a cluster, store what was found, write the report. `scheduled_at` names both.

    Raises what a snapshot raises (ClusterUnreachableError, ClusterError), InputError for a policy
    or a choice whose thresholds, waivers or patterns name no rule, and for a baseline of another
    cluster, StoreError.
    """
    rules = choice.chosen_rules
    waivers = _waivers_of(choice.waivers_file)
    thresholds = _thresholds(installation, cluster)
    facts = _gather_facts(installation, cluster, scheduled_at, thresholds, rules)
    previous = installation.archive.audit_before(cluster, scheduled_at)
    report = _audited(facts, rules, waivers, choice.baseline, previous)
    if choice == USUAL:
        installation.archive.write_audit(report)
        _write_pages(installation, report)
    return report


def audit_saved(
    snapshot: ClusterSnapshot,
    inspection: Inspection | None,
    now: datetime,
    choice: AuditChoice = USUAL,
    *,
    file: str,
) -> AuditReport:
    """Audit what `snapshot --out` wrote to `file`, without a cluster; nothing is stored.

    `inspection` is None for a document of another tool. Raises InputError as `audit` does.
    """
    rules, waivers = choice.chosen_rules, _waivers_of(choice.waivers_file)
    facts = AuditFacts(
        now=now,
        snapshot=snapshot,
        policy=ClusterPolicy(),
        thresholds=auditing.resolve(AuditPolicy()),
        inspection=inspection or Inspection(unavailable=dict.fromkeys(_SAVED_ITEMS, _NOT_SAVED)),
        typed_words=("--state", file),
        is_saved=True,
    )
    return _audited(facts, rules, waivers, choice.baseline)


def _audited(
    facts: AuditFacts,
    rules: Sequence[Rule],
    waivers: tuple[Waiver, ...],
    baseline: AuditReport | None,
    previous: AuditReport | None = None,
) -> AuditReport:
    own_id = facts.snapshot.cluster_id
    if baseline and baseline.cluster_id != own_id:
        raise InputError(
            f"the baseline is of cluster id {baseline.cluster_id}, this cluster has {own_id}"
        )
    previous = baseline or previous
    facts = replace(facts, policy=_with_waivers(facts.policy, waivers))
    before = auditing.PreviousAudit.of(previous) if previous else None
    return auditing.compare(before, findings_of(facts, rules), facts, rules)


def _waivers_of(file: Path | None) -> tuple[Waiver, ...]:
    waivers = read_waivers(file) if file else ()
    try:
        auditing.resolve(AuditPolicy(waivers=waivers))
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    return waivers


def _with_waivers(policy: ClusterPolicy, waivers: tuple[Waiver, ...]) -> ClusterPolicy:
    return replace(policy, audit=replace(policy.audit, waivers=(*policy.audit.waivers, *waivers)))


def findings_of(facts: AuditFacts, rules: Sequence[Rule] = RULES) -> tuple[Finding, ...]:
    """Return what the rules find; what a plan should mend is checked against the planner.

    One plan is made for each goal that findings ask for.
    """
    findings = auditing.find(facts, rules)
    if facts.snapshot_failure:
        return tuple(replace(finding, plan=None) for finding in findings)
    snapshot = facts.snapshot
    usual_rates = facts.history.usual_bytes_in
    if usual_rates is not None:
        snapshot = analysis.with_inflow(snapshot, usual_rates)
    outlooks = {
        wanted: _outlook(snapshot, wanted, facts)
        for wanted in planned.wanted_plans(findings, facts)
    }
    return planned.with_outlooks(findings, outlooks, facts)


def _outlook(snapshot: ClusterSnapshot, wanted: WantedPlan, facts: AuditFacts) -> PlanOutlook:
    request = RebalanceRequest(
        wanted.goal,
        wanted.broker_ids,
        scope=Scope(topics=wanted.topics),
        replication_factor=wanted.replication_factor,
        below_percent=wanted.below_percent,
    )
    try:
        return PlanOutlook(plan_without(facts.kept_empty, snapshot, request, facts.policy))
    except (InputError, RefusedError) as error:
        return PlanOutlook(None, str(error))


def failure_of(installation: Installation, report: AuditReport) -> str | None:
    """Return why this audit fails a run by the cluster's policy; None: it does not."""
    policy = installation.cluster(report.cluster).policy.audit
    return auditing.failure_message(report, policy.fails_at)


def audit_page(installation: Installation, cluster: str) -> str:
    """Return the URI of a cluster's newest audit page."""
    return installation.archive.store.uri(f"reports/{audit_report_name(cluster)}")


def _thresholds(installation: Installation, cluster: str) -> Thresholds:
    try:
        return auditing.resolve(installation.cluster(cluster).policy.audit)
    except InputError as error:
        raise InputError(f"{installation.settings.where}: cluster {cluster}: {error}") from None


def _gather_facts(
    installation: Installation,
    cluster: str,
    scheduled_at: datetime,
    thresholds: Thresholds,
    rules: Sequence[Rule],
) -> AuditFacts:
    connectivity = _or_else(
        None,
        f"the endpoints of {cluster} are not audited",
        lambda: installation.check_connectivity(cluster),
    )
    try:
        if connectivity and connectivity.has_lost_quorum:
            raise BrokerUnresponsiveError(_QUORUM_LOST)
        with ExitStack() as stack:
            reader, operator, operator_failure = _connected(installation, cluster, stack)
            snapshot = read_snapshot(reader, installation, cluster, scheduled_at)
            inspected = inspect(
                reader,
                snapshot,
                operator=operator,
                operator_failure=operator_failure,
                with_transactions=any(InspectionItem.TRANSACTIONS in rule.needs for rule in rules),
            )
    except WrongClusterError:
        raise
    except ClusterError as error:
        if connectivity is None:
            raise
        facts = doctor.facts_without_snapshot(
            installation,
            cluster,
            connectivity,
            error,
            snapshot_id=snapshot_id_for(cluster, scheduled_at),
        )
        installation.check_identity(cluster, facts.snapshot.cluster_id)
        return facts
    past = past_facts(installation, snapshot, thresholds)
    under_way = installation.ledger.runs(cluster=cluster, states=UNDER_WAY_STATES)
    return AuditFacts(
        now=installation.clock(),
        snapshot=snapshot,
        policy=installation.cluster(cluster).policy,
        thresholds=thresholds,
        connectivity=connectivity,
        inspection=inspected,
        past=past,
        active_run_id=under_way[0].run_id if under_way else None,
        kept_empty=installation.active_requests(cluster).kept_empty,
        typed_words=installation.cluster_words(cluster),
    )


def _connected(
    installation: Installation, cluster: str, stack: ExitStack
) -> "tuple[ClusterReader, ClusterAdmin | None, str]":
    """Return the reader, the operator, whose permissions are inspected, and why that one fails.

    Where both are one connection, it reads as a reader does: what it lacks is then a permission to
    read, and never one to write. The operator is None where its connection fails, and, without a
    failure, where no run is open to anybody.
    """
    settings = installation.cluster(cluster)
    reader = stack.enter_context(installation.reader(cluster))
    if not profile_of(settings.policy.provider).may_execute:
        return reader, None, ""
    if settings.operator_connection_id == settings.connection_id:
        return reader, cast("ClusterAdmin", reader), ""
    try:
        return reader, stack.enter_context(installation.operator(cluster)), ""
    except CounterpoiseError as error:
        _LOGGER.warning(
            "permissions on %s are not audited, since the operator connection fails: %s",
            cluster,
            error,
        )
        return reader, None, f"the operator's connection fails: {error}"


def _or_else(default: _Value, failed: str, read: Callable[[], _Value]) -> _Value:
    """Return what is read; where that fails, the default, with what has `failed` in the log."""
    try:
        return read()
    except CounterpoiseError as error:
        _LOGGER.warning("%s: %s", failed, error)
        return default


# -- the history


def past_facts(
    installation: Installation, snapshot: ClusterSnapshot, thresholds: Thresholds
) -> PastFacts | None:
    """Return what the history knows of the cluster of `snapshot`, from before it was made.

    None: it has no snapshot of this cluster id. What cannot be read is left out with a warning.
    """
    archive, cluster = installation.archive, snapshot.cluster
    manifests = archive.manifests([cluster])
    manifests = manifests.filter(pc.equal(manifests["cluster_id"], snapshot.cluster_id))
    if not manifests.num_rows:
        return None
    series = _or_else(
        SERIES.empty_table(),
        f"the series of {cluster} cannot be read",
        lambda: stored_view(installation, cluster),
    )
    is_same_id = pc.fill_null(pc.equal(series["cluster_id"], snapshot.cluster_id), True)
    series = series.filter(is_same_id)
    newest_id = {series["snapshot_id"][-1].as_py()} if series.num_rows else set()
    topic_load = _result_table(installation, "topic_load", newest_id)
    partition_load = _result_table(installation, "partition_load", newest_id)
    count, min_age = auditing.history_needed(thresholds)
    recent = history.recent_rows(manifests, snapshot, count=count, min_age=min_age)
    rows_by_age = history.rows_by_age(manifests, snapshot)
    return PastFacts(
        manifests=manifests,
        series=series,
        usual_bytes_in=_or_else(
            None,
            f"the usual rates of {cluster} cannot be read",
            lambda: _usual_bytes_in(installation, series, snapshot),
        ),
        recent_snapshots=tuple(
            earlier
            for _, earlier in _readable(
                recent, lambda row: archive.read_snapshot(cluster, row["snapshot_id"])
            )
        ),
        idle_since=idle_since(series, snapshot.idle_broker_ids),
        disk_forecasts=_disk_forecasts(installation, cluster, series, topic_load, partition_load),
        moving_since=moving_since(
            snapshot.partitions,
            _readable(rows_by_age, lambda row: archive.read_snapshot_table(row, "partitions")),
        ),
        topic_load=topic_load,
    )


def _readable(
    rows: Iterable[Mapping[str, Any]], read: Callable[[Mapping[str, Any]], _Value]
) -> Iterator[tuple[datetime, _Value]]:
    """Yield when each snapshot was made, and what is read of it; without those that cannot be."""
    for row in rows:
        failed = f"snapshot {row['snapshot_id']} cannot be read"
        value = _or_else(None, failed, partial(read, row))
        if value is not None:
            yield row["observed_at"], value


def _usual_bytes_in(
    installation: Installation, series: pa.Table, snapshot: ClusterSnapshot
) -> pa.Array | None:
    """Return the mean rate of each partition over the last day; None for a shorter history."""
    if not series.num_rows:
        return None
    since = pa.scalar(series["observed_at"][-1].as_py() - _DAY, _OBSERVED_AT)
    lately = series.filter(pc.greater(series["observed_at"], since))
    if lately.num_rows == series.num_rows:
        return None
    return usual_bytes_in(installation, snapshot, lately["snapshot_id"].unique().to_pylist())


def _disk_forecasts(
    installation: Installation,
    cluster: str,
    series: pa.Table,
    topic_load: pa.Table,
    partition_load: pa.Table,
) -> tuple[DiskForecast, ...]:
    if not series.num_rows:
        return ()
    log_dirs = _or_else(
        LOG_DIR_LOAD.empty_table(),
        f"the log dirs of {cluster} over time cannot be read",
        lambda: stored_view(installation, cluster, "log_dirs"),
    )
    since = series["observed_at"][-1].as_py() - _DISK_FORECAST_PERIOD
    of_series = pc.is_in(log_dirs["snapshot_id"], value_set=series["snapshot_id"].unique())
    since_then = pc.greater_equal(log_dirs["observed_at"], pa.scalar(since, _OBSERVED_AT))
    load = analysis.cluster_load(
        series,
        topic_load,
        partition_load,
        log_dirs.filter(pc.and_(of_series, since_then)),
        cluster=cluster,
        since=since,
    )
    return load.disks if load else ()


def _result_table(installation: Installation, name: str, snapshot_ids: set[str]) -> pa.Table:
    return _or_else(
        RESULT_TABLES[name].empty_table(),
        f"the table {name} of the analysis cannot be read",
        lambda: installation.results.table(name, snapshot_ids),
    )


# -- the report


def audit_view(
    report: AuditReport, policy: AuditPolicy, cluster_words: tuple[str, ...] = ()
) -> AuditView:
    """Return what people see of a report; a policy has the thresholds in the texts of rules."""
    return AuditView.of(report, _rule_texts(policy), cluster_words)


def _write_pages(installation: Installation, report: AuditReport) -> None:
    cluster = report.cluster
    checks = f"{DATA_DOCS}/index.html" if installation.archive.has_data_docs(cluster) else ""
    policy = installation.cluster(cluster).policy.audit
    seen = audit_view(report, policy, installation.cluster_words(cluster))
    page = audit_html(seen, in_store=True, checks=checks)
    pages = {
        audit_report_name(cluster, report.audited_at.date()): page,
        audit_report_name(cluster, suffix="json"): audit_json(seen),
        audit_report_name(cluster): page,
    }
    for name, text in pages.items():
        installation.archive.write_report(name, text)


# -- audits as they lie in the store


@dataclass(frozen=True, slots=True)
class NewestAudit:
    """The newest audit of a cluster; without a report it was never audited, or is `unreadable`."""

    report: AuditReport | None
    unreadable: str = ""  # the path of the file


@dataclass(frozen=True, slots=True)
class NewestPoints:
    """The numbers of the newest audits, by cluster; those that have none are in neither."""

    known: Mapping[str, AuditPoint]
    unreadable: Mapping[str, str]  # the path of the file, by cluster


def newest_audit(installation: Installation, cluster: str) -> NewestAudit:
    """Return the newest audit of a cluster."""
    path = _newest_path(cluster)
    try:
        return NewestAudit(_REPORTS.of(installation.archive.store, path))
    except CounterpoiseError as error:
        _log_unreadable(error)
        return NewestAudit(None, path)


def newest_points(installation: Installation, clusters: Sequence[str]) -> NewestPoints:
    """Return the numbers of the newest audits of clusters."""
    paths = list(map(_newest_path, clusters))
    known: dict[str, AuditPoint] = {}
    unreadable: dict[str, str] = {}
    found_points = _POINTS.of_each(installation.archive.store, paths)
    for cluster, path, found in zip(clusters, paths, found_points, strict=True):
        if isinstance(found, CounterpoiseError):
            _log_unreadable(found)
            unreadable[cluster] = path
        elif found is not None:
            known[cluster] = found
    return NewestPoints(known, unreadable)


def audit_points(installation: Installation, cluster: str) -> tuple[AuditPoint, ...]:
    """Return the newest audits of a cluster, at most MAX_POINTS, oldest first; without those that
    cannot be read.
    """
    paths = installation.archive.audits(cluster)
    newest = sorted(paths, key=scheduled_at_of)[-MAX_POINTS:]
    found_points = _POINTS.of_each(installation.archive.store, [paths[name] for name in newest])
    for found in found_points:
        if isinstance(found, CounterpoiseError):
            _log_unreadable(found)
    return tuple(found for found in found_points if isinstance(found, AuditPoint))


def _rule_texts(policy: AuditPolicy) -> dict[str, RuleText]:
    """Return the texts of every rule by id, with the thresholds of a policy where it has them."""
    try:
        thresholds = auditing.resolve(policy)
    except InputError:  # an audit says so; the texts are the same
        thresholds = {}
    return auditing.rule_texts(thresholds)


def _newest_path(cluster: str) -> str:
    return f"reports/{audit_report_name(cluster, suffix='json')}"


def _log_unreadable(error: CounterpoiseError) -> None:
    _LOGGER.warning("an audit is left out: %s", error)


_REPORTS: Final = FileCache(from_json, max_entries=50)
_POINTS: Final = FileCache(point_from_json, max_entries=5_000)


# -- a waiver as a person wants it; nothing is written: it is in force when clusters.yaml has it


@dataclass(frozen=True, slots=True)
class WantedWaiver:
    """What the form has; `until` is a date or a time (UTC), "" for no end."""

    rule: str
    subject: str
    reason: str
    until: str

    def problems(self, now: datetime) -> tuple[str, ...]:
        """Return what is wrong, in sentences; () where the lines can be pasted."""
        found = []
        if self.rule not in rule_titles():
            found.append(f"There is no rule {self.rule!r}." if self.rule else "Choose a rule.")
        if not self.subject.strip():
            found.append("Say which subject, or * for every one.")
        if not self.reason.strip():
            found.append("Say why the finding may stay: without a reason no waiver is in force.")
        if self.until.strip():
            found += self._problems_of_until(now)
        return tuple(found)

    def _problems_of_until(self, now: datetime) -> list[str]:
        try:
            until = parse_moment(self.until.strip(), where="Until", like="2027-01-31")
        except InputError as error:
            return [f"{error}."]
        return [] if until > now else [f"Until: {self.until.strip()} is over."]


def waiver_lines(wanted: WantedWaiver) -> str:
    """Return the lines for `policy:` of the cluster; `wanted` has no problems."""
    return policy_lines(
        wanted.rule,
        [wanted.subject.strip()],
        {},
        reason=" ".join(wanted.reason.split()),
        until=wanted.until.strip(),
    )


def rule_titles() -> dict[str, str]:
    """Return the title of every rule by id, by title."""
    return dict(sorted(((rule.id, rule.title) for rule in RULES), key=lambda item: item[1]))
