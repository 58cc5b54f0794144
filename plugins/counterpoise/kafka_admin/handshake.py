"""Tries one bootstrap address with librdkafka, as most clients of a cluster would.

    attempt = try_address("kafka-1:9092", settings)
    attempt.reason  # "" when a Kafka broker responds there

First our own connection goes stage by stage (`endpoint.py`): its reasons are the same for every
client, and name what to do. Only an address that passes is tried with librdkafka.

Limits: a few seconds per address; no topic is named, so nothing can be created.
"""

import json
import logging
import re
import time
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from counterpoise.errors import ConfigurationError
from counterpoise.kafka_admin.connection import (
    ConnectionSettings,
    librdkafka_arguments,
    split_address,
)
from counterpoise.kafka_admin.endpoint import EndpointChecker
from counterpoise.kafka_admin.protocol_probe import CONNECT_TIMEOUT_SECONDS

HANDSHAKE_TIMEOUT_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.01

# librdkafka's errors name an address as `host:port/bootstrap`; a broker that it learnt of from a
# response has its id in place of "bootstrap".
_OF_ANOTHER_BROKER: Final = re.compile(r"\S+/\d+: ")

# librdkafka writes to stderr unless it has a logger; this one can be switched on.
LIBRDKAFKA_LOG: Final = logging.getLogger("counterpoise.librdkafka")
LIBRDKAFKA_LOG.addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class BootstrapAttempt:
    """One attempt to reach one bootstrap address."""

    address: str
    reason: str  # why it failed; "" when it succeeded
    milliseconds: int

    @property
    def is_reachable(self) -> bool:
        return not self.reason


def try_address(address: str, settings: ConnectionSettings) -> BootstrapAttempt:
    """Connect to `address` and complete a handshake.

    Raises ConfigurationError when the settings cannot be used.
    """
    started_at = time.monotonic()
    check = EndpointChecker(settings).check(*split_address(address))
    reason = check.failure or _librdkafka_reason(address, settings)
    milliseconds = round((time.monotonic() - started_at) * 1000)
    return BootstrapAttempt(address, settings.without_secrets(reason), milliseconds)


def librdkafka_client(settings: ConnectionSettings, **extra: Any) -> AdminClient:
    """Return a client that writes nothing to stderr.

    Raises ConfigurationError when librdkafka refuses the settings.
    """
    try:
        return AdminClient({**librdkafka_arguments(settings), **extra}, logger=LIBRDKAFKA_LOG)
    except KafkaException as error:
        reason = settings.without_secrets(str(error.args[0].str()))
        complaint = f"librdkafka refuses the settings: {reason}"
        raise ConfigurationError(settings.where, (complaint,)) from None


def _librdkafka_reason(address: str, settings: ConnectionSettings) -> str:
    """Return why librdkafka's handshake fails; "" where it succeeds."""
    errors: list[KafkaError] = []
    statistics: list[str] = []
    client = librdkafka_client(
        settings.at(address),
        error_cb=errors.append,
        **{
            "socket.connection.setup.timeout.ms": int(CONNECT_TIMEOUT_SECONDS * 1000),
            "api.version.request.timeout.ms": int(CONNECT_TIMEOUT_SECONDS * 1000),
            "statistics.interval.ms": 500,
            "stats_cb": statistics.append,
        },
    )
    future: Future[Any] = client.describe_cluster(request_timeout=HANDSHAKE_TIMEOUT_SECONDS)
    deadline = time.monotonic() + HANDSHAKE_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        if future.done() or errors or _has_metadata(statistics):
            break
        client.poll(_POLL_SECONDS)  # it fetches tokens in here
    if future.done() and future.exception() is None:
        return ""
    # librdkafka sends the request to the broker that it believes to be the controller. In KRaft
    # that is any broker, also a dead or frozen one. The address has then responded all the same:
    # librdkafka learnt of that broker from it.
    if _has_metadata(statistics) or any(_OF_ANOTHER_BROKER.match(e.str()) for e in errors):
        return ""
    text = errors[0].str() if errors else f"nothing within {HANDSHAKE_TIMEOUT_SECONDS:g} s"
    return f"librdkafka does not connect, though a connection of our own does: {text}"


def _has_metadata(statistics: list[str]) -> bool:
    """Return whether librdkafka knows brokers by id: then the address responded with metadata."""
    if not statistics:
        return False
    brokers = json.loads(statistics[-1])["brokers"].values()
    return any(broker["nodeid"] >= 0 for broker in brokers)
