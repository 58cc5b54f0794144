"""The snapshot as numpy columns: what the planner works on.

    cluster = read_cluster(snapshot, policy, scope)
    cluster.replicas[7]            # brokers of partition 7, as positions in cluster.broker_ids

Worked example: brokers 1, 4 and 9 have the positions 0, 1 and 2, so a partition with the replicas
[9, 1] has the row [2, 0]; where another partition has three replicas, NOBODY (-1) fills the row.

Partitions are in order of topic and number and brokers in order of id, whatever the order of the
rows in the snapshot: this is where "same input, same plan" begins. Limits: sizes and rates that are
not known count as 0.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.errors import InputError
from counterpoise.model.broker_weight import BrokerWeight
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
from counterpoise.model.constraints import first_matching
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.request import Scope
from counterpoise.model.words import MAX_NAMES, join_names

UNBOUNDED = 1 << 60
MIN_KNOWN_PERCENT: Final = 90  # of the partitions have a rate: with fewer no traffic is evened
_OF_PARTITIONS = (
    "topic_numbers",
    "numbers",
    "replicas",
    "replica_counts",
    "leaders",
    "is_in_sync",
    "size_bytes",
    "is_size_known",
    "bytes_in",
    "is_rate_known",
    "is_rate_at_least",
    "is_moving",
    "is_requested",
    "is_excluded",
    "is_leaderless",
    "is_left_to_repair",
)


@dataclass(frozen=True, slots=True, eq=False)
class ClusterArrays:
    """One entry per broker, then one per partition, then one per topic."""

    broker_ids: Ints
    racks: Ints  # a number per rack name; brokers without a rack share one
    is_live: Flags
    is_registered: Flags  # false for brokers that only a replica list still names
    is_in_scope: Flags  # the others neither give nor receive, and lead what they lead
    disk_bytes: Ints  # over its log dirs; 0 when not known
    broker_weight: BrokerWeight  # of the policy
    headroom_bytes: Ints  # may arrive before a log dir can be past the policy's limit
    cordoned_dirs: Ints  # log dirs that take no new replicas (KIP-1066)
    open_dirs: Ints  # log dirs that do; both are 0 where the snapshot tells of none
    takes_none: Flags  # no replica that it does not have, by a constraint
    max_counts: Ints  # replicas that it may hold, by a constraint
    broker_sets: Ints  # the number of its broker set; all have the same where there are no sets

    topics: pa.Array
    topic_numbers: Ints  # a number per topic name, in order
    numbers: Ints
    replicas: Ints  # two dimensions
    replica_counts: Ints
    leaders: Ints
    is_in_sync: Flags  # as `replicas`; true where the snapshot has no ISR
    size_bytes: Ints
    is_size_known: Flags
    bytes_in: Ints  # from producers, per second
    is_rate_known: Flags
    is_rate_at_least: Flags  # only a lower bound: compaction removes records unnoticed
    is_moving: Flags  # a reassignment is under way, whoever started it
    is_requested: Flags  # the request does not exclude its topic
    is_excluded: Flags  # by the policy or the request
    is_leaderless: Flags  # offline; never set where the snapshot has no leaders at all
    is_left_to_repair: Flags  # keeps a replica on a dead broker, so no copy beside it could end

    topic_names: tuple[str, ...]
    rack_preferences: Ints  # the row of `leader_racks` for its leaders
    topic_sets: Ints  # the number of the broker set on which its replicas are to stand
    min_insync_replicas: Ints  # 0 when not known

    leader_racks: Flags  # by preference of the policy and rack; the last row has all racks

    def only(self, is_kept: Flags) -> "ClusterArrays":
        """Return the same brokers with some of the partitions."""
        columns = {name: getattr(self, name)[is_kept] for name in _OF_PARTITIONS}
        return replace(self, topics=self.topics.filter(pa.array(is_kept)), **columns)

    def beside(self, left_out: "ClusterArrays") -> "ClusterArrays":
        """Return the cluster with what its brokers may have beside what they have of others."""
        max_counts = np.maximum(0, self.max_counts - left_out.load(left_out.replicas))
        return replace(self, max_counts=max_counts)

    @property
    def broker_count(self) -> int:
        return len(self.broker_ids)

    @property
    def partition_count(self) -> int:
        return len(self.numbers)

    @property
    def takes_replicas(self) -> Flags:
        """Return, per broker, whether it is live, in scope, and has a log dir for new replicas.

        Kafka does not refuse to assign replicas to a broker whose log dirs are all cordoned.
        """
        is_closed = (self.cordoned_dirs > 0) & (self.open_dirs == 0)
        return np.asarray(self.is_live & self.is_in_scope & ~is_closed & ~self.takes_none)

    def weights(self, sharing: Flags) -> Ints:
        """Return each broker's weight in a fair share, among those that share; 1 of all others."""
        weights = np.ones_like(self.broker_ids)
        ids, disks = self.broker_ids[sharing].tolist(), self.disk_bytes[sharing].tolist()
        weights[sharing] = self.broker_weight.weights_of(ids, disks)
        return weights

    @property
    def has_topics(self) -> Flags:
        """Return the brokers whose broker set has topics; all of a cluster without topics."""
        return np.isin(self.broker_sets, self.topic_sets) | (not len(self.topic_sets))

    @property
    def sets_of_partitions(self) -> Ints:
        return np.asarray(self.topic_sets[self.topic_numbers])

    @property
    def may_reorder(self) -> Flags:
        """Return partitions that a plan may touch: each may get another order and leader."""
        return ~(self.is_moving | self.is_excluded | self.is_leaderless)

    @property
    def may_change(self) -> Flags:
        """Return those of them that may get other replicas as well."""
        return self.may_reorder & ~self.is_left_to_repair

    @property
    def may_elect(self) -> Flags:
        """Return partitions that their first replica leads or, within the scope, may come to."""
        may_lead = np.append(self.is_in_scope, False)
        first, leaders = self.replicas[:, 0], self.leaders_now
        return np.asarray((first == leaders) | (may_lead[first] & may_lead[leaders]))

    @property
    def may_drain(self) -> Flags:
        """Return partitions whose replicas may leave a broker that is to be emptied."""
        return ~(self.is_moving | self.is_excluded | self.is_left_to_repair)

    @property
    def is_on_dead(self) -> Flags:
        """Return partitions that have a replica on a dead broker and may be touched."""
        is_dead = np.append(~self.is_live, False)
        return np.asarray(self.may_reorder & is_dead[self.replicas].any(axis=1))

    @property
    def knows_traffic(self) -> bool:
        """Return whether enough rates are known to say what a broker takes in."""
        known_count = int(self.is_rate_known.sum())
        is_enough = known_count * 100 >= MIN_KNOWN_PERCENT * self.partition_count
        return is_enough and bool(self.bytes_in.any())

    @property
    def leaders_now(self) -> Ints:
        """Return the leaders; where the snapshot has none at all, each partition's preferred
        leader.
        """
        is_unknown = (self.leaders < 0) & ~self.is_leaderless
        return np.where(is_unknown, self.replicas[:, 0], self.leaders)

    def is_outside(self, replicas: Ints) -> Flags:
        """Return, of rows of brokers per partition, which stand in none of its `leader_racks`."""
        if self.leader_racks.all():
            return np.zeros(replicas.shape, dtype=np.bool_)
        preferences = self.rack_preferences[self.topic_numbers]
        rows = preferences if replicas.ndim == 1 else preferences[:, None]
        return np.asarray(~self.leader_racks[rows, self.racks[replicas]] & (replicas >= 0))

    def positions(self, broker_ids: tuple[int, ...]) -> Ints:
        """Return where the given brokers are in `broker_ids`; they have to be there."""
        return np.searchsorted(self.broker_ids, np.array(broker_ids, dtype=np.int64))

    def flags(self, broker_ids: tuple[int, ...]) -> Flags:
        """Return, per broker, whether it is one of the given ones."""
        return np.isin(self.broker_ids, np.array(broker_ids, dtype=np.int64))

    def name(self, partition: int) -> str:
        return f"{self.topics[partition].as_py()}-{self.numbers[partition]}"

    def names(self, partitions: Ints) -> str:
        """Return the first few names, and how many more there are."""
        names = [self.name(partition) for partition in partitions[:MAX_NAMES].tolist()]
        return join_names(names, len(partitions))

    def rack_sizes(self, staying: Flags) -> Ints:
        """Return the number of brokers that stay, per rack."""
        rack_count = int(self.racks.max(initial=-1)) + 1
        return np.bincount(self.racks[staying], minlength=rack_count).astype(np.int64)

    def load(self, replicas: Ints, weights: Ints | None = None) -> Ints:
        """Return replicas per broker, or the sum of `weights` (one per partition) over them."""
        is_held = replicas >= 0
        brokers = replicas[is_held]
        if weights is None:
            return np.bincount(brokers, minlength=self.broker_count).astype(np.int64)
        total = np.zeros(self.broker_count, dtype=np.int64)
        weight_of_replica = np.broadcast_to(weights[:, None], replicas.shape)[is_held]
        np.add.at(total, brokers, weight_of_replica)
        return total

    def leader_load(self, leaders: Ints, weights: Ints | None = None) -> Ints:
        """Return partitions that each broker leads, or the sum of their weights.

        `leaders` has one broker per partition, or NOBODY.
        """
        return self.load(leaders[:, None], weights)


