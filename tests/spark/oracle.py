"""What the Spark jobs must find, worked out once more in plain Python, row by row, from the specs
themselves.

expected = tables_of(specs)          # every table of RESULT_TABLES, as lists of dicts
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from math import floor
from typing import Any

from tests.spark.snapshot_files import SnapshotSpec

Row = dict[str, Any]
LONGEST = 26 * 3600


def tables_of(specs: Sequence[SnapshotSpec]) -> dict[str, list[Row]]:
    """Every table; each spec is compared with the one before it of the same cluster."""
    last: dict[str, SnapshotSpec] = {}
    made: dict[str, list[Row]] = defaultdict(list)
    for spec in specs:
        previous = last.get(spec.cluster)
        for table, make in _TABLES.items():
            head = {
                "cluster": spec.cluster,
                "snapshot_id": spec.snapshot_id,
                "observed_at": spec.observed_at,
            }
            made[table] += [head | row for row in make(spec, previous)]
        last[spec.cluster] = spec
    return dict(made)


def _broker_balance(now: SnapshotSpec, _: SnapshotSpec | None) -> Iterator[Row]:
    for broker in now.brokers:
        mine = broker["broker_id"]
        held = [row for row in now.partitions if mine in row["replicas"]]
        led = [row for row in held if row["leader"] == mine]
        yield {
            "broker_id": mine,
            "rack": broker["rack"],
            "is_fenced": broker.get("is_fenced", False),
            "leaders": len(led),
            "preferred_leaders": sum(row["replicas"][0] == mine for row in held),
            "leaders_not_preferred": sum(row["replicas"][0] != mine for row in led),
            "replicas": len(held),
            "bytes": sum(row["size_bytes"] or 0 for row in held),
        }


def _topic_balance(now: SnapshotSpec, _: SnapshotSpec | None) -> Iterator[Row]:
    live = _live(now)
    for topic, rows in _by_topic(now.partitions).items():
        led = Counter(row["leader"] for row in rows if row["leader"] is not None)
        yield {
            "topic": topic,
            "partition_count": len(rows),
            "most_leaders": max(led.values(), default=0),
            "fewest_leaders": min((led[broker_id] for broker_id in live), default=0),
            "size_bytes": sum(row["size_bytes"] or 0 for row in rows),
        }


def _leader_changes(now: SnapshotSpec, previous: SnapshotSpec | None) -> Iterator[Row]:
    for old, new in _pairs(now, previous):
        before, after = old["leader"], new["leader"]
        epochs = None
        if old["leader_epoch"] is not None and new["leader_epoch"] is not None:
            epochs = new["leader_epoch"] - old["leader_epoch"]
        if before == after and not epochs:
            continue
        known = epochs if epochs is not None and epochs >= 0 else None
        yield {
            "topic": new["topic"],
            "partition": new["partition"],
            "leader_before": before,
            "leader": after,
            "leader_epochs": known,
            "kind": _kind(before, new, known, _live(now)),
        }


def _kind(before: int | None, new: Row, epochs: int | None, live: set[int]) -> str:
    after = new["leader"]
    if before == after:
        return "other" if epochs is None else "returned"
    if after is None:
        return "lost"
    if before is None:
        return "found"
    if before in live and before not in new["replicas"]:
        return "reassignment"
    if before not in live or before not in new["isr"]:
        return "failover"
    return "preferred_election" if after == new["replicas"][0] else "other"


def _snapshot_changes(now: SnapshotSpec, previous: SnapshotSpec | None) -> Iterator[Row]:
    is_rebuilt = previous is not None and previous.cluster_id != now.cluster_id
    changes = list(_leader_changes(now, previous))
    kinds = Counter(row["kind"] for row in changes)
    ids_before = {} if previous is None or is_rebuilt else _topic_ids(previous)
    ids_now, is_compared = _topic_ids(now), previous is not None and not is_rebuilt
    yield {
        "cluster_id": now.cluster_id,
        "previous_snapshot_id": None if previous is None else previous.snapshot_id,
        "is_rebuilt": is_rebuilt,
        "seconds": _seconds(now, previous),
        "partitions": len(now.partitions),
        "offline_partitions": sum(row["leader"] is None for row in now.partitions),
        "under_replicated_partitions": sum(
            len(row["isr"]) < len(set(row["replicas"]) - set(row["adding_replicas"]))
            for row in now.partitions
        ),
        "reassigning_partitions": sum(
            bool(row["adding_replicas"] or row["removing_replicas"]) for row in now.partitions
        ),
        "leaders_changed": len(changes) - kinds["returned"],
        "failovers": kinds["failover"],
        "preferred_elections": kinds["preferred_election"],
        "leaders_reassigned": kinds["reassignment"],
        "leaders_returned": kinds["returned"],
        "leader_epochs": sum(row["leader_epochs"] or 0 for row in changes),
        "replica_sets_changed": sum(_replicas(o) != _replicas(n) for o, n in _pairs(now, previous)),
        "topics_created": len(ids_now.keys() - ids_before.keys()) if is_compared else 0,
        "topics_deleted": len(ids_before.keys() - ids_now.keys()),
        "topics_recreated": sum(
            None not in (ids_now[name], ids_before[name]) and ids_now[name] != ids_before[name]
            for name in ids_now.keys() & ids_before.keys()
        ),
        "uneven_topics": sum(
            row["most_leaders"] - row["fewest_leaders"] > _best(row["partition_count"], now)
            for row in _topic_balance(now, previous)
        ),
    }


def _best(partition_count: int, now: SnapshotSpec) -> int:
    """Return max - min where the live brokers lead as evenly as whole partitions allow."""
    live = len(_live(now))
    return int(live > 0 and partition_count % live > 0)


def _replicas(row: Row) -> set[int]:
    """Without those that a reassignment is still adding."""
    return set(row["replicas"]) - set(row["adding_replicas"])


def _partition_load(now: SnapshotSpec, previous: SnapshotSpec | None) -> Iterator[Row]:
    seconds = _seconds(now, previous)
    known = {} if previous is None else {_key(row): row for row in previous.partitions}
    for new in now.partitions:
        how, came = _how(now, previous, known.get(_key(new)), new)
        growth = _growth(now, previous, known.get(_key(new)), new)
        yield {
            "topic": new["topic"],
            "partition": new["partition"],
            "leader": new["leader"],
            "seconds": seconds,
            "bytes_in_per_second": _rate(came, seconds),
            "growth_bytes_per_second": _rate(growth, seconds),
            "size_bytes": new["size_bytes"],
            "how": how,
        }


def _how(
    now: SnapshotSpec, previous: SnapshotSpec | None, old: Row | None, new: Row
) -> tuple[str, float | None]:
    """Why, and the bytes that came; those are None where they are not known."""
    if reason := _why_not(now, previous, old, new):
        return reason, None
    assert previous is not None
    assert old is not None
    records = new["latest_offset"] - old["latest_offset"]
    if records == 0:
        return "records", 0.0
    kept = new["latest_offset"] - new["earliest_offset"]
    if not kept or not new["size_bytes"]:
        return "unknown", None
    by_records = float(records) * new["size_bytes"] / kept
    growth = _growth(now, previous, old, new)
    policy = now.topic(new["topic"])[1]
    if policy is None or "compact" in policy:
        return "at_least", max(by_records, -1.0 if growth is None else growth)
    if growth is not None and growth > 0 and old["earliest_offset"] == new["earliest_offset"]:
        return "growth", float(growth)
    return "records", by_records


def _why_not(
    now: SnapshotSpec, previous: SnapshotSpec | None, old: Row | None, new: Row
) -> str | None:
    if previous is None:
        return "first"
    if previous.cluster_id != now.cluster_id:
        return "rebuilt"
    if old is None and new["topic"] not in _topic_ids(previous):
        return "first"
    id_before, id_now = previous.topic(new["topic"])[0], now.topic(new["topic"])[0]
    if None not in (id_before, id_now) and id_before != id_now:
        return "recreated"
    if old is None:
        return "first"
    ends = (old["latest_offset"], new["latest_offset"])
    if id_before == id_now and None not in ends and ends[1] < ends[0]:
        return "reset"
    if not 0 < (now.observed_at - previous.observed_at).total_seconds() <= LONGEST:
        return "gap"
    if id_before != id_now or None in ends:
        return "unknown"
    return "unknown" if ends[0] != ends[1] and new["earliest_offset"] is None else None


def _growth(
    now: SnapshotSpec, previous: SnapshotSpec | None, old: Row | None, new: Row
) -> int | None:
    """Of the leader's copy, when the same broker leads the same topic, and the two specs can be
    compared.
    """
    if previous is None or old is None or previous.cluster_id != now.cluster_id:
        return None
    seconds = _seconds(now, previous)
    if (
        seconds is None
        or not 0 < seconds <= LONGEST
        or now.topic(new["topic"])[0] != previous.topic(new["topic"])[0]
    ):
        return None
    if (
        new["leader"] is None
        or new["leader"] != old["leader"]
        or None in (new["size_bytes"], old["size_bytes"])
    ):
        return None
    return int(new["size_bytes"]) - int(old["size_bytes"])


def _broker_load(now: SnapshotSpec, previous: SnapshotSpec | None) -> Iterator[Row]:
    loads = list(_partition_load(now, previous))
    rates = {_key(row): row["bytes_in_per_second"] for row in loads}
    hows = {_key(row): row["how"] for row in loads}
    for broker in now.brokers:
        mine = broker["broker_id"]
        led_rows = [row for row in now.partitions if row["leader"] == mine]
        led = [rates[_key(row)] for row in led_rows]
        follows = [
            r for r in now.partitions if mine in r["replicas"] and r["leader"] not in (mine, None)
        ]
        followed = [] if broker.get("is_fenced") else [rates[_key(row)] for row in follows]
        yield {
            "broker_id": mine,
            "leader_bytes_in_per_second": _sum(led),
            "follower_bytes_in_per_second": _sum(followed),
            "rates_known": sum(rate is not None for rate in led),
            "rates_unknown": sum(rate is None for rate in led),
            "rates_at_least": sum(hows[_key(row)] == "at_least" for row in led_rows),
            "follower_rates_at_least": sum(hows[_key(row)] == "at_least" for row in follows),
            "follower_rates_unknown": sum(rates[_key(row)] is None for row in follows),
        }


def _log_dir_load(now: SnapshotSpec, _: SnapshotSpec | None) -> Iterator[Row]:
    for row in now.log_dirs:
        if row.get("error") is None:
            yield {
                key: row.get(key)
                for key in ("broker_id", "log_dir", "held_bytes", "total_bytes", "usable_bytes")
            }


def _topic_load(now: SnapshotSpec, previous: SnapshotSpec | None) -> Iterator[Row]:
    for topic, rows in _by_topic(_partition_load(now, previous)).items():
        rated = [row for row in rows if row["bytes_in_per_second"] is not None]
        hottest = max(
            rated, key=lambda row: (row["bytes_in_per_second"], -row["partition"]), default=None
        )
        yield {
            "topic": topic,
            "partition_count": len(rows),
            "bytes_in_per_second": _sum(row["bytes_in_per_second"] for row in rows),
            "hottest_partition": hottest and hottest["partition"],
            "hottest_bytes_in_per_second": hottest and hottest["bytes_in_per_second"],
            "size_bytes": sum(row["size_bytes"] or 0 for row in rows),
            "growth_bytes_per_second": _sum(row["growth_bytes_per_second"] for row in rows),
            "rates_at_least": sum(row["how"] == "at_least" for row in rows),
            "rates_unknown": len(rows) - len(rated),
        }


def _pairs(now: SnapshotSpec, previous: SnapshotSpec | None) -> Iterator[tuple[Row, Row]]:
    """Partitions of the same topic, before and now."""
    if previous is None or previous.cluster_id != now.cluster_id:
        return
    before = {(_key(row), previous.topic(row["topic"])[0]): row for row in previous.partitions}
    for row in now.partitions:
        if old := before.get((_key(row), now.topic(row["topic"])[0])):
            yield old, row


def _key(row: Row) -> tuple[str, int]:
    return row["topic"], row["partition"]


def _live(spec: SnapshotSpec) -> set[int]:
    return {broker["broker_id"] for broker in spec.brokers if not broker.get("is_fenced", False)}


def _topic_ids(spec: SnapshotSpec) -> dict[str, str | None]:
    return {row["topic"]: spec.topic(row["topic"])[0] for row in spec.partitions}


def _by_topic(rows: Any) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["topic"]].append(row)
    return found


def _seconds(now: SnapshotSpec, previous: SnapshotSpec | None) -> float | None:
    return None if previous is None else (now.observed_at - previous.observed_at).total_seconds()


def _rate(count: float | None, seconds: float | None) -> int | None:
    return None if count is None or seconds is None else floor(count / seconds + 0.5)


def _sum(values: Any) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


_TABLES: dict[str, Callable[[SnapshotSpec, SnapshotSpec | None], Iterator[Row]]] = {
    "broker_balance": _broker_balance,
    "topic_balance": _topic_balance,
    "leader_changes": _leader_changes,
    "snapshot_changes": _snapshot_changes,
    "partition_load": _partition_load,
    "broker_load": _broker_load,
    "log_dir_load": _log_dir_load,
    "topic_load": _topic_load,
}
