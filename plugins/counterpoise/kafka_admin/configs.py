"""Configs of topics and brokers, with the level that each value comes from, and incremental changes
(KIP-339).

    broker = ConfigResource(ConfigResourceType.BROKER, "4")
    describe_configs(broker_client, [broker], ["follower.replication.throttled.rate"], None)

Only the named keys are requested: thousands of topics with all their keys would be a large
response. A broker's configs are read from that broker, and changed by a request to it alone, since
it is the one that validates them. An unresponsive broker costs UNRESPONSIVE_AFTER_SECONDS, and
delays no other.

Limits: the cluster-wide default of brokers cannot be written; its values appear as a level of each
broker's configs.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafka.protocol.admin import DescribeConfigsRequest, IncrementalAlterConfigsRequest

from counterpoise.errors import BrokerUnresponsiveError, UnknownOutcomeError
from counterpoise.kafka_admin.address_connection import config_value
from counterpoise.kafka_admin.broker_client import (
    UNRESPONSIVE_AFTER_SECONDS,
    BrokerClient,
    BrokerRequest,
    Failure,
    describe_error_code,
    is_refusal,
    raise_for,
    write_deadline,
)
from counterpoise.kafka_admin.config_requests import (
    NO_RESPONSE,
    NOT_SENT,
    in_requests,
    without_answer,
)
from counterpoise.model.acl import (
    ALTER_CONFIGS_OF_BROKERS,
    ALTER_CONFIGS_OF_TOPICS,
    DESCRIBE_CONFIGS_OF_BROKERS,
    DESCRIBE_CONFIGS_OF_TOPICS,
)
from counterpoise.model.grouping import grouped
from counterpoise.model.kafka import (
    EVERY_BROKER,
    CallResults,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
    ConfigValue,
)

# Numbers of the protocol.
_TYPES: Final = {ConfigResourceType.TOPIC: 2, ConfigResourceType.BROKER: 4}
_TYPES_BACK: Final = {number: type_ for type_, number in _TYPES.items()}
_OPERATIONS: Final = {
    ConfigOperation.SET: 0,
    ConfigOperation.DELETE: 1,
    ConfigOperation.APPEND: 2,
    ConfigOperation.SUBTRACT: 3,
}
_UNKNOWN_TOPIC: Final = 3
_INVALID_TOPIC: Final = 17
# The broker does not know the outcome: it forwarded the change and got no response, or something
# failed midway.
OUTCOME_UNKNOWN: Final = frozenset({-1, 7, 13})
_TOPICS_PER_REQUEST: Final = 2000


def describe_configs(
    broker_client: BrokerClient,
    resources: Iterable[ConfigResource],
    keys: Sequence[str] | None,
    via_broker: int | None,
    *,
    skip_refused: bool = False,
) -> dict[ConfigResource, dict[str, ConfigValue]]:
    """See `ClusterReader.describe_configs`. All brokers are asked in parallel."""
    wanted = list(dict.fromkeys(resources))
    of_brokers = _requests_for_brokers(wanted, keys)
    of_others = _requests_for_others(wanted, keys, via_broker)
    requests = [*of_brokers, *of_others]
    found: dict[ConfigResource, dict[str, ConfigValue]] = {}
    for index, result in enumerate(broker_client.read_each(requests)):
        if not isinstance(result, Failure):
            found |= _values_by_resource(result, broker_client, skip_refused)
            continue
        is_of_broker = index < len(of_brokers)
        if is_of_broker and result.is_unresponsive:
            continue
        broker_id = requests[index].broker_id
        source = "any broker" if broker_id is None else broker_client.name_of(broker_id)
        message = f"the configs could not be read from {source}: {result.reason}"
        raise BrokerUnresponsiveError(message)
    return {resource: found[resource] for resource in wanted if resource in found}


def _requests_for_brokers(
    resources: Sequence[ConfigResource], keys: Sequence[str] | None
) -> list[BrokerRequest]:
    """Return one request for each broker, to that broker."""
    return [
        BrokerRequest(
            int(resource.name), describe_request([resource], keys), UNRESPONSIVE_AFTER_SECONDS
        )
        for resource in resources
        if resource.is_broker and resource != EVERY_BROKER
    ]


def _requests_for_others(
    resources: Sequence[ConfigResource], keys: Sequence[str] | None, via_broker: int | None
) -> list[BrokerRequest]:
    """Return the requests for the brokers' dynamic default and for topics, 2,000 in each."""
    requests = []
    if EVERY_BROKER in resources:
        requests.append(BrokerRequest(None, describe_request([EVERY_BROKER], keys)))
    topics = [resource for resource in resources if resource.is_topic]
    seconds = None if via_broker is None else UNRESPONSIVE_AFTER_SECONDS
    for start in range(0, len(topics), _TOPICS_PER_REQUEST):
        batch = topics[start : start + _TOPICS_PER_REQUEST]
        requests.append(BrokerRequest(via_broker, describe_request(batch, keys), seconds))
    return requests


