"""What the results say of one cluster over a period, and of the period before.

    analysed = cluster_analysis(installation, "orders-eu", period=timedelta(days=30))
    with_both_periods(analysed).balance.before

Wiring: what a figure means is in `analysis/`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final

import pyarrow as pa

from counterpoise import analysis, history
from counterpoise.errors import RefusedError, StoreError
from counterpoise.installation import Installation
from counterpoise.model.balance import LeaderBalance, WantedRebalance
from counterpoise.model.load import ClusterLoad
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.tables import PARTITION_LOAD, TOPIC_BALANCE, TOPIC_LOAD, rows_of
from counterpoise.results import Results
from counterpoise.services.analyses import stored_view
from counterpoise.units import format_moment, format_seconds

PERIOD: Final = timedelta(days=30)
_PERIOD_OF_DISKS: Final = timedelta(days=14)
_READ_BEFORE: Final = timedelta(days=31)  # to find the snapshot before both periods


@dataclass(frozen=True, slots=True)
class ClusterAnalysis:
    """All that is known of one cluster over a period."""

    balance: LeaderBalance
    load: ClusterLoad | None
    would_help: tuple[WantedRebalance, ...]  # what does most first
    known: "KnownOfCluster"
    since: datetime
    until: datetime | None

    @property
    def wanted(self) -> WantedRebalance | None:
        return self.would_help[0] if self.would_help else None


@dataclass(frozen=True, slots=True)
class KnownOfCluster:
    """What all figures of a cluster are taken from. The list of rounds is read once for all of
    them: it has a document for each hour that is not compacted yet.
    """

    installation: Installation
    cluster: str
    series: analysis.SeriesColumns
    results: Results
    kept_empty: frozenset[int]  # brokers
    plans: dict[WantedRebalance, RebalancePlan] = field(default_factory=dict)  # made already

    @property
    def closed(self) -> frozenset[int]:
        """Return the brokers that the policy closes to new replicas."""
        balance = self.installation.cluster(self.cluster).policy.balance
        return frozenset(balance.constraints.no_new_replicas_on)


def cluster_analysis(
    installation: Installation,
    cluster: str,
    *,
    period: timedelta = PERIOD,
    until: datetime | None = None,
    results: Results | None = None,
    with_load: bool = True,
) -> ClusterAnalysis:
    """Return what the results say of the `period` before `until` (default: the newest snapshot);
    without what comes in, unless `with_load`. `results` are those of the installation, where they
    are there already.

    Raises RefusedError when there is no analysed snapshot in that time.
    """
    table = _series(installation, cluster, period, until)
    series = analysis.read_series(table, cluster=cluster)
    if not series.times:
        raise RefusedError(
            f"cluster {cluster} has no analysed snapshot yet; make one: "
            f"counterpoise snapshot --cluster {cluster}"
        )
    newest_at = series.times[-1]
    end = until or newest_at
    kept_empty = frozenset(installation.active_requests(cluster).kept_empty)
    known = KnownOfCluster(
        installation, cluster, series, results or installation.results, kept_empty
    )
    begin = end - period
    balance = _balance(known, begin, until)
    if balance is None:
        length = format_seconds(period.total_seconds())
        raise RefusedError(
            f"cluster {cluster} has no analysed snapshot in the {length} before "
            f"{format_moment(end)}; its newest is of {format_moment(newest_at)}: choose another "
            "period"
        )
    policy = installation.cluster(cluster).policy
    return ClusterAnalysis(
        balance=balance,
        load=_load(known, balance, begin, until) if with_load else None,
        would_help=analysis.wanted_goals(balance, policy.balance, policy.proposals),
        known=known,
        since=begin,
        until=until,
    )


def _series(
    installation: Installation, cluster: str, period: timedelta, until: datetime | None
) -> pa.Table:
    """Return the series of this period and of the one before; of all months, where the newest
    snapshot is older than expected, or those before both periods are needed too.
    """
    try:
        since = (until or installation.clock()) - 2 * period - _READ_BEFORE
    except OverflowError:  # of a period of thousands of years
        return stored_view(installation, cluster)
    series = stored_view(installation, cluster, since=since)
    if series.num_rows:
        end = until or series["observed_at"][-1].as_py()
        begin = end - 2 * period
        if begin - analysis.AROUND >= since and series["observed_at"][0].as_py() <= begin:
            return series
    if not installation.results.view_files(cluster, "series").begin_before(since):
        return series
    return stored_view(installation, cluster)


def _balance(
    known: KnownOfCluster, since: datetime, until: datetime | None
) -> LeaderBalance | None:
    latest_id = known.series.latest_id(until)
    if latest_id is None:
        return None
    return analysis.leader_balance(
        known.series,
        known.results.table("topic_balance", _latest_with_results(known, until)),
        cluster=known.cluster,
        since=since,
        until=until,
        disk_bytes=_disk_bytes(known, latest_id),
        broker_weight=known.installation.cluster(known.cluster).policy.balance.broker_weight,
        kept_empty=known.kept_empty,
        closed=known.closed,
    )


def _disk_bytes(known: KnownOfCluster, snapshot_id: str) -> dict[int, int]:
    """Return the disk sizes of the brokers that told them, for fair shares; {} where the policy
    does not ask for one, or where the snapshot was thinned out.
    """
    installation, cluster = known.installation, known.cluster
    if installation.cluster(cluster).policy.proposals.uneven_percent is None:
        return {}
    archive = installation.archive
    try:
        brokers = archive.read_snapshot_table(archive.manifest_row(cluster, snapshot_id), "brokers")
    except (StoreError, history.HistoryError):
        return {}
    return dict(rows_of(brokers.drop_null(), "broker_id", "disk_total_bytes"))


def with_both_periods(analysed: ClusterAnalysis) -> ClusterAnalysis:
    """Add the figures of the whole period, and the period before, where it is known."""
    known, since, until = analysed.known, analysed.since, analysed.until
    series = known.series
    length = (until or analysed.balance.latest.observed_at) - since
    balance, load = with_period_figures(
        known.results, series, analysed.balance, analysed.load, since, until, length
    )
    begin = since - length
    if analysis.reaches(series, known.cluster, begin, until):
        before = _balance_before(known, begin, since)
        balance = replace(balance, before=before)
        if load and before:
            load = replace(load, before=_load_before(known, before, begin, since))
    return replace(analysed, balance=balance, load=load)


def _balance_before(known: KnownOfCluster, begin: datetime, end: datetime) -> LeaderBalance | None:
    """Return the balance of the period before, without topics."""
    return analysis.leader_balance(
        known.series,
        TOPIC_BALANCE.empty_table(),
        cluster=known.cluster,
        since=begin,
        until=end,
        kept_empty=known.kept_empty,
        closed=known.closed,
    )


def _load_before(
    known: KnownOfCluster, before: LeaderBalance, begin: datetime, end: datetime
) -> ClusterLoad | None:
    """Return the load of the period before, without topics and partitions."""
    begin_of_disks = before.latest.observed_at - _PERIOD_OF_DISKS
    return analysis.cluster_load(
        known.series,
        TOPIC_LOAD.empty_table(),
        PARTITION_LOAD.empty_table(),
        stored_view(known.installation, known.cluster, "log_dirs", begin_of_disks, end),
        cluster=known.cluster,
        since=begin,
        until=end,
    )


def _latest_with_results(known: KnownOfCluster, until: datetime | None) -> set[str]:
    """Return the latest snapshot of the period whose topics and partitions are still known: that of
    its end, unless it was thinned out. Empty where there is none.
    """
    with_results = known.results.of_cluster(known.cluster)
    latest_id = known.series.latest_id(until, among=with_results)
    return set() if latest_id is None else {latest_id}


def _load(
    known: KnownOfCluster,
    balance: LeaderBalance,
    since: datetime,
    until: datetime | None,
) -> ClusterLoad | None:
    latest = balance.latest
    cluster, series, results = known.cluster, known.series, known.results
    detailed_ids = _latest_with_results(known, until)
    days = analysis.days_of_period(series, cluster, since, until)
    daily = results.daily("topic_load", cluster, days.first_whole, days.end)
    days_known = set(daily["date"].unique().to_pylist())
    ids_of_topics = {one for one in days.snapshot_ids if history.day_of(one) not in days_known}
    begin_of_disks = latest.observed_at - _PERIOD_OF_DISKS
    return analysis.cluster_load(
        series,
        results.table("topic_load", ids_of_topics | detailed_ids),
        results.table("partition_load", {latest.snapshot_id}),
        stored_view(known.installation, cluster, "log_dirs", begin_of_disks, until),
        daily,
        cluster=cluster,
        since=since,
        until=until,
    )


# -- figures that need every snapshot of a period
#
# Days (UTC) that are over have them in the tables of a day, whatever became of their snapshots; the
# others have them in the results.


def with_period_figures(
    results: Results,
    series: analysis.SeriesColumns,
    balance: LeaderBalance,
    load: ClusterLoad | None,
    since: datetime,
    until: datetime | None,
    length: timedelta,
) -> tuple[LeaderBalance, ClusterLoad | None]:
    """Add them to what is known of a cluster from since <= observed_at < until. `length` is what is
    asked for: whole days may be some hours more or less.
    """
    days = _Days(results, balance.cluster, series, since, until)
    window = days.series_around
    leader_changes = days.tables("leader_changes")
    elections = analysis.elections(leader_changes)
    flapping = analysis.flapping(elections, length, snapshot_count=leader_changes.snapshot_count)
    balance = replace(
        balance,
        flapping=flapping,
        topic_skew=analysis.topic_skew(
            days.tables("topic_balance"),
            analysis.seconds_of_rates(window, balance.cluster),
            analysis.live_broker_counts(window, balance.cluster),
        ),
    )
    if load is None:
        return balance, None
    busy = analysis.busy_partitions(days.tables("partition_load"))
    return balance, replace(load, busy_partitions=busy)


@dataclass(frozen=True)
class _Days:
    """The whole days of a period of one cluster."""

    results: Results
    cluster: str
    series: analysis.SeriesColumns
    since: datetime
    until: datetime | None

    @cached_property
    def period(self) -> analysis.PeriodDays:
        return analysis.days_of_period(self.series, self.cluster, self.since, self.until)

    @property
    def series_around(self) -> analysis.SeriesColumns:
        """Return the series of these days, and of those just before."""
        return self.series.between(self.since - analysis.AROUND, None)

    def tables(self, name: str) -> "_Tables":
        return _Tables(self, name)


class _Tables:
    """The tables of days of a period, and the results of all its other days, one after the other;
    `snapshot_count` is of the snapshots that those tell of that were read.
    """

    def __init__(self, days: _Days, name: str) -> None:
        self._days = days
        self._name = name
        self.snapshot_count = 0

    def __iter__(self) -> Iterator[pa.Table]:
        period, cluster = self._days.period, self._days.cluster
        results = self._days.results
        day_of = {one: history.day_of(one) for one in period.snapshot_ids}
        days_read = set()
        for daily in results.daily_tables(self._name, cluster, period.first_whole, period.end):
            days_read.add(daily.day)
            self.snapshot_count += daily.snapshot_count or 0
            yield daily.rows
        others = {one for one, day in day_of.items() if day not in days_read}
        with_results = others & results.of_cluster(cluster)
        self.snapshot_count += len(with_results)
        yield from results.tables(self._name, with_results)
