"""The benchmark of endurance computes what a month leaves behind as the product keeps it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.ledger_model import ledger_model
from benchmarks.month_checks import differences, month_checks
from benchmarks.month_events import Event, Kind
from benchmarks.simulated_month import (
    EVENTS_OF_A_RUN,
    Day,
    Fleet,
    Month,
)
from benchmarks.store_contents import expected_contents
from benchmarks.store_model import Content, StoreModel, kept_times
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


ONE = Fleet(clusters=1, large=0)


def contents_after(*events: Event, fleet: Fleet = ONE) -> dict[str, Content]:
    model = StoreModel(fleet)
    for event in events:
        model.add(event)
    return expected_contents(model)


def at(day: int, hour: int = 0, minute: int = 0) -> datetime:
    return datetime(2026, 10, day, hour, minute, tzinfo=UTC)


def snapshots(*times: datetime) -> list[Event]:
    return [Event(Kind.SNAPSHOT, time, "small-000", count=4) for time in times]


def test_what_an_analysis_leaves_goes_when_its_snapshots_do() -> None:
    """Loads of partitions after three days and the grace; tables of days after fourteen; the
    views of a month stay whole; a round is written again once half of it is gone.
    """
    analysed = [*snapshots(at(1), at(2), at(2, 1)), Event(Kind.ANALYSIS, at(2, 22))]

    def left(*compacted_at: datetime) -> dict[str, tuple[int, int | None]]:
        contents = contents_after(
            *analysed, *(Event(Kind.COMPACTION, time) for time in compacted_at)
        )
        return {
            place.replace("cluster_name=small-000", "").rstrip("/"): (content.files, content.rows)
            for place, content in contents.items()
            if place.startswith(("results", "views/small-000/series"))
        }

    whole = left(at(2, 23))
    assert whole["results/rounds"] == (1, None)
    assert whole["results/partition_load"] == (1, 36)
    assert whole["results/broker_load"] == whole["views/small-000/series/month=2026-10"] == (1, 9)
    assert "results/partition_load_daily/cluster=small-000/date=2026-10-01" not in whole
    days = left(at(6, 2))
    assert "results/partition_load" not in days
    assert days["results/broker_load"] == (1, 9)
    daily = "results/partition_load_daily/cluster=small-000/date=2026-10-0"
    assert (days[f"{daily}1"], days[f"{daily}2"]) == ((1, 0), (1, 12)), "no rate on the first day"
    thinned = left(at(6, 2), at(11))
    assert thinned["results/broker_load"] == (1, 9), "two of three are left"
    gone = left(at(6, 2), at(17))
    assert gone["results/broker_load"] == (1, 3), "the newest snapshot stays"
    assert f"{daily}2" not in gone
    assert gone["views/small-000/series/month=2026-10"] == (1, 9)


def test_pruning_deletes_the_rows_of_old_runs() -> None:
    runs = [Event(Kind.RUN, at(day, 12), "small-000", count=4) for day in (1, 2, 16)]
    first, second, third = (Event(Kind.PRUNE, at(day, 3)) for day in (12, 13, 24))
    assert ledger_model(ONE, [*runs[:2], first]) == {
        "clusters": 1,
        "plans": 2,
        "runs": 2,
        "pulses": 2,
        "step_locks": 1,
        "approvals": 1,
        "events": EVENTS_OF_A_RUN,
        "elections": 4,
    }, "the rows of the first run are gone"
    rows = ledger_model(ONE, [*runs[:2], first, second, runs[2], third])
    assert (rows["runs"], rows["elections"]) == (3, 4)
    assert rows["events"] == EVENTS_OF_A_RUN


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
