"""What happened, at the snapshot that shows it, and nothing where nothing did."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from counterpoise.analysis import leader_balance
from counterpoise.model.balance import ClusterEvent, EventKind, LeaderBalance
from tests.support.series import NO_TOPICS, NOON, Broker, rows, story

ONE_TWO = [Broker(1, "a"), Broker(2, "b")]


def balance_of(*tables: pa.Table) -> LeaderBalance:
    balance = leader_balance(pa.concat_tables(tables), NO_TOPICS, cluster="demo")
    assert balance is not None
    return balance


def events_of(*snapshots: Sequence[Broker]) -> list[tuple[str, str, tuple[int, ...]]]:
    """Kind, snapshot and brokers of each event of snapshots an hour apart."""
    events = balance_of(*(rows(hour, brokers) for hour, brokers in enumerate(snapshots))).events
    return [(event.kind.value, event.snapshot_id, event.broker_ids) for event in events]


def counted(kind: EventKind, *changes: dict[str, Any]) -> list[ClusterEvent]:
    """Events of a kind, of snapshots an hour apart with these columns of SNAPSHOT_CHANGES."""
    events = balance_of(
        *(rows(hour, ONE_TWO, **columns) for hour, columns in enumerate(changes))
    ).events
    return [event for event in events if event.kind is kind]


def hours(event: ClusterEvent) -> tuple[float, float]:
    first, last = ((at - NOON) / timedelta(hours=1) for at in (event.first_at, event.last_at))
    return first, last


@pytest.mark.parametrize(("brokers", "snapshots"), [(3, 20), (36, 200), (220, 400)])
def test_each_event_of_a_long_story_is_at_its_snapshot(brokers: int, snapshots: int) -> None:
    told = story(brokers, snapshots)
    balance = balance_of(told.table)
    at = {event.kind: told.times.index(event.first_at) for event in balance.events}
    assert at[EventKind.JOINED] == told.joined_at
    assert at[EventKind.REASSIGNMENT] == told.share_from
    assert told.share_from <= at[EventKind.REACHED_SHARE] <= told.share_until
    assert at[EventKind.DIED] == at[EventKind.FAILOVER] == told.died_at
    assert at[EventKind.RETURNED] == told.returned_at
    assert at[EventKind.ELECTION] == told.elected_at
    assert at[EventKind.GAP] == told.gap_at - 1
    assert len(balance.events) == len(at) == 8  # and each once
    assert balance.breaks == (told.gap_at,)


def test_brokers_join_die_return_and_leave() -> None:
    dead = [Broker(1, "a", is_fenced=True), Broker(2, "b")]
    assert events_of(
        ONE_TWO, [*ONE_TWO, Broker(3, replicas=0)], dead, dead, ONE_TWO, ONE_TWO[:1]
    ) == [
        ("joined", "demo-1", (3,)),
        ("died", "demo-2", (1,)),
        ("left", "demo-2", (3,)),
        ("returned", "demo-4", (1,)),
        ("left", "demo-5", (2,)),
    ]


def test_a_broker_that_left_returns_and_one_first_seen_fenced_joins_when_it_lives() -> None:
    fenced = Broker(3, is_fenced=True, replicas=0)
    found = events_of(
        ONE_TWO, ONE_TWO[:1], ONE_TWO, [*ONE_TWO, fenced], [*ONE_TWO, Broker(3, replicas=0)]
    )
    assert found == [
        ("left", "demo-1", (2,)),
        ("returned", "demo-2", (2,)),
        ("joined", "demo-4", (3,)),
    ]
    assert events_of([*ONE_TWO, fenced], [*ONE_TWO, Broker(3)]) == [("returned", "demo-1", (3,))]


def test_a_joined_broker_reaches_its_share_at_nine_tenths_of_the_mean() -> None:
    def with_third(replicas: int, *, is_fenced: bool = False) -> list[Broker]:
        others = [Broker(1, replicas=100), Broker(2, replicas=100)]
        return [*others, Broker(3, replicas=replicas, is_fenced=is_fenced)]

    start = [Broker(1, replicas=100), Broker(2, replicas=100)]
    balance = balance_of(
        *(
            rows(h, brokers)
            for h, brokers in enumerate([start, *map(with_third, (0, 40, 85, 86, 90))])
        )
    )
    reached = [event for event in balance.events if event.kind is EventKind.REACHED_SHARE]
    # 85 is 0.895 of (200 + 85) / 3, and 86 is 0.902 of (200 + 86) / 3.
    assert [(e.snapshot_id, e.broker_ids, e.seconds) for e in reached] == [
        ("demo-4", (3,), 3 * 3600.0)
    ]
    kinds = [
        kind
        for kind, _, _ in events_of(
            start, with_third(0), with_third(50, is_fenced=True), with_third(100)
        )
    ]
    assert kinds == ["joined", "died", "reached-share", "returned"]


def lost(hour: int, leaders: dict[int, int], lost_leaders: dict[int, int]) -> pa.Table:
    """Rows of a snapshot, by broker its leaders now and those that it lost since the one before."""
    table = rows(hour, [Broker(broker_id, leaders=n) for broker_id, n in leaders.items()])
    counts = pa.array([lost_leaders.get(broker_id, 0) for broker_id in leaders], pa.int64())
    return table.set_column(table.schema.get_field_index("leaders_lost"), "leaders_lost", counts)


def test_a_live_broker_that_lost_its_leaders_was_restarted_and_other_changes_are_told_apart() -> (
    None
):
    """Broker 1 restarts before the second snapshot, and again before the third, in which it leads
    its partitions as if nothing had been. Then some leaders of both are moved.
    """
    balance = balance_of(
        lost(0, {1: 100, 2: 100}, {}),
        lost(1, {1: 0, 2: 200}, {1: 100}),
        lost(2, {1: 100, 2: 100}, {}),
        lost(3, {1: 100, 2: 100}, {1: 95, 2: 3}),
        lost(4, {1: 100, 2: 100}, {1: 30, 2: 30}),
    )
    found = [(e.kind, e.snapshot_id, e.broker_ids, e.count) for e in balance.events]
    assert found == [
        (EventKind.RESTARTED, "demo-1", (1,), 1),
        (EventKind.RESTARTED, "demo-3", (1,), 1),
        (EventKind.LEADERS_MOVED, "demo-4", (), 60),
    ]


def test_a_restart_while_it_led_for_another_broker_is_told_too() -> None:
    """Broker 2 leads its own 60 and, since broker 1 was restarted, 40 of that one. It restarts: its
    own go to broker 1, the 40 back to broker 1, which is their first replica.
    """

    def handed_back(table: pa.Table, counts: list[int]) -> pa.Table:
        place = table.schema.get_field_index("leaders_handed_back")
        return table.set_column(place, "leaders_handed_back", pa.array(counts, pa.int64()))

    balance = balance_of(
        lost(0, {1: 0, 2: 100}, {}),
        handed_back(lost(1, {1: 100, 2: 0}, {2: 60}), [0, 40]),
        # An election that takes all of a broker but nothing of its own is no restart.
        handed_back(lost(2, {1: 0, 2: 100}, {}), [100, 0]),
    )
    assert [(e.kind, e.snapshot_id, e.broker_ids) for e in balance.events] == [
        (EventKind.RESTARTED, "demo-1", (2,))
    ]


def test_brokers_that_joined_together_are_one_event() -> None:
    new = [Broker(3, replicas=0), Broker(4, replicas=0)]
    full = [Broker(3), Broker(4)]
    assert events_of(ONE_TWO, [*ONE_TWO, *new], [*ONE_TWO, *full]) == [
        ("joined", "demo-1", (3, 4)),
        ("reached-share", "demo-2", (3, 4)),
    ]


def test_neighbouring_snapshots_of_a_reassignment_are_one_event() -> None:
    found = counted(
        EventKind.REASSIGNMENT,
        {},
        {"replica_sets_changed": 5},
        {"reassigning_partitions": 7},  # copying, nothing arrived
        {"replica_sets_changed": 2},
        {},
        {"replica_sets_changed": 1},
        {"reassigning_partitions": 3, "replica_sets_changed": 4},
    )
    assert [(hours(event), event.count, event.is_under_way) for event in found] == [
        ((1, 3), 7, False),
        ((5, 6), 5, True),
    ]


def test_failovers_count_and_elections_only_in_numbers() -> None:
    assert [
        (hours(e), e.count)
        for e in counted(EventKind.FAILOVER, {}, {"failovers": 1}, {}, {"failovers": 9})
    ] == [
        ((1, 1), 1),
        ((3, 3), 9),
    ]
    few = {"preferred_elections": 4}
    many = {"preferred_elections": 5}
    assert [e.snapshot_id for e in counted(EventKind.ELECTION, {}, few, {}, many)] == ["demo-3"]
    large = {"partitions": 10_000, "preferred_elections": 19}  # fewer than 2 in 1,000
    assert counted(EventKind.ELECTION, {}, large) == []


def test_topics_in_bulk_are_events_and_a_few_are_not() -> None:
    changes = [{}, {"topics_deleted": 4}, {}, {"topics_deleted": 5, "topics_recreated": 6}]
    assert [(e.snapshot_id, e.count) for e in counted(EventKind.TOPICS_DELETED, *changes)] == [
        ("demo-3", 5)
    ]
    assert [(e.snapshot_id, e.count) for e in counted(EventKind.TOPICS_RECREATED, *changes)] == [
        ("demo-3", 6)
    ]


def test_a_renamed_rack_is_one_event_with_its_brokers() -> None:
    before = [Broker(1, "a"), Broker(2, "a"), Broker(3, "b"), Broker(4)]
    after = [Broker(1, "z"), Broker(2, "z"), Broker(3, "b"), Broker(4, "b")]
    events = balance_of(rows(0, before), rows(1, before), rows(2, after)).events
    assert [(e.kind, e.snapshot_id, e.rack_before, e.rack, e.broker_ids) for e in events] == [
        (EventKind.RACK, "demo-2", "a", "z", (1, 2)),
        (EventKind.RACK, "demo-2", None, "b", (4,)),
    ]


def test_nothing_is_compared_with_another_cluster_of_the_same_name() -> None:
    other = [Broker(7, "x"), Broker(8, "y")]
    new = {"cluster_id": "Other-Id"}
    balance = balance_of(
        rows(0, ONE_TWO),
        rows(1, ONE_TWO, failovers=2),
        rows(2, other, is_rebuilt=True, failovers=50, replica_sets_changed=50, **new),
        rows(3, [*other, Broker(1)], **new),
    )
    assert [(e.kind, e.snapshot_id) for e in balance.events] == [
        (EventKind.FAILOVER, "demo-1"),
        (EventKind.REBUILT, "demo-2"),
        (EventKind.JOINED, "demo-3"),  # an id that the old cluster had, too
        (EventKind.REACHED_SHARE, "demo-3"),
    ]
    assert balance.breaks == (2,)
    assert balance.churn.failovers == 2
    by_id = balance_of(
        rows(0, ONE_TWO), rows(1, other, **new)
    )  # nobody said so, but the id differs
    assert [(e.kind, e.snapshot_id) for e in by_id.events] == [(EventKind.REBUILT, "demo-1")]


def at_hours(*times: float) -> LeaderBalance:
    return balance_of(*(rows(hour, ONE_TWO) for hour in times))


def test_a_gap_is_more_than_two_and_a_half_usual_intervals() -> None:
    balance = at_hours(0, 1, 2, 3, 5.5, 6.5, 7.5, 10.5, 11.5)
    (gap,) = balance.events
    assert (gap.kind, hours(gap), gap.seconds, gap.count) == (
        EventKind.GAP,
        (7.5, 10.5),
        3 * 3600,
        2,
    )
    assert balance.breaks == (7,)
    assert at_hours(0, 9).breaks == ()  # two snapshots say nothing of what is usual


def test_a_schedule_that_became_slower_is_known_by_its_second_interval() -> None:
    """Hourly for a day, then every two days: the newest snapshot has rates, so no gap is there."""
    hourly = range(25)
    assert at_hours(*hourly, 72).breaks == (25,)
    assert at_hours(*hourly, 72, 120).breaks == ()
    assert at_hours(*hourly, 72, 120, 168).breaks == ()


def test_thinned_out_snapshots_of_the_past_are_no_gaps() -> None:
    days = [24.0 * day for day in range(10)]
    assert at_hours(*days, *(days[-1] + hour for hour in range(1, 60))).breaks == ()


def test_churn_is_summed_and_says_what_it_does_not_know() -> None:
    churn = balance_of(
        rows(0, ONE_TWO),
        rows(1, ONE_TWO, leaders_changed=4, failovers=3, preferred_elections=1, leader_epochs=7),
        rows(2, ONE_TWO, compared=False),
        rows(
            3, ONE_TWO, leaders_changed=2, leader_epochs=1, replica_sets_changed=6, topics_created=1
        ),
        rows(
            9, ONE_TWO, leaders_changed=1, leader_epochs=1
        ),  # compared with the one of hour 8, which is gone
    ).churn
    assert (churn.leaders_changed, churn.failovers, churn.preferred_elections) == (7, 3, 1)
    assert (churn.epochs_unseen, churn.replica_sets_changed, churn.topics_created) == (3, 6, 1)
    assert (churn.snapshots, churn.snapshots_not_known) == (3, 2)


def test_a_quiet_month_has_no_events() -> None:
    assert balance_of(*(rows(hour, ONE_TWO) for hour in range(30))).events == ()
