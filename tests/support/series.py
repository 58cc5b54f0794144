"""Series for tests: rows of SERIES by hand, and a made-up cluster that lives through weeks, its
dates known.

table = rows(3, [Broker(1, "a", leaders=9), Broker(2, "b", leaders=4)], failovers=2)
told = story(brokers=6, snapshots=200)
told.table, told.joined_at, told.gap_at
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from counterpoise.model.balance import SnapshotChanges
from counterpoise.model.tables import SERIES, TOPIC_BALANCE

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
NO_TOPICS = TOPIC_BALANCE.empty_table()
_COUNTS = [name for name in SnapshotChanges.__slots__ if name not in ("is_rebuilt", "seconds")]


@dataclass(frozen=True)
class Broker:
    id: int
    rack: str | None = None
    is_fenced: bool = False
    leaders: int = 6
    preferred: int | None = None  # as leaders, when not told
    not_preferred: int = 0
    replicas: int = 18
    bytes: int = 1000
    bytes_in: int | None = None
    at_least: int = 0  # partitions that it leads whose rate is a lower bound
    unknown: int = 0  # partitions that it leads whose rate is not known, where `bytes_in` is
    follower_unknown: int = 0  # the same of those that it follows


def rows(
    hour: float,
    brokers: Sequence[Broker],
    *,
    cluster: str = "demo",
    compared: bool = True,
    **changes: Any,
) -> pa.Table:
    """A snapshot's rows of SERIES, compared with the one an hour earlier; `changes` are columns of
    SNAPSHOT_CHANGES.
    """
    head = {
        "cluster": cluster,
        "snapshot_id": f"{cluster}-{hour:g}",
        "observed_at": NOON + timedelta(hours=hour),
    }
    told: dict[str, Any] = {}
    if compared:
        told = dict.fromkeys(_COUNTS, 0) | {
            "cluster_id": "Kafka-Id",
            "previous_snapshot_id": f"{cluster}-{hour - 1:g}" if hour else None,
            "is_rebuilt": False,
            "seconds": 3600.0 if hour else None,
            "partitions": sum(broker.leaders for broker in brokers),
        }
        told |= changes
    return pa.Table.from_pylist([head | told | _row(broker) for broker in brokers], schema=SERIES)


def _row(broker: Broker) -> dict[str, Any]:
    return {
        "broker_id": broker.id,
        "rack": broker.rack,
        "is_fenced": broker.is_fenced,
        "leaders": broker.leaders,
        "preferred_leaders": broker.leaders if broker.preferred is None else broker.preferred,
        "leaders_not_preferred": broker.not_preferred,
        "replicas": broker.replicas,
        "bytes": broker.bytes,
        "leader_bytes_in_per_second": broker.bytes_in,
        "follower_bytes_in_per_second": None if broker.bytes_in is None else 2 * broker.bytes_in,
        "rates_known": 0 if broker.bytes_in is None else broker.leaders,
        "rates_unknown": broker.leaders if broker.bytes_in is None else broker.unknown,
        "rates_at_least": broker.at_least,
        "follower_rates_unknown": broker.follower_unknown,
    }


def topics(
    hour: float, found: Sequence[tuple[str, int, int, int, int]], cluster: str = "demo"
) -> pa.Table:
    """Rows of TOPIC_BALANCE: name, partitions, most leaders, fewest leaders, bytes."""
    head = {
        "cluster": cluster,
        "snapshot_id": f"{cluster}-{hour:g}",
        "observed_at": NOON + timedelta(hours=hour),
    }
    names = TOPIC_BALANCE.names[3:]
    return pa.Table.from_pylist(
        [head | dict(zip(names, row, strict=True)) for row in found], schema=TOPIC_BALANCE
    )


@dataclass(frozen=True)
class Story:
    """Snapshots by their position: the last broker joins, gets its share; the first one dies and
    returns; a gap.
    """

    table: pa.Table
    cluster: str
    new_broker: int
    joined_at: int
    share_from: int  # replicas move in these snapshots
    share_until: int
    died_at: int
    returned_at: int
    elected_at: int
    gap_at: int  # the first snapshot after it
    times: tuple[datetime, ...]


def story(
    brokers: int = 6, snapshots: int = 200, *, cluster: str = "demo", racks: int = 3, seed: int = 7
) -> Story:
    """At least 20 snapshots, one an hour; leaders wander a little, rates by the hour of the day."""
    rng = np.random.default_rng(seed)
    joined, share_from, share_until, died, returned, elected, gap = (
        int(snapshots * part) for part in (0.2, 0.3, 0.38, 0.55, 0.6, 0.65, 0.8)
    )
    hours = np.arange(snapshots) + np.where(np.arange(snapshots) >= gap, max(6, snapshots // 25), 0)
    is_there = np.ones((snapshots, brokers), bool)
    is_there[:joined, -1] = False
    is_live = is_there.copy()
    is_live[died:returned, 0] = False
    part = np.ones((snapshots, brokers))  # of the share of replicas
    part[:, -1] = np.clip(
        (np.arange(snapshots) - share_from + 1) / (share_until - share_from + 1), 0, 1
    )
    replicas = _shared(300 * brokers, part * is_there)
    wandering = 1 + 0.08 * np.cumsum(rng.normal(0, 0.12, (snapshots, brokers)), axis=0) / 2
    led = np.clip(wandering, 0.5, 1.6) * part * is_live
    led[returned:elected, 0] *= 0.02
    leaders = _shared(100 * brokers, led)
    hot = rng.uniform(0.6, 1.8, brokers)
    day = 1 + 0.5 * np.sin(hours * 2 * np.pi / 24)
    inflow = (leaders * hot * day[:, None] * 20_000).astype(np.int64)
    changes = _changes(leaders, replicas, is_live, (joined, died, returned, elected))
    table = _table(cluster, hours, is_there, is_live, leaders, replicas, inflow, changes, racks)
    times = tuple(NOON + timedelta(hours=int(hour)) for hour in hours)
    return Story(
        table,
        cluster,
        brokers,
        joined,
        share_from,
        share_until,
        died,
        returned,
        elected,
        gap,
        times,
    )


def _shared(total: int, parts: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """`total` whole units per row, by parts; rounding goes to whoever is first."""
    exact = parts / parts.sum(axis=1, keepdims=True) * total
    whole = np.floor(exact).astype(np.int64)
    missing = total - whole.sum(axis=1)
    order = np.argsort(whole - exact, axis=1, kind="stable")
    rank = np.argsort(order, axis=1, kind="stable")
    return whole + ((rank < missing[:, None]) & (parts > 0))


def _changes(
    leaders: "np.ndarray[Any, Any]",
    replicas: "np.ndarray[Any, Any]",
    is_live: "np.ndarray[Any, Any]",
    dates: tuple[int, int, int, int],
) -> "dict[str, np.ndarray[Any, Any]]":
    """What the Spark job would count, one per snapshot."""
    _joined, died, _returned, elected = dates
    count = len(leaders)
    moved = np.maximum(0, np.diff(replicas, axis=0, prepend=replicas[:1])).sum(axis=1)
    moved[[died, elected]] = 0
    changed = np.maximum(0, np.diff(leaders, axis=0, prepend=leaders[:1])).sum(axis=1)
    failovers, elections = np.zeros(count, np.int64), np.zeros(count, np.int64)
    failovers[died] = leaders[died - 1, 0]
    elections[elected] = leaders[elected, 0] - leaders[elected - 1, 0]
    partitions = leaders.sum(axis=1)
    values = dict.fromkeys(_COUNTS, np.zeros(count, np.int64))
    return values | {
        "partitions": partitions,
        "under_replicated_partitions": np.where(is_live[:, 0], 0, replicas[:, 0]),
        "reassigning_partitions": np.where(moved > 0, moved // 2, 0),
        "leaders_changed": changed,
        "failovers": failovers,
        "preferred_elections": elections,
        "leader_epochs": changed + changed // 5,
        "replica_sets_changed": moved,
        "uneven_topics": leaders.max(axis=1) - leaders.min(axis=1),
    }


def _table(
    cluster: str,
    hours: "np.ndarray[Any, Any]",
    is_there: "np.ndarray[Any, Any]",
    is_live: "np.ndarray[Any, Any]",
    leaders: "np.ndarray[Any, Any]",
    replicas: "np.ndarray[Any, Any]",
    inflow: "np.ndarray[Any, Any]",
    changes: "dict[str, np.ndarray[Any, Any]]",
    racks: int,
) -> pa.Table:
    at, broker = np.nonzero(is_there)
    names = [f"{cluster}-{hour}" for hour in hours.tolist()]
    times = [NOON + timedelta(hours=hour) for hour in hours.tolist()]
    known = at > 0
    preferred = np.tile(leaders[0] * 0 + leaders.sum() // leaders.size, (len(hours), 1))
    columns: dict[str, Any] = {
        "cluster": pa.array([cluster]).take(pa.array(np.zeros(len(at), np.int64))),
        "snapshot_id": pa.array(names).take(pa.array(at)),
        "observed_at": pa.array(times, SERIES.field("observed_at").type).take(pa.array(at)),
        "broker_id": broker + 1,
        "rack": pa.array([chr(97 + i) for i in range(racks)]).take(pa.array(broker % racks)),
        "is_fenced": ~is_live[at, broker],
        "leaders": leaders[at, broker],
        "preferred_leaders": preferred[at, broker],
        "leaders_not_preferred": np.maximum(0, leaders - preferred)[at, broker],
        "replicas": replicas[at, broker],
        "bytes": replicas[at, broker] * 1_500_000_000 + broker * 7_000_000,
        "leader_bytes_in_per_second": pa.array(inflow[at, broker], mask=~known),
        "follower_bytes_in_per_second": pa.array(inflow[at, broker] * 2, mask=~known),
        "rates_known": leaders[at, broker],
        "rates_unknown": np.zeros(len(at), np.int64),
        "rates_at_least": np.zeros(len(at), np.int64),
        "follower_rates_at_least": np.zeros(len(at), np.int64),
        "follower_rates_unknown": np.zeros(len(at), np.int64),
        "leaders_lost": np.zeros(len(at), np.int64),
        "leaders_handed_back": np.zeros(len(at), np.int64),
        "cluster_id": pa.array(["Kafka-Id"]).take(pa.array(np.zeros(len(at), np.int64))),
        "previous_snapshot_id": pa.array([None, *names[:-1]]).take(pa.array(at)),
        "is_rebuilt": np.zeros(len(at), bool),
        "seconds": pa.array([None, *(np.diff(hours) * 3600.0).tolist()]).take(pa.array(at)),
    } | {name: values[at] for name, values in changes.items()}
    return pa.table(
        [pa.array(columns[field.name]).cast(field.type) for field in SERIES], schema=SERIES
    )
