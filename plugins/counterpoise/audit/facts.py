"""Everything that rules read, collected beforehand: the rules are pure.

    facts.snapshot.partitions, facts.inspection.quorum, facts.connectivity

Limits: one cluster at one time; what changed since the previous audit is found afterwards, from the
findings.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
from counterpoise.model.columns import (
    NOBODY,
    Flags,
    Ints,
    flags_of,
    matrix_of,
    missing_from,
    names_of,
    numbers_of,
)
from counterpoise.model.connectivity import ConnectivityCheck
from counterpoise.model.control import ControlRequest
from counterpoise.model.inspection import ConsumerGroup, Inspection, Quorum
from counterpoise.model.kafka import ConfigValue
from counterpoise.model.listeners import Configs
from counterpoise.model.load import DiskForecast
from counterpoise.model.policy import ClusterPolicy
from counterpoise.model.severity import Waiver
from counterpoise.model.tables import SERIES, SNAPSHOTS, TOPIC_LOAD, rows_of
from counterpoise.model.words import pluralize

# -- The partitions of a snapshot as numpy columns, on which the rules count
#
#     partitions = read_partitions(snapshot)
#     for topic, rows in partitions.by_topic(partitions.in_sync < partitions.wanted): ...
#
# Ordered by topic and number, whatever the order of the rows. Reassignments in progress count as
# Kafka's own tools count them: replicas that are being added are not missing yet, replicas that are
# being removed do not belong to the replication factor any more.
#
# Limits: brokers are ids here, registered or not.


NOT_KNOWN: Final = -1
PARTITION_ROW: Final = ("partition", "leader", "replicas", "in sync")


@dataclass(frozen=True, eq=False)
class PartitionColumns:
    """One row per partition; `min_insync` has one row per topic of `topics`.

    `factors` are the replicas once reassignments have ended, `wanted` the in-sync replicas of a
    healthy partition now. Matrices of brokers are filled up with NOBODY.
    """

    topics: tuple[str, ...]  # that have partitions, by name
    min_insync: Ints  # per topic; NOT_KNOWN

    topic_of: Ints
    numbers: Ints
    replicas: Ints  # a matrix
    isr: Ints  # a matrix
    is_isr_known: Flags
    leaders: Ints
    adding: Ints  # a matrix
    factors: Ints
    wanted: Ints
    in_sync: Ints

    @property
    def needed(self) -> Ints:
        """Return the in-sync replicas without which acks=all is refused; NOT_KNOWN.

        This is `min.insync.replicas`, but no more than there are replicas: brokers since 3.7 write
        to a topic with one replica that asks for two, although kafka-topics lists it as under min
        ISR.
        """
        return np.asarray(np.minimum(self.min_insync[self.topic_of], self.wanted))

    def by_topic(self, chosen: Flags) -> Iterator[tuple[str, Ints]]:
        """Yield each topic with chosen partitions, and their rows."""
        rows = np.flatnonzero(chosen)
        topic_numbers = self.topic_of[rows]
        starts = np.flatnonzero(np.diff(topic_numbers, prepend=NOBODY))
        rows_by_topic = np.split(rows, starts[1:])
        # numpy.split makes one part of nothing, too: then there is no start for it.
        for start, topic_rows in zip(starts, rows_by_topic, strict=False):
            yield self.topics[topic_numbers[start]], topic_rows

    @cached_property
    def counts(self) -> Ints:
        """Return the number of partitions per topic."""
        return np.bincount(self.topic_of, minlength=len(self.topics)).astype(np.int64)

    def share_in_words(self, rows: Ints) -> str:
        """Return `3 of 12 partitions` of rows of one topic."""
        total = int(self.counts[self.topic_of[rows[0]]])
        return f"{len(rows):,} of {pluralize(total, 'partition')}"

    def out_of_sync(self) -> Flags:
        """Return which of `replicas` should be in the ISR and are not; none if it is not known."""
        is_absent = missing_from(self.isr, self.replicas)
        is_not_new = missing_from(self.adding, self.replicas)
        return np.asarray(is_absent & is_not_new & self.is_isr_known[:, None])

    def row(self, row: int) -> tuple[int, str, str, str]:
        """Return number, leader, replicas and ISR of a partition, as in PARTITION_ROW."""
        leader = int(self.leaders[row])
        return (
            int(self.numbers[row]),
            "none" if leader == NOBODY else str(leader),
            join_brokers(self.replicas[row]),
            join_brokers(self.isr[row]) if self.is_isr_known[row] else "not known",
        )


def join_brokers(brokers: Ints) -> str:
    """Return `1, 2, 3` of a row of broker ids."""
    broker_ids = [str(broker_id) for broker_id in brokers.tolist() if broker_id != NOBODY]
    return ", ".join(broker_ids) or "none"


def read_partitions(snapshot: ClusterSnapshot) -> PartitionColumns:
    table = snapshot.partitions
    order = pc.sort_indices(table, [("topic", "ascending"), ("partition", "ascending")])
    table = table.take(order).combine_chunks()
    topics, topic_of = names_of(table["topic"])
    replicas, replica_counts = matrix_of(table["replicas"])
    isr, in_sync_counts = matrix_of(table["isr"])
    adding, adding_counts = matrix_of(table["adding_replicas"])
    _, removing_counts = matrix_of(table["removing_replicas"])
    return PartitionColumns(
        topics=topics,
        min_insync=_min_insync(topics, snapshot),
        topic_of=topic_of,
        numbers=numbers_of(table["partition"]),
        replicas=replicas,
        isr=isr,
        is_isr_known=flags_of(table["isr"].is_valid()),
        leaders=numbers_of(table["leader"]),
        adding=adding,
        factors=replica_counts - removing_counts,
        wanted=replica_counts - adding_counts,
        in_sync=in_sync_counts,
    )


def _min_insync(topics: tuple[str, ...], snapshot: ClusterSnapshot) -> Ints:
    known = dict(rows_of(snapshot.topics, "topic", "min_insync_replicas"))
    values = [known.get(topic) for topic in topics]
    return np.array([NOT_KNOWN if value is None else value for value in values], dtype=np.int64)


@dataclass(frozen=True)
class PastFacts:
    """What the history and its analysis know, as tables of model/tables.py.

    `recent_snapshots` are the newest few before the present one, oldest first: as many, and as old,
    as the thresholds in force ask for. `disk_forecasts` begin with the disk that is full first;
    `usual_bytes_in` is the mean rate of each partition over a day, in the order of the snapshot's
    partitions, None where less than a day was analysed. `idle_since` is by broker that holds no
    replica, `moving_since` by partition whose reassignment has had the same target since then.
    """

    manifests: pa.Table = field(default_factory=SNAPSHOTS.empty_table)  # oldest first
    series: pa.Table = field(default_factory=SERIES.empty_table)
    usual_bytes_in: pa.Array | None = None  # int64, null where no rate is known
    recent_snapshots: tuple[ClusterSnapshot, ...] = ()
    idle_since: Mapping[int, datetime] = field(default_factory=dict)  # UTC
    topic_load: pa.Table = field(default_factory=TOPIC_LOAD.empty_table)  # of the newest snapshot
    disk_forecasts: tuple[DiskForecast, ...] = ()
    moving_since: Mapping[TopicPartition, datetime] = field(default_factory=dict)  # UTC


@dataclass(frozen=True)
class AuditFacts:
    """One cluster now, and its past.

    `thresholds` are by rule id: the rules' defaults, and over them the policy's values.
    `past` is None where the cluster has no history. The throttles of the run `active_run_id` are
    no leftovers. `kept_empty` are the requests that keep brokers empty, by broker id. With
    `snapshot_failure`, why there is no snapshot, `snapshot` has only what the connectivity check
    read: brokers, and leaders of partitions.
    """

    now: datetime  # UTC
    snapshot: ClusterSnapshot
    policy: ClusterPolicy
    thresholds: Mapping[str, Mapping[str, int]]
    connectivity: ConnectivityCheck | None = None
    inspection: Inspection = field(default_factory=Inspection)
    past: PastFacts | None = None
    active_run_id: str | None = None
    kept_empty: Mapping[int, ControlRequest] = field(default_factory=dict)
    typed_words: tuple[str, ...] = ()  # see `cluster_words`
    snapshot_failure: str | None = None
    is_saved: bool = False  # of a file: no endpoint was connected to

    @property
    def cluster_words(self) -> tuple[str, ...]:
        """Return the words that name the cluster in a command of ours."""
        return self.typed_words or ("--cluster", self.snapshot.cluster)

    @cached_property
    def partitions(self) -> PartitionColumns:
        """Return the partitions of the snapshot as numpy columns."""
        return read_partitions(self.snapshot)

    @cached_property
    def brokers_down(self) -> frozenset[int]:
        """Return the brokers that hold replicas and are not live, or have an offline log dir."""
        snapshot = self.snapshot
        is_offline = pc.is_valid(snapshot.log_dirs["error"])
        with_offline_dirs = snapshot.log_dirs.filter(is_offline)["broker_id"].to_pylist()
        holders = np.unique(self.partitions.replicas).tolist()
        not_live = {*holders} - {NOBODY, *snapshot.live_broker_ids}
        return frozenset(not_live.union(with_offline_dirs))

    @property
    def endpoints(self) -> ConnectivityCheck:
        """Return the connectivity check; rules with Need.CONNECTIVITY are not run without one."""
        return self.connectivity or ConnectivityCheck("", ())

    @property
    def quorum(self) -> Quorum:
        """Return the metadata quorum; rules that need it are not run without one."""
        return self.inspection.quorum or Quorum(NOBODY, 0, 0, ())

    @property
    def controllers_elsewhere(self) -> tuple[int, ...]:
        """Return the voters that are no brokers: their configs cannot be read through brokers."""
        broker_ids = set(self.snapshot.registered_broker_ids)
        return tuple(
            voter.node_id for voter in self.quorum.voters if voter.node_id not in broker_ids
        )

    @property
    def has_racks(self) -> bool:
        """Return whether a broker has a rack, or the policy names those of controllers."""
        return any(self.snapshot.racks.values()) or bool(self.policy.audit.controller_racks)

    def is_controller(self, broker_id: int) -> bool:
        """Return whether the broker is a voter, too; all of them are where no quorum is known."""
        voter_ids = {voter.node_id for voter in self.quorum.voters}
        return not voter_ids or broker_id in voter_ids

    @cached_property
    def broker_configs(self) -> dict[int, Configs]:
        """Return the configs of each broker that reported them, by id."""
        return dict(sorted(self.inspection.broker_configs.items()))

    def values_of(self, key: str) -> dict[int, ConfigValue]:
        """Return this config of each broker that reported it, by id."""
        return {
            broker_id: configs[key]
            for broker_id, configs in self.broker_configs.items()
            if key in configs
        }

    @cached_property
    def groups(self) -> tuple[ConsumerGroup, ...]:
        """Return the consumer groups of the brokers that told of theirs, by name."""
        groups = chain.from_iterable(self.inspection.groups.values())
        return tuple(sorted(groups, key=lambda group: group.group))

    @cached_property
    def live_brokers(self) -> list[dict[str, Any]]:
        """Return the rows of BROKERS that are live, by id."""
        rows = self.snapshot.brokers.sort_by("broker_id").to_pylist()
        return [row for row in rows if not row["is_fenced"]]

    @property
    def history(self) -> PastFacts:
        """Return the past; an empty one where the cluster has no history."""
        return self.past or PastFacts()

    @property
    def waivers(self) -> tuple[Waiver, ...]:
        return self.policy.audit.waivers
