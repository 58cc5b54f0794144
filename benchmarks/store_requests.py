"""How many requests one hourly analysis of a fleet makes to an object store.

    python -m benchmarks.store_requests --clusters 50 --days 730

The fleet is made up: each cluster has a compacted day of history for each day, a few snapshots of
today that are analysed, and a new one. Files are in memory; each operation counts as what S3 needs
for it: a list is a request per 1,000 files, a move is a copy and a delete, and reading a Parquet
footer is two requests.
"""

import argparse
import json
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
from counterpoise.settings import FileConnections, Locations, parse_settings
from counterpoise.storage import Store

NOW: Final = datetime(2026, 11, 21, 15, tzinfo=UTC)
_FILES_OF_A_LIST: Final = 1_000
_TODAY: Final = 3  # snapshots, the new one among them


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
    """A small cluster: three brokers, twelve partitions."""
    document = {
        "cluster": cluster,
        "cluster_id": f"{cluster}-id",
        "snapshot_id": history.snapshot_id_for(cluster, at),
        "observed_at": at.isoformat(),
        "brokers": [{"id": broker_id} for broker_id in (1, 2, 3)],
        "partitions": [["orders", p, [1 + p % 3, 1 + (p + 1) % 3], 1 + p % 3] for p in range(12)],
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


def main(argv: Sequence[str]) -> int:
    """Print the requests of one round, and those of its parts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--clusters", type=int, default=50)
    parser.add_argument("--days", type=int, default=730)
    arguments = parser.parse_args(argv)
    clusters = [f"cluster-{number:03d}" for number in range(arguments.clusters)]
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
        for cluster in clusters:
            installation.archive.write_snapshot(snapshot(cluster, NOW))
        store.requests.clear()
        begin = time.monotonic()
        found = pipeline.analyse(installation, "now", print)
    assert found == clusters
    print(f"{len(clusters)} clusters, {arguments.days} days of history, one new snapshot each:")
    for name, count in sorted(store.requests.items()):
        print(f"  {count:7,d}  {name}")
    print(f"  {store.requests.total():7,d}  requests in {time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
