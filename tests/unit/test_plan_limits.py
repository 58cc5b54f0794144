"""What keeps a plan small: budgets, gains that are too small to matter, scopes; and what topics get
for free.
"""

import json
from collections import Counter
from pathlib import Path

import pytest

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.plan import MoveReason, RebalancePlan
from counterpoise.model.request import Budget, Goal, PlanRequest, Scope
from counterpoise.planning import make_plan, minimum_gain
from counterpoise.views.plan import PlanView
from tests.support.command_line import CommandLine
from tests.support.goal_judge import assignment_after, executed, judge
from tests.support.pictures import cluster


def striped(count: int, brokers: int, *, topics: int = 1, size: int = 1000, factor: int = 2) -> str:
    """Partitions whose replicas lie round the brokers."""
    rows = []
    for number in range(count):
        replicas = " ".join(str((number + shift) % brokers + 1) for shift in range(factor))
        rows.append(f"t{number % topics}-{number // topics}: {replicas} size={size + number % 7}")
    return "\n".join(rows)


GROWING = cluster(striped(120, 3, topics=4), racks="1 2 3 4")


def joined(budget: Budget) -> RebalancePlan:
    plan = make_plan(GROWING, PlanRequest(Goal.ADD_BROKERS, (4,), budget=budget))
    assert judge(GROWING, plan).errors == ()
    return plan


def test_a_budget_of_bytes_gives_an_even_part_of_the_plan_and_says_what_is_left() -> None:
    whole, part = joined(Budget()), joined(Budget(max_bytes=20_000))
    assert part.copied_bytes <= 20_000 < whole.copied_bytes
    assert part.copied_bytes + part.deferred.bytes == whole.copied_bytes
    assert part.copied_replicas + part.deferred.replicas == whole.copied_replicas
    gave = [f.replicas_before - f.replicas_after for f in part.figures if f.broker_id != 4]
    assert max(gave) - min(gave) <= 1
    assert PlanView.of(part).all_notes[0].startswith("the budget leaves for a later plan: ")


def test_plans_within_a_budget_lead_to_the_whole_one() -> None:
    snapshot, request = (
        GROWING,
        PlanRequest(Goal.ADD_BROKERS, (4,), budget=Budget(max_bytes=15_000)),
    )
    for _ in range(10):
        plan = make_plan(snapshot, request)
        snapshot = executed(snapshot, plan)
        if plan.is_empty:
            break
    assert plan.is_empty
    assert sorted(judge(snapshot, plan).replicas.values()) == [60, 60, 60, 60]


def test_a_budget_too_small_for_anything_is_named_as_the_reason() -> None:
    snapshot = cluster("\n".join(f"a-{n}: {1 + n % 2} size=1000" for n in range(6)), racks="1 2 3")
    plan = make_plan(snapshot, PlanRequest(Goal.ADD_BROKERS, (3,), budget=Budget(max_bytes=10)))
    assert plan.is_empty and plan.deferred.replicas == 2
    assert "budget" in plan.reason


def test_a_budget_takes_no_replica_to_a_broker_that_may_hold_no_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """20 MB buy even counts: one large replica leaves broker 3, whatever comes there later."""
    held = [(3, 20), (2, 5), (3, 20), (2, 1), (3, 20), (1, 1)]  # broker, MB
    rows = [["t", n, [broker], broker, mb * 10**6] for n, (broker, mb) in enumerate(held)]
    document = {"brokers": [{"id": 1}, {"id": 2}, {"id": 3}], "partitions": rows}
    (tmp_path / "state.json").write_text(json.dumps(document))
    shell = CommandLine.in_folder(tmp_path, capsys)
    limits = ("--max-replicas-per-broker", "3", "--max-bytes", "20MB")
    words = ("plan", "--state", tmp_path / "state.json", "--goal", "rebalance", *limits)
    typed = shell.type(*words, "--out", tmp_path / "plan.json")
    assert typed.code == 0
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert [figure["replicas_after"] for figure in plan["figures"]] == [2, 2, 2]


