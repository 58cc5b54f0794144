"""What holds for every plan, on clusters of all shapes: uneven racks, mixed replication factors,
dead brokers.

An own judge (`tests/support/goal_judge.py`) that knows nothing of the planner looks at the outcome.
"""

import itertools
import json
import random
from collections import Counter
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.errors import InputError, RefusedError
from counterpoise.model.broker_weight import BrokerWeight, Weighing
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.document import from_document_text
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.request import GOALS_WITH_BROKERS, PLANNED_GOALS, Goal, PlanRequest, Scope
from counterpoise.planning import make_plan
from counterpoise.validation import find_violations
from tests.support.examples import examples
from tests.support.goal_judge import assignment_of, executed, judge

pytestmark = pytest.mark.usefixtures("short_search")
PLENTY = examples(60)
FEW = examples(25)


@st.composite
def clusters(draw: st.DrawFn, *, dead: bool = True, most_brokers: int = 9) -> ClusterSnapshot:
    """A cluster with one to four racks or none, partitions wherever chance put them, and sometimes
    disks, which may differ.
    """
    broker_count = draw(st.integers(2, most_brokers))
    rack_count = draw(st.integers(0, 4))
    chance = random.Random(draw(st.integers(0, 2**32)))
    racks = [
        f"r{chance.randrange(rack_count)}" if rack_count else None for _ in range(broker_count)
    ]
    max_dead = min(2, broker_count - 2) if dead else 0
    fenced = set(draw(st.lists(st.integers(1, broker_count), max_size=max_dead)))
    brokers = [
        {"id": n, "rack": rack, "fenced": n in fenced} for n, rack in enumerate(racks, start=1)
    ]
    idle = draw(st.integers(0, broker_count // 2))
    holders = list(range(1, broker_count + 1 - idle))
    factors = draw(st.lists(st.integers(1, len(holders)), min_size=1, max_size=2))
    partitions = []
    rates_of_topics = draw(st.sampled_from([[0], [None], [None, 0, 5000]]))
    for topic in range(draw(st.integers(1, 4))):
        factor, rate = chance.choice(factors), chance.choice(rates_of_topics)
        for number in range(chance.randrange(1, 25)):
            replicas = chance.sample(holders, factor)
            able = [b for b in replicas if b not in fenced]
            leader = chance.choice(able) if able else -1
            size = chance.choice([None, 0, 1000, int(chance.lognormvariate(10, 2))])
            partitions.append([f"t{topic}", number, replicas, leader, size, rate])
    if largest := draw(st.sampled_from([0, 0, 1, 4])):
        held = Counter(
            {b: sum(row[4] or 0 for row in partitions if b in row[2]) for b in range(20)}
        )
        for broker in brokers:
            total = 10**8 * chance.choice([1, largest])
            usable = total - held[broker["id"]]
            broker["log_dirs"] = [{"path": "/d", "total_bytes": total, "usable_bytes": usable}]
    return from_document_text(
        json.dumps({"cluster": "chance", "brokers": brokers, "partitions": partitions})
    )


@st.composite
def scopes(draw: st.DrawFn, snapshot: ClusterSnapshot, named: tuple[int, ...]) -> Scope:
    """Often everything; else some topics or brokers are left out, but none that the goal names."""
    if draw(st.booleans()):
        return Scope()
    topics = sorted(snapshot.topics["topic"].to_pylist())
    others = [b for b in snapshot.registered_broker_ids if b not in named]
    some_topics = tuple(draw(st.lists(st.sampled_from(topics), max_size=2, unique=True)))
    some_brokers = (
        tuple(draw(st.lists(st.sampled_from(others), max_size=2, unique=True))) if others else ()
    )
    if draw(st.booleans()):
        return Scope(excluded_topics=some_topics, excluded_broker_ids=some_brokers)
    only = tuple(sorted({*named, *others} - set(some_brokers))) if some_brokers else ()
    return Scope(topics=some_topics, broker_ids=only)


@st.composite
def requests(draw: st.DrawFn, snapshot: ClusterSnapshot) -> PlanRequest:
    """A request of any kind. It may not fit: then the planner has to say so."""
    goal = draw(st.sampled_from(PLANNED_GOALS))
    named: tuple[int, ...] = ()
    if goal is Goal.RELIEF:
        return PlanRequest(
            goal, scope=draw(scopes(snapshot, ())), below_percent=draw(st.integers(1, 12))
        )
    if goal is Goal.REPLACE_BROKERS:
        old, new = draw(st.permutations(snapshot.registered_broker_ids))[:2]
        scope = draw(scopes(snapshot, (old, new)))
        return PlanRequest(goal, (old,), scope=scope, new_broker_ids=(new,))
    if goal in GOALS_WITH_BROKERS:
        named = snapshot.live_broker_ids[-draw(st.integers(1, 2)) :]
    elif goal is Goal.REPAIR and draw(st.booleans()):
        named = tuple(sorted(set(snapshot.registered_broker_ids) - set(snapshot.live_broker_ids)))
    scope = draw(scopes(snapshot, named))
    if goal is not Goal.REPLICATION_FACTOR:
        return PlanRequest(goal, named, scope=scope)
    scope = replace(scope, topics=scope.topics or ("*",))
    return PlanRequest(goal, scope=scope, replication_factor=draw(st.integers(1, 4)))


def planned(snapshot: ClusterSnapshot, request: PlanRequest) -> RebalancePlan | None:
    """The plan; None where the answer is that there can be none."""
    try:
        return make_plan(snapshot, request)
    except (InputError, RefusedError) as error:
        assert str(error)
        return None


@PLENTY
@given(data=st.data())
def test_the_judge_finds_no_error_and_planning_again_moves_nothing(data: st.DataObject) -> None:
    """And undo gives the replicas back; a goal that copies certain replicas copies just these."""
    snapshot = data.draw(clusters())
    request = data.draw(requests(snapshot))
    if (plan := planned(snapshot, request)) is None:
        return
    assert judge(snapshot, plan).errors == ()
    assert find_violations(plan, snapshot, request.policy) == ()
    after = executed(snapshot, plan)
    again = make_plan(after, request)
    assert again.moves == (), f"{request}: planned again"
    assert again.reason
    assert bool(plan.reason) == plan.is_empty
    assert assignment_of(executed(after, plan, undo=True)) == assignment_of(snapshot)
    if request.goal not in (Goal.ADD_BROKERS, Goal.REBALANCE):
        copied = (plan.copied_replicas, plan.copied_bytes)
        assert copied == (plan.lower_bound.replicas, plan.lower_bound.bytes)


@PLENTY
@given(data=st.data())
def test_added_replicas_are_as_even_as_any_choice_of_brokers_could_make_them(
    data: st.DataObject,
) -> None:
    """No chain of added replicas, each passed on to another broker, ends at one with two fewer than
    it began with; shares are the same for all, whatever the disks.
    """
    snapshot = data.draw(clusters(dead=False))
    request = PlanRequest(
        Goal.REPLICATION_FACTOR,
        policy=BalancePolicy(broker_weight=BrokerWeight(Weighing.EQUAL)),
        scope=Scope(topics=("*",)),
        replication_factor=data.draw(st.integers(2, 3)),
    )
    plan = planned(snapshot, request)
    if plan is None:
        return
    held, racks = judge(snapshot, plan).replicas, snapshot.racks
    can_reach: dict[int, set[int]] = {broker: set() for broker in held}
    for move in plan.moves:
        for added in move.adding:
            in_rack = Counter(racks[b] for b in move.replicas_after if b != added)
            others = set(held) - set(move.replicas_after)
            can_reach[added] |= {b for b in others if in_rack[racks[b]] <= in_rack[racks[added]]}
    for start, count in held.items():
        seen, queue = {start}, [start]
        while queue:
            for other in can_reach[queue.pop()] - seen:
                assert held[other] >= count - 1, f"{start} could pass a replica on to {other}"
                seen.add(other)
                queue.append(other)


@FEW
@given(st.integers(0, 2**32))
def test_no_plan_at_all_is_below_the_bound(seed: int) -> None:
    """Every possible plan of a tiny cluster: the best racks and counts are never reached with fewer
    copies.
    """
    tiny = Tiny.of(random.Random(seed))
    plan = planned(tiny.snapshot, tiny.request)
    if plan is not None:
        assert plan.lower_bound.replicas <= tiny.fewest_copies()


@dataclass(frozen=True)
class Tiny:
    """A cluster of which every placement can be tried."""

    snapshot: ClusterSnapshot
    request: PlanRequest

    @classmethod
    def of(cls, chance: random.Random) -> "Tiny":
        count = chance.randint(3, 5)
        brokers = [{"id": n, "rack": f"r{chance.randrange(3)}"} for n in range(1, count + 1)]
        factors = [chance.randint(1, 3), chance.randint(1, 3)]
        rows = [
            [
                f"t{n % 2}",
                n,
                sorted(chance.sample(range(1, count), min(chance.choice(factors), count - 1))),
                None,
                1,
                0,
            ]
            for n in range(chance.randint(1, 4))
        ]
        goal = chance.choice([Goal.REBALANCE, Goal.ADD_BROKERS])
        scope = Scope(excluded_broker_ids=(1,)) if chance.random() < 0.3 else Scope()
        request = PlanRequest(goal, (count,) if goal is Goal.ADD_BROKERS else (), scope=scope)
        return cls(
            from_document_text(
                json.dumps({"cluster": "tiny", "brokers": brokers, "partitions": rows})
            ),
            request,
        )

    def fewest_copies(self) -> int:
        before = assignment_of(self.snapshot)
        sharing = {
            b for b in self.snapshot.live_broker_ids if self.request.scope.may_touch_broker(b)
        }
        found: list[tuple[int, int, int]] = []
        for after in itertools.product(
            *(self._placements(replicas, sharing) for replicas in before.values())
        ):
            held = Counter(b for replicas in after for b in replicas if b in sharing)
            copies = sum(
                len(set(new) - set(old)) for new, old in zip(after, before.values(), strict=True)
            )
            racks_held = sum(len({self.snapshot.racks[b] for b in replicas}) for replicas in after)
            found.append((-racks_held, sum(count * count for count in held.values()), copies))
        return min(found)[-1]

    def _placements(self, replicas: tuple[int, ...], sharing: set[int]) -> list[tuple[int, ...]]:
        destinations = sharing & set(self.request.broker_ids or sharing)
        sources = sharing - set(self.request.broker_ids)
        return [
            new
            for new in itertools.combinations(self.snapshot.live_broker_ids, len(replicas))
            if set(new) - set(replicas) <= destinations
            and set(replicas) - set(new) <= sources
            and self._stacked(new) <= self._stacked(replicas)
        ]

    def _stacked(self, replicas: tuple[int, ...]) -> int:
        racks = Counter(self.snapshot.racks[b] for b in replicas)
        return sum(count * (count - 1) for count in racks.values())


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
    factor = PlanRequest(Goal.REPLICATION_FACTOR, scope=Scope(topics=("*",)), replication_factor=2)
    drain = PlanRequest(Goal.REMOVE_BROKERS, snapshot.live_broker_ids[-1:])
    for request in (PlanRequest(Goal.REBALANCE), PlanRequest(Goal.LEADERS), factor, drain):
        if plan := planned(snapshot, request):
            assert make_plan(mixed, request).to_json() == plan.to_json()


@pytest.mark.parametrize("goal", [Goal.REBALANCE, Goal.ADD_BROKERS])
@pytest.mark.parametrize("is_known", [True, False])
def test_a_scope_without_rates_beside_topics_that_have_some_can_be_approved(
    goal: Goal, is_known: bool
) -> None:
    """A topic that was created since the last snapshot has no rate yet."""
    rows = [["new", n, [1, 2], 1, 1000, None] for n in range(300)]
    rows += [["old", n, [2, 3], 2, 1000, 500 if is_known else None] for n in range(6)]
    brokers = [{"id": broker} for broker in (1, 2, 3)]
    snapshot = from_document_text(json.dumps({"brokers": brokers, "partitions": rows}))
    named = (3,) if goal is Goal.ADD_BROKERS else ()
    plan = make_plan(snapshot, PlanRequest(goal, named, scope=Scope(topics=("new",))))
    assert plan.moves
    assert find_violations(plan, snapshot, PlanRequest(goal).policy) == ()


def test_a_plan_beside_topics_without_any_leader_can_be_approved() -> None:
    """A snapshot without leaders is another thing than topics that all are offline."""
    rows = [["lost", 0, [2], -1, 1000, 500]]
    rows += [["kept", n, [1, 3], 1, 1000, 500] for n in range(6)]
    brokers = [{"id": broker, "fenced": broker == 2} for broker in (1, 2, 3)]
    snapshot = from_document_text(json.dumps({"brokers": brokers, "partitions": rows}))
    plan = make_plan(snapshot, PlanRequest(Goal.REBALANCE, scope=Scope(topics=("kept",))))
    assert plan.moves
    assert find_violations(plan, snapshot, BalancePolicy()) == ()
