"""Configs of topics and brokers, with the level that each value comes from, and incremental changes
(KIP-339).

    describe_configs(wire, [ConfigResource(ConfigResourceType.BROKER, "4")], ["follower.replication.throttled.rate"])

Only the named keys are asked for: thousands of topics with all their keys would be a large answer.
Every broker is asked for its own configs, and changes to a broker are sent to it alone: it is the
one that checks them. One that gives no answer costs SILENT_AFTER_SECONDS, and holds up no other.

Limits: the cluster-wide default of brokers cannot be written; its values show as a level of each
broker's.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kafka.protocol.admin import DescribeConfigsRequest, IncrementalAlterConfigsRequest

from counterpoise.errors import BrokerSilentError, ClusterError, UnknownOutcomeError
from counterpoise.kafka_admin.broker_client import (
    Ask,
    BrokerClient,
    Failure,
    error_in_words,
    write_deadline,
)
from counterpoise.kafka_admin.liveness_probe import SILENT_AFTER_SECONDS
from counterpoise.kafka_admin.port import NO_ANSWER
from counterpoise.model.kafka import (
    EVERY_BROKER,
    CallResults,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    ConfigValue,
)

# Numbers of the protocol.
_TYPES: Final = {ConfigResourceType.TOPIC: 2, ConfigResourceType.BROKER: 4}
_TYPES_BACK: Final = {number: type_ for type_, number in _TYPES.items()}
_SOURCES: Final = {
    1: ConfigSource.DYNAMIC_TOPIC,
    2: ConfigSource.DYNAMIC_BROKER,
    3: ConfigSource.DYNAMIC_DEFAULT_BROKER,
    4: ConfigSource.STATIC_BROKER,
    5: ConfigSource.DEFAULT,
}
_OPERATIONS: Final = {
    ConfigOperation.SET: 0,
    ConfigOperation.DELETE: 1,
    ConfigOperation.APPEND: 2,
    ConfigOperation.SUBTRACT: 3,
}
_UNKNOWN_TOPIC: Final = 3
_INVALID_TOPIC: Final = 17
# The broker cannot tell what came of it: it passed the change on and got no answer, or something
# broke midway.
OUTCOME_UNKNOWN: Final = frozenset({-1, 7, 13})
_TOPICS_PER_REQUEST: Final = 2000


def describe_configs(
    broker_client: BrokerClient,
    resources: Iterable[ConfigResource],
    keys: Sequence[str] | None,
    via_broker: int | None,
) -> dict[ConfigResource, dict[str, ConfigValue]]:
    """See `ClusterReader.describe_configs`. All brokers are asked side by side."""
    wanted = list(dict.fromkeys(resources))
    asks = _describe_asks(wanted, keys, via_broker)
    found: dict[ConfigResource, dict[str, ConfigValue]] = {}
    for (is_of_brokers, ask), answer in zip(
        asks, broker_client.read_each([ask for _, ask in asks]), strict=True
    ):
        if isinstance(answer, Failure):
            if is_of_brokers and answer.is_silence:
                continue
            who = "any broker" if ask.broker_id is None else broker_client.name_of(ask.broker_id)
            raise BrokerSilentError(f"the configs could not be read from {who}: {answer.reason}")
        for result in answer.results:
            resource = ConfigResource(_TYPES_BACK[result.resource_type], result.resource_name)
            if (
                result.error_code in (_UNKNOWN_TOPIC, _INVALID_TOPIC)
                and resource.type is ConfigResourceType.TOPIC
            ):
                continue
            if result.error_code:
                reason = error_in_words(result.error_code, result.error_message)
                raise ClusterError(f"the configs of {resource.type} {resource.name}: {reason}")
            found[resource] = {entry.name: _value(entry) for entry in result.configs}
    return {resource: found[resource] for resource in wanted if resource in found}


def _describe_asks(
    resources: Sequence[ConfigResource], keys: Sequence[str] | None, via_broker: int | None
) -> list[tuple[bool, Ask]]:
    """What to ask whom, and whether it is about a broker."""
    brokers = [r for r in resources if r.type is ConfigResourceType.BROKER]
    topics = [r for r in resources if r.type is ConfigResourceType.TOPIC]
    asks = [
        (True, Ask(int(broker.name), _describe_request([broker], keys), SILENT_AFTER_SECONDS))
        for broker in brokers
        if broker != EVERY_BROKER
    ]
    if EVERY_BROKER in brokers:
        asks.append((False, Ask(None, _describe_request([EVERY_BROKER], keys))))
    for start in range(0, len(topics), _TOPICS_PER_REQUEST):
        request = _describe_request(topics[start : start + _TOPICS_PER_REQUEST], keys)
        asks.append(
            (False, Ask(via_broker, request, None if via_broker is None else SILENT_AFTER_SECONDS))
        )
    return asks


def _describe_request(resources: Sequence[ConfigResource], keys: Sequence[str] | None) -> Any:
    resource_type = DescribeConfigsRequest.DescribeConfigsResource
    asked = None if keys is None else list(keys)
    return DescribeConfigsRequest(
        resources=[
            resource_type(
                resource_type=_TYPES[r.type], resource_name=r.name, configuration_keys=asked
            )
            for r in resources
        ],
        include_synonyms=False,
        min_version=1,  # version 0 does not tell the level
    )


def _value(entry: Any) -> ConfigValue:
    return ConfigValue(entry.value, _SOURCES.get(entry.config_source, ConfigSource.OTHER))


def alter_configs(
    broker_client: BrokerClient, changes: Sequence[ConfigChange]
) -> CallResults[ConfigResource]:
    """See `ClusterAdmin.alter_configs`. One request for all topics and one for each broker, side by
    side.

    Raises UnknownOutcomeError, naming topics, when the answer about these was lost; the brokers are
    done by then, too.
    """
    until = write_deadline()
    grouped: dict[ConfigResource, list[ConfigChange]] = {}
    for change in changes:
        grouped.setdefault(change.resource, []).append(change)
    batches = _batches(broker_client, grouped)
    asks = [
        Ask(broker_id, alter_request({r: grouped[r] for r in resources}), seconds)
        for broker_id, resources, seconds in batches
    ]
    accepted: list[ConfigResource] = []
    errors: dict[ConfigResource, str] = {}
    lost: dict[ConfigResource, str] = {}
    asked_about_topics: int | None = None
    for (broker_id, resources, _), answer in zip(
        batches, broker_client.write_each(asks, until), strict=True
    ):
        refused, unknown = _outcome(answer, resources)
        accepted += [r for r in resources if r not in refused and r not in unknown]
        errors |= refused | {r: f"{NO_ANSWER}: {reason}" for r, reason in unknown.items()}
        if resources[0].type is ConfigResourceType.TOPIC:
            lost, asked_about_topics = unknown, broker_id
    if lost:
        raise UnknownOutcomeError(_lost(lost), broker_id=asked_about_topics)
    return CallResults(tuple(accepted), errors)


def _outcome(
    answer: Any, resources: Sequence[ConfigResource]
) -> tuple[dict[ConfigResource, str], dict[ConfigResource, str]]:
    """Those that were certainly not changed, and those of which nobody knows, each with the reason."""
    refused: dict[ConfigResource, str] = {}
    unknown: dict[ConfigResource, str] = {}
    if isinstance(answer, Failure):
        (unknown if answer.was_sent else refused).update(dict.fromkeys(resources, answer.reason))
        return refused, unknown
    for response in answer.responses:
        if response.error_code:
            resource = ConfigResource(_TYPES_BACK[response.resource_type], response.resource_name)
            where = unknown if response.error_code in OUTCOME_UNKNOWN else refused
            where[resource] = error_in_words(response.error_code, response.error_message)
    return refused, unknown


def _batches(
    broker_client: BrokerClient, grouped: Mapping[ConfigResource, object]
) -> list[tuple[int, list[ConfigResource], float | None]]:
    """Who gets which resources, with how much time.

    Each broker gets its own, one that answers all topics (it passes them to the controller).
    """
    brokers = [r for r in grouped if r.type is ConfigResourceType.BROKER]
    topics = [r for r in grouped if r.type is ConfigResourceType.TOPIC]
    batches: list[tuple[int, list[ConfigResource], float | None]] = [
        (int(r.name), [r], SILENT_AFTER_SECONDS) for r in brokers
    ]
    return [*batches, (broker_client.answering_broker(), topics, None)] if topics else batches


def alter_request(
    grouped: Mapping[ConfigResource, Sequence[ConfigChange]], *, validate_only: bool = False
) -> Any:
    """IncrementalAlterConfigs (KIP-339) for one batch."""
    resource_type = IncrementalAlterConfigsRequest.AlterConfigsResource
    config_type = resource_type.AlterableConfig
    return IncrementalAlterConfigsRequest(
        resources=[
            resource_type(
                resource_type=_TYPES[resource.type],
                resource_name=resource.name,
                configs=[
                    config_type(
                        name=change.key,
                        config_operation=_OPERATIONS[change.operation],
                        value=None if change.operation is ConfigOperation.DELETE else change.value,
                    )
                    for change in changes
                ],
            )
            for resource, changes in grouped.items()
        ],
        validate_only=validate_only,
    )


def _lost(unknown: Mapping[ConfigResource, str]) -> str:
    lines = "\n".join(
        f"  {r.type} {r.name}: {reason}" for r, reason in sorted(unknown.items())[:20]
    )
    return f"no answer to a change of topic configs; it may be applied, now or later. Read them again.\n{lines}"