def almost_even() -> ClusterSnapshot:
    """2,000 partitions, and one leader on the wrong broker."""
    rows = striped(2000, 4, factor=2).splitlines()
    return cluster("\n".join([rows[0].replace("1 2", "2 1"), *rows[1:]]), racks="1 2 3 4")


def test_a_gain_that_nobody_would_notice_counts_as_balanced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = make_plan(almost_even(), PlanRequest(Goal.LEADERS))
    assert plan.is_empty and plan.reason.startswith("already balanced: ")
    monkeypatch.setattr(minimum_gain, "IGNORABLE_PERMILLE", 0)
    assert len(make_plan(almost_even(), PlanRequest(Goal.LEADERS)).moves) == 1


def test_in_a_small_cluster_every_leader_matters() -> None:
    snapshot = cluster("a-0: 1 2\na-1: 1 2\na-2: 2 1\na-3: 1 2", racks="1 2")
    assert len(make_plan(snapshot, PlanRequest(Goal.LEADERS)).moves) == 1


def test_brokers_outside_the_scope_neither_give_nor_take_nor_change_what_they_lead() -> None:
    snapshot = cluster(striped(60, 3, factor=2), racks="1 2 3 4 5")
    plan = make_plan(snapshot, PlanRequest(Goal.REBALANCE, scope=Scope(excluded_broker_ids=(1, 5))))
    figures = {figure.broker_id: figure for figure in plan.figures}
    for broker_id in (1, 5):
        figure = figures[broker_id]
        assert (figure.replicas_before, figure.leaders_before) == (
            figure.replicas_after,
            figure.leaders_after,
        )
    assert judge(snapshot, plan).errors == ()
    assert [figures[b].replicas_after for b in (2, 3, 4)] == [27, 27, 26]
    assert all(not {1, 5} & {*move.adding, *move.removing} for move in plan.moves)


def test_only_topics_in_the_scope_move() -> None:
    snapshot = cluster(striped(60, 3, topics=3), racks="1 2 3 4")
    scope = Scope(topics=("t*",), excluded_topics=("t0", "t1"))
    plan = make_plan(snapshot, PlanRequest(Goal.ADD_BROKERS, (4,), scope=scope))
    assert {move.topic for move in plan.moves} == {"t2"}


def test_a_new_broker_gets_its_share_of_every_topic() -> None:
    snapshot = cluster(striped(240, 4, topics=3, factor=3), racks="1 2 3 4 5")
    plan = make_plan(snapshot, PlanRequest(Goal.ADD_BROKERS, (5,)))
    held = Counter(
        key.topic for key, replicas in assignment_after(snapshot, plan).items() if 5 in replicas
    )
    assert set(held.values()) == {48}
    led = Counter(
        key.topic for key, replicas in assignment_after(snapshot, plan).items() if replicas[0] == 5
    )
    assert max(led.values()) - min(led.values()) <= 1


def test_topics_alone_move_no_replicas() -> None:
    rows = [f"a-{n}: 1" for n in range(6)] + [f"b-{n}: 2" for n in range(6)]
    snapshot = cluster("\n".join(rows), racks="1 2")
    assert make_plan(snapshot, PlanRequest(Goal.REBALANCE)).copied_replicas == 0


def test_every_move_says_which_measure_it_serves() -> None:
    snapshot = cluster(
        "a-0: 1 2\na-1: 1 3\na-2: 1 3\na-3: 1 4\na-4: 1 3 @3", racks="1=a 2=a 3=b 4=b"
    )
    reasons = {
        move.partition: move.why for move in make_plan(snapshot, PlanRequest(Goal.REBALANCE)).moves
    }
    assert reasons[0] is MoveReason.RACKS
    assert set(reasons.values()) <= {
        MoveReason.RACKS,
        MoveReason.REPLICAS,
        MoveReason.LEADERS,
        MoveReason.PREFERRED,
    }
    drained = make_plan(snapshot, PlanRequest(Goal.REMOVE_BROKERS, (2,)))
    assert {move.why for move in drained.moves if move.adding} == {MoveReason.DRAIN}
