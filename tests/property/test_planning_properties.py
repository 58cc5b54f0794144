"""What holds for every plan, on clusters of all shapes: uneven racks, mixed replication factors, dead brokers.

An own judge (`tests/judge.py`) that knows nothing of the planner looks at the outcome.
"""

import json
import random
from dataclasses import replace

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.errors import RefusedError
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.document import from_document_text
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.planning import make_plan
from counterpoise.validation import find_violations
from tests.judge import assignment_of, executed, judge

PLENTY = settings(max_examples=60, deadline=None, derandomize=True)


@st.composite
def clusters(draw: st.DrawFn, *, dead: bool = True, most_brokers: int = 9) -> ClusterSnapshot:
    """A cluster with one to four racks or none, and partitions wherever chance put them."""
    broker_count = draw(st.integers(2, most_brokers))
    rack_count = draw(st.integers(0, 4))
    chance = random.Random(draw(st.integers(0, 2**32)))
    racks = [f"r{chance.randrange(rack_count)}" if rack_count else None for _ in range(broker_count)]
    fenced = draw(st.integers(1, broker_count)) if dead and broker_count > 2 and draw(st.booleans()) else None
    brokers = [{"id": n, "rack": rack, "fenced": n == fenced} for n, rack in enumerate(racks, start=1)]
    idle = draw(st.integers(0, broker_count // 2))
    holders = list(range(1, broker_count + 1 - idle))
    factors = draw(st.lists(st.integers(1, len(holders)), min_size=1, max_size=2))
    partitions = []
    for topic in range(draw(st.integers(1, 4))):
        factor = chance.choice(factors)
        for number in range(chance.randrange(1, 25)):
            replicas = chance.sample(holders, factor)
            able = [b for b in replicas if b != fenced]
            leader = chance.choice(able) if able else -1
            size = chance.choice([None, 0, 1000, int(chance.lognormvariate(10, 2))])
            partitions.append([f"t{topic}", number, replicas, leader, size, 0])
    return from_document_text(json.dumps({"cluster": "chance", "brokers": brokers, "partitions": partitions}))


@st.composite
def requests(draw: st.DrawFn, snapshot: ClusterSnapshot) -> PlanRequest | None:
    """A request that fits the cluster; None where none of the drawn kind does."""
    goal = draw(st.sampled_from([Goal.ADD_BROKERS, Goal.REMOVE_BROKERS, Goal.LEADERS, Goal.REBALANCE]))
    live = snapshot.live_broker_ids
    if goal in (Goal.LEADERS, Goal.REBALANCE):
        return PlanRequest(goal)
    highest = max(len(replicas) for replicas in assignment_of(snapshot).values())
    most = len(live) - 1 if goal is Goal.ADD_BROKERS else len(live) - highest
    if most < 1:
        return None
    count = draw(st.integers(1, min(most, 2)))
    return PlanRequest(goal, tuple(live[-count:]))


@PLENTY
@given(data=st.data())
def test_the_judge_finds_no_error_and_planning_again_moves_nothing(data: st.DataObject) -> None:
    snapshot = data.draw(clusters())
    request = data.draw(requests(snapshot))
    if request is None:
        return
    plan = make_plan(snapshot, request)
    assert judge(snapshot, plan).errors == ()
    assert find_violations(plan, snapshot, request.policy) == ()
    again = make_plan(executed(snapshot, plan), request)
    assert again.moves == (), f"{request}: planned again"
    assert again.reason
    assert bool(plan.reason) == plan.is_empty


@PLENTY
@given(data=st.data())
def test_undo_gives_the_replicas_back(data: st.DataObject) -> None:
    snapshot = data.draw(clusters())
    plan = make_plan(snapshot, PlanRequest(Goal.REBALANCE))
    assert assignment_of(executed(executed(snapshot, plan), plan, undo=True)) == assignment_of(snapshot)


@PLENTY
@given(snapshot=clusters(dead=False), seed=st.integers(0, 2**32))
def test_the_order_of_rows_does_not_matter(snapshot: ClusterSnapshot, seed: int) -> None:
    shuffle = random.Random(seed)
    tables = {}
    for name, table in snapshot.tables.items():
        rows = list(range(table.num_rows))
        shuffle.shuffle(rows)
        tables[name] = table.take(pa.array(rows, pa.int64()))
    mixed = replace(snapshot, tables=tables)
    for goal in (Goal.REBALANCE, Goal.LEADERS):
        assert make_plan(mixed, PlanRequest(goal)).to_json() == make_plan(snapshot, PlanRequest(goal)).to_json()


@PLENTY
@given(data=st.data())
def test_leaders_are_as_even_as_any_choice_could_be(data: st.DataObject) -> None:
    """Compared with augmenting paths, another exact method: no broker could pass a leadership on to a lighter one."""
    snapshot = data.draw(clusters(dead=False))
    plan = make_plan(snapshot, PlanRequest(Goal.LEADERS))
    verdict = judge(snapshot, plan)
    after = assignment_of(executed(snapshot, plan))
    can_reach: dict[int, set[int]] = {broker: set() for broker in verdict.leaders}
    for replicas in after.values():
        can_reach[replicas[0]].update(replicas[1:])
    for start, count in verdict.leaders.items():
        seen, queue = {start}, [start]
        while queue:
            for other in can_reach[queue.pop()] - seen:
                assert verdict.leaders[other] >= count - 1, f"{start} could pass a partition on to {other}"
                seen.add(other)
                queue.append(other)


@PLENTY
@given(snapshot=clusters(dead=False))
def test_rebalance_makes_counts_as_even_as_it_says(snapshot: ClusterSnapshot) -> None:
    plan = make_plan(snapshot, PlanRequest(Goal.REBALANCE))
    verdict = judge(snapshot, plan)
    assert verdict.replicas_max_minus_min <= 1 or any("replicas per broker" in warning for warning in plan.warnings)
    rack_count = len(set(snapshot.racks.values()))
    racks_can_be_met = all(
        len(replicas) >= rack_count or rack_count > 1 for replicas in assignment_of(snapshot).values()
    )
    assert verdict.rack_violations == 0 or not racks_can_be_met


@PLENTY
@given(snapshot=clusters(), excluded=st.sets(st.sampled_from(["t0", "t1"])))
def test_excluded_topics_are_not_touched(snapshot: ClusterSnapshot, excluded: set[str]) -> None:
    if set(snapshot.topics["topic"].to_pylist()) <= excluded:
        return
    policy = BalancePolicy(excluded_topics=tuple(sorted(excluded)))
    try:
        plan = make_plan(snapshot, PlanRequest(Goal.REBALANCE, policy=policy))
    except RefusedError:  # all that is left has no leader
        return
    assert not {move.topic for move in plan.moves} & excluded
