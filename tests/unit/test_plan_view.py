"""What people see of a plan: which brokers, which moves, how even, and whether a rate will do."""

from dataclasses import replace

from counterpoise.model.movement import (
    Inflow,
    busiest_inflow,
    min_rate_bytes_per_second,
    rate_warning,
    rate_with_room,
)
from counterpoise.model.plan import (
    BrokerFigure,
    Deferred,
    LowerBound,
    Move,
    MoveReason,
    RebalancePlan,
)
from counterpoise.model.request import Goal
from counterpoise.views.plan import (
    LargestMoves,
    MoveCounts,
    OverBound,
    PlanView,
    Span,
    brokers_to_show,
)


def broker(broker_id: int, before: int, after: int, best: int) -> BrokerFigure:
    """The same numbers for leaders, replicas and bytes."""
    values = (before, after, best)
    return BrokerFigure(broker_id, None, *values, *values, *values, max(before, after))


def plan(figures: tuple[BrokerFigure, ...] = (), moves: tuple[Move, ...] = ()) -> RebalancePlan:
    return RebalancePlan(
        "demo", "", "s", Goal.REBALANCE, (), "d", moves, figures, LowerBound(1, 100, 0)
    )


def move(
    partition: int, size: int, why: MoveReason = MoveReason.REPLICAS, rate: int | None = None
) -> Move:
    return Move("orders", partition, "", (1, 2), (1, 3), 1, size, rate, why)


def test_brokers_that_are_to_have_none_do_not_count_afterwards() -> None:
    drained = plan((broker(1, 4, 6, 6), broker(2, 4, 6, 6), broker(3, 4, 0, 0), broker(4, 0, 0, 0)))
    leaders = PlanView.of(drained).per_broker["leaders"]
    assert (leaders.before, leaders.after, leaders.best) == (Span(4, 4), Span(6, 6), Span(6, 6))
    fewer_than_brokers = plan((broker(1, 2, 1, 1), broker(2, 0, 1, 1), broker(3, 0, 0, 0)))
    assert PlanView.of(fewer_than_brokers).per_broker["leaders"].after == Span(0, 1)


def test_the_range_of_leaders_stands_beside_its_bound_where_both_count_the_same() -> None:
    whole = plan((broker(1, 4, 3, 3), broker(2, 2, 3, 3)))
    beside_other_topics = plan((broker(1, 14, 13, 13), broker(2, 2, 3, 3)))
    titles = [{cost.name for cost in PlanView.of(p).costs} for p in (whole, beside_other_topics)]
    assert titles[0] - titles[1] == {"Leaders, max − min"}


def test_brokers_that_change_most_or_stay_far_from_the_best_are_shown_by_id() -> None:
    figures = [broker(i, 100, 99, 99) for i in range(1, 31)]
    figures[24], figures[4], figures[9] = (
        broker(25, 0, 99, 99),
        broker(5, 150, 150, 99),
        broker(10, 110, 99, 99),
    )
    shown, others = brokers_to_show(figures, 3)
    assert [figure.broker_id for figure in shown] == [5, 10, 25]
    assert len(others) == 27
    assert brokers_to_show(figures[:3], 3) == (figures[:3], ())


def test_the_largest_moves_are_shown_and_the_rest_counted_by_what_they_serve() -> None:
    moves = (
        *(move(p, 10 * p) for p in range(1, 5)),
        move(9, 1, MoveReason.RACKS),
        replace(move(8, 1), replicas_after=(2, 1)),
    )
    largest = LargestMoves.of(plan(moves=moves), 2)
    assert [m.partition for m in largest.moves] == ["orders-4", "orders-3"]
    assert list(largest.others.items()) == [
        ("evens replicas", MoveCounts(3, 2, 30)),
        ("evens racks", MoveCounts(1, 1, 1)),
    ]
    assert LargestMoves.of(plan(moves=moves), 6).others == {}


def test_a_plan_is_compared_with_its_bound_only_when_it_goes_all_the_way() -> None:
    whole = plan(moves=(move(0, 150),))
    assert PlanView.of(whole).over_lower_bound == OverBound(1.0, 1.5)
    cut = replace(whole, deferred=Deferred(1, 1, 1))
    assert PlanView.of(cut).over_lower_bound.bytes is None
    below = replace(whole, lower_bound=LowerBound(1, 200, 0))
    assert PlanView.of(below).over_lower_bound.bytes is None


def test_a_rate_at_or_below_the_inflow_of_what_is_copied_at_once_is_told_of() -> None:
    busy = plan(moves=(move(0, 1, rate=4_000_000), move(1, 1, rate=3_000_000)))
    told = rate_warning(busy, 7_000_000)
    assert (
        "producers write 7.0 MB/s to the partitions that broker 3 receives at once; "
        "take at least 8.8 MB/s" in told
    )
    assert rate_warning(busy, 7_000_001) == ""
    assert rate_warning(busy, 4_000_001, max_moves=1) == ""
    assert "write 4.0 MB/s" in rate_warning(busy, 4_000_000, max_moves=1)
    assert rate_warning(plan(moves=(move(0, 1),)), 1000) == "", "no rate is known"
    assert [min_rate_bytes_per_second(inflow) for inflow in (0, 1, 7_000_000, 80_000_000)] == [
        0,
        2,
        8_800_000,
        100_000_000,
    ]


def test_a_leader_that_sends_to_many_has_to_keep_up_as_well() -> None:
    drained = plan(
        moves=tuple(
            replace(move(p, 1, rate=2_000_000), replicas_after=(1, 3 + p)) for p in range(3)
        )
    )
    assert busiest_inflow(drained) == Inflow(1, sends=True, bytes_per_second=6_000_000)
    assert "broker 1 sends at once" in rate_warning(drained, 6_000_000)


def test_a_rate_with_room_is_four_fifths_of_what_the_busiest_link_has_left() -> None:
    busy = replace(
        broker(1, 300, 200, 200), leaders_before=2, replicas_before=4, bytes_in_before=30_000_000
    )
    calm = replace(busy, broker_id=2, bytes_in_before=10_000_000)
    made = plan(moves=(move(0, 1, rate=4_000_000),), figures=(busy, calm))
    # 4 partitions take in 40 MB/s: broker 1 takes in 30 as a leader, and 2 x 10 as a follower.
    assert rate_with_room(made, 125_000_000) == 60_000_000
    assert rate_with_room(made, 40_000_000) == 5_000_000, "no room at all: what the inflow needs"
    assert (
        rate_with_room(plan(moves=(move(0, 1),), figures=(broker(1, 300, 200, 200),)), 10**9)
        is None
    )


def test_a_disk_is_fullest_with_the_old_copies_the_new_ones_and_all_other_files() -> None:
    figure = replace(
        broker(1, 300, 200, 200), bytes_peak=500, disk_total_bytes=1000, disk_used_bytes=400
    )
    assert figure.peak_share == 0.6
    assert broker(1, 300, 200, 200).peak_share is None
