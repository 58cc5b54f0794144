"""Compaction of the Spark jobs' results: a day's loads in two tables, many rounds in one, the views
in a file a month, old rows deleted.

    report = compact_results(installation, now, log)

A merged round is finished, and names the rounds it is made of, before those are deleted; their
files stay for the grace period, for readers that have opened them already. Results are compacted
only a day after they were finished.
"""

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time
from functools import cache, partial
from typing import Any

from counterpoise import analysis, history
from counterpoise.daily_copies import copy_days
from counterpoise.errors import CounterpoiseError, StoreError
from counterpoise.history import Merge, RoundMerge, daily_folder
from counterpoise.installation import Installation
from counterpoise.model.grouping import grouped
from counterpoise.model.policy import HistoryPolicy
from counterpoise.model.tables import CLUSTER_FOLDER, DAILY_TABLES, RESULT_TABLES, VIEWS
from counterpoise.pipeline.analysing import view_of
from counterpoise.pipeline.spark_compaction import (
    Daily,
    in_jobs,
    is_daily_made,
    make_files,
    snapshot_counts,
)
from counterpoise.round_index import ROUNDS, document_path, write_document
from counterpoise.storage import Store

Log = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ResultsReport:
    """What was done, and why not all of it."""

    days_of_loads: int = 0  # tables made for the first time, or anew
    rounds_merged: int = 0
    files_deleted: int = 0
    left_alone: tuple[str, ...] = ()  # since a file is damaged
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class _LeftAlone:
    """What is not compacted since a file is damaged: why, and the rounds of which it is."""

    reasons: list[str] = field(default_factory=list)
    rounds: set[str] = field(default_factory=set)

    def add(self, what: str, error: StoreError, rounds: Iterable[str] = ()) -> None:
        self.reasons.append(f"{what} stays as it is: {error}")
        self.rounds.update(rounds)


def compact_results(installation: Installation, now: datetime, log: Log) -> ResultsReport:
    """Compact the results of all clusters; an error of ours ends it and is in the report."""
    report, left_alone = ResultsReport(), _LeftAlone()
    try:
        policy = _longest_policy(installation)
        rounds = _finish_merges(installation.archive.store)
        existing = _snapshot_ids(installation)
        report = replace(
            report, days_of_loads=_make_daily(installation, rounds, now, log, left_alone)
        )
        # Of a day without its table its results are all there is.
        complete = [one for one in rounds if one["round"] not in left_alone.rounds]
        report = replace(report, files_deleted=_drop_old_loads(installation, complete, policy, now))
        plans = history.plan_rounds(rounds, existing, policy, now)
        report = replace(report, rounds_merged=_merge_rounds(installation, plans, log, left_alone))
        deleted = _delete_unused(installation.archive.store, policy, now)
        deleted += _merge_views(installation, now, left_alone)
        report = replace(report, files_deleted=report.files_deleted + deleted)
    except CounterpoiseError as error:
        report = replace(report, problem=str(error))
    return replace(report, left_alone=tuple(left_alone.reasons))


def _longest_policy(installation: Installation) -> HistoryPolicy:
    """Return for each period the longest of all clusters: a round has snapshots of all of them."""
    clusters = installation.settings.clusters.values()
    policies = [cluster.policy.history for cluster in clusters] or [HistoryPolicy()]
    return HistoryPolicy(
        keep_all=max(policy.keep_all for policy in policies),
        keep_hourly=max(policy.keep_hourly for policy in policies),
        keep_daily=max(policy.keep_daily for policy in policies),
        grace=max(policy.grace for policy in policies),
    )


def _finish_merges(store: Store) -> list[dict[str, Any]]:
    """Return the lists of rounds, without those that were merged into another one.

    These are deleted now, in case an interrupted compaction left them.
    """
    rounds, merged = _rounds(store)
    for name in merged:
        store.delete(document_path(name))
    return rounds


