"""What a connectivity check means: which addresses are wrong, what that breaks, and what to do.

    findings = diagnose(connectivity, metadata, topics=("orders",), now=now)
    findings[0].summary   # "bootstrap answers, but broker 3 advertises kafka3:9092, which ..."

Pure: values in, findings out.

Limits: what is reachable from here; another network may resolve other names.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from types import MappingProxyType
from typing import Final

from counterpoise.model import subjects
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.connectivity import (
    EXPIRY_DAYS,
    EXPIRY_PERCENT,
    NOT_AN_ADDRESS,
    ClusterMetadata,
    ConnectionStage,
    ConnectivityCheck,
    MetadataResponse,
    StageResult,
)
from counterpoise.model.finding import Finding
from counterpoise.model.severity import Severity
from counterpoise.model.words import join_names, list_brokers, pluralize
from counterpoise.units import format_count


@dataclass(frozen=True)
class _Case:
    connectivity: ConnectivityCheck
    metadata: ClusterMetadata | None
    topics: tuple[str, ...]  # that the caller asked about; empty: all
    now: datetime
    pinned_cluster_id: str | None
    refused_reads: Mapping[str, str]  # operation and reason
    expiry_days: int
    expiry_percent: int

    @cached_property
    def leaders(self) -> Mapping[int, tuple[TopicPartition, ...]]:
        return {} if self.metadata is None else self.metadata.leaders

    @property
    def cluster_id(self) -> str | None:
        return self.connectivity.cluster_id

    @property
    def responses(self) -> dict[str, MetadataResponse]:
        """Return the cluster's metadata by address; the last one where it was asked twice."""
        return dict(self.connectivity.metadata_of(self.cluster_id))


def diagnose(
    connectivity: ConnectivityCheck,
    metadata: ClusterMetadata | None,
    *,
    topics: Sequence[str] = (),
    now: datetime,
    pinned_cluster_id: str | None = None,
    refused_reads: Mapping[str, str] = MappingProxyType({}),
    expiry_days: int = EXPIRY_DAYS,
    expiry_percent: int = EXPIRY_PERCENT,
) -> tuple[Finding, ...]:
    """Return the findings, the worst first.

    `now` is in UTC; `pinned_cluster_id` is the cluster id that the configuration expects.
    `refused_reads` has what the connection may not read, with the reason. A certificate expires
    soon with less left than so many days and that share of its lifetime.
    """
    case = _Case(
        connectivity,
        metadata,
        tuple(topics),
        now,
        pinned_cluster_id,
        refused_reads,
        expiry_days,
        expiry_percent,
    )
    findings = [finding for check in _CHECKS for finding in check(case)]
    return tuple(sorted(findings, key=lambda finding: -finding.severity.rank))


def _unreachable_bootstrap(case: _Case) -> Iterator[Finding]:
    is_any_reachable = case.connectivity.answered_by is not None
    for endpoint in case.connectivity.unreachable:
        address = endpoint.address
        start = f"start the broker at {address}, or take {address} out of bootstrap.servers"
        yield Finding(
            "bootstrap-silent",
            Severity.WARNING if is_any_reachable else Severity.CRITICAL,
            subjects.bootstrap_address(address),
            f"bootstrap address {address} does not answer: {endpoint.failure}",
            fix=(endpoint.remedy or start,),
        )


def _unchecked(case: _Case) -> Iterator[Finding]:
    if unchecked := case.connectivity.unchecked:
        yield Finding(
            "endpoints-not-checked",
            Severity.WARNING,
            "endpoints that were not checked",
            f"{format_count(len(unchecked))} of "
            f"{format_count(len(unchecked) + len(case.connectivity.endpoints))} addresses were not "
            f"checked, since the others took too long: {join_names(unchecked)}",
            fix=("put the unreachable ones right, then repeat the check",),
        )


def _other_clusters(case: _Case) -> Iterator[Finding]:
    if case.pinned_cluster_id and case.cluster_id and case.cluster_id != case.pinned_cluster_id:
        yield _another_cluster(
            "the cluster",
            f"the brokers that answered belong to cluster id {case.cluster_id}, but the "
            f"configuration pins {case.pinned_cluster_id}",
            "correct bootstrap.servers, or cluster_id of this cluster in clusters.yaml",
        )
    for endpoint in case.connectivity.bootstrap:
        if endpoint.cluster_id not in (None, case.cluster_id):
            address = endpoint.address
            yield _another_cluster(
                subjects.bootstrap_address(address),
                f"bootstrap address {address} belongs to another cluster: its id is "
                f"{endpoint.cluster_id}; the first address that answered is of {case.cluster_id}",
                f"take {address} out of bootstrap.servers",
            )
    for broker_id, endpoint in case.connectivity.advertised.items():
        if endpoint.cluster_id not in (None, case.cluster_id):
            yield _another_cluster(
                subjects.broker(broker_id),
                f"broker {broker_id} advertises {endpoint.address}, where a broker of another "
                f"cluster answers: its id is {endpoint.cluster_id}, not {case.cluster_id}: "
                f"{_consequence(case, broker_id)}",
                f"fix advertised.listeners on {broker_id}",
            )


