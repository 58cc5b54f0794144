"""Replication: configs that decide how new topics are made and who may become leader.

    default.replication.factor is 1 on 3 brokers             # default-replication-factor

Limits: `replication.py` has the factors and min.insync.replicas of the topics that exist.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Final

from counterpoise.audit.commands import LOOK, add_config, delete_config, describe_topic
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.listener_configs import value_of
from counterpoise.audit.rule import CheckResult, Need, evidence, rule, unknown
from counterpoise.audit.rules.replication import is_set_by_topic, level_in_words
from counterpoise.model import subjects
from counterpoise.model.finding import Evidence
from counterpoise.model.grouping import grouped
from counterpoise.model.inspection import InspectionItem
from counterpoise.model.kafka import ConfigSource, ConfigValue
from counterpoise.model.severity import Severity
from counterpoise.model.words import join_ids, pluralize, verb

_UNCLEAN: Final = "unclean.leader.election.enable"
_AUTO_CREATE: Final = "auto.create.topics.enable"
_DEFAULT_FACTOR: Final = "default.replication.factor"
_USUAL_FACTOR: Final = 3
_DOCUMENTED: Final = "https://kafka.apache.org/documentation/#"
_INTERNAL_FACTORS: Final = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)
_KIP_966: Final = (
    "https://cwiki.apache.org/confluence/display/KAFKA/KIP-966%3A+Eligible+Leader+Replicas"
)


@rule(
    "default-replication-factor",
    Severity.WARNING,
    title="One replica by default",
    why="Whoever creates a topic without a number of replicas gets one replica, and the first "
    "failure of its broker stops the topic or loses its records. The controllers decide; brokers, "
    "for topics that they create automatically.",
    how="Set default.replication.factor to 3, or to 2 where there are two brokers.",
    source=f"{_DOCUMENTED}brokerconfigs_default.replication.factor",
    needs={InspectionItem.BROKER_CONFIGS, Need.CONTROLLERS},
)
def default_replication_factor(facts: AuditFacts) -> Iterator[CheckResult]:
    deciding_brokers = [
        broker_id
        for broker_id, configs in facts.broker_configs.items()
        if facts.is_controller(broker_id) or value_of(configs, _AUTO_CREATE) == "true"
    ]
    yield from _factors_of_one(
        facts, (_DEFAULT_FACTOR,), "topics created without a number", deciding_brokers
    )


@rule(
    "internal-replication-factor",
    Severity.WARNING,
    title="One replica for internal topics",
    why="When the one broker with a group's offsets is down, the group stops, in all its topics.",
    how="Set these factors to 3, or to 2 where there are two brokers, before the topics are "
    "created; afterwards a plan has to add the replicas.",
    source=f"{_DOCUMENTED}brokerconfigs_offsets.topic.replication.factor",
    needs={InspectionItem.BROKER_CONFIGS},
)
def internal_replication_factor(facts: AuditFacts) -> Iterator[CheckResult]:
    topics = "the internal topic, when it is created,"
    yield from _factors_of_one(facts, _INTERNAL_FACTORS, topics, facts.broker_configs)


def _factors_of_one(
    facts: AuditFacts, keys: Iterable[str], topics: str, deciding_brokers: Container[int]
) -> Iterator[CheckResult]:
    factor = min(_USUAL_FACTOR, len(facts.snapshot.registered_broker_ids))
    if factor < 2:
        return
    for key in keys:
        configs = {
            broker_id: config
            for broker_id, config in _brokers_with(facts, key, "1").items()
            if broker_id in deciding_brokers
        }
        if configs:
            yield CheckResult(
                key,
                f"{key} is 1 on {pluralize(len(configs), 'broker')}: {topics} will have one "
                "replica",
                _config_table(configs),
                fix=(
                    "# server.properties of all brokers and controllers, then restart them one by "
                    "one:",
                    f"{key}={factor}",
                ),
            )


@rule(
    "auto-create-topics",
    Severity.WARNING,
    title="Topics that are created automatically",
    why="A misspelt name in one client creates a topic with default settings, and records go there "
    "instead of failing.",
    how="Switch it off and create topics on purpose.",
    source=f"{_DOCUMENTED}brokerconfigs_auto.create.topics.enable",
    needs={InspectionItem.BROKER_CONFIGS},
)
def auto_create_topics(facts: AuditFacts) -> Iterator[CheckResult]:
    configs = _brokers_with(facts, _AUTO_CREATE, "true")
    if configs:
        yield CheckResult(
            subjects.CLUSTER,
            f"{_AUTO_CREATE} is on, on {pluralize(len(configs), 'broker')}",
            _config_table(configs),
            fix=(
                "# server.properties of all brokers, then restart them one by one:",
                f"{_AUTO_CREATE}=false",
            ),
        )


@rule(
    "eligible-leaders",
    Severity.WARNING,
    title="Partitions that depend on eligible leader replicas",
    why="These partitions are below min.insync.replicas; some replicas outside the ISR could still "
    "lead them without loss, until one of those is wiped or shut down uncleanly.",
    how="Bring the replicas back; do not reformat or replace the disks of the brokers named here.",
    source=_KIP_966,
    needs={InspectionItem.ELIGIBLE_LEADERS},
)
def eligible_leaders(facts: AuditFacts) -> Iterator[CheckResult]:
    rows_by_topic = grouped(
        (key.topic, (key.partition, join_ids(broker_ids)))
        for key, broker_ids in sorted((facts.inspection.eligible_leaders or {}).items())
    )
    for topic, rows in rows_by_topic.items():
        have = verb(len(rows), "has", "have")
        yield CheckResult(
            subjects.topic(topic),
            f"{pluralize(len(rows), 'partition')} of topic {topic} {have} replicas that left the "
            "ISR below min.insync.replicas and have every acknowledged record (ELR)",
            evidence(("partition", "eligible leader replicas"), rows),
            fix=(LOOK, describe_topic(topic)),
        )


@rule(
    "unclean-leader-election",
    Severity.WARNING,
    title="Unclean leader elections allowed",
    why="When no in-sync replica is live, one that has fallen behind becomes leader: records that "
    "it lacks are deleted from all replicas.",
    how="Switch it off, except for topics whose records may be lost.",
    source=f"{_DOCUMENTED}topicconfigs_unclean.leader.election.enable",
    needs={InspectionItem.BROKER_CONFIGS},
)
def unclean_leader_election(facts: AuditFacts) -> Iterator[CheckResult]:
    reason = facts.inspection.unavailable.get(InspectionItem.TOPIC_CONFIGS)
    if reason:
        yield unknown(f"the configs of topics: {reason}")
    topics = sorted(
        topic
        for topic, configs in facts.inspection.topic_configs.items()
        if _UNCLEAN in configs and configs[_UNCLEAN].value == "true"
    )
    own_topics = [topic for topic in topics if is_set_by_topic(facts, topic, _UNCLEAN)]
    for topic in own_topics:
        yield CheckResult(
            subjects.topic(topic),
            f"topic {topic} sets {_UNCLEAN}=true itself",
            fix=(delete_config("topics", topic, (_UNCLEAN,)),),
        )
    brokers = _brokers_with(facts, _UNCLEAN, "true")
    other_topics = set(topics) - set(own_topics)
    if other_topics or brokers:
        yield CheckResult(
            subjects.CLUSTER,
            f"{_UNCLEAN} is on for {pluralize(len(other_topics), 'topic')} by the configs of "
            f"{pluralize(len(brokers), 'broker')}",
            _config_table(brokers),
            fix=(
                add_config("brokers", None, {_UNCLEAN: "false"}),
                *(
                    delete_config("brokers", broker_id, (_UNCLEAN,))
                    for broker_id, config in brokers.items()
                    if config.source is ConfigSource.DYNAMIC_BROKER
                ),
            ),
        )


def _brokers_with(facts: AuditFacts, key: str, value: str) -> dict[int, ConfigValue]:
    """Return the config of each broker that has this value."""
    configs = facts.values_of(key).items()
    return {broker_id: config for broker_id, config in configs if config.value == value}


def _config_table(configs: Mapping[int, ConfigValue]) -> Evidence:
    rows = [
        (broker_id, config.value, level_in_words(config)) for broker_id, config in configs.items()
    ]
    return evidence(("broker", "value", "set by"), rows)
