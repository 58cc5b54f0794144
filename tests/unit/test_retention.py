"""What is kept of the history, and how days, rounds and files come to be merged and deleted."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.history import (
    DayPlan,
    each_once,
    outlived_rounds,
    plan_daily,
    plan_days,
    plan_rounds,
    scheduled_at_of,
    snapshot_id_for,
    surviving,
    unused,
)
from counterpoise.model.files import StoredFile
from counterpoise.model.policy import HistoryPolicy
from counterpoise.model.tables import SCHEMA_VERSION, SNAPSHOTS
from tests.support.examples import examples

POLICY = HistoryPolicy(
    timedelta(days=2), timedelta(days=4), timedelta(days=8), grace=timedelta(days=1)
)
NOW = datetime(2026, 3, 20, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def manifest(at: datetime, *, seen: timedelta = timedelta(), rows: int = 3) -> pa.Table:
    """Of a snapshot with two tables."""
    snapshot_id, folder = snapshot_id_for("demo", at), f"cluster=demo/date={at.date()}"
    files = [
        {
            "table": table,
            "path": f"history/{table}/{folder}/{snapshot_id}.parquet",
            "row_count": rows,
        }
        for table in ("brokers", "topics")
    ]
    row = {
        "snapshot_id": snapshot_id,
        "cluster": "demo",
        "cluster_id": "id",
        "observed_at": at + seen,
    }
    return pa.Table.from_pylist(
        [row | {"schema_version": SCHEMA_VERSION, "files": files}], schema=SNAPSHOTS
    )


def path_of(at: datetime) -> str:
    return f"history/snapshots/cluster=demo/date={at.date()}/{snapshot_id_for('demo', at)}.parquet"


def written(times: Iterable[datetime], **how: Any) -> dict[str, pa.Table]:
    return {path_of(at): manifest(at, **how) for at in times}


def compacted(
    files: dict[str, pa.Table], plan: DayPlan, *, broken_off_after: int | None = None
) -> dict[str, pa.Table]:
    """The manifest files after a compaction that stopped when it had deleted `broken_off_after`."""
    gone = plan.replaced[:broken_off_after]
    return {path: table for path, table in files.items() if path not in gone} | {
        plan.manifest_path: plan.manifest
    }


def kept(times: Iterable[datetime], now: datetime = NOW) -> list[datetime]:
    rows = [{"snapshot_id": snapshot_id_for("demo", at)} for at in times]
    return sorted(scheduled_at_of(snapshot_id) for snapshot_id in surviving(rows, POLICY, now))


def test_all_then_hourly_then_daily_then_nothing_by_whole_days() -> None:
    def four(day: int) -> list[datetime]:
        return [
            datetime(2026, 3, day, hour, minute, tzinfo=UTC)
            for hour in (7, 9)
            for minute in (5, 20)
        ]

    assert kept(four(18) + four(20)) == four(18) + four(20), "the 18th ended less than two days ago"
    assert kept(four(17) + four(20)) == four(17)[::2] + four(20)
    assert kept(four(16) + four(20)) == four(16)[::2] + four(20)
    assert kept(four(15) + four(20)) == four(15)[:1] + four(20)
    assert kept(four(12) + four(20)) == four(12)[:1] + four(20)
    assert kept(four(11) + four(20)) == four(20)


def test_the_newest_always_stays() -> None:
    old = [datetime(2020, 1, 1, hour, tzinfo=UTC) for hour in range(5)]
    assert kept(old) == old[-1:]
    assert kept([]) == []


moments = st.lists(
    st.integers(0, 14 * 24 * 4).map(lambda n: NOW - timedelta(minutes=15 * n)),
    unique=True,
    max_size=60,
)


@examples(60)
@given(times=moments, days=st.integers(0, 10))
def test_what_goes_in_two_steps_is_what_goes_in_one(times: list[datetime], days: int) -> None:
    later = NOW + days * DAY
    assert kept(kept(times), later) == kept(times, later)


def test_only_days_over_for_a_day_are_planned_and_a_finished_one_is_left_alone() -> None:
    times = [datetime(2026, 3, day, hour, tzinfo=UTC) for day in (18, 19, 20) for hour in (1, 2)]
    files = written(times)

    (plan,) = plan_days("demo", files, POLICY, NOW)

    assert (plan.day, plan.dropped_ids) == (date(2026, 3, 18), ())
    assert [merge.table for merge in plan.merges] == ["brokers", "topics"]
    for merge in plan.merges:
        assert merge.row_counts == {snapshot_id_for("demo", at): 3 for at in times[:2]}
        assert list(merge.files.values()) == [(snapshot_id_for("demo", at),) for at in times[:2]]
        assert merge.path.startswith(
            f"history/{merge.table}/cluster=demo/date=2026-03-18/compacted-"
        )
    assert plan.replaced == tuple(path_of(at) for at in times[:2])
    after = compacted(files, plan)
    assert plan_days("demo", after, POLICY, NOW) == ()
    assert {f["path"] for row in plan.manifest.to_pylist() for f in row["files"]} == {
        m.path for m in plan.merges
    }
    assert plan_days("demo", written(times[:1] + times[4:]), POLICY, NOW) == (), (
        "one file per table is few enough"
    )


def test_a_compacted_day_is_planned_again_and_one_without_survivors_keeps_its_mark() -> None:
    times = [
        datetime(2026, 3, 18, hour, minute, tzinfo=UTC) for hour in (1, 2) for minute in (0, 30)
    ]
    files = written([*times, NOW])
    (plan,) = plan_days("demo", files, POLICY, NOW)
    files = compacted(files, plan)

    (plan,) = plan_days("demo", files, POLICY, NOW + 1 * DAY)
    assert len(plan.dropped_ids) == 2
    assert all(len(merge.files) == 1 and len(merge.row_counts) == 2 for merge in plan.merges)
    files = compacted(files, plan)

    (plan,) = plan_days("demo", files, POLICY, NOW + 30 * DAY)
    assert (plan.merges, plan.manifest.num_rows) == ((), 0)
    files = compacted(files, plan)
    assert set(files) == {path_of(NOW), plan.manifest_path}
    assert plan_days("demo", files, POLICY, NOW + 30 * DAY) == ()


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_a_compaction_that_was_broken_off_is_ended_without_merging_again(gone: int) -> None:
    times = [datetime(2026, 3, 18, hour, tzinfo=UTC) for hour in (1, 2, 3)]
    files = written(times)
    (plan,) = plan_days("demo", files, POLICY, NOW)
    half = compacted(files, plan, broken_off_after=gone)

    (rest,) = plan_days("demo", half, POLICY, NOW)

    assert (rest.merges, rest.manifest_path, rest.manifest) == (
        (),
        plan.manifest_path,
        plan.manifest,
    )
    assert rest.replaced == plan.replaced[gone:]
    assert each_once(half) == plan.manifest


def test_a_snapshot_that_was_taken_again_counts_as_it_was_seen_last() -> None:
    times = [datetime(2026, 3, 18, hour, tzinfo=UTC) for hour in (1, 2)]
    files = written(times)
    (first,) = plan_days("demo", files, POLICY, NOW)
    files = compacted(files, first) | written(times[:1], seen=timedelta(hours=30), rows=4)

    (plan,) = plan_days("demo", files, POLICY, NOW)

    assert plan.merges[0].row_counts == {
        snapshot_id_for("demo", times[0]): 4,
        snapshot_id_for("demo", times[1]): 3,
    }
    assert sorted(len(ids) for ids in plan.merges[0].files.values()) == [1, 1]
    assert plan.manifest_path != first.manifest_path
    assert set(plan.replaced) == {first.manifest_path, path_of(times[0])}


def test_a_file_goes_when_nothing_names_it_and_the_grace_is_over_for_file_and_day() -> None:
    def file(name: str, age: timedelta | None) -> StoredFile:
        path = f"history/brokers/cluster=demo/date=2026-03-18/{name}"
        return StoredFile(path, 1, None if age is None else NOW - age)

    files = [
        file("old", 3 * DAY),
        file("named", 3 * DAY),
        file("young", DAY / 2),
        file("no-time", None),
    ]
    work = StoredFile("work/1/x", 1, NOW - 3 * DAY)
    named = [files[1].path]
    place = ("demo", date(2026, 3, 18))

    def gone(changed: dict[tuple[str, date], datetime]) -> tuple[str, ...]:
        return unused([*files, work], named, changed, grace=DAY, now=NOW)

    assert gone({}) == (files[0].path, work.path)
    assert gone({place: NOW - 2 * DAY}) == (files[0].path, work.path)
    assert gone({place: NOW - DAY / 2}) == (work.path,), (
        "somebody may just have read the old manifest"
    )


def round_of(
    name: str, finished_at: datetime | None, *times: datetime, previous: str | None = None
) -> dict[str, Any]:
    rows = [
        {
            "snapshot_id": snapshot_id_for("demo", at),
            "cluster": "demo",
            "previous_snapshot_id": previous,
        }
        for at in times
    ]
    document = {"round": name, "snapshots": rows}
    return document if finished_at is None else document | {"finished_at": finished_at.isoformat()}


def test_rounds_of_a_day_become_one_and_the_last_result_of_a_snapshot_counts() -> None:
    one, two, three = (datetime(2026, 3, 18, hour, tzinfo=UTC) for hour in (1, 2, 3))
    rounds = [
        round_of("r1", one, one, two),
        round_of("r2", two, two),
        round_of("r3", three, three),
        round_of("today", NOW, NOW),
    ]
    existing = {snapshot_id_for("demo", at) for at in (one, two, NOW)}  # the third is gone

    (merge,) = plan_rounds(rounds, existing, POLICY, NOW)

    first, second = snapshot_id_for("demo", one), snapshot_id_for("demo", two)
    assert merge.snapshot_ids_by_round == {"r1": (first,), "r2": (second,), "r3": ()}
    assert [row["snapshot_id"] for row in merge.document["snapshots"]] == [first, second]
    assert merge.document["finished_at"] == three.isoformat()
    assert merge.document["merged"] == ["r1", "r2", "r3"]
    assert merge.name.startswith("merged-2026-03-18-")
    assert plan_rounds([merge.document, rounds[3]], existing, POLICY, NOW) == ()


def test_days_become_a_month_without_their_loads_and_a_half_empty_month_is_remade() -> None:
    times = [datetime(2026, 2, day, 5, tzinfo=UTC) for day in (3, 4, 26, 28)]
    rounds = [round_of(f"r{n}", at, at) for n, at in enumerate(times)]
    existing = {snapshot_id_for("demo", at) for at in times}
    early = datetime(2026, 3, 3, 12, tzinfo=UTC)  # the month ended less than keep_all and grace ago
    assert plan_rounds(rounds, existing, POLICY, early) == ()
    assert outlived_rounds(rounds, POLICY, early) == ("r0", "r1", "r2")

    (merge,) = plan_rounds(rounds, existing, POLICY, NOW)
    assert merge.name.startswith("merged-2026-02-")
    assert len(merge.document["snapshots"]) == 4
    month = [merge.document]
    assert plan_rounds(month, existing - {snapshot_id_for("demo", times[0])}, POLICY, NOW) == ()
    (again,) = plan_rounds(month, {snapshot_id_for("demo", at) for at in times[2:]}, POLICY, NOW)
    assert [row["snapshot_id"] for row in again.document["snapshots"]] == [
        snapshot_id_for("demo", at) for at in times[2:]
    ]
    (nothing,) = plan_rounds(month, set(), POLICY, NOW)
    assert nothing.document["snapshots"] == []
    assert plan_rounds([nothing.document], set(), POLICY, NOW) == ()


def test_a_days_loads_are_made_while_all_is_kept_and_again_only_when_a_result_changes() -> None:
    one, two = (datetime(2026, 3, 18, hour, tzinfo=UTC) for hour in (1, 2))
    old, young = datetime(2026, 3, 17, 1, tzinfo=UTC), datetime(2026, 3, 19, 1, tzinfo=UTC)
    rounds = [round_of("r1", one, one, two, old), round_of("r2", young, young)]

    thinned, plan = plan_daily("partition_load", rounds, {"demo": POLICY}, NOW)

    assert (thinned.day, thinned.is_thinned, plan.is_thinned) == (old.date(), True, False)
    assert (plan.day, plan.snapshot_ids_by_round) == (
        one.date(),
        {"r1": (snapshot_id_for("demo", one), snapshot_id_for("demo", two))},
    )
    assert plan.path == "results/partition_load_daily/cluster=demo/date=2026-03-18/loads.parquet"
    assert plan_daily("partition_load", rounds, {"other": POLICY}, NOW) == ()
    one_round = [round_of("merged", one, one, two, old)]
    _, merged = plan_daily("partition_load", one_round, {"demo": POLICY}, NOW)
    assert merged.digest == plan.digest
    again = round_of("r3", NOW, two, previous=snapshot_id_for("demo", one))
    _, changed = plan_daily("partition_load", [*rounds, again], {"demo": POLICY}, NOW)
    assert changed.digest != plan.digest
    assert changed.snapshot_ids_by_round["r3"] == (snapshot_id_for("demo", two),)


def test_the_policy_of_each_cluster_says_when_its_days_are_thinned_out() -> None:
    """And a table is made of what is left for as long as anything is kept: compaction may have been
    paused for longer than all is kept.
    """
    day = datetime(2026, 3, 15, 1, tzinfo=UTC)
    longer = HistoryPolicy(timedelta(days=14))
    for table in ("topic_load", "partition_load"):
        for policy, is_thinned in ((POLICY, True), (longer, False)):
            (plan,) = plan_daily(table, [round_of("r1", day, day)], {"demo": policy}, NOW)
            assert plan.is_thinned == is_thinned
    gone = NOW - POLICY.keep_daily - timedelta(days=2)
    assert plan_daily("partition_load", [round_of("r1", gone, gone)], {"demo": POLICY}, NOW) == ()