def read_cluster(
    snapshot: ClusterSnapshot, policy: BalancePolicy, scope: Scope | None = None
) -> ClusterArrays:
    """Return the columns of a snapshot, in canonical order.

    Raises InputError where its sizes or its rates add up to 2^60 or more: sums of them would wrap.
    """
    scope, constraints = scope or Scope(), policy.constraints
    table = _sorted_partitions(snapshot)
    replica_ids, replica_counts = matrix_of(table["replicas"])
    isr_ids = matrix_of(table["isr"])[0]
    is_in_sync = ~missing_from(isr_ids, replica_ids) | _flags(table["isr"].is_null())[:, None]
    is_moving = _has_any(table["adding_replicas"]) | _has_any(table["removing_replicas"])
    leader_ids = numbers_of(table["leader"], missing=NOBODY)
    topics = one_chunk(table["topic"])
    topic_names = all_topics(snapshot)
    topic_numbers = _topic_numbers(topics, topic_names)
    broker_ids = np.union1d(_ids(snapshot.registered_broker_ids), replica_ids[replica_ids >= 0])
    racks = {broker_id: snapshot.racks.get(broker_id) for broker_id in broker_ids.tolist()}
    planned_topics = scope.topics_in(topic_names, policy)
    requested_topics = scope.topics_in(topic_names)
    set_of_topic = constraints.sets_of_topics(topic_names)
    set_of_broker = constraints.sets_of_brokers(racks)
    preference_of = first_matching([(pattern,) for pattern in policy.leader_racks], topic_names)
    cluster = ClusterArrays(
        broker_ids=broker_ids,
        **_of_brokers(broker_ids, snapshot, policy, scope),
        topics=topics,
        topic_numbers=topic_numbers,
        numbers=numbers_of(table["partition"], missing=NOBODY),
        replicas=_positions(broker_ids, replica_ids),
        replica_counts=replica_counts,
        leaders=_positions(broker_ids, leader_ids),
        is_in_sync=(replica_ids != NOBODY) & is_in_sync,
        size_bytes=numbers_of(table["size_bytes"], missing=0),
        is_size_known=_flags(table["size_bytes"].is_valid()),
        bytes_in=numbers_of(table["bytes_in_per_second"], missing=0),
        is_rate_known=_flags(table["bytes_in_per_second"].is_valid()),
        is_rate_at_least=_is_rate_at_least(table, snapshot),
        is_moving=is_moving,
        is_requested=_is_member(topic_names, requested_topics)[topic_numbers],
        is_excluded=~_is_member(topic_names, planned_topics)[topic_numbers],
        is_leaderless=(leader_ids < 0) & (leader_ids >= 0).any(),
        is_left_to_repair=np.zeros(len(table), dtype=np.bool_),
        topic_names=topic_names,
        rack_preferences=np.array([*preference_of.values()], dtype=np.int64),
        topic_sets=np.array([*set_of_topic.values()], dtype=np.int64),
        broker_sets=np.array([*set_of_broker.values()], dtype=np.int64),
        min_insync_replicas=_min_insync(topic_names, snapshot),
        leader_racks=_leader_racks(broker_ids, snapshot, policy),
    )
    _check_sum(cluster, "sizes", cluster.size_bytes)
    _check_sum(cluster, "rates", cluster.bytes_in)
    return cluster


