"""Clusters as pictures, so that a test shows what it is about.

    cluster("orders-0: 1 2 3", racks="1=a 2=b 3=c")
    cluster(
        '''
        orders-0: 1 2 3 @2 size=1000
        orders-1: 2 3 1 rate=50
        inventory-0: 4 2 3 1 +4 -1
        ''',
        racks="1=a 2=b !3=c 4",
    )

A line is `topic-partition: replicas`, then in any order `@leader` (the first live one by default,
`@none` for no leader), `size=BYTES` of one replica, `rate=BYTES_PER_SECOND`; of a reassignment
under way `+adding`, `-removing`. `racks` lists all registered brokers with their rack, if they have
one; `!` marks a fenced (dead) one.

    cluster("orders-0: 1 2 size=1000", racks="1 2", disks="1=1000/9000 2=1000/9000,0/5000,!")

`disks` has used and total bytes of each log dir of a broker; `!` is one that is offline.
`throttles` has rows of type, name, key and value of throttle keys that are set, as the cluster
document has them.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.document import from_document_text
from tests.simulated_kafka.cluster import SimulatedCluster

# Of six partitions with 30 MB each: what there is before broker 3 joins.
ON_TWO_BROKERS: Final = "\n".join(f"orders-{number}: 1 2 size=30000000" for number in range(6))


@dataclass(frozen=True, slots=True)
class BrokerPicture:
    broker_id: int
    rack: str | None
    is_fenced: bool


@dataclass(frozen=True, slots=True)
class PartitionPicture:
    topic: str
    partition: int
    replicas: tuple[int, ...]
    leader: int | None
    size_bytes: int | None
    bytes_in_per_second: int | None
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def cluster(
    picture: str = "",
    *,
    racks: str,
    disks: str = "",
    throttles: Sequence[Sequence[str]] = (),
    name: str = "picture",
    cluster_id: str = "picture-id",
) -> ClusterSnapshot:
    """The snapshot that a picture shows; topics get the id `id-of-<topic>`."""
    brokers = read_brokers(racks)
    partitions = read_partitions(picture, brokers)
    told = read_disks(disks)
    document = {
        "cluster": name,
        "cluster_id": cluster_id,
        "brokers": [
            {
                "id": b.broker_id,
                "rack": b.rack,
                "fenced": b.is_fenced,
                "log_dirs": told.get(b.broker_id),
            }
            for b in brokers
        ],
        "topics": [
            {"name": topic, "id": f"id-of-{topic}"}
            for topic in sorted({p.topic for p in partitions})
        ],
        "partitions": [
            [p.topic, p.partition, list(p.replicas), p.leader, p.size_bytes, p.bytes_in_per_second]
            for p in partitions
        ],
        "moving": [
            [p.topic, p.partition, list(p.adding), list(p.removing)]
            for p in partitions
            if p.adding or p.removing
        ],
        "throttles": list(map(list, throttles)),
    }
    return from_document_text(json.dumps(document), where="picture")


def read_brokers(racks: str) -> tuple[BrokerPicture, ...]:
    """The brokers of `1=a 2=b !3=c 4`."""
    brokers = []
    for word in racks.split():
        broker_id, _, rack = word.removeprefix("!").partition("=")
        brokers.append(BrokerPicture(int(broker_id), rack or None, word.startswith("!")))
    return tuple(brokers)


def read_disks(disks: str) -> dict[int, list[dict[str, Any]]]:
    """The log dirs of `1=10/90 2=10/90,0/50,!` as the cluster document tells them, by broker."""
    dirs = {}
    for word in disks.split():
        broker_id, _, told = word.partition("=")
        dirs[int(broker_id)] = [
            _log_dir(f"/disk-{number}", one) for number, one in enumerate(told.split(","))
        ]
    return dirs


def _log_dir(path: str, told: str) -> dict[str, Any]:
    if told == "!":
        return {"path": path, "error": "offline"}
    used, _, total = told.partition("/")
    return {"path": path, "total_bytes": int(total), "usable_bytes": int(total) - int(used)}


def read_partitions(
    picture: str, brokers: tuple[BrokerPicture, ...]
) -> tuple[PartitionPicture, ...]:
    """The partitions of a picture, one per line."""
    live = {broker.broker_id for broker in brokers if not broker.is_fenced}
    return tuple(_partition(line, live) for line in picture.splitlines() if line.strip())


def _partition(line: str, live: set[int]) -> PartitionPicture:
    name, _, rest = line.strip().rpartition(":")
    topic, _, partition = name.rpartition("-")
    words = rest.split()
    replicas = tuple(int(word) for word in words if word.isdigit())
    numbers = dict(word.split("=") for word in words if "=" in word)
    leaders = [word.removeprefix("@") for word in words if word.startswith("@")]
    adding = tuple(int(word) for word in words if word.startswith("+"))
    leader = next(
        (broker_id for broker_id in replicas if broker_id in live and broker_id not in adding), None
    )
    if leaders:
        leader = None if leaders[0] == "none" else int(leaders[0])
    return PartitionPicture(
        topic=topic,
        partition=int(partition),
        replicas=replicas,
        leader=leader,
        size_bytes=int(numbers["size"]) if "size" in numbers else None,
        bytes_in_per_second=int(numbers["rate"]) if "rate" in numbers else None,
        adding=adding,
        removing=tuple(-int(word) for word in words if word.startswith("-")),
    )


def simulated(
    picture: str = "",
    *,
    racks: str,
    throttles: Sequence[Sequence[str]] = (),
    cluster_id: str = "picture-id",
) -> SimulatedCluster:
    """Return a simulated cluster like the picture, with its clock at 0."""
    return SimulatedCluster.like(
        cluster(picture, racks=racks, throttles=throttles, cluster_id=cluster_id)
    )
