"""Names of the history's files, and a snapshot's way into tables and back."""

import json
from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pytest

from counterpoise.errors import InputError
from counterpoise.history import (
    HistoryError,
    files_of,
    from_tables,
    history_files,
    manifest_of,
    scheduled_at_of,
    snapshot_id_for,
)
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.document import from_document_text

BEFORE_MIDNIGHT = datetime(2026, 11, 20, 23, 59, tzinfo=UTC)


def snapshot(
    scheduled_at: datetime = BEFORE_MIDNIGHT, cluster: str = "pay.eu-1"
) -> ClusterSnapshot:
    document = {
        "cluster": cluster,
        "cluster_id": "Kafka-Id",
        "snapshot_id": snapshot_id_for(cluster, scheduled_at),
        "observed_at": (
            # after midnight
            scheduled_at + timedelta(minutes=3)
        ).isoformat(),
        "brokers": [
            {"id": 1, "rack": "a", "log_dirs": [{"path": "/data", "total_bytes": 9}]},
            {"id": 2},
        ],
        "partitions": [["orders", 0, [1, 2], 1, 100, 5]],
    }
    return from_document_text(json.dumps(document))


def test_names_come_from_the_scheduled_time_whatever_the_clock_says() -> None:
    path, _ = manifest_of(snapshot())
    assert (
        path
        == "history/snapshots/cluster=pay.eu-1/date=2026-11-20/pay.eu-1-20261120T235900Z.parquet"
    )
    assert (
        "history/replicas/cluster=pay.eu-1/date=2026-11-20/pay.eu-1-20261120T235900Z.parquet"
        in history_files(snapshot())
    )


def test_one_instant_has_one_id_in_every_time_zone() -> None:
    here = BEFORE_MIDNIGHT.replace(microsecond=40).astimezone(timezone(timedelta(hours=5)))
    assert snapshot_id_for("demo", here) == "demo-20261120T235900.000040Z"
    assert scheduled_at_of("demo-20261120T235900.000040Z") == here


@pytest.mark.parametrize("name", ["../etc", "a/b", "", "Prod", "a b", ".hidden"])
def test_a_cluster_name_never_leaves_its_folder(name: str) -> None:
    with pytest.raises(InputError, match="lower-case"):
        snapshot_id_for(name, BEFORE_MIDNIGHT)


@pytest.mark.parametrize(
    "snapshot_id",
    ["document-0123456789abcdef", "demo", "demo-20261341T000000Z", "../x-20261120T000000Z"],
)
def test_an_id_of_another_kind_has_no_path(snapshot_id: str) -> None:
    with pytest.raises(InputError, match="not one of the history"):
        scheduled_at_of(snapshot_id)


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(InputError, match="no time zone"):
        snapshot_id_for("demo", datetime(2026, 11, 20))


def test_a_snapshot_comes_back_as_it_was() -> None:
    before = snapshot()
    row = manifest_of(before)[1].to_pylist()[0]
    written = history_files(before)

    after = from_tables(row, {table: written[path] for table, path in files_of(row).items()})

    assert after == before
    assert after.observed_at == before.observed_at


def test_a_lost_column_and_a_lost_table_are_named() -> None:
    one = snapshot()
    row = manifest_of(one)[1].to_pylist()[0]

    with pytest.raises(HistoryError, match=r"history/replicas/.*\.parquet lacks columns: position"):
        from_tables(row, {**one.tables, "replicas": one.replicas.drop_columns(["position"])})
    without = {name: table for name, table in one.tables.items() if name != "log_dirs"}
    with pytest.raises(HistoryError, match="'log_dirs'"):
        from_tables(row, without)


def test_a_file_of_many_snapshots_gives_the_rows_of_the_one() -> None:
    one, other = snapshot(), snapshot(BEFORE_MIDNIGHT + timedelta(hours=1))
    row = manifest_of(one)[1].to_pylist()[0]

    def shared(name: str) -> pa.Table:
        parts = [
            (s.tables[name], pa.array([s.snapshot_id] * s.tables[name].num_rows, pa.string()))
            for s in (other, one)
        ]
        return pa.concat_tables([table.append_column("snapshot_id", ids) for table, ids in parts])

    tables = {name: shared(name) for name in files_of(row)}
    assert from_tables(row, tables) == one
    with pytest.raises(HistoryError, match="has 0 rows, its manifest says 2"):
        from_tables(row, {**tables, "brokers": tables["brokers"].slice(0, 2)})


def test_half_a_file_and_a_newer_schema_are_named() -> None:
    one = snapshot()
    row = manifest_of(one)[1].to_pylist()[0]
    with pytest.raises(HistoryError, match="has 1 rows, its manifest says 2"):
        from_tables(row, {**one.tables, "brokers": one.brokers.slice(0, 1)})
    with pytest.raises(HistoryError, match="schema version 99"):
        files_of(row | {"schema_version": 99})
    with pytest.raises(HistoryError, match="'quorum'"):
        from_tables(row, {name: table for name, table in one.tables.items() if name != "quorum"})
