"""The way that every client takes to its leaders, and what is wrong on it.

    examination = examine(installation, "orders-eu", topics=("orders",))
    examination.findings

Reads only; nothing is kept, and no ledger is needed.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

from counterpoise.audit import CONNECTION_RULES, auditing
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.rules.controllers import quorum_no_leader
from counterpoise.audit.rules.listeners import certificate_expires
from counterpoise.diagnosis import diagnose
from counterpoise.errors import (
    ClusterError,
    NotPermittedError,
    RetriableClusterError,
)
from counterpoise.installation import Connections, Installation, connect_by_discovery
from counterpoise.kafka_admin import connect
from counterpoise.kafka_admin.connection import ConnectionSettings
from counterpoise.model.acl import READ_BROKER_CONFIGS, READ_CLUSTER
from counterpoise.model.connectivity import (
    EXPIRY_DAYS,
    EXPIRY_PERCENT,
    ClusterMetadata,
    ConnectivityCheck,
)
from counterpoise.model.finding import Finding
from counterpoise.model.inspection import Inspection, InspectionItem
from counterpoise.model.provider import profile_of
from counterpoise.model.severity import Severity
from counterpoise.model.words import pluralize
from counterpoise.snapshot import snapshot_of_metadata
from counterpoise.units import format_count

_HIDDEN_READS: Final = (READ_CLUSTER, READ_BROKER_CONFIGS)  # of a provider's brokers
_NO_SNAPSHOT: Final = "a connectivity check makes no snapshot"
_CONFIGS_NOT_READ: Final = (
    "its endpoint does not respond, or this connection may not read the configs of brokers"
)
_MAX_BROKERS_ASKED: Final = 1_000  # librdkafka starts a thread for each, and ends them one by one


@dataclass(frozen=True, slots=True)
class Examination:
    """Endpoints, the cluster's metadata by the address that answered (None: none did), findings."""

    connectivity: ConnectivityCheck
    metadata: ClusterMetadata | None
    findings: tuple[Finding, ...]  # the worst first
    topics: tuple[str, ...] = ()  # those that were asked for


