"""Coexistence: traces of other balancers. Two balancers undo each other's work.

    Cruise Control is running (1 topic, 3 other traces)        # cruise-control

Limits: traces are found in topics, broker configs and certificates only; a balancer that leaves
none of them (a script started by cron) shows only in its reassignments.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.audit.commands import LOOK, describe_config, describe_topic
from counterpoise.audit.facts import AuditFacts, Configs
from counterpoise.audit.rule import CheckResult, Need, Rule, evidence, rule
from counterpoise.audit.rules.listeners import advertised_names, value_of
from counterpoise.audit.unavailable_data import unavailable
from counterpoise.model import subjects
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.constraints import matching
from counterpoise.model.inspection import InspectionItem
from counterpoise.model.provider import Provider
from counterpoise.model.severity import Severity
from counterpoise.model.words import join_ids, pluralize

_REPORTERS: Final = "metric.reporters"
_TOPICS_DESCRIBED: Final = 3
_WHY: Final = (
    "Two tools that move partitions by different ideas of even undo each other's work, copy the "
    "same bytes again and again, and clear each other's throttles."
)


def _how(name: str) -> str:
    return (
        f"Let one of them move partitions. Turn off what {name} does automatically (its "
        "self-healing or balancer), or use Counterpoise here for snapshots, reports and audits "
        "only. Topics that were left by a removed tool can be deleted."
    )


@dataclass(frozen=True, slots=True)
class _Balancer:
    """What a balancer leaves behind: topics, and values in broker configs.

    `platform_topics` show that its platform is installed, not that it balances. `reporter` is the
    beginning of a class in metric.reporters. `switch` is a config that is true where the balancer
    is on; where there is one, a reporter alone does not show that the balancer is running.
    `listeners` and `organization`, of certificates, are the platform's, too.
    """

    name: str
    topics: tuple[str, ...]  # patterns
    platform_topics: tuple[str, ...] = ()  # patterns
    reporter: str = ""
    switch: str = ""
    listeners: tuple[str, ...] = ()
    organization: str = ""
    provider: Provider | None = None  # whose clusters have the platform: no news there


_CRUISE_CONTROL: Final = _Balancer(
    "Cruise Control",
    ("__CruiseControlMetrics", "__KafkaCruiseControl*"),
    reporter="com.linkedin.kafka.cruisecontrol.",
)
_STRIMZI: Final = _Balancer(
    "Strimzi",
    ("strimzi.cruisecontrol.*",),
    platform_topics=("__strimzi*", "*strimzi-topic-operator*"),
    listeners=("REPLICATION-9091", "CONTROLPLANE-9090"),
    organization="O=io.strimzi",
    provider=Provider.STRIMZI,
)
_CONFLUENT: Final = _Balancer(
    "Confluent",
    ("_confluent_balancer*",),
    platform_topics=("_confluent-*",),
    reporter="io.confluent.",
    provider=Provider.CONFLUENT,
    switch="confluent.balancer.enable",
)


def _rule_about(balancer: _Balancer, rule_id: str, source: str) -> Rule:
    @rule(
        rule_id,
        Severity.WARNING,
        title=f"Traces of {balancer.name}",
        why=_WHY,
        how=_how(balancer.name),
        source=source,
        needs={Need.INSPECTION},
        severities={Severity.INFO},
    )
    def traces(facts: AuditFacts) -> Iterator[CheckResult]:
        yield from _traces_of(balancer, facts)

    return traces


cruise_control: Final = _rule_about(
    _CRUISE_CONTROL, "cruise-control", "https://github.com/linkedin/cruise-control/wiki/Overview"
)
strimzi: Final = _rule_about(
    _STRIMZI,
    "strimzi",
    "https://strimzi.io/docs/operators/latest/deploying#cruise-control-concepts-str",
)
confluent_balancer: Final = _rule_about(
    _CONFLUENT,
    "confluent-balancer",
    "https://docs.confluent.io/platform/current/clusters/sbc/index.html",
)


def _traces_of(balancer: _Balancer, facts: AuditFacts) -> Iterator[CheckResult]:
    all_topics = facts.snapshot.topics["topic"].to_pylist()
    topics = sorted(matching((*balancer.topics, *balancer.platform_topics), all_topics))
    config_traces = [*_config_traces(balancer, facts), *_certificate_traces(balancer, facts)]
    if not topics and not config_traces:
        prefix = f"no topic of {balancer.name}; "
        yield from unavailable(facts, InspectionItem.BROKER_CONFIGS, prefix)
        return
    growing_topics = _growing_topics(facts, sorted(matching(balancer.topics, all_topics)))
    sign_of_work = balancer.switch or _REPORTERS
    is_configured = any(trace.startswith(sign_of_work) for trace, _ in config_traces)
    is_running = bool(growing_topics) or is_configured
    provider = facts.policy.provider
    if provider is not None and provider is balancer.provider and not is_running:
        return
    topic_traces = [
        (f"topic {topic}", "records are being written" if topic in growing_topics else "exists")
        for topic in topics
    ]
    state = "is running" if is_running else "left traces; nothing shows that it moves partitions"
    counts = f"{pluralize(len(topics), 'topic')}, {pluralize(len(config_traces), 'other trace')}"
    yield CheckResult(
        subjects.CLUSTER,
        f"{balancer.name} {state} ({counts})",
        evidence(("trace", "where"), [*topic_traces, *config_traces]),
        fix=_fix(topics, has_config_traces=bool(config_traces), facts=facts),
        severity=None if is_running else Severity.INFO,
    )


def _config_traces(balancer: _Balancer, facts: AuditFacts) -> Iterator[tuple[str, str]]:
    """Yield a row for each broker config that names the balancer."""
    for broker_id, configs in facts.broker_configs.items():
        reporters = _reporters_of(balancer, configs)
        if reporters:
            yield f"{_REPORTERS} has {join_ids(reporters)}", f"broker {broker_id}"
        if (value_of(configs, balancer.switch) or "").lower() == "true":
            yield f"{balancer.switch} is true", f"broker {broker_id}"

        own_listeners = sorted(advertised_names(configs) & {*balancer.listeners})
        if own_listeners:
            yield f"listener {join_ids(own_listeners)}", f"broker {broker_id}"


def _certificate_traces(balancer: _Balancer, facts: AuditFacts) -> Iterator[tuple[str, str]]:
    """Yield a row for each broker whose certificate the platform issued."""
    for broker_id, check in sorted(facts.endpoints.advertised.items()):
        certificate = check.certificate
        if balancer.organization and certificate is not None:
            names = f"{certificate.issuer},{certificate.subject}".replace(" ", "")
            if balancer.organization in names.split(","):
                yield f"certificate of {balancer.organization}", f"broker {broker_id}"


def _reporters_of(balancer: _Balancer, configs: Configs) -> list[str]:
    if not balancer.reporter:
        return []
    class_names = [name.strip() for name in (value_of(configs, _REPORTERS) or "").split(",")]
    return [name for name in class_names if name.startswith(balancer.reporter)]


def _growing_topics(facts: AuditFacts, topics: Sequence[str]) -> frozenset[str]:
    """Return the topics whose offsets have grown since the newest snapshot before this one."""
    if not topics or not facts.history.recent_snapshots:
        return frozenset()
    offsets_before = _end_offsets(facts.history.recent_snapshots[-1], topics)
    offsets_now = _end_offsets(facts.snapshot, topics)
    return frozenset(
        topic
        for topic in topics
        if topic in offsets_before and offsets_now.get(topic, 0) > offsets_before[topic]
    )


def _end_offsets(snapshot: ClusterSnapshot, topics: Sequence[str]) -> dict[str, int]:
    """Return the sum of a topic's latest offsets, by topic."""
    names = pa.array(topics, pa.string())
    is_chosen = pc.is_in(snapshot.partitions["topic"], value_set=names)
    sums = (
        snapshot.partitions.filter(is_chosen)
        .group_by("topic")
        .aggregate([("latest_offset", "sum")])
    )
    return {row["topic"]: row["latest_offset_sum"] or 0 for row in sums.to_pylist()}


def _fix(topics: Sequence[str], *, has_config_traces: bool, facts: AuditFacts) -> tuple[str, ...]:
    if has_config_traces:
        first_broker = facts.snapshot.live_broker_ids[:1]
        return (LOOK, *(describe_config("brokers", broker_id) for broker_id in first_broker))
    return (LOOK, *map(describe_topic, topics[:_TOPICS_DESCRIBED]))
