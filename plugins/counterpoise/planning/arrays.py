"""The snapshot as numpy columns, which is what the planner works on.

    cluster = read_cluster(snapshot, policy, scope)
    cluster.replicas[7]            # brokers of partition 7, as positions in cluster.broker_ids; -1 fills the row

Partitions are in order of topic and number and brokers in order of id, whatever the order of the
rows in the snapshot: this is where "same input, same plan" begins. Sizes and rates that are not
known count as 0.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.columns import (
    NOBODY,
    Flags,
    Ints,
    matrix_of,
    missing_from,
    numbers_of,
    one_chunk,
)
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.request import Scope

UNBOUNDED = 1 << 60


@dataclass(frozen=True, slots=True, eq=False)
class ClusterArrays:
    """One row per broker, then one per partition, then one per topic."""

    broker_ids: Ints
    racks: Ints  # a number per rack name; brokers without a rack share one
    is_live: Flags
    is_registered: Flags  # false for brokers that only a replica list still names
    is_in_scope: Flags  # the others neither give nor take, and lead what they lead
    disk_bytes: Ints  # over its log dirs; 0 when not known
    headroom_bytes: (
        Ints  # what may still arrive before any of its log dirs can be past the policy's limit
    )

    topics: pa.Array
    topic_numbers: Ints  # a number per topic name, in order
    numbers: Ints
    replicas: Ints  # two dimensions
    replica_counts: Ints
    leaders: Ints
    is_in_sync: Flags  # as `replicas`; true where the snapshot does not tell
    size_bytes: Ints
    is_size_known: Flags
    bytes_in: Ints  # from producers, per second
    is_rate_known: Flags
    is_moving: Flags  # somebody's reassignment is under way
    is_excluded: Flags  # by the policy or the request
    is_leaderless: Flags  # offline; never set where the snapshot tells no leaders at all
    is_left_to_repair: (
        Flags  # the goal lets a replica stay on a dead broker, so no copy beside it could end
    )

    topic_names: tuple[str, ...]
    min_insync_replicas: Ints  # 0 when not known

    @property
    def broker_count(self) -> int:
        return len(self.broker_ids)

    @property
    def partition_count(self) -> int:
        return len(self.numbers)

    @property
    def may_reorder(self) -> Flags:
        """Partitions that a plan may touch: each may get another order and leader."""
        return ~(self.is_moving | self.is_excluded | self.is_leaderless)

    @property
    def may_change(self) -> Flags:
        """Of these, the ones that may get other replicas as well."""
        return self.may_reorder & ~self.is_left_to_repair

    @property
    def may_drain(self) -> Flags:
        """Partitions whose replicas may leave a broker that is to be emptied."""
        return ~(self.is_moving | self.is_excluded)

    @property
    def leaders_now(self) -> Ints:
        """The leaders; where the snapshot tells none at all, each partition's preferred one."""
        return self.leaders if (self.leaders >= 0).any() else self.replicas[:, 0]

    def positions(self, broker_ids: tuple[int, ...]) -> Ints:
        """Where the given brokers are in `broker_ids`; they have to be there."""
        return np.searchsorted(self.broker_ids, np.array(broker_ids, dtype=np.int64))

    def flags(self, broker_ids: tuple[int, ...]) -> Flags:
        """One flag per broker: is it one of the given ones?"""
        return np.isin(self.broker_ids, np.array(broker_ids, dtype=np.int64))

    def name(self, partition: int) -> str:
        return f"{self.topics[partition].as_py()}-{self.numbers[partition]}"

    def load(self, replicas: Ints, weights: Ints | None = None) -> Ints:
        """Replicas per broker, or the sum of `weights` (one per partition) over them."""
        held = replicas >= 0
        if weights is None:
            return np.bincount(replicas[held], minlength=self.broker_count).astype(np.int64)
        owners = replicas[held]
        total = np.zeros(self.broker_count, dtype=np.int64)
        np.add.at(total, owners, np.broadcast_to(weights[:, None], replicas.shape)[held])
        return total

    def led(self, leaders: Ints, weights: Ints | None = None) -> Ints:
        """Partitions that each broker leads, or the sum of their weights; `leaders` has one broker
        per partition.
        """
        return self.load(leaders[:, None], weights)


