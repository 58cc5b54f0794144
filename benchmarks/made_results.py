"""Results of small clusters, made up without Spark: all tables, with rows that are alike.

    results_table("topic_load", ["cluster-000"], [at])
    made_up_job(script, ["--store", uri, "--round", "r1", "--snapshots", "s.json"])

Each cluster has three brokers and a topic of 12 partitions.
"""

import json
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from counterpoise import analysis, history
from counterpoise.model.tables import CLUSTER_FOLDER, DAILY_TABLES, RESULT_TABLES
from counterpoise.storage import Store

_BROKERS: Final = (1, 2, 3)
_PARTITIONS: Final = 12


def rows_of(table: str, cluster: str, at: datetime) -> list[dict[str, Any]]:
    """Return rows of one of RESULT_TABLES of a snapshot: every count is 4, and rates are known."""
    head = {"cluster": cluster, "observed_at": at}
    head["snapshot_id"] = history.snapshot_id_for(cluster, at)
    same: dict[str, Any] = {
        field.name: 0 if _counts_bounds(field.name) else 4
        for field in RESULT_TABLES[table]
        if field.type == pa.int64()
    }
    if table == "snapshot_changes":
        zeros = dict.fromkeys(same, 0)
        before = history.snapshot_id_for(cluster, at - timedelta(hours=1))
        known = {"cluster_id": "id", "is_rebuilt": False, "seconds": 3_600.0, "partitions": 12}
        return [zeros | known | {"previous_snapshot_id": before} | head]
    if table in ("broker_balance", "broker_load"):
        same |= {"is_fenced": False, "leaders_not_preferred": 0}
        return [same | head | {"broker_id": broker_id} for broker_id in _BROKERS]
    if table == "log_dir_load":
        return [same | head | {"broker_id": b, "log_dir": "/data"} for b in _BROKERS]
    if table in ("topic_balance", "topic_load"):
        return [same | head | {"topic": "orders", "hottest_partition": 0}]
    if table == "partition_load":
        of_partition = same | {"topic": "orders", "seconds": 3_600.0, "how": "records"}
        return [of_partition | head | {"partition": number} for number in range(_PARTITIONS)]
    assert table == "leader_changes"
    return [head | {"topic": "orders", "partition": 1, "leader_epochs": 2, "kind": "returned"}]


def daily_table(table: str, cluster: str, day: date) -> pa.Table:
    """Return one of DAILY_TABLES: an hour of everything."""
    schema = DAILY_TABLES[table]
    same: dict[str, Any] = {
        field.name: 0 if _counts_bounds(field.name) else 3_600
        for field in schema
        if field.type in (pa.int64(), pa.float64())
    }
    same |= {"cluster": cluster, "date": day, "topic": "orders"}
    if "rates" in schema.names:
        same["rates"] = [{"rate": 1_000.0, "seconds": 3_600.0}]
    if "partition" not in schema.names:
        return pa.Table.from_pylist([same], schema=schema)
    rows = [same | {"partition": number} for number in range(_PARTITIONS)]
    return pa.Table.from_pylist(rows, schema=schema)


def _counts_bounds(column: str) -> bool:
    """Return whether a column counts rates that are not known, or only lower bounds."""
    return "at_least" in column or "unknown" in column


def results_table(name: str, clusters: Iterable[str], times: Iterable[datetime]) -> pa.Table:
    rows = (row for c in clusters for at in times for row in rows_of(name, c, at))
    return pa.Table.from_pylist(list(rows), schema=RESULT_TABLES[name])


def view_table(view: str, cluster: str, times: Sequence[datetime]) -> pa.Table:
    if view == "log_dirs":
        return results_table("log_dir_load", [cluster], times)
    names = ("broker_balance", "broker_load", "snapshot_changes", "leader_changes")
    return analysis.series_rows(*(results_table(name, [cluster], times) for name in names))


def made_up_job(_script: Path, arguments: Sequence[str], **_: Any) -> None:
    """Write results of all snapshots to analyse, as the job `analysis_round` lays them out."""
    given = dict(zip(arguments[::2], arguments[1::2], strict=True))
    store = Store(given["--store"])
    for row in json.loads(Path(given["--snapshots"]).read_text()):
        if not row["is_context"]:
            cluster, at = row["cluster"], history.scheduled_at_of(row["snapshot_id"])
            for name in RESULT_TABLES:
                folder = f"results/{name}/round={given['--round']}/{CLUSTER_FOLDER}={cluster}"
                path = f"{folder}/{row['snapshot_id']}.parquet"
                store.write_table(path, results_table(name, [cluster], [at]))
