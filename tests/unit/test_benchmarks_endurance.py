"""The benchmark of endurance computes what a month leaves behind as the product keeps it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from benchmarks.ledger_model import ledger_model
from benchmarks.many_partitions import Shape
from benchmarks.month_checks import differences, month_checks
from benchmarks.month_events import Event, Kind
from benchmarks.simulated_month import (
    BEGIN,
    EVENTS_OF_A_RUN,
    Clock,
    Day,
    Fleet,
    Month,
    SimulatedStore,
    make_cluster,
)
from benchmarks.store_contents import differing, expected_contents, found_contents
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
PARTITIONS = "history/partitions/cluster=small-000/date="


def contents_after(*events: Event, fleet: Fleet = ONE) -> dict[str, Content]:
    model = StoreModel(fleet)
    for event in events:
        model.add(event)
    return expected_contents(model)


def at(day: int, hour: int = 0, minute: int = 0) -> datetime:
    return datetime(2026, 10, day, hour, minute, tzinfo=UTC)


def snapshots(*times: datetime) -> list[Event]:
    return [Event(Kind.SNAPSHOT, time, "small-000", count=4) for time in times]


def test_days_that_are_over_for_a_day_have_one_file() -> None:
    events = snapshots(*(at(day, hour) for day in (5, 6, 7, 8) for hour in (0, 1, 2)))
    contents = contents_after(*events, Event(Kind.COMPACTION, at(8, 3)))
    found = {day: contents[f"{PARTITIONS}2026-10-{day:02d}"] for day in (5, 6, 7, 8)}
    alone, together = Content(3, 36), Content(1, 36)
    assert found == {5: together, 6: together, 7: alone, 8: alone}


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


def test_audits_and_pages_are_kept_as_snapshots_are() -> None:
    audits = [Event(Kind.AUDIT, at(day, 21)) for day in (1, 10, 20)]
    contents = contents_after(*audits, Event(Kind.COMPACTION, at(21)))
    assert {place for place in contents if place.startswith(("audits", "reports"))} == {
        *(f"audits/small-000/small-000-202610{day}T210000Z.json" for day in (10, 20)),
        *(f"reports/small-000/audit-2026-10-{day}.html" for day in (10, 20)),
        *(f"reports/small-000/audit.{suffix}" for suffix in ("html", "json")),
    }


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


@pytest.mark.parametrize(
    ("path", "place"),
    {
        "plans/0.json": "plans",
        "reports/small-001/audit-2026-10-01.html": "reports/small-001/audit-2026-10-01.html",
        "reports/small-001/runs/a-run.html": "reports/small-001/runs",
        "results/rounds/day-2.json": "results/rounds",
        "aside/large-000/1/x.json": "aside/large-000/1",
    }.items(),
)
def test_a_file_that_nothing_explains_is_told(tmp_path: Path, path: str, place: str) -> None:
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    assert list(differing(found_contents(tmp_path), {})) == [f"{place}: 1 files, expected nothing"]


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