def _another_cluster(subject: str, summary: str, fix: str) -> Finding:
    return Finding("another-cluster", Severity.CRITICAL, subject, summary, fix=(fix,))


def _unreachable_endpoints(case: _Case) -> Iterator[Finding]:
    for broker_id, endpoint in case.connectivity.advertised.items():
        failed = endpoint.failed_stage
        if failed is None:
            continue
        fix = f"fix advertised.listeners on {broker_id}"
        if failed.stage is ConnectionStage.TCP:
            fix = f"{fix}, or start broker {broker_id} if it has just stopped"
        elif failed.stage is not ConnectionStage.RESOLVE:
            fix = (
                f"fix the listener of broker {broker_id} at {endpoint.address}, "
                f"or advertised.listeners on {broker_id}"
            )
        yield Finding(
            "endpoint-unreachable",
            Severity.CRITICAL,
            subjects.broker(broker_id),
            f"bootstrap answers, but broker {broker_id} advertises {endpoint.address}, "
            f"{_failure_clause(failed)}: {_consequence(case, broker_id)}",
            fix=(endpoint.remedy or fix,),
        )


def _failure_clause(failed: StageResult) -> str:
    if failed.stage is ConnectionStage.RESOLVE and NOT_AN_ADDRESS in failed.detail:
        return f"which no client can connect to ({failed.detail})"
    if failed.stage is ConnectionStage.RESOLVE:
        return "which does not resolve from here"
    if failed.stage is ConnectionStage.TCP:
        return f"which cannot be connected to from here ({failed.detail})"
    return f"where the stage {failed.stage} fails ({failed.detail})"


def _consequence(case: _Case, broker_id: int) -> str:
    """Say what fails for clients while this broker cannot be reached."""
    partitions = _partitions_led_by(case, broker_id)
    if case.topics:
        affected = sorted(p for p in partitions if p.topic in case.topics)
        if affected:
            return f"producing to {join_names(affected)} will fail"
        return (
            f"it leads no partition of {', '.join(case.topics)} now, "
            "and will fail clients when it does"
        )
    if case.metadata is None:
        return "clients that are sent to it will fail"
    if not partitions:
        return "it leads no partition now, and will fail clients when it does"
    topic_count = len({partition.topic for partition in partitions})
    return (
        f"clients of {pluralize(len(partitions), 'partition')} of "
        f"{pluralize(topic_count, 'topic')} that it leads will fail"
    )


def _partitions_led_by(case: _Case, broker_id: int) -> tuple[TopicPartition, ...]:
    if case.metadata is not None:
        return case.leaders.get(broker_id, ())
    responses = list(case.responses.values())
    partitions = responses[0].partitions if responses else {}
    return tuple(key for key, state in partitions.items() if state.leader == broker_id)


def _unexpected_brokers(case: _Case) -> Iterator[Finding]:
    for broker_id, endpoint in case.connectivity.advertised.items():
        if endpoint.is_expected_broker is False and endpoint.cluster_id == case.cluster_id:
            yield Finding(
                "unexpected-broker",
                Severity.CRITICAL,
                subjects.broker(broker_id),
                f"broker {broker_id} advertises {endpoint.address}, where "
                f"{endpoint.actual_broker} answers: {_consequence(case, broker_id)}",
                fix=(f"fix advertised.listeners on {broker_id}",),
            )


def _missing_brokers(case: _Case) -> Iterator[Finding]:
    """Find addresses whose metadata lacks a live broker that another address reports."""
    all_broker_ids: set[int] = set()
    for response in case.responses.values():
        all_broker_ids |= response.broker_ids
    for address, response in case.responses.items():
        if missing := sorted(all_broker_ids - response.broker_ids):
            yield _old_metadata(
                f"address {address}",
                f"{address} does not see {list_brokers(missing)}, which others see: "
                "its metadata is old, or it is cut off from the controllers",
                address,
            )


