"""Which snapshots are analysed next, what they are compared with, and the series made of them."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from counterpoise.analysis import rounds
from counterpoise.analysis.rounds import Round
from counterpoise.analysis.series import each_once, series_rows
from counterpoise.history import scheduled_at_of, snapshot_id_for
from counterpoise.model.tables import (
    BROKER_BALANCE,
    BROKER_LOAD,
    LEADER_CHANGES,
    SCHEMA_VERSION,
    SERIES,
    SNAPSHOT_CHANGES,
    SNAPSHOTS,
)

NO_LEADER_CHANGES = LEADER_CHANGES.empty_table()
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def next_round(
    found: pa.Table, analysed: dict[str, str | None], left_out: Sequence[str] = ()
) -> Round:
    return rounds.next_round(found, analysed, left_out, scheduled_at=scheduled_at_of)


def at(hour: int, cluster: str = "demo") -> str:
    return snapshot_id_for(cluster, NOON + timedelta(hours=hour))


def manifests(*hours: int, cluster: str = "demo") -> pa.Table:
    rows = [
        {
            "snapshot_id": at(hour, cluster),
            "cluster": cluster,
            "cluster_id": "x",
            "observed_at": NOON + timedelta(hours=hour, seconds=5),
            "schema_version": SCHEMA_VERSION,
            "files": [{"table": "brokers", "path": f"{hour}.parquet", "row_count": 3}],
        }
        for hour in hours
    ]
    return pa.Table.from_pylist(rows, schema=SNAPSHOTS)


def shown(found: Round) -> list[tuple[str, str | None, bool]]:
    return [
        (row["snapshot_id"], row["previous_snapshot_id"], row["is_context"]) for row in found.rows
    ]


def test_each_new_snapshot_is_compared_with_the_one_before_it() -> None:
    assert shown(next_round(manifests(2, 0, 1), {})) == [
        (at(0), None, False),
        (at(1), at(0), False),
        (at(2), at(1), False),
    ]


def test_what_is_analysed_is_only_there_to_compare_with() -> None:
    found = next_round(manifests(0, 1, 2), {at(0): None, at(1): at(0)})
    assert shown(found) == [(at(1), None, True), (at(2), at(1), False)]
    assert [row["snapshot_id"] for row in found.to_analyse] == [at(2)]
    assert found.row_count == 6


def test_nothing_new_is_an_empty_round() -> None:
    assert next_round(manifests(0, 1), {at(0): None, at(1): at(0)}).rows == ()


def test_a_snapshot_that_comes_late_has_the_one_after_it_analysed_anew() -> None:
    found = next_round(manifests(0, 1, 2), {at(0): None, at(2): at(0)})
    assert shown(found) == [(at(0), None, True), (at(1), at(0), False), (at(2), at(1), False)]


def test_the_very_first_one_that_comes_late_too() -> None:
    assert shown(next_round(manifests(0, 1), {at(1): None})) == [
        (at(0), None, False),
        (at(1), at(0), False),
    ]


def test_a_snapshot_that_retention_took_away_changes_no_result() -> None:
    assert next_round(manifests(0, 2), {at(0): None, at(2): at(1)}).rows == ()
    assert next_round(manifests(2), {at(2): at(1)}).rows == ()


def test_how_long_a_rate_may_be_a_mean_follows_how_often_snapshots_are_made() -> None:
    hourly = next_round(manifests(0, 1, 2, 3, 40), {})
    assert [row["max_seconds"] for row in hourly.rows] == [26 * 3600] * 5
    daily = next_round(manifests(0, 24, 48, 72, 96), {})
    assert [row["max_seconds"] for row in daily.rows] == [26 * 3600] * 3 + [60 * 3600] * 2


@pytest.mark.parametrize(
    ("clock", "is_known"),
    [
        (1.4, True),  # 24 minutes late
        (1.6, False),
        (4.0, False),  # three hours ahead, or late: nobody knows
        (0.001, False),
    ],
)
def test_no_rate_is_known_where_clock_and_schedule_contradict_each_other(
    clock: float, is_known: bool
) -> None:
    """Snapshots of 12:00 and 13:00."""
    table = manifests(0, 1).to_pylist()
    table[1]["observed_at"] = table[0]["observed_at"] + timedelta(hours=clock)
    found = next_round(pa.Table.from_pylist(table, schema=SNAPSHOTS), {})
    assert found.rows[1]["max_seconds"] == (26 * 3600 if is_known else 0)


def test_a_schedule_that_became_slower_is_known_by_its_second_interval() -> None:
    """Hourly for a day, then every two days; one snapshot that is missing changes nothing."""
    slower = next_round(manifests(*range(25), 72, 120, 168), {}).rows[-3:]
    assert [row["max_seconds"] for row in slower] == [26 * 3600, 2.5 * 48 * 3600, 2.5 * 48 * 3600]
    daily = [24 * day for day in range(10)]
    with_a_gap = next_round(manifests(*daily, 312, 336), {}).rows[-2:]
    assert [row["max_seconds"] for row in with_a_gap] == [60 * 3600] * 2


def test_a_long_backlog_is_several_rounds_each_with_what_it_is_compared_with() -> None:
    """Each snapshot has three rows."""
    backlog = manifests(*range(5))
    analysed: dict[str, str | None] = {}
    found = []
    while (round_ := next_round(backlog, analysed).begin(6)).to_analyse:
        found.append(shown(round_))
        analysed |= {row["snapshot_id"]: row["previous_snapshot_id"] for row in round_.to_analyse}
    assert found == [
        [(at(0), None, False), (at(1), at(0), False)],
        [(at(1), None, True), (at(2), at(1), False)],
        [(at(2), None, True), (at(3), at(2), False)],
        [(at(3), None, True), (at(4), at(3), False)],
    ]
    assert len(next_round(backlog, {}).begin(1).rows) == 1


def test_clusters_are_never_compared_with_one_another() -> None:
    both = pa.concat_tables([manifests(0, 2), manifests(1, cluster="other")])
    assert shown(next_round(both, {})) == [
        (at(0), None, False),
        (at(1, "other"), None, False),
        (at(2), at(0), False),
    ]


def test_what_cannot_be_read_is_as_if_it_were_not_there() -> None:
    assert shown(next_round(manifests(0, 1, 2), {at(0): None}, left_out=[at(1)])) == [
        (at(0), None, True),
        (at(2), at(0), False),
    ]


def test_the_jobs_get_json_with_times_that_everybody_reads() -> None:
    (row,) = json.loads(next_round(manifests(0), {}).to_json())
    assert row["observed_at"] == "2026-01-31T12:00:05+00:00"
    assert (row["previous_snapshot_id"], row["is_context"]) == (None, False)


def balance(hour: int, *broker_ids: int, leaders: int = 1) -> pa.Table:
    rows = [
        keys(hour)
        | {
            "broker_id": b,
            "is_fenced": False,
            "leaders": leaders,
            "preferred_leaders": 1,
            "leaders_not_preferred": 0,
        }
        | {"replicas": 1, "bytes": 7}
        for b in broker_ids
    ]
    return pa.Table.from_pylist(rows, schema=BROKER_BALANCE)


def keys(hour: int) -> dict[str, Any]:
    return {"cluster": "demo", "snapshot_id": at(hour), "observed_at": NOON + timedelta(hours=hour)}


def load(hour: int, **rates: int) -> pa.Table:
    rows = [
        keys(hour)
        | {
            "broker_id": int(b[1:]),
            "leader_bytes_in_per_second": rate,
            "rates_known": 1,
            "rates_unknown": 0,
        }
        for b, rate in rates.items()
    ]
    return pa.Table.from_pylist(rows, schema=BROKER_LOAD)


def test_the_series_has_a_row_for_each_broker_though_nothing_is_known_of_its_load() -> None:
    changes = (
        keys(0)
        | dict.fromkeys(SNAPSHOT_CHANGES.names[7:], 0)
        | {"cluster_id": "x", "is_rebuilt": False}
    )
    series = series_rows(
        balance(0, 2, 1),
        load(0, b2=50),
        pa.Table.from_pylist([changes], schema=SNAPSHOT_CHANGES),
        NO_LEADER_CHANGES,
    )
    assert series.schema == SERIES
    assert series["broker_id"].to_pylist() == [1, 2]
    assert series["leader_bytes_in_per_second"].to_pylist() == [None, 50]
    assert series["cluster_id"].to_pylist() == ["x", "x"]


def test_results_of_a_snapshot_that_was_analysed_anew_replace_the_earlier_ones() -> None:
    others = [BROKER_LOAD.empty_table(), SNAPSHOT_CHANGES.empty_table(), NO_LEADER_CHANGES]
    series = series_rows(pa.concat_tables([balance(0, 1), balance(1, 1)]), *others)
    again = series_rows(pa.concat_tables([balance(1, 1, leaders=9), balance(2, 1)]), *others)
    whole = each_once([series, again])
    assert whole["snapshot_id"].to_pylist() == [at(0), at(1), at(2)]
    assert whole["leaders"].to_pylist() == [1, 9, 1]


def test_the_comparison_with_the_nearest_snapshot_counts_in_whatever_order_files_are_read() -> None:
    far, near = (
        series_rows(
            balance(2, 1, leaders=leaders),
            BROKER_LOAD.empty_table(),
            pa.Table.from_pylist([changes_since(before)], schema=SNAPSHOT_CHANGES),
            NO_LEADER_CHANGES,
        )
        for leaders, before in ((1, 0), (9, 1))
    )
    for tables in ([far, near], [near, far]):
        assert each_once(tables)["leaders"].to_pylist() == [9]


def changes_since(hour: int) -> dict[str, Any]:
    counts = dict.fromkeys(SNAPSHOT_CHANGES.names[7:], 0)
    about = {"cluster_id": "x", "is_rebuilt": False, "previous_snapshot_id": at(hour)}
    return keys(2) | counts | about
