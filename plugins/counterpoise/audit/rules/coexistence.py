"""Coexistence: traces of others who move partitions. Two balancers undo each other's work.

    topic __CruiseControlMetrics; metric.reporters has com.linkedin.kafka.cruisecontrol...        # cruise-control

Limits: traces in topics and brokers' configs alone; a balancer that leaves neither (a script in
somebody's cron) shows only in what it does.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.audit.commands import describe_config, kafka
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.rule import Area, Need, Rule, Sighting, evidence
from counterpoise.audit.unavailable_data import not_told
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.inspection import Asked
from counterpoise.model.request import matching
from counterpoise.model.severity import Severity
from counterpoise.model.words import join_ids, pluralize

_CLUSTER: Final = "cluster"
_REPORTERS: Final = "metric.reporters"


@dataclass(frozen=True, slots=True)
class _Balancer:
    """What it leaves behind: topics (patterns), and words in the values of brokers' configs."""

    name: str
    topics: tuple[str, ...]
    of_its_platform: tuple[
        str, ...
    ] = ()  # topics that tell of who brought it, and not that it balances
    reporter: str = ""  # in metric.reporters
    switch: str = (
        ""  # a config that is true where it balances; then a reporter alone says nothing of that
    )


_CRUISE_CONTROL: Final = _Balancer(
    "Cruise Control",
    ("__CruiseControlMetrics", "__KafkaCruiseControl*"),
    reporter="com.linkedin.kafka.cruisecontrol.",
)
_STRIMZI: Final = _Balancer(
    "Strimzi",
    ("strimzi.cruisecontrol.*",),
    of_its_platform=("__strimzi*", "*strimzi-topic-operator*"),
)
_CONFLUENT: Final = _Balancer(
    "Confluent",
    ("_confluent_balancer*",),
    of_its_platform=("_confluent-*",),
    reporter="io.confluent.",
    switch="confluent.balancer.enable",
)


def _look(balancer: _Balancer, facts: AuditFacts) -> Iterator[Sighting]:
    names = facts.snapshot.topics["topic"].to_pylist()
    topics = sorted(matching((*balancer.topics, *balancer.of_its_platform), names))
    configured = list(_configured(balancer, facts))
    if not topics and not configured:
        yield from not_told(facts, Asked.BROKER_CONFIGS, f"no topic of {balancer.name}; ")
        return
    growing = _growing(facts, sorted(matching(balancer.topics, names)))
    is_at_work = bool(growing) or any(
        trace.startswith(balancer.switch or _REPORTERS) for trace, _ in configured
    )
    state = "is at work" if is_at_work else "left traces; nothing shows that it moves partitions"
    yield Sighting(
        _CLUSTER,
        f"{balancer.name} {state} ({pluralize(len(topics), 'topic')}, {pluralize(len(configured), 'config')})",
        evidence(
            ("trace", "where"),
            [
                *(
                    (f"topic {topic}", "is written to" if topic in growing else "is there")
                    for topic in topics
                ),
                *configured,
            ],
        ),
        fix=_fix(topics, configured, facts),
        severity=None if is_at_work else Severity.INFO,
    )


def _configured(balancer: _Balancer, facts: AuditFacts) -> Iterator[tuple[str, str]]:
    """A row for each config of each broker that names the balancer."""
    for broker_id, configs in sorted(facts.inspection.broker_configs.items()):
        reporters = configs.get(_REPORTERS)
        named = [one.strip() for one in ((reporters and reporters.value) or "").split(",")]
        if balancer.reporter and (
            found := [one for one in named if one.startswith(balancer.reporter)]
        ):
            yield f"{_REPORTERS} has {join_ids(found)}", f"broker {broker_id}"
        switch = configs.get(balancer.switch) if balancer.switch else None
        if switch is not None and (switch.value or "").lower() == "true":
            yield f"{balancer.switch} is true", f"broker {broker_id}"


def _growing(facts: AuditFacts, topics: list[str]) -> frozenset[str]:
    """Those whose offsets went on since the newest snapshot before this one."""
    if not topics or facts.past is None or not facts.past.recent:
        return frozenset()
    before, now = _ends(facts.past.recent[-1], topics), _ends(facts.snapshot, topics)
    return frozenset(
        topic for topic in topics if topic in before and now.get(topic, 0) > before[topic]
    )


def _ends(snapshot: ClusterSnapshot, topics: list[str]) -> dict[str, int]:
    its = snapshot.partitions.filter(
        pc.is_in(snapshot.partitions["topic"], value_set=pa.array(topics, pa.string()))
    )
    sums = its.group_by("topic").aggregate([("latest_offset", "sum")])
    return {row["topic"]: row["latest_offset_sum"] or 0 for row in sums.to_pylist()}


def _fix(
    topics: list[str], configured: list[tuple[str, str]], facts: AuditFacts
) -> tuple[str, ...]:
    if configured:
        return tuple(
            describe_config("brokers", broker_id)
            for broker_id in facts.snapshot.live_broker_ids[:1]
        )
    return tuple(kafka("kafka-topics", "--describe", "--topic", topic) for topic in topics[:3])


def _rule(rule_id: str, balancer: _Balancer, source: str) -> Rule:
    return Rule(
        rule_id,
        Area.COEXISTENCE,
        Severity.WARNING,
        title=f"Traces of {balancer.name}",
        why="Two who move partitions by different ideas of even undo each other's work, copy the same bytes again "
        "and again, and clear each other's throttles.",
        how=f"Let one of them move. Turn off what {balancer.name} does by itself (its self-healing or balancer), or "
        "use Counterpoise here for snapshots, reports and audits only. Topics that a removed one left can go.",
        source=source,
        look=partial(_look, balancer),
        needs=frozenset({Need.INSPECTION}),
    )


RULES: Final = (
    _rule(
        "cruise-control",
        _CRUISE_CONTROL,
        "https://github.com/linkedin/cruise-control/wiki/Overview",
    ),
    _rule(
        "strimzi",
        _STRIMZI,
        "https://strimzi.io/docs/operators/latest/deploying#cruise-control-concepts-str",
    ),
    _rule(
        "confluent-balancer",
        _CONFLUENT,
        "https://docs.confluent.io/platform/current/clusters/sbc/index.html",
    ),
)
