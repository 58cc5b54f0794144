"""What can happen to a cluster between two snapshots: each scenario is a cluster of its own with
a few specs.

SCENARIOS["failover"]        # the specs, by time
drawn(seed=1, specs=5)      # a small cluster to which anything happens
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.spark.snapshot_files import BROKERS, SnapshotSpec, part

DEAD_1 = ({"broker_id": 1, "rack": "a", "is_fenced": True}, *BROKERS[1:])
GONE_1 = BROKERS[1:]
LOG_DIRS = (
    {
        "broker_id": 1,
        "log_dir": "/a",
        "total_bytes": 1000,
        "usable_bytes": 400,
        "error": None,
        "held_bytes": 600,
    },
    {
        "broker_id": 1,
        "log_dir": "/b",
        "total_bytes": None,
        "usable_bytes": None,
        "error": None,
        "held_bytes": 70,
    },
    {
        "broker_id": 2,
        "log_dir": "/a",
        "total_bytes": 1000,
        "usable_bytes": 900,
        "error": "KAFKA_STORAGE_ERROR",
    },
    {
        "broker_id": 3,
        "log_dir": "/idle",
        "total_bytes": 10,
        "usable_bytes": 10,
        "error": None,
        "held_bytes": 0,
    },
)


def _two(
    name: str, before: Sequence[Any], after: Sequence[Any], *, hours: float = 1, **later: Any
) -> list[SnapshotSpec]:
    return [
        SnapshotSpec(name, 0, before, log_dirs=LOG_DIRS),
        SnapshotSpec(name, hours, after, log_dirs=LOG_DIRS, **later),
    ]


def _leader(
    leader: int | None, epoch: int | None, replicas: Sequence[int] = (1, 2, 3), **told: Any
) -> list[Any]:
    return [part("orders", 0, replicas, leader=leader, epoch=epoch, **told)]


def _log(
    earliest: int | None, latest: int | None, size: int | None, leader: int | None = 1
) -> list[Any]:
    return [part("orders", 0, [1, 2, 3], leader=leader, offsets=(earliest, latest), size=size)]


def _many(count: int, later: int) -> list[Any]:
    """Partitions of one topic, each with a rate of its own: after `later` seconds, its number in
    bytes a second.
    """
    told = ((n, 1000 + n * later) for n in range(count))
    return [
        part("orders", n, [1, 2], leader=1 + n % 2, size=end, offsets=(0, end)) for n, end in told
    ]


def _with(topic_id: str | None = "orders-id", policy: str | None = "delete") -> dict[str, Any]:
    return {"topics": {"orders": (topic_id, policy)}}


def _leaders() -> dict[str, list[SnapshotSpec]]:
    before = _leader(1, 5)
    return {
        "unchanged": _two("unchanged", before, before),
        "fenced": _two("fenced", before, _leader(2, 6, isr=[2, 3]), brokers=DEAD_1),
        "unregistered": _two("unregistered", before, _leader(4, 6, [4, 2, 3]), brokers=GONE_1),
        "out-of-sync": _two("out-of-sync", before, _leader(2, 8, isr=[2, 3])),
        "preferred": _two("preferred", _leader(2, 5), _leader(1, 6)),
        "elsewhere": _two("elsewhere", before, _leader(3, 6)),
        "reassigned": _two("reassigned", before, _leader(4, 6, [4, 2, 3])),
        "reassigning": _two(
            "reassigning",
            before,
            _leader(1, 5, [1, 2, 3, 4], isr=[1, 2, 3], adding=[4], removing=[1]),
        ),
        "moved": _two(
            "moved",
            _leader(1, 5, [4, 2, 3, 1], isr=[1, 2, 3], adding=[4], removing=[1]),
            _leader(4, 6, [4, 2, 3]),
        ),
        "cancelled": _two(
            "cancelled",
            _leader(1, 5, [4, 2, 3, 1], isr=[1, 2, 3], adding=[4], removing=[1]),
            _leader(1, 5, [1, 2, 3]),
        ),
        "reordered": _two("reordered", before, _leader(1, 5, [3, 2, 1])),
        "lost": _two("lost", before, _leader(None, 6, isr=[1])),
        "found": _two("found", _leader(None, 5), _leader(2, 6)),
        "returned": _two("returned", before, _leader(1, 7)),
        "epochs-anew": _two("epochs-anew", before, _leader(1, 0)),
        "no-epochs": _two("no-epochs", _leader(1, None), _leader(2, 6)),
        "still-lost": _two("still-lost", _leader(None, None), _leader(None, 3)),
        "a-broker-joins": _two(
            "a-broker-joins", before, before, brokers=(*BROKERS, {"broker_id": 4, "rack": "a"})
        ),
        "a-rack-is-renamed": _two(
            "a-rack-is-renamed", before, before, brokers=({"broker_id": 1, "rack": "z"},)
        ),
    }


def _topics() -> dict[str, list[SnapshotSpec]]:
    one = _log(0, 100, 1000)
    other = [*one, part("pay", 0, [2], leader=2, size=5, offsets=(0, 5))]
    more = [*one, part("orders", 1, [2, 3], leader=2, size=9, offsets=(0, 3))]
    found = {
        "created": _two("created", one, other),
        "deleted": _two("deleted", other, one),
        "recreated": _two("recreated", one, _log(0, 300, 2000), **_with("another-id")),
        "more-partitions": _two("more-partitions", one, more),
        "rebuilt": _two("rebuilt", one, _log(0, 300, 2000), cluster_id="the-second"),
        "id-learned": _two("id-learned", one, _log(0, 300, 2000)),
        "id-never-known": _two("id-never-known", one, _log(0, 300, 2000), **_with(None)),
        "emptied": _two("emptied", one, []),
        # Spark's F.hash, of 32 bits, is the same for both names, whatever its seed is.
        "names-of-one-hash": _two(
            "names-of-one-hash",
            [
                part("tp08u8a1", 0, [1], leader=1, offsets=(0, 100), size=1_000),
                part("71fa-_fr", 0, [2], leader=2, offsets=(0, 900), size=90_000),
            ],
            [
                part("tp08u8a1", 0, [1], leader=1, offsets=(0, 100), size=1_000),
                part("71fa-_fr", 0, [2], leader=2, offsets=(0, 900), size=90_000),
            ],
        ),
        "many-partitions": _two("many-partitions", _many(150, later=0), _many(200, later=3600)),
    }
    for name in ("id-learned", "id-never-known"):
        found[name][0] = replace(found[name][0], topics=_with(None)["topics"])
    return found


def _loads() -> dict[str, list[SnapshotSpec]]:
    before, cleaned = _log(0, 100, 1000), _with(policy="compact,delete")
    return {
        "growth": _two("growth", before, _log(0, 300, 8200)),
        "another-copy": _two("another-copy", before, _log(0, 300, 8200, leader=2)),
        "retention": _two("retention", before, _log(50, 300, 8200)),
        "growth-of-nothing": _two("growth-of-nothing", before, _log(0, 300, 1000)),
        "policy-not-known": _two(
            "policy-not-known", before, _log(0, 300, 8200), **_with(policy=None)
        ),
        "compaction-by-records": _two(
            "compaction-by-records", before, _log(0, 300, 1200), **cleaned
        ),
        "compaction-by-growth": _two(
            "compaction-by-growth", before, _log(0, 5000, 900_000), **cleaned
        ),
        "compaction-elsewhere": _two(
            "compaction-elsewhere", before, _log(0, 300, 1200, leader=2), **cleaned
        ),
        # Two transactions of 8 records and a marker each: 20 offsets came, the markers' bytes are
        # in the size.
        "transactions": _two("transactions", before, _log(30, 120, 990)),
        "nothing-new": _two("nothing-new", before, _log(100, 100, 0)),
        "nothing-kept": _two("nothing-kept", before, _log(300, 300, 0)),
        "no-size": _two("no-size", before, _log(0, 300, None)),
        "no-offsets": _two("no-offsets", before, _log(None, None, 1000, leader=None)),
        "reset": _two("reset", before, _log(0, 20, 200)),
        "gap": _two("gap", before, _log(0, 300, 8200), hours=26.01),
        "just-a-day": _two("just-a-day", before, _log(0, 300, 8200), hours=24),
        "clock-back": _two("clock-back", before, _log(0, 300, 8200), clock=-1),
        "clock-still": _two("clock-still", before, _log(0, 300, 8200), clock=0),
        "huge": _two("huge", before, _log(0, 4 * 10**15, 6 * 10**18), **_with()),
        "a-dead-follower": _two(
            "a-dead-follower",
            _log(0, 100, 1, leader=2),
            _log(0, 200, 72001, leader=2),
            brokers=DEAD_1,
        ),
        "equally-hot": _two(
            "equally-hot",
            [part("t", n, [1, 2], leader=1, size=10, offsets=(0, 10)) for n in (7, 3, 5)],
            [part("t", n, [1, 2], leader=1, size=7210, offsets=(0, 20)) for n in (7, 3, 5)],
        ),
    }


def _balances() -> dict[str, list[SnapshotSpec]]:
    rows = [
        part("even", n, [leader, 1 + leader % 3], leader=leader, size=10)
        for n, leader in enumerate((1, 2, 3, 3))
    ]
    rows += [part("uneven", n, [1, 2], leader=2, size=None) for n in range(3)] + [
        part("lost", 0, [3], leader=None)
    ]
    idle = (*BROKERS, {"broker_id": 4, "rack": "a"})
    dead = (*BROKERS, {"broker_id": 4, "rack": "a", "is_fenced": True})
    nobody = ({"broker_id": 1, "rack": None, "is_fenced": True},)
    return {
        "balance": _two("balance", rows, rows),
        "a-dead-broker-leads-nothing": _two(
            "a-dead-broker-leads-nothing", rows, rows, brokers=dead
        ),
        "an-idle-broker": _two("an-idle-broker", rows, rows, brokers=idle),
        "nobody-lives": _two(
            "nobody-lives", rows, [part("lost", 0, [1], leader=None, size=1)], brokers=nobody
        ),
    }


SCENARIOS: dict[str, list[SnapshotSpec]] = {**_leaders(), **_topics(), **_loads(), **_balances()}


def drawn(seed: int, specs: int) -> list[SnapshotSpec]:
    """A small cluster and what becomes of it, by chance; the same seed draws the same."""
    chance = random.Random(seed)
    made: list[SnapshotSpec] = []
    brokers = [{"broker_id": n, "rack": f"r{n % 2}"} for n in range(1, chance.randint(4, 6))]
    rows = [
        _any_part(chance, f"t{t}", n, brokers)
        for t in range(3)
        for n in range(chance.randint(1, 4))
    ]
    hour, policies = 0.0, {f"t{t}": chance.choice(["delete", "compact", None]) for t in range(4)}
    ids: dict[str, str | None] = {name: f"{name}-id" for name in policies}
    for _ in range(specs):
        told = {name: (ids[name], policies[name]) for name in policies}
        cluster_id = (
            "the-second"
            if made and chance.random() < 0.1
            else (made[-1].cluster_id if made else "the-first")
        )
        made.append(
            SnapshotSpec(f"drawn-{seed}", hour, rows, tuple(brokers), told, cluster_id, LOG_DIRS)
        )
        hour += chance.choice([0.5, 1, 1, 1, 30])
        brokers = [row | {"is_fenced": chance.random() < 0.2} for row in brokers]
        rows = [_later(chance, row, brokers) for row in rows if chance.random() > 0.03]
        if chance.random() < 0.3:
            rows.append(_any_part(chance, f"t{chance.randint(0, 3)}", 10 + len(made), brokers))
        ids = {
            name: chance.choice([None, f"{name}-new"]) if chance.random() < 0.1 else i
            for name, i in ids.items()
        }
    return made


def _any_part(
    chance: random.Random, topic: str, number: int, brokers: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    replicas = chance.sample([row["broker_id"] for row in brokers], chance.randint(1, 3))
    offsets = (chance.randint(0, 5), chance.randint(5, 500))
    size = chance.choice([None, 0, 300, 5_000, 123_456])
    return part(
        topic,
        number,
        replicas,
        leader=replicas[0],
        epoch=chance.randint(0, 3),
        offsets=offsets,
        size=size,
    )


def _later(
    chance: random.Random, row: dict[str, Any], brokers: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    new = dict(row)
    if chance.random() < 0.4:
        new["leader"] = chance.choice([None, *new["replicas"]])
        new["leader_epoch"] = chance.choice(
            [None, 0, (new["leader_epoch"] or 0) + chance.randint(0, 2)]
        )
    if chance.random() < 0.2:
        new["replicas"] = chance.sample([b["broker_id"] for b in brokers], len(new["replicas"]))
        new["leader"] = chance.choice(new["replicas"])
    new["isr"] = [b for b in new["replicas"] if chance.random() < 0.8]
    if new["latest_offset"] is not None and chance.random() < 0.9:
        new["latest_offset"] += chance.choice([0, 1, 50, 7000, -2])
        new["earliest_offset"] = min(
            new["latest_offset"], new["earliest_offset"] + chance.choice([0, 0, 10])
        )
    if new["size_bytes"] is not None and chance.random() < 0.8:
        new["size_bytes"] = max(0, new["size_bytes"] + chance.choice([0, 999, 100_000, -50]))
    return new