def _check_sum(cluster: ClusterArrays, what: str, of_replicas: Ints) -> None:
    if float(of_replicas.astype(np.float64) @ cluster.replica_counts) >= UNBOUNDED:
        largest = cluster.name(int(of_replicas.argmax()))
        raise InputError(
            f"the {what} of all replicas add up to more than an exabyte, which no plan can count "
            f"with; {largest} has the largest: correct the document that says so"
        )


def _of_brokers(
    broker_ids: Ints, snapshot: ClusterSnapshot, policy: BalancePolicy, scope: Scope
) -> dict[str, Any]:
    """Return the columns of brokers, by the name of the field."""
    constraints = policy.constraints
    disk_bytes, headroom_bytes = _disks(broker_ids, snapshot, policy)
    is_in_scope = list(map(scope.may_touch_broker, broker_ids.tolist()))
    return {
        "racks": _rack_numbers(broker_ids, snapshot),
        "is_live": np.isin(broker_ids, _ids(snapshot.live_broker_ids)),
        "is_registered": np.isin(broker_ids, _ids(snapshot.registered_broker_ids)),
        "is_in_scope": np.array(is_in_scope, dtype=np.bool_),
        "disk_bytes": disk_bytes,
        "broker_weight": policy.broker_weight,
        "headroom_bytes": headroom_bytes,
        "cordoned_dirs": _count_dirs(broker_ids, snapshot, is_cordoned=True),
        "open_dirs": _count_dirs(broker_ids, snapshot, is_cordoned=False),
        "takes_none": np.isin(broker_ids, _ids(constraints.no_new_replicas_on)),
        "max_counts": np.full_like(broker_ids, constraints.max_replicas_per_broker or UNBOUNDED),
    }


