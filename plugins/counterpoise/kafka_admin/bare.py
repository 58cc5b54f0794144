"""One TCP connection to one address, and requests over it, one at a time: what is asked is asked of
whoever sits there.

    with closing(BareConnection(sock)) as connection:
        connection.ask_versions(seconds=5.0)
        connection.ask(MetadataRequest(topics=[], allow_auto_topic_creation=False), seconds=5.0)

A client follows what brokers advertise; this does not, and so it still works where they advertise
something wrong. Messages and SASL's tokens are those of kafka-python.

Limits: SASL with PLAIN and SCRAM; one thread uses one connection.
"""

import logging
import socket
import struct
import time
from typing import Any, Final

import kafka.errors as kafka_errors
from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from counterpoise.errors import ClusterError
from counterpoise.kafka_admin.connection import ConnectionSettings
from counterpoise.kafka_admin.liveness_probe import versions_request

_CHUNK_BYTES: Final = 1 << 18
_UNSUPPORTED_VERSION: Final = 35
_SASL_EXCHANGES: Final = 4  # PLAIN takes one, SCRAM two


class AuthenticationRefusedError(ClusterError):
    """SASL: the broker does not let us in; the message has its reason."""


def keep_secrets_out_of_logs() -> None:
    """At DEBUG kafka-python writes its configuration and SASL's tokens to the log, at INFO every
    connection.
    """
    for name in ("kafka.admin.client", "kafka.net.connection", "kafka.net.sasl", "kafka.protocol"):
        logger = logging.getLogger(name)
        logger.setLevel(max(logger.level, logging.WARNING))


class BareConnection:
    """Every method raises OSError (TimeoutError after `seconds`) and kafka-python's KafkaError."""

    def __init__(
        self,
        connected: socket.socket,
        *,
        client_id: str = "counterpoise",
        most_bytes: int = 100_000_000,
    ) -> None:
        keep_secrets_out_of_logs()
        self._socket = connected
        self._protocol = KafkaProtocol(client_id=client_id, receive_message_max_bytes=most_bytes)
        self._versions: BrokerVersionData | None = None

    def close(self) -> None:
        self._socket.close()

    def ask(self, request: Any, seconds: float) -> Any:
        """The answer, in the highest version that both know; `ask_versions` first, or a request
        with a version.
        """
        if request.API_VERSION is None:
            request.API_VERSION = self.versions.api_version(request)
        ends = time.monotonic() + seconds
        self._protocol.send_request(request)
        self._socket.settimeout(seconds)
        self._socket.sendall(self._protocol.send_bytes())
        while True:
            left = ends - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            data = self._socket.recv(_CHUNK_BYTES)
            if not data:
                raise ConnectionResetError("the other side hung up")
            if answers := self._decoded(data):
                return answers[0][1]

    def _decoded(self, data: bytes) -> Any:
        try:
            return self._protocol.receive_bytes(data)
        except (struct.error, ValueError, TypeError, LookupError, EOFError, MemoryError) as error:
            raise kafka_errors.KafkaProtocolError(
                f"an answer that is none of Kafka's ({error})"
            ) from None

    @property
    def versions(self) -> BrokerVersionData:
        """What the broker speaks; not before `ask_versions`."""
        assert self._versions is not None, "ask_versions first"
        return self._versions

    def ask_versions(self, seconds: float) -> None:
        """Learn what the broker speaks (KIP-35): every other request needs it."""
        version = ApiVersionsRequest.max_version
        answer = self.ask(versions_request(version), seconds)
        if (
            answer.error_code == _UNSUPPORTED_VERSION
        ):  # KIP-511: then it answers in version 0, with what it knows
            known = {api.api_key: api.max_version for api in answer.api_keys}
            version = min(version, known.get(ApiVersionsRequest.API_KEY, 0))
            answer = self.ask(versions_request(version), seconds)
        if answer.error_code:
            raise kafka_errors.for_code(answer.error_code)()
        self._versions = BrokerVersionData(
            api_versions={
                api.api_key: (api.min_version, api.max_version) for api in answer.api_keys
            }
        )

    def log_in(self, settings: ConnectionSettings, seconds: float) -> None:
        """SASL as the settings say. Raises AuthenticationRefusedError with the broker's reason."""
        name = settings.sasl_mechanism
        hello = self.ask(SaslHandshakeRequest(version=1, mechanism=name), seconds)
        if hello.error_code:
            raise AuthenticationRefusedError(_handshake_reason(hello, name))
        mechanism = get_sasl_mechanism(name)(
            sasl_mechanism=name,
            sasl_plain_username=settings.librdkafka.get("sasl.username"),
            sasl_plain_password=settings.librdkafka.get("sasl.password"),
        )
        for _ in range(_SASL_EXCHANGES):
            answer = self.ask(
                SaslAuthenticateRequest(version=0, auth_bytes=mechanism.auth_bytes()), seconds
            )
            if answer.error_code:
                reason = answer.error_message or kafka_errors.for_code(answer.error_code).__name__
                raise AuthenticationRefusedError(f"{name} failed: {reason}")
            try:
                mechanism.receive(answer.auth_bytes)
            except (ValueError, KeyError) as error:
                raise AuthenticationRefusedError(
                    f"{name}: the broker's answer makes no sense ({error})"
                ) from None
            if mechanism.is_done():
                break
        if not mechanism.is_authenticated():
            raise AuthenticationRefusedError(f"{name}: the exchange did not come to an end")


def _handshake_reason(hello: Any, mechanism: str | None) -> str:
    if not hello.mechanisms:
        return f"the broker takes no SASL here ({kafka_errors.for_code(hello.error_code).__name__})"
    return f"the broker does not offer {mechanism}; it offers {', '.join(hello.mechanisms)}"