def describe_request(resources: Sequence[ConfigResource], keys: Sequence[str] | None) -> Any:
    """Return a DescribeConfigs request for these keys; None means every key."""
    resource_type = DescribeConfigsRequest.DescribeConfigsResource
    wanted_keys = None if keys is None else list(keys)
    return DescribeConfigsRequest(
        resources=[
            resource_type(
                resource_type=_TYPES[resource.type],
                resource_name=resource.name,
                configuration_keys=wanted_keys,
            )
            for resource in resources
        ],
        # The levels below the one in force; of thousands of topics they would be a large response.
        include_synonyms=all(resource.is_broker for resource in resources),
        min_version=1,  # version 0 does not have the source of a value
    )


def _values_by_resource(
    response: Any, broker_client: BrokerClient, skip_refused: bool
) -> dict[ConfigResource, dict[str, ConfigValue]]:
    """Return the values in a response; unknown topics are left out, refused ones where wanted.

    Raises ClusterError for any other error, NotPermittedError for a missing permission.
    """
    values: dict[ConfigResource, dict[str, ConfigValue]] = {}
    for result in response.results:
        resource = ConfigResource(_TYPES_BACK[result.resource_type], result.resource_name)
        if resource.is_topic and result.error_code in (_UNKNOWN_TOPIC, _INVALID_TOPIC):
            continue
        if skip_refused and resource.is_topic and is_refusal(result.error_code):
            continue
        if result.error_code:
            acl = DESCRIBE_CONFIGS_OF_TOPICS if resource.is_topic else DESCRIBE_CONFIGS_OF_BROKERS
            what = f"the configs of {resource.type} {resource.name}"
            raise_for(result.error_code, result.error_message, what, acl, broker_client.settings)
        values[resource] = {entry.name: config_value(entry) for entry in result.configs}
    return values


def alter_configs(
    broker_client: BrokerClient, changes: Sequence[ConfigChange], deadline: float = math.inf
) -> CallResults[ConfigResource]:
    """See `ClusterAdmin.alter_configs`.

    All changes of topics go to one broker that responds, which forwards them to the controller.
    """
    deadline = write_deadline(deadline)
    has_topics = any(change.resource.is_topic for change in changes)
    forwarding_id = broker_client.responding_broker_id() if has_topics else None
    errors: dict[ConfigResource, str] = {}
    for part in in_requests(changes):
        remaining = [change for change in part if change.resource not in errors]
        _alter_at_once(broker_client, remaining, forwarding_id, deadline, errors)
    resources = dict.fromkeys(change.resource for change in changes)
    return CallResults(tuple(r for r in resources if r not in errors), errors)


