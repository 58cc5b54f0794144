"""Knocks on one address the way a client does, and says in plain words what it finds.

    attempt = probe("kafka-1:9092", settings)
    attempt.reason  # "" when a Kafka broker answered us there

The steps: resolve the name, connect by TCP, then a handshake by librdkafka (TLS, SASL, ApiVersions,
Metadata). Limits: a few seconds per address; no topic is named, so nothing can be created.
"""

import json
import logging
import re
import socket
import ssl
import struct
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
from counterpoise.model.kafka import BrokerDescription
from counterpoise.model.walk import MetadataAnswer

CONNECT_TIMEOUT_SECONDS: Final = 3.0
HANDSHAKE_TIMEOUT_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.01
_SASL_HANDSHAKE: Final = 17  # the number of the request
_UNSUPPORTED_MECHANISM: Final = 33
_FAMILIES: Final = {"v4": socket.AF_INET, "v6": socket.AF_INET6}

# An address is `host:port/bootstrap` in librdkafka's errors; brokers that it told about have their
# id instead.
_OF_ANOTHER_BROKER: Final = re.compile(r"\S+/\d+: ")

# librdkafka writes to stderr unless it is given a logger; whoever wants to read it turns this one
# on.
LIBRDKAFKA_LOG: Final = logging.getLogger("counterpoise.librdkafka")
LIBRDKAFKA_LOG.addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class Attempt:
    """One address, knocked on once."""

    address: str
    reason: str  # why it did not work; "" when it did
    milliseconds: int

    @property
    def answered(self) -> bool:
        return not self.reason


def probe(address: str, settings: ConnectionSettings) -> Attempt:
    """Knock on `address`.

    Raises ConfigurationError when librdkafka refuses the settings themselves.
    """
    began = time.monotonic()
    reason = _tcp_reason(address) or _handshake_reason(address, settings)
    return Attempt(
        address, settings.without_secrets(reason), round((time.monotonic() - began) * 1000)
    )


def librdkafka_client(settings: ConnectionSettings, **extra: Any) -> AdminClient:
    """A client that keeps quiet. Raises ConfigurationError when librdkafka refuses the settings."""
    try:
        return AdminClient({**librdkafka_arguments(settings), **extra}, logger=LIBRDKAFKA_LOG)
    except KafkaException as error:
        reason = settings.without_secrets(str(error.args[0].str()))
        raise ConfigurationError(
            "connection", (f"librdkafka refuses the settings: {reason}",)
        ) from None


def resolve(host: str, port: int, family: str = "any") -> tuple[str, ...]:
    """All addresses of a name, in the resolver's order; `family` is any, v4 or v6.

    Raises OSError with the reason.
    """
    try:
        split_address(
            f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        )  # what brokers advertise is any text
        if not host.isprintable():
            raise ValueError("it has characters that no name has")
        found = socket.getaddrinfo(
            host, port, _FAMILIES.get(family, socket.AF_UNSPEC), socket.SOCK_STREAM
        )
    except OSError as error:
        raise OSError(None, f'the name "{host}" does not resolve ({error.strerror})') from None
    except ValueError as error:  # a label that is too long, for one
        raise OSError(None, f'"{host}" and port {port} cannot be an address ({error})') from None
    return tuple(dict.fromkeys(str(one[4][0]) for one in found))


def _tcp_reason(address: str) -> str:
    host, port = split_address(address)
    try:
        resolve(host, port)
    except OSError as error:
        return str(error.strerror)
    try:
        socket.create_connection((host, port), CONNECT_TIMEOUT_SECONDS).close()
    except TimeoutError:
        return f"no TCP connection within {CONNECT_TIMEOUT_SECONDS:g} s; is a firewall in the way?"
    except OSError as error:
        return f"TCP: {error.strerror or error}"
    return ""


def librdkafka_walk(address: str, settings: ConnectionSettings) -> MetadataAnswer | str:
    """What librdkafka is told at an address that takes connections, or why it is told nothing.

    For the mechanisms of SASL that only librdkafka knows. Raises ConfigurationError when it refuses
    the settings.
    """
    if reason := _handshake_reason(address, settings):
        return settings.without_secrets(reason)
    client = librdkafka_client(ConnectionSettings((address,), settings.librdkafka))
    answer: Future[Any] = client.describe_cluster(request_timeout=HANDSHAKE_TIMEOUT_SECONDS)
    while not answer.done():
        client.poll(_POLL_SECONDS)  # it fetches tokens in here
    # Not raised: its traceback would hold the client, which librdkafka's own thread must not be the
    # one to end.
    if (error := answer.exception()) is not None:
        return settings.without_secrets(str(error.args[0].str()))
    told = answer.result()
    brokers = [
        BrokerDescription(node.id, node.host, node.port, node.rack, is_fenced=False)
        for node in told.nodes
    ]
    return MetadataAnswer(told.cluster_id or "", tuple(sorted(brokers, key=lambda b: b.broker_id)))


