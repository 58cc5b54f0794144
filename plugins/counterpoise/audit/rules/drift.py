"""Drift: brokers of one cluster that are not alike: versions, features, static and dynamic configs.

    min.insync.replicas is 2 on brokers 1, 2 and 1 on broker 3        # static-configs-differ

Limits: Kafka does not return the values of sensitive configs; they are named without one. Keys that
differ by nature (a broker's listeners, log dirs, throttle rate) are not compared.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from counterpoise.audit.commands import add_config, delete_config, kafka
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.rule import CheckResult, Need, evidence, rule
from counterpoise.model import subjects
from counterpoise.model.finding import LOOK
from counterpoise.model.grouping import grouped
from counterpoise.model.inspection import InspectionItem
from counterpoise.model.kafka import RATE_KEYS, ConfigSource, ConfigValue
from counterpoise.model.safe_text import properties_value
from counterpoise.model.severity import Severity
from counterpoise.model.words import join_ids, list_brokers, pluralize

_AUTO_REBALANCE: Final = "auto.leader.rebalance.enable"
_STATIC_SOURCES: Final = (ConfigSource.STATIC_BROKER, ConfigSource.DEFAULT)
_METADATA_VERSION: Final = "metadata.version"
_KRAFT_VERSION: Final = "kraft.version"
_PROTOCOL: Final = "inter.broker.protocol.version"  # before KRaft
_NO_WAY_BACK: Final = (
    "# metadata.version cannot be lowered again once the cluster has written what only the new "
    "level has:"
)
_DESCRIBE_FEATURES: Final = kafka("kafka-features", "describe")

# Unless these are alike, what a topic, a client or the controller gets depends on the broker.
SHOULD_MATCH: Final = (
    _AUTO_REBALANCE,
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
_DIFFERS_BY_NATURE: Final = re.compile(
    r"(advertised\.)?listeners|listener\..*|broker\.(id|rack)|node\.id|log\.dirs?|"
    r"cordoned\.log\.dirs|.*(keystore|truststore|\.jaas\.|password|secret).*"
)
_SECRET: Final = re.compile(
    r"password|secret|jaas|credential|token|keystore|truststore", re.IGNORECASE
)


@rule(
    "mixed-versions",
    Severity.WARNING,
    title="Brokers of different releases",
    why="Between two releases clients use only what both support, and bugs of the older one stay; "
    "that is right for the hours of a rolling upgrade, and wrong for months.",
    how="Finish the upgrade: the same release on every broker and controller.",
    source="https://kafka.apache.org/documentation/#upgrade",
    needs={InspectionItem.VERSIONS},
)
def mixed_versions(facts: AuditFacts) -> Iterator[CheckResult]:
    rows = [
        (broker_id, version.api_ranges, version.metadata_version)
        for broker_id, version in sorted(facts.inspection.versions.items())
    ]
    releases = {(api_ranges, metadata_version) for _, api_ranges, metadata_version in rows}
    if len(releases) > 1:
        yield CheckResult(
            subjects.CLUSTER,
            f"the brokers support {len(releases)} different sets of API versions: "
            "more than one release is running",
            evidence(("broker", "API versions (digest)", "metadata.version"), rows),
            fix=(LOOK, kafka("kafka-broker-api-versions"), _DESCRIBE_FEATURES),
        )


@rule(
    "features-below-possible",
    Severity.INFO,
    title="An upgrade that was not finished",
    why="New brokers behave like old ones until metadata.version and the other features, or before "
    "KRaft inter.broker.protocol.version, are raised: fixes and features of the release are "
    "installed, but off. An old protocol, a warning, also bars the way to the next release.",
    how="Raise them as soon as nobody wants to go back to the old release.",
    source="https://kafka.apache.org/documentation/#upgrade",
    needs={InspectionItem.FEATURES, InspectionItem.BROKER_CONFIGS},
    severities={Severity.WARNING},
)
def features_below_possible(facts: AuditFacts) -> Iterator[CheckResult]:
    yield from _old_protocol(facts)
    rows = _features_to_raise(facts)
    if not rows:
        return
    names = join_ids([name for name, _, _ in rows])
    upgrades = [
        line
        for name, _, possible in rows
        for line in (
            *((_NO_WAY_BACK,) if name == _METADATA_VERSION else ()),
            kafka("kafka-features", "upgrade", "--feature", f"{name}={possible}"),
        )
    ]
    yield CheckResult(
        subjects.CLUSTER,
        f"every broker supports a higher level of {pluralize(len(rows), 'feature')}: {names}",
        evidence(("feature", "level in force", "level that all support"), rows),
        fix=("# once nobody wants to go back to the old release:", *upgrades),
    )


def _features_to_raise(facts: AuditFacts) -> list[tuple[str, int, int]]:
    """Return features with the level in force and the higher one that every broker supports.

    metadata.version comes first, since others need it. The level of kraft.version is not raised
    alone: `quorum-static` has what is to be done.
    """
    features_by_broker = facts.inspection.features
    names = {name for features in features_by_broker.values() for name in features}
    rows = []
    for name in sorted(
        names - {_KRAFT_VERSION}, key=lambda name: (name != _METADATA_VERSION, name)
    ):
        levels = [features[name] for features in features_by_broker.values() if name in features]
        # Brokers do not list a feature whose level is 0.
        finalized = max(level.finalized or 0 for level in levels)
        is_on_every_broker = len(levels) == len(features_by_broker)
        possible = min(level.highest for level in levels)
        if is_on_every_broker and finalized < possible:
            rows.append((name, finalized, possible))
    return rows


def _old_protocol(facts: AuditFacts) -> Iterator[CheckResult]:
    """Yield inter.broker.protocol.version where it is of an older release than the brokers'."""
    old = {
        broker_id: config
        for broker_id, config in facts.values_of(_PROTOCOL).items()
        if config.default is not None and _release(config.value) < _release(config.default)
    }
    if old:
        newest = max((_release(config.default) for config in old.values()), default=(0, 0))
        wanted = ".".join(map(str, newest))
        values = {broker_id: config.value for broker_id, config in old.items()}
        yield CheckResult(
            subjects.config(_PROTOCOL),
            f"{_PROTOCOL} is {_values_in_words(values)}, which run {wanted}",
            evidence(("broker", _PROTOCOL), values.items()),
            fix=(
                "# server.properties of all brokers, then restart them one by one; it cannot be "
                "undone:",
                f"{_PROTOCOL}={wanted}",
            ),
            severity=Severity.WARNING,
        )


