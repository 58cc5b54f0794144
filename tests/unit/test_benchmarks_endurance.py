"""The benchmark of endurance computes what a month leaves behind as the product keeps it."""

from pathlib import Path

from benchmarks.month_checks import differences, month_checks
from benchmarks.simulated_month import (
    Day,
    Fleet,
    Month,
)


def test_a_month_leaves_what_the_models_say_and_any_other_file_or_row_is_told(
    tmp_path: Path,
) -> None:
    """Without analyses and runs, which would start Spark."""
    month = Month(
        tmp_path, Fleet(clusters=2, large=1, days=17, runs_a_day=0, analysed_every_days=99)
    )
    for _ in month.days():
        pass
    assert list(differences(month)) == []
    day = month.store_folder / "history/brokers/cluster=large-000/date=2026-10-10"
    (file,) = day.iterdir()
    file.with_name("twice.parquet").write_bytes(file.read_bytes())
    (told,) = differences(month)
    assert told.endswith("date=2026-10-10: 2 files with 6 rows, expected 1 files with 3 rows")
    file.with_name("twice.parquet").unlink()
    file.unlink()
    (told,) = differences(month)
    assert told.endswith("date=2026-10-10: nothing, expected 1 files with 3 rows")


def test_growth_is_a_miss_and_a_plateau_is_none() -> None:
    flat, grown = thirds(50, 100, 101), thirds(50, 100, 150)
    assert all(check.is_met for check in month_checks(flat, []))
    assert [check.is_met for check in month_checks(grown, [])] == [False, True, True]
    assert [check.is_met for check in month_checks(flat, ["one"])] == [True, True, False]


def test_a_ledger_that_grows_is_a_miss_once_pruning_has_rows_to_delete() -> None:
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