def _ids(broker_ids: Iterable[int]) -> Ints:
    return np.array(sorted(broker_ids), dtype=np.int64)


def all_topics(snapshot: ClusterSnapshot) -> tuple[str, ...]:
    """Return the names of all topics, sorted; some have partitions and no description."""
    described = snapshot.topics["topic"].to_pylist()
    with_partitions = snapshot.partitions["topic"].unique().to_pylist()
    return tuple(sorted({*described, *with_partitions}))


def _is_rate_at_least(partitions: pa.Table, snapshot: ClusterSnapshot) -> Flags:
    compacted = pa.array(sorted(snapshot.compacted_topics), pa.string())
    is_compacted = _flags(pc.is_in(partitions["topic"], value_set=compacted))
    return is_compacted & (numbers_of(partitions["bytes_in_per_second"], missing=0) > 0)


def _sorted_partitions(snapshot: ClusterSnapshot) -> pa.Table:
    order = [("topic", "ascending"), ("partition", "ascending")]
    return snapshot.partitions.take(pc.sort_indices(snapshot.partitions, order)).combine_chunks()


def _is_member(names: tuple[str, ...], members: frozenset[str]) -> Flags:
    return np.array([name in members for name in names], dtype=np.bool_)


def _topic_numbers(topics: pa.Array, topic_names: tuple[str, ...]) -> Ints:
    found = pc.index_in(topics, value_set=pa.array(topic_names, pa.string()))
    return np.asarray(found.to_numpy(zero_copy_only=False).astype(np.int64))


