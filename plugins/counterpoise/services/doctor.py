"""The way that every client takes to its leaders, and what is wrong on it.

    examination = examine(installation, "orders-eu", topics=("orders",))
    examination.findings

Reads only; nothing is kept, and no ledger is needed.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

from counterpoise.audit.rules.listeners import certificate_expires
from counterpoise.diagnosis import diagnose
from counterpoise.errors import ClusterError
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
from counterpoise.model.provider import profile_of
from counterpoise.model.words import pluralize
from counterpoise.units import format_count

_HIDDEN_READS: Final = (READ_CLUSTER, READ_BROKER_CONFIGS)  # of a provider's brokers
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
        if metadata is not None:
            refused_reads, metadata = _refused_reads(settings, metadata)
            if profile_of(installation.cluster(cluster).policy.provider).may_hide_brokers:
                refused_reads, metadata = _without_hidden(refused_reads, metadata)
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
    return Examination(connectivity, metadata, findings, tuple(topics))


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