def read_cluster(
    snapshot: ClusterSnapshot, policy: BalancePolicy, scope: Scope | None = None
) -> ClusterArrays:
    """The columns of a snapshot, in canonical order."""
    scope = scope or Scope()
    table = snapshot.partitions
    table = table.take(
        pc.sort_indices(table, [("topic", "ascending"), ("partition", "ascending")])
    ).combine_chunks()
    ids_by_row, counts = matrix_of(table["replicas"])
    registered = np.array(snapshot.registered_broker_ids, dtype=np.int64)
    broker_ids = np.union1d(registered, ids_by_row[ids_by_row >= 0])
    leader_ids = numbers_of(table["leader"], missing=NOBODY)
    is_leaderless = leader_ids < 0
    topics = one_chunk(table["topic"])
    topic_names = tuple(
        sorted(set(snapshot.topics["topic"].to_pylist()) | set(topics.unique().to_pylist()))
    )
    topic_numbers = _numbers_of(topics, topic_names)
    in_scope = scope.topics_in(topic_names, policy)
    disk_bytes, headroom_bytes = _disks(broker_ids, snapshot, policy)
    return ClusterArrays(
        broker_ids=broker_ids,
        racks=_rack_numbers(broker_ids, snapshot),
        is_live=np.isin(broker_ids, np.array(snapshot.live_broker_ids, dtype=np.int64)),
        is_registered=np.isin(broker_ids, registered),
        is_in_scope=np.array(
            [scope.may_touch_broker(broker_id) for broker_id in broker_ids.tolist()], dtype=np.bool_
        ),
        disk_bytes=disk_bytes,
        headroom_bytes=headroom_bytes,
        topics=topics,
        topic_numbers=topic_numbers,
        numbers=numbers_of(table["partition"], missing=NOBODY),
        replicas=_positions(broker_ids, ids_by_row),
        replica_counts=counts,
        leaders=_positions(broker_ids, leader_ids),
        is_in_sync=_in_sync(ids_by_row, table["isr"]),
        size_bytes=numbers_of(table["size_bytes"], missing=0),
        is_size_known=_flags(table["size_bytes"].is_valid()),
        bytes_in=numbers_of(table["bytes_in_per_second"], missing=0),
        is_rate_known=_flags(table["bytes_in_per_second"].is_valid()),
        is_moving=(matrix_of(table["adding_replicas"])[1] > 0)
        | (matrix_of(table["removing_replicas"])[1] > 0),
        is_excluded=np.array([name not in in_scope for name in topic_names], dtype=np.bool_)[
            topic_numbers
        ],
        is_leaderless=is_leaderless & (not is_leaderless.all()),
        is_left_to_repair=np.zeros(len(table), dtype=np.bool_),
        topic_names=topic_names,
        min_insync_replicas=_min_insync(topic_names, snapshot),
    )


def _numbers_of(topics: pa.Array, topic_names: tuple[str, ...]) -> Ints:
    found = pc.index_in(topics, value_set=pa.array(topic_names, pa.string()))
    return np.asarray(found.to_numpy(zero_copy_only=False).astype(np.int64))


def _min_insync(topic_names: tuple[str, ...], snapshot: ClusterSnapshot) -> Ints:
    pairs = zip(
        *(snapshot.topics[column].to_pylist() for column in ("topic", "min_insync_replicas")),
        strict=True,
    )
    told = dict(pairs)
    return np.array([told.get(name) or 0 for name in topic_names], dtype=np.int64)


def _disks(broker_ids: Ints, snapshot: ClusterSnapshot, policy: BalancePolicy) -> tuple[Ints, Ints]:
    """Total bytes per broker, and how much may still arrive; 0 and UNBOUNDED where nothing is
    known.

    A broker puts a new replica into the log dir with the fewest partitions, not the emptiest one
    (KIP-113), so all of it may arrive in the dir that has the least room. A dir that is offline
    takes nothing and does not count.
    """
    least: dict[int, int] = {}
    for row in snapshot.log_dirs.to_pylist():
        if (
            row["error"] is None
            and (room := _room(row["total_bytes"], row["usable_bytes"], policy)) is not None
        ):
            least[row["broker_id"]] = min(room, least.get(row["broker_id"], UNBOUNDED))
    disk, headroom = np.zeros_like(broker_ids), np.full_like(broker_ids, UNBOUNDED)
    for row in snapshot.brokers.to_pylist():
        at = np.searchsorted(broker_ids, row["broker_id"])
        disk[at] = row["disk_total_bytes"] or 0
        room = least.get(
            row["broker_id"], _room(row["disk_total_bytes"], row["disk_usable_bytes"], policy)
        )
        headroom[at] = UNBOUNDED if room is None else room
    return disk, headroom


def _room(total: int | None, usable: int | None, policy: BalancePolicy) -> int | None:
    """What may arrive on a disk before it is at the policy's limit; None where the disk is not
    known.
    """
    if total is None or usable is None:
        return None
    return min(UNBOUNDED, max(0, total * policy.disk_limit_percent // 100 - (total - usable)))


def _in_sync(replicas: Ints, column: pa.ChunkedArray) -> Flags:
    """Which replicas are in sync; all of a partition where its row is null."""
    isr, _ = matrix_of(column)
    is_told = _flags(column.is_valid())[:, None]
    return np.asarray(replicas != NOBODY) & ~(missing_from(isr, replicas) & is_told)


def _flags(column: pa.ChunkedArray) -> Flags:
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _positions(broker_ids: Ints, ids: Ints) -> Ints:
    found = np.searchsorted(broker_ids, ids)
    return np.where(ids < 0, NOBODY, found)


def _rack_numbers(broker_ids: Ints, snapshot: ClusterSnapshot) -> Ints:
    names = [snapshot.racks.get(int(broker_id)) for broker_id in broker_ids]
    numbers = {name: number for number, name in enumerate(sorted({name or "" for name in names}))}
    return np.array([numbers[name or ""] for name in names], dtype=np.int64)
