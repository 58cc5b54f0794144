"""Configs of topics and brokers, with the level that each value comes from, and incremental changes (KIP-339).

    describe_configs(wire, [ConfigResource(ConfigResourceType.BROKER, "4")], ["follower.replication.throttled.rate"])

Only the named keys are asked for: thousands of topics with all their keys would be a large answer. Every broker is
asked for its own configs, and changes to a broker are sent to it alone: it is the one that checks them.

Limits: the cluster-wide default of brokers cannot be written; its values show as a level of each broker's.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kafka.protocol.admin import DescribeConfigsRequest, IncrementalAlterConfigsRequest

from counterpoise.errors import BrokerSilentError, ClusterError, UnknownOutcomeError
from counterpoise.kafka_admin.wire import Addressed, Failure, Wire, error_in_words
from counterpoise.model.kafka import (
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
# The broker cannot tell what came of it: it passed the change on and got no answer, or something broke midway.
OUTCOME_UNKNOWN: Final = frozenset({-1, 7, 13})
_TOPICS_PER_REQUEST: Final = 2000


def describe_configs(
    wire: Wire, resources: Iterable[ConfigResource], keys: Sequence[str], via_broker: int | None
) -> dict[ConfigResource, dict[str, ConfigValue]]:
    """See `ClusterReader.describe_configs`. All brokers are asked side by side."""
    wanted = list(dict.fromkeys(resources))
    requests = _describe_requests(wanted, keys, via_broker)
    found: dict[ConfigResource, dict[str, ConfigValue]] = {}
    for (broker_id, _), answer in zip(requests, wire.read_each(requests), strict=True):
        if isinstance(answer, Failure):
            who = "any broker" if broker_id is None else wire.name_of(broker_id)
            raise BrokerSilentError(f"the configs could not be read from {who}: {answer.reason}")
        for result in answer.results:
            resource = ConfigResource(_TYPES_BACK[result.resource_type], result.resource_name)
            if result.error_code in (_UNKNOWN_TOPIC, _INVALID_TOPIC) and resource.type is ConfigResourceType.TOPIC:
                continue
            if result.error_code:
                reason = error_in_words(result.error_code, result.error_message)
                raise ClusterError(f"the configs of {resource.type} {resource.name}: {reason}")
            found[resource] = {entry.name: _value(entry) for entry in result.configs}
    return {resource: found[resource] for resource in wanted if resource in found}


def _describe_requests(
    resources: Sequence[ConfigResource], keys: Sequence[str], via_broker: int | None
) -> list[Addressed]:
    brokers = [r for r in resources if r.type is ConfigResourceType.BROKER]
    topics = [r for r in resources if r.type is ConfigResourceType.TOPIC]
    requests: list[Addressed] = [(int(broker.name), _describe_request([broker], keys)) for broker in brokers]
    for start in range(0, len(topics), _TOPICS_PER_REQUEST):
        requests.append((via_broker, _describe_request(topics[start : start + _TOPICS_PER_REQUEST], keys)))
    return requests


def _describe_request(resources: Sequence[ConfigResource], keys: Sequence[str]) -> Any:
    resource_type = DescribeConfigsRequest.DescribeConfigsResource
    return DescribeConfigsRequest(
        resources=[
            resource_type(resource_type=_TYPES[r.type], resource_name=r.name, configuration_keys=list(keys))
            for r in resources
        ],
        include_synonyms=False,
        min_version=1,  # version 0 does not tell the level
    )


def _value(entry: Any) -> ConfigValue:
    return ConfigValue(entry.value, _SOURCES.get(entry.config_source, ConfigSource.OTHER))


def alter_configs(wire: Wire, changes: Sequence[ConfigChange]) -> CallResults[ConfigResource]:
    """See `ClusterAdmin.alter_configs`. One request for all topics and one for each broker, side by side.

    Raises UnknownOutcomeError, naming the resources, when an answer was lost; the others are done by then, too.
    """
    grouped: dict[ConfigResource, list[ConfigChange]] = {}
    for change in changes:
        grouped.setdefault(change.resource, []).append(change)
    batches = _batches(grouped)
    requests = [(broker_id, _alter_request({r: grouped[r] for r in resources})) for broker_id, resources in batches]
    accepted: list[ConfigResource] = []
    errors: dict[ConfigResource, str] = {}
    unknown: dict[ConfigResource, str] = {}
    for (_, resources), answer in zip(batches, wire.write_each(requests), strict=True):
        if isinstance(answer, Failure):
            (unknown if answer.was_sent else errors).update(dict.fromkeys(resources, answer.reason))
            continue
        for response in answer.responses:
            resource = ConfigResource(_TYPES_BACK[response.resource_type], response.resource_name)
            if not response.error_code:
                accepted.append(resource)
                continue
            where = unknown if response.error_code in OUTCOME_UNKNOWN else errors
            where[resource] = error_in_words(response.error_code, response.error_message)
    if unknown:
        raise UnknownOutcomeError(_lost(unknown))
    return CallResults(tuple(accepted), errors)


def _batches(grouped: Mapping[ConfigResource, object]) -> list[tuple[int | None, list[ConfigResource]]]:
    """Who gets which resources: each broker its own, any broker all topics (it passes them to the controller)."""
    batches: list[tuple[int | None, list[ConfigResource]]] = [
        (int(r.name), [r]) for r in grouped if r.type is ConfigResourceType.BROKER
    ]
    topics = [r for r in grouped if r.type is ConfigResourceType.TOPIC]
    return [*batches, (None, topics)] if topics else batches


def _alter_request(grouped: Mapping[ConfigResource, Sequence[ConfigChange]]) -> Any:
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
        validate_only=False,
    )


def _lost(unknown: Mapping[ConfigResource, str]) -> str:
    lines = "\n".join(f"  {r.type} {r.name}: {reason}" for r, reason in sorted(unknown.items())[:20])
    return f"no answer to a change of configs; it may be applied, now or later. Read them again.\n{lines}"
