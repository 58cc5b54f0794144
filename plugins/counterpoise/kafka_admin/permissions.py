"""What a principal may not do: asked of the cluster itself, without changing anything.

    refused_operations(wire, 4, "orders")  # {"elect leaders": "CLUSTER_AUTHORIZATION_FAILED: ..."}

Throttles are validated and not written (`validate_only`); a cancel and an election are asked for a
partition that does not exist. Brokers authorize, and apply their policies, before they look at any
of that.

Limits: a policy that refuses other values than the ones tried here is not found. With ZooKeeper
(before 4.0) brokers do not pass requests on: the answers are those of the controller.
"""

from collections.abc import Iterator
from typing import Any, Final

import kafka.errors as kafka_errors

from counterpoise.errors import BrokerSilentError, ClusterError
from counterpoise.kafka_admin.altering import election_request, reassignment_request
from counterpoise.kafka_admin.broker_client import Ask, BrokerClient, Failure, error_in_words
from counterpoise.kafka_admin.configs import alter_request
from counterpoise.kafka_admin.port import ELECT, REASSIGN, SET_LISTS, SET_RATE
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import (
    LIST_KEYS,
    RATE_KEYS,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
)

NO_SUCH_PARTITION: Final = TopicPartition("__counterpoise_probe", 0)
_TRIED_RATE: Final = "20000000"
# None, unknown topic or partition, election not needed, no reassignment in progress: we were let
# in.
_ALLOWED: Final = frozenset({0, 3, 84, 85})


def refused_operations(broker_client: BrokerClient, broker_id: int, topic: str) -> dict[str, str]:
    """See `ClusterAdmin.refused_operations`.

    Raises BrokerSilentError when somebody gives no answer, ClusterError for an answer that says
    nothing about permissions (the cluster is electing a controller, say): ask again then.
    """
    taker = broker_client.destination_id()
    rates = _config_request(ConfigResourceType.BROKER, str(broker_id), RATE_KEYS, _TRIED_RATE)
    asks = {
        SET_RATE: Ask(broker_id, rates, knocks=True),
        SET_LISTS: Ask(
            taker, _config_request(ConfigResourceType.TOPIC, topic, LIST_KEYS, f"0:{broker_id}")
        ),
        REASSIGN: Ask(taker, reassignment_request(broker_client, {NO_SUCH_PARTITION: None}, False)),
        ELECT: Ask(taker, election_request(broker_client, [NO_SUCH_PARTITION])),
    }
    found: dict[str, str] = {}
    for (operation, ask), answer in zip(
        asks.items(), broker_client.read_each(list(asks.values())), strict=True
    ):
        if isinstance(answer, Failure) and answer.is_silence:
            who = broker_client.name_of(taker if ask.broker_id is None else ask.broker_id)
            raise BrokerSilentError(
                f'whether we may "{operation}": {who} gives no answer: {answer.reason}'
            )
        if reason := answer.reason if isinstance(answer, Failure) else _refusal(operation, answer):
            found[operation] = reason
    return found


def _config_request(type_: ConfigResourceType, name: str, keys: tuple[str, ...], value: str) -> Any:
    resource = ConfigResource(type_, name)
    changes = [ConfigChange(resource, key, ConfigOperation.SET, value) for key in keys]
    return alter_request({resource: changes}, validate_only=True)


def _refusal(operation: str, answer: Any) -> str:
    """The first reason in an answer; "" where we were let in."""
    for code, message in _errors(operation, answer):
        if code in _ALLOWED:
            continue
        reason = error_in_words(code, message)
        if code < 0 or kafka_errors.for_code(code).retriable:
            raise ClusterError(f'whether we may "{operation}": {reason}; try again')
        return reason
    return ""


def _errors(operation: str, answer: Any) -> Iterator[tuple[int, str | None]]:
    """Code and message of everything that an answer says."""
    if operation in (SET_RATE, SET_LISTS):
        rows: list[Any] = list(answer.responses)
    elif operation == REASSIGN:
        rows = [answer, *(p for topic in answer.responses for p in topic.partitions)]
    else:
        rows = [
            answer,
            *(p for topic in answer.replica_election_results for p in topic.partition_result),
        ]
    for row in rows:
        yield row.error_code, getattr(row, "error_message", None)
