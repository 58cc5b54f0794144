"""Configs with a value that is probably a mistake: one row for each rule.

    topic clicks sets retention.ms=604800: records are kept for 10 minutes     # retention-typo

A row about brokers is one finding with all of them; a row about topics is one for each topic that
sets the value itself. A new row is a new rule.

Limits: rules that weigh several configs against each other are in the other modules.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from counterpoise.audit.commands import add_config, delete_config
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.rule import CheckResult, Rule, evidence, rule
from counterpoise.audit.rules.replication import level_in_words
from counterpoise.model import subjects
from counterpoise.model.grouping import grouped
from counterpoise.model.inspection import InspectionItem
from counterpoise.model.kafka import ConfigResourceType, ConfigSource, ConfigValue
from counterpoise.model.severity import Severity
from counterpoise.model.words import join_names, list_brokers, pluralize, verb
from counterpoise.units import format_bytes, format_seconds

_BROKER: Final = ConfigResourceType.BROKER
_TOPIC: Final = ConfigResourceType.TOPIC
_HOUR_MS: Final = 3_600_000
_DAY_MINUTES: Final = 1440
_RETENTION_BYTES: Final = "retention.bytes"
_SEGMENT_BYTES: Final = "segment.bytes"
_TIERED_STORAGE: Final = "remote.log.storage.system.enable"
_MIN_SEGMENT_BYTES: Final = 1_048_576  # the least that Kafka takes
_LARGE_MESSAGE_BYTES: Final = 50_000_000
_DOCUMENTED: Final = "https://kafka.apache.org/documentation/#"


@dataclass(frozen=True, slots=True)
class ConfigRow:
    """A config of brokers or of topics, and when its value is bad.

    `means` says what a bad value does; `better` is the value for server.properties.
    """

    rule_id: str
    severity: Severity
    key: str
    level: ConfigResourceType
    is_bad: Callable[[str], bool]
    means: Callable[[str], str]
    title: str
    why: str
    how: str
    better: str = ""  # "": a topic's own value is deleted, and of brokers people decide


ROWS: Final = (
    ConfigRow(
        "auto-create-topics",
        Severity.WARNING,
        "auto.create.topics.enable",
        _BROKER,
        is_bad=lambda value: value == "true",
        means=lambda _: "a misspelt name creates a topic",
        title="Topics that are created automatically",
        why="A misspelt name in one client creates a topic with default settings, and records go "
        "there instead of failing.",
        how="Switch it off and create topics on purpose.",
        better="false",
    ),
    ConfigRow(
        "controlled-shutdown-off",
        Severity.WARNING,
        "controlled.shutdown.enable",
        _BROKER,
        is_bad=lambda value: value == "false",
        means=lambda _: "each stop is like a crash to clients",
        title="Brokers that stop without handing over their leaders",
        why="Leaders stay on a broker that stops until its session ends: every planned restart "
        "halts their partitions for seconds, and its logs are recovered at the next start.",
        how="Switch it on, as it is by default.",
        better="true",
    ),
    ConfigRow(
        "offsets-retention-short",
        Severity.WARNING,
        "offsets.retention.minutes",
        _BROKER,
        is_bad=lambda value: int(value) < _DAY_MINUTES,
        means=lambda value: (
            f"a group that is stopped for {format_seconds(int(value) * 60)} loses its offsets"
        ),
        title="Committed offsets that are soon forgotten",
        why="Consumers that were stopped longer begin at auto.offset.reset: they read everything "
        "again, or leave records out. Kafka's default is 7 days; the one before 2.0, of a day, was "
        "raised for this.",
        how="Keep offsets longer than any consumer is stopped, a weekend included.",
        better="10080",
    ),
    ConfigRow(
        "flush-each-record",
        Severity.WARNING,
        "log.flush.interval.messages",
        _BROKER,
        is_bad=lambda value: int(value) == 1,
        means=lambda _: "each record waits for the disk",
        title="A flush for each record",
        why="Every append waits for its disk, which makes producers slow by orders of magnitude. "
        "Replication, and not the disk of one broker, keeps records.",
        how="Leave it to the operating system, as by default.",
        better="9223372036854775807",
    ),
    ConfigRow(
        "no-authorizer",
        Severity.INFO,
        "authorizer.class.name",
        _BROKER,
        is_bad=lambda value: not value,
        means=lambda _: "whoever connects may read, write and delete everything",
        title="Brokers that allow everybody everything",
        why="Without an authorizer there are no ACLs: a login, where there is one, only names who "
        "connects. Any client can delete topics, change configs and stop the cluster.",
        how="Write ACLs for brokers and clients first, then switch it on: by default it refuses "
        "whatever no ACL allows.",
    ),
    ConfigRow(
        "retention-typo",
        Severity.WARNING,
        "retention.ms",
        _TOPIC,
        is_bad=lambda value: 0 <= int(value) < _HOUR_MS,
        means=lambda value: f"records are kept for {format_seconds(int(value) / 1000)}",
        title="Retention of less than an hour",
        why="The value is in milliseconds: 604800 is ten minutes, and not a week. A consumer that "
        "is behind by more loses records.",
        how="Set what was meant, or delete it for the default. A topic that is to be emptied gets "
        "its retention back afterwards.",
    ),
    ConfigRow(
        "default-retention-typo",
        Severity.WARNING,
        "log.retention.ms",
        _BROKER,
        is_bad=lambda value: 0 <= int(value) < _HOUR_MS,
        means=lambda value: f"records are kept for {format_seconds(int(value) / 1000)}",
        title="Retention of less than an hour by default",
        why="The value is in milliseconds: 604800 is ten minutes, and not a week. Every topic that "
        "sets no retention of its own has it, __consumer_offsets excepted.",
        how="Set what was meant, or delete it: without it log.retention.hours holds, 7 days.",
        better="604800000",
    ),
    ConfigRow(
        "messages-very-large",
        Severity.INFO,
        "max.message.bytes",
        _TOPIC,
        is_bad=lambda value: int(value) >= _LARGE_MESSAGE_BYTES,
        means=lambda value: f"a batch may have {format_bytes(int(value))}",
        title="Topics that take very large batches",
        why="Brokers and consumers hold whole batches in memory, several at once: some of that "
        "size end a broker with little heap, and each consumer has to be made for them.",
        how="Keep large objects elsewhere and send references, or compress and split them.",
    ),
)


def _rule_of(row: ConfigRow) -> Rule:
    item = InspectionItem.TOPIC_CONFIGS if row.level is _TOPIC else InspectionItem.BROKER_CONFIGS
    prefix = "topicconfigs" if row.level is _TOPIC else "brokerconfigs"

    @rule(
        row.rule_id,
        row.severity,
        title=row.title,
        why=row.why,
        how=row.how,
        source=f"{_DOCUMENTED}{prefix}_{row.key}",
        needs={item},
    )
    def check(facts: AuditFacts) -> Iterator[CheckResult]:
        yield from (_of_topics if row.level is _TOPIC else _of_brokers)(row, facts)

    return check


def _of_brokers(row: ConfigRow, facts: AuditFacts) -> Iterator[CheckResult]:
    bad = {
        broker_id: config
        for broker_id, config in facts.values_of(row.key).items()
        if config.value is not None and row.is_bad(config.value)
    }
    if not bad:
        return
    brokers_by_value = grouped((config.value, broker_id) for broker_id, config in bad.items())
    values = " and ".join(
        f"{value or 'not set'} on {list_brokers(broker_ids)}"
        for value, broker_ids in brokers_by_value.items()
    )
    worst = next(iter(bad.values())).value or ""
    rows = [(broker_id, config.value, level_in_words(config)) for broker_id, config in bad.items()]
    yield CheckResult(
        subjects.config(row.key),
        f"{row.key} is {values}: {row.means(worst)}",
        evidence(("broker", row.key, "set by"), rows),
        fix=(*_dynamic_values_deleted(row.key, bad), *_line_in_files(row)),
    )


def _dynamic_values_deleted(key: str, configs: dict[int, ConfigValue]) -> Iterator[str]:
    """Yield the commands that delete dynamic values, which would hide the one in the files."""
    sources = {config.source for config in configs.values()}
    if ConfigSource.DYNAMIC_DEFAULT_BROKER in sources:
        yield delete_config("brokers", None, (key,))
    for broker_id, config in configs.items():
        if config.source is ConfigSource.DYNAMIC_BROKER:
            yield delete_config("brokers", broker_id, (key,))


def _line_in_files(row: ConfigRow) -> tuple[str, ...]:
    if not row.better:
        return ()
    return (
        "# server.properties of all brokers, then restart them one by one:",
        f"{row.key}={row.better}",
    )


def _of_topics(row: ConfigRow, facts: AuditFacts) -> Iterator[CheckResult]:
    for topic, configs in sorted(facts.inspection.topic_configs.items()):
        config = configs.get(row.key)
        if config is None or config.source is not ConfigSource.DYNAMIC_TOPIC:
            continue
        if config.value and row.is_bad(config.value):
            yield CheckResult(
                subjects.topic(topic),
                f"topic {topic} sets {row.key}={config.value}: {row.means(config.value)}",
                fix=(
                    "# for the default of all topics; or set what was meant:",
                    delete_config("topics", topic, (row.key,)),
                ),
            )


@rule(
    "segment-above-retention",
    Severity.WARNING,
    title="Segments larger than the retention",
    why="Kafka deletes whole segments, and never the one that is written to: a partition keeps a "
    "segment however small its retention.bytes is, and its disk holds many times what was meant.",
    how="Make segments a fraction of the retention, or the retention as large as was meant.",
    source=f"{_DOCUMENTED}topicconfigs_segment.bytes",
    needs={InspectionItem.TOPIC_CONFIGS},
)
def segment_above_retention(facts: AuditFacts) -> Iterator[CheckResult]:
    for topic, configs in sorted(facts.inspection.topic_configs.items()):
        retention, segment = configs.get(_RETENTION_BYTES), configs.get(_SEGMENT_BYTES)
        if retention is None or segment is None:
            continue
        retention_bytes, segment_bytes = int(retention.value or -1), int(segment.value or 0)
        if 0 < retention_bytes < segment_bytes:
            smaller = max(_MIN_SEGMENT_BYTES, retention_bytes // 2)
            yield CheckResult(
                subjects.topic(topic),
                f"topic {topic} keeps {format_bytes(retention_bytes)} of a partition in segments "
                f"of {format_bytes(segment_bytes)}: it deletes nothing below that",
                fix=(add_config("topics", topic, {_SEGMENT_BYTES: smaller}),),
            )


@rule(
    "tiered-storage-off",
    Severity.WARNING,
    title="Tiered storage on in topics, and off in brokers",
    why="A broker with remote.log.storage.system.enable=false does not take over the configs of "
    "such a topic: it keeps all records on its own disks, and does not read what is in remote "
    "storage. Only its log says so.",
    how="Switch it on in every broker. To have it off, make the topics local first: that deletes "
    "what is in remote storage.",
    source=f"{_DOCUMENTED}tiered_storage",
    needs={InspectionItem.BROKER_CONFIGS},
)
def tiered_storage_off(facts: AuditFacts) -> Iterator[CheckResult]:
    configs = facts.values_of(_TIERED_STORAGE)
    off = [broker_id for broker_id, config in configs.items() if config.value == "false"]
    topics = sorted(facts.snapshot.tiered_topics)
    if off and topics:
        have = verb(len(topics), "has", "have")
        yield CheckResult(
            subjects.config(_TIERED_STORAGE),
            f"{pluralize(len(topics), 'topic')} {have} tiered storage, which is off in "
            f"{list_brokers(off)}: {join_names(topics)}",
            evidence(("topic",), [(topic,) for topic in topics]),
            fix=(
                f"# server.properties of {list_brokers(off)}: {_TIERED_STORAGE}=true and the "
                "storage manager of your other brokers, then restart them one by one",
            ),
        )


RULES: Final = tuple(map(_rule_of, ROWS))
