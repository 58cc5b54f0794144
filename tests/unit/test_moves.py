"""Moves as columns: the same figures, in the same order, as of the moves themselves."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from counterpoise.model.movement import busiest_inflow, busiest_link_bytes, cross_rack_bytes
from counterpoise.model.plan import Move, MoveColumns, MoveReason, RebalancePlan
from counterpoise.views import as_document
from counterpoise.views.plan import LargestMoves, MoveSearch, MoveView, PlanView, find_moves
from tests.unit.test_plan_document import PLAN


def made_up_moves(seed: int, count: int = 60) -> tuple[Move, ...]:
    """Return moves in no order, some of them of the same size; a leader may be missing."""
    random = Random(seed)
    names = [(topic, partition) for topic in ("a", "b-1", "b") for partition in range(count)]
    return tuple(
        Move(
            topic,
            partition,
            f"id-of-{topic}",
            tuple(random.sample(range(12), random.randint(1, 3))),
            tuple(random.sample(range(12), random.randint(1, 3))),
            random.randint(-1, 11),
            random.choice((0, 1, 5, 2**62)),
            random.choice((None, 0, 7)),
            random.choice(list(MoveReason)),
            random.choice((None, 3)),
        )
        for topic, partition in random.sample(names, count)
    )


def made_up_plan(seed: int) -> RebalancePlan:
    figure = PLAN.figures[0]
    figures = [replace(figure, broker_id=i, rack=f"rack-{i % 3}") for i in range(12)]
    return replace(PLAN, moves=made_up_moves(seed), figures=tuple(figures))


@pytest.fixture(params=range(5))
def plan(request: pytest.FixtureRequest) -> RebalancePlan:
    return made_up_plan(request.param)


def test_columns_hold_the_moves(plan: RebalancePlan) -> None:
    columns = MoveColumns.of(plan.moves)
    assert columns == plan.moves and plan.moves == columns and hash(columns) == hash(plan.moves)
    assert columns != plan.moves[1:] and columns != "text"
    assert columns[3] == plan.moves[3] and columns[-2:] == plan.moves[-2:]
    assert len(columns) == 60 and columns and not MoveColumns.of(())
    assert columns.adding == [move.adding for move in plan.moves]
    assert columns.copied_bytes == [move.copied_bytes for move in plan.moves]
    assert columns.changes_leader == [move.changes_leader for move in plan.moves]
    assert MoveColumns.of(columns) is columns


def test_sums_are_those_of_the_moves(plan: RebalancePlan) -> None:
    """Also beyond 2^63."""
    moves = plan.moves
    assert plan.copied_bytes == sum(move.copied_bytes for move in moves) > 2**63
    assert plan.copied_replicas == sum(len(move.adding) for move in moves)
    assert plan.leader_changes == sum(move.changes_leader for move in moves)
    assert plan.lowers_replication_factor
    sent, received = [0] * 12, [0] * 12
    for move in moves:
        if move.leader_before >= 0:
            sent[move.leader_before] += move.copied_bytes
        for broker_id in move.adding:
            received[broker_id] += move.size_bytes
    assert busiest_link_bytes(plan) == max(sent + received)
    assert cross_rack_bytes(plan) == sum(
        move.size_bytes
        for move in moves
        for broker_id in move.adding
        if move.leader_before >= 0 and move.leader_before % 3 != broker_id % 3
    )
    assert {why: c.partitions for why, c in PlanView.of(plan).moves_by_why.items()} == {
        why: sum(move.why is why for move in moves) for why in {move.why for move in moves}
    }
    stored = RebalancePlan.from_json(plan.to_json())
    assert busiest_inflow(stored) == busiest_inflow(plan)
    assert as_document(PlanView.of(stored)) == as_document(PlanView.of(plan))


def shown(moves: Sequence[Move]) -> list[MoveView]:
    return list(map(MoveView.of, moves))


def in_order(moves: Sequence[Move], sort: str) -> list[Move]:
    keys = {
        "bytes": lambda move: (-move.copied_bytes, move.topic, move.partition),
        "topic": lambda move: (move.topic, move.partition),
        "why": lambda move: (move.why, -move.copied_bytes, move.topic, move.partition),
    }
    return sorted(moves, key=keys.get(sort, keys["bytes"]))


@pytest.mark.parametrize("sort", ["bytes", "topic", "why", "nothing known"])
def test_moves_are_found_in_order(plan: RebalancePlan, sort: str) -> None:
    in_full = shown(in_order(plan.moves, sort))
    first, second = (find_moves(plan, MoveSearch(sort=sort, page=number)) for number in (1, 2))
    assert [*first.moves, *second.moves] == in_full and first.pages == 2
    of_broker = find_moves(plan, MoveSearch(text=" B-1", broker=" 7 ", sort=sort))
    meant = [
        move
        for move in plan.moves
        if "b-1" in str(move.topic_partition) and 7 in move.replicas_before + move.replicas_after
    ]
    assert list(of_broker.moves) == shown(in_order(meant, sort)) and of_broker.count == len(meant)
    found = find_moves(plan, MoveSearch(why="bytes", sort=sort)).moves
    assert list(found) == shown(in_order([m for m in plan.moves if m.why == "bytes"], sort))
    assert not find_moves(plan, MoveSearch(broker="07")).moves


def test_the_largest_moves_are_shown_and_the_others_counted(plan: RebalancePlan) -> None:
    largest = LargestMoves.of(plan, 25)
    assert list(largest.moves) == shown(in_order(plan.moves, "bytes"))[:25]
    assert sum(others.partitions for others in largest.others.values()) == 35
