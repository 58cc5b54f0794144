"""Replication: factors and min.insync.replicas, which decide what a failure costs.

    12 of 12 partitions of topic orders have one replica                 # replication-factor-1

Factors are those that hold once reassignments in progress have ended; internal topics count as any
other. `min.insync.replicas` is the value in force, whatever level sets it: topics that set it
themselves are reported one by one, the others together, since one command fixes them all.

Limits: what producers ask for (acks) is not known here: min.insync.replicas only matters with
acks=all.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Final

import numpy as np

from counterpoise.audit.commands import add_config, delete_config, describe_topic
from counterpoise.audit.facts import NOT_KNOWN, AuditFacts
from counterpoise.audit.outage import causes_among
from counterpoise.audit.rule import (
    CheckResult,
    Need,
    evidence,
    rule,
    unknown,
)
from counterpoise.model import subjects
from counterpoise.model.columns import Flags, Ints
from counterpoise.model.constraints import matching
from counterpoise.model.finding import LOOK, Evidence, WantedPlan
from counterpoise.model.inspection import InspectionItem
from counterpoise.model.kafka import ConfigSource, ConfigValue
from counterpoise.model.listeners import value_of
from counterpoise.model.movement import BALANCER_TOPICS
from counterpoise.model.request import Goal
from counterpoise.model.severity import Severity
from counterpoise.model.words import join_ids, join_names, list_brokers, pluralize, verb

_MIN_ISR: Final = "min.insync.replicas"
_USUAL_FACTOR: Final = 3
_TOPICS_DESCRIBED: Final = 3
_DOCUMENTED: Final = "https://kafka.apache.org/documentation/#"
_INCREASE_FACTOR: Final = f"{_DOCUMENTED}basic_ops_increase_replication_factor"
_SET_BY: Final = {
    ConfigSource.DYNAMIC_TOPIC: "the topic",
    ConfigSource.DYNAMIC_BROKER: "one broker, dynamically",
    ConfigSource.DYNAMIC_DEFAULT_BROKER: "the default of all brokers",
    ConfigSource.STATIC_BROKER: "server.properties",
    ConfigSource.DEFAULT: "Kafka's default",
}


@rule(
    "replication-factor-1",
    Severity.CRITICAL,
    title="Partitions with one replica",
    why="The broker's restart stops them, and the loss of its disk loses their records. A cluster "
    "of one broker can have no more: there it is an info.",
    how="Make a plan that gives them three replicas, or two where there are two brokers.",
    source=_INCREASE_FACTOR,
    severities={Severity.INFO},
)
def replication_factor_1(facts: AuditFacts) -> Iterator[CheckResult]:
    partitions = facts.partitions
    is_only_broker = len(facts.snapshot.registered_broker_ids) == 1
    for topic, rows in partitions.by_topic(partitions.factors == 1):
        result = _too_few_replicas(facts, topic, rows, "one replica", _USUAL_FACTOR)
        yield replace(result, severity=Severity.INFO) if is_only_broker else result


@rule(
    "replication-factor-low",
    Severity.WARNING,
    title="Partitions with few replicas",
    why="With two replicas one broker may be down; while it is, the next failure loses records or "
    "stops writing. A cluster of two brokers can have no more: there it is an info.",
    how="Make a plan that gives them as many replicas as the policy asks for.",
    source=_INCREASE_FACTOR,
    severities={Severity.INFO},
    thresholds={"least": 3},
)
def replication_factor_low(facts: AuditFacts, *, least: int) -> Iterator[CheckResult]:
    partitions = facts.partitions
    # A topic of mixed factors is a finding of `replication-factor-mixed`, and of no other.
    is_chosen = ~_is_mixed(facts) & ~_is_of_balancer(facts)
    is_low = (partitions.factors > 1) & (partitions.factors < least)
    is_low &= is_chosen[partitions.topic_of]
    broker_count = len(facts.snapshot.registered_broker_ids)
    for topic, rows in partitions.by_topic(is_low):
        result = _too_few_replicas(facts, topic, rows, f"fewer than {least} replicas", least)
        is_on_every_broker = int(partitions.factors[rows].min()) >= broker_count
        yield replace(result, severity=Severity.INFO) if is_on_every_broker else result


def _too_few_replicas(
    facts: AuditFacts, topic: str, rows: Ints, count: str, wanted: int
) -> CheckResult:
    partitions = facts.partitions
    shown = (partitions.row(row)[:3] for row in rows)
    live_count = len(facts.snapshot.live_broker_ids)
    brokers = pluralize(live_count, "live broker")
    have = verb(len(rows), "has", "have")
    short = f"; the cluster has only {brokers}" if live_count < wanted else ""
    possible = min(wanted, live_count)
    is_more = possible > int(partitions.factors[rows].min())
    return CheckResult(
        subjects.topic(topic),
        f"{partitions.share_in_words(rows)} of topic {topic} {have} {count}{short}",
        evidence(("partition", "leader", "replicas"), shown, len(rows)),
        plan=_plan_for_factor(facts, topic, possible) if is_more else None,
    )


def _plan_for_factor(facts: AuditFacts, topic: str, factor: int) -> WantedPlan | None:
    """Return the plan that gives the topic so many replicas; None with too few brokers."""
    if len(facts.snapshot.live_broker_ids) < factor:
        return None
    return WantedPlan(Goal.REPLICATION_FACTOR, topics=(topic,), replication_factor=factor)


@rule(
    "replication-factor-mixed",
    Severity.WARNING,
    title="Topics with mixed replication factors",
    why="The topic is as safe as its weakest partition, while it looks as safe as its first one. A "
    "reassignment that was made by hand, or undone in part, leaves topics like this.",
    how="Make a plan that gives all partitions the same number of replicas.",
    source=_INCREASE_FACTOR,
)
def replication_factor_mixed(facts: AuditFacts) -> Iterator[CheckResult]:
    partitions = facts.partitions
    for topic, rows in partitions.by_topic(_is_mixed(facts)[partitions.topic_of]):
        factors, counts = np.unique(partitions.factors[rows], return_counts=True)
        pairs = list(zip(factors.tolist(), counts.tolist(), strict=True))
        in_words = ", ".join(f"{count:,} with {factor}" for factor, count in pairs)
        highest = int(factors.max())
        yield CheckResult(
            subjects.topic(topic),
            f"the partitions of topic {topic} have different numbers of replicas: {in_words}",
            evidence(("replicas", "partitions"), pairs),
            plan=WantedPlan(Goal.REPLICATION_FACTOR, topics=(topic,), replication_factor=highest),
        )


def _is_mixed(facts: AuditFacts) -> Flags:
    """Return, for each topic, whether its partitions have different replication factors."""
    return np.asarray(_lowest_factors(facts) != _highest_factors(facts))


def _lowest_factors(facts: AuditFacts) -> Ints:
    """Return the lowest replication factor among the partitions of each topic."""
    partitions = facts.partitions
    lowest = np.full(len(partitions.topics), np.iinfo(np.int64).max, dtype=np.int64)
    np.minimum.at(lowest, partitions.topic_of, partitions.factors)
    return lowest


def _is_of_balancer(facts: AuditFacts) -> Flags:
    """Return, for each topic, whether another balancer made it, with two replicas on purpose."""
    topics = facts.partitions.topics
    own_topics = matching(chain.from_iterable(BALANCER_TOPICS.values()), topics)
    return np.array([topic in own_topics for topic in topics], dtype=bool)


def _highest_factors(facts: AuditFacts) -> Ints:
    """Return the highest replication factor among the partitions of each topic."""
    partitions = facts.partitions
    highest = np.zeros(len(partitions.topics), dtype=np.int64)
    np.maximum.at(highest, partitions.topic_of, partitions.factors)
    return highest


@rule(
    "min-insync-blocks",
    Severity.WARNING,
    title="min.insync.replicas as high as the replication factor",
    why="Every restart of a broker, even a planned one, stops producers with acks=all.",
    how="Leave one replica of margin: more replicas, or a lower min.insync.replicas.",
    source=f"{_DOCUMENTED}topicconfigs_min.insync.replicas",
)
def min_insync_blocks(facts: AuditFacts) -> Iterator[CheckResult]:
    """Yield topics with two replicas or more: one replica is a finding of `replication-factor-1`.

    Brokers since 3.7 require no more in-sync replicas than there are replicas. A topic of mixed
    factors, or of two, gets more replicas: what is low enough before is too low for three.
    """
    yield from min_isr_unknown(facts)
    highest_factors = dict(
        zip(facts.partitions.topics, _highest_factors(facts).tolist(), strict=True)
    )
    partitions = facts.partitions
    min_insync = partitions.min_insync[partitions.topic_of]
    blocks = (min_insync >= partitions.factors) & (partitions.factors > 1)
    blocks &= ~_is_of_balancer(facts)[partitions.topic_of]
    for topic, rows in partitions.by_topic(blocks):
        needed = int(min_insync[rows[0]])
        factor = int(partitions.factors[rows].min())
        highest = highest_factors[topic]
        is_above_factor = needed > factor
        wanted = max(highest, min(_USUAL_FACTOR, len(facts.snapshot.live_broker_ids)))
        lower = min(needed, wanted - 1)
        have = pluralize(len(rows), "partition has", "partitions have")
        older = "; brokers that do not cap it at the factor refuse every write"
        yield CheckResult(
            subjects.topic(topic),
            f"{_MIN_ISR} of topic {topic} is {needed}, and {have} "
            f"{pluralize(factor, 'replica')}: one replica down stops writes with "
            f"acks=all{older if is_above_factor else ''}",
            _min_isr_levels(facts, [topic]),
            fix=() if lower == needed else (add_config("topics", topic, {_MIN_ISR: lower}),),
            plan=_plan_for_factor(facts, topic, wanted if factor < wanted else needed + 1),
        )


@rule(
    "min-insync-1",
    Severity.WARNING,
    title="min.insync.replicas of 1 with three replicas",
    why="With acks=all a record counts as safe once the leader alone has it, when the other "
    "replicas have fallen behind: losing that leader then loses it.",
    how="Set min.insync.replicas to 2.",
    source=f"{_DOCUMENTED}topicconfigs_min.insync.replicas",
    needs={InspectionItem.TOPIC_CONFIGS},
)
def min_insync_1(facts: AuditFacts) -> Iterator[CheckResult]:
    yield from min_isr_unknown(facts)
    partitions = facts.partitions
    has_three_replicas = _lowest_factors(facts) >= _USUAL_FACTOR
    chosen = np.flatnonzero((partitions.min_insync == 1) & has_three_replicas)
    topics = [partitions.topics[row] for row in chosen.tolist()]
    own_topics = [topic for topic in topics if is_set_by_topic(facts, topic, _MIN_ISR)]
    for topic in own_topics:
        yield CheckResult(
            subjects.topic(topic),
            f"topic {topic} has 3 replicas or more and sets {_MIN_ISR}=1 itself",
            _min_isr_levels(facts, [topic]),
            fix=(add_config("topics", topic, {_MIN_ISR: 2}),),
        )
    other_topics = sorted(set(topics) - set(own_topics))
    if other_topics:
        have = verb(len(other_topics), "has", "have")
        yield CheckResult(
            subjects.CLUSTER,
            f"{pluralize(len(other_topics), 'topic')} with 3 replicas or more {have} the cluster's "
            f"{_MIN_ISR}=1",
            _min_isr_levels(facts, other_topics),
            fix=_raise_default_min_isr(facts),
        )


def _raise_default_min_isr(facts: AuditFacts) -> tuple[str, ...]:
    """Return commands that raise the default; topics of one or two replicas keep theirs.

    A topic of two replicas that inherited 2 would refuse writes while one broker restarts.
    """
    partitions = facts.partitions
    is_small = (partitions.min_insync == 1) & (_lowest_factors(facts) < _USUAL_FACTOR)
    small_topics = [partitions.topics[row] for row in np.flatnonzero(is_small).tolist()]
    keeping = [
        add_config("topics", topic, {_MIN_ISR: 1})
        for topic in small_topics
        if not is_set_by_topic(facts, topic, _MIN_ISR)
    ]
    if keeping:
        keeping.insert(0, "# topics of one or two replicas keep what they have; first of all:")
    own_values = [
        delete_config("brokers", broker_id, (_MIN_ISR,))
        for broker_id, config in facts.values_of(_MIN_ISR).items()
        if config.source is ConfigSource.DYNAMIC_BROKER
    ]
    return (*keeping, add_config("brokers", None, {_MIN_ISR: 2}), *own_values)


def min_isr_unknown(facts: AuditFacts) -> Iterator[CheckResult]:
    """Yield an unknown result if there are topics whose min.insync.replicas is not known."""
    partitions = facts.partitions
    rows = np.flatnonzero(partitions.min_insync == NOT_KNOWN).tolist()
    topics = [partitions.topics[row] for row in rows]
    if topics:
        count = pluralize(len(topics), "topic")
        yield unknown(f"{_MIN_ISR} of {count}: {join_names(topics)}")


def _min_isr_levels(facts: AuditFacts, topics: list[str]) -> Evidence:
    """Return the value of each topic, and the level of configs that sets it."""
    partitions = facts.partitions
    values = dict(zip(partitions.topics, partitions.min_insync.tolist(), strict=True))
    rows = (
        (topic, values[topic], level_in_words(_topic_config(facts, topic, _MIN_ISR)))
        for topic in topics
    )
    return evidence(("topic", _MIN_ISR, "set by"), rows, len(topics))


def _topic_config(facts: AuditFacts, topic: str, key: str) -> ConfigValue | None:
    return facts.inspection.topic_configs.get(topic, {}).get(key)


def is_set_by_topic(facts: AuditFacts, topic: str, key: str) -> bool:
    """Return whether the topic has the config itself, and not from its brokers."""
    config = _topic_config(facts, topic, key)
    return config is not None and config.source is ConfigSource.DYNAMIC_TOPIC


def level_in_words(config: ConfigValue | None) -> str:
    """Return which level of configs sets the value: `the topic`, `server.properties` ..."""
    if config is None:
        return "not known"
    return _SET_BY.get(config.source, str(config.source))


# -- Replication: configs that decide how new topics are made and who may become leader
#
#     default.replication.factor is 1 on 3 brokers             # default-replication-factor
#
# Limits: `replication.py` has the factors and min.insync.replicas of the topics that exist.


_UNCLEAN: Final = "unclean.leader.election.enable"
_AUTO_CREATE: Final = "auto.create.topics.enable"
_DEFAULT_FACTOR: Final = "default.replication.factor"
_OFFSETS_FACTOR: Final = "offsets.topic.replication.factor"
_TRANSACTIONS_FACTOR: Final = "transaction.state.log.replication.factor"
_SHARES_FACTOR: Final = "share.coordinator.state.topic.replication.factor"
# What Kafka gives to the internal topic as its own min.insync.replicas; offsets have the cluster's.
_MIN_ISR_OF: Final = {
    _TRANSACTIONS_FACTOR: "transaction.state.log.min.isr",
    _SHARES_FACTOR: "share.coordinator.state.topic.min.isr",
}
# The topic that each factor is for, and what clients see while brokers cannot create it.
_WITHOUT_TOPIC: Final = {
    _OFFSETS_FACTOR: ("__consumer_offsets", "consumer groups get no assignment"),
    _TRANSACTIONS_FACTOR: ("__transaction_state", "transactions time out"),
    _SHARES_FACTOR: ("__share_group_state", "share groups get no records"),
}
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
    topics = "topics created without a number"
    yield from _factors_of_one(facts, (_DEFAULT_FACTOR,), topics, _deciding_brokers(facts))


def _deciding_brokers(facts: AuditFacts) -> list[int]:
    """Return the brokers whose default.replication.factor new topics get."""
    return [
        broker_id
        for broker_id, configs in facts.broker_configs.items()
        if facts.is_controller(broker_id) or value_of(configs, _AUTO_CREATE) == "true"
    ]


@rule(
    "internal-replication-factor",
    Severity.WARNING,
    title="One replica for internal topics",
    why="When the one broker with a group's offsets is down, the group stops, in all its topics.",
    how="Set these factors to 3, or to 2 where there are two brokers. Once a topic exists its "
    "factor here decides nothing: then a plan has to add the replicas.",
    source=f"{_DOCUMENTED}brokerconfigs_offsets.topic.replication.factor",
    needs={InspectionItem.BROKER_CONFIGS},
)
def internal_replication_factor(facts: AuditFacts) -> Iterator[CheckResult]:
    topics = "the internal topic, when it is created,"
    yield from _factors_of_one(facts, _missing_topics(facts), topics, facts.broker_configs)


def _missing_topics(facts: AuditFacts) -> dict[str, str]:
    """Return the factors of internal topics that do not exist, and what clients see without them.

    Share groups count where a broker says that they are on (KIP-932).
    """
    topics = set(facts.snapshot.topics["topic"].to_pylist())
    levels = [features.get("share.version") for features in facts.inspection.features.values()]
    has_share_groups = any(level is not None and (level.finalized or 0) > 0 for level in levels)
    return {
        key: consequence
        for key, (topic, consequence) in _WITHOUT_TOPIC.items()
        if topic not in topics and (key != _SHARES_FACTOR or has_share_groups)
    }


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
    "replication-factor-above-brokers",
    Severity.CRITICAL,
    title="Topics that brokers cannot create",
    why="Brokers create an internal topic when it is needed first, with the factor of their "
    "configs. With fewer brokers than that they fail each time, and only their logs say why. What "
    "is asked of topics created without a number of replicas is a warning: creating them fails.",
    how="Start the missing brokers, or set the factor to the number of brokers. Once an internal "
    "topic exists, its factor in configs decides nothing.",
    source=f"{_DOCUMENTED}brokerconfigs_offsets.topic.replication.factor",
    needs={InspectionItem.BROKER_CONFIGS},
    severities={Severity.WARNING},
)
def replication_factor_above_brokers(facts: AuditFacts) -> Iterator[CheckResult]:
    """Yield factors above the number of registered brokers.

    Nobody asks for a coordinator here to find out: that would create the topic.
    """
    for key, consequence in _missing_topics(facts).items():
        yield from _factors_above(facts, key, consequence, facts.broker_configs)
    consequence = "topics without a number of replicas of their own cannot be created"
    for result in _factors_above(facts, _DEFAULT_FACTOR, consequence, _deciding_brokers(facts)):
        yield replace(result, severity=Severity.WARNING)


def _factors_above(
    facts: AuditFacts, key: str, consequence: str, deciding_brokers: Container[int]
) -> Iterator[CheckResult]:
    broker_count = len(facts.snapshot.registered_broker_ids)
    configs = {
        broker_id: config
        for broker_id, config in facts.values_of(key).items()
        if broker_id in deciding_brokers and int(config.value or 0) > broker_count
    }
    if configs:
        factor = max(int(config.value or 0) for config in configs.values())
        yield CheckResult(
            key,
            f"{key} is {factor}, and the cluster has {pluralize(broker_count, 'broker')}: "
            f"{consequence}",
            _config_table(configs),
            fix=(
                "# server.properties of all brokers and controllers, then restart them one by one:",
                f"{key}={min(_USUAL_FACTOR, broker_count)}",
            ),
        )


@rule(
    "internal-min-isr",
    Severity.WARNING,
    title="Internal topics that stop with one broker",
    why="Brokers write to internal topics with acks=all. With a min.isr as high as the replication "
    "factor, each restart of a broker stops transactions, or share groups, of part of the clients.",
    how="Leave one replica of margin. Once the topic exists its own min.insync.replicas decides: "
    "see min-insync-blocks.",
    source=f"{_DOCUMENTED}brokerconfigs_transaction.state.log.min.isr",
    needs={InspectionItem.BROKER_CONFIGS},
)
def internal_min_isr(facts: AuditFacts) -> Iterator[CheckResult]:
    """Yield what internal topics that do not exist yet would get.

    Brokers since 3.7 write to a topic with one replica whatever its min.insync.replicas is.
    """
    missing = _missing_topics(facts)
    for factor_key, key in _MIN_ISR_OF.items():
        if factor_key not in missing:
            continue
        needed = {broker_id: config.value for broker_id, config in facts.values_of(key).items()}
        rows = [
            (broker_id, int(config.value or 0), int(needed[broker_id] or 0))
            for broker_id, config in facts.values_of(factor_key).items()
            if broker_id in needed
        ]
        blocking = [row for row in rows if 1 < row[1] <= row[2]]
        if not blocking:
            continue
        _, factor, min_isr = blocking[0]
        older = "; brokers before 3.7 refuse every write" if min_isr > factor else ""
        broker_ids = [broker_id for broker_id, _, _ in blocking]
        yield CheckResult(
            subjects.config(key),
            f"{key} is {min_isr} with {factor_key} {factor} on {list_brokers(broker_ids)}: with "
            f"one broker down {missing[factor_key]}{older}",
            evidence(("broker", "replication factor", "min.isr"), blocking),
            fix=(
                "# server.properties of all brokers, then restart them one by one:",
                f"{key}={factor - 1}",
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
    eligible = facts.inspection.eligible_leaders or {}
    rows = [
        (key.topic, key.partition, join_ids(broker_ids))
        for key, broker_ids in sorted(eligible.items())
    ]
    if rows:
        topics = sorted({topic for topic, _, _ in rows})
        have = verb(len(rows), "has", "have")
        yield CheckResult(
            subjects.CLUSTER,
            f"{pluralize(len(rows), 'partition')} of {pluralize(len(topics), 'topic')} {have} "
            "replicas that left the ISR below min.insync.replicas and have every acknowledged "
            "record (ELR)",
            evidence(("topic", "partition", "eligible leader replicas"), rows),
            fix=(LOOK, *map(describe_topic, topics[:_TOPICS_DESCRIBED])),
            causes=causes_among(facts, set(chain.from_iterable(eligible.values()))),
        )


@rule(
    "unclean-leader-election",
    Severity.WARNING,
    title="Unclean leader elections allowed",
    why="When no in-sync replica is live, one that has fallen behind becomes leader: records that "
    "it lacks are deleted from all replicas.",
    how="Switch it off, except for topics whose records may be lost.",
    source=f"{_DOCUMENTED}topicconfigs_unclean.leader.election.enable",
    needs={InspectionItem.BROKER_CONFIGS, InspectionItem.TOPIC_CONFIGS},
)
def unclean_leader_election(facts: AuditFacts) -> Iterator[CheckResult]:
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