def examine(
    installation: Installation,
    cluster: str,
    *,
    topics: Sequence[str] = (),
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Examination:
    """Check every bootstrap address and every endpoint; `progress` gets how many of how many.

    Raises InputError for a connection that cannot be used.
    """
    from counterpoise.kafka_admin.connectivity import read_cluster_metadata

    connectivity = installation.check_connectivity(cluster, topics=topics, progress=progress)
    metadata = None
    refused_reads: Mapping[str, str] = {}
    if installation.connectivity_checker is None:
        settings = installation.connectivity_settings(cluster)
        metadata = read_cluster_metadata(settings, connectivity)
        if metadata is not None and not connectivity.has_lost_quorum:
            refused_reads, metadata = _refused_reads(settings, metadata)
            if profile_of(installation.cluster(cluster).policy.provider).may_hide_brokers:
                refused_reads, metadata = _without_hidden(refused_reads, metadata)
    facts = connection_facts(installation, cluster, connectivity, metadata)
    policy = installation.cluster(cluster).policy.audit
    limits = policy.thresholds.get(certificate_expires.id, {})
    findings = diagnose(
        connectivity,
        metadata,
        topics=topics,
        refused_reads=refused_reads,
        now=installation.clock(),
        pinned_cluster_id=installation.cluster(cluster).pinned_cluster_id,
        expiry_days=limits.get("days", EXPIRY_DAYS),
        expiry_percent=limits.get("percent_of_lifetime", EXPIRY_PERCENT),
    )
    of_quorum = auditing.find(facts, [quorum_no_leader])
    return Examination(connectivity, metadata, (*of_quorum, *findings), tuple(topics))


def connection_facts(
    installation: Installation,
    cluster: str,
    connectivity: ConnectivityCheck,
    metadata: ClusterMetadata | None,
    *,
    topics: Sequence[str] = (),
    snapshot_id: str = "",
    failure: str = "",
) -> AuditFacts:
    """Return what a connectivity check knows, for the rules of connections.

    With `topics`, of no other topics. `failure` is why there is no snapshot.
    """
    policy = installation.cluster(cluster).policy
    described = metadata or ClusterMetadata((), ())
    if not described.brokers and connectivity.answered_by and connectivity.answered_by.metadata:
        described = replace(described, brokers=connectivity.answered_by.metadata.brokers)
    if topics:
        of_topics = tuple(topic for topic in described.topics if topic.topic in topics)
        described = replace(described, topics=of_topics)
    now = installation.clock()
    configs = connectivity.broker_configs
    is_complete = configs.keys() >= {b.broker_id for b in described.brokers if not b.is_fenced}
    return AuditFacts(
        now=now,
        snapshot=snapshot_of_metadata(
            described,
            cluster=cluster,
            cluster_id=connectivity.cluster_id or "",
            snapshot_id=snapshot_id,
            observed_at=now,
            security_protocol=connectivity.security_protocol,
        ),
        policy=policy,
        thresholds=auditing.resolve(policy.audit),
        connectivity=connectivity,
        inspection=Inspection(
            broker_configs=configs,
            unavailable={} if is_complete else {InspectionItem.BROKER_CONFIGS: _CONFIGS_NOT_READ},
        ),
        typed_words=installation.cluster_words(cluster),
        snapshot_failure=failure or _NO_SNAPSHOT,
    )


def facts_without_snapshot(
    installation: Installation,
    cluster: str,
    connectivity: ConnectivityCheck,
    failure: ClusterError,
    *,
    snapshot_id: str = "",
) -> AuditFacts:
    """Return what is known of a cluster of which no snapshot can be made.

    Raises `failure` where connections do not explain it: no address responds, a permission is
    missing, or the rules of connections find nothing critical.
    """
    if connectivity.answered_by is None or isinstance(failure, NotPermittedError):
        raise failure
    metadata = _metadata(installation, cluster, connectivity)
    facts = connection_facts(
        installation,
        cluster,
        connectivity,
        metadata,
        snapshot_id=snapshot_id,
        failure=str(failure),
    )
    if not _causes(facts):
        raise failure
    return facts


def with_cause(installation: Installation, cluster: str, failure: ClusterError) -> ClusterError:
    """Return why no snapshot can be made, where the connections tell; else `failure`."""
    try:
        connectivity = installation.check_connectivity(cluster)
        facts = facts_without_snapshot(installation, cluster, connectivity, failure)
    except ClusterError as error:
        return error
    cause, *others = _causes(facts)
    alike = sum(finding.rule == cause.rule for finding in others)
    more = f" ({alike} more like it)" if alike else ""
    return RetriableClusterError(f"no snapshot of {cluster} can be made: {cause.summary}{more}")


def _causes(facts: AuditFacts) -> list[Finding]:
    """Return what is critical about connections."""
    findings = auditing.find(facts, CONNECTION_RULES)
    return [finding for finding in findings if finding.severity is Severity.CRITICAL]


def _metadata(
    installation: Installation, cluster: str, connectivity: ConnectivityCheck
) -> ClusterMetadata | None:
    if installation.connectivity_checker is not None:
        return None
    from counterpoise.kafka_admin.connectivity import read_cluster_metadata

    return read_cluster_metadata(installation.connectivity_settings(cluster), connectivity)


def try_connection(connections: Connections, connection_id: str) -> str:
    """Connect once, and return what is there: "cluster q1Sh-9, 3 live brokers".

    Raises InputError, ClusterUnreachableError.
    """
    where = f"connection {connection_id}"
    settings = ConnectionSettings.parse(connections.settings_for(connection_id), where=where)
    with closing(connect_by_discovery(settings)) as admin:
        cluster = admin.describe_cluster()
    live_brokers = pluralize(len(cluster.live_broker_ids), "live broker")
    return f"cluster {cluster.cluster_id}, {live_brokers}"


def _refused_reads(
    settings: ConnectionSettings, metadata: ClusterMetadata
) -> tuple[Mapping[str, str], ClusterMetadata]:
    """Return what the connection may not read; where that is not known, the metadata says why."""
    if len(metadata.brokers) > _MAX_BROKERS_ASKED:
        limit = format_count(_MAX_BROKERS_ASKED)
        reason = f"the permissions of this connection: not asked of more than {limit} brokers"
        return {}, replace(metadata, unavailable=(*metadata.unavailable, reason))
    try:
        with closing(connect(settings)) as admin:
            return admin.refused_reads(), metadata
    except ClusterError as error:
        reason = f"the permissions of this connection: {error}"
        return {}, replace(metadata, unavailable=(*metadata.unavailable, reason))


def _without_hidden(
    refused_reads: Mapping[str, str], metadata: ClusterMetadata
) -> tuple[Mapping[str, str], ClusterMetadata]:
    """Return the refused reads that can be granted; the metadata has the others as not known."""
    hidden = [operation for operation in _HIDDEN_READS if operation in refused_reads]
    reasons = [f"{name.removeprefix('read ')}: {refused_reads[name]}" for name in hidden]
    others = {name: reason for name, reason in refused_reads.items() if name not in hidden}
    return others, replace(metadata, unavailable=(*metadata.unavailable, *reasons))
