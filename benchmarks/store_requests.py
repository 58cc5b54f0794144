"""How many requests hourly analyses of a fleet make to an object store, how long Spark takes, and
how much memory.

    python -m benchmarks.store_requests --clusters 200 --large 10 --days 730 --rounds 3

The fleet is made up, as it is between two nights: every snapshot of the last days, then the first
of each day; manifests, rounds and views as compaction leaves them, written as their formats have
them and not by thousands of rounds. What an hourly round does not read is made when it is read. A
round before those that are measured finds no file of the fleet. Large clusters have 20,000
partitions, others 12. With `--without-spark` their results are those of small ones, made up.

Files are in memory; each operation counts as what S3 needs for it: a list is a request per 1,000
files, a move is a copy and a delete, reading a Parquet footer is two requests, and row groups one
more. Beside that is what Arrow sends to S3 for the same: it asks for a file's length before it
reads it, and sees to the folder of what it deletes. Spark works on copies (`local[2]`), so it asks
the store for nothing itself.
"""

import argparse
import json
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from benchmarks.made_results import made_up_job
from counterpoise import history
from counterpoise.archive import Archive
from counterpoise.installation import Installation
from counterpoise.manifest_index import INDEX, index_path
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.document import from_document_text
from counterpoise.model.files import StoredFile
from counterpoise.model.grouping import grouped
from counterpoise.model.tables import SCHEMA_VERSION, SNAPSHOT_TABLES, VIEWS
from counterpoise.services import analyses
from counterpoise.settings import FileConnections, Locations, parse_settings
from counterpoise.storage import Store

NOW: Final = datetime(2026, 11, 21, 15, tzinfo=UTC)
_FILES_OF_A_LIST: Final = 1_000
_UNMERGED_HOURS: Final = 40  # snapshots of today and yesterday, in files of their own
_KEEP_ALL: Final = 14  # days, as policies have it without being told
# What Arrow 26 sends for each request that is counted, as the log of an S3 server had it.
_SENT_FOR: Final = {
    "read": 2.0,
    "job reads": 2.0,
    "footer": 1.5,
    "footer and row groups": 4 / 3,
    "delete": 3.0,
    "move": 1.5,
}
_PARTITIONS: Final = 12
_PARTITIONS_OF_LARGE: Final = 20_000