def _stale_leaders(case: _Case) -> Iterator[Finding]:
    """Find addresses whose metadata has an older leader epoch than another's."""
    newest_epochs: dict[TopicPartition, int] = {}
    for response in case.responses.values():
        for partition, state in response.partitions.items():
            newest = newest_epochs.get(partition, -1)
            newest_epochs[partition] = max(newest, state.leader_epoch or 0)
    for address, response in case.responses.items():
        behind = sorted(
            partition
            for partition, state in response.partitions.items()
            if (state.leader_epoch or 0) < newest_epochs[partition]
        )
        behind += sorted(newest_epochs.keys() - response.partitions.keys())
        if behind:
            yield _old_metadata(
                f"leaders at address {address}",
                f"{address} reports older leaders of {join_names(behind)} than others do: "
                "its metadata is old",
                address,
            )


def _old_metadata(subject: str, summary: str, address: str) -> Finding:
    fix = f"check the log and the network of the broker at {address}; restart it if it stays behind"
    return Finding("metadata-differs", Severity.WARNING, subject, summary, fix=(fix,))


def _unprotected(case: _Case) -> Iterator[Finding]:
    for warning in case.connectivity.warnings:
        summary, _, fix = warning.partition("; ")
        yield Finding("connection-unverified", Severity.WARNING, "connection", summary, fix=(fix,))


def _missing_permissions(case: _Case) -> Iterator[Finding]:
    for operation, reason in case.refused_reads.items():
        seen, _, fix = reason.partition("; ")
        yield Finding(
            "permission-missing",
            Severity.WARNING,
            f"permission to {operation}",
            f"this connection may not {operation}: {seen}",
            fix=(fix,) if fix else (),
        )


def _certificates(case: _Case) -> Iterator[Finding]:
    for certificate, addresses in case.connectivity.certificates.items():
        remaining = certificate.expires_at - case.now
        if not certificate.is_near_its_end(case.now, case.expiry_days, case.expiry_percent):
            continue
        is_expired = remaining <= timedelta(0)
        when = f"expires on {certificate.expires_in_words}, in {pluralize(remaining.days, 'day')}"
        if is_expired:
            when = f"expired on {certificate.expires_in_words}"
        yield Finding(
            "certificate-expired" if is_expired else "certificate-expires-soon",
            Severity.CRITICAL if is_expired else Severity.WARNING,
            f"certificate {certificate.subject}",
            f"the certificate {certificate.subject} at {join_names(addresses)} {when}",
            fix=("renew it, and make the brokers load the new one",),
        )


def _fenced_brokers(case: _Case) -> Iterator[Finding]:
    for broker in case.metadata.brokers if case.metadata else ():
        if broker.is_fenced:
            broker_id = broker.broker_id
            yield Finding(
                "broker-fenced",
                Severity.WARNING,
                subjects.broker(broker_id),
                f"broker {broker_id} is registered, but not live",
                fix=(f"start broker {broker_id}, or unregister it if it is gone for good",),
            )


def _unknown_topics(case: _Case) -> Iterator[Finding]:
    if case.metadata is None:
        return
    visible = {topic.topic for topic in case.metadata.topics}
    if not visible and case.metadata.unavailable:
        return  # the topics could not be read
    for topic in case.topics:
        if topic not in visible:
            yield Finding(
                "topic-unknown",
                Severity.WARNING,
                subjects.topic(topic),
                f"topic {topic} does not exist, or this principal may not see it; "
                "nothing was created",
            )


def _partitions_without_leader(case: _Case) -> Iterator[Finding]:
    topics = case.metadata.topics if case.metadata else ()
    leaderless = [
        TopicPartition(topic.topic, partition.partition)
        for topic in topics
        if not case.topics or topic.topic in case.topics
        for partition in topic.partitions
        if partition.leader is None
    ]
    if leaderless:
        have = pluralize(len(leaderless), "partition has", "partitions have")
        yield Finding(
            "no-leader",
            Severity.CRITICAL,
            "partitions without a leader",
            f"{have} no leader, and can be neither written nor read: {join_names(leaderless)}",
            fix=("start the brokers that hold them",),
        )


_CHECKS: Final[tuple[Callable[[_Case], Iterator[Finding]], ...]] = (
    _unreachable_bootstrap,
    _unchecked,
    _other_clusters,
    _unreachable_endpoints,
    _unexpected_brokers,
    _missing_brokers,
    _stale_leaders,
    _unprotected,
    _missing_permissions,
    _certificates,
    _fenced_brokers,
    _unknown_topics,
    _partitions_without_leader,
)