def _min_insync(topic_names: tuple[str, ...], snapshot: ClusterSnapshot) -> Ints:
    topics, values = snapshot.topics["topic"], snapshot.topics["min_insync_replicas"]
    by_topic = dict(zip(topics.to_pylist(), values.to_pylist(), strict=True))
    return np.array([by_topic.get(name) or 0 for name in topic_names], dtype=np.int64)


def _disks(broker_ids: Ints, snapshot: ClusterSnapshot, policy: BalancePolicy) -> tuple[Ints, Ints]:
    """Return total bytes per broker, and how much may still arrive.

    They are 0 and UNBOUNDED where nothing is known. A broker puts a new replica into the log dir
    with the fewest partitions, not the emptiest one (KIP-113), so all of it may arrive in the dir
    that has the least room. A dir that is offline takes nothing and does not count.
    """
    min_room: dict[int, int] = {}  # by broker, over its log dirs
    for row in snapshot.log_dirs.to_pylist():
        if row["error"] is None:
            room = _room(row["total_bytes"], row["usable_bytes"], policy)
            if room is not None:
                broker_id = row["broker_id"]
                min_room[broker_id] = min(room, min_room.get(broker_id, UNBOUNDED))
    disk_bytes, headroom_bytes = np.zeros_like(broker_ids), np.full_like(broker_ids, UNBOUNDED)
    for row in snapshot.brokers.to_pylist():
        broker = np.searchsorted(broker_ids, row["broker_id"])
        disk_bytes[broker] = row["disk_total_bytes"] or 0
        room = _room(row["disk_total_bytes"], row["disk_usable_bytes"], policy)
        room = min_room.get(row["broker_id"], room)
        headroom_bytes[broker] = UNBOUNDED if room is None else room
    return disk_bytes, headroom_bytes


def _count_dirs(broker_ids: Ints, snapshot: ClusterSnapshot, *, is_cordoned: bool) -> Ints:
    """Return how many online log dirs each broker has that are cordoned, or that are not."""
    counts = np.zeros_like(broker_ids)
    for row in snapshot.log_dirs.to_pylist():
        if row["error"] is None and bool(row["is_cordoned"]) is is_cordoned:
            counts[np.searchsorted(broker_ids, row["broker_id"])] += 1
    return counts


def _room(total_bytes: int | None, usable_bytes: int | None, policy: BalancePolicy) -> int | None:
    """Return what may arrive before a disk is at the policy's limit; None where it is not known.

    Example: with a limit of 85 %, 150 of 1000 bytes are kept free; of 400 usable ones 250 may
    arrive.
    """
    if total_bytes is None or usable_bytes is None:
        return None
    kept_free_bytes = total_bytes - total_bytes * policy.disk_limit_percent // 100
    return min(UNBOUNDED, max(0, usable_bytes - kept_free_bytes))


def _flags(column: pa.ChunkedArray) -> Flags:
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _has_any(lists: pa.ChunkedArray) -> Flags:
    return numbers_of(pc.list_value_length(lists), missing=0) > 0


def _positions(broker_ids: Ints, ids: Ints) -> Ints:
    return np.where(ids < 0, NOBODY, np.searchsorted(broker_ids, ids))


def _rack_numbers(broker_ids: Ints, snapshot: ClusterSnapshot) -> Ints:
    names = [snapshot.racks.get(broker_id) or "" for broker_id in broker_ids.tolist()]
    numbers = {name: number for number, name in enumerate(sorted(set(names)))}
    return np.array([numbers[name] for name in names], dtype=np.int64)


def _leader_racks(broker_ids: Ints, snapshot: ClusterSnapshot, policy: BalancePolicy) -> Flags:
    """Return, by preference and rack, where leaders are to be; where no such rack has a broker,
    everywhere.
    """
    names = sorted({snapshot.racks.get(broker_id) or "" for broker_id in broker_ids.tolist()})
    rows = [[name in racks for name in names] for racks in policy.leader_racks.values()]
    return np.array(
        [*(row if any(row) else [True] * len(row) for row in rows), [True] * len(names)]
    )
