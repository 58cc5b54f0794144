"""The steps of a move: one new replica at a time, added before one is dropped, the leader kept till
the last.
"""

from hypothesis import given
from hypothesis import strategies as st

from counterpoise.model.plan import Move
from counterpoise.model.reassignment import reassignment_targets
from tests.support.examples import examples
from tests.support.plans import move

PLENTY = examples(300)
REPLICAS = st.lists(st.integers(1, 9), min_size=1, max_size=5, unique=True).map(tuple)


@st.composite
def moves(draw: st.DrawFn) -> Move:
    before, after = draw(REPLICAS), draw(REPLICAS)
    return Move("orders", 0, "id", before, after, draw(st.sampled_from(before)), 1)


def test_a_move_of_two_replicas_keeps_its_leader_until_the_last_reassignment() -> None:
    assert reassignment_targets(move("orders-0", "1 2 3", "4 2 3")) == ((4, 2, 3),)
    assert reassignment_targets(move("orders-0", "1 2 3", "1 2 3")) == ((1, 2, 3),)
    assert reassignment_targets(move("orders-0", "1 2 3", "4 5 3")) == ((1, 5, 3), (4, 5, 3))
    assert reassignment_targets(move("orders-0", "1 2 3", "4 5 3", leader=2)) == (
        (5, 2, 3),
        (4, 5, 3),
    )
    assert reassignment_targets(move("orders-0", "1", "1 2 3")) == ((1, 3), (1, 2, 3))


@PLENTY
@given(moves())
def test_each_reassignment_adds_one_replica_at_most_and_the_last_is_the_plan(moved: Move) -> None:
    steps = reassignment_targets(moved)
    assert steps[-1] == moved.replicas_after
    present = moved.replicas_before
    for step in steps:
        assert len(set(step) - set(present)) <= 1
        assert len(set(step)) == len(step)
        assert set(step) <= {*moved.replicas_before, *moved.replicas_after}
        present = step


@PLENTY
@given(moves())
def test_no_reassignment_has_fewer_replicas_than_the_lesser_of_before_and_after(
    moved: Move,
) -> None:
    fewest = min(len(moved.replicas_before), len(moved.replicas_after))
    assert all(len(step) >= fewest for step in reassignment_targets(moved))


@PLENTY
@given(moves())
def test_the_leader_stays_until_the_last_reassignment_where_another_replica_can_leave_first(
    moved: Move,
) -> None:
    *earlier, _ = reassignment_targets(moved)
    others = [b for b in moved.removing if b != moved.leader_before]
    for number, step in enumerate(earlier, start=1):
        if moved.leader_before not in moved.removing or number <= len(others):
            assert moved.leader_before in step