def _alter_at_once(
    broker_client: BrokerClient,
    changes: Sequence[ConfigChange],
    forwarding_id: int | None,
    deadline: float,
    errors: dict[ConfigResource, str],
) -> None:
    """Make one request for all topics, and one for each broker, in parallel.

    Adds the resources that were not changed to `errors`, with reasons. Raises UnknownOutcomeError
    when the response about the topics was lost; it names the brokers that did not answer, too.
    """
    changes_by_resource = grouped((change.resource, change) for change in changes)
    batches = _batches(forwarding_id, changes_by_resource)
    requests = [
        BrokerRequest(
            batch.broker_id,
            alter_request({r: changes_by_resource[r] for r in batch.resources}),
            batch.seconds,
        )
        for batch in batches
    ]
    results = broker_client.write_each(requests, deadline)
    for batch, result in zip(batches, results, strict=True):
        refused, unknown = _refused_and_unknown(result, batch.resources, broker_client)
        if unknown and batch.resources[0].is_topic:
            message = _unknown_outcome(unknown)
            subjects = frozenset(unknown.keys() | without_answer(errors))
            raise UnknownOutcomeError(message, broker_id=batch.broker_id, subjects=subjects)
        errors |= refused | {r: f"{NO_RESPONSE}: {reason}" for r, reason in unknown.items()}


@dataclass(frozen=True, slots=True)
class _Batch:
    """The resources of one request, the broker that it goes to, and how long it may take."""

    broker_id: int
    resources: list[ConfigResource]
    seconds: float | None


def _batches(forwarding_id: int | None, resources: Iterable[ConfigResource]) -> list[_Batch]:
    """Return a batch for each broker, and one with all topics for the broker that forwards them."""
    wanted = list(resources)
    brokers = [resource for resource in wanted if resource.is_broker]
    topics = [resource for resource in wanted if resource.is_topic]
    batches = [_Batch(int(broker.name), [broker], UNRESPONSIVE_AFTER_SECONDS) for broker in brokers]
    if topics:
        assert forwarding_id is not None
        batches.append(_Batch(forwarding_id, topics, None))
    return batches


def _refused_and_unknown(
    result: Any, resources: Sequence[ConfigResource], broker_client: BrokerClient
) -> tuple[dict[ConfigResource, str], dict[ConfigResource, str]]:
    """Return resources that were certainly not changed, and those of unknown outcome.

    Each has its reason.
    """
    refused: dict[ConfigResource, str] = {}
    unknown: dict[ConfigResource, str] = {}
    if isinstance(result, Failure):
        if result.was_sent:
            return {}, dict.fromkeys(resources, result.reason)
        reason = f"{NOT_SENT}: {result.reason}" if result.is_unresponsive else result.reason
        return dict.fromkeys(resources, reason), {}
    for response in result.responses:
        if response.error_code:
            resource = ConfigResource(_TYPES_BACK[response.resource_type], response.resource_name)
            failures = unknown if response.error_code in OUTCOME_UNKNOWN else refused
            acl = ALTER_CONFIGS_OF_TOPICS if resource.is_topic else ALTER_CONFIGS_OF_BROKERS
            failures[resource] = describe_error_code(
                response.error_code, response.error_message, acl, broker_client.settings
            )
    return refused, unknown


def alter_request(
    changes_by_resource: Mapping[ConfigResource, Sequence[ConfigChange]],
    *,
    validate_only: bool = False,
) -> Any:
    """Return an IncrementalAlterConfigs request (KIP-339)."""
    resource_type = IncrementalAlterConfigsRequest.AlterConfigsResource
    resources = [
        resource_type(
            resource_type=_TYPES[resource.type],
            resource_name=resource.name,
            configs=[_alterable_config(change) for change in changes],
        )
        for resource, changes in changes_by_resource.items()
    ]
    return IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)


def _alterable_config(change: ConfigChange) -> Any:
    config_type = IncrementalAlterConfigsRequest.AlterConfigsResource.AlterableConfig
    return config_type(
        name=change.key,
        config_operation=_OPERATIONS[change.operation],
        value=None if change.operation is ConfigOperation.DELETE else change.value,
    )


def _unknown_outcome(unknown: Mapping[ConfigResource, str]) -> str:
    lines = [f"  {r.type} {r.name}: {reason}" for r, reason in sorted(unknown.items())[:20]]
    return "\n".join(
        [
            "no answer to a change of topic configs; it may be applied, now or later. "
            "Read the configs again.",
            *lines,
        ]
    )
