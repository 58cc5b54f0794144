"""Replication: factors, min.insync.replicas, and the settings that decide what a failure costs.

    12 of 12 partitions of topic orders have one replica                 # replication-factor-1

Factors are those that hold once reassignments under way have ended; internal topics count as any
other. `min.insync.replicas` is what is in force, whatever level sets it: topics that set it
themselves are told one by one, the others together, since one line mends them all.

Limits: what producers ask for (acks) is theirs to say: min.insync.replicas only matters with
acks=all.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np

from counterpoise.audit.columns import NOT_KNOWN
from counterpoise.audit.commands import add_config, delete_config, kafka
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.rule import (
    MAX_EVIDENCE_ROWS,
    Area,
    CheckResult,
    Need,
    Rule,
    evidence,
    unknown,
)
from counterpoise.audit.unavailable_data import unavailable
from counterpoise.model.columns import Ints
from counterpoise.model.finding import Evidence, WantedPlan
from counterpoise.model.inspection import InspectionItem
from counterpoise.model.kafka import ConfigSource, ConfigValue
from counterpoise.model.request import Goal
from counterpoise.model.severity import Severity
from counterpoise.model.words import join_ids, join_names, pluralize

_CLUSTER: Final = "cluster"
_ASKED: Final = frozenset({Need.INSPECTION})
_MIN_ISR: Final = "min.insync.replicas"
_UNCLEAN: Final = "unclean.leader.election.enable"
_AUTO_CREATE: Final = "auto.create.topics.enable"
_DEFAULT_FACTOR: Final = "default.replication.factor"
_INTERNAL_FACTORS: Final = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)
_DOCUMENTED: Final = "https://kafka.apache.org/documentation/#"
_FACTOR: Final = _DOCUMENTED + "basic_ops_increase_replication_factor"


def _factor_one(facts: AuditFacts) -> Iterator[CheckResult]:
    columns = facts.partitions
    for topic, rows in columns.by_topic(columns.factors == 1):
        yield _too_few(facts, topic, rows, "one replica")


def _factor_low(facts: AuditFacts) -> Iterator[CheckResult]:
    columns = facts.partitions
    least = facts.threshold("replication-factor-low", "least")
    for topic, rows in columns.by_topic((columns.factors > 1) & (columns.factors < least)):
        yield _too_few(facts, topic, rows, f"fewer than {least} replicas")


def _too_few(facts: AuditFacts, topic: str, rows: Ints, said: str) -> CheckResult:
    columns = facts.partitions
    counts = columns.counts()
    shown = [(*columns.row(at)[:3],) for at in rows[:MAX_EVIDENCE_ROWS].tolist()]
    brokers = len(facts.snapshot.live_broker_ids)
    short = f"; the cluster has only {pluralize(brokers, 'live broker')}" if brokers < 3 else ""
    return CheckResult(
        f"topic {topic}",
        f"{len(rows):,} of {pluralize(int(counts[columns.topic_of[rows[0]]]), 'partition')} of topic {topic} have "
        f"{said}{short}",
        evidence(("partition", "leader", "replicas"), shown, len(rows)),
        plan=_raised(facts, topic, 3),
    )


def _raised(facts: AuditFacts, topic: str, factor: int) -> WantedPlan | None:
    """The plan that gives the topic so many replicas; None where there are too few brokers."""
    if len(facts.snapshot.live_broker_ids) < factor:
        return None
    return WantedPlan(Goal.REPLICATION_FACTOR, topics=(topic,), replication_factor=factor)


def _mixed(facts: AuditFacts) -> Iterator[CheckResult]:
    columns = facts.partitions
    lowest = np.full(len(columns.topics), 1 << 30, dtype=np.int64)
    highest = np.zeros(len(columns.topics), dtype=np.int64)
    np.minimum.at(lowest, columns.topic_of, columns.factors)
    np.maximum.at(highest, columns.topic_of, columns.factors)
    is_mixed = (lowest != highest)[columns.topic_of]
    for topic, rows in columns.by_topic(is_mixed):
        factors, counts = np.unique(columns.factors[rows], return_counts=True)
        told = ", ".join(
            f"{count:,} with {factor}" for factor, count in zip(factors, counts, strict=True)
        )
        yield CheckResult(
            f"topic {topic}",
            f"the partitions of topic {topic} have different numbers of replicas: {told}",
            evidence(
                ("replicas", "partitions"),
                list(zip(factors.tolist(), counts.tolist(), strict=True)),
            ),
            plan=WantedPlan(
                Goal.REPLICATION_FACTOR, topics=(topic,), replication_factor=int(factors.max())
            ),
        )


def _min_isr_blocks(facts: AuditFacts) -> Iterator[CheckResult]:
    """With one replica that is a finding of its own, and newer brokers do not ask for more than
    there are.
    """
    yield from _min_isr_not_told(facts)
    columns = facts.partitions
    blocks = (columns.min_insync[columns.topic_of] >= columns.factors) & (columns.factors > 1)
    for topic, rows in columns.by_topic(blocks):
        at = columns.topic_of[rows[0]]
        needed, factor = int(columns.min_insync[at]), int(columns.factors[rows].min())
        older = (
            "; brokers that do not cap it at the factor refuse every write"
            if needed > factor
            else ""
        )
        yield CheckResult(
            f"topic {topic}",
            f"{_MIN_ISR} of topic {topic} is {needed}, and {pluralize(len(rows), 'partition')} have "
            f"{pluralize(factor, 'replica')}: one replica down stops writes with acks=all{older}",
            _levels(facts, [topic]),
            fix=(add_config("topics", topic, {_MIN_ISR: factor - 1}),),
            plan=_raised(facts, topic, needed + 1),
        )


def _min_isr_one(facts: AuditFacts) -> Iterator[CheckResult]:
    yield from _min_isr_not_told(facts)
    columns = facts.partitions
    lowest = np.zeros(len(columns.topics), dtype=np.int64)
    np.maximum.at(lowest, columns.topic_of, columns.factors)
    topics = [
        columns.topics[at]
        for at in np.flatnonzero((columns.min_insync == 1) & (lowest >= 3)).tolist()
    ]
    own = [topic for topic in topics if _is_own(facts, topic, _MIN_ISR)]
    for topic in own:
        yield CheckResult(
            f"topic {topic}",
            f"topic {topic} has 3 replicas or more and sets {_MIN_ISR}=1 itself",
            _levels(facts, [topic]),
            fix=(add_config("topics", topic, {_MIN_ISR: 2}),),
        )
    others = sorted(set(topics) - set(own))
    if others:
        yield CheckResult(
            _CLUSTER,
            f"{pluralize(len(others), 'topic')} with 3 replicas or more have the cluster's {_MIN_ISR}=1",
            _levels(facts, others),
            fix=(add_config("brokers", None, {_MIN_ISR: 2}),),
        )


def _min_isr_not_told(facts: AuditFacts) -> Iterator[CheckResult]:
    columns = facts.partitions
    if untold := [
        columns.topics[at] for at in np.flatnonzero(columns.min_insync == NOT_KNOWN).tolist()
    ]:
        yield unknown(
            _CLUSTER, f"{_MIN_ISR} of {pluralize(len(untold), 'topic')}: {join_names(untold)}"
        )


def _levels(facts: AuditFacts, topics: list[str]) -> Evidence:
    """Which level sets it, topic by topic."""
    columns = facts.partitions
    needed = dict(zip(columns.topics, columns.min_insync.tolist(), strict=True))
    rows = [
        (topic, needed[topic], _level(facts, topic, _MIN_ISR))
        for topic in topics[:MAX_EVIDENCE_ROWS]
    ]
    return evidence(("topic", _MIN_ISR, "set by"), rows, len(topics))


def _level(facts: AuditFacts, topic: str, key: str) -> str:
    told = facts.inspection.topic_configs.get(topic, {}).get(key)
    return _SET_BY.get(told.source, str(told.source)) if told else "not told"


_SET_BY: Final = {
    ConfigSource.DYNAMIC_TOPIC: "the topic",
    ConfigSource.DYNAMIC_BROKER: "one broker, dynamically",
    ConfigSource.DYNAMIC_DEFAULT_BROKER: "the default of all brokers",
    ConfigSource.STATIC_BROKER: "server.properties",
    ConfigSource.DEFAULT: "Kafka's default",
}


def _is_own(facts: AuditFacts, topic: str, key: str) -> bool:
    told = facts.inspection.topic_configs.get(topic, {}).get(key)
    return told is not None and told.source is ConfigSource.DYNAMIC_TOPIC


def _default_factor(facts: AuditFacts) -> Iterator[CheckResult]:
    yield from _at_one(facts, (_DEFAULT_FACTOR,), "topics that are created without a number")


def _internal_factors(facts: AuditFacts) -> Iterator[CheckResult]:
    yield from _at_one(facts, _INTERNAL_FACTORS, "the internal topic, when it is created,")


def _at_one(facts: AuditFacts, keys: Iterable[str], what: str) -> Iterator[CheckResult]:
    yield from unavailable(facts, InspectionItem.BROKER_CONFIGS)
    if len(facts.snapshot.registered_broker_ids) < 2:
        return
    for key in keys:
        found = _brokers_with(facts, key, "1")
        if found:
            yield CheckResult(
                key,
                f"{key} is 1 on {pluralize(len(found), 'broker')}: {what} will have one replica",
                _told_by(found),
                fix=(
                    "# server.properties of all brokers and controllers, then restart them one by one:",
                    f"{key}=3",
                ),
            )


def _auto_create(facts: AuditFacts) -> Iterator[CheckResult]:
    yield from unavailable(facts, InspectionItem.BROKER_CONFIGS)
    if found := _brokers_with(facts, _AUTO_CREATE, "true"):
        yield CheckResult(
            _CLUSTER,
            f"{_AUTO_CREATE} is on, on {pluralize(len(found), 'broker')}",
            _told_by(found),
            fix=(
                "# server.properties of all brokers, then restart them one by one:",
                f"{_AUTO_CREATE}=false",
            ),
        )


def _brokers_with(facts: AuditFacts, key: str, value: str) -> dict[int, ConfigValue]:
    asked = facts.inspection.broker_configs
    told = {
        broker_id: configs[key] for broker_id, configs in sorted(asked.items()) if key in configs
    }
    return {broker_id: one for broker_id, one in told.items() if one.value == value}


def _told_by(found: Mapping[int, ConfigValue]) -> Evidence:
    rows = [
        (broker_id, one.value, _SET_BY.get(one.source, str(one.source)))
        for broker_id, one in found.items()
    ]
    return evidence(("broker", "value", "set by"), rows)


def _unclean(facts: AuditFacts) -> Iterator[CheckResult]:
    """Where it is in force; topics that set it themselves one by one."""
    if why := facts.inspection.unavailable.get(InspectionItem.TOPIC_CONFIGS):
        yield unknown(_CLUSTER, f"the configs of topics: {why}")
    yield from unavailable(facts, InspectionItem.BROKER_CONFIGS)
    asked = facts.inspection.topic_configs
    on = sorted(
        topic
        for topic, configs in asked.items()
        if _UNCLEAN in configs and configs[_UNCLEAN].value == "true"
    )
    own = [topic for topic in on if _is_own(facts, topic, _UNCLEAN)]
    for topic in own:
        yield CheckResult(
            f"topic {topic}",
            f"topic {topic} sets {_UNCLEAN}=true itself",
            fix=(delete_config("topics", topic, (_UNCLEAN,)),),
        )
    brokers = _brokers_with(facts, _UNCLEAN, "true")
    others = sorted(set(on) - set(own))
    if others or brokers:
        yield CheckResult(
            _CLUSTER,
            f"{_UNCLEAN} is on for {pluralize(len(others), 'topic')} by the configs of {pluralize(len(brokers), 'broker')}",
            _told_by(brokers),
            fix=(add_config("brokers", None, {_UNCLEAN: "false"}),),
        )


def _eligible(facts: AuditFacts) -> Iterator[CheckResult]:
    found = facts.inspection.eligible_leaders
    if found is None:
        yield unknown(
            _CLUSTER,
            facts.inspection.unavailable.get(
                InspectionItem.ELIGIBLE_LEADERS, "they were not asked for"
            ),
        )
        return
    by_topic: dict[str, list[tuple[int, str]]] = {}
    for partition, brokers in sorted(found.items()):
        by_topic.setdefault(partition.topic, []).append((partition.partition, join_ids(brokers)))
    for topic, rows in by_topic.items():
        yield CheckResult(
            f"topic {topic}",
            f"{pluralize(len(rows), 'partition')} of topic {topic} have replicas that left the ISR below {_MIN_ISR} and "
            "have every acknowledged record (ELR)",
            evidence(("partition", "eligible leader replicas"), rows),
            fix=(kafka("kafka-topics", "--describe", "--topic", topic),),
        )


RULES: Final = (
    Rule(
        "replication-factor-1",
        Area.REPLICATION,
        Severity.CRITICAL,
        title="Partitions with one replica",
        why="The broker's restart stops them, and the loss of its disk loses their records.",
        how="Make a plan that gives them three replicas.",
        source=_FACTOR,
        check=_factor_one,
    ),
    Rule(
        "replication-factor-low",
        Area.REPLICATION,
        Severity.WARNING,
        title="Partitions with few replicas",
        why="With two replicas one broker may be down; while it is, the next failure loses records or stops writing.",
        how="Make a plan that gives them three replicas.",
        source=_FACTOR,
        check=_factor_low,
        thresholds={"least": 3},
    ),
    Rule(
        "replication-factor-mixed",
        Area.REPLICATION,
        Severity.WARNING,
        title="Topics with mixed replication factors",
        why="The topic is as safe as its weakest partition, while it looks as safe as its first one. It is what a "
        "hand-made or half-undone reassignment leaves.",
        how="Make a plan that gives all partitions the same number of replicas.",
        source=_FACTOR,
        check=_mixed,
    ),
    Rule(
        "min-insync-blocks",
        Area.REPLICATION,
        Severity.WARNING,
        title="min.insync.replicas as high as the replication factor",
        why="Every restart of a broker, even in good order, stops producers with acks=all.",
        how="Leave one replica of room: more replicas, or a lower min.insync.replicas.",
        source=_DOCUMENTED + "topicconfigs_min.insync.replicas",
        check=_min_isr_blocks,
    ),
    Rule(
        "min-insync-1",
        Area.REPLICATION,
        Severity.WARNING,
        title="min.insync.replicas of 1 with three replicas",
        why="With acks=all a record counts as safe once the leader alone has it, when the others have fallen behind: "
        "losing that leader then loses it.",
        how="Set min.insync.replicas to 2.",
        source=_DOCUMENTED + "topicconfigs_min.insync.replicas",
        check=_min_isr_one,
        needs=_ASKED,
    ),
    Rule(
        "default-replication-factor",
        Area.REPLICATION,
        Severity.WARNING,
        title="One replica by default",
        why="Whoever creates a topic without saying how many replicas it needs gets one that no failure leaves alone.",
        how="Set default.replication.factor to 3.",
        source=_DOCUMENTED + "brokerconfigs_default.replication.factor",
        check=_default_factor,
        needs=_ASKED,
    ),
    Rule(
        "internal-replication-factor",
        Area.REPLICATION,
        Severity.WARNING,
        title="One replica for internal topics",
        why="When the one broker with a group's offsets is down the group stands still, in all topics that it reads.",
        how="Set these factors to 3 before the topics are created; afterwards a plan has to add the replicas.",
        source=_DOCUMENTED + "brokerconfigs_offsets.topic.replication.factor",
        check=_internal_factors,
        needs=_ASKED,
    ),
    Rule(
        "auto-create-topics",
        Area.REPLICATION,
        Severity.WARNING,
        title="Topics that create themselves",
        why="A misspelt name in one client makes a topic with default settings, and records go there instead of "
        "failing.",
        how="Switch it off and create topics on purpose.",
        source=_DOCUMENTED + "brokerconfigs_auto.create.topics.enable",
        check=_auto_create,
        needs=_ASKED,
    ),
    Rule(
        "eligible-leaders",
        Area.REPLICATION,
        Severity.WARNING,
        title="Eligible leader replicas outstanding",
        why="These partitions are below min.insync.replicas; replicas outside the ISR are what they could still be led "
        "from without loss, until one of them is wiped or shut down uncleanly.",
        how="Bring the replicas back; do not reformat or replace the disks of the brokers named here.",
        source="https://cwiki.apache.org/confluence/display/KAFKA/KIP-966%3A+Eligible+Leader+Replicas",
        check=_eligible,
        needs=_ASKED,
    ),
    Rule(
        "unclean-leader-election",
        Area.REPLICATION,
        Severity.WARNING,
        title="Unclean leader elections allowed",
        why="When no in-sync replica is live, one that has fallen behind leads: what it lacks is cut off everywhere.",
        how="Switch it off, but for topics whose records may be lost.",
        source=_DOCUMENTED + "topicconfigs_unclean.leader.election.enable",
        check=_unclean,
        needs=_ASKED,
    ),
)