class CountingStore(Store):
    """Keeps files in memory, and counts the requests that an object store would get, by what they
    are for.
    """

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.requests: Counter[str] = Counter()
        self.stored: dict[str, tuple[StoredFile, Callable[[], bytes]]] = {}

    @property
    def sent(self) -> int:
        """How many requests Arrow sends to S3 for those that are counted."""
        return round(sum(_SENT_FOR.get(name, 1) * n for name, n in self.requests.items()))

    def put(self, path: str, at: datetime, make: Callable[[], bytes]) -> StoredFile:
        """Store a file whose contents are made when they are read."""
        self.stored[path] = StoredFile(path, 1, at), make
        return self.stored[path][0]

    def read_bytes(self, path: str, **limits: Any) -> bytes:
        self.requests["read"] += 1
        return super().read_bytes(path, **limits)

    def write_bytes(self, path: str, data: bytes) -> None:
        self.requests["write"] += 1
        super().write_bytes(path, data)

    def parquet_shape(self, path: str) -> tuple[int, pa.Schema]:
        self.requests["footer"] += 2
        return super().parquet_shape(path)

    def read_table(self, path: str, **rows: Any) -> pa.Table:
        if any(rows.values()):
            self.requests["footer and row groups"] += 3
        return super().read_table(path, **rows)

    def files(self, prefix: str) -> tuple[StoredFile, ...]:
        found = [file for path, (file, _) in self.stored.items() if path.startswith(f"{prefix}/")]
        self.requests["list"] += max(1, -(-len(found) // _FILES_OF_A_LIST))
        return tuple(sorted(found, key=lambda file: file.path))

    def info(self, path: str) -> StoredFile | None:
        self.requests["head"] += 1
        return self.stored[path][0] if path in self.stored else None

    def delete(self, path: str) -> None:
        self.requests["delete"] += 1
        self.stored.pop(path, None)

    def move(self, path: str, target: str) -> None:
        self.requests["move"] += 2
        file, make = self.stored.pop(path)
        self.stored[target] = replace(file, path=target), make

    def download(self, path: str, target: Path, *, max_bytes: int | None = None) -> bool:
        self.requests["job reads"] += 1
        return super().download(path, target, max_bytes=max_bytes)

    def upload(self, source: Path, path: str) -> None:
        self.requests["job writes"] += 1
        super().upload(source, path)

    def _opened(self, path: str) -> pa.NativeFile:
        if path not in self.stored:
            raise FileNotFoundError(path)
        return pa.BufferReader(self.stored[path][1]())

    @contextmanager
    def _writing(self, path: str) -> Iterator[pa.NativeFile]:
        stream = pa.BufferOutputStream()
        yield stream
        data = stream.getvalue().to_pybytes()
        self.stored[path] = StoredFile(path, len(data), datetime.now(UTC)), lambda: data


def snapshot(cluster: str, at: datetime) -> ClusterSnapshot:
    """A cluster of three brokers; a large one has a topic for each hundred partitions."""
    count = _PARTITIONS_OF_LARGE if cluster.startswith("large") else _PARTITIONS
    log_dir = {"path": "/data", "total_bytes": 2 * 10**12, "usable_bytes": 10**12}
    document = {
        "cluster": cluster,
        "cluster_id": f"{cluster}-id",
        "snapshot_id": history.snapshot_id_for(cluster, at),
        "observed_at": at.isoformat(),
        "brokers": [{"id": broker_id, "log_dirs": [log_dir]} for broker_id in (1, 2, 3)],
        "partitions": [
            [f"orders-{p // 100}", p % 100, [1 + p % 3, 1 + (p + 1) % 3], 1 + p % 3]
            for p in range(count)
        ],
    }
    return from_document_text(json.dumps(document))


def kept_times(days: int) -> list[datetime]:
    """When the snapshots of the past were made that are still there, oldest first."""
    every = [NOW - timedelta(hours=hours) for hours in range(2, _KEEP_ALL * 24)]
    first = [NOW.replace(hour=0) - timedelta(days=day) for day in range(_KEEP_ALL, days + 1)]
    return sorted({*every, *first})


def manifest_row(cluster: str, at: datetime) -> dict[str, Any]:
    snapshot_id = history.snapshot_id_for(cluster, at)
    files = [
        {"table": name, "path": history.table_path(name, cluster, snapshot_id), "row_count": 1}
        for name in SNAPSHOT_TABLES
    ]
    row = {"snapshot_id": snapshot_id, "cluster": cluster, "cluster_id": f"{cluster}-id"}
    return row | {"observed_at": at, "schema_version": SCHEMA_VERSION, "files": files}


def write_manifests(store: CountingStore, cluster: str, times: Sequence[datetime]) -> None:
    """Write the manifests of the past, of a day each but for the newest, and their index."""

    def path_of(at: datetime) -> str:
        if at > NOW - timedelta(hours=_UNMERGED_HOURS):
            return history.manifest_path(cluster, history.snapshot_id_for(cluster, at))
        return history.compacted_path(history.MANIFESTS, cluster, at.date(), "made")

    entries = []
    for path, of_file in grouped((path_of(at), at) for at in times).items():
        rows = [manifest_row(cluster, at) for at in of_file]
        file = store.put(path, of_file[-1], partial(_no_bytes, path))
        entries.append({name: getattr(file, name) for name in INDEX.names[:-1]} | {"rows": rows})
    store.write_table(index_path(cluster), pa.Table.from_pylist(entries, schema=INDEX))


def write_views(store: CountingStore, cluster: str, times: Sequence[datetime]) -> None:
    """Write the views of the past: a file for each month, and one for each of the newest rounds."""
    for view in VIEWS:
        for at in times:
            is_merged = at <= NOW - timedelta(hours=_UNMERGED_HOURS)
            name = "merged-made" if is_merged else f"{at:%d%H}"
            path = f"views/{cluster}/{view}/month={at:%Y-%m}/{name}.parquet"
            store.put(path, at, partial(_no_bytes, path))


def _no_bytes(path: str) -> bytes:
    raise AssertionError(f"{path} was not made, since no round needs it")


def period_of_round(at: datetime) -> str:
    """Return what a round of the past is named by: its month, then its day, the newest its hour."""
    age = NOW - at
    if age <= timedelta(hours=_UNMERGED_HOURS):
        return f"{at:%Y-%m-%dT%H}"
    return f"{at:%Y-%m-%d}" if age < timedelta(days=_KEEP_ALL + 31) else f"{at:%Y-%m}"


def write_rounds(
    installation: Installation, clusters: Sequence[str], times: Sequence[datetime]
) -> None:
    """Write the rounds of the past: of a month each, then of a day, the newest of an hour."""

    previous = dict(zip(times[1:], times, strict=False))
    for name, of_round in grouped((period_of_round(at), at) for at in times).items():
        rows = [
            {
                "snapshot_id": history.snapshot_id_for(cluster, at),
                "cluster": cluster,
                "previous_snapshot_id": history.snapshot_id_for(cluster, previous[at])
                if at in previous
                else None,
            }
            for at in of_round
            for cluster in clusters
        ]
        installation.results.finish_round(f"past-{name}", of_round[-1], rows)


def write_fleet(
    installation: Installation, store: CountingStore, clusters: Sequence[str], days: int
) -> None:
    """Write the past, which counts as analysed, and the snapshot that others are compared with."""
    times = kept_times(days)
    for cluster in clusters:
        write_manifests(store, cluster, times)
        write_views(store, cluster, times)
        installation.archive.write_snapshot(snapshot(cluster, times[-1]))
    write_rounds(installation, clusters, times)


def one_round(
    installation: Installation,
    store: CountingStore,
    clusters: Sequence[str],
    job: Callable[..., None],
) -> None:
    """Analyse one new snapshot of each cluster with a job, and print what that took."""
    store.requests.clear()
    spark_seconds: list[float] = []
    own_cpu, jobs_cpu = _cpu_seconds()
    run_job = analyses.run_job

    def timed(*arguments: Any, **named: Any) -> None:
        began = time.monotonic()
        job(*arguments, **named)
        spark_seconds.append(time.monotonic() - began)

    analyses.run_job = timed  # type: ignore[attr-defined]
    begin = time.monotonic()
    try:
        found = analyses.analyse(installation, "now", print)
    finally:
        analyses.run_job = run_job  # type: ignore[attr-defined]
    assert found == sorted(clusters)
    for name, count in sorted(store.requests.items()):
        print(f"  {count:7,d}  {name}")
    total = store.requests.total()
    seconds = f"{time.monotonic() - begin:.0f} s, {sum(spark_seconds):.0f} s of them Spark"
    print(f"  {total:7,d}  requests, {total / len(clusters):.1f} a cluster; {seconds}")
    print(f"  {store.sent:7,d}  with those that Arrow adds")
    own_now, jobs_now = _cpu_seconds()
    print(f"  {own_now - own_cpu:.0f} CPU s in this process, {jobs_now - jobs_cpu:.0f} in Spark's")
    own, jobs = (
        resource.getrusage(who).ru_maxrss / 1024
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    print(
        f"  {own:,.0f} MiB at most so far in this process, store included; {jobs:,.0f} in Spark's"
    )


def _cpu_seconds() -> tuple[float, float]:
    """CPU seconds of this process, and of the children that have ended."""
    found = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    own, children = (usage.ru_utime + usage.ru_stime for usage in found)
    return own, children


def main(argv: Sequence[str]) -> int:
    """Print the requests of each round, and those of its parts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--clusters", type=int, default=50)
    parser.add_argument("--large", type=int, default=0, help="so many of them are large")
    parser.add_argument("--days", type=int, default=730)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument(
        "--without-spark", action="store_true", help="results are made up: only requests count"
    )
    arguments = parser.parse_args(argv)
    job = made_up_job if arguments.without_spark else analyses.run_job
    clusters = [
        f"{'large' if number < arguments.large else 'cluster'}-{number:03d}"
        for number in range(arguments.clusters)
    ]
    store = CountingStore("memory://store-requests")
    settings = "".join(f"  {name}: {{connection: none}}\n" for name in clusters)
    locations = Locations.from_environment(
        {"COUNTERPOISE_STORE": store.root_uri, "COUNTERPOISE_LEDGER": "sqlite://"}
    )
    with Installation(
        locations,
        FileConnections(Path("none"), {}),
        known_clusters=parse_settings(f"clusters:\n{settings}", where="the benchmark"),
        clock=lambda: NOW,
    ) as installation:
        installation.__dict__["archive"] = Archive(store)
        write_fleet(installation, store, clusters, arguments.days)
        for hour in range(-1, arguments.rounds):
            for cluster in clusters:
                installation.archive.write_snapshot(snapshot(cluster, NOW + timedelta(hours=hour)))
            which = f"round {hour + 1}" if hour >= 0 else "the round before"
            print(f"{len(clusters)} clusters, {arguments.days} days of history, {which}:")
            one_round(installation, store, clusters, job)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
