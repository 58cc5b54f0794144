"""The fleet: the worst cluster comes first, and says why."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from counterpoise.analysis.balance import leader_balance
from counterpoise.analysis.fleets import fleet, fleet_entry
from counterpoise.model.balance import LeaderBalance, LeftOut, WantedRebalance
from counterpoise.model.evenness import evenness
from counterpoise.model.fleet_document import ClusterState, Concern, FleetEntry
from counterpoise.model.load import BrokerTraffic, ClusterLoad, DiskForecast, Outlook, Rates, Trace
from counterpoise.model.request import Goal
from tests.support.series import NO_TOPICS, NOON, Broker, rows

NOW = datetime(2026, 12, 1, tzinfo=UTC)
SOON = timedelta(minutes=5)
UNKNOWN = Rates(None, None, None, None)
NO_TRACE = Trace((), (), 0.0)


def balance(*brokers: Broker, snapshots: int = 1, **changes: Any) -> LeaderBalance:
    """The same brokers in a snapshot an hour."""
    held = brokers or (Broker(1), Broker(2), Broker(3))
    table = pa.concat_tables(rows(hour, held, **changes) for hour in range(snapshots))
    found = leader_balance(table, NO_TOPICS, cluster="demo")
    assert found is not None
    return found


def load(*bytes_in: int, full_in: Sequence[float | None] = ()) -> ClusterLoad:
    disks = [
        DiskForecast(
            broker_id=at + 1,
            log_dirs=("/d",),
            held_bytes=50,
            total_bytes=100,
            usable_bytes=50,
            bytes_per_day=10,
            watched_seconds=9e5,
            outlook=Outlook.NOT_WITHIN_A_YEAR if days is None else Outlook.FILLS,
            days_left=days,
        )
        for at, days in enumerate(full_in)
    ]
    return ClusterLoad(
        cluster="demo",
        snapshot_id="demo-0",
        observed_at=NOON,
        since=NOON,
        snapshot_count=1,
        bytes_in=Rates(sum(bytes_in), None, None, None),
        replicated_in=UNKNOWN,
        bytes_in_trace=NO_TRACE,
        leaders=evenness(bytes_in) if bytes_in else None,
        followers=None,
        brokers=tuple(
            BrokerTraffic(at + 1, None, False, Rates(rate, None, None, None), UNKNOWN, 1, 0)
            for at, rate in enumerate(bytes_in)
        ),
        racks=(),
        unknown=(),
        hot_partitions=(),
        hot_topics=(),
        held_bytes=None,
        bytes_per_day=None,
        growth_watched_seconds=0.0,
        growing_topics=(),
        disks=tuple(disks),
    )


def state(cluster: str = "demo", **changes: Any) -> ClusterState:
    return replace(ClusterState(cluster, SOON, balance()), **changes)


def only(**changes: Any) -> FleetEntry:
    return fleet_entry(state(**changes))


def words(row: FleetEntry) -> list[str]:
    return [finding.words for finding in row.concerns]


def test_a_cluster_without_a_concern_is_well() -> None:
    row = only(load=load(100, 110, 90, full_in=(31, None)))
    assert (row.concerns, row.worst) == ((), None)


@pytest.mark.parametrize(
    ("changes", "concern", "told"),
    [
        ({"age": None, "balance": None}, Concern.SILENT, "has no snapshot yet"),
        ({"age": timedelta(hours=30)}, Concern.SILENT, "no snapshot for 1 d 6 h"),
        ({"balance": None}, Concern.NOT_ANALYSED, "has snapshots, but none is analysed yet"),
        (
            {"balance": None, "is_readable": False},
            Concern.NOT_ANALYSED,
            "its analysis cannot be read",
        ),
        (
            {"balance": balance(offline_partitions=1)},
            Concern.OFFLINE,
            "1 partition without a leader",
        ),
        (
            {"load": load(9, 9, full_in=(0.0, 12.7, 40))},
            Concern.DISK,
            "broker 1's disk full within a day, 1 other disk within 30 days",
        ),
        ({"load": load(9, 9, full_in=(6.2, None))}, Concern.DISK, "broker 1's disk full in 6 days"),
        (
            {
                "balance": balance(
                    Broker(1), Broker(2, is_fenced=True), under_replicated_partitions=18
                )
            },
            Concern.DEAD,
            "dead broker 2; 18 partitions under-replicated",
        ),
        (
            {
                "balance": balance(
                    Broker(1), *(Broker(at, leaders=0, replicas=0) for at in (4, 5, 6, 7))
                )
            },
            Concern.IDLE,
            "4 idle brokers: 4, 5, 6, …",
        ),
        (
            {
                "balance": balance(Broker(1, leaders=9), Broker(2, leaders=3)),
                "wanted": WantedRebalance(Goal.LEADERS, (), "x"),
            },
            Concern.UNEVEN,
            "3 to 9 leaders per broker",
        ),
        (
            {
                "balance": balance(Broker(1, preferred=11), Broker(2, preferred=1)),
                "wanted": WantedRebalance(Goal.LEADERS, (), "x"),
            },
            Concern.UNEVEN,
            "1 to 11 preferred leaders per broker",
        ),
        (
            {"balance": balance(Broker(1, not_preferred=3), Broker(2))},
            Concern.NOT_PREFERRED,
            "25 % of partitions not led by their preferred leader",
        ),
        ({"load": load(100, 800, 300)}, Concern.BUSY, "broker 2 takes in 2.0 × its share"),
        (
            {"left_out": (LeftOut("demo-1", "no file"),)},
            Concern.LEFT_OUT,
            "1 snapshot could not be analysed",
        ),
    ],
)
def test_every_concern_is_told_in_a_few_words(
    changes: dict[str, Any], concern: Concern, told: str
) -> None:
    row = only(**changes)
    assert row.worst is not None
    assert (row.worst.concern, row.worst.words) == (concern, told)
    assert len(row.concerns) == 1


def test_silence_is_measured_by_how_often_a_cluster_was_photographed() -> None:
    hourly = balance(snapshots=6)
    assert words(only(balance=hourly, age=timedelta(minutes=149))) == []
    assert words(only(balance=hourly, age=timedelta(minutes=151))) == ["no snapshot for 2 h 31 min"]
    assert (
        words(only(balance=balance(), age=timedelta(hours=23))) == []
    )  # a single one tells nothing


def test_brokers_of_a_cluster_without_replicas_are_not_idle() -> None:
    assert (
        words(only(balance=balance(*(Broker(at, leaders=0, replicas=0, bytes=0) for at in (1, 2)))))
        == []
    )


def test_the_worst_comes_first_by_gravity_then_amount_then_number_then_name() -> None:
    uneven = WantedRebalance(Goal.LEADERS, (), "x")
    idle = balance(Broker(1), Broker(2, leaders=0, replicas=0))
    two_idle = balance(Broker(1), *(Broker(at, leaders=0, replicas=0) for at in (2, 3)))
    states = [
        state("b-well"),
        state("a-well"),
        state("uneven", balance=balance(Broker(1, leaders=9), Broker(2, leaders=3)), wanted=uneven),
        state(
            "more-uneven",
            balance=balance(Broker(1, leaders=11), Broker(2, leaders=1)),
            wanted=uneven,
        ),
        state("idle-and-busy", balance=idle, load=load(10, 0)),
        state("idle", balance=idle),
        state("two-idle", balance=two_idle),
        state("disk-later", load=load(5, 5, full_in=(20,))),
        state("disk-now", load=load(5, 5, full_in=(1,))),
        state("silent", age=timedelta(days=2)),
        state("silent-longer", age=timedelta(days=3)),
        state("never", age=None, balance=None),
        state("left-out", left_out=(LeftOut("x", "y"),)),
    ]
    expected = [
        "never",
        "silent-longer",
        "silent",
        "disk-now",
        "disk-later",
        "two-idle",
        "idle-and-busy",
        "idle",
        "more-uneven",
        "uneven",
        "left-out",
        "a-well",
        "b-well",
    ]
    entries = [fleet_entry(one) for one in states]
    assert [entry.cluster for entry in fleet(entries, as_of=NOW).clusters] == expected
    assert [entry.cluster for entry in fleet(reversed(entries), as_of=NOW).clusters] == expected


def test_all_concerns_of_a_cluster_are_named_the_gravest_first() -> None:
    row = only(
        age=timedelta(days=2),
        balance=balance(Broker(1, not_preferred=6), Broker(2, leaders=0, replicas=0)),
        load=load(10, 0, full_in=(3,)),
        left_out=(LeftOut("x", "y"), LeftOut("z", "y")),
    )
    concerns = [finding.concern for finding in row.concerns]
    assert concerns == [
        Concern.SILENT,
        Concern.DISK,
        Concern.IDLE,
        Concern.NOT_PREFERRED,
        Concern.BUSY,
        Concern.LEFT_OUT,
    ]
