"""Load for tests: rows of TOPIC_LOAD, PARTITION_LOAD and LOG_DIR_LOAD by hand, and those of a
made-up cluster.

cluster_load(*loads_of(story(brokers=6, snapshots=200)), cluster="demo")
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from counterpoise.model.tables import LOG_DIR_LOAD, PARTITION_LOAD, TOPIC_LOAD
from tests.support.series import NOON, Story

TB = 10**12
Tables = tuple[pa.Table, pa.Table, pa.Table, pa.Table]


def _head(hour: float, cluster: str) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "snapshot_id": f"{cluster}-{hour:g}",
        "observed_at": NOON + timedelta(hours=hour),
    }


def partitions(
    hour: float,
    rates: Mapping[str, Sequence[int | str | None]],
    *,
    cluster: str = "demo",
    seconds: float | None = 3600.0,
) -> pa.Table:
    """Rows of PARTITION_LOAD: a rate per partition of each topic, or the word for why it is not
    known.
    """
    return pa.Table.from_pylist(
        [
            _head(hour, cluster)
            | {
                "topic": topic,
                "partition": partition,
                "leader": partition % 3 + 1,
                "seconds": seconds,
                "bytes_in_per_second": rate if isinstance(rate, int) else None,
                "how": rate if isinstance(rate, str) else "records",
            }
            for topic, of_topic in rates.items()
            for partition, rate in enumerate(of_topic)
        ],
        schema=PARTITION_LOAD,
    )


def topics(
    hour: float, found: Sequence[tuple[str, int | None, int, int | None]], *, cluster: str = "demo"
) -> pa.Table:
    """Rows of TOPIC_LOAD: name, bytes in, size, growth per second."""
    return pa.Table.from_pylist(
        [
            _head(hour, cluster)
            | {
                "topic": topic,
                "partition_count": 6,
                "bytes_in_per_second": rate,
                "hottest_partition": None if rate is None else 2,
                "hottest_bytes_in_per_second": None if rate is None else rate // 2,
                "size_bytes": size,
                "growth_bytes_per_second": growth,
            }
            for topic, rate, size, growth in found
        ],
        schema=TOPIC_LOAD,
    )


def log_dirs(
    hour: float,
    found: Sequence[tuple[int, str, int | None, int | None, int | None]],
    *,
    cluster: str = "demo",
) -> pa.Table:
    """Rows of LOG_DIR_LOAD: broker, path, held, total and usable bytes."""
    names = LOG_DIR_LOAD.names[3:]
    return pa.Table.from_pylist(
        [_head(hour, cluster) | dict(zip(names, row, strict=True)) for row in found],
        schema=LOG_DIR_LOAD,
    )


def loads_of(told: Story, *, topic_count: int = 40, seed: int = 3) -> Tables:
    """SERIES, TOPIC_LOAD, PARTITION_LOAD of the latest snapshot, LOG_DIR_LOAD: two dirs a broker,
    filling at odds.
    """
    rng = np.random.default_rng(seed)
    ids = list(dict.fromkeys(told.table["snapshot_id"].to_pylist()))
    hours = np.array([(at - told.times[0]).total_seconds() / 3600 for at in told.times])
    head = {
        "cluster": pa.repeat(told.cluster, len(ids)),
        "snapshot_id": pa.array(ids),
        "observed_at": pa.array(told.times, TOPIC_LOAD.field("observed_at").type),
    }
    share = (1 / np.arange(1, topic_count + 1)) ** 1.1
    rate = (share / share.sum() * 90_000_000)[None, :] * (1 + 0.5 * np.sin(hours * np.pi / 12))[
        :, None
    ]
    rate = (rate * rng.uniform(0.8, 1.2, rate.shape)).astype(np.int64)
    names = [f"{('orders', 'payments', 'audit')[at % 3]}.events-{at}" for at in range(topic_count)]
    topic_table = _crossed(
        head,
        topic_count,
        {
            "topic": pa.array(names * len(ids)),
            "partition_count": np.full(rate.size, 24),
            "bytes_in_per_second": pa.array(
                rate.ravel(), mask=np.repeat(np.arange(len(ids)) == 0, topic_count)
            ),
            "hottest_partition": np.full(rate.size, 5, np.int32),
            "hottest_bytes_in_per_second": rate.ravel() // 9,
            "size_bytes": rate.ravel() * 86_400,
            "growth_bytes_per_second": rate.ravel() // 40 - 20_000,
            "rates_at_least": np.zeros(rate.size, np.int64),
            "rates_unknown": np.zeros(rate.size, np.int64),
        },
        TOPIC_LOAD,
    )
    of_partition = {
        name: [int(rate[-1, at] * part) for part in rng.dirichlet([2] * 24)]
        for at, name in enumerate(names)
    }
    latest = float(ids[-1].removeprefix(f"{told.cluster}-"))
    return (
        told.table,
        topic_table,
        partitions(latest, of_partition, cluster=told.cluster),
        _dirs(told, head, hours, rng),
    )


def _dirs(
    told: Story, head: Mapping[str, Any], hours: "np.ndarray[Any, Any]", rng: np.random.Generator
) -> pa.Table:
    dirs = 2 * told.new_broker
    speed = (rng.lognormal(20, 1.6, dirs) - 1e8) * 200 / len(hours)  # bytes an hour
    held = (1.2 * TB + rng.uniform(0, 0.2, dirs) * TB)[None, :] + speed[None, :] * hours[:, None]
    held = np.maximum(0, held + rng.normal(0, 2e8, held.shape)).astype(np.int64)
    broker = np.arange(dirs) // 2 + 1
    total = np.where(
        broker % 3 == 0, 4 * TB, 2 * TB
    )  # every third broker has both dirs on one disk
    used = np.where(broker % 3 == 0, held + held[:, np.arange(dirs) ^ 1], held)
    return _crossed(
        head,
        dirs,
        {
            "broker_id": np.tile(broker, len(hours)).astype(np.int32),
            "log_dir": pa.array([f"/data/{at % 2}/kafka-logs" for at in range(dirs)] * len(hours)),
            "held_bytes": held.ravel(),
            "total_bytes": np.tile(total, len(hours)),
            "usable_bytes": np.maximum(0, total[None, :] - used).ravel(),
        },
        LOG_DIR_LOAD,
    )


def _crossed(
    head: Mapping[str, Any], each: int, columns: Mapping[str, Any], schema: pa.Schema
) -> pa.Table:
    """Every snapshot with every thing."""
    count = len(head["snapshot_id"])
    at = pa.array(np.repeat(np.arange(count), each))
    return (
        pa.table({name: column.take(at) for name, column in head.items()} | dict(columns))
        .select(schema.names)
        .cast(schema)
    )
