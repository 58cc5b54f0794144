"""Rates for the planner are means of a week, so that planning again does not swing."""

import math
import random

import pyarrow as pa

from counterpoise.analysis import typical_bytes_in, with_inflow
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.planning import make_plan
from counterpoise.services.snapshots import spread_out
from tests.support.goal_judge import executed
from tests.support.loads import partitions
from tests.support.pictures import cluster

HOURS_IN_WEEK = 168
REBALANCE = PlanRequest(Goal.REBALANCE)


def rate_at(partition: int, hour: int, chance: random.Random) -> int:
    """A daily peak at another hour for each partition, less at weekends, and noise."""
    usual = 1000 * (6 if partition % 3 == 0 else 1 + partition % 5)
    daily = 1 + 0.8 * math.sin((hour + 5 * partition) * math.tau / 24)
    weekly = 0.4 if hour // 24 % 7 >= 5 else 1.0
    return int(usual * daily * weekly * chance.uniform(0.7, 1.3))


def loads_of_two_weeks() -> list[pa.Table]:
    chance = random.Random(11)
    return [
        partitions(hour, {"t": [rate_at(partition, hour, chance) for partition in range(60)]})
        for hour in range(2 * HOURS_IN_WEEK)
    ]


def planned_on(snapshot: ClusterSnapshot, hours: list[pa.Table]) -> ClusterSnapshot:
    unrated = with_no_rates(snapshot)
    return with_inflow(unrated, typical_bytes_in(pa.concat_tables(hours), unrated.partitions))


def with_no_rates(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    table = snapshot.partitions
    index = table.schema.get_field_index("bytes_in_per_second")
    nulls = pa.nulls(table.num_rows, pa.int64())
    tables = {**snapshot.tables, "partitions": table.set_column(index, table.schema[index], nulls)}
    return ClusterSnapshot(
        snapshot.snapshot_id, snapshot.cluster, snapshot.cluster_id, snapshot.observed_at, tables
    )


def test_planning_again_every_day_of_a_week_does_not_swing() -> None:
    """The mean of a week asks for one plan; single hours would ask for one again and again."""
    hours = loads_of_two_weeks()
    lines = [f"t-{n}: {1 + n % 3} {1 + (n + 1) % 3} size=1000" for n in range(60)]
    snapshot = cluster("\n".join(lines), racks="1 2 3")
    plan = make_plan(planned_on(snapshot, hours[:HOURS_IN_WEEK]), REBALANCE)
    assert plan.moves
    now = executed(planned_on(snapshot, hours[:HOURS_IN_WEEK]), plan)
    by_week, by_hour = 0, 0
    for day in range(1, 8):
        end = HOURS_IN_WEEK + 24 * day
        week = planned_on(now, hours[end - HOURS_IN_WEEK : end])
        by_week += bool(make_plan(week, REBALANCE).moves)
        by_hour += bool(make_plan(planned_on(now, [hours[end - 1]]), REBALANCE).moves)
    assert by_week == 0
    assert by_hour > 0


def test_of_too_many_snapshots_some_are_taken_from_all_hours_of_the_week() -> None:
    ids = [f"s-{hour:03}" for hour in range(HOURS_IN_WEEK)]
    chosen = [int(name[2:]) for name in spread_out(ids, 28)]
    assert len(chosen) == len(set(chosen)) == 28
    assert {hour // 24 for hour in chosen} == set(range(7))
    assert len({hour % 24 for hour in chosen}) > 16
    assert spread_out(ids, 500) == tuple(ids)