def _release(version: str | None) -> tuple[int, ...]:
    """Return (2, 8) of `2.8`, `2.8.0` and `2.8-IV1`."""
    return tuple(int(number) for number in re.findall(r"\d+", (version or "").split("-")[0])[:2])


@rule(
    "static-configs-differ",
    Severity.WARNING,
    title="Static configs that should be alike on all brokers, and differ",
    why="What a new topic gets, how long records stay, whether an unclean election is allowed then "
    "depends on the broker or controller that decides: it works until another one decides.",
    how="Make the files alike and restart the brokers that differ, one after the other.",
    source="https://kafka.apache.org/documentation/#brokerconfigs",
    needs={InspectionItem.BROKER_CONFIGS},
)
def static_configs_differ(facts: AuditFacts) -> Iterator[CheckResult]:
    for key in SHOULD_MATCH:
        values = {
            broker_id: config.value
            for broker_id, config in facts.values_of(key).items()
            if config.source in _STATIC_SOURCES
        }
        if len(set(values.values())) > 1:
            usual = _usual(values)
            different_brokers = [broker for broker, value in values.items() if value != usual]
            line = f"{key}={properties_value(usual or '')}"
            is_default = usual is None or all(
                config.source is ConfigSource.DEFAULT
                for config in facts.values_of(key).values()
                if config.value == usual
            )
            yield CheckResult(
                subjects.config(key),
                f"{key} is {_values_in_words(values)}",
                evidence(("broker", key), values.items()),
                fix=(
                    f"# server.properties of {list_brokers(different_brokers)}, then restart "
                    "one by one:",
                    f"# remove {key}" if is_default else line,
                ),
            )


