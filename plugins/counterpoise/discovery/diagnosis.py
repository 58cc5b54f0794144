"""What a walk means: which addresses are wrong, what that breaks, and what to do. Pure: values in,
findings out.

    findings = diagnose(walk, sight, topics=("orders",), now=now)
    findings[0].seen   # "bootstrap answers, but broker 3 advertises kafka3.internal:9092, which does not resolve ..."

Limits: what can be seen from here; another network may resolve other names.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from counterpoise.model.cluster import TopicPartition
from counterpoise.model.finding import Finding
from counterpoise.model.severity import Severity
from counterpoise.model.walk import ClusterSight, MetadataAnswer, Step, StepName, Walk
from counterpoise.model.words import join_ids, join_names

EXPIRES_SOON: Final = timedelta(days=30)


@dataclass(frozen=True)
class _Case:
    walk: Walk
    sight: ClusterSight | None
    topics: tuple[str, ...]
    now: datetime
    pinned_cluster_id: str | None

    @property
    def cluster_id(self) -> str | None:
        return self.walk.cluster_id

    @property
    def told(self) -> tuple[tuple[str, MetadataAnswer], ...]:
        """Who told what of this cluster, last where it was asked twice."""
        return tuple(dict(self.walk.told_of(self.cluster_id)).items())


def diagnose(
    walk: Walk,
    sight: ClusterSight | None,
    *,
    topics: Sequence[str] = (),
    now: datetime,
    pinned_cluster_id: str | None = None,
) -> tuple[Finding, ...]:
    """The worst first.

    `now` in UTC; `pinned_cluster_id`: the one that the configuration expects.
    """
    case = _Case(walk, sight, tuple(topics), now, pinned_cluster_id)
    found = [finding for question in _QUESTIONS for finding in question(case)]
    return tuple(sorted(found, key=lambda finding: -finding.severity.rank))


def _silent_bootstrap(case: _Case) -> Iterator[Finding]:
    for one in case.walk.silent:
        yield Finding(
            "bootstrap-silent",
            Severity.CRITICAL if case.walk.answered_by is None else Severity.WARNING,
            f"bootstrap address {one.address}",
            f"bootstrap address {one.address} does not answer: {one.failure}",
            fix=(
                f"start what should answer there, or take {one.address} out of bootstrap.servers",
            ),
        )


def _other_clusters(case: _Case) -> Iterator[Finding]:
    if case.pinned_cluster_id and case.cluster_id and case.cluster_id != case.pinned_cluster_id:
        yield _another(
            "the cluster",
            f"the brokers that answered belong to cluster id {case.cluster_id}, but the "
            f"configuration pins {case.pinned_cluster_id}",
            "correct bootstrap.servers, or pinned_cluster_id",
        )
    for one in case.walk.bootstrap:
        if one.cluster_id not in (None, case.cluster_id):
            yield _another(
                f"bootstrap address {one.address}",
                f"bootstrap address {one.address} belongs to another cluster: its id is {one.cluster_id}, "
                f"that of the first which answered {case.cluster_id}",
                f"take {one.address} out of bootstrap.servers",
            )
    for broker_id, one in case.walk.advertised.items():
        if one.cluster_id not in (None, case.cluster_id):
            yield _another(
                f"broker {broker_id}",
                f"broker {broker_id} advertises {one.address}, where a broker of another cluster answers: its id is "
                f"{one.cluster_id}, not {case.cluster_id}: {_consequence(case, broker_id)}",
                f"fix advertised.listeners on {broker_id}",
            )


def _another(subject: str, seen: str, fix: str) -> Finding:
    return Finding("another-cluster", Severity.CRITICAL, subject, seen, fix=(fix,))


def _unreachable_endpoints(case: _Case) -> Iterator[Finding]:
    for broker_id, one in case.walk.advertised.items():
        if one.failed_step is None:
            continue
        fix = f"fix advertised.listeners on {broker_id}"
        if one.failed_step.name is StepName.TCP:
            fix += f", or start broker {broker_id} if it has just stopped"
        elif one.failed_step.name is not StepName.RESOLVE:
            fix = f"fix the listener of broker {broker_id} at {one.address}, or {fix.removeprefix('fix ')}"
        yield Finding(
            "endpoint-unreachable",
            Severity.CRITICAL,
            f"broker {broker_id}",
            f"bootstrap answers, but broker {broker_id} advertises {one.address}, {_clause(one.failed_step)}: "
            f"{_consequence(case, broker_id)}",
            fix=(fix,),
        )


def _clause(step: Step) -> str:
    if step.name is StepName.RESOLVE:
        return "which does not resolve from here"
    if step.name is StepName.TCP:
        return f"which cannot be connected to from here ({step.said})"
    return f"where the step {step.name} fails ({step.said})"


def _consequence(case: _Case, broker_id: int) -> str:
    """What does not work for a client because this broker cannot be reached."""
    if case.topics:
        led = sorted(p for p in _partitions_led(case, broker_id) if p.topic in case.topics)
        if not led:
            return f"it leads nothing of {', '.join(case.topics)} now, and will fail clients when it does"
        return f"producing to {join_names(led)} will fail"
    led_at_all = _partitions_led(case, broker_id)
    if case.sight is None:
        return "clients that are sent to it will fail"
    if not led_at_all:
        return "it leads nothing now, and will fail clients when it does"
    many = len(led_at_all)
    topics = len({partition.topic for partition in led_at_all})
    return f"clients of the {many} partition(s) of {topics} topic(s) that it leads will fail"


def _partitions_led(case: _Case, broker_id: int) -> tuple[TopicPartition, ...]:
    if case.sight is not None:
        return case.sight.leaders.get(broker_id, ())
    told = case.told[0][1].partitions if case.told else {}
    return tuple(partition for partition, state in told.items() if state.leader == broker_id)


def _unexpected_brokers(case: _Case) -> Iterator[Finding]:
    for broker_id, one in case.walk.advertised.items():
        if one.is_expected_broker is False and one.cluster_id == case.cluster_id:
            yield Finding(
                "unexpected-broker",
                Severity.CRITICAL,
                f"broker {broker_id}",
                f"broker {broker_id} advertises {one.address}, where {one.actual_broker} answers: "
                f"{_consequence(case, broker_id)}",
                fix=(f"fix advertised.listeners on {broker_id}",),
            )


def _blind_brokers(case: _Case) -> Iterator[Finding]:
    everybody = frozenset[int]().union(*(answer.broker_ids for _, answer in case.told))
    for address, answer in case.told:
        if missing := sorted(everybody - answer.broker_ids):
            yield Finding(
                "metadata-differs",
                Severity.WARNING,
                f"address {address}",
                f"{address} does not see broker(s) {join_ids(missing)}, which others see: its metadata is "
                "old, or it is cut off from the controllers",
                fix=(
                    f"look at the log and the network of the broker at {address}; restart it if it stays behind",
                ),
            )


def _stale_leaders(case: _Case) -> Iterator[Finding]:
    newest: dict[TopicPartition, int] = {}
    for _, answer in case.told:
        for partition, state in answer.partitions.items():
            newest[partition] = max(newest.get(partition, -1), state.leader_epoch or 0)
    for address, answer in case.told:
        behind = sorted(
            p for p, state in answer.partitions.items() if (state.leader_epoch or 0) < newest[p]
        )
        behind += sorted(p for p in newest.keys() - answer.partitions.keys())
        if behind:
            yield Finding(
                "metadata-differs",
                Severity.WARNING,
                f"leaders at address {address}",
                f"{address} tells older leaders of {join_names(behind)} than others do: its metadata is old",
                fix=(
                    f"look at the log and the network of the broker at {address}; restart it if it stays behind",
                ),
            )


def _certificates(case: _Case) -> Iterator[Finding]:
    for certificate, addresses in case.walk.certificates.items():
        left = certificate.expires_at - case.now
        if left > EXPIRES_SOON:
            continue
        day = certificate.expires_in_words
        when = (
            f"expired on {day}"
            if left <= timedelta(0)
            else f"expires on {day}, in {left.days} day(s)"
        )
        yield Finding(
            "certificate-expired" if left <= timedelta(0) else "certificate-expires-soon",
            Severity.CRITICAL if left <= timedelta(0) else Severity.WARNING,
            f"certificate {certificate.subject}",
            f"the certificate {certificate.subject} at {join_names(addresses)} {when}",
            fix=("renew it, and have the brokers read the new one",),
        )


def _brokers_not_live(case: _Case) -> Iterator[Finding]:
    for broker in case.sight.brokers if case.sight else ():
        if broker.is_fenced:
            yield Finding(
                "broker-fenced",
                Severity.WARNING,
                f"broker {broker.broker_id}",
                f"broker {broker.broker_id} is registered, but not live",
                fix=(f"start broker {broker.broker_id}, or unregister it if it is gone for good",),
            )


def _topics(case: _Case) -> Iterator[Finding]:
    if case.sight is None:
        return
    known = {topic.topic for topic in case.sight.topics}
    for topic in case.topics if known or not case.sight.not_told else ():
        if topic not in known:
            seen = (
                f"topic {topic} is not there, or this principal may not see it; nothing was created"
            )
            yield Finding("topic-unknown", Severity.WARNING, f"topic {topic}", seen)
    looked_at = [
        topic for topic in case.sight.topics if not case.topics or topic.topic in case.topics
    ]
    leaderless = [
        TopicPartition(topic.topic, p.partition)
        for topic in looked_at
        for p in topic.partitions
        if p.leader is None
    ]
    if leaderless:
        yield Finding(
            "no-leader",
            Severity.CRITICAL,
            "partitions without a leader",
            f"{len(leaderless)} partition(s) have no leader, and can be neither written nor read: {join_names(leaderless)}",
            fix=("start the brokers that hold them",),
        )


_QUESTIONS: Final[tuple[Callable[[_Case], Iterator[Finding]], ...]] = (
    _silent_bootstrap,
    _other_clusters,
    _unreachable_endpoints,
    _unexpected_brokers,
    _blind_brokers,
    _stale_leaders,
    _certificates,
    _brokers_not_live,
    _topics,
)
