"""Drift: brokers of one cluster that are not alike: versions, features, configs in files, dynamic
configs.

    min.insync.replicas is 2 on brokers 1, 2 and 1 on broker 3        # static-configs-differ

Limits: of sensitive configs Kafka tells no value; they are named without one. Keys that are a
broker's own by nature (its listeners, its log dirs, its throttle rate) are not compared.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from counterpoise.audit.commands import add_config, delete_config, describe_config, kafka
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.rule import Area, Need, Rule, Sighting, evidence
from counterpoise.audit.unavailable_data import not_told
from counterpoise.model.inspection import Asked
from counterpoise.model.kafka import RATE_KEYS, ConfigSource, ConfigValue
from counterpoise.model.severity import Severity
from counterpoise.model.words import join_ids, pluralize

_CLUSTER: Final = "cluster"
_AUTO_BALANCE: Final = "auto.leader.rebalance.enable"
_BY_SOURCE: Final = (ConfigSource.STATIC_BROKER, ConfigSource.DEFAULT)

# What a topic, a client or the controller gets depends on which broker it asks, unless these are
# alike.
SHOULD_MATCH: Final = (
    _AUTO_BALANCE,
    "auto.create.topics.enable",
    "compression.type",
    "default.replication.factor",
    "delete.topic.enable",
    "group.max.session.timeout.ms",
    "group.min.session.timeout.ms",
    "leader.imbalance.check.interval.seconds",
    "leader.imbalance.per.broker.percentage",
    "log.cleanup.policy",
    "log.retention.bytes",
    "log.retention.hours",
    "log.retention.minutes",
    "log.retention.ms",
    "log.segment.bytes",
    "message.max.bytes",
    "min.insync.replicas",
    "num.partitions",
    "offsets.retention.minutes",
    "offsets.topic.num.partitions",
    "offsets.topic.replication.factor",
    "replica.fetch.max.bytes",
    "replica.lag.time.max.ms",
    "replica.selector.class",
    "transaction.state.log.min.isr",
    "transaction.state.log.num.partitions",
    "transaction.state.log.replication.factor",
    "unclean.leader.election.enable",
)
_OF_ONE_BROKER: Final = re.compile(
    r"(advertised\.)?listeners|listener\..*|broker\.(id|rack)|node\.id|log\.dirs?|cordoned\.log\.dirs|"
    r".*(keystore|truststore|\.jaas\.|password|secret).*"
)
_SECRET: Final = re.compile(
    r"password|secret|jaas|credential|token|keystore|truststore", re.IGNORECASE
)


def _versions(facts: AuditFacts) -> Iterator[Sighting]:
    versions = facts.inspection.versions
    yield from not_told(facts, Asked.VERSIONS)
    kinds = Counter((found.api_ranges, found.metadata_version) for found in versions.values())
    if len(kinds) > 1:
        rows = [
            (broker_id, found.api_ranges, found.metadata_version)
            for broker_id, found in sorted(versions.items())
        ]
        yield Sighting(
            _CLUSTER,
            f"the brokers speak {len(kinds)} different sets of API versions: more than one release is running",
            evidence(("broker", "API versions (digest)", "metadata.version"), rows),
            fix=(kafka("kafka-broker-api-versions"), kafka("kafka-features", "describe")),
        )


def _features(facts: AuditFacts) -> Iterator[Sighting]:
    """Levels that every broker supports and that are not in force: an upgrade that nobody finished."""
    features = facts.inspection.features
    yield from not_told(facts, Asked.FEATURES)
    if not features:
        return
    rows = []
    for name in sorted({name for of_broker in features.values() for name in of_broker}):
        told = [of_broker[name] for of_broker in features.values() if name in of_broker]
        possible = min(level.highest for level in told)
        finalized = max(
            (level.finalized for level in told if level.finalized is not None), default=None
        )
        if len(told) == len(features) and finalized is not None and finalized < possible:
            rows.append((name, finalized, possible))
    if rows:
        yield Sighting(
            _CLUSTER,
            f"every broker supports a higher level of {pluralize(len(rows), 'feature')}: {join_ids([row[0] for row in rows])}",
            evidence(("feature", "level in force", "level that all support"), rows),
            fix=(
                kafka("kafka-features", "describe"),
                "# no way back below some levels: read the upgrade notes of the release first",
                *(
                    kafka("kafka-features", "upgrade", "--feature", f"{name}={possible}")
                    for name, _, possible in rows
                ),
            ),
        )


def _static(facts: AuditFacts) -> Iterator[Sighting]:
    yield from not_told(facts, Asked.BROKER_CONFIGS)
    told = facts.inspection.broker_configs
    for key in SHOULD_MATCH:
        values = {
            broker_id: configs[key].value
            for broker_id, configs in sorted(told.items())
            if key in configs and configs[key].source in _BY_SOURCE
        }
        if len(values) > 1 and len(set(values.values())) > 1:
            yield Sighting(
                f"config {key}",
                f"{key} is {_in_words(values)}",
                evidence(("broker", key), values.items()),
                fix=tuple(
                    describe_config("brokers", broker_id) for broker_id in _minority(values)[:3]
                ),
            )


def _dynamic(facts: AuditFacts) -> Iterator[Sighting]:
    """Keys that somebody set on some brokers by hand, and not alike on all."""
    yield from not_told(facts, Asked.BROKER_CONFIGS)
    told = facts.inspection.broker_configs
    keys = {
        key
        for configs in told.values()
        for key, found in configs.items()
        if found.source is ConfigSource.DYNAMIC_BROKER
        and key not in RATE_KEYS
        and not _OF_ONE_BROKER.fullmatch(key)
    }
    for key in sorted(keys):
        rows = [
            (broker_id, *_dynamic_row(key, configs.get(key)))
            for broker_id, configs in sorted(told.items())
        ]
        if len({row[1:] for row in rows}) < 2:
            continue
        own = [row for row in rows if row[2] == str(ConfigSource.DYNAMIC_BROKER)]
        yield Sighting(
            f"config {key}",
            f"{key} was set on broker {join_ids([row[0] for row in own])} and not alike on the other brokers",
            evidence(("broker", key, "set where"), rows),
            fix=(
                *(delete_config("brokers", row[0], (key,)) for row in own[:3]),
                "# or, if it is meant for all of them:",
                add_config("brokers", None, {key: "VALUE"}),
            ),
        )


def _dynamic_row(key: str, found: ConfigValue | None) -> tuple[str, str]:
    if found is None:
        return "not set", "nowhere"
    return "hidden" if _SECRET.search(key) or found.value is None else found.value, str(
        found.source
    )


def _auto_balance(facts: AuditFacts) -> Iterator[Sighting]:
    yield from not_told(facts, Asked.BROKER_CONFIGS)
    values = {
        broker_id: configs[_AUTO_BALANCE].value
        for broker_id, configs in sorted(facts.inspection.broker_configs.items())
        if _AUTO_BALANCE in configs
    }
    off = [broker_id for broker_id, value in values.items() if value == "false"]
    if off:
        is_mixed = len(off) < len(values)
        told = "" if len(values) == len(facts.snapshot.live_broker_ids) else " that told it"
        which = (
            f"on broker {join_ids(off)} and on elsewhere" if is_mixed else f"on every broker{told}"
        )
        yield Sighting(
            _CLUSTER,
            f"{_AUTO_BALANCE} is off {which}",
            evidence(("broker", _AUTO_BALANCE), values.items()),
            fix=(
                f"# in server.properties of the controllers: {_AUTO_BALANCE}=true",
                kafka(
                    "kafka-leader-election",
                    "--election-type",
                    "preferred",
                    "--all-topic-partitions",
                ),
            ),
            severity=Severity.WARNING if is_mixed else None,
        )


def _in_words(values: Mapping[int, str | None]) -> str:
    """`2 on broker 1, 2 and 1 on broker 3`."""
    by_value: dict[str, list[int]] = {}
    for broker_id, value in values.items():
        by_value.setdefault("not set" if value is None else value, []).append(broker_id)
    return " and ".join(f"{value} on broker {join_ids(ids)}" for value, ids in by_value.items())


def _minority(values: Mapping[int, str | None]) -> list[int]:
    """The brokers that are not like most; of equally many, those that are not like the first."""
    usual = Counter(values.values()).most_common(1)[0][0]
    return [broker_id for broker_id, value in values.items() if value != usual]


RULES: Final = (
    Rule(
        "mixed-versions",
        Area.LEFTOVERS,
        Severity.WARNING,
        title="Brokers of different releases",
        why="Between two releases clients fall back to what both speak, and bugs of the older one stay; that is right "
        "for the hours of a rolling upgrade, and wrong for months.",
        how="Finish the upgrade: the same release on every broker and controller.",
        source="https://kafka.apache.org/documentation/#upgrade",
        look=_versions,
        needs=frozenset({Need.INSPECTION}),
    ),
    Rule(
        "features-below-possible",
        Area.LEFTOVERS,
        Severity.INFO,
        title="An upgrade that was not finished",
        why="New brokers behave like old ones until metadata.version and its like are raised: fixes and features of "
        "the release are installed, and off.",
        how="Raise the features when going back to the old release is no longer wanted.",
        source="https://kafka.apache.org/documentation/#upgrade",
        look=_features,
        needs=frozenset({Need.INSPECTION}),
    ),
    Rule(
        "static-configs-differ",
        Area.LEFTOVERS,
        Severity.WARNING,
        title="Configs in brokers' files that should match and do not",
        why="What a new topic gets, how long records stay, whether an unclean election is allowed then depends on "
        "which broker or controller decides: it works until another one does.",
        how="Make the files alike and restart the brokers that differ, one after the other.",
        source="https://kafka.apache.org/documentation/#brokerconfigs",
        look=_static,
        needs=frozenset({Need.INSPECTION}),
    ),
    Rule(
        "dynamic-config-drift",
        Area.LEFTOVERS,
        Severity.INFO,
        title="Dynamic configs that only some brokers have",
        why="They were mostly set by hand in some night, are in no file, survive every restart and win over the files: "
        "nobody who reads the files knows how this broker behaves.",
        how="Delete them, or set them as the default of all brokers.",
        source="https://kafka.apache.org/documentation/#dynamicbrokerconfigs",
        look=_dynamic,
        needs=frozenset({Need.INSPECTION}),
    ),
    Rule(
        "auto-leader-rebalance",
        Area.LEFTOVERS,
        Severity.INFO,
        title="Kafka does not give leadership back by itself",
        why="With auto.leader.rebalance.enable off, each restart leaves leadership on other brokers until somebody "
        "elects. With it on, Kafka undoes any leader that is not the preferred one: so plans here change the order "
        "of replicas, and both agree.",
        how="Turn it on (Kafka's default), or elect preferred leaders after each restart.",
        source="https://kafka.apache.org/documentation/#brokerconfigs_auto.leader.rebalance.enable",
        look=_auto_balance,
        needs=frozenset({Need.INSPECTION}),
    ),
)
