"""Facts for the audit's rules: a healthy cluster on which no rule fires, and how to make it ill.

    assert findings_of("racks-missing", facts()) == ()
    ill = healthy(racks="1=a 2=b 3")
    assert findings_of("racks-missing", facts(ill))[0].subject == "broker 3"

`facts` makes a snapshot of a simulated cluster and inspects it, so that a test may do to it what
happens to clusters (`kill_broker`, `configs.static[1]["..."] = "..."`, `quorum = ...`). Keywords
are fields of AuditFacts, put in last.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from counterpoise.audit import RULES
from counterpoise.audit.auditing import find, resolve
from counterpoise.audit.facts import AuditFacts, PastFacts
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.connectivity import (
    ConnectionStage,
    ConnectivityCheck,
    EndpointCheck,
    MetadataResponse,
    StageResult,
)
from counterpoise.model.control import Control, ControlRequest
from counterpoise.model.finding import Finding
from counterpoise.model.inspection import ConsumerGroup, Quorum, QuorumNode
from counterpoise.model.kafka import BrokerDescription, ConfigResource, ConfigResourceType
from counterpoise.model.load import DiskForecast, Outlook
from counterpoise.model.policy import AuditPolicy, ClusterPolicy
from counterpoise.model.severity import Severity
from counterpoise.model.tables import SCHEMA_VERSION, SERIES, SNAPSHOTS, TOPIC_LOAD
from counterpoise.snapshot import inspect, take_snapshot
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.pictures import simulated

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)
INTERVAL = timedelta(hours=1)
RACKS = "1=a 2=b 3=c"
_MB = 10**6
RATE = 10_000  # bytes per second into each partition


def _lines(topic: str, count: int) -> str:
    """Partitions with three replicas, evenly led and held by brokers 1 to 3."""
    orders = ("1 2 3", "2 3 1", "3 1 2")
    return "\n".join(
        f"{topic}-{n}: {orders[n % 3]} size={100 * _MB} rate=10000" for n in range(count)
    )


HEALTHY = "\n".join(
    _lines(topic, count)
    for topic, count in (
        ("orders", 6),
        ("payments", 3),
        ("__consumer_offsets", 6),
        ("__transaction_state", 6),
    )
)

# What a careful team writes into server.properties; names as Kafka has them.
BROKER_CONFIGS: Mapping[str, str] = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "auto.create.topics.enable": "false",
    "unclean.leader.election.enable": "false",
    "listener.security.protocol.map": "CLIENT:SSL,CONTROLLER:SSL",
    "inter.broker.listener.name": "CLIENT",
    "controller.listener.names": "CONTROLLER",
}


def healthy(picture: str = HEALTHY, *, racks: str = RACKS) -> SimulatedCluster:
    """A simulated cluster, configured with care, its metadata quorum on controllers of their own
    (101 to 103).
    """
    cluster = simulated(picture, racks=racks)
    for broker_id, broker in cluster.brokers.items():
        broker.disk_total_bytes = 10**12
        listener = f"CLIENT://broker-{broker_id}:9092"
        cluster.configs.static[broker_id] = {
            **BROKER_CONFIGS,
            "listeners": listener,
            "advertised.listeners": listener,
            "broker.rack": broker.rack or "",
        }
    for topic in cluster.topic_ids:
        cluster.configs.dynamic.pop(ConfigResource(ConfigResourceType.TOPIC, topic), None)
    cluster.quorum = quorum(observers=tuple(cluster.brokers))
    cluster.groups = [ConsumerGroup("shop", "Stable", 3, ("orders",), {"orders": {0: 100_000}})]
    return cluster


def quorum(
    voters: tuple[int, ...] = (101, 102, 103),
    observers: tuple[int, ...] = (),
    *,
    seconds_behind: Mapping[int, float | None] | None = None,
    directory_id: str | None = "5f9d1c52-3c53-4b3e-8e5f-0d8d9d8f5b11",
) -> Quorum:
    """Led by the first voter; `seconds_behind` of a node is when it caught up last, None: never
    with this leader.
    """
    late = seconds_behind or {}

    def node(node_id: int, is_voter: bool) -> QuorumNode:
        behind = late.get(node_id, 0.0)
        at = None if behind is None else NOW_MS - int(behind * 1000)
        return QuorumNode(node_id, is_voter, 5000, at, directory_id if is_voter else None)

    nodes = [*(node(one, True) for one in voters), *(node(one, False) for one in observers)]
    return Quorum(voters[0], 7, 5000, tuple(nodes))


def facts(cluster: SimulatedCluster | None = None, **changes: Any) -> AuditFacts:
    """Of `cluster` (a healthy one by default).

    Keywords replace fields; `audit` is that part of the policy.
    """
    cluster = healthy() if cluster is None else cluster
    snapshot = changes.get("snapshot") or snapshot_of(cluster)
    audit = changes.pop("audit", None) or AuditPolicy(
        controller_racks={101: "a", 102: "b", 103: "c"}
    )
    policy = ClusterPolicy(audit=audit)
    usual = AuditFacts(
        now=NOW,
        snapshot=snapshot,
        policy=policy,
        thresholds=resolve(audit),
        connectivity=connectivity(snapshot),
        inspection=inspect(cluster, snapshot, operator=cluster, with_transactions=True),
        past=past(snapshot),
    )
    return replace(usual, **changes)


def snapshot_of(
    cluster: SimulatedCluster, *, snapshot_id: str = "demo-now", observed_at: datetime = NOW
) -> ClusterSnapshot:
    """As `take_snapshot`, with the rates that the simulated cluster knows."""
    return take_snapshot(
        cluster,
        cluster="demo",
        snapshot_id=snapshot_id,
        observed_at=observed_at,
        security_protocol="SSL",
    )


def endpoint(
    address: str,
    *,
    ip: str | None = None,
    failed: ConnectionStage | None = None,
    said: str = "connection refused",
    metadata: MetadataResponse | None = None,
    **changes: Any,
) -> EndpointCheck:
    """Return the check of `address`; `failed` is the stage that it ends with."""
    stages = []
    for name in ConnectionStage:
        stages.append(StageResult(name, name is not failed, said if name is failed else "ok", 1))
        if name is failed:
            break
    is_resolved = failed is not ConnectionStage.RESOLVE
    ips = (ip or _ip(address),) if is_resolved else ()
    return EndpointCheck(
        address, tuple(stages), ips, metadata=None if failed else metadata, **changes
    )


def _ip(address: str) -> str:
    """Another one for each `broker-N`."""
    host = address.rpartition(":")[0]
    return f"10.0.0.{host.rpartition('-')[2]}" if host.startswith("broker-") else "10.9.9.9"


def connectivity(snapshot: ClusterSnapshot, **changes: Any) -> ConnectivityCheck:
    """Everything answers: the list names the first three brokers, and each live broker is where it
    says it is.
    """
    rows = [row for row in snapshot.brokers.to_pylist() if not row["is_fenced"]]
    live = tuple(
        BrokerDescription(r["broker_id"], r["host"], r["port"], r["rack"], False) for r in rows
    )
    metadata = MetadataResponse(snapshot.cluster_id, live)
    found = ConnectivityCheck(
        "SSL",
        tuple(endpoint(f"{b.host}:{b.port}", metadata=metadata) for b in live[:3]),
        {
            b.broker_id: endpoint(f"{b.host}:{b.port}", metadata=metadata, is_expected_broker=True)
            for b in live
        },
    )
    return replace(found, **changes)


def past(snapshot: ClusterSnapshot, hours: int = 72) -> PastFacts:
    """A snapshot each hour, the newest right now, all of them like `snapshot`: nothing grows."""
    times = [NOW - INTERVAL * ago for ago in range(hours, -1, -1)]
    manifests = [
        {
            "snapshot_id": f"demo-{at:%d%H}",
            "cluster": "demo",
            "cluster_id": snapshot.cluster_id,
            "observed_at": at,
            "schema_version": SCHEMA_VERSION,
            "files": [],
        }
        for at in times
    ]
    log_dirs = snapshot.log_dirs.to_pylist()
    return PastFacts(
        manifests=pa.Table.from_pylist(manifests, schema=SNAPSHOTS),
        series=pa.Table.from_pylist(
            [row for at in times for row in _series(snapshot, at)], schema=SERIES
        ),
        usual_bytes_in=pa.array([RATE] * snapshot.partitions.num_rows, pa.int64()),
        topic_load=pa.Table.from_pylist(_topic_loads(snapshot), schema=TOPIC_LOAD),
        disk_forecasts=tuple(
            _steady(row["broker_id"], row["log_dir"], row["total_bytes"]) for row in log_dirs
        ),
    )


def _steady(broker_id: int, log_dir: str, total_bytes: int | None) -> DiskForecast:
    """A disk, half full, that does not grow."""
    size = total_bytes or 10**12
    watched = timedelta(days=3).total_seconds()
    return DiskForecast(
        broker_id,
        (log_dir,),
        size // 2,
        size,
        size // 2,
        0,
        watched,
        Outlook.NOT_WITHIN_A_YEAR,
        days_left=None,
    )


def _topic_loads(snapshot: ClusterSnapshot) -> list[dict[str, Any]]:
    return [
        _keys(NOW)
        | {
            "topic": row["topic"],
            "partition_count": row["partition_count"],
            "bytes_in_per_second": RATE * row["partition_count"],
            "size_bytes": 100 * _MB * row["partition_count"],
            "growth_bytes_per_second": 0,
        }
        for row in snapshot.topics.to_pylist()
    ]


def _keys(at: datetime) -> dict[str, Any]:
    return {"cluster": "demo", "snapshot_id": f"demo-{at:%d%H}", "observed_at": at}


def _series(snapshot: ClusterSnapshot, at: datetime) -> list[dict[str, Any]]:
    leaders = snapshot.partitions["leader"].to_pylist()
    holders = snapshot.replicas["broker_id"].to_pylist()
    preferred = [replicas[0] for replicas in snapshot.partitions["replicas"].to_pylist()]
    pairs = list(zip(leaders, preferred, strict=True))
    return [
        _keys(at)
        | {
            "broker_id": row["broker_id"],
            "rack": row["rack"],
            "is_fenced": row["is_fenced"],
            "leaders": leaders.count(row["broker_id"]),
            "preferred_leaders": preferred.count(row["broker_id"]),
            "leaders_not_preferred": sum(a == row["broker_id"] != b for a, b in pairs),
            "replicas": holders.count(row["broker_id"]),
            "bytes": holders.count(row["broker_id"]) * 100 * _MB,
            "leader_bytes_in_per_second": leaders.count(row["broker_id"]) * RATE,
            "cluster_id": snapshot.cluster_id,
            "is_rebuilt": False,
            "seconds": INTERVAL.total_seconds(),
            "partitions": len(leaders),
        }
        for row in snapshot.brokers.to_pylist()
    ]


def findings_of(rule_id: str, given: AuditFacts) -> tuple[Finding, ...]:
    """What one rule says, as findings, by subject."""
    rules = [rule for rule in RULES if rule.id == rule_id]
    assert rules, f"there is no rule {rule_id}"
    found = find(given, rules)
    documented = {Severity.UNKNOWN, *rules[0].severities}
    assert {finding.severity for finding in found} <= documented, "docs/audit-rules.md lacks one"
    return found


def fired(given: AuditFacts) -> dict[str, list[str]]:
    """The subjects of every rule that says something."""
    found: dict[str, list[str]] = {}
    for finding in find(given):
        found.setdefault(finding.rule, []).append(finding.subject)
    return found


def keeping_empty(broker_id: int, why: str) -> ControlRequest:
    """The request that keeps a broker empty."""
    return ControlRequest("demo", None, Control.KEEP_EMPTY, "alice", why, NOW, broker_id=broker_id)
