"""The benchmark of endurance computes what a month leaves behind as the product keeps it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.many_partitions import Shape
from benchmarks.month_checks import expected_files, kept_times, month_checks
from benchmarks.simulated_month import BEGIN, Clock, Day, Fleet, SimulatedStore, make_cluster
from counterpoise.history import snapshot_id_for, surviving
from counterpoise.model.policy import HistoryPolicy

NOW = datetime(2026, 10, 31, 3, 30, tzinfo=UTC)
POLICY = HistoryPolicy(
    keep_all=timedelta(days=3), keep_hourly=timedelta(days=7), keep_daily=timedelta(days=14)
)


def half_hours(days: int) -> list[datetime]:
    return [NOW - timedelta(minutes=30 * step) for step in range(days * 48)]


def test_what_is_kept_is_as_the_product_keeps_it() -> None:
    times = half_hours(20)
    by_id = {snapshot_id_for("demo", at): at for at in times}
    kept = surviving(({"snapshot_id": name} for name in by_id), POLICY, NOW)
    assert kept_times(times, NOW) == sorted(by_id[name] for name in kept)


def test_days_that_are_over_for_a_day_have_one_file() -> None:
    today = [NOW.replace(hour=hour) for hour in (0, 1, 2)]
    yesterday = [at - timedelta(days=1) for at in today]
    earlier = [at - timedelta(days=days) for at in today for days in (2, 3)]
    assert expected_files([*today, *yesterday, *earlier], NOW) == 3 + 3 + 1 + 1


def test_growth_is_a_miss_and_a_plateau_is_none() -> None:
    flat, grown = thirds(50, 100, 101), thirds(50, 100, 150)
    assert all(check.is_met for check in month_checks(flat, []))
    assert [check.is_met for check in month_checks(grown, [])] == [False, True, True]
    assert [check.is_met for check in month_checks(flat, ["one"])] == [True, True, False]


def test_a_ledger_that_grows_is_a_miss_once_checkpoints_have_rows_to_delete() -> None:
    def is_met(days_in_a_third: int) -> list[bool]:
        days = [
            Day(number + 1, 100, 1, 1, 1, database_bytes=1000 * (number // days_in_a_third + 1))
            for number in range(3 * days_in_a_third)
        ]
        return [check.is_met for check in month_checks(days, [])]

    assert is_met(days_in_a_third=10) == [True, False, True]
    assert is_met(days_in_a_third=3) == [True, True], "no row is old enough yet"


def thirds(*rss: int) -> list[Day]:
    """Draw a month of thirty days, whose thirds have this much memory."""
    return [Day(number + 1, rss[number // 10], 1, 1, 1, 1000) for number in range(30)]


def test_files_of_the_simulated_store_changed_at_the_simulated_time(tmp_path: Path) -> None:
    clock = Clock()
    clock.set(BEGIN)
    store = SimulatedStore(tmp_path, clock)
    store.write_text("a/b.json", "{}")
    (listed,) = store.files("a")
    info = store.info("a/b.json")
    assert listed.modified_at == BEGIN
    assert info is not None
    assert info.modified_at == BEGIN


def test_the_fleet_and_the_cluster_have_the_sizes_that_were_asked_for() -> None:
    fleet = Fleet(clusters=4, large=1, partitions_of_large=250)
    assert fleet.names == ("large-000", "small-001", "small-002", "small-003")
    assert len(make_cluster("large-000", 250).partitions) == 250
    assert Shape(partitions=20_000, moves=2_000).topics == 400
