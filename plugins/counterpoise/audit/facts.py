"""Everything that rules look at, read before: the rules are pure.

    facts.snapshot.partitions, facts.inspection.quorum, facts.threshold("partitions-per-broker", "most")

Limits: one cluster at one time; what changed since the audit before is found afterwards, from the
findings.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

import pyarrow as pa

from counterpoise.audit.columns import PartitionColumns, read_partitions
from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
from counterpoise.model.inspection import Inspection
from counterpoise.model.load import DiskForecast
from counterpoise.model.policy import ClusterPolicy
from counterpoise.model.result_tables import TOPIC_LOAD
from counterpoise.model.walk import Walk


@dataclass(frozen=True)
class PastFacts:
    """What the history and its analysis tell.

    Tables: those of model/result_tables.py, of the time looked back on.
    """

    manifests: pa.Table  # columns of SNAPSHOTS, oldest first
    series: pa.Table  # SERIES
    partition_load: pa.Table  # PARTITION_LOAD of the newest analysed snapshots
    log_dir_load: pa.Table  # LOG_DIR_LOAD
    recent: tuple[
        ClusterSnapshot, ...
    ] = ()  # the newest few, oldest first, this one not among them
    idle_since: Mapping[int, datetime] = field(
        default_factory=dict
    )  # brokers that hold nothing; UTC
    topic_load: pa.Table = field(
        default_factory=TOPIC_LOAD.empty_table
    )  # of the newest analysed snapshot
    disks: tuple[DiskForecast, ...] = ()  # the first to fill first
    moving_since: Mapping[TopicPartition, datetime] = field(
        default_factory=dict
    )  # towards the same replicas; UTC


@dataclass(frozen=True, slots=True)
class SetAside:
    """A photograph that did not join the history."""

    snapshot_id: str
    observed_at: datetime  # UTC
    reasons: tuple[str, ...]  # a sentence for each check that failed
    is_loss: bool  # it only has much less than the snapshot before


@dataclass(frozen=True)
class AuditFacts:
    now: datetime  # UTC
    snapshot: ClusterSnapshot  # of now
    policy: ClusterPolicy
    thresholds: Mapping[
        str, Mapping[str, int]
    ]  # by rule id: the defaults of the rules, and over them the policy's
    snapshot_interval: timedelta | None = None  # None: nobody photographs on a schedule
    walk: Walk | None = None
    inspection: Inspection = field(default_factory=Inspection)
    past: PastFacts | None = None  # None: no history of this cluster
    set_aside: tuple[SetAside, ...] = ()  # since the newest snapshot of the history, oldest first
    run_under_way: str | None = None  # a run of ours: its throttles are no leftovers

    @cached_property
    def partitions(self) -> PartitionColumns:
        """Those of the snapshot, as numpy columns."""
        return read_partitions(self.snapshot)

    def threshold(self, rule: str, name: str) -> int:
        return self.thresholds[rule][name]