@rule(
    "dynamic-config-drift",
    Severity.INFO,
    title="Dynamic configs that only some brokers have",
    why="They were mostly set by hand during some incident, are in no file, survive every restart "
    "and take precedence over the files: nobody who reads the files knows how this broker behaves.",
    how="Delete them, or set them as the default of all brokers.",
    source="https://kafka.apache.org/documentation/#dynamicbrokerconfigs",
    needs={InspectionItem.BROKER_CONFIGS},
)
def dynamic_config_drift(facts: AuditFacts) -> Iterator[CheckResult]:
    for key in _dynamic_keys(facts):
        rows = [
            (broker_id, *_value_and_source(key, configs.get(key)))
            for broker_id, configs in facts.broker_configs.items()
        ]
        different_values = {(value, source) for _, value, source in rows}
        if len(different_values) < 2:
            continue
        set_on = [
            broker_id for broker_id, _, source in rows if source == ConfigSource.DYNAMIC_BROKER
        ]
        deletions = [delete_config("brokers", broker_id, (key,)) for broker_id in set_on]
        yield CheckResult(
            subjects.config(key),
            f"{key} is set dynamically on {list_brokers(set_on)}, "
            "and is different on other brokers",
            evidence(("broker", key, "set where"), rows),
            fix=(
                "# if it is meant for all of them, first set it as their default with",
                f"# {add_config('brokers', None, {key: 'VALUE'})}",
                *deletions,
            ),
        )


def _dynamic_keys(facts: AuditFacts) -> list[str]:
    """Return the keys that are set dynamically on a single broker and should be alike."""
    keys = {
        key
        for configs in facts.broker_configs.values()
        for key, config in configs.items()
        if config.source is ConfigSource.DYNAMIC_BROKER
    }
    return sorted(
        key for key in keys if key not in RATE_KEYS and not _DIFFERS_BY_NATURE.fullmatch(key)
    )


def _value_and_source(key: str, config: ConfigValue | None) -> tuple[str, str]:
    if config is None:
        return "not set", "nowhere"
    is_hidden = config.value is None or _SECRET.search(key) is not None
    return "hidden" if is_hidden else str(config.value), str(config.source)


@rule(
    "auto-leader-rebalance",
    Severity.INFO,
    title="Kafka does not return leadership automatically",
    why="With auto.leader.rebalance.enable off, each restart leaves leadership on other brokers "
    "until somebody runs an election. With it on, Kafka undoes any leader that is not the "
    "preferred one: so plans here change the order of replicas, and both agree.",
    how="Turn it on (Kafka's default), or elect preferred leaders after each restart.",
    source="https://kafka.apache.org/documentation/#brokerconfigs_auto.leader.rebalance.enable",
    needs={InspectionItem.BROKER_CONFIGS, Need.CONTROLLERS},
    severities={Severity.WARNING},
)
def auto_leader_rebalance(facts: AuditFacts) -> Iterator[CheckResult]:
    """Yield brokers that are controllers, too: the active controller elects, nobody else."""
    values = {
        broker_id: config.value
        for broker_id, config in facts.values_of(_AUTO_REBALANCE).items()
        if facts.is_controller(broker_id)
    }
    brokers_off = [broker_id for broker_id, value in values.items() if value == "false"]
    if not brokers_off:
        return
    is_mixed = len(brokers_off) < len(values)
    if is_mixed:
        which = f"on {list_brokers(brokers_off)} and on elsewhere"
    else:
        which = f"on every controller that reported it, {list_brokers(brokers_off)}"
    yield CheckResult(
        subjects.CLUSTER,
        f"{_AUTO_REBALANCE} is off {which}",
        evidence(("broker", _AUTO_REBALANCE), values.items()),
        fix=(
            "# server.properties of the controllers, then restart them one by one:",
            f"{_AUTO_REBALANCE}=true",
            "# or, after each restart of a broker:",
            kafka(
                "kafka-leader-election", "--election-type", "preferred", "--all-topic-partitions"
            ),
        ),
        severity=Severity.WARNING if is_mixed else None,
    )


def _values_in_words(values: Mapping[int, str | None]) -> str:
    """Return `2 on brokers 1, 2 and 1 on broker 3`."""
    brokers_by_value = grouped(
        ("not set" if value is None else value, broker_id) for broker_id, value in values.items()
    )
    return " and ".join(
        f"{value} on {list_brokers(broker_ids)}" for value, broker_ids in brokers_by_value.items()
    )


def _usual(values: Mapping[int, str | None]) -> str | None:
    """Return the most common value; of equally common ones the first."""
    return Counter(values.values()).most_common(1)[0][0]
