"""Everything that rules read, collected beforehand: the rules are pure.

    facts.snapshot.partitions, facts.inspection.quorum, facts.connectivity

Limits: one cluster at one time; what changed since the previous audit is found afterwards, from the
findings.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import pyarrow as pa

from counterpoise.audit.columns import PartitionColumns, read_partitions
from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
from counterpoise.model.columns import NOBODY
from counterpoise.model.connectivity import ConnectivityCheck
from counterpoise.model.inspection import Inspection, Quorum
from counterpoise.model.kafka import ConfigValue
from counterpoise.model.load import DiskForecast
from counterpoise.model.policy import ClusterPolicy
from counterpoise.model.result_tables import SERIES, TOPIC_LOAD
from counterpoise.model.severity import Waiver
from counterpoise.model.tables import SNAPSHOTS

Configs = Mapping[str, ConfigValue]


@dataclass(frozen=True)
class PastFacts:
    """What the history and its analysis know, as tables of model/result_tables.py.

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


@dataclass(frozen=True, slots=True)
class QuarantinedSnapshot:
    """A snapshot that failed its checks and did not join the history."""

    snapshot_id: str
    observed_at: datetime  # UTC
    reasons: tuple[str, ...]  # a sentence for each check that failed
    is_loss: bool  # nothing else is wrong than that much less is there than before


@dataclass(frozen=True)
class AuditFacts:
    """One cluster now, and its past.

    `thresholds` are by rule id: the rules' defaults, and over them the policy's values.
    `snapshot_interval` is None where snapshots do not come on a schedule, `past` where the cluster
    has no history. `quarantined` are the snapshots since the newest one of the history, oldest
    first. The throttles of the run `active_run_id` are no leftovers. `removed_by_run` has the run
    that emptied a broker last, by broker id.
    """

    now: datetime  # UTC
    snapshot: ClusterSnapshot
    policy: ClusterPolicy
    thresholds: Mapping[str, Mapping[str, int]]
    snapshot_interval: timedelta | None = None
    connectivity: ConnectivityCheck | None = None
    inspection: Inspection = field(default_factory=Inspection)
    past: PastFacts | None = None
    quarantined: tuple[QuarantinedSnapshot, ...] = ()
    active_run_id: str | None = None
    removed_by_run: Mapping[int, str] = field(default_factory=dict)

    @cached_property
    def partitions(self) -> PartitionColumns:
        """Return the partitions of the snapshot as numpy columns."""
        return read_partitions(self.snapshot)

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
