"""How many requests hourly analyses of a fleet make to an object store, how long Spark takes, and
how much memory.

    python -m benchmarks.store_requests --clusters 200 --large 10 --days 730 --rounds 3

The fleet is made up: each cluster has a compacted day of history for each day, a few snapshots of
today that are analysed, and a new one each round; large clusters have 20,000 partitions, others 12.
Files are in memory; each operation counts as what S3 needs for it: a list is a request per 1,000
files, a move is a copy and a delete, reading a Parquet footer is two requests, and row groups one
more. Spark works on copies (`local[2]`), so it asks the store for nothing itself.
"""

import argparse
import json
import resource
import sys
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from counterpoise import history, pipeline
from counterpoise.archive import Archive
from counterpoise.installation import Installation
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.document import from_document_text
from counterpoise.model.files import StoredFile
from counterpoise.model.tables import SCHEMA_VERSION, SNAPSHOT_TABLES, SNAPSHOTS
from counterpoise.pipeline import analysing
from counterpoise.settings import FileConnections, Locations, parse_settings
from counterpoise.storage import Store

NOW: Final = datetime(2026, 11, 21, 15, tzinfo=UTC)
_FILES_OF_A_LIST: Final = 1_000
_TODAY: Final = 3  # snapshots, the new one among them
_PARTITIONS: Final = 12
_PARTITIONS_OF_LARGE: Final = 20_000


class CountingStore(Store):
    """Counts the requests that an object store would get, by what they are for."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.requests: Counter[str] = Counter()

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
        found = super().files(prefix)
        self.requests["list"] += max(1, -(-len(found) // _FILES_OF_A_LIST))
        return found

    def info(self, path: str) -> StoredFile | None:
        self.requests["head"] += 1
        return super().info(path)

    def download(self, path: str, target: Path) -> None:
        self.requests["job reads"] += 1
        super().download(path, target)

    def upload(self, source: Path, path: str) -> None:
        self.requests["job writes"] += 1
        super().upload(source, path)


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


def write_past(store: Store, cluster: str, days: int) -> None:
    """Write the manifest of each day, over files that nobody reads any more."""
    for day in range(2, days + 2):
        at = NOW - timedelta(days=day)
        snapshot_id = history.snapshot_id_for(cluster, at)
        files = [
            {"table": name, "path": history.table_path(name, cluster, snapshot_id), "row_count": 1}
            for name in SNAPSHOT_TABLES
        ]
        row = {"snapshot_id": snapshot_id, "cluster": cluster, "cluster_id": f"{cluster}-id"}
        row |= {"observed_at": at, "schema_version": SCHEMA_VERSION, "files": files}
        path = history.compacted_path(history.MANIFESTS, cluster, at.date(), "made")
        store.write_table(path, pa.Table.from_pylist([row], schema=SNAPSHOTS))


def write_fleet(installation: Installation, clusters: Sequence[str], days: int) -> None:
    """Write the past, which counts as analysed, and the snapshots of today but for the new one."""
    archive = installation.archive
    analysed = []
    for cluster in clusters:
        write_past(archive.store, cluster, days)
        archive.write_snapshot(snapshot(cluster, NOW - timedelta(hours=_TODAY)))
        rows = archive.manifests([cluster]).to_pylist()
        before = [None, *(row["snapshot_id"] for row in rows)]
        pairs = zip(rows, before, strict=False)
        analysed += [row | {"previous_snapshot_id": previous} for row, previous in pairs]
    installation.results.finish_round("past", NOW - timedelta(days=1), analysed)
    for hours_ago in range(_TODAY - 1, 0, -1):
        for cluster in clusters:
            archive.write_snapshot(snapshot(cluster, NOW - timedelta(hours=hours_ago)))


def one_round(installation: Installation, store: CountingStore, clusters: Sequence[str]) -> None:
    """Analyse one new snapshot of each cluster, and print what that took."""
    store.requests.clear()
    spark_seconds: list[float] = []
    run_job = analysing.run_job

    def timed(*arguments: Any, **named: Any) -> None:
        began = time.monotonic()
        run_job(*arguments, **named)
        spark_seconds.append(time.monotonic() - began)

    analysing.run_job = timed  # type: ignore[attr-defined]
    begin = time.monotonic()
    try:
        found = pipeline.analyse(installation, "now", print)
    finally:
        analysing.run_job = run_job  # type: ignore[attr-defined]
    assert found == sorted(clusters)
    for name, count in sorted(store.requests.items()):
        print(f"  {count:7,d}  {name}")
    total = store.requests.total()
    seconds = f"{time.monotonic() - begin:.0f} s, {sum(spark_seconds):.0f} s of them Spark"
    print(f"  {total:7,d}  requests, {total / len(clusters):.1f} a cluster; {seconds}")
    own, jobs = (
        resource.getrusage(who).ru_maxrss / 1024
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    print(
        f"  {own:,.0f} MiB at most so far in this process, store included; {jobs:,.0f} in Spark's"
    )


def main(argv: Sequence[str]) -> int:
    """Print the requests of each round, and those of its parts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--clusters", type=int, default=50)
    parser.add_argument("--large", type=int, default=0, help="so many of them are large")
    parser.add_argument("--days", type=int, default=730)
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args(argv)
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
        write_fleet(installation, clusters, arguments.days)
        pipeline.analyse(installation, "before", print)
        for hour in range(arguments.rounds):
            for cluster in clusters:
                installation.archive.write_snapshot(snapshot(cluster, NOW + timedelta(hours=hour)))
            print(f"{len(clusters)} clusters, {arguments.days} days of history, round {hour + 1}:")
            one_round(installation, store, clusters)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