def _rounds(store: Store) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the lists of rounds, and the names of those that were merged into another one."""
    documents = _documents(store)
    merged = {name for document in documents.values() for name in document.get("merged", ())}
    rounds = [document for name, document in sorted(documents.items()) if name not in merged]
    return rounds, sorted(merged & documents.keys())


def _snapshot_ids(installation: Installation) -> frozenset[str]:
    """Return the snapshots that the history has."""
    manifests = installation.archive.manifests(installation.archive.clusters())
    return frozenset(manifests["snapshot_id"].to_pylist())


def _documents(store: Store) -> dict[str, dict[str, Any]]:
    """Return the lists of rounds by their names."""
    documents = {}
    for path in store.list(ROUNDS, suffix=".json"):
        try:
            document = json.loads(store.read_text(path))
            documents[str(document["round"])] = document
            document["snapshots"]
        except (ValueError, KeyError, TypeError):
            raise StoreError(
                f"{store.uri(path)} is no list of analysed snapshots, so no results were "
                "compacted; delete it, and its snapshots are analysed again"
            ) from None
    return documents


def _make_daily(
    installation: Installation,
    rounds: list[dict[str, Any]],
    now: datetime,
    log: Log,
    left_alone: _LeftAlone,
) -> int:
    clusters = installation.settings.clusters
    dailies = _daily_tables(installation, rounds, now, clusters, left_alone)
    made = 0
    for job in in_jobs(dailies):
        to_make = _with_series(installation, job, left_alone)
        make_files(installation, (), to_make, log)
        made += len(to_make)
    for table in DAILY_TABLES:
        for cluster in installation.settings.clusters:
            copy_days(installation.archive.store, table, cluster)
    return made


def _daily_tables(
    installation: Installation,
    rounds: list[dict[str, Any]],
    now: datetime,
    clusters: Collection[str],
    left_alone: _LeftAlone,
) -> list[Daily]:
    policies = {name: installation.cluster(name).policy.history for name in clusters}
    store = installation.archive.store
    files_of, counts_of = cache(partial(_files, store)), cache(partial(snapshot_counts, store))
    dailies = []
    for table in DAILY_TABLES:
        existing = {path for name in policies for path in store.list(daily_folder(table, name))}
        for plan in history.plan_daily(table, rounds, policies, now):
            try:
                if plan.path in existing and (plan.is_thinned or is_daily_made(store, plan)):
                    continue
                files = {
                    path: ids
                    for name, ids in plan.snapshot_ids_by_round.items()
                    for path in files_of(table, name, plan.cluster)
                }
                row_count = sum(
                    counts_of(path).get(one, 0) for path, ids in files.items() for one in ids
                )
            except StoreError as error:
                what = f"{table} of {plan.cluster} of {plan.day}"
                left_alone.add(what, error, plan.snapshot_ids_by_round)
                continue
            if files:
                dailies.append(Daily(plan, files, row_count))
    return dailies


def _with_series(
    installation: Installation, dailies: list[Daily], left_alone: _LeftAlone
) -> list[Daily]:
    """Add how long the rates of each snapshot lasted, and how many brokers were live, from the
    cluster's series. The days of a cluster whose series cannot be read are left alone.
    """
    found = []
    for cluster, of_cluster in grouped((daily.plan.cluster, daily) for daily in dailies).items():
        days = [daily.plan.day for daily in of_cluster]
        since = datetime.combine(min(days), time(), UTC) - analysis.AROUND
        until = datetime.combine(max(days), time(), UTC) + analysis.AROUND
        try:
            series = view_of(installation, cluster, "series", since, until)
        except StoreError as error:
            rounds = {name for daily in of_cluster for name in daily.plan.snapshot_ids_by_round}
            left_alone.add(f"every day of {cluster} without a table", error, rounds)
            continue
        seconds = analysis.seconds_of_rates(series, cluster)
        live_brokers = analysis.live_broker_counts(series, cluster)
        found += [
            replace(daily, seconds=seconds, live_brokers=live_brokers) for daily in of_cluster
        ]
    return found


def _drop_old_loads(
    installation: Installation, rounds: list[dict[str, Any]], policy: HistoryPolicy, now: datetime
) -> int:
    store = installation.archive.store
    outlived = history.outlived_rounds(rounds, policy, now)
    paths = [path for name in outlived for path in _files(store, history.LOADS, name)]
    for cluster, settings in installation.settings.clusters.items():
        for table in DAILY_TABLES:
            daily = store.list(daily_folder(table, cluster))
            days = {path: place[1] for path in daily if (place := history.place_of(path))}
            old = set(history.old_days(days.values(), settings.policy.history, now))
            paths += [path for path, day in days.items() if day in old]
    for path in paths:
        store.delete(path)
    return len(paths)


def _merge_views(installation: Installation, now: datetime, left_alone: _LeftAlone) -> int:
    """Delete months of views older than the policy of a cluster keeps anything, and put each other
    month into one file; return how many files were deleted or replaced.

    A view that cannot be read keeps no other from this.
    """
    count = 0
    for cluster, settings in installation.settings.clusters.items():
        for view in VIEWS:
            files = installation.results.view_files(cluster, view)
            count += files.delete_before(now - settings.policy.history.keep_daily)
            try:
                count += files.merge()
            except StoreError as error:
                left_alone.add(f"the view {view} of {cluster}", error)
    return count


def _merge_rounds(
    installation: Installation, plans: Iterable[RoundMerge], log: Log, left_alone: _LeftAlone
) -> int:
    store = installation.archive.store
    merges_of: dict[str, list[Merge]] = {}
    whole = []
    for plan in plans:
        if not left_alone.rounds.isdisjoint(plan.snapshot_ids_by_round):
            continue  # of a day without its table they are all there is
        try:
            merges_of[plan.name] = _merges(store, plan)
            whole.append(plan)
        except StoreError as error:
            left_alone.add(f"round {plan.name}", error, plan.snapshot_ids_by_round)
    for job in in_jobs(merge for merges in merges_of.values() for merge in merges):
        make_files(installation, job, (), log)
    for plan in whole:
        write_document(store, plan.document)
        for name in plan.snapshot_ids_by_round:
            store.delete(document_path(name))
    return sum(len(plan.snapshot_ids_by_round) for plan in whole)


def _merges(store: Store, plan: RoundMerge) -> list[Merge]:
    """Return a merge for each table and cluster of the merged round that has any rows."""
    merges = []
    cluster_of = {row["snapshot_id"]: row["cluster"] for row in plan.document["snapshots"]}
    for table in RESULT_TABLES:
        files: dict[str, dict[str, tuple[str, ...]]] = {}  # by cluster
        counts: dict[str, dict[str, int]] = {}
        for name, ids in plan.snapshot_ids_by_round.items():
            for path in _files(store, table, name) if ids else ():
                of_file = snapshot_counts(store, path)
                kept = grouped((cluster_of[one], one) for one in ids if one in of_file)
                for cluster, ids_of_cluster in kept.items():
                    files.setdefault(cluster, {})[path] = tuple(ids_of_cluster)
                    of_cluster = counts.setdefault(cluster, {})
                    for one in ids_of_cluster:
                        of_cluster[one] = of_cluster.get(one, 0) + of_file[one]
        for cluster, of_cluster_files in sorted(files.items()):
            folder = f"results/{table}/round={plan.name}/{CLUSTER_FOLDER}={cluster}"
            path = f"{folder}/{plan.name}.parquet"
            merges.append(Merge(table, path, of_cluster_files, counts[cluster]))
    return merges


def _files(
    store: Store, table: str, round_name: str, cluster: str | None = None
) -> tuple[str, ...]:
    """Return the files of a round; of those in a folder for a cluster only that one's, if given."""
    paths = store.list(f"results/{table}/round={round_name}", suffix=".parquet")
    if cluster is None:
        return paths
    own_folder = f"/{CLUSTER_FOLDER}={cluster}/"
    return tuple(p for p in paths if own_folder in p or f"/{CLUSTER_FOLDER}=" not in p)


def _delete_unused(store: Store, policy: HistoryPolicy, now: datetime) -> int:
    """Delete files of rounds that no longer exist, and lists of merged rounds without snapshots.

    Returns how many.
    """
    documents = _documents(store)
    modified_at = {file.path: file.modified_at for file in store.files(ROUNDS)}
    merged_at = {
        name: modified_at.get(document_path(document["round"]))
        for document in documents.values()
        for name in document.get("merged", ())
    }

    def is_over(moment: datetime | None) -> bool:
        return moment is not None and moment + policy.grace <= now

    deleted = 0
    for table in RESULT_TABLES:
        for file in store.files(f"results/{table}"):
            name = _round_of(file.path)
            if name in documents or not is_over(file.modified_at):
                continue
            if name not in merged_at or is_over(merged_at[name]):
                store.delete(file.path)
                deleted += 1
    for name, document in documents.items():
        if not document["snapshots"] and is_over(modified_at.get(document_path(name))):
            store.delete(document_path(name))
            deleted += 1
    return deleted


def _round_of(path: str) -> str | None:
    parts = [part for part in path.split("/") if part.startswith("round=")]
    return parts[0].removeprefix("round=") if parts else None
