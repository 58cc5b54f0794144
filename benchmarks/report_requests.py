"""How many requests to an object store the tasks make that follow an hourly analysis: the reports
of clusters, whether a rebalance is to be proposed for one of them, and the report of the fleet.

    python -m benchmarks.report_requests --clusters 8 --days 730

The fleet is made up, as `store_requests` has it, with the results that reports read: small clusters
of three brokers, since the number of requests does not grow with a cluster. Results and views are
as a compaction last night has left them; what is made since lies in a file for each round. Counted
are a report by itself, a task with the reports of half of the clusters and one with those of all,
the difference of which is what a cluster more costs, and the report of the fleet.

Limits: Spark is not needed, and the analysis itself is not counted: see `store_requests`.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, time, timedelta
from functools import cache, partial
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.made_results import daily_table, results_table, view_table
from benchmarks.store_requests import NOW, CountingStore, kept_times, period_of_round
from counterpoise import history
from counterpoise.archive import Archive
from counterpoise.daily_copies import copy_days
from counterpoise.installation import Installation
from counterpoise.model.grouping import grouped
from counterpoise.model.tables import DAILY_TABLES, RESULT_TABLES, VIEWS
from counterpoise.round_index import index_rounds
from counterpoise.services import proposals, reports
from counterpoise.settings import FileConnections, Locations, parse_settings
from counterpoise.storage import PACKED

_COMPACTED: Final = NOW.replace(hour=3, minute=30)  # the last time


def as_file(make: Callable[[], pa.Table]) -> bytes:
    stream = pa.BufferOutputStream()
    with pq.ParquetWriter(stream, (table := make()).schema, compression="zstd") as writer:
        names = table["cluster"].unique().to_pylist()
        for name in names:
            writer.write_table(table.filter(pc.equal(table["cluster"], name)))
        writer.add_key_value_metadata({b"snapshot_count": b"24"})
    return bytes(stream.getvalue().to_pybytes())


def put(store: CountingStore, path: str, at: datetime, make: Callable[[], pa.Table]) -> None:
    store.put(path, at, cache(partial(as_file, make)))


def _round_of(at: datetime) -> str:
    """Return the name of the round that a snapshot is in, as analyses put the newest together."""
    period = period_of_round(at)
    if "T" not in period:
        return period
    begin = at.replace(hour=at.hour // 8 * 8) if at.date() == NOW.date() else at.replace(hour=0)
    is_merged = begin + timedelta(hours=8) <= NOW - timedelta(hours=1)
    return f"{begin:%Y-%m-%dT%H}-merged" if is_merged else period


def write_past(
    installation: Installation, store: CountingStore, clusters: Sequence[str], days: int
) -> None:
    """Write rounds and their results, tables of days, and views."""
    times = kept_times(days)
    for name, of_round in grouped((_round_of(at), at) for at in times).items():
        is_packed = "T" in name
        for table in RESULT_TABLES:
            folder = f"results/{table}/round=past-{name}"
            made = partial(results_table, table)
            if is_packed:
                put(store, f"{folder}/{PACKED}", of_round[-1], partial(made, clusters, of_round))
            for cluster in () if is_packed else clusters:
                path = f"{folder}/cluster_name={cluster}/{name}.parquet"
                put(store, path, of_round[-1], partial(made, [cluster], of_round))
        ids = [(c, history.snapshot_id_for(c, at)) for at in of_round for c in clusters]
        rows = [{"snapshot_id": i, "cluster": c, "previous_snapshot_id": None} for c, i in ids]
        tables = RESULT_TABLES if is_packed else None
        installation.results.finish_round(
            f"past-{name}", of_round[-1], rows, is_by_cluster=not is_packed, packed_tables=tables
        )
    for cluster in clusters:
        write_days(store, cluster, days)
        write_views(store, cluster, times)


def write_days(store: CountingStore, cluster: str, days: int) -> None:
    for number in range(2, days):
        day = (NOW - timedelta(days=number)).date()
        for table in DAILY_TABLES:
            path = f"{history.daily_folder(table, cluster, day)}/loads.parquet"
            made_at = datetime.combine(day + timedelta(days=2), time(3, 30), UTC)
            put(store, path, made_at, partial(daily_table, table, cluster, day))


def write_views(store: CountingStore, cluster: str, times: Sequence[datetime]) -> None:
    def name(at: datetime) -> str:
        return f"{at:%Y-%m}/merged-made" if at < _COMPACTED else f"{at:%Y-%m}/past-{at:%dT%H}"

    for file, of_file in grouped((name(at), at) for at in times).items():
        for view in VIEWS:
            path = f"views/{cluster}/{view}/month={file}.parquet"
            put(store, path, of_file[-1], partial(view_table, view, cluster, of_file))


def counted(store: CountingStore, what: str, task: Callable[[], object]) -> int:
    """Do something, and print how many requests that took."""
    store.requests.clear()
    task()
    total = store.requests.total()
    parts = ", ".join(f"{count} {name}" for name, count in sorted(store.requests.items()))
    print(f"  {total:7,d}  {what}: {parts}; Arrow sends {store.sent:,d}", flush=True)
    return total


def main(argv: Sequence[str]) -> int:
    """Print the requests of the tasks of some clusters, and of the fleet's."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--clusters", type=int, default=8)
    parser.add_argument("--days", type=int, default=730)
    arguments = parser.parse_args(argv)
    clusters = [f"cluster-{number:03d}" for number in range(arguments.clusters)]
    store = CountingStore("memory://report-requests")
    settings = "".join(f"  {name}: {{connection: none}}\n" for name in clusters)
    with (
        tempfile.TemporaryDirectory() as folder,
        Installation(
            Locations.from_environment(
                {
                    "COUNTERPOISE_STORE": store.root_uri,
                    "COUNTERPOISE_LEDGER": f"sqlite:///{folder}/ledger.db",
                }
            ),
            FileConnections(Path("none"), {}),
            known_clusters=parse_settings(f"clusters:\n{settings}", where="the benchmark"),
            clock=lambda: NOW,
        ) as installation,
    ):
        installation.__dict__["archive"] = Archive(store)
        write_past(installation, store, clusters, arguments.days)
        index_rounds(store)
        for cluster in clusters:
            for table in DAILY_TABLES:
                copy_days(store, table, cluster)
        print(f"{len(clusters)} clusters, {arguments.days} days of history:")
        for task in (reports.report_balance, proposals.propose):
            counted(store, task.__name__, partial(task, installation, clusters[0]))
        half = clusters[: len(clusters) // 2]
        few, many = (
            counted(
                store,
                f"reports of {len(chunk)} in a task",
                lambda chunk=chunk: reports.report_balances(installation, chunk).check(),
            )
            for chunk in (half, clusters)
        )
        each = (many - few) / (len(clusters) - len(half))
        print(f"  {each:7,.1f}  for each cluster, {few - each * len(half):,.1f} for each task")
        total = counted(store, "fleet", partial(reports.report_fleet, installation))
        print(f"  {total / len(clusters):7,.1f}  fleet, a cluster")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
