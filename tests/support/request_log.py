"""What clients requested, as the brokers' own log of requests tells: no belief of ours.

    with reassignment_calls(kafka) as calls:
        ...                       # a run
    [len(call) for call in calls]     # partitions in each call, by the order of their ends

Each broker logs every request of every client while the block lasts, with its content.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from dev.local_kafka import LocalKafka
from tests.support.kafka_facts import CONFIGS

Call = tuple[str, ...]  # the partitions that it names: "orders-0"

_LOGGER: Final = "kafka.request.logger"
_COMPLETED: Final = "Completed request:"
_ALTER: Final = "ALTER_PARTITION_REASSIGNMENTS"


@contextmanager
def reassignment_calls(kafka: LocalKafka) -> Iterator[list[Call]]:
    """Yield a list that has, after the block, each AlterPartitionReassignments call in it."""
    begins = {broker: kafka.home(broker).server_log.stat().st_size for broker in kafka.live_brokers}
    calls: list[Call] = []
    _log_requests(kafka, "--add-config", f"{_LOGGER}=DEBUG")
    try:
        yield calls
    finally:
        _log_requests(kafka, "--delete-config", _LOGGER)
    calls += [
        _partitions_of(entry["request"])
        for broker, begin in begins.items()
        for entry in _entries(kafka, broker, begin)
        # The broker that a client asks forwards it to the controller, which logs it once more.
        if entry["requestHeader"]["requestApiKeyName"] == _ALTER and not entry["isForwarded"]
    ]


def _log_requests(kafka: LocalKafka, *change: str) -> None:
    where = ("--bootstrap-server", kafka.bootstrap_string, "--entity-type", "broker-loggers")
    for broker_id in kafka.live_brokers:
        kafka.tool(CONFIGS, *where, "--entity-name", str(broker_id), "--alter", *change)


def _entries(kafka: LocalKafka, broker_id: int, begin: int) -> Iterator[dict[str, Any]]:
    with kafka.home(broker_id).server_log.open("rb") as log:
        log.seek(begin)
        for line in log:
            _, is_completed, rest = line.decode().partition(_COMPLETED)
            if is_completed and _ALTER in rest:
                entry, _ = json.JSONDecoder().raw_decode(rest)
                yield entry


def _partitions_of(request: dict[str, Any]) -> Call:
    return tuple(
        f"{topic['name']}-{partition['partitionIndex']}"
        for topic in request["topics"]
        for partition in topic["partitions"]
    )
