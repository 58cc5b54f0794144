"""The way that every client takes to its leaders, and what is wrong on it.

    examination = examine(installation, "orders-eu", topics=("orders",))
    examination.findings

Reads only; nothing is kept, and no ledger is needed.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

from counterpoise.audit import CONNECTION_RULES, RULES_WITHOUT_SNAPSHOT, auditing
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.unavailable_data import SNAPSHOT, data_not_available
from counterpoise.errors import (
    ClusterError,
    ClusterUnreachableError,
    NotPermittedError,
    RetriableClusterError,
)
from counterpoise.installation import Connections, Installation, connect_by_discovery
from counterpoise.kafka_admin import connect
from counterpoise.kafka_admin.connection import ConnectionSettings
from counterpoise.model import subjects
from counterpoise.model.acl import READ_BROKER_CONFIGS, READ_CLUSTER
from counterpoise.model.connectivity import ClusterMetadata, ConnectivityCheck
from counterpoise.model.finding import Finding
from counterpoise.model.inspection import Inspection, InspectionItem
from counterpoise.model.kafka import TopicDescription
from counterpoise.model.provider import profile_of
from counterpoise.model.severity import Severity
from counterpoise.model.words import join_names, pluralize
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
    unavailable: tuple[str, ...] = ()  # what could not be read, with the reason

    @property
    def asked_topics(self) -> tuple[TopicDescription, ...]:
        """Return the topics that were asked for, as far as they are visible."""
        topics = self.metadata.topics if self.metadata else ()
        return tuple(topic for topic in topics if topic.topic in self.topics)


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
    connectivity = installation.check_connectivity(cluster, topics=topics, progress=progress)
    metadata = _metadata(installation, cluster, connectivity)
    facts = connection_facts(installation, cluster, connectivity, metadata, topics=topics)
    findings = open_findings(facts)
    unavailable: list[str] = []
    if metadata is not None:
        unavailable += metadata.unavailable
        if not any(finding.severity is Severity.CRITICAL for finding in findings):
            findings += _missing_permissions(installation, cluster, metadata, unavailable)
        if metadata.topics or not unavailable:  # else they could not be read
            findings += _unknown_topics(metadata, topics)
    findings += _about_the_check(connectivity, installation.cluster(cluster).pinned_cluster_id)
    worst_first = sorted(findings, key=lambda finding: -finding.severity.rank)
    return Examination(
        connectivity, metadata, tuple(worst_first), tuple(topics), tuple(unavailable)
    )


def open_findings(facts: AuditFacts) -> list[Finding]:
    """Return what the rules that need no snapshot find and nobody waived, the worst first."""
    rules = (*RULES_WITHOUT_SNAPSHOT, data_not_available)
    report = auditing.compare(None, auditing.find(facts, rules), facts, rules)
    what_to_do = {rule.id: (f"# {rule.how}",) for rule in rules}
    return [
        replace(reported.finding, fix=reported.finding.fix or what_to_do[reported.finding.rule])
        for reported in report.open
        if reported.finding.subject != SNAPSHOT
    ]


def _missing_permissions(
    installation: Installation, cluster: str, metadata: ClusterMetadata, unavailable: list[str]
) -> Iterator[Finding]:
    """Yield what the connection may not read; add what is not known, or cannot be granted."""
    what = "the permissions of this connection"
    if len(metadata.brokers) > _MAX_BROKERS_ASKED:
        limit = format_count(_MAX_BROKERS_ASKED)
        unavailable.append(f"{what}: not asked of more than {limit} brokers")
        return
    try:
        with closing(connect(installation.connectivity_settings(cluster))) as admin:
            refused_reads = admin.refused_reads()
    except ClusterError as error:
        unavailable.append(f"{what}: {error}")
        return
    hides = profile_of(installation.cluster(cluster).policy.provider).may_hide_brokers
    for operation, reason in refused_reads.items():
        if hides and operation in _HIDDEN_READS:
            unavailable.append(f"{operation.removeprefix('read ')}: {reason}")
            continue
        seen, _, fix = reason.partition("; ")
        yield Finding(
            "permission-missing",
            Severity.WARNING,
            f"permission to {operation}",
            f"this connection may not {operation}: {seen}",
            fix=(fix,) if fix else (),
        )


def _unknown_topics(metadata: ClusterMetadata, topics: Sequence[str]) -> Iterator[Finding]:
    visible = {topic.topic for topic in metadata.topics}
    for topic in topics:
        if topic not in visible:
            yield Finding(
                "topic-unknown",
                Severity.WARNING,
                subjects.topic(topic),
                f"topic {topic} does not exist, or this principal may not see it; "
                "nothing was created",
            )


def _about_the_check(
    connectivity: ConnectivityCheck, pinned_cluster_id: str | None
) -> Iterator[Finding]:
    """Yield what is wrong with our own settings, and what there was no time for."""
    cluster_id = connectivity.cluster_id
    if pinned_cluster_id and cluster_id and cluster_id != pinned_cluster_id:
        yield Finding(
            "another-cluster",
            Severity.CRITICAL,
            subjects.CLUSTER,
            f"the brokers that answered belong to cluster id {cluster_id}, but the configuration "
            f"pins {pinned_cluster_id}",
            fix=("# correct bootstrap.servers, or cluster_id of this cluster in clusters.yaml",),
        )
    for warning in connectivity.warnings:
        summary, _, fix = warning.partition("; ")
        yield Finding(
            "connection-unverified", Severity.WARNING, "connection", summary, fix=(f"# {fix}",)
        )
    if unchecked := connectivity.unchecked:
        total = len(unchecked) + len(connectivity.endpoints)
        yield Finding(
            "endpoints-not-checked",
            Severity.WARNING,
            "endpoints that were not checked",
            f"{format_count(len(unchecked))} of {format_count(total)} addresses were not checked, "
            f"since the others took too long: {join_names(unchecked)}",
            fix=("# put the unreachable ones right, then repeat the check",),
        )


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
        failure=_in_one_line(failure),
    )
    if not _causes(facts):
        raise failure
    return facts


def _in_one_line(failure: ClusterError) -> str:
    return failure.in_one_line if isinstance(failure, ClusterUnreachableError) else str(failure)


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