def _handshake_reason(address: str, settings: ConnectionSettings) -> str:
    errors: list[KafkaError] = []
    statistics: list[str] = []
    client = librdkafka_client(
        ConnectionSettings((address,), settings.librdkafka),
        error_cb=errors.append,
        **{
            "socket.connection.setup.timeout.ms": int(CONNECT_TIMEOUT_SECONDS * 1000),
            "api.version.request.timeout.ms": int(CONNECT_TIMEOUT_SECONDS * 1000),
            "statistics.interval.ms": 500,
            "stats_cb": statistics.append,
        },
    )
    answer: Future[Any] = client.describe_cluster(request_timeout=HANDSHAKE_TIMEOUT_SECONDS)
    deadline = time.monotonic() + HANDSHAKE_TIMEOUT_SECONDS
    while (
        not (answer.done() or errors or _tell_of_brokers(statistics))
        and time.monotonic() < deadline
    ):
        client.poll(_POLL_SECONDS)
    if answer.done() and answer.exception() is None:
        return ""
    # librdkafka asks whom it takes for the controller: in KRaft that is anybody, also one that is
    # dead or frozen. Then the address has answered all the same: it told about the others.
    if _tell_of_brokers(statistics) or any(
        _OF_ANOTHER_BROKER.match(error.str()) for error in errors
    ):
        return ""
    # "All brokers down" follows every reason; alone, it means that the other side hung up or kept
    # silent. A response of an invalid size is one in another language, whose first four bytes were
    # taken for a length.
    telling = [
        e
        for e in errors
        if e.code() != KafkaError._ALL_BROKERS_DOWN and "Invalid response" not in e.str()
    ]
    if settings.security_protocol.endswith("SSL") and speaks_tls(address) is False:
        return f'it does not speak TLS, but "security.protocol" is {settings.security_protocol}'
    return _in_words(telling[0], settings) if telling else silence_reason(address, settings)


def _tell_of_brokers(statistics: list[str]) -> bool:
    """Whether librdkafka knows brokers by their ids: it has metadata then, and that came from the
    address.
    """
    return bool(statistics) and any(
        b["nodeid"] >= 0 for b in json.loads(statistics[-1])["brokers"].values()
    )


def _in_words(error: KafkaError, settings: ConnectionSettings) -> str:
    said = error.str().partition(": ")[2] or error.str()
    if error.code() == KafkaError._AUTHENTICATION:
        return f"SASL {settings.sasl_mechanism} failed: {said}"
    if error.code() == KafkaError._SSL or "SSL handshake" in said or "SSL_HANDSHAKE" in said:
        return f"TLS failed: {said}"
    return said


def silence_reason(address: str, settings: ConnectionSettings) -> str:
    protocol = settings.security_protocol
    uses_tls, uses_sasl = protocol.endswith("SSL"), protocol.startswith("SASL")
    if not uses_tls and speaks_tls(address):
        return f'it speaks TLS, but "security.protocol" is {protocol}; set SSL or SASL_SSL'
    if not uses_sasl and (mechanisms := _sasl_mechanisms(address, uses_tls)):
        wanted = "SASL_SSL" if uses_tls else "SASL_PLAINTEXT"
        return f'it wants SASL ({mechanisms}), but "security.protocol" is {protocol}; set {wanted}'
    return f'it takes connections, but does not answer as a Kafka broker does to "security.protocol" {protocol}'


def _unverified() -> ssl.SSLContext:
    """For questions of language only: nothing of value is sent over it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def speaks_tls(address: str) -> bool | None:
    """Whether a TLS handshake is understood there; None when there is no answer to it."""
    try:
        with socket.create_connection(split_address(address), CONNECT_TIMEOUT_SECONDS) as plain:
            _unverified().wrap_socket(plain).close()
    except ssl.SSLError as error:
        # A server that asks for a client certificate speaks TLS, too.
        return "ALERT" in str(error.reason or "")
    except TimeoutError:
        return None
    except OSError:
        return False
    return True


def _sasl_mechanisms(address: str, uses_tls: bool) -> str:
    """What a SASL listener offers, asked by a SaslHandshake without a mechanism; "" when it is no
    such listener.
    """
    header = struct.pack(
        ">hhih", _SASL_HANDSHAKE, 1, 1, -1
    )  # version 1, correlation 1, no client id
    request = header + struct.pack(">h", 0)
    try:
        with socket.create_connection(split_address(address), CONNECT_TIMEOUT_SECONDS) as plain:
            connection = _unverified().wrap_socket(plain) if uses_tls else plain
            with connection:
                connection.sendall(struct.pack(">i", len(request)) + request)
                answer = connection.recv(4096)
        _, _, error, count = struct.unpack_from(">iihi", answer)
        if error != _UNSUPPORTED_MECHANISM:
            return ""
        return ", ".join(_strings(answer[struct.calcsize(">iihi") :], count))
    except (OSError, struct.error, UnicodeDecodeError):
        return ""


def _strings(data: bytes, count: int) -> list[str]:
    found = []
    for _ in range(count):
        (length,) = struct.unpack_from(">h", data)
        found.append(data[2 : 2 + length].decode())
        data = data[2 + length :]
    return found
